/* SPDX-License-Identifier: Apache-2.0
 *
 * data: what a process keeps its data in. Allocations, symbols and mappings into blocks (a stretch of memory), blocks
 * into objects (what is spoken of: a variable, all blocks that one place allocates, a file that is mapped), and an
 * address into the block that holds it. Knows no simulator: whoever has references asks.
 *
 *     struct data *d = data_new();
 *     data_map(d, &(struct data_map){lo, bytes, DATA_STACK, "stack", NULL, 0});
 *     data_module(d, "/usr/bin/sqlite3", load, &module);
 *     data_allocate(d, DATA_LAYER_HEAP, address, bytes, path, depth);
 *     const struct data_block *b = data_block_at(d, reference);
 *     puts(data_object_name(d, b->object));
 *     data_free(d);
 *
 * Of one process, and of one thread of the caller's at a time. Addresses are those of the process, in its originals: of
 * code that a copy executes, those of the original.
 */
#ifndef MTOOL_DATA_H
#define MTOOL_DATA_H

#include "base/base.h"
#include "debug/debug.h"
#include "image/image.h"

/* ---- objects ---- */

enum data_kind {
    DATA_HEAP,    /* blocks of a place that allocates */
    DATA_GLOBAL,  /* a variable or constant, or what a section holds beside those that have names */
    DATA_THREAD,  /* a variable that each thread has its own of */
    DATA_STACK,   /* frames */
    DATA_MAPPING, /* a file, shared memory, pages of nobody that is known */
    DATA_CODE,    /* instructions, and what stands between them */
    DATA_OTHER,   /* the rest */
    DATA_KIND_COUNT
};

/* What lies upon what: of two blocks that hold an address the one of the higher layer is told. Allocators that get
 * their memory of others have the numbers from DATA_LAYER_CUSTOM on, those that are farther from the system the higher
 * ones. */
enum {
    DATA_LAYER_MAPPING,
    DATA_LAYER_SECTION,
    DATA_LAYER_SYMBOL,
    DATA_LAYER_HEAP,
    DATA_LAYER_CUSTOM,
    DATA_LAYER_LOCALS = 253,
    DATA_LAYER_LOCAL,
    DATA_LAYER_NAMED
};

enum { DATA_PATH_MAX = 16, DATA_DEPTH_MAX = 16 }; /* frames of a path; blocks one upon the other */

enum { DATA_SIZE_CLASS_MIN = 4 };
struct data_object {
    uint32_t id; /* its place among all: 0, 1, ...; 0 is what nothing is known of */
    enum data_kind kind;
    uint8_t layer;
    uint32_t module;      /* ID_NONE: of none */
    const char *name;     /* of the variable, the file...; NULL: see data_object_name */
    const uint64_t *path; /* of what is allocated: return addresses, the innermost first, wrappers left out */
    uint32_t path_len;
    unsigned size_class;                    /* of what is allocated, where the path tells little: its blocks have at
                                               most 2^size_class bytes, and more than half of that but in the
                                               least; 0: any */
    uint64_t offset;                        /* of a symbol its address in the file; of what is allocated where */
    uint64_t blocks, live_blocks;           /* allocated ever; now */
    uint64_t bytes, live_bytes, peak_bytes; /* the same of bytes, and most at a time; with the holes of
                                               mappings */
    uint64_t largest, smallest;             /* bytes of a block as it was allocated */
};

/* ---- shadow.c: from an address to its block ---- */

struct data_block {
    uint64_t start, bytes; /* bytes 0: is no more */
    uint64_t since;        /* data_set_time's */
    uint32_t object;
    uint32_t under;  /* block that holds what this one leaves of its first and last 16 bytes, and what it was cut of */
    uint32_t serial; /* no other block has, or had, the same */
    bool is_covered; /* another one lies, or lay, upon a part of it */
};
enum { DATA_PAGE = 12, DATA_CHUNK = 21, DATA_GRANULE = 4 }; /* bits of an address within one */
#define DATA_SPLIT 0x80000000u                              /* the answer is a step finer */
struct data_chunk {
    uint32_t page[1 << (DATA_CHUNK - DATA_PAGE)]; /* block, or DATA_SPLIT */
    uint32_t *granule;                            /* of the whole chunk: block, or DATA_SPLIT and number in `mixed` */
};
struct data_mixed {
    uint32_t block[1 << DATA_GRANULE]; /* by byte */
};
struct data {
    uintptr_t *root; /* by address >> DATA_CHUNK: block << 1, or address of a data_chunk | 1 */
    struct data_block *blocks;
    struct data_mixed *mixed;
    struct data_tables *own; /* what is behind the look-up */
};

static inline uint32_t data_entry_at(const struct data *d, uint64_t address)
{
    if (address >> 47)
        return 0;
    uintptr_t e = d->root[address >> DATA_CHUNK];
    if (!(e & 1))
        return (uint32_t)(e >> 1);
    const struct data_chunk *c = (const struct data_chunk *)(e - 1);
    uint32_t block = c->page[address >> DATA_PAGE & (ARRAY_LEN(c->page) - 1)];
    if (!(block & DATA_SPLIT))
        return block;
    block = c->granule[address >> DATA_GRANULE & ((1u << (DATA_CHUNK - DATA_GRANULE)) - 1)];
    if (!(block & DATA_SPLIT))
        return block;
    return d->mixed[block & ~DATA_SPLIT].block[address & ((1u << DATA_GRANULE) - 1)];
}

/* Of several, the one that lies on top; block 0 (of object 0) if none. Never NULL; until the next change of `d`. */
static inline const struct data_block *data_block_at(const struct data *d, uint64_t address)
{
    const struct data_block *b = &d->blocks[data_entry_at(d, address)];
    for (int i = 0; b != d->blocks && address - b->start >= b->bytes; i++)
        b = &d->blocks[i < DATA_DEPTH_MAX ? b->under : 0];
    return b;
}

/* Fetches what the look-up of an address goes through last: what its granule says; when that is there, the block. */
__attribute__((always_inline)) static inline void data_fetch_granule(const struct data *d, uint64_t address)
{
    uintptr_t e = address >> 47 ? 0 : d->root[address >> DATA_CHUNK];
    const struct data_chunk *c = (const struct data_chunk *)(e - 1);
    if (e & 1 && c->granule)
        __builtin_prefetch(&c->granule[address >> DATA_GRANULE & ((1u << (DATA_CHUNK - DATA_GRANULE)) - 1)]);
}
__attribute__((always_inline)) static inline void data_fetch_block(const struct data *d, uint64_t address)
{
    __builtin_prefetch(&d->blocks[data_entry_at(d, address)]);
}

/* Whether a block of that number and serial is still what data_block_at says of the address. Where it is not, that may
 * say the same all the same. */
static inline bool data_block_still_holds(const struct data *d, uint32_t block, uint32_t serial, uint64_t address)
{
    const struct data_block *b = &d->blocks[block];
    return address - b->start < b->bytes && b->serial == serial && !b->is_covered;
}

static inline uint32_t data_object_at(const struct data *d, uint64_t address)
{
    return data_block_at(d, address)->object;
}

/* ---- data.c ---- */

struct data *data_new(void);
/* Of another process; what both load is open once. Of the same thread of the caller's. */
struct data *data_new_beside(const struct data *other);
void data_free(struct data *d);
/* clone.c: likewise, what the child of a fork begins with. Objects keep their numbers and what they have now; what was
 * allocated before counts for the other alone. */
struct data *data_clone(const struct data *d);
/* What takes long to find out of a file is found out now, not when it is first asked for, and a program waits. */
void data_prepare(struct data *d, const char *path);
uint32_t data_object_count(const struct data *d);
const struct data_object *data_object(const struct data *d, uint32_t id);
/* Frames of a procedure that the caller knows: which one reaches memory of the kind DATA_STACK, only the reference's
 * instruction tells. The same name of the same module is the same object. */
uint32_t data_stack_of(struct data *d, uint32_t module, const char *procedure);

/* A clock of all threads. Who has events of several threads sets it before each; then what a thread gave back late is
 * not taken for what another one got of it since. */
void data_set_time(struct data *d, uint64_t now);

struct data_lost {       /* what did not fit what was known */
    uint64_t frees;      /* of addresses where no block began */
    uint64_t again;      /* of blocks that had been given back: nothing is lost by them */
    uint64_t overlaps;   /* blocks that were gone, as others were allocated in their place, and not given back late */
    uint64_t beyond;     /* blocks whose path was cut, since there are too many objects */
    uint64_t impossible; /* allocations that reach beyond the addresses of a process */
};
const struct data_lost *data_lost(const struct data *d);

/* ---- blocks.c: what a program allocates ---- */

/* `path`: return addresses, first that of the call of the allocator. Blocks of the same path are one object. Of 0 bytes
 * it counts as a block, and holds no address. */
void data_allocate(struct data *d, unsigned layer, uint64_t address, uint64_t bytes, const uint64_t *path,
                   size_t depth);
/* The block is no more, nor what lies upon it; its object and figures stay. NULL is no address. */
void data_release(struct data *d, unsigned layer, uint64_t address);
/* The block stays of its object, wherever it moved; if none began at `old` it is allocated (by path). `asked`: the time
 * of the call; what began at `old` since then is another's. */
void data_reallocate(struct data *d, unsigned layer, uint64_t asked, uint64_t old, uint64_t address, uint64_t bytes,
                     const uint64_t *path, size_t depth);
/* Memory that the program names, or, of 0 bytes, no longer names: MTOOL_OBJECT. All blocks of the same name, in memory
 * of the same kind, are one object. */
void data_name_block(struct data *d, uint64_t address, uint64_t bytes, const char *name);

struct data_map {
    uint64_t address, bytes;
    enum data_kind kind; /* DATA_HEAP: of a path; what an allocator of the program hands out of it lies upon it */
    const char *name;    /* of other kinds; copied. The same kind and name are one object */
    const uint64_t *path;
    size_t depth;
};
/* Replaces what was there, wholly. Goes on with a mapping of the same name that ends there. */
void data_map(struct data *d, const struct data_map *m);
void data_unmap(struct data *d, uint64_t address, uint64_t bytes);
/* The mapping that holds the address is a thread's stack; false: there is none. */
bool data_see_stack(struct data *d, uint64_t address);
/* Bytes of a mapping are now elsewhere, with what lies upon them, or are more or fewer. */
void data_remap(struct data *d, uint64_t old, uint64_t old_bytes, uint64_t address, uint64_t bytes);

/* ---- calls.c: allocations as calls of functions that are watched ---- */

/* The functions that are watched, by symbol: malloc's family, operators new and delete, mmap's family; behind them the
 * caller's own, which give what they return and get its size as an argument. */
struct data_watched {
    const char *name;
    unsigned size_argument; /* of the caller's own: 0 the first; DATA_NO_SIZE: it takes memory back, the first argument
                               says which */
    uint64_t address;       /* of a static program, where a function begins that does what a known one does; */
    uint32_t known;         /* number of that */
};
enum { DATA_NO_SIZE = 5 }; /* the stream tells five arguments */
/* Of the stack the stream copies, where there are so many: bytes; frames whose words a path hangs on at most; and how
 * far up each call counts. Beyond that one is looked for that has a name, if no nearer one has. */
enum { DATA_COPY_BYTES = 8192, DATA_WALK_MAX = 96, DATA_NEAR_BYTES = 512 };
size_t data_watched_count(void);             /* of those that are known */
const char *data_watched_name(size_t nth);   /* one of them */
bool data_watched_returns(size_t nth);       /* its return says something */
bool data_watched_gives(size_t nth);         /* it is one of those that give memory of a heap */
bool data_watched_stores(size_t nth);        /* and stores what it gives: its return needs the copy of the stack */
bool data_watched_takes_several(size_t nth); /* its entrance says something by more arguments than the first */

struct data_code {                                     /* code that runs in copies */
    uint64_t (*original)(void *ctx, uint64_t address); /* where an address of a copy is in the original; 0: is none of a
                                                          copy. NULL: there are no copies */
    void *ctx;
};
struct data_call { /* as the stream of references tells it: struct wire_call or wire_short, at entrance or return */
    uint64_t thread;
    uint32_t function;     /* number among the watched: known ones first, then the caller's own */
    uint64_t arguments[5]; /* at the return [0] is what it returns */
    uint64_t frame, stack; /* rbp and rsp: where the return address is */
    uint64_t time;         /* 0: as the call before */
    uint64_t open; /* the stack pointer of the thread's innermost call that is still under way; 0: there is none */
    uint32_t path; /* number of the path that it came by (struct data_path); 0: the copy says it */
    uint32_t copy_bytes;
    const uint8_t *copy; /* of what is on the stack from there on */
};
struct data_calls; /* opaque */
struct data_calls *data_calls_new(struct data *d, const struct data_code *code, const struct data_watched *own,
                                  size_t own_count);
void data_calls_free(struct data_calls *c);
/* A path, by what it was found out from, in that order: whoever enters a function of those that give and finds the same
 * has come by the same path. Where to look next hangs on what was found so far alone. */
enum data_word_kind {
    DATA_WORD_IS,       /* a word of the stack has that value */
    DATA_WORD_LEADS,    /* it leads so far from the stack pointer */
    DATA_WORD_RBP_LEADS /* likewise the register; offset 0 */
};
struct data_path_word {
    uint32_t kind, offset; /* enum data_word_kind; from the stack pointer */
    uint64_t value;
};
struct data_path {
    uint32_t number; /* of the thread, from 1 */
    bool is_new;     /* else it is one that was told before */
    bool is_settled; /* of paths that begin with its words and go on otherwise than known ones it is told */
    uint32_t count;
    struct data_path_word words[2 * (DATA_WALK_MAX + 1)]; /* the first one is the return address */
    bool is_far;                                          /* it was looked at beyond the near calls */
    bool is_cut;                                          /* and ended where the copy did, or a frame was not found */
};
/* The path, if the copy said it; NULL: it was known, or there is none. Until the next call. */
const struct data_path *data_entered(struct data_calls *c, const struct data_call *call);
/* Of the thread of the last call: of many calls whose paths were not known none needed more than DATA_NEAR_BYTES. */
bool data_paths_are_near(const struct data_calls *c);
/* The function goes on by a jump to code that may not tell when it returns. */
void data_jumps(struct data_calls *c, const struct data_call *call);
void data_left(struct data_calls *c, const struct data_call *call);
/* One of those that give memory, by one argument, was entered by a known path and has returned `address`, with nothing
 * told between. call->stack may be 0: not told. */
void data_gave(struct data_calls *c, const struct data_call *call, uint64_t address);
struct data_given { /* what the last call that was left gave of the heap */
    uint64_t address, bytes;
    const uint64_t *path;
    uint32_t depth;
};
const struct data_given *data_given(const struct data_calls *c); /* NULL: nothing. Until the next call */
struct data_calls_lost {
    uint64_t unmatched; /* entrances whose return was not seen: what they gave is not known */
    uint64_t unread;    /* what posix_memalign stored where it was not seen */
    uint64_t threads;   /* nothing lost: that made calls, without the first */
};
const struct data_calls_lost *data_calls_lost(const struct data_calls *c);

/* ---- detect.c: which functions allocate, where none has a name ---- */

struct data_detector; /* opaque */
/* Of a program whose own file lies in memory from `image` to `image_end`. */
struct data_detector *data_detector_new(uint64_t image, uint64_t image_end);
void data_detector_free(struct data_detector *t);
/* All calls of all functions, in order: what they are numbered by is the caller's; three arguments. What is more than
 * two million calls is not looked at. */
void data_detector_entered(struct data_detector *t, uint64_t thread, uint32_t function, const uint64_t *arguments,
                           uint64_t stack);
void data_detector_left(struct data_detector *t, uint64_t thread, uint64_t value, uint64_t stack);
enum { DATA_ROLES_MAX = 6 };
struct data_role {
    uint32_t function;
    const char *as; /* name of the known function that has the same arguments and does the same */
};
/* How many; 0: nothing is sure. */
size_t data_detector_end(const struct data_detector *t, struct data_role out[DATA_ROLES_MAX]);

/* ---- maps.c: what the kernel says ---- */

/* The file of a name in /proc/PID/maps, of a copy that of the original; NULL: of no interest. */
typedef const char *(*data_file_of)(void *ctx, const char *name);
/* A text like /proc/PID/maps: what is not known yet gets known, modules too. */
void data_see_maps(struct data *d, const char *text, size_t len, data_file_of file_of, void *ctx);

/* ---- modules.c: what a file brings with it ---- */

/* The file at `path`, loaded so that its address 0 is at `load`: a block for each symbol of data, and of each section
 * for what has no symbol. *module: its number, for data_object.module. 0, or -1 after one line. */
int data_module(struct data *d, const char *path, uint64_t load, uint32_t *module);
/* The thread-local variables of a module in the memory that a thread has for them; once. */
void data_thread_block(struct data *d, uint32_t module, uint64_t address);
/* Bytes of it, and what its address is a multiple of; 0: it has none. */
uint64_t data_thread_bytes(const struct image *img, uint64_t *align);
/* Where glibc puts the thread-local memory of the modules that a program begins with, in the order in which they are
 * loaded (all zeros first): so many bytes below the thread's base (ABI: variant II; elf/dl-tls.c). 0: it has none. */
struct data_thread_layout {
    uint64_t used, hole_begin, hole_end;
};
uint64_t data_thread_offset(struct data_thread_layout *l, const struct image *img);
uint32_t data_module_count(const struct data *d);
uint64_t data_module_load(const struct data *d, uint32_t module);
const struct image *data_module_image(const struct data *d, uint32_t module);
/* Where an address lies in a module; false: in none. */
bool data_locate(const struct data *d, uint64_t address, uint32_t *module, uint64_t *vaddr);

/* ---- frames.c: code that allocates ---- */

struct data_frame {       /* of a return address */
    const char *function; /* innermost, inlined ones too; NULL unknown */
    const char *file;     /* NULL unknown */
    uint32_t line;        /* 0 unknown */
    uint32_t module;      /* ID_NONE unknown */
    uint64_t vaddr;       /* in the file, within the call; the address itself if the module is not known */
};
const struct data_frame *data_frame(struct data *d, uint64_t return_address); /* until data_free */
/* "xs", "libc.so.6 .bss", "main.c:42 build_tree <- main.c:99 main": of one line. Until data_free. */
const char *data_object_name(struct data *d, uint32_t object);

/* ---- fields.c: what an object is made of, by debug information ---- */

struct data_fields {
    const char *type;                 /* "struct patient[40]" */
    uint64_t element_bytes;           /* of an array one element, else all: fields repeat after so many */
    const struct layout_part *fields; /* of an element, by offset (debug/debug.h); they may overlap, and leave gaps */
    size_t count;                     /* of fields; 0: it is no structure */
};
/* Of a variable; NULL: not known, and of what is allocated. Until data_free. */
const struct data_fields *data_fields(struct data *d, uint32_t object);
/* "time_left" of the byte at an offset from the begin of the block; NULL: not known. *part: which of the fields. */
const char *data_field(struct data *d, uint32_t object, uint64_t offset, size_t *part);

#endif
