/* SPDX-License-Identifier: Apache-2.0
 *
 * base: what every other folder stands on. Memory by lifetime (arenas), growing arrays, strings, a hash map,
 * files, JSON output, and the one way to speak to the user. Nothing here knows what mtool is for.
 */
#ifndef MTOOL_BASE_H
#define MTOOL_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define ALIGN_UP(x, a) (((x) + ((a)-1)) & ~((__typeof__(x))(a)-1))
#define ALIGN_DOWN(x, a) ((x) & ~((__typeof__(x))(a)-1))
#define ID_NONE UINT32_MAX /* the id of nothing, in every array of the intermediate forms */

static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* ---- arena.c: memory by lifetime. Out of memory ends the process, so no caller tests for it. ---- */

struct arena; /* opaque; everything in it is freed at once */
struct arena *arena_new(void);
void arena_free(struct arena *a);
void *arena_alloc(struct arena *a, size_t len_bytes); /* zeroed, aligned to 16 */
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t len_bytes);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))
void *arena_alloc_sparse(struct arena *a, size_t len_bytes); /* as xmalloc_sparse */
#define ARENA_SPARSE(a, type, n) ((type *)arena_alloc_sparse((a), sizeof(type) * (size_t)(n)))

void heap_begin(void); /* once, when own limits are set: malloc takes pages of 2 MB, where there are such */
void xmalloc_failed(void) __attribute__((noreturn)); /* one line and status 125: also for libraries that ask */
void *xmalloc(size_t len_bytes);                     /* zeroed; ends the process when there is no memory */
void *xmalloc_sparse(size_t len_bytes); /* the same for what gets used here and there: of much it takes only the pages
                                           used; for xfree_sparse alone */
void xfree_sparse(void *p);
void *xrealloc(void *p, size_t len_bytes); /* not zeroed */
char *xstrdup(const char *s);

/* A growing array on the heap: VEC(int) v = {0}; VEC_PUSH(&v, 3); v.data[0]; VEC_FREE(&v). */
#define VEC(type)                                                                                                      \
    struct {                                                                                                           \
        type *data;                                                                                                    \
        size_t len, cap;                                                                                               \
    }
#define VEC_RESERVE(v, n) vec_reserve((void **)&(v)->data, &(v)->cap, (n), sizeof(*(v)->data))
#define VEC_PUSH(v, x) ((v)->len < (v)->cap ? (void)0 : VEC_RESERVE((v), (v)->len + 1), (v)->data[(v)->len++] = (x))
#define VEC_SHRINK(v) vec_shrink((void **)&(v)->data, (v)->len, &(v)->cap, sizeof(*(v)->data)) /* to what it holds */
#define VEC_FREE(v) vec_free((void **)&(v)->data, &(v)->len, &(v)->cap)
void vec_reserve(void **data, size_t *cap, size_t want, size_t item_bytes);
void vec_shrink(void **data, size_t len, size_t *cap, size_t item_bytes);
void vec_free(void **data, size_t *len, size_t *cap);

/* ---- search ---- */

/* The first i of [from, end) for which `is_before`, an expression in i, does not hold; end if there is none. It holds
 * for all before that one and for none behind it. */
#define PARTITION_POINT(i, from, end, is_before)                                                                       \
    ({                                                                                                                 \
        size_t lo_ = (from), hi_ = (end);                                                                              \
        while (lo_ < hi_) {                                                                                            \
            size_t i = lo_ + (hi_ - lo_) / 2;                                                                          \
            if (is_before)                                                                                             \
                lo_ = i + 1;                                                                                           \
            else                                                                                                       \
                hi_ = i;                                                                                               \
        }                                                                                                              \
        lo_;                                                                                                           \
    })

/* ---- str.c: a growing, always terminated string ---- */

struct strbuf {
    char *data; /* NULL while empty */
    size_t len, cap;
};
void str_put(struct strbuf *s, const void *bytes, size_t len);
void str_puts(struct strbuf *s, const char *text);
void str_put_quoted(struct strbuf *s, const char *word); /* as one word of a shell */
void str_printf(struct strbuf *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_free(struct strbuf *s);
void str_reserve(struct strbuf *s, size_t more); /* room for so many bytes, and the end */
/* LEB128, straight into the buffer, without a null behind it: a large module has 15 million numbers. */
static inline void str_put_uleb(struct strbuf *s, uint64_t v)
{
    enum { MAX = 10 };
    if (s->cap - s->len <= MAX)
        str_reserve(s, MAX);
    for (; v >= 0x80; v >>= 7)
        s->data[s->len++] = (char)(v | 0x80);
    s->data[s->len++] = (char)v;
}
/* The text with control characters (below 0x20, 0x7f) as \xNN, so that a name cannot drive a terminal. In `a`. */
const char *str_printable(struct arena *a, const char *text);
/* Bytes to be changed, put in or left out to make one of the other (Levenshtein); of long texts the first 60. */
unsigned str_distance(const char *a, const char *b);
/* Is a function's name one of the patterns, which have blanks between them? One that ends in * may go on. A compiler's
 * copies of a function (.isra.0, .constprop.0, .cold behind the name) are the function. */
bool name_fits(const char *patterns, const char *name);

/* ---- cursor.c: bytes read in order; a step past the end makes it bad, and it stays so and yields zeros ---- */

struct cursor {
    const uint8_t *start, *p, *end;
    uint64_t vaddr; /* of start */
    bool is_bad;
};
static inline uint64_t cursor_vaddr(const struct cursor *c) { return c->vaddr + (uint64_t)(c->p - c->start); }
static inline uint64_t cursor_left(const struct cursor *c) { return (uint64_t)(c->end - c->p); }
void cursor_skip(struct cursor *c, uint64_t len);
uint64_t cursor_uint(struct cursor *c, unsigned len_bytes); /* 1, 2, 4 or 8 */
uint64_t cursor_uleb(struct cursor *c);                     /* more than 64 bits is bad */
int64_t cursor_sleb(struct cursor *c);

/* ---- map.c: uint64_t -> uint64_t, open addressing. ---- */

struct map {
    uint64_t *keys, *vals;
    uint8_t *used;
    size_t len, cap; /* cap is a power of two or 0 */
};
void map_put(struct map *m, uint64_t key, uint64_t val); /* replaces */
uint64_t *map_place(struct map *m, uint64_t key);        /* its value, 0 if it is new; until the next one is put */
bool map_get(const struct map *m, uint64_t key, uint64_t *val);
bool map_has(const struct map *m, uint64_t key);
struct map map_copy(const struct map *m);
void map_fini(struct map *m);

/* ---- student.c ---- */

#define NORMAL_T 1.959963984540054 /* 97.5 % quantile of the normal distribution, ... */
double student_t(size_t freedom);  /* ... and of Student's t */

/* ---- rng.c ---- */

struct rng {
    uint64_t state; /* a seed, to begin with */
};
uint64_t rng_next(struct rng *g);
uint64_t rng_below(struct rng *g, uint64_t n); /* 0..n-1, n > 0 */
double rng_fraction(struct rng *g);            /* below 1 */

/* ---- parallel.c ---- */

typedef void (*parallel_fn)(void *ctx, size_t first, size_t end);
/* Calls fn for ranges of `grain` items (the last may be shorter) that together are [0, n), in any order and by several
 * threads; returns when all are done. What fn writes must depend on its range alone. */
void parallel_for(size_t n, size_t grain, parallel_fn fn, void *ctx);
void parallel_each(size_t n, parallel_fn fn, void *ctx); /* the same for items worth a thread */
/* Likewise, where each range makes a list of which nobody knows beforehand how long it is: `make` fills an empty one,
 * `take` is given it behind those of all ranges before, by one thread at a time. A list's memory serves other ranges
 * then: what was made is taken while it is in the processor's caches, and takes little memory of its own. */
struct parallel_list {
    void *data;
    size_t len, cap; /* in items of whatever it holds */
};
typedef void (*parallel_list_fn)(void *ctx, size_t first, size_t end, struct parallel_list *list);
void parallel_lists(size_t n, size_t grain, parallel_list_fn make, parallel_list_fn take, void *ctx);
void parallel_both(void (*one)(void *ctx), void (*other)(void *ctx), void *ctx); /* returns when both are done */
/* Calls fn once, and until it is done `meanwhile` every few milliseconds, in the caller's thread. */
void parallel_meanwhile(void (*fn)(void *ctx), void *ctx, void (*meanwhile)(void *ctx), void *meanwhile_ctx);
unsigned parallel_processors(void); /* threads that can run at the same time, by parallel_max too */
extern unsigned parallel_max;       /* threads at most; 0: as many as there are processors for this process, up to 16 */

/* ---- file.c ---- */

struct file_bytes {
    const uint8_t *data; /* mapped read-only, private */
    size_t len;
};
/* Maps a whole regular file. 0, or -1 with errno set and nothing reported (the caller knows what the file is for). */
int file_map(const char *path, struct file_bytes *out);
void file_unmap(struct file_bytes *f);
void file_rest(const struct file_bytes *f); /* no memory is held for it until it is read again */
/* Hands out each line, with its end, which may be changed. 0, or -1 with errno set and nothing reported. */
int file_each_line(const char *path, void (*take)(void *ctx, char *line), void *ctx);
/* Writes PATH by way of a temporary file in the same folder, fsync and rename, so that PATH is whole or absent.
 * 0, or -1 with errno set; nothing reported. */
int file_write_whole(const char *path, const void *bytes, size_t len, unsigned mode);
/* The same of what can be made again and whose reader notices damage (a cache): no disk is waited for, so that a
 * machine that loses its power may leave it empty. gdb with its libraries had 180 waits, of up to 33 ms. */
int file_write_kept(const char *path, const void *bytes, size_t len, unsigned mode);
/* The same of a temporary file: no disk is waited for, and who reads it meanwhile may find a part. */
int file_write_scratch(const char *path, const void *bytes, size_t len, unsigned mode);
/* The same in two steps: the name of the temporary file, on the heap, or NULL; then it goes into place and its name is
 * freed. */
char *file_write_temporary(const char *path, const void *bytes, size_t len, unsigned mode, bool is_synced);
int file_rename_into_place(char *temporary, const char *path);
int file_put_at(int fd, const void *bytes, size_t len, uint64_t off); /* all of them; 0, or -1 with errno */
int file_make_dirs(const char *path, unsigned mode);                  /* like mkdir -p; 0 or -1 with errno */
bool file_exists(const char *path);
int64_t file_changed_s(const char *path); /* when its content changed last, seconds since 1970; -1 with errno */
char *file_real_path(struct arena *a, const char *path); /* realpath, or NULL with errno */
const char *file_base_name(const char *path);            /* after the last slash */
char *file_cache_dir(struct arena *a);                   /* $XDG_CACHE_HOME/mtool or ~/.cache/mtool or /tmp/mtool-UID */
/* What each kind of kept thing may take there: MTOOL_CACHE_MB, 4096 MB without. False: it is no number; as without. */
bool file_cache_limit(uint64_t *bytes);
/* 128-bit hash of bytes as 32 hex digits in out[33]; for cache keys, not for security. */
void file_hash_hex(const void *bytes, size_t len, char out[33]);

/* ---- diag.c: speaking to the user, always on stderr ---- */

/* Wrong input is reported once, where the most is known: what is wrong, where, what to do. One line each.
 * Prints "mtool: error: TEXT". Returns -1, so that `return diag_error(...)` reads well. */
int diag_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Errors of this thread, and of those that work for it (parallel.c), are not printed but appended to `to` until this is
 * called with NULL: for who can say more of them than their finder. */
void diag_hold(struct strbuf *to);
struct strbuf *diag_held(void); /* where to; NULL: they are printed */
/* A warning with a fixed id (a paragraph of doc/warnings.md). Printed as "mtool: warning: TEXT [ID]" and remembered. */
void diag_warn(const char *id, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void diag_note(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* "mtool: TEXT"; silent with diag_quiet */
struct diag_warning {
    const char *id, *text;
};
size_t diag_warnings(const struct diag_warning **out); /* all since the start, for the profile */
extern bool diag_quiet;
extern int diag_verbose; /* -v: 1, -vv: 2 */
void diag_debug(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Progress: one line on stderr, rewritten in place; only if stderr is a terminal and the phase lasts over a second.
 * `done`/`total` in any unit, total 0 if unknown. diag_progress_end clears the line. */
void diag_progress(const char *phase, uint64_t done, uint64_t total);
/* The same with what is at work now, which may change. */
void diag_progress_of(const char *phase, const char *what, uint64_t done, uint64_t total);
void diag_progress_end(void);
double time_now_s(void);         /* CLOCK_MONOTONIC */
double time_of_thread_s(void);   /* processor time of the calling thread */
uint64_t time_now_ns(void);      /* the same clock */
double time_since_start_s(void); /* since main first called time_start */
void time_start(void);

/* ---- json.c: JSON written as it comes, always valid ---- */

struct json {
    struct strbuf *out;
    int depth;
    bool need_comma[32];
    bool pretty; /* a member a line */
};
void json_init(struct json *j, struct strbuf *out, bool pretty);
void json_object(struct json *j, const char *key); /* key NULL inside an array or at the top */
void json_object_end(struct json *j);
void json_array(struct json *j, const char *key);
void json_array_end(struct json *j);
void json_str(struct json *j, const char *key,
              const char *val); /* NULL prints null; bytes that are no UTF-8 are replaced */
void json_u64(struct json *j, const char *key, uint64_t val);
void json_i64(struct json *j, const char *key, int64_t val);
void json_hex(struct json *j, const char *key, uint64_t val); /* "0x1234" */
void json_real(struct json *j, const char *key, double val);  /* not finite prints null */
void json_bool(struct json *j, const char *key, bool val);
void json_null(struct json *j, const char *key);

#endif
