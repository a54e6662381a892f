/* SPDX-License-Identifier: Apache-2.0
 * Where the sites of the cells are: function, line, and the m-object whose own code they are. */
#include "prof/spied/spied.h"

static const struct spied_place NOWHERE = {ID_NONE, ID_NONE, ID_NONE, ID_NONE, ID_NONE, 0};

static void find_line(const struct join_module *m, uint64_t address, struct spied_place *p)
{
    struct line_row row;
    if (!m->lines || !lines_at(m->lines, address, &row) || !row.line)
        return;
    p->file = row.file;
    p->line = row.line;
}

static struct spied_place place_of(struct spied *s, const struct spy_site *site)
{
    struct spied_place p = NOWHERE;
    if (site->module >= s->j->module_count)
        return p;
    p.module = site->module;
    const struct join_module *m = &s->j->modules[site->module];
    uint32_t block = m->cfg ? cfg_block_at(m->cfg, site->address) : ID_NONE;
    if (block == ID_NONE)
        return p;
    const struct cfg_block *b = &m->cfg->blocks.data[block];
    p.func = m->func_base + b->func;
    p.block = m->block_base + block;
    p.owner = objects_owner(s->j, m, b->func, b->loop);
    find_line(m, site->address, &p);
    return p;
}

static double stall_of(const struct spied *s, size_t cell)
{
    double cycles = 0;
    for (uint32_t i = 0; i < s->level_count; i++)
        if (s->levels[i].config == 0 && cell < s->levels[i].cell_count)
            cycles += s->levels[i].miss_cycles * (double)s->levels[i].cell[cell].misses;
    return cycles;
}

void spied_places(struct spied *s)
{
    s->place = ARENA_ARRAY(s->j->scratch, struct spied_place, s->cell_count + 1);
    for (size_t i = 0; i < s->cell_count; i++)
        s->place[i] = place_of(s, spy_site(s->in->spy, s->cells[i].site));
}

void spied_stall(struct spied *s)
{
    s->stall = ARENA_ARRAY(s->j->scratch, double, s->cell_count + 1);
    for (size_t i = 0; i < s->cell_count; i++) {
        s->stall[i] = stall_of(s, i);
        s->stall_all += s->stall[i];
    }
    spied_sum_parts(s);
}
