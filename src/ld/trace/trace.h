/* SPDX-License-Identifier: Apache-2.0
 *
 * ld/trace: what the processes of a job write who were linked with `mtool ld --tool trace` (wire/trace.h), put in order
 * and expanded to references; and the forms that these are written in. */
#ifndef MTOOL_LD_TRACE_TRACE_H
#define MTOOL_LD_TRACE_TRACE_H

#include "cache/cache.h"

/* ---- sim.c: references through caches ---- */

struct ld_trace_thread;
struct ld_trace_sim; /* opaque */
/* Of configurations that cache_check takes, each simulated by itself, without causes. */
struct ld_trace_sim *ld_trace_sim_new(const struct cache_config *configs, size_t count);
void ld_trace_sim_free(struct ld_trace_sim *s);
void ld_trace_sim_refs(struct ld_trace_sim *s, const struct ld_trace_thread *who, const struct cache_ref *refs,
                       size_t count);
void ld_trace_sim_end(struct ld_trace_sim *s); /* before it is asked; ld_trace_end does it */
void ld_trace_sim_counts(const struct ld_trace_sim *s, size_t config, unsigned level, struct cache_counts *out);

/* ---- merge.c: the shared buffer ---- */

struct ld_trace_thread {
    uint32_t process, thread; /* as the system calls them */
    uint32_t number;          /* in the order in which they first came */
};
/* References of one thread, in the order in which they were made, behind all that was given before. */
typedef void ld_trace_take_fn(void *ctx, const struct ld_trace_thread *who, const struct cache_ref *refs, size_t count);

struct ld_trace_stats {
    uint64_t modules, processes, threads; /* modules: linked files in processes */
    uint64_t blocks;                      /* parts of them */
    uint64_t left_out; /* of these, that programs did not tell of, for they change nothing in the caches */
    uint64_t torn;     /* in which a process ended, or that were left otherwise before all was known */
    uint64_t lost;     /* blocks that found no room */
    uint64_t unread;   /* blocks whose code is not what the map says */
    uint64_t untold;   /* instructions, of blocks that were executed, whose references are not told */
    uint64_t unknown;  /* blocks of files that cannot be read */
    uint64_t skipped;  /* segments that nobody wrote */
    uint64_t made[4];  /* references by kind (CACHE_MODIFY is the fourth), but for string instructions that repeat */
};
struct ld_trace; /* opaque */
/* Makes the memory that they share. All goes to `sim`, or to `take` where that is NULL. 0, or -1 after one line. */
int ld_trace_new(ld_trace_take_fn *take, void *ctx, struct ld_trace_sim *sim, struct ld_trace **out);
const char *ld_trace_path(const struct ld_trace *t); /* for WIRE_TRACE_ENV */
/* Gives what is there. False: there was nothing. */
bool ld_trace_read(struct ld_trace *t);
/* No more is to come: gives the rest, and tells who still writes. */
void ld_trace_end(struct ld_trace *t);
const struct ld_trace_stats *ld_trace_stats(const struct ld_trace *t);
void ld_trace_free(struct ld_trace *t);

/* ---- write.c: forms ---- */

#define LD_TRACE_FORMS(X)                                                                                              \
    X(COMPACT, "compact")                                                                                              \
    X(DIN, "din")                                                                                                      \
    X(LACKEY, "lackey")
enum ld_trace_form {
#define X(id, name) LD_TRACE_FORM_##id,
    LD_TRACE_FORMS(X)
#undef X
        LD_TRACE_FORM_COUNT
};
struct ld_trace_writer; /* opaque */
/* Into a descriptor, which stays the caller's. */
struct ld_trace_writer *ld_trace_writer_new(enum ld_trace_form form, int fd);
void ld_trace_writer_put(struct ld_trace_writer *w, const struct ld_trace_thread *who, const struct cache_ref *refs,
                         size_t count);
/* 0, or the number of the error by which writing failed. */
int ld_trace_writer_end(struct ld_trace_writer *w);
int ld_trace_writer_error(const struct ld_trace_writer *w);

/* ---- compact.c: the compact form, read ----
 *
 *   0  "mtoolctr"  8 version u32 (1)  12 zeros u32, then records:
 *
 *   a byte 0xf8: another thread: its number, process and thread, as LEB128 numbers
 *   a byte 0xfc: the end, with the number of references before it as a LEB128 number
 *   else a reference: bits 0 and 1 its kind (fetch, read, write, modify); bits 2 to 6 its bytes, 1 to 29, or 0: they
 *   follow as a LEB128 number; bit 7: its address is where the thread's last fetch, or last other reference, ended;
 * else the difference from there follows, as a LEB128 number, zigzag */
struct ld_trace_compact; /* opaque */
/* 0, or -1 after one line. */
int ld_trace_compact_open(const char *path, struct ld_trace_compact **out);
/* So many references of one thread; 0 at the end, -1 after one line. */
ptrdiff_t ld_trace_compact_next(struct ld_trace_compact *c, struct ld_trace_thread *who, struct cache_ref *out,
                                size_t max);
void ld_trace_compact_close(struct ld_trace_compact *c);

#endif
