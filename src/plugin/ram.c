/* SPDX-License-Identifier: Apache-2.0
 * The guest's memory. It is one mapping of this process, in large pages where the host has such, so that the plugin
 * reads in it what the guest's kernel knows; below the hole of devices the offset in it is the physical address. */
#include "plugin/plugin.h"

#include <errno.h>
#include <stdlib.h>

#define KERNEL_IMAGE 0xffffffff80000000ull /* with nokaslr the image is mapped from physical 0 here, */
#define KERNEL_IMAGE_END 0xffffffffc0000000ull
#define DIRECT_MAP 0xffff888000000000ull /* and all memory here (four levels of tables) */

static struct {
    uint8_t *base;
    uint64_t len;
} ram;

int ram_find(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t cap = 0;
    unsigned long long lo, hi, inode;
    char permissions[8], path[8];
    if (!f)
        return diag_error("cannot read /proc/self/maps: %s", strerror(errno));
    while (!ram.base && getline(&line, &cap, f) > 0)
        if (sscanf(line, "%llx-%llx %7s %*s %*s %llu %7s", &lo, &hi, permissions, &inode, path) == 4 && !inode &&
            strcmp(permissions, "rw-p") == 0 && hi - lo == settings.ram_bytes + WIRE_REGION_BYTES) {
            ram.base = (uint8_t *)(uintptr_t)lo;
            ram.len = hi - lo;
        }
    free(line);
    fclose(f);
    if (!ram.base)
        return diag_error("this emulator does not map the guest's memory as QEMU 7.2 does");
    return 0;
}

uint64_t ram_address_of(const void *host)
{
    uint64_t offset = (uint64_t)((const uint8_t *)host - ram.base);
    return offset < ram.len ? offset : RAM_NOWHERE;
}

const void *ram_at(uint64_t physical, size_t len)
{
    return physical < ram.len && len <= ram.len - physical ? ram.base + physical : NULL;
}

void *ram_region(void) { return ram.base + settings.region; }

uint64_t ram_address_of_kernel(uint64_t vaddr)
{
    if (vaddr >= KERNEL_IMAGE && vaddr < KERNEL_IMAGE_END)
        return vaddr - KERNEL_IMAGE;
    return vaddr - DIRECT_MAP < ram.len ? vaddr - DIRECT_MAP : RAM_NOWHERE;
}
