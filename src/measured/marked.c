/* SPDX-License-Identifier: Apache-2.0
 *
 * marked: the regions that the source marks (include/mtool.h), module by module, with the blocks and the lines of each.
 * One whose markers do not fit together is told, and is none.
 */
#include "measured/measured.h"

#include <stdlib.h>

static bool is_first_of_name(const struct image *img, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(img->markers[k].name, img->markers[i].name) == 0)
            return false;
    return true;
}

static const char *place_text(struct join *j, struct join_module *m, uint64_t addr)
{
    struct line_row row;
    uint32_t func = cfg_func_at(m->cfg, addr);
    const char *name = func == ID_NONE ? "" : arena_printf(j->scratch, " in %s", join_func_name(j, m, func));
    const char *file = m->lines && lines_at(m->lines, addr, &row) && row.line ? join_file_name(j, row.file) : NULL;
    if (file)
        return arena_printf(j->scratch, "%s:%u%s", file_base_name(file), row.line, name);
    return arena_printf(j->scratch, "%s+0x%llx%s", file_base_name(m->path), (unsigned long long)addr, name);
}

/* From the first marker to the last that stand in the file of the first. */
static void take_lines(struct join *j, struct join_module *m, struct marked *out)
{
    uint32_t file = ID_NONE;
    for (size_t i = 0; m->lines && i < m->img->marker_count; i++) {
        struct line_row row;
        if (strcmp(m->img->markers[i].name, out->name) != 0 || !lines_at(m->lines, m->img->markers[i].addr, &row) ||
            !row.line)
            continue;
        file = file == ID_NONE ? row.file : file;
        if (row.file != file)
            continue;
        out->line_first = out->line_first ? (uint32_t)min_u64(out->line_first, row.line) : row.line;
        out->line_last = (uint32_t)max_u64(out->line_last, row.line);
    }
    out->file = join_file_name(j, file);
}

/* Executed blocks. */
static void take_blocks(struct join *j, const struct join_module *m, const struct cfg_marked *found, struct marked *out)
{
    uint32_t *blocks = ARENA_ARRAY(j->scratch, uint32_t, found->blocks.len + 1);
    for (size_t i = 0; i < found->blocks.len; i++)
        if (j->counts[m->block_base + found->blocks.data[i]])
            blocks[out->count++] = found->blocks.data[i];
    out->blocks = blocks;
}

static void find_one(struct join *j, uint32_t module, const char *name, struct marked *out)
{
    struct join_module *m = &j->modules[module];
    struct cfg_marked found;
    *out = (struct marked){.name = arena_strdup(j->r->arena, name), .module = module};
    cfg_marked_find(m->cfg, m->img, name, &found);
    out->is_unclear = found.problem != CFG_MARKED_FOUND;
    if (out->is_unclear)
        prof_warn(j->r, PROF_WARN_REGION_UNCLEAR, "region %s is not measured: %s (%s)", name,
                  cfg_marked_problem_text[found.problem], place_text(j, m, found.at));
    take_lines(j, m, out);
    take_blocks(j, m, &found, out);
    VEC_FREE(&found.blocks);
}

void marked_find(struct join *j)
{
    VEC(struct marked) all = {0};
    for (uint32_t i = 0; i < j->module_count; i++) {
        const struct join_module *m = &j->modules[i];
        for (size_t k = 0; m->cfg && m->img && m->instructions && k < m->img->marker_count; k++) {
            struct marked one;
            if (!is_first_of_name(m->img, k))
                continue;
            find_one(j, i, m->img->markers[k].name, &one);
            VEC_PUSH(&all, one);
        }
    }
    j->marked = ARENA_ARRAY(j->scratch, struct marked, all.len + 1);
    if (all.len)
        memcpy(j->marked, all.data, all.len * sizeof *all.data);
    j->marked_count = all.len;
    VEC_FREE(&all);
}
