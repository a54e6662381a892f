/* SPDX-License-Identifier: Apache-2.0
 *
 * Dynamic counts of events (Wall, section 4.3): what the instructions of each block are, times how often the block was
 * executed; of branches, how often which edge was taken. Idioms are patterns over the instructions of one block.
 */
#include <stdlib.h>

#include "ld/code.h"

enum { ITEMS_MAX = 16, NAME_MAX_BYTES = 24, ALTERNATIVES_MAX = 8 };

/* ---- patterns ---- */

struct alternative {
    char name[NAME_MAX_BYTES]; /* a mnemonic, what it begins with, or a class */
    bool is_begin;
};
struct item {
    struct alternative any_of[ALTERNATIVES_MAX];
    unsigned count;
    bool loads, stores; /* it must */
};
struct ld_idiom {
    struct item items[ITEMS_MAX];
    unsigned count;
};

static int refuse(const char *text, const char *why) { return diag_error("ld-report: --idiom %s: %s", text, why); }

static int parse_item(const char *text, const char *at, size_t len, struct item *out)
{
    *out = (struct item){.count = 0};
    const char *end = at + len, *colon = memchr(at, ':', len);
    if (colon) {
        size_t n = (size_t)(end - colon - 1);
        out->loads = n == 4 && !memcmp(colon + 1, "load", n);
        out->stores = n == 5 && !memcmp(colon + 1, "store", n);
        if (!out->loads && !out->stores)
            return refuse(text, "behind a colon stands load or store");
        end = colon;
    }
    while (at <= end) {
        size_t n = (size_t)(end - at);
        const char *bar = memchr(at, '|', n);
        n = bar ? (size_t)(bar - at) : n;
        if (!n || n >= NAME_MAX_BYTES || out->count == ALTERNATIVES_MAX)
            return refuse(text, "a mnemonic is missing, too long, or has too many alternatives");
        struct alternative *a = &out->any_of[out->count++];
        memset(a, 0, sizeof *a);
        a->is_begin = at[n - 1] == '*';
        memcpy(a->name, at, n - a->is_begin);
        at += n + 1;
    }
    return 0;
}

int ld_idiom_parse(const char *text, struct ld_idiom **out)
{
    struct ld_idiom *p = xmalloc(sizeof *p);
    const char *at = text;
    int rc = 0;
    for (bool more = true; more && rc == 0;) {
        size_t len = strcspn(at, ";"), begin = strspn(at, " "), end = len;
        while (end > begin && at[end - 1] == ' ')
            end--;
        if (begin >= end)
            rc = refuse(text, "an instruction is missing");
        else if (p->count == ITEMS_MAX)
            rc = refuse(text, "has more than 16 instructions");
        else
            rc = parse_item(text, at + begin, end - begin, &p->items[p->count++]);
        more = at[len] == ';';
        at += len + more;
    }
    if (rc < 0)
        free(p);
    *out = rc < 0 ? NULL : p;
    return rc;
}

void ld_idiom_free(struct ld_idiom *p) { free(p); }

/* Classes beside mnemonics. */
static bool is_of_class(const char *name, const struct x86_insn *i)
{
    return (!strcmp(name, "jcc") && i->kind == X86_JCC) || !strcmp(name, "any");
}

static bool fits(const struct item *item, const struct x86_insn *i)
{
    const char *mnemonic = x86_mnemonic_name(i->mnemonic);
    if ((item->loads && !i->loads) || (item->stores && !i->stores))
        return false;
    for (unsigned k = 0; k < item->count; k++) {
        const struct alternative *a = &item->any_of[k];
        if (a->is_begin ? !strncmp(mnemonic, a->name, strlen(a->name))
                        : !strcmp(mnemonic, a->name) || is_of_class(a->name, i))
            return true;
    }
    return false;
}

static unsigned find_idiom(const struct ld_idiom *p, const struct x86_insn *insns, uint32_t count)
{
    unsigned found = 0;
    for (uint32_t i = 0; i + p->count <= count; i++) {
        unsigned k = 0;
        while (k < p->count && fits(&p->items[k], &insns[i + k]))
            k++;
        found += k == p->count;
    }
    return found;
}

/* ---- events of a block ---- */

static enum ld_event event_of(const struct x86_insn *i)
{
    static const uint8_t by_kind[X86_KIND_COUNT] = {
        [X86_JMP] = LD_EVENT_JUMPS,   [X86_JMP_IND] = LD_EVENT_JUMPS_INDIRECT,
        [X86_CALL] = LD_EVENT_CALLS,  [X86_CALL_IND] = LD_EVENT_CALLS_INDIRECT,
        [X86_RET] = LD_EVENT_RETURNS, [X86_SYSCALL] = LD_EVENT_SYSTEM_CALLS,
    };
    if ((i->props & X86_PROP_NOP) && !(i->props & X86_PROP_ENDBR))
        return LD_EVENT_NOPS;
    return i->kind < X86_KIND_COUNT ? (enum ld_event)by_kind[i->kind] : LD_EVENT_INSTRUCTIONS;
}

static void add_branch(const struct ld_blocks *all, const struct ld_block *b, uint64_t *events)
{
    uint64_t falls = 0;
    for (uint32_t e = b->edge_first; e < b->edge_first + b->edge_count; e++)
        falls += all->edges.data[e].kind == CFG_EDGE_FALL ? all->edges.data[e].count : 0;
    falls = min_u64(falls, b->count);
    events[LD_EVENT_BRANCHES] += b->count;
    events[LD_EVENT_NOT_TAKEN] += falls;
    events[LD_EVENT_TAKEN] += b->count - falls;
}

static void add_block(const struct ld_code *c, const struct ld_blocks *all, const struct ld_block *b,
                      const struct ld_idiom *const *idioms, size_t idiom_count, struct ld_events *out, uint64_t *events)
{
    uint64_t at[LD_CODE_INSNS_MAX];
    struct x86_insn insns[LD_CODE_INSNS_MAX];
    if (!b->count)
        return;
    if (!ld_code_of(c, b, at)) {
        out->unread += b->count * b->insns;
        return;
    }
    for (uint32_t i = 0; i < b->insns; i++) {
        size_t left = min_u64(15, b->end - at[i]);
        const uint8_t *p = image_at(c->img, at[i], left);
        if (!p || !x86_decode(p, left, at[i], &insns[i]))
            insns[i] = (struct x86_insn){.kind = X86_PLAIN};
        enum ld_event e = event_of(&insns[i]);
        events[LD_EVENT_INSTRUCTIONS] += b->count;
        events[LD_EVENT_LOADS] += b->count * insns[i].loads;
        events[LD_EVENT_STORES] += b->count * insns[i].stores;
        if (e != LD_EVENT_INSTRUCTIONS)
            events[e] += b->count;
    }
    if (b->insns && (insns[b->insns - 1].kind == X86_JCC || insns[b->insns - 1].kind == X86_JCXZ))
        add_branch(all, b, events);
    for (size_t k = 0; k < idiom_count; k++)
        out->idioms.data[k] += b->count * find_idiom(idioms[k], insns, b->insns);
}

/* ---- all ---- */

static int by_instructions(const void *a, const void *b)
{
    const struct ld_event_row *x = a, *y = b;
    uint64_t m = x->events[LD_EVENT_INSTRUCTIONS], n = y->events[LD_EVENT_INSTRUCTIONS];
    return m != n ? (m < n ? 1 : -1) : (x->address > y->address) - (x->address < y->address);
}

int ld_events_read(const char *path, const char *const *files, size_t count, const struct ld_idiom *const *idioms,
                   size_t idiom_count, struct ld_events **out)
{
    struct ld_blocks *blocks;
    struct image *img;
    if (ld_blocks_read_with(path, files, count, &blocks, &img) < 0)
        return -1;
    struct ld_events *all = xmalloc(sizeof *all);
    struct ld_code code = ld_code_begin(img);
    all->arena = arena_new();
    all->files = count;
    all->inconsistent = blocks->inconsistent;
    for (size_t k = 0; k < idiom_count; k++)
        VEC_PUSH(&all->idioms, (uint64_t)0);
    for (size_t f = 0; f < blocks->functions.len; f++) {
        const struct ld_function *fn = &blocks->functions.data[f];
        struct ld_event_row row = {.name = arena_strdup(all->arena, fn->name),
                                   .object = arena_strdup(all->arena, fn->object),
                                   .address = fn->address};
        for (size_t b = fn->first; b < fn->first + fn->count; b++)
            add_block(&code, blocks, &blocks->blocks.data[b], idioms, idiom_count, all, row.events);
        for (int e = 0; e < LD_EVENT_COUNT; e++)
            all->events[e] += row.events[e];
        if (row.events[LD_EVENT_INSTRUCTIONS])
            VEC_PUSH(&all->functions, row);
    }
    if (all->functions.len)
        qsort(all->functions.data, all->functions.len, sizeof *all->functions.data, by_instructions);
    image_close(img);
    ld_blocks_free(blocks);
    *out = all;
    return 0;
}

void ld_events_free(struct ld_events *e)
{
    VEC_FREE(&e->functions);
    VEC_FREE(&e->idioms);
    arena_free(e->arena);
    free(e);
}
