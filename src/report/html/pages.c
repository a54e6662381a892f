/* SPDX-License-Identifier: Apache-2.0
 * The paper's Figure 13: for each policy of mapping pages, which of them share a bin of the caches, numbered and shaded
 * by use. Left out of pages that have none. */
#include <math.h>
#include <stdlib.h>

#include "report/html/html.h"

enum { PAGES_IN_BIN = 8 };

struct bins { /* of a policy and side */
    struct html_page *p;
    const char *policy, *side;
    uint32_t count;
    double all; /* uses */
    const struct prof_page **list;
    size_t list_count;
};

static int by_use(const void *x, const void *y)
{
    const struct prof_page *a = *(const struct prof_page *const *)x, *b = *(const struct prof_page *const *)y;
    return a->uses != b->uses ? (a->uses < b->uses ? 1 : -1) : (a > b) - (a < b);
}

static void gather(struct bins *b, uint32_t bin)
{
    const struct prof_result *r = b->p->r;
    b->list_count = 0;
    for (size_t i = 0; i < r->page_bin_count; i++) {
        const struct prof_page_bin *at = &r->page_bins[i];
        const struct prof_page *page = &r->pages[at->page];
        if (at->bin == bin && strcmp(at->policy, b->policy) == 0 && strcmp(page->side, b->side) == 0)
            b->list[b->list_count++] = page;
    }
    qsort(b->list, b->list_count, sizeof *b->list, by_use);
}

static void put_page(struct html_page *p, const struct prof_page *page)
{
    static const char *const glyphs[] = {"&#183;", "&#9618;", "&#9608;"};
    html_puts(p, "<span");
    html_attribute(p, "title",
                   arena_printf(p->a, "%s 0x%llx, %s uses", page->program ? page->program : "?",
                                (unsigned long long)page->address, figure_count(p->a, page->uses)));
    html_puts(p, ">");
    html_text(p, page->program);
    str_printf(p->out, "&#160;%u&#160;<code>", page->number);
    for (const char *s = page->shades ? page->shades : ""; *s; s++)
        html_puts(p, *s >= '0' && *s <= '2' ? glyphs[*s - '0'] : "?");
    html_puts(p, "</code></span> ");
}

static void put_bin(struct bins *b, uint32_t bin)
{
    struct html_page *p = b->p;
    double used = 0;
    gather(b, bin);
    for (size_t i = 0; i < b->list_count; i++)
        used += (double)b->list[i]->uses;
    str_printf(p->out, "<tr><th scope=\"row\" class=\"n\">%u</th>", bin);
    html_cell(p, "n", arena_printf(p->a, "%zu", b->list_count));
    html_cell(p, "n", figure_percent(p->a, b->all > 0 ? used / b->all : NAN));
    html_puts(p, "<td>");
    for (size_t i = 0; i < b->list_count && i < PAGES_IN_BIN; i++)
        put_page(p, b->list[i]);
    html_puts(p, b->list_count > PAGES_IN_BIN ? "&#8230;</td></tr>\n" : "</td></tr>\n");
}

static void put_policy(struct bins *b)
{
    static const struct html_column columns[] = {
        {"n", "bin"}, {"n", "pages"}, {"n", "use"}, {"", "of most use: program, number, shades"}};
    struct html_page *p = b->p;
    const struct prof_result *r = p->r;
    b->all = 0;
    for (size_t i = 0; i < r->page_count; i++)
        b->all += strcmp(r->pages[i].side, b->side) == 0 ? (double)r->pages[i].uses : 0;
    html_puts(p, "<details><summary>");
    html_text(p, arena_printf(p->a, "%s, %s", b->policy, b->side));
    html_puts(p, "</summary>\n");
    html_table(p, arena_printf(p->a, "pages in bins"), columns, ARRAY_LEN(columns));
    for (uint32_t bin = 0; bin < b->count; bin++)
        put_bin(b, bin);
    html_table_end(p);
    html_puts(p, "</details>\n");
}

void html_pages(struct html_page *p)
{
    static const char *const sides[] = {"code", "data"};
    const struct prof_result *r = p->r;
    struct bins b = {.p = p};
    if (!r->page_bin_count)
        return;
    html_section(p, "pages", "Pages", "Pages in the bins of the caches");
    html_puts(p,
              "<p class=\"note\">With each policy of mapping pages: which of them share a bin, those of most use "
              "first, numbered among their program's. Their sixteenths are black (the parts that make up 90&#160;% of "
              "the program's uses), grey (up to 99&#160;%) or white; pages that are white are not shown.</p>\n");
    b.list = ARENA_ARRAY(p->a, const struct prof_page *, r->page_bin_count + 1);
    for (size_t i = 0; i < r->page_bin_count; i++)
        b.count = (uint32_t)max_u64(b.count, r->page_bins[i].bin + 1ull);
    b.count = (uint32_t)min_u64(b.count, 256);
    for (size_t i = 0; i < r->page_bin_count && r->page_bins[i].page == r->page_bins[0].page; i++)
        for (unsigned side = 0; side < ARRAY_LEN(sides); side++) {
            b.policy = r->page_bins[i].policy;
            b.side = sides[side];
            put_policy(&b);
        }
    html_puts(p, "</section>\n");
}
