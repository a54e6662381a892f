/* SPDX-License-Identifier: Apache-2.0
 *
 * debugfile: from the path of a program or library to its debug information, in the file or in a separate one that
 * belongs to it (same build id, else same checksum). Uses libdw's file layer only, which knows no debug server.
 */
#include "debug/debug.h"
#include "debug/unpacked.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <unistd.h>

static bool begin(int fd, struct debug_file *out)
{
    out->fd = fd;
    out->dwarf = dwarf_begin(out->fd, DWARF_C_READ);
    if (out->dwarf)
        dwarf_new_oom_handler(out->dwarf, xmalloc_failed); /* its own ends mtool with status 1 */
    Dwarf_CU *unit = NULL;
    if (out->dwarf && dwarf_get_units(out->dwarf, NULL, &unit, NULL, NULL, NULL, NULL) == 0)
        return true;
    debug_file_close(out);
    return false;
}

static bool open_at(const char *path, struct debug_file *out)
{
    *out = (struct debug_file){.fd = -1};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    int unpacked = debug_unpacked(fd);
    if (unpacked >= 0 && begin(unpacked, out))
        return close(fd), true;
    return begin(fd, out);
}

void debug_file_close(struct debug_file *f)
{
    if (f->dwarf)
        dwarf_end(f->dwarf);
    if (f->fd >= 0)
        close(f->fd);
    *f = (struct debug_file){.fd = -1};
}

struct link {       /* what a stripped file says of its debug file */
    char id[129];   /* build id in hex, "" none */
    char name[256]; /* of .gnu_debuglink, "" none */
    uint32_t checksum;
};

static void read_id(Elf *elf, char out[129])
{
    const void *id = NULL;
    ssize_t len = dwelf_elf_gnu_build_id(elf, &id);
    out[0] = 0;
    for (ssize_t i = 0; i < len && i < 64; i++)
        snprintf(out + 2 * i, 3, "%02x", ((const uint8_t *)id)[i]);
}

static bool read_link(const char *path, struct link *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (elf) {
        GElf_Word checksum = 0;
        const char *name = dwelf_elf_gnu_debuglink(elf, &checksum);
        read_id(elf, out->id);
        snprintf(out->name, sizeof out->name, "%s", name ? name : "");
        out->checksum = checksum;
        elf_end(elf);
    }
    close(fd);
    return elf != NULL;
}

/* CRC-32 of the file, as .gnu_debuglink has it (GDB manual, Separate Debug Files). */
static uint32_t checksum_of(const char *path)
{
    uint32_t table[256], crc = ~0u;
    struct file_bytes f;
    if (file_map(path, &f) != 0)
        return 0;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = (table[i] >> 1) ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    for (size_t i = 0; i < f.len; i++)
        crc = table[(crc ^ f.data[i]) & 0xff] ^ (crc >> 8);
    file_unmap(&f);
    return ~crc;
}

static bool belongs(const char *path, const struct link *l)
{
    struct link other = {0};
    if (!file_exists(path) || !read_link(path, &other))
        return false;
    if (l->id[0] && other.id[0])
        return strcmp(l->id, other.id) == 0;
    return l->name[0] && checksum_of(path) == l->checksum;
}

static bool try_path(const char *path, const struct link *l, struct debug_file *out)
{
    return belongs(path, l) && open_at(path, out);
}

bool debug_file_open(const char *path, const char *root, struct debug_file *out)
{
    struct link l = {0};
    bool found = open_at(path, out);
    if (found || !read_link(path, &l))
        return found;
    struct arena *a = arena_new();
    if (l.id[0] && l.id[1] && l.id[2])
        found = try_path(arena_printf(a, "%s/.build-id/%.2s/%s.debug", root, l.id, l.id + 2), &l, out);
    const char *real = file_real_path(a, path);
    if (!found && l.name[0] && real) {
        const char *folder = arena_strndup(a, real, (size_t)(file_base_name(real) - real));
        found = try_path(arena_printf(a, "%s%s", folder, l.name), &l, out) ||
                try_path(arena_printf(a, "%s.debug/%s", folder, l.name), &l, out) ||
                try_path(arena_printf(a, "%s%s%s", root, folder, l.name), &l, out);
    }
    arena_free(a);
    return found;
}
