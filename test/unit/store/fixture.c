/* SPDX-License-Identifier: Apache-2.0
 * Results made by hand, and a comparison of results, field by field of the lists in result/fields.h. */
#include "fixture.h"
#include "fixture_spied.h"

#include "result/fields.h"

#include <math.h>

#define NO NAN
static const struct prof_interval unknown = {NO, NO, NO};

static struct prof_interval around(double value, double half)
{
    return (struct prof_interval){value, value - half, value + half};
}

static void set_times(struct prof_result *r)
{
    r->predicted_user_s = around(0.93, 0.028);
    r->branch_user_s = around(0.06, 0.03);
    r->simulated_user_s = 0.9;
    r->replayed_share = 0.75;
    r->actual_user_s = around(1.32, 0.019);
    r->actual_system_s = (struct prof_interval){0.012, 0.008, 0.02};
    r->overhead = (struct prof_interval){0.4194, 0.352, 0.487};
    r->plain_runs = 5;
    r->samples = 1302;
    r->samples_lost = 0;
    r->sampler = "perf_event, 997 Hz";
    r->launch_mode = "private mount namespace";
    r->processes = r->threads = 1;
}

static void set_run(struct prof_result *r)
{
    static const char *command[] = {"./gather", "1000000", "a b", NULL};
    r->program = "/home/u/gather";
    r->command = command;
    r->started = "2026-03-04T05:06:07Z";
    r->mtool_version = "0.1.0";
    r->options = "mtool run -- ./gather 1000000 'a b'";
    r->machine.cpu = "A CPU";
    r->machine.description = "/home/u/.cache/mtool/machine";
    r->machine.kernel = "6.1.0";
    r->machine.tsc_hz = 2.5e9;
    r->machine.cycles_per_tsc = 1.4;
    r->machine.ideal_error_median = 0.09;
    r->machine.ideal_error_p90 = 0.3;
    r->machine.ideal_bias = -0.1;
}

static void set_coverage(struct prof_result *r)
{
    r->coverage.functions = 3120;
    r->coverage.functions_rewritten = 3098;
    r->coverage.instructions_counted = 4123456789;
    r->coverage.memory_ops = 1234567890;
    r->coverage.instructions_counted_share = 0.992;
    r->coverage.memory_ops_measured = 0.97;
    r->coverage.memory_ops_probed = 0.95;
    r->coverage.unexplained_overhead = (struct prof_interval){0.021, -0.004, 0.046};
    r->counting_user_s = 0.03;
    r->windows_system_s = 0.004;
    r->probed_user_s = 0.87;
    r->probed_system_s = 0.02;
}

static struct prof_object object(uint32_t id, enum prof_kind kind, const char *function, double ideal, double actual,
                                 double half)
{
    return (struct prof_object){
        .id = id,
        .kind = kind,
        .module = "/home/u/gather",
        .function = function,
        .address = 0x1180 + 64 * id,
        .parent = ID_NONE,
        .depth = kind == PROF_LOOP,
        .entries = 10,
        .iterations = kind == PROF_LOOP ? 10000000 : PROF_UNKNOWN,
        .instructions = 70000000,
        .memory_ops = 20000000,
        .instructions_incl = 70000000,
        .memory_ops_incl = 20000000,
        .ideal_s = around(ideal, half / 3),
        .actual_s = around(actual, half / 2),
        .memory_s = around(actual - ideal, half),
        .ideal_incl_s = around(ideal, half / 3),
        .actual_incl_s = around(actual, half / 2),
        .memory_incl_s = around(actual - ideal, half),
        .without_s = around(1.2 - (actual - ideal), half),
        .branch_s = NO,
        .tlb_s = NO,
        .ideal_method = "simulated",
        .simulated_s = ideal,
        .replayed_share = 0,
        .actual_method = "sampled",
        .extra_cycles_per_memory_op = 12.5,
        .bound_by = "chain",
        .samples = 100,
        .memory_share = 0.31,
        .is_significant = actual - ideal > half,
    };
}

static void set_objects(struct prof_result *r, const struct prof_object *list, size_t count)
{
    r->objects = ARENA_ARRAY(r->arena, struct prof_object, count);
    memcpy(r->objects, list, count * sizeof *list);
    r->object_count = count;
}

static void set_modules(struct prof_result *r)
{
    static struct prof_module modules[] = {
        {"/home/u/gather", "5f3a", true, 20, 20, 4023456789, 1204567890, 0.985},
        {"/usr/lib/x86_64-linux-gnu/libc.so.6", "0d71", true, 3100, 3078, 100000000, 30000000, 0.007},
        {"/usr/lib/x86_64-linux-gnu/libcrypto.so.3", NULL, false, PROF_UNKNOWN, PROF_UNKNOWN, PROF_UNKNOWN,
         PROF_UNKNOWN, NO}};
    r->modules = modules;
    r->module_count = ARRAY_LEN(modules);
}

static void set_lines(struct prof_result *r)
{
    static struct prof_line lines[] = {{"/home/u/gather.c", 14, 60000000, 20000000, 812, NAN, NAN},
                                       {"/home/u/gather.c", 31, 10000000, 5000000, 120, NAN, NAN},
                                       {"/home/u/gather.c", 32, 10000000, 0, PROF_UNKNOWN, NAN, NAN}};
    r->lines = lines;
    r->line_count = ARRAY_LEN(lines);
}

/* Of the worst object and of its procedure, and of one of "nasty"; the last ones are of no object. */
static void set_code(struct prof_result *r)
{
    static struct prof_insn insns[] = {
        {2, 0x1170, "xor eax, eax", 0, 10, 0, NAN, NULL},
        {0, 0x1180, "movsxd rax, dword ptr [rsi]", 1, 10000000, 3, 0, NULL},
        {0, 0x1183, "addsd xmm0, [rdi+rax*8]", 1, 10000000, 500, 0.105, "chain"},
        {2, 0x11a0, "call 0x1030 <_ZN4list4walkERKSt6vectorIiSaIiEE>", 1, 10, PROF_UNKNOWN, NAN, "unit <b>"},
        {7, 0x1340, "jmp <\033[31m&\xff>", 0, 1, 1, 0, NULL},
        {77, 0x9999, NULL, 0, 1, 0, 0, NULL}};
    static struct prof_call calls[] = {
        {0, "/usr/lib/libm.so.6", "<i>sin\033", 0x1030, 10, false, 400},
        {0, "/home/u/gather", "_ZN4list4walkERKSt6vectorIiSaIiEE", 0x1400, 20, true, PROF_UNKNOWN},
        {78, NULL, NULL, 0, 1, false, 0}};
    r->insns = insns;
    r->insn_count = ARRAY_LEN(insns);
    r->calls = calls;
    r->call_count = ARRAY_LEN(calls);
}

static void set_counts(struct prof_result *r)
{
    static struct prof_block_row blocks[] = {{0, 0x1180, 14, 4, 1, "gather", "/home/u/gather.c", 14, 10000000},
                                             {0, 0x118e, 7, 2, 0, "gather", "/home/u/gather.c", 15, 10},
                                             {1, 0x28490, 3, 1, 0, NULL, NULL, 0, 1}};
    static struct prof_edge_row edges[] = {{0, 0x1180, 0x1180, 9999990}, {0, 0x1180, 0x118e, 10}};
    r->blocks = blocks;
    r->block_count = ARRAY_LEN(blocks);
    r->edges = edges;
    r->edge_count = ARRAY_LEN(edges);
    static struct prof_arc arcs[] = {{0, 0x11a4, 0, 0x1400, 20, true},
                                     {0, 0x1183, 0, 0x1180, 5000000000, false},
                                     {0, 0x1187, 1, 0x28490, 1, false},
                                     {1, 0x28492, 1, 0x28490, 0, false}};
    static struct prof_pc_sample samples[] = {
        {0, 0x1183, 500}, {0, 0x1184, 70000}, {0, 0x2010, 3}, {1, 0x28490, 7}, {1, 0x28491, PROF_UNKNOWN}};
    r->arcs = arcs;
    r->arc_count = ARRAY_LEN(arcs);
    r->pc_samples = samples;
    r->pc_sample_count = ARRAY_LEN(samples);
}

static void set_refused(struct prof_result *r)
{
    static struct prof_refused refused[] = {
        {"/usr/lib/x86_64-linux-gnu/libcrypto.so.3", NULL, 0, "no function of it has unwind information", 0.013},
        {"/usr/lib/x86_64-linux-gnu/libc.so.6", "__memmove_avx_unaligned_erms", 0x9a3c0,
         "jump into the middle of an instruction", 0.011},
        {"/usr/lib/x86_64-linux-gnu/libc.so.6", "small", 0x9a000, "indirect jump that is not understood", 0.0001}};
    r->refused = refused;
    r->refused_count = ARRAY_LEN(refused);
}

static void set_candidates(struct prof_result *r)
{
    static struct prof_candidate list[] = {{.kind = PROF_LOOP,
                                            .module = "/usr/bin/gather",
                                            .function = "gather",
                                            .address = 0x1180,
                                            .file = "/home/u/gather.c",
                                            .line_first = 12,
                                            .line_last = 15,
                                            .object = 0,
                                            .depth = 1,
                                            .entries = 70,
                                            .memory_ops = 123456,
                                            .own_instructions = 7,
                                            .own_lines = 3,
                                            .memory_ops_all = 123456,
                                            .time_s = 0.6,
                                            .ideal_s = {0.2, 0.1, 0.3},
                                            .sampled_s = {0.6, 0.5, 0.7},
                                            .system_s = {0.01, 0, 0.02},
                                            .sampled_all_s = {0.61, 0.51, 0.71},
                                            .uncounted_s = 0.02,
                                            .is_sampled_whole = true,
                                            .samples = 598,
                                            .agrees = 1,
                                            .is_summed = true,
                                            .probed_s = {0.61, 0.6, 0.62},
                                            .memory_s = {0.41, 0.3, 0.5},
                                            .waiting_s = 0.001,
                                            .probed_entries = 70,
                                            .is_asked = true,
                                            .probe_s = 2.8e-6,
                                            .tot = 1,
                                            .tdes = 1,
                                            .estimable = PROF_ESTIMABLE_LEAF,
                                            .verdict = PROF_TAKEN,
                                            .reason = "timable and estimable"},
                                           {.kind = PROF_PIECE,
                                            .module = "/usr/bin/gather",
                                            .function = "main",
                                            .address = 0x1000,
                                            .address_end = 0x1100,
                                            .object = ID_NONE,
                                            .entries = 1,
                                            .own_instructions = 399,
                                            .pieces = 2,
                                            .time_s = NAN,
                                            .ideal_s = {NAN, NAN, NAN},
                                            .sampled_s = {NAN, NAN, NAN},
                                            .system_s = {NAN, NAN, NAN},
                                            .sampled_all_s = {NAN, NAN, NAN},
                                            .uncounted_s = NAN,
                                            .samples = PROF_UNKNOWN,
                                            .agrees = ID_NONE,
                                            .probed_s = {NAN, NAN, NAN},
                                            .memory_s = {NAN, NAN, NAN},
                                            .waiting_s = NAN,
                                            .probed_entries = PROF_UNKNOWN,
                                            .tot = 2.5,
                                            .tdes = 3,
                                            .verdict = PROF_SAMPLED,
                                            .reason = "its time is not known"},
                                           {.kind = PROF_REGION,
                                            .region = "assemble",
                                            .module = "/usr/bin/gather",
                                            .function = "main",
                                            .address = 0x1010,
                                            .object = ID_NONE,
                                            .is_in_circle = true,
                                            .pairs_inside = 12,
                                            .entries = 3,
                                            .time_s = 0.1,
                                            .ideal_s = {NAN, NAN, NAN},
                                            .sampled_s = {NAN, NAN, NAN},
                                            .system_s = {NAN, NAN, NAN},
                                            .sampled_all_s = {0.35, 0.31, 0.39},
                                            .uncounted_s = NAN,
                                            .samples = 340,
                                            .agrees = 0,
                                            .probed_s = {0.2, 0.1, 0.3},
                                            .memory_s = {NAN, NAN, NAN},
                                            .waiting_s = 0,
                                            .probed_entries = 3,
                                            .tot = 1,
                                            .tdes = 1,
                                            .verdict = PROF_TAKEN,
                                            .reason = "not estimable"}};
    r->candidates = list;
    r->candidate_count = ARRAY_LEN(list);
}

static void set_processes(struct prof_result *r)
{
    static struct prof_process processes[] = {{100, 99, "sh -c 'a; b'", false, 0, 4123456000, NULL},
                                              {101, 100, "sh -c 'a; b'", true, ID_NONE, 789, NULL},
                                              {101, 100, "b", false, 130, PROF_UNKNOWN, "it carries the Go run time"},
                                              {102, 1, NULL, false, ID_NONE, PROF_UNKNOWN, NULL}};
    r->process = processes;
    r->process_count = ARRAY_LEN(processes);
}

static void set_threads(struct prof_result *r)
{
    static struct prof_thread threads[] = {{.tid = 4321,
                                            .rank = ID_NONE,
                                            .wall_s = 1.4,
                                            .compute_s = 0.5,
                                            .memory_s = 0.3,
                                            .uncounted_s = 0.05,
                                            .system_s = 0.02,
                                            .spin_s = 0.1,
                                            .blocked_s = 0.33,
                                            .asleep_s = 0.06,
                                            .ready_s = 0.04,
                                            .samples = 900},
                                           {.tid = 4322,
                                            .rank = 1,
                                            .has_ended = true,
                                            .begin_s = 0.1,
                                            .wall_s = 0.5,
                                            .compute_s = NO,
                                            .memory_s = NO,
                                            .uncounted_s = NO,
                                            .system_s = NO,
                                            .spin_s = NO,
                                            .blocked_s = NO,
                                            .asleep_s = NO,
                                            .ready_s = NO,
                                            .samples = 402}};
    static struct prof_thread_object objects[] = {{0, 0, 0.4, 0.3, 0, 0, 700, 5000000, 2000000},
                                                  {0, 2, 0.1, 0, 0.1, 0.33, 200, 0, 0},
                                                  {1, 1, NO, NO, 0, 0, 402, PROF_UNKNOWN, PROF_UNKNOWN}};
    r->thread = threads;
    r->thread_count = ARRAY_LEN(threads);
    r->thread_objects = objects;
    r->thread_object_count = ARRAY_LEN(objects);
    static struct prof_wait waits[] = {
        {0, 2, "pthread_mutex_lock", 0.1, 0.33}, {1, ID_NONE, "libgomp.so.1", 0.05, 0}, {1, 3, NULL, 0.02, 0}};
    static struct prof_rank ranks[] = {{0, "x.0.mtool", 0, 1.4, 1.2, 0.1, 0.9, 0.8, 0.3, 0.2, 1000000, 400000},
                                       {3, "x.3.mtool", 1, NO, 2.2, 0.1, 1.9, NO, NO, NO, 3000000, 900000}};
    static struct prof_rank_object shares[] = {{0, 1, 100, 50, 0.5, 0.6, 0.1, 3}, {3, 1, 300, 150, 1.5, 1.7, 0.2, 9}};
    static struct prof_spread spreads[] = {{1, 2, 0.6, 1.15, 1.7, 1.478, 3}};
    static struct prof_region regions[] = {{0, "gather._omp_fn.0", "/home/u/gather", 0x1180, "/home/u/gather.c", 12, 15,
                                            2, 2, 0, 1.2, 0.6, 0.8, 1.333, 0.4},
                                           {1, NULL, NULL, 0, NULL, 0, 0, ID_NONE, 1, 0, 0.1, 0.1, 0.1, 1, 0.05}};
    static struct prof_region_thread each[] = {{0, 0, 0.8, 0}, {0, 1, 0.4, 0.4}, {1, 0, 0.1, 0}, {1, 1, 0, 0.05}};
    static struct prof_extra extras[] = {{0, 70000000, 50000000, 0.21, 0.15, 0.06}, {3, 70000000, 0, 0.3, NO, NO}};
    r->extras = extras, r->extra_count = ARRAY_LEN(extras);
    r->baseline_threads = 1;
    r->baseline_user_s = 1.2;
    r->baseline_instructions = 4000000000;
    r->regions = regions, r->region_count = ARRAY_LEN(regions);
    r->region_threads = each, r->region_thread_count = ARRAY_LEN(each);
    r->ranks = ranks, r->rank_row_count = ARRAY_LEN(ranks);
    r->rank_objects = shares, r->rank_object_count = ARRAY_LEN(shares);
    r->spreads = spreads, r->spread_count = ARRAY_LEN(spreads);
    r->rank_count = 4;
    r->waits = waits;
    r->wait_count = ARRAY_LEN(waits);
    static struct prof_phase phases[] = {{"sampled", 1.5}, {"rewriting", 0.2}, {"counted", 1.6}};
    r->phases = phases, r->phase_count = ARRAY_LEN(phases);
}

static void make_typical(struct prof_result *r)
{
    struct prof_object list[] = {object(0, PROF_LOOP, "gather", 0.21, 0.55, 0.03),
                                 object(1, PROF_LOOP, "_ZN4list4walkERKSt6vectorIiSaIiEE", 0.12, 0.16, 0.02),
                                 object(2, PROF_PROCEDURE, "gather", 0.3, 0.311, 0.005),
                                 object(3, PROF_PROCEDURE, "main", 0.3, 0.299, 0.02),
                                 object(4, PROF_LOOP, "_IO_vfprintf_internal", 0.001, 0.0012, 0.001)};
    list[0].file = list[2].file = "/home/u/gather.c";
    list[0].line_first = 12, list[0].line_last = 15;
    list[0].parent = 2;
    list[1].file = "/usr/include/c++/12/bits/a_header_with_a_long_name.hpp";
    list[1].line_first = list[1].line_last = 1187;
    list[2].line_first = 8, list[2].line_last = 20;
    list[3].memory_share = 0.002;
    list[3].is_wait = true;
    list[4].module = "/usr/lib/x86_64-linux-gnu/libc.so.6";
    set_run(r);
    set_times(r);
    set_coverage(r);
    set_objects(r, list, ARRAY_LEN(list));
    set_modules(r);
    set_lines(r);
    set_threads(r);
    set_code(r);
    set_counts(r);
    set_candidates(r);
    set_refused(r);
}

/* A C++ name of a thousand characters. */
static const char *long_name(struct arena *a)
{
    struct strbuf s = {0};
    str_puts(&s, "_ZN");
    while (s.len < 990)
        str_puts(&s, "9namespace");
    str_puts(&s, "4leafEv");
    const char *name = arena_strdup(a, s.data);
    str_free(&s);
    return name;
}

static void make_nasty(struct prof_result *r)
{
    static const char *command[] = {"./-x\033[2J", "", "<b>&amp;'\"</b>", "\xff\xfe\x80", "\xe6\xbc\xa2\xe5\xad\x97",
                                    NULL};
    static struct prof_module modules[] = {
        {"/tmp/\033]0;owned\007/a\nb", "", true, 0, 0, 0, 0, 0},
        {"/tmp/\xc3\x28", NULL, false, PROF_UNKNOWN, PROF_UNKNOWN, PROF_UNKNOWN, PROF_UNKNOWN, NO}};
    static struct prof_warning warnings[] = {{"some-id", "text with \"quotes\", <tags> and \x01 in it"},
                                             {"other-id", ""}};
    static struct prof_wait waits[] = {{0, 1, "lock\033[2J\n", 0.1, 0.33}, {1, ID_NONE, NULL, 12345.678, 0}};
    static struct prof_region regions[] = {{0, "omp\033]0;\007\n<b>", "/tmp/\xc3\x28", UINT64_MAX, "/\xff\n.c", 1,
                                            UINT32_MAX, ID_NONE, 2, 0, 12345.678, 12345.678, NO, NO, NO}};
    make_typical(r);
    r->waits = waits, r->wait_count = ARRAY_LEN(waits);
    r->regions = regions, r->region_count = ARRAY_LEN(regions);
    r->region_thread_count = 0;
    r->command = command;
    r->exit_status = 137;
    struct prof_object list[] = {object(7, PROF_PIECE, "evil\033[31m\n\ttext", 1e-9, 12345.678, 1),
                                 object(3, PROF_LOOP, long_name(r->arena), 100, 200, 10),
                                 object(9, PROF_LOOP, "\xe6\xbc\xa2\xe5\xad\x97\xe2\x80\xae<script>", 0.5, 0.4, 0.01),
                                 object(4000000000u, PROF_PROCEDURE, "\xff\xc0\x80\xed\xa0\x80", 1, 1, 1)};
    list[1].file = "/a/very/long/path/that/never/ends/and/ends/in/a/very_very_very_long_file_name_indeed.cc";
    list[1].line_first = 4294967294u, list[1].line_last = 4294967295u;
    list[1].depth = UINT32_MAX;
    list[1].parent = 4000000000u;
    list[2].address = UINT64_MAX;
    list[2].entries = list[2].instructions = list[2].memory_ops = list[2].samples = PROF_UNKNOWN;
    list[2].instructions_incl = list[2].memory_ops_incl = PROF_UNKNOWN;
    list[2].ideal_s = list[2].actual_s = list[2].memory_s = unknown;
    list[2].ideal_incl_s = list[2].actual_incl_s = list[2].memory_incl_s = unknown;
    list[2].memory_share = list[2].extra_cycles_per_memory_op = NO;
    list[2].ideal_method = list[2].actual_method = list[2].bound_by = NULL;
    list[2].is_significant = true; /* contradicts the figures: painters must live with it */
    list[3].module = NULL;
    list[3].instructions = (uint64_t)INT64_MAX;
    list[3].branch_s = 0.25;
    list[3].tlb_s = 0.125;
    set_objects(r, list, ARRAY_LEN(list));
    r->modules = modules;
    r->module_count = ARRAY_LEN(modules);
    r->warnings = warnings;
    r->warning_count = ARRAY_LEN(warnings);
    r->actual_user_s = (struct prof_interval){0.929, NO, NO};
    r->overhead = (struct prof_interval){-0.001, NO, NO};
    r->samples_lost = PROF_UNKNOWN;
}

static void make_nothing(struct prof_result *r)
{
    make_typical(r);
    for (size_t i = 0; i < r->object_count; i++)
        r->objects[i].is_significant = false;
    r->refused_count = 0;
}

/* The model failed its self-test; the first object is measured by replays, the others are not. */
static void make_doubtful(struct prof_result *r)
{
    static const struct prof_warning warnings[] = {
        {"model-failed", "the model of the processor is off by 50 % in the median, 120 % for nine in ten kernels"}};
    make_typical(r);
    r->machine.ideal_error_median = 0.5;
    r->machine.ideal_error_p90 = 1.2;
    r->replayed_share = 0.1;
    r->overhead.low = 0;
    r->objects[0].replayed_share = 0.8;
    for (size_t i = 1; i < r->object_count; i++) {
        r->objects[i].is_significant = false;
        r->objects[i].memory_s.low = fmin(0, r->objects[i].memory_s.low);
    }
    r->warnings = ARENA_ARRAY(r->arena, struct prof_warning, 1);
    r->warnings[0] = warnings[0];
    r->warning_count = 1;
}

static void make_counts(struct prof_result *r)
{
    set_run(r);
    r->threads = 1;
    r->coverage.instructions_counted = 4123456789;
    r->coverage.memory_ops = 1234567890;
    set_modules(r);
    set_counts(r);
    set_refused(r);
    set_processes(r);
}

static void make_slower(struct prof_result *r)
{
    static struct prof_module modules[3];
    make_typical(r);
    memcpy(modules, r->modules, sizeof modules);
    modules[0].build_id = "6f3a";
    struct prof_object loop = r->objects[0], procedure = r->objects[2];
    r->objects[0].actual_s = around(0.95, 0.015);
    r->objects[0].memory_s = around(0.74, 0.03);
    for (size_t i = 0; i < r->object_count; i++) { /* three lines more above, and other addresses */
        struct prof_object *o = &r->objects[i];
        o->address += strcmp(o->module, modules[0].path) == 0 ? 0x340 : 0;
        if (o->file == procedure.file)
            o->line_first += 3, o->line_last += 3;
    }
    r->objects[1] = loop; /* in place of list::walk */
    r->objects[1].function = "scatter";
    r->objects[1].instructions = 71000000;
    r->objects[1].parent = ID_NONE;
    r->objects[1].id = 1;
    r->modules = modules;
    r->actual_user_s = around(1.9, 0.02);
    r->overhead = (struct prof_interval){1.043, 0.95, 1.13};
}

static void make_spied(struct prof_result *r)
{
    make_typical(r);
    fixture_add_spied(r);
}

static void make_only_spied(struct prof_result *r)
{
    set_run(r);
    set_modules(r);
    r->threads = 2;
    fixture_add_spied(r);
    fixture_untime_spied(r);
}

static void make_nasty_spied(struct prof_result *r)
{
    make_nasty(r);
    fixture_add_spied(r);
    fixture_spoil_spied(r);
}

static void make_slower_spied(struct prof_result *r)
{
    make_slower(r);
    fixture_add_spied(r);
    fixture_worsen_spied(r);
}

static void make_empty(struct prof_result *r) { (void)r; }

struct prof_result *fixture_result(const char *name)
{
    static const struct {
        const char *name;
        void (*make)(struct prof_result *);
    } makers[] = {{"typical", make_typical},
                  {"nasty", make_nasty},
                  {"nothing", make_nothing},
                  {"doubtful", make_doubtful},
                  {"counts", make_counts},
                  {"slower", make_slower},
                  {"empty", make_empty},
                  {"spied", make_spied},
                  {"only-spied", make_only_spied},
                  {"nasty-spied", make_nasty_spied},
                  {"slower-spied", make_slower_spied}};
    for (size_t i = 0; i < ARRAY_LEN(makers); i++) {
        if (strcmp(makers[i].name, name) == 0) {
            struct prof_result *r = prof_result_new();
            makers[i].make(r);
            return r;
        }
    }
    return NULL;
}

struct prof_result *fixture_large(size_t blocks)
{
    struct prof_result *r = fixture_result("typical");
    r->blocks = ARENA_ARRAY(r->arena, struct prof_block_row, blocks);
    r->edges = ARENA_ARRAY(r->arena, struct prof_edge_row, blocks);
    const char *function = NULL;
    for (size_t i = 0; i < blocks; i++) {
        if (i % 20 == 0)
            function = arena_printf(r->arena, "function_%zu", i / 20);
        r->blocks[i] =
            (struct prof_block_row){0, 0x1000 + 12 * i, 12, 3, 1, function, "/home/u/file.c", (uint32_t)i, i * 17};
        r->edges[i] = (struct prof_edge_row){0, 0x1000 + 12 * i, 0x1000 + 12 * (i * 7 % blocks), i * 3};
    }
    r->block_count = r->edge_count = blocks;
    return r;
}

/* ---- comparison ---- */

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }
static bool same_real(double a, double b) { return (isnan(a) && isnan(b)) || a == b; }

/* By what C has, whatever the field means. */
static bool same_field(const struct prof_field *f, const void *a, const void *b)
{
    switch (f->type) {
    case PROF_TYPE_TEXT:
    case PROF_TYPE_NAME:
    case PROF_TYPE_FUNCTION:
    case PROF_TYPE_SOURCE:
        return same_text(*(const char *const *)a, *(const char *const *)b);
    case PROF_TYPE_SECONDS:
    case PROF_TYPE_SHARE:
    case PROF_TYPE_REAL:
        return same_real(*(const double *)a, *(const double *)b);
    default:
        return memcmp(a, b, prof_type_about[f->type].bytes) == 0;
    }
}

static const char *row_difference(const struct prof_row *row, const char *a, const char *b)
{
    for (size_t i = 0; i < row->field_count; i++) {
        const struct prof_field *f = &row->fields[i];
        if (f->column && f->type != PROF_TYPE_INDEX && !same_field(f, a + f->offset, b + f->offset))
            return f->column;
    }
    return NULL;
}

static const char *list_difference(const struct prof_row *row, const struct prof_result *a, const struct prof_result *b)
{
    const char *rows[2], *name = NULL;
    size_t counts[2];
    for (int k = 0; k < 2; k++) {
        const char *r = (const char *)(k ? b : a);
        memcpy(&rows[k], r + row->list, sizeof rows[k]);
        memcpy(&counts[k], r + row->count, sizeof counts[k]);
    }
    if (counts[0] != counts[1])
        return row->table;
    for (size_t i = 0; i < counts[0] && !name; i++)
        name = row_difference(row, rows[0] + i * row->bytes, rows[1] + i * row->bytes);
    return name;
}

const char *fixture_difference(const struct prof_result *a, const struct prof_result *b)
{
    const char *name = NULL;
    for (unsigned id = 0; id < PROF_ROW_COUNT && !name; id++)
        name = id < PROF_ROW_LISTS ? row_difference(&prof_rows[id], (const char *)a, (const char *)b)
                                   : list_difference(&prof_rows[id], a, b);
    for (size_t i = 0; !name && a->command && a->command[i]; i++)
        if (!same_text(a->command[i], b->command[i]))
            name = "command";
    return name;
}
