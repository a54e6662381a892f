/* SPDX-License-Identifier: Apache-2.0
 * Blocks that come and go: what each way of it does to figures and addresses, and streams of random events beside a
 * model that asks a list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "data/data.h"
#include "naive.h"

#define BASE 0x7f0000000000ull

static const uint64_t path_a[] = {0x401000, 0x402000}, path_b[] = {0x401010, 0x402000};

static void put(struct data *d, uint64_t at, uint64_t bytes, const uint64_t *path)
{
    data_allocate(d, DATA_LAYER_HEAP, at, bytes, path, 2);
}

static void blocks_of_a_path_are_one_object(void **state)
{
    (void)state;
    struct data *d = data_new();
    put(d, BASE, 100, path_a);
    put(d, BASE + 0x1000, 50, path_a);
    put(d, BASE + 0x2000, 50, path_b);
    uint32_t a = data_object_at(d, BASE), b = data_object_at(d, BASE + 0x2000);
    assert_int_not_equal(a, 0);
    assert_int_not_equal(a, b);
    assert_int_equal(data_object_at(d, BASE + 99), a);
    assert_int_equal(data_object_at(d, BASE + 100), 0);
    assert_int_equal(data_object_at(d, BASE - 1), 0);
    assert_int_equal(data_object_at(d, BASE + 0x1000), a);
    const struct data_object *o = data_object(d, a);
    assert_int_equal(o->kind, DATA_HEAP);
    assert_int_equal(o->blocks, 2);
    assert_int_equal(o->bytes, 150);
    assert_int_equal(o->live_bytes, 150);
    assert_int_equal(o->smallest, 50);
    assert_int_equal(o->largest, 100);
    assert_string_equal(data_object_name(d, a), "0x401000 <- 0x402000");
    data_free(d);
}

static void freed_blocks_leave_figures(void **state)
{
    (void)state;
    struct data *d = data_new();
    put(d, BASE, 100, path_a);
    uint32_t a = data_object_at(d, BASE);
    data_release(d, DATA_LAYER_HEAP, BASE);
    data_release(d, DATA_LAYER_HEAP, 0);
    assert_int_equal(data_object_at(d, BASE), 0);
    assert_int_equal(data_object(d, a)->live_bytes, 0);
    assert_int_equal(data_object(d, a)->live_blocks, 0);
    assert_int_equal(data_object(d, a)->blocks, 1);
    assert_int_equal(data_object(d, a)->peak_bytes, 100);
    put(d, BASE + 16, 20, path_b); /* the address again, for another */
    assert_int_not_equal(data_object_at(d, BASE + 16), a);
    assert_int_equal(data_lost(d)->frees, 0);
    data_release(d, DATA_LAYER_HEAP, BASE); /* once more */
    assert_int_equal(data_lost(d)->frees, 0);
    assert_int_equal(data_lost(d)->again, 1);
    data_release(d, DATA_LAYER_HEAP, BASE + 64);
    assert_int_equal(data_lost(d)->frees, 1);
    data_free(d);
}

/* From the end of one piece of the break into the next. */
static void blocks_may_lie_upon_two_mappings(void **state)
{
    (void)state;
    struct data *d = data_new();
    data_map(d, &(struct data_map){BASE - 0x1000, 0x2000, DATA_MAPPING, "break", NULL, 0});
    data_map(d, &(struct data_map){BASE + 0x1000, 0x1000, DATA_MAPPING, "more", NULL, 0});
    put(d, BASE + 0x800, 0x1000, path_a);
    assert_int_equal(data_lost(d)->overlaps, 0);
    assert_int_equal(data_object(d, data_object_at(d, BASE + 0x1100))->kind, DATA_HEAP);
    put(d, BASE + 0x1700, 0x200, path_b); /* but not into each other */
    assert_int_equal(data_lost(d)->overlaps, 1);
    data_free(d);
}

/* As many as a program has in 4 MB; where one further up was since, that is not known any more. */
static void ends_of_many_blocks_are_known(void **state)
{
    (void)state;
    enum { MANY = 1 << 18, STEP = 16 };
    const uint64_t apart = 1ull << 24;
    struct data *d = data_new();
    for (uint64_t i = 0; i < MANY; i++) {
        put(d, BASE + i * STEP, STEP, path_a);
        data_release(d, DATA_LAYER_HEAP, BASE + i * STEP);
    }
    for (uint64_t i = 0; i < MANY; i++)
        data_release(d, DATA_LAYER_HEAP, BASE + i * STEP);
    assert_int_equal(data_lost(d)->again, MANY);
    assert_int_equal(data_lost(d)->frees, 0);
    put(d, BASE + apart, STEP, path_a);
    struct data *child = data_clone(d);
    data_release(d, DATA_LAYER_HEAP, BASE + apart);
    data_release(d, DATA_LAYER_HEAP, BASE);
    assert_int_equal(data_lost(d)->frees, 1);
    data_release(child, DATA_LAYER_HEAP, BASE);
    data_release(child, DATA_LAYER_HEAP, BASE + STEP);
    assert_int_equal(data_lost(child)->again, 2);
    assert_int_equal(data_lost(child)->frees, 0);
    data_free(child);
    data_free(d);
}

/* Another thread gave it back before, and its chunk comes now. */
static void a_late_free_explains_what_came_before(void **state)
{
    (void)state;
    struct data *d = data_new();
    data_set_time(d, 10);
    put(d, BASE, 100, path_a);
    data_set_time(d, 30);
    put(d, BASE, 100, path_b);
    uint32_t b = data_object_at(d, BASE);
    assert_int_equal(data_lost(d)->overlaps, 1);
    struct data *child = data_clone(d); /* of a fork, which has lost nothing yet */
    data_set_time(child, 20);
    data_release(child, DATA_LAYER_HEAP, BASE);
    assert_int_equal(data_lost(child)->overlaps, 0);
    data_free(child);
    data_set_time(d, 20);
    data_release(d, DATA_LAYER_HEAP, BASE);
    assert_int_equal(data_object_at(d, BASE), b);
    assert_int_equal(data_lost(d)->overlaps + data_lost(d)->frees + data_lost(d)->again, 0);
    data_release(d, DATA_LAYER_HEAP, BASE); /* that is explained once */
    assert_int_equal(data_lost(d)->again, 1);
    data_free(d);
}

static void moved_blocks_stay_of_their_object(void **state)
{
    (void)state;
    struct data *d = data_new();
    put(d, BASE, 100, path_a);
    uint32_t a = data_object_at(d, BASE);
    data_reallocate(d, DATA_LAYER_HEAP, 0, BASE, BASE + 0x5000, 300, path_b, 2);
    assert_int_equal(data_object_at(d, BASE), 0);
    assert_int_equal(data_object_at(d, BASE + 0x5000 + 299), a);
    assert_int_equal(data_object(d, a)->blocks, 1);
    assert_int_equal(data_object(d, a)->bytes, 300);
    data_reallocate(d, DATA_LAYER_HEAP, 0, BASE + 0x5000, BASE + 0x5000, 50, path_b, 2);
    assert_int_equal(data_object_at(d, BASE + 0x5000 + 49), a);
    assert_int_equal(data_object_at(d, BASE + 0x5000 + 50), 0);
    data_reallocate(d, DATA_LAYER_HEAP, 0, BASE + 0x5000, 0, 1 << 20, path_b, 2); /* refused */
    assert_int_equal(data_object_at(d, BASE + 0x5000), a);
    data_reallocate(d, DATA_LAYER_HEAP, 0, 0, BASE, 8, path_b, 2);
    assert_int_not_equal(data_object_at(d, BASE), a);
    data_reallocate(d, DATA_LAYER_HEAP, 0, BASE, 0, 0, path_b, 2); /* is free */
    assert_int_equal(data_object_at(d, BASE), 0);
    data_free(d);
}

/* realloc is told as it returns: by then another thread may have got the old address. */
static void late_moves_take_no_other_block(void **state)
{
    (void)state;
    struct data *d = data_new();
    data_set_time(d, 10);
    put(d, BASE, 100, path_a);
    uint32_t a = data_object_at(d, BASE);
    data_set_time(d, 30);
    put(d, BASE, 100, path_b);
    uint32_t b = data_object_at(d, BASE);
    data_set_time(d, 40);
    data_reallocate(d, DATA_LAYER_HEAP, 20, BASE, BASE + 0x5000, 300, path_a, 2);
    assert_int_equal(data_object_at(d, BASE), b);
    assert_int_equal(data_object_at(d, BASE + 0x5000 + 299), a);
    assert_int_equal(data_object(d, b)->bytes, 100);
    data_reallocate(d, DATA_LAYER_HEAP, 20, BASE, 0, 0, path_a, 2);
    assert_int_equal(data_object_at(d, BASE), b);
    assert_int_equal(data_lost(d)->overlaps, 0); /* the first was late, */
    assert_int_equal(data_lost(d)->again, 1);    /* the second of nothing */
    data_reallocate(d, DATA_LAYER_HEAP, 35, BASE, 0, 0, path_a, 2);
    assert_int_equal(data_object_at(d, BASE), 0);
    data_free(d);
}

static void blocks_without_bytes_have_an_address(void **state)
{
    (void)state;
    struct data *d = data_new();
    put(d, BASE, 0, path_a);
    assert_int_equal(data_object(d, data_object_at(d, BASE))->bytes, 0);
    data_release(d, DATA_LAYER_HEAP, BASE);
    assert_int_equal(data_lost(d)->frees, 0);
    put(d, 1ull << 62, 8, path_a);
    put(d, BASE, UINT64_MAX, path_a);
    assert_int_equal(data_lost(d)->impossible, 2);
    assert_int_equal(data_object_at(d, 1ull << 62), 0);
    data_free(d);
}

static void expect_named(const struct data *d, uint64_t address, enum data_kind kind, const char *name)
{
    const struct data_object *o = data_object(d, data_object_at(d, address));
    assert_string_equal(o->name ? o->name : "", name);
    assert_int_equal(o->kind, kind);
}

static void names_lie_upon_all(void **state)
{
    (void)state;
    struct data *d = data_new();
    data_map(d, &(struct data_map){BASE + 0x100000, 0x10000, DATA_MAPPING, "/dev/shm/x", NULL, 0});
    put(d, BASE, 0x1000, path_a);
    data_name_block(d, BASE + 0x100, 0x100, "nodes");
    data_name_block(d, BASE + 0x400, 0x100, "nodes");
    data_name_block(d, BASE + 0x100000, 0x100, "nodes");
    expect_named(d, BASE + 0x4ff, DATA_HEAP, "nodes");
    expect_named(d, BASE + 0x100, DATA_HEAP, "nodes");
    expect_named(d, BASE + 0x100000, DATA_MAPPING, "nodes");
    assert_int_equal(data_object(d, data_object_at(d, BASE + 0x100))->bytes, 0x200);
    data_name_block(d, BASE + 0x100, 0x10, "first"); /* instead */
    expect_named(d, BASE + 0x10f, DATA_HEAP, "first");
    expect_named(d, BASE + 0x110, DATA_HEAP, "");
    data_name_block(d, BASE + 0x100, 0, "any");
    data_name_block(d, BASE + 0x800, 0, "no such");
    data_name_block(d, 0, 0x1000, "nowhere");
    data_name_block(d, 1ull << 62, 0x1000, "nowhere");
    expect_named(d, BASE + 0x100, DATA_HEAP, "");
    data_release(d, DATA_LAYER_HEAP, BASE);
    expect_named(d, BASE + 0x400, DATA_OTHER, "other");
    assert_int_equal(data_lost(d)->frees + data_lost(d)->overlaps, 0);
    data_free(d);
}

/* The kernel says that two mappings are one where they adjoin. */
static void what_is_known_of_a_mapping_stays(void **state)
{
    (void)state;
    static const char text[] = "10000000-10a00000 rw-p 00000000 00:00 0 \n"
                               "7fffffff0000-ffffffffffff0000 rw-p 00000000 00:00 0 \n";
    struct data *d = data_new();
    put(d, 0x10004000, 0x1000, path_a);
    put(d, 0x10600000, 0x300000, path_b);
    uint32_t a = data_object_at(d, 0x10004000), b = data_object_at(d, 0x10600000);
    data_see_maps(d, text, sizeof text - 1, NULL, NULL);
    expect_named(d, 0x10000000, DATA_MAPPING, "anonymous");
    expect_named(d, 0x10003fff, DATA_MAPPING, "anonymous");
    assert_int_equal(data_object_at(d, 0x10004000), a);
    expect_named(d, 0x10005000, DATA_MAPPING, "anonymous");
    expect_named(d, 0x105fffff, DATA_MAPPING, "anonymous");
    assert_int_equal(data_object_at(d, 0x108fffff), b);
    expect_named(d, 0x109fffff, DATA_MAPPING, "anonymous");
    assert_int_equal(data_object_at(d, 0x10a00000), 0);
    data_free(d);
}

static void what_lies_upon_a_block_goes_with_it(void **state)
{
    (void)state;
    struct data *d = data_new();
    put(d, BASE, 1000, path_a);
    uint32_t pool = data_object_at(d, BASE);
    data_allocate(d, DATA_LAYER_CUSTOM, BASE, 24, path_b, 2);
    data_allocate(d, DATA_LAYER_CUSTOM, BASE + 24, 24, path_b, 2);
    data_name_block(d, BASE + 100, 10, "counts");
    uint32_t piece = data_object_at(d, BASE);
    assert_int_not_equal(piece, pool);
    assert_int_equal(data_object_at(d, BASE + 47), piece);
    assert_int_equal(data_object_at(d, BASE + 48), pool);
    assert_string_equal(data_object_name(d, data_object_at(d, BASE + 100)), "counts");
    data_release(d, DATA_LAYER_CUSTOM, BASE);
    assert_int_equal(data_object_at(d, BASE + 23), pool);
    assert_int_equal(data_object_at(d, BASE + 24), piece);
    data_release(d, DATA_LAYER_HEAP, BASE);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(data_object_at(d, BASE + i), 0);
    assert_int_equal(data_object(d, piece)->live_blocks, 0);
    data_free(d);
}

static void what_is_told_last_is_true(void **state)
{
    (void)state;
    struct data *d = data_new();
    put(d, BASE, 1000, path_a);
    uint32_t a = data_object_at(d, BASE);
    put(d, BASE + 500, 100, path_b); /* so the first was given back unseen */
    assert_int_equal(data_object_at(d, BASE), 0);
    assert_int_equal(data_object(d, a)->live_bytes, 0);
    assert_int_equal(data_lost(d)->overlaps, 1);
    put(d, BASE + 400, 101, path_a); /* into the begin of it */
    assert_int_equal(data_object_at(d, BASE + 500), a);
    assert_int_not_equal(data_object_at(d, BASE + 501), a);
    data_free(d);
}

static void late_frees_do_not_count(void **state)
{
    (void)state;
    struct data *d = data_new();
    data_set_time(d, 5);
    put(d, BASE, 64, path_a);
    data_set_time(d, 20); /* another thread has got the memory */
    put(d, BASE, 64, path_b);
    uint32_t b = data_object_at(d, BASE);
    data_set_time(d, 10); /* and now the first one's tale is heard */
    data_release(d, DATA_LAYER_HEAP, BASE);
    assert_int_equal(data_object_at(d, BASE), b);
    data_free(d);
}

static void large_blocks_are_cheap(void **state)
{
    (void)state;
    struct data *d = data_new();
    data_map(d, &(struct data_map){0x10000000000, 1ull << 44, DATA_MAPPING, "reserved", NULL, 0});
    assert_string_equal(data_object_name(d, data_object_at(d, 0x10000000000 + (1ull << 43) + 12345)), "reserved");
    put(d, 0x10000000000 + 123, (1ull << 40) + 55, path_a);
    assert_int_not_equal(data_object_at(d, 0x10000000000 + 123), data_object_at(d, 0x10000000000 + 122));
    data_unmap(d, 0x10000000000, 1ull << 44);
    assert_int_equal(data_object_at(d, 0x10000000000 + 123), 0);
    data_free(d);
}

static void mappings_move_and_shrink(void **state)
{
    (void)state;
    struct data *d = data_new();
    data_map(d, &(struct data_map){BASE, 0x4000, DATA_HEAP, NULL, path_a, 2});
    uint32_t a = data_object_at(d, BASE);
    data_unmap(d, BASE, 0x1000);
    assert_int_equal(data_object_at(d, BASE + 0xfff), 0);
    assert_int_equal(data_object_at(d, BASE + 0x1000), a);
    assert_int_equal(data_object(d, a)->live_bytes, 0x3000);
    data_remap(d, BASE + 0x1000, 0x3000, BASE + 0x100000, 0x8000);
    assert_int_equal(data_object_at(d, BASE + 0x1000), 0);
    assert_int_equal(data_object_at(d, BASE + 0x107fff), a);
    data_map(d, &(struct data_map){BASE + 0x102000, 0x1000, DATA_MAPPING, "/tmp/file", NULL, 0}); /* over it */
    assert_string_equal(data_object_name(d, data_object_at(d, BASE + 0x102000)), "/tmp/file");
    assert_int_equal(data_object_at(d, BASE + 0x103000), a);
    data_free(d);
}

/* glibc's realloc of a block that has a mapping of its own: it stays of its object, though it begins elsewhere when the
 * call returns. */
static void blocks_move_with_their_mapping(void **state)
{
    (void)state;
    struct data *d = data_new();
    data_map(d, &(struct data_map){BASE, 0x8000, DATA_MAPPING, "allocator", NULL, 0});
    put(d, BASE + 0x10, 0x3ff0, path_a);
    uint32_t a = data_object_at(d, BASE + 0x10);
    put(d, BASE + 0x4010, 0x3ff0, path_b);
    uint32_t b = data_object_at(d, BASE + 0x4010);
    assert_int_not_equal(a, b);
    data_set_time(d, 20);
    data_remap(d, BASE, 0x4000, BASE + 0x100000, 0x10000);
    assert_int_equal(data_object_at(d, BASE + 0x10), 0);
    assert_int_equal(data_object_at(d, BASE + 0x4010), b);
    assert_string_equal(data_object_name(d, data_object_at(d, BASE + 0x4000)), "allocator");
    assert_int_equal(data_object_at(d, BASE + 0x103fff), a);
    assert_string_equal(data_object_name(d, data_object_at(d, BASE + 0x104000)), "allocator");
    data_reallocate(d, DATA_LAYER_HEAP, 10, BASE + 0x10, BASE + 0x100010, 0xfff0, path_b, 2);
    assert_int_equal(data_object_at(d, BASE + 0x10ffff), a);
    assert_int_equal(data_object(d, a)->live_blocks, 1);
    assert_int_equal(data_object(d, a)->blocks, 1);
    assert_int_equal(data_object(d, a)->live_bytes, 0xfff0);
    assert_int_equal(data_lost(d)->frees, 0);
    assert_int_equal(data_lost(d)->overlaps, 0);
    data_remap(d, BASE + 0x100000, 0x10000, BASE + 0x100000, 0x2000); /* shorter, where it is */
    assert_int_equal(data_object_at(d, BASE + 0x101fff), a);
    assert_int_equal(data_object_at(d, BASE + 0x102000), 0);
    data_set_time(d, 40);
    data_remap(d, BASE + 0x100000, 0x2000, BASE + 0x100000, 0x1000);
    data_reallocate(d, DATA_LAYER_HEAP, 30, BASE + 0x100010, BASE + 0x100010, 0xff0, path_b, 2);
    assert_int_equal(data_object_at(d, BASE + 0x100fff), a);
    assert_int_equal(data_object(d, a)->live_bytes, 0xff0);
    data_free(d);
}

static void procedures_have_frames(void **state)
{
    (void)state;
    struct data *d = data_new();
    uint32_t f = data_stack_of(d, 0, "main");
    assert_int_equal(data_stack_of(d, 0, "main"), f);
    assert_int_not_equal(data_stack_of(d, 1, "main"), f);
    assert_int_equal(data_object(d, f)->kind, DATA_STACK);
    data_free(d);
}

/* ---- random streams ---- */

enum { SPACE = 9 << 20, OBJECTS = 40, ROUNDS = 6000, REMEMBERED = 64 };
#ifdef __SANITIZE_ADDRESS__
enum { STREAMS = 4 }; /* what sanitizers find needs no more of the same */
#else
enum { STREAMS = 12 };
#endif

struct stream {
    struct data *d;
    struct naive n;
    uint64_t random;
    uint32_t object[3][OBJECTS]; /* [layer][path] of the model -> of data */
    struct {
        uint32_t block, serial;
    } remembered[REMEMBERED]; /* blocks that were found lately */
    unsigned next;
    uint64_t held;
};

static uint64_t pick(struct stream *s, uint64_t below)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random % below;
}

/* Mostly some bytes, now and then pages, and some of megabytes. */
static uint64_t pick_bytes(struct stream *s)
{
    uint64_t kind = pick(s, 30);
    return 1 + pick(s, kind < 20 ? 200 : kind < 28 ? 20000 : 3 << 20);
}

static bool is_free(const struct stream *s, unsigned layer, uint64_t lo, uint64_t hi)
{
    for (size_t i = 0; i < s->n.blocks.len; i++) {
        const struct naive_block *b = &s->n.blocks.data[i];
        if (b->layer >= layer && b->lo < hi && b->hi > lo)
            return false;
    }
    return true;
}

/* What a lower layer holds there it holds all of. */
static bool is_within(const struct stream *s, unsigned layer, uint64_t lo, uint64_t hi)
{
    for (size_t i = 0; i < s->n.blocks.len; i++) {
        const struct naive_block *b = &s->n.blocks.data[i];
        if (b->layer < layer && b->lo < hi && b->hi > lo && (b->lo > lo || b->hi < hi))
            return false;
    }
    return true;
}

static void check_at(struct stream *s, uint64_t address)
{
    const struct naive_block *want = naive_at(&s->n, address);
    assert_int_equal(data_object_at(s->d, address), want ? want->object : 0);
    const struct data_block *b = data_block_at(s->d, address);
    for (unsigned i = 0; i < REMEMBERED; i++)
        if (data_block_still_holds(s->d, s->remembered[i].block, s->remembered[i].serial, address)) {
            assert_ptr_equal(b, &s->d->blocks[s->remembered[i].block]);
            s->held++;
        }
    s->remembered[s->next].block = (uint32_t)(b - s->d->blocks);
    s->remembered[s->next].serial = b->serial;
    s->next = (s->next + 1) % REMEMBERED;
}

static void check(struct stream *s)
{
    for (size_t i = 0; i < s->n.blocks.len; i++) {
        const struct naive_block *b = &s->n.blocks.data[i];
        uint64_t at[] = {b->lo - 1, b->lo, b->lo + 15, b->hi - 1, b->hi, b->hi + 15, b->lo + pick(s, b->hi - b->lo)};
        for (size_t k = 0; k < ARRAY_LEN(at); k++)
            check_at(s, at[k]);
    }
    for (int i = 0; i < 20; i++)
        check_at(s, BASE + pick(s, SPACE));
}

static const unsigned layers[] = {DATA_LAYER_HEAP, DATA_LAYER_CUSTOM, DATA_LAYER_CUSTOM + 1};

static void allocate(struct stream *s)
{
    unsigned l = (unsigned)pick(s, 3), object = (unsigned)pick(s, OBJECTS);
    uint64_t at = BASE + pick(s, SPACE), bytes = pick_bytes(s), path[] = {0x400000 + object, 0x500000};
    if (pick(s, 3))
        at &= ~15ull;
    if (at + bytes > BASE + SPACE || !is_free(s, layers[l], at, at + bytes) || !is_within(s, layers[l], at, at + bytes))
        return;
    data_allocate(s->d, layers[l], at, bytes, path, 2);
    s->object[l][object] = data_object_at(s->d, at);
    naive_put(&s->n, layers[l], at, bytes, s->object[l][object]);
}

static void release(struct stream *s)
{
    if (!s->n.blocks.len)
        return;
    struct naive_block b = s->n.blocks.data[pick(s, s->n.blocks.len)];
    if (b.layer == DATA_LAYER_MAPPING)
        return;
    data_release(s->d, b.layer, b.lo);
    naive_clear(&s->n, b.lo, b.hi, b.layer);
}

static void reallocate(struct stream *s)
{
    struct naive_block b = s->n.blocks.len ? s->n.blocks.data[pick(s, s->n.blocks.len)] : (struct naive_block){0};
    if (b.layer == DATA_LAYER_MAPPING)
        return;
    uint64_t at = pick(s, 2) ? b.lo : BASE + pick(s, SPACE), bytes = pick_bytes(s);
    struct naive before = {0};
    for (size_t i = 0; i < s->n.blocks.len; i++)
        VEC_PUSH(&before.blocks, s->n.blocks.data[i]);
    naive_clear(&s->n, b.lo, b.hi, b.layer);
    if (at + bytes > BASE + SPACE || !is_free(s, b.layer, at, at + bytes) || !is_within(s, b.layer, at, at + bytes)) {
        VEC_FREE(&s->n.blocks);
        s->n = before;
        return;
    }
    VEC_FREE(&before.blocks);
    data_reallocate(s->d, b.layer, 0, b.lo, at, bytes, NULL, 0);
    naive_put(&s->n, b.layer, at, bytes, b.object);
}

static bool cuts_blocks(const struct stream *s, uint64_t lo, uint64_t hi)
{
    for (size_t i = 0; i < s->n.blocks.len; i++) {
        const struct naive_block *b = &s->n.blocks.data[i];
        if (b->layer > DATA_LAYER_MAPPING && b->lo < hi && b->hi > lo && (b->lo < lo || b->hi > hi))
            return true;
    }
    return false;
}

static void map_or_unmap(struct stream *s)
{
    uint64_t lo = BASE + (pick(s, SPACE) & ~4095ull), bytes = ALIGN_UP(pick_bytes(s), 4096);
    char name[8];
    if (lo + bytes > BASE + SPACE || cuts_blocks(s, lo, lo + bytes))
        return;
    naive_clear(&s->n, lo, lo + bytes, DATA_LAYER_MAPPING);
    if (pick(s, 2)) {
        data_unmap(s->d, lo, bytes);
        return;
    }
    snprintf(name, sizeof name, "m%d", (int)pick(s, 5));
    data_map(s->d, &(struct data_map){lo, bytes, DATA_MAPPING, name, NULL, 0});
    naive_put(&s->n, DATA_LAYER_MAPPING, lo, bytes, data_object_at(s->d, lo));
}

static void check_figures(struct stream *s)
{
    for (uint32_t o = 1; o < data_object_count(s->d); o++) {
        const struct data_object *got = data_object(s->d, o);
        uint64_t blocks = 0, bytes = 0;
        for (size_t i = 0; i < s->n.blocks.len; i++)
            if (s->n.blocks.data[i].object == o) {
                blocks++;
                bytes += s->n.blocks.data[i].hi - s->n.blocks.data[i].lo;
            }
        if (got->layer != DATA_LAYER_MAPPING) { /* of those with holes it keeps less */
            assert_int_equal(got->live_blocks, blocks);
            assert_int_equal(got->live_bytes, bytes);
        }
    }
}

static void streams_are_as_a_list_has_them(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= STREAMS; seed++) {
        struct stream s = {.d = data_new(), .random = seed * 0x9e3779b97f4a7c15u};
        for (int i = 0; i < ROUNDS; i++) {
            uint64_t what = pick(&s, 40);
            what < 20 ? allocate(&s) : what < 32 ? release(&s) : what < 38 ? reallocate(&s) : map_or_unmap(&s);
            if (i % 50 == 0)
                check(&s);
        }
        check(&s);
        check_figures(&s);
        assert_true(s.held > ROUNDS);
        assert_int_equal(data_lost(s.d)->frees + data_lost(s.d)->overlaps + data_lost(s.d)->impossible, 0);
        VEC_FREE(&s.n.blocks);
        data_free(s.d);
    }
}

/* Lies of every kind: nothing may break, and every answer must be an object that there is. */
static void nonsense_does_no_harm(void **state)
{
    (void)state;
    struct stream s = {.d = data_new(), .random = 77};
    data_release(s.d, DATA_LAYER_HEAP, UINT64_MAX); /* free((void *)-1) */
    data_reallocate(s.d, DATA_LAYER_HEAP, 0, UINT64_MAX, 0, 10, NULL, 0);
    data_map(s.d, &(struct data_map){0, 4096, DATA_MAPPING, "m", NULL, 0});
    for (int i = 0; i < 30000; i++) {
        uint64_t at = BASE + pick(&s, 1 << 16), other = BASE + pick(&s, 1 << 16), bytes = pick(&s, 3000);
        uint64_t path[] = {pick(&s, 50)};
        unsigned layer = (unsigned)pick(&s, 6);
        switch (pick(&s, 6)) {
        case 0:
        case 1:
            data_allocate(s.d, layer, at, bytes, path, 1);
            break;
        case 2:
            data_release(s.d, layer, at);
            break;
        case 3:
            data_reallocate(s.d, layer, 0, at, other, bytes, path, 1);
            break;
        case 4:
            data_unmap(s.d, at, bytes);
            break;
        default:
            data_map(s.d, &(struct data_map){at, bytes, DATA_MAPPING, "m", NULL, 0});
        }
        assert_true(data_object_at(s.d, other) < data_object_count(s.d));
        const struct data_block *top = data_block_at(s.d, other);
        for (unsigned k = 0; k < REMEMBERED; k++)
            if (data_block_still_holds(s.d, s.remembered[k].block, s.remembered[k].serial, other))
                assert_ptr_equal(top, &s.d->blocks[s.remembered[k].block]);
        s.remembered[i % REMEMBERED].block = (uint32_t)(top - s.d->blocks);
        s.remembered[i % REMEMBERED].serial = top->serial;
        assert_int_equal(data_object_at(s.d, UINT64_MAX), 0);
        const struct data_block *b = data_block_at(s.d, at);
        assert_true(at - b->start < b->bytes);
    }
    for (uint32_t o = 0; o < data_object_count(s.d); o++)
        assert_true(data_object(s.d, o)->layer == DATA_LAYER_MAPPING || data_object(s.d, o)->live_bytes < 1 << 20);
    data_unmap(s.d, BASE - 4096, 1 << 20);
    for (uint64_t i = 0; i < 1 << 16; i++)
        assert_int_equal(data_object_at(s.d, BASE + i), 0);
    data_free(s.d);
}

/* All that a clone is asked says what the original said then, whatever became of it since. */
static void clones_stay_as_they_were(void **state)
{
    (void)state;
    enum { BYTES = 5 << 20 };
    struct data *d = data_new();
    data_map(d, &(struct data_map){BASE, BYTES, DATA_MAPPING, "area", NULL, 0});
    for (uint64_t i = 0; i < 1000; i++)
        put(d, BASE + i * 4999, i % 3000 + 1, i % 2 ? path_a : path_b);
    put(d, BASE + (8ull << 30), 10 << 20, path_a);
    uint32_t *was = malloc(BYTES * sizeof *was), a = data_object_at(d, BASE + (8ull << 30));
    for (uint64_t i = 0; i < BYTES; i++)
        was[i] = data_object_at(d, BASE + i);
    uint64_t live = data_object(d, a)->live_bytes;
    struct data *child = data_clone(d);
    data_unmap(d, BASE, BYTES);
    put(d, BASE + 100, 50, path_a);
    data_release(d, DATA_LAYER_HEAP, BASE + (8ull << 30));
    for (uint64_t i = 0; i < BYTES; i++)
        assert_int_equal(data_object_at(child, BASE + i), was[i]);
    assert_int_equal(data_object_at(child, BASE + (8ull << 30) + (9 << 20)), a);
    assert_int_equal(data_object(child, a)->blocks, 0); /* they are the other's */
    assert_int_equal(data_object(child, a)->peak_bytes, live);
    data_free(d);
    put(child, BASE + (9ull << 30), 1, path_a);
    assert_int_equal(data_object_at(child, BASE + (9ull << 30)), a);
    assert_string_equal(data_object_name(child, a), "0x401000 <- 0x402000");
    data_release(child, DATA_LAYER_HEAP, BASE + (8ull << 30));
    assert_int_equal(data_object_at(child, BASE + (8ull << 30)), 0);
    struct data *grandchild = data_clone(child);
    data_free(child);
    assert_int_equal(data_object_at(grandchild, BASE + 4999), was[4999]);
    data_free(grandchild);
    free(was);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_a_path_are_one_object),
        cmocka_unit_test(freed_blocks_leave_figures),
        cmocka_unit_test(blocks_may_lie_upon_two_mappings),
        cmocka_unit_test(a_late_free_explains_what_came_before),
        cmocka_unit_test(ends_of_many_blocks_are_known),
        cmocka_unit_test(moved_blocks_stay_of_their_object),
        cmocka_unit_test(late_moves_take_no_other_block),
        cmocka_unit_test(names_lie_upon_all),
        cmocka_unit_test(what_is_known_of_a_mapping_stays),
        cmocka_unit_test(blocks_without_bytes_have_an_address),
        cmocka_unit_test(what_lies_upon_a_block_goes_with_it),
        cmocka_unit_test(what_is_told_last_is_true),
        cmocka_unit_test(late_frees_do_not_count),
        cmocka_unit_test(large_blocks_are_cheap),
        cmocka_unit_test(mappings_move_and_shrink),
        cmocka_unit_test(blocks_move_with_their_mapping),
        cmocka_unit_test(procedures_have_frames),
        cmocka_unit_test(streams_are_as_a_list_has_them),
        cmocka_unit_test(nonsense_does_no_harm),
        cmocka_unit_test(clones_stay_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
