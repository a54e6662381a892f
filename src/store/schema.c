/* SPDX-License-Identifier: Apache-2.0
 * The tables of a profile: which field of the result model is which column, and what it means. Reading, writing, the
 * SQL and its comments are all made from these lists. A change of meaning here needs a new STORE_SCHEMA_VERSION. */
#include "store/impl.h"

#define COLUMN(kind, name, field, doc)                                                                                 \
    {                                                                                                                  \
        name, STORE_##kind, offsetof(ROW, field), doc                                                                  \
    }
#define NUMBER(doc)                                                                                                    \
    {                                                                                                                  \
        "id", STORE_ROW, 0, doc                                                                                        \
    }
#define WHOLE(kind, name, doc)                                                                                         \
    {                                                                                                                  \
        name, STORE_##kind, 0, doc                                                                                     \
    } /* the row is the field */
#define INTERVAL(name, unit, field, doc)                                                                               \
    {name unit, STORE_REAL, offsetof(ROW, field.value), doc},                                                          \
        {name "_low" unit, STORE_REAL, offsetof(ROW, field.low), NULL},                                                \
    {                                                                                                                  \
        name "_high" unit, STORE_REAL, offsetof(ROW, field.high), NULL                                                 \
    }

const char *const store_sql_type[STORE_KIND_COUNT] = {
    [STORE_ROW] = "INTEGER PRIMARY KEY",
    [STORE_TEXT] = "TEXT",
    [STORE_U64] = "INTEGER",
    [STORE_ADDRESS] = "INTEGER",
    [STORE_U32] = "INTEGER",
    [STORE_ID] = "INTEGER",
    [STORE_LINE] = "INTEGER",
    [STORE_INT] = "INTEGER",
    [STORE_REAL] = "REAL",
    [STORE_BOOL] = "INTEGER",
    [STORE_OBJECT] = "TEXT",
    [STORE_VERDICT] = "TEXT",
    [STORE_ESTIMABLE] = "TEXT",
    [STORE_FUNCTION] = "INTEGER REFERENCES function(id)",
    [STORE_SOURCE] = "INTEGER REFERENCES source(id)",
};

#define ROW struct prof_result
static const struct store_column run_columns[] = {
    COLUMN(TEXT, "program", program, "path of the executable that ran"),
    COLUMN(TEXT, "started", started, "ISO 8601, UTC"),
    COLUMN(TEXT, "mtool_version", mtool_version, NULL),
    COLUMN(INT, "exit_status", exit_status, "of the program, as a shell sees it"),
    COLUMN(TEXT, "options", options, "the mtool command line"),
    COLUMN(ID, "rank", rank, "in a parallel job"),
    COLUMN(ID, "rank_count", rank_count, "of the job"),
    COLUMN(ID, "baseline_threads", baseline_threads, "of the run that table extra compares with"),
    COLUMN(REAL, "baseline_user_s", baseline_user_s, NULL),
    COLUMN(U64, "baseline_instructions", baseline_instructions, NULL),
    INTERVAL("predicted_user", "_s", predicted_user_s, "as if every access hit the first-level cache"),
    INTERVAL("branch_user", "_s", branch_user_s, "of predicted_user_s: mispredicted branches"),
    COLUMN(REAL, "simulated_user_s", simulated_user_s, "what the simulated core alone says of the counted code"),
    COLUMN(REAL, "replayed_share", replayed_share, "of its ideal time: in code that warm replays vouch for"),
    INTERVAL("actual_user", "_s", actual_user_s, "median of the plain runs"),
    INTERVAL("actual_system", "_s", actual_system_s, "the same, spent in the kernel"),
    INTERVAL("overhead", "", overhead, "(actual - predicted) / predicted"),
    COLUMN(U32, "plain_runs", plain_runs, "timed runs of the untouched program"),
    COLUMN(U64, "samples", samples, NULL),
    COLUMN(U64, "samples_lost", samples_lost, NULL),
    COLUMN(TEXT, "sampler", sampler, "where the samples come from"),
    COLUMN(TEXT, "launch_mode", launch_mode, "how the counted copies were put in place"),
    COLUMN(U32, "processes", processes, NULL),
    COLUMN(U32, "threads", threads, NULL),
    COLUMN(U64, "functions", coverage.functions, "in the modules that were loaded"),
    COLUMN(U64, "functions_rewritten", coverage.functions_rewritten, NULL),
    COLUMN(U64, "instructions_counted", coverage.instructions_counted, "executed in counted code, exact"),
    COLUMN(U64, "memory_ops", coverage.memory_ops, "of them those that access memory"),
    COLUMN(REAL, "instructions_counted_share", coverage.instructions_counted_share, "of user time in counted code"),
    COLUMN(REAL, "memory_ops_measured", coverage.memory_ops_measured, "share of memory_ops inside objects"),
    COLUMN(REAL, "memory_ops_probed", coverage.memory_ops_probed,
           "likewise, in disjoint objects that were probed and on their behalf"),
    INTERVAL("unexplained_overhead", "", coverage.unexplained_overhead,
             "of the run with probes, less the sum over these objects; as a fraction of predicted_user_s"),
    COLUMN(REAL, "counting_user_s", counting_user_s,
           "of a program that ran once: what counting took, not part of actual_user_s"),
    COLUMN(REAL, "windows_system_s", windows_system_s,
           "likewise: about what windows took it, not part of actual_system_s"),
    COLUMN(REAL, "probed_user_s", probed_user_s, "of the run with probes, without what these took"),
    COLUMN(REAL, "probed_system_s", probed_system_s, NULL),
};
static const struct store_column machine_columns[] = {
    COLUMN(TEXT, "cpu", machine.cpu, NULL),
    COLUMN(TEXT, "description", machine.description, "path or name of the machine description"),
    COLUMN(TEXT, "kernel", machine.kernel, NULL),
    COLUMN(REAL, "tsc_hz", machine.tsc_hz, "ticks of the time stamp counter a second"),
    COLUMN(REAL, "cycles_per_tsc", machine.cycles_per_tsc, "core cycles a tick"),
    COLUMN(REAL, "ideal_error_median", machine.ideal_error_median, "of the estimator's self-test, as fractions"),
    COLUMN(REAL, "ideal_error_p90", machine.ideal_error_p90, NULL),
    COLUMN(REAL, "ideal_bias", machine.ideal_bias, NULL),
};
#undef ROW

#define ROW struct prof_module
static const struct store_column module_columns[] = {
    NUMBER("what block.module and edge.module mean"),
    COLUMN(TEXT, "path", path, "the original file"),
    COLUMN(TEXT, "build_id", build_id, NULL),
    COLUMN(BOOL, "is_counted", is_counted, NULL),
    COLUMN(U64, "functions", functions, NULL),
    COLUMN(U64, "functions_rewritten", functions_rewritten, NULL),
    COLUMN(U64, "instructions", instructions, "executed in counted code"),
    COLUMN(U64, "memory_ops", memory_ops, "likewise"),
    COLUMN(REAL, "time_share", time_share, "of user samples"),
};
#undef ROW

#define ROW struct prof_object
static const struct store_column object_columns[] = {
    {"rank", STORE_ROW, 0, "from 0, largest memory_s first"},
    COLUMN(U32, "id", id, "what parent means"),
    COLUMN(OBJECT, "kind", kind, "loop, procedure or piece"),
    COLUMN(TEXT, "module", module, "path of the original file"),
    COLUMN(TEXT, "function", function, "as in the symbol table"),
    COLUMN(ADDRESS, "address", address, "loop header or entry, as in the file"),
    COLUMN(TEXT, "file", file, "source"),
    COLUMN(LINE, "line_first", line_first, NULL),
    COLUMN(LINE, "line_last", line_last, NULL),
    COLUMN(ID, "parent", parent, "id of the enclosing object"),
    COLUMN(U32, "depth", depth, "loops: nesting, 1 outermost"),
    COLUMN(U64, "entries", entries, "procedures: calls"),
    COLUMN(U64, "iterations", iterations, "loops only"),
    COLUMN(U64, "instructions", instructions, "executed; self: without inner objects and callees"),
    COLUMN(U64, "memory_ops", memory_ops, NULL),
    COLUMN(U64, "instructions_incl", instructions_incl, "with inner loops, without callees"),
    COLUMN(U64, "memory_ops_incl", memory_ops_incl, NULL),
    INTERVAL("ideal", "_s", ideal_s, "as if every access hit the first-level cache; self"),
    INTERVAL("actual", "_s", actual_s, "self"),
    INTERVAL("memory", "_s", memory_s, "actual - ideal - branch; self"),
    INTERVAL("ideal_incl", "_s", ideal_incl_s, "with inner loops, without callees"),
    INTERVAL("actual_incl", "_s", actual_incl_s, NULL),
    INTERVAL("memory_incl", "_s", memory_incl_s, NULL),
    COLUMN(REAL, "branch_s", branch_s, "mispredicted branches; self"),
    COLUMN(REAL, "tlb_s", tlb_s, "of memory_s: misses of the first-level TLB that the second holds; self"),
    INTERVAL("without", "_s", without_s,
             "user time of the whole program if memory_s were gone; of several threads up to no gain at all"),
    COLUMN(REAL, "simulated_s", simulated_s, "what the simulated core alone says of ideal_s"),
    COLUMN(REAL, "replayed_share", replayed_share, "of ideal_s: in code that warm replays vouch for"),
    COLUMN(TEXT, "ideal_method", ideal_method, "simulated, or both: corrected by replays"),
    COLUMN(TEXT, "actual_method", actual_method, "sampled, probed or both"),
    COLUMN(REAL, "extra_cycles_per_memory_op", extra_cycles_per_memory_op, NULL),
    COLUMN(TEXT, "bound_by", bound_by, "what limits the ideal time"),
    COLUMN(U64, "samples", samples, NULL),
    COLUMN(REAL, "memory_share", memory_share, "of all memory operations in counted code; self"),
    COLUMN(BOOL, "is_significant", is_significant, "memory_low_s is above 0, and it is no wait loop"),
    COLUMN(BOOL, "is_wait", is_wait, "a loop in which a thread waits for another: its time says nothing of memory"),
};
#undef ROW

#define ROW struct prof_candidate
static const struct store_column candidate_columns[] = {
    NUMBER("procedure by procedure, most memory operations first; inner loops before outer ones"),
    COLUMN(OBJECT, "kind", kind, "loop, procedure, piece or region"),
    COLUMN(TEXT, "module", module, NULL),
    COLUMN(TEXT, "function", function, "of a region the first that holds it"),
    COLUMN(TEXT, "region", region, "name between the markers in the source; NULL: it is none"),
    COLUMN(ADDRESS, "address", address, "loop header, entry or first byte"),
    COLUMN(ADDRESS, "address_end", address_end, "pieces: behind the last byte; 0 of others"),
    COLUMN(TEXT, "file", file, NULL),
    COLUMN(LINE, "line_first", line_first, NULL),
    COLUMN(LINE, "line_last", line_last, NULL),
    COLUMN(ID, "object", object, "object.id; of a piece: what it is a piece of"),
    COLUMN(U32, "depth", depth, NULL),
    COLUMN(U64, "entries", entries, NULL),
    COLUMN(U64, "memory_ops", memory_ops, "with inner loops, without callees"),
    COLUMN(U64, "own_instructions", own_instructions, "in the file, executed; without inner loops that are candidates"),
    COLUMN(U64, "own_lines", own_lines, "likewise; 0: not known"),
    COLUMN(U32, "pieces", pieces, "that its own code was cut into"),
    COLUMN(REAL, "memory_ops_all", memory_ops_all, "with what is done on its behalf, as all times"),
    COLUMN(REAL, "time_s", time_s, "expected: by samples, else by ideal_s"),
    INTERVAL("ideal", "_s", ideal_s, "as if every access hit the first-level cache"),
    INTERVAL("sampled", "_s", sampled_s, "user time by samples"),
    INTERVAL("system", "_s", system_s, "time in the kernel by samples; of those that are taken"),
    INTERVAL("sampled_all", "_s", sampled_all_s, "user and system time by samples; of those that are probed"),
    COLUMN(REAL, "uncounted_s", uncounted_s, "of sampled_s: in code that is not counted"),
    COLUMN(BOOL, "is_sampled_whole", is_sampled_whole,
           "sampled_s is of samples whose calls lead to it; else shared out by counts of calls"),
    COLUMN(U64, "samples", samples, "of sampled_s; NULL: shared out"),
    INTERVAL("probed", "_s", probed_s, "user and system time by probes; NULL: not probed"),
    INTERVAL("memory", "_s", memory_s, "probed less system, uncounted and ideal"),
    COLUMN(ID, "agrees", agrees, "1: the intervals of probed and sampled_all meet, 0: they do not"),
    COLUMN(BOOL, "is_summed", is_summed, "one of the disjoint objects that unexplained_overhead is the rest of"),
    COLUMN(REAL, "waiting_s", waiting_s, "that threads did not run between its probes"),
    COLUMN(U64, "probed_entries", probed_entries, "in the run with probes"),
    COLUMN(BOOL, "is_asked", is_asked, "named by --probe"),
    COLUMN(BOOL, "is_in_circle", is_in_circle,
           "of a region: what it calls leads back to it, and probes see the first entry only"),
    COLUMN(REAL, "pairs_inside", pairs_inside, "pairs of other objects' probes in it and on its behalf"),
    COLUMN(REAL, "probe_s", probe_s, "what probes of it would cost"),
    COLUMN(REAL, "tot", tot, "procedures that work for it, by share"),
    COLUMN(REAL, "tdes", tdes, "procedures that work for it or others, itself too"),
    COLUMN(ESTIMABLE, "estimable", estimable, "why its callees can be estimated; no: they cannot"),
    COLUMN(VERDICT, "verdict", verdict, "taken, sampled, covered or dropped"),
    COLUMN(TEXT, "reason", reason, "of the verdict"),
};
#undef ROW

#define ROW struct prof_refused
static const struct store_column refused_columns[] = {
    COLUMN(TEXT, "module", module, NULL),
    COLUMN(TEXT, "function", function, "NULL: the whole module"),
    COLUMN(ADDRESS, "address", address, NULL),
    COLUMN(TEXT, "reason", reason, NULL),
    COLUMN(REAL, "time_share", time_share, "of user samples"),
};
#undef ROW

#define ROW struct prof_process
static const struct store_column process_columns[] = {
    NUMBER("in order of time; a process that executes another program is there once for each"),
    COLUMN(U32, "pid", pid, NULL),
    COLUMN(U32, "parent", parent, "pid of the process that made it"),
    COLUMN(TEXT, "command", command, "words with blanks between"),
    COLUMN(BOOL, "is_fork", is_fork, "goes on with its parent's program"),
    COLUMN(ID, "exit_status", exit_status, "as a shell sees it; NULL: killed, or replaced by another program"),
    COLUMN(U64, "instructions", instructions, "executed in counted code; NULL: none of it was counted"),
    COLUMN(TEXT, "refused", refused, "why its executable was not counted"),
};
#undef ROW

#define ROW struct prof_line
static const struct store_column line_columns[] = {
    COLUMN(SOURCE, "source", file, NULL),
    COLUMN(U32, "line", line, NULL),
    COLUMN(U64, "instructions", instructions, "executed"),
    COLUMN(U64, "memory_ops", memory_ops, NULL),
    COLUMN(U64, "samples", samples, NULL),
};
#undef ROW

#define ROW struct prof_insn
static const struct store_column insn_columns[] = {
    COLUMN(U32, "object", object, "object.id of the innermost that holds it"),
    COLUMN(ADDRESS, "address", address, "as in the object's module"),
    COLUMN(TEXT, "text", text, "Intel syntax; of a call with the function in <>"),
    COLUMN(U32, "memory_ops", memory_ops, "in one execution"),
    COLUMN(U64, "count", count, "executions, exact"),
    COLUMN(U64, "samples", samples, "on the instruction that waits, often the one after"),
    COLUMN(REAL, "ideal_s", ideal_s, "its part of the object's ideal time"),
    COLUMN(TEXT, "bound_by", bound_by, "what it waits for in that time: see object.bound_by"),
};
#undef ROW

#define ROW struct prof_call
static const struct store_column call_columns[] = {
    COLUMN(U32, "object", object, "object.id of the caller, whose own code calls"),
    COLUMN(TEXT, "module", module, "of the called function"),
    COLUMN(TEXT, "function", function, "called; through pointers as far as windows saw it"),
    COLUMN(ADDRESS, "address", address, "where it is entered"),
    COLUMN(U64, "calls", calls, "exact unless is_estimated"),
    COLUMN(BOOL, "is_estimated", is_estimated, "some were made through pointers and shared out as windows saw them go"),
    COLUMN(U64, "memory_ops", memory_ops,
           "of the called function with its loops, shared out among its callers by calls"),
};
#undef ROW

#define ROW struct prof_block_row
static const struct store_column block_columns[] = {
    COLUMN(U32, "module", module, "module.id"),
    COLUMN(ADDRESS, "address", address, "as in the file"),
    COLUMN(U32, "size_bytes", size_bytes, NULL),
    COLUMN(U32, "instructions", instructions, "in one execution"),
    COLUMN(U32, "memory_ops", memory_ops, "in one execution"),
    COLUMN(FUNCTION, "function", function, NULL),
    COLUMN(SOURCE, "source", file, NULL),
    COLUMN(LINE, "line", line, NULL),
    COLUMN(U64, "count", count, "executions, exact"),
};
#undef ROW

#define ROW struct prof_edge_row
static const struct store_column edge_columns[] = {
    COLUMN(U32, "module", module, "module.id"),
    COLUMN(ADDRESS, "from_address", from, "of the block left"),
    COLUMN(ADDRESS, "to_address", to, "of the block entered"),
    COLUMN(U64, "count", count, "executions, exact"),
};
#undef ROW

#define ROW struct prof_warning
static const struct store_column warning_columns[] = {
    COLUMN(TEXT, "id", id, "a paragraph of doc/warnings.md"),
    COLUMN(TEXT, "text", text, NULL),
};
#undef ROW

#define ROW struct prof_thread
static const struct store_column thread_columns[] = {
    NUMBER("in order of their beginnings; 0 is the program's first"),
    COLUMN(U32, "tid", tid, NULL),
    COLUMN(ID, "rank", rank, "in a merged profile"),
    COLUMN(BOOL, "has_ended", has_ended, "before the program did"),
    COLUMN(REAL, "begin_s", begin_s, "since the program's beginning"),
    COLUMN(REAL, "wall_s", wall_s, "from its beginning to its end; the sum of all that follow"),
    COLUMN(REAL, "compute_s", compute_s, "in counted code, as if every access hit the first-level cache"),
    COLUMN(REAL, "memory_s", memory_s, "in counted code, what memory cost"),
    COLUMN(REAL, "uncounted_s", uncounted_s, "in other code, and where the ideal time is not known"),
    COLUMN(REAL, "system_s", system_s, "in the kernel"),
    COLUMN(REAL, "spin_s", spin_s, "synchronisation: waited for another thread with a processor"),
    COLUMN(REAL, "blocked_s", blocked_s, "synchronisation: waited for another thread without"),
    COLUMN(REAL, "asleep_s", asleep_s, "waited for anything else: input, output, time"),
    COLUMN(REAL, "ready_s", ready_s, "wanted a processor and had none"),
    COLUMN(U64, "samples", samples, "of its user time"),
};
#undef ROW

#define ROW struct prof_thread_object
static const struct store_column thread_object_columns[] = {
    COLUMN(U32, "thread", thread, "thread.id"),
    COLUMN(U32, "object", object, "object.id"),
    COLUMN(REAL, "compute_s", compute_s, "self"),
    COLUMN(REAL, "memory_s", memory_s, NULL),
    COLUMN(REAL, "spin_s", spin_s, "synchronisation asked for by this object"),
    COLUMN(REAL, "blocked_s", blocked_s, NULL),
    COLUMN(U64, "samples", samples, NULL),
    COLUMN(U64, "instructions", instructions, "that the thread executed in the counted run; NULL not known"),
    COLUMN(U64, "memory_ops", memory_ops, NULL),
};
#undef ROW

#define ROW struct prof_phase
static const struct store_column phase_columns[] = {
    COLUMN(TEXT, "name", name,
           "a run of the program (sampled, plain, counted, windows, probed, one run), or rewriting, or estimating"),
    COLUMN(REAL, "wall_s", wall_s, NULL),
};
#undef ROW

#define ROW struct prof_wait
static const struct store_column wait_columns[] = {
    COLUMN(U32, "thread", thread, "thread.id"),
    COLUMN(ID, "object", object, "object.id of the code that asked for it; NULL not known, or none"),
    COLUMN(TEXT, "called", into, "the function that it called, or waited in; NULL: a loop of its own"),
    COLUMN(REAL, "spin_s", spin_s, "with a processor"),
    COLUMN(REAL, "blocked_s", blocked_s, "without"),
};
#undef ROW

#define ROW struct prof_extra
static const struct store_column extra_columns[] = {
    COLUMN(U32, "object", object, "object.id"),
    COLUMN(U64, "instructions", instructions, "self"),
    COLUMN(U64, "base_instructions", base_instructions, "in the run with baseline_threads"),
    COLUMN(REAL, "ideal_s", ideal_s, NULL),
    COLUMN(REAL, "base_ideal_s", base_ideal_s, NULL),
    COLUMN(REAL, "extra_s", extra_s, "ideal_s - base_ideal_s"),
};
#undef ROW

#define ROW struct prof_region
static const struct store_column region_columns[] = {
    COLUMN(U32, "id", id, "from 0, most waiting first"),
    COLUMN(TEXT, "function", function,
           "a run-time library calls it, or a thread begins with it; NULL: outside of all regions"),
    COLUMN(TEXT, "module", module, NULL),
    COLUMN(ADDRESS, "address", address, NULL),
    COLUMN(TEXT, "file", file, NULL),
    COLUMN(LINE, "line_first", line_first, NULL),
    COLUMN(LINE, "line_last", line_last, NULL),
    COLUMN(ID, "object", object, "object.id of the procedure"),
    COLUMN(U32, "threads", threads, "that worked there"),
    COLUMN(U32, "thread_most", thread_most, "the one that did most"),
    COLUMN(REAL, "work_s", work_s, "processor time without waiting, of all threads, with what it calls"),
    COLUMN(REAL, "mean_s", mean_s, "of a thread that worked there"),
    COLUMN(REAL, "max_s", max_s, "of thread_most"),
    COLUMN(REAL, "imbalance", imbalance, "max_s / mean_s"),
    COLUMN(REAL, "wait_s", wait_s, "of all threads: in it, or for others that worked there"),
};
#undef ROW

#define ROW struct prof_region_thread
static const struct store_column region_thread_columns[] = {
    COLUMN(U32, "region", region, "region.id"),
    COLUMN(U32, "thread", thread, "thread.id"),
    COLUMN(REAL, "work_s", work_s, NULL),
    COLUMN(REAL, "wait_s", wait_s, NULL),
};
#undef ROW

#define ROW struct prof_rank
static const struct store_column rank_columns[] = {
    COLUMN(U32, "rank", rank, NULL),
    COLUMN(TEXT, "profile", profile, "its own"),
    COLUMN(INT, "exit_status", exit_status, NULL),
    COLUMN(REAL, "wall_s", wall_s, NULL),
    COLUMN(REAL, "user_s", user_s, NULL),
    COLUMN(REAL, "system_s", system_s, NULL),
    COLUMN(REAL, "predicted_user_s", predicted_user_s, NULL),
    COLUMN(REAL, "compute_s", compute_s, "of all its threads"),
    COLUMN(REAL, "memory_s", memory_s, "likewise"),
    COLUMN(REAL, "sync_s", sync_s, "its first thread waited for others, with a processor and without"),
    COLUMN(U64, "instructions", instructions, "executed in counted code"),
    COLUMN(U64, "memory_ops", memory_ops, NULL),
};
#undef ROW

#define ROW struct prof_rank_object
static const struct store_column rank_object_columns[] = {
    COLUMN(U32, "rank", rank, NULL),
    COLUMN(U32, "object", object, "object.id"),
    COLUMN(U64, "instructions", instructions, "self"),
    COLUMN(U64, "memory_ops", memory_ops, NULL),
    COLUMN(REAL, "ideal_s", ideal_s, NULL),
    COLUMN(REAL, "actual_s", actual_s, NULL),
    COLUMN(REAL, "memory_s", memory_s, NULL),
    COLUMN(U64, "samples", samples, NULL),
};
#undef ROW

#define ROW struct prof_spread
static const struct store_column rank_spread_columns[] = {
    COLUMN(U32, "object", object, "object.id"),
    COLUMN(U32, "ranks", ranks, "that executed it"),
    COLUMN(REAL, "min_s", min_s, "actual time, self, over all ranks"),
    COLUMN(REAL, "mean_s", mean_s, NULL),
    COLUMN(REAL, "max_s", max_s, NULL),
    COLUMN(REAL, "imbalance", imbalance, "max_s / mean_s"),
    COLUMN(U32, "rank_most", rank_most, "the one that took max_s"),
};
#undef ROW

static const struct store_column argument_columns[] = {NUMBER("0: the program"), WHOLE(TEXT, "text", NULL)};
static const struct store_column function_columns[] = {NUMBER("what block.function means"), WHOLE(TEXT, "name", NULL)};
static const struct store_column source_columns[] = {NUMBER("what block.source and line.source mean"),
                                                     WHOLE(TEXT, "path", NULL)};

#define COLUMNS(name) name##_columns, ARRAY_LEN(name##_columns)
#define TABLE(name, type, doc)                                                                                         \
    {                                                                                                                  \
#name, sizeof(type), COLUMNS(name), doc, 0, 0                                                                  \
    }
/* The type of the rows is that of the list. */
#define LIST(name, list, count, doc)                                                                                   \
    {                                                                                                                  \
#name, sizeof *((struct prof_result *)NULL)->list, COLUMNS(name), doc, offsetof(struct prof_result, list),     \
            offsetof(struct prof_result, count)                                                                        \
    }
const struct store_table store_tables[STORE_TABLE_COUNT] = {
    [STORE_RUN] =
        TABLE(run, struct prof_result, "one row: the program as a whole; CPU seconds of the untouched program"),
    [STORE_MACHINE] = TABLE(machine, struct prof_result, "one row: where it ran, and the model of it"),
    [STORE_ARGUMENT] = TABLE(argument, const char *, "the command that was profiled"),
    [STORE_MODULE] = LIST(module, modules, module_count, "executable and shared objects"),
    [STORE_OBJECTS] = LIST(object, objects, object_count, "loops, procedures and pieces of them"),
    [STORE_CANDIDATE] = LIST(candidate, candidates, candidate_count,
                             "loops, procedures, pieces and marked regions considered for probes"),
    [STORE_REFUSED] = LIST(refused, refused, refused_count, "what was not counted, and why"),
    [STORE_PROCESS] = LIST(process, process, process_count, "each process, with --follow"),
    [STORE_LINES] = LIST(line, lines, line_count, "source lines"),
    [STORE_INSNS] = LIST(insn, insns, insn_count, "executed instructions of the objects that lose or take most time"),
    [STORE_CALLS] = LIST(call, calls, call_count, "what these objects call"),
    [STORE_BLOCK] = LIST(block, blocks, block_count, "executed basic blocks"),
    [STORE_EDGE] = LIST(edge, edges, edge_count, "executed edges between blocks"),
    [STORE_WARNING] = LIST(warning, warnings, warning_count, "what mtool warned of"),
    [STORE_THREAD] =
        LIST(thread, thread, thread_count, "threads of the program, in the sampled run; seconds of the wall clock"),
    [STORE_THREAD_OBJECT] = LIST(thread_object, thread_objects, thread_object_count, "what threads did in objects"),
    [STORE_PHASE] =
        LIST(phase, phases, phase_count, "what mtool spent the wall clock with, in the order in which it began"),
    [STORE_WAIT] = LIST(wait, waits, wait_count, "where threads wait for each other, the longest first"),
    [STORE_EXTRA] =
        LIST(extra, extras, extra_count, "work beside a run with fewer threads (--baseline-threads), most extra first"),
    [STORE_REGION] = LIST(region, regions, region_count, "code that threads execute together"),
    [STORE_REGION_THREAD] = LIST(region_thread, region_threads, region_thread_count, "what each thread did there"),
    [STORE_RANK] = LIST(rank, ranks, rank_row_count, "of a merged profile: the processes of a parallel job"),
    [STORE_RANK_OBJECT] = LIST(rank_object, rank_objects, rank_object_count, "objects in each rank"),
    [STORE_RANK_SPREAD] = LIST(rank_spread, spreads, spread_count, "how unevenly ranks share objects"),
    [STORE_FUNCTIONS] = TABLE(function, const char *, "names of functions of blocks"),
    [STORE_SOURCES] = TABLE(source, const char *, "names of source files of blocks and lines"),
};

static const char *const views[] = {
    "CREATE VIEW loop AS SELECT * FROM object WHERE kind = 'loop'",
    "CREATE VIEW procedure AS SELECT * FROM object WHERE kind = 'procedure'",
    "CREATE VIEW bottleneck AS SELECT rank, kind, function, file, line_first, module, address, memory_s, memory_low_s, "
    "memory_high_s, actual_s, ideal_s, memory_s / ideal_s AS overhead, memory_share FROM object "
    "WHERE is_significant ORDER BY rank",
    "CREATE VIEW estimate AS SELECT id AS object, 'self' AS scope, ideal_s, ideal_low_s, ideal_high_s, "
    "ideal_method AS method, bound_by FROM object UNION ALL SELECT id, 'inclusive', ideal_incl_s, ideal_incl_low_s, "
    "ideal_incl_high_s, ideal_method, NULL FROM object",
    "CREATE VIEW measurement AS SELECT id AS object, 'self' AS scope, actual_s, actual_low_s, actual_high_s, "
    "actual_method AS method, samples FROM object UNION ALL SELECT id, 'inclusive', actual_incl_s, actual_incl_low_s, "
    "actual_incl_high_s, actual_method, NULL FROM object",
    "CREATE VIEW overhead AS SELECT id AS object, 'self' AS scope, memory_s, memory_low_s, memory_high_s, branch_s, "
    "memory_s / ideal_s AS overhead FROM object UNION ALL SELECT id, 'inclusive', memory_incl_s, memory_incl_low_s, "
    "memory_incl_high_s, NULL, memory_incl_s / ideal_incl_s FROM object",
    "CREATE VIEW named_block AS SELECT module.path AS module, block.address, size_bytes, block.instructions, "
    "block.memory_ops, function.name AS function, source.path AS file, line, count FROM block "
    "JOIN module ON module.id = block.module LEFT JOIN function ON function.id = block.function "
    "LEFT JOIN source ON source.id = block.source",
};

static void put_table(struct strbuf *out, const struct store_table *t)
{
    str_printf(out, "CREATE TABLE %s ( -- %s\n", t->name, t->doc);
    for (size_t i = 0; i < t->column_count; i++) {
        const struct store_column *c = &t->columns[i];
        str_printf(out, "  %s %s%s", c->name, store_sql_type[c->kind], i + 1 < t->column_count ? "," : "");
        str_printf(out, c->doc ? " -- %s\n" : "\n", c->doc);
    }
    str_puts(out, ");\n");
}

void store_schema_sql(struct strbuf *out)
{
    for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
        put_table(out, &store_tables[i]);
    for (size_t i = 0; i < ARRAY_LEN(views); i++)
        str_printf(out, "%s;\n", views[i]);
}
