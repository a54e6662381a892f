/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a machine description to a struct machine and back. One item a line, drawn in doc/machine.md; every
 * mistake is told with its line and column. It checks that the parts fit together, not that they are true. */
#include "machine/impl.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define FIRST_LINE "mtool-machine 1"

struct place {
    unsigned line;
    size_t column;
};

struct reader {
    const char *name, *text;
    size_t len, pos, line_start, token_at;
    unsigned line;
    struct machine *m;
    bool ended;
    char token[256];
    VEC(struct place) classes; /* where each one's name stands */
};

/* ---- tokens ---- */

static int wrong(struct reader *r, const char *what, const char *remedy)
{
    return diag_error("%s:%u:%u: %s; %s", r->name, r->line, (unsigned)(r->token_at - r->line_start) + 1, what, remedy);
}

static int wrong_token(struct reader *r, const char *what, const char *remedy)
{
    struct arena *a = arena_new();
    int rc = wrong(r, arena_printf(a, "%s \"%s\"", what, str_printable(a, r->token)), remedy);
    arena_free(a);
    return rc;
}

static void skip_blanks(struct reader *r)
{
    while (r->pos < r->len && (r->text[r->pos] == ' ' || r->text[r->pos] == '\t' || r->text[r->pos] == '\r'))
        r->pos++;
    if (r->pos < r->len && r->text[r->pos] == '#')
        while (r->pos < r->len && r->text[r->pos] != '\n')
            r->pos++;
    r->token_at = r->pos;
}

static bool at_line_end(struct reader *r)
{
    skip_blanks(r);
    return r->pos >= r->len || r->text[r->pos] == '\n';
}

static void put_char(struct reader *r, size_t *n, char c)
{
    if (*n + 1 < sizeof r->token)
        r->token[(*n)++] = c;
}

/* The next word or "quoted text" of this line into r->token. 0, or -1 reported. */
static int take(struct reader *r, const char *expected)
{
    if (at_line_end(r)) {
        struct arena *a = arena_new();
        int rc = wrong(r, arena_printf(a, "the line ends where %s is expected", expected), "see doc/machine.md");
        arena_free(a);
        return rc;
    }
    size_t n = 0;
    bool quoted = r->text[r->pos] == '"';
    if (quoted) {
        for (r->pos++; r->pos < r->len && r->text[r->pos] != '"' && r->text[r->pos] != '\n'; r->pos++)
            put_char(r, &n, r->text[r->pos]);
        if (r->pos >= r->len || r->text[r->pos] != '"')
            return wrong(r, "a quoted text does not end on its line", "close it with \"");
        r->pos++;
    } else {
        for (; r->pos < r->len && !isspace((unsigned char)r->text[r->pos]); r->pos++)
            put_char(r, &n, r->text[r->pos]);
    }
    r->token[n] = 0;
    if (!quoted && memchr(r->token, '"', n))
        return wrong_token(r, "a quote inside of a word:", "put the whole text between quotes");
    return 0;
}

static int take_number(struct reader *r, const char *expected, double low, double high, double *out)
{
    if (take(r, expected) < 0)
        return -1;
    char *end;
    double v = strtod(r->token, &end);
    if (*end && end != r->token && !end[1]) {
        v *= *end == 'K' ? 1024 : *end == 'M' ? 1048576 : *end == 'G' ? 1073741824 : NAN;
        end++;
    }
    if (end == r->token || *end || !isfinite(v))
        return wrong_token(r, "not a number:", "write digits, with K, M or G for sizes");
    if (v < low || v > high) {
        char allowed[80];
        snprintf(allowed, sizeof allowed, "write one from %.10g to %.10g", low, high);
        return wrong_token(r, "number out of range:", allowed);
    }
    *out = v;
    return 0;
}

static int take_unsigned(struct reader *r, const char *expected, double low, double high, unsigned *out)
{
    double v = 0;
    if (take_number(r, expected, low, high, &v) < 0)
        return -1;
    *out = (unsigned)v;
    return 0;
}

static int take_name(struct reader *r, const char *expected)
{
    if (take(r, expected) < 0)
        return -1;
    if (!r->token[0] || strlen(r->token) >= MACHINE_NAME_LEN)
        return wrong_token(r, "not a name:", "names have 1 to 47 characters");
    return 0;
}

/* ---- items ---- */

static int set_text(struct reader *r, const char **field)
{
    if (take(r, "a text") < 0)
        return -1;
    *field = arena_strdup(r->m->arena, r->token);
    return 0;
}

static int read_name(struct reader *r) { return set_text(r, &r->m->name); }
static int read_date(struct reader *r) { return set_text(r, &r->m->date); }
static int read_source(struct reader *r) { return set_text(r, &r->m->source); }

static int take_models(struct reader *r, struct machine_processor *p)
{
    char *end;
    if (take(r, "models") < 0)
        return -1;
    unsigned long first = strtoul(r->token, &end, 10), last = first;
    if (*end == '-')
        last = strtoul(end + 1, &end, 10);
    if (!isdigit((unsigned char)r->token[0]) || *end || first > last || last > 255)
        return wrong_token(r, "no models of processors:", "write one number or a range, as 16-31, up to 255");
    p->first_model = (unsigned)first;
    p->last_model = (unsigned)last;
    machine_add_processor(r->m, p);
    return 0;
}

static int read_processor(struct reader *r)
{
    struct machine_processor p = {.family = 0};
    if (take_name(r, "a vendor") < 0)
        return -1;
    if (strcmp(r->token, "amd") != 0 && strcmp(r->token, "intel") != 0)
        return wrong_token(r, "unknown vendor", "known: amd, intel");
    snprintf(p.vendor, sizeof p.vendor, "%.47s", r->token);
    if (take_unsigned(r, "a family", 0, 270, &p.family) < 0)
        return -1;
    do {
        if (take_models(r, &p) < 0)
            return -1;
    } while (!at_line_end(r));
    return 0;
}

static int read_pipeline(struct reader *r)
{
    if (take(r, "in-order or out-of-order") < 0)
        return -1;
    r->m->in_order = strcmp(r->token, "in-order") == 0;
    if (!r->m->in_order && strcmp(r->token, "out-of-order") != 0)
        return wrong_token(r, "unknown pipeline", "write in-order or out-of-order");
    return 0;
}

static int read_queue(struct reader *r)
{
    unsigned size = 0;
    if (take_name(r, "the name of a scheduler") < 0)
        return -1;
    char name[MACHINE_NAME_LEN];
    snprintf(name, sizeof name, "%.47s", r->token);
    if (r->m->queue_count >= MACHINE_QUEUE_MAX)
        return wrong(r, "more than 16 schedulers", "merge some");
    if (take_unsigned(r, "its size", 1, 4096, &size) < 0)
        return -1;
    machine_add_queue(r->m, name, size);
    return 0;
}

static int take_queue_name(struct reader *r, int *out)
{
    if (take_name(r, "the name of a scheduler") < 0)
        return -1;
    for (size_t i = 0; i < r->m->queue_count; i++) {
        if (strcmp(r->m->queues[i].name, r->token) == 0) {
            *out = (int)i;
            return 0;
        }
    }
    return wrong_token(r, "unknown scheduler", "declare it above with: scheduler NAME SIZE");
}

static int read_unit(struct reader *r)
{
    char name[MACHINE_NAME_LEN];
    unsigned multiplicity = 1;
    double issue = 1;
    int queue = -1;
    if (take_name(r, "the name of a unit") < 0)
        return -1;
    if (machine_ports_named(r->m, r->token))
        return wrong_token(r, "second unit or group with the name", "give each its own");
    snprintf(name, sizeof name, "%.47s", r->token);
    while (!at_line_end(r)) {
        if (take(r, "a property") < 0)
            return -1;
        int rc = strcmp(r->token, "multiplicity") == 0
                     ? take_unsigned(r, "a number of instances", 1, MACHINE_PORT_MAX, &multiplicity)
                 : strcmp(r->token, "issue-latency") == 0 ? take_number(r, "cycles", 0.01, 10000, &issue)
                 : strcmp(r->token, "scheduler") == 0
                     ? take_queue_name(r, &queue)
                     : wrong_token(r, "unknown property of a unit", "known: multiplicity, issue-latency, scheduler");
        if (rc < 0)
            return -1;
    }
    if (machine_port_count(r->m) + multiplicity > MACHINE_PORT_MAX)
        return wrong(r, "more than 32 units (multiplicity counted)", "merge some");
    uint32_t i = machine_add_unit(r->m, name, multiplicity, issue);
    r->m->units[i].queue = queue;
    return 0;
}

static int read_group(struct reader *r)
{
    char name[MACHINE_NAME_LEN];
    uint32_t ports = 0;
    if (take_name(r, "the name of a group") < 0)
        return -1;
    if (machine_ports_named(r->m, r->token))
        return wrong_token(r, "second unit or group with the name", "give each its own");
    snprintf(name, sizeof name, "%.47s", r->token);
    do {
        if (take_name(r, "the name of a unit") < 0)
            return -1;
        uint32_t p = machine_ports_named(r->m, r->token);
        if (!p)
            return wrong_token(r, "unknown unit", "declare it above with: unit NAME");
        ports |= p;
    } while (!at_line_end(r));
    machine_add_group(r->m, name, ports);
    return 0;
}

/* The issue latency that holds for an operation on these ports when its class names none. */
static double issue_of_ports(const struct machine *m, uint32_t ports)
{
    for (size_t i = 0; i < m->unit_count; i++)
        if (ports >> m->units[i].first_port & 1)
            return m->units[i].issue;
    return 1;
}

/* "ALU+LOAD", "DIV:4", "none" */
static int parse_uses(struct reader *r, struct machine_class *c)
{
    if (take(r, "units, or none") < 0)
        return -1;
    if (strcmp(r->token, "none") == 0)
        return 0;
    char part[256];
    for (const char *s = r->token; *s;) {
        size_t n = strcspn(s, "+");
        snprintf(part, sizeof part, "%.*s", (int)n, s);
        s += n + (s[n] == '+');
        char *colon = strchr(part, ':'), *end = part;
        if (colon)
            *colon++ = 0;
        uint32_t ports = machine_ports_named(r->m, part);
        if (!ports)
            return wrong_token(r, "unknown unit or group in", "declare it above with: unit NAME");
        double issue = colon ? strtod(colon, &end) : issue_of_ports(r->m, ports);
        if (colon && (*end || end == colon || !(issue > 0 && issue <= 10000)))
            return wrong_token(r, "bad issue latency in", "write UNIT:CYCLES");
        if (c->use_count == MACHINE_USE_MAX)
            return wrong_token(r, "more than 6 units in", "merge some");
        c->uses[c->use_count++] = (struct machine_use){ports, issue};
    }
    return 0;
}

static int read_class(struct reader *r)
{
    struct machine_class c = {.latency = -1, .latency_high = -1, .slots = 1};
    bool has_units = false;
    if (take_name(r, "the name of a class") < 0)
        return -1;
    if (machine_class_named(r->m, r->token))
        return wrong_token(r, "second class with the name", "give each its own");
    struct place place = {r->line, r->token_at - r->line_start};
    snprintf(c.name, sizeof c.name, "%.47s", r->token);
    while (!at_line_end(r)) {
        if (take(r, "a property") < 0)
            return -1;
        int rc = 0;
        if (strcmp(r->token, "result-latency") == 0)
            rc = take_number(r, "cycles", 0, 10000, &c.latency);
        else if (strcmp(r->token, "to") == 0)
            rc = take_number(r, "cycles", 0, 10000, &c.latency_high);
        else if (strcmp(r->token, "second") == 0)
            rc = take_number(r, "cycles", 0, 10000, &c.latency_second);
        else if (strcmp(r->token, "elsewhere") == 0)
            rc = take_number(r, "cycles", 0, 10000, &c.latency_bypass);
        else if (strcmp(r->token, "flags") == 0)
            rc = take_number(r, "cycles", 0, 10000, &c.latency_flags);
        else if (strcmp(r->token, "keeps") == 0)
            rc = take_number(r, "cycles", 0, 10000, &c.occupies_high);
        else if (strcmp(r->token, "slots") == 0)
            rc = take_number(r, "slots", 0, 1000, &c.slots);
        else if (strcmp(r->token, "on") == 0) {
            rc = parse_uses(r, &c);
            has_units = true;
        } else
            rc = wrong_token(r, "unknown property of a class",
                             "known: result-latency, to, keeps, second, elsewhere, flags, slots, on");
        if (rc < 0)
            return -1;
    }
    if (c.latency < 0 || !has_units)
        return wrong(r, "a class needs result-latency and on", "write: class NAME result-latency CYCLES on UNITS");
    if (c.latency_high >= 0 && c.latency_high < c.latency)
        return wrong(r, "the latency for unfavourable operands is the smaller one",
                     "write: result-latency SMALLER to LARGER");
    if (c.latency_high < 0)
        c.latency_high = c.latency;
    machine_add_class(r->m, &c);
    VEC_PUSH(&r->classes, place);
    return 0;
}

static int read_form(struct reader *r)
{
    struct machine_form f = {.measured_latency = -1, .measured_interval = -1};
    if (take_name(r, "the form of an instruction") < 0)
        return -1;
    snprintf(f.form, sizeof f.form, "%.47s", r->token);
    if (take_name(r, "the name of its class") < 0)
        return -1;
    const struct machine_class *c = machine_class_named(r->m, r->token);
    if (!c)
        return wrong_token(r, "unknown class", "declare it above with: class NAME");
    f.class_id = (uint32_t)(c - r->m->classes);
    if (!at_line_end(r)) {
        if (take(r, "measured") < 0)
            return -1;
        if (strcmp(r->token, "measured") != 0)
            return wrong_token(r, "unknown property of a form", "known: measured LATENCY INTERVAL");
        if (take_number(r, "latency in cycles", -1, 1e6, &f.measured_latency) < 0 ||
            take_number(r, "interval in cycles", -1, 1e6, &f.measured_interval) < 0)
            return -1;
    }
    machine_add_form(r->m, &f);
    return 0;
}

static const char *const cache_kinds[] = {"data", "code", "both", "tlb"};

static int read_cache(struct reader *r)
{
    struct machine_cache c = {.kind = MACHINE_CACHE_KIND_COUNT};
    if (take_name(r, "the name of a cache") < 0)
        return -1;
    snprintf(c.name, sizeof c.name, "%.47s", r->token);
    if (take(r, "data, code, both or tlb") < 0)
        return -1;
    for (unsigned k = 0; k < ARRAY_LEN(cache_kinds); k++)
        if (strcmp(cache_kinds[k], r->token) == 0)
            c.kind = (enum machine_cache_kind)k;
    if (c.kind == MACHINE_CACHE_KIND_COUNT)
        return wrong_token(r, "unknown kind of cache", "known: data, code, both, tlb");
    while (!at_line_end(r)) {
        double size = 0;
        if (take(r, "a property") < 0)
            return -1;
        int rc = 0;
        if (strcmp(r->token, "size") == 0) {
            rc = take_number(r, "bytes", 1, 1e15, &size);
            c.size_bytes = (uint64_t)size;
        } else if (strcmp(r->token, "line") == 0)
            rc = take_unsigned(r, "bytes", 1, 2147483648.0, &c.line_bytes);
        else if (strcmp(r->token, "ways") == 0)
            rc = take_unsigned(r, "a number of ways", 0, 1e6, &c.ways);
        else if (strcmp(r->token, "latency") == 0)
            rc = take_number(r, "cycles", 0, 1e6, &c.latency);
        else
            rc = wrong_token(r, "unknown property of a cache", "known: size, line, ways, latency");
        if (rc < 0)
            return -1;
    }
    if (!c.size_bytes || !c.line_bytes)
        return wrong(r, "a cache needs size and line",
                     "write: cache NAME KIND size BYTES line BYTES ways N latency CYCLES");
    if (r->m->cache_count == MACHINE_CACHE_MAX)
        return wrong(r, "more than 8 caches", "leave the outermost away");
    r->m->caches[r->m->cache_count++] = c;
    return 0;
}

static int read_error(struct reader *r)
{
    struct machine_error e = {.count = 0};
    if (take_name(r, "a class of kernels") < 0)
        return -1;
    snprintf(e.kernels, sizeof e.kernels, "%.47s", r->token);
    while (!at_line_end(r)) {
        if (take(r, "a property") < 0)
            return -1;
        int rc = strcmp(r->token, "kernels") == 0  ? take_unsigned(r, "a number of kernels", 0, 1e6, &e.count)
                 : strcmp(r->token, "median") == 0 ? take_number(r, "a relative error", 0, 100, &e.median)
                 : strcmp(r->token, "p90") == 0    ? take_number(r, "a relative error", 0, 100, &e.p90)
                 : strcmp(r->token, "bias") == 0
                     ? take_number(r, "a relative error", -1, 100, &e.bias)
                     : wrong_token(r, "unknown property of an error", "known: kernels, median, p90, bias");
        if (rc < 0)
            return -1;
    }
    machine_add_error(r->m, &e);
    return 0;
}

static int read_end(struct reader *r)
{
    r->ended = true;
    return 0;
}

static const struct {
    const char *word;
    int (*read)(struct reader *);
} items[] = {
    {"name", read_name},         {"date", read_date},           {"source", read_source},
    {"pipeline", read_pipeline}, {"processor", read_processor}, {"scheduler", read_queue},
    {"unit", read_unit},         {"group", read_group},         {"class", read_class},
    {"form", read_form},         {"cache", read_cache},         {"error", read_error},
    {"end", read_end},
};

static const struct {
    const char *word;
    size_t offset;
} params[] = {
#define X(group, field, name, value, text) {name, offsetof(struct machine, field)},
#include "machine/params.def"
#undef X
};

static double *param(struct machine *m, size_t i) { return (double *)(void *)((char *)m + params[i].offset); }

/* ---- do the parts go together? ---- */

static int wrong_class(struct reader *r, size_t i, const char *what, const char *remedy)
{
    r->line = r->classes.data[i].line;
    r->line_start = 0;
    r->token_at = r->classes.data[i].column;
    snprintf(r->token, sizeof r->token, "%s", r->m->classes[i].name);
    return wrong_token(r, what, remedy);
}

/* The scheduler that all these ports stand behind, -1 none or several. */
static int only_queue(const struct machine *m, uint32_t ports)
{
    int found = -1;
    for (size_t i = 0; i < m->unit_count; i++) {
        if (!(ports >> m->units[i].first_port & 1))
            continue;
        if (found >= 0 && m->units[i].queue != found)
            return -1;
        found = m->units[i].queue;
        if (found < 0)
            return -1;
    }
    return found;
}

static bool is_access(const char *name) { return strncmp(name, "load", 4) == 0 || strncmp(name, "store", 5) == 0; }

/* Can the machine run this class at all? */
static int check_class(struct reader *r, size_t i)
{
    const struct machine *m = r->m;
    const struct machine_class *c = &m->classes[i];
    unsigned places[MACHINE_QUEUE_MAX] = {0};
    if (is_access(c->name) && !c->use_count)
        return wrong_class(r, i, "no unit runs the accesses of class", "name a unit behind on");
    if (m->rob > 0 && c->slots > m->rob)
        return wrong_class(r, i, "reorder is smaller than the slots of class", "raise reorder or lower slots");
    for (unsigned k = 0; k < c->use_count; k++) {
        int q = only_queue(m, c->uses[k].ports);
        if (q >= 0 && ++places[q] > m->queues[q].size)
            return wrong_class(r, i, "a scheduler is too small to hold all operations of class",
                               "enlarge the scheduler");
    }
    return 0;
}

static int check_whole(struct reader *r)
{
    const struct machine *m = r->m;
    if (!m->unit_count)
        return wrong(r, "no unit is declared", "add at least one: unit NAME");
    if (!machine_class_named(m, "other"))
        return wrong(r, "the class \"other\" is missing: it stands for whatever no other class is for",
                     "add: class other result-latency 1 on UNIT");
    if (m->max_issue <= 0 || m->issue_share <= 0)
        return wrong(r, "maximum-multiple-issue and issue-share must be positive", "fix them");
    if (m->tsc_ghz < 0 || m->core_per_tsc < 0)
        return wrong(r, "tsc-ghz and core-per-tsc cannot be negative", "write 0 for a clock that is not known");
    if (m->fetch_blocks <= 0)
        return wrong(r, "fetch-windows must be positive", "write: fetch-windows 1");
    for (size_t i = 0; i < m->class_count; i++)
        if (check_class(r, i) < 0)
            return -1;
    return 0;
}

/* ---- the whole ---- */

static int read_line(struct reader *r)
{
    if (take(r, "a word") < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(items); i++)
        if (strcmp(items[i].word, r->token) == 0)
            return items[i].read(r);
    for (size_t i = 0; i < ARRAY_LEN(params); i++)
        if (strcmp(params[i].word, r->token) == 0)
            return take_number(r, "a number", -1, 1e9, param(r->m, i));
    return wrong_token(r, "unknown word", "see doc/machine.md, or was the file written by a newer mtool?");
}

static int read_lines(struct reader *r)
{
    while (r->pos < r->len && !r->ended) {
        if (!at_line_end(r) && read_line(r) < 0)
            return -1;
        if (!at_line_end(r)) {
            if (take(r, "") < 0)
                return -1;
            return wrong_token(r, "too much on the line:", "one item a line");
        }
        r->pos++;
        r->line++;
        r->line_start = r->pos;
    }
    r->token_at = r->line_start;
    if (!r->ended)
        return wrong(r, "the file stops without a line \"end\"",
                     "it was cut short: write it anew with mtool calibrate");
    return check_whole(r);
}

static int read_head(struct reader *r)
{
    size_t n = strlen(FIRST_LINE);
    if (r->len >= n && memcmp(r->text, FIRST_LINE, n) == 0 && (r->len == n || isspace((unsigned char)r->text[n]))) {
        r->pos = n;
        return 0;
    }
    if (r->len > 14 && memcmp(r->text, "mtool-machine ", 14) == 0)
        return wrong(r, "a machine description of another version",
                     "this mtool reads version 1: write it anew with mtool calibrate");
    return wrong(r, "not a machine description (its first line is \"" FIRST_LINE "\")",
                 "give a file that mtool calibrate wrote");
}

int machine_parse(const char *name, const char *text, size_t len, struct machine **out)
{
    struct reader r = {.name = name, .text = text, .len = len, .line = 1, .m = machine_new()};
    int rc = read_head(&r) < 0 || read_lines(&r) < 0 ? -1 : 0;
    VEC_FREE(&r.classes);
    if (rc < 0)
        machine_free(r.m);
    else
        *out = r.m;
    return rc;
}

int machine_read(const char *path, struct machine **out)
{
    struct file_bytes f;
    if (file_map(path, &f) < 0)
        return diag_error("%s: cannot read the machine description: %s; write one with mtool calibrate -o FILE", path,
                          strerror(errno));
    int rc = machine_parse(path, f.len ? (const char *)f.data : "", f.len, out);
    file_unmap(&f);
    return rc;
}

/* ---- writing ---- */

static void put_number(struct strbuf *s, const char *word, double v)
{
    double r = round(v * 1e6) / 1e6;
    bool glued = !*word || word[strlen(word) - 1] == ':';
    str_printf(s, "%s%s%.10g", word, glued ? "" : " ", r);
}

static void put_params(const struct machine *m, struct strbuf *s)
{
#define X(group, field, name, value, text)                                                                             \
    put_number(s, name, m->field);                                                                                     \
    str_printf(s, "%*s# %s\n", (int)(strlen(name) < 26 ? 26 - strlen(name) : 1), "", text);
#include "machine/params.def"
#undef X
}

/* A name for exactly these ports: a unit's, a group's, or the units one by one as a new group cannot be made here. */
static void put_ports(const struct machine *m, struct strbuf *s, uint32_t ports)
{
    for (size_t i = 0; i < m->unit_count; i++)
        if (machine_ports_named(m, m->units[i].name) == ports) {
            str_puts(s, m->units[i].name);
            return;
        }
    for (size_t i = 0; i < m->group_count; i++)
        if (m->groups[i].ports == ports) {
            str_puts(s, m->groups[i].name);
            return;
        }
    str_puts(s, machine_port_name(m, (unsigned)__builtin_ctz(ports)));
}

static void put_units(const struct machine *m, struct strbuf *s)
{
    for (size_t i = 0; i < m->queue_count; i++)
        str_printf(s, "scheduler %s %u\n", m->queues[i].name, m->queues[i].size);
    for (size_t i = 0; i < m->unit_count; i++) {
        const struct machine_unit *u = &m->units[i];
        str_printf(s, "unit %s multiplicity %u", u->name, u->multiplicity);
        put_number(s, " issue-latency", u->issue);
        if (u->queue >= 0)
            str_printf(s, " scheduler %s", m->queues[u->queue].name);
        str_puts(s, "\n");
    }
    for (size_t i = 0; i < m->group_count; i++) {
        str_printf(s, "group %s", m->groups[i].name);
        for (size_t k = 0; k < m->unit_count; k++)
            if (m->groups[i].ports >> m->units[k].first_port & 1)
                str_printf(s, " %s", m->units[k].name);
        str_puts(s, "\n");
    }
}

static void put_class(const struct machine *m, struct strbuf *s, const struct machine_class *c)
{
    str_printf(s, "class %s", c->name);
    put_number(s, " result-latency", c->latency);
    if (c->latency_high > c->latency)
        put_number(s, " to", c->latency_high);
    if (c->occupies_high > 0)
        put_number(s, " keeps", c->occupies_high);
    if (c->latency_second > 0)
        put_number(s, " second", c->latency_second);
    if (c->latency_bypass > 0)
        put_number(s, " elsewhere", c->latency_bypass);
    if (c->latency_flags > 0)
        put_number(s, " flags", c->latency_flags);
    if (fabs(c->slots - 1) > 1e-9)
        put_number(s, " slots", c->slots);
    str_puts(s, c->use_count ? " on " : " on none");
    for (unsigned i = 0; i < c->use_count; i++) {
        str_puts(s, i ? "+" : "");
        put_ports(m, s, c->uses[i].ports);
        if (fabs(c->uses[i].issue - issue_of_ports(m, c->uses[i].ports)) > 1e-9)
            put_number(s, ":", c->uses[i].issue);
    }
    str_puts(s, "\n");
}

static void put_caches(const struct machine *m, struct strbuf *s)
{
    for (size_t i = 0; i < m->cache_count; i++) {
        const struct machine_cache *c = &m->caches[i];
        str_printf(s, "cache %s %s size %llu line %u ways %u", c->name, cache_kinds[c->kind],
                   (unsigned long long)c->size_bytes, c->line_bytes, c->ways);
        put_number(s, " latency", c->latency);
        str_puts(s, "\n");
    }
}

static void put_errors(const struct machine *m, struct strbuf *s)
{
    for (size_t i = 0; i < m->error_count; i++) {
        const struct machine_error *e = &m->errors[i];
        str_printf(s, "error %s kernels %u", e->kernels, e->count);
        put_number(s, " median", e->median);
        put_number(s, " p90", e->p90);
        put_number(s, " bias", e->bias);
        str_puts(s, "\n");
    }
}

static void put_form(const struct machine *m, struct strbuf *s, const struct machine_form *f)
{
    str_printf(s, "form \"%s\" %s", f->form, m->classes[f->class_id].name);
    if (f->measured_latency >= 0 || f->measured_interval >= 0) {
        put_number(s, " measured", f->measured_latency);
        str_puts(s, " ");
        put_number(s, "", f->measured_interval);
    }
    str_puts(s, "\n");
}

static void put_quoted(struct strbuf *s, const char *word, const char *text)
{
    str_printf(s, "%s \"", word);
    for (; *text; text++)
        if (*text != '"' && *text != '\n')
            str_put(s, text, 1);
    str_puts(s, "\"\n");
}

static void put_processors(const struct machine *m, struct strbuf *s)
{
    for (size_t i = 0; i < m->processor_count; i++) {
        const struct machine_processor *p = &m->processors[i];
        str_printf(s, "processor %s %u %u", p->vendor, p->family, p->first_model);
        if (p->last_model != p->first_model)
            str_printf(s, "-%u", p->last_model);
        str_puts(s, "\n");
    }
}

void machine_format(const struct machine *m, struct strbuf *s)
{
    str_puts(s, FIRST_LINE "\n# What each line means: doc/machine.md. Times are in core cycles.\n");
    put_quoted(s, "name", m->name);
    put_quoted(s, "date", m->date);
    put_quoted(s, "source", m->source);
    str_printf(s, "pipeline %s\n", m->in_order ? "in-order" : "out-of-order");
    put_processors(m, s);
    str_puts(s, "\n");
    put_params(m, s);
    str_puts(s, "\n# How far predictions were off on kernels not used for fitting\n");
    put_errors(m, s);
    str_puts(s, "\n");
    put_caches(m, s);
    str_puts(s, "\n");
    put_units(m, s);
    str_puts(s, "\n");
    for (size_t i = 0; i < m->class_count; i++)
        put_class(m, s, &m->classes[i]);
    str_puts(s, "\n");
    for (size_t i = 0; i < m->form_count; i++)
        put_form(m, s, &m->forms[i]);
    str_puts(s, "end\n");
}

int machine_write(const struct machine *m, const char *path)
{
    struct strbuf s = {0};
    machine_format(m, &s);
    int rc = file_write_whole(path, s.data, s.len, 0644);
    if (rc < 0)
        diag_error("%s: cannot write the machine description: %s; choose another file with -o", path, strerror(errno));
    str_free(&s);
    return rc;
}
