/* SPDX-License-Identifier: Apache-2.0
 *
 * The rewritten file: the original's bytes with jumps at function entries and edited relocations, then three new
 * segments (code; headers, tables and unwind data; the runtime's words and the counters). File offsets of the new
 * segments keep the first segment's distance from their addresses, because kernels before 5.18 and the dynamic linker
 * find the program headers by it.
 *
 * needs: everything. The file is whole or absent.
 */
#include "rewrite/impl.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t rw_file_bias(const struct image *img)
{
    for (size_t i = 0; i < img->segment_count; i++)
        if (img->segments[i].type == PT_LOAD)
            return img->segments[i].vaddr - img->segments[i].offset;
    return 0;
}

/* ---- the dynamic section ---- */

static Elf64_Dyn dynamic_entry(const uint8_t *p, size_t i)
{
    Elf64_Dyn d;
    memcpy(&d, p + i * sizeof d, sizeof d); /* it need not be aligned */
    return d;
}

static size_t dynamic_entries(const struct image *img, const uint8_t **out)
{
    const uint8_t *p = img->dynamic_size ? image_at(img, img->dynamic_vaddr, img->dynamic_size) : NULL;
    size_t n = 0;
    while (p && (n + 1) * sizeof(Elf64_Dyn) <= img->dynamic_size && dynamic_entry(p, n).d_tag != DT_NULL)
        n++;
    *out = p;
    return n;
}

static uint64_t dynamic_value(const struct image *img, int64_t tag)
{
    const uint8_t *p;
    size_t n = dynamic_entries(img, &p);
    for (size_t i = 0; i < n; i++)
        if (dynamic_entry(p, i).d_tag == tag)
            return dynamic_entry(p, i).d_un.d_val;
    return 0;
}

uint64_t rw_dynamic_init(const struct rw *w) { return dynamic_value(w->img, DT_INIT); }

static void dynamic_set(Elf64_Dyn *d, size_t *n, int64_t tag, uint64_t val)
{
    size_t i = 0;
    while (i < *n && d[i].d_tag != tag)
        i++;
    if (i == *n)
        (*n)++;
    d[i].d_tag = tag;
    d[i].d_un.d_val = val;
}

static void dynamic_drop(Elf64_Dyn *d, size_t *n, int64_t tag)
{
    size_t k = 0;
    for (size_t i = 0; i < *n; i++)
        if (d[i].d_tag != tag)
            d[k++] = d[i];
    *n = k;
}

/* The run path with our folder first, $ORIGIN written out since the copy lies elsewhere. */
static char *run_path(const struct rw *w)
{
    char *dir = file_real_path(w->arena, w->img->path);
    if (!dir)
        dir = arena_strdup(w->arena, w->img->path);
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = 0;
    struct strbuf s = {0};
    str_puts(&s, w->opt->rpath);
    const char *p = w->img->runpath ? w->img->runpath : w->img->rpath;
    if (p)
        str_puts(&s, ":");
    while (p && *p) {
        size_t n = strncmp(p, "${ORIGIN}", 9) == 0 ? 9 : strncmp(p, "$ORIGIN", 7) == 0 ? 7 : 0;
        if (n)
            str_puts(&s, dir);
        else
            str_put(&s, p, 1);
        p += n ? n : 1;
    }
    char *out = arena_strdup(w->arena, s.data);
    str_free(&s);
    return out;
}

/* The old relocations and room for one more, which makes the dynamic linker call the runtime (rt_register) before any
 * other code of the module runs, so that threads that have slots may run it. The bytes come last (put_rela). */
static void make_room_for_rela(struct rw *w)
{
    if (!w->opt->threads || !rw_has_words(w) || w->img->is_static || !w->counter_count)
        return;
    uint64_t old = dynamic_value(w->img, DT_RELA), size = old ? dynamic_value(w->img, DT_RELASZ) : 0;
    uint64_t plt = dynamic_value(w->img, DT_JMPREL), plt_size = plt ? dynamic_value(w->img, DT_PLTRELSZ) : 0;
    if (plt_size && plt >= old && plt + plt_size == old + size)
        size -=
            plt_size; /* some linkers let the one end in the other, which the dynamic linker sees by their addresses */
    w->rela_vaddr = w->ro_vaddr + w->ro.len;
    w->rela_bytes = size + sizeof(Elf64_Rela);
    for (uint64_t i = 0; i < w->rela_bytes; i++)
        str_put(&w->ro, "", 1);
}

void rw_data(struct rw *w)
{
    while (w->ro.len % 16)
        str_put(&w->ro, "", 1);
    rw_names(w, dynamic_value(w->img, DT_SYMTAB), dynamic_value(w->img, DT_GNU_HASH));
    make_room_for_rela(w);
    if (w->opt->interp && w->img->interp) {
        w->interp_vaddr = w->ro_vaddr + w->ro.len;
        str_put(&w->ro, w->opt->interp, strlen(w->opt->interp) + 1);
    }
    uint64_t strtab = dynamic_value(w->img, DT_STRTAB), size = dynamic_value(w->img, DT_STRSZ);
    const uint8_t *old = size ? image_at(w->img, strtab, size) : NULL;
    if (w->opt->rpath && old) {
        w->dynstr_vaddr = w->ro_vaddr + w->ro.len;
        str_put(&w->ro, old, size);
        w->rpath_off = size;
        const char *path = run_path(w);
        str_put(&w->ro, path, strlen(path) + 1);
        w->dynstr_bytes = w->ro_vaddr + w->ro.len - w->dynstr_vaddr;
    }
    w->rw_vaddr = ALIGN_UP(w->ro_vaddr + w->ro.len, (uint64_t)4096);
    w->counters_vaddr = w->rw_vaddr + RW_DATA_BYTES;
}

/* ---- the original's bytes, changed ---- */

struct output {
    struct rw *w;
    struct rw_edits edits; /* of the original's bytes */
    Elf64_Ehdr header;     /* changed, for the start of the file */
    size_t phdr_count;
    int rc, error;
    uint8_t data[RW_DATA_BYTES];
    uint64_t dynamic_vaddr, dynamic_size; /* moved: new place; 0 unchanged */
    struct strbuf tail;                   /* behind the last segment */
};

/* What stands at an address in the file; false: nothing does. */
static bool find_offset(const struct rw *w, uint64_t vaddr, size_t len, uint64_t *out)
{
    const uint8_t *p = image_at(w->img, vaddr, len);
    *out = p ? (uint64_t)(p - w->img->bytes) : 0;
    return p;
}

static void put_dynamic(const struct rw *w, struct output *o)
{
    const uint8_t *old;
    size_t n = dynamic_entries(w->img, &old), room = w->img->dynamic_size / sizeof(Elf64_Dyn);
    bool is_dso = w->img->kind == IMAGE_DSO && rw_has_words(w);
    if (!n || w->img->is_static || (!is_dso && !w->dynstr_vaddr && !w->rela_vaddr && !w->dynsym_vaddr))
        return;
    Elf64_Dyn *d = xmalloc((n + 8) * sizeof *d);
    memcpy(d, old, n * sizeof *d);
    if (is_dso)
        dynamic_set(d, &n, DT_INIT, rw_blob_init(w));
    if (w->rela_vaddr) {
        dynamic_set(d, &n, DT_RELA, w->rela_vaddr);
        dynamic_set(d, &n, DT_RELASZ, w->rela_bytes);
        dynamic_set(d, &n, DT_RELAENT, sizeof(Elf64_Rela));
    }
    if (w->dynsym_vaddr) {
        dynamic_set(d, &n, DT_SYMTAB, w->dynsym_vaddr);
        dynamic_set(d, &n, DT_GNU_HASH, w->gnu_hash_vaddr);
    }
    if (w->dynstr_vaddr) {
        dynamic_set(d, &n, DT_STRTAB, w->dynstr_vaddr);
        dynamic_set(d, &n, DT_STRSZ, w->dynstr_bytes);
        dynamic_drop(d, &n, DT_RUNPATH);
        dynamic_set(d, &n, DT_RPATH, w->rpath_off);
    }
    d[n].d_tag = DT_NULL;
    size_t max = (RW_DATA_ONES - RW_DATA_DYNAMIC) / sizeof *d;
    if (n + 1 <= room) {
        uint64_t off;
        if (find_offset(w, w->img->dynamic_vaddr, (n + 1) * sizeof *d, &off))
            rw_edit(&o->edits, off, d, (n + 1) * sizeof *d);
    } else if (n + 1 <= max) { /* else: no module has 250 dynamic entries; its counters would stay unmapped and be
                                   reported as lost */
        memcpy(o->data + RW_DATA_DYNAMIC, d, (n + 1) * sizeof *d);
        o->dynamic_vaddr = w->rw_vaddr + RW_DATA_DYNAMIC;
        o->dynamic_size = (n + 1) * sizeof *d;
    }
    free(d);
}

/* Pointers in data to the middle of a function lead to its copy; pointers to entries keep their value. */
static void put_relocs(const struct rw *w, struct output *o)
{
    struct map exported = {0}, in_table = {0};
    for (size_t s = 1; s < w->img->dynsym_count; s++)
        if (w->img->symbols[s].shndx)
            map_put(&exported, w->img->symbols[s].addr, 1);
    for (size_t t = 0; t < w->tables.len; t++)
        for (uint32_t k = 0; w->tables.data[t].old->by_reloc && k < w->tables.data[t].entries; k++)
            map_put(&in_table, w->tables.data[t].old->addr + 8ull * k, t);
    for (size_t i = 0; i < w->img->reloc_count; i++) {
        const struct image_reloc *r = &w->img->relocs[i];
        if (r->type != R_X86_64_RELATIVE || map_has(&exported, (uint64_t)r->addend))
            continue;
        uint32_t b = cfg_block_start(w->cfg, (uint64_t)r->addend);
        if (!rw_block_moved(w, b) || (w->cfg->blocks.data[b].flags & CFG_BLOCK_ENTRY))
            continue;
        uint64_t t, to;
        if (map_get(&in_table, r->addr, &t))
            to = rw_table_target(w, &w->tables.data[t], (uint64_t)r->addend);
        else if (w->cfg->blocks.data[b].flags & CFG_BLOCK_EXT_IN)
            to = rw_enter(w, b);
        else
            continue;
        rw_edit(&o->edits, r->file_offset + (r->is_relr ? 0 : offsetof(Elf64_Rela, r_addend)), &to, 8);
    }
    map_fini(&exported);
    map_fini(&in_table);
}

static void put_rela(const struct rw *w, const struct output *o)
{
    if (!w->rela_vaddr)
        return;
    char *to = w->ro.data + (w->rela_vaddr - w->ro_vaddr);
    uint64_t old_bytes = w->rela_bytes - sizeof(Elf64_Rela);
    uint64_t off;
    if (old_bytes && find_offset(w, dynamic_value(w->img, DT_RELA), old_bytes, &off))
        rw_edits_read(&o->edits, w->img->bytes, off, old_bytes, to);
    Elf64_Rela call = {w->rw_vaddr + RW_DATA_EARLY, R_X86_64_IRELATIVE, (int64_t)rw_blob_register(w)};
    memcpy(to + old_bytes, &call, sizeof call);
}

static void put_entry_jump(struct output *o, uint64_t addr, uint64_t to)
{
    uint8_t jump[5];
    uint64_t off;
    if (!find_offset(o->w, addr, sizeof jump, &off))
        return;
    rw_put_jmp(jump, addr, to);
    rw_edit(&o->edits, off, jump, sizeof jump);
}

static void put_patches(const struct rw *w, struct output *o)
{
    uint64_t off;
    for (uint32_t f = 0; w->opt->poison && f < w->cfg->funcs.len; f++) {
        const struct cfg_func *fn = &w->cfg->funcs.data[f];
        if (w->funcs[f].is_moved && !w->funcs[f].may_run && find_offset(w, fn->addr, fn->size, &off))
            rw_edit(&o->edits, off, NULL, fn->size);
    }
    for (size_t i = 0; i < w->hooks.len; i++)
        put_entry_jump(o, w->hooks.data[i].addr, w->hooks.data[i].stub);
    for (size_t i = 0; i < w->patches.len; i++)
        put_entry_jump(o, w->patches.data[i].addr, rw_enter(w, w->patches.data[i].block));
}

/* ---- program headers ---- */

static Elf64_Phdr load(const struct rw *w, uint32_t flags, uint64_t vaddr, uint64_t filesz, uint64_t memsz)
{
    uint64_t off = vaddr - rw_file_bias(w->img);
    Elf64_Phdr p = {PT_LOAD, flags, off, vaddr, vaddr, filesz, memsz, 4096};
    return p;
}

static size_t make_phdrs(const struct rw *w, const struct output *o, Elf64_Phdr *p)
{
    size_t n = 0;
    uint64_t bias = rw_file_bias(w->img);
    bool has_hdr = false;
    for (size_t i = 0; i < w->img->segment_count; i++) {
        const struct image_segment *s = &w->img->segments[i];
        Elf64_Phdr h = {s->type, s->flags, s->offset, s->vaddr, s->vaddr, s->filesz, s->memsz, s->align};
        if (s->type == PT_GNU_EH_FRAME && w->eh_frame_hdr_vaddr) {
            h.p_vaddr = h.p_paddr = w->eh_frame_hdr_vaddr;
            h.p_offset = w->eh_frame_hdr_vaddr - bias;
            h.p_filesz = h.p_memsz = w->eh_frame_hdr_bytes;
            has_hdr = true;
        } else if (s->type == PT_INTERP && w->interp_vaddr) {
            h.p_vaddr = h.p_paddr = w->interp_vaddr;
            h.p_offset = w->interp_vaddr - bias;
            h.p_filesz = h.p_memsz = strlen(w->opt->interp) + 1;
        } else if (s->type == PT_DYNAMIC && o->dynamic_vaddr) {
            h.p_vaddr = h.p_paddr = o->dynamic_vaddr;
            h.p_offset = o->dynamic_vaddr - bias;
            h.p_filesz = h.p_memsz = o->dynamic_size;
        }
        p[n++] = h;
    }
    if (!has_hdr && w->eh_frame_hdr_vaddr) {
        uint64_t v = w->eh_frame_hdr_vaddr;
        p[n++] = (Elf64_Phdr){PT_GNU_EH_FRAME, PF_R, v - bias, v, v, w->eh_frame_hdr_bytes, w->eh_frame_hdr_bytes, 4};
    }
    p[n++] = load(w, PF_R | PF_X, w->text_vaddr, w->text_bytes, w->text_bytes);
    p[n++] = load(w, PF_R, w->ro_vaddr, w->ro.len, w->ro.len);
    uint64_t counters = ALIGN_UP(8ull * w->counter_count, 4096ull);
    p[n++] = load(w, PF_R | PF_W, w->rw_vaddr, RW_DATA_BYTES, RW_DATA_BYTES + counters);
    for (size_t i = 0; i < n; i++) {
        if (p[i].p_type != PT_PHDR)
            continue;
        p[i].p_vaddr = p[i].p_paddr = w->ro_vaddr;
        p[i].p_offset = w->ro_vaddr - bias;
        p[i].p_filesz = p[i].p_memsz = n * sizeof *p;
    }
    return n;
}

#define PHDRS_MAX 256

/* All that does not need the section headers: what the program is made of. */
static void note_error(struct output *o)
{
    o->rc = -1;
    o->error = errno;
}

static void put_program(void *ctx)
{
    struct output *o = ctx;
    struct rw *w = o->w;
    uint64_t bias = rw_file_bias(w->img);
    Elf64_Phdr phdrs[PHDRS_MAX];
    put_dynamic(w, o);
    put_relocs(w, o);
    put_rela(w, o);
    put_patches(w, o);
    o->phdr_count = make_phdrs(w, o, phdrs);
    memcpy(w->ro.data, phdrs, o->phdr_count * sizeof *phdrs);
    if (w->promoted.len)
        memcpy(o->data + RW_DATA_ONES, (const uint64_t[4]){1, 0, 0, 1}, RW_DATA_ONES_BYTES);
    if (file_put_at(w->out_fd, w->ro.data, w->ro.len, w->ro_vaddr - bias) < 0 ||
        file_put_at(w->out_fd, o->data, RW_DATA_BYTES, w->rw_vaddr - bias) < 0)
        note_error(o);
}

static void make_tail(void *ctx)
{
    struct output *o = ctx;
    rw_sections(o->w, o->w->rw_vaddr - rw_file_bias(o->w->img) + RW_DATA_BYTES, &o->tail, &o->header);
}

static int put_rest(const struct rw *w, struct output *o)
{
    uint64_t bias = rw_file_bias(w->img);
    o->header.e_phoff = w->ro_vaddr - bias;
    o->header.e_phnum = (uint16_t)o->phdr_count;
    if (w->img->kind != IMAGE_DSO && w->img->entry && w->instrument->has_runtime)
        o->header.e_entry = rw_blob_entry(w);
    rw_edit(&o->edits, 0, &o->header, sizeof o->header);
    struct stat st;
    mode_t mode = stat(w->img->path, &st) == 0 ? st.st_mode & 0777 : 0755;
    return rw_edits_write(&o->edits, w->img->bytes, w->img->len_bytes, w->out_fd) < 0 ||
                   file_put_at(w->out_fd, o->tail.data, o->tail.len, w->rw_vaddr - bias + RW_DATA_BYTES) < 0 ||
                   fchmod(w->out_fd, mode | 0444) < 0
               ? -1
               : 0;
}

int rw_open(struct rw *w, const char *out)
{
    if (w->rw_vaddr + 8ull * w->counter_count + RW_DATA_BYTES - w->img->vaddr_lo > INT32_MAX)
        return diag_error("%s: too large to be rewritten: its copy would be out of reach of 32-bit distances",
                          w->img->path);
    if (w->img->segment_count + 6 > PHDRS_MAX)
        return diag_error("%s: has %zu program headers, more than can be extended", w->img->path,
                          w->img->segment_count);
    char *tmp = arena_printf(w->arena, "%s.XXXXXX", out);
    w->out_fd = mkostemp(tmp, O_CLOEXEC);
    if (w->out_fd < 0)
        return diag_error("%s: cannot be written: %s", out, strerror(errno));
    w->out_temporary = tmp;
    return 0;
}

void rw_abandon(struct rw *w)
{
    close(w->out_fd);
    unlink(w->out_temporary);
}

int rw_write(struct rw *w, const char *out)
{
    struct output o = {.w = w};
    memcpy(&o.header, w->img->bytes, sizeof o.header);
    parallel_both(put_program, make_tail, &o);
    if (o.rc == 0 && put_rest(w, &o) < 0)
        note_error(&o);
    if (close(w->out_fd) < 0 && o.rc == 0)
        note_error(&o);
    if (o.rc == 0 && rename(w->out_temporary, out) < 0)
        note_error(&o);
    if (o.rc < 0)
        unlink(w->out_temporary);
    rw_edits_free(&o.edits);
    str_free(&o.tail);
    return o.rc < 0 ? diag_error("%s: cannot be written: %s", out, strerror(o.error)) : 0;
}
