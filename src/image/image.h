/* SPDX-License-Identifier: Apache-2.0
 *
 * image: an ELF file (x86-64, little endian) as the rest of mtool sees it: bytes, segments, sections, symbols, dynamic
 * relocations, and the unwind tables. Reads executables and shared objects; of .o files rewrite/relocatable makes such.
 * All addresses are virtual addresses as in the file (unrelocated). Everything returned lives as long as the image.
 * Nothing here knows what an instruction is.
 */
#ifndef MTOOL_IMAGE_H
#define MTOOL_IMAGE_H

#include "base/base.h"

enum image_kind {
    IMAGE_EXEC, /* ET_EXEC: fixed addresses */
    IMAGE_PIE,  /* ET_DYN meant to be run: has DF_1_PIE (static-PIE too), or PT_INTERP and no soname */
    IMAGE_DSO,  /* ET_DYN meant to be loaded; libc.so.6 and ld.so are DSOs though they can be run */
    IMAGE_KIND_COUNT
};

struct image_segment {    /* one program header, in file order */
    uint32_t type, flags; /* PT_*, PF_* */
    uint64_t offset, vaddr, filesz, memsz, align;
};

struct image_section {
    const char *name;
    uint32_t type, link, info; /* SHT_* */
    uint64_t flags, addr, offset, size, entsize;
};

struct image_symbol {
    const char *name; /* "" if none */
    uint64_t addr, size;
    uint8_t type, bind; /* STT_*, STB_* */
    uint16_t shndx;     /* SHN_UNDEF for imports */
    bool is_dynamic;    /* from .dynsym, else .symtab */
};

struct image_reloc {      /* a dynamic relocation, from RELA, JMPREL or RELR */
    uint64_t addr;        /* the place */
    uint32_t type;        /* R_X86_64_* ; RELR entries appear as R_X86_64_RELATIVE */
    uint32_t sym;         /* index into dynsym order, 0 none: image->symbols[sym] */
    const char *sym_name; /* NULL if sym is 0 */
    int64_t addend;       /* for RELR: the word in the file */
    uint64_t file_offset; /* of the 24-byte Elf64_Rela record, or for RELR of the word: where an addend is edited */
    bool is_relr;
};

struct image_marker { /* a note of include/mtool.h: at this address a region begins, or ends */
    uint64_t addr;    /* in code; that it is an instruction's, and a nop's, is for others to see */
    const char *name;
    bool is_end;
};
struct image_naming { /* likewise: the memory at rdi, of rsi bytes, gets a name */
    uint64_t addr;
    const char *name;
};

struct image {
    const char *path;
    const uint8_t *bytes;
    size_t len_bytes;
    enum image_kind kind;
    bool is_static;              /* no PT_INTERP and not a DSO */
    uint64_t entry;              /* e_entry; 0 if none */
    uint64_t vaddr_lo, vaddr_hi; /* over all PT_LOAD; hi is the end of memory, not page aligned */
    struct image_segment *segments;
    size_t segment_count;
    struct image_section *sections; /* may be empty (sections stripped) */
    size_t section_count;
    struct image_symbol *symbols; /* functions, IFUNCs, notypes, objects, thread-locals (their addr is the offset in
                                   PT_TLS), dynsym first in its order, then symtab */
    size_t symbol_count;
    size_t dynsym_count;        /* symbols[0..dynsym_count) are exactly the dynsym entries in order, [0] the null one */
    struct image_reloc *relocs; /* sorted by addr; if there is no PT_DYNAMIC, of allocated RELA sections */
    size_t reloc_count;
    const char *interp;                   /* PT_INTERP or NULL */
    const char *soname, *rpath, *runpath; /* NULL if none */
    const char **needed;
    size_t needed_count;
    char build_id[65];                    /* hex, "" if none */
    char key[33];                         /* build id and content hash folded: the identity used by caches */
    uint64_t dynamic_vaddr, dynamic_size; /* PT_DYNAMIC, 0 if none */
    bool has_ibt_property;
    struct image_marker *markers; /* by address */
    size_t marker_count;
    struct image_naming *namings; /* by address */
    size_t naming_count;
    uint64_t functions_lo, functions_hi; /* set by who made the bytes: addresses here stand for functions of other
                                            files; both 0 of a file */
    const char *const *functions;        /* likewise: their names, one for each function_bytes of these addresses, in
                                            which the linker's word for it lies too; NULL: not known */
    uint64_t function_bytes;
    uint64_t stay_lo, stay_hi;   /* code that the file's own run time copies, and knows the place of: V8's built-in
                                    functions, as their symbols tell; lo == hi: none */
    bool stays_undescribed;      /* it has such code, and no symbol tells where: it has no unwind description */
    const char *foreign_runtime; /* why the whole file must not be rewritten: "Go", "GHC", ... ; else NULL */
    struct arena *arena;
    struct image_index *index; /* private: what the look-ups below stand on */
};

/* Reads PATH. Checks every offset and size it will use; a file that lies is refused. Returns 0, or -1 after one line by
 * diag_error (missing, unreadable, directory, no ELF, another architecture or class, truncated, relocatable, core). */
int image_open(const char *path, struct image **out);
/* The same without a key: for that all bytes would be read, and where an original has gigabytes that begin as zeros, a
 * copy that the rewriter made has a hole as long. */
int image_open_copy(const char *path, struct image **out);
/* The same for bytes that the caller keeps alive (for fuzzing and tests); PATH is only a name. */
int image_open_bytes(const char *path, const uint8_t *bytes, size_t len, struct image **out);
void image_close(struct image *img);
void image_rest(const struct image *img); /* holds no memory for the file's bytes until they are read again */

/* File-backed bytes [vaddr, vaddr+len), or NULL if any of them is outside file-backed memory. */
const uint8_t *image_at(const struct image *img, uint64_t vaddr, size_t len);
bool image_is_code(const struct image *img, uint64_t vaddr); /* in an executable section (segment if no sections) */
bool image_is_readonly_data(const struct image *img, uint64_t vaddr); /* not code, never written after relocation */
const struct image_section *image_section_named(const struct image *img, const char *name); /* or NULL */
const struct image_section *image_section_of(const struct image *img, uint64_t vaddr);      /* allocated one, or NULL */
const struct image_reloc *image_reloc_at(const struct image *img, uint64_t vaddr);          /* exact place, or NULL */
/* Best function name for an address: symbol whose [addr, addr+size) holds it (or exact start); NULL if none. *offset
 * may be NULL. */
const char *image_symbol_name(const struct image *img, uint64_t vaddr, uint64_t *offset);
void image_dump(const struct image *img, FILE *out); /* stable text */

/* ---- unwind.c: .eh_frame read. DWARF 5 section 6.4; LSB 5 chapter 10; Itanium C++ ABI exception tables. ---- */

struct image_fde {
    uint64_t addr; /* first address covered */
    uint64_t len_bytes;
    uint64_t lsda;        /* address of its language specific data, 0 none */
    bool is_signal_frame; /* augmentation 'S' */
    uint32_t cie;         /* index into cies */
    const uint8_t *cfi;   /* call frame instructions of the FDE */
    uint32_t cfi_len;
    uint64_t record; /* address of the FDE itself in .eh_frame */
};
struct image_cie {
    const uint8_t *cfi;
    uint32_t cfi_len;
    uint64_t code_align;
    int64_t data_align;
    uint64_t return_reg;
    uint64_t personality; /* decoded value: address of the routine, or of the pointer to it if indirect; 0 none */
    uint8_t personality_enc, lsda_enc, fde_enc; /* DW_EH_PE_*, 0xff omitted */
    bool is_signal_frame;
    bool has_augmentation; /* 'z' */
    bool can_emit;         /* false: something in it cannot be written anew, so no function of it can move */
};
struct image_unwind {
    struct image_fde *fdes; /* sorted by addr, no empty ones; of several with one addr the first is kept; those of
                               code that the linker dropped (addresses outside the loaded segments) are left out */
    size_t fde_count;
    struct image_cie *cies;
    size_t cie_count;
};
/* Fills `out` (memory in img->arena) from .eh_frame (by section, else by PT_GNU_EH_FRAME). No table: 0 with fde_count
 * 0. A broken table: -1 after one line. */
int image_unwind_read(const struct image *img, struct image_unwind *out);
/* The FDE whose range holds vaddr, or ID_NONE. */
uint32_t image_unwind_find(const struct image_unwind *u, uint64_t vaddr);
/* CFA offset from rsp at vaddr if the CFA there is rsp+N, else -1 (other register or expression). For telling tail
 * calls. */
int64_t image_unwind_cfa_rsp_offset(const struct image *img, const struct image_unwind *u, const struct image_fde *f,
                                    uint64_t vaddr);
enum image_cfa_reg { IMAGE_CFA_NONE, IMAGE_CFA_RSP, IMAGE_CFA_RBP };
struct image_cfa { /* where the CFA is: register and distance from it */
    enum image_cfa_reg reg;
    int32_t offset;
};
/* Before the instruction at vaddr; reg IMAGE_CFA_NONE: it is found in another way, or f says nothing of it. */
struct image_cfa image_unwind_cfa(const struct image *img, const struct image_unwind *u, const struct image_fde *f,
                                  uint64_t vaddr);

/* Registers, by DWARF's numbers, that f has saved in its frame before the instruction at vaddr; 0 if it is not
 * understood. */
uint16_t image_unwind_saved(const struct image *img, const struct image_unwind *u, const struct image_fde *f,
                            uint64_t vaddr);

/* Calls fn(ctx, address) for each place in the FDE's code from which on the frame is described in another way. 0, or -1
 * if that is not understood. */
int image_unwind_row_starts(const struct image *img, const struct image_unwind *u, uint32_t fde,
                            void (*fn)(void *ctx, uint64_t addr), void *ctx);

/* ---- frames.c ---- */

enum { IMAGE_FRAME_REGS = 16 };
struct image_frame { /* a function under way in a running process: addresses as it sees them */
    uint64_t pc;
    uint64_t regs[IMAGE_FRAME_REGS]; /* by DWARF's numbers: rax rdx rcx rbx rsi rdi rbp rsp r8 ... r15 */
    uint16_t known;                  /* bit i: regs[i] is */
};
enum image_step {
    IMAGE_STEP_CALLER, /* *f is now that of the caller, pc its return address */
    IMAGE_STEP_BOTTOM, /* there is none: the first function of a thread */
    IMAGE_STEP_LOST    /* no rule, or memory that cannot be read */
};
typedef bool (*image_read_word)(void *ctx, uint64_t addr, uint64_t *word);
/* vaddr: what pc is in the file; for a return address that of the byte before. */
enum image_step image_unwind_step(const struct image *img, const struct image_unwind *u, uint64_t vaddr,
                                  struct image_frame *f, image_read_word read, void *ctx);

/* ---- unwind_emit.c: tables for code that was moved ---- */

/* What stands in a copy and not in the original, and has another frame than what is before it. From off_new on the
 * frame is that of the original at off_old (IMAGE_STATE_HERE: that of the code around it), with the stack pointer moved
 * down by `pushed` bytes. Both offsets are from the starts of the function. In the order of off_new; after the first
 * with an off_old only such follow, or HERE that means the same one. */
struct image_state {
    uint32_t off_new, off_old;
    uint32_t pushed;
};
#define IMAGE_STATE_HERE UINT32_MAX

#define IMAGE_FDE_SIGNAL (ID_NONE - 1)
struct image_moved_func { /* one contiguous copied function (whole FDE range) */
    uint32_t fde;         /* index into unwind->fdes; ID_NONE: a stub without one that finds its return address at rsp;
                             IMAGE_FDE_SIGNAL: where handlers of signals return to, and a byte in front of it */
    uint64_t addr_new, len_new;
    const struct image_state *states;
    size_t state_count;
    bool is_part; /* not the function, but what was taken out of it: all that it has are states with an off_old. Its
                     function is among `moved` too, and has no exception table */
};
/* Maps an address inside the function that was at an instruction boundary (or its end) to the copy. Must be monotone
 * within a function, and give an address in [addr_new, addr_new + len_new]. is_landing_pad: the address is a landing
 * pad of an exception table: the unwinder enters the copy elsewhere than the plain flow does, so the caller must know
 * which of the two is meant; then any address of code is taken, also the old one. */
typedef uint64_t (*image_addr_map)(void *ctx, uint32_t fde, uint64_t addr_old, bool is_landing_pad);

struct image_unwind_out {
    struct strbuf frame; /* new .eh_frame content: CIEs and FDEs of the copies only, zero-terminated */
    struct strbuf lsda;  /* new exception tables */
    struct strbuf hdr;   /* new .eh_frame_hdr: binary search table over the old FDEs (in place) and the new ones */
};
/* vaddr_*: where the caller will place each. The three are emitted in the order lsda, frame, hdr; since sizes are not
 * known before, the caller gives the address of the first and each next one follows at the next multiple of 16; the
 * addresses used are returned. All references are pc-relative sdata4. The header refers to old FDEs at their old
 * addresses, and its eh_frame_ptr to the new frame. A landing pad in a function that is not among `moved` (a .cold part
 * left alone) stays at its old address; for one in another function among `moved`, `map` is asked with that function's
 * fde. No function may be twice in `moved`, but for its parts. An FDE or LSDA that cannot be re-encoded is reported in
 * *bad (an index into moved, the first; bad_each[] becomes true for each of them, unless it is NULL) and -1 returned
 * without a message: the caller then leaves these functions alone and calls again; *bad is SIZE_MAX if no function is
 * to blame, because the new tables are farther than 2 GB from the old. Returns 0, or -1 and `out` is empty. The caller
 * frees the three. */
int image_unwind_emit(const struct image *img, const struct image_unwind *u, const struct image_moved_func *moved,
                      size_t moved_count, image_addr_map map, void *ctx, uint64_t vaddr_first,
                      struct image_unwind_out *out, uint64_t *vaddr_lsda, uint64_t *vaddr_frame, uint64_t *vaddr_hdr,
                      size_t *bad, bool *bad_each);
/* The call frame instructions of one function, appended: for who writes the rest of its record. -1: bad. */
int image_unwind_cfi_moved(const struct image *img, const struct image_unwind *u, const struct image_moved_func *m,
                           image_addr_map map, void *ctx, struct strbuf *out);
struct image_lsda_moved {
    uint64_t at;                      /* of the table in `out` */
    uint64_t kept, kept_len, kept_at; /* all behind the call sites, whose bytes are as they were: old address, offset */
};
/* Its exception table, appended. The caller sees to relocations. Landing pads must be in the function. -1: bad. */
int image_unwind_lsda_moved(const struct image *img, const struct image_unwind *u, const struct image_moved_func *m,
                            image_addr_map map, void *ctx, struct strbuf *out, struct image_lsda_moved *where);
/* Can this function's CFI and LSDA be re-encoded at all (asked before it is moved)? False also for signal frames, which
 * the kernel returns to at their old address. If true, only addresses can make image_unwind_emit fail. */
bool image_unwind_can_move(const struct image *img, const struct image_unwind *u, uint32_t fde);
/* Landing pads of the FDE's LSDA: calls fn(ctx, pad address) for each. 0, or -1 if the LSDA is not understood. */
int image_unwind_landing_pads(const struct image *img, const struct image_unwind *u, uint32_t fde,
                              void (*fn)(void *ctx, uint64_t pad), void *ctx);
/* Likewise the ranges of code [lo, hi) that it says something of; pad 0: an exception there goes on to the caller. */
int image_unwind_call_sites(const struct image *img, const struct image_unwind *u, uint32_t fde,
                            void (*fn)(void *ctx, uint64_t lo, uint64_t hi, uint64_t pad), void *ctx);

#endif
