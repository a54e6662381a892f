/* SPDX-License-Identifier: Apache-2.0
 * Which object of one build is which of another. Passes from certain to likely, each over what the ones before it left:
 * a pass gives every object a key (or none); objects with the same key are pairs if both sides have equally many of
 * them, in order of their addresses. A last pass aligns what is left of one function in both, where loops came or went.
 */
#include <math.h>
#include <stdlib.h>

#include "result/diff.h"

enum { COUNTS_MIN = 1000, GROUP_MAX = 300 }; /* instructions that tell something; objects of a function to be aligned */

struct side {
    const struct prof_result *r, *other;
    struct map by_id;
    uint32_t *pair; /* of each object: its number among the pairs, ID_NONE none yet */
};
struct matcher {
    struct side sides[2]; /* old, now */
    struct diff_pair *pairs;
    size_t count;
};
struct keyed { /* an object under the key of a pass */
    const char *key;
    uint32_t index, side;
    uint64_t address;
};

/* ---- keys ---- */

static bool is_nameless(const struct prof_object *o) { return !o->function || strncmp(o->function, "0x", 2) == 0; }

/* The program may have another name now; libraries keep theirs. */
static const char *module_name(const struct side *s, const struct prof_object *o)
{
    return !o->module ? "?" : s->r->program && !strcmp(o->module, s->r->program) ? "" : file_base_name(o->module);
}

static const struct prof_object *parent_of(const struct side *s, const struct prof_object *o)
{
    uint64_t i;
    return o->parent != ID_NONE && map_get(&s->by_id, o->parent, &i) ? &s->r->objects[i] : NULL;
}

/* Lines count from the beginning of the procedure, where that is in the same file. */
static uint32_t first_line_of_procedure(const struct side *s, const struct prof_object *o)
{
    const struct prof_object *p = o, *up;
    for (int n = 0; n < 100 && p->kind != PROF_PROCEDURE && (up = parent_of(s, p)); n++)
        p = up;
    return p != o && p->file && o->file && !strcmp(p->file, o->file) && p->line_first <= o->line_first ? p->line_first
                                                                                                       : 0;
}

static const char *build_id(const struct prof_result *r, const char *module)
{
    for (size_t i = 0; module && i < r->module_count; i++)
        if (r->modules[i].path && !strcmp(file_base_name(r->modules[i].path), file_base_name(module)))
            return r->modules[i].build_id;
    return NULL;
}

static void put_name(struct strbuf *key, const struct side *s, const struct prof_object *o)
{
    str_printf(key, "%s\n%s\n%d %u", module_name(s, o), o->function, (int)o->kind, o->kind == PROF_LOOP ? o->depth : 0);
}

/* The same file: addresses have not moved. */
static bool key_address(struct strbuf *key, const struct side *s, const struct prof_object *o)
{
    const char *here = build_id(s->r, o->module), *there = build_id(s->other, o->module);
    if (!here || !there || !*here || strcmp(here, there) != 0)
        return false;
    str_printf(key, "%s %llx %d", here, (unsigned long long)o->address, (int)o->kind);
    return true;
}

/* Lines from the beginning of the procedure, so that what stands above it may change; where it was inlined from another
 * file, those of that file. */
static bool key_lines(struct strbuf *key, const struct side *s, const struct prof_object *o)
{
    uint32_t first = first_line_of_procedure(s, o);
    if (is_nameless(o) || !o->line_first)
        return false;
    put_name(key, s, o);
    str_printf(key, " %s %u %u", first ? "" : file_base_name(o->file ? o->file : ""), o->line_first - first,
               o->line_last - first);
    return true;
}

static bool key_name(struct strbuf *key, const struct side *s, const struct prof_object *o)
{
    if (is_nameless(o))
        return false;
    put_name(key, s, o);
    return true;
}

/* In whatever module, and without what compilers add for clones: "f.constprop.0" is f. */
static bool key_bare_name(struct strbuf *key, const struct side *s, const struct prof_object *o)
{
    static const char *const clones[] = {".constprop.", ".isra.", ".part.", ".cold", ".lto_priv."};
    (void)s;
    if (is_nameless(o))
        return false;
    size_t len = strlen(o->function);
    for (size_t i = 0; i < ARRAY_LEN(clones); i++) {
        const char *clone = strstr(o->function, clones[i]);
        if (clone && clone > o->function)
            len = min_u64(len, (size_t)(clone - o->function));
    }
    str_put(key, o->function, len);
    str_printf(key, "\n%d %u", (int)o->kind, o->kind == PROF_LOOP ? o->depth : 0);
    return true;
}

/* Without a name, or renamed: what was executed just as often is the same, if it is much. */
static bool key_counts(struct strbuf *key, const struct side *s, const struct prof_object *o)
{
    if (o->instructions == PROF_UNKNOWN || o->instructions < COUNTS_MIN)
        return false;
    str_printf(key, "%s %d %u %llu %llu %llu %llu", module_name(s, o), (int)o->kind, o->depth,
               (unsigned long long)o->entries, (unsigned long long)o->iterations, (unsigned long long)o->instructions,
               (unsigned long long)o->memory_ops);
    return true;
}

/* In what is a pair already. */
static bool key_parent(struct strbuf *key, const struct side *s, const struct prof_object *o)
{
    const struct prof_object *up = parent_of(s, o);
    uint32_t pair = up ? s->pair[up - s->r->objects] : ID_NONE;
    if (pair == ID_NONE)
        return false;
    str_printf(key, "%u %d", pair, (int)o->kind);
    return true;
}

/* The function, nothing more: for the last pass. */
static bool key_function(struct strbuf *key, const struct side *s, const struct prof_object *o)
{
    if (is_nameless(o))
        return false;
    str_printf(key, "%s\n%s\n%d", module_name(s, o), o->function, (int)o->kind);
    return true;
}

/* ---- a pass ---- */

typedef bool key_fn(struct strbuf *key, const struct side *s, const struct prof_object *o);
typedef void group_fn(struct matcher *m, const struct keyed *old, size_t old_count, const struct keyed *now,
                      size_t now_count, const char *how);

static int compare(const void *x, const void *y)
{
    const struct keyed *a = x, *b = y;
    int c = strcmp(a->key, b->key);
    if (c || a->side != b->side)
        return c ? c : a->side > b->side ? 1 : -1;
    return a->address != b->address ? (a->address > b->address ? 1 : -1)
                                    : (a->index > b->index) - (a->index < b->index);
}

static void add_pair(struct matcher *m, uint32_t old, uint32_t now, const char *how)
{
    if (old != ID_NONE)
        m->sides[0].pair[old] = (uint32_t)m->count;
    if (now != ID_NONE)
        m->sides[1].pair[now] = (uint32_t)m->count;
    m->pairs[m->count++] = (struct diff_pair){old, now, how};
}

static size_t collect(const struct matcher *m, key_fn *key_of, struct keyed *list, struct arena *a)
{
    size_t n = 0;
    struct strbuf key = {0};
    for (uint32_t k = 0; k < 2; k++) {
        const struct side *s = &m->sides[k];
        for (uint32_t i = 0; i < s->r->object_count; i++) {
            key.len = 0;
            if (s->pair[i] == ID_NONE && key_of(&key, s, &s->r->objects[i]))
                list[n++] = (struct keyed){arena_strndup(a, key.data, key.len), i, k, s->r->objects[i].address};
        }
    }
    str_free(&key);
    return n;
}

static void pass(struct matcher *m, key_fn *key_of, group_fn *group, const char *how)
{
    struct arena *a = arena_new();
    struct keyed *list = ARENA_ARRAY(a, struct keyed, m->sides[0].r->object_count + m->sides[1].r->object_count + 1);
    size_t n = collect(m, key_of, list, a);
    qsort(list, n, sizeof *list, compare);
    for (size_t i = 0, old, now; i < n; i += old + now) {
        for (old = 0; i + old < n && list[i + old].side == 0 && !strcmp(list[i + old].key, list[i].key);)
            old++;
        for (now = 0;
             i + old + now < n && list[i + old + now].side == 1 && !strcmp(list[i + old + now].key, list[i].key);)
            now++;
        if (old && now)
            group(m, list + i, old, list + i + old, now, how);
    }
    arena_free(a);
}

static void group_equal(struct matcher *m, const struct keyed *old, size_t old_count, const struct keyed *now,
                        size_t now_count, const char *how)
{
    for (size_t i = 0; old_count == now_count && i < old_count; i++)
        add_pair(m, old[i].index, now[i].index, how);
}

/* ---- the last pass: a cheapest alignment in order of addresses ---- */

static double ratio(uint64_t a, uint64_t a_of, uint64_t b, uint64_t b_of)
{
    bool is_known =
        a != PROF_UNKNOWN && b != PROF_UNKNOWN && a_of != PROF_UNKNOWN && b_of != PROF_UNKNOWN && a_of && b_of;
    return is_known ? fabs(log(((double)a / (double)a_of + 1) / ((double)b / (double)b_of + 1))) : 0.5;
}

/* How unlike two objects of one function are: 0 alike, 2 no pair (what leaving both alone costs). */
static double unlikeness(const struct matcher *m, const struct keyed *old, const struct keyed *now)
{
    const struct prof_object *a = &m->sides[0].r->objects[old->index], *b = &m->sides[1].r->objects[now->index];
    double lines = fabs((double)(a->line_first - first_line_of_procedure(&m->sides[0], a)) -
                        (double)(b->line_first - first_line_of_procedure(&m->sides[1], b)));
    return ratio(a->instructions, a->iterations, b->instructions, b->iterations) +
           ratio(a->memory_ops, a->iterations, b->memory_ops, b->iterations) + (a->depth != b->depth ? 0.3 : 0) +
           fmin(0.5, 0.02 * lines);
}

static void group_align(struct matcher *m, const struct keyed *old, size_t n, const struct keyed *now, size_t k,
                        const char *how)
{
    static double cost[GROUP_MAX + 1][GROUP_MAX + 1]; /* of what stands behind [i] and [j] */
    if (n > GROUP_MAX || k > GROUP_MAX)
        return;
    for (size_t i = n + 1; i-- > 0;)
        for (size_t j = k + 1; j-- > 0;)
            cost[i][j] = i == n   ? (double)(k - j)
                         : j == k ? (double)(n - i)
                                  : fmin(fmin(cost[i + 1][j], cost[i][j + 1]) + 1,
                                         cost[i + 1][j + 1] + unlikeness(m, &old[i], &now[j]));
    for (size_t i = 0, j = 0; i < n && j < k;) {
        if (cost[i][j] < fmin(cost[i + 1][j], cost[i][j + 1]) + 1) {
            add_pair(m, old[i++].index, now[j++].index, how);
        } else if (cost[i + 1][j] <= cost[i][j + 1]) {
            i++;
        } else {
            j++;
        }
    }
}

/* ---- all passes ---- */

static void side_init(struct side *s, const struct prof_result *r, const struct prof_result *other, struct arena *a)
{
    *s = (struct side){.r = r, .other = other, .pair = ARENA_ARRAY(a, uint32_t, r->object_count + 1)};
    for (uint32_t i = 0; i < r->object_count; i++) {
        map_put(&s->by_id, r->objects[i].id, i);
        s->pair[i] = ID_NONE;
    }
}

static void add_single(struct matcher *m)
{
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < m->sides[k].r->object_count; i++)
            if (m->sides[k].pair[i] == ID_NONE)
                add_pair(m, k ? ID_NONE : i, k ? i : ID_NONE, NULL);
}

struct diff_pair *diff_match(const struct prof_result *old, const struct prof_result *now, struct arena *a,
                             size_t *count)
{
    static const struct {
        key_fn *key;
        group_fn *group;
        const char *how;
    } passes[] = {{key_address, group_equal, "address"}, {key_lines, group_equal, "lines"},
                  {key_name, group_equal, "name"},       {key_function, group_align, "likeness"},
                  {key_bare_name, group_equal, "name"},  {key_counts, group_equal, "counts"},
                  {key_parent, group_equal, "parent"},   {key_parent, group_equal, "parent"}};
    struct matcher m = {.pairs = ARENA_ARRAY(a, struct diff_pair, old->object_count + now->object_count + 1)};
    side_init(&m.sides[0], old, now, a);
    side_init(&m.sides[1], now, old, a);
    for (size_t i = 0; i < ARRAY_LEN(passes); i++)
        pass(&m, passes[i].key, passes[i].group, passes[i].how);
    add_single(&m);
    map_fini(&m.sides[0].by_id);
    map_fini(&m.sides[1].by_id);
    *count = m.count;
    return m.pairs;
}
