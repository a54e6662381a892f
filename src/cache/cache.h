/* SPDX-License-Identifier: Apache-2.0
 *
 * cache: a stream of references into misses, their causes, and who evicted what. It knows no program: a reference is an
 * address, a size and a number of the caller's. The models are those of doc/spy.md.
 *
 *     struct cache_config config;
 *     if (cache_parse("32K/64/8+1M/64/16", &config) < 0) ...
 *     struct cache *c = cache_new(&config, true);
 *     while ((n = next(references))) cache_run(c, references, n);
 *     cache_counts(c, 0)->misses[CACHE_READ] ...
 */
#ifndef MTOOL_CACHE_H
#define MTOOL_CACHE_H

#include "base/base.h"
#include "machine/machine.h"

/* ---- spec.c: what is simulated ---- */

enum {
    CACHE_LEVELS_MAX = 8,
    CACHE_LINE_MIN = 4,
    CACHE_LINE_MAX = 1 << 30,
    CACHE_LINES_MAX = 1 << 27, /* of a level: 8 GB of lines of 64 bytes */
    CACHE_PAGE_MIN = 4096,     /* lines as long are pages: what others write takes none away */
    CACHE_THREADS_MAX = 64,
    CACHE_CELLS_MAX = 1 << 29
};

/* The order of the words in `cache_policy_name`. */
enum cache_policy { CACHE_LRU, CACHE_PLRU, CACHE_RANDOM, CACHE_POLICY_COUNT };
enum cache_side { CACHE_DATA = 1, CACHE_CODE = 2, CACHE_BOTH = 3 }; /* whose references a level is reached by */
enum cache_inclusion {
    CACHE_NEITHER,   /* a line may be here and nearer, or in one of them */
    CACHE_INCLUSIVE, /* what is evicted here leaves all nearer levels too */
    CACHE_EXCLUSIVE, /* holds what the level above evicted; a hit moves the line up */
    CACHE_INCLUSION_COUNT
};

struct cache_level {
    uint64_t size_bytes; /* line_bytes * ways * sets */
    uint32_t line_bytes; /* a power of two */
    uint32_t ways;       /* 1: direct-mapped; as many as lines: fully associative */
    enum cache_policy policy;
    enum cache_side side;
    enum cache_inclusion inclusion;
    bool write_through, no_allocate; /* a write that misses does not bring the line in */
    bool whole;                      /* is asked for all lines of a reference of which the level above lacks one */
    bool is_shared;                  /* by all threads; else each has one of its own */
    bool has_streams;                /* of its misses it is told which a prefetcher would have caught */
    uint64_t seed;                   /* of CACHE_RANDOM, above 0 */
};

/* Nearest first. Levels of one side alone come before those of both, private ones before shared ones; the references of
 * a side reach its levels in order. A side may have none. */
struct cache_config {
    struct cache_level levels[CACHE_LEVELS_MAX];
    unsigned count;
};

/* The text of doc/spy.md: LEVEL+LEVEL..., LEVEL: BYTES/LINE/WAYS[:WORD]... 0, or -1 after one line. */
int cache_parse(const char *spec, struct cache_config *out);
/* What cannot be in such levels, whoever made them; `name` stands for them in messages. 0, or -1 after one line. */
int cache_check(const char *name, const struct cache_config *config);
/* A text from which cache_parse makes the same. */
void cache_format(const struct cache_config *config, struct strbuf *out);
void cache_format_level(const struct cache_level *l, struct strbuf *out); /* bytes, line and ways alone */
/* "L1", "I1", "L2": by how far it is from the processor; of a side's own level I or D, where there are both. */
const char *cache_level_name(const struct cache_config *config, unsigned level, char out[8]);
const char *cache_policy_name(enum cache_policy p);       /* "LRU", "tree-PLRU", "random" */
const char *cache_inclusion_name(enum cache_inclusion i); /* "neither", "inclusive", "exclusive" */
/* A machine's caches, or its TLBs as caches whose lines are pages; count 0 if it describes none. Ways that are not
 * known are taken for 8; of a measured size what is no whole set is left out. 0, or -1 after one line. */
int cache_of_machine(const struct machine *m, bool tlbs, struct cache_config *out);

/* ---- references ---- */

enum cache_kind {
    CACHE_FETCH,
    CACHE_READ,
    CACHE_WRITE,
    CACHE_KIND_COUNT,
    CACHE_MODIFY = CACHE_KIND_COUNT,
    CACHE_USE /* data of one line that the nearest level has are used: its order changes, nothing is counted; nothing
                 happens if it has not */
};
const char *cache_kind_name(enum cache_kind k); /* "fetches", "reads", "writes" */

struct cache_ref {
    uint64_t address;
    uint32_t cell;  /* whose reference it is: a number of the caller's below CACHE_CELLS_MAX; tables are as long as the
                       largest */
    uint16_t bytes; /* 1 or more; address + bytes does not pass 2^64 */
    uint8_t kind;   /* enum cache_kind; CACHE_MODIFY: a load and a store of the same bytes, counted as one read */
    uint8_t thread; /* below CACHE_THREADS_MAX: the private levels that it goes through */
};

/* ---- hierarchy.c: the simulation ---- */

/* Of a miss. The line was not in the level before (cold); a fully associative LRU cache of the same size, reached by
 * the same references, would have missed too (capacity), or not (conflict); it was taken out because a further level
 * that is inclusive evicted it (inclusion); the last reference to it was a write that missed and does not allocate
 * (around); another thread's write took it away, and what is used before it leaves again had been written by others
 * (true sharing) or not (false sharing). What is not yet known to be true sharing counts as false. */
enum cache_cause {
    CACHE_COLD,
    CACHE_CAPACITY,
    CACHE_CONFLICT,
    CACHE_INCLUSION,
    CACHE_AROUND,
    CACHE_TRUE_SHARING,
    CACHE_FALSE_SHARING,
    CACHE_CAUSE_COUNT
};
const char *cache_cause_name(enum cache_cause c); /* "cold", "capacity", ..., "true_sharing" */

struct cache_counts { /* of one level, of all threads; a reference counts once, however many lines it reaches */
    uint64_t references[CACHE_KIND_COUNT], misses[CACHE_KIND_COUNT];
    uint64_t causes[CACHE_KIND_COUNT][CACHE_CAUSE_COUNT]; /* of misses; zeros unless causes are wanted */
    uint64_t streamed[CACHE_KIND_COUNT];                  /* of misses, if a level has_streams and causes are wanted */
    uint64_t write_backs;                                 /* dirty lines that left it */
    uint64_t write_throughs;                              /* writes that it handed on */
};

struct cache; /* opaque */
/* `with_causes`: causes, cells and evictors are kept too, which takes several times as long. The configuration is one
 * that cache_check takes. */
struct cache *cache_new(const struct cache_config *config, bool with_causes);
void cache_free(struct cache *c);
void cache_run(struct cache *c, const struct cache_ref *refs, size_t count);
/* The same of one, for who needs to know at once: the levels that missed it, bit 0 is levels[0]. */
unsigned cache_reach(struct cache *c, const struct cache_ref *ref);
/* The address of a line that went from levels[0] for the last cache_reach, the last such one; false: none did. */
bool cache_evicted(const struct cache *c, uint64_t *address);
const struct cache_counts *cache_counts(const struct cache *c, unsigned level);

/* ---- results.c: by cell ---- */

struct cache_cell {
    uint64_t references, misses, causes[CACHE_CAUSE_COUNT]; /* of a level; misses are the sum of causes */
    uint64_t streamed;                                      /* of misses; as in cache_counts */
};
struct cache_evictor {
    uint32_t cell, by; /* a reference of `by` evicted what a reference of `cell` missed later */
    uint64_t misses;
};
/* Of a level, by the number of the cell; *count: how many. Valid until the next cache_run. */
const struct cache_cell *cache_cells(const struct cache *c, unsigned level, size_t *count);
#define CACHE_OTHERS UINT32_MAX
/* The pairs of a level, by cell, of each those with most misses first; last, by CACHE_OTHERS, what other pairs had that
 * are not kept. In the arena. */
const struct cache_evictor *cache_evictors(const struct cache *c, unsigned level, struct arena *a, size_t *count);
/* absorb.c: what another one counted counts here too, each of its cells as cells[cell]; both of the same configuration,
 * with causes, and the other through with all its references. Without the lines that threads share. */
void cache_absorb(struct cache *c, const struct cache *from, const uint32_t *cells);
/* At most so many pairs of a level are kept, those with most misses; 262,144 unless it is said. */
void cache_keep_evictors(struct cache *c, size_t max);

struct cache_party { /* of a line that threads take from each other: what one cell's references do to it in one thread
                      */
    uint32_t cell, thread;
    uint64_t read, written;      /* the bytes of the line, a bit each; of a longer one than 64 bytes, 64ths of it */
    uint64_t misses, taken_away; /* this side's misses; misses of others on account of this side's writes */
};
struct cache_shared_line {
    uint64_t address, true_misses, false_misses; /* times that a thread fetched what another's write had taken away */
    const struct cache_party *sides;             /* most misses and takings first */
    size_t side_count, unlisted;                 /* references of more sides than are kept */
};
/* Of which lines any thread has lost one to another's write, and missed it for that, as it becomes known: a bit for
 * each of those whose numbers have the same low bits, set while references run, and never cleared. Lines as below. */
enum { CACHE_LOST_BITS = 22 };
struct cache_lost {
    uint64_t changes; /* of a bit, so many */
    uint64_t lost[(1 << CACHE_LOST_BITS) / 64], missed[(1 << CACHE_LOST_BITS) / 64];
};
void cache_tell_lost(struct cache *c, struct cache_lost *lost); /* before the first reference */
/* Those with most misses first, `max` at most; as long as the longest line of a private level. In the arena. */
const struct cache_shared_line *cache_shared_lines(const struct cache *c, struct arena *a, size_t max, size_t *count);

/* ---- windows/sample.c: estimates from windows of the stream ---- */

/* What runs between begin and end is a window; nothing is known of the caches at its begin. `weight`: how many times
 * its own references it stands for. Only with causes. Counts, cells and tables above are those of the windows
 * themselves, unweighted, and `cold` is what was not in that window before. */
void cache_window_begin(struct cache *c);
void cache_window_end(struct cache *c, double weight);
/* The same, of a window in which there were so many references, most of which were not run since they are known to hit
 * the nearest level. */
void cache_window_end_of(struct cache *c, uint64_t references, double weight);
/* Work of a kind that a window has; all of a window and a kind in one piece or several. */
struct cache_work {
    uint32_t window, kind;
    double amount;
};
/* weights[windows], about 1: with them the windows together do of each kind as much in proportion as the whole run,
 * whole[kinds], as far as they can. Windows without work weigh 1. */
void cache_work_weights(const struct cache_work *work, size_t count, const double *whole, size_t kinds, double *weights,
                        size_t windows);
/* After the last one, before the next function: each window weighs so many times what it was told. */
void cache_windows_weigh(struct cache *c, const double *weights);
/* After the last one: so that all windows together stand for so many references, and what a cell missed counts
 * factor[cell] times, as often as windows have too little of its code; of those from `count` on once. */
void cache_windows_stand_for(struct cache *c, double references, const double *factor, size_t count);

/* ---- sets.c: the other way to do less ---- */

/* A part of the sets of all levels: lines of 1 << shift bytes whose number times CACHE_PART_FACTOR has `value` under
 * `mask`. They share no set of any level with other lines, so what is simulated of them alone is exact. */
struct cache_part {
    unsigned one_in, shift, key_bits; /* key_bits: of a line's number, which say whether it is taken */
    uint32_t mask, value;
};
#define CACHE_PART_FACTOR 0x2545f491u
enum { CACHE_PART_KEYS_MIN = 2, CACHE_GROUPS = 16 };
static inline bool cache_is_taken(const struct cache_part *p, uint64_t address)
{
    return (((address >> p->shift) * CACHE_PART_FACTOR) & p->mask) == p->value;
}
/* One of `one_in` parts (a power of two), the `which`-th. Of several configurations, each simulated by itself; levels
 * of code alone do not count. 0, or -1 after one line. */
int cache_choose_part(const struct cache_config *configs, size_t count, unsigned one_in, unsigned which,
                      struct cache_part *out);
/* It is given references to that part alone. Counts, cells and tables are of these; shadows are as much smaller, so
 * that causes are as of all. Before the first reference, and not together with windows. */
void cache_take_part(struct cache *c, const struct cache_part *part);

struct cache_estimate {    /* of all that the windows, or the sets, stand for */
    double references;     /* to the level */
    double known, unknown; /* misses; what hit or missed, as the level, or a nearer one, had room for its line yet */
    double part;           /* of the unknown ones that miss, as windows/ages.h has it; 0.5 where nothing tells */
    double misses;         /* known + part * unknown */
    double cold;           /* of these, lines that the run, not the window, meets for the first time: as many as there
                              are, by how many windows met each (windows/met.h); of sets NAN: their causes are exact */
    double low, high; /* known to known + unknown, widened by t times the standard error between windows (95 %), or by
                         what they may all have passed by: 3 / n of the run, and more of what was met in few windows */
    double error;     /* that error, of known + unknown */
    double mu;        /* share of its time in the level that a line is of no more use: of unknown ones that miss; NAN */
    double mu_own;    /* the same of lines that this cell brought in */
    double generations; /* lines that came and went for known misses, for each line of the level and each window */
    uint64_t windows;   /* in which it missed, or may have; of sets: of their groups, 16 at most */
};
struct cache_estimate cache_estimate(const struct cache *c, unsigned level);
struct cache_estimate cache_estimate_cell(const struct cache *c, unsigned level, uint32_t cell);
/* Of several cells together. */
struct cache_estimate cache_estimate_cells(const struct cache *c, unsigned level, const uint32_t *cells, size_t count);
/* What of the unknown misses is told: the part that is thought to miss; none; all. */
enum cache_reading { CACHE_LIKELY, CACHE_LEAST, CACHE_MOST, CACHE_READINGS };
/* Adds `factor` times what the cell missed in each window of all that these stand for. */
void cache_windows_add(const struct cache *c, unsigned level, uint32_t cell, enum cache_reading reading, double factor,
                       double *of_windows);
size_t cache_window_count(const struct cache *c);
/* Half the width of the 95 % interval of the sum of such figures, whose mean is 0. */
double cache_windows_error(const struct cache *c, const double *of_windows);
/* The part of all that may lie between the windows: as much may be missing of any figure, or be told too often. */
double cache_windows_passed_by(const struct cache *c);
/* Of what was met in `met` windows: the part of all that may be its own and lie between them; 0 if it was met in many,
 * for then the error tells. */
double cache_windows_unmet(const struct cache *c, size_t met);
/* Half the width of the 95 % interval of what all sets have together, of which a figure for each group is known. */
double cache_groups_error(const struct cache *c, const double *of_groups, unsigned count);
/* Misses by group of the sets that are simulated, [*count] of them; NULL: it has none. */
const uint64_t *cache_cell_groups(const struct cache *c, unsigned level, uint32_t cell, unsigned *count);

/* ---- curve.c: the misses of fully associative LRU caches of many sizes, in one pass ---- */

struct cache_curve; /* opaque */
enum { CACHE_CURVE_SIZES_MAX = 20 };
/* Of lines of that size, a power of two; of the reads and writes among the references. Of caches of `least_bytes`, a
 * power of two, and of powers of two from there to `max_bytes`, so many at most. */
struct cache_curve *cache_curve_new(uint32_t line_bytes, uint64_t least_bytes, uint64_t max_bytes);
void cache_curve_free(struct cache_curve *k);
void cache_curve_run(struct cache_curve *k, const struct cache_ref *refs, size_t count);
uint64_t cache_curve_references(const struct cache_curve *k);
uint64_t cache_curve_lines(const struct cache_curve *k);                  /* that were reached at all */
uint64_t cache_curve_misses(const struct cache_curve *k, uint64_t bytes); /* of a cache of one of these sizes */
/* By cell too. Before the first reference. The misses of all cells add up to those above, which leave nothing out. */
void cache_curve_by_cell(struct cache_curve *k);
uint64_t cache_curve_cell_misses(const struct cache_curve *k, uint32_t cell, uint64_t bytes);
/* Before the first reference of both: who runs the cache runs the curve with it, which costs less than by itself.
 * False: not these two, and nothing has changed. */
bool cache_carry_curve(struct cache *c, struct cache_curve *k);
void cache_curve_absorb(struct cache_curve *k, const struct cache_curve *from, const uint32_t *cells); /* as above */

/* ---- reader.c: references as text ---- */

enum cache_form { CACHE_FORM_NONE, CACHE_FORM_LACKEY, CACHE_FORM_DIN };
const char *cache_form_name(enum cache_form f); /* "lackey", "din"; NULL if nothing was read */

struct cache_reader; /* opaque */
/* Of a file, "-": standard input. 0, or -1 after one line. */
int cache_reader_open(const char *path, struct cache_reader **out);
/* Of memory, which must last; `name` stands for it in messages. */
struct cache_reader *cache_reader_of(const char *name, const char *text, size_t len);
void cache_reader_close(struct cache_reader *r);
/* The next references, at most `max`; their cell is the number of the instruction that made them. How many; 0 at the
 * end; -1 after one line that names the line that is wrong. */
ptrdiff_t cache_reader_next(struct cache_reader *r, struct cache_ref *out, size_t max);
enum cache_form cache_reader_form(const struct cache_reader *r);
/* The address of an instruction by its number; cell 0 is of references before the first instruction. */
uint64_t cache_reader_place(const struct cache_reader *r, uint32_t cell);
void cache_reader_progress(const struct cache_reader *r, uint64_t *done, uint64_t *total); /* bytes; total 0: unknown */

#endif
