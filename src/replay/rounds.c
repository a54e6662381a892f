/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices that go round. Code that touches a page at every step has no slice that is long and yet reaches no more pages
 * than the first-level TLB holds. A short one tells enough if it is repeated without a break: its stub adds to every
 * register what brings it back to what it was, so that what waits for a register goes on waiting as in the program, and
 * jumps to its begin. Memory and vector registers are not brought back. What they leave to the next round, and all that
 * is computed from it, must be no address and decide no jump. */
#include "replay/impl.h"

enum {
    STEPS_OF_REPLAY = 40000,
    ROUNDS_LEAST = 64 /* predictors need so many to learn the end of a long loop */,
    ROUNDS_MOST = 256,
    RECORDED_LEAST = 4 /* one in so many steps of a round, around it */,
    RSP = 4
};

/* ---- what a round leaves to the next ---- */

enum { READ = 1, WRITTEN, CARRIED /* read, then written */, RESTORED /* likewise, with what was there */ };
enum { NOT_KNOWN = 256 /* beside what a byte may hold */ };

struct carried {
    struct map bytes; /* as above */
    struct map
        changed; /* bytes that were written since the round began: 1 if what they hold is not what was recorded */
    bool differs[X86_REG_COUNT]; /* now; other flags than the carry with it */
    uint16_t live;               /* general registers that are read before they are written */
    bool has_stores, has_gathers;
};

/* x86.h: lists of data operands do not name rsp; flags are checked apart. */
static bool is_vector(unsigned reg) { return reg >= X86_REG_VEC0 && reg < X86_REG_FLAGS_C; }
static bool is_flag(unsigned reg) { return reg == X86_REG_FLAGS_C || reg == X86_REG_FLAGS_ZAPS; }

static void note_bytes(struct map *bytes, uint64_t at, uint32_t count, bool stores)
{
    for (uint64_t b = at; b < at + count; b++) {
        uint64_t before = 0;
        if (!map_get(bytes, b, &before))
            map_put(bytes, b, stores ? WRITTEN : READ);
        else if (stores && before == READ)
            map_put(bytes, b, CARRIED);
    }
}

static uint64_t address_of(const struct stream *s, uint32_t step, int access)
{
    return x86_access_address(&insn_of(s, step)->access[access], s->steps.data[step].regs, s->fs, s->gs);
}

static void note_accesses(const struct stream *s, uint32_t step, struct map *bytes)
{
    const struct insn *k = insn_of(s, step);
    for (int stores = 0; stores < 2; stores++)
        for (int a = 0; a < k->accesses; a++)
            if (stores ? k->access[a].is_store : k->access[a].is_load)
                note_bytes(bytes, address_of(s, step, a), k->access[a].bytes, stores);
}

static void note_memory(struct carried *c, const struct stream *s, uint32_t step)
{
    c->has_gathers |= insn_of(s, step)->accesses < 0;
    c->has_stores |= insn_of(s, step)->i.stores > 0;
    note_accesses(s, step, &c->bytes);
}

/* false: not with it. A vector register that is read before it is written, and written, is carried. x87 has a stack,
 * which a round may leave higher. */
static bool note_vectors(struct carried *c, const struct insn *k, uint64_t *read, uint64_t *written)
{
    struct x86_detail d;
    if (x86_detail_decode(k->bytes, sizeof k->bytes, &d) < 0)
        return false;
    for (int i = 0; i < d.read_count; i++) {
        uint64_t bit = is_vector(d.reads[i]) ? 1ull << (d.reads[i] - X86_REG_VEC0) : 0;
        *read |= bit & ~*written;
        if (d.reads[i] == X86_REG_X87)
            return false;
    }
    for (int i = 0; i < d.write_count; i++) {
        uint64_t bit = is_vector(d.writes[i]) ? 1ull << (d.writes[i] - X86_REG_VEC0) : 0;
        *written |= bit;
        if (bit & *read)
            c->differs[d.writes[i]] = true;
        if (d.writes[i] == X86_REG_X87)
            return false;
    }
    return true;
}

static void note_registers(struct carried *c, const struct x86_insn *i, uint16_t *killed)
{
    c->live |= i->gpr_read & (uint16_t) ~*killed;
    for (unsigned r = 0; r < 16; r++)
        if ((i->gpr_written >> r & 1) && x86_kills_gpr(i, r))
            *killed |= (uint16_t)(1u << r);
}

/* Of one register that is loaded or stored whole: its number. */
static bool is_plain_move(const struct insn *k, bool stores, unsigned *reg)
{
    struct x86_detail d;
    if (k->i.kind != X86_PLAIN || k->accesses != 1 || k->access[0].bytes < 4 || k->access[0].is_store != stores ||
        k->access[0].is_load == stores || x86_detail_decode(k->bytes, sizeof k->bytes, &d) < 0)
        return false;
    *reg = stores ? d.reads[0] : d.writes[0];
    return (stores ? d.read_count : d.write_count) == 1 && *reg < 16 &&
           (!strncmp(d.form, "mov r", 5) || !strncmp(d.form, "mov m", 5) ||
            !strncmp(d.form, stores ? "push" : "pop", 3));
}

/* What the step stores, where that is a register or an address to return to. */
static bool is_stored(const struct stream *s, uint32_t step, uint64_t *value)
{
    const struct insn *k = insn_of(s, step);
    unsigned reg;
    *value = k->i.addr + k->i.len;
    if (k->i.kind == X86_CALL || k->i.kind == X86_CALL_IND)
        return true;
    if (!is_plain_move(k, true, &reg))
        return false;
    *value = s->steps.data[step].regs[reg];
    return true;
}

/* What it loads, likewise. */
static bool is_loaded(const struct stream *s, uint32_t step, uint64_t *value)
{
    const struct insn *k = insn_of(s, step);
    unsigned reg;
    *value = insn_of(s, step + 1)->i.addr;
    if (k->i.kind == X86_RET)
        return true;
    if (!is_plain_move(k, false, &reg))
        return false;
    *value = s->steps.data[step + 1].regs[reg];
    return true;
}

static void put_value(struct map *m, uint64_t at, uint32_t bytes, bool is_known, uint64_t value, bool replace)
{
    for (uint32_t b = 0; b < bytes; b++)
        if (replace || !map_has(m, at + b))
            map_put(m, at + b, is_known && b < 8 ? value >> 8 * b & 0xff : NOT_KNOWN);
}

/* What bytes held when the round first loaded them, and what its last store left there. */
static void note_values(const struct stream *s, uint32_t first, uint32_t last, struct map *loaded, struct map *stored)
{
    for (uint32_t k = first; k < last; k++) {
        const struct insn *i = insn_of(s, k);
        uint64_t value = 0;
        bool is_known = i->i.loads && is_loaded(s, k, &value);
        for (int a = 0; a < i->accesses; a++)
            if (i->access[a].is_load)
                put_value(loaded, address_of(s, k, a), i->access[a].bytes, is_known, value, false);
        is_known = i->i.stores && is_stored(s, k, &value);
        for (int a = 0; a < i->accesses; a++)
            if (i->access[a].is_store)
                put_value(stored, address_of(s, k, a), i->access[a].bytes, is_known, value, true);
    }
}

/* A return address, or a register that is saved at each call, is the same in each round. */
static void find_restored(const struct stream *s, uint32_t first, uint32_t last, struct map *bytes)
{
    struct map loaded = {0}, stored = {0};
    note_values(s, first, last, &loaded, &stored);
    for (size_t i = 0; i < bytes->cap; i++) {
        uint64_t was = NOT_KNOWN, is = NOT_KNOWN;
        if (bytes->used[i] && bytes->vals[i] == CARRIED && map_get(&loaded, bytes->keys[i], &was) &&
            map_get(&stored, bytes->keys[i], &is) && was == is && is != NOT_KNOWN)
            bytes->vals[i] = RESTORED;
    }
    map_fini(&loaded);
    map_fini(&stored);
}

static bool find_carried(struct carried *c, const struct stream *s, uint32_t first, uint32_t last)
{
    uint64_t read = 0, written = 0;
    uint16_t killed = 0;
    for (uint32_t k = first; k < last; k++) {
        note_memory(c, s, k);
        note_registers(c, &insn_of(s, k)->i, &killed);
        if (!note_vectors(c, insn_of(s, k), &read, &written))
            return false;
    }
    find_restored(s, first, last, &c->bytes);
    return !(c->has_stores && c->has_gathers);
}

/* ---- where it gets to ---- */

static bool byte_differs(const struct carried *c, uint64_t at)
{
    uint64_t how = 0, changed = 0;
    if (map_get(&c->changed, at, &changed))
        return changed;
    map_get(&c->bytes, at, &how);
    return how == CARRIED;
}

/* Do its operands differ from what was recorded? */
static bool operands_differ(const struct carried *c, const struct stream *s, uint32_t step, const struct x86_detail *d)
{
    const struct insn *k = insn_of(s, step);
    bool differs = false;
    for (int i = 0; i < d->read_count; i++)
        differs |= c->differs[d->reads[i]];
    for (int i = 0; i < d->addr_reg_count; i++) /* lea */
        differs |= c->differs[d->addr_regs[i]];
    for (int a = 0; a < k->accesses; a++)
        for (uint32_t b = 0; k->access[a].is_load && b < k->access[a].bytes; b++)
            differs |= byte_differs(c, address_of(s, step, a) + b);
    return differs || (k->i.flags_read && (c->differs[X86_REG_FLAGS_C] || c->differs[X86_REG_FLAGS_ZAPS]));
}

/* An address, a way to go, how long it takes or whether it faults. */
static bool is_decided(const struct carried *c, const struct insn *k, const struct x86_detail *d, bool differs)
{
    static const char *const divisions[] = {"div", "idiv"};
    for (int a = 0; a < k->accesses; a++)
        if ((k->access[a].base < X86_REG_NONE && c->differs[k->access[a].base]) ||
            (k->access[a].index < X86_REG_NONE && c->differs[k->access[a].index]))
            return true;
    return differs && (k->i.kind != X86_PLAIN || d->is_rep || k->accesses < 0 ||
                       x86_is_one_of(&k->i, divisions, ARRAY_LEN(divisions)));
}

/* Part of what was there stays. */
static bool stays(const struct x86_insn *i, unsigned reg)
{
    return reg < 16 ? !x86_kills_gpr(i, reg) : is_flag(reg) && (i->props & X86_PROP_FLAGS_MAYBE);
}

static void pass_on(struct carried *c, const struct stream *s, uint32_t step, const struct x86_detail *d, bool differs)
{
    const struct insn *k = insn_of(s, step);
    for (int i = 0; i < d->write_count; i++)
        c->differs[d->writes[i]] = differs || (c->differs[d->writes[i]] && stays(&k->i, d->writes[i]));
    for (int a = 0; a < k->accesses; a++)
        for (uint32_t b = 0; k->access[a].is_store && b < k->access[a].bytes; b++)
            map_put(&c->changed, address_of(s, step, a) + b, differs);
}

/* Returns false if it gets to where it must not; else `differs` is as at the round's end. */
static bool follow(struct carried *c, const struct stream *s, uint32_t first, uint32_t last)
{
    for (uint32_t k = first; k < last; k++) {
        struct x86_detail d;
        if (x86_detail_decode(insn_of(s, k)->bytes, sizeof insn_of(s, k)->bytes, &d) < 0)
            return false;
        bool differs = operands_differ(c, s, k, &d);
        if (is_decided(c, insn_of(s, k), &d, differs))
            return false;
        pass_on(c, s, k, &d, differs);
    }
    return true;
}

/* What was recorded around a round: the program's steps before it and behind it, as far as they may be a round too. */
struct around {
    uint32_t before, behind;    /* how many */
    struct map written, read;   /* as struct carried: by those before, by those behind */
    struct map read_at, set_at; /* bytes of the round itself: the step that first reads them, that last writes them */
};

static void note_around(struct around *a, const struct stream *s, uint32_t first, uint32_t last)
{
    uint32_t steps = last - first, left = (uint32_t)s->steps.len - last;
    a->before = first < steps ? first : steps;
    a->behind = left < steps ? left : steps;
    for (uint32_t k = first - a->before; k < first; k++)
        note_accesses(s, k, &a->written);
    for (uint32_t k = last; k < last + a->behind; k++)
        note_accesses(s, k, &a->read);
    for (uint32_t k = first; k < last; k++)
        for (int i = 0; i < insn_of(s, k)->accesses; i++) {
            const struct x86_access *m = &insn_of(s, k)->access[i];
            for (uint64_t at = address_of(s, k, i), b = at; b < at + m->bytes; b++) {
                if (m->is_load && !map_has(&a->read_at, b))
                    map_put(&a->read_at, b, k);
                if (m->is_store)
                    map_put(&a->set_at, b, k);
            }
        }
}

/* The program wrote the byte before the round, or read behind it what the round wrote; or what was recorded does not
 * reach to where it would. */
static bool is_waited_for(const struct around *a, uint32_t first, uint32_t last, uint64_t byte)
{
    uint64_t wrote = READ, reads = WRITTEN, read_at = last, set_at = first;
    map_get(&a->written, byte, &wrote);
    map_get(&a->read, byte, &reads);
    map_get(&a->read_at, byte, &read_at);
    map_get(&a->set_at, byte, &set_at);
    return wrote != READ || reads != WRITTEN || (read_at >= first + a->behind && set_at < last - a->before);
}

/* Does the program wait for what a round reads before it writes it? Else only the rounds would. */
static bool waits_as_the_program(const struct stream *s, uint32_t first, uint32_t last, const struct map *bytes)
{
    struct around a = {.before = 0};
    bool ok = true, has_carried = false;
    note_around(&a, s, first, last);
    for (size_t i = 0; i < bytes->cap && ok; i++)
        if (bytes->used[i] && bytes->vals[i] >= CARRIED)
            has_carried = true, ok = is_waited_for(&a, first, last, bytes->keys[i]);
    ok &= !has_carried || a.before + a.behind >= (last - first) / RECORDED_LEAST;
    map_fini(&a.written);
    map_fini(&a.read);
    map_fini(&a.read_at);
    map_fini(&a.set_at);
    return ok;
}

/* *renewed: general registers that differ at the end, and that no round reads before it writes them. */
static bool leads_the_same_way(const struct stream *s, uint32_t first, uint32_t last, uint16_t *renewed)
{
    struct carried c = {.has_stores = false};
    bool ok = find_carried(&c, s, first, last) && follow(&c, s, first, last) &&
              waits_as_the_program(s, first, last, &c.bytes);
    *renewed = 0;
    for (unsigned r = 0; r < 16; r++)
        *renewed |= (uint16_t)(c.differs[r] << r);
    map_fini(&c.bytes);
    map_fini(&c.changed);
    return ok && !(*renewed & c.live);
}

static bool are_flags_dead(const struct stream *s, uint32_t first, uint32_t last)
{
    unsigned live = X86_ALL_FLAGS;
    for (uint32_t k = first; k < last && live; k++) {
        const struct x86_insn *i = &insn_of(s, k)->i;
        if (i->flags_read & live)
            return false;
        if (!(i->props & X86_PROP_FLAGS_MAYBE))
            live &= ~(unsigned)i->flags_written;
    }
    return live == 0;
}

/* ---- its stub ---- */

static void put(struct wire_stub *s, const void *bytes, size_t n, uint64_t target)
{
    memcpy(s->code + s->bytes, bytes, n);
    s->bytes += (uint32_t)n;
    s->fix[s->fixes++] = (struct wire_fix){s->bytes - 4, 0, target};
}

enum { ADD = 0x03, MOV = 0x8b };

static void put_change(struct wire_stub *s, unsigned op, unsigned reg) /* op reg,[rip+distance] */
{
    uint8_t insn[7] = {(uint8_t)(0x48 | (reg & 8) >> 1), (uint8_t)op, (uint8_t)((reg & 7) << 3 | 5)};
    put(s, insn, sizeof insn, WIRE_TARGET_CHANGE + reg);
}

static void make_stub(const struct stream *s, uint32_t first, uint16_t renewed, struct wire_form *out)
{
    struct wire_stub *to = &out->stub;
    *to = (struct wire_stub){.bytes = 0};
    for (unsigned r = 0; r < 16; r++) {
        bool is_renewed = renewed >> r & 1;
        out->change[r] = is_renewed ? out->enter[r] : out->enter[r] - out->end[r];
        if (is_renewed || out->change[r])
            put_change(to, is_renewed ? MOV : ADD, r);
    }
    put(to, "\x48\xff\x0d\0\0\0\0", 7, WIRE_TARGET_COUNTER); /* dec qword [counter] */
    put(to, "\x0f\x84\0\0\0\0", 6, WIRE_TARGET_EXIT);
    put(to, "\xe9\0\0\0\0", 5, insn_of(s, first)->i.addr);
}

bool make_round(const struct stream *s, uint32_t first, struct wire_form *out)
{
    uint32_t last = (uint32_t)out->last;
    uint64_t rounds = STEPS_OF_REPLAY / (last - first);
    uint16_t renewed;
    if (out->counts || out->enter[RSP] != out->end[RSP] || !are_flags_dead(s, first, last) ||
        !leads_the_same_way(s, first, last, &renewed))
        return false;
    out->rounds = rounds < ROUNDS_LEAST ? ROUNDS_LEAST : min_u64(rounds, ROUNDS_MOST);
    make_stub(s, first, renewed, out);
    return true;
}
