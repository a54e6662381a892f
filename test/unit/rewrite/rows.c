/* SPDX-License-Identifier: Apache-2.0
 *
 * Do rows of line tables follow the code? Of a program, and of the same one linked of rewritten objects:
 *
 *   rows [--exact] PLAIN PLAIN-LINES REWRITTEN REWRITTEN-LINES
 *
 * LINES has a line for each row, in the order of the table: its address (0x...) and what it says; of the row that ends
 * a sequence "end_sequence" among it. Lines that begin otherwise do not count, so that what llvm-dwarfdump --debug-line
 * prints will do. All rows must be there in the same order and say the same, and each must stand where its instruction
 * went. Where that is, no map of the rewriter says: functions follow each other in the same order, and the n-th
 * instruction of one that is no nop is the n-th that is none of the other. --exact: nothing was inserted; else a row
 * may stand anywhere between the instruction before and its own. Rows of code that the linker dropped must be the same
 * but for their addresses. */
#include "image/image.h"
#include "x86/x86.h"

#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>

enum { TOLD_MAX = 20 };

struct func {
    const char *name;
    uint64_t lo, hi;
};
struct row {
    uint64_t addr;
    const char *says; /* all but the address, to the line's end */
    size_t len;
    bool is_end;
};
struct insns { /* of one function, without nops */
    VEC(uint64_t) begin, end;
    bool is_odd; /* not all of it are instructions */
};
struct program {
    struct image *img;
    struct file_bytes text;
    VEC(struct func) funcs; /* by address, each once */
    VEC(struct row) rows;
    struct insns insns; /* of the function at hand */
};
struct comparison {
    struct program plain, rewritten;
    bool is_exact;
    size_t func; /* whose instructions they have; SIZE_MAX: none */
    uint64_t rows, dropped, differing, unknown;
};

/* ---- a program ---- */

static int by_address(const void *a, const void *b)
{
    const struct func *x = a, *y = b;
    if (x->lo != y->lo)
        return x->lo < y->lo ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void read_functions(struct program *p)
{
    for (size_t i = 0; i < p->img->symbol_count; i++) {
        const struct image_symbol *s = &p->img->symbols[i];
        bool is_func = s->type == STT_FUNC || s->type == STT_GNU_IFUNC;
        if (is_func && s->shndx != SHN_UNDEF && !s->is_dynamic)
            VEC_PUSH(&p->funcs, ((struct func){s->name, s->addr, s->addr + s->size}));
    }
    if (!p->funcs.len)
        return;
    qsort(p->funcs.data, p->funcs.len, sizeof *p->funcs.data, by_address);
    size_t kept = 1;
    for (size_t i = 1; i < p->funcs.len; i++) {
        struct func *last = &p->funcs.data[kept - 1];
        if (p->funcs.data[i].lo != last->lo)
            p->funcs.data[kept++] = p->funcs.data[i];
        else
            last->hi = max_u64(last->hi, p->funcs.data[i].hi);
    }
    p->funcs.len = kept;
}

static void read_rows(struct program *p)
{
    static const char is_end[] = "end_sequence";
    const char *at = (const char *)p->text.data, *end = at + p->text.len;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        if (stop && len > 2 && !memcmp(at, "0x", 2)) {
            char *says;
            uint64_t addr = strtoull(at, &says, 16);
            VEC_PUSH(&p->rows, ((struct row){addr, says, (size_t)(stop - says),
                                             memmem(at, len, is_end, strlen(is_end)) != NULL}));
        }
        at += len + 1;
    }
}

static int program_open(const char *path, const char *lines, struct program *p)
{
    if (image_open(path, &p->img) < 0)
        return -1;
    if (file_map(lines, &p->text) < 0)
        return diag_error("%s: cannot be read", lines);
    read_functions(p);
    read_rows(p);
    return p->rows.len ? 0 : diag_error("%s: no rows", lines);
}

static void program_close(struct program *p)
{
    image_close(p->img);
    file_unmap(&p->text);
    VEC_FREE(&p->funcs);
    VEC_FREE(&p->rows);
    VEC_FREE(&p->insns.begin);
    VEC_FREE(&p->insns.end);
}

static void read_insns(struct program *p, const struct func *f)
{
    struct insns *all = &p->insns;
    const uint8_t *bytes = image_at(p->img, f->lo, f->hi - f->lo);
    all->begin.len = all->end.len = 0;
    all->is_odd = !bytes;
    for (uint64_t at = f->lo; at < f->hi && !all->is_odd;) {
        struct x86_insn in;
        int len = x86_decode(bytes + (at - f->lo), f->hi - at, at, &in);
        if (len > 0 && (!(in.props & X86_PROP_NOP) || in.props & X86_PROP_ENDBR)) {
            VEC_PUSH(&all->begin, at);
            VEC_PUSH(&all->end, at + (uint64_t)len);
        }
        all->is_odd = len <= 0;
        at += (uint64_t)len;
    }
}

/* ---- rows ---- */

/* Whose it is: one that ends a sequence belongs to what is before it. SIZE_MAX: nobody's. */
static size_t func_of(const struct program *p, const struct row *r)
{
    uint64_t addr = r->is_end && r->addr ? r->addr - 1 : r->addr;
    return PARTITION_POINT(f, 0, p->funcs.len, p->funcs.data[f].lo <= addr) - 1;
}

static bool turn_to(struct comparison *c, size_t f)
{
    if (c->func == f)
        return true;
    read_insns(&c->plain, &c->plain.funcs.data[f]);
    read_insns(&c->rewritten, &c->rewritten.funcs.data[f]);
    c->func = f;
    const struct insns *a = &c->plain.insns, *b = &c->rewritten.insns;
    if (!a->is_odd && !b->is_odd && a->begin.len == b->begin.len)
        return true;
    c->func = SIZE_MAX;
    return false;
}

/* Where the row may be now: from *lo to *hi. */
static void places(const struct comparison *c, const struct row *r, uint64_t *lo, uint64_t *hi)
{
    const struct func *was = &c->plain.funcs.data[c->func], *is = &c->rewritten.funcs.data[c->func];
    const struct insns *old = &c->plain.insns, *now = &c->rewritten.insns;
    size_t n = PARTITION_POINT(i, 0, old->begin.len, old->begin.data[i] < r->addr);
    *lo = n ? now->end.data[n - 1] : is->lo;
    *hi = n < now->begin.len ? now->begin.data[n] : is->hi;
    bool is_insn = n < old->begin.len && old->begin.data[n] == r->addr;
    if (r->addr == was->hi || (c->is_exact && is_insn))
        *lo = *hi;
    if (r->addr > was->hi) /* padding behind it */
        *hi = c->func + 1 < c->rewritten.funcs.len ? c->rewritten.funcs.data[c->func + 1].lo : UINT64_MAX;
}

static void tell(struct comparison *c, const struct row *a, const struct row *b, const char *why)
{
    if (c->differing + c->unknown <= TOLD_MAX)
        printf("%#" PRIx64 "%.*s, now %#" PRIx64 "%.*s: %s\n", a->addr, (int)a->len, a->says, b->addr, (int)b->len,
               b->says, why);
}

static void compare_row(struct comparison *c, const struct row *a, const struct row *b, bool is_dropped)
{
    uint64_t lo, hi;
    size_t f = func_of(&c->plain, a);
    c->rows++;
    c->dropped += is_dropped;
    if (a->len != b->len || memcmp(a->says, b->says, a->len) != 0) {
        c->differing++;
        tell(c, a, b, "says something else");
    } else if (!is_dropped && (f == SIZE_MAX || !turn_to(c, f))) {
        c->unknown++;
        tell(c, a, b, f == SIZE_MAX ? "in no function" : c->plain.funcs.data[f].name);
    } else if (!is_dropped) {
        places(c, a, &lo, &hi);
        if (b->addr < lo || b->addr > hi) {
            c->differing++;
            tell(c, a, b, c->plain.funcs.data[f].name);
        }
    }
}

static int compare(struct comparison *c)
{
    size_t count = c->plain.rows.len, funcs = c->plain.funcs.len;
    if (count != c->rewritten.rows.len)
        return diag_error("%zu rows, now %zu", count, c->rewritten.rows.len);
    if (funcs != c->rewritten.funcs.len)
        return diag_error("%zu functions, now %zu", funcs, c->rewritten.funcs.len);
    for (size_t f = 0; f < funcs; f++)
        if (strcmp(c->plain.funcs.data[f].name, c->rewritten.funcs.data[f].name) != 0)
            return diag_error("%s is now %s", c->plain.funcs.data[f].name, c->rewritten.funcs.data[f].name);
    bool is_dropped = false;
    for (size_t i = 0; i < count; i++) {
        const struct row *a = &c->plain.rows.data[i];
        if (i == 0 || a[-1].is_end) /* linkers say 0, 1 or -1 of the place of what they dropped */
            is_dropped = a->addr <= 1 || a->addr >= UINT64_MAX - 1;
        compare_row(c, a, &c->rewritten.rows.data[i], is_dropped);
    }
    printf("rows %" PRIu64 " dropped %" PRIu64 " differing %" PRIu64 " unknown %" PRIu64 "\n", c->rows, c->dropped,
           c->differing, c->unknown);
    return 0;
}

int main(int argc, char **argv)
{
    struct comparison c = {.func = SIZE_MAX, .is_exact = argc == 6 && !strcmp(argv[1], "--exact")};
    argv += c.is_exact;
    if (argc != 5 + c.is_exact)
        return diag_error("rows: [--exact] PLAIN PLAIN-LINES REWRITTEN REWRITTEN-LINES") < 0 ? 2 : 0;
    int rc = program_open(argv[1], argv[2], &c.plain);
    rc = rc < 0 ? rc : program_open(argv[3], argv[4], &c.rewritten);
    rc = rc < 0 ? rc : compare(&c);
    program_close(&c.plain);
    program_close(&c.rewritten);
    return rc < 0 ? 2 : c.differing || c.unknown;
}
