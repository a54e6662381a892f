/* SPDX-License-Identifier: Apache-2.0
 * Names of functions into addresses, where they have fixed ones; a name that is nobody's is an error that tells the
 * nearest, never a pattern that cannot match. */
#include "states/states.h"

#include <stdlib.h>

enum { NEAREST = 3 };

struct nearest { /* the best first */
    const char *names[NEAREST];
    unsigned distances[NEAREST];
};

static bool fits(const char *pattern, const char *name)
{
    size_t len = strlen(pattern);
    if (len && pattern[len - 1] == '*')
        return strncmp(pattern, name, len - 1) == 0;
    /* a compiler's ".isra.0" and its like do not count */
    return strncmp(pattern, name, len) == 0 && (!name[len] || name[len] == '.');
}

static void consider(struct nearest *n, const char *wanted, const char *name)
{
    unsigned d = str_distance(wanted, name);
    for (int i = 0; i < NEAREST; i++) {
        if (n->names[i] && n->distances[i] <= d) {
            if (strcmp(n->names[i], name) == 0)
                return;
            continue;
        }
        memmove(&n->names[i + 1], &n->names[i], sizeof *n->names * (size_t)(NEAREST - 1 - i));
        memmove(&n->distances[i + 1], &n->distances[i], sizeof *n->distances * (size_t)(NEAREST - 1 - i));
        n->names[i] = name;
        n->distances[i] = d;
        return;
    }
}

static int unknown(const struct states_program *p, const struct states_name *n, const struct states_symbols *s)
{
    struct nearest near = {.names = {NULL}};
    const char *name;
    struct states_range range;
    struct strbuf text = {0};
    for (size_t i = 0; s->function(s->ctx, i, &name, &range); i++)
        consider(&near, n->text, name);
    for (int i = 0; i < NEAREST && near.names[i]; i++)
        str_printf(&text, "%s%s", i ? ", " : "; the nearest: ", near.names[i]);
    diag_error("%s:%u:%u: there is no function '%s'%s", p->name, n->line, n->column, n->text,
               text.data ? text.data : "");
    str_free(&text);
    return -1;
}

static int resolve_name(struct states_program *p, struct states_name *n, const struct states_symbols *s)
{
    const char *name;
    struct states_range range;
    bool is_known = false;
    n->ranges.len = 0;
    for (size_t i = 0; s->function(s->ctx, i, &name, &range); i++) {
        if (!fits(n->text, name))
            continue;
        is_known = true;
        if (range.first <= range.last)
            VEC_PUSH(&n->ranges, range);
    }
    return is_known ? 0 : unknown(p, n, s);
}

static int resolve_address(struct states_program *p, struct states_pattern *k, const struct states_symbols *s)
{
    enum { WORD = 8 };
    if (!k->address_name.text)
        return 0;
    if (!s->symbol(s->ctx, k->address_name.text, &k->address.first))
        return diag_error("%s:%u:%u: the kernel has no symbol '%s'", p->name, k->address_name.line,
                          k->address_name.column, k->address_name.text);
    k->address.last = k->address.first + WORD - 1;
    return 0;
}

int states_resolve(struct states_program *p, const struct states_symbols *s)
{
    for (size_t i = 0; i < p->patterns.len; i++) {
        struct states_pattern *k = &p->patterns.data[i];
        for (size_t j = 0; j < k->pc.len; j++)
            if (resolve_name(p, &k->pc.data[j], s) < 0)
                return -1;
        for (size_t j = 0; j < k->in.len; j++)
            if (resolve_name(p, &k->in.data[j], s) < 0)
                return -1;
        if (resolve_address(p, k, s) < 0)
            return -1;
    }
    return 0;
}
