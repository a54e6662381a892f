/* SPDX-License-Identifier: Apache-2.0
 * How ranks and threads shared the work: the tables of mtool report --by rank and --by thread, as wide as the screen
 * and with all their rows. */
#include "report/view/view.h"

static bool has_ranks(const struct view *v) { return v->tour.r->rank_row_count != 0; }

const char *shares_title(const struct view *v) { return has_ranks(v) ? "Ranks, then their threads" : "Threads"; }

typedef void table_fn(const struct prof_result *r, const struct report_options *o, struct arena *a, struct strbuf *out);

static void add_table(struct view *v, table_fn *put)
{
    enum { MIN = 72 }; /* columns; arrows move what a smaller screen cuts */
    const struct report_options o = {.all = true, .columns = (unsigned)max_u64(screen_columns(v->screen), MIN)};
    struct strbuf text = {0};
    put(v->tour.r, &o, v->page_texts, &text);
    view_add_text(v, STYLE_PLAIN, "", text.data);
    str_free(&text);
}

void shares_build(struct view *v)
{
    v->first_own = 0;
    if (has_ranks(v)) {
        add_table(v, ranks_put);
        view_add(v, STYLE_PLAIN, "", "");
    }
    add_table(v, threads_put);
}
