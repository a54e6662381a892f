/* SPDX-License-Identifier: Apache-2.0
 * The kernel's variables: how often each is reached and misses, and which is reached after which; and where those of a
 * list would be if they were placed: one behind the other in its order, in physical memory behind the guest's own, so
 * that nothing else is there. What is not on the list stays where it is. A variable reaches from its symbol to the next
 * one; it keeps an alignment that its size may need. Those of each processor have addresses that no symbol has, and are
 * not among them. */
#include "plugin/plugin.h"

#include <errno.h>
#include <stdlib.h>

enum { GRANULE_SHIFT = 3, ALIGNMENT_MAX = 4096, ROOM = 1 << 20 };

struct variable {
    uint64_t vaddr, bytes;
    const char *name;
    uint64_t placed; /* physical; 0: where it is */
    uint64_t uses, misses;
    uint32_t written; /* its line of the result, and 1; 0: none */
};
struct follow {
    uint32_t from, to;
    uint64_t times;
};

static struct {
    VEC(struct variable) all; /* by address */
    uint64_t begin, end;      /* physical */
    uint32_t *at;             /* by granule: which of them, and 1 */
    uint32_t last;            /* that was reached, and 1 */
    struct map index;         /* of a pair: its place in follows, and 1 */
    VEC(struct follow) follows;
} the;

bool variables_are_wanted, variables_are_placed;

/* ---- found ---- */

static int by_address(const void *a, const void *b)
{
    const struct variable *x = a, *y = b;
    return x->vaddr != y->vaddr ? (x->vaddr > y->vaddr ? 1 : -1) : strcmp(x->name, y->name);
}

/* Between them nothing is a variable: what the kernel needed to start is other memory now. */
static const struct {
    const char *begin, *end;
} sections[] = {{"__start_rodata", "__end_rodata"}, {"_sdata", "_edata"}, {"__bss_start", "__bss_stop"}};

static uint64_t symbol(const char *name)
{
    uint64_t at = places_kernel_symbol(name);
    return at ? at : places_kernel_function(name);
}

static void find_in(uint64_t begin, uint64_t end)
{
    struct variable v = {0};
    size_t first = the.all.len, kept = first;
    for (size_t i = 0; places_datum(i, &v.name, &v.vaddr); i++)
        if (v.vaddr >= begin && v.vaddr < end)
            VEC_PUSH(&the.all, v);
    if (the.all.len > first)
        qsort(the.all.data + first, the.all.len - first, sizeof *the.all.data, by_address);
    for (size_t i = first; i < the.all.len; i++)
        if (kept == first || the.all.data[kept - 1].vaddr != the.all.data[i].vaddr)
            the.all.data[kept++] = the.all.data[i];
    the.all.len = kept;
    for (size_t i = first; i < kept; i++)
        the.all.data[i].bytes = (i + 1 < kept ? the.all.data[i + 1].vaddr : end) - the.all.data[i].vaddr;
}

/* In ascending order: the first and the last address. */
static bool find_all(uint64_t *first, uint64_t *last)
{
    for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
        uint64_t begin = symbol(sections[i].begin), end = symbol(sections[i].end);
        if (begin && end > begin)
            find_in(begin, end);
        else
            return false;
        *first = i ? *first : begin;
        if (i && begin < *last)
            return false;
        *last = end;
    }
    return true;
}

/* A granule is the variable's that its last byte is of. */
static void index_all(void)
{
    the.at = xmalloc_sparse((((the.end - the.begin) >> GRANULE_SHIFT) + 1) * sizeof *the.at);
    for (size_t i = 0; i < the.all.len; i++) {
        uint64_t first = ram_address_of_kernel(the.all.data[i].vaddr) - the.begin;
        for (uint64_t g = first >> GRANULE_SHIFT; g <= (first + the.all.data[i].bytes - 1) >> GRANULE_SHIFT; g++)
            the.at[g] = (uint32_t)i + 1;
    }
}

static struct variable *variable_at(uint64_t physical)
{
    uint32_t i = physical - the.begin < the.end - the.begin ? the.at[(physical - the.begin) >> GRANULE_SHIFT] : 0;
    return i ? &the.all.data[i - 1] : NULL;
}

/* ---- placed ---- */

static uint64_t alignment_of(const struct variable *v)
{
    uint64_t natural = v->vaddr & -v->vaddr, most = 1ull << GRANULE_SHIFT;
    while (2 * most <= v->bytes && most < ALIGNMENT_MAX)
        most *= 2;
    return min_u64(natural, most) < 1ull << GRANULE_SHIFT ? 1ull << GRANULE_SHIFT : min_u64(natural, most);
}

static int place_list(const char *path)
{
    FILE *f = fopen(path, "re");
    char line[32];
    uint64_t at = ALIGN_UP(settings.ram_bytes + WIRE_REGION_BYTES, (uint64_t)ROOM);
    if (!f)
        return diag_error("cannot read %s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, f)) {
        uint64_t physical = ram_address_of_kernel(strtoull(line, NULL, 16));
        struct variable *v = physical == RAM_NOWHERE ? NULL : variable_at(physical);
        if (!v || v->placed)
            continue;
        at = ALIGN_UP(at, alignment_of(v));
        v->placed = at;
        at += v->bytes;
    }
    fclose(f);
    return 0;
}

int variables_read(void)
{
    uint64_t begin = 0, end = 0;
    if (!find_all(&begin, &end))
        return diag_error("the guest's kernel has no symbols that say where its variables are, as _sdata and _edata");
    the.begin = ram_address_of_kernel(begin);
    the.end = the.begin + (end - begin);
    index_all();
    variables_are_wanted = settings.variables;
    variables_are_placed = settings.placed_data != NULL;
    return variables_are_placed ? place_list(settings.placed_data) : 0;
}

uint64_t variables_address(uint64_t physical)
{
    const struct variable *v = variable_at(physical);
    return v && v->placed ? v->placed + (physical - ram_address_of_kernel(v->vaddr)) : physical;
}

bool variables_hold(uint64_t physical) { return physical - the.begin < the.end - the.begin; }

/* ---- used ---- */

void variables_use(uint64_t physical, bool missed)
{
    struct variable *v = variable_at(physical);
    if (!v)
        return;
    uint32_t own = (uint32_t)(v - the.all.data) + 1;
    v->uses++;
    v->misses += missed;
    if (the.last && the.last != own) {
        uint64_t *place = map_place(&the.index, (uint64_t)the.last << 32 | own);
        if (!*place) {
            VEC_PUSH(&the.follows, ((struct follow){the.last - 1, own - 1, 0}));
            *place = the.follows.len;
        }
        the.follows.data[*place - 1].times++;
    }
    the.last = own;
}

void variables_write(FILE *f)
{
    uint32_t written = 0;
    if (!variables_are_wanted)
        return;
    fprintf(f, "variables\n");
    for (size_t i = 0; i < the.all.len; i++) {
        struct variable *v = &the.all.data[i];
        if (!v->uses)
            continue;
        v->written = ++written;
        fprintf(f, "variable %llx %llu %llu %llu\t%s\n", (unsigned long long)v->vaddr, (unsigned long long)v->bytes,
                (unsigned long long)v->uses, (unsigned long long)v->misses, v->name);
    }
    for (size_t i = 0; i < the.follows.len; i++)
        fprintf(f, "follow %u %u %llu\n", the.all.data[the.follows.data[i].from].written - 1,
                the.all.data[the.follows.data[i].to].written - 1, (unsigned long long)the.follows.data[i].times);
}
