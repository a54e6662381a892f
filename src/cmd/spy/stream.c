/* SPDX-License-Identifier: Apache-2.0
 * The stream of references into the simulators. Entries may hold anything: they are looked at before they are used. */
#include "cmd/spy/program.h"

_Static_assert((unsigned)SPY_FILTER_SLOTS == WIRE_FILTER_SLOTS && (unsigned)SPY_LAST_LINES == WIRE_LAST_LINES,
               "what is told of the order of lines goes on as it is");

static uint32_t module_of(struct spied_program *s, uint32_t tag)
{
    if (tag != s->last_tag) {
        s->last_module = launch_tag_module(s->tags, tag);
        s->last_tag = tag;
        if (s->last_module < s->module_count)
            spied_add_sites(s, s->last_module);
    }
    return s->last_module;
}

/* Numbered through; ID_NONE: there is none such. */
static uint32_t site_of(struct spied_program *s, const struct wire_entry *e)
{
    uint32_t module = module_of(s, e->module);
    if (module >= s->module_count || e->site >= s->modules[module].site_count)
        return ID_NONE;
    return s->modules[module].first_site + e->site;
}

/* How many bytes in a row an event has, from *first on; 0: it cannot be. */
typedef uint64_t stretch_of(const struct spied_program *s, const struct wire_entry *e, uint32_t site, uint64_t *first);

static uint64_t range_of(const struct spied_program *s, const struct wire_entry *e, uint32_t site, uint64_t *first)
{
    struct wire_range range;
    if (wire_event_entries(e) * sizeof *e < sizeof range || site == ID_NONE)
        return 0;
    memcpy(&range, e + 1, sizeof range);
    if (!range.elements || range.elements >> 40)
        return 0;
    uint64_t element = spy_site(s->spy, site)->bytes, bytes = element * range.elements;
    *first = range.flags & WIRE_FLAG_DOWN ? range.address - bytes + element : range.address;
    return bytes;
}

static uint64_t reach_of(const struct spied_program *s, const struct wire_entry *e, uint32_t site, uint64_t *first)
{
    struct wire_reach reach;
    if (wire_event_entries(e) * sizeof *e < sizeof reach || site == ID_NONE || !spy_site(s->spy, site)->bytes)
        return 0;
    memcpy(&reach, e + 1, sizeof reach);
    *first = reach.address;
    return reach.bytes >> 40 ? 0 : reach.bytes;
}

/* As many references as it has, or begins, of the site's. */
static void take_stretch(struct spied_program *s, const struct wire_entry *e, stretch_of *stretch)
{
    uint64_t first;
    if (s->is_between)
        return;
    uint32_t site = site_of(s, e);
    uint64_t bytes = stretch(s, e, site, &first);
    if (!bytes)
        return;
    uint64_t each = spy_site(s->spy, site)->bytes;
    s->references += (bytes + each - 1) / each;
    spy_reference(s->spy, s->thread, site, first, bytes);
}

static void take_naming(struct spied_program *s, const struct wire_entry *e)
{
    struct wire_call call;
    uint32_t module = module_of(s, e->module), number = e->site & ~WIRE_CALL_NAMES;
    const struct image *img = module < s->module_count ? s->modules[module].img : NULL;
    if (!img || number >= img->naming_count || wire_event_entries(e) < WIRE_CALL_ENTRIES)
        return;
    memcpy(&call, e + 1, sizeof call);
    if (!data_object_at(s->data, call.arguments[0]))
        allocations_read_maps_now(s->allocations);
    data_set_time(s->data, call.time);
    data_name_block(s->data, call.arguments[0], call.arguments[1], img->namings[number].name);
}

static void take_order(const struct spied_program *s, const struct wire_entry *e)
{
    if (!s->is_between)
        spy_ordered(s->spy, s->thread, e->module, e->site);
}

static void take_event(struct spied_program *s, const struct wire_entry *e)
{
    switch ((enum wire_event_kind)wire_event_kind(e)) {
    case WIRE_EVENT_RANGE:
        take_stretch(s, e, range_of);
        return;
    case WIRE_EVENT_REACH:
        take_stretch(s, e, reach_of);
        return;
    case WIRE_EVENT_ORDER:
        take_order(s, e);
        return;
    case WIRE_EVENT_UNTOLD:
        s->untold++;
        return;
    case WIRE_EVENT_ENTER:
        spy_settle(s->spy);
        if (e->site & WIRE_CALL_NAMES) {
            take_naming(s, e);
            return;
        }
        allocations_take(s->allocations, s->piece, e, 1ull + wire_event_entries(e));
        return;
    case WIRE_EVENT_LEAVE:
    case WIRE_EVENT_GIVEN:
        spy_settle(s->spy);
        allocations_take(s->allocations, s->piece, e, 1ull + wire_event_entries(e));
        locals_given(s->locals, s, s->piece);
        return;
    default:
        return;
    }
}

static void take_reference(struct spied_program *s, const struct wire_entry *e)
{
    if (s->is_between)
        return;
    uint32_t site = site_of(s, e);
    if (site == ID_NONE) {
        s->of_others += s->profile->follows && s->last_module == ID_NONE && e->address;
        return;
    }
    s->references++;
    spy_reference(s->spy, s->thread, site, e->address, 0);
}

static bool is_followed(struct spied_program *s, const struct launch_chunk *c)
{
    if (s->process == ID_NONE) {
        s->process = c->process;
        spied_read_maps(s);
    }
    s->of_others += c->process == s->process ? 0 : c->count;
    return c->process == s->process;
}

/* Behind what was told before: it may have given back memory where the file is now. */
void spied_see_file(struct spied_program *s, const struct launch_chunk *c)
{
    merge_until(s->merge, c->end);
    spy_settle(s->spy);
    allocations_read_maps_now(s->allocations);
}

void spied_take(void *ctx, const struct launch_chunk *c)
{
    struct spied_program *s = ctx;
    if (s->family) {
        family_take(s->family, c);
        return;
    }
    if (!is_followed(s, c))
        return;
    merge_add(s->merge, c);
    if (s->second_merge)
        merge_add(s->second_merge, c);
    if (c->loads)
        spied_see_file(s, c);
}

/* NULL: the piece is torn there. *next: behind the entry and what belongs to it. */
static const struct wire_entry *entry_at(const struct launch_chunk *c, size_t at, size_t *next)
{
    const struct wire_entry *e = &c->entries[at];
    uint64_t more = wire_is_event(e) ? wire_event_entries(e) : 0;
    *next = at + 1 + more;
    return more < c->count - at ? e : NULL;
}

/* Most entries: references of the file that the last one was of, and orders. Returns the next entry that is neither. */
static size_t take_usual(struct spied_program *s, const struct launch_chunk *c, size_t at)
{
    const struct spied_module *m = s->last_module < s->module_count ? &s->modules[s->last_module] : NULL;
    struct spy_pending *p = spy_pending(s->spy);
    size_t from = at, orders = 0;
    if (!m || s->is_between)
        return at;
    for (; at < c->count; at++) {
        const struct wire_entry *e = &c->entries[at];
        if (wire_is_event(e) && wire_event_kind(e) == WIRE_EVENT_ORDER && !wire_event_entries(e)) {
            take_order(s, e);
            orders++;
        } else if (e->module != s->last_tag || wire_is_event(e) || e->site >= m->site_count ||
                   !spy_put(p, s->thread, m->first_site + e->site, e->address)) {
            break;
        }
    }
    s->references += at - from - orders;
    return at;
}

void spied_take_piece(void *ctx, const struct launch_chunk *c)
{
    struct spied_program *s = ctx;
    const struct wire_entry *e;
    s->threads = (uint32_t)max_u64(s->threads, c->thread + 1ull);
    s->thread = c->thread;
    s->piece = c;
    s->is_between = c->is_between;
    locals_see(s->locals, s, c);
    for (size_t i = take_usual(s, c, 0); i < c->count && (e = entry_at(c, i, &i)); i = take_usual(s, c, i))
        if (wire_is_event(e))
            take_event(s, e);
        else
            take_reference(s, e);
    if (s->simulated)
        simulated_see(s->simulated, s, c);
}

static void take_again(struct spied_program *s, uint32_t thread, const struct wire_entry *e)
{
    uint64_t first = e->address, bytes = 0;
    bool is_reach = wire_is_event(e) && wire_event_kind(e) == WIRE_EVENT_REACH;
    if (wire_is_event(e) && wire_event_kind(e) != WIRE_EVENT_RANGE && !is_reach)
        return;
    uint32_t site = site_of(s, e);
    if (wire_is_event(e))
        bytes = (is_reach ? reach_of : range_of)(s, e, site, &first);
    if (site == ID_NONE || (wire_is_event(e) && !bytes))
        return;
    spy_reference_again(s->spy, thread, site, first, bytes);
}

void spied_take_again(void *ctx, const struct launch_chunk *c)
{
    const struct wire_entry *e;
    if (c->is_between)
        return;
    for (size_t i = 0; i < c->count && (e = entry_at(c, i, &i));)
        take_again(ctx, c->thread, e);
}
