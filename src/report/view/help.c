/* SPDX-License-Identifier: Apache-2.0
 * What the keys do: a line at the bottom of each page, and a page of its own. */
#include "report/view/view.h"

static const char *const lines[VIEW_PAGE_COUNT] = {
    [VIEW_HISTOGRAM] = "Enter source  i info  t threads  / search  s sort  a all  ? help  q quit",
    [VIEW_SOURCE] = "n next  p previous  i info  d instructions  / search  ? help  q back",
    [VIEW_INFO] = "n next  p previous  Enter source  arrows move  / search  ? help  q back",
    [VIEW_SHARES] = "arrows move  / search  ? help  q back",
    [VIEW_DATA] = "arrows move  / search  ? help  q back",
    [VIEW_HELP] = "q back",
};

static const struct {
    const char *keys, *text;
} keys[] = {
    {"Up, Down, k, j", "move by a row or a line"},
    {"Page Up, Page Down, Space", "move by a screen"},
    {"Home, End, g, G", "to the first, to the last"},
    {"Left, Right, h, l", "move long lines sideways"},
    {"Enter",
     "source of the chosen loop or procedure, with its lines marked: > its own, : those of loops inside of it"},
    {"n, p",
     "the next and the previous one, in the order of the histogram: the source page shows one bottleneck at a time"},
    {"i", "INFO: all that is known of it, then the warnings and what was not counted"},
    {"t", "what each rank of a merged profile and each thread did with its time, and where they waited for each other"},
    {"o", "data objects, where mtool spy followed the references: what of the memory stall is theirs, and why"},
    {"d", "instructions in place of source, and back; without source they are shown at once"},
    {"s", "order by memory, actual or ideal time, overhead, instructions"},
    {"a", "all loops and procedures, or only those with some time or memory overhead"},
    {"/", "search; Enter alone searches the same on"},
    {"?", "this page"},
    {"q, Escape, Backspace", "back; q leaves from the histogram"},
    {"Control-L", "paint the screen anew"},
};

const char *help_line(const struct view *v)
{
    return strlen(lines[v->page]) <= screen_columns(v->screen) ? lines[v->page] : "? help  q back";
}

void help_build(struct view *v)
{
    v->first_own = 0;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        view_add_wrapped(v, STYLE_PLAIN, arena_printf(v->page_texts, "%-26s ", keys[i].keys), keys[i].text);
    view_add(v, STYLE_PLAIN, "", "");
    view_add_wrapped(v, STYLE_PLAIN, "",
                     "A bar is the time of the object alone: ideal (every access hits the first-level cache), "
                     "mispredicted branches, and what memory costs beyond. Called functions and inner loops "
                     "have rows of their own. Intervals hold the figure in 95 of 100 cases: of a measured one, "
                     "and of a loss, what another job would say.");
}
