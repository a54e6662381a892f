/* SPDX-License-Identifier: Apache-2.0
 * Names of system calls and interrupts by number. */
#include <stdlib.h>

#include "live/impl.h"

const char *live_call_name(uint32_t number)
{
    switch (number) {
#define CALL(number, name)                                                                                             \
    case number:                                                                                                       \
        return name;
#include "live_calls.h"
#undef CALL
    default:
        return NULL;
    }
}

static const char *const vectors[] = {
#define INTERRUPT(name, text, in_rings) text,
#include "live/interrupts.def"
#undef INTERRUPT
};
static const char *const softirqs[] = {
#define SOFTIRQ(text) text,
#include "live/softirqs.def"
#undef SOFTIRQ
};
_Static_assert(ARRAY_LEN(vectors) <= LIVE_SOFT && ARRAY_LEN(softirqs) <= LIVE_DEVICE - LIVE_SOFT, "numbers are shared");

/* The last word of its line in /proc/interrupts: " 24:  17  0  PCI-MSIX-0000:00:03.0  0-edge  virtio0-config". */
static const char *device_name(struct arena *a, unsigned irq)
{
    char *line = NULL;
    size_t room = 0;
    const char *name = NULL;
    FILE *f = fopen("/proc/interrupts", "re");
    while (f && !name && getline(&line, &room, f) > 0) {
        char *end;
        if (strtoul(line, &end, 10) != irq || *end != ':')
            continue;
        line[strcspn(line, "\n")] = 0;
        const char *last = strrchr(line, ' ');
        name = last && last[1] ? arena_strdup(a, last + 1) : NULL;
    }
    free(line);
    if (f)
        fclose(f);
    return name;
}

int live_vector_find(const char *name)
{
    static const char *const names[] = {
#define INTERRUPT(name, text, in_rings) #name,
#include "live/interrupts.def"
#undef INTERRUPT
    };
    unsigned n;
    char rest;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    if (sscanf(name, "softirq-%u%c", &n, &rest) == 1 && n < ARRAY_LEN(softirqs))
        return (int)(LIVE_SOFT + n);
    if (sscanf(name, "device-%u%c", &n, &rest) == 1 && n < LIVE_VECTORS - LIVE_DEVICE)
        return (int)(LIVE_DEVICE + n);
    return -1;
}

const char *live_vector_name(struct arena *a, uint32_t vector)
{
    if (vector < ARRAY_LEN(vectors))
        return vectors[vector];
    if (vector >= LIVE_SOFT && vector < LIVE_DEVICE)
        return vector - LIVE_SOFT < ARRAY_LEN(softirqs) ? softirqs[vector - LIVE_SOFT] : "softirq";
    if (vector >= LIVE_DEVICE) {
        const char *name = device_name(a, vector - LIVE_DEVICE);
        return arena_printf(a, "device %u%s%s", vector - LIVE_DEVICE, name ? " " : "", name ? name : "");
    }
    return arena_printf(a, "vector %u", vector);
}
