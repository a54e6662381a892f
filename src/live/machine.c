/* SPDX-License-Identifier: Apache-2.0
 * The text of a state machine into its tables (doc/monster-live.md has the language). One pass over words: a line that
 * begins with pat names a pattern, one that begins with state what happens in a state; states may be named before they
 * are defined. What is wrong is told with file and line. */
#include <errno.h>
#include <stdlib.h>

#include "live/impl.h"

struct parser {
    const char *path;
    unsigned line;
    char *at; /* rest of the line */
    struct live_program *p;
    unsigned mentioned[LIVE_STATES]; /* the line that named it first */
    bool defined[LIVE_STATES];
    struct { /* moves of the states, in the order of the text */
        uint8_t state;
        struct live_move move;
    } moves[LIVE_MOVES];
    size_t move_count;
};

static const struct {
    const char *name, *number, *flag;
} events[] = {
#define EVENT(id, name, number, flag) {name, number, flag},
#include "live/events.def"
#undef EVENT
};

static int wrong(const struct parser *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int wrong(const struct parser *s, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return diag_error("%s:%u: %s", s->path, s->line, text);
}

/* ---- words and names ---- */

static char *next_word(struct parser *s)
{
    s->at += strspn(s->at, " \t");
    if (!*s->at)
        return NULL;
    char *word = s->at;
    s->at += *s->at == ';' ? 1 : strcspn(s->at, " \t;");
    size_t len = (size_t)(s->at - word);
    return arena_strndup(s->p->arena, word, len);
}

static const char *nearest(const char *const *names, size_t count, const char *word)
{
    const char *best = NULL;
    unsigned least = 4;
    for (size_t i = 0; i < count; i++)
        if (names[i] && str_distance(names[i], word) < least) {
            least = str_distance(names[i], word);
            best = names[i];
        }
    return best;
}

/* The place of a name, made if `may_add`; -1: there is none, or no room. */
static int place_of(struct parser *s, struct live_names *n, size_t most, const char *word, bool may_add)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->name[i], word) == 0)
            return (int)i;
    if (!may_add || n->count >= most)
        return -1;
    n->name[n->count] = arena_strdup(s->p->arena, word);
    return (int)n->count++;
}

/* ---- patterns ---- */

static int set_event(struct parser *s, struct live_pattern *p, const char *value)
{
    const char *names[ARRAY_LEN(events)];
    for (size_t i = 0; i < ARRAY_LEN(events); i++) {
        names[i] = events[i].name;
        if (strcmp(events[i].name, value) == 0) {
            p->event = (uint8_t)i;
            return 0;
        }
    }
    const char *near = nearest(names, ARRAY_LEN(events), value);
    return wrong(s, "there is no event '%s'%s%s", value, near ? "; nearest is " : "", near ? near : "");
}

static int set_call(struct parser *s, struct live_pattern *p, const char *value)
{
    const char *names[LIVE_CALLS];
    char *end;
    p->number = (uint32_t)strtoul(value, &end, 10);
    p->has_number = 1;
    if (*value && !*end)
        return 0;
    for (uint32_t i = 0; i < LIVE_CALLS; i++) {
        names[i] = live_call_name(i);
        if (names[i] && strcmp(names[i], value) == 0) {
            p->number = i;
            return 0;
        }
    }
    const char *near = nearest(names, LIVE_CALLS, value);
    return wrong(s, "there is no system call '%s'%s%s", value, near ? "; nearest is " : "", near ? near : "");
}

static int set_vector(struct parser *s, struct live_pattern *p, const char *value)
{
    int vector = live_vector_find(value);
    if (vector < 0)
        return wrong(s, "there is no interrupt '%s'; local_timer, reschedule, ..., softirq-N, device-N", value);
    p->number = (uint32_t)vector;
    p->has_number = 1;
    return 0;
}

static int set_flag(struct parser *s, struct live_pattern *p, const char *value)
{
    p->flag = strcmp(value, "yes") == 0 ? 2 : strcmp(value, "no") == 0 ? 1 : 0;
    return p->flag ? 0 : wrong(s, "'%s' is neither yes nor no", value);
}

static int set_addresses(struct parser *s, struct live_pattern *p, const char *value)
{
    char *end;
    p->low = strtoull(value, &end, 16);
    p->high = *end == '-' ? strtoull(end + 1, &end, 16) : p->low;
    if (!*value || *end || p->high < p->low)
        return wrong(s, "'%s' is no address and no range LOW-HIGH", value);
    return 0;
}

static int set_process(struct parser *s, struct live_pattern *p, const char *value)
{
    char comm[LIVE_COMM] = "";
    if (strlen(value) >= sizeof comm)
        return wrong(s, "'%s': names of processes have at most %d bytes", value, LIVE_COMM - 1);
    snprintf(comm, sizeof comm, "%s", value);
    memcpy(p->comm, comm, sizeof p->comm);
    p->has_comm = 1;
    return 0;
}

static int set_key(struct parser *s, struct live_pattern *p, const char *key, const char *value)
{
    const char *number = events[p->event].number, *flag = events[p->event].flag;
    if (!strcmp(key, "proc"))
        return set_process(s, p, value);
    if (!strcmp(key, "addr") && p->event == LIVE_EVENT_FAULT)
        return set_addresses(s, p, value);
    if (*number && !strcmp(key, number))
        return strcmp(key, "call") ? set_vector(s, p, value) : set_call(s, p, value);
    if (*flag && !strcmp(key, flag))
        return set_flag(s, p, value);
    return wrong(s, "event %s has no '%s'", events[p->event].name, key);
}

/* pat NAME event=... KEY=VALUE... */
static int parse_pattern(struct parser *s)
{
    struct live_machine *m = &s->p->machine;
    char *name = next_word(s), *word = next_word(s);
    if (!name || !word || strncmp(word, "event=", 6) != 0)
        return wrong(s, "a pattern is: pat NAME event=EVENT [KEY=VALUE]...");
    if (place_of(s, &s->p->patterns, LIVE_PATTERNS, name, false) >= 0)
        return wrong(s, "pattern '%s' is there already", name);
    int at = place_of(s, &s->p->patterns, s->p->limits.patterns, name, true);
    if (at < 0)
        return wrong(s, "more than %u patterns", s->p->limits.patterns);
    struct live_pattern *p = &m->patterns[at];
    *p = (struct live_pattern){.high = UINT64_MAX};
    if (set_event(s, p, word + 6) < 0)
        return -1;
    while ((word = next_word(s))) {
        char *value = strchr(word, '=');
        if (!value)
            return wrong(s, "'%s' is not KEY=VALUE", word);
        *value = 0;
        if (set_key(s, p, word, value + 1) < 0)
            return -1;
    }
    m->pattern_count = (uint32_t)s->p->patterns.count;
    return 0;
}

/* ---- states ---- */

static int state_of(struct parser *s, const char *name)
{
    int at = place_of(s, &s->p->states, s->p->limits.states, name, true);
    if (at < 0)
        return wrong(s, "more than %u states", s->p->limits.states);
    if (!s->mentioned[at])
        s->mentioned[at] = s->line;
    return at;
}

static int take_name(struct parser *s, struct live_names *n, size_t most, const char *what, uint8_t *out)
{
    char *name = next_word(s);
    if (!name || *name == ';')
        return wrong(s, "%s needs a name", what);
    int at = place_of(s, n, most, name, true);
    if (at < 0)
        return wrong(s, "more than %zu %ss", most, what);
    *out = (uint8_t)(at + 1);
    if (s->p->counters.count + s->p->timers.count > s->p->limits.counters)
        return wrong(s, "more than %u counters and timers", s->p->limits.counters);
    return 0;
}

static int take_action(struct parser *s, const char *word, struct live_move *v)
{
    struct live_program *p = s->p;
    if (!strcmp(word, "count"))
        return take_name(s, &p->counters, LIVE_COUNTERS, "counter", &v->count);
    if (!strcmp(word, "start"))
        return take_name(s, &p->timers, LIVE_TIMERS, "timer", &v->start);
    if (!strcmp(word, "stop"))
        return take_name(s, &p->timers, LIVE_TIMERS, "timer", &v->stop);
    if (!strcmp(word, "trace")) {
        v->is_traced = 1;
        return 0;
    }
    if (strcmp(word, "goto") != 0)
        return wrong(s, "'%s' is none of count, start, stop, trace, goto", word);
    char *name = next_word(s);
    int at = name && *name != ';' ? state_of(s, name) : wrong(s, "goto needs a state");
    v->target = (uint8_t)(at + 1);
    return at < 0 ? -1 : 0;
}

/* on PATTERN ACTION..., up to a semicolon or the end. 1: there is more. */
static int parse_move(struct parser *s, int state)
{
    char *word = next_word(s), *name = word && !strcmp(word, "on") ? next_word(s) : NULL;
    if (!name)
        return wrong(s, "a state is: state NAME on PATTERN [count C] [start T] [stop T] [trace] [goto STATE]; on ...");
    int pattern = place_of(s, &s->p->patterns, LIVE_PATTERNS, name, false);
    if (pattern < 0) {
        const char *near = nearest((const char *const *)s->p->patterns.name, s->p->patterns.count, name);
        return wrong(s, "there is no pattern '%s'%s%s", name, near ? "; nearest is " : "", near ? near : "");
    }
    if (s->move_count >= LIVE_MOVES)
        return wrong(s, "more than %d moves", LIVE_MOVES);
    struct live_move v = {.pattern = (uint8_t)pattern};
    s->p->machine.events |= 1u << s->p->machine.patterns[pattern].event;
    while ((word = next_word(s)) && *word != ';')
        if (take_action(s, word, &v) < 0)
            return -1;
    s->moves[s->move_count].state = (uint8_t)state;
    s->moves[s->move_count++].move = v;
    s->at += strspn(s->at, " \t");
    return word && *s->at;
}

static int parse_state(struct parser *s)
{
    char *name = next_word(s);
    int state = name ? state_of(s, name) : wrong(s, "a state needs a name"), more = 1;
    if (state < 0)
        return -1;
    if (s->defined[state])
        return wrong(s, "state '%s' is there already", name);
    s->defined[state] = true;
    while (more > 0)
        more = parse_move(s, state);
    return more;
}

/* ---- the whole ---- */

static int parse_line(struct parser *s, char *line)
{
    line[strcspn(line, "#\r\n")] = 0;
    s->line++;
    s->at = line;
    char *word = next_word(s);
    if (!word)
        return 0;
    if (!strcmp(word, "pat"))
        return parse_pattern(s);
    if (!strcmp(word, "state"))
        return parse_state(s);
    return wrong(s, "'%s' is neither pat nor state", word);
}

static int finish(struct parser *s)
{
    struct live_machine *m = &s->p->machine;
    size_t n = 0;
    for (size_t i = 0; i < s->p->states.count; i++)
        if (!s->defined[i]) {
            s->line = s->mentioned[i];
            return wrong(s, "state '%s' is not defined", s->p->states.name[i]);
        }
    if (!s->p->states.count)
        return diag_error("%s: there is no state in it; a line that begins with 'state' makes one", s->path);
    for (size_t i = 0; i < LIVE_STATES; i++) {
        m->first[i] = (uint8_t)n;
        for (size_t k = 0; k < s->move_count; k++)
            if (s->moves[k].state == i)
                m->moves[n++] = s->moves[k].move;
    }
    m->first[LIVE_STATES] = (uint8_t)n;
    return 0;
}

struct live_program *live_program_read(const char *path, bool as_analyser)
{
    FILE *f = fopen(path, "re");
    if (!f) {
        diag_error("%s: cannot be read: %s", path, strerror(errno));
        return NULL;
    }
    struct arena *a = arena_new();
    struct parser s = {.path = path, .p = ARENA_NEW(a, struct live_program)};
    s.p->arena = a;
    s.p->limits = as_analyser ? (struct live_limits){8, 16, 2, 512 << 10}
                              : (struct live_limits){LIVE_PATTERNS, LIVE_STATES, LIVE_COUNTERS + LIVE_TIMERS, 4 << 20};
    char *line = NULL;
    size_t room = 0;
    int rc = 0;
    while (rc == 0 && getline(&line, &room, f) > 0)
        rc = parse_line(&s, line);
    free(line);
    fclose(f);
    if (rc == 0)
        rc = finish(&s);
    if (rc == 0)
        return s.p;
    live_program_free(s.p);
    return NULL;
}

void live_program_free(struct live_program *p)
{
    if (p)
        arena_free(p->arena);
}
