/* SPDX-License-Identifier: Apache-2.0
 * Allocators of the program's own, as --allocator names them. */
#include "cmd/allocations/allocations.h"

#include <stdlib.h>

enum { OWN_MAX = 16, ARGUMENTS = 5 };

/* ADDRESS=NAME: the function there does what the known one of that name does. */
static int parse_address(struct arena *a, const char *text, struct data_watched *out)
{
    char *end = NULL;
    *out = (struct data_watched){.name = arena_strdup(a, text), .address = strtoull(text, &end, 16)};
    for (uint32_t i = 0; *end == '=' && out->address && i < data_watched_count(); i++)
        if (strcmp(data_watched_name(i), end + 1) == 0) {
            out->known = i;
            return 0;
        }
    return -1;
}

/* FUNCTION, FUNCTION:N or FUNCTION:free. */
static int parse(struct arena *a, const char *text, struct data_watched *out)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    if (colon && colon > text && colon[-1] == ':') /* of a name in C++ */
        colon = NULL;
    *out =
        (struct data_watched){.name = arena_printf(a, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text)};
    if (colon && strcmp(colon, ":free") == 0) {
        out->size_argument = DATA_NO_SIZE;
        return *out->name ? 0 : -1;
    }
    unsigned long nth = colon ? strtoul(colon + 1, &end, 10) : 1;
    out->size_argument = (unsigned)(nth - 1);
    return *out->name && nth >= 1 && nth <= ARGUMENTS && (!end || (*end == 0 && end > colon + 1)) ? 0 : -1;
}

int allocators_choose(struct arena *a, const struct cmd_texts *texts, struct data_watched **out)
{
    struct data_watched *own = *out = ARENA_ARRAY(a, struct data_watched, texts->count + 1);
    if (texts->count > OWN_MAX)
        return diag_error("--allocator was given %zu times; %d are watched at most", texts->count, OWN_MAX);
    for (size_t i = 0; i < texts->count; i++)
        if ((strncmp(texts->all[i], "0x", 2) == 0 ? parse_address : parse)(a, texts->all[i], &own[i]) < 0)
            return diag_error("--allocator '%s': give FUNCTION, or FUNCTION:N where its N-th argument (1 to %d) is the "
                              "size, or FUNCTION:free, or 0xADDRESS=malloc and the like",
                              texts->all[i], ARGUMENTS);
    return 0;
}
