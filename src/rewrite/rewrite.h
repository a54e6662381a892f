/* SPDX-License-Identifier: Apache-2.0
 *
 * rewrite: a module and a plan become a rewritten file and its map. New code goes to new segments, the original text
 * stays where it is, with a jump at each function entry. pipeline.c is the list of the passes.
 *
 *   instruments/  what is inserted: counts, probes        emit/  fragments, their layout and bytes, the file
 *   map/          what copies are kept with: from counters and places of a copy back to the original's
 *   relocatable/  the same instrumentations for relocatable objects, which are rewritten in place
 */
#ifndef MTOOL_REWRITE_H
#define MTOOL_REWRITE_H

#include "base/base.h"
#include "cfg/cfg.h"
#include "image/image.h"
#include "observed/observed.h"

/* clang-format off */
enum rewrite_plan { /* REWRITE_NONE, _COUNT, _PROBE, _SAMPLE: the file says what each is */
#define INSTRUMENT(plan, instrument, what) REWRITE_##plan,
#include "rewrite/instruments/instruments.def"
#undef INSTRUMENT
    REWRITE_PLAN_COUNT
};
/* clang-format on */

enum rewrite_object_kind {
    REWRITE_PROCEDURE, /* at: its entry */
    REWRITE_LOOP,      /* at: its header */
    REWRITE_PIECE,     /* whole blocks of one nesting from `at` to `end` */
    REWRITE_REGION     /* between the markers of `region` */
};
struct rewrite_object { /* to be probed; addresses as in the file */
    enum rewrite_object_kind kind;
    uint64_t at, end;
    const char *region;
};
struct rewrite_objects {
    const struct rewrite_object *data; /* cell k is that of the k-th, from 1 */
    size_t len;
    bool all; /* in place of a list, for tests: every procedure and every loop */
};

struct rewrite_watched { /* a function by its symbol */
    const char *name;
    bool returns;       /* its returns are told too */
    bool stores;        /* of these: it stores what it gives where an argument says, mostly on its caller's stack */
    bool takes_several; /* arguments; else, if it does not return, the first one is told alone */
    bool is_own;        /* the program's, not one of a system's library */
    uint64_t addr;      /* of a static program: the function that begins there, if it is not 0 */
};

/* With REWRITE_REFERENCES: of lines of 2^shift bytes those whose number times `factor` has `value` under `mask`; of
 * references to others nothing is told, but for those that may reach two lines, and ranges. */
struct rewrite_sets {
    uint8_t shift;
    uint32_t factor, mask, value; /* below 2^31; mask 0: all are told */
};

enum { REWRITE_FILTER_LINE_MIN = 16 };
struct rewrite_options {
    enum rewrite_plan plan;
    bool poison;     /* test only: fill the old bytes of fully resolved functions with int3 */
    bool all_blocks; /* a counter in every block instead of the spanning tree: for tests */
    bool threads;    /* counters are found through gs: each thread counts into an area of its own (see src/rt) */
    bool locked;     /* counters are shared by threads and exact all the same: locked increments. Not with threads */
    uint8_t filter_shift; /* REWRITE_REFERENCES: 0 all are told; else no prefetches, nor references that change nothing
                             in a cache of lines of 2^filter_shift bytes whose sets are a multiple of WIRE_FILTER_SLOTS,
                             keep the order of use (or turn away from what was used last), and allocate on writes;
                             not shorter than REWRITE_FILTER_LINE_MIN */
    uint8_t filter_lines; /* likewise, 2 to WIRE_LAST_LINES: nor those to the last so many lines of their place, of
                             which only the order changes, in a cache that has them whatever comes; 0, 1: the last one
                             alone. With a filter of lines of 64 bytes or more; not with sets */
    bool filter_threads;  /* likewise, in caches that each thread has for itself, which take lines from each other: what
                             another one's reference may have changed is told. With `threads`; with filter_lines under
                             LRU alone */
    struct rewrite_sets sets;
    bool clocks_in_line;  /* relocatable objects: see rewrite_relocatable_options */
    bool samples;         /* REWRITE_REFERENCES: references are told only while a sample is taken (wire/stream.h) */
    const char *rpath;    /* fallback launch without a namespace: folder searched first for libraries, NULL none */
    const char *interp;   /* other PT_INTERP, NULL keeps it */
    const char *feedback; /* file of rewrite_feedback_write about the same file, NULL none: makes the copy faster */
    /* File of rewrite_heat_write about the same file, NULL none: where there is no feedback, makes the copy somewhat
     * faster. heat_settle (NULL: not called), if called, just before it is read: samples that came meanwhile may still
     * be written there, under the same id. */
    const char *heat;
    void (*heat_settle)(void *ctx);
    void *heat_ctx;
    const struct rewrite_objects *objects; /* with REWRITE_PROBE; NULL none */
    const struct rewrite_watched *watched; /* with REWRITE_REFERENCES: told by their place in this list */
    size_t watched_count;
    bool watch_all; /* of a static program, all other functions too: numbers go on behind the list; no paths to them */
    const char *sampled; /* file of rewrite_sampled_write about the same file, NULL none: lets more of it be counted */
};

struct rewrite_stats {
    uint32_t funcs, funcs_moved;
    uint32_t refused[CFG_REASON_COUNT]; /* functions by reason */
    uint64_t insns, blocks, edges, counters;
    uint64_t code_bytes; /* of all executable sections */
    uint64_t text_bytes_old, text_bytes_new,
        file_bytes_new; /* of moved functions, of their copies, of the whole copy */
    double seconds;
    uint8_t key[16];    /* WIRE_KEY_BYTES: identity embedded in the rewritten module */
    bool owns_gs;       /* see rewrite_map */
    bool wants_samples; /* what runs are seen to execute (rewrite_options.sampled) may show more of it to be code */
};

/* Rewrites IN to OUT (both paths), and writes the map that gives the counters their meaning. OUT is whole or absent.
 * 0, or -1 after one line. A function that is not understood stays as it is; the map names it with its reason. */
int rewrite_file(const char *in, const struct rewrite_options *opt, const char *out, const char *map,
                 struct rewrite_stats *stats);

/* ---- options.c ---- */

/* Appends what of the options tells copies of one file apart, but for the paths that are written into them. */
void rewrite_options_put(const struct rewrite_options *opt, struct strbuf *out);

/* ---- probe_cost.c ---- */

struct rewrite_probe_cost { /* in ticks of the time stamp counter; measured here and now, in well under a second */
    double inside;          /* of a pair: in the interval that it measures */
    double all;             /* what a pair adds to the program */
    double begin, end;      /* what its start and its stop see of themselves: struct wire_probe */
    double look, look_seen; /* what it adds where the processor time is read, and what is seen of that: likewise */
};
struct rewrite_probe_cost rewrite_probe_cost(void);

/* ---- feedback.c: profile feedback: what counts give to the next copy of the same file ---- */

struct rewrite_map;
struct rewrite_flow;
/* Writes what was hot in a run to PATH, if `least` instructions were executed. 0, or -1 with errno; nothing reported.
 */
int rewrite_feedback_write(const struct rewrite_map *m, const struct rewrite_flow *f, uint64_t min, const char *path);
/* What tells this feedback from other, and how many instructions it comes from. False if there is none. */
bool rewrite_feedback_id(const char *path, char id[33], uint64_t *instructions);
/* Has it as many blocks and edges? Else it is of a copy that knew of fewer functions, and of no use. */
bool rewrite_feedback_fits(const char *path, const struct rewrite_map *m);

/* ---- sampled_addresses.c: code that no unwind table describes and runs were seen to execute ---- */

struct rewrite_sample {
    uint64_t addr; /* in the file IN */
    uint64_t count;
};
/* Adds to PATH what of the samples is code of IN that its unwind tables do not describe, if that is new and worth
 * making another copy: `all` samples were taken in the run. 0, or -1 with errno. */
int rewrite_sampled_write(const char *in, const struct rewrite_sample *samples, size_t count, uint64_t all,
                          const char *path);
bool rewrite_sampled_id(const char *path, char id[33]); /* what tells it from others, "" and false if there is none */

/* ---- heat.c: where samples found a run, for the order of functions in a copy ---- */

/* id: 32 hex digits, another one for each copy that is to be made of it. 0, or -1 with errno. */
int rewrite_heat_write(const char *path, const char *id, const struct rewrite_sample *samples, size_t count);
bool rewrite_heat_id(const char *path, char id[33], uint64_t *samples); /* "" and false if there is none */

/* ---- map.c: the map, a file beside each rewritten module ---- */

struct rewrite_map {
    struct cfg *cfg; /* the arrays without instructions (cfg_load) */
    uint8_t key[16]; /* WIRE_KEY_BYTES: identity embedded in the rewritten module */
    uint32_t counter_count;
    uint32_t *block_counter; /* [cfg->blocks.len] counter in the block, ID_NONE: derived */
    uint32_t *edge_counter;  /* [cfg->edges.len] */
    uint32_t
        *enter_counter; /* [cfg->blocks.len] counter on the way in from outside (call, return, unwinder), ID_NONE */
    uint64_t *block_addr_new; /* [cfg->blocks.len] address of the copy, 0 if none */
    uint64_t counters_vaddr;  /* of the counter segment in the rewritten module */
    uint64_t text_new_lo, text_new_hi;
    bool owns_gs;  /* the module uses gs itself: nothing in its process may be rewritten with `threads` */
    char *in_path; /* the original */
    struct rewrite_site *sites;
    uint32_t site_count;
};
int rewrite_map_open(const char *path, struct rewrite_map **out); /* 0, or -1 after one line */
/* The original is at that path now. Copies are kept by content: where the file stood when its copy was made may be
 * gone, or hold another one. */
void rewrite_map_set_original(struct rewrite_map *m, const char *path);
void rewrite_map_close(struct rewrite_map *m);
/* Frees what counters mean, once that was asked for the last time: no equations of m can be solved any more. */
void rewrite_map_forget_counters(struct rewrite_map *m);
/* Likewise where in the copy blocks are (block_addr_new): none of its addresses is looked up any more. */
void rewrite_map_forget_places(struct rewrite_map *m);

/* What entries of the stream of references are about (wire/stream.h): [site] of the module, with REWRITE_REFERENCES. */
enum rewrite_site_flag {
    REWRITE_SITE_LOAD = 1,
    REWRITE_SITE_STORE = 2, /* with LOAD: both, at once */
    REWRITE_SITE_PREFETCH = 4,
    REWRITE_SITE_RANGE = 8,     /* of a string instruction that repeats: comes as WIRE_EVENT_RANGE */
    REWRITE_SITE_UNTOLD = 16,   /* an instruction whose references are not told, and so no entry is about */
    REWRITE_SITE_WATCHED = 32,  /* a function whose entrances are told, as events */
    REWRITE_SITE_ELEMENTS = 64, /* of a gather or scatter: an entry for each element that its mask asks for */
    REWRITE_SITE_REACH = 128,   /* comes as WIRE_EVENT_REACH: what a mask or the processor's state says */
    REWRITE_SITE_KERNEL = 256,  /* likewise: what the kernel does for a system call; the one that loads comes first */
};
struct rewrite_site {
    uint64_t addr;  /* of the instruction, in the original; of the function */
    uint16_t bytes; /* 1 to 64; of one element; of a function its number among the watched */
    uint16_t flags;
};

/* ---- reverse_map.c: from a copy back to its original ---- */

struct rewrite_place {
    uint64_t addr;       /* in the original; of what was inserted: of the instruction that it stands before */
    bool is_inserted;    /* the original has no such instruction; at a block's end addr is then in its last one */
    bool is_exact;       /* at the begin of an instruction, or of what was inserted before it */
    uint64_t returns_to; /* the address was the last byte of a call: where the original's returns to, else 0 */
    uint32_t block;      /* whose copy it is in */
    uint32_t counter;    /* of what was inserted: which it counts with; ID_NONE: not known */
    uint64_t inserted;   /* where that begins, in the copy */
};
struct rewrite_reverse_map;
/* Of the copy that `map` describes, which must stay as long. NULL if it or the original cannot be read (nothing said).
 */
struct rewrite_reverse_map *rewrite_reverse_map_new(const struct rewrite_map *map, const char *copy);
void rewrite_reverse_map_free(struct rewrite_reverse_map *b);
/* False if the address is in no block's copy. */
bool rewrite_reverse_map_find(const struct rewrite_reverse_map *b, uint64_t addr, struct rewrite_place *out);
/* Of an address to which a call in the copy returns: that of the original's call. False if no such call ends there. */
bool rewrite_reverse_map_return(const struct rewrite_reverse_map *b, uint64_t addr, uint64_t *original);

/* ---- returns.c ---- */

struct rewrite_returns; /* opaque; of a map, which must last */
struct rewrite_returns *rewrite_returns_new(const struct rewrite_map *map);
void rewrite_returns_free(struct rewrite_returns *r);
/* The same by the map alone, of any copy; both addresses as in the files. */
bool rewrite_returns_find(const struct rewrite_returns *r, uint64_t address, uint64_t *original);

/* ---- take_back.c: what was seen in copies, as if it had been seen in their originals ---- */

struct rewrite_copies {
    size_t count; /* modules */
    /* Of a module that ran as a copy its map, and *copy the file; NULL of others. */
    const struct rewrite_map *(*map_of)(void *ctx, uint32_t module, const char **copy);
    /* How many samples may stand for what is inserted at a place, at most: for how often it was executed. */
    double (*most_of)(void *ctx, uint32_t module, const struct rewrite_place *at);
    void *ctx;
};
/* In place. Returns how many samples were the counters' own, which are no longer among them. */
uint64_t rewrite_take_back(const struct rewrite_copies *copies, struct observed_sample *samples, size_t sample_count,
                           struct observed_frame *frames, size_t frame_count);

/* ---- solve.c ---- */

/* A place in the copy at which `count` blocks more were left in their middle (by faults) than were entered there. */
struct rewrite_side_exit {
    uint64_t before_counters; /* bytes from its instruction to the module's first counter */
    int64_t count;
    uint64_t regs[16];    /* sums of what registers held there, in the order of their numbers */
    uint64_t vectors[16]; /* of xmm8 to xmm15, two halves each, the lower first */
};
struct rewrite_side_exits {
    const struct rewrite_side_exit *data;
    size_t len;
};

/* Solves the flow equations: from the counters of one module to all block and edge counts (arrays of cfg->blocks.len
 * and cfg->edges.len). Exact: no equation is used at blocks' ends where control may leave for good (calls). Returns the
 * number of equations that do not hold (0 unless counts were lost). enter may be NULL: times each block was entered
 * from outside. */
uint64_t rewrite_counts_solve(const struct rewrite_map *m, const uint64_t *counters, uint64_t *blocks, uint64_t *edges,
                              uint64_t *enter);
/* The same for a run in which blocks were left in their middle. A block's count stays how often it was entered. */
uint64_t rewrite_counts_solve_side_exits(const struct rewrite_map *m, const uint64_t *counters,
                                         struct rewrite_side_exits side_exits, uint64_t *blocks, uint64_t *edges,
                                         uint64_t *enter);

/* A solution that is handed on, so that who comes next need not solve it again. */
struct rewrite_flow {
    uint64_t *blocks, *edges, *enter; /* [cfg->blocks.len], [cfg->edges.len], [cfg->blocks.len], of xmalloc_sparse;
                                         NULL: not solved yet */
    uint64_t broken;                  /* equations that do not hold */
};
void rewrite_flow_solve(const struct rewrite_map *m, const uint64_t *counters, struct rewrite_side_exits side_exits,
                        struct rewrite_flow *out);
void rewrite_flow_free(struct rewrite_flow *f); /* what it points to */
/* Blocks times their instructions. */
uint64_t rewrite_flow_instructions(const struct rewrite_map *m, const struct rewrite_flow *f);

/* ---- side_exits.c ---- */

struct rewrite_unexecuted { /* what of a block was not executed, `count` times: from the instruction that faulted on */
    uint32_t block;
    uint32_t instructions, memory_ops;
    int64_t count;
};
/* Fills out [left.len] and returns how many there are; none if the original is not there any more. */
size_t rewrite_unexecuted_parts(const struct rewrite_map *m, struct rewrite_side_exits side_exits,
                                struct rewrite_unexecuted *out);

/* ---- relocatable/: relocatable objects (.o), rewritten in memory, to be linked as usual ---- */

enum rewrite_relocatable_tool {
    REWRITE_RELOCATABLE_NULL,   /* code moved, nothing inserted */
    REWRITE_RELOCATABLE_COUNTS, /* exact counts of blocks and edges */
    REWRITE_RELOCATABLE_CLOCKS, /* calls of the runtime of ldrt/clocks.c where functions begin and end; all_blocks: of
                                   small ones too */
    REWRITE_RELOCATABLE_CALLS,  /* of calls, for the runtime of ldrt/calls.c too */
    REWRITE_RELOCATABLE_TRACE,  /* what blocks reach, for the runtime of ldrt/trace.c */
    REWRITE_RELOCATABLE_ORDER   /* nothing inserted: instructions of blocks in another order, which `order` says */
};

/* What who orders a block must know of it, and answers. */
enum { REWRITE_ORDER_MAX = 64 };
enum rewrite_order_memory { /* what an address without registers names */
                            REWRITE_ORDER_ANY,
                            REWRITE_ORDER_CONSTANT, /* nobody writes there while the program runs */
                            REWRITE_ORDER_DATA,     /* at `offset` of the object's `section` */
};
struct rewrite_order_insn {
    const uint8_t *bytes;
    uint8_t len;
    uint8_t memory;    /* enum rewrite_order_memory */
    bool is_walled;    /* nothing may pass the place in front of it */
    bool is_relocated; /* its displacement is not what the bytes say */
    uint32_t section;
    int64_t offset;
    uint64_t addr; /* in its section of code */
};
struct rewrite_order_block {
    const struct rewrite_order_insn *insns;
    uint32_t count;        /* at most REWRITE_ORDER_MAX */
    uint8_t flags_live;    /* X86_CF..: those read behind it */
    bool stack_is_private; /* see cfg_frame */
    bool rbp_is_frame;
    bool repeats; /* it may come again behind itself */
};
struct rewrite_order_answer {
    uint8_t at[REWRITE_ORDER_MAX]; /* which comes n-th; it must do the same */
    bool is_new;                   /* else `at` is not looked at */
    float cycles[2], stalls[2];    /* before, and now: only kept */
};
struct rewrite_relocatable_options {
    enum rewrite_relocatable_tool tool;
    bool poison;         /* test only: every block begins with a nop, so that all code really moves, and what is between
                            functions traps */
    bool locked;         /* counters exact in programs with threads, by locked increments */
    bool all_blocks;     /* as in rewrite_options */
    bool clocks_in_line; /* CLOCKS: calls that the runtime does not time go past it. Not in programs with threads */
    void (*order)(void *ctx, const struct rewrite_order_block *b, struct rewrite_order_answer *out);
    void *order_ctx;
};

/* Why a section of code is taken over as it is. */
#define REWRITE_RELOCATABLE_REASONS(X)                                                                                 \
    X(FUNCTION, "holds a function that is not understood")                                                             \
    X(NO_UNWIND, "holds code that no unwind table describes")                                                          \
    X(RELOCATION, "is referred to in a way that is not understood")                                                    \
    X(SYMBOL, "has a symbol where no instruction begins")                                                              \
    X(PIECES, "is joined with pieces of other objects when it is linked")                                              \
    X(FRAMES, "is in an object with unwind tables that cannot be written anew")
enum rewrite_relocatable_reason {
#define X(id, text) REWRITE_RELOCATABLE_##id,
    REWRITE_RELOCATABLE_REASONS(X)
#undef X
        REWRITE_RELOCATABLE_REASON_COUNT
};
extern const char *const rewrite_relocatable_reason_text[REWRITE_RELOCATABLE_REASON_COUNT];

struct rewrite_relocatable_whole { /* a section of code that was taken over as it is */
    char *section;                 /* its name */
    enum rewrite_relocatable_reason why;
    enum cfg_reason func_why; /* with FUNCTION: the function's */
    uint64_t at;              /* where in it */
    uint64_t bytes;
};
struct rewrite_relocatable_stats {
    uint32_t sections, sections_moved; /* of code, not empty */
    uint32_t funcs, funcs_moved;
    uint32_t refused[CFG_REASON_COUNT]; /* functions by reason */
    uint64_t blocks, counters;
    uint64_t runtime_calls;              /* of what is to be linked in */
    uint64_t blocks_ordered;             /* those whose order is new */
    uint64_t code_bytes, code_bytes_new; /* of all sections of code */
    struct rewrite_relocatable_whole *whole;
    size_t whole_count;
    const char *debug_lost; /* why its debug information is left out; NULL: it is not */
    bool debug_is_split;    /* else: of that what is in another file is */
};
/* From the SIZE bytes of an x86-64 relocatable object (ET_REL) to those of its rewritten one, appended to OUT, which is
 * empty. NAME is only for messages and the map. What is not understood is taken over as it is, section by section, and
 * listed in STATS (may be NULL); if that is all, OUT has the object's own bytes. Counters are in sections named
 * mtool_counters (8 bytes each, no bytes in the file), so that a linker defines __start_mtool_counters and
 * __stop_mtool_counters; what they mean in sections named .debug_mtool. 0, or -1 after one line (no object, cut off,
 * corrupt). */
#define REWRITE_RELOCATABLE_COUNTERS "mtool_counters"
#define REWRITE_RELOCATABLE_MAP ".debug_mtool"
/* As text, for keys: two that rewrite alike have the same, unless one orders blocks. */
void rewrite_relocatable_options_put(const struct rewrite_relocatable_options *opt, struct strbuf *out);
int rewrite_relocatable(const char *name, const uint8_t *bytes, size_t size,
                        const struct rewrite_relocatable_options *opt, struct strbuf *out,
                        struct rewrite_relocatable_stats *stats);
void rewrite_relocatable_stats_free(struct rewrite_relocatable_stats *stats);

/* ---- trace_plan.c: what code of REWRITE_RELOCATABLE_TRACE writes of a block, for its reader ---- */

enum { REWRITE_TRACE_WORDS_MAX = 96, REWRITE_TRACE_ACCESSES_MAX = 4 * 48, REWRITE_TRACE_FIRST_LATE = 128 };
enum { REWRITE_TRACE_NO_WORD = -1 };
enum rewrite_trace_tells {
    REWRITE_TRACE_REGISTERS, /* base + index * scale */
    REWRITE_TRACE_MASK,      /* which elements a gather, a scatter or a vector with a mask reaches, a bit each */
    REWRITE_TRACE_INDICES,   /* the part-th 8 bytes of a gather's or scatter's vector of indices */
};
struct rewrite_trace_word {     /* as registers are in front of an instruction, or behind it */
    uint8_t base, index, scale; /* X86_REG_NONE: none */
    uint8_t insn;
    bool is_behind;
    uint8_t tells; /* enum rewrite_trace_tells */
    uint8_t part;
};
struct rewrite_trace_access {
    struct x86_access access;
    uint8_t insn;
    int16_t word; /* its address is access.disp and `plus` more than that; NO_WORD: access.disp; of segment fs, more
                     than its base. From FIRST_LATE on: late ones */
    int64_t plus;
    int16_t count_word; /* of a string instruction that repeats: so many times, and count_plus; else NO_WORD */
    int64_t count_plus;
    bool has_rest; /* but so many times less as rest_word says */
    int16_t rest_word;
    bool is_reach;      /* x86_detail.reach says where, with these words, or NO_WORD: */
    int16_t mask_word;  /* the mask; or of a bit or a table its number, and number_plus more */
    int16_t index_word; /* the first of them */
    int64_t number_plus;
};
struct rewrite_trace_plan {
    struct rewrite_trace_word entry[REWRITE_TRACE_WORDS_MAX]; /* written where the part begins */
    struct rewrite_trace_word late[REWRITE_TRACE_WORDS_MAX];
    struct rewrite_trace_access accesses[REWRITE_TRACE_ACCESSES_MAX]; /* as they are made */
    unsigned entry_count, late_count, access_count;
    unsigned untold; /* instructions whose operands do not say where they reach */
};
/* Of the part of a block that begins at instruction `first`. Returns where the next one begins. */
unsigned rewrite_trace_plan(const struct x86_detail *insns, unsigned first, unsigned count,
                            struct rewrite_trace_plan *out);
bool rewrite_trace_ends_part(const struct x86_insn *i); /* another one begins behind it */

/* What a linked file says of the order of its code (the section .debug_mtool_order). */
#define REWRITE_RELOCATABLE_ORDER_RECORD ".debug_mtool_order"
struct rewrite_ordered_block {
    uint32_t offset; /* from its function's address */
    uint32_t insns;
    unsigned depth; /* of loops around it */
    bool is_new;
    float cycles[2], stalls[2]; /* before, and now */
};
struct rewrite_ordered_func {
    uint64_t vaddr;
    const char *object;
    size_t first, count; /* blocks, all that the function has */
};
struct rewrite_ordered {
    struct arena *arena;
    VEC(struct rewrite_ordered_func) funcs; /* none: nothing in it was ordered */
    VEC(struct rewrite_ordered_block) blocks;
};
int rewrite_ordered_open(const char *path, struct rewrite_ordered **out); /* 0, or -1 after one line */
void rewrite_ordered_close(struct rewrite_ordered *o);                    /* NULL: nothing */

/* What a linked file says of the counters that rewritten objects brought into it. */
struct rewrite_relocatable_func {
    uint64_t vaddr;       /* in the linked file, the same as its symbol's; 0: it was left out */
    uint32_t first_block; /* bytes from there to the copy of its first block */
    uint32_t bytes;       /* from there to its end */
};
struct rewrite_relocatable_unit { /* what was linked in, or left out, together: of one object, or one of its groups */
    struct rewrite_map *map;      /* of the object: its addresses are no addresses of the linked file */
    const char *name;             /* of the object; in the map */
    uint64_t counters_vaddr;      /* in the linked file; map->counter_count words */
    struct rewrite_relocatable_func *funcs; /* [map->cfg->funcs.len] */
};
struct rewrite_relocatable_linked {
    struct rewrite_relocatable_unit *units;
    size_t unit_count;
    uint64_t counters_lo, counters_hi; /* the section mtool_counters of the linked file; both 0: there is none */
};
/* Of a linked executable or shared object. 0, or -1 after one line; no units if nothing in it was counted. With the
 * words from a unit's counters_vaddr on, rewrite_counts_solve(unit->map, ...) gives the counts. A block's address in
 * the linked file: funcs[func].vaddr + .first_block + map->block_addr_new[block] - map->block_addr_new[the first of
 * func]. */
int rewrite_relocatable_linked_open(const char *path, struct rewrite_relocatable_linked **out);
void rewrite_relocatable_linked_close(struct rewrite_relocatable_linked *l); /* NULL: nothing */

#endif
