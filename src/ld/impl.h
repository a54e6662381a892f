/* SPDX-License-Identifier: Apache-2.0
 * What the files of this folder share: the inputs of one link, in parts, and what was made of these. */
#ifndef MTOOL_LD_IMPL_H
#define MTOOL_LD_IMPL_H

#include "ld/ld.h"

enum { LD_HASH = 33 }; /* 32 hex digits and a zero */

struct ld_part {   /* an object, or a member of an archive */
    bool is_known; /* it was looked at, in this link or in an earlier one: what follows holds */
    bool is_new;   /* there is another object in its place */
    uint64_t funcs, funcs_moved, counters, blocks_ordered;
    const char *left;    /* lines, without its name: what was taken over as it is, and why */
    struct strbuf bytes; /* that object, if this link made it */
};
struct ld_file { /* an input that holds objects */
    const struct ld_input *in;
    struct file_bytes file;
    bool is_archive;
    struct ld_archive archive;
    struct ld_part *parts; /* [part_count]: one, or a member each */
    size_t part_count;
    const struct ld_file *same;   /* an earlier one of the same path; NULL none */
    char hash[LD_HASH];           /* of what it holds; "" if the link takes in none of it */
    const char *kept;             /* path of the copy in the cache; NULL: there is none that is of use */
    struct file_bytes kept_bytes; /* that copy */
    const char *instead;          /* path of what the linker is given; NULL: itself */
};

/* ---- copies.c: inputs to rewritten ones ---- */

struct ld_copies { /* of one link */
    struct arena *arena;
    const char *folder; /* of temporary files */
    const struct rewrite_relocatable_options *opt;
    struct ld_tally *tally;
    struct ld_file *files;
    size_t count;
};
/* Fills `instead` of files whose members are marked. 0, or -1: there is no room. */
int ld_copies_make(struct ld_copies *c);
/* One object: fills *p but for its `left`, whose lines are appended to LEFT. */
void ld_part_rewrite(const char *name, const uint8_t *bytes, size_t len, const struct rewrite_relocatable_options *opt,
                     struct ld_part *p, struct strbuf *left);
void ld_copies_close(struct ld_copies *c); /* the files, too */
/* BYTES in a file of its own: FOLDER/NUMBER/base name of PATH; without NUMBER if that is `count`. NULL if there is no
 * room. */
const char *ld_copies_put(const struct ld_copies *c, size_t number, const char *path, const struct strbuf *bytes);
void ld_tally_leave(struct ld_tally *t, const char *name, const char *why); /* a line of `left` */

/* ---- whole.c: sections of linked files that are not loaded ---- */

/* A linked file; NULL, and not a word, if it cannot be read. */
struct image *ld_open_quietly(const char *path);
/* Its section of that name, if the file has all of it; else NULL. */
const struct image_section *ld_section_of(const struct image *img, const char *name);

/* The bytes of an object whose section of that name is empty: it is `with` from now on. */
void ld_object_fill(struct strbuf *object, const char *section, const struct strbuf *with);

/* ---- link.c ---- */

/* argv[0] is executed; what it prints goes to `out` and `err` unless these are negative. Its status; SIGNAL + 128. */
int ld_run(const char *const *argv, int out, int err);
bool ld_is_of_c(const char *path); /* an archive that every program has */
/* The link as it was meant; `more` words at its end, NULL none. */
int ld_run_plain(const struct ld_link *l, struct arena *a, const char *const *more);

/* ---- lto/bitcode.c: what LLVM compiles while it links ---- */

/* The link's words (an array that ends with NULL) with the objects that are made of bitcode in the place of this; NULL:
 * it has none, or they cannot be had. *has_said: the link as it was meant prints something. */
const char *const *ld_bitcode_compile(const struct ld_link *l, const struct ld_line *line, struct arena *a,
                                      bool *has_said);

/* ---- lto/wrapper.c: what gcc compiles while it links ---- */

/* A word that has the linker's plugin call mtool in the place of gcc's lto-wrapper, of the word that names that; NULL:
 * it does not, or there is no room. */
const char *ld_generated_wrap(const struct ld_link *l, struct arena *a, const char *word);
/* Adds what became of such objects, in a link that is done. */
void ld_generated_take(const struct ld_link *l, struct arena *a, struct ld_tally *tally);
bool ld_generates(void); /* this process is called so */
/* Then: l->linker is the real lto-wrapper. Its status. */
int ld_generate(const struct ld_link *l, struct arena *a, const struct rewrite_relocatable_options *opt);

/* ---- promote/link.c ---- */

/* As ld_link, of a parsed line that links; *why: it was linked as it was meant, because. */
int ld_link_promoted(const struct ld_link *l, const struct ld_line *line, struct arena *a, struct ld_tally *tally,
                     const char **why);

/* ---- cache.c ---- */

void ld_hash(const void *bytes, size_t len, char out[LD_HASH]); /* fast; no secret, and none that must not be found */
/* Under which a copy of what hashes to CONTENT is kept, for who is called NAME. */
void ld_cache_key(const char *content, const char *name, const struct rewrite_relocatable_options *opt,
                  char out[LD_HASH]);
/* Fills parts that are known, and *copy (its path; NAME is its base name) and *bytes (mapped) if it holds new ones.
 * What is damaged is not there. */
void ld_cache_find(struct arena *a, const char *key, const char *name, struct ld_part *parts, size_t count,
                   const char **copy, struct file_bytes *bytes);
/* Keeps parts that are known and the copy; BYTES NULL: no part is new. Path of the copy; NULL if none was kept. */
const char *ld_cache_keep(struct arena *a, const char *key, const char *name, const struct ld_part *parts, size_t count,
                          const struct strbuf *bytes);

#endif
