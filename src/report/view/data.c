/* SPDX-License-Identifier: Apache-2.0
 * What mtool spy found: the tables of mtool report --by data and its kin, one behind the other, as wide as the screen
 * and with all their rows. */
#include "report/data.h"
#include "report/view/view.h"

void data_build(struct view *v)
{
    enum { MIN = 72 }; /* columns; arrows move what a smaller screen cuts */
    static const unsigned tables[] = {REPORT_BY_DATA,  REPORT_BY_ADVICE,  REPORT_BY_CELL,    REPORT_BY_LINE,
                                      REPORT_BY_FIELD, REPORT_BY_SHARING, REPORT_BY_PROCESS, REPORT_BY_CURVE};
    v->first_own = 0;
    for (size_t i = 0; i < (v->tour.r->spy_count ? ARRAY_LEN(tables) : 1); i++) {
        if (tables[i] == REPORT_BY_PROCESS && !v->tour.r->data_process_count)
            continue;
        const struct report_options o = {
            .all = true, .by = tables[i], .columns = (unsigned)max_u64(screen_columns(v->screen), MIN)};
        struct strbuf text = {0};
        if (i)
            view_add(v, STYLE_PLAIN, "", "");
        data_put(v->tour.r, &o, v->page_texts, &text);
        view_add_text(v, STYLE_PLAIN, "", text.data);
        str_free(&text);
    }
}
