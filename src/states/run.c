/* SPDX-License-Identifier: Apache-2.0
 * Tables run over events. In the state that is current, transitions are looked at in their order: of those without
 * `also` the first that matches is taken, those with `also` whenever they match; the first goto among them counts. */
#include "states/states.h"

#include <stdlib.h>

struct running { /* what `each process` has of its own */
    uint16_t state;
    uint64_t on; /* timers that run, a bit each */
    uint64_t begin[STATES_NAMED_MAX];
    double begin_cycles[STATES_NAMED_MAX];
};
struct interest {   /* of a state: which events concern it */
    uint64_t of[2]; /* of instructions, of accesses: patterns */
    bool any[2];    /* also events that match none */
};
struct states_machine {
    const struct states_program *p;
    struct interest *interest; /* [states] */
    struct running now;
    struct map saved; /* pid: index in `others`, and 1 */
    VEC(struct running) others;
    uint64_t pid, steps, lost;
    uint64_t counters[STATES_NAMED_MAX];
    struct states_timer timers[STATES_NAMED_MAX];
    VEC(struct states_entry) trace;
    bool is_triggered, is_halted;
};

static bool is_access(const struct states_program *p, const struct states_transition *t)
{
    return p->patterns.data[t->pattern].access != STATES_NO_ACCESS;
}

struct states_machine *states_new(const struct states_program *p)
{
    struct states_machine *m = xmalloc(sizeof *m);
    m->p = p;
    m->interest = xmalloc((p->states.len + 1) * sizeof *m->interest);
    m->is_triggered = !p->has_trigger;
    for (size_t s = 0; s < p->states.len; s++)
        for (size_t i = 0; i < p->states.data[s].transitions.len; i++) {
            const struct states_transition *t = &p->states.data[s].transitions.data[i];
            bool access = is_access(p, t);
            m->interest[s].of[access] |= 1ull << t->pattern;
            m->interest[s].any[access] |= t->is_negated;
        }
    return m;
}

void states_delete(struct states_machine *m)
{
    if (!m)
        return;
    free(m->interest);
    map_fini(&m->saved);
    VEC_FREE(&m->others);
    VEC_FREE(&m->trace);
    free(m);
}

static void keep(struct states_machine *m, unsigned pattern, const struct states_now *now)
{
    struct states_entry e = {.instructions = now->instructions,
                             .pc = now->pc,
                             .address = now->address,
                             .pid = now->pid,
                             .reached = now->reached,
                             .state = m->now.state,
                             .pattern = (uint16_t)pattern,
                             .bytes = now->bytes,
                             .kind = now->kind};
    if (!m->is_triggered)
        return;
    if (m->trace.len < m->p->trace_max)
        VEC_PUSH(&m->trace, e);
    else
        m->lost++;
}

static void stop(struct states_machine *m, unsigned on, const struct states_now *now)
{
    struct states_timer *t = &m->timers[on];
    uint64_t passed = now->instructions - m->now.begin[on];
    if (!(m->now.on >> on & 1))
        return;
    m->now.on &= ~(1ull << on);
    t->instructions += passed;
    t->cycles += now->cycles - m->now.begin_cycles[on];
    t->least = t->intervals ? min_u64(t->least, passed) : passed;
    t->most = max_u64(t->most, passed);
    t->intervals++;
}

static void start(struct states_machine *m, unsigned on, const struct states_now *now)
{
    if (m->now.on >> on & 1)
        return; /* it runs on */
    m->now.on |= 1ull << on;
    m->now.begin[on] = now->instructions;
    m->now.begin_cycles[on] = now->cycles;
}

static void act(struct states_machine *m, const struct states_transition *t, const struct states_now *now)
{
    for (unsigned i = 0; i < t->action_count; i++) {
        const struct states_action *a = &t->actions[i];
        switch ((enum states_do)a->what) {
        case STATES_COUNT:
            m->counters[a->on]++;
            break;
        case STATES_START:
            start(m, a->on, now);
            break;
        case STATES_STOP:
            stop(m, a->on, now);
            break;
        case STATES_KEEP:
            keep(m, t->pattern, now);
            break;
        case STATES_TRIGGER:
            m->is_triggered = true;
            break;
        case STATES_HALT:
            m->is_halted = true;
            break;
        }
    }
    m->steps++;
}

void states_step(struct states_machine *m, uint64_t matched, bool access, const struct states_now *now)
{
    const struct interest *k = &m->interest[m->now.state];
    if ((!(matched & k->of[access]) && !k->any[access]) || m->is_halted)
        return;
    const struct states_state *s = &m->p->states.data[m->now.state];
    bool is_taken = false;
    int next = -1;
    for (size_t i = 0; i < s->transitions.len; i++) {
        const struct states_transition *t = &s->transitions.data[i];
        if ((matched >> t->pattern & 1) == t->is_negated || (is_taken && !t->also) || is_access(m->p, t) != access)
            continue;
        is_taken = true;
        act(m, t, now);
        if (next < 0)
            next = t->next;
    }
    if (next >= 0)
        m->now.state = (uint16_t)next;
}

/* Begins of timers that run into what has passed, and back: both are the same subtraction. */
static void turn_begins(struct running *r, const struct states_now *now)
{
    for (uint64_t rest = r->on; rest; rest &= rest - 1) {
        unsigned i = (unsigned)__builtin_ctzll(rest);
        r->begin[i] = now->instructions - r->begin[i];
        r->begin_cycles[i] = now->cycles - r->begin_cycles[i];
    }
}

void states_switch(struct states_machine *m, uint64_t pid, const struct states_now *now)
{
    if (!m->p->each_process || pid == m->pid)
        return;
    uint64_t *place = map_place(&m->saved, m->pid);
    if (!*place) {
        VEC_PUSH(&m->others, m->now);
        *place = m->others.len;
    }
    turn_begins(&m->now, now);
    m->others.data[*place - 1] = m->now;
    m->pid = pid;
    uint64_t at;
    if (map_get(&m->saved, pid, &at))
        m->now = m->others.data[at - 1];
    else
        memset(&m->now, 0, sizeof m->now);
    turn_begins(&m->now, now);
}

void states_end(struct states_machine *m, const struct states_now *now)
{
    for (size_t i = 0; i < m->p->named.len; i++)
        if (m->p->named.data[i].is_timer)
            stop(m, (unsigned)i, now);
}

uint64_t states_counter(const struct states_machine *m, size_t named) { return m->counters[named]; }

const struct states_timer *states_timer(const struct states_machine *m, size_t named) { return &m->timers[named]; }

const struct states_entry *states_trace(const struct states_machine *m, size_t *count, uint64_t *lost)
{
    *count = m->trace.len;
    *lost = m->lost;
    return m->trace.data;
}

uint64_t states_steps(const struct states_machine *m) { return m->steps; }
