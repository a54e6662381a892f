/* SPDX-License-Identifier: Apache-2.0
 *
 * report/html/data.h: the parts of the page about data objects.
 */
#ifndef MTOOL_REPORT_HTML_DATA_H
#define MTOOL_REPORT_HTML_DATA_H

#include "report/data.h"
#include "report/html/html.h"

enum { HTML_DATA = 60, HTML_DATA_LEAST = 10, HTML_DATA_LEVELS = 6 }; /* objects and levels that are shown */

struct html_data {
    size_t shown; /* objects that have a bar and an article, #d0 and on */
    uint32_t levels[HTML_DATA_LEVELS];
    size_t level_count;
    double max_share; /* of the stall, of the longest bar */
    bool is_timed;
    int decimals; /* of seconds */
};

/* data.c */
void html_level_heads(struct html_page *p, const struct html_data *d, const char *class);
void html_level_cells(struct html_page *p, const struct html_data *d, enum prof_data_owner owner, uint32_t id,
                      const char *class);
void html_data_levels(struct html_page *p, enum prof_data_owner owner, uint32_t id); /* a table, a row a level */
void html_data_bar(struct html_page *p, enum prof_data_owner owner, uint32_t id, double share, double max);
const char *html_data_cause_term(enum data_cause c); /* of the glossary; NULL: it has no word of its own */
void html_data_link(struct html_page *p, const struct html_data *d, uint32_t id);
const char *html_data_gain(struct html_page *p, const struct html_data *d, const struct prof_data_advice *x);
void html_data_sites(struct html_page *p, uint32_t sharing);

/* data_detail.c: an article an object */
void html_data_details(struct html_page *p, const struct html_data *d);

/* data_pictures.c: nothing if the profile has none; ID_NONE: of the program */
void html_data_curve(struct html_page *p, uint32_t object, const char *title);
void html_data_picture(struct html_page *p, uint32_t object);

#endif
