/* SPDX-License-Identifier: Apache-2.0
 * The language into tables: lines of words; doc/states.md draws the grammar. Stops at the first thing that is wrong. */
#include "states/states.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>

enum { WORDS_MAX = 64 };

const char *const states_classes[] = {"nops",   "jumps", "branches", "loads",   "stores", "alu",
                                      "muldiv", "float", "system",   "markers", NULL};

struct word {
    char *text;
    unsigned column;
};
struct parser {
    const char *name;
    unsigned line;
    struct states_program *p;
    struct word words[WORDS_MAX];
    size_t count;
    bool analyser;
    VEC(struct word) gotos; /* names of states, as transitions are met; lines in `goto_lines` */
    VEC(unsigned) goto_lines;
};

__attribute__((format(printf, 3, 4))) static int wrong(const struct parser *p, unsigned column, const char *fmt, ...)
{
    struct strbuf text = {0};
    char buffer[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buffer, sizeof buffer, fmt, ap);
    va_end(ap);
    str_puts(&text, buffer);
    diag_error("%s:%u:%u: %s", p->name, p->line, column, text.data);
    str_free(&text);
    return -1;
}

/* ---- words ---- */

static int split(struct parser *p, char *line)
{
    p->count = 0;
    line[strcspn(line, "#")] = 0;
    for (char *at = line; *(at += strspn(at, " \t\r"));) {
        size_t len = strcspn(at, " \t\r");
        if (p->count == WORDS_MAX)
            return wrong(p, (unsigned)(at - line) + 1, "more than %d words in a line", WORDS_MAX);
        p->words[p->count++] = (struct word){arena_strndup(p->p->arena, at, len), (unsigned)(at - line) + 1};
        at += len;
    }
    return 0;
}

static bool is_name(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '_')
        return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && *text != '_' && *text != '-')
            return false;
    return true;
}

static int need_name(const struct parser *p, size_t i, const char *what)
{
    if (i >= p->count)
        return wrong(p, p->words[p->count - 1].column, "the %s needs a name", what);
    return is_name(p->words[i].text)
               ? 0
               : wrong(p, p->words[i].column, "'%s' is no name: letters, digits, - and _", p->words[i].text);
}

/* ---- numbers and places ---- */

static bool take_number(const char *text, uint64_t *out, const char **end)
{
    char *behind;
    if (!isdigit((unsigned char)*text))
        return false;
    *out = strtoull(text, &behind, 0);
    *end = behind;
    return true;
}

/* "0x1000" or "0x1000..0x1fff" */
static bool take_range(const char *text, struct states_range *out)
{
    const char *end;
    if (!take_number(text, &out->first, &end))
        return false;
    out->last = out->first;
    if (strncmp(end, "..", 2) == 0 && !take_number(end + 2, &out->last, &end))
        return false;
    return !*end && out->last >= out->first;
}

/* A list with commas, of addresses and of names of functions. */
static int take_places(const struct parser *p, const struct word *w, char *text, void *names_, void *ranges_)
{
    VEC(struct states_name) *names = names_;
    VEC(struct states_range) *ranges = ranges_;
    char *state = NULL;
    for (char *one = strtok_r(text, ",", &state); one; one = strtok_r(NULL, ",", &state)) {
        struct states_range r;
        struct states_name n = {.text = one, .line = p->line, .column = w->column + (unsigned)(one - w->text)};
        if (take_range(one, &r))
            VEC_PUSH(ranges, r);
        else if (isdigit((unsigned char)*one))
            return wrong(p, n.column, "'%s' is no address: 0xNUMBER or 0xFIRST..0xLAST", one);
        else
            VEC_PUSH(names, n);
    }
    return 0;
}

/* ---- conditions of a pattern ---- */

typedef int (*condition_fn)(const struct parser *p, const struct word *w, char *value, struct states_pattern *out);

static int set_pc(const struct parser *p, const struct word *w, char *value, struct states_pattern *out)
{
    out->has_pc = true;
    return take_places(p, w, value, &out->pc, &out->pc_ranges);
}

static int set_in(const struct parser *p, const struct word *w, char *value, struct states_pattern *out)
{
    out->has_in = true;
    return take_places(p, w, value, &out->in, &out->in_ranges);
}

static int index_of(const char *const *list, const char *value)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(list[i], value) == 0)
            return i;
    return -1;
}

/* One of these words, whose index goes to *to. */
static int set_choice(const struct parser *p, const struct word *w, const char *value, const char *const *list, int *to)
{
    struct strbuf all = {0};
    *to = index_of(list, value);
    if (*to >= 0)
        return 0;
    for (int i = 0; list[i]; i++)
        str_printf(&all, "%s%s", i ? ", " : "", list[i]);
    wrong(p, w->column, "'%s' is none of %s", value, all.data);
    str_free(&all);
    return -1;
}

static int set_mode(const struct parser *p, const struct word *w, char *value, struct states_pattern *out)
{
    static const char *const modes[] = {"user", "kernel", NULL};
    return set_choice(p, w, value, modes, &out->mode);
}

static int set_class(const struct parser *p, const struct word *w, char *value, struct states_pattern *out)
{
    return set_choice(p, w, value, states_classes, &out->class);
}

static int digit_of(char c) { return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* Hexadecimal digits; a point stands for any. */
static int set_bytes(const struct parser *p, const struct word *w, char *value, struct states_pattern *out)
{
    size_t len = strlen(value);
    if (!len || len % 2 || len > 2 * STATES_BYTES_MAX)
        return wrong(p, w->column, "bytes are 2 to %d hexadecimal digits, two each; a point stands for any digit",
                     2 * STATES_BYTES_MAX);
    for (size_t i = 0; i < len; i++) {
        int digit = digit_of(value[i]);
        unsigned shift = i % 2 ? 0 : 4;
        if (digit < 0 && value[i] != '.')
            return wrong(p, w->column, "'%c' is no hexadecimal digit (0 to 9, a to f, or a point for any)", value[i]);
        if (digit >= 0) {
            out->bytes[i / 2] |= (uint8_t)(digit << shift);
            out->care[i / 2] |= (uint8_t)(15 << shift);
        }
    }
    out->byte_count = (unsigned)len / 2;
    return 0;
}

static int set_mark(const struct parser *p, const struct word *w, char *value, struct states_pattern *out)
{
    struct states_range r;
    if (!take_range(value, &r) || r.last != r.first || r.last > UINT16_MAX)
        return wrong(p, w->column, "'%s' is no number of a marker: 16 to 65535", value);
    out->mark = (int)r.first;
    return 0;
}

static int set_process(const struct parser *p, const struct word *w, char *value, struct states_pattern *out)
{
    enum { COMM_MAX = 15 };
    if (!*value || strlen(value) > COMM_MAX)
        return wrong(p, w->column, "the kernel keeps 15 characters of a process's name");
    out->process = value;
    return 0;
}

static int set_access(const struct parser *p, const struct word *w, char *value, struct states_pattern *out)
{
    static const char *const kinds[] = {"", "read", "write", "any", NULL};
    int kind;
    int rc = set_choice(p, w, *value ? value : "?", kinds + 1, &kind);
    out->access = (enum states_access)(kind + 1);
    return rc;
}

static int set_address(const struct parser *p, const struct word *w, char *value, struct states_pattern *out)
{
    out->has_address = true;
    if (isdigit((unsigned char)*value))
        return take_range(value, &out->address) ? 0 : wrong(p, w->column, "'%s' is no address", value);
    out->address_name = (struct states_name){.text = value, .line = p->line, .column = w->column + 8};
    return *value ? 0 : wrong(p, w->column, "an address, or a symbol of the kernel");
}

static int set_physical(const struct parser *p, const struct word *w, char *value, struct states_pattern *out)
{
    out->has_physical = true;
    return take_range(value, &out->physical) ? 0 : wrong(p, w->column, "'%s' is no address", value);
}

static int set_miss(const struct parser *p, const struct word *w, char *value, struct states_pattern *out)
{
    static const char *const kinds[] = {"none", "fetch", "read", "write", "tlb", NULL};
    int kind, rc = set_choice(p, w, value, kinds, &kind);
    out->has_miss = true;
    out->miss = (enum states_miss)kind;
    return rc;
}

static const struct {
    const char *key;
    condition_fn set;
} conditions[] = {{"pc", set_pc},           {"in", set_in},
                  {"mode", set_mode},       {"class", set_class},
                  {"bytes", set_bytes},     {"mark", set_mark},
                  {"process", set_process}, {"access", set_access},
                  {"address", set_address}, {"physical", set_physical},
                  {"miss", set_miss}};

static int take_condition(const struct parser *p, const struct word *w, struct states_pattern *out)
{
    char *equals = strchr(w->text, '=');
    if (!equals)
        return wrong(p, w->column, "'%s' is no condition: KEY=VALUE, as pc=schedule or mode=user", w->text);
    for (size_t i = 0; i < ARRAY_LEN(conditions); i++)
        if (strncmp(conditions[i].key, w->text, (size_t)(equals - w->text)) == 0 &&
            !conditions[i].key[equals - w->text])
            return conditions[i].set(p, w, equals + 1, out);
    return wrong(p, w->column,
                 "there is no condition '%.*s': pc, in, mode, class, bytes, mark, process, access, address, physical, "
                 "miss",
                 (int)(equals - w->text), w->text);
}

/* Where its event is an access and it is not said which: what misses, or lies at an address, is one. */
static int complete(const struct parser *p, struct states_pattern *out)
{
    bool is_fetch = out->has_miss && (out->miss == STATES_MISS_FETCH || out->miss == STATES_MISS_NONE);
    bool needs = out->has_address || out->has_physical || (out->has_miss && !is_fetch);
    if (is_fetch && (out->access || needs))
        return wrong(p, 1, "the pattern %s asks for a fetch and for an access: two events", out->name);
    if (needs && !out->access)
        out->access = out->miss == STATES_MISS_WRITE && out->has_miss  ? STATES_WRITE
                      : out->miss == STATES_MISS_READ && out->has_miss ? STATES_READ
                                                                       : STATES_READ_OR_WRITE;
    return 0;
}

static int pattern_named(const struct states_program *p, const char *name)
{
    for (size_t i = 0; i < p->patterns.len; i++)
        if (strcmp(p->patterns.data[i].name, name) == 0)
            return (int)i;
    return -1;
}

static int named(const struct states_program *p, const char *name)
{
    for (size_t i = 0; i < p->named.len; i++)
        if (strcmp(p->named.data[i].name, name) == 0)
            return (int)i;
    return -1;
}

static int state_named(const struct states_program *p, const char *name)
{
    for (size_t i = 0; i < p->states.len; i++)
        if (strcmp(p->states.data[i].name, name) == 0)
            return (int)i;
    return -1;
}

static int check_limit(const struct parser *p, size_t count, size_t most, size_t analyser, const char *what)
{
    if (p->analyser && count >= analyser)
        return wrong(p, p->words[0].column, "more than %zu %s, which is what the analyser of 1992 had", analyser, what);
    return count < most ? 0 : wrong(p, p->words[0].column, "more than %zu %s", most, what);
}

/* ---- lines ---- */

static int take_pattern(struct parser *p)
{
    struct states_pattern out = {.mode = -1, .class = -1, .mark = -1};
    if (need_name(p, 1, "pattern") < 0 ||
        check_limit(p, p->p->patterns.len, STATES_PATTERNS_MAX, ANALYSER_PATTERNS, "patterns") < 0)
        return -1;
    out.name = p->words[1].text;
    if (pattern_named(p->p, out.name) >= 0)
        return wrong(p, p->words[1].column, "there is a pattern %s already", out.name);
    for (size_t i = 2; i < p->count; i++)
        if (take_condition(p, &p->words[i], &out) < 0)
            return -1;
    if (complete(p, &out) < 0)
        return -1;
    VEC_PUSH(&p->p->patterns, out);
    return 0;
}

static int take_named(struct parser *p)
{
    bool is_timer = strcmp(p->words[0].text, "timer") == 0;
    if (need_name(p, 1, p->words[0].text) < 0)
        return -1;
    for (size_t i = 1; i < p->count; i++) {
        struct states_named n = {p->words[i].text, is_timer};
        if (need_name(p, i, "counter") < 0 ||
            check_limit(p, p->p->named.len, STATES_NAMED_MAX, ANALYSER_COUNTERS, "counters and timers") < 0)
            return -1;
        if (named(p->p, n.name) >= 0)
            return wrong(p, p->words[i].column, "there is a counter or timer %s already", n.name);
        VEC_PUSH(&p->p->named, n);
    }
    return 0;
}

static int take_state(struct parser *p)
{
    struct states_state s = {.name = NULL};
    if (need_name(p, 1, "state") < 0 ||
        check_limit(p, p->p->states.len, STATES_STATES_MAX, ANALYSER_STATES, "states") < 0)
        return -1;
    if (p->count > 2)
        return wrong(p, p->words[2].column, "'%s' behind the name of a state", p->words[2].text);
    s.name = p->words[1].text;
    if (state_named(p->p, s.name) >= 0)
        return wrong(p, p->words[1].column, "there is a state %s already", s.name);
    VEC_PUSH(&p->p->states, s);
    return 0;
}

static int take_on(const struct parser *p, const struct word *w, bool wants_timer, struct states_action *a)
{
    int i = w < p->words + p->count ? named(p->p, w->text) : -1;
    if (w >= p->words + p->count)
        return wrong(p, w[-1].column, "'%s' needs the name of a %s", w[-1].text, wants_timer ? "timer" : "counter");
    if (i < 0 || p->p->named.data[i].is_timer != wants_timer)
        return wrong(p, w->column, "there is no %s '%s'", wants_timer ? "timer" : "counter", w->text);
    a->on = (uint8_t)i;
    return 0;
}

static int take_goto(struct parser *p, size_t i, struct states_transition *t)
{
    if (i >= p->count)
        return wrong(p, p->words[p->count - 1].column, "'goto' needs the name of a state");
    if (t->next >= 0)
        return wrong(p, p->words[i].column, "a second goto");
    t->next = (int16_t)p->gotos.len; /* the state's number, when all are known */
    VEC_PUSH(&p->gotos, p->words[i]);
    VEC_PUSH(&p->goto_lines, p->line);
    return 0;
}

/* Words from the i-th on. */
static int take_actions(struct parser *p, size_t i, struct states_transition *t)
{
    static const char *const verbs[] = {"count", "start", "stop", "trace", "trigger", "halt", "goto", NULL};
    while (i < p->count) {
        int verb = index_of(verbs, p->words[i].text);
        bool takes_name = verb >= 0 && verb <= STATES_STOP;
        struct states_action a = {.what = (uint8_t)verb};
        if (verb < 0)
            return wrong(p, p->words[i].column, "'%s' is none of count, start, stop, trace, trigger, halt, goto",
                         p->words[i].text);
        if (strcmp(verbs[verb], "goto") == 0) {
            if (take_goto(p, i + 1, t) < 0)
                return -1;
            i += 2;
            continue;
        }
        if (takes_name && take_on(p, &p->words[i + 1], verb != STATES_COUNT, &a) < 0)
            return -1;
        if (t->action_count == STATES_ACTIONS_MAX)
            return wrong(p, p->words[i].column, "more than %d actions", STATES_ACTIONS_MAX);
        t->actions[t->action_count++] = a;
        p->p->has_trigger |= a.what == STATES_TRIGGER;
        i += takes_name ? 2 : 1;
    }
    return 0;
}

static int take_transition(struct parser *p)
{
    struct states_transition t = {.next = -1};
    size_t i = 0;
    if (!p->p->states.len)
        return wrong(p, p->words[0].column, "a transition before the first state");
    t.also = strcmp(p->words[i].text, "also") == 0;
    i += t.also;
    if (i >= p->count || strcmp(p->words[i].text, "on") != 0)
        return wrong(p, p->words[0].column, "'also' goes before 'on'");
    i++;
    t.is_negated = i < p->count && strcmp(p->words[i].text, "not") == 0;
    i += t.is_negated;
    int pattern = i < p->count ? pattern_named(p->p, p->words[i].text) : -1;
    if (pattern < 0)
        return i < p->count ? wrong(p, p->words[i].column, "there is no pattern '%s' above", p->words[i].text)
                            : wrong(p, p->words[p->count - 1].column, "'on' needs the name of a pattern");
    t.pattern = (uint8_t)pattern;
    if (take_actions(p, i + 1, &t) < 0)
        return -1;
    struct states_state *s = &p->p->states.data[p->p->states.len - 1];
    VEC_PUSH(&s->transitions, t);
    return 0;
}

static int take_program(struct parser *p)
{
    if (need_name(p, 1, "program") < 0)
        return -1;
    p->p->name = p->words[1].text;
    return 0;
}

static int take_each(struct parser *p)
{
    if (p->count != 2 || strcmp(p->words[1].text, "process") != 0)
        return wrong(p, p->words[0].column, "it is 'each process'");
    p->p->each_process = true;
    return 0;
}

static int take_trace(struct parser *p)
{
    struct states_range r;
    if (p->count != 2 || !take_range(p->words[1].text, &r) || !r.first || r.last != r.first)
        return wrong(p, p->words[0].column, "it is 'trace ENTRIES'");
    if (p->analyser && r.first > ANALYSER_TRACE)
        return wrong(p, p->words[1].column, "more than %d entries, which is what the analyser of 1992 had",
                     ANALYSER_TRACE);
    p->p->trace_max = r.first;
    return 0;
}

static const struct {
    const char *word;
    int (*take)(struct parser *p);
} lines[] = {{"program", take_program}, {"each", take_each},     {"trace", take_trace},
             {"pattern", take_pattern}, {"counter", take_named}, {"timer", take_named},
             {"state", take_state},     {"on", take_transition}, {"also", take_transition}};

static int take_line(struct parser *p, char *line)
{
    if (split(p, line) < 0)
        return -1;
    for (size_t i = 0; p->count && i < ARRAY_LEN(lines); i++)
        if (strcmp(lines[i].word, p->words[0].text) == 0)
            return lines[i].take(p);
    return !p->count ? 0
                     : wrong(p, p->words[0].column,
                             "'%s' begins no line: program, each, trace, pattern, counter, timer, state, on, also",
                             p->words[0].text);
}

/* Names of states that were gone to before they were met. */
static int resolve_gotos(struct parser *p)
{
    for (size_t s = 0; s < p->p->states.len; s++)
        for (size_t i = 0; i < p->p->states.data[s].transitions.len; i++) {
            struct states_transition *t = &p->p->states.data[s].transitions.data[i];
            if (t->next < 0)
                continue;
            size_t which = (size_t)t->next;
            assert(p->gotos.data && which < p->gotos.len && "take_goto put it there");
            t->next = (int16_t)state_named(p->p, p->gotos.data[which].text);
            p->line = p->goto_lines.data[which];
            if (t->next < 0)
                return wrong(p, p->gotos.data[which].column, "there is no state '%s'", p->gotos.data[which].text);
        }
    p->line += p->line == 0;
    return p->p->states.len ? 0 : wrong(p, 1, "a program needs a state");
}

static const char *base_of(struct arena *a, const char *name)
{
    const char *base = file_base_name(name), *point = strrchr(base, '.');
    return arena_strndup(a, base, point && point > base ? (size_t)(point - base) : strlen(base));
}

struct states_program *states_parse(const char *name, const char *text, size_t len, bool analyser)
{
    struct parser p = {.name = name, .p = xmalloc(sizeof *p.p), .analyser = analyser};
    int rc = 0;
    p.p->arena = arena_new();
    p.p->name = base_of(p.p->arena, name);
    p.p->trace_max = analyser ? ANALYSER_TRACE : STATES_TRACE;
    char *copy = arena_strndup(p.p->arena, text, len), *next;
    for (char *line = copy; rc == 0 && *line; line = next) {
        size_t n = strcspn(line, "\n");
        next = line + n + (line[n] != 0);
        line[n] = 0;
        p.line++;
        rc = take_line(&p, line);
    }
    if (rc == 0)
        rc = resolve_gotos(&p);
    VEC_FREE(&p.gotos);
    VEC_FREE(&p.goto_lines);
    if (rc == 0)
        return p.p;
    states_free(p.p);
    return NULL;
}

static void free_names(struct states_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        VEC_FREE(&names[i].ranges);
}

void states_free(struct states_program *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->patterns.len; i++) {
        struct states_pattern *k = &p->patterns.data[i];
        free_names(k->pc.data, k->pc.len);
        free_names(k->in.data, k->in.len);
        VEC_FREE(&k->pc);
        VEC_FREE(&k->in);
        VEC_FREE(&k->pc_ranges);
        VEC_FREE(&k->in_ranges);
        VEC_FREE(&k->address_name.ranges);
    }
    for (size_t i = 0; i < p->states.len; i++)
        VEC_FREE(&p->states.data[i].transitions);
    VEC_FREE(&p->patterns);
    VEC_FREE(&p->named);
    VEC_FREE(&p->states);
    arena_free(p->arena);
    free(p);
}
