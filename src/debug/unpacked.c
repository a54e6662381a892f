/* SPDX-License-Identifier: Apache-2.0
 * libdw inflates all debug information of a file whenever it is opened, however little of it is asked for: the C
 * library's took a quarter of the time of `mtool count true`. So a file whose sections are compressed is unpacked once:
 *
 *   file_cache_dir()/debug/KEY     an ELF file with the same sections, of which those have content that are in no
 *                                  segment, as objcopy --only-keep-debug makes it
 *
 * KEY hashes which file it is, its size and when it changed. Unpacked are files of some size; not those that name
 * others by their own place (alternative and split debug information, of which an empty file is kept), nor relocatable
 * ones. The folder is kept below
 * MTOOL_CACHE_MB when something is added: what was not used for longest goes, never what was used just now.
 */
#include "debug/unpacked.h"

#include <dirent.h>
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LEAST_BYTES ((uint64_t)256 << 10) /* of what is compressed, when it no longer is */
#define MOST_BYTES ((uint64_t)256 << 20)
enum { YOUNG_SECONDS = 600, DAY_SECONDS = 86400, KEY = 33 };

/* ---- what is worth it ---- */

/* Bytes that compressed sections have when they no longer are; 0 for a file that stays as it is. */
static uint64_t unpacked_bytes(Elf *elf)
{
    uint64_t bytes = 0;
    size_t names;
    GElf_Ehdr head;
    GElf_Shdr section;
    GElf_Chdr packed;
    if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &head) || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_type == ET_REL || elf_getshdrstrndx(elf, &names) < 0)
        return 0;
    for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s)) {
        const char *name = gelf_getshdr(s, &section) ? elf_strptr(elf, names, section.sh_name) : NULL;
        if (!name || !strcmp(name, ".gnu_debugaltlink"))
            return 0;
        if (section.sh_flags & SHF_COMPRESSED && gelf_getchdr(s, &packed))
            bytes += packed.ch_size;
    }
    return bytes <= MOST_BYTES && bytes >= LEAST_BYTES ? bytes : 0;
}

/* ---- made ---- */

/* Puts the section's content, if it has any, and its header. False if it cannot be read. */
static bool put_section(Elf_Scn *s, struct strbuf *file, Elf64_Shdr *out)
{
    static const char zeros[64];
    GElf_Shdr h;
    if (!gelf_getshdr(s, &h))
        return false;
    bool has_content = !(h.sh_flags & SHF_ALLOC) && h.sh_type != SHT_NOBITS && h.sh_type != SHT_NULL;
    Elf_Data *data = NULL;
    if (has_content && ((h.sh_flags & SHF_COMPRESSED && elf_compress(s, 0, 0) < 0) || !gelf_getshdr(s, &h) ||
                        !(data = elf_rawdata(s, NULL))))
        return false;
    uint64_t align = has_content && h.sh_addralign > 1 && h.sh_addralign <= sizeof zeros ? h.sh_addralign : 1;
    str_put(file, zeros, (size_t)(ALIGN_UP((uint64_t)file->len, align) - file->len));
    *out = (Elf64_Shdr){.sh_name = h.sh_name,
                        .sh_type = has_content || h.sh_type == SHT_NULL ? h.sh_type : SHT_NOBITS,
                        .sh_flags = h.sh_flags,
                        .sh_addr = h.sh_addr,
                        .sh_offset = file->len,
                        .sh_size = data ? data->d_size : h.sh_size,
                        .sh_link = h.sh_link,
                        .sh_info = h.sh_info,
                        .sh_addralign = h.sh_addralign,
                        .sh_entsize = h.sh_entsize};
    if (data && data->d_size)
        str_put(file, data->d_buf, data->d_size);
    return true;
}

static bool unpack(Elf *elf, struct strbuf *file)
{
    GElf_Ehdr old;
    size_t count, names;
    VEC(Elf64_Shdr) sections = {0};
    if (!gelf_getehdr(elf, &old) || elf_getshdrnum(elf, &count) < 0 || elf_getshdrstrndx(elf, &names) < 0 ||
        count >= SHN_LORESERVE || names >= SHN_LORESERVE)
        return false;
    Elf64_Ehdr head = {.e_type = old.e_type,
                       .e_machine = old.e_machine,
                       .e_version = old.e_version,
                       .e_ehsize = sizeof head,
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = (Elf64_Half)count,
                       .e_shstrndx = (Elf64_Half)names};
    memcpy(head.e_ident, old.e_ident, sizeof head.e_ident);
    str_put(file, &head, sizeof head);
    bool is_right = true;
    for (size_t i = 0; is_right && i < count; i++) {
        Elf64_Shdr h = {0};
        is_right = !i || put_section(elf_getscn(elf, i), file, &h);
        VEC_PUSH(&sections, h);
    }
    while (file->len % sizeof(uint64_t))
        str_put(file, "", 1);
    head.e_shoff = file->len;
    memcpy(file->data, &head, sizeof head);
    str_put(file, sections.data, sections.len * sizeof *sections.data);
    VEC_FREE(&sections);
    return is_right;
}

/* ---- kept ---- */

struct old {
    const char *name;
    uint64_t bytes;
    time_t used;
};

static int by_use(const void *a, const void *b)
{
    const struct old *x = a, *y = b;
    return (x->used > y->used) - (x->used < y->used);
}

static void evict(struct arena *a, const char *folder, uint64_t limit)
{
    VEC(struct old) all = {0};
    uint64_t total = 0;
    time_t now = time(NULL);
    DIR *d = opendir(folder);
    struct stat st;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        VEC_PUSH(&all, ((struct old){arena_strdup(a, e->d_name), (uint64_t)st.st_size, st.st_mtim.tv_sec}));
        total += (uint64_t)st.st_size;
    }
    if (all.len)
        qsort(all.data, all.len, sizeof *all.data, by_use);
    for (size_t i = 0; i < all.len && total > limit && now - all.data[i].used > YOUNG_SECONDS; i++)
        if (unlinkat(dirfd(d), all.data[i].name, 0) == 0)
            total -= all.data[i].bytes;
    if (d)
        closedir(d);
    VEC_FREE(&all);
}

/* Has it units that are in other files? */
static bool is_split(const char *path)
{
    bool is = false;
    uint8_t type;
    Dwarf_Die die;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Dwarf *dwarf = fd >= 0 ? dwarf_begin(fd, DWARF_C_READ) : NULL;
    for (Dwarf_CU *unit = NULL; dwarf && !is && dwarf_get_units(dwarf, unit, &unit, NULL, &type, &die, NULL) == 0;)
        is = type == DW_UT_skeleton || dwarf_hasattr(&die, DW_AT_GNU_dwo_name);
    if (dwarf)
        dwarf_end(dwarf);
    if (fd >= 0)
        close(fd);
    return is;
}

static void add(struct arena *a, int fd, const char *folder, const char *path)
{
    struct strbuf file = {0};
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    uint64_t bytes = elf ? unpacked_bytes(elf) : 0, limit;
    (void)file_cache_limit(&limit); /* who runs programs says what is wrong with it */
    char *made = NULL;
    if (bytes && bytes <= limit && file_make_dirs(folder, 0700) == 0 && unpack(elf, &file))
        made = file_write_temporary(path, file.data, file.len, 0600, true);
    if (made && is_split(made) && truncate(made, 0) < 0) { /* before others can map it */
        unlink(made);
        free(made);
    } else if (made && file_rename_into_place(made, path) == 0) {
        evict(a, folder, limit);
    }
    if (elf)
        elf_end(elf);
    str_free(&file);
}

int debug_unpacked(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < LEAST_BYTES / 8)
        return -1;
    struct arena *a = arena_new();
    char key[KEY];
    const char *which =
        arena_printf(a, "1 %llu %llu %lld %lld.%09ld", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
                     (long long)st.st_size, (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
    file_hash_hex(which, strlen(which), key);
    const char *folder = arena_printf(a, "%s/debug", file_cache_dir(a));
    const char *path = arena_printf(a, "%s/%s", folder, key);
    int unpacked = open(path, O_RDONLY | O_CLOEXEC);
    if (unpacked < 0) {
        add(a, fd, folder, path);
        unpacked = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (unpacked >= 0 && fstat(unpacked, &st) == 0 && time(NULL) - st.st_mtim.tv_sec > DAY_SECONDS)
        (void)utimensat(AT_FDCWD, path, NULL, 0);
    arena_free(a);
    return unpacked;
}
