/* SPDX-License-Identifier: Apache-2.0
 *
 * One form of instruction, timed: latency in a chain of dependent copies, interval among independent ones, slots by
 * filling up the width. What a copy reads and writes is found by decoding it, not listed. */
#include "machine/calibrate/calib.h"

#include <math.h>
#include <stdlib.h>

enum { OPERANDS = 5, COPIES = 120, PAIRS = COPIES / 2, FOURS = COPIES / 4 };

static const struct form_line {
    char kind; /* I: as is; 2: 32 and 64 bits; V: xmm and ymm; Z: as is, but needs 512 bits */
    const char *name, *operands;
} lines[] = {
#define I(text) {'I', text, ""},
#define I2(name, operands) {'2', name, operands},
#define V(name, operands) {'V', name, operands},
#define Z(text) {'Z', text, ""},
#include "machine/calibrate/forms.def"
#undef I
#undef I2
#undef V
#undef Z
};

/* ---- the shape of a form ---- */

struct shape {
    struct x86_form form;
    char kind[OPERANDS]; /* of each register operand: r, x (any vector), k */
    unsigned count;
    bool has_dest, reads_dest, implicit; /* implicit: works on rax and rdx */
    bool second_dest;                    /* the second operand is written as well */
    int source[2];                       /* operands read that are of the destination's kind, or -1 */
    int other;                           /* an operand read that is of another kind, or -1 */
    bool sets_flags;
    bool accesses; /* memory, by itself: the stack */
};

static unsigned operand_kinds(const struct x86_form *f, char kinds[OPERANDS])
{
    unsigned n = 0;
    for (unsigned i = 0; i < f->count && n < OPERANDS; i++) {
        unsigned kind = f->operand[i].kind;
        if (kind == X86_FORM_GPR || kind == X86_FORM_VEC || kind == X86_FORM_MASK)
            kinds[n++] = kind == X86_FORM_GPR ? 'r' : kind == X86_FORM_VEC ? 'x' : 'k';
    }
    return n;
}

static bool has(const uint8_t *list, unsigned n, unsigned reg) { return memchr(list, (int)reg, n) != NULL; }

static unsigned numbering(char kind) { return kind == 'r' ? X86_RAX : kind == 'x' ? X86_REG_VEC0 : X86_REG_MASK0; }

/* False if the form cannot be encoded. */
static bool find_shape(const struct x86_form *f, struct shape *s)
{
    static const uint8_t probe[OPERANDS] = {5, 6, 7, 3, 2};
    struct x86_choice c = {{5, 6, 7, 3, 2}, 3, LAB_BASE, X86_REG_NONE, 0, 0};
    uint8_t bytes[15];
    struct x86_detail d;
    *s = (struct shape){.form = *f, .source = {-1, -1}, .other = -1};
    if (f->has_scale || (f->has_base && f->has_index))
        c.index = LAB_BASE;
    int len = x86_encode(f, &c, bytes);
    if (!len || !x86_decode_detail(bytes, (size_t)len, 0, &d))
        return false;
    s->count = operand_kinds(f, s->kind);
    s->accesses = d.is_load || d.is_store;
    s->sets_flags = has(d.writes, d.write_count, X86_REG_FLAGS_ZAPS) || has(d.writes, d.write_count, X86_REG_FLAGS_C);
    for (unsigned i = 0; i < s->count; i++) {
        unsigned reg = numbering(s->kind[i]) + probe[i];
        bool read = has(d.reads, d.read_count, reg), written = has(d.writes, d.write_count, reg);
        s->second_dest = s->second_dest || (i == 1 && written);
        if (i == 0) {
            s->has_dest = written;
            s->reads_dest = written && read;
        } else if (read && s->has_dest && s->kind[i] == s->kind[0]) {
            s->source[s->source[0] >= 0] = (int)i;
        } else if (read || (i == 0 && !written)) {
            s->other = (int)i;
        }
    }
    s->implicit = !s->has_dest && has(d.writes, d.write_count, 0);
    return true;
}

static bool shape_of(const char *form, struct shape *s)
{
    struct x86_form f;
    x86_form_parse(form, &f);
    return find_shape(&f, s);
}

bool timing_can(const struct x86_form *f)
{
    struct shape s;
    return find_shape(f, &s) && !s.accesses;
}

unsigned timing_fill(const struct x86_form *f)
{
    static const unsigned fills[] = {
        [X86_ELEMENT_INT] = LAB_FILL_INT, [X86_ELEMENT_FLOAT] = LAB_FILL_FLOAT, [X86_ELEMENT_DOUBLE] = LAB_FILL_DOUBLE};
    if (!f->vec_bits)
        return LAB_FILL_NONE;
    return fills[f->element] | (f->vec_bits > 128 ? LAB_FILL_WIDE : 0);
}

static unsigned fill_of(const char *form)
{
    struct x86_form f;
    x86_form_parse(form, &f);
    return timing_fill(&f);
}

/* ---- copies ---- */

/* Register numbers that copies may write. */
static const uint8_t gpr_all[] = {0, 3, 2, 6, 7, 5, 8, 9, 10, 11};
enum { VECTORS = 13, MASKS = 5 };

/* The part of the registers that the copies of one form go round in: as many as it has results under way, or they would
 * wait for each other. */
struct share {
    double from, to;
};
static const struct share all_registers = {0, 1}, first_half = {0, 0.5};

static uint8_t written_register(char kind, unsigned i, struct share share)
{
    unsigned all = kind == 'r'   ? ARRAY_LEN(gpr_all)
                   : kind == 'x' ? VECTORS
                                 : MASKS,
             first = (unsigned)(share.from * all + 0.5), count = (unsigned)(share.to * all + 0.5) - first;
    unsigned k = first + i % (count ? count : 1);
    return kind == 'r' ? gpr_all[k % all] : (uint8_t)(kind == 'x' ? k : 1 + k);
}

double timing_chained(const struct timed_form *t)
{
    struct shape s;
    if (!find_shape(&t->parsed, &s) || !s.reads_dest || t->latency <= 0)
        return 0;
    size_t registers = s.kind[0] == 'r' ? ARRAY_LEN(gpr_all) : s.kind[0] == 'x' ? VECTORS : MASKS;
    return t->latency / t->interval / (double)registers;
}

bool timing_is_chained(const struct timed_form *t)
{
    static const double FULL = 0.4;
    return timing_chained(t) > FULL;
}

/* Registers that are only read; neighbours differ, or x op x would be a zero idiom. */
static uint8_t read_register(char kind, unsigned i)
{
    return (uint8_t)((kind == 'r' ? 12 : kind == 'x' ? 14 : 6) + (i & 1));
}

static struct x86_choice choose(const struct shape *s, uint8_t dest)
{
    const struct x86_form *f = &s->form;
    struct x86_choice c = {.imm = 3, .base = X86_R12, .index = X86_REG_NONE, .disp = 8};
    for (unsigned i = 0; i < s->count; i++)
        c.regs[i] = i == 0 && s->has_dest ? dest : read_register(s->kind[i], i);
    if (s->second_dest)
        c.regs[1] = 11;
    if (f->is_lea) {
        c.base = f->has_base ? X86_R12 : X86_REG_NONE; /* not r13, which needs a displacement */
        c.index = f->has_index ? X86_R13 : X86_REG_NONE;
        c.scale = f->has_scale ? 4 : 1;
        c.disp = f->has_disp ? 8 : 0;
    }
    return c;
}

static bool put(const struct calib *k, struct lab_code *c, const struct x86_form *form, const struct x86_choice *choice)
{
    uint8_t bytes[15];
    int len = x86_encode(form, choice, bytes);
    if (len)
        lab_put_long(c, bytes, (size_t)len, k->length);
    return len != 0;
}

/* A conditional jump is timed together with the comparison before it, not taken: test r12,r12; jz next. None touches a
 * multiple of 32 bytes, which some cores are slow at. */
static bool put_branches(struct lab_code *c, unsigned count)
{
    for (; count > 0; count--) {
        if (c->len % 32 + 5 > 31)
            lab_align(c, 32, 0);
        LAB_PUT(c, 0x4d, 0x85, 0xe4, 0x74, 0x00);
    }
    return true;
}

static bool put_copies(const struct calib *k, struct lab_code *c, const char *form, unsigned first, unsigned count,
                       struct share share)
{
    struct shape s;
    bool is_shaped = shape_of(form, &s);
    if (s.form.is_jcc)
        return put_branches(c, count);
    if (division_is(form)) {
        for (unsigned i = 0; i < count; i++)
            division_put(c, form);
        return true;
    }
    if (!is_shaped)
        return false;
    for (unsigned i = 0; i < count; i++) {
        uint8_t dest = written_register(s.count ? s.kind[0] : 'r', first + i, share);
        struct x86_choice choice = choose(&s, dest);
        if (s.second_dest)
            choice.regs[1] = written_register(s.kind[1], first + i + 2, share);
        if (s.implicit) /* cut the chain through rax */
            LAB_PUT(c, 0xb8, 3, 0, 0, 0);
        if (!put(k, c, &s.form, &choice))
            return false;
    }
    return true;
}

/* ---- interval, slots, mixes ---- */

static double loop(struct calib *k, struct lab_code *c, unsigned fill) { return calib_run(k, c, 1, fill); }

/* Assumes that the copies do not wait for each other: they go round in all registers there are. Where latency asks for
 * more of them, timing_is_chained says so, and ports_solve allows the form more ports than it shows. */
double timing_interval(struct calib *k, const char *form)
{
    struct lab_code *c = xmalloc(sizeof *c);
    if (!put_copies(k, c, form, 0, COPIES, all_registers)) {
        free(c);
        return -1;
    }
    lab_name(k->lab, "interval %s", form);
    return calib_run(k, c, COPIES, fill_of(form));
}

struct round {
    unsigned fillers, rounds;
};

/* Iterations are of so many cycles on any core: what an iteration's end costs must not weigh more on a wide one. */
static struct round round_of(const struct calib *k, double interval)
{
    enum { ITERATION_CYCLES = 50 };
    unsigned fillers = (unsigned)(fmax(4, interval * 1.5) * k->width + 0.5);
    return (struct round){fillers, fillers < 40 ? (unsigned)(ITERATION_CYCLES * k->width) / (fillers + 1) : 4};
}

/* Slots of a round that are neither fillers nor the iteration's end. */
static double rest_of_round(struct calib *k, struct lab_code *c, const struct round *r, unsigned fill)
{
    double cycles = calib_run(k, c, r->rounds, fill);
    return cycles < 0 ? NAN : cycles * k->width - r->fillers - 1.0 / r->rounds;
}

/* What a result that is late costs by itself: the reorder buffer fills up behind it, and the width goes unused. A chain
 * of multiplications of about that latency, whose slots are known, in its place. */
static double slots_lost(struct calib *k, const struct round *r, double latency)
{
    const struct timed_form *mul = timing_of(k, "imul r64,r64");
    unsigned n = (unsigned)ceil(latency / (mul && mul->latency > 0 ? mul->latency : 3));
    struct x86_choice square = {.regs = {0, 0}};
    struct x86_form imul;
    x86_form_parse("imul r64,r64", &imul);
    struct lab_code *c = xmalloc(sizeof *c);
    for (unsigned i = 0; i < r->rounds; i++) {
        LAB_PUT(c, 0xb8, 3, 0, 0, 0); /* mov eax,3: a chain of its own */
        for (unsigned m = 0; m < n; m++)
            put(k, c, &imul, &square);
        for (unsigned f = 0; f < r->fillers; f++)
            filler_put(k, c, k->length);
    }
    lab_name(k->lab, "slots lost by %u multiplications before %u fillers", n, r->fillers);
    double rest = rest_of_round(k, c, r, LAB_FILL_NONE) - n - 1;
    return rest > 0 ? rest : 0;
}

/* Assumes that fillers go at the full width and that the copy's units have room among so many of them (half again its
 * interval); what a late result costs by itself is taken off (slots_lost). No more than copies alone take can come out.
 */
double timing_slots(struct calib *k, const char *form, double interval, double latency)
{
    static const double LONG = 8;
    struct shape s;
    struct round r = round_of(k, interval);
    if (interval > 60 || !shape_of(form, &s))
        return -1;
    struct lab_code *c = xmalloc(sizeof *c);
    for (unsigned i = 0; i < r.rounds; i++) {
        put_copies(k, c, form, i, 1, first_half);
        for (unsigned f = 0; f < r.fillers; f++)
            filler_put(k, c, k->length);
    }
    lab_name(k->lab, "slots %s", form);
    double slots = rest_of_round(k, c, &r, timing_fill(&s.form)) - (division_is(form) ? DIVISION_FEEDERS : s.implicit);
    if (isnan(slots))
        return -1;
    if (latency > LONG && slots > 1.5)
        slots -= slots_lost(k, &r, latency);
    return fmax(0, fmin(slots, interval * k->width + 0.4)); /* copies alone take at least their slots */
}

static double known_latency(const struct calib *k, const char *form)
{
    for (size_t i = 0; i < k->forms.len; i++)
        if (strcmp(k->forms.data[i].form, form) == 0 && k->forms.data[i].latency >= 0)
            return k->forms.data[i].latency;
    return -1;
}

/* Results under way at once: copies of what reads its destination follow each other in chains. */
static double chains(const struct calib *k, const char *form, const struct shape *s)
{
    double latency = known_latency(k, form), interval = 1;
    for (size_t i = 0; i < k->forms.len; i++)
        if (strcmp(k->forms.data[i].form, form) == 0 && k->forms.data[i].interval > 0)
            interval = k->forms.data[i].interval;
    return s->reads_dest && latency > 0 ? fmax(1, latency / interval) : 1.5;
}

static void share_registers(const struct calib *k, const char *f, const char *g, struct share out[2])
{
    struct shape sf, sg;
    out[0] = out[1] = all_registers;
    if (!shape_of(f, &sf) || !shape_of(g, &sg))
        return;
    bool implicit = sf.implicit || division_is(f);
    char kf = implicit || !sf.count ? 'r' : sf.kind[0], kg = sg.count ? sg.kind[0] : 'r';
    if (kf != kg)
        return;
    double need_f = chains(k, f, &sf), need_g = chains(k, g, &sg), part = need_f / (need_f + need_g);
    part = fmin(fmax(part, implicit ? 0.3 : 0.2), 0.8);
    out[0] = (struct share){0, part};
    out[1] = (struct share){part, 1};
}

/* Assumes that either form has registers enough for its results under way: those of one kind are shared out by need. */
double timing_mix(struct calib *k, const char *f, unsigned a, const char *g, unsigned b)
{
    struct lab_code *c = xmalloc(sizeof *c);
    unsigned rounds = 240 / (a + b) + 1, put_f = 0, put_g = 0;
    bool ok = true;
    struct share shares[2];
    share_registers(k, f, g, shares);
    for (unsigned r = 0; r < rounds; r++) { /* spread the few among the many */
        unsigned due = 0;
        for (unsigned i = 0; i < b && ok; i++) {
            for (; due * b < (i + 1) * a && due < a; due++)
                ok = ok && put_copies(k, c, f, put_f++, 1, shares[0]);
            ok = ok && put_copies(k, c, g, put_g++, 1, shares[1]);
        }
    }
    if (!ok) {
        free(c);
        return -1;
    }
    unsigned ff = fill_of(f), fg = fill_of(g);
    unsigned fill = (ff | fg) & LAB_FILL_WIDE
                        ? (fmax(ff & 3, fg & 3) > 0 ? LAB_FILL_WIDE | ((ff & 3) ? (ff & 3) : (fg & 3)) : 0)
                        : ((ff & 3) ? ff : fg);
    lab_name(k->lab, "mix %u %s + %u %s", a, f, b, g);
    return calib_run(k, c, rounds, fill);
}

/* ---- latency ---- */

/* Divisions and roots end early at round values, to which a chain of them tends: a multiplication keeps it away. */
static const char *refresher(const struct x86_form *f)
{
    static const struct {
        const char *part, *legacy, *wide_y, *wide_z;
    } ways[] = {{"ss", "mulss x,x", NULL, NULL},
                {"sd", "mulsd x,x", NULL, NULL},
                {"ps", "mulps x,x", "vmulps y,y,y", "vmulps z,z,z"},
                {"pd", "mulpd x,x", "vmulpd y,y,y", "vmulpd z,z,z"}};
    size_t len = strlen(f->name);
    if (!f->divides)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        if (strcmp(f->name + len - 2, ways[i].part) == 0)
            return f->vec_bits == 512 ? ways[i].wide_z : f->vec_bits == 256 ? ways[i].wide_y : ways[i].legacy;
    return NULL;
}

/* Assumes that the multiplication's latency is known by itself and that it waits for nothing but the chain. */
static double refreshed_chain(struct calib *k, const char *form, const struct shape *s, const char *mul)
{
    struct lab_code *c = xmalloc(sizeof *c);
    struct x86_form m;
    bool ok = true;
    x86_form_parse(mul, &m);
    for (unsigned i = 0; i < FOURS && ok; i++) {
        struct x86_choice choice = choose(s, 0), by = {.regs = {0, s->form.is_vex ? 0 : 14, 14}};
        if (s->source[0] >= 0)
            choice.regs[s->source[0]] = s->reads_dest ? 14 : 0;
        ok = put(k, c, &s->form, &choice) && put(k, c, &m, &by);
    }
    lab_name(k->lab, "chain %s, %s", form, mul);
    if (!ok) {
        free(c);
        return -1;
    }
    double cycles = loop(k, c, timing_fill(&s->form));
    const struct timed_form *t = timing_of(k, mul);
    return cycles < 0 || !t ? -1 : cycles / FOURS - t->latency;
}

/* Assumes that the chain through this operand is the longest thing in an iteration: results alternate between two
 * registers, so that none is an idiom (x op x) and none is eliminated as a move to itself. */
static double chain_through(struct calib *k, const char *form, const struct shape *s, int source)
{
    struct lab_code *c = xmalloc(sizeof *c);
    bool ok = true;
    for (unsigned i = 0; i < COPIES && ok; i++) {
        uint8_t a = s->kind[0] == 'k' ? 1 : 0, b = s->kind[0] == 'k' ? 2 : 3;
        struct x86_choice choice = choose(s, i & 1 && source >= 0 ? b : a);
        if (source >= 0)
            choice.regs[source] = i & 1 ? a : b;
        if (s->form.is_lea) {
            choice.regs[0] = a;
            *(choice.base == X86_REG_NONE ? &choice.index : &choice.base) = a;
        }
        ok = put(k, c, &s->form, &choice);
    }
    if (!ok) {
        free(c);
        return -1;
    }
    lab_name(k->lab, "chain %s through %d", form, source);
    return calib_run(k, c, COPIES, timing_fill(&s->form));
}

/* The form that brings a result of kind `from` back to kind `to`. */
static const char *way_back(char from, char to, bool vex)
{
    if (from == 'x' && to == 'r')
        return vex ? "vmovq r64,x" : "movq r64,x";
    if (from == 'r' && to == 'x')
        return vex ? "vmovq x,r64" : "movq x,r64";
    if (from == 'k' && to == 'r')
        return "kmovw r32,k";
    if (from == 'r' && to == 'k')
        return "kmovw k,r32";
    return from == 'k' ? "vpmovm2d z,k" : "vpmovd2m k,z";
}

/* Assumes that the ways back are no slower beside the form than alone; crossing and flags_latency take off what is
 * known of them, and hold what is left to a cycle at the least. */
static double round_trip(struct calib *k, const char *form, const struct shape *s, int source, const char *const *back,
                         unsigned backs)
{
    struct lab_code *c = xmalloc(sizeof *c);
    bool ok = true;
    struct x86_form ways[2];
    for (unsigned b = 0; b < backs; b++)
        x86_form_parse(back[b], &ways[b]);
    uint8_t low = s->kind[source] == 'k' || s->kind[0] == 'k' ? 1 : 0;
    for (unsigned i = 0; i < PAIRS && ok; i++) {
        struct x86_choice choice = choose(s, low);
        choice.regs[source] = low;
        ok = put(k, c, &s->form, &choice);
        for (unsigned b = 0; b < backs && ok; b++) {
            struct x86_choice way = {.regs = {low, low, low, low, low}, .base = 13, .index = X86_REG_NONE};
            ok = put(k, c, &ways[b], &way);
        }
    }
    if (!ok) {
        free(c);
        return -1;
    }
    lab_name(k->lab, "chain %s, %s%s%s through %d", form, back[0], backs > 1 ? ", " : "", backs > 1 ? back[1] : "",
             source);
    return calib_run(k, c, PAIRS, timing_fill(&s->form));
}

/* A form and the one that leads back: half the round trip each, unless one of them is known. */
static double crossing(struct calib *k, const char *form, const struct shape *s)
{
    const char *back = way_back(s->kind[0], s->kind[s->other], s->form.is_vex);
    double both = round_trip(k, form, s, s->other, &back, 1);
    if (both < 0)
        return -1;
    const char *plain = back[0] == 'v' && back[1] == 'm' ? back + 1 : back;
    double other = known_latency(k, plain), low = floor(both / 2 + 0.05);
    if (other < 0 || strcmp(plain, form) == 0) /* whole cycles each: which way has the odd one cannot be told */
        return s->kind[0] == 'x' ? low : both - low;
    return fmax(both - other, 1);
}

/* What only sets flags is followed by a conditional move, for vectors also by the move back. */
static double flags_latency(struct calib *k, const char *form, const struct shape *s)
{
    bool vec = s->kind[0] == 'x', mask = s->kind[0] == 'k';
    const char *const back[] = {"cmovcc r64,r64", mask ? "kmovw k,r32" : s->form.is_vex ? "vmovq x,r64" : "movq x,r64"};
    double both = round_trip(k, form, s, 0, back, vec || mask ? 2 : 1);
    double cmov = known_latency(k, "cmovcc r64,r64");
    double in = !vec && !mask ? 0 : known_latency(k, mask ? "kmovw k,r32" : "movq x,r64");
    return both < 0 ? -1 : fmax(both - (cmov < 0 ? 1 : cmov) - (in < 0 ? 2 : in), 1);
}

/* A product of two registers: a chain through rax is one of its low half, one through rdx of its high half. Assumes
 * that the move between takes what moves take in a chain of them; one that is less than half a cycle later is taken for
 * none. */
static double second_latency(struct calib *k, const char *form, double first)
{
    bool is_long = strcmp(form, "mul r64") == 0 || strcmp(form, "imul r64") == 0;
    if (!is_long)
        return 0;
    struct lab_code *c = xmalloc(sizeof *c);
    for (unsigned i = 0; i < PAIRS; i++)
        LAB_PUT(c, 0x48, 0xf7, form[0] == 'm' ? 0xe2 : 0xea, 0x48, 0x89,
                0xd0); /* mul rdx; mov rax,rdx: the low half is dropped */
    lab_name(k->lab, "chain %s, mov through the high half", form);
    double both = calib_run(k, c, PAIRS, LAB_FILL_NONE), move = known_latency(k, "mov r64,r64");
    double second = both < 0 ? 0 : both - (move >= 0.8 ? move : 0);
    return second > first + 0.5 ? second : 0;
}

/* Of a conditional move: each waits for a test of what the one before left. Assumes that the test's result is there
 * after what such chains with a condition of one flag alone tell of it. */
static double from_flags(struct calib *k, const char *form, double latency)
{
    struct shape s;
    const char *const back[] = {"test r64,r64"};
    bool is_shaped = shape_of(form, &s), is_move = strncmp(s.form.name, "cmov", 4) == 0;
    if (!is_shaped || !is_move || strcmp(s.form.name, "cmovcc") == 0)
        return 0;
    double both = round_trip(k, form, &s, 0, back, 1), test = known_latency(k, back[0]);
    double own = both < 0 ? 0 : both - (test < 0 ? 1 : test);
    return own > latency + 0.5 ? own : 0;
}

double timing_latency(struct calib *k, const char *form)
{
    struct shape s;
    if (!shape_of(form, &s))
        return -1;
    if (s.implicit || !s.count || s.form.is_lea)
        return chain_through(k, form, &s, -1);
    if (refresher(&s.form))
        return refreshed_chain(k, form, &s, refresher(&s.form));
    if (!s.has_dest)
        return s.sets_flags ? flags_latency(k, form, &s) : -1;
    if (s.source[0] < 0 && s.other >= 0 && !s.reads_dest)
        return crossing(k, form, &s);
    if (s.source[0] < 0 && !s.reads_dest)
        return -1; /* a constant: nothing to wait for */
    double latency = chain_through(k, form, &s, s.source[0]);
    if (s.source[1] >= 0)
        latency = fmax(latency, chain_through(k, form, &s, s.source[1]));
    if (s.reads_dest && s.other >= 0 && s.kind[s.other] == 'r' && s.kind[0] == 'x') /* pinsr, cvtsi2sd: the way in */
        latency = fmax(latency, crossing(k, form, &s));
    return latency;
}

/* ---- all forms ---- */

static bool is_known(const struct calib *k, const char *form)
{
    for (size_t i = 0; i < k->forms.len; i++)
        if (strcmp(k->forms.data[i].form, form) == 0)
            return true;
    return false;
}

void timing_again(struct calib *k, struct timed_form *t)
{
    k->unsure = false;
    double interval = timing_interval(k, t->form);
    if (interval < 0)
        return; /* the time is over: what was known of it stays */
    t->interval = interval;
    if (!t->parsed.is_jcc) {
        bool divides = division_is(t->form);
        t->latency = divides ? division_latency(k, t->form, false) : timing_latency(k, t->form);
        t->latency_second = divides ? 0 : second_latency(k, t->form, t->latency);
        t->latency_high = divides ? division_latency(k, t->form, true) : t->latency;
        t->interval_high = divides ? division_interval(k, t->form) : 0;
        t->latency_flags = from_flags(k, t->form, t->latency);
        t->slots = timing_slots(k, t->form, t->interval, t->latency);
    }
    t->unsure = k->unsure;
}

static void time_form(struct calib *k, const char *form)
{
    if (is_known(k, form))
        return;
    struct timed_form t = {.form = arena_strdup(k->arena, form), .latency = -1, .interval = -1, .slots = 1};
    x86_form_parse(form, &t.parsed);
    timing_again(k, &t);
    if (t.interval >= 0)
        VEC_PUSH(&k->forms, t);
}

const struct timed_form *timing_of(struct calib *k, const char *form)
{
    time_form(k, form);
    for (size_t i = 0; i < k->forms.len; i++)
        if (strcmp(k->forms.data[i].form, form) == 0)
            return &k->forms.data[i];
    return NULL;
}

/* "r,r" with r32 for r; "v,v,v" with x or y for v, the first left out if drop. */
static const char *expand(struct calib *k, const char *prefix, const struct form_line *l, const char *with, bool drop)
{
    struct strbuf s = {0};
    str_printf(&s, "%s%s ", prefix, l->name);
    for (const char *p = l->operands + (drop ? 2 : 0); *p; p++) {
        if (*p == 'r' || *p == 'v')
            str_puts(&s, with);
        else
            str_put(&s, p, 1);
    }
    const char *form = arena_strdup(k->arena, s.data);
    str_free(&s);
    return form;
}

static void time_line(struct calib *k, const struct form_line *l)
{
    struct shape ignored;
    if (l->kind == 'I' || (l->kind == 'Z' && lab_has_vectors(k->lab, 512)))
        time_form(k, l->name);
    if (l->kind == '2') {
        time_form(k, expand(k, "", l, "r64", false));
        time_form(k, expand(k, "", l, "r32", false));
    }
    if (l->kind != 'V')
        return;
    const char *two = expand(k, "", l, "x", true); /* the destination is also a source */
    time_form(k, shape_of(two, &ignored) ? two : expand(k, "", l, "x", false));
    if (lab_has_vectors(k->lab, 256))
        time_form(k, expand(k, "v", l, "y", false));
}

/* Of each family one or two, which stand for the rest where time does not suffice; those whose latency tells that of
 * others come first. */
static const char *const essential[] = {
    "cmovcc r64,r64",
    "movq r64,x",
    "movq x,r64",
    "kmovw k,r32",
    "kmovw r32,k",
    "vpmovm2d z,k",
    "add r64,r64",
    "mov r64,r64",
    "mov r64,i",
    "movzx r32,r8",
    "movsxd r64,r32",
    "lea r64,b+d",
    "lea r64,b+i",
    "lea r64,b+i+d",
    "adc r64,r64",
    "shl r64,i",
    "shlx r64,r64,r64",
    "shl r64,cl",
    "shld r64,r64,i",
    "imul r64,r64",
    "mul r64",
    "div r32",
    "idiv r32",
    "div r64",
    "idiv r64",
    "setcc r8",
    "popcnt r64,r64",
    "bt r64,r64",
    "andn r64,r64,r64",
    "crc32 r64,r64",
    "movaps x,x",
    "movsd x,x",
    "pand x,x",
    "paddd x,x",
    "pcmpeqb x,x",
    "pmullw x,x",
    "pmulld x,x",
    "pslld x,i",
    "pshufd x,x,i",
    "vpermd y,y,y",
    "vinsertf128 y,y,x,i",
    "vextractf128 x,y,i",
    "blendps x,x,i",
    "vblendvps y,y,y,y",
    "pmovmskb r32,x",
    "pinsrd x,r32,i",
    "pextrd r32,x,i",
    "addsd x,x",
    "addss x,x",
    "addpd x,x",
    "mulsd x,x",
    "mulps x,x",
    "mulpd x,x",
    "vfmadd231sd x,x,x",
    "vfmadd231pd y,y,y",
    "divss x,x",
    "divsd x,x",
    "divpd x,x",
    "sqrtss x,x",
    "sqrtsd x,x",
    "rcpps x,x",
    "ucomisd x,x",
    "roundsd x,x,i",
    "haddpd x,x",
    "cvtsi2sd x,r64",
    "cvttsd2si r64,x",
    "cvtdq2pd x,x",
    "cvtsd2ss x,x",
    "vpaddd y,y,y",
    "vpand y,y,y",
    "vpshufb y,y,y",
    "vaddpd y,y,y",
    "vmulpd y,y,y",
    "vdivpd y,y,y",
    "vdivps y,y,y",
    "vsqrtpd y,y",
    "aesenc x,x",
    "vpaddd z,z,z",
    "vaddpd z,z,z",
    "vmulpd z,z,z",
    "vfmadd231pd z,z,z",
    "vdivpd z,z,z",
    "vpermd z,z,z",
};

void timing_essential(struct calib *k)
{
    for (size_t i = 0; i < ARRAY_LEN(essential); i++) {
        diag_progress("timing instructions", i, ARRAY_LEN(essential));
        if (!strpbrk(essential[i] + strcspn(essential[i], " "), "zk") || lab_has_vectors(k->lab, 512))
            time_form(k, essential[i]);
    }
}

void timing_rest(struct calib *k)
{
    for (size_t i = 0; i < ARRAY_LEN(lines) && !k->quick && !lab_part_is_over(k->lab); i++) {
        diag_progress("timing more instructions", i, ARRAY_LEN(lines));
        time_line(k, &lines[i]);
    }
}
