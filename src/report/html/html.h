/* SPDX-License-Identifier: Apache-2.0
 *
 * report/html/html.h: what the parts of the HTML page share. Every text of the profile goes through html_text, which
 * makes it harmless; all other markup is written by us, well-formed as XML too, so that a strict reader can check it.
 */
#ifndef MTOOL_REPORT_HTML_H
#define MTOOL_REPORT_HTML_H

#include "report/tour.h"

enum {                              /* so that the page of a large program stays below 3 MB and opens at once */
       HTML_OBJECTS = 100,          /* that have a bar and a section of their own */
       HTML_SOURCE_BYTES = 1600000, /* of the page, for source; further objects say where theirs is */
       HTML_SOURCE_LINES = 200,     /* of one object */
       HTML_INSNS_BYTES = 500000,   /* of the page, for instructions */
       HTML_INSNS = 200, /* of one object; more than HTML_INSNS_AROUND: only its own and those inside of it */
       HTML_INSNS_AROUND = 120,
       HTML_COLUMNS = 240,     /* of a source line */
       HTML_DEPTH = 12,        /* of the loop tree */
       HTML_REFUSED = 200,     /* rows of what was not counted */
       HTML_REFUSED_FIRST = 8, /* of them those that are seen at once */
       HTML_MODULES = 200,
       HTML_PROCESSES = 200
};

struct html_page {
    const struct prof_result *r;
    const struct report_html_options *o;
    struct strbuf *out; /* the sections */
    struct strbuf nav;  /* a link to each of them */
    struct arena *a;
    struct tour tour;
    size_t source_bytes, insns_bytes; /* of the page so far */
};

/* ---- put.c: text that is harmless, figures that have their interval ---- */

void html_cell(struct html_page *p, const char *class, const char *text);
void html_text(struct html_page *p, const char *text); /* "?" for NULL */
void html_attribute(struct html_page *p, const char *name, const char *text);
void html_puts(struct html_page *p, const char *markup);               /* ours, as it is */
void html_term(struct html_page *p, const char *id, const char *word); /* a link to the glossary */
/* A row of two cells: the term with a link if `id` is one, and a text. Left out if the text is NULL. */
void html_fact(struct html_page *p, const char *id, const char *word, const char *text);
void html_fact_count(struct html_page *p, const char *id, const char *word, uint64_t n); /* left out if unknown */
/* The beginning of a section, and a link to it on top of the page. */
void html_section(struct html_page *p, const char *id, const char *link, const char *title);
struct html_column {
    const char *class, *head; /* markup */
};
/* A table as far as its first row, which moves sideways where it is too wide; label: for who cannot see it. */
void html_table(struct html_page *p, const char *label, const struct html_column *columns, size_t n);
void html_table_end(struct html_page *p);
/* Where the other count - shown are, if there are any. */
void html_more(struct html_page *p, size_t count, size_t shown, const char *options);

/* ---- page.c ---- */

/* The whole page around its sections; leaves these and the links to them freed. first: what stands before all else,
 * NULL: nothing. */
void html_put_page(struct html_page *p, const char *title, const char *first, struct strbuf *out);

/* ---- bars.c ---- */

/* Ideal, branch and memory part side by side on a scale that ends at `max` seconds, with the memory part's interval.
 */
void html_bar(struct html_page *p, double ideal, double branch, const struct prof_interval *memory, double max);
void html_legend(struct html_page *p);
void html_histogram(struct html_page *p);

/* ---- the page's other parts ---- */

void html_overview(struct html_page *p);                        /* overview.c */
void html_details(struct html_page *p);                         /* detail.c: a section for each of the first objects */
void html_steps(struct html_page *p, size_t row, size_t count); /* PREV and NEXT of section `row` */
void html_facts(struct html_page *p, const struct facts *f);
void html_tree(struct html_page *p);    /* tree.c */
void html_pages(struct html_page *p);   /* pages.c: nothing without policies of mapping pages */
void html_ranks(struct html_page *p);   /* ranks.c: nothing if the profile was not merged */
void html_data(struct html_page *p);    /* data.c: what mtool spy found; nothing if it found nothing */
void html_threads(struct html_page *p); /* threads.c: nothing if there is one */
void html_glossary(struct html_page *p);
void html_rest(struct html_page *p); /* rest.c: warnings, what was not counted, modules, glossary */
/* source.c: the lines around an object, its own marked; false: there are none. row: that of its section */
bool html_source(struct html_page *p, const struct prof_object *o, size_t row);
void html_listing(struct html_page *p, const struct prof_object *o, size_t row,
                  bool is_open);                                     /* listing.c: its instructions, likewise */
void html_heat(struct html_page *p, uint64_t samples, uint64_t all); /* a cell of a table */

#endif
