/* SPDX-License-Identifier: Apache-2.0
 * Functions of the kernel into regions and entries, by the patterns of regions.def and entries.def. */
#include "live/impl.h"

const char *const live_region_name[LIVE_REGIONS] = {
#define REGION(id, name, label, functions) name,
#include "live/regions.def"
#undef REGION
};
const char *const live_region_label[LIVE_REGIONS] = {
#define REGION(id, name, label, functions) label,
#include "live/regions.def"
#undef REGION
};

static const char *const regions[] = {
#define REGION(id, name, label, functions) functions,
#include "live/regions.def"
#undef REGION
};

static const struct {
    enum live_part part;
    const char *patterns;
} entries[] = {
#define ENTRY(part, patterns) {LIVE_PART_##part, patterns},
#include "live/entries.def"
#undef ENTRY
};

enum live_region_id live_region_of(const char *function)
{
    int i = 0;
    while (i < LIVE_REGION_REST && !name_fits(regions[i], function))
        i++;
    return (enum live_region_id)i;
}

int live_entry_of(const char *function)
{
    for (size_t i = 0; i < ARRAY_LEN(entries); i++)
        if (name_fits(entries[i].patterns, function))
            return (int)entries[i].part;
    return -1;
}
