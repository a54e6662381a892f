/* SPDX-License-Identifier: Apache-2.0
 *
 * names: a function's name from the symbols of the original file, else from its debug information, made once and only
 * when asked for. A function without either is named by its address; demangling is the painter's.
 */
#include "prof/impl.h"

#include <inttypes.h>

const char *join_func_name(struct join *j, struct join_module *m, uint32_t func)
{
    struct join_func *f = &j->funcs[m->func_base + func];
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
