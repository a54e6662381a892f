/* SPDX-License-Identifier: Apache-2.0
 * The programs of share/states, built in. */
#include "states/states.h"
#include "states_shipped.h"

static const struct {
    const char *name, *text;
} shipped[] = {STATES_SHIPPED};

const char *states_shipped(size_t i, const char **name)
{
    if (i >= ARRAY_LEN(shipped))
        return NULL;
    *name = shipped[i].name;
    return shipped[i].text;
}
