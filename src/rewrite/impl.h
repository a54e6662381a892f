/* SPDX-License-Identifier: Apache-2.0
 *
 * What the passes of the rewriter share: one struct rw, filled from left to right by the passes in pipeline.c's order.
 * Each field says which pass fills it.
 */
#ifndef MTOOL_REWRITE_IMPL_H
#define MTOOL_REWRITE_IMPL_H

#include "rewrite/instruments/instrument.h"
#include "rewrite/rewrite.h"
#include "wire/link.h"

#include <elf.h>

/* How a counter is incremented. The flags that are alive where it stands decide. */
enum rw_form {
    RW_FORM_NONE,
    RW_FORM_INC,  /* inc qword [rip+d]: leaves CF alone, writes the others */
    RW_FORM_REG,  /* mov r,[c]; lea r,[r+1]; mov [c],r: no flags, one dead register */
    RW_FORM_PUSH, /* the same with a register saved below the red zone */
    RW_FORM_COUNT,
    RW_FORM_LOOP_ENTER = RW_FORM_COUNT, /* no counter in line: what stands around a counted loop (induction.c) */
    RW_FORM_LOOP_LEAVE,
    RW_FORM_INDIRECT, /* a call of the runtime in front of a call through a pointer (calls.c) */
    /* paddq xmm,[rip+d], which changes nothing else (counter_promotion.c). A form has three bits: no instrumentation
     * has this one and that of calls. */
    RW_FORM_VECTOR = RW_FORM_INDIRECT,
    RW_FORM_CLOCK /* a call of the runtime that looks at the clock (clocks.c) */
};
/* How, in a byte: the form, the register of RW_FORM_REG, and whether the counter is the thread's own. */
static inline uint8_t rw_how(enum rw_form form, unsigned reg, unsigned gs)
{
    return (uint8_t)(form | reg << 3 | gs << 7);
}
static inline enum rw_form rw_form_of(uint8_t how) { return how & 7; }
static inline unsigned rw_reg_of(uint8_t how) { return how >> 3 & 15; }
static inline bool rw_gs_of(uint8_t how) { return how >> 7; }

struct rw_place { /* where and how a block's own counter stands */
    uint16_t at;  /* instructions of the block before it */
    uint8_t how;
};

struct rw_step {      /* induction.c: a block counted at its loop's entry and exit; step 0: it is not */
    uint32_t block;   /* of a map that is loaded: left out */
    int32_t step;     /* what the register gains each time round */
    uint32_t pending; /* counter that holds the entry value while the loop is under way; of no use with turns */
    uint32_t turns; /* of every entry that comes to its end: what is counted is how many do; 0: the code does not say */
    int32_t first;  /* with turns: what the register holds at entry */
    uint8_t reg, gs;
    uint16_t done; /* bytes of the block up to the end of the instruction that changes the register */
};

struct rw_promoted { /* counter_promotion.c: a loop whose counters are in vector registers while it is under way */
    uint32_t header; /* block */
    uint32_t counter, count; /* the first, which is even, and how many: each has half a register, in their order */
};
enum { RW_VECTOR_FIRST = 8, RW_VECTORS = 8 }; /* registers that may hold counters: xmm8 to xmm15 */
/* Of a mask of those that are free, the k-th: its number counted from RW_VECTOR_FIRST. */
static inline unsigned rw_vector_at(uint8_t free, unsigned k)
{
    unsigned r = 0;
    for (; r < RW_VECTORS && (!(free >> r & 1) || k--); r++)
        ;
    return r;
}

struct rw_func {
    uint64_t addr_new;             /* layout */
    uint32_t size_new;             /* layout; 0: not moved */
    uint32_t size_hot;             /* layout: of it what stands at addr_new; the rest, if any, stands at addr_cold */
    uint64_t addr_cold;            /* layout */
    bool edits_return;             /* decide: computes with the return address in its place */
    bool is_moved;                 /* decide */
    bool may_run;                  /* decide: its original body may still be executed */
    bool is_patched;               /* decide: gets a jump at its entry */
    bool gs;                       /* decide: its counters are the thread's own */
    struct rw_fragment *fragments; /* fragments: what its copy is made of, in order */
    uint32_t fragment_count;
    uint32_t cold_first; /* fragments: from here on they are of the cold part */
};

/* Where control arrives in the copy of a block: until layout the numbers of fragments in its function, then offsets. */
struct rw_label {
    uint32_t enter;  /* entrances from outside */
    uint32_t body;   /* edges inside */
    uint32_t again;  /* its own edge */
    uint32_t first;  /* always a fragment: the first of what stands for its first instruction, insertions included */
    uint32_t second; /* of its second copy; ID_NONE: it has none */
};

struct rw_table { /* a new jump table, for one cfg_table or for several that share their address register */
    const struct cfg_table *old;
    uint32_t entries;  /* the most of those that share it */
    uint32_t group;    /* of plan, or ID_NONE: used by one jump */
    uint64_t addr_new; /* layout; by_reloc tables stay where they are */
};

struct rw_patch { /* a jump written over original code */
    uint64_t addr;
    uint32_t block; /* to this block's copy */
};

struct rw_hook { /* a clone in code that stays: `mov eax,number; syscall`; the mov becomes a jump to a stub */
    uint64_t addr;
    uint32_t number;
    uint64_t stub; /* layout */
};

struct rw_group_edge {           /* the way from a shared table to one of its targets */
    uint32_t group, to, counter; /* counter ID_NONE: derived */
    uint32_t stub; /* fragments: as a label, in the copy of to's function; ID_NONE: nothing is inserted there */
};

/* arcs.c: the flow graph, the same for the planner and the solver */
enum rw_arc_kind { RW_ARC_BLOCK, RW_ARC_EDGE, RW_ARC_ENTER, RW_ARC_OUT, RW_ARC_GROUP };
struct rw_arc {
    uint32_t a, b; /* nodes: flow goes from a to b */
    uint32_t id;   /* of the block, edge or group edge */
    uint8_t kind;
    uint16_t weight; /* larger: more often passed */
};
enum { RW_WEIGHT_FEEDBACK = 2048, RW_WEIGHT_FORCED = 4095 }; /* guessed ones are below FEEDBACK */
/* What stands for a counter's number until all are chosen. Cold: an earlier run never came there. */
enum { RW_COUNTER_HOT = ID_NONE - 1, RW_COUNTER_COLD = ID_NONE - 2 };
struct rw_arcs {
    struct rw_arc *data;
    size_t len, cap;
    uint32_t outside, nodes;
};
/* with_func [funcs]: only arcs that leave blocks of these functions; NULL: of all */
void rw_arcs_of_block(const struct cfg *c, const uint32_t *block_group, struct rw_arcs *p, uint32_t b); /* appends */
void rw_arcs_build(const struct cfg *c, const uint32_t *block_group, const struct rw_group_edge *group_edges,
                   size_t group_edge_count, uint32_t group_count, const bool *with_func, struct rw_arcs *out);

enum rw_displacement {
    RW_DISPLACEMENT_PLAIN,     /* what the bytes say */
    RW_DISPLACEMENT_RELOCATED, /* only the linker knows it */
    RW_DISPLACEMENT_UNSURE     /* and it may make another instruction of this one */
};

struct rw {
    const struct rewrite_options *opt;
    const struct rw_instrument *instrument;
    struct image *img;
    struct cfg *cfg;
    struct arena *arena;   /* all arrays below; a new one for each round of decisions */
    struct arena *scratch; /* what nobody reads once fragments are listed */
    uint8_t key[16];
    const uint16_t *feedback_block, *feedback_edge,
        *feedback_enter;          /* feedback: weights, 0 never passed; NULL: nothing known */
    uint64_t *heat;               /* layout: [funcs] samples; NULL: nothing known, or counts are */
    struct rw_func *funcs;        /* decide */
    VEC(struct rw_patch) patches; /* decide */
    VEC(struct rw_hook) hooks;    /* decide */

    uint32_t *block_counter, *edge_counter, *enter_counter; /* plan */
    uint32_t *block_group;                                  /* plan: of a block that jumps through a shared table */
    VEC(struct rw_group_edge) group_edges;                  /* plan: sorted by group, to */
    uint32_t group_count, counter_count;                    /* plan */
    VEC(struct rw_table) tables;                            /* plan */
    uint32_t *table_new;                                    /* plan: [cfg->tables.len] -> tables */
    struct map ref_table;                                   /* plan: instruction id -> tables */

    struct rw_place *place;           /* place: [blocks] */
    VEC(struct rw_step) steps;        /* place: in the order of blocks */
    VEC(struct rw_promoted) promoted; /* place: in the order of counters */
    uint32_t *promoted_of;            /* place: [blocks] of these, ID_NONE none; NULL: there are none at all */
    uint8_t vectors;                  /* place: mask of registers that they may use */
    bool *is_joined;               /* place: [blocks] some edge comes from elsewhere than itself and the block before */
    uint8_t *edge_how, *enter_how; /* place: of counters on edges and entrances */

    struct rw_traced *traced;         /* place, with trace.c */
    uint8_t *clocked;                 /* plan, with clocks: [funcs] which way (clocks.c) */
    uint32_t *clock_words;            /* plan, with clocks in line: [funcs] its first word among counters, ID_NONE */
    struct rw_probes *probes;         /* plan, with REWRITE_PROBE */
    struct rw_references *references; /* place, with REWRITE_REFERENCES */
    uint8_t *is_cold;                 /* fragments: [blocks] stands in its function's cold part; NULL: there are none */
    uint8_t *second; /* place: [blocks] how many instructions stand in a second copy, and flags; NULL: none have any */
    struct rw_fragments *fragments; /* fragments: [fragment_lists] of ranges of functions */
    size_t fragment_lists;
    struct rw_label *label;          /* fragments: [blocks] */
    uint32_t *edge_stub;             /* fragments: [edges] as a label, in the function that it leaves; ID_NONE: none */
    uint16_t *mark;                  /* layout, to count: [blocks] rw_mark of what counts it, 0 none */
    uint64_t text_vaddr, text_bytes; /* layout: new code, the runtime blob first */
    uint64_t ro_vaddr;               /* layout: program headers, tables, unwind data */
    uint64_t tables_vaddr;

    uint32_t *order; /* layout: functions that move, as their copies stand one behind the other */
    size_t order_len;
    int out_fd; /* open: the new file, under the name out_temporary until it is whole */
    char *out_temporary;
    struct strbuf ro;                                             /* emit, unwind */
    uint64_t eh_frame_hdr_vaddr, eh_frame_hdr_bytes;              /* unwind; 0 none */
    uint64_t eh_frame_vaddr, eh_frame_bytes;                      /* unwind; 0 none */
    uint64_t dynsym_vaddr, gnu_hash_vaddr;                        /* names: 0 unchanged */
    uint64_t dynstr_vaddr, dynstr_bytes, interp_vaddr, rpath_off; /* data: 0 none; rpath_off: in the new dynstr */
    uint64_t rela_vaddr, rela_bytes;                              /* data: dynamic relocations with one more; 0 none */
    uint64_t rw_vaddr, counters_vaddr; /* layout of data: a page of the runtime's words, then counters */
    /* Of a relocatable object, NULL else: where what was at an address of code is now, whose value a file would keep;
     * and which instructions hold a number that only the linker knows. */
    uint64_t (*moved_address)(const struct rw *w, uint64_t addr);
    const bool *is_relocated; /* [insns] */
    const bool *is_named; /* [insns] of these, the address of a word that the linker makes, or a thread's variable */
    const uint8_t *displacements; /* [insns] enum rw_displacement */
    uint64_t link_hooks_vaddr;    /* stands for the functions that inserted code calls when it is linked */
    struct rewrite_stats *stats;
};

/* An address in the copy. */
static inline uint64_t rw_address(const struct rw_func *fn, uint32_t off)
{
    return off < fn->size_hot ? fn->addr_new + off : fn->addr_cold + (off - fn->size_hot);
}
static inline uint64_t rw_body(const struct rw *w, uint32_t block)
{
    return rw_address(&w->funcs[w->cfg->blocks.data[block].func], w->label[block].body);
}
static inline uint64_t rw_enter(const struct rw *w, uint32_t block)
{
    return rw_address(&w->funcs[w->cfg->blocks.data[block].func], w->label[block].enter);
}
/* Second copies, which begin as the block does. Control gets there from a check in the first, or from a second copy. */
enum {
    RW_SECOND_FLAGS = 64, /* until versions are chosen: flags are alive where the block begins; */
    RW_SECOND_TAIL = 64,  /* from then on: what is inserted in front of the next instruction stands there too */
    RW_SECOND_CHECK = 128
};
_Static_assert(CFG_BLOCK_INSNS_MAX < RW_SECOND_FLAGS, "a block's number of instructions stands beside the flags");
static inline unsigned rw_second(const struct rw *w, uint32_t block)
{
    return w->second ? w->second[block] & (RW_SECOND_FLAGS - 1) : 0;
}
static inline bool rw_has_tail(const struct rw *w, uint32_t block)
{
    return w->second && w->second[block] & RW_SECOND_TAIL;
}
static inline bool rw_has_second(const struct rw *w, uint32_t block)
{
    return rw_second(w, block) || rw_has_tail(w, block);
}
/* From a second copy to the next one: it has no check. */
static inline bool rw_goes_on(const struct rw *w, uint32_t block)
{
    return rw_has_second(w, block) && !(w->second[block] & RW_SECOND_CHECK);
}
/* side_exits.c: one of rewrite_side_exits that is inside a block of the map, where all but its end has the original's
 * lengths */
struct rw_side_exit {
    uint32_t block, off; /* off: of the instruction that was not executed, from the block's start in the original */
    bool is_counted;     /* the block's own counter stands in front of it */
    const struct rewrite_side_exit *at;
};
/* What is inserted behind the place where a block's copy begins: so many bytes in front of it, and its own. */
static inline uint16_t rw_mark(uint32_t before, uint32_t bytes) { return (uint16_t)(before << 6 | bytes); }
size_t rw_side_exit_find(const struct rewrite_map *m, const uint16_t *marks, struct rewrite_side_exits side_exits,
                         struct rw_side_exit *out);
const uint16_t *rw_map_marks(const struct rewrite_map *m); /* map.c: [blocks] */

/* The same questions asked of a loaded map, where a function that was not moved has its reason. */
static inline bool rw_cfg_block_moved(const struct cfg *c, uint32_t block)
{
    return block != ID_NONE && c->funcs.data[c->blocks.data[block].func].reason == CFG_REASON_OK;
}
static inline bool rw_cfg_edge_inside(const struct cfg *c, const struct cfg_edge *e)
{
    return e->kind != CFG_EDGE_OUT && e->kind != CFG_EDGE_RETURN && rw_cfg_block_moved(c, e->to);
}
static inline bool rw_block_moved(const struct rw *w, uint32_t block)
{
    return block != ID_NONE && w->funcs[w->cfg->blocks.data[block].func].is_moved;
}
/* An edge that stays inside moved code, and so is counted as such. */
static inline bool rw_edge_inside(const struct rw *w, const struct cfg_edge *e)
{
    return e->kind != CFG_EDGE_OUT && e->kind != CFG_EDGE_RETURN && rw_block_moved(w, e->to);
}

int rw_build_cfg(struct rw *w); /* sampled_addresses.c: the cfg, with what runs were seen to execute. As cfg_build */
void rw_judge(struct rw *w);    /* decide.c: what functions say of themselves: funcs' is_moved, reasons */
void rw_decide(struct rw *w);
bool rw_owns_gs(const struct rw *w); /* the module uses the register that counters would be found by */
void rw_plan(struct rw *w);
void rw_tree(struct rw *w); /* tree.c */
struct rw_flow;             /* weights.c: how often control is thought to come by */
struct rw_flow *rw_flow_new(const struct rw *w);
void rw_flow_free(struct rw_flow *f);
void rw_weigh(struct rw_flow *f, uint32_t func); /* a function that has blocks */
uint16_t rw_weight(const struct rw_flow *f,
                   const struct rw_arc *a); /* of an arc that leaves, or leads to, a block of the one weighed last */
void rw_feedback(struct rw *w);             /* feedback.c */
double rw_feedback_count(uint16_t scaled);  /* about so often: of feedback_block and its like */
void rw_heat(struct rw *w);                 /* heat.c */
void rw_place(struct rw *w);
void rw_layout_functions(struct rw *w); /* each by itself: sizes, offsets, labels */
void rw_layout(struct rw *w);
void rw_emit_function(const struct rw *w, uint32_t func, uint8_t *at); /* but for its cold part */
int rw_emit(struct rw *w, const char *out); /* behind rw_open; 0, or -1 after one line, and nothing is left */
/* 0, or which: functions that cannot be moved were refused, decide again; or none is to blame */
enum { RW_UNWIND_REFUSED = -1, RW_UNWIND_OUT_OF_REACH = -2 };
int rw_unwind(struct rw *w);
void rw_frames_of(const struct rw *w, uint32_t func, struct rw_frames *out); /* of what was inserted; unwind.c */
uint64_t rw_file_bias(const struct image *img); /* of the new segments: address minus offset, as in the first segment */
void rw_data(struct rw *w); /* strings behind the read-only data; places the writable page and the counters */
int rw_open(struct rw *w, const char *out);  /* write.c: 0, or -1 after one line */
int rw_write(struct rw *w, const char *out); /* likewise; ends what rw_open began */
void rw_abandon(struct rw *w);               /* ends it likewise, without a file */
/* edits.c: of the original's bytes, by offset in the file, inside of it; a later one goes over an earlier one. */
#define RW_EDIT_TRAPS UINT64_MAX
struct rw_edit {
    uint64_t off, len, from; /* from: in bytes; RW_EDIT_TRAPS: trap instructions */
};
struct rw_edits {
    VEC(struct rw_edit) all;
    struct strbuf bytes;
};
void rw_edit(struct rw_edits *e, uint64_t off, const void *bytes, size_t len); /* bytes NULL: traps; len not 0 */
void rw_edits_free(struct rw_edits *e);
void rw_edits_read(const struct rw_edits *e, const uint8_t *original, uint64_t off, size_t len, void *to);
int rw_edits_write(const struct rw_edits *e, const uint8_t *original, uint64_t len, int fd); /* 0, or -1 and errno */
/* sections.c: appends to `tail`, which will stand at tail_offset, and edits the header accordingly. */
void rw_sections(const struct rw *w, uint64_t tail_offset, struct strbuf *tail, Elf64_Ehdr *eh);
void rw_map_pack(const struct rw *w, const char *real, struct strbuf *out); /* real: path of the original */
/* map.c: of a map that is no file of its own; path is only a name. 0, or -1 after one line. */
int rw_map_open_bytes(const char *path, const uint8_t *bytes, size_t len, struct rewrite_map **out);
/* names.c: for dladdr; the arguments are the original's dynamic tags. */
void rw_names(struct rw *w, uint64_t symtab, uint64_t gnu_hash);

/* fragments.c */
enum { RW_FUNCS_A_RANGE = 64 };
void rw_fragments(struct rw *w);
void rw_fragments_free(struct rw *w);
struct rw_arrival {
    uint32_t func, label;
};
/* Where the branch at the end of a block goes, or that of its second copy; false: to code that stays. */
bool rw_branch_arrives(const struct rw *w, uint32_t block, bool is_second, struct rw_arrival *out);
/* The function's only one of that kind and id. */
const struct rw_fragment *rw_fragment_of(const struct rw_func *fn, enum rw_fragment_kind kind, uint32_t id);
/* Of instruction i of block b, what is inserted in front of it included. */
uint32_t rw_insn_off(const struct rw *w, uint32_t b, uint32_t i);
uint32_t rw_insn_own_off(const struct rw *w, uint32_t b, uint32_t i); /* behind what is inserted in front of it */
/* Where the instructions of block b end, or the jump behind them to a block in the other part that they fall into. */
uint32_t rw_end_off(const struct rw *w, uint32_t b, bool with_jump);
/* cold.c: whether a function may stand in two parts. The other fills is_cold for its blocks. */
bool rw_can_part(const struct rw *w, uint32_t func);
void rw_find_cold(const struct rw *w, uint32_t func);
static inline bool rw_is_cold(const struct rw *w, uint32_t block) { return w->is_cold && w->is_cold[block]; }
/* Does block b fall into the next, which stands in the other part? */
static inline bool rw_falls_over(const struct rw *w, const struct cfg_func *fn, uint32_t b)
{
    return b + 1 < fn->block_first + fn->block_count && rw_is_cold(w, b) != rw_is_cold(w, b + 1);
}

/* encode.c: bytes that several kinds of inserted code share */
uint8_t *rw_put32(uint8_t *p, uint64_t v);
uint8_t *rw_put_bytes(uint8_t *p, const char *bytes, unsigned n);
uint8_t *rw_put_access(uint8_t *at, uint64_t *addr, bool gs, uint8_t op, unsigned reg, uint64_t counter_addr);
void rw_put_nops(uint8_t *at, unsigned n);
void rw_put_jmp(uint8_t *at, uint64_t addr, uint64_t target);  /* 5 bytes */
void rw_put_call(uint8_t *at, uint64_t addr, uint64_t target); /* 5 bytes */

/* counts.c */
extern const struct rw_instrument rw_counts;

/* calls.c */
extern const struct rw_instrument rw_calls;

/* clocks.c */
extern const struct rw_instrument rw_clocks;

/* trace.c */
extern const struct rw_instrument rw_trace;

/* Functions of the object that `mtool ld` links in, which inserted code calls, and words of it: hidden symbols. */
enum rw_link_hook {
#define X(id, name) RW_LINK_##id,
    WIRE_LINK_HOOKS(X)
#undef X
        RW_LINK_COUNT
};
enum { RW_LINK_HOOK_BYTES = 16 };
static inline uint64_t rw_link_hook(const struct rw *w, enum rw_link_hook hook)
{
    return w->link_hooks_vaddr + (uint64_t)hook * RW_LINK_HOOK_BYTES;
}

/* syscalls.c */
enum { RW_SYSCALL_BYTES = 48, RW_SYSCALL_STUB_BYTES = 125, RW_HOOK_STUB_BYTES = 5 + RW_SYSCALL_STUB_BYTES };
void rw_put_hook_stub(const struct rw *w, uint8_t *at, const struct rw_hook *h);
void rw_put_syscall(uint8_t *at, uint64_t addr, uint64_t stub);
void rw_syscall_stub_frames(const struct rw_fragment *f, struct rw_frames *out);
void rw_put_syscall_stub(const struct rw *w, uint8_t *at, uint64_t addr, uint64_t back);

/* tables.c */
uint64_t rw_table_entry_old(const struct rw *w, const struct cfg_table *t, uint32_t k); /* the original's entry k */
uint64_t rw_table_target(const struct rw *w, const struct rw_table *nt, uint64_t old);
void rw_emit_tables(struct rw *w);

/* Has the copy words that the runtime maps, and so hooks where processes and threads are made? */
static inline bool rw_has_words(const struct rw *w) { return w->instrument->has_words; }

/* probes.c */
enum rw_probe { RW_PROBE_START, RW_PROBE_STOP, RW_PROBE_LANDED };
extern const struct rw_instrument rw_probes;
struct rw_action {
    uint32_t cell;
    enum rw_probe what;
    struct image_cfa frame; /* reg IMAGE_CFA_NONE: the stack pointer tells recursion */
};
struct rw_probe_call {
    uint64_t cell, entrance; /* addresses */
    struct image_cfa frame;  /* as in rw_action */
};
/* lea rsp,[rsp-128]; push rax, rcx, rdx; for each action: the frame, if it is told; lea rcx,[rip->cell]; lfence; rdtsc;
 * call; then pop rdx, rcx, rax; lea rsp,[rsp+128]. Returns its end. */
uint8_t *rw_put_site(uint8_t *at, uint64_t addr, const struct rw_probe_call *calls, unsigned n);

/* references.c */
extern const struct rw_instrument rw_reference_sites;

/* induction.c */
const struct rw_step *rw_step_of(const struct rw *w, uint32_t block); /* NULL: the block is not one */
unsigned rw_step_enter_bytes(const struct rw_step *s);
unsigned rw_step_leave_bytes(const struct rw_step *s);
bool rw_induction(const struct rw *w, uint32_t block, struct rw_step *out);
void rw_put_step_enter(const struct rw *w, uint8_t *at, uint64_t addr, uint32_t block);
void rw_put_step_leave(const struct rw *w, uint8_t *at, uint64_t addr, uint32_t block);

/* counter_promotion.c */
void rw_promote(struct rw *w);
unsigned rw_vector_bytes(uint8_t how);
void rw_put_vector(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr);
void rw_insert_vectors(const struct rw *w, uint32_t edge, struct rw_fragments *out);

/* blob.c: the runtime */
uint64_t rw_blob_bytes(void);
uint64_t rw_dynamic_init(const struct rw *w);      /* write.c: DT_INIT of the original, 0 none */
void rw_blob_put(const struct rw *w, uint8_t *at); /* code at w->text_vaddr, configuration filled in */
uint64_t rw_blob_init(const struct rw *w);         /* addresses of the blob's entrances in the new code */
uint64_t rw_blob_entry(const struct rw *w);
uint64_t rw_blob_before_clone(const struct rw *w);
uint64_t rw_blob_after_clone(const struct rw *w);
uint64_t rw_blob_forked(const struct rw *w);
uint64_t rw_blob_catch(const struct rw *w);
uint64_t rw_blob_chunk_full(const struct rw *w);
uint64_t rw_blob_forget_lines(const struct rw *w);
/* A reference to a line, where several of each place are kept or there are threads. */
enum rw_line {
    RW_LINE_MAY_PASS, /* told but if the runtime says not, by ZF */
    RW_LINE_TOLD,     /* told */
    RW_LINE_BOTH      /* of this line and the next: as RW_LINE_MAY_PASS */
};
uint64_t rw_blob_line(const struct rw *w, enum rw_line how, bool is_store);
uint64_t rw_blob_lines_reach(const struct rw *w);
uint64_t rw_blob_lines_range(const struct rw *w);
uint64_t rw_blob_watched(const struct rw *w);
uint64_t rw_blob_told(const struct rw *w);
uint64_t rw_blob_fault_return(const struct rw *w); /* the byte before it is of the same frame */
uint64_t rw_blob_register(const struct rw *w);
uint64_t rw_blob_probe(const struct rw *w, const struct rw_action *a, bool gs);
struct rw_blob_probes { /* the code that sites call */
    uint64_t addr, bytes;
};
struct rw_blob_probes rw_blob_probes(const struct rw *w);
struct image_moved_func rw_blob_frames(const struct rw *w, struct rw_frames *out); /* of that code */
/* Its unwind states in order: from *addr on *pushed bytes are above the return address. False: it ended before. */
bool rw_blob_state(const struct rw *w, unsigned i, uint64_t *addr, uint32_t *pushed);
const uint8_t *rw_blob_bytes_of(size_t *len, unsigned *config); /* to be tried in place; where its configuration is */
unsigned rw_blob_probe_slot(enum rw_probe what);
enum {
    RW_DATA_BYTES = 4096,
    RW_DATA_EARLY = 0,
    RW_DATA_COUNTING = 16,
    RW_DATA_DYNAMIC = 64,
    RW_DATA_ONES_BYTES = 32, /* what is added to counters in vector registers: right in front of the counters */
    RW_DATA_ONES = RW_DATA_BYTES - RW_DATA_ONES_BYTES
}; /* the runtime's words in front of the counters */

#endif
