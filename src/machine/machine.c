/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine description in memory: items added by name, found by name. It knows neither the file's syntax (text.c)
 * nor which instruction belongs to which class (family.c). */
#include "machine/machine.h"

#include "machine/impl.h"
#include "machine_shipped.h" /* made by meson from machines/: MACHINE_TEXT_GENERIC_CORE */

#include <assert.h>

struct machine *machine_new(void)
{
    struct arena *a = arena_new();
    struct machine *m = ARENA_NEW(a, struct machine);
    m->arena = a;
    m->name = m->date = m->source = "";
#define X(group, field, name, value, text) m->field = value;
#include "machine/params.def"
#undef X
    return m;
}

void machine_free(struct machine *m)
{
    if (!m)
        return;
    map_fini(&m->form_index);
    map_fini(&m->class_index);
    arena_free(m->arena);
}

struct machine *machine_default(void)
{
    struct machine *m = NULL;
    int rc = machine_parse("generic-core.machine", MACHINE_TEXT_GENERIC_CORE, strlen(MACHINE_TEXT_GENERIC_CORE), &m);
    assert(rc == 0); /* the text is built in, and a test parses it */
    (void)rc;
    return m;
}

uint64_t machine_hash(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 0x100000001b3u;
    return h;
}

/* Arrays live in the arena and double; the old copy stays there until the machine is freed. */
static void *grow(struct machine *m, void *items, size_t count, size_t item_bytes)
{
    if (count & (count - 1))
        return items;
    void *bigger = arena_alloc(m->arena, (count ? count * 2 : 1) * item_bytes);
    if (count)
        memcpy(bigger, items, count * item_bytes);
    return bigger;
}
#define GROW(m, items, count) ((items) = grow((m), (items), (count), sizeof *(items)))

unsigned machine_port_count(const struct machine *m)
{
    if (!m->unit_count)
        return 0;
    const struct machine_unit *last = &m->units[m->unit_count - 1];
    return last->first_port + last->multiplicity;
}

const char *machine_port_name(const struct machine *m, unsigned port)
{
    for (size_t i = 0; i < m->unit_count; i++)
        if (port - m->units[i].first_port < m->units[i].multiplicity)
            return m->units[i].name;
    return "none";
}

static void set_name(char *dst, const char *src) { snprintf(dst, MACHINE_NAME_LEN, "%.47s", src); }

uint32_t machine_add_unit(struct machine *m, const char *name, unsigned multiplicity, double issue)
{
    for (uint32_t i = 0; i < m->unit_count; i++)
        if (strcmp(m->units[i].name, name) == 0)
            return i;
    unsigned first = machine_port_count(m);
    assert(first + multiplicity <= MACHINE_PORT_MAX); /* text.c and calibrate.c check before */
    GROW(m, m->units, m->unit_count);
    struct machine_unit *u = &m->units[m->unit_count];
    *u = (struct machine_unit){.multiplicity = multiplicity, .first_port = first, .issue = issue, .queue = -1};
    set_name(u->name, name);
    return (uint32_t)m->unit_count++;
}

uint32_t machine_add_group(struct machine *m, const char *name, uint32_t ports)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        if (strcmp(m->groups[i].name, name) == 0)
            return i;
    GROW(m, m->groups, m->group_count);
    m->groups[m->group_count].ports = ports;
    set_name(m->groups[m->group_count].name, name);
    return (uint32_t)m->group_count++;
}

uint32_t machine_add_queue(struct machine *m, const char *name, unsigned size)
{
    for (uint32_t i = 0; i < m->queue_count; i++)
        if (strcmp(m->queues[i].name, name) == 0)
            return i;
    GROW(m, m->queues, m->queue_count);
    m->queues[m->queue_count].size = size;
    set_name(m->queues[m->queue_count].name, name);
    return (uint32_t)m->queue_count++;
}

uint32_t machine_add_class(struct machine *m, const struct machine_class *c)
{
    uint64_t old;
    if (map_get(&m->class_index, machine_hash(c->name), &old))
        return (uint32_t)old;
    GROW(m, m->classes, m->class_count);
    m->classes[m->class_count] = *c;
    map_put(&m->class_index, machine_hash(c->name), m->class_count);
    return (uint32_t)m->class_count++;
}

uint32_t machine_add_form(struct machine *m, const struct machine_form *f)
{
    uint64_t old;
    if (map_get(&m->form_index, machine_hash(f->form), &old))
        return (uint32_t)old;
    GROW(m, m->forms, m->form_count);
    m->forms[m->form_count] = *f;
    map_put(&m->form_index, machine_hash(f->form), m->form_count);
    struct x86_form parsed;
    char key[MACHINE_NAME_LEN];
    x86_form_parse(f->form, &parsed);
    machine_width_key(f->form, &parsed, key);
    if (!map_has(&m->form_index, machine_hash(key)))
        map_put(&m->form_index, machine_hash(key), m->form_count);
    return (uint32_t)m->form_count++;
}

void machine_add_error(struct machine *m, const struct machine_error *e)
{
    for (size_t i = 0; i < m->error_count; i++) {
        if (strcmp(m->errors[i].kernels, e->kernels) == 0) {
            m->errors[i] = *e;
            return;
        }
    }
    GROW(m, m->errors, m->error_count);
    m->errors[m->error_count++] = *e;
}

void machine_add_processor(struct machine *m, const struct machine_processor *p)
{
    GROW(m, m->processors, m->processor_count);
    m->processors[m->processor_count++] = *p;
}

const struct machine_class *machine_class_named(const struct machine *m, const char *name)
{
    uint64_t i;
    return map_get(&m->class_index, machine_hash(name), &i) ? &m->classes[i] : NULL;
}

uint32_t machine_ports_named(const struct machine *m, const char *name)
{
    for (size_t i = 0; i < m->group_count; i++)
        if (strcmp(m->groups[i].name, name) == 0)
            return m->groups[i].ports;
    for (size_t i = 0; i < m->unit_count; i++)
        if (strcmp(m->units[i].name, name) == 0)
            return (uint32_t)(((1ull << m->units[i].multiplicity) - 1) << m->units[i].first_port);
    return 0;
}

const struct machine_error *machine_error_of(const struct machine *m, const char *kernels)
{
    const struct machine_error *all = NULL;
    for (size_t i = 0; i < m->error_count; i++) {
        if (strcmp(m->errors[i].kernels, kernels) == 0)
            return &m->errors[i];
        if (strcmp(m->errors[i].kernels, "all") == 0)
            all = &m->errors[i];
    }
    return all;
}
