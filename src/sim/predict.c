/* SPDX-License-Identifier: Apache-2.0
 *
 * A branch predictor of the kind that processors have had for some ten years: tagged tables of geometric history
 * lengths over a bimodal base (A. Seznec, P. Michaud, A case for (partially) tagged geometric history length branch
 * prediction, 2006), a table of loops that always make the same number of iterations (A. Seznec, The L-TAGE branch
 * predictor, 2007), the same tables for targets of indirect jumps, and a stack of return addresses. Sizes are those of
 * a middling core: which branches are hard to predict depends on the program far more than on them. Given the branches
 * of a stream in order, it says which of them a processor would have mispredicted. */
#include "sim/impl.h"

#include <stdlib.h>

enum {
    BASE_BITS = 14,
    TABLES = 6,
    TABLE_BITS = 11,
    TARGET_TABLES = 4,
    TARGET_BITS = 9,
    RETURNS = 32,
    LOOPS = 64,
    LOOP_SURE = 3, /* times that a loop made as many iterations as before, from which on it is believed */
    LOOP_AGE = 7,
    ITERATIONS_MAX = 1 << 14,
    FOLDS = TABLES + TARGET_TABLES - 1,
    LONGEST = 240,
    HISTORY = 4096,
    COUNTER_MAX = 3, /* of a tagged entry: -4 to 3 */
    USEFUL_MAX = 3,
    DOUBT_MAX = 7,
    FOLD_BITS = 23, /* that the history of a table is folded to */
    FOLD_MASK = (1 << FOLD_BITS) - 1,
    AGE_AFTER = 1 << 17 /* branches between halvings of usefulness */
};
/* Of the histories: of tables of directions, then of those of targets but the first, which has none. */
static const unsigned lengths[FOLDS] = {5, 11, 24, 52, 112, 240, 8, 30, 100};

struct direction {
    uint16_t tag;
    int8_t counter;
    uint8_t useful;
};
struct loop { /* a branch that goes one way `iterations` times, then once the other way */
    uint16_t tag, iterations, now;
    uint8_t sure, age;
    bool usual;
};
struct target {
    uint64_t address;
    uint16_t tag;
    uint8_t sure;
};

struct sim_predictor {
    uint8_t history[HISTORY];      /* a bit each, from the newest on */
    uint32_t newest, folds[FOLDS]; /* of the lengths above */
    int8_t base[1 << BASE_BITS];   /* -2 to 1 */
    struct direction tables[TABLES][1 << TABLE_BITS];
    struct loop loops[LOOPS];
    struct target targets[TARGET_TABLES][1 << TARGET_BITS];
    uint64_t returns[RETURNS];
    uint32_t top, seen;
    int8_t doubt; /* 0 or more: entries that are new have been wrong more often than what was known before */
};

struct sim_predictor *sim_predictor_new(void) { return xmalloc(sizeof(struct sim_predictor)); }

struct sim_predictor *sim_predictor_copy(const struct sim_predictor *p)
{
    struct sim_predictor *copy = xmalloc(sizeof *copy);
    *copy = *p;
    return copy;
}

void sim_predictor_free(struct sim_predictor *p) { free(p); }

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    return x ^ x >> 29;
}

/* A table's history, folded by a cyclic shift register: a new bit costs the same at any length. `leaves`: the oldest
 * bit. */
static uint32_t fold(uint32_t folded, unsigned length, uint32_t bit, uint32_t leaves)
{
    uint32_t f = (folded << 1 | bit) ^ leaves << length % FOLD_BITS;
    return (f ^ f >> FOLD_BITS) & FOLD_MASK;
}

static void remember(struct sim_predictor *p, uint64_t bits)
{
    uint32_t bit = bits & 1;
    const uint8_t *newest = p->history + p->newest;
    for (int t = 0; t < FOLDS; t++)
        p->folds[t] = fold(p->folds[t], lengths[t], bit, newest[lengths[t] - 1] & 1);
    if (p->newest == 0) { /* the bytes go down, so that the older ones stand behind */
        memmove(p->history + HISTORY - LONGEST, p->history, LONGEST);
        p->newest = HISTORY - LONGEST;
    }
    p->history[--p->newest] = (uint8_t)bit;
}

static int8_t nudge(int8_t counter, bool up, int max)
{
    if (up)
        return counter < max ? (int8_t)(counter + 1) : counter;
    return counter > -max - 1 ? (int8_t)(counter - 1) : counter;
}

/* ---- conditional branches ---- */

struct lookup {
    struct direction *at[TABLES];
    uint16_t tag[TABLES];
    int hit, other; /* the longest history that knows it, and the next; -1: the base */
};

/* The last of the tables that are marked, -1: none. Without jumps: which tables know a branch, nobody can predict. */
static int last_of(uint32_t marks) { return 30 - __builtin_clz(marks << 1 | 1); }

static void look_up(struct sim_predictor *p, uint64_t pc, struct lookup *l)
{
    uint64_t place = mix(pc * 2 + 1);
    uint32_t known = 0;
    for (int t = 0; t < TABLES; t++) {
        uint64_t h = mix(place ^ p->folds[t] * (2ull * (unsigned)t + 3));
        l->at[t] = &p->tables[t][h & ((1 << TABLE_BITS) - 1)];
        l->tag[t] = (uint16_t)(h >> 40 | 1);
        known |= (uint32_t)(l->at[t]->tag == l->tag[t]) << t;
    }
    l->hit = last_of(known);
    l->other = last_of(known & ~(1u << (l->hit & 31)));
}

/* Places in two tables of longer history, not side by side, taken from whoever was not useful. */
static void allocate(struct lookup *l, bool taken)
{
    int given = 0;
    for (int t = l->hit + 1; t < TABLES && given < 2; t++) {
        if (l->at[t]->useful)
            continue;
        *l->at[t] = (struct direction){l->tag[t], taken ? 0 : -1, 0};
        given++;
        t++;
    }
    for (int t = l->hit + 1; t < TABLES && !given; t++)
        l->at[t]->useful--;
}

static void age(struct sim_predictor *p)
{
    if (++p->seen % AGE_AFTER)
        return;
    for (int t = 0; t < TABLES; t++)
        for (int i = 0; i < 1 << TABLE_BITS; i++)
            p->tables[t][i].useful /= 2;
}

static struct loop *loop_at(struct sim_predictor *p, uint64_t pc, uint16_t *tag)
{
    uint64_t h = mix(pc * 2 + 1);
    *tag = (uint16_t)(h >> 20 | 1);
    return &p->loops[h % LOOPS];
}

static void loop_iteration(struct loop *l, bool taken)
{
    if (taken == l->usual && l->now < ITERATIONS_MAX) {
        l->now++;
        l->sure = l->now > l->iterations ? 0 : l->sure;
        return;
    }
    if (taken == l->usual || l->now != l->iterations) {
        l->sure = 0;
        l->iterations = l->now;
    } else if (l->sure < LOOP_SURE)
        l->sure++;
    l->now = 0;
}

/* A loop's last iteration is what the tables got wrong: the other way is the usual one. */
static void loop_begin(struct loop *l, uint16_t tag, bool taken)
{
    if (l->age) {
        l->age--;
        return;
    }
    *l = (struct loop){.tag = tag, .age = LOOP_AGE, .usual = !taken};
}

/* by_tables: what they say. Returns what is predicted. */
static bool conditional_loop(struct sim_predictor *p, uint64_t pc, bool taken, bool by_tables)
{
    uint16_t tag;
    struct loop *l = loop_at(p, pc, &tag);
    if (l->tag != tag) {
        if (by_tables != taken)
            loop_begin(l, tag, taken);
        return by_tables;
    }
    bool is_sure = l->sure == LOOP_SURE, by_loop = l->now == l->iterations ? !l->usual : l->usual;
    if (is_sure && by_loop == taken && by_tables != taken && l->age < LOOP_AGE)
        l->age++;
    loop_iteration(l, taken);
    return is_sure ? by_loop : by_tables;
}

static bool conditional(struct sim_predictor *p, uint64_t pc, bool taken)
{
    struct lookup l;
    int8_t *base = &p->base[mix(pc) & ((1 << BASE_BITS) - 1)];
    look_up(p, pc, &l);
    const int8_t *other = l.other < 0 ? base : &l.at[l.other]->counter, *own = l.hit < 0 ? base : &l.at[l.hit]->counter;
    bool by_other = *other >= 0, guess = *own >= 0;
    bool fresh = l.hit >= 0 && l.at[l.hit]->useful == 0 && (l.at[l.hit]->counter == 0 || l.at[l.hit]->counter == -1);
    bool predicted = fresh && p->doubt >= 0 ? by_other : guess;
    if (fresh && guess != by_other)
        p->doubt = nudge(p->doubt, by_other == taken, DOUBT_MAX);
    if (l.hit < 0) {
        *base = nudge(*base, taken, 1);
    } else {
        struct direction *d = l.at[l.hit];
        if (guess != by_other && guess == taken && d->useful < USEFUL_MAX)
            d->useful++;
        else if (guess != by_other && guess != taken && d->useful)
            d->useful--;
        d->counter = nudge(d->counter, taken, COUNTER_MAX);
    }
    if (predicted != taken && l.hit + 1 < TABLES)
        allocate(&l, taken);
    age(p);
    remember(p, taken);
    return conditional_loop(p, pc, taken, predicted) != taken;
}

/* ---- indirect jumps and returns ---- */

static bool indirect(struct sim_predictor *p, uint64_t pc, uint64_t to)
{
    struct target *hit = NULL, *longer = NULL;
    uint64_t guess = 0;
    uint16_t tag = 0;
    for (int t = TARGET_TABLES; t-- > 0 && !hit;) {
        uint64_t h = mix(mix(pc * 2) ^ (t ? p->folds[TABLES + t - 1] : 0) * (2ull * (unsigned)t + 3));
        struct target *at = &p->targets[t][h & ((1 << TARGET_BITS) - 1)];
        uint16_t own = (uint16_t)(h >> 40 | 1);
        if (at->tag == own) {
            hit = at;
            guess = at->address;
        } else {
            longer = at;
            tag = own;
        }
    }
    if (guess != to && longer && (!hit || hit->sure == 0 || longer->sure == 0))
        *longer = (struct target){to, tag, 0};
    else if (guess != to && longer)
        longer->sure--;
    if (hit && guess == to)
        hit->sure = hit->sure < 3 ? hit->sure + 1 : 3;
    else if (hit && hit->sure)
        hit->sure--;
    else if (hit)
        hit->address = to;
    for (uint64_t bits = mix(to), k = 0; k < 3; k++)
        remember(p, bits >> (7 * k));
    return guess != to;
}

static bool back(struct sim_predictor *p, uint64_t to)
{
    uint64_t guess = p->returns[--p->top % RETURNS];
    return guess != to;
}

bool sim_predict_branch(struct sim_predictor *p, enum sim_branch kind, uint64_t pc, uint64_t next, uint64_t to)
{
    if (kind == SIM_BRANCH_CALL || kind == SIM_BRANCH_CALL_INDIRECT)
        p->returns[p->top++ % RETURNS] = next;
    switch (kind) {
    case SIM_BRANCH_CONDITIONAL:
        return conditional(p, pc, to != next);
    case SIM_BRANCH_CALL_INDIRECT:
    case SIM_BRANCH_INDIRECT:
        return indirect(p, pc, to);
    case SIM_BRANCH_RETURN:
        return back(p, to);
    case SIM_BRANCH_CALL:
        break;
    }
    return false;
}

bool sim_predict(struct sim_predictor *p, const struct sim_insn *i, uint64_t pc, bool taken, uint64_t to)
{
    if (!(i->shape->flags & INSN_BRANCH))
        return false;
    if (i->shape->flags & INSN_CALL)
        p->returns[p->top++ % RETURNS] = pc + i->shape->len;
    if (i->shape->flags & INSN_RET)
        return back(p, to);
    if (i->shape->flags & INSN_INDIRECT)
        return indirect(p, pc, to);
    return i->shape->cond != 255 && conditional(p, pc, taken);
}

bool sim_insn_is_branch(const struct sim_insn *i) { return i->shape->flags & INSN_BRANCH; }
bool sim_insn_is_call(const struct sim_insn *i) { return i->shape->flags & INSN_CALL; }
bool sim_insn_is_return(const struct sim_insn *i) { return i->shape->flags & INSN_RET; }
bool sim_insn_is_rep(const struct sim_insn *i) { return i->shape->flags & INSN_REP; }
