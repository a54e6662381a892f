/* SPDX-License-Identifier: Apache-2.0
 *
 * ld: one step of a linker with its relocatable objects rewritten, those in archives too. The linker is any that reads
 * the command line of the GNU linker: bfd, gold, lld, mold.
 */
#ifndef MTOOL_LD_LD_H
#define MTOOL_LD_LD_H

#include "base/base.h"
#include "regs/regs.h"
#include "rewrite/rewrite.h"

/* ---- line.c: a linker's command line ---- */

struct ld_input {
    size_t arg;       /* in the line */
    const char *path; /* of the file; NULL: a library that was not found */
    bool is_library;  /* -lNAME */
    bool is_whole;    /* behind --whole-archive */
};
struct ld_line {
    struct arena *arena;
    VEC(const char *) args; /* @files replaced by what they hold; without the linker itself */
    VEC(struct ld_input) inputs;
    const char *output; /* a.out if the line says none */
    bool is_partial;    /* -r: its result is linked again */
    bool is_shared;     /* it makes a shared object */
    bool links;         /* there is something to be linked: it does not only ask for a version or help */
};
void ld_line_parse(struct arena *a, const char *const *args, struct ld_line *out);
void ld_line_free(struct ld_line *l);

/* ---- archive.c: archives of System V and GNU, thin ones too ---- */

struct ld_member {
    const char *name;
    const uint8_t *header, *data;
    size_t header_at, len;
    const void *instead; /* what is written in its place, not owned; NULL: itself */
    size_t instead_len;
    bool is_taken;   /* resolve.c */
    bool is_dropped; /* it is not written */
};
struct ld_symbol {
    const char *name;
    uint32_t member;
};
struct ld_archive {
    struct arena *arena;
    struct file_bytes file;
    VEC(struct file_bytes) others; /* of a thin archive's members */
    VEC(struct ld_member) members; /* without the tables */
    VEC(struct ld_symbol) symbols; /* of its index */
    const uint8_t *names;          /* the table of long names, with its header; NULL none */
    size_t names_len;
};
bool ld_is_archive(const uint8_t *bytes, size_t len);
/* 0, or -1 with *why: it is cut off or corrupt, has no index, or a member of a thin one is missing. */
int ld_archive_open(struct arena *a, const char *path, struct ld_archive *out, const char **why);
void ld_archive_close(struct ld_archive *ar);
/* As an archive that is not thin, with the same members in their order. */
void ld_archive_write(const struct ld_archive *ar, struct strbuf *out);

/* ---- resolve.c: which members a link takes in ---- */

struct ld_resolver;
struct ld_resolver *ld_resolver_new(void);
void ld_resolver_free(struct ld_resolver *r);
/* Symbols that a relocatable object defines and wants. False if it is none of x86-64. */
bool ld_resolver_add(struct ld_resolver *r, const uint8_t *bytes, size_t len);
/* Marks members, at least those that a linker takes in: it may leave out some of them by the order on its line. */
void ld_resolver_take(struct ld_resolver *r, struct ld_archive *archives, size_t count);
bool ld_resolver_wants(const struct ld_resolver *r, const char *name);
/* Does any object hold intermediate code of link-time optimisation? With a plugin such as have machine code too are
 * compiled anew. */
bool ld_resolver_has_intermediate(const struct ld_resolver *r, bool has_plugin);

/* ---- tools.c: what linked programs do besides their work (tools.def) ---- */

enum ld_tool_id {
#define TOOL(id, name, extension, plan, runtime, does, inserts) LD_TOOL_##id,
#include "ld/tools.def"
#undef TOOL
    LD_TOOL_COUNT
};
struct ld_tool { /* a line of the table */
    enum ld_tool_id id;
    const char *name, *extension; /* extension NULL: its programs write nothing */
    enum rewrite_relocatable_tool plan;
    const uint8_t *runtime; /* an object, NULL none */
    size_t runtime_len;
    const char *does, *inserts;
};
extern const struct ld_tool ld_tools[LD_TOOL_COUNT];
void ld_tools_list(struct strbuf *out);                  /* appends their names, with commas between them */
const struct ld_tool *ld_tool_named(const char *name);   /* NULL after one line, which names those that there are */
const struct ld_tool *ld_tool_of_file(const char *path); /* that made the program which wrote it. Likewise */
const struct ld_tool *
ld_tool_of_linked(const char *path); /* that a program was linked for, if that writes; else NULL */

/* ---- link.c ---- */

struct machine;
struct ld_tally {
    uint64_t funcs, funcs_moved, counters;
    uint64_t blocks_ordered;
    bool is_seen;                /* schedule: others may see its accesses to memory */
    uint64_t promoted, accesses; /* promote: variables in registers, instructions that no longer reach memory */
    char *promoted_what;         /* on the heap: their names, or why there are none; NULL: nothing was tried */
    char *lto;                   /* an input that holds intermediate code, on the heap; NULL none */
    struct strbuf left;          /* a line each: what was taken over as it is, and why */
};
struct ld_link {
    bool all_blocks;    /* as in rewrite_relocatable_options */
    bool samples_short; /* clocks: of calls that take no longer than looking at the clock some are timed */
    const struct ld_tool *tool;
    const char *linker;                /* to be executed */
    const char *const *args;           /* its arguments, without its name, NULL-terminated */
    const char *folder;                /* of temporary files; exists */
    const char *self;                  /* words of a shell that call mtool for one step, with the same options */
    const struct machine *machine;     /* schedule: that it is done for */
    const struct ld_variables *counts; /* promote: how often variables are used, NULL: estimated */
    bool is_private;                   /* schedule: nobody sees its accesses to memory, whatever the link looks like */
};
/* Links for the tool; or, where gcc's plugin calls this in place of its lto-wrapper (lto/wrapper.c), compiles for it.
 * Standard output, error and exit status are those of the linker, given the inputs as they are: where it refuses the
 * rewritten ones, the link is done without them, and *why_plain (on the heap, else NULL) says so. Returns its status;
 * SIGNAL + 128 if it was killed. */
int ld_link(const struct ld_link *l, struct ld_tally *tally, char **why_plain);

/* ---- whole.c ---- */

#define LD_WHOLE_SECTION "mtool_whole"
/* What was taken over as it was when that file was linked, and why: lines, in the arena. Returns how many; 0 also where
 * it cannot be read, or was not linked so. */
size_t ld_whole_read(const char *path, struct arena *a, const char ***lines);

/* ---- cache.c: rewritten objects and archives are kept, see there ---- */

void ld_cache_evict(void); /* to its limit: MTOOL_CACHE_MB, 4096 without */

/* ---- schedule.c ---- */

struct sched;
struct rewrite_order_block;
struct rewrite_order_answer;
struct ld_schedule {
    struct sched *sched;
    bool is_seen; /* as in sched_block */
};
void ld_schedule_block(void *ctx, const struct rewrite_order_block *b, struct rewrite_order_answer *out);

struct ld_cost { /* on the machine that was scheduled for; at 0 as it was, at 1 as it is */
    double cycles[2], stalls[2];
};
struct ld_scheduled {
    const char *name, *object; /* name "" if the file has none for it */
    uint64_t address;
    uint32_t blocks, blocks_new;
    struct ld_cost cost; /* of its blocks times how often each is executed, as counted or estimated */
    double executed;     /* instructions, likewise */
    bool is_counted;
};
struct ld_schedules {
    struct arena *arena;
    VEC(struct ld_scheduled) functions;
    struct ld_cost all;
    uint64_t blocks, blocks_new;
    bool has_counts;
    size_t uncounted; /* functions that the counted program has not */
};
struct ld_blocks;
/* Of a linked file. `counts` of the same objects, linked for blocks, say how often each is executed; NULL: once for
 * each call, ten times as often in a loop as around it (Wall 1989, 4.1). 0, or -1 after one line. */
int ld_schedules_read(const char *path, const struct ld_blocks *counts, struct ld_schedules **out);
void ld_schedules_free(struct ld_schedules *s);

/* ---- promote/: variables in registers for the whole run ---- */

struct ld_promoted { /* a variable */
    const char *name;
    uint64_t address;
    unsigned bytes;
    const char *reg;                          /* that holds it; NULL none */
    const char *why;                          /* it is in none; "" */
    uint64_t loads, stores;                   /* instructions that do so, now moves of registers if `reg` */
    double loads_estimated, stores_estimated; /* for one call of each function, ten times in a loop */
    double loads_measured, stores_measured;   /* executed; if has_counts */
};
struct ld_promotion {
    struct arena *arena;
    VEC(struct ld_promoted) variables; /* that instructions name; those most used first, by counts if there are any */
    const char *root;                  /* the function in front of which the registers are loaded */
    const char *why;                   /* nothing could be promoted, "" */
    bool has_counts;
};
/* Of a linked file, from its record. 0, or -1 after one line: it was not linked by this tool, or is damaged. */
int ld_promotion_read(const char *path, struct ld_promotion *out);
/* Is there such a record? */
bool ld_promotion_is_in(const char *path);
void ld_promotion_free(struct ld_promotion *p);
/* Fills what was measured, of variables of the same name and size. */
struct ld_variables;
void ld_promotion_measure(struct ld_promotion *p, const struct ld_variables *counts);

/* ---- blocks.c: from a linked file and what it wrote to counts ---- */

struct ld_block {
    uint64_t address, end; /* in the linked file; what was inserted is in it */
    uint64_t count;        /* times executed */
    uint32_t insns;        /* of the original */
    uint32_t edge_first, edge_count;
    uint16_t flags; /* CFG_BLOCK_* */
    uint8_t term;   /* enum x86_kind of the last instruction */
    uint8_t depth;  /* of loops around it */
};
struct ld_edge {
    uint32_t to;    /* block, ID_NONE: it leaves what is known */
    uint8_t kind;   /* enum cfg_edge_kind */
    uint64_t count; /* times taken; of RETURN edges, and of those that leave, nothing is known: 0 */
};
struct ld_function {
    const char *name, *object; /* name "" if the file has none for it */
    uint64_t address, calls;   /* calls: entered from outside of its section, or by a call */
    uint64_t tail_calls;       /* by a jump of another function in its section */
    uint64_t insns;            /* executed */
    size_t first, count;       /* blocks */
};
struct ld_blocks {
    struct arena *arena;
    VEC(struct ld_function) functions;
    VEC(struct ld_block) blocks;
    VEC(struct ld_edge) edges;
    size_t files; /* of counts, summed */
    uint64_t
        inconsistent; /* flow equations that do not hold: of threads that were not expected, of a process cut off */
};
/* 0, or -1 after one line: not linked by mtool ld, files of another link, cut off. */
int ld_blocks_read(const char *path, const char *const *files, size_t count, struct ld_blocks **out);
void ld_blocks_free(struct ld_blocks *b);

/* ---- sources.c: how often lines of the source were executed, by counts of blocks ---- */

struct ld_source_line {
    uint32_t line;
    uint64_t count; /* times executed */
    uint64_t insns; /* instructions of it that were executed */
};
struct ld_source {
    const char *name; /* as debug information has it, from the root where that says in which folder it was compiled */
    size_t first, count; /* lines that have code, in their order */
    size_t executed;     /* of these */
};
struct ld_sources {
    struct arena *arena;
    VEC(struct ld_source) sources; /* by name */
    VEC(struct ld_source_line) lines;
    uint64_t insns, unknown; /* executed in all; of these, of no line that is known */
    size_t files;
    uint64_t inconsistent, unread; /* as in ld_variables */
};
/* As ld_blocks_read; and where there is no debug information. */
int ld_sources_read(const char *path, const char *const *files, size_t count, struct ld_sources **out);
void ld_sources_free(struct ld_sources *s);

/* ---- variables.c: how often variables are loaded and stored, by counts of blocks ---- */

#define LD_VARIABLE_KINDS(X)                                                                                           \
    X(GLOBAL, "global")     /* of static storage, that may be written */                                               \
    X(CONSTANT, "constant") /* of static storage, that may not */                                                      \
    X(THREAD, "thread")     /* thread-local */                                                                         \
    X(STACK, "stack")       /* a home in a function's frame */                                                         \
    X(LINKAGE, "linkage")   /* an address that the linker made a word for */                                           \
    X(SAVES, "saves")       /* of a function: pushes, pops, return addresses */                                        \
    X(POINTER, "pointer")   /* of a function: whatever pointers and indices lead to */
enum ld_variable_kind {
#define X(id, name) LD_VARIABLE_##id,
    LD_VARIABLE_KINDS(X)
#undef X
        LD_VARIABLE_KIND_COUNT
};
struct ld_variable {
    enum ld_variable_kind kind;
    uint64_t id;      /* address in the linked file; THREAD: offset in its thread-local memory, or from the thread's
                         base, in the order of `offset` 1 and 0; of what belongs to a function: its address */
    int64_t offset;   /* STACK: from the frame's CFA, or, if that is not known there, from the stack pointer */
    const char *name; /* "" of a function as a whole. Without a name in the file: its place in section or frame */
    const char *function, *object; /* where it is known or at home; NULL: everywhere */
    uint64_t bytes;                /* 0 unknown */
    uint64_t loads, stores;        /* what does both is in both; a repeated string instruction is one */
};
struct ld_variables {
    struct arena *arena;
    VEC(struct ld_variable) variables; /* referred to; the most frequent first */
    size_t files;
    uint64_t inconsistent; /* as in ld_blocks */
    uint64_t unread;       /* instructions executed in blocks whose code is not what the map says */
};
/* As ld_blocks_read. */
int ld_variables_read(const char *path, const char *const *files, size_t count, struct ld_variables **out);
void ld_variables_free(struct ld_variables *v);

/* ---- events.c: dynamic counts of events, by counts of blocks ---- */

#define LD_EVENTS(X)                                                                                                   \
    X(INSTRUCTIONS, "instructions", "instructions")                                                                    \
    X(LOADS, "loads", "loads")                                                                                         \
    X(STORES, "stores", "stores")                                                                                      \
    X(BRANCHES, "branches", "conditional branches")                                                                    \
    X(TAKEN, "taken", "conditional branches taken")                                                                    \
    X(NOT_TAKEN, "not_taken", "conditional branches not taken")                                                        \
    X(JUMPS, "jumps", "direct jumps")                                                                                  \
    X(JUMPS_INDIRECT, "jumps_indirect", "indirect jumps")                                                              \
    X(CALLS, "calls", "direct calls")                                                                                  \
    X(CALLS_INDIRECT, "calls_indirect", "indirect calls")                                                              \
    X(RETURNS, "returns", "returns")                                                                                   \
    X(SYSTEM_CALLS, "system_calls", "system calls")                                                                    \
    X(NOPS, "nops", "instructions that do nothing")
enum ld_event {
#define X(id, key, text) LD_EVENT_##id,
    LD_EVENTS(X)
#undef X
        LD_EVENT_COUNT
};
struct ld_event_row { /* of a function */
    const char *name, *object;
    uint64_t address;
    uint64_t events[LD_EVENT_COUNT];
};
struct ld_events {
    struct arena *arena;
    VEC(struct ld_event_row) functions; /* executed; with most instructions first */
    VEC(uint64_t) idioms;               /* in the order asked for */
    uint64_t events[LD_EVENT_COUNT];    /* of all */
    size_t files;
    uint64_t inconsistent, unread; /* as in ld_variables */
};
/* A pattern: instructions one behind the other in a block, with ; between them. Each is a mnemonic, or several with |
 * between them; one that ends in * stands for all that begin so; jcc is any conditional jump, any is anything; behind
 * it :load or :store says that it reaches memory. 0, or -1 after one line. */
struct ld_idiom;
int ld_idiom_parse(const char *text, struct ld_idiom **out);
void ld_idiom_free(struct ld_idiom *p);
int ld_events_read(const char *path, const char *const *files, size_t count, const struct ld_idiom *const *idioms,
                   size_t idiom_count, struct ld_events **out);
void ld_events_free(struct ld_events *e);

/* ---- stalls.c: what a described machine that issues in order would take ---- */

struct image;
struct ld_stalls {
    double cycles[2]; /* the least and the most that it can have been; equal: exact */
    double stalls[2]; /* of these those beyond what its width allows at best: unfilled slots, in cycles */
    size_t states;    /* that its pipeline was in where blocks begin */
};
/* Of the file that the counts are of. 0, or -1 after one line: too many states. */
int ld_stalls_of(const struct image *img, const struct ld_blocks *blocks, const struct machine *machine,
                 struct ld_stalls *out);

/* ---- clocks.c: of programs with exact clocks ---- */

enum ld_overhead {                  /* whose is the time that the looks at the clock take */
                   LD_OVERHEAD_OFF, /* nobody's: it is taken off, as it was measured */
                   LD_OVERHEAD_CALLER,
                   LD_OVERHEAD_CALLEE
};
struct ld_timed {              /* a function */
    const char *name, *object; /* as in ld_place */
    uint64_t address, end;
    uint64_t calls;
    double self_s, all_s; /* all: what it calls too; of one that calls itself, in whatever way, its outermost calls */
    double error_s;       /* of self_s, where calls are sampled: as likely as 95 in 100 it is off by less */
    double looks_error_s; /* in that: what looking at the clock may have taken less than was taken off */
    bool all_is_most;     /* where calls are sampled: it called itself, and all_s may hold some time twice */
};
struct ld_timed_arc {
    uint32_t caller, callee;       /* among functions; caller LD_ELSEWHERE: code that is not timed */
    uint64_t calls, timed;         /* timed: of them */
    double self_s, all_s;          /* of the callee in these calls; all: nested ones again */
    double error_s, looks_error_s; /* as in ld_timed */
};
struct ld_clocks {
    struct arena *arena;
    VEC(struct ld_timed) functions; /* by all_s */
    VEC(struct ld_timed_arc) arcs;  /* by callee, then all_s */
    size_t files;
    uint64_t lost;                /* calls for which there was no room */
    bool is_sampled;              /* not all calls of short functions were timed */
    double wall_s;                /* of all processes, from begin to end */
    double pair_s, pair_inside_s; /* what looking at the clock takes for a call, and what of it is between */
};
int ld_clocks_read(const char *path, const char *const *files, size_t count, enum ld_overhead overhead,
                   struct ld_clocks **out);
void ld_clocks_free(struct ld_clocks *c);

/* ---- registers.c: what registers would save of loads and stores ---- */

struct ld_registers_options {
    unsigned windows, window_size, windows_at_once; /* see regs_windows; windows 0: several numbers of them */
};
struct ld_allocation {
    unsigned registers; /* asked for */
    enum regs_by by;
    struct regs_allocation result;
};
struct ld_traffic {
    struct regs_windows windows;
    struct regs_traffic result;
};
struct ld_registers {
    double loads, stores; /* executed, all */
    uint64_t procedures;
    uint64_t candidates[3];        /* globals, constants, locals that could be in a register ... */
    double candidate_uses[3];      /* ... and loads and stores of them */
    uint64_t inconsistent, unread; /* as of variables */
    VEC(struct ld_allocation) allocations;
    VEC(struct ld_traffic) traffic;
};
/* As ld_blocks_read. */
int ld_registers_read(const char *path, const char *const *files, size_t count, const struct ld_registers_options *opt,
                      struct ld_registers **out);
void ld_registers_free(struct ld_registers *r);

/* ---- calls.c: of programs that count calls ---- */

enum { LD_ELSEWHERE = UINT32_MAX };
struct ld_place {
    const char *name, *object; /* of a function; object NULL: it was not rewritten. name "" if the file has none */
    uint64_t address, end;     /* in the linked file; of one of another file both 0 */
    uint64_t calls;            /* all */
    uint64_t samples;
};
struct ld_arc {
    uint32_t caller, callee; /* among places; caller LD_ELSEWHERE: code that is not rewritten, or not in this file */
    uint64_t site;           /* the call, or just in front of it; 0 if it is not known */
    uint64_t calls;
};
struct ld_sample {
    uint64_t address, count;
};
struct ld_calls {
    struct arena *arena;
    VEC(struct ld_place) places;
    VEC(struct ld_arc) arcs;       /* executed ones, one a site and callee */
    VEC(struct ld_sample) samples; /* in the linked file */
    size_t files;                  /* summed */
    uint64_t elsewhere;            /* samples in other files, and in the kernel's page */
    uint64_t lost_calls;           /* through pointers: their table was full */
    uint64_t lost_samples;         /* likewise */
    uint64_t inconsistent;         /* functions that were called more often than they were entered */
    double processor_s;            /* of all processes */
};
int ld_calls_read(const char *path, const char *const *files, size_t count, struct ld_calls **out);
void ld_calls_free(struct ld_calls *c);

#endif
