/* SPDX-License-Identifier: Apache-2.0
 * Rewriting a file and reading its map back: what is refused, what a damaged map does, that counts follow from
 * counters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rewrite/map/map.h"
#include "wire/stream.h"

static char dir[] = "/tmp/mtool-rewrite-test.XXXXXX";
static char copy[64], map[64];

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(copy, sizeof copy, "%s/copy", dir);
    snprintf(map, sizeof map, "%s/copy.map", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(copy);
    unlink(map);
    return rmdir(dir);
}

static void rewrite_ls(enum rewrite_plan plan, bool all_blocks, struct rewrite_stats *stats)
{
    struct rewrite_options opt = {.plan = plan, .all_blocks = all_blocks};
    struct rewrite_stats of_ls;
    assert_int_equal(rewrite_file("/bin/ls", &opt, copy, map, &of_ls), 0);
    assert_false(of_ls.wants_samples);
    if (stats)
        *stats = of_ls;
}

static void test_copy_opens_as_elf(void **state)
{
    (void)state;
    struct rewrite_stats s;
    rewrite_ls(REWRITE_COUNT, false, &s);
    assert_true(s.funcs_moved * 10 > s.funcs * 9);
    assert_true(s.counters > 0 && s.counters < s.blocks + s.edges);
    struct image *old, *new;
    assert_int_equal(image_open("/bin/ls", &old), 0);
    assert_int_equal(image_open(copy, &new), 0);
    assert_true(new->segment_count >= old->segment_count + 3);
    assert_true(new->entry != old->entry);
    struct image_unwind u_old, u_new;
    assert_int_equal(image_unwind_read(old, &u_old), 0);
    assert_int_equal(image_unwind_read(new, &u_new), 0);
    image_close(old);
    image_close(new);
}

static void test_plans(void **state)
{
    (void)state;
    struct rewrite_stats none, count, all;
    rewrite_ls(REWRITE_NONE, false, &none);
    rewrite_ls(REWRITE_COUNT, false, &count);
    rewrite_ls(REWRITE_COUNT, true, &all);
    assert_int_equal(none.counters, 0);
    assert_true(count.counters < all.counters); /* the tree saves counters */
    assert_true(none.text_bytes_new < count.text_bytes_new && count.text_bytes_new < all.text_bytes_new);
}

enum { LEFT_AT = 5 };

/* Places in the copy that have these bytes, where the number of 32 bits at LEFT_AT says where `left` is. */
static size_t found(uint8_t *code, size_t len)
{
    uint32_t left = WIRE_STREAM_VADDR + (uint32_t)offsetof(struct wire_stream, left);
    memcpy(code + LEFT_AT, &left, sizeof left);
    struct file_bytes f;
    assert_int_equal(file_map(copy, &f), 0);
    size_t n = 0;
    for (const uint8_t *p = f.data; (p = memmem(p, (size_t)(f.data + f.len - p), code, len)); p++)
        n++;
    file_unmap(&f);
    return n;
}

/* Places in the copy that look whether a sample is taken, and jump on that condition: cmp gs:[left],0; jcc */
static size_t asked(uint8_t condition)
{
    uint8_t ask[] = {0x65, 0x48, 0x83, 0x3c, 0x25, 0, 0, 0, 0, 0, 0x0f, condition};
    return found(ask, sizeof ask);
}

/* Likewise where flags are alive: mov rcx,gs:[left]; jrcxz */
static size_t asked_by_rcx(void)
{
    uint8_t ask[] = {0x65, 0x48, 0x8b, 0x0c, 0x25, 0, 0, 0, 0, 0xe3};
    return found(ask, sizeof ask);
}

/* With samples most sites stand in second copies of blocks, which are entered while one is taken; few ask one by one.
 * Without there are neither. */
static void test_versions(void **state)
{
    (void)state;
    enum { JLE = 0x8e, JG = 0x8f };
    struct rewrite_options opt = {.plan = REWRITE_REFERENCES, .threads = true};
    struct rewrite_stats all, sampled;
    assert_int_equal(rewrite_file("/bin/ls", &opt, copy, map, &all), 0);
    assert_int_equal(asked(JG) + asked(JLE), 0);
    opt.samples = true;
    assert_int_equal(rewrite_file("/bin/ls", &opt, copy, map, &sampled), 0);
    assert_int_equal(sampled.funcs_moved, all.funcs_moved);
    assert_true(asked(JG) > all.blocks / 8);
    assert_true(asked(JG) < all.blocks * 2 / 5); /* calls do not ask */
    assert_true(asked(JLE) < all.blocks / 3);
}

/* What calls the runtime (vectors with masks, system calls) does not between samples. */
static void test_asks_of_calls(void **state)
{
    (void)state;
    static const char *const libc = "/lib/x86_64-linux-gnu/libc.so.6";
    struct rewrite_options opt = {.plan = REWRITE_REFERENCES, .threads = true};
    struct rewrite_stats stats;
    enum { JLE = 0x8e, SYSTEM_CALLS = 300, MASKED = 250 /* 223 were of other sites */ };
    assert_int_equal(rewrite_file(libc, &opt, copy, map, &stats), 0);
    assert_int_equal(asked_by_rcx(), 0);
    opt.samples = true;
    assert_int_equal(rewrite_file(libc, &opt, copy, map, &stats), 0);
    assert_true(asked_by_rcx() > SYSTEM_CALLS);
    assert_true(asked(JLE) > MASKED);
}

static uint64_t *read_only_zeros(size_t count)
{
    void *p = mmap(NULL, 8 * (count + 1), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

/* A run that never came: every count is nothing, and every equation holds. And what is nothing already is not written:
 * a large module's counts take only the pages of what ran. */
static void test_zero_counters(void **state)
{
    (void)state;
    rewrite_ls(REWRITE_COUNT, false, NULL);
    struct rewrite_map *m;
    assert_int_equal(rewrite_map_open(map, &m), 0);
    size_t n = m->cfg->blocks.len, edge_count = m->cfg->edges.len;
    uint64_t *zero = xmalloc(8ull * m->counter_count), *blocks = xmalloc(8 * n), *edges = xmalloc(8 * edge_count);
    memset(blocks, 0xff, 8 * n);
    assert_int_equal(rewrite_counts_solve(m, zero, blocks, edges, NULL), 0);
    for (size_t b = 0; b < n; b++)
        assert_int_equal(blocks[b], 0);
    free(blocks);
    free(edges);
    blocks = read_only_zeros(n);
    edges = read_only_zeros(edge_count);
    uint64_t *enter = read_only_zeros(n);
    assert_int_equal(rewrite_counts_solve(m, zero, blocks, edges, enter), 0);
    munmap(blocks, 8 * (n + 1));
    munmap(edges, 8 * (edge_count + 1));
    munmap(enter, 8 * (n + 1));
    free(zero);
    rewrite_map_close(m);
}

static void test_damaged_maps(void **state)
{
    (void)state;
    rewrite_ls(REWRITE_COUNT, false, NULL);
    struct file_bytes f;
    assert_int_equal(file_map(map, &f), 0);
    uint8_t *bytes = xmalloc(f.len);
    size_t len = f.len, opened = 0;
    char bad[80];
    snprintf(bad, sizeof bad, "%s/bad", dir);
    int saved = dup(2);
    assert_non_null(freopen("/dev/null", "w", stderr)); /* one line each would drown the report */
    for (size_t k = 0; k < 300; k++) {
        memcpy(bytes, f.data, len);
        size_t cut = k % 3 ? len : len * k / 300;
        bytes[(k * 2654435761u) % (k < 150 ? 600 : len)] ^= (uint8_t)(1u << k % 8);
        assert_int_equal(file_write_whole(bad, bytes, cut, 0600), 0);
        struct rewrite_map *m;
        if (rewrite_map_open(bad, &m) == 0) {
            opened++;
            uint64_t *zero = xmalloc(8ull * m->counter_count), *blocks = xmalloc(8 * m->cfg->blocks.len),
                     *edges = xmalloc(8 * m->cfg->edges.len);
            rewrite_counts_solve(m, zero, blocks, edges, NULL);
            free(zero);
            free(blocks);
            free(edges);
            rewrite_map_close(m);
        }
    }
    dup2(saved, 2);
    close(saved);
    assert_true(opened < 300);
    unlink(bad);
    free(bytes);
    file_unmap(&f);
}

/* Functions that the rewriter itself leaves alone stay in the map: these files have such. */
static void test_maps_of_real_files(void **state)
{
    (void)state;
    static const char *const files[] = {"/bin/bash", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/perl",
                                        "/usr/bin/python3.11"};
    uint32_t refused = 0;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        if (!file_exists(files[i]))
            continue;
        struct rewrite_options opt = {.plan = REWRITE_COUNT};
        struct rewrite_stats s;
        struct rewrite_map *m;
        assert_int_equal(rewrite_file(files[i], &opt, copy, map, &s), 0);
        assert_int_equal(rewrite_map_open(map, &m), 0);
        assert_int_equal(m->counter_count, s.counters);
        refused += s.refused[CFG_REASON_LANDING] + s.refused[CFG_REASON_TOO_SMALL] + s.refused[CFG_REASON_GETPC];
        rewrite_map_close(m);
    }
    assert_true(refused > 0);
}

static int write_feedback(const struct rewrite_map *m, const uint64_t *counters, uint64_t min, const char *path)
{
    struct rewrite_flow flow;
    rewrite_flow_solve(m, counters, (struct rewrite_side_exits){NULL, 0}, &flow);
    int rc = rewrite_feedback_write(m, &flow, min, path);
    rewrite_flow_free(&flow);
    return rc;
}

/* What one run executed often gets no counter in the next copy, and stands in front; damaged feedback changes nothing.
 */
static void test_feedback(void **state)
{
    (void)state;
    char feedback[64], id[33], again[33];
    struct rewrite_stats s;
    struct rewrite_map *m, *taught;
    uint64_t executed = 0;
    snprintf(feedback, sizeof feedback, "%s/lesson", dir);
    rewrite_ls(REWRITE_COUNT, true, NULL);
    assert_int_equal(rewrite_map_open(map, &m), 0);
    uint64_t *counters = xmalloc(8ull * m->counter_count);
    uint32_t hot = ID_NONE; /* the last block that has a counter */
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++)
        hot = m->block_counter[b] != ID_NONE && m->cfg->blocks.data[b].term == X86_RET ? b : hot;
    counters[m->block_counter[hot]] = 1000000;
    assert_int_equal(write_feedback(m, counters, 0, feedback), 0);
    assert_true(rewrite_feedback_id(feedback, id, &executed));
    assert_true(executed >= 1000000);
    counters[m->block_counter[hot]] = 50;
    assert_int_equal(write_feedback(m, counters, UINT64_MAX, feedback), 0); /* too short to teach: stays */
    assert_true(rewrite_feedback_id(feedback, again, &executed));
    assert_string_equal(id, again);
    struct rewrite_options opt = {.plan = REWRITE_COUNT, .feedback = feedback};
    assert_int_equal(rewrite_file("/bin/ls", &opt, copy, map, &s), 0);
    assert_int_equal(rewrite_map_open(map, &taught), 0);
    assert_memory_not_equal(m->key, taught->key, sizeof m->key);
    uint64_t lowest = UINT64_MAX;
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++)
        if (taught->block_addr_new[b] && m->cfg->blocks.data[b].func != m->cfg->blocks.data[hot].func)
            lowest = min_u64(lowest, taught->block_addr_new[b]);
    assert_true(taught->block_addr_new[hot] < lowest);
    assert_int_equal(truncate(feedback, 100), 0);
    assert_int_equal(rewrite_file("/bin/ls", &opt, copy, map, &s), 0);
    unlink(feedback);
    free(counters);
    rewrite_map_close(taught);
    rewrite_map_close(m);
}

static struct x86_insn insn_at(const struct image *img, uint64_t addr)
{
    struct x86_insn in = {.len = 0};
    size_t avail = 16;
    while (avail && !image_at(img, addr, avail))
        avail--;
    assert_true(avail && x86_decode(image_at(img, addr, avail), avail, addr, &in) > 0);
    return in;
}

/* Behind a call, and only there. */
static void return_comes_back(const struct rewrite_reverse_map *back, uint64_t behind, const struct x86_insn *was,
                              uint64_t original)
{
    uint64_t to = 0;
    bool is_call = was->kind == X86_CALL || was->kind == X86_CALL_IND;
    assert_int_equal(rewrite_reverse_map_return(back, behind, &to), is_call);
    if (is_call)
        assert_int_equal(to, original + was->len);
}

/* Each instruction of the block has one place in the copy, and only these are told to be the block's. A call or a jump
 * may be longer there, a system call is a sequence. */
static void block_comes_back(const struct rewrite_reverse_map *back, const struct rewrite_map *m, uint32_t b,
                             const struct image *old, const struct image *new)
{
    const struct cfg_block *blk = &m->cfg->blocks.data[b];
    uint64_t at = m->block_addr_new[b], end = blk->addr + blk->size;
    for (uint64_t next = blk->addr; next < end; at++) {
        struct rewrite_place place;
        assert_true(at < m->block_addr_new[b] + 100000);
        assert_true(rewrite_reverse_map_find(back, at, &place));
        assert_true(place.addr >= blk->addr && place.addr < end);
        assert_int_equal(place.block, b);
        assert_true(place.counter == ID_NONE || (place.is_inserted && place.counter < m->counter_count));
        assert_true(place.is_inserted == (place.inserted != 0) && place.inserted <= at);
        if (!place.is_exact)
            continue;
        assert_int_equal(place.addr, next);
        struct x86_insn was = insn_at(old, next);
        if (!place.is_inserted && was.kind != X86_SYSCALL && was.kind != X86_JCXZ)
            assert_int_equal(insn_at(new, at).mnemonic, was.mnemonic);
        if (!place.is_inserted)
            return_comes_back(back, at + insn_at(new, at).len, &was, next);
        if (!place.is_inserted)
            next += was.len;
    }
}

static void test_back(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        struct rewrite_options opt = {.plan = REWRITE_COUNT, .all_blocks = k & 1, .threads = k & 2};
        struct rewrite_stats s;
        struct rewrite_map *m;
        struct image *old, *new;
        struct rewrite_place none;
        assert_int_equal(rewrite_file("/bin/ls", &opt, copy, map, &s), 0);
        assert_int_equal(rewrite_map_open(map, &m), 0);
        assert_int_equal(image_open("/bin/ls", &old), 0);
        assert_int_equal(image_open(copy, &new), 0);
        struct rewrite_reverse_map *back = rewrite_reverse_map_new(m, copy);
        assert_non_null(back);
        assert_false(rewrite_reverse_map_find(back, m->text_new_lo - 1, &none));
        assert_false(rewrite_reverse_map_find(back, m->text_new_hi, &none));
        for (uint32_t b = 0; b < m->cfg->blocks.len; b++)
            if (m->block_addr_new[b])
                block_comes_back(back, m, b, old, new);
        rewrite_reverse_map_free(back);
        image_close(old);
        image_close(new);
        rewrite_map_close(m);
    }
}

struct taken_from { /* a copy of which samples are taken back */
    struct rewrite_map *m;
    double most; /* samples that one counter may have */
};

static const struct rewrite_map *taken_map(void *ctx, uint32_t module, const char **file)
{
    *file = copy;
    return module == 0 ? ((struct taken_from *)ctx)->m : NULL;
}

static double taken_most(void *ctx, uint32_t module, const struct rewrite_place *at)
{
    assert_int_equal(module, 0);
    assert_true(at->is_inserted);
    return ((struct taken_from *)ctx)->most;
}

/* Of ten samples on each of two bytes of one counter, and ten behind it: those that are left. */
static void takes(struct taken_from *from, uint64_t counter, uint64_t behind, double most, const uint64_t *left)
{
    struct observed_sample s[] = {{0, counter, 10}, {0, counter + 1, 10}, {0, behind, 10}, {7, behind, 10}};
    const struct rewrite_copies copies = {1, taken_map, taken_most, from};
    from->most = most;
    assert_int_equal(rewrite_take_back(&copies, s, ARRAY_LEN(s), NULL, 0), 20 - left[0] - left[1]);
    for (size_t i = 0; i < ARRAY_LEN(s); i++)
        assert_int_equal(s[i].count, i < 2 ? left[i] : 10);
    assert_int_equal(s[3].vaddr, behind); /* of a module that is no copy */
    assert_int_equal(s[0].vaddr, s[2].vaddr);
}

/* Half of the samples on a counter are its own, but no more than its executions can have taken. */
static void test_taken(void **state)
{
    struct rewrite_options opt = {.plan = REWRITE_COUNT};
    struct taken_from from;
    uint64_t counter = 0, behind = 0;
    (void)state;
    assert_int_equal(rewrite_file("/bin/ls", &opt, copy, map, NULL), 0);
    assert_int_equal(rewrite_map_open(map, &from.m), 0);
    struct rewrite_reverse_map *back = rewrite_reverse_map_new(from.m, copy);
    for (uint32_t b = 0; b < from.m->cfg->blocks.len && !behind; b++) {
        struct rewrite_place place;
        for (uint64_t at = from.m->block_addr_new[b]; at && at < from.m->block_addr_new[b] + 16 && !behind; at++) {
            if (!rewrite_reverse_map_find(back, at, &place) || place.block != b)
                break;
            if (place.is_inserted && place.inserted == at && place.counter != ID_NONE)
                counter = at;
            behind = counter && place.is_exact && !place.is_inserted ? at : 0;
        }
        counter = behind ? counter : 0;
    }
    assert_true(behind > counter + 1);
    rewrite_map_forget_counters(from.m); /* which needs none of them */
    takes(&from, counter, behind, 100, (uint64_t[]){5, 5});
    takes(&from, counter, behind, 7, (uint64_t[]){5, 8});
    takes(&from, counter, behind, 2, (uint64_t[]){8, 10});
    takes(&from, counter, behind, 0, (uint64_t[]){10, 10});
    rewrite_reverse_map_free(back);
    rewrite_map_close(from.m);
}

struct frames { /* of the original and of the copy */
    struct image *old, *new;
    struct image_unwind u_old, u_new;
    uint64_t compared;
};

static void same_frame(struct frames *f, uint64_t addr_old, uint64_t addr_new)
{
    uint32_t d_old = image_unwind_find(&f->u_old, addr_old), d_new = image_unwind_find(&f->u_new, addr_new);
    if (d_old == ID_NONE)
        return;
    assert_int_not_equal(d_new, ID_NONE);
    const struct image_fde *fde_old = &f->u_old.fdes[d_old], *fde_new = &f->u_new.fdes[d_new];
    struct image_cfa was = image_unwind_cfa(f->old, &f->u_old, fde_old, addr_old);
    struct image_cfa is = image_unwind_cfa(f->new, &f->u_new, fde_new, addr_new);
    if (was.reg == IMAGE_CFA_NONE) /* an expression, as of the procedure linkage table */
        return;
    assert_int_equal(is.reg, was.reg);
    assert_int_equal(is.offset, was.offset);
    assert_int_equal(image_unwind_saved(f->new, &f->u_new, fde_new, addr_new),
                     image_unwind_saved(f->old, &f->u_old, fde_old, addr_old));
    f->compared++;
}

static void same_frames(const struct rewrite_reverse_map *back, const struct rewrite_map *m, uint32_t b,
                        struct frames *f)
{
    const struct cfg_block *blk = &m->cfg->blocks.data[b];
    uint64_t at = m->block_addr_new[b], end = blk->addr + blk->size;
    for (uint64_t next = blk->addr; next < end; at++) {
        struct rewrite_place place;
        assert_true(rewrite_reverse_map_find(back, at, &place));
        if (!place.is_exact || place.is_inserted)
            continue;
        same_frame(f, place.addr, at);
        next += insn_at(f->old, next).len;
    }
}

/* As if a run had passed every third block or so, and none of some functions. */
static struct rewrite_flow any_flow(const struct cfg *c)
{
    struct rewrite_flow flow = {xmalloc_sparse(8 * (c->blocks.len + 1)), xmalloc_sparse(8 * (c->edges.len + 1)),
                                xmalloc_sparse(8 * (c->blocks.len + 1)), 0};
    uint32_t random = 1;
    for (uint32_t b = 0; b < c->blocks.len; b++) {
        random = random * 1664525u + 1013904223u;
        bool is_entry = b == c->funcs.data[c->blocks.data[b].func].block_first;
        flow.blocks[b] = is_entry ? random >> 31 : (random >> 30) % 3 == 0 ? random >> 8 : 0;
        cfg_for_each_edge(&c->blocks.data[b], e)
            flow.edges[e] = flow.blocks[b] / 2;
    }
    return flow;
}

static void write_any_feedback(const struct rewrite_map *m, const char *path)
{
    struct rewrite_flow flow = any_flow(m->cfg);
    assert_int_equal(rewrite_feedback_write(m, &flow, 0, path), 0);
    rewrite_flow_free(&flow);
}

struct numbers {
    uint32_t least, most, count;
};

static void note_number(struct numbers *n, uint32_t counter)
{
    n->least = n->count && n->least < counter ? n->least : counter;
    n->most = n->count && n->most > counter ? n->most : counter;
    n->count++;
}

/* Counters that the run increased come before those that it did not; those of loops in registers come behind all. */
static void hot_counters_lie_together(const struct rewrite_map *m)
{
    const struct cfg *c = m->cfg;
    struct rewrite_flow flow = any_flow(c);
    struct numbers hot = {.count = 0}, cold = {.count = 0};
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t b = 0; b < c->blocks.len; b++) {
            uint32_t own = m->block_counter[b];
            if (own != ID_NONE && (pass == 0) == !flow.blocks[b] && (pass == 0 || own < cold.most))
                note_number(pass ? &hot : &cold, own);
            cfg_for_each_edge(&c->blocks.data[b], e) {
                uint32_t way = m->edge_counter[e];
                if (way != ID_NONE && (pass == 0) == !flow.edges[e] && (pass == 0 || way < cold.most))
                    note_number(pass ? &hot : &cold, way);
            }
        }
    assert_true(hot.count > 50 && cold.count > 50);
    assert_true(hot.most < cold.least);
    rewrite_flow_free(&flow);
}

/* Blocks that no run passed stand apart, far behind those that one did, and every instruction has the original's frame
 * wherever it stands. */
static void parts_of(const char *file, const char *feedback)
{
    struct rewrite_options opt = {.plan = REWRITE_COUNT};
    struct rewrite_map *m;
    struct frames f = {.compared = 0};
    assert_int_equal(rewrite_file(file, &opt, copy, map, NULL), 0);
    assert_int_equal(rewrite_map_open(map, &m), 0);
    write_any_feedback(m, feedback);
    rewrite_map_close(m);
    opt.feedback = feedback;
    assert_int_equal(rewrite_file(file, &opt, copy, map, NULL), 0);
    assert_int_equal(rewrite_map_open(map, &m), 0);
    assert_int_equal(image_open(file, &f.old), 0);
    assert_int_equal(image_open_copy(copy, &f.new), 0);
    assert_int_equal(image_unwind_read(f.old, &f.u_old), 0);
    assert_int_equal(image_unwind_read(f.new, &f.u_new), 0);
    struct rewrite_reverse_map *back = rewrite_reverse_map_new(m, copy);
    assert_non_null(back);
    uint32_t apart = 0;
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++) {
        if (!m->block_addr_new[b])
            continue;
        const struct cfg_func *fn = &m->cfg->funcs.data[m->cfg->blocks.data[b].func];
        apart += b > fn->block_first && m->block_addr_new[b] - m->block_addr_new[b - 1] > 8ull * fn->size + 4096;
        block_comes_back(back, m, b, f.old, f.new);
        same_frames(back, m, b, &f);
    }
    assert_true(apart > 100);
    hot_counters_lie_together(m);
    assert_true(f.compared > 10000);
    rewrite_reverse_map_free(back);
    image_close(f.old);
    image_close(f.new);
    rewrite_map_close(m);
}

/* Jumps that share a table: a counter on the way to a target takes a jump more than one in it. Of an interpreter whose
 * operations were all executed as often, all stand in these. */
static void test_counters_of_shared_tables(void **state)
{
    (void)state;
    const char *interpreter = getenv("INTERPRETER");
    struct rewrite_options opt = {.plan = REWRITE_COUNT};
    struct rewrite_map *m;
    char feedback[64];
    snprintf(feedback, sizeof feedback, "%s/lesson", dir);
    assert_non_null(interpreter);
    assert_int_equal(rewrite_file(interpreter, &opt, copy, map, NULL), 0);
    assert_int_equal(rewrite_map_open(map, &m), 0);
    struct rewrite_flow flow = any_flow(m->cfg);
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++) {
        flow.blocks[b] = 1000;
        cfg_for_each_edge(&m->cfg->blocks.data[b], e)
            flow.edges[e] = 1000 / m->cfg->blocks.data[b].edge_count;
    }
    assert_int_equal(rewrite_feedback_write(m, &flow, 0, feedback), 0);
    rewrite_flow_free(&flow);
    rewrite_map_close(m);
    opt.feedback = feedback;
    assert_int_equal(rewrite_file(interpreter, &opt, copy, map, NULL), 0);
    assert_int_equal(rewrite_map_open(map, &m), 0);
    const struct map_full *full = (const struct map_full *)m; /* the public part is its first */
    uint32_t on_the_way = 0;
    for (uint32_t g = 0; g < full->group_edge_count; g++)
        on_the_way += full->group_edges[g].counter != ID_NONE;
    assert_int_equal(full->group_edge_count, 8);
    assert_int_equal(on_the_way, 0);
    rewrite_map_close(m);
    unlink(feedback);
}

static void test_parts(void **state)
{
    (void)state;
    char feedback[64];
    snprintf(feedback, sizeof feedback, "%s/lesson", dir);
    parts_of("/bin/ls", feedback);
    parts_of("/bin/bash", feedback);
    unlink(feedback);
}

static const char heat_id[] = "0123456789abcdef0123456789abcdef";

struct hot { /* what a run is seen to execute */
    char path[64];
    struct rewrite_sample sample;
    unsigned settled;
};

static void settle_heat(void *ctx)
{
    struct hot *h = ctx;
    h->settled++;
    assert_int_equal(rewrite_heat_write(h->path, heat_id, &h->sample, 1), 0);
}

/* Of a copy of /bin/ls: does function f stand in front of all others? */
static bool stands_in_front(const struct rewrite_options *opt, uint32_t f, struct rewrite_stats *s)
{
    struct rewrite_map *m;
    uint64_t lowest = UINT64_MAX, own = 0;
    assert_int_equal(rewrite_file("/bin/ls", opt, copy, map, s), 0);
    assert_int_equal(rewrite_map_open(map, &m), 0);
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++) {
        if (b == m->cfg->funcs.data[f].block_first)
            own = m->block_addr_new[b];
        else if (m->block_addr_new[b] && m->cfg->blocks.data[b].func != f)
            lowest = min_u64(lowest, m->block_addr_new[b]);
    }
    rewrite_map_close(m);
    return own < lowest;
}

/* Functions that samples fell into stand in front, also if the samples come when the copy is half made; what is damaged
 * changes nothing. */
static void test_heat(void **state)
{
    (void)state;
    struct hot h = {.settled = 0};
    struct rewrite_options opt = {.plan = REWRITE_COUNT};
    struct rewrite_stats plain, early, late;
    struct rewrite_map *m;
    char id[33];
    uint64_t samples;
    snprintf(h.path, sizeof h.path, "%s/heat", dir);
    rewrite_ls(REWRITE_COUNT, true, NULL);
    assert_int_equal(rewrite_map_open(map, &m), 0);
    uint32_t last = ID_NONE;
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++)
        last = m->block_addr_new[b] ? m->cfg->blocks.data[b].func : last;
    h.sample = (struct rewrite_sample){m->cfg->funcs.data[last].addr + 1, 7};
    rewrite_map_close(m);
    assert_false(stands_in_front(&opt, last, &plain));
    assert_int_equal(rewrite_heat_write(h.path, heat_id, &h.sample, 1), 0);
    assert_true(rewrite_heat_id(h.path, id, &samples));
    assert_string_equal(id, heat_id);
    assert_int_equal(samples, 7);
    opt.heat = h.path;
    assert_true(stands_in_front(&opt, last, &early));
    assert_memory_not_equal(early.key, plain.key, sizeof plain.key);
    assert_int_equal(rewrite_heat_write(h.path, heat_id, NULL, 0), 0);
    assert_false(stands_in_front(&opt, last, &late));
    opt.heat_settle = settle_heat;
    opt.heat_ctx = &h;
    assert_true(stands_in_front(&opt, last, &late));
    assert_int_equal(h.settled, 1);
    assert_memory_equal(early.key, late.key, sizeof late.key);
    opt.heat_settle = NULL;
    assert_int_equal(truncate(h.path, 90), 0);
    assert_false(rewrite_heat_id(h.path, id, &samples));
    assert_false(stands_in_front(&opt, last, &late));
    assert_memory_equal(plain.key, late.key, sizeof late.key);
    unlink(h.path);
}

static void test_back_tells_counters(void **state)
{
    (void)state;
    struct rewrite_stats s;
    struct rewrite_map *m;
    rewrite_ls(REWRITE_COUNT, true, &s);
    assert_int_equal(rewrite_map_open(map, &m), 0);
    struct rewrite_reverse_map *back = rewrite_reverse_map_new(m, copy);
    assert_non_null(back);
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++) {
        struct rewrite_place at;
        if (!m->block_addr_new[b])
            continue;
        const struct cfg_block *blk = &m->cfg->blocks.data[b];
        unsigned inserted = 0;
        for (uint64_t a = m->block_addr_new[b]; rewrite_reverse_map_find(back, a, &at) &&
                                                at.addr < blk->addr + blk->size - 1 && a < m->block_addr_new[b] + 500;
             a++)
            inserted += at.is_inserted;
        if (m->block_counter[b] != ID_NONE && blk->insn_count > 1)
            assert_true(inserted >= 7);
    }
    rewrite_reverse_map_free(back);
    rewrite_map_close(m);
}

static const struct rewrite_map *only_first(void *ctx, uint32_t module, const char **of)
{
    *of = copy;
    return module == 0 ? ctx : NULL;
}

static double any_number(void *ctx, uint32_t module, const struct rewrite_place *at)
{
    (void)ctx;
    (void)module;
    (void)at;
    return UINT32_MAX;
}

/* Every block's samples stand in its original then; half of those on a counter are gone; other modules stay. */
static void test_take_back(void **state)
{
    (void)state;
    struct rewrite_map *m;
    rewrite_ls(REWRITE_COUNT, true, NULL);
    assert_int_equal(rewrite_map_open(map, &m), 0);
    struct observed_sample *s = xmalloc((m->cfg->blocks.len + 1) * sizeof *s);
    struct observed_frame frame = {ID_NONE, 0, 0};
    uint64_t left = 0, n = 0;
    for (uint32_t b = 0; b < m->cfg->blocks.len; b++)
        if (m->block_addr_new[b])
            s[n++] = (struct observed_sample){0, frame.vaddr = m->block_addr_new[b], 100};
    uint64_t there = frame.vaddr;
    s[n] = (struct observed_sample){1, there, 100};
    uint64_t taken = rewrite_take_back(&(struct rewrite_copies){2, only_first, any_number, m}, s, n + 1, &frame, 1);
    for (uint32_t b = 0, i = 0; b < m->cfg->blocks.len; b++)
        if (m->block_addr_new[b]) {
            assert_int_equal(s[i].vaddr, m->cfg->blocks.data[b].addr);
            left += s[i++].count;
        }
    assert_true(taken > 0 && taken <= 50 * n);
    assert_int_equal(left + taken, 100 * n);
    assert_int_equal(frame.vaddr, s[n - 1].vaddr);
    assert_int_equal(s[n].count, 100);
    assert_int_equal(s[n].vaddr, there);
    free(s);
    rewrite_map_close(m);
}

static void test_back_of_nothing(void **state)
{
    (void)state;
    struct rewrite_stats s;
    struct rewrite_map *m;
    rewrite_ls(REWRITE_COUNT, false, &s);
    assert_int_equal(rewrite_map_open(map, &m), 0);
    assert_null(rewrite_reverse_map_new(m, "/nowhere"));
    rewrite_map_close(m);
}

static void test_missing_file(void **state)
{
    (void)state;
    struct rewrite_options opt = {.plan = REWRITE_COUNT};
    unlink(copy);
    assert_int_equal(rewrite_file("/nonexistent/program", &opt, copy, map, NULL), -1);
    assert_false(file_exists(copy));
    assert_int_equal(rewrite_file("/bin/ls", &opt, "/nonexistent/folder/copy", map, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_opens_as_elf),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_zero_counters),
        cmocka_unit_test(test_damaged_maps),
        cmocka_unit_test(test_maps_of_real_files),
        cmocka_unit_test(test_feedback),
        cmocka_unit_test(test_counters_of_shared_tables),
        cmocka_unit_test(test_heat),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_back),
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_back_tells_counters),
        cmocka_unit_test(test_back_of_nothing),
        cmocka_unit_test(test_take_back),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_asks_of_calls),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
