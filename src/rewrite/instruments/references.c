/* SPDX-License-Identifier: Apache-2.0
 *
 * The instrumentation that tells every reference to memory, in order (wire/stream.h): in front of each instruction that
 * reaches memory a site, which makes an entry for each of its accesses. Which instructions, and which registers a site
 * may use; its code is in reference_code.c.
 *
 * Where operands do not say what an instruction reaches, the site calls the runtime (reference_calls.c). Of what nobody
 * can tell only that it was executed: enter, pop to a place by rsp, prefetches of gathers, gs. Functions that may run
 * before the runtime knows the module have no sites.
 *
 * needs: funcs. fills: references.
 */
#include "rewrite/instruments/references.h"
#include "rewrite/instruments/registers.h"

#include <stdlib.h>

/* ---- which ---- */

struct range { /* of functions, looked at alone */
    VEC(struct rw_reference) references;
    VEC(struct rw_site) sites;
};
struct finder {
    struct rw *w;
    struct range *ranges;
};

static bool has_name(const struct x86_insn *in, const char *begins)
{
    return strncmp(x86_mnemonic_name(in->mnemonic), begins, strlen(begins)) == 0;
}

/* Can code of a site compute it? */
static bool is_computable(const struct x86_access *a)
{
    bool has_registers = a->base != X86_REG_NONE || a->index != X86_REG_NONE || a->segment != X86_SEGMENT_NONE;
    bool is_far = has_registers && (a->disp < INT32_MIN + 4096 || a->disp > INT32_MAX - 4096);
    return !is_far && a->segment != X86_SEGMENT_GS && !(a->segment == X86_SEGMENT_FS && a->base == X86_RSP);
}

static bool is_told(const struct x86_detail *d)
{
    if (d->access_count < 0)
        return false;
    for (int k = 0; k < d->access_count; k++)
        if (!is_computable(&d->access[k]))
            return false;
    return true;
}

/* Its operands do not say where it reaches, or more than it reaches. */
static bool needs_call(const struct x86_detail *d) { return d->reach.kind != X86_REACH_NONE || rw_call_is_behind(d); }

static uint8_t flags_of(const struct x86_detail *d, const struct x86_access *a)
{
    bool is_prefetch = a->is_load && has_name(&d->insn, "prefetch");
    return (uint8_t)((a->is_load ? REWRITE_SITE_LOAD : 0) | (a->is_store ? REWRITE_SITE_STORE : 0) |
                     (is_prefetch ? REWRITE_SITE_PREFETCH : 0) |
                     (d->insn.props & X86_PROP_REP ? REWRITE_SITE_RANGE : 0));
}

/* What is read comes before what is written. `pushed`: bytes by which the stack pointer was moved since the site. */
static void add_sites(struct range *out, const struct x86_detail *d, bool stores, int64_t pushed)
{
    for (int k = 0; k < d->access_count; k++) {
        struct x86_access a = d->access[k];
        bool is_only_store = a.is_store && !a.is_load;
        uint8_t flags = flags_of(d, &a);
        a.disp -= a.base == X86_RSP ? pushed : 0;
        if (is_only_store == stores)
            VEC_PUSH(&out->sites, ((struct rw_site){d->insn.addr, a, flags}));
    }
}

/* ---- registers ---- */

static uint16_t address_registers(const struct x86_detail *d)
{
    uint16_t used = 0;
    for (int k = 0; k < d->access_count; k++)
        used |= bit_of(d->access[k].base) | bit_of(d->access[k].index);
    return d->insn.props & X86_PROP_REP ? used | 1u << X86_RCX : used;
}

static void choose_registers(struct rw_reference *r, struct cfg_live live, uint16_t used)
{
    r->saves_flags = live.flags != 0;
    struct taken_registers two =
        take_registers(2, live.gpr_dead | (r->saves_flags ? 1u << X86_RAX : 0), used | FRAME_REGISTERS);
    r->address = two.reg[0];
    r->entry = two.reg[1];
    memcpy(r->saved, two.saved, sizeof r->saved);
    r->saves = two.saves;
}

/* ---- all instructions ---- */

/* Only how often it was executed; not of prefetches. */
static void add_untold(struct range *out, const struct x86_detail *d, uint32_t i, struct cfg_live live)
{
    struct rw_reference r = {.addr = d->insn.addr, .insn = i, .first = (uint32_t)out->sites.len, .is_untold = true};
    VEC_PUSH(&out->sites, ((struct rw_site){.addr = d->insn.addr, .flags = REWRITE_SITE_UNTOLD}));
    if (has_name(&d->insn, "prefetch"))
        return;
    choose_registers(&r, live, 0);
    VEC_PUSH(&out->references, r);
}

static void add_call(struct range *out, const struct x86_detail *d, uint32_t i, struct cfg_live live)
{
    struct rw_reference r = {.addr = d->insn.addr, .insn = i, .first = (uint32_t)out->sites.len};
    struct rw_site sites[RW_CALL_SITES_MAX];
    if (!rw_call_can_tell(d)) {
        add_untold(out, d, i, live);
        return;
    }
    r.count = (uint8_t)rw_call_sites(d, sites);
    for (unsigned k = 0; k < r.count; k++)
        VEC_PUSH(&out->sites, sites[k]);
    r.call = rw_call_how(d);
    r.is_behind = rw_call_is_behind(d);
    r.saves_flags = live.flags || r.is_behind;
    r.is_rip = (d->insn.props & X86_PROP_RIPREL) != 0;
    VEC_PUSH(&out->references, r);
}

/* Longer than a line of the filter. */
static bool has_long(const struct x86_detail *d, const struct rewrite_options *opt)
{
    bool any = false;
    for (int k = 0; opt->filter_shift && k < d->access_count; k++)
        any |= d->access[k].bytes > 1u << opt->filter_shift;
    return any;
}

static bool is_checked(const struct rewrite_options *opt) { return opt->filter_shift || opt->sets.mask; }

static void choose(struct rw_reference *r, struct cfg_live live, uint16_t used, const struct rewrite_options *opt)
{
    r->saves = 0;
    choose_registers(r, live, used);
    r->is_late = opt->sets.mask && !r->is_range && r->saves;
    r->saves -= r->is_late;
}

/* ---- what is asked together ----
 *
 * Accesses that follow each other in a block, whose addresses are known in front of the first of them, may have one
 * site there: registers and flags are saved once, and one test does for those that are near each other
 * (reference_code.c). Where some sets are taken that is any of them; else those by the same registers within the length
 * of a line, pushes and pops among them. Nothing else that is told lies between them, so the order is that of the
 * program; what a handler of a signal tells that comes in between follows them, and where one of them faults the others
 * are told too.
 */

struct run {                   /* the last reference, as far as others may join it */
    bool is_open, is_absolute; /* is_absolute: one of its addresses is a number */
    uint16_t used;             /* registers of its addresses */
    uint16_t written;          /* since it began, but for what is pushed and popped */
    int64_t pushed;            /* likewise: bytes */
    struct x86_access near;    /* its first, of several by the same registers */
    int64_t begin, end;        /* all of them, by `near` */
    struct cfg_live live;
};

/* Instructions in line. */
static unsigned cost(const struct rw_reference *r)
{
    return r->saves || r->saves_flags ? 2 + 2 * r->saves + 6 * r->saves_flags : 0;
}

static bool is_rip(const struct x86_detail *d) { return d->insn.props & X86_PROP_RIPREL; }

static bool is_absolute(const struct x86_detail *d)
{
    bool any = false;
    for (int k = 0; k < d->access_count && !is_rip(d); k++)
        any |= rw_is_number(&d->access[k]);
    return any;
}

static bool has_near(const struct x86_access *a) { return !rw_is_number(a) && a->segment == X86_SEGMENT_NONE; }

static struct run begin_run(const struct x86_detail *d, struct cfg_live live)
{
    const struct x86_access *a = &d->access[0];
    return (struct run){.is_open = true,
                        .is_absolute = is_absolute(d),
                        .used = address_registers(d),
                        .near = d->access_count == 1 ? *a : (struct x86_access){.base = X86_REG_NONE},
                        .begin = a->disp,
                        .end = a->disp + a->bytes,
                        .live = live};
}

/* Without sets: whether the access goes with the `count` before it. Of two both must seldom need a test of their own;
 * for more, two tests, of the first byte and of the last, are less than each its own. */
static bool goes_near(struct run *run, const struct x86_detail *d, unsigned count, const struct rewrite_options *opt)
{
    const struct x86_access *a = &d->access[0], *b = &run->near;
    int64_t disp = a->disp - (a->base == X86_RSP ? run->pushed : 0), line = 1 << opt->filter_shift;
    int64_t begin = disp < run->begin ? disp : run->begin;
    int64_t end = disp + a->bytes > run->end ? disp + a->bytes : run->end;
    bool is_same = a->base == b->base && a->index == b->index && a->scale == b->scale;
    if (d->access_count != 1 || !has_near(a) || !has_near(b) || !is_same)
        return false;
    if (end - begin > (count == 1 ? line / 8 * 3 : line))
        return false;
    run->begin = begin;
    run->end = end;
    return true;
}

static bool join(struct range *out, struct run *run, const struct rw_reference *r, const struct x86_detail *d,
                 const struct rewrite_options *opt)
{
    uint16_t used = address_registers(d);
    if (!run->is_open || opt->samples)
        return false;
    struct rw_reference *last = &out->references.data[out->references.len - 1], both = *last;
    bool is_mixed = run->is_absolute ? is_rip(d) : last->is_rip && is_absolute(d);
    if (last->count + r->count > RW_REFERENCE_ACCESSES_MAX || is_mixed || run->written & used)
        return false;
    if (!opt->sets.mask && !goes_near(run, d, last->count, opt))
        return false;
    both.count += r->count;
    both.is_rip |= r->is_rip;
    both.is_near = !opt->sets.mask;
    choose(&both, run->live, run->used | used, opt);
    if (cost(&both) > cost(last) + cost(r))
        return false;
    *last = both;
    run->used |= used;
    run->is_absolute |= is_absolute(d);
    return true;
}

/* Bytes that an instruction pushes, below 0 if it pops them; 0: it does something else to the stack pointer, or
 * nothing.
 */
static int64_t pushes(const struct x86_insn *in)
{
    uint16_t others = in->gpr_written & (uint16_t)~bit_of(X86_RSP);
    bool is_pop = in->op == X86_OP_POP && others; /* not of the stack pointer */
    return in->op_bytes != 8 ? 0 : in->op == X86_OP_PUSH ? 8 : is_pop ? -8 : 0;
}

/* It has been looked at. */
static void go_on(struct run *run, const struct x86_insn *in)
{
    int64_t bytes = pushes(in);
    run->pushed += bytes;
    run->written |= bytes ? in->gpr_written & (uint16_t)~bit_of(X86_RSP) : in->gpr_written;
    run->is_open &= in->kind == X86_PLAIN && in->op != X86_OP_MODE && !(in->props & (X86_PROP_LOCK | X86_PROP_NOP));
}

static void add_instruction(struct range *out, struct run *run, const struct cfg *c, uint32_t i, struct cfg_live live,
                            const struct rewrite_options *opt)
{
    struct x86_detail d;
    uint64_t addr = cfg_insn_addr(c, i);
    const uint8_t *bytes = image_at(c->img, addr, cfg_len(c, i));
    if (!bytes || !x86_decode_detail(bytes, cfg_len(c, i), addr, &d) || (!d.access_count && d.insn.kind != X86_SYSCALL))
        return;
    if (needs_call(&d)) {
        run->is_open = false;
        add_call(out, &d, i, live);
        return;
    }
    if (!is_told(&d) || (opt->filter_shift && has_name(&d.insn, "prefetch"))) {
        run->is_open = false;
        add_untold(out, &d, i, live);
        return;
    }
    struct rw_reference r = {
        .addr = addr, .insn = i, .first = (uint32_t)out->sites.len, .count = (uint8_t)d.access_count};
    r.is_range = (d.insn.props & X86_PROP_REP) != 0;
    r.is_rip = is_rip(&d);
    uint16_t used = address_registers(&d);
    bool is_alone = !is_checked(opt) || r.is_range || has_long(&d, opt) || r.count > RW_REFERENCE_ACCESSES_MAX / 2;
    if (is_checked(opt) && has_long(&d, opt)) {
        choose_registers(&r, live, used);
        if (!r.saves) /* calls in the cold part, which must find the stack moved */
            r.saved[r.saves++] = r.entry;
    } else {
        choose(&r, live, used, opt);
    }
    if (is_alone || !join(out, run, &r, &d, opt)) {
        VEC_PUSH(&out->references, r);
        *run = begin_run(&d, live);
        run->is_open = !is_alone;
    }
    add_sites(out, &d, false, run->pushed);
    add_sites(out, &d, true, run->pushed);
}

/* References of the block that are told one by one, or as one range; as the join counts them (prof/spied). */
static void count_block(struct range *out, uint32_t block, size_t first_reference, size_t first_site)
{
    unsigned n = 0;
    for (size_t i = first_site; i < out->sites.len; i++)
        n += (out->sites.data[i].flags & (REWRITE_SITE_LOAD | REWRITE_SITE_STORE)) != 0;
    size_t first = first_reference;
    while (first < out->references.len && out->references.data[first].call)
        first++; /* those tell always */
    if (first == out->references.len)
        return;
    out->references.data[first].told = (uint8_t)min_u64(n, INT8_MAX);
    out->references.data[first].block = block;
}

static void find_in_func(struct range *out, const struct rw *w, uint32_t f, struct cfg_liveness *l)
{
    const struct cfg *c = w->cfg;
    struct cfg_live live[CFG_BLOCK_INSNS_MAX];
    cfg_liveness_build(c, f, l);
    cfg_for_each_block(&c->funcs.data[f], b) {
        const struct cfg_block *blk = &c->blocks.data[b];
        size_t references = out->references.len, sites = out->sites.len;
        struct run run = {.is_open = false};
        cfg_live_inside(l, b, live, CFG_BLOCK_INSNS_MAX);
        if (w->second)
            w->second[b] = live[0].flags ? RW_SECOND_FLAGS : 0;
        cfg_for_each_insn(blk, i) {
            const struct x86_insn *in = cfg_shape(c, i);
            if (in->loads || in->stores || in->kind == X86_SYSCALL)
                add_instruction(out, &run, c, i, live[i - blk->insn_first], w->opt);
            go_on(&run, in);
        }
        if (w->opt->samples)
            count_block(out, b, references, sites);
    }
}

static void find_in_range(void *ctx, size_t first, size_t end)
{
    const struct finder *finder = ctx;
    struct cfg_liveness l = {0};
    for (size_t f = first; f < end; f++)
        if (finder->w->funcs[f].gs)
            find_in_func(&finder->ranges[first / RW_FUNCS_A_RANGE], finder->w, (uint32_t)f, &l);
    cfg_liveness_fini(&l);
}

/* Numbers them in the order of ranges. */
static void join_ranges(struct rw *w, struct rw_references *all, const struct finder *finder, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const struct range *range = &finder->ranges[k];
        for (size_t i = 0; i < range->references.len; i++) {
            struct rw_reference r = range->references.data[i];
            r.first += all->site_count;
            if (r.told)
                w->block_counter[r.block] = r.counter = (uint32_t)w->counter_count++;
            all->of_insn[r.insn] = all->count;
            all->data[all->count++] = r;
        }
        if (range->sites.len)
            memcpy(all->sites + all->site_count, range->sites.data, range->sites.len * sizeof *all->sites);
        all->site_count += (uint32_t)range->sites.len;
    }
}

static void place(struct rw *w)
{
    size_t n = w->cfg->funcs.len / RW_FUNCS_A_RANGE + 1, references = 0, sites = 0;
    struct finder finder = {w, xmalloc(n * sizeof *finder.ranges)};
    struct rw_references *all = w->references = ARENA_NEW(w->arena, struct rw_references);
    w->second = w->opt->samples ? ARENA_ARRAY(w->arena, uint8_t, w->cfg->blocks.len + 1) : NULL;
    parallel_for(w->cfg->funcs.len, RW_FUNCS_A_RANGE, find_in_range, &finder);
    rw_watch_find(w, &all->watch);
    for (size_t k = 0; k < n; k++) {
        references += finder.ranges[k].references.len;
        sites += finder.ranges[k].sites.len;
    }
    all->of_insn = ARENA_ARRAY(w->arena, uint32_t, w->cfg->insns.len + 1);
    memset(all->of_insn, 0xff, (w->cfg->insns.len + 1) * sizeof *all->of_insn);
    all->data = ARENA_ARRAY(w->arena, struct rw_reference, references + 1);
    all->sites = ARENA_ARRAY(w->arena, struct rw_site, sites + all->watch.sites.len + 1);
    join_ranges(w, all, &finder, n);
    for (size_t k = 0; k < all->watch.sites.len; k++)
        all->sites[all->site_count++] = all->watch.sites.data[k];
    for (size_t k = 0; k < n; k++) {
        VEC_FREE(&finder.ranges[k].references);
        VEC_FREE(&finder.ranges[k].sites);
    }
    free(finder.ranges);
    if (w->second)
        rw_versions(w);
}

/* ---- where they stand ---- */

enum { CALLS = RW_REFERENCE_CALL | RW_REFERENCE_NOTE };

/* The runtime registers only modules that have words. */
static void plan(struct rw *w) { w->counter_count = 1; }

static bool has_check(const struct rw *w, uint32_t block) { return w->second && w->second[block] & RW_SECOND_CHECK; }

static uint32_t next(const struct rw *w, uint32_t block, uint32_t insn)
{
    const struct cfg_block *blk = &w->cfg->blocks.data[block];
    uint32_t end = blk->insn_first + blk->insn_count, watched = rw_watch_next(&w->references->watch, insn);
    if (insn == blk->insn_first && has_check(w, block))
        return insn;
    for (uint32_t i = insn; i < end && i < watched; i++)
        if (w->references->of_insn[i] != ID_NONE)
            return i;
    return watched < end ? watched : ID_NONE;
}

static bool has_behind(const struct rw *w, uint32_t insn)
{
    uint32_t id = w->references->of_insn[insn];
    return id != ID_NONE && w->references->data[id].is_behind;
}

static void insert_call(const struct rw *w, struct rw_point point, uint32_t id, struct rw_fragments *out)
{
    const struct rw_reference *r = &w->references->data[id];
    if (point.where == RW_BEHIND_CODE)
        return;
    uint8_t how = r->is_behind && point.where == RW_BEFORE_INSN ? RW_REFERENCE_NOTE : r->call;
    rw_fragment_add(out, (struct rw_fragment){
                             .id = id, .bytes = (uint16_t)rw_call_bytes(w, r, how), .kind = RW_INSERTED, .how = how});
}

static void add(uint32_t id, unsigned how, unsigned bytes, struct rw_fragments *out)
{
    rw_fragment_add(out,
                    (struct rw_fragment){.id = id, .bytes = (uint16_t)bytes, .kind = RW_INSERTED, .how = (uint8_t)how});
}

static void add_piece(const struct rw *w, uint32_t id, bool is_cold, struct rw_fragments *out)
{
    const struct rw_reference *r = &w->references->data[id];
    add(id, rw_reference_how(r, is_cold), rw_reference_bytes(w, r, is_cold), out);
}

/* What is watched, and the check. */
static void insert_in_first(const struct rw *w, struct rw_point point, struct rw_fragments *out)
{
    rw_watch_insert(&w->references->watch, point.insn, out);
    if (point.insn == w->cfg->blocks.data[point.at].insn_first && has_check(w, point.at))
        add(point.at, RW_REFERENCE_CHECK, RW_CHECK_BYTES, out);
}

static void insert(const struct rw *w, struct rw_point point, struct rw_fragments *out)
{
    bool is_cold = point.where == RW_BEHIND_CODE;
    bool is_before = point.where == RW_BEFORE_INSN, is_second = point.where == RW_IN_SECOND;
    if (!is_before && !is_second && point.where != RW_BEHIND_INSN && !is_cold)
        return;
    if (is_before)
        insert_in_first(w, point, out);
    uint32_t id = w->references->of_insn[point.insn];
    if (id == ID_NONE)
        return;
    const struct rw_reference *r = &w->references->data[id];
    if (!is_cold && r->is_second != is_second)
        return;
    if (r->call) {
        insert_call(w, point, id, out);
    } else if (!rw_reference_is_far(w, r)) {
        add_piece(w, id, is_cold, out);
    } else if (!is_cold) {
        add(id, RW_REFERENCE_ASK, RW_CHECK_BYTES, out);
    } else {
        add_piece(w, id, false, out);
        add(id, RW_REFERENCE_BACK, RW_BACK_BYTES, out);
        add_piece(w, id, true, out);
    }
}

static bool is_call_site(const struct rw_fragment *f) { return f->how & CALLS && !(f->how & RW_REFERENCE_COLD); }

static void describe(struct rw *w, uint32_t func)
{
    const struct rw_func *fn = &w->funcs[func];
    for (uint32_t i = 0; i < fn->fragment_count; i++) {
        const struct rw_fragment *f = &fn->fragments[i];
        if (f->kind != RW_INSERTED || f->how == RW_REFERENCE_BACK || f->how & RW_REFERENCE_WATCH || is_call_site(f))
            continue;
        if (f->how == RW_REFERENCE_ASK)
            w->references->data[f->id].ask = f->off;
        else if (f->how & RW_REFERENCE_COLD)
            w->references->data[f->id].cold = f->off;
        else
            w->references->data[f->id].hot = f->off;
    }
}

uint64_t rw_reference_address(const struct rw *w, const struct rw_reference *r, uint32_t off)
{
    return rw_address(&w->funcs[w->cfg->blocks.data[cfg_block_of(w->cfg, r->insn)].func], off);
}

static void put(const struct rw *w, const struct rw_fragment *f, uint8_t *at, uint64_t addr)
{
    const struct rw_reference *all = w->references->data;
    if (f->how == RW_REFERENCE_ASK)
        rw_put_check(w, at, addr, rw_reference_address(w, &all[f->id], all[f->id].hot));
    else if (f->how == RW_REFERENCE_BACK)
        rw_put_jmp(at, addr, rw_reference_address(w, &all[f->id], all[f->id].ask) + RW_CHECK_BYTES);
    else if (f->how == RW_REFERENCE_CHECK)
        rw_put_check(w, at, addr, rw_address(&w->funcs[w->cfg->blocks.data[f->id].func], w->label[f->id].second));
    else if (f->how & RW_REFERENCE_WATCH)
        rw_put_watch(w, f, at, addr);
    else
        (is_call_site(f) ? rw_put_call_site : rw_put_reference)(w, f, at, addr);
}

static void frames(const struct rw *w, const struct rw_fragment *f, struct rw_frames *out)
{
    if (f->how == RW_REFERENCE_CHECK || f->how == RW_REFERENCE_ASK || f->how == RW_REFERENCE_BACK)
        return;
    if (f->how & RW_REFERENCE_WATCH)
        rw_watch_frames(f, out);
    else if (is_call_site(f))
        rw_call_frames(w, f, out);
    else
        rw_reference_frames(w, f, out);
}

static void forget(struct rw *w)
{
    if (w->references)
        rw_watch_fini(&w->references->watch);
}

static uint32_t runtime(const struct rw *w)
{
    return RW_RUNTIME_STREAM | (w->opt->filter_threads ? RW_RUNTIME_LINES : 0) |
           (uint32_t)w->opt->filter_lines << RW_RUNTIME_LAST_SHIFT |
           (uint32_t)w->opt->filter_shift << RW_RUNTIME_SHIFT_SHIFT;
}

const struct rw_instrument rw_reference_sites = {
    .moves = true,
    .has_runtime = true,
    .has_words = true,
    .plan = plan,
    .place = place,
    .forget = forget,
    .next = next,
    .has_behind = has_behind,
    .insert = insert,
    .put = put,
    .frames = frames,
    .describe = describe,
    .runtime = runtime,
    .runtime_frames = rw_blob_frames,
};
