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
_Static_assert(__builtin_offsetof(struct wire_stream, before) == 192 + 2 * 8 * WIRE_FILTER_SLOTS, "rt_told.S reads it");
_Static_assert(WIRE_EVENT(WIRE_EVENT_RANGE, 2) == (int32_t)0x80000002 &&
                   WIRE_EVENT(WIRE_EVENT_UNTOLD, 0) == (int32_t)0x80030000 &&
                   WIRE_EVENT(WIRE_EVENT_REACH, 1) == (int32_t)0x80040001 && sizeof(struct wire_range) == 32,
               "rt_told.S makes them");
_Static_assert(WIRE_TOLD_ELEMENTS == 0 && WIRE_TOLD_MASKED == 1 && WIRE_TOLD_FIXED == 2 && WIRE_TOLD_BIT == 3 &&
                   WIRE_TOLD_COMPARED == 4 && WIRE_TOLD_ROOM == 192,
               "the kinds that rt_told.S has");

/* ---- entries ---- */

struct teller {
    struct wire_stream *stream;
    uint64_t site; /* and module, as entries have them */
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

static void tell(const struct teller *t, uint64_t address, uint64_t bytes)
{
    struct wire_entry *e = reserve(t->stream, 2 * sizeof *e);
    e[0] = (struct wire_entry){(uint64_t)(int64_t)WIRE_EVENT(WIRE_EVENT_REACH, 1), (uint32_t)t->site,
                               (uint32_t)(t->site >> 32)};
    struct wire_reach *r = (struct wire_reach *)(e + 1);
    r->address = address;
    r->bytes = bytes;
    flush(t->stream);
}

static void forget_lines(struct wire_stream *s)
{
    memset(s->touched, 0, sizeof s->touched);
    memset(s->written, 0, sizeof s->written);
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

/* ---- all ---- */

void rt_stream_told(const struct told *t, uint64_t site, uint32_t word)
{
    struct teller teller = {rt_own_stream(), site};
    enum wire_told_kind kind = (enum wire_told_kind)(word >> (WIRE_TOLD_KIND - 32));
    if (kind == WIRE_TOLD_STATE)
        tell(&teller, t->address, state_bytes(t, word & 7));
    forget_lines(teller.stream);
}
