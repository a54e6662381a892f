/* SPDX-License-Identifier: Apache-2.0
 * The result's file: lines of text, a key and what belongs to it (doc/monster.md). mtool's own lines come first, then
 * the plugin's. */
#include "monster/monster.h"

#include <errno.h>
#include <stdlib.h>

struct reader {
    struct monster_result *r;
    const char *name;
    unsigned line;
    int column[WIRE_COLUMN_COUNT]; /* of the file's columns: which of ours; -1: unknown here */
    unsigned columns;
    bool is_whole;
};

const char *monster_mode_name(enum monster_mode m) { return m == MONSTER_USER ? "user" : "kernel"; }

static const char *const column_names[] = {
#define COLUMN(id, name) name,
#include "wire/monster.def"
#undef COLUMN
};

static int wrong(const struct reader *p, const char *what) { return diag_error("%s:%u: %s", p->name, p->line, what); }

static uint64_t take_number(char **at, int base)
{
    *at += strspn(*at, " ");
    return strtoull(*at, at, base);
}

static void take_totals(char **at, struct monster_totals *t)
{
    t->instructions = take_number(at, 10);
    t->operations = take_number(at, 10);
    for (unsigned i = 0; i < WIRE_STALL_COUNT; i++)
        t->stalls[i] = take_number(at, 10);
}

static char *behind_tab(char *text)
{
    char *tab = strchr(text, '\t');
    if (!tab)
        return text + strlen(text);
    *tab = 0;
    return tab + 1;
}

/* ---- lines ---- */

static int take_columns(struct reader *p, char *rest)
{
    char *state = NULL;
    for (char *w = strtok_r(rest, " ", &state); w; w = strtok_r(NULL, " ", &state)) {
        int which = -1;
        for (int i = 0; i < WIRE_COLUMN_COUNT; i++)
            if (strcmp(w, column_names[i]) == 0)
                which = i;
        if (p->columns == WIRE_COLUMN_COUNT)
            return wrong(p, "more columns than this mtool knows: it was made by a newer one");
        p->column[p->columns++] = which;
    }
    return 0;
}

static int take_function(struct reader *p, char *rest)
{
    struct monster_function f = {.is_kernel = strncmp(rest, "kernel ", 7) == 0};
    char *module = behind_tab(rest), *name = behind_tab(module);
    if (!f.is_kernel && strncmp(rest, "user ", 5) != 0)
        return wrong(p, "a function is of 'user' or 'kernel'");
    rest = strchr(rest, ' ');
    f.address = take_number(&rest, 16);
    for (unsigned i = 0; i < p->columns; i++) {
        uint64_t value = take_number(&rest, 10);
        if (p->column[i] >= 0)
            f.of[p->column[i]] = value;
    }
    f.module = arena_strdup(p->r->arena, module);
    f.name = arena_strdup(p->r->arena, *name ? name : "[unknown]");
    VEC_PUSH(&p->r->functions, f);
    return 0;
}

static int take_process(struct reader *p, char *rest)
{
    struct monster_process q = {.pid = 0};
    char *name = behind_tab(rest);
    q.pid = take_number(&rest, 10);
    take_totals(&rest, &q.of[MONSTER_USER]);
    take_totals(&rest, &q.of[MONSTER_KERNEL]);
    q.name = arena_strdup(p->r->arena, str_printable(p->r->arena, name));
    VEC_PUSH(&p->r->processes, q);
    return 0;
}

static struct monster_program *last_program(struct reader *p)
{
    return p->r->programs.len ? &p->r->programs.data[p->r->programs.len - 1] : NULL;
}

static int take_program(struct reader *p, char *rest)
{
    struct monster_program q = {.name = arena_strdup(p->r->arena, rest)};
    VEC_PUSH(&p->r->programs, q);
    return 0;
}

static char *take_word(char **at)
{
    char *word = *at + strspn(*at, " ");
    *at = word + strcspn(word, " ");
    if (**at)
        *(*at)++ = 0;
    return word;
}

static int take_counted(struct reader *p, char *rest, bool is_timer)
{
    struct monster_counter c = {.is_timer = is_timer};
    if (!last_program(p))
        return wrong(p, "a counter before the first program");
    c.name = arena_strdup(p->r->arena, take_word(&rest));
    c.value = take_number(&rest, 10);
    c.intervals = take_number(&rest, 10);
    c.least = take_number(&rest, 10);
    c.most = take_number(&rest, 10);
    c.cycles = strtod(rest, NULL);
    VEC_PUSH(&last_program(p)->counters, c);
    return 0;
}

static int take_counter(struct reader *p, char *rest) { return take_counted(p, rest, false); }
static int take_timer(struct reader *p, char *rest) { return take_counted(p, rest, true); }

static int take_traced(struct reader *p, char *rest)
{
    if (!last_program(p))
        return wrong(p, "a trace before the first program");
    take_number(&rest, 10);
    last_program(p)->trace_lost = take_number(&rest, 10);
    return 0;
}

static int take_trace(struct reader *p, char *rest)
{
    struct monster_entry e = {.instructions = take_number(&rest, 10)};
    if (!last_program(p))
        return wrong(p, "a trace before the first program");
    e.pc = take_number(&rest, 16);
    e.pid = take_number(&rest, 10);
    e.address = take_number(&rest, 16);
    e.state = arena_strdup(p->r->arena, take_word(&rest));
    e.pattern = arena_strdup(p->r->arena, take_word(&rest));
    e.kind = *take_word(&rest);
    e.reached = take_number(&rest, 16);
    e.bytes = (unsigned)take_number(&rest, 10);
    VEC_PUSH(&last_program(p)->trace, e);
    return 0;
}

static int take_map(struct reader *p, char *rest)
{
    struct monster_map m = {.name = arena_strdup(p->r->arena, take_word(&rest))};
    for (int k = 0; k < MONSTER_MODE_COUNT; k++)
        for (int i = 0; i < 3; i++)
            m.misses[k][i] = take_number(&rest, 10);
    m.bins = take_number(&rest, 10);
    VEC_PUSH(&p->r->maps, m);
    return 0;
}

/* Behind all policies. */
static int take_page(struct reader *p, char *rest)
{
    struct monster_page g = {.address = 0};
    g.program = arena_strdup(p->r->arena, str_printable(p->r->arena, behind_tab(rest)));
    g.address = take_number(&rest, 16);
    for (unsigned side = 0; side < MONSTER_SIDES; side++)
        for (unsigned i = 0; i < WIRE_PAGE_PARTS; i++)
            g.of[side][i] = take_number(&rest, 10);
    uint32_t *bins = ARENA_ARRAY(p->r->arena, uint32_t, p->r->maps.len + 1);
    for (size_t i = 0; i < p->r->maps.len; i++)
        bins[i] = (uint32_t)take_number(&rest, 10);
    g.bins = bins;
    VEC_PUSH(&p->r->pages, g);
    return 0;
}

static int take_code_cache(struct reader *p, char *rest)
{
    p->r->code_cache = take_number(&rest, 10);
    return 0;
}

static int take_data_cache(struct reader *p, char *rest)
{
    p->r->data_cache = take_number(&rest, 10);
    return 0;
}

static int take_variables(struct reader *p, char *rest)
{
    (void)rest;
    p->r->has_variables = true;
    return 0;
}

static int take_variable(struct reader *p, char *rest)
{
    struct monster_variable v = {.name = arena_strdup(p->r->arena, behind_tab(rest))};
    v.address = take_number(&rest, 16);
    v.bytes = take_number(&rest, 10);
    v.uses = take_number(&rest, 10);
    v.misses = take_number(&rest, 10);
    VEC_PUSH(&p->r->variables, v);
    return 0;
}

/* Behind all variables. */
static int take_follow(struct reader *p, char *rest)
{
    uint64_t from = take_number(&rest, 10), to = take_number(&rest, 10), count = take_number(&rest, 10);
    if (from >= p->r->variables.len || to >= p->r->variables.len)
        return wrong(p, "a variable that is not there");
    struct monster_follow f = {(uint32_t)from, (uint32_t)to, count};
    VEC_PUSH(&p->r->follows, f);
    return 0;
}

static int take_calls(struct reader *p, char *rest)
{
    (void)rest;
    p->r->has_calls = true;
    return 0;
}

/* Behind all functions. */
static int take_call(struct reader *p, char *rest)
{
    uint64_t caller = take_number(&rest, 10), callee = take_number(&rest, 10), count = take_number(&rest, 10);
    if (caller >= p->r->functions.len || callee >= p->r->functions.len)
        return wrong(p, "a call of a function that is not there");
    struct monster_call c = {(uint32_t)caller, (uint32_t)callee, count};
    VEC_PUSH(&p->r->calls, c);
    return 0;
}

static int take_code(struct reader *p, char *rest)
{
    struct monster_code c = {.path = NULL};
    char *path = behind_tab(rest);
    c.key = arena_strdup(p->r->arena, rest);
    c.path = arena_strdup(p->r->arena, path);
    VEC_PUSH(&p->r->codes, c);
    return 0;
}

static struct monster_code *last_code(struct reader *p)
{
    return p->r->codes.len ? &p->r->codes.data[p->r->codes.len - 1] : NULL;
}

static uint64_t end_of_executed(const struct monster_code *c)
{
    return c->executed.len ? c->executed.data[c->executed.len - 1].address + c->executed.data[c->executed.len - 1].bytes
                           : 0;
}

static int take_executed(struct reader *p, char *rest)
{
    struct monster_code *c = last_code(p);
    struct monster_executed e = {.address = take_number(&rest, 16)};
    if (!c)
        return wrong(p, "code before the first file");
    e.bytes = take_number(&rest, 16);
    e.count = take_number(&rest, 10);
    if (e.address + e.bytes < e.address || e.address < end_of_executed(c))
        return wrong(p, "code of a file goes from address to address");
    VEC_PUSH(&c->executed, e);
    return 0;
}

static int take_stalled(struct reader *p, char *rest)
{
    struct monster_stalled s = {.address = take_number(&rest, 16)};
    if (!last_code(p))
        return wrong(p, "code before the first file");
    for (unsigned i = 0; i < WIRE_STALL_COUNT; i++)
        s.stalls[i] = take_number(&rest, 10);
    VEC_PUSH(&last_code(p)->stalled, s);
    return 0;
}

static int take_total(struct reader *p, char *rest)
{
    bool is_kernel = strncmp(rest, "kernel", 6) == 0;
    rest += strcspn(rest, " ");
    take_totals(&rest, &p->r->total[is_kernel]);
    return 0;
}

/* "L1:0:-1 ...": its name, and of data and code which misses are its. */
static int take_levels(struct reader *p, char *rest)
{
    char *state = NULL;
    for (char *w = strtok_r(rest, " ", &state); w; w = strtok_r(NULL, " ", &state)) {
        char *colon = strchr(w, ':'), *at = colon ? colon + 1 : w;
        if (!colon || p->r->levels.len == WIRE_LEVELS_MAX)
            return wrong(p, "a level is NAME:DATA:CODE, at most four");
        *colon = 0;
        size_t i = p->r->levels.len;
        p->r->level_of[0][i] = (int)strtol(at, &at, 10);
        p->r->level_of[1][i] = *at ? (int)strtol(at + 1, &at, 10) : -1;
        for (int side = 0; side < 2; side++)
            if (p->r->level_of[side][i] < -1 || p->r->level_of[side][i] >= WIRE_LEVELS_MAX)
                return wrong(p, "a level's misses are one of four");
        VEC_PUSH(&p->r->levels, arena_strdup(p->r->arena, w));
    }
    return 0;
}

static int take_end(struct reader *p, char *rest)
{
    p->r->end = (enum wire_end)take_number(&rest, 10);
    p->r->status = take_number(&rest, 10);
    return 0;
}

static int take_disk(struct reader *p, char *rest)
{
    p->r->has_disk = true;
    p->r->disk_ms = strtod(rest, &rest);
    p->r->disk_mb_s = strtod(rest, NULL);
    return 0;
}

static int take_whole(struct reader *p, char *rest)
{
    (void)rest;
    p->is_whole = true;
    return 0;
}

#define TEXT_LINE(member)                                                                                              \
    static int take_##member(struct reader *p, char *rest)                                                             \
    {                                                                                                                  \
        p->r->member = arena_strdup(p->r->arena, rest);                                                                \
        return 0;                                                                                                      \
    }
TEXT_LINE(command)
TEXT_LINE(kernel)
TEXT_LINE(version)
TEXT_LINE(machine)
TEXT_LINE(caches)
#undef TEXT_LINE
#define NUMBER_LINE(member, type)                                                                                      \
    static int take_##member(struct reader *p, char *rest)                                                             \
    {                                                                                                                  \
        p->r->member = (type)strtod(rest, NULL);                                                                       \
        return 0;                                                                                                      \
    }
NUMBER_LINE(width, double)
NUMBER_LINE(ghz, double)
#undef NUMBER_LINE

static int take_shift(struct reader *p, char *rest)
{
    uint64_t shift = take_number(&rest, 10);
    p->r->shift = (unsigned)shift;
    return shift < 32 ? 0 : wrong(p, "the shift of the clock is below 32");
}

static int take_clock_ns(struct reader *p, char *rest)
{
    p->r->clock_ns = take_number(&rest, 10);
    return 0;
}

static const struct {
    const char *key;
    int (*take)(struct reader *p, char *rest);
} keys[] = {
    {"command", take_command},
    {"kernel", take_kernel},
    {"version", take_version},
    {"machine", take_machine},
    {"caches", take_caches},
    {"levels", take_levels},
    {"width", take_width},
    {"ghz", take_ghz},
    {"shift", take_shift},
    {"clock", take_clock_ns},
    {"end", take_end},
    {"total", take_total},
    {"process", take_process},
    {"columns", take_columns},
    {"function", take_function},
    {"whole", take_whole},
    {"map", take_map},
    {"program", take_program},
    {"counter", take_counter},
    {"timer", take_timer},
    {"traced", take_traced},
    {"trace", take_trace},
    {"disk", take_disk},
    {"code-cache", take_code_cache},
    {"data-cache", take_data_cache},
    {"variables", take_variables},
    {"variable", take_variable},
    {"follow", take_follow},
    {"page", take_page},
    {"calls", take_calls},
    {"call", take_call},
    {"code", take_code},
    {"executed", take_executed},
    {"stalled", take_stalled},
};

static int take_line(struct reader *p, char *line)
{
    char *rest = strchr(line, ' ');
    if (rest)
        *rest++ = 0;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (strcmp(keys[i].key, line) == 0)
            return keys[i].take(p, rest ? rest : line + strlen(line));
    return 0; /* a newer mtool's */
}

/* ---- whole files ---- */

#define HEAD "mtool-monster 1\n"

struct monster_result *monster_parse(const char *name, const char *text, size_t len)
{
    struct monster_result *r = xmalloc(sizeof *r);
    r->arena = arena_new();
    r->path = arena_strdup(r->arena, name);
    r->width = 1;
    r->command = r->kernel = r->version = "";
    struct reader p = {.r = r, .name = name};
    char *copy = arena_strndup(r->arena, text, len), *next;
    int rc = 0;
    if (len < strlen(HEAD) || memcmp(text, HEAD, strlen(HEAD)) != 0)
        rc = diag_error("%s is no result of mtool monster run", name);
    for (char *line = copy; rc == 0 && *line; line = next) {
        size_t n = strcspn(line, "\n");
        if (!line[n])
            break; /* a line without an end: the file's own is not there */
        next = line + n + 1;
        line[n] = 0;
        p.line++;
        rc = take_line(&p, line);
    }
    if (rc == 0 && !p.is_whole)
        rc = diag_error("%s is not whole: it was cut off", name);
    if (rc == 0) {
        monster_mark_pages(r);
        return r;
    }
    monster_free(r);
    return NULL;
}

struct monster_result *monster_read(const char *path)
{
    struct file_bytes f;
    if (file_map(path, &f) < 0) {
        diag_error("cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    struct monster_result *r = monster_parse(path, (const char *)f.data, f.len);
    file_unmap(&f);
    return r;
}

void monster_free(struct monster_result *r)
{
    if (!r)
        return;
    VEC_FREE(&r->levels);
    VEC_FREE(&r->processes);
    VEC_FREE(&r->functions);
    for (size_t i = 0; i < r->programs.len; i++) {
        VEC_FREE(&r->programs.data[i].counters);
        VEC_FREE(&r->programs.data[i].trace);
    }
    VEC_FREE(&r->programs);
    VEC_FREE(&r->maps);
    VEC_FREE(&r->pages);
    VEC_FREE(&r->calls);
    VEC_FREE(&r->variables);
    VEC_FREE(&r->follows);
    for (size_t i = 0; i < r->codes.len; i++) {
        VEC_FREE(&r->codes.data[i].executed);
        VEC_FREE(&r->codes.data[i].stalled);
    }
    VEC_FREE(&r->codes);
    arena_free(r->arena);
    free(r);
}
