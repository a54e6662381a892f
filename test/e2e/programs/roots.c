/* SPDX-License-Identifier: Apache-2.0
 *
 * roots [LIBRARY]: what a garbage collector would look through for pointers, as libgc finds it: the writable segments
 * of all libraries by their program headers. Each of them can be read, and written.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

static unsigned segments;
static unsigned long bytes;

static int note(struct dl_phdr_info *info, size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    for (unsigned i = 0; info->dlpi_name[0] && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_W))
            continue;
        volatile unsigned char *last = (volatile unsigned char *)info->dlpi_addr + p->p_vaddr + p->p_memsz - 1;
        *last = *last;
        segments++;
        bytes += p->p_memsz;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !dlopen(argv[1], RTLD_NOW))
        return 1;
    dl_iterate_phdr(note, NULL);
    printf("%u segments, %lu bytes\n", segments, bytes);
    return 0;
}
