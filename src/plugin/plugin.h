/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin: what runs inside the emulator. It cuts translated code into segments, counts them by additions in line,
 * attributes them to functions and processes of the guest, and hands references to the caches and the pipeline of a
 * described machine. It reads its settings and writes its result as text (wire/monster.h, doc/monster.md).
 *
 *   settings.c  what mtool wants            ram.c      the guest's memory, which this process maps
 *   places.c    an address into a function  system.c   the guest's processes and exceptions
 *   segments.c  translated code into cells  spots.c    cells into counts and stalls by address
 *   model.c     the machine and its stalls  fetches.c  segments into fetches
 *   accesses.c  loads and stores            tlb.c      pages, and the machine's TLB
 *   filter.h    lines that caches need not  float.c    long operations into interlocks
 *               hear of
 *   result.c    the result as text          plugin.c   the phases: waiting, counting, done
 *   calls.c     who calls whom              placed.c   the kernel's functions at other addresses
 *   pages.c     what of pages is used, and  maps.c     mappings of pages
 *               marks of that               maps.h     what they need not hear of
 *   variables.c the kernel's: their use, other addresses
 */
#ifndef MTOOL_PLUGIN_PLUGIN_H
#define MTOOL_PLUGIN_PLUGIN_H

#include "base/base.h"
#include "cache/cache.h"
#include "mix/mix.h"
#include "plugin/qemu.h"
#include "wire/monster.h"

enum { PAGE_SHIFT = 12 }; /* of the guest's pages */

/* ---- settings.c ---- */

struct settings {                 /* texts live as long as the process */
    const char *output, *streams; /* file of the result; folder of the streams' files */
    const char *symbols, *modules;
    const char *placed;                    /* list of the kernel's functions in the order of a placement; NULL: none */
    const char *placed_data;               /* likewise of its variables */
    const char *maps;                      /* policies, with commas; NULL: none */
    const char *marks;                     /* file of marks of pages, of an earlier run; NULL: none */
    const char *machine;                   /* NULL: count only */
    VEC(const char *) programs;            /* files of state machines */
    uint64_t ram_bytes, region;            /* the guest's memory; where in it the region is */
    uint64_t task_pid, task_comm, task_mm; /* offsets in struct task_struct */
    bool is_virtual;                       /* caches are reached by virtual addresses */
    bool user_only, kernel_only;           /* whose references reach the caches */
    bool calls;                            /* who calls whom is counted too */
    bool variables;                        /* and how the kernel's variables are reached */
};
extern struct settings settings;
int settings_read(const char *path); /* -1 after one line */

/* ---- ram.c ---- */

int ram_find(void); /* -1 after one line */
#define RAM_NOWHERE UINT64_MAX
uint64_t ram_address_of(const void *host); /* physical; RAM_NOWHERE: it is none of the guest's memory */
/* `len` bytes of it, or NULL. */
const void *ram_at(uint64_t physical, size_t len);
void *ram_region(void);
/* Of the kernel's own mappings: its image and the direct one; RAM_NOWHERE of others. */
uint64_t ram_address_of_kernel(uint64_t vaddr);

/* ---- places.c ---- */

struct row { /* of a function */
    uint64_t of[WIRE_COLUMN_COUNT];
    uint32_t id;      /* 0: code of no known function */
    uint32_t written; /* which line of the result it is, from 0 on, once places_write is done */
    uint64_t bytes;   /* of its code, to the next function; 0: unknown */
    bool is_called;   /* it is written even if nothing of it was executed */
};
int places_read(void);    /* -1 after one line */
void places_forget(void); /* another translation: pages may hold something else */
/* Of the code that is executed at `vaddr` and stands at `host`; *function: where it begins, as executed. */
struct row *places_row(uint64_t vaddr, const void *host, uint64_t *function);
/* Of the function at `target`, a branch of the code that places_row was asked for last. NULL: none is known. */
struct row *places_target(uint64_t target, bool *is_begin);
uint64_t places_kernel_symbol(const char *name); /* 0: there is none */
/* Of a kernel's function, also one whose name goes on with ".isra.0" and its like; 0: none. */
uint64_t places_kernel_function(const char *name);
/* The i-th function, the kernel's first; of user code the range is empty. */
bool places_function(void *none, size_t i, const char **name, uint64_t *first, uint64_t *last);
/* The i-th symbol that is no function; false: there are no more. */
bool places_datum(size_t i, const char **name, uint64_t *address);
const char *places_name(void); /* of the function that places_row found last; "" unknown */
/* Of the code that places_row was asked for last: which file it is of, from 1 on, and its address there. 0: of none. */
uint32_t places_file(uint64_t vaddr, uint64_t *in_file);
/* The path of that file, and what tells it from others of that path; NULL: there is none of that number. */
const char *places_file_path(uint32_t file, const char **key);
void places_write(FILE *f);

/* ---- segments.c ---- */

enum { SEGMENT_ALIGNMENT = 64 };
struct slow;     /* float.c */
struct segment { /* instructions of which all are executed or none, but for the last, which may fault. Four lines of
                    this processor's caches: what most executions need is in the first one, what misses need in the next
                  */
    _Alignas(SEGMENT_ALIGNMENT) uint64_t runs; /* in line, or by the model */
    const uint64_t *blocks[2];                 /* of the filter of code: where its lines are */
    uint64_t stamp;                            /* their sum when all lines were there */
    uint64_t vaddr, physical;                  /* of the first byte */
    uint32_t slow_count;
    uint16_t bytes, instructions, operations;
    bool is_kernel, may_fault, is_fetched; /* is_fetched: its lines reach the caches */
    bool may_be_quick;                     /* nothing but its lines is asked for when it runs */
    bool is_stamped;                       /* its lines are all in `blocks`, each in a set of its own */
    uint8_t last_operations;
    uint64_t joined; /* bit k: who first reaches its line k - 1 reaches into line k too */
    struct row *row;
    uint64_t stalls[2][WIRE_STALL_COUNT]; /* cycles that its first instruction waited, and its last */
    uint64_t placed;                      /* physical, if the kernel's functions were placed */
    uint64_t maps_stamp;                  /* as stamp, of all mappings, and 1; 0: unknown */
    const uint64_t *maps_blocks[2];       /* what that is the sum of, and 1 */
    const uint64_t *maps_owner;           /* whose its page's frame is; NULL: nobody's */
    struct row *callee;                   /* whom its last instruction calls, or jumps to; NULL: nobody, or it varies */
    uint64_t restarts;
    uint32_t before;  /* in the same place by hash of its last address, the segment made before; an index + 1 */
    uint32_t file;    /* as places_file has it, */
    uint64_t in_file; /* and the address of its first byte there */
    struct slow *slow;
    uint8_t mix[WIRE_MIX_COUNT], last_mix[WIRE_MIX_COUNT];
    uint16_t last_at; /* bytes before its last instruction */
};
static inline uint64_t segment_last(const struct segment *s) { return s->vaddr + s->last_at; }
struct site {                          /* an instruction that reaches memory, the last of its segment */
    qemu_plugin_meminfo_t load, store; /* what the emulator said of it; all ones: nothing so far */
    uint16_t load_bytes, store_bytes;
    bool is_kernel, is_left_out, is_modify;
    uint64_t done[2]; /* loads, stores */
    struct segment *segment;
};
void segments_translate(struct qemu_plugin_tb *tb);
/* The instruction at this address faulted: it was begun, and will be again. */
void segments_restart(uint64_t vaddr);
void segments_sum(void);                     /* adds what was counted to the rows, once */
const struct segment *segments_at(size_t i); /* in the order of their making; NULL: there are no more */

struct totals { /* of a mode; in line. `restarts` between the two, so that the compiler adds to them one by one, which
                   is faster here than as a vector */
    uint64_t instructions, restarts, operations;
    uint64_t stalls[WIRE_STALL_COUNT];
};
extern struct totals totals[2]; /* user, kernel */

/* ---- plugin.c ---- */

extern bool plugin_is_counting;                                 /* between the markers */
void plugin_mark(struct qemu_plugin_insn *insn, uint16_t mark); /* what that marker says will be done */

/* ---- model.c ---- */

extern bool model_is_wanted;
extern struct machine *model_machine;
int model_make(void);                  /* in place of what an earlier call made; -1 after one line */
bool model_leaves_out(bool is_kernel); /* references of that mode reach no cache */
/* The first instruction, the last one, and from SPOT_SLOW on those of `slow`. */
enum { SPOT_FIRST, SPOT_LAST, SPOT_SLOW };
/* `at`: which of its instructions waits. */
void model_stall(struct segment *s, enum wire_column cause, unsigned at, double cycles);
void model_write(FILE *f);

/* ---- fetches.c ---- */

/* An instruction more is in the segment, `at` bytes behind its begin. */
void fetches_append(struct segment *s, unsigned at, size_t len);
bool fetches_have_room(const struct segment *s, size_t len); /* for an instruction of so many bytes more */
void fetches_finish(struct segment *s);                      /* it has all its instructions */
void fetches_run(unsigned vcpu, void *segment);
void fetches_run_and_count(unsigned vcpu, void *segment);
/* Of the segment that was executed last: whether the fetch of those bytes missed. */
bool fetches_missed(const struct segment *s, unsigned at, size_t len);

/* ---- accesses.c ---- */

extern bool accesses_missed_data, accesses_missed_tlb; /* what the last access did */
/* What accesses of an instruction call that loads, stores or does both, as far as is known. */
qemu_plugin_vcpu_mem_cb_t accesses_call(bool is_kernel, bool loads, bool stores);

/* ---- tlb.c ---- */

void tlb_forget_pages(unsigned vcpu, void *none); /* addresses may be mapped anew */
void tlb_forget_space(void);                      /* system_space is another */

/* ---- spots.c ---- */

void spots_end(void); /* what is executed from here on counts no more */
void spots_write(FILE *f);

/* ---- maps.c ---- */

extern bool maps_are_wanted;
int maps_make(const struct cache_config *config); /* in place of what an earlier call made; -1 after one line */
/* Of references of that mode there may be some that no mapping need hear of, which maps.h tells. */
bool maps_are_quick(bool is_kernel);
bool maps_finish(struct segment *s); /* it has all its instructions; whether maps_have may be asked of it */
void maps_note(uint64_t vaddr, uint64_t physical);
void maps_fetch(struct segment *s);
void maps_reach(uint64_t physical, unsigned bytes, enum cache_kind kind, bool is_kernel);
void maps_write(FILE *f);

/* ---- pages.c ---- */

enum { PAGE_POLICIES_MAX = 32 };
enum { PAGE_DATA, PAGE_CODE, PAGE_SIDES };
struct page_mark { /* of a page of a program, or a frame of the kernel */
    uint64_t address;
    bool is_kernel;
    uint32_t number[PAGE_SIDES]; /* in the order of use, from 1 on; 0: that side does not use it */
    uint8_t shade[PAGE_SIDES][WIRE_PAGE_PARTS];
};
int pages_make(void);                              /* in place of what an earlier call made; -1 after one line */
const struct page_mark *pages_mark(uint64_t page); /* of programs; NULL: none */
const struct page_mark *pages_mark_at(size_t i);   /* of all; NULL: there are no more */
void pages_own(uint64_t frame, uint64_t page);     /* of the program that runs, from here on */
void pages_bin(uint64_t frame, unsigned policy, uint32_t bin);
void pages_end(void); /* what is used from here on counts no more */
void pages_write(FILE *f, unsigned policies, uint32_t (*bin_of_kernel)(uint64_t frame, unsigned policy));

/* ---- placed.c ---- */

int placed_read(void); /* behind places_read; -1 after one line */
/* The physical address that the code at `vaddr` would have; `physical`, where it has. */
uint64_t placed_address(uint64_t vaddr, uint64_t physical);

/* ---- variables.c ---- */

extern bool variables_are_wanted, variables_are_placed;
int variables_read(void); /* behind places_read; -1 after one line */
/* The address that a byte of the kernel's data would have; `physical`, where it has. */
uint64_t variables_address(uint64_t physical);
bool variables_hold(uint64_t physical); /* it is of the kernel's image */
void variables_use(uint64_t physical, bool missed);
void variables_write(FILE *f);

/* ---- float.c ---- */

/* What of a segment's instructions an in-order pipeline may have to wait for, in an array of the segment's.
 * `operation`: how many operations of the segment come before it. */
void float_describe(struct segment *s, const uint8_t *bytes, size_t len, unsigned operation);
void float_run(struct segment *s, double now);
uint64_t float_address(const struct segment *s, unsigned i); /* of the i-th, in the file */
uint64_t *float_stall(const struct segment *s, unsigned i);  /* cycles that it waited */

/* ---- system.c ---- */

uint32_t system_program(void); /* that runs, by the name of its process; from 0 on */
const char *system_program_name(uint32_t program);
extern uint64_t system_space; /* of addresses: one of the guest's struct mm_struct */
void system_find(void);       /* what it needs of the symbols */
void system_begin(void);
void system_end(void);
/* Hooks of an instruction: function entries, exceptions. `stores`: it does. */
void system_hook(struct qemu_plugin_insn *insn, uint64_t vaddr, uint64_t function, bool stores);
const char *system_missing(void); /* what could not be found, or NULL */
void system_write(FILE *f);

/* ---- calls.c: the weighted call graph ---- */

/* An instruction is in the segment, its last so far; `function`: where that begins, as executed. */
void calls_instruction(struct qemu_plugin_insn *insn, const struct mix_insn *i, struct segment *s, uint64_t function);
void calls_add(struct row *caller, struct row *callee, uint64_t times);
void calls_write(FILE *f); /* behind places_write */

/* ---- watch.c: state machines ---- */

extern bool watch_is_wanted;
int watch_read(void); /* -1 after one line */
/* The k-th instruction of a segment: what watches it waits until watch_register, when the segment is whole. */
void watch_instruction(struct qemu_plugin_insn *insn, const struct mix_insn *i, struct segment *s, const uint8_t *bytes,
                       size_t len, uint64_t function);
void watch_register(void);
void watch_process(uint64_t pid, const char *name);
void watch_end(void);
void watch_write(FILE *f);

/* ---- result.c ---- */

void result_write(void);

#endif
