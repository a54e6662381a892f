/* SPDX-License-Identifier: Apache-2.0
 * Which patterns an instruction can match, decided once when it is translated; and the rest, for each event. What
 * cannot match costs nothing afterwards. */
#include "states/states.h"

static bool is_in(const struct states_range *r, size_t count, uint64_t at)
{
    for (size_t i = 0; i < count; i++)
        if (at >= r[i].first && at <= r[i].last)
            return true;
    return false;
}

static bool is_named(const struct states_name *n, const char *name)
{
    size_t len = strlen(n->text);
    if (!name)
        return false;
    if (len && n->text[len - 1] == '*')
        return strncmp(n->text, name, len - 1) == 0;
    return strcmp(n->text, name) == 0;
}

/* Of the kernel by address, so that a function is found by each of its names; of user code by name. */
static bool is_place(const struct states_name *names, size_t count, const struct states_place *place, bool at_begin)
{
    for (size_t i = 0; i < count; i++) {
        const struct states_name *n = &names[i];
        for (size_t k = 0; k < n->ranges.len; k++)
            if (at_begin ? place->pc == n->ranges.data[k].first : is_in(&n->ranges.data[k], 1, place->pc))
                return true;
        if (!place->is_kernel && is_named(n, place->function_name) && (!at_begin || place->pc == place->function))
            return true;
    }
    return false;
}

static bool has_bytes(const struct states_pattern *k, const struct states_place *place)
{
    if (place->len < k->byte_count)
        return false;
    for (unsigned i = 0; i < k->byte_count; i++)
        if ((place->bytes[i] & k->care[i]) != k->bytes[i])
            return false;
    return true;
}

static bool can_match(const struct states_pattern *k, const struct states_place *place)
{
    if (k->mode >= 0 && k->mode != (int)place->is_kernel)
        return false;
    if (k->class >= 0 && !(place->classes >> k->class & 1))
        return false;
    if (k->mark >= 0 && k->mark != place->mark)
        return false;
    if (!has_bytes(k, place))
        return false;
    if (k->has_pc && !is_in(k->pc_ranges.data, k->pc_ranges.len, place->pc) &&
        !is_place(k->pc.data, k->pc.len, place, true))
        return false;
    return !k->has_in || is_in(k->in_ranges.data, k->in_ranges.len, place->pc) ||
           is_place(k->in.data, k->in.len, place, false);
}

/* Whether more has to be asked at each event. */
static bool is_open(const struct states_pattern *k)
{
    return k->process || k->has_miss ||
           (k->access && (k->access != STATES_READ_OR_WRITE || k->has_address || k->has_physical));
}

struct states_masks states_match(const struct states_program *p, const struct states_place *place)
{
    struct states_masks m = {0, 0, 0, 0};
    for (size_t i = 0; i < p->patterns.len; i++) {
        const struct states_pattern *k = &p->patterns.data[i];
        if (!can_match(k, place))
            continue;
        uint64_t *to = k->access ? is_open(k) ? &m.access_maybe : &m.access : is_open(k) ? &m.maybe : &m.sure;
        *to |= 1ull << i;
    }
    return m;
}

static bool misses(const struct states_pattern *k, const struct states_event *e)
{
    switch (k->miss) {
    case STATES_MISS_NONE:
        return !e->missed_fetch;
    case STATES_MISS_FETCH:
        return e->missed_fetch;
    case STATES_MISS_READ:
        return e->missed_data && !e->stores;
    case STATES_MISS_WRITE:
        return e->missed_data && e->stores;
    case STATES_MISS_TLB:
        return e->missed_tlb;
    }
    return false;
}

static bool is_right_access(const struct states_pattern *k, const struct states_event *e)
{
    if (k->access == (e->stores ? STATES_READ : STATES_WRITE))
        return false;
    if (k->has_address && !is_in(&k->address, 1, e->address))
        return false;
    return !k->has_physical || is_in(&k->physical, 1, e->physical);
}

uint64_t states_decide(const struct states_program *p, uint64_t maybe, bool is_access, const struct states_event *e,
                       uint64_t processes)
{
    uint64_t out = 0;
    for (uint64_t rest = maybe; rest; rest &= rest - 1) {
        unsigned i = (unsigned)__builtin_ctzll(rest);
        const struct states_pattern *k = &p->patterns.data[i];
        if (!(processes >> i & 1) || (is_access && !is_right_access(k, e)) || (k->has_miss && !misses(k, e)))
            continue;
        out |= 1ull << i;
    }
    return out;
}

uint64_t states_processes(const struct states_program *p, const char *process)
{
    uint64_t out = 0;
    for (size_t i = 0; i < p->patterns.len; i++)
        if (!p->patterns.data[i].process || strcmp(p->patterns.data[i].process, process) == 0)
            out |= 1ull << i;
    return out;
}

bool states_traces(const struct states_program *p)
{
    for (size_t s = 0; s < p->states.len; s++)
        for (size_t i = 0; i < p->states.data[s].transitions.len; i++) {
            const struct states_transition *t = &p->states.data[s].transitions.data[i];
            for (unsigned k = 0; k < t->action_count; k++)
                if (t->actions[k].what == STATES_KEEP)
                    return true;
        }
    return false;
}

bool states_needs_all(const struct states_program *p, bool accesses)
{
    for (size_t s = 0; s < p->states.len; s++)
        for (size_t i = 0; i < p->states.data[s].transitions.len; i++) {
            const struct states_transition *t = &p->states.data[s].transitions.data[i];
            if (t->is_negated && (p->patterns.data[t->pattern].access != STATES_NO_ACCESS) == accesses)
                return true;
        }
    return false;
}
