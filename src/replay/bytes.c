/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, byte by byte, in the steps of a window: what a round of a slice reads that it left behind itself, whether
 * that is what was there before, and whether the program, too, waits for it.
 */
#include "replay/impl.h"

enum { NOT_KNOWN = 256 /* beside what a byte may hold */, RECORDED_MIN = 4 /* one in so many steps of a round */ };

static void note_bytes(struct map *bytes, uint64_t at, uint32_t count, bool stores)
{
    for (uint64_t b = at; b < at + count; b++) {
        uint64_t before = 0;
        if (!map_get(bytes, b, &before))
            map_put(bytes, b, stores ? BYTES_WRITTEN : BYTES_READ);
        else if (stores && before == BYTES_READ)
            map_put(bytes, b, BYTES_CARRIED);
    }
}

void bytes_note(const struct stream *s, uint32_t step, struct map *bytes)
{
    const struct insn *k = insn_of(s, step);
    for (int stores = 0; stores < 2; stores++)
        for (int a = 0; a < k->d.access_count; a++)
            if (stores ? k->d.access[a].is_store : k->d.access[a].is_load)
                note_bytes(bytes, stream_address(s, step, a), k->d.access[a].bytes, stores);
}

/* Of one register that is loaded or stored whole: its number. */
static bool is_plain_move(const struct insn *k, bool stores, unsigned *reg)
{
    const struct x86_detail *d = &k->d;
    const struct x86_access *a = &d->access[0];
    bool is_move = d->insn.op == X86_OP_MOV || d->insn.op == (stores ? X86_OP_PUSH : X86_OP_POP);
    if (!is_move || d->access_count != 1 || a->bytes < 4 || a->is_store != stores || a->is_load == stores)
        return false;
    *reg = stores ? d->reads[0] : d->writes[0];
    return (stores ? d->read_count : d->write_count) == 1 && *reg < X86_GPR_COUNT;
}

/* What the step stores, where that is a register or an address to return to. */
static bool is_stored(const struct stream *s, uint32_t step, uint64_t *value)
{
    const struct insn *k = insn_of(s, step);
    unsigned reg;
    *value = k->d.insn.addr + k->d.insn.len;
    if (k->d.insn.kind == X86_CALL || k->d.insn.kind == X86_CALL_IND)
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
    *value = insn_of(s, step + 1)->d.insn.addr;
    if (k->d.insn.kind == X86_RET)
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
        bool is_known = i->d.insn.loads && is_loaded(s, k, &value);
        for (int a = 0; a < i->d.access_count; a++)
            if (i->d.access[a].is_load)
                put_value(loaded, stream_address(s, k, a), i->d.access[a].bytes, is_known, value, false);
        is_known = i->d.insn.stores && is_stored(s, k, &value);
        for (int a = 0; a < i->d.access_count; a++)
            if (i->d.access[a].is_store)
                put_value(stored, stream_address(s, k, a), i->d.access[a].bytes, is_known, value, true);
    }
}

/* A return address, or a register that is saved at each call, is the same in each round. */
void bytes_find_restored(const struct stream *s, uint32_t first, uint32_t last, struct map *bytes)
{
    struct map loaded = {0}, stored = {0};
    note_values(s, first, last, &loaded, &stored);
    for (size_t i = 0; i < bytes->cap; i++) {
        uint64_t was = NOT_KNOWN, is = NOT_KNOWN;
        if (bytes->used[i] && bytes->vals[i] == BYTES_CARRIED && map_get(&loaded, bytes->keys[i], &was) &&
            map_get(&stored, bytes->keys[i], &is) && was == is && is != NOT_KNOWN)
            bytes->vals[i] = BYTES_RESTORED;
    }
    map_fini(&loaded);
    map_fini(&stored);
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
        bytes_note(s, k, &a->written);
    for (uint32_t k = last; k < last + a->behind; k++)
        bytes_note(s, k, &a->read);
    for (uint32_t k = first; k < last; k++)
        for (int i = 0; i < insn_of(s, k)->d.access_count; i++) {
            const struct x86_access *m = &insn_of(s, k)->d.access[i];
            for (uint64_t at = stream_address(s, k, i), b = at; b < at + m->bytes; b++) {
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
    uint64_t wrote = BYTES_READ, reads = BYTES_WRITTEN, read_at = last, set_at = first;
    map_get(&a->written, byte, &wrote);
    map_get(&a->read, byte, &reads);
    map_get(&a->read_at, byte, &read_at);
    map_get(&a->set_at, byte, &set_at);
    return wrote != BYTES_READ || reads != BYTES_WRITTEN || (read_at >= first + a->behind && set_at < last - a->before);
}

/* Does the program wait for what a round reads before it writes it? Else only the rounds would. */
bool bytes_waited_for(const struct stream *s, uint32_t first, uint32_t last, const struct map *bytes)
{
    struct around a = {.before = 0};
    bool ok = true, has_carried = false;
    note_around(&a, s, first, last);
    for (size_t i = 0; i < bytes->cap && ok; i++)
        if (bytes->used[i] && bytes->vals[i] >= BYTES_CARRIED) {
            has_carried = true;
            ok = is_waited_for(&a, first, last, bytes->keys[i]);
        }
    ok &= !has_carried || a.before + a.behind >= (last - first) / RECORDED_MIN;
    map_fini(&a.written);
    map_fini(&a.read);
    map_fini(&a.read_at);
    map_fini(&a.set_at);
    return ok;
}
