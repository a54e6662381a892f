/* SPDX-License-Identifier: Apache-2.0
 *
 * How many references there were. Behind a filter the exact counts of blocks say how often each site was executed;
 * which object it went to is known of sites that went to one.
 */
#include "prof/spied/spied.h"

/* Of ranges, and of what the kernel does, more come than instructions are executed. */
const uint64_t *spied_told_by_site(const struct spied *s)
{
    uint64_t *told = ARENA_ARRAY(s->j->scratch, uint64_t, spy_site_count(s->in->spy) + 1ull);
    for (size_t i = 0; i < s->cell_count; i++)
        told[s->cells[i].site] += s->cells[i].references;
    return told;
}

/* Adds to those of the function whose site it is. */
static uint64_t executed(struct spied *s, uint32_t site, uint64_t told)
{
    const struct spy_site *of = spy_site(s->in->spy, site);
    if (!of->bytes)
        return 0; /* such an instruction's references are not told */
    const struct join_module *m = of->module < s->j->module_count ? &s->j->modules[of->module] : NULL;
    uint32_t block = m && m->cfg ? cfg_block_at(m->cfg, of->address) : ID_NONE;
    if (block == ID_NONE)
        return 0;
    uint64_t count = max_u64(s->j->counts[m->block_base + block], told);
    s->function_references[m->func_base + m->cfg->blocks.data[block].func] += count;
    return count;
}

static uint64_t executed_all(struct spied *s)
{
    uint64_t sum = 0;
    const uint64_t *told = spied_told_by_site(s);
    for (uint32_t i = 0; i < spy_site_count(s->in->spy); i++)
        sum += executed(s, i, told[i]);
    return sum;
}

static uint64_t told_all(struct spied *s)
{
    for (size_t i = 0; i < s->cell_count; i++)
        if (s->place[i].func != ID_NONE)
            s->function_references[s->place[i].func] += s->cells[i].references;
    return s->in->references;
}

static uint32_t *objects_by_site(const struct spied *s)
{
    uint32_t *n = ARENA_ARRAY(s->j->scratch, uint32_t, spy_site_count(s->in->spy) + 1ull);
    for (size_t i = 0; i < s->cell_count; i++)
        n[s->cells[i].site]++;
    return n;
}

static uint64_t of_cell(const struct spied *s, const uint32_t *objects, size_t cell)
{
    if (!s->in->is_filtered)
        return s->cells[cell].references;
    bool is_only = objects[s->cells[cell].site] == 1 && s->place[cell].block != ID_NONE;
    return is_only ? max_u64(s->j->counts[s->place[cell].block], s->cells[cell].references) : PROF_UNKNOWN;
}

void spied_references(struct spied *s)
{
    const uint32_t *objects = objects_by_site(s);
    s->function_references = ARENA_ARRAY(s->j->scratch, uint64_t, s->j->func_count + 1);
    s->references = s->in->is_filtered ? executed_all(s) : told_all(s);
    s->cell_references = ARENA_ARRAY(s->j->scratch, uint64_t, s->cell_count + 1);
    for (size_t i = 0; i < s->cell_count; i++)
        s->cell_references[i] = of_cell(s, objects, i);
}
