/* SPDX-License-Identifier: Apache-2.0
 *
 * names: a function's name from the symbols of the original file, else from its debug information, made once and only
 * when asked for. A function without either is named by its address; demangling is the painter's.
 */
#include "measured/measured.h"

#include <inttypes.h>

/* "malloc@plt" for a linkage stub; NULL if it is none, or of no named function. */
static const char *stub_name(struct join *j, const struct join_module *m, const struct cfg_func *f)
{
    uint64_t slot = f->is_plt && m->img ? calls_stub_slot(m->img, f->addr) : 0;
    const struct image_reloc *r = slot ? image_reloc_at(m->img, slot) : NULL;
    return r && r->sym_name ? arena_printf(j->r->arena, "%s@plt", r->sym_name) : NULL;
}

const char *join_func_name(struct join *j, struct join_module *m, uint32_t func)
{
    struct join_func *f = &j->funcs[m->func_base + func];
    if (!f->name)
        f->name = stub_name(j, m, &m->cfg->funcs.data[func]);
    if (f->name)
        return f->name;
    uint64_t addr = m->cfg->funcs.data[func].addr, offset = 0;
    const char *symbol = m->img ? image_symbol_name(m->img, addr, &offset) : NULL;
    const struct scopes *scopes = (!symbol || offset) && m->scopes ? scopes_of(m->scopes, addr) : NULL;
    if (scopes && scopes->scopes[0].name)
        f->name = arena_strdup(j->r->arena, scopes->scopes[0].name);
    else if (!symbol || !*symbol)
        f->name = arena_printf(j->r->arena, "0x%" PRIx64, addr);
    else if (offset)
        f->name = arena_printf(j->r->arena, "%s+0x%" PRIx64, symbol, offset);
    else
        f->name = arena_strdup(j->r->arena, symbol);
    return f->name;
}

const char *join_file_name(const struct join *j, uint32_t file)
{
    return file == ID_NONE ? NULL : j->files.texts.data[file];
}
