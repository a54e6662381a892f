/* SPDX-License-Identifier: Apache-2.0
 * The marks of pages that the paper's Figure 13 proposes, by how a run used them: shades, of parts of a page, so that
 * parts of one shade should not meet in a bin of the cache; and numbers, in the order of use. Of each program, and of
 * its code and its data apart, since each side has bins of its own. */
#include "monster/impl.h"

#include <math.h>
#include <stdlib.h>

enum { SHOWN_IN_BIN = 4, NAME_MAX_SHOWN = 10, CHARS = WIRE_PAGE_PARTS / 2 };
#define BLACK 0.9 /* the parts of most use that make up so much of a program's are black, up to the next share grey */
#define GREY 0.99

const char *const monster_side_names[MONSTER_SIDES] = {"data", "code"};

/* ---- marks ---- */

struct part { /* of a page */
    struct monster_page *page;
    unsigned at;
    uint64_t uses;
};
typedef VEC(struct part) part_vec;

static int by_uses(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->uses != y->uses)
        return x->uses < y->uses ? 1 : -1;
    if (x->page != y->page)
        return x->page > y->page ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

uint64_t monster_page_uses(const struct monster_page *p, unsigned side)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < WIRE_PAGE_PARTS; i++)
        sum += p->of[side][i];
    return sum;
}

void monster_page_shades(const struct monster_page *p, unsigned side, char out[WIRE_PAGE_PARTS + 1])
{
    for (unsigned i = 0; i < WIRE_PAGE_PARTS; i++)
        out[i] = (char)('0' + p->shade[side][i]);
    out[WIRE_PAGE_PARTS] = 0;
}

/* A page counts as one part here. */
static void number(part_vec *list, unsigned side)
{
    if (list->len)
        qsort(list->data, list->len, sizeof *list->data, by_uses);
    for (size_t i = 0; i < list->len; i++)
        list->data[i].page->number[side] = (uint32_t)i + 1;
}

static void shade(part_vec *list, unsigned side)
{
    double all = 0, before = 0;
    for (size_t i = 0; i < list->len; i++)
        all += (double)list->data[i].uses;
    if (list->len)
        qsort(list->data, list->len, sizeof *list->data, by_uses);
    for (size_t i = 0; i < list->len; i++) {
        const struct part *p = &list->data[i];
        p->page->shade[side][p->at] = (uint8_t)(before < BLACK * all ? 2 : before < GREY * all);
        before += (double)p->uses;
    }
}

static void mark_program(struct monster_result *r, const char *program, unsigned side)
{
    part_vec pages = {0}, parts = {0};
    for (size_t i = 0; i < r->pages.len; i++) {
        struct monster_page *p = &r->pages.data[i];
        uint64_t uses = monster_page_uses(p, side);
        if (strcmp(p->program, program) != 0 || !uses)
            continue;
        VEC_PUSH(&pages, ((struct part){p, 0, uses}));
        for (unsigned k = 0; k < WIRE_PAGE_PARTS; k++)
            if (p->of[side][k])
                VEC_PUSH(&parts, ((struct part){p, k, p->of[side][k]}));
    }
    number(&pages, side);
    shade(&parts, side);
    VEC_FREE(&pages);
    VEC_FREE(&parts);
}

void monster_mark_pages(struct monster_result *r)
{
    for (size_t i = 0; i < r->pages.len; i++) {
        bool is_first = true;
        for (size_t k = 0; k < i && is_first; k++)
            is_first = strcmp(r->pages.data[k].program, r->pages.data[i].program) != 0;
        for (unsigned side = 0; is_first && side < MONSTER_SIDES; side++)
            mark_program(r, r->pages.data[i].program, side);
    }
}

void monster_put_marks(const struct monster_result *r, struct strbuf *out)
{
    for (size_t i = 0; i < r->pages.len; i++) {
        const struct monster_page *p = &r->pages.data[i];
        str_printf(out, "%llx %u %u", (unsigned long long)p->address, p->number[0], p->number[1]);
        for (unsigned side = 0; side < MONSTER_SIDES; side++) {
            str_puts(out, " ");
            for (unsigned k = 0; k < WIRE_PAGE_PARTS; k++)
                str_printf(out, "%u", p->shade[side][k]);
        }
        str_printf(out, " %s\n", p->program);
    }
}

/* ---- bins ---- */

/* Uses of parts that stand where a part of more use stands too. */
static double clash_of(struct monster_page *const *pages, size_t count, unsigned side)
{
    double sum = 0;
    for (unsigned k = 0; k < WIRE_PAGE_PARTS; k++) {
        uint64_t all = 0, most = 0;
        for (size_t i = 0; i < count; i++) {
            all += pages[i]->of[side][k];
            most = max_u64(most, pages[i]->of[side][k]);
        }
        sum += (double)(all - most);
    }
    return sum;
}

struct by_use {
    unsigned side;
};
static int by_page_use(const void *a, const void *b, void *ctx)
{
    const struct monster_page *x = *(struct monster_page *const *)a, *y = *(struct monster_page *const *)b;
    unsigned side = ((const struct by_use *)ctx)->side;
    uint64_t p = monster_page_uses(x, side), q = monster_page_uses(y, side);
    return p != q ? (p < q ? 1 : -1) : (x > y) - (x < y);
}

size_t monster_pages_in(const struct monster_result *r, size_t policy, uint64_t bin, unsigned side,
                        struct monster_page **out)
{
    struct by_use how = {side};
    size_t n = 0;
    for (size_t i = 0; i < r->pages.len; i++)
        if (r->pages.data[i].bins[policy] == bin && r->pages.data[i].number[side])
            out[n++] = &r->pages.data[i];
    qsort_r(out, n, sizeof *out, by_page_use, &how);
    return n;
}

/* Two parts a character. */
static void put_page(struct arena *a, const struct monster_page *p, unsigned side, struct strbuf *out)
{
    static const char shades[] = ".+#";
    str_printf(out, "  %.*s.%u ", NAME_MAX_SHOWN, str_printable(a, p->program), p->number[side]);
    for (unsigned k = 0; k < CHARS; k++) {
        unsigned first = p->shade[side][2 * k], second = p->shade[side][2 * k + 1];
        str_printf(out, "%c", shades[first > second ? first : second]);
    }
}

static const char *share_of(struct arena *a, double part, double whole)
{
    return monster_fixed(a, whole > 0 ? 100 * part / whole : NAN, 1);
}

static void put_policy(struct arena *a, const struct monster_result *r, size_t policy, unsigned side,
                       struct strbuf *out)
{
    const struct monster_map *m = &r->maps.data[policy];
    struct monster_page **list = ARENA_ARRAY(a, struct monster_page *, r->pages.len + 1);
    double all = 0, clashes = 0;
    for (size_t i = 0; i < r->pages.len; i++)
        all += (double)monster_page_uses(&r->pages.data[i], side);
    str_printf(out, "\n%s, %s\n  bin  pages   use%% clash%%\n", m->name, monster_side_names[side]);
    for (uint64_t bin = 0; bin < m->bins; bin++) {
        size_t n = monster_pages_in(r, policy, bin, side, list);
        double used = 0;
        double clash = clash_of(list, n, side);
        for (size_t i = 0; i < n; i++)
            used += (double)monster_page_uses(list[i], side);
        str_printf(out, "%5llu %6zu %6s %6s", (unsigned long long)bin, n, share_of(a, used, all),
                   share_of(a, clash, all));
        for (size_t i = 0; i < n && i < SHOWN_IN_BIN; i++)
            put_page(a, list[i], side, out);
        str_puts(out, "\n");
        clashes += clash;
    }
    str_printf(out, "  all        %13s\n", share_of(a, clashes, all));
}

void monster_put_pages(const struct monster_result *r, struct strbuf *out)
{
    struct arena *a = arena_new();
    str_printf(out,
               "Figure 13: pages in the bins of the caches, numbered and shaded by use: %s\n\n"
               "  Of each bin the pages of most use: PROGRAM.NUMBER and its parts in eighths. # black: the parts that\n"
               "  make up 90 %% of the program's use; + grey: up to 99 %%; . white. clash: uses of parts\n"
               "  that stand where a part of more use stands too.\n",
               str_printable(a, r->command));
    for (size_t i = 0; i < r->maps.len; i++)
        for (unsigned side = MONSTER_SIDES; side-- > 0;)
            put_policy(a, r, i, side, out);
    arena_free(a);
}
