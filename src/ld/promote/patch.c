/* SPDX-License-Identifier: Apache-2.0
 * What is promoted, decided of the facts, and written into the linked file: operands, the loads in front of main or of
 * the entry point, and what led there. What gets shorter is filled up by prefixes without effect. */
#include "ld/promote/promote.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const registers[X86_GPR_COUNT] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                                     "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};

/* ---- deciding ---- */

static bool is_measured(const struct ld_variable *m, const struct ld_promoted *v)
{
    return m->kind == LD_VARIABLE_GLOBAL && m->bytes == v->bytes && !strcmp(m->name, v->name);
}

/* Several of one name, in several objects, all count for each. */
void ld_promotion_measure(struct ld_promotion *p, const struct ld_variables *counts)
{
    p->has_counts = true;
    for (size_t i = 0; i < p->variables.len; i++) {
        struct ld_promoted *v = &p->variables.data[i];
        v->loads_measured = v->stores_measured = 0;
        for (size_t k = 0; k < counts->variables.len; k++) {
            if (!is_measured(&counts->variables.data[k], v))
                continue;
            v->loads_measured += (double)counts->variables.data[k].loads;
            v->stores_measured += (double)counts->variables.data[k].stores;
        }
    }
}

static double weight_of(const struct ld_promotion *p, const struct ld_promoted *v)
{
    double estimated = v->loads_estimated + v->stores_estimated, measured = v->loads_measured + v->stores_measured;
    return p->has_counts ? measured + 1e-9 * estimated : estimated;
}

static const char *refusal(const struct promote_facts *f, const struct regs_promoted *d)
{
    struct arena *a = f->arena;
    const char *who = d->culprit == ID_NONE ? "" : promote_function_name(f, d->culprit);
    switch (d->refusal) {
    case REGS_REFUSED_UNCLEAR:
        return arena_printf(a, "used below %s, which is not understood", who);
    case REGS_REFUSED_TWICE:
        return arena_printf(a, "used below %s, which calls setjmp, vfork or what is like them", who);
    case REGS_REFUSED_ENTERED:
        return arena_printf(a, "used below %s: %s", who, f->why_entered[d->culprit] ? f->why_entered[d->culprit] : "");
    case REGS_REFUSED_BUSY:
        return d->culprit == ID_NONE
                   ? "calls keep no register"
                   : arena_printf(a, "no register is free where it is used: %s is used by %s, others likewise",
                                  registers[d->reg], who);
    case REGS_REFUSED_FEW:
        return "variables that are used more have the registers";
    default:
        return "";
    }
}

/* The functions that refer to each variable, [variables], in one array. */
static void find_users(const struct promote_facts *f, struct regs_promotable *of)
{
    uint32_t *all = ARENA_ARRAY(f->arena, uint32_t, f->accesses.len + 1), *at = all;
    for (size_t i = 0; i < f->accesses.len; i++)
        of[f->accesses.data[i].variable].function_count++;
    for (size_t v = 0; v < f->variables.len; v++) {
        of[v].functions = at;
        at += of[v].function_count;
        of[v].function_count = 0;
    }
    for (size_t i = 0; i < f->accesses.len; i++) {
        struct regs_promotable *v = &of[f->accesses.data[i].variable];
        all[(size_t)(v->functions - all) + v->function_count++] = f->accesses.data[i].function;
    }
}

/* Nobody has relocated it yet where the entry point's registers are loaded. */
static const char *initial_refusal(const struct promote_facts *f, const struct promote_variable *v)
{
    for (size_t i = 0; i < f->img->reloc_count && !f->main_at; i++)
        if (f->img->relocs[i].addr - v->addr < v->bytes)
            return "its first value is not known before the program begins";
    return v->why;
}

static int by_weight(const void *a, const void *b, void *ctx)
{
    double x = weight_of(ctx, a), y = weight_of(ctx, b);
    const struct ld_promoted *p = a, *q = b;
    return x != y ? (x < y) - (x > y) : (p->address > q->address) - (p->address < q->address);
}

static void decide_all(const struct promote_facts *f, struct ld_promotion *out)
{
    size_t n = f->variables.len, count = 0;
    struct regs_promotable *of = ARENA_ARRAY(f->arena, struct regs_promotable, n + 1),
                           *candidates = ARENA_ARRAY(f->arena, struct regs_promotable, n + 1);
    uint32_t *which = ARENA_ARRAY(f->arena, uint32_t, n + 1);
    struct regs_promoted *done = ARENA_ARRAY(f->arena, struct regs_promoted, n + 1);
    find_users(f, of);
    for (uint32_t i = 0; i < n; i++) {
        struct ld_promoted *v = &out->variables.data[i];
        v->why = f->why ? f->why : initial_refusal(f, &f->variables.data[i]);
        if (v->why || !of[i].function_count)
            continue;
        candidates[count] = of[i];
        candidates[count].weight = weight_of(out, v);
        which[count++] = i;
    }
    regs_promote(&(struct regs_promotion){.functions = f->functions,
                                          .arcs = f->arcs.data,
                                          .variables = candidates,
                                          .function_count = f->cfg->funcs.len,
                                          .arc_count = f->arcs.len,
                                          .variable_count = count,
                                          .kept = f->kept,
                                          .free = f->free},
                 done);
    for (size_t k = 0; k < count; k++) {
        struct ld_promoted *v = &out->variables.data[which[k]];
        v->reg = done[k].refusal == REGS_PROMOTED ? registers[done[k].reg] : NULL;
        v->why = refusal(f, &done[k]);
    }
}

/* Those that no instruction refers to are left out. */
static void leave_unused(struct ld_promotion *out)
{
    size_t n = 0;
    for (size_t i = 0; i < out->variables.len; i++)
        if (out->variables.data[i].loads + out->variables.data[i].stores)
            out->variables.data[n++] = out->variables.data[i];
    out->variables.len = n;
}

static const char *why_nothing(const struct promote_facts *f, const struct ld_promotion *out)
{
    for (size_t i = 0; i < out->variables.len; i++)
        if (out->variables.data[i].reg)
            return "";
    if (f->why)
        return f->why;
    for (unsigned r = 0; r < X86_GPR_COUNT && !f->kept && !f->free; r++)
        if (f->lost[r])
            return arena_printf(f->arena, "no register is free or kept by all calls: %s: %s", registers[r], f->lost[r]);
    for (size_t i = 0; i < out->variables.len; i++)
        if (*out->variables.data[i].why)
            return arena_printf(f->arena, "%s: %s", out->variables.data[i].name, out->variables.data[i].why);
    return "no instruction refers to a variable of the program";
}

void promote_decide(const struct promote_facts *f, const struct ld_variables *counts, struct ld_promotion *out)
{
    *out = (struct ld_promotion){.arena = f->arena, .root = f->main_at ? "main" : "the entry point"};
    for (size_t i = 0; i < f->variables.len; i++) {
        const struct promote_variable *v = &f->variables.data[i];
        VEC_PUSH(&out->variables, ((struct ld_promoted){.name = v->name,
                                                        .address = v->addr,
                                                        .bytes = (unsigned)v->bytes,
                                                        .loads = v->loads,
                                                        .stores = v->stores,
                                                        .loads_estimated = v->loads_estimated,
                                                        .stores_estimated = v->stores_estimated}));
    }
    if (counts)
        ld_promotion_measure(out, counts);
    decide_all(f, out);
    leave_unused(out);
    if (out->variables.len)
        qsort_r(out->variables.data, out->variables.len, sizeof *out->variables.data, by_weight, out);
    out->why = why_nothing(f, out);
}

/* ---- writing ---- */

struct patcher {
    const struct promote_facts *f;
    const struct ld_promotion *p;
    struct image *img; /* of the file that is changed */
    uint8_t *bytes;    /* what it is to hold */
    const char *why;
};

static uint8_t *place(struct patcher *m, uint64_t addr, size_t len)
{
    const uint8_t *at = image_at(m->img, addr, len);
    if (!at) {
        m->why = "its code is not where it was";
        return NULL;
    }
    return m->bytes + (at - m->img->bytes);
}

static unsigned register_number(const char *name)
{
    unsigned r = 0;
    while (strcmp(registers[r], name) != 0)
        r++;
    return r;
}

/* Tables that are only read may lie elsewhere, if the code, which says where they are, is the same. Of sections without
 * bytes those stay that relocations name. */
static bool is_compared(const struct image_section *s)
{
    return s->flags & SHF_ALLOC && s->flags & (SHF_WRITE | SHF_EXECINSTR) && s->size;
}

/* Code and variables must lie as they lay: a linker may relax less where it keeps relocations. */
static bool is_same(const struct image *a, const struct image *b)
{
    if (a->entry != b->entry)
        return false;
    size_t k = 0;
    for (size_t i = 0; i < a->section_count; i++) {
        const struct image_section *x = &a->sections[i];
        if (!is_compared(x))
            continue;
        while (k < b->section_count && !is_compared(&b->sections[k]))
            k++;
        if (k == b->section_count)
            return false;
        const struct image_section *y = &b->sections[k++];
        if (x->addr != y->addr || x->size != y->size || x->type != y->type || strcmp(x->name, y->name) != 0)
            return false;
        bool is_code = x->flags & SHF_EXECINSTR && x->type != SHT_NOBITS;
        if (is_code && memcmp(a->bytes + x->offset, b->bytes + y->offset, x->size) != 0)
            return false;
    }
    return true;
}

static const struct ld_promoted *promoted_at(const struct ld_promotion *p, uint64_t addr)
{
    for (size_t i = 0; i < p->variables.len; i++)
        if (p->variables.data[i].reg && p->variables.data[i].address == addr)
            return &p->variables.data[i];
    return NULL;
}

static void change_access(struct patcher *m, const struct promote_access *a, unsigned reg)
{
    struct x86_insn i;
    uint8_t out[15];
    uint8_t *to = place(m, a->addr, 1);
    const uint8_t *from = image_at(m->img, a->addr, 1);
    if (!to)
        return;
    int len = x86_decode(from, m->img->len_bytes - (size_t)(from - m->img->bytes), a->addr, &i);
    int n = len ? x86_in_register(from, &i, reg, out) : 0;
    if (!n || n > len) {
        m->why = "an instruction is not what it was";
        return;
    }
    memset(to, 0x2e, (size_t)(len - n)); /* a prefix for cs, which addresses here have anyway */
    memcpy(to + (len - n), out, (size_t)n);
}

static uint64_t symbol(struct patcher *m, const char *name)
{
    for (size_t i = 0; i < m->f->img->symbol_count; i++)
        if (!strcmp(m->f->img->symbols[i].name, name))
            return m->f->img->symbols[i].addr;
    m->why = "its runtime is not linked in";
    return 0;
}

/* To `to` the distance of `target` from behind its 4 bytes at `addr`. */
static void put_distance(uint8_t *to, uint64_t addr, uint64_t target)
{
    uint32_t d = (uint32_t)(target - (addr + 4));
    memcpy(to, &d, sizeof d);
}

/* Loads of all registers at `at`, in room of `room` bytes with nops, then the call or jump to `target`. */
static void put_loads(struct patcher *m, uint64_t at, unsigned room, uint64_t target)
{
    uint8_t *to = place(m, at, room + 5);
    unsigned n = 0;
    for (size_t i = 0; i < m->p->variables.len && to; i++) {
        const struct ld_promoted *v = &m->p->variables.data[i];
        if (!v->reg)
            continue;
        unsigned r = register_number(v->reg);
        if (n + 8 > room) {
            m->why = "its runtime has no room";
            return;
        }
        to[n++] = (uint8_t)(0x40 | (v->bytes == 8 ? 8 : 0) | (r >= 8 ? 4 : 0));
        if (v->bytes < 4) /* movzx */
            to[n++] = 0x0f;
        to[n++] = v->bytes >= 4 ? 0x8b : v->bytes == 2 ? 0xb7 : 0xb6;
        to[n++] = (uint8_t)(5 | (r & 7) << 3);
        put_distance(to + n, at + n, v->address);
        n += 4;
    }
    if (to)
        put_distance(to + room + 1, at + room + 1, target);
}

/* The entry function's mov or lea of main's address becomes that of what stands in for main. */
static void lead_to_main(struct patcher *m)
{
    enum { MAIN_ROOM = 48 };
    uint64_t at = m->f->main_at, main_addr = 0, instead = symbol(m, PROMOTE_MAIN);
    struct x86_insn i;
    const uint8_t *from = image_at(m->img, at, 1);
    uint8_t *to = place(m, at, 7);
    for (size_t k = 0; k < m->f->img->symbol_count; k++)
        if (!strcmp(m->f->img->symbols[k].name, "main") && m->f->img->symbols[k].shndx)
            main_addr = m->f->img->symbols[k].addr;
    if (!to || !instead || x86_decode(from, 16, at, &i) != 7 || (*from & 0xf8) != 0x48) {
        m->why = m->why ? m->why : "main's address is taken in an unknown way";
        return;
    }
    bool is_number = from[1] == 0xc7 && i.imm_len == 4 && i.target == main_addr; /* mov $main, reg */
    bool is_lea = from[1] == 0x8d && i.target == main_addr, is_load = from[1] == 0x8b && i.mem_base == X86_REG_RIP;
    if (is_number && !i.mem_scale) {
        uint32_t value = (uint32_t)instead;
        memcpy(to + i.imm_off, &value, sizeof value);
    } else if (is_lea || is_load) { /* of the linker's word for it */
        to[1] = 0x8d;
        put_distance(to + 3, at + 3, instead);
    } else {
        m->why = "main's address is taken in an unknown way";
        return;
    }
    put_loads(m, symbol(m, PROMOTE_MAIN "_loads"), MAIN_ROOM, main_addr);
}

static void lead_to_entry(struct patcher *m)
{
    enum { ENTRY_ROOM = 120 };
    uint64_t instead = symbol(m, PROMOTE_ENTRY);
    put_loads(m, symbol(m, PROMOTE_ENTRY "_loads"), ENTRY_ROOM, m->img->entry);
    memcpy(m->bytes + offsetof(Elf64_Ehdr, e_entry), &instead, sizeof instead);
}

static int write_back(const char *path, const uint8_t *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    size_t at = 0;
    while (fd >= 0 && at < len) {
        ssize_t n = pwrite(fd, bytes + at, len - at, (off_t)at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    return fd >= 0 && close(fd) == 0 && at == len ? 0 : -1;
}

int promote_patch(const struct promote_facts *f, const struct ld_promotion *p, const char *path, const char **why)
{
    struct patcher m = {.f = f, .p = p};
    struct strbuf said = {0};
    diag_hold(&said);
    int rc = image_open_copy(path, &m.img);
    diag_hold(NULL);
    str_free(&said);
    if (rc < 0) {
        *why = "its result is no ELF file";
        return -1;
    }
    if (!is_same(f->img, m.img)) {
        m.why = "the linker makes other code where it keeps relocations";
    } else {
        m.bytes = xmalloc(m.img->len_bytes);
        memcpy(m.bytes, m.img->bytes, m.img->len_bytes);
        for (size_t i = 0; i < f->accesses.len && !m.why; i++) {
            const struct promote_access *a = &f->accesses.data[i];
            const struct ld_promoted *v = promoted_at(p, f->variables.data[a->variable].addr);
            if (v)
                change_access(&m, a, register_number(v->reg));
        }
        if (!m.why && f->main_at)
            lead_to_main(&m);
        else if (!m.why)
            lead_to_entry(&m);
        if (!m.why && write_back(path, m.bytes, m.img->len_bytes) < 0)
            m.why = "its result cannot be written";
        free(m.bytes);
    }
    image_close(m.img);
    *why = m.why;
    return m.why ? -1 : 0;
}
