/* SPDX-License-Identifier: Apache-2.0
 *
 * names: a function's name from the symbols of the original file, made once and only when asked for. A function without
 * a symbol is named by its address; demangling is the painter's.
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
    if (!symbol || !*symbol)
        f->name = arena_printf(j->r->arena, "0x%" PRIx64, addr);
    else if (offset)
        f->name = arena_printf(j->r->arena, "%s+0x%" PRIx64, symbol, offset);
    else
        f->name = arena_strdup(j->r->arena, symbol);
    return f->name;
}
