/* SPDX-License-Identifier: Apache-2.0
 * The calls of a run into an order of the functions of one program, or of the kernel, as a linker reads it. */
#include "monster/impl.h"

#include <stdlib.h>

#include "order/order.h"

enum { SHOWN = 5, USUAL_CACHE = 1 << 16 /* bytes, where no machine says its own */ };

/* ---- which program ---- */

static const char *module_of(const struct monster_function *f) { return f->is_kernel ? "kernel" : f->module; }

static bool is_named(const struct monster_function *f, const char *program)
{
    const char *module = module_of(f);
    return *module && (strcmp(module, program) == 0 || strcmp(file_base_name(module), program) == 0);
}

struct program {
    const char *path;
    uint64_t instructions;
};

static int by_instructions(const void *a, const void *b)
{
    const struct program *x = a, *y = b;
    if (x->instructions != y->instructions)
        return x->instructions < y->instructions ? 1 : -1;
    return strcmp(x->path, y->path);
}

static int no_such_program(const struct monster_result *r, const char *program)
{
    VEC(struct program) all = {0};
    struct strbuf names = {0};
    for (size_t i = 0; i < r->functions.len; i++) {
        size_t k = 0;
        const char *path = module_of(&r->functions.data[i]);
        while (k < all.len && strcmp(all.data[k].path, path) != 0)
            k++;
        if (k == all.len && *path)
            VEC_PUSH(&all, ((struct program){path, 0}));
        if (*path)
            all.data[k].instructions += r->functions.data[i].of[WIRE_INSTRUCTIONS];
    }
    if (all.len)
        qsort(all.data, all.len, sizeof *all.data, by_instructions);
    for (size_t k = 0; k < all.len && k < SHOWN; k++)
        str_printf(&names, "%s%s", k ? ", " : "", file_base_name(all.data[k].path));
    int rc = diag_error("%s: nothing of a program '%s' was executed; most was of: %s", r->path, program,
                        names.data ? names.data : "nothing");
    str_free(&names);
    VEC_FREE(&all);
    return rc;
}

/* The path, as the functions have it. NULL after one line. */
static const char *find_program(const struct monster_result *r, const char *program)
{
    const char *found = NULL;
    for (size_t i = 0; i < r->functions.len; i++) {
        const struct monster_function *f = &r->functions.data[i];
        if (!is_named(f, program))
            continue;
        if (found && strcmp(found, module_of(f)) != 0) {
            diag_error("%s: there are several programs '%s', as %s and %s: give the path", r->path, program, found,
                       module_of(f));
            return NULL;
        }
        found = module_of(f);
    }
    if (!found)
        no_such_program(r, program);
    return found;
}

/* ---- the order ---- */

size_t monster_order(const struct monster_result *r, const char *path, uint32_t *out)
{
    size_t n = 0;
    VEC(struct order_node) nodes = {0};
    VEC(struct order_arc) arcs = {0};
    uint32_t *node_of = xmalloc((r->functions.len + 1) * sizeof *node_of); /* and 1; 0: of another program */
    uint32_t *function_of = xmalloc((r->functions.len + 1) * sizeof *function_of);
    for (uint32_t i = 0; i < r->functions.len; i++) {
        const struct monster_function *f = &r->functions.data[i];
        if (!f->address || strcmp(module_of(f), path) != 0)
            continue;
        VEC_PUSH(&nodes, ((struct order_node){f->of[WIRE_INSTRUCTIONS], f->of[WIRE_BYTES]}));
        function_of[n++] = i;
        node_of[i] = (uint32_t)n;
    }
    for (size_t i = 0; i < r->calls.len; i++) {
        const struct monster_call *c = &r->calls.data[i];
        if (node_of[c->caller] && node_of[c->callee])
            VEC_PUSH(&arcs, ((struct order_arc){node_of[c->caller] - 1, node_of[c->callee] - 1, c->count}));
    }
    order_nodes(nodes.data, n, arcs.data, arcs.len, r->code_cache ? r->code_cache : USUAL_CACHE, out);
    for (size_t i = 0; i < n; i++)
        out[i] = function_of[out[i]];
    VEC_FREE(&nodes);
    VEC_FREE(&arcs);
    free(node_of);
    free(function_of);
    return n;
}

size_t monster_order_variables(const struct monster_result *r, uint32_t *out)
{
    VEC(struct order_node) nodes = {0};
    VEC(struct order_arc) arcs = {0};
    for (size_t i = 0; i < r->variables.len; i++)
        VEC_PUSH(&nodes, ((struct order_node){r->variables.data[i].uses, r->variables.data[i].bytes}));
    for (size_t i = 0; i < r->follows.len; i++) {
        const struct monster_follow *f = &r->follows.data[i];
        VEC_PUSH(&arcs, ((struct order_arc){f->from, f->to, f->count}));
    }
    order_nodes(nodes.data, nodes.len, arcs.data, arcs.len, r->data_cache ? r->data_cache : USUAL_CACHE, out);
    VEC_FREE(&nodes);
    VEC_FREE(&arcs);
    return r->variables.len;
}

/* ---- as text ---- */

/* One that a linker knows: not made up of an address in an unwind table. */
static bool is_symbol(const struct monster_function *f)
{
    char made_up[32];
    snprintf(made_up, sizeof made_up, "fn_%llx", (unsigned long long)f->address);
    return strcmp(f->name, made_up) != 0 && strcmp(f->name, "[unknown]") != 0;
}

/* The sections in which gcc and clang put a function with -ffunction-sections; of one that they tore apart its rarely
 * executed part is "NAME.cold". */
static void put_sections(const char *name, const char *between, struct strbuf *out)
{
    const char *cold = strstr(name, ".cold");
    if (cold)
        str_printf(out, ".text.unlikely.%.*s", (int)(cold - name), name);
    else
        str_printf(out, ".text.%s%s.text.hot.%s%s.text.startup.%s", name, between, name, between, name);
}

static void put_name(const char *name, enum monster_linker linker, struct strbuf *out)
{
    if (linker == MONSTER_LLD) {
        str_printf(out, "%s\n", name);
    } else if (linker == MONSTER_GOLD) {
        put_sections(name, "\n", out);
        str_puts(out, "\n");
    } else {
        str_puts(out, "    *(");
        put_sections(name, " ", out);
        str_puts(out, ")\n");
    }
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static bool is_known(const char *name, const char *const *sorted, bool *seen, size_t n)
{
    size_t i = PARTITION_POINT(k, 0, n, strcmp(sorted[k], name) < 0);
    bool was = seen[i];
    seen[i] = true;
    return was;
}

int monster_put_order(const struct monster_result *r, const char *program, enum monster_linker linker,
                      struct strbuf *out)
{
    static const char *const heads[] = {
        "# ld.lld --symbol-ordering-file=THIS, of objects by -ffunction-sections\n",
        "# ld.gold --section-ordering-file=THIS, of objects by -ffunction-sections\n",
        ("/* ld.bfd -T THIS, beside its own script, of objects by -ffunction-sections */\n"
         "SECTIONS\n{\n  .text.ordered :\n  {\n")};
    if (!r->has_calls)
        return diag_error("%s: it has no calls, of which an order is made: mtool monster run --calls", r->path);
    const char *path = find_program(r, program);
    if (!path)
        return -1;
    struct arena *a = arena_new();
    uint32_t *order = ARENA_ARRAY(a, uint32_t, r->functions.len + 1);
    size_t n = monster_order(r, path, order), names = 0;
    const char **sorted = ARENA_ARRAY(a, const char *, n + 1);
    bool *seen = ARENA_ARRAY(a, bool, n + 1);
    str_puts(out, heads[linker]);
    for (size_t i = 0; i < n; i++)
        sorted[i] = r->functions.data[order[i]].name;
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 0; i < n; i++) {
        const char *name = r->functions.data[order[i]].name;
        if (!is_symbol(&r->functions.data[order[i]]) ||
            is_known(name, sorted, seen, n)) /* of several with one name the first place holds */
            continue;
        put_name(name, linker, out);
        names++;
    }
    if (linker == MONSTER_BFD)
        str_puts(out, "  }\n}\nINSERT BEFORE .text;\n");
    arena_free(a);
    return names ? 0
                 : diag_error("%s: no function of %s has a symbol, by which linkers know it: it is stripped", r->path,
                              path);
}
