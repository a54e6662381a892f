/* SPDX-License-Identifier: Apache-2.0
 * known_paths: a path's words to nodes of the tree in which the runtime looks while it is written to: a node is whole
 * before it is reached. */
#include "cmd/allocations/known_paths.h"

static uint32_t look_for(const struct data_path_word *w)
{
    if (w->kind == DATA_WORD_RBP_LEADS)
        return WIRE_PATH_RBP;
    return w->offset | (w->kind == DATA_WORD_LEADS ? WIRE_PATH_LEADS : 0);
}

static bool is_it(const struct wire_path_node *n, uint32_t from, uint64_t value)
{
    return n->from == from && n->value == value;
}

/* The node, or the free place for it, or the last place, which nothing is put into. `before`: where the edge begins;
 * NULL: at the root. */
static struct wire_path_node *place_of(struct wire_paths *to, struct wire_path_node *before, uint32_t from,
                                       uint64_t value)
{
    struct wire_path_node *n = &to->places[wire_path_place(from, value)], *last = &to->places[WIRE_PATH_PLACES - 1];
    if (before && is_it(before + 1, from, value))
        return before + 1;
    while (n < last && n->from && !is_it(n, from, value))
        n++;
    return n->from || !before || before[1].from ? n : before + 1;
}

static uint32_t number_of(const struct wire_paths *to, const struct wire_path_node *n)
{
    return (uint32_t)((const char *)n - (const char *)to->places) | 1;
}

static bool make(struct wire_paths *to, struct wire_path_node *n, uint32_t from, const struct wire_path_node *as)
{
    if (to->count >= WIRE_PATH_NODES_MAX || n == &to->places[WIRE_PATH_PLACES - 1])
        return false;
    to->count++;
    n->value = as->value;
    n->look = as->look;
    n->number = as->number;
    __atomic_store_n(&n->from, from, __ATOMIC_RELEASE);
    return true;
}

void known_paths_add(struct wire_paths *to, const struct data_path *path)
{
    uint32_t from = WIRE_PATH_ROOT;
    struct wire_path_node *n = NULL;
    for (uint32_t i = 0; i < path->count; i++) {
        bool is_last = i + 1 == path->count;
        struct wire_path_node as = {.value = path->words[i].value,
                                    .look = is_last ? 0 : look_for(&path->words[i + 1]),
                                    .number = is_last ? path->number : 0};
        n = place_of(to, n, from, as.value);
        if (!n->from && !make(to, n, from, &as))
            return;
        if (is_last && n->look && path->is_settled)
            __atomic_store_n(&n->number, as.number, __ATOMIC_RELEASE);
        else if (n->look != as.look)
            return;
        from = number_of(to, n);
    }
}
