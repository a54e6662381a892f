/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share: the private index behind the look-ups, and a reader that cannot leave its bytes.
 */
#ifndef MTOOL_IMAGE_IMPL_H
#define MTOOL_IMAGE_IMPL_H

#include "image/image.h"

struct range {
    uint64_t lo, hi; /* [lo, hi) */
};

struct load { /* a PT_LOAD that is not empty */
    uint64_t lo, hi_file, hi_mem, offset;
    uint32_t flags;
};

struct image_index {
    struct file_bytes file; /* ours to unmap; empty if the caller keeps the bytes */
    struct load *loads;     /* sorted, disjoint */
    size_t load_count;
    struct range *code; /* sorted, disjoint, file-backed */
    size_t code_count;
    struct range relro;
    uint32_t *placed; /* allocated, not empty sections (no TLS template without bytes), sorted by address */
    size_t placed_count;
    uint32_t *funcs;   /* symbols that can name code, sorted by address, the best name of one address last */
    uint64_t *func_hi; /* func_hi[i]: the highest end of funcs[0..i] */
    size_t func_count;
};

/* ---- image.c ---- */
int image_refuse(const struct image *img, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with the place in the file. */
int image_refuse_at(const struct image *img, uint64_t offset, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
uint64_t image_offset(const struct image *img, uint64_t vaddr); /* in the file; 0 if it is in no segment */
/* The string at `offset` of a table, or NULL if it does not end inside the table. */
const char *image_string(const uint8_t *table, uint64_t table_len, uint64_t offset);
/* Whether [offset, offset+len) lies in the file. */
static inline bool image_has_bytes(const struct image *img, uint64_t offset, uint64_t len)
{
    return offset <= img->len_bytes && len <= img->len_bytes - offset;
}
const struct load *image_load_of(const struct image *img,
                                 uint64_t vaddr); /* in memory, not only in the file; or NULL */

/* ---- dynamic.c ---- */
int image_read_dynamic(struct image *img); /* needs segments and sections; fills symbols, relocs, needed and names */
void image_index_functions(struct image *img);

/* ---- identity.c ---- */
void image_read_notes(struct image *img); /* build_id, has_ibt_property */
struct image_note {
    uint32_t type;
    const char *name;
    uint32_t name_len;
    const uint8_t *desc;
    uint32_t desc_len;
};
typedef void (*image_note_fn)(struct image *img, const struct image_note *n, void *ctx);
void image_walk_notes(struct image *img, const uint8_t *p, uint64_t len, uint64_t align, image_note_fn fn, void *ctx);

/* ---- markers.c ---- */
void image_read_markers(struct image *img);

void image_find_foreign_runtime(struct image *img);
void image_find_staying_code(struct image *img);
void image_make_key(struct image *img, const char *hash); /* hash: of all bytes, in hex */

/* ---- cursor.c ---- */

struct cursor cursor_over(const struct image *img, uint64_t vaddr, uint64_t len); /* bad if not file-backed */
/* A pointer as .eh_frame and exception tables hold them (LSB 10.5, DW_EH_PE_*), without the indirection; null stays 0.
 * `func` is the base of function-relative ones. Absolute words are looked up among the dynamic relocations; one that
 * only the loader can know sets *is_unknown (which may not be NULL then) and yields 0. */
uint64_t cursor_pointer(struct cursor *c, const struct image *img, uint8_t enc, uint64_t func, bool *is_unknown);

/* ---- cfi.c: call frame instructions, one at a time ---- */

struct cfi_op {
    uint8_t op; /* DW_CFA_*; of the three packed ones the upper two bits */
    const uint8_t *start, *end;
    uint64_t reg, arg; /* arg: the delta in code units, the offset or the address */
    int64_t arg_signed;
    const uint8_t *expr;
    uint64_t expr_len;
};
/* Reads one. False at the end or if the instruction is unknown or cut off (then the cursor is bad). */
bool cfi_next(struct cursor *c, const struct image *img, const struct image_cie *cie, struct cfi_op *out);
/* Whether the op moves the location; *loc becomes the new one. */
bool cfi_moves(const struct cfi_op *op, const struct image_cie *cie, uint64_t *loc);
/* Whether the instructions can be copied to another address; those of a CIE may not move the location. `fde` NULL: a
 * CIE's. */
bool cfi_can_move(const struct image *img, const struct image_cie *cie, const struct image_fde *fde);
struct cursor cfi_cursor(const struct image *img, const struct image_fde *fde);

enum {
    CFI_REG_RBP = 6,
    CFI_REG_RSP = 7,
    CFI_REGS = 17,       /* general registers and the return address */
    CFI_STATES_MAX = 16, /* compilers nest remember_state no deeper than two */
};
struct cfi_rule { /* the instruction that set it, to be copied; start NULL: none did */
    const uint8_t *start;
    uint32_t len;
};
struct cfi_row {
    struct cfi_rule cfa_expr; /* start NULL: the CFA is cfa_reg + cfa_offset */
    uint64_t cfa_reg;
    int64_t cfa_offset;
    struct cfi_rule regs[CFI_REGS];
};
struct cfi_machine {
    struct cfi_row now, first; /* first: as the CIE leaves it */
    struct cfi_row stack[CFI_STATES_MAX];
    unsigned depth;
    bool is_bad, has_other_regs; /* has_other_regs: a rule for one beyond CFI_REGS was met and dropped */
};
void cfi_machine_init(struct cfi_machine *m, const struct image *img, const struct image_cie *cie);
void cfi_machine_step(struct cfi_machine *m, const struct image_cie *cie,
                      const struct cfi_op *op); /* none that moves */

/* As it is before the instruction at vaddr, inside f. False if the instructions are not understood. */
bool cfi_machine_at(struct cfi_machine *m, const struct image *img, const struct image_unwind *u,
                    const struct image_fde *f, uint64_t vaddr);

/* ---- expression.c ---- */

/* The word that the expression of *expr comes to in frame f; cfa NULL: nothing is on its stack at the begin. False if
 * it needs what is not known or cannot be read, or is damaged. */
bool cfi_evaluate(const struct cfi_op *expr, const struct image_frame *f, const uint64_t *cfa, image_read_word read,
                  void *ctx, uint64_t *out);

/* ---- lsda.c: exception tables of the GCC family (Itanium C++ ABI, exception tables) ---- */

struct lsda_site {
    uint64_t start, end; /* addresses */
    uint64_t pad;        /* 0 none */
    uint64_t action;     /* as in the table: 0 none, else 1 + offset into actions */
};
struct lsda {
    const struct image_fde *fde;
    struct cursor sites; /* what lsda_next reads */
    uint64_t pad_base, start_last;
    uint8_t site_enc, type_enc; /* type_enc 0xff: no types */
    const uint8_t *actions;     /* first byte after the sites */
    uint64_t actions_max;       /* bytes there are at most */
    uint64_t actions_len;       /* bytes that the sites reach */
    uint64_t types;             /* address that type indices count down from, 0 none */
    uint64_t type_count;
    uint64_t specs_len; /* exception specifications from `types` up */
};
/* Reads the header and scans sites, actions and specifications once: 0 if all of it is understood, -1 if not. */
int lsda_open(const struct image *img, const struct image_fde *fde, struct lsda *out);
bool lsda_next(struct lsda *l, const struct image *img, struct lsda_site *out);
/* The i-th type (1 <= i <= type_count) as an address, 0 for null; false if only the loader knows it. */
bool lsda_type(const struct lsda *l, const struct image *img, uint64_t i, uint64_t *out);

#endif
