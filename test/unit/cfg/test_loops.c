/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops: C functions with known nesting, and random graphs against the definition (dominators by taking nodes away,
 * loops by walking backwards). */
#include "help.h"

#include <stdlib.h>

/* ---- known nesting ---- */

static uint32_t depth_of_mark(const struct fixture *fx, unsigned mark)
{
    uint32_t insn = find_mark(fx, mark, 0), depth = 0;
    assert_int_not_equal(insn, ID_NONE);
    for (unsigned n = 0; (insn = find_mark(fx, mark, n)) != ID_NONE; n++) {
        uint32_t loop = fx->c->blocks.data[block_of_insn(fx, insn)].loop;
        uint32_t d = loop == ID_NONE ? 0 : fx->c->loops.data[loop].depth;
        assert_true(n == 0 || d == depth); /* copies of a statement stay at its depth */
        depth = d;
    }
    return depth;
}

static const struct {
    unsigned mark, depth;
} depths[] = {{1, 0},  {2, 1},  {3, 2},  {4, 3},  {5, 2},  {6, 1},  {7, 0},  {11, 1}, {12, 1},
              {13, 0}, {21, 1}, {22, 2}, {23, 2}, {31, 1}, {41, 0}, {42, 0}, {51, 1}, {52, 1},
              {53, 1}, {54, 1}, {55, 1}, {56, 2}, {57, 0}, {61, 1}, {62, 1}, {71, 1}};

static void check_depths(const char *file)
{
    struct fixture fx;
    fixture_open(&fx, file);
    for (size_t k = 0; k < ARRAY_LEN(depths); k++) {
        uint32_t d = depth_of_mark(&fx, depths[k].mark);
        if (d != depths[k].depth)
            print_error("%s: mark %u at depth %u, not %u\n", file, depths[k].mark, d, depths[k].depth);
        assert_int_equal(d, depths[k].depth);
    }
    assert_int_equal(func(&fx, "nest")->loop_count, 3);
    assert_int_equal(func(&fx, "twice")->loop_count, 3);
    assert_int_equal(func(&fx, "irreducible")->loop_count, 0);
    fixture_close(&fx);
}

static void test_nesting_gcc(void **state)
{
    (void)state;
    check_depths("loops-gcc.so");
}

static void test_nesting_clang(void **state)
{
    (void)state;
    check_depths("loops-clang.so");
}

static void test_catch_in_loop(void **state)
{
    (void)state;
    struct fixture fx;
    fixture_open(&fx, "catch.so");
    assert_int_equal(depth_of_mark(&fx, 1), 1);
    assert_int_equal(func(&fx, "catching")->loop_count, 1);
    assert_int_equal(func(&fx, "catching")->reason, CFG_REASON_OK);
    bool pad = false;
    const struct cfg_func *f = func(&fx, "catching");
    cfg_for_each_block(f, k)
        pad |= (fx.c->blocks.data[k].flags & CFG_BLOCK_LANDING_PAD) != 0;
    assert_true(pad);
    fixture_close(&fx);
}

/* ---- random graphs ---- */

#define NODES_MAX 24

struct graph {
    uint32_t n;
    bool edge[NODES_MAX][NODES_MAX];
    uint8_t region[NODES_MAX]; /* 0: reached from node 0; else in order of the first unreached node */
};

static uint32_t next_random(void)
{
    static uint64_t s = 0x9e3779b97f4a7c15u;
    s = s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(s >> 33);
}

static void reach(const struct graph *g, uint32_t from, uint32_t without, bool *seen)
{
    if (seen[from] || from == without)
        return;
    seen[from] = true;
    for (uint32_t k = 0; k < g->n; k++)
        if (g->edge[from][k] && g->region[k] == g->region[from])
            reach(g, k, without, seen);
}

static void set_regions(struct graph *g)
{
    memset(g->region, 0xff, sizeof g->region);
    for (uint32_t root = 0, next = 0; root < g->n; root++) {
        if (g->region[root] != 0xff)
            continue;
        uint32_t stack[NODES_MAX * NODES_MAX], depth = 0;
        stack[depth++] = root;
        while (depth) {
            uint32_t v = stack[--depth];
            if (g->region[v] != 0xff)
                continue;
            g->region[v] = (uint8_t)next;
            for (uint32_t k = 0; k < g->n; k++)
                if (g->edge[v][k] && g->region[k] == 0xff)
                    stack[depth++] = k;
        }
        next++;
    }
}

static bool dominates(const struct graph *g, uint32_t a, uint32_t b)
{
    bool seen[NODES_MAX] = {false};
    uint32_t root = 0;
    if (g->region[a] != g->region[b])
        return false;
    while (g->region[root] != g->region[b])
        root++; /* a region's root is its lowest node, see set_regions */
    reach(g, root, a, seen);
    return !seen[b];
}

/* Nodes that reach a source of a back edge to h without passing h; false: h heads no loop. */
static bool natural_loop(const struct graph *g, uint32_t h, bool *in)
{
    bool any = false;
    uint32_t stack[NODES_MAX * NODES_MAX + NODES_MAX], depth = 0;
    memset(in, 0, NODES_MAX);
    in[h] = true;
    for (uint32_t u = 0; u < g->n; u++)
        if (g->edge[u][h] && dominates(g, h, u)) {
            any = true;
            stack[depth++] = u;
        }
    while (depth) {
        uint32_t v = stack[--depth];
        if (in[v])
            continue;
        in[v] = true;
        for (uint32_t u = 0; u < g->n; u++)
            if (g->edge[u][v] && g->region[u] == g->region[v])
                stack[depth++] = u;
    }
    return any;
}

static struct cfg *graph_to_cfg(const struct graph *g)
{
    struct cfg *c = xmalloc(sizeof *c);
    struct cfg_func f = {.addr = 0x1000, .size = 4 * g->n, .block_count = g->n, .fde = ID_NONE};
    VEC_PUSH(&c->funcs, f);
    for (uint32_t k = 0; k < g->n; k++) {
        struct cfg_block b = {.addr = 0x1000 + 4 * k,
                              .size = 4,
                              .insn_count = 1,
                              .edge_first = (uint32_t)c->edges.len,
                              .loop = ID_NONE,
                              .flags = k == 0 ? CFG_BLOCK_ENTRY : 0,
                              .term = X86_JMP_IND};
        for (uint32_t t = 0; t < g->n; t++)
            if (g->edge[k][t]) {
                struct cfg_edge e = {.from = k, .to = t, .kind = CFG_EDGE_TABLE};
                VEC_PUSH(&c->edges, e);
            }
        b.edge_count = (uint32_t)c->edges.len - b.edge_first;
        VEC_PUSH(&c->blocks, b);
    }
    return c;
}

static void compare(const struct graph *g)
{
    struct cfg *c = graph_to_cfg(g);
    uint32_t next = 0;
    build_loops(c);
    for (uint32_t h = 0; h < g->n; h++) {
        bool in[NODES_MAX];
        if (!natural_loop(g, h, in))
            continue;
        assert_true(next < c->loops.len);
        const struct cfg_loop *l = &c->loops.data[next++];
        assert_int_equal(l->header, h);
        uint32_t members = 0;
        for (uint32_t k = 0; k < g->n; k++)
            members += in[k];
        assert_int_equal(l->member_count, members);
        cfg_for_each_member(l, m)
            assert_true(in[c->loop_members.data[m]]);
    }
    assert_int_equal(next, c->loops.len);
    for (uint32_t k = 0; k < g->n; k++) { /* innermost is the smallest that holds it */
        uint32_t best = ID_NONE;
        for (uint32_t l = 0; l < c->loops.len; l++)
            cfg_for_each_member(&c->loops.data[l], m)
                if (c->loop_members.data[m] == k &&
                    (best == ID_NONE || c->loops.data[l].member_count < c->loops.data[best].member_count))
                    best = l;
        assert_int_equal(c->blocks.data[k].loop, best);
    }
    cfg_free(c);
}

static void test_random_graphs(void **state)
{
    (void)state;
    for (int round = 0; round < 3000; round++) {
        struct graph g = {.n = 1 + next_random() % NODES_MAX};
        uint32_t edges = next_random() % (2 * g.n + 1);
        for (uint32_t k = 0; k + 1 < g.n; k++)
            g.edge[k][k + 1] = next_random() % 4 != 0;
        for (uint32_t k = 0; k < edges; k++)
            g.edge[next_random() % g.n][next_random() % g.n] = true;
        set_regions(&g);
        compare(&g);
    }
}

/* A function of 60,000 blocks with one exit block that all jump to, and deep nesting at its end. */
static void test_large(void **state)
{
    (void)state;
    enum { N = 60000, DEEP = 500 };
    struct cfg *c = xmalloc(sizeof *c);
    struct cfg_func f = {.addr = 0x1000, .size = 4 * N, .block_count = N, .fde = ID_NONE};
    VEC_PUSH(&c->funcs, f);
    for (uint32_t k = 0; k < N; k++) {
        struct cfg_block b = {.addr = 0x1000 + 4 * k,
                              .size = 4,
                              .insn_count = 1,
                              .edge_first = (uint32_t)c->edges.len,
                              .loop = ID_NONE,
                              .flags = k == 0 ? CFG_BLOCK_ENTRY : 0,
                              .term = X86_JMP_IND};
        uint32_t to[] = {k + 1 < N ? k + 1 : 0, k < N - DEEP - 1 ? N - 1 : N - 1 - (k - (N - DEEP - 1)) - DEEP};
        for (int t = 0; t < 2; t++) {
            struct cfg_edge e = {.from = k, .to = to[t], .kind = CFG_EDGE_TABLE};
            VEC_PUSH(&c->edges, e);
        }
        b.edge_count = 2;
        VEC_PUSH(&c->blocks, b);
    }
    double start = time_now_s();
    build_loops(c);
    assert_true(time_now_s() - start < 1.0);
    assert_true(c->loops.len >= 1);
    cfg_free(c);
}

int main(int argc, char **argv)
{
    fixture_dir = argc > 1 ? argv[1] : fixture_dir;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nesting_gcc),   cmocka_unit_test(test_nesting_clang),
        cmocka_unit_test(test_catch_in_loop), cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests_name("cfg loops", tests, NULL, NULL);
}
