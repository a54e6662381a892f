/* SPDX-License-Identifier: Apache-2.0
 *
 * cfg: a module's functions, basic blocks, edges, jump tables and natural loops, as flat arrays with 32-bit ids.
 * Functions come from .eh_frame FDEs (then symbols name them), and from what is certain to be code beside them; a
 * function is swept linearly. Any doubt refuses the function (status says why); nothing is guessed.
 */
#ifndef MTOOL_CFG_H
#define MTOOL_CFG_H

#include "base/base.h"
#include "image/image.h"
#include "x86/x86.h"

/* Why a function was left alone. Order is part of the saved form. */
#define CFG_REASONS(X)                                                                                                 \
    X(OK, "")                                                                                                          \
    X(UNDECODABLE, "bytes that are no instruction")                                                                    \
    X(SPLIT_INSN, "a branch into the middle of an instruction")                                                        \
    X(OVERLAP, "overlaps another function")                                                                            \
    X(SIGNAL_FRAME, "signal return trampoline")                                                                        \
    X(TABLE, "an indirect jump inside the function that was not resolved")                                             \
    X(RUNS_OFF, "control runs past the end of the function")                                                           \
    X(GS, "uses the gs segment register")                                                                              \
    X(UNWIND, "unwind tables that cannot be moved")                                                                    \
    X(TOO_SMALL, "too small for an entry jump")                                                                        \
    X(LANDING, "a jump lands inside the bytes of its entry jump")                                                      \
    X(SHORT_BRANCH, "a short-reach branch that cannot be moved")                                                       \
    X(STARTUP, "start-up code that must stay in place")                                                                \
    X(FAR, "out of reach of a 32-bit displacement")                                                                    \
    X(GETPC, "reads its own address by a call")                                                                        \
    X(RETURN, "a return address is computed with")                                                                     \
    X(TEXT_RELOC, "its code is changed by the dynamic linker")                                                         \
    X(SECTION, "in one section with code that must stay as it is")                                                     \
    X(FLAGS, "takes flags from its caller, which nobody knows")                                                        \
    X(OWN_CODE, "code that the program itself copies and looks up by address")
enum cfg_reason {
#define X(id, text) CFG_REASON_##id,
    CFG_REASONS(X)
#undef X
        CFG_REASON_COUNT
};
extern const char *const cfg_reason_text[CFG_REASON_COUNT];

struct cfg_func {
    uint64_t addr;
    uint32_t size; /* bytes */
    uint32_t fde;  /* index into unwind.fdes; ID_NONE: found by other means (PLT stubs, gaps.c) */
    uint32_t insn_first, insn_count, block_first, block_count; /* contiguous, in address order */
    uint32_t loop_first, loop_count;
    uint16_t reason;    /* enum cfg_reason; OK: may be rewritten */
    uint8_t unresolved; /* has an indirect jump that may go anywhere (a tail call, as far as we can tell): its original
                           body may run */
    uint8_t is_plt;     /* one PLT stub */
    uint32_t pad;
};

enum cfg_block_flag {
    CFG_BLOCK_ENTRY = 1,        /* function entry: entered by calls */
    CFG_BLOCK_RETURN_POINT = 2, /* follows a call */
    CFG_BLOCK_LANDING_PAD = 4,  /* entered by the unwinder */
    CFG_BLOCK_ADDR_TAKEN = 8, /* its address is in data (other than tables in `tables`), a symbol or a lea/mov, or code
                                 that is left alone jumps to it: may be entered by a jump we do not see */
    CFG_BLOCK_LOOP_HEADER = 16,
    CFG_BLOCK_CALLED = 32,   /* a direct call goes to it although it is no function entry */
    CFG_BLOCK_NORETURN = 64, /* ends in a call of a function that does not return: no RETURN edge (the next block keeps
                                RETURN_POINT: believe counts, not this) */
    CFG_BLOCK_SYSCALL = 128, /* set by the rewriter: has a system call inside, which need not come back (exit) */
};
#define CFG_BLOCK_EXT_IN                                                                                               \
    (CFG_BLOCK_ENTRY | CFG_BLOCK_RETURN_POINT | CFG_BLOCK_LANDING_PAD | CFG_BLOCK_ADDR_TAKEN | CFG_BLOCK_CALLED)

#define CFG_BLOCK_INSNS_MAX 48 /* straight code goes on in another block */

struct cfg_block { /* 48 bytes: a large program has millions */
    uint64_t addr;
    uint64_t
        call_target; /* direct call that ends the block, or direct tail jump out of the module's known blocks; else 0 */
    uint32_t func;
    uint32_t insn_first;
    uint32_t edge_first, edge_count; /* outgoing, contiguous */
    uint32_t loop;                   /* innermost loop, ID_NONE */
    uint16_t size;                   /* bytes */
    uint16_t insn_count;
    uint16_t mem_ops; /* explicit and stack accesses, loads + stores; a rep counts once */
    uint16_t flags;   /* CFG_BLOCK_* */
    uint8_t term;     /* enum x86_kind of the last instruction; X86_PLAIN: falls through */
    uint8_t pad[3];
};

enum cfg_edge_kind {
    CFG_EDGE_FALL,   /* to the next block: after a plain instruction or a branch not taken, or where a long block is cut
                      */
    CFG_EDGE_TAKEN,  /* direct branch */
    CFG_EDGE_TABLE,  /* by a jump table; one edge for each distinct target */
    CFG_EDGE_RETURN, /* from a block that ends in a call (or syscall... no: calls only) to its return point; not
                        conserved: the call may not return */
    CFG_EDGE_TAIL,   /* direct jump to another function's entry */
    CFG_EDGE_OUT,    /* leaves the known blocks: ret, indirect call/jump, trap, branch into a refused function; to is
                        ID_NONE */
    CFG_EDGE_KIND_COUNT
};
struct cfg_edge {
    uint32_t from, to; /* block ids; to ID_NONE: outside */
    uint8_t kind;
    uint8_t pad[3];
};

enum cfg_table_kind {
    CFG_TABLE_PIC32, /* int32 entries relative to the table: gcc and clang -fPIC */
    CFG_TABLE_ABS64, /* 64-bit absolute entries in an ET_EXEC, or with relative relocations in PIE */
    CFG_TABLE_KIND_COUNT
};
struct cfg_table {    /* one jump table (or table of labels) used by one indirect jump */
    uint64_t addr;    /* first entry */
    uint64_t base;    /* PIC32: what the entries are relative to: addr, or a label in the code, whose address
                         is then added by instructions of their own: base_refs */
    uint32_t entries; /* superset: all valid ones; never cut by a guessed bound. An entry may lead to no block (into a
                         function left alone; LLVM: the end of the function, for impossible cases): keep its address */
    uint32_t block;   /* whose last instruction jumps through it */
    uint32_t ref_first, ref_count; /* into table_refs: instructions that hold the table's address (lea, disp32, imm),
                                        or an address inside it (a load with a constant index): keep the difference */
    uint32_t base_ref_first, base_ref_count; /* into table_refs: lea or add-immediate that hold a base that is a label
                                                (it is a mid_target): the entries must be relative to what these say */
    uint8_t kind, entry_bytes;
    uint8_t by_reloc; /* entries carry relative relocations: edit those, the table stays where it is */
    uint8_t pad;
    uint32_t pad2;
};

struct cfg_loop { /* natural loop; several back edges to one header are one loop. Irreducible cycles are no loops. */
    uint32_t func, header;               /* block id */
    uint32_t parent;                     /* enclosing loop or ID_NONE */
    uint32_t depth;                      /* 1 outermost */
    uint32_t member_first, member_count; /* into loop_members: block ids incl. those of inner loops, ascending */
};

struct cfg_insn { /* 12 bytes; one for each decoded instruction. Read it with cfg_insn and its kin */
    uint32_t off; /* address - insn_base */
    struct x86_short what;
};

struct cfg_call_live { /* flags (X86_CF..) that cross calls */
    uint8_t in;        /* read before they are written */
    uint8_t out;       /* read by a direct caller after the return */
};

struct cfg {                 /* arrays on the heap, owned by the cfg; all sorted by address */
    const struct image *img; /* NULL in a loaded one */
    struct image_unwind unwind;
    VEC(struct cfg_func) funcs;
    VEC(struct cfg_insn) insns; /* empty in a loaded one */
    uint64_t insn_base;
    VEC(struct cfg_block) blocks;
    VEC(struct cfg_edge) edges; /* sorted by from */
    VEC(struct cfg_table) tables;
    VEC(uint32_t) table_refs;
    struct cfg_call_live *call_live; /* [funcs]; NULL: no flag crosses any call, or a loaded one */
    VEC(struct cfg_loop) loops;
    VEC(uint32_t) loop_members;
    VEC(uint64_t)
    outside_targets; /* sorted: addresses inside functions (not entries) that branches in code outside all
                    functions (crt stubs, hand-written code without FDE) go to. Their blocks are ADDR_TAKEN or CALLED */
    VEC(uint64_t)
    split_targets; /* sorted: addresses one byte into a lock-prefixed instruction that original code branches to
                    (glibc jumps over the prefix). the target of these branches says the prefix instead:
                    the copy always locks, which means the same. Never put a patch over these addresses. */
    VEC(uint64_t)
    mid_targets; /* code addresses inside functions (not their entries) found in data relocations, data words of
                    label tables, or lea/mov: sorted. Their blocks are ADDR_TAKEN unless only `tables` hold them */
    uint64_t bytes_code, bytes_funcs; /* executable section bytes; of these inside functions with reason OK */
    uint32_t unproven; /* addresses that cfg_build_sampled may find to be functions, once a run is seen to execute them;
                          0 in a loaded one */
    struct cfg_index *index; /* private: address to instruction; NULL in a loaded one */
};

/* build.c and the files it calls: builds it all. 0, or -1 after one line. Only functions with reason OK have blocks;
 * all have instructions, except the overlapping ones (none) and the undecodable ones (those before the first bad byte).
 */
int cfg_build(const struct image *img, struct cfg **out);
/* The same with addresses at which a run was seen to execute an instruction (sampled program counters; any others are
 * passed over): functions without unwind description, which are otherwise found only where code that is known calls or
 * jumps to them, are then found where something holds their address, too. */
int cfg_build_sampled(const struct image *img, const uint64_t *sampled, size_t sampled_count, struct cfg **out);
/* Described by nothing in the unwind tables, and found nevertheless. */
static inline bool cfg_is_gap_func(const struct cfg_func *f) { return f->fde == ID_NONE && !f->is_plt; }
void cfg_free(struct cfg *c);
uint32_t cfg_func_at(const struct cfg *c, uint64_t addr);     /* function whose range holds addr, or ID_NONE */
uint32_t cfg_block_at(const struct cfg *c, uint64_t addr);    /* block whose range holds addr, or ID_NONE */
uint32_t cfg_block_start(const struct cfg *c, uint64_t addr); /* block that starts at addr, or ID_NONE */
uint32_t cfg_insn_at(const struct cfg *c, uint64_t addr);     /* instruction that starts at addr, or ID_NONE */
uint32_t cfg_block_of(const struct cfg *c,
                      uint32_t insn); /* block that holds an instruction of a function with blocks */
/* All about instruction i. Only what is the same for its whole shape (addr and target 0): cheaper. */
struct x86_insn cfg_insn(const struct cfg *c, uint32_t i);
static inline const struct x86_insn *cfg_shape(const struct cfg *c, uint32_t i)
{
    return &x86_shape(x86_short_shape(&c->insns.data[i].what))->insn;
}
/* The bytes of [lo, hi), or NULL; and how many behind them can be read, for x86_decode_before. */
const uint8_t *cfg_code_bytes(const struct image *img, uint64_t lo, uint64_t hi, size_t *more);
/* Of it what does not need the shape. */
static inline uint8_t cfg_kind(const struct cfg *c, uint32_t i) { return x86_short_kind(&c->insns.data[i].what); }
static inline uint8_t cfg_len(const struct cfg *c, uint32_t i) { return x86_short_len(&c->insns.data[i].what); }
static inline bool cfg_needs_check(const struct cfg *c, uint32_t i)
{
    return x86_short_needs_check(&c->insns.data[i].what);
}
static inline bool cfg_refers(const struct cfg *c, uint32_t i) { return x86_short_refers(&c->insns.data[i].what); }
static inline uint64_t cfg_insn_addr(const struct cfg *c, uint32_t i) { return c->insn_base + c->insns.data[i].off; }
/* The target of a direct branch or call, or the address of a RIP-relative operand. */
static inline uint64_t cfg_insn_target(const struct cfg *c, uint32_t i)
{
    return x86_short_target(&c->insns.data[i].what, cfg_insn_addr(c, i));
}
/* Numbers of what a function, block or loop has: it lies in one piece of the cfg's array. */
#define CFG_FOR_EACH(owner, thing, i)                                                                                  \
    for (uint32_t i = (owner)->thing##_first, i##_end = i + (owner)->thing##_count; i < i##_end; i++)
#define cfg_for_each_block(func, b) CFG_FOR_EACH(func, block, b)
#define cfg_for_each_loop(func, l) CFG_FOR_EACH(func, loop, l)
#define cfg_for_each_insn(owner, i) CFG_FOR_EACH(owner, insn, i) /* of a function or block */
#define cfg_for_each_edge(block, e) CFG_FOR_EACH(block, edge, e)
#define cfg_for_each_member(loop, m) CFG_FOR_EACH(loop, member, m)
static inline bool cfg_func_has_block(const struct cfg_func *f, uint32_t block) /* ID_NONE too */
{
    return block - f->block_first < f->block_count;
}

/* liveness.c: facts within one function, for the probe placer.
 * Flags that must survive are live. They are dead at calls and returns
 * except those that flags.c found to cross them, and at indirect jumps resolved or not (no compiler passes flags
 * there). */
struct cfg_live {  /* just before an instruction */
    uint8_t flags; /* X86_CF..: live ones */
    uint16_t
        gpr_dead; /* registers certainly overwritten later in this function on every path before being read, with no
                     call, return or unknown jump in between: sound under inter-procedural register allocation */
};
struct cfg_live_in { /* private, like all of the next two */
    uint8_t flags;
    uint16_t regs;
};
struct cfg_effect {
    uint8_t flags, flags_kept;
    uint16_t regs, regs_kept;
};
struct cfg_liveness { /* of one function; zeros before the first */
    const struct cfg *c;
    uint32_t func;
    uint16_t never_dead;
    VEC(struct cfg_effect) effect; /* [block - func.block_first] */
    VEC(struct cfg_live_in) before;
};
void cfg_liveness_build(const struct cfg *c, uint32_t func,
                        struct cfg_liveness *l); /* uses the memory of the one before */
void cfg_liveness_fini(struct cfg_liveness *l);
struct cfg_live cfg_live_before(const struct cfg_liveness *l, uint32_t block);
/* Before each of the block's first `most` instructions. */
void cfg_live_inside(const struct cfg_liveness *l, uint32_t block, struct cfg_live *out, uint32_t max);

/* frame.c: whom a function's frame belongs to, in code that a compiler made. */
struct cfg_frame {
    bool is_private;   /* no address in it is ever made: what is reached through rsp, and through rbp if that holds the
                          frame, is reached in no other way */
    bool rbp_is_frame; /* rbp is the caller's, or a frame pointer */
};
struct cfg_frame cfg_frame_of(const struct cfg *c, uint32_t func);

/* marked.c: the region between the markers of one name, wherever they are: its blocks, ascending; of several functions,
 * where it was inlined into several. The image is the cfg's, which may be a loaded one. */
enum cfg_marked_problem {
    CFG_MARKED_FOUND,
    CFG_MARKED_NO_NOP,
    CFG_MARKED_REFUSED,
    CFG_MARKED_NO_END,
    CFG_MARKED_NO_BEGIN,
    CFG_MARKED_UNCLEAR,
    CFG_MARKED_PROBLEM_COUNT
};
extern const char *const cfg_marked_problem_text[CFG_MARKED_PROBLEM_COUNT];
struct cfg_marked {
    VEC(uint32_t) blocks; /* the caller frees them; none with a problem, or if nothing has that name */
    enum cfg_marked_problem problem;
    uint64_t at; /* where it is */
};
void cfg_marked_find(const struct cfg *c, const struct image *img, const char *name, struct cfg_marked *out);

/* save.c: the arrays funcs, blocks, edges, tables, loops, loop_members packed into bytes, appended to `out`. 0. */
int cfg_save(const struct cfg *c, struct strbuf *out);
/* The same back, without insns, table_refs, targets and img; the ids are the same. Everything is checked: -1 (nothing
 * reported: the caller knows the file) if the bytes are no such form, of another version, cut off or inconsistent. */
int cfg_load(const uint8_t *bytes, size_t len, struct cfg **out);

void cfg_check(const struct cfg *c); /* asserts the invariants written here */
enum cfg_dump_what { CFG_DUMP_INSN, CFG_DUMP_CFG, CFG_DUMP_LOOPS };
typedef const char *cfg_plain_fn(struct arena *a, const char *name); /* a function's name as its author wrote it */
/* Stable text, no pointers. As JSON, `plain` gives "name_plain" beside each name; NULL: it is not there. */
void cfg_dump(const struct cfg *c, enum cfg_dump_what what, bool json, cfg_plain_fn *plain, FILE *out);

#endif
