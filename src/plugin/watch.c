/* SPDX-License-Identifier: Apache-2.0
 * State machines over what is executed. Of each instruction it is asked once, at its translation, which patterns it can
 * match; those that match none are not looked at again. What hangs on others does not depend on the state of a machine,
 * since translations stay when that changes. */
#include "plugin/model.h"

#include <errno.h>
#include <stdlib.h>

#include "states/states.h"

bool watch_is_wanted;

struct watched {
    struct states_program *program;
    struct states_machine *machine;
    uint64_t processes; /* patterns whose process runs */
    bool needs_all, needs_accesses, asks_physical, traces;
};
struct watch {    /* of an instruction, one machine */
    size_t which; /* of the machines */
    struct states_masks masks;
    struct watch *next;
};
struct site_watch {
    const struct segment *segment;
    uint64_t pc;
    unsigned at, index; /* bytes and instructions of the segment before it */
    size_t len;
    bool reaches, is_modify;
    bool is_traced; /* by one of the machines */
    struct watch *first;
};
struct pending {
    struct qemu_plugin_insn *insn;
    struct site_watch *site;
};

static VEC(struct watched) all;
static VEC(struct pending) waiting;
static struct arena *arena;
static uint64_t running; /* process */

/* ---- read ---- */

static bool function(void *ctx, size_t i, const char **name, struct states_range *range)
{
    return places_function(ctx, i, name, &range->first, &range->last);
}

static bool symbol(void *ctx, const char *name, uint64_t *address)
{
    (void)ctx;
    *address = places_kernel_symbol(name);
    return *address != 0;
}

static int read_program(const char *path)
{
    static const struct states_symbols symbols = {.function = function, .symbol = symbol};
    struct file_bytes f;
    struct watched w = {.processes = UINT64_MAX};
    if (file_map(path, &f) < 0)
        return diag_error("cannot read %s: %s", path, strerror(errno));
    w.program = states_parse(path, (const char *)f.data, f.len, false);
    file_unmap(&f);
    if (!w.program || states_resolve(w.program, &symbols) < 0)
        return -1;
    w.machine = states_new(w.program);
    w.needs_all = states_needs_all(w.program, false);
    w.needs_accesses = states_needs_all(w.program, true);
    w.traces = states_traces(w.program);
    for (size_t i = 0; i < w.program->patterns.len; i++)
        w.asks_physical |= w.program->patterns.data[i].has_physical;
    VEC_PUSH(&all, w);
    return 0;
}

int watch_read(void)
{
    arena = arena_new();
    for (size_t i = 0; i < settings.programs.len; i++)
        if (read_program(settings.programs.data[i]) < 0)
            return -1;
    watch_is_wanted = true;
    return 0;
}

/* ---- translated ---- */

static unsigned classes_of(const struct mix_insn *i)
{
    unsigned out = 0;
    for (unsigned k = 0; k < WIRE_MIX_COUNT; k++)
        out |= (unsigned)(i->mix[k] != 0) << k;
    return out;
}

static bool is_wanted(const struct watched *w, const struct states_masks *m, bool reaches)
{
    return m->sure || m->maybe || m->access || m->access_maybe || w->needs_all || (w->needs_accesses && reaches);
}

void watch_instruction(struct qemu_plugin_insn *insn, const struct mix_insn *i, struct segment *s, const uint8_t *bytes,
                       size_t len, uint64_t begin)
{
    struct site_watch site = {.segment = s, .pc = segment_last(s), .at = s->last_at, .len = len};
    const struct states_place place = {.pc = segment_last(s),
                                       .function = begin,
                                       .function_name = places_name(),
                                       .bytes = bytes,
                                       .len = len,
                                       .classes = classes_of(i),
                                       .mark = i->special == MIX_MARKER ? i->mark : -1,
                                       .is_kernel = s->is_kernel};
    /* those that the model has hooks on: on others QEMU 7.2 would keep them for accesses that are not theirs */
    bool reaches = i->x.loads || i->x.stores || i->mix[WIRE_SYSTEM - WIRE_NOPS];
    site.index = s->instructions - 1u;
    site.reaches = reaches;
    site.is_modify = i->is_modify;
    for (size_t k = 0; k < all.len; k++) {
        struct states_masks m = states_match(all.data[k].program, &place);
        if (!reaches)
            m.access = m.access_maybe = 0;
        if (!is_wanted(&all.data[k], &m, reaches))
            continue;
        struct watch *w = ARENA_NEW(arena, struct watch);
        *w = (struct watch){.which = k, .masks = m, .next = site.first};
        site.first = w;
        site.is_traced |= all.data[k].traces;
    }
    if (site.first) {
        struct pending p = {insn, ARENA_NEW(arena, struct site_watch)};
        *p.site = site;
        VEC_PUSH(&waiting, p);
    }
}

/* ---- executed ---- */

/* `behind`: instructions that totals hold already, this one and those behind it. */
static struct states_now now_of(const struct site_watch *s, uint64_t behind, uint64_t address)
{
    uint64_t done = totals[0].instructions + totals[1].instructions - totals[0].restarts - totals[1].restarts;
    return (struct states_now){.instructions = done - behind,
                               .cycles = model_is_wanted ? model_now() : 0,
                               .pc = s->pc,
                               .address = address,
                               .pid = running};
}

static void on_instruction(unsigned vcpu, void *site)
{
    const struct site_watch *s = site;
    struct states_event e = {.missed_fetch = false};
    (void)vcpu;
    if (!plugin_is_counting)
        return;
    if (model_is_wanted)
        e.missed_fetch = fetches_missed(s->segment, s->at, s->len);
    /* the addition for the segment comes behind what hangs on its first instruction */
    struct states_now now = now_of(s, s->index ? s->segment->instructions - s->index : 0, 0);
    now.kind = STATES_FETCH;
    now.reached = s->at + (settings.is_virtual ? s->segment->vaddr : s->segment->physical);
    now.bytes = (uint16_t)s->len;
    for (const struct watch *w = s->first; w; w = w->next) {
        struct watched *m = &all.data[w->which];
        uint64_t matched = w->masks.sure;
        if (w->masks.maybe)
            matched |= states_decide(m->program, w->masks.maybe, false, &e, m->processes);
        if (matched || m->needs_all)
            states_step(m->machine, matched, false, &now);
    }
}

static uint64_t physical_of(qemu_plugin_meminfo_t info, uint64_t vaddr)
{
    struct qemu_plugin_hwaddr *h = qemu_plugin_get_hwaddr(info, vaddr);
    return h ? qemu_plugin_hwaddr_phys_addr(h) : UINT64_MAX;
}

/* The access as the caches have it (access_any). */
static void describe_access(const struct site_watch *s, qemu_plugin_meminfo_t info, uint64_t vaddr,
                            struct states_now *now)
{
    struct qemu_plugin_hwaddr *h = qemu_plugin_get_hwaddr(info, vaddr);
    uint64_t left = (1u << PAGE_SHIFT) - (vaddr & ((1u << PAGE_SHIFT) - 1));
    bool stores = qemu_plugin_mem_is_store(info);
    if (!h || qemu_plugin_hwaddr_is_io(h))
        now->kind = STATES_DEVICE;
    else if (stores)
        now->kind = s->is_modify ? STATES_MODIFIED : STATES_STORE;
    else
        now->kind = s->is_modify ? STATES_MODIFY : STATES_LOAD;
    now->bytes = (uint16_t)(1u << qemu_plugin_mem_size_shift(info));
    if (!settings.is_virtual)
        now->bytes = (uint16_t)min_u64(now->bytes, left);
    now->reached = settings.is_virtual || !h ? vaddr : qemu_plugin_hwaddr_phys_addr(h);
}

static void on_access(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *site)
{
    const struct site_watch *s = site;
    struct states_event e = {.address = vaddr, .physical = UINT64_MAX, .stores = qemu_plugin_mem_is_store(info)};
    bool is_processors = !s->segment->is_kernel && (int64_t)vaddr < 0;
    (void)vcpu;
    if (!plugin_is_counting || is_processors)
        return;
    e.missed_data = model_is_wanted && accesses_missed_data;
    e.missed_tlb = model_is_wanted && accesses_missed_tlb;
    struct states_now now = now_of(s, 1, vaddr);
    if (s->is_traced)
        describe_access(s, info, vaddr, &now);
    for (const struct watch *w = s->first; w; w = w->next) {
        struct watched *m = &all.data[w->which];
        uint64_t matched = w->masks.access;
        if (w->masks.access_maybe && m->asks_physical)
            e.physical = physical_of(info, vaddr);
        if (w->masks.access_maybe)
            matched |= states_decide(m->program, w->masks.access_maybe, true, &e, m->processes);
        if (matched || m->needs_accesses)
            states_step(m->machine, matched, true, &now);
    }
}

void watch_register(void)
{
    for (size_t i = 0; i < waiting.len; i++) {
        struct pending *p = &waiting.data[i];
        bool instruction = false, access = false;
        for (const struct watch *w = p->site->first; w; w = w->next) {
            instruction |= w->masks.sure || w->masks.maybe || all.data[w->which].needs_all;
            access |=
                w->masks.access || w->masks.access_maybe || (p->site->reaches && all.data[w->which].needs_accesses);
        }
        if (instruction)
            qemu_plugin_register_vcpu_insn_exec_cb(p->insn, on_instruction, QEMU_PLUGIN_CB_NO_REGS, p->site);
        if (access)
            qemu_plugin_register_vcpu_mem_cb(p->insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, p->site);
    }
    waiting.len = 0;
}

void watch_process(uint64_t pid, const char *name)
{
    static const struct site_watch nowhere = {.pc = 0};
    struct states_now now = now_of(&nowhere, 0, 0);
    running = pid;
    for (size_t i = 0; i < all.len; i++) {
        all.data[i].processes = states_processes(all.data[i].program, name);
        states_switch(all.data[i].machine, pid, &now);
    }
}

void watch_end(void)
{
    static const struct site_watch nowhere = {.pc = 0};
    struct states_now now = now_of(&nowhere, 0, 0);
    for (size_t i = 0; i < all.len; i++)
        states_end(all.data[i].machine, &now);
}

/* ---- written ---- */

static void write_trace(FILE *f, const struct watched *w)
{
    static const char letters[] = {
#define KIND(id, letter, name) letter,
#include "wire/kinds.def"
#undef KIND
    };
    size_t count;
    uint64_t lost;
    const struct states_entry *e = states_trace(w->machine, &count, &lost);
    fprintf(f, "traced %zu %llu\n", count, (unsigned long long)lost);
    for (size_t i = 0; i < count; i++)
        fprintf(f, "trace %llu %llx %llu %llx %s %s %c %llx %u\n", (unsigned long long)e[i].instructions,
                (unsigned long long)e[i].pc, (unsigned long long)e[i].pid, (unsigned long long)e[i].address,
                w->program->states.data[e[i].state].name, w->program->patterns.data[e[i].pattern].name,
                letters[e[i].kind], (unsigned long long)e[i].reached, e[i].bytes);
}

void watch_write(FILE *f)
{
    for (size_t i = 0; i < all.len; i++) {
        const struct watched *w = &all.data[i];
        fprintf(f, "program %s\n", w->program->name);
        for (size_t k = 0; k < w->program->named.len; k++) {
            const struct states_named *n = &w->program->named.data[k];
            const struct states_timer *t = states_timer(w->machine, k);
            if (n->is_timer)
                fprintf(f, "timer %s %llu %llu %llu %llu %.0f\n", n->name, (unsigned long long)t->instructions,
                        (unsigned long long)t->intervals, (unsigned long long)t->least, (unsigned long long)t->most,
                        t->cycles);
            else
                fprintf(f, "counter %s %llu\n", n->name, (unsigned long long)states_counter(w->machine, k));
        }
        write_trace(f, w);
    }
}
