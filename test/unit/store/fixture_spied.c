/* SPDX-License-Identifier: Apache-2.0
 * What mtool spy might find in the program of "typical": two heap objects that evict each other, a global with fields
 * that threads share, and the stack. */
#include "fixture_spied.h"

#include <math.h>

enum { GRID, QUEUE, TABLE, STACK }; /* the objects */
enum { L1, L2, TLB };               /* the caches */
static const uint64_t unknown = PROF_UNKNOWN;

/* Copies, which can be changed. */
#define SET(list, count, rows)                                                                                         \
    do {                                                                                                               \
        r->list = arena_alloc(r->arena, sizeof(rows));                                                                 \
        memcpy(r->list, rows, sizeof(rows));                                                                           \
        r->count = ARRAY_LEN(rows);                                                                                    \
    } while (0)

static void set_run(struct prof_result *r)
{
    static const struct prof_spy spy[] = {{"all", 1, PROF_UNKNOWN, 1234567890, 1234567890, 0, 12, 4100, 2, 4.25}};
    static const struct prof_cache caches[] = {
        {0, "L1", false, false, 32768, 64, 8, "LRU", "neither", 12},
        {0, "L2", false, true, 1048576, 64, 16, "LRU", "neither", 60},
        {0, "TLB1", true, false, 294912, 4096, 72, "LRU", "neither", 7},
    };
    SET(spy, spy_count, spy);
    SET(caches, cache_count, caches);
}

static void set_objects(struct prof_result *r)
{
    static const struct prof_data data[] = {
        {"grid in make_grid",
         PROF_DATA_HEAP,
         "/home/u/gather",
         "double",
         8000000,
         1,
         600000000,
         {0.62, 0.58, 0.66},
         {0.211, 0.18, 0.24},
         4800000000,
         0},
        {"queue in list::push",
         PROF_DATA_HEAP,
         "/home/u/gather",
         "struct node",
         4194304,
         65536,
         234567890,
         {0.25, 0.25, 0.25},
         {0.085, 0.07, 0.1},
         1600000000,
         276543120},
        {"counters",
         PROF_DATA_GLOBAL,
         "/home/u/gather",
         "struct counter [8]",
         128,
         PROF_UNKNOWN,
         300000000,
         {0.13, 0.1, 0.15},
         {0.044, 0.03, 0.06},
         1200000000,
         1200000000},
        {"stack of main",
         PROF_DATA_STACK,
         NULL,
         NULL,
         PROF_UNKNOWN,
         PROF_UNKNOWN,
         100000000,
         {0, 0, 0},
         {NAN, NAN, NAN},
         PROF_UNKNOWN,
         PROF_UNKNOWN},
    };
    static const struct prof_data_frame frames[] = {
        {GRID, 0, "make_grid", "/home/u/gather", "/home/u/gather.c", 22},
        {GRID, 1, "main", "/home/u/gather", "/home/u/gather.c", 61},
        {QUEUE, 0, "_ZN4list4walkERKSt6vectorIiSaIiEE", "/home/u/gather", NULL, 0},
    };
    static const struct prof_data_field fields[] = {
        {QUEUE, "next", 0, 8, 200000000},
        {QUEUE, "time_left", 8, 4, 34567890},
        {TABLE, "hits", 0, 8, 290000000},
        {TABLE, "misses", 8, 8, 10000000},
    };
    SET(data, data_count, data);
    SET(data_frames, data_frame_count, frames);
    SET(data_fields, data_field_count, fields);
}

static void set_code(struct prof_result *r)
{
    static const struct prof_data_cell cells[] = {
        {"gather", "/home/u/gather", GRID, 600000000, 900000000, {0.62, 0.58, 0.66}, {0.211, 0.18, 0.24}},
        {"_ZN4list4walkERKSt6vectorIiSaIiEE",
         "/home/u/gather",
         QUEUE,
         234567890,
         234567890,
         {0.25, 0.25, 0.25},
         {0.085, 0.07, 0.1}},
        {"gather", "/home/u/gather", TABLE, 300000000, 900000000, {0.13, 0.1, 0.15}, {0.044, 0.03, 0.06}},
        {NULL, "/usr/lib/x86_64-linux-gnu/libc.so.6", STACK, 100000000, 100000000, {0, 0, 0}, {NAN, NAN, NAN}},
    };
    static const struct prof_data_line lines[] = {
        {"/home/u/gather.c", 14, GRID, 600000000, {0.62, 0.58, 0.66}},
        {"/usr/include/c++/12/bits/a_header_with_a_long_name.hpp", 1187, QUEUE, 234567890, {0.25, 0.25, 0.25}},
        {"/home/u/gather.c", 14, TABLE, 300000000, {0.13, 0.1, 0.15}},
    };
    static const struct prof_data_process processes[] = {
        {4711, "gather -n 60", "/home/u/gather", false, 2, {0.9, 0.9, 0.9}},
        {4712, "gather -n 60", "/home/u/gather", true, 1, {0.1, 0.08, 0.12}},
    };
    SET(data_processes, data_process_count, processes);
    SET(data_cells, data_cell_count, cells);
    SET(data_lines, data_line_count, lines);
}

/* References; misses; cold, capacity, conflict, inclusion, around, true and false sharing. */
#define MISS(owner, id, cache, references, misses, ...)                                                                \
    {                                                                                                                  \
        PROF_OWNER_##owner, id, cache, references, misses, misses, misses, __VA_ARGS__                                 \
    }
#define NO_CAUSES unknown, unknown, unknown, unknown, unknown, unknown, unknown

static void set_misses(struct prof_result *r)
{
    static const struct prof_data_miss misses[] = {
        MISS(PROGRAM, 0, L1, 1234567890, 100000000, 300000, 70000000, 20000000, 0, 0, 1700000, 8000000),
        MISS(PROGRAM, 0, L2, 100000000, 39700000, 300000, 20000000, 9700000, 0, 0, 1700000, 8000000),
        MISS(PROGRAM, 0, TLB, 1234567890, 2000000, NO_CAUSES),
        {PROF_OWNER_OBJECT, GRID, L1, 600000000, 60000000, 58000000, 63000000, 125000, 50000000, 9875000, 0, 0, 0, 0},
        {PROF_OWNER_OBJECT, GRID, L2, 60000000, 20000000, 18000000, 22000000, 125000, 15000000, 4875000, 0, 0, 0, 0},
        MISS(OBJECT, GRID, TLB, 600000000, 1500000, NO_CAUSES),
        MISS(OBJECT, QUEUE, L1, 234567890, 30000000, 65536, 19000000, 10934464, 0, 0, 0, 0),
        MISS(OBJECT, QUEUE, L2, 30000000, 10000000, 65536, 5000000, 4934464, 0, 0, 0, 0),
        MISS(OBJECT, QUEUE, TLB, 234567890, 500000, NO_CAUSES),
        MISS(OBJECT, TABLE, L1, 300000000, 9700002, 2, 0, 0, 0, 0, 1700000, 8000000),
        MISS(OBJECT, TABLE, L2, 9700002, 9700002, 2, 0, 0, 0, 0, 1700000, 8000000),
        MISS(OBJECT, STACK, L1, 100000000, 40, 40, 0, 0, 0, 0, 0, 0),
        MISS(CELL, 0, L1, 600000000, 60000000, 125000, 50000000, 9875000, 0, 0, 0, 0),
        MISS(CELL, 0, L2, 60000000, 20000000, 125000, 15000000, 4875000, 0, 0, 0, 0),
        MISS(CELL, 1, L1, 234567890, 30000000, 65536, 19000000, 10934464, 0, 0, 0, 0),
        MISS(CELL, 1, L2, 30000000, 10000000, 65536, 5000000, 4934464, 0, 0, 0, 0),
        MISS(CELL, 2, L1, 300000000, 9700002, 2, 0, 0, 0, 0, 1700000, 8000000),
        MISS(CELL, 2, L2, 9700002, 9700002, 2, 0, 0, 0, 0, 1700000, 8000000),
        MISS(LINE, 0, L1, 600000000, 60000000, 125000, 50000000, 9875000, 0, 0, 0, 0),
        MISS(LINE, 0, L2, 60000000, 20000000, 125000, 15000000, 4875000, 0, 0, 0, 0),
        MISS(LINE, 1, L2, 30000000, 10000000, NO_CAUSES),
        MISS(FIELD, 0, L1, 200000000, 29000000, NO_CAUSES),
        MISS(FIELD, 0, L2, 29000000, 9900000, NO_CAUSES),
        MISS(FIELD, 1, L1, 34567890, 1000000, NO_CAUSES),
        MISS(FIELD, 1, L2, 1000000, 100000, NO_CAUSES),
        MISS(FIELD, 2, L1, 290000000, 9000000, NO_CAUSES),
        MISS(PROCESS, 0, L1, unknown, 90000000, 200000, 63000000, 19000000, 0, 0, 1700000, 6100000),
        MISS(PROCESS, 0, L2, 90000000, 36000000, 200000, 19000000, 9000000, 0, 0, 1700000, 6100000),
        MISS(PROCESS, 1, L1, unknown, 10000000, 100000, 7000000, 1000000, 0, 0, 0, 1900000),
        MISS(PROCESS, 1, L2, 10000000, 3700000, 100000, 1000000, 700000, 0, 0, 0, 1900000),
    };
    SET(data_misses, data_miss_count, misses);
}

static void set_conflicts(struct prof_result *r)
{
    static const struct prof_data_evictor evictors[] = {
        {GRID, L1, GRID, 50000000, 0.835}, {GRID, L1, QUEUE, 9875000, 0.165}, {GRID, L2, QUEUE, 13000000, 0.654},
        {GRID, L2, GRID, 6875000, 0.346},  {QUEUE, L2, GRID, 9934000, 0.99},  {QUEUE, L2, ID_NONE, 464, 0.00005},
    };
    static const struct prof_data_sharing sharing[] = {{TABLE, "false", 0, 8000000}, {TABLE, "true", 64, 1700000}};
    static const struct prof_data_site sites[] = {
        {0, 0, "gather", "/home/u/gather.c", 14, TABLE, "hits", true},
        {0, 1, "main", "/home/u/gather.c", 31, TABLE, "misses", false},
        {1, 0, "gather", "/home/u/gather.c", 15, TABLE, NULL, true},
        {1, 1, NULL, NULL, 0, QUEUE, NULL, true},
    };
    SET(data_evictors, data_evictor_count, evictors);
    SET(data_sharing, data_sharing_count, sharing);
    SET(data_sites, data_site_count, sites);
}

static void set_curves(struct prof_result *r)
{
    enum { SIZES = 17 }; /* 4 KB to 256 MB */
    static const double whole[SIZES] = {0.2, 0.15, 0.1, 0.081, 0.07, 0.05, 0.04, 0.03, 0.024, 0.02, 0.01, 0.002};
    r->data_curves = ARENA_ARRAY(r->arena, struct prof_data_curve, 2 * SIZES);
    for (uint32_t i = 0; i < SIZES; i++) {
        r->data_curves[i] =
            (struct prof_data_curve){ID_NONE, 4096ull << i, 1234567890, 300000 + (uint64_t)(whole[i] * 1234567890)};
        r->data_curves[SIZES + i] =
            (struct prof_data_curve){GRID, 4096ull << i, 600000000, 125000 + (uint64_t)(whole[i] * 600000000)};
    }
    r->data_curve_count = 2 * SIZES;
}

/* The grid is walked through three times, and then its first half by another function. */
static void set_pictures(struct prof_result *r)
{
    enum { TIMES = 24, PARTS = 16 };
    static const struct prof_data_picture pictures[] = {{GRID, TIMES, PARTS, 500000}};
    SET(data_pictures, data_picture_count, pictures);
    r->data_touched = ARENA_ARRAY(r->arena, struct prof_data_touched, 4 * TIMES);
    for (uint32_t t = 0; t < TIMES; t++)
        for (uint32_t k = 0; k < 4; k++)
            r->data_touched[r->data_touched_count++] = (struct prof_data_touched){
                GRID, t, t < 18 ? t * 2 % PARTS / 4 * 4 + k : k + t % 4, t < 18 ? "gather" : "main", 1000000 * (k + 1)};
}

static void set_advice(struct prof_result *r)
{
    r->data_advice = ARENA_ARRAY(r->arena, struct prof_data_advice, 2);
    r->data_advice_count = 2;
    r->data_advice[0] = (struct prof_data_advice){.object = 0,
                                                  .advice = "interchange",
                                                  .function = "main",
                                                  .file = "toy.c",
                                                  .line = 7,
                                                  .gain_share = 0.25,
                                                  .gain_s = {0.5, 0.4, 0.6},
                                                  .evidence = "it goes through it in steps of 4096 bytes"};
    r->data_advice[1] = (struct prof_data_advice){
        .object = 1, .advice = "pool", .gain_share = NAN, .gain_s = {NAN, NAN, NAN}, .evidence = "in no order"};
}

void fixture_add_spied(struct prof_result *r)
{
    set_run(r);
    set_objects(r);
    set_code(r);
    set_misses(r);
    set_conflicts(r);
    set_curves(r);
    set_pictures(r);
    set_advice(r);
}

/* No run was measured. */
void fixture_untime_spied(struct prof_result *r)
{
    for (size_t i = 0; i < r->data_count; i++)
        r->data[i].memory_s = (struct prof_interval){NAN, NAN, NAN};
    for (size_t i = 0; i < r->data_cell_count; i++)
        r->data_cells[i].memory_s = (struct prof_interval){NAN, NAN, NAN};
    for (size_t i = 0; i < r->data_advice_count; i++)
        r->data_advice[i].gain_s = (struct prof_interval){NAN, NAN, NAN};
}

void fixture_worsen_spied(struct prof_result *r)
{
    for (size_t i = 0; i < r->data_miss_count; i++) {
        struct prof_data_miss *m = &r->data_misses[i];
        uint64_t more = m->owner == PROF_OWNER_OBJECT && m->owner_id == GRID ? m->misses
                        : m->owner == PROF_OWNER_PROGRAM && m->cache == L2   ? 20000000
                                                                             : 0;
        m->misses += more, m->misses_low += more, m->misses_high += more;
    }
    r->data[GRID].memory_s = (struct prof_interval){0.5, 0.45, 0.55};
    r->data[QUEUE].name = "ring in list::push";
    r->data_frames[2].function = "_ZN4ring4pushEv"; /* who allocated it, so it is another */
    r->data[STACK].name = NULL;
}

void fixture_spoil_spied(struct prof_result *r)
{
    for (size_t i = 0; i < r->data_miss_count; i++) {
        struct prof_data_miss *m = &r->data_misses[i];
        if (m->owner == PROF_OWNER_PROGRAM && m->cache == L2)
            m->misses_low = m->misses / 2, m->misses_high = 2 * m->misses;
    }
    r->data[0].name = "evil\033[2J\n<script>&\"'\xff";
    r->data[0].type = "std::map<std::basic_string<char, std::char_traits<char> >, long_name_that_never_ends> [1000000]";
    r->data[1].name = NULL;
    r->data[1].references = PROF_UNKNOWN;
    r->data[1].stall_share = r->data[1].memory_s = (struct prof_interval){NAN, NAN, NAN};
    r->data[2].bytes = (uint64_t)INT64_MAX;
    r->data_cells[0].function = "\033]0;x\007<b>";
    r->data_lines[0].file = "/tmp/\xc3\x28\n.c";
    r->data_frames[0].file = NULL;
    r->data_fields[0] = (struct prof_data_field){QUEUE, "\033[31m<f>\xff", UINT64_MAX - 1, unknown, unknown};
    r->data_sites[0].field = "<i>\033";
    r->data_processes[0].command = "sh -c '\033[2J<b>'";
    r->data_processes[1].command = NULL;
    r->caches[0].name = "<L1\033>";
    r->caches[1].is_primary = false;
    r->caches[2].bytes = PROF_UNKNOWN;
    r->data_pictures[0].times = r->data_pictures[0].parts = 0; /* what it says of rows beyond it is no picture */
    r->spy[0].ratio = NAN;
    r->spy[0].references = PROF_UNKNOWN;
}
