/* SPDX-License-Identifier: Apache-2.0
 * What the sources of data share: the tables behind the look-up. */
#ifndef MTOOL_DATA_IMPL_H
#define MTOOL_DATA_IMPL_H

#include "data/data.h"

struct data_file {
    const char *path;
    uint64_t inode;
    int64_t changed_s, changed_ns;
    struct image *img;
    bool is_debug_tried, is_unwind_tried, has_unwind;
    bool is_naming_known, names_functions;
    struct lines *lines; /* NULL: no debug information */
    struct scope_cache *scopes;
    struct variables *variables; /* NULL: not asked for yet */
    struct image_unwind unwind;
};
struct data_files {
    unsigned users;
    struct arena *arena;
    struct file_names names; /* of source files */
    VEC(struct data_file *) all;
};

struct data_loaded { /* a module */
    const char *path;
    struct image *img;
    struct data_file *file; /* whose these are */
    uint64_t load;
    VEC(uint32_t) threads; /* objects of its thread-local variables, for data_thread_block */
};

/* What ended a block. */
enum data_end { DATA_END_NONE, DATA_END_GIVEN_BACK, DATA_END_ALLOCATED_OVER };
enum { DATA_ENDED_PAGES = 512, DATA_ENDED_PAGE = 4096 };
struct data_ended {                    /* ended.c: by the low bits of the address where it began */
    uint64_t *pages[DATA_ENDED_PAGES]; /* NULL: none there */
};

struct data_tables {
    struct arena *arena;
    VEC(struct data_object *) objects;
    VEC(struct data_block) blocks; /* what data.blocks shows */
    VEC(uint32_t) unused;          /* blocks that are no more, to be used again */
    VEC(struct data_mixed) mixed;
    VEC(uint32_t) unused_mixed;
    VEC(uint32_t) met;   /* blocks that were painted over */
    VEC(uint32_t) split; /* chunks that were, some more than once */
    uint64_t now;
    uint32_t serial;    /* of the last block */
    uint64_t break_end; /* of the heap that brk makes; 0 not known */
    VEC(struct data_loaded) modules;
    struct map by_frames, by_path, by_name; /* hashes -> object */
    struct map frames;                      /* return address -> frame */
    struct map fields;                      /* object -> data_fields, 0 none */
    struct data_moved {
        uint64_t from, bytes, to;
    } moved; /* the mapping that moved last; bytes 0: it was asked for since */
    struct data_ended ended;
    struct data_files *files;
    struct data_lost lost;
};

/* files.c */
struct data_files *data_files_new(void);
void data_files_free(struct data_files *f);                              /* once by each user */
struct data_file *data_file_open(struct data *d, const char *path);      /* NULL after one line */
const struct image_unwind *data_unwind(struct data *d, uint32_t module); /* NULL: it has none */
struct variables *data_variables(struct data *d, struct data_file *m);   /* NULL: it has no debug information */

/* shadow.c */
uint32_t data_block_new(struct data *d, uint64_t start, uint64_t bytes, uint32_t object, uint32_t under);
uint32_t data_block_under(const struct data *d, uint32_t block); /* 0: none */
void data_block_drop(struct data *d, uint32_t block);            /* its memory was painted over */
/* All of [lo, hi) becomes `block`'s (0: nobody's). Other blocks that were there come into `met`, some more than once,
 * but not `expected` and what is under it. */
void data_paint(struct data *d, uint64_t lo, uint64_t hi, uint32_t block, uint32_t expected);
void data_shadow_new(struct data *d);
void data_shadow_free(struct data *d);

/* data.c */
struct data_object *data_object_new(struct data *d, enum data_kind kind, unsigned layer);
struct data_object *data_object_named(struct data *d, enum data_kind kind, unsigned layer, uint32_t module,
                                      const char *name);
/* bytes: of a block that was allocated so; 0: whatever its size */
struct data_object *data_object_of_path(struct data *d, unsigned layer, const uint64_t *path, size_t depth,
                                        uint64_t bytes);

bool data_begins_at(const struct data *d, unsigned layer, uint64_t address); /* a block of the layer */

/* modules.c */
int data_module_at(struct data *d, const char *path, uint64_t address, uint32_t *module); /* where its first page is */

/* frames.c */
bool data_open_debug(struct data *d, uint32_t module);         /* false: it has no debug information */
bool data_is_wrapper(struct data *d, uint64_t return_address); /* its function hands on what an allocator gives */
bool data_tells(struct data *d, uint64_t return_address);      /* its function has a name that tells who allocates */
bool data_has_names(struct data *d, uint64_t address);         /* functions of its file have such names */

/* ended.c */
void data_ended_note(struct data_ended *e, uint64_t address, enum data_end how);
enum data_end data_ended_how(const struct data_ended *e, uint64_t address); /* of the last block known to begin there */
void data_ended_copy(struct data_ended *to, const struct data_ended *from); /* *to is empty */
void data_ended_fini(struct data_ended *e);

/* blocks.c */
/* data_allocate of a path whose object is known. */
void data_allocate_of(struct data *d, struct data_object *o, uint64_t address, uint64_t bytes);
bool data_lay_block(struct data *d, const struct data_object *o, uint64_t address,
                    uint64_t bytes);                          /* false: cannot be */
void data_count_block(struct data_object *o, uint64_t bytes); /* one more, of so many bytes */

#endif
