/* SPDX-License-Identifier: Apache-2.0
 * A program's allocations while it runs, as the stream of its references tells them (REWRITE_REFERENCES), to what
 * src/data knows. */
#ifndef MTOOL_CMD_ALLOCATIONS_ALLOCATIONS_H
#define MTOOL_CMD_ALLOCATIONS_ALLOCATIONS_H

#include "cmd/cmd.h"
#include "data/data.h"
#include "launch/launch.h"
#include "rewrite/rewrite.h"

struct allocations; /* opaque */
struct allocations_options {
    const struct launch_program *program; /* with its copies; looked at by allocations_new only, see there */
    const struct rewrite_map *(*map_of)(void *ctx, size_t module); /* of its modules; NULL: it has no copy */
    void *ctx;                                                     /* of map_of, called by allocations_new only */
    const struct data_watched *own;                                /* allocators of the program's own; they must last */
    size_t own_count;
};
/* allocators.c: those that --allocator names, in the arena. 0, or -1 after one line. */
int allocators_choose(struct arena *a, const struct cmd_texts *texts, struct data_watched **out);
/* 1 if the program is linked statically, so that functions may be named by their addresses; 0; -1 after one line. */
int allocations_is_static(const char *path);
/* Adds to the options of copies which functions are watched. In the arena. */
void allocations_watch(struct arena *a, const struct data_watched *own, size_t own_count, struct rewrite_options *out);
/* Finds out of its files now what would take long later, while the program waits.
 * Before the run, which adds to the program's modules while allocations are taken in another thread. Maps must last. */
struct allocations *allocations_new(struct data *d, const struct allocations_options *opt);
/* Of another process with the same files. The other must last longer. */
struct allocations *allocations_new_beside(const struct allocations *other, struct data *d);
void allocations_free(struct allocations *a);
/* The file of a path, of a copy that of the original. */
const char *allocations_original(const struct allocations *a, const char *path);
/* An event of the stream, `left` entries from there on being in the chunk. How many it took. */
size_t allocations_take(struct allocations *a, const struct launch_chunk *chunk, const struct wire_entry *e,
                        size_t left);
const struct data_given *allocations_given(const struct allocations *a); /* as data_given */
void allocations_started(struct allocations *a, int pid); /* the process is there; before that nothing is mapped */
/* What it has mapped now, as far as nothing is known of it yet; not if that was read a moment ago. */
void allocations_read_maps(struct allocations *a);
void allocations_read_maps_now(struct allocations *a); /* even then */
/* Is each of the program's own in one of its files? -1 after one line: it is not. */
int allocations_have_own(const struct allocations *a);
void allocations_warn_of_none(const struct allocations *a); /* if no function that gives memory is watched */
struct allocations_lost {                                   /* of one process, or of several together */
    uint64_t blocks, unseen, odd, beyond;
};
void allocations_add_lost(const struct allocations *a, struct allocations_lost *to);
/* If more than a thousandth does not fit together; `program`: its path. */
void allocations_warn_of_lost(const char *program, const struct allocations_lost *l);

#endif
