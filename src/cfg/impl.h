/* SPDX-License-Identifier: Apache-2.0
 *
 * What the passes of cfg_build share. build.c is their list; each pass says above itself what it needs and fills.
 */
#ifndef MTOOL_CFG_IMPL_H
#define MTOOL_CFG_IMPL_H

#include "cfg/cfg.h"

/* Address to instruction in constant time: one bit for each byte of all functions, in function order, and the number of
 * bits set before each word. Instruction ids count the set bits. */
struct cfg_index {
    uint32_t *bit_first; /* [funcs.len]: bit of the function's first byte, the first of a word */
    uint64_t *bits;
    uint32_t *rank;
    size_t word_count;
    uint32_t
        *step_func; /* the last function that starts at or before each step of 1 << step_bits bytes from insn_base */
    size_t step_count;
    unsigned step_bits;
    uint64_t *leads;     /* a bit for each instruction: a block starts there; NULL before there are blocks */
    uint32_t *lead_rank; /* as rank */
};

enum mark { /* of an instruction */
            MARK_LEADER = 1,
            MARK_FREE_LABEL = 2, /* its address is held elsewhere than in jump tables that are understood */
            MARK_PAD = 4,
            MARK_CALLED = 8,
            MARK_NORETURN = 16,  /* of a call */
            MARK_TABLE_REF = 32, /* holds the address of a table of an understood jump */
};

struct branch { /* a direct jump between two known instructions */
    uint32_t to, from;
};

struct holder {
    uint64_t place; /* of the word */
    uint32_t insn;  /* whose address it holds */
};

enum jump_class {
    JUMP_TABLE,   /* all its tables are known */
    JUMP_POINTER, /* to an absolute address from memory, an argument, a return value: into this function only by a label
                     whose address is taken */
    JUMP_UNKNOWN, /* the address is computed in a way not understood */
};

struct jump { /* an indirect jump */
    uint32_t insn, func;
    uint32_t table_first, table_count;     /* into build.tables, of JUMP_TABLE */
    uint32_t label_first, label_count;     /* into build.labels: targets without a table, of JUMP_TABLE */
    uint32_t measure_first, measure_count; /* into build.measures */
    uint8_t class;
    bool doubt;     /* JUMP_TABLE, see backward_slice_result */
    bool to_labels; /* JUMP_POINTER that may go to any label of its own function */
};

struct table_ref {
    uint64_t addr; /* of the table */
    uint32_t insn; /* that holds it */
};

struct found_table {
    uint64_t addr, base;     /* base: what 4-byte entries are relative to */
    uint32_t entries, bound; /* bound: of the compare before the jump if there is one, else 0: never cuts, see scan */
    uint32_t ref_first, ref_count;           /* into build.refs */
    uint32_t base_ref_first, base_ref_count; /* the same, of instructions that hold a base that is a label */
    uint32_t at_least;                       /* entries there must be */
    uint8_t kind;
    bool by_reloc, is_single; /* single: constant index, one entry */
};

struct measure {                /* of a table, as long as no other that starts behind it is found */
    uint64_t addr, base, limit; /* limit: where the next table starts */
    uint32_t at_least, bound, entries;
    uint8_t kind;
    bool is_single, is_reached; /* reached: all its targets are known to be targets */
};

struct link { /* of a list in build.links; ids count from 1, 0 ends a list */
    uint32_t what, next;
};

/* All jumps that go through one table (or to one label): each of them can reach each target, so that 200 dispatching
 * jumps of an interpreter times 200 targets stay 400 links. */
struct jump_group {
    uint64_t addr;  /* of the table or label */
    uint32_t jumps; /* list of jump instructions */
};

struct build {
    struct cfg *c;
    const struct image *img;
    const uint64_t *sampled; /* see cfg_build_sampled */
    size_t sampled_count;
    VEC(struct holder) holders;  /* words of data that hold addresses inside functions */
    uint8_t *marks;              /* [insns.len] enum mark */
    uint8_t *entry_known;        /* [funcs.len]: a call, pointer or symbol names its entry */
    VEC(struct branch) branches; /* sorted by to */
    VEC(struct jump) jumps;      /* sorted by insn */
    VEC(struct found_table) tables;
    VEC(struct measure) measures;
    VEC(uint32_t) refs;
    VEC(uint64_t) labels;
    VEC(uint64_t) table_starts; /* sorted, of all tables that are indexed */
    VEC(struct jump_group) groups;
    struct map group_of;  /* group's addr -> 1 + its place in groups */
    struct map groups_to; /* target instruction -> list of groups */
    VEC(struct link) links;
};

/* build.c */
void index_free(struct cfg_index *x);

/* gaps.c */
bool find_gap_functions(struct build *b);

/* functions.c */
int build_functions(struct build *b);
uint32_t insn_in_func(const struct cfg *c, uint32_t func, uint64_t addr); /* starts there, or ID_NONE */
bool is_plt_section(const struct image_section *s);
static inline bool func_holds(const struct cfg_func *f, uint64_t addr) { return addr - f->addr < f->size; }
static inline bool falls_through(uint8_t kind)
{
    return kind != X86_JMP && kind != X86_JMP_IND && kind != X86_RET && kind != X86_TRAP;
}
static inline bool is_direct_jump(uint8_t kind)
{
    return kind == X86_JMP || kind == X86_JCC || kind == X86_JCXZ || kind == X86_XBEGIN;
}
static inline bool ends_block(uint8_t kind) { return kind != X86_PLAIN && kind != X86_SYSCALL && kind != X86_INT; }
static inline void refuse(struct cfg_func *f, enum cfg_reason why)
{
    if (f->reason == CFG_REASON_OK)
        f->reason = (uint16_t)why;
}
uint32_t func_of_insn(const struct cfg *c, uint32_t insn);

/* targets.c */
void build_branch_targets(struct build *b);
void build_address_targets(struct build *b);
void build_landing_pads(struct build *b);
void build_outside_targets(struct build *b);
/* A fixed-address program has no relocations: every aligned word of its data that is in [lo, hi) may be a pointer.
 * Nothing for other images. */
void for_each_data_word(const struct build *b, uint64_t lo, uint64_t hi,
                        void (*fn)(void *ctx, uint64_t word, uint64_t place), void *ctx);
void sort_u64(uint64_t *v, size_t n);          /* ascending */
size_t sort_unique_u64(uint64_t *v, size_t n); /* returns how many are left */

/* Is it a function of another file, to which a jump is a call that does not come back? */
static inline bool cfg_is_elsewhere(const struct cfg *c, uint64_t addr)
{
    return addr >= c->img->functions_lo && addr < c->img->functions_hi;
}

/* noreturn.c */
void build_noreturn(struct build *b);
/* Can control go on to the next instruction? */
static inline bool goes_on(const struct build *b, uint32_t insn)
{
    return falls_through(cfg_kind(b->c, insn)) && !(b->marks[insn] & MARK_NORETURN);
}

/* backward_slice.c */
struct backward_slice_result {
    enum jump_class class;
    bool incomplete; /* some path had no known predecessor */
    bool doubt;      /* JUMP_TABLE: some path seems to come with another base */
    uint8_t kind;    /* enum cfg_table_kind */
    bool is_single;
    uint32_t at_least;          /* entries, by an index that is constant; 0 unknown */
    VEC(uint64_t) labels;       /* addresses that are the target themselves, without a table */
    uint64_t label;             /* PIC32: entries are relative to this address in the code; 0: to their table */
    VEC(uint32_t) base_refs;    /* instructions that hold the label */
    VEC(struct table_ref) refs; /* JUMP_TABLE: every (table, instruction that holds its address), sorted by table */
    uint32_t load;              /* instruction that reads the table (a mov or the jump) */
};
void backward_slice_jump(const struct build *b, uint32_t jump_insn, uint32_t func, struct backward_slice_result *out);
void backward_slice_result_fini(struct backward_slice_result *r);
size_t first_branch_to(const struct build *b, uint32_t insn); /* its place in build.branches, or where it would stand */
int64_t insn_disp(const struct build *b, uint32_t insn);      /* displacement of its memory operand */
uint64_t insn_imm(const struct build *b, uint32_t insn);      /* immediate, sign-extended */
uint64_t imm_of(const struct build *b, const struct x86_insn *i); /* the same of one that may be in no function */

/* tables.c */
void build_tables(struct build *b);
uint32_t groups_to(const struct build *b, uint32_t insn); /* list of groups whose jumps reach it */
uint64_t table_entry(const struct build *b, const struct found_table *t, uint32_t k); /* target address; 0 invalid */

/* unresolved.c: needs all jumps and tables; fills their functions' unresolved and reason TABLE */
void decide_unresolved(struct build *b);

/* marked.c */
void build_markers(struct build *b);

/* blocks.c */
void build_blocks(struct build *b);
uint32_t block_of_leader(const struct cfg *c, uint32_t insn); /* block that starts there, or ID_NONE */
void index_leaders(struct cfg *c);                            /* functions.c: index->leads are complete */

/* loops.c */
void build_loops(struct cfg *c);
void build_flags(struct cfg *c);

#endif
