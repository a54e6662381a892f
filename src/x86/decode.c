/* SPDX-License-Identifier: Apache-2.0
 *
 * Instruction bytes to the summary x86_insn, to its short form, and to all that is known, x86_detail, whose other parts
 * are of other files. Zydis decodes (summary.c); for the summary its answer is remembered by the instruction's head
 * (prefixes, opcode, ModRM, SIB), because all that the summary holds besides addresses depends on these bytes alone. So
 * a decode is a look-up nearly always: 5 million instructions in a fifth of a second instead of two and a half.
 */
#include "x86/impl.h"

#include <pthread.h>
#include <stdlib.h>

/* ---- the head: every byte before displacement and immediate ---- */

/* one-byte opcodes: '.' no ModRM, 'm' ModRM, 'p' prefix or REX, '0' 0F escape, '2' '3' VEX, 'e' EVEX */
static const char map_one[] = "mmmm....mmmm...0" /* 00 */ "mmmm....mmmm...." /* 10 */
                              "mmmm..p.mmmm..p." /* 20 */ "mmmm..p.mmmm..p." /* 30 */
                              "pppppppppppppppp" /* 40 */ "................" /* 50 */
                              "..empppp.m.m...." /* 60 */ "................" /* 70 */
                              "mmmmmmmmmmmmmmmm" /* 80 */ "................" /* 90 */
                              "................" /* A0 */ "................" /* B0 */
                              "mm..32mm........" /* C0 */ "mmmm....mmmmmmmm" /* D0 */
                              "................" /* E0 */ "p.pp..mm......mm" /* F0 */;
/* two-byte opcodes after 0F; 38 and 3A lead to a third byte with ModRM always */
static const char map_0f[] = "mmmm.......m.m.." /* 00; 0F 0F (3DNow) has its opcode at the end: never remembered */
                             "mmmmmmmmmmmmmmmm" /* 10 */ "mmmmmmmmmmmmmmmm" /* 20 */ "........3.3....." /* 30 */
                             "mmmmmmmmmmmmmmmm" /* 40 */ "mmmmmmmmmmmmmmmm" /* 50 */ "mmmmmmmmmmmmmmmm" /* 60 */
                             "mmmmmmm.mmmmmmmm" /* 70 */ "................" /* 80 */ "mmmmmmmmmmmmmmmm" /* 90 */
                             "...mmm.....mmmmm" /* A0 */ "mmmmmmmmmmmmmmmm" /* B0 */ "mmmmmmmm........" /* C0 */
                             "mmmmmmmmmmmmmmmm" /* D0 */ "mmmmmmmmmmmmmmmm" /* E0 */ "mmmmmmmmmmmmmmmm" /* F0 */;

/* Length of ModRM and SIB at p. */
static unsigned modrm_len(const uint8_t *p) { return (*p & 7) == 4 && *p < 0xc0 ? 2 : 1; }

/* Head length if it is at most 8 bytes, else 0. Needs 16 readable bytes. A wrong answer costs only time: what Zydis
 * says of the same bytes is compared before anything is remembered. */
static unsigned head_len(const uint8_t *p)
{
    unsigned n = 0;
    while (map_one[p[n]] == 'p')
        if (++n > 5)
            return 0;
    switch (map_one[p[n]]) {
    case 'm':
        return n + 1 + modrm_len(p + n + 1);
    case '0':
        break;
    case '2': /* VEX: vzeroupper and vzeroall alone have no ModRM */
        n += 2;
        return p[n] == 0x77 ? n + 1 : n + 1 + modrm_len(p + n + 1);
    case '3':
        n += 3;
        return p[n] == 0x77 ? n + 1 : n + 1 + modrm_len(p + n + 1);
    case 'e':
        n += 5;
        return n + modrm_len(p + n);
    default:
        return n + 1;
    }
    n++;
    switch (map_0f[p[n]]) {
    case 'm':
        return n + 1 + modrm_len(p + n + 1);
    case '3':
        return n + 2 + modrm_len(p + n + 2);
    default:
        return n + 1;
    }
}

/* False: no instruction. */
static bool ask(const uint8_t *bytes, size_t avail, struct x86_answer *a)
{
    struct x86_zydis z;
    if (!x86_zydis_decode(bytes, avail, &z))
        return false;
    x86_summarize(&z, a);
    return true;
}

/* ---- shapes: every answer once ---- */

struct x86_shape *x86_shapes[X86_SHAPES_MAX / X86_SHAPE_CHUNK];
static struct { /* open addressing from the shape's bytes to 1 + its number */
    pthread_mutex_t lock;
    uint32_t *slots, cap, count;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t hash_shape(const struct x86_shape *s)
{
    uint64_t words[sizeof *s / 8], h = 0;
    memcpy(words, s, sizeof words);
    for (size_t k = 0; k < ARRAY_LEN(words); k++)
        h = (h ^ words[k]) * 0x9e3779b97f4a7c15u ^ h >> 29;
    return (uint32_t)(h >> 32);
}

static uint32_t *slot_of(const struct x86_shape *s)
{
    uint32_t k = hash_shape(s) & (known.cap - 1);
    while (known.slots[k] && memcmp(x86_shape(known.slots[k] - 1), s, sizeof *s) != 0)
        k = (k + 1) & (known.cap - 1);
    return &known.slots[k];
}

static void grow_slots(void)
{
    known.cap = known.cap ? known.cap * 2 : 1024;
    known.slots = xrealloc(known.slots, known.cap * sizeof *known.slots);
    memset(known.slots, 0, known.cap * sizeof *known.slots);
    for (uint32_t i = 0; i < known.count; i++)
        *slot_of(x86_shape(i)) = i + 1;
}

static uint32_t add_shape(const struct x86_shape *s)
{
    uint32_t id = known.count++, chunk = id / X86_SHAPE_CHUNK;
    if (!x86_shapes[chunk])
        x86_shapes[chunk] = xmalloc(X86_SHAPE_CHUNK * sizeof *s);
    x86_shapes[chunk][id % X86_SHAPE_CHUNK] = *s;
    return id;
}

/* The number of this shape; ID_NONE: there are too many. */
static uint32_t number_of(const struct x86_shape *s)
{
    pthread_mutex_lock(&known.lock);
    if (known.count * 2 >= known.cap)
        grow_slots();
    uint32_t *slot = slot_of(s), id = ID_NONE;
    if (*slot)
        id = *slot - 1;
    else if (known.count < X86_SHAPES_MAX)
        *slot = 1 + (id = add_shape(s));
    pthread_mutex_unlock(&known.lock);
    return id;
}

/* ---- one decode ---- */

struct memory {                    /* of one head, 24 bytes */
    uint64_t head;                 /* its bytes, zero above */
    uint32_t word, word_unwritten; /* of x86_short; the second: of a shift by 0 */
    uint8_t head_len;              /* 0: empty */
    uint8_t len, value_off, value_len, shift_mask, imm_off;
};

_Static_assert(X86_SHAPES_MAX == 1u << X86_SHORT_SHAPE_BITS && X86_KIND_COUNT <= 16,
               "what fits into the word of x86_short");

static bool put_word(const struct x86_shape *s, uint32_t *word)
{
    const struct x86_insn *o = &s->insn;
    uint32_t shape = number_of(s);
    bool refers = o->props & (X86_PROP_RIPREL | X86_PROP_ABS32 | X86_PROP_IMM_ADDR);
    bool needs_check = (o->props & X86_PROP_GS) || (o->loads && o->stores && o->mem_base == X86_RSP);
    *word = shape | (uint32_t)o->kind << X86_SHORT_SHAPE_BITS | (uint32_t)o->len << (X86_SHORT_SHAPE_BITS + 4) |
            (uint32_t)refers << 30 | (uint32_t)needs_check << 31;
    return shape != ID_NONE;
}

static bool remember(const struct x86_answer *a, struct memory *m)
{
    const struct x86_insn *o = &a->shape.insn;
    struct x86_shape unwritten = a->shape;
    unwritten.insn.flags_written = 0;
    bool is_known =
        put_word(&a->shape, &m->word) && put_word(a->shift_mask ? &unwritten : &a->shape, &m->word_unwritten);
    m->len = o->len;
    m->value_off = a->value_off;
    m->value_len = a->value_len;
    m->shift_mask = a->shift_mask;
    m->imm_off = o->imm_off;
    return is_known;
}

static int32_t value_of(const uint8_t *p, unsigned len)
{
    int32_t value = 0;
    if (len == 1)
        return (int8_t)*p;
    if (len >= 4)
        memcpy(&value, p, sizeof value);
    return value;
}

static int recall(const struct memory *m, const uint8_t *p, struct x86_short *out)
{
    out->word = m->shift_mask && (p[m->imm_off] & m->shift_mask) == 0 ? m->word_unwritten : m->word;
    out->value = value_of(p + m->value_off, m->value_len);
    return m->len;
}

#define MEMORIES 16384 /* a power of two */

static pthread_key_t memories_end; /* its destructor frees a thread's memories; without a key they are lost */
static bool has_memories_end;

static void make_memories_end(void) { has_memories_end = pthread_key_create(&memories_end, free) == 0; }

static struct memory *new_memories(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct memory *m = xmalloc(MEMORIES * sizeof *m);
    pthread_once(&once, make_memories_end);
    if (has_memories_end)
        pthread_setspecific(memories_end, m);
    return m;
}

static struct memory *memory_slot(uint64_t head, unsigned len)
{
    static _Thread_local struct memory *memories; /* for the life of the thread */
    if (!memories)
        memories = new_memories();
    return &memories[(head + len) * 0x9e3779b97f4a7c15u >> 50];
}
_Static_assert(MEMORIES == 1 << (64 - 50), "the hash gives as many bits as there are slots");

int x86_decode_short(const uint8_t *bytes, size_t avail, struct x86_short *out)
{
    struct x86_answer a;
    struct memory fresh = {0}, *m = &fresh;
    unsigned len = avail >= 16 ? head_len(bytes) : 0;
    uint64_t head = 0;
    if (len && len <= 8) {
        memcpy(&head, bytes, 8);
        head &= UINT64_MAX >> (64 - 8 * len);
        m = memory_slot(head, len);
        if (m->head == head && m->head_len == len)
            return recall(m, bytes, out);
    }
    if (!ask(bytes, avail, &a) || !remember(&a, &fresh))
        return 0;
    if (m != &fresh && a.head_len == len) {
        fresh.head = head;
        fresh.head_len = (uint8_t)len;
        *m = fresh;
    }
    return recall(&fresh, bytes, out);
}

/* addr and target, which a shape leaves open. */
static void put_place(struct x86_insn *o, enum x86_target_rule rule, int32_t value, const uint8_t *bytes, uint64_t addr)
{
    o->addr = addr;
    o->target = x86_target(rule, addr + o->len, value);
    if (rule == X86_TARGET_WIDE)
        memcpy(&o->target, bytes + o->imm_off, 8);
}

int x86_decode(const uint8_t *bytes, size_t avail, uint64_t addr, struct x86_insn *out)
{
    struct x86_short s;
    int len = x86_decode_short(bytes, avail, &s);
    if (!len)
        return 0;
    const struct x86_shape *k = x86_shape(x86_short_shape(&s));
    *out = k->insn;
    put_place(out, k->rule, s.value, bytes, addr);
    return len;
}

int x86_decode_before(const uint8_t *bytes, size_t avail, size_t more, uint64_t addr, struct x86_insn *out)
{
    int len = x86_decode(bytes, avail + more, addr, out);
    return (size_t)len <= avail ? len : 0;
}

int x86_decode_detail(const uint8_t *bytes, size_t avail, uint64_t addr, struct x86_detail *out)
{
    struct x86_zydis z;
    struct x86_answer a;
    memset(out, 0, sizeof *out);
    if (!x86_zydis_decode(bytes, avail, &z))
        return 0;
    x86_summarize(&z, &a);
    out->insn = a.shape.insn;
    if (a.shift_mask && (bytes[out->insn.imm_off] & a.shift_mask) == 0)
        out->insn.flags_written = 0;
    put_place(&out->insn, a.shape.rule, value_of(bytes + a.value_off, a.value_len), bytes, addr);
    x86_put_operands(&z, out);
    x86_put_accesses(&z, addr, out);
    x86_put_reach(&z, addr, out);
    x86_put_compare(&z, &out->compare);
    x86_put_order(&z, out);
    return out->insn.len;
}

bool x86_kills_gpr(const struct x86_insn *i, unsigned r) { return (i->gpr_written & ~i->gpr_read) >> r & 1; }

void x86_format(const uint8_t *bytes, size_t len, uint64_t addr, char *out, size_t out_len)
{
    struct x86_zydis z;
    ZydisFormatter f;
    if (!x86_zydis_decode(bytes, len, &z) || !ZYAN_SUCCESS(ZydisFormatterInit(&f, ZYDIS_FORMATTER_STYLE_INTEL)) ||
        !ZYAN_SUCCESS(
            ZydisFormatterFormatInstruction(&f, &z.in, z.op, z.in.operand_count_visible, out, out_len, addr, NULL)))
        snprintf(out, out_len, "(bad)");
}

const char *x86_mnemonic_name(uint16_t mnemonic)
{
    const char *s = mnemonic <= ZYDIS_MNEMONIC_MAX_VALUE ? ZydisMnemonicGetString((ZydisMnemonic)mnemonic) : NULL;
    return s ? s : "invalid";
}
