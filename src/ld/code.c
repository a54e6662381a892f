/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions of a block in the linked file that the original has: counters, and what stands around them, are left
 * out. All that the rewriter inserts reaches a counter, or stands beside what does (rewrite/instruments/counts.c):
 *
 *     inc [c]      mov r,[c]; lea r,[r+1]; mov [c],r      sub [c],r; mov [c],r      add [c],r; mov qword [c],0
 *     lea rsp,[rsp-128]; push rax; ...; pop rax; lea rsp,[rsp+128]       ...; pushfq; lock inc [c]; popfq; ...
 *
 * How many there must be the map says, so that nothing is taken for what it is not. */
#include "ld/code.h"

enum { LOAD = 0x8b, INC = 0xff, LOCK = 0xf0 };
enum { EDGE = 128 }; /* instructions that may stand in a block, inserted ones too: a block has 48 */

struct found {
    uint64_t address;
    uint8_t len;
    bool is_counter, is_inserted;
    const uint8_t *bytes;
};

static bool is_bytes(const struct found *f, const char *bytes, unsigned len)
{
    return f->len == len && memcmp(f->bytes, bytes, len) == 0;
}

/* mov r,[c] in all forms: the operation behind prefixes. */
static uint8_t operation(const struct found *f)
{
    const uint8_t *p = f->bytes;
    while (*p == LOCK || (*p & 0xf0) == 0x40)
        p++;
    return *p;
}

static bool is_down(const struct found *f) { return is_bytes(f, "\x48\x8d\x64\x24\x80", 5); }
static bool is_up(const struct found *f) { return is_bytes(f, "\x48\x8d\xa4\x24\x80\x00\x00\x00", 8); }

/* Marks what stands around a piece of inserted code, from `first` to `last`, if registers or flags are saved there. */
static void mark_around(struct found *all, unsigned count, unsigned first, unsigned last)
{
    if (first < 2 || last + 2 >= count || !is_down(&all[first - 2]) || !is_up(&all[last + 2]))
        return;
    bool is_saved = is_bytes(&all[first - 1], "\x50", 1) || is_bytes(&all[first - 1], "\x9c", 1);
    for (unsigned i = first - 2; is_saved && i <= last + 2; i++)
        all[i].is_inserted = true;
}

static void mark(struct found *all, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (!all[i].is_counter || all[i].is_inserted)
            continue;
        all[i].is_inserted = true;
        unsigned last = operation(&all[i]) == LOAD ? i + 2 : i;
        for (unsigned k = i; k <= last && k < count; k++)
            all[k].is_inserted = true;
        mark_around(all, count, i, last);
    }
}

struct ld_code ld_code_begin(const struct image *img)
{
    const struct image_section *s = image_section_named(img, REWRITE_RELOCATABLE_COUNTERS);
    return (struct ld_code){img, s ? s->addr : 0, s ? s->addr + s->size : 0};
}

bool ld_code_decode(const struct ld_code *c, uint64_t at, struct x86_detail *out)
{
    size_t left = 15;
    const uint8_t *p;
    while (left && !(p = image_at(c->img, at, left)))
        left--;
    return left && x86_decode_detail(p, left, at, out);
}

bool ld_code_of(const struct ld_code *c, const struct ld_block *b, uint64_t *at)
{
    struct found all[EDGE];
    unsigned count = 0, kept = 0;
    if (b->insns > LD_CODE_INSNS_MAX)
        return false;
    for (uint64_t a = b->address; a < b->end && count < EDGE;) {
        struct x86_insn i;
        const uint8_t *p = image_at(c->img, a, b->end - a);
        int len = p ? x86_decode(p, b->end - a, a, &i) : 0;
        if (!len)
            break;
        bool is_counter = i.props & X86_PROP_RIPREL && !(i.props & X86_PROP_LEA) &&
                          i.target - c->counters_lo < c->counters_hi - c->counters_lo;
        all[count++] = (struct found){a, (uint8_t)len, is_counter, false, p};
        a += (uint64_t)len;
    }
    mark(all, count);
    for (unsigned i = 0; i < count && kept < b->insns; i++)
        if (!all[i].is_inserted)
            at[kept++] = all[i].address;
    return kept == b->insns;
}
