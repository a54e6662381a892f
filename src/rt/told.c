/* SPDX-License-Identifier: Apache-2.0
 *
 * What instructions and system calls reach, where that takes more than a few steps (rt_told.S): with all signals
 * blocked, or in a program that has forbidden itself system calls, without any. Entries are made as sites make them.
 */
#include "rt/rt.h"

struct told { /* on the stack */
    uint64_t mask_before, mask_all, address;
    uint64_t rbp, r11, r10, r9, r8, rdi, rsi, flags, returns_to, rdx, rcx, rax; /* but for rcx and r11 the program's */
    uint8_t room[WIRE_TOLD_ROOM];
};

/* As rt_told.S has them. */
_Static_assert(__builtin_offsetof(struct wire_stream, before) ==
                   __builtin_offsetof(struct wire_stream, last) + 64 * WIRE_FILTER_SLOTS,
               "rt_told.S reads it");
_Static_assert(__builtin_offsetof(struct wire_stream, calls) ==
                   __builtin_offsetof(struct wire_stream, before) + 16 * WIRE_BEFORE_SLOTS,
               "rt_told.S reads it");
_Static_assert(WIRE_EVENT(WIRE_EVENT_RANGE, 2) == (int32_t)0x80000002 &&
                   WIRE_EVENT(WIRE_EVENT_UNTOLD, 0) == (int32_t)0x80030000 &&
                   WIRE_EVENT(WIRE_EVENT_REACH, 1) == (int32_t)0x80040001 && sizeof(struct wire_range) == 32,
               "rt_told.S makes them");
_Static_assert(WIRE_TOLD_ELEMENTS == 0 && WIRE_TOLD_MASKED == 1 && WIRE_TOLD_FIXED == 2 && WIRE_TOLD_BIT == 3 &&
                   WIRE_TOLD_COMPARED == 4 && WIRE_TOLD_CALLED == 5 && WIRE_TOLD_ROOM == 192,
               "the kinds that rt_told.S has");

/* ---- entries ---- */

struct teller {
    struct wire_stream *stream;
    uint64_t site; /* and module, as entries have them */
    uint32_t says; /* of lines, for rt_lines.S; 0: nothing is noted of them */
};

static void *reserve(const struct wire_stream *s, uint64_t bytes)
{
    uint64_t at;
    __asm__ volatile("xadd %0, %1" : "=r"(at), "+m"(*(volatile uint64_t *)&s->put) : "0"(bytes) : "memory");
    return (uint8_t *)s + (at - WIRE_STREAM_VADDR);
}

static void flush(const struct wire_stream *s)
{
    if (s->put < s->limit)
        return;
    if (s->is_confined)
        rt_stream_full_confined();
    else
        rt_stream_full();
}

/* Before it is told. */
static void note_lines(const struct teller *t, uint64_t address, uint64_t bytes)
{
    if (t->says)
        __asm__ volatile("call rt_lines_noted" : : "D"(address), "S"(bytes), "a"(t->says) : "memory", "cc");
}

static void tell(const struct teller *t, uint64_t address, uint64_t bytes)
{
    note_lines(t, address, bytes);
    struct wire_entry *e = reserve(t->stream, 2 * sizeof *e);
    e[0] = (struct wire_entry){(uint64_t)(int64_t)WIRE_EVENT(WIRE_EVENT_REACH, 1), (uint32_t)t->site,
                               (uint32_t)(t->site >> 32)};
    struct wire_reach *r = (struct wire_reach *)(e + 1);
    r->address = address;
    r->bytes = bytes;
    flush(t->stream);
}

/* Before what may reach any of them is told. */
static void forget_lines(const struct wire_stream *s)
{
    __asm__ volatile("call rt_forget_lines" : : : "memory", "cc");
    flush(s);
}

/* ---- xsave and its like ---- */

enum { LEGACY_BYTES = 512 + 64, HEADER_AT = 512, FIRST_COMPONENT = 2, COMPONENTS = 63, ALIGNED = 2 };
enum { STANDARD, COMPACT, AS_IT_SAYS }; /* as x86.h has them */

static void cpuid(uint32_t leaf, uint32_t sub, uint32_t r[4])
{
    __asm__ volatile("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "0"(leaf), "2"(sub));
}

static uint64_t enabled_components(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

/* From the first byte to the last of the components asked for; whether the processor leaves one out because it is as
 * it was at first is not asked. */
static uint64_t state_bytes(const struct told *t, unsigned format)
{
    uint64_t asked = ((t->rdx << 32) | (uint32_t)t->rax) & enabled_components(), end = LEGACY_BYTES;
    const uint64_t *header = (const uint64_t *)(t->address + HEADER_AT);
    int is_compact = format == COMPACT || (format == AS_IT_SAYS && header[1] >> 63);
    uint64_t there = is_compact && format == AS_IT_SAYS ? header[1] : asked;
    for (unsigned k = FIRST_COMPONENT; k < COMPONENTS; k++) {
        uint32_t r[4];
        if (!(there >> k & 1))
            continue;
        cpuid(0xd, k, r);
        if (is_compact)
            end = (r[2] & ALIGNED ? (end + 63) & ~63ull : end) + r[0];
        else if (r[1] + r[0] > end)
            end = r[1] + r[0];
    }
    return end;
}

/* ---- system calls ---- */

enum {
    BY_NOTHING,
    BY_RESULT,
    BY_FIXED,
    BY_TIMES,
    BY_TIMES_RESULT,
    BY_TEXT,
    BY_VECTORS,
    BY_MESSAGE,
    BY_BITS,
    BY_REQUEST
};
enum { IS_READ, IS_WRITTEN, IS_UPDATED };
enum { PARTS_MAX = 4, ARGUMENTS = 6, VECTORS_AT = 2, VECTOR_COUNT_AT = 3, MESSAGE_BYTES = 56 };
enum { TEXT_MAX = 4096, VECTORS_MAX = 1024, BITS_MAX = 1 << 20 }; /* that the kernel takes */

struct size {
    uint8_t by, argument;
    uint16_t bytes;
};
struct part {
    uint8_t how, at; /* IS_READ...; at: argument */
    struct size size;
};
struct vector {
    uint64_t base, bytes;
};

#define RESULT                                                                                                         \
    {                                                                                                                  \
        BY_RESULT, 0, 1                                                                                                \
    }
#define FIXED(bytes)                                                                                                   \
    {                                                                                                                  \
        BY_FIXED, 0, bytes                                                                                             \
    }
#define TIMES(argument, bytes)                                                                                         \
    {                                                                                                                  \
        BY_TIMES, argument, bytes                                                                                      \
    }
#define TIMES_RESULT(bytes)                                                                                            \
    {                                                                                                                  \
        BY_TIMES_RESULT, 0, bytes                                                                                      \
    }
#define TEXT                                                                                                           \
    {                                                                                                                  \
        BY_TEXT, 0, 1                                                                                                  \
    }
#define VECTORS(argument)                                                                                              \
    {                                                                                                                  \
        BY_VECTORS, argument, 1                                                                                        \
    }
#define MESSAGE                                                                                                        \
    {                                                                                                                  \
        BY_MESSAGE, 0, 1                                                                                               \
    }
#define BITS(argument)                                                                                                 \
    {                                                                                                                  \
        BY_BITS, argument, 8                                                                                           \
    }
#define REQUEST                                                                                                        \
    {                                                                                                                  \
        BY_REQUEST, 1, 1                                                                                               \
    }
#define READS(at, ...)                                                                                                 \
    {                                                                                                                  \
        IS_READ, at, __VA_ARGS__                                                                                       \
    }
#define WRITES(at, ...)                                                                                                \
    {                                                                                                                  \
        IS_WRITTEN, at, __VA_ARGS__                                                                                    \
    }
#define UPDATES(at, ...)                                                                                               \
    {                                                                                                                  \
        IS_UPDATED, at, __VA_ARGS__                                                                                    \
    }
static const struct part calls[RT_CALLS_MAX][PARTS_MAX] = {
#define CALL(name, ...) [__NR_##name] = {__VA_ARGS__},
#include "rt/calls.def"
#undef CALL
};
const uint8_t rt_calls_known[RT_CALLS_MAX] = {
#define CALL(name, ...) [__NR_##name] = 1,
#include "rt/calls.def"
#undef CALL
};

/* What the kernel has read the program may have overwritten since, or the call itself: nothing is believed. */
static int is_there(const struct teller *t, const void *at, uint64_t bytes)
{
    uint64_t first = (uint64_t)at & -PAGE, end = (uint64_t)at + bytes;
    if (t->stream->is_confined || bytes > VECTORS_MAX * sizeof(struct vector))
        return 0;
    for (uint64_t page = first; page < end; page += PAGE)
        if (!rt_is_readable(page))
            return 0;
    return 1;
}

/* -1: it does not end. */
static int64_t text_bytes(const struct teller *t, const char *text)
{
    for (int64_t n = 0; n < TEXT_MAX; n++) {
        if ((n == 0 || (uint64_t)&text[n] % PAGE == 0) && !is_there(t, &text[n], 1))
            return -1;
        if (!text[n])
            return n + 1;
    }
    return -1;
}

static void tell_text(const struct teller *t, const char *text)
{
    int64_t bytes = text_bytes(t, text);
    if (bytes > 0)
        tell(t, (uint64_t)text, (uint64_t)bytes);
}

static void tell_vectors(const struct teller *t, const struct vector *v, uint64_t count, uint64_t left)
{
    if (count > VECTORS_MAX || !is_there(t, v, count * sizeof *v))
        return;
    for (uint64_t i = 0; i < count && left; i++) {
        uint64_t n = v[i].bytes < left ? v[i].bytes : left;
        if (n)
            tell(t, v[i].base, n);
        left -= n;
    }
}

static void tell_message(const struct teller *t, const uint64_t *message, uint64_t bytes)
{
    if (is_there(t, message, MESSAGE_BYTES))
        tell_vectors(t, (const struct vector *)message[VECTORS_AT], message[VECTOR_COUNT_AT], bytes);
}

/* Of the number of an ioctl (asm-generic/ioctl.h): bit 30, the kernel reads; bit 31, it writes; from bit 16 on 14 bits
 * of bytes. Terminals' are older than that. What is passed may be a number: 0 bytes. */
static uint64_t request_bytes(uint64_t request, int stores)
{
    enum { TERMIOS_BYTES = 36, TCGETS_ = 0x5401, TIOCGWINSZ_ = 0x5413, FIONREAD_ = 0x541b };
    if (request == TCGETS_ || request == TIOCGWINSZ_ || request == FIONREAD_)
        return !stores ? 0 : request == TCGETS_ ? TERMIOS_BYTES : request == TIOCGWINSZ_ ? 8 : 4;
    return request >> (stores ? 31 : 30) & 1 ? request >> 16 & 0x3fff : 0;
}

static void tell_part(const struct teller *t, const struct part *p, const uint64_t a[ARGUMENTS], uint64_t result,
                      int stores)
{
    uint64_t at = a[p->at], bytes = p->size.bytes;
    if (!at)
        return;
    switch (p->size.by) {
    case BY_TEXT:
        tell_text(t, (const char *)at);
        return;
    case BY_VECTORS:
        tell_vectors(t, (const struct vector *)at, a[p->size.argument], result);
        return;
    case BY_MESSAGE:
        tell_message(t, (const uint64_t *)at, result);
        return;
    case BY_TIMES:
        bytes *= a[p->size.argument];
        break;
    case BY_RESULT: /* of what did not fit (MSG_TRUNC) too */
        bytes = result < a[p->at + 1] ? result : a[p->at + 1];
        break;
    case BY_TIMES_RESULT:
        bytes *= result;
        break;
    case BY_BITS:
        bytes *= (uint32_t)a[p->size.argument] <= BITS_MAX ? ((uint32_t)a[p->size.argument] + 63) / 64 : 0;
        break;
    case BY_REQUEST:
        bytes = request_bytes((uint32_t)a[p->size.argument], stores);
        break;
    default:
        break;
    }
    if (bytes)
        tell(t, at, bytes);
}

/* rt_told.S has seen that the number is that of this call. */
static void tell_call(const struct teller *t, const struct told *at)
{
    uint64_t stack = (uint64_t)(at->room + WIRE_TOLD_ROOM), result = at->rax;
    uint64_t number = t->stream->calls[(stack & 0xff) / 8].value;
    const uint64_t a[ARGUMENTS] = {at->rdi, at->rsi, at->rdx, at->r10, at->r8, at->r9};
    if (failed((int64_t)result))
        return;
    uint32_t stored = t->says ? t->says | 1u << WIRE_LINES_STORES : 0;
    for (unsigned k = 0; k < PARTS_MAX; k++) {
        const struct part *p = &calls[number][k];
        for (int stores = 0; stores < 2; stores++)
            if (p->size.by && (p->how == IS_UPDATED || stores == (p->how == IS_WRITTEN)))
                tell_part(&(struct teller){t->stream, t->site + stores, stores ? stored : t->says}, p, a, result,
                          stores);
    }
}

/* ---- all ---- */

void rt_stream_told(const struct told *t, uint64_t site, uint32_t word)
{
    uint32_t shift = rt_config.flags & CONFIG_LINES ? word >> (WIRE_TOLD_FILTER - 32) & 15 : 0;
    struct teller teller = {rt_own_stream(), site, shift << WIRE_LINES_SHIFT};
    enum wire_told_kind kind = (enum wire_told_kind)(word >> (WIRE_TOLD_KIND - 32));
    forget_lines(teller.stream);
    if (kind == WIRE_TOLD_STATE && shift && word >> (WIRE_TOLD_STORES - 32) & 1)
        teller.says |= 1u << WIRE_LINES_STORES;
    if (kind == WIRE_TOLD_STATE)
        tell(&teller, t->address, state_bytes(t, word & 7));
    else
        tell_call(&teller, t);
}
