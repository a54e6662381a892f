/* SPDX-License-Identifier: Apache-2.0
 * The paper's text view: the whole source file of the chosen bottleneck, its lines marked, what was counted and
 * sampled on each line beside them; where there is none, and on request, its instructions. Above it what it loses. */
#include "report/view/view.h"

enum { MAX = 100000 }; /* lines */

struct widths { /* columns of figures */
    size_t samples, instructions, memory_ops, line;
    size_t stall; /* 0: none was found */
};
struct figures { /* of a line, as text */
    const char *samples, *instructions, *memory_ops, *line, *stall;
};

static const char *samples_of(struct view *v, const struct prof_line *l)
{
    double share = tour_line_share(&v->tour, l);
    return share > 0 ? figure_percent(v->page_texts, share) : "";
}

static const char *count_of(struct view *v, uint64_t n)
{
    return n && n != PROF_UNKNOWN ? figure_count(v->page_texts, n) : "";
}

enum { FIGURES_FROM = 50, INSTRUCTIONS_FROM = 100 }; /* columns of the screen */

static struct widths widths_of(struct view *v, const char *file, uint32_t last)
{
    struct widths w = {strlen("samp"), strlen("instr"), strlen("mem ops"), strlen("line"),
                       tour_has_stalls(&v->tour) ? strlen("stall") : 0};
    for (size_t i = 0; i < v->tour.r->line_count; i++) {
        const struct prof_line *l = v->tour.lines[i];
        if (!l->file || strcmp(l->file, file) != 0 || l->line > last)
            continue;
        w.samples = max_u64(w.samples, strlen(samples_of(v, l)));
        w.instructions = max_u64(w.instructions, strlen(count_of(v, l->instructions)));
        w.memory_ops = max_u64(w.memory_ops, strlen(count_of(v, l->memory_ops)));
    }
    return w;
}

static const char *head_of(struct view *v, const struct widths *w, const struct figures *f, char mark)
{
    unsigned columns = screen_columns(v->screen);
    const char *head = "";
    if (columns >= FIGURES_FROM)
        head = arena_printf(v->page_texts, "%*s ", (int)w->samples, f->samples);
    if (columns >= INSTRUCTIONS_FROM)
        head = arena_printf(v->page_texts, "%s%*s ", head, (int)w->instructions, f->instructions);
    if (columns >= FIGURES_FROM)
        head = arena_printf(v->page_texts, "%s%*s ", head, (int)w->memory_ops, f->memory_ops);
    if (columns >= FIGURES_FROM && w->stall)
        head = arena_printf(v->page_texts, "%s%*s ", head, (int)w->stall, f->stall);
    return arena_printf(v->page_texts, "%s%*s %c", head, (int)w->line, f->line, mark);
}

static const char marks[] = {[EXCERPT_OUTSIDE] = ' ', [EXCERPT_INNER] = ':', [EXCERPT_OWN] = '>'};
static const enum view_style marked_styles[] = {
    [EXCERPT_OUTSIDE] = STYLE_PLAIN, [EXCERPT_INNER] = STYLE_INNER, [EXCERPT_OWN] = STYLE_OWN};

static void add_line(struct view *v, const struct excerpt *x, const struct widths *w, uint32_t line)
{
    const struct prof_line *l = tour_line(&v->tour, x->object->file, line);
    enum excerpt_line b = excerpt_belongs(x, line);
    double stall = tour_stall(&v->tour, x->object->file, line, NULL);
    const struct figures f = {samples_of(v, l), count_of(v, l ? l->instructions : 0),
                              count_of(v, l ? l->memory_ops : 0), arena_printf(v->page_texts, "%u", line),
                              stall > 0 ? figure_percent(v->page_texts, stall) : ""};
    const char *head = head_of(v, w, &f, marks[b]);
    if (b == EXCERPT_OWN && v->first_own == SIZE_MAX)
        v->first_own = v->lines.len;
    view_add(v, marked_styles[b], head, source_line(v->page_texts, x->source, line));
}

static void add_source(struct view *v, const struct excerpt *x)
{
    uint32_t last = (uint32_t)min_u64(x->source->line_count, MAX);
    struct widths w = widths_of(v, x->object->file, last);
    view_add(v, STYLE_HEAD,
             head_of(v, &w,
                     &(struct figures){v->tour.lines_s > 0 ? tour_share_word(&v->tour) : "samp", "instr", "mem ops",
                                       "line", "stall"},
                     ' '),
             cell_safe(v->page_texts, x->source->path));
    for (uint32_t line = 1; line <= last; line++)
        add_line(v, x, &w, line);
}

/* Lines of a procedure may all be those of its loops: then the page begins with the first of these. */
static size_t first_marked(const struct view *v)
{
    for (size_t i = 0; i < v->lines.len; i++)
        if (v->lines.data[i].style == STYLE_INNER)
            return i;
    return 0;
}

static void add_insn(struct view *v, const struct listing *l, const struct widths *w, size_t i)
{
    const struct prof_insn *insn = l->insns[i];
    enum excerpt_line b = listing_belongs(&v->tour, l, insn);
    uint64_t memory_ops =
        insn->memory_ops && insn->count < PROF_UNKNOWN / insn->memory_ops ? insn->count * insn->memory_ops : 0;
    double share = (double)insn->samples / (double)v->tour.r->samples;
    bool has_samples = insn->samples && insn->samples != PROF_UNKNOWN && v->tour.r->samples != PROF_UNKNOWN;
    const struct figures f = {has_samples ? figure_percent(v->page_texts, share) : "", count_of(v, insn->count),
                              count_of(v, memory_ops),
                              arena_printf(v->page_texts, "%llx", (unsigned long long)insn->address), ""};
    const char *head = head_of(v, w, &f, marks[b]);
    if (listing_has_gap(l, i))
        view_add(v, STYLE_DIM, "", "...");
    if (b == EXCERPT_OWN && v->first_own == SIZE_MAX)
        v->first_own = v->lines.len;
    view_add(v, marked_styles[b], head, insn->text ? cell_safe(v->page_texts, insn->text) : "?");
}

static void add_listing(struct view *v, const struct prof_object *o)
{
    struct listing l;
    struct widths w = {strlen("samp"), strlen("executed"), strlen("mem ops"), strlen("address"), 0};
    listing_open(&v->tour, o, &l);
    if (!l.count)
        return;
    for (size_t i = 0; i < l.count; i++) {
        w.instructions = max_u64(w.instructions, strlen(count_of(v, l.insns[i]->count)));
        w.memory_ops = max_u64(w.memory_ops, strlen(count_of(v, 2 * l.insns[i]->count)));
    }
    view_add(v, STYLE_HEAD, head_of(v, &w, &(struct figures){"samp", "executed", "mem ops", "address", ""}, ' '),
             "Instructions");
    for (size_t i = 0; i < l.count; i++)
        add_insn(v, &l, &w, i);
}

void source_build(struct view *v)
{
    const struct prof_object *o = view_object(v);
    struct excerpt x;
    v->tour.texts = v->page_texts;
    excerpt_open(&v->tour, o, MAX, &x);
    const char *problem = excerpt_problem(&v->tour, &x);
    if (problem && !v->wants_insns)
        view_add_wrapped(v, STYLE_HEAD, "", problem);
    if (x.state == EXCERPT_FOUND && !v->wants_insns)
        add_source(v, &x);
    else
        add_listing(v, o);
    excerpt_close(&x);
    if (v->first_own == SIZE_MAX)
        v->first_own = first_marked(v);
}

/* ---- above it ---- */

/* "memory 0.340 s (0.310..0.370), 87% (79%..95%) of the whole overhead", then what each operation costs more. */
static void put_facts(struct view *v, const struct prof_object *o, const char *lines[2])
{
    struct facts f;
    facts_top(&v->tour, o, &f);
    for (size_t i = 0; i < f.count; i++) {
        const struct fact *x = &f.list[i];
        bool is_word_first = x->term && strcmp(x->term, "extra") != 0;
        const char *word = x->term && strcmp(x->term, "memory") == 0 ? "memory" : x->word, **line = &lines[i >= 2];
        *line = arena_printf(v->frame, "%s%s%s %s", *line, **line ? ", " : "", is_word_first ? word : x->text,
                             is_word_first ? x->text : word);
    }
}

unsigned source_height_of_top(const struct view *v)
{
    const struct prof_object *o = view_object(v);
    return o && o->is_significant ? 3 : 4;
}

void source_paint_top(struct view *v)
{
    const struct prof_object *o = view_object(v);
    const char *lines[3] = {"", "", o->is_significant ? "" : "overhead not significant"};
    put_facts(v, o, lines);
    view_put(v, 0, STYLE_TITLE,
             arena_printf(v->frame, "%zu of %zu  %s  %s %s", v->at + 1, view_rows(v), tour_name(&v->tour, o),
                          prof_kind_name[o->kind], tour_place(&v->tour, o)));
    for (unsigned i = 0; i + 1 < source_height_of_top(v); i++)
        view_put(v, 1 + i, STYLE_HEAD, lines[i]);
}
