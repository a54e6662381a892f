/* SPDX-License-Identifier: Apache-2.0
 * INFO: all that is known of the chosen object, how its memory operations are shared out among the loops inside of it;
 * then what the program as a whole has to be read with: its warnings, and what was not counted. */
#include <math.h>

#include "report/view/view.h"

static void add_fact(struct view *v, const struct fact *f)
{
    enum { WORD = 22 };
    const char *word = f->word;
    if (strlen(word) > WORD) {
        view_add(v, STYLE_PLAIN, "", word);
        word = "";
    }
    view_add_wrapped(v, STYLE_PLAIN, arena_printf(v->page_texts, "%-*s ", WORD, word), f->text);
}

static void add_part(struct view *v, const struct facts_part *x)
{
    const char *s = tour_interval(&v->tour, &x->memory_s);
    const char *what = "itself";
    if (x->object)
        what = arena_printf(v->page_texts, "%s %s", tour_name(&v->tour, x->object), tour_place(&v->tour, x->object));
    view_add(v, STYLE_PLAIN,
             arena_printf(v->page_texts, "%16s %6s  %-24s ", figure_count(v->page_texts, x->memory_ops),
                          figure_percent(v->page_texts, x->share), s ? s : "?"),
             cell_safe(v->page_texts, what));
}

static void add_parts(struct view *v, const struct prof_object *o)
{
    const struct facts_part *parts;
    size_t count = facts_of_parts(&v->tour, o, &parts);
    if (!count)
        return;
    view_add(v, STYLE_PLAIN, "", "");
    view_add(v, STYLE_HEAD, "      memory ops  share  memory overhead",
             "          in it and in the loops inside of it");
    for (size_t i = 0; i < count; i++)
        add_part(v, &parts[i]);
}

static void add_calls(struct view *v, const struct prof_object *o)
{
    const struct prof_call *calls;
    size_t count = facts_of_calls(&v->tour, o, &calls);
    if (!count)
        return;
    view_add(v, STYLE_PLAIN, "", "");
    view_add(v, STYLE_HEAD, "      memory ops          calls  ", "in what it calls (shared out by calls)");
    for (size_t i = 0; i < count; i++) {
        const struct prof_object as = {.function = calls[i].function};
        const char *module = calls[i].module ? cell_safe(v->page_texts, file_base_name(calls[i].module)) : "?";
        const char *times = arena_printf(v->page_texts, "%s%s", calls[i].is_estimated ? "~" : "",
                                         figure_count(v->page_texts, calls[i].calls));
        view_add(v, STYLE_PLAIN,
                 arena_printf(v->page_texts, "%16s %14s  ", figure_count(v->page_texts, calls[i].memory_ops), times),
                 arena_printf(v->page_texts, "%s in %s", tour_name(&v->tour, &as), module));
    }
}

static void add_object(struct view *v, const struct prof_object *o)
{
    struct facts f;
    facts_top(&v->tour, o, &f);
    for (size_t i = 0; i < f.count; i++)
        add_fact(v, &f.list[i]);
    view_add(v, STYLE_PLAIN, "", "");
    facts_info(&v->tour, o, &f);
    for (size_t i = 0; i < f.count; i++)
        add_fact(v, &f.list[i]);
    const struct prof_object *up = tour_parent(&v->tour, o);
    if (up)
        view_add_wrapped(v, STYLE_PLAIN, "Inside of ",
                         arena_printf(v->page_texts, "%s %s %s", prof_kind_name[up->kind], tour_name(&v->tour, up),
                                      tour_place(&v->tour, up)));
    add_parts(v, o);
    add_calls(v, o);
}

static void add_refused(struct view *v)
{
    enum { REFUSED_MAX = 20 };
    const struct prof_result *r = v->tour.r;
    if (!r->refused_count)
        return;
    view_add(v, STYLE_PLAIN, "", "");
    view_add(v, STYLE_HEAD, "", "Not counted");
    for (size_t i = 0; i < r->refused_count && i < REFUSED_MAX; i++) {
        const struct prof_refused *x = &r->refused[i];
        const char *module = x->module ? file_base_name(x->module) : "?";
        const char *share = isnan(x->time_share) ? ""
                                                 : arena_printf(v->page_texts, " (%s of user time)",
                                                                figure_percent(v->page_texts, x->time_share));
        const char *name = x->function ? name_brief(v->page_texts, name_plain(v->page_texts, x->function)) : "all";
        view_add_wrapped(
            v, STYLE_PLAIN, "- ",
            arena_printf(v->page_texts, "%s in %s%s: %s", name, module, share, x->reason ? x->reason : "unknown"));
    }
    if (r->refused_count > REFUSED_MAX)
        view_add(
            v, STYLE_DIM, "",
            arena_printf(v->page_texts, "%zu more (mtool report --json lists them)", r->refused_count - REFUSED_MAX));
}

static void add_warnings(struct view *v)
{
    const struct prof_result *r = v->tour.r;
    const char *failed = banner_sentence(r, v->page_texts);
    view_add(v, STYLE_PLAIN, "", "");
    if (failed)
        view_add_wrapped(v, STYLE_HEAD, "", failed);
    view_add(v, STYLE_HEAD, "",
             r->warning_count ? "Warnings (mtool help WARNING explains the word in brackets)" : "No warnings");
    for (size_t i = 0; i < r->warning_count; i++)
        view_add_wrapped(v, STYLE_PLAIN, "- ",
                         arena_printf(v->page_texts, "%s [%s]", name_warning_text(v->page_texts, &r->warnings[i]),
                                      r->warnings[i].id ? r->warnings[i].id : "?"));
}

void info_build(struct view *v)
{
    const struct prof_object *o = view_object(v);
    v->tour.texts = v->page_texts;
    v->first_own = 0;
    if (o)
        add_object(v, o);
    add_warnings(v);
    add_refused(v);
}
