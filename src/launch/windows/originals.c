/* SPDX-License-Identifier: Apache-2.0
 * What snapshots of a counted process need to go back to the original's code (wire/bursts.h): a file with the text of
 * each module's original, and answers where in it a place of the copy is. Files are read when the program runs already;
 * maps when a snapshot stands in their module. */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launch/impl.h"

enum { HEAD_BYTES = 256 << 10, SEGMENTS_MAX = 64 };

struct text { /* an executable segment, in whole pages of the file and of memory */
    uint64_t offset, bytes, vaddr;
};

struct original {
    uint32_t wire;
    const char *path, *copy, *map;
    uint64_t base; /* of the image's first byte, as in the file */
    size_t text_count;
    struct text text[SEGMENTS_MAX];
    bool is_asked;
    struct rewrite_map *places;
    struct rewrite_reverse_map *back;
};

struct originals {
    struct scratch file;
    struct wire_originals *head;
    size_t bytes;
    VEC(struct original) all;
};

/* ---- texts ---- */

/* False where code can be written, and so may not be as it is in the file. */
static bool take_segment(struct original *o, const Elf64_Phdr *p)
{
    if (p->p_type != PT_LOAD)
        return true;
    o->base = min_u64(o->base, p->p_vaddr);
    if (!(p->p_flags & PF_X))
        return true;
    uint64_t lo = ALIGN_DOWN(p->p_offset, (uint64_t)WIRE_PAGE_BYTES);
    uint64_t end = ALIGN_UP(p->p_offset + p->p_filesz, (uint64_t)WIRE_PAGE_BYTES);
    o->text[o->text_count++] = (struct text){lo, end - lo, p->p_vaddr - (p->p_offset - lo)};
    return !(p->p_flags & PF_W);
}

static bool read_segments(struct original *o)
{
    Elf64_Ehdr h;
    Elf64_Phdr p[SEGMENTS_MAX];
    int fd = open(o->path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && pread(fd, &h, sizeof h, 0) == sizeof h && h.e_phentsize == sizeof *p &&
              h.e_phnum <= SEGMENTS_MAX &&
              pread(fd, p, h.e_phnum * sizeof *p, (off_t)h.e_phoff) == (ssize_t)(h.e_phnum * sizeof *p);
    o->base = UINT64_MAX;
    for (size_t i = 0; ok && i < h.e_phnum; i++)
        ok = take_segment(o, &p[i]);
    if (fd >= 0)
        close(fd);
    return ok;
}

static void put_text(struct originals *s, const struct original *o, const struct text *t, uint64_t at)
{
    int fd = open(o->path, O_RDONLY | O_CLOEXEC);
    char *to = (char *)s->head + at;
    for (uint64_t n = 0; fd >= 0 && n < t->bytes;) {
        ssize_t got = pread(fd, to + n, t->bytes - n, (off_t)(t->offset + n));
        if (got <= 0)
            break;
        n += (uint64_t)got;
    }
    if (fd >= 0)
        close(fd);
}

static void put_part(struct originals *s, struct wire_original part)
{
    uint64_t used = sizeof *s->head + (s->head->count + 1ull) * sizeof part;
    if (used <= HEAD_BYTES)
        s->head->part[s->head->count++] = part;
}

/* ---- words: pointers in data that lead to the inside of a function in the copy ---- */

static void compare_words(struct originals *s, const struct original *o, const struct image *was,
                          const struct image *copy)
{
    struct map addend = {0};
    for (size_t i = 0; i < was->reloc_count; i++)
        if (was->relocs[i].type == R_X86_64_RELATIVE)
            map_put(&addend, was->relocs[i].addr, (uint64_t)was->relocs[i].addend);
    for (size_t i = 0; i < copy->reloc_count; i++) {
        const struct image_reloc *r = &copy->relocs[i];
        uint64_t before;
        if (r->type == R_X86_64_RELATIVE && map_get(&addend, r->addr, &before) && before != (uint64_t)r->addend)
            put_part(s, (struct wire_original){.module = o->wire,
                                               .is_word = 1,
                                               .from = r->addr - o->base,
                                               .copy = (uint64_t)r->addend - o->base,
                                               .was = before - o->base});
    }
    map_fini(&addend);
}

static void put_words(struct originals *s, const struct original *o)
{
    struct image *was = NULL, *copy = NULL;
    struct strbuf unsaid = {0};
    diag_hold(&unsaid);
    if (image_open(o->path, &was) == 0 && image_open_copy(o->copy, &copy) == 0)
        compare_words(s, o, was, copy);
    diag_hold(NULL);
    str_free(&unsaid);
    image_close(was);
    image_close(copy);
}

/* ---- all ---- */

static uint64_t take_modules(struct originals *s, const struct launch_program *p, const struct counters *c)
{
    uint64_t bytes = 0;
    for (uint32_t w = 0; w < c->plan->module_count; w++) {
        const struct launch_module *m = &p->modules[c->module_of[w]];
        struct original o = {.wire = w, .path = m->path, .copy = m->copy, .map = m->map};
        if (!m->copy || !read_segments(&o))
            continue;
        VEC_PUSH(&s->all, o);
        for (size_t i = 0; i < o.text_count; i++)
            bytes += o.text[i].bytes;
    }
    return bytes;
}

struct originals *originals_open(const struct launch_program *p, const struct counters *c, const char **path)
{
    struct originals *s = xmalloc(sizeof *s);
    uint64_t bytes = take_modules(s, p, c);
    struct scratch_size z = {HEAD_BYTES, WIRE_PAGE_BYTES, bytes / WIRE_PAGE_BYTES + 1, 0};
    s->head = scratch_map(&s->file, &z, &s->bytes);
    if (s->head && s->bytes >= HEAD_BYTES + bytes) {
        *path = s->file.path;
        return s;
    }
    originals_close(s);
    return NULL;
}

void originals_fill(struct originals *s)
{
    uint64_t at = HEAD_BYTES;
    s->head->bytes = HEAD_BYTES;
    for (size_t i = 0; i < s->all.len; i++) {
        const struct original *o = &s->all.data[i];
        for (size_t k = 0; k < o->text_count; k++) {
            const struct text *t = &o->text[k];
            put_text(s, o, t, at);
            put_part(
                s, (struct wire_original){.module = o->wire, .from = t->vaddr - o->base, .bytes = t->bytes, .at = at});
            at += t->bytes;
        }
        put_words(s, o);
    }
    __atomic_store_n(&s->head->magic, WIRE_ORIGINALS_MAGIC, __ATOMIC_RELEASE);
}

void originals_close(struct originals *s)
{
    for (size_t i = 0; i < s->all.len; i++) {
        rewrite_reverse_map_free(s->all.data[i].back);
        rewrite_map_close(s->all.data[i].places);
    }
    if (s->head) {
        munmap(s->head, s->bytes);
        scratch_close(&s->file);
    }
    VEC_FREE(&s->all);
    free(s);
}

/* ---- places ---- */

static struct original *original_of(struct originals *s, uint32_t wire)
{
    for (size_t i = 0; i < s->all.len; i++)
        if (s->all.data[i].wire == wire)
            return &s->all.data[i];
    return NULL;
}

static const struct rewrite_reverse_map *back_of(struct original *o)
{
    if (!o->is_asked && rewrite_map_open(o->map, &o->places) == 0) {
        rewrite_map_set_original(o->places, o->path);
        o->back = rewrite_reverse_map_new(o->places, o->copy);
    }
    o->is_asked = true;
    return o->back;
}

static uint64_t answer_of(struct originals *s, const struct wire_place *p)
{
    struct original *o = original_of(s, p->module);
    const struct rewrite_reverse_map *back = o ? back_of(o) : NULL;
    struct rewrite_place at;
    uint64_t to;
    if (!back)
        return WIRE_NO_PLACE;
    if (p->is_return)
        return rewrite_reverse_map_return(back, o->base + p->at, &to) ? to - o->base : WIRE_NO_PLACE;
    return rewrite_reverse_map_find(back, o->base + p->at, &at) && at.is_exact ? at.addr - o->base : WIRE_NO_PLACE;
}

void originals_answer(struct originals *s, struct wire_place *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        places[i].at = answer_of(s, &places[i]);
}
