/* SPDX-License-Identifier: Apache-2.0
 *
 * The descriptions of machines/, built in, and the one among them that is of a given processor: what stands in where a
 * calibration fails. Which processors a description is of, its own lines "processor" say. */
#include "machine/machine.h"
#include "machine_shipped.h" /* made by meson from machines/: MACHINE_SHIPPED */

#include <cpuid.h>

static const struct {
    const char *name, *text;
} shipped[] = {MACHINE_SHIPPED};

const char *machine_shipped_text(size_t i, const char **name)
{
    if (i >= ARRAY_LEN(shipped))
        return NULL;
    *name = shipped[i].name;
    return shipped[i].text;
}

static bool is_of(const struct machine *m, const char *vendor, unsigned family, unsigned model)
{
    for (size_t i = 0; i < m->processor_count; i++) {
        const struct machine_processor *p = &m->processors[i];
        if (strcmp(p->vendor, vendor) == 0 && p->family == family && p->first_model <= model && model <= p->last_model)
            return true;
    }
    return false;
}

struct machine *machine_shipped(const char *vendor, unsigned family, unsigned model)
{
    for (size_t i = 0; i < ARRAY_LEN(shipped); i++) {
        struct machine *m = NULL;
        if (machine_parse(shipped[i].name, shipped[i].text, strlen(shipped[i].text), &m) < 0)
            continue; /* not with those that were built in: a test parses them all */
        if (is_of(m, vendor, family, model))
            return m;
        machine_free(m);
    }
    return NULL;
}

/* The smaller cores of a hybrid processor have the model of the larger ones; only leaf 26 tells them apart. */
enum { INTEL_CORE_SMALL = 0x20, ALDER_LAKE_N = 0xbe };
static bool is_small_core(void)
{
    unsigned a, b, c, d;
    bool hybrid = __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 15 & 1;
    return hybrid && __get_cpuid_count(26, 0, &a, &b, &c, &d) && a >> 24 == INTEL_CORE_SMALL;
}

struct machine *machine_shipped_here(void)
{
    unsigned a, b, c, d, text[3];
    if (!__get_cpuid(0, &a, &text[0], &text[2], &text[1]) || !__get_cpuid(1, &a, &b, &c, &d))
        return NULL;
    unsigned family = a >> 8 & 15, model = a >> 4 & 15;
    if (family == 15 || family == 6)
        model |= a >> 12 & 0xf0;
    if (family == 15)
        family += a >> 20 & 255;
    bool is_amd = memcmp(text, "AuthenticAMD", 12) == 0, is_intel = memcmp(text, "GenuineIntel", 12) == 0;
    if (is_intel && is_small_core())
        model = ALDER_LAKE_N;
    return is_amd || is_intel ? machine_shipped(is_amd ? "amd" : "intel", family, model) : NULL;
}
