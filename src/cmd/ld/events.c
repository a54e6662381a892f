/* SPDX-License-Identifier: Apache-2.0
 * Dynamic counts of events, of all and by function. */
#include "cmd/ld/report.h"
#include "cmd/run/profile.h"
#include "image/image.h"
#include "machine/machine.h"

static const struct {
    const char *key, *text;
} names[LD_EVENT_COUNT] = {
#define X(id, key, text) [LD_EVENT_##id] = {key, text},
    LD_EVENTS(X)
#undef X
};

static void put_text(const struct cmd_args *a, const struct ld_events *all, struct strbuf *out)
{
    size_t most = a->all ? SIZE_MAX : a->top ? a->top : 20;
    uint64_t insns = all->events[LD_EVENT_INSTRUCTIONS];
    str_puts(out, "           count   in 100  event\n");
    for (int e = 0; e < LD_EVENT_COUNT; e++)
        str_printf(out, "%16llu %8.2f  %s\n", (unsigned long long)all->events[e],
                   insns ? 100.0 * (double)all->events[e] / (double)insns : 0, names[e].text);
    for (size_t k = 0; k < all->idioms.len; k++)
        str_printf(out, "%16llu %8.2f  %s\n", (unsigned long long)all->idioms.data[k],
                   insns ? 100.0 * (double)all->idioms.data[k] / (double)insns : 0, a->idioms.all[k]);
    str_puts(out, "\n    instructions           loads          stores        branches           taken  function\n");
    for (size_t i = 0; i < all->functions.len && i < most; i++) {
        const struct ld_event_row *f = &all->functions.data[i];
        str_printf(out, "%16llu%16llu%16llu%16llu%16llu  %s  (%s)\n",
                   (unsigned long long)f->events[LD_EVENT_INSTRUCTIONS], (unsigned long long)f->events[LD_EVENT_LOADS],
                   (unsigned long long)f->events[LD_EVENT_STORES], (unsigned long long)f->events[LD_EVENT_BRANCHES],
                   (unsigned long long)f->events[LD_EVENT_TAKEN],
                   *f->name ? f->name : arena_printf(all->arena, "%#llx", (unsigned long long)f->address),
                   file_base_name(f->object));
    }
    if (all->functions.len > most)
        str_printf(out, "%zu more functions; --all prints them\n", all->functions.len - most);
}

static void put_events(struct json *j, const uint64_t *events)
{
    for (int e = 0; e < LD_EVENT_COUNT; e++)
        json_u64(j, names[e].key, events[e]);
}

static void put_stalls_json(struct json *j, const char *machine, const struct ld_stalls *s);

static void put_json(const struct cmd_args *a, const struct ld_events *all, const char *machine,
                     const struct ld_stalls *stalls, struct strbuf *out)
{
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_u64(&j, "files", all->files);
    json_u64(&j, "inconsistent", all->inconsistent);
    json_u64(&j, "unread_instructions", all->unread);
    json_object(&j, "events");
    put_events(&j, all->events);
    json_object_end(&j);
    if (machine)
        put_stalls_json(&j, machine, stalls);
    json_array(&j, "idioms");
    for (size_t k = 0; k < all->idioms.len; k++) {
        json_object(&j, NULL);
        json_str(&j, "pattern", a->idioms.all[k]);
        json_u64(&j, "count", all->idioms.data[k]);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_array(&j, "functions");
    for (size_t i = 0; i < all->functions.len; i++) {
        const struct ld_event_row *f = &all->functions.data[i];
        json_object(&j, NULL);
        json_str(&j, "function", *f->name ? f->name : NULL);
        json_str(&j, "object", f->object);
        json_hex(&j, "address", f->address);
        put_events(&j, f->events);
        json_object_end(&j);
    }
    report_end_json(a, &j, out);
}

/* ---- on a described machine ---- */

static void put_stalls(const char *machine, const struct ld_stalls *s, struct strbuf *out)
{
    bool is_exact = s->cycles[1] - s->cycles[0] < 0.5 && s->stalls[1] - s->stalls[0] < 0.5;
    str_printf(out, "\non %s, in order, every access a hit:\n", machine);
    if (is_exact)
        str_printf(out, "%16.0f           cycles, exactly\n%16.0f           of them stalls, unfilled slots\n",
                   s->cycles[0], s->stalls[0]);
    else
        str_printf(out, "%16.0f to %.0f cycles\n%16.0f to %.0f of them stalls, unfilled slots\n", s->cycles[0],
                   s->cycles[1], s->stalls[0], s->stalls[1]);
}

static void put_stalls_json(struct json *j, const char *machine, const struct ld_stalls *s)
{
    json_object(j, "machine");
    json_str(j, "name", machine);
    json_real(j, "cycles_low", s->cycles[0]);
    json_real(j, "cycles_high", s->cycles[1]);
    json_real(j, "stalls_low", s->stalls[0]);
    json_real(j, "stalls_high", s->stalls[1]);
    json_object_end(j);
}

/* 0, or -1 after one line. */
static int find_stalls(const struct cmd_args *a, const char **name, struct ld_stalls *out)
{
    struct machine *m;
    struct ld_blocks *blocks = NULL;
    struct image *img = NULL;
    const char *where;
    if (cmd_machine_get(a, &m, &where) != 0)
        return -1;
    *name = arena_strdup(a->arena, m->name);
    int rc = ld_blocks_read(a->rest[0], a->rest + 1, (size_t)a->rest_count - 1, &blocks) < 0 ||
                     image_open(a->rest[0], &img) < 0
                 ? -1
                 : ld_stalls_of(img, blocks, m, out);
    if (!m->in_order)
        rc = diag_error("ld-report: %s issues out of order; give a description with 'pipeline in-order', such as titan",
                        m->name);
    image_close(img);
    if (blocks)
        ld_blocks_free(blocks);
    machine_free(m);
    return rc;
}

int report_events(const struct cmd_args *a)
{
    struct ld_events *all = NULL;
    struct strbuf out = {0};
    const struct ld_idiom **idioms = ARENA_ARRAY(a->arena, const struct ld_idiom *, a->idioms.count + 1);
    bool is_read = true;
    size_t parsed = 0;
    for (struct ld_idiom *p; is_read && parsed < a->idioms.count; parsed += is_read) {
        is_read = ld_idiom_parse(a->idioms.all[parsed], &p) == 0;
        idioms[parsed] = p;
    }
    is_read = is_read &&
              ld_events_read(a->rest[0], a->rest + 1, (size_t)a->rest_count - 1, idioms, a->idioms.count, &all) == 0;
    struct ld_stalls stalls = {{0}, {0}, 0};
    const char *machine = NULL;
    if (is_read && a->machine && find_stalls(a, &machine, &stalls) < 0) {
        ld_events_free(all);
        is_read = false;
    }
    if (is_read) {
        report_warn_flow(all->inconsistent);
        if (a->json)
            put_json(a, all, machine, &stalls, &out);
        else
            put_text(a, all, &out);
        if (machine && !a->json)
            put_stalls(machine, &stalls, &out);
        ld_events_free(all);
    }
    for (size_t i = 0; i < parsed; i++)
        ld_idiom_free((struct ld_idiom *)(uintptr_t)idioms[i]);
    return is_read ? report_print(a, &out) : CMD_UNUSABLE;
}
