/* SPDX-License-Identifier: Apache-2.0
 * The stream of references into the simulators. Entries may hold anything: they are looked at before they are used. */
#include "cmd/spy/program.h"

static uint32_t module_of(struct spied_program *s, uint32_t tag)
{
    if (tag != s->last_tag) {
        s->last_module = launch_tag_module(s->tags, tag);
        s->last_tag = tag;
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

static void take_range(struct spied_program *s, const struct wire_entry *e)
{
    struct wire_range range;
    memcpy(&range, e + 1, sizeof range);
    uint32_t site = site_of(s, e);
    if (site == ID_NONE || !range.elements || range.elements >> 40)
        return;
    uint64_t element = spy_site(s->spy, site)->bytes, bytes = element * range.elements;
    uint64_t first = range.flags & WIRE_FLAG_DOWN ? range.address - bytes + element : range.address;
    s->references += range.elements;
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

static void take_event(struct spied_program *s, const struct wire_entry *e)
{
    switch ((enum wire_event_kind)wire_event_kind(e)) {
    case WIRE_EVENT_RANGE:
        if (wire_event_entries(e) * sizeof *e >= sizeof(struct wire_range))
            take_range(s, e);
        return;
    case WIRE_EVENT_UNTOLD:
        s->untold++;
        return;
    case WIRE_EVENT_ENTER:
        if (e->site & WIRE_CALL_NAMES) {
            take_naming(s, e);
            return;
        }
        allocations_take(s->allocations, s->area, e, 1ull + wire_event_entries(e));
        return;
    case WIRE_EVENT_LEAVE:
        allocations_take(s->allocations, s->area, e, 1ull + wire_event_entries(e));
        return;
    default:
        return;
    }
}

static void take_reference(struct spied_program *s, const struct wire_entry *e)
{
    uint32_t site = site_of(s, e);
    if (site == ID_NONE)
        return;
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

void spied_take(void *ctx, const struct launch_chunk *c)
{
    struct spied_program *s = ctx;
    if (is_followed(s, c))
        merge_add(s->merge, c);
}

void spied_take_piece(void *ctx, const struct launch_chunk *c)
{
    struct spied_program *s = ctx;
    s->threads = (uint32_t)max_u64(s->threads, c->thread + 1ull);
    s->thread = c->thread;
    s->area = c->area;
    for (size_t i = 0; i < c->count; i++) {
        const struct wire_entry *e = &c->entries[i];
        if (!wire_is_event(e)) {
            take_reference(s, e);
            continue;
        }
        if (wire_event_entries(e) >= c->count - i)
            break; /* torn */
        take_event(s, e);
        i += wire_event_entries(e);
    }
}
