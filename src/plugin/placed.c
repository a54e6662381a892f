/* SPDX-License-Identifier: Apache-2.0
 * Where the kernel's functions would be if they were placed: those of a list first and in its order, from the begin of
 * the kernel's text on, then the others in the order that they have. A function moves with all bytes up to the next one
 * that begins at a multiple of 16, as the kernel's own linking has them, so that the whole takes the same room; labels
 * in assembly that begin elsewhere move with what is before them. Only the model's caches see it. */
#include "plugin/plugin.h"

#include <errno.h>
#include <stdlib.h>

enum { ALIGNMENT = 16 };

struct unit {
    uint64_t old, bytes, placed; /* placed: where it would be; 0: not yet */
};

static VEC(struct unit) units; /* by old */

static struct unit *unit_at(uint64_t vaddr)
{
    size_t i = PARTITION_POINT(k, 0, units.len, units.data[k].old <= vaddr);
    return i && vaddr - units.data[i - 1].old < units.data[i - 1].bytes ? &units.data[i - 1] : NULL;
}

static void make_units(uint64_t begin, uint64_t end)
{
    const char *name;
    uint64_t first, last;
    for (size_t i = 0; places_function(NULL, i, &name, &first, &last) && (int64_t)first < 0; i++) {
        struct unit *before = units.len ? &units.data[units.len - 1] : NULL;
        if (first < begin || first >= end || first % ALIGNMENT || (before && before->old == first))
            continue;
        if (before)
            before->bytes = first - before->old;
        VEC_PUSH(&units, ((struct unit){.old = first, .bytes = end - first}));
    }
}

static int place_list(const char *path, uint64_t *at)
{
    FILE *f = fopen(path, "re");
    char line[32];
    if (!f)
        return diag_error("cannot read %s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, f)) {
        struct unit *u = unit_at(strtoull(line, NULL, 16));
        if (!u || u->placed)
            continue;
        u->placed = *at;
        *at += u->bytes;
    }
    fclose(f);
    return 0;
}

int placed_read(void)
{
    uint64_t begin = places_kernel_function("_stext"), end = places_kernel_function("_etext");
    if (!begin || end <= begin)
        return diag_error(
            "the guest's kernel has no symbols _stext and _etext, between which its functions are placed");
    make_units(begin, end);
    uint64_t at = units.len ? units.data[0].old : 0;
    if (place_list(settings.placed, &at) < 0)
        return -1;
    for (size_t i = 0; i < units.len; i++)
        if (!units.data[i].placed) {
            units.data[i].placed = at;
            at += units.data[i].bytes;
        }
    return 0;
}

uint64_t placed_address(uint64_t vaddr, uint64_t physical)
{
    const struct unit *u = units.len && physical != RAM_NOWHERE ? unit_at(vaddr) : NULL;
    return u ? physical + (u->placed - u->old) : physical;
}
