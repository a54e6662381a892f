/* SPDX-License-Identifier: Apache-2.0
 * /proc/kallsyms into functions by address. Where the kernel hides its addresses they are all zero. */
#include <errno.h>
#include <stdlib.h>

#include "live/impl.h"

struct symbol {
    uint64_t address;
    uint32_t name; /* offset */
    bool is_weak;  /* no name of its own choice where another has the same address */
};
struct live_symbols {
    VEC(struct symbol) all; /* by address, one an address */
    struct strbuf names;
};

static int by_address(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if (x->is_weak != y->is_weak)
        return x->is_weak ? 1 : -1;
    return (x->name > y->name) - (x->name < y->name);
}

static void take_line(struct live_symbols *s, const char *line)
{
    char kind, name[256];
    unsigned long long address;
    if (sscanf(line, "%llx %c %255s", &address, &kind, name) != 3 || !address || !strchr("tTwW", kind))
        return;
    VEC_PUSH(&s->all, ((struct symbol){address, (uint32_t)s->names.len, kind == 'w' || kind == 'W' || name[0] == '_'}));
    str_put(&s->names, name, strlen(name) + 1);
}

static void keep_one_an_address(struct live_symbols *s)
{
    size_t n = 0;
    qsort(s->all.data, s->all.len, sizeof *s->all.data, by_address);
    for (size_t i = 0; i < s->all.len; i++)
        if (!n || s->all.data[i].address != s->all.data[n - 1].address)
            s->all.data[n++] = s->all.data[i];
    s->all.len = n;
}

struct live_symbols *live_symbols_read(const char *path, struct arena *a, const char **why)
{
    char *line = NULL;
    size_t room = 0, lines = 0;
    FILE *f = fopen(path, "re");
    if (!f) {
        *why = arena_printf(a, "%s: %s", path, strerror(errno));
        return NULL;
    }
    struct live_symbols *s = xmalloc(sizeof *s);
    for (; getline(&line, &room, f) > 0; lines++)
        take_line(s, line);
    free(line);
    fclose(f);
    if (s->all.len) {
        keep_one_an_address(s);
        return s;
    }
    live_symbols_free(s);
    *why = lines ? arena_printf(a, "%s: the kernel hides its addresses (kptr_restrict)", path)
                 : arena_printf(a, "%s: empty", path);
    return NULL;
}

uint32_t live_symbols_find(const struct live_symbols *s, uint64_t address)
{
    size_t end = PARTITION_POINT(i, 0, s->all.len, s->all.data[i].address <= address);
    return end ? (uint32_t)(end - 1) : ID_NONE;
}

const char *live_symbols_name(const struct live_symbols *s, uint32_t id)
{
    return s->names.data + s->all.data[id].name;
}

size_t live_symbols_count(const struct live_symbols *s) { return s->all.len; }

void live_symbols_free(struct live_symbols *s)
{
    if (!s)
        return;
    VEC_FREE(&s->all);
    str_free(&s->names);
    free(s);
}
