/* SPDX-License-Identifier: Apache-2.0
 *
 * monster: a command, run in the guest under the emulator with the plugin, into one result, and the result into text,
 * JSON and the figures of the paper (Nagle, Uhlig and Mudge, Monster, 1992). doc/monster.md says what each means.
 */
#ifndef MTOOL_MONSTER_MONSTER_H
#define MTOOL_MONSTER_MONSTER_H

#include "base/base.h"
#include "wire/monster.h"

enum monster_mode { MONSTER_USER, MONSTER_KERNEL, MONSTER_MODE_COUNT };
const char *monster_mode_name(enum monster_mode m); /* "user", "kernel" */

/* ---- result.c ---- */

struct monster_totals {
    uint64_t instructions, operations;
    uint64_t stalls[WIRE_STALL_COUNT]; /* cycles */
};
struct monster_function {
    bool is_kernel;
    uint64_t address; /* the kernel's as executed, others' as in the file; 0: code of no known function */
    const char *module, *name;
    uint64_t of[WIRE_COLUMN_COUNT];
};
struct monster_process {
    uint64_t pid;
    const char *name;
    struct monster_totals of[MONSTER_MODE_COUNT];
};
struct monster_counter { /* of a state machine */
    const char *name;
    bool is_timer;
    uint64_t value; /* of a timer instructions */
    uint64_t intervals, least, most;
    double cycles; /* 0 without a machine */
};
struct monster_entry { /* of a trace */
    uint64_t instructions, pc, pid, address;
    const char *state, *pattern;
    char kind; /* letters of wire/kinds.def; 0: a file of an older mtool does not tell, nor the next two */
    uint64_t reached;
    unsigned bytes;
};
struct monster_program {
    const char *name;
    VEC(struct monster_counter) counters;
    VEC(struct monster_entry) trace;
    uint64_t trace_lost;
};
struct monster_map { /* a policy of mapping pages, and the misses of the nearest caches with it */
    const char *name;
    uint64_t misses[MONSTER_MODE_COUNT][3]; /* fetches by lines, reads, writes */
    uint64_t bins;
};
enum { MONSTER_DATA, MONSTER_CODE, MONSTER_SIDES };
extern const char *const monster_side_names[MONSTER_SIDES]; /* "data", "code" */
struct monster_page { /* of a program, by the name of its processes, or a frame of the kernel's own: "kernel" */
    const char *program;
    uint64_t address;
    uint64_t of[MONSTER_SIDES][WIRE_PAGE_PARTS]; /* references; of code instructions */
    uint32_t number[MONSTER_SIDES];              /* of its program's pages in the order of use, from 1 on; 0: unused */
    uint8_t shade[MONSTER_SIDES][WIRE_PAGE_PARTS];
    const uint32_t *bins; /* by policy, in the order of maps */
};
struct monster_variable {                  /* of the kernel */
    uint64_t address, bytes, uses, misses; /* misses: of the nearest caches */
    const char *name;
};
struct monster_follow { /* of the variables: how often the one was reached next after the other */
    uint32_t from, to;
    uint64_t count;
};
struct monster_call {        /* of one function by another, or a jump to its begin */
    uint32_t caller, callee; /* of the functions */
    uint64_t count;
};
struct monster_executed { /* a stretch of code, from instruction to instruction */
    uint64_t address, bytes, count;
};
struct monster_stalled { /* an instruction, and what it waited */
    uint64_t address;
    uint64_t stalls[WIRE_STALL_COUNT]; /* cycles */
};
struct monster_code { /* of user code, with a machine: what was executed where in a file; by address */
    const char *path;
    const char *key; /* image.key of the file that ran */
    VEC(struct monster_executed) executed;
    VEC(struct monster_stalled) stalled;
};
struct monster_result {
    struct arena *arena;
    const char *path, *command, *kernel, *version; /* of the guest's kernel; of mtool */
    const char *machine, *caches;                  /* NULL: counted only */
    VEC(const char *) levels;                      /* names; of those nearest to each side both */
    int level_of[2][WIRE_LEVELS_MAX];              /* data, code: which misses are levels[i]'s; -1: none */
    uint64_t code_cache;                           /* bytes of the nearest one of instructions; 0: unknown */
    double width, ghz;
    unsigned shift;    /* an instruction takes 1 << shift ns of the guest's clock */
    uint64_t clock_ns; /* of that, from begin to end */
    bool has_disk;
    double disk_ms, disk_mb_s;
    enum wire_end end;
    uint64_t status;
    struct monster_totals total[MONSTER_MODE_COUNT];
    VEC(struct monster_process) processes;
    VEC(struct monster_function) functions;
    VEC(struct monster_program) programs;
    VEC(struct monster_map) maps;
    VEC(struct monster_page) pages;
    bool has_calls; /* they were counted */
    VEC(struct monster_call) calls;
    bool has_variables; /* they were counted */
    VEC(struct monster_variable) variables;
    VEC(struct monster_follow) follows;
    uint64_t data_cache; /* as code_cache */
    VEC(struct monster_code) codes;
};
/* Of a file. NULL after one line: it is not there, no result of ours, not whole. */
struct monster_result *monster_read(const char *path);
/* Of memory; `name` stands for it in messages. */
struct monster_result *monster_parse(const char *name, const char *text, size_t len);
void monster_free(struct monster_result *r);

/* ---- sums.c ---- */

enum monster_region {
#define REGION(id, name, label, patterns) MONSTER_##id,
#include "monster/regions.def"
#undef REGION
    MONSTER_REGION_COUNT
};
extern const char *const monster_region_names[MONSTER_REGION_COUNT];     /* "idle", "block_copy", ... in JSON */
extern const char *const monster_region_labels[MONSTER_REGION_COUNT];    /* "idle", "block copy" */
enum monster_region monster_region_of(const struct monster_function *f); /* of the kernel's; user code has no region */

struct monster_sum {
    uint64_t of[WIRE_COLUMN_COUNT];
    double cycles; /* NAN without a machine */
};
struct monster_sums {
    struct monster_sum mode[MONSTER_MODE_COUNT]; /* the kernel's with its idle loop */
    struct monster_sum region[MONSTER_REGION_COUNT];
    struct monster_sum kernel_busy; /* without the idle loop */
    double idle_ns;                 /* the processor halted */
    double idle_cycles;             /* halted and in the idle loop, as the machine's cycles; NAN */
};
struct monster_sums monster_sum_up(const struct monster_result *r);
double monster_cycles(const struct monster_result *r, const uint64_t of[WIRE_COLUMN_COUNT]); /* NAN: no machine */
/* Cycles for an operation; NAN if there are none. */
double monster_cpi(const struct monster_sum *s);
uint64_t monster_stalls(const uint64_t of[WIRE_COLUMN_COUNT]);

/* ---- text.c, json.c, figures.c ---- */

typedef const char *(*monster_name_fn)(struct arena *a, const char *function);
/* `shown`: a function's name as it is shown. */
void monster_put_text(const struct monster_result *r, size_t top, monster_name_fn shown, struct strbuf *out);
void monster_put_json(const struct monster_result *r, struct strbuf *out);
/* A figure of the paper, "4" to "10", "13", or "table1", of results beside each other. 0, or -1 after one line: no such
 * figure, or the results lack what it needs. */
int monster_put_figure(const char *which, struct monster_result *const *r, size_t count, struct strbuf *out);

/* ---- profile.c ---- */

/* As a result of mtool's other jobs, which store and report know; seconds are the described machine's. NULL after one
 * line: it was run without a machine. */
struct prof_result;
struct prof_result *monster_profile(const struct monster_result *r);

/* ---- pages.c ---- */

void monster_mark_pages(struct monster_result *r); /* fills numbers and shades */
uint64_t monster_page_uses(const struct monster_page *p, unsigned side);
/* As results have them: a digit for each part. */
void monster_page_shades(const struct monster_page *p, unsigned side, char out[WIRE_PAGE_PARTS + 1]);
/* What uses that bin with a policy, most first; room for all pages is the caller's. Returns how many. */
size_t monster_pages_in(const struct monster_result *r, size_t policy, uint64_t bin, unsigned side,
                        struct monster_page **out);
/* As the plugin reads them. */
void monster_put_marks(const struct monster_result *r, struct strbuf *out);
/* Figure 13, of each policy. */
void monster_put_pages(const struct monster_result *r, struct strbuf *out);

/* ---- order.c ---- */

/* Of functions of `path` ("kernel", or as their module), by the weighted call graph: out[i] is which of the functions
 * comes i-th. Returns how many; room for all functions is the caller's. */
size_t monster_order(const struct monster_result *r, const char *path, uint32_t *out);
/* Of the kernel's variables, by which is reached after which. Likewise. */
size_t monster_order_variables(const struct monster_result *r, uint32_t *out);
enum monster_linker { MONSTER_LLD, MONSTER_GOLD, MONSTER_BFD };
/* As a file for that linker, of the functions of a program: its path or name, or "kernel". 0, or -1 after one line: no
 * calls were counted, there is no such program, it has no symbols. */
int monster_put_order(const struct monster_result *r, const char *program, enum monster_linker linker,
                      struct strbuf *out);

/* ---- references.c ---- */

/* What the trace of a state machine has, as lines of valgrind's lackey. 0, or -1 after one line: there is no such
 * machine, or its trace has no references. */
int monster_put_references(const struct monster_result *r, const char *program, struct strbuf *out);

/* ---- run.c ---- */

struct monster_options {
    const char *const *argv; /* ends in NULL */
    const char *const *files;
    size_t file_count;
    const char *machine;         /* a description's file, a shipped one's name, or NULL: count only */
    const char *const *programs; /* of state machines: files, or names of those that are built in */
    size_t program_count;
    const char *maps;   /* policies of mapping pages, with commas; NULL: none */
    const char *marks;  /* result whose pages mark those of this run, for policies shade and number; NULL: none */
    const char *place;  /* result whose calls place the kernel's functions, of policies with +place; NULL: none */
    bool analyser;      /* with the limits of 1992 */
    uint64_t memory_mb; /* 0: as much as the files need, and 512 */
    double limit_s;     /* 0: 600 */
    bool is_virtual, user_only, kernel_only;
    bool calls;                                   /* who calls whom is counted too */
    bool variables;                               /* and how the kernel's variables are reached */
    bool has_disk;                                /* all files are on it, and it is cold */
    double disk_ms /* of a request */, disk_mb_s; /* 0: at once */
};
/* What it wrote to its standard output and error is passed on. *result: the text of the result, the caller's. 0, or
 * after one line -1: the command or an option cannot be used; -2: the guest failed. */
int monster_run(const struct monster_options *o, struct strbuf *result);

#endif
