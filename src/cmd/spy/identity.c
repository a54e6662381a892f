/* SPDX-License-Identifier: Apache-2.0
 * Which objects of several processes are the same: variables of the same file and place in it, blocks that the same
 * calls allocated, whatever else has the same name. Where a file lies in memory does not matter. */
#include "cmd/spy/program.h"

#include <inttypes.h>

static void put_place(const struct spied_program *s, uint64_t address, struct strbuf *out)
{
    uint32_t module;
    uint64_t vaddr;
    if (data_locate(s->data, address, &module, &vaddr))
        str_printf(out, " %s+%" PRIx64, data_module_image(s->data, module)->path, vaddr);
    else
        str_printf(out, " %" PRIx64, address);
}

void spied_identify(const struct spied_program *s, uint32_t object, struct strbuf *out)
{
    const struct data_object *o = data_object(s->data, object);
    str_printf(out, "%u %u", (unsigned)o->kind, (unsigned)o->layer);
    for (uint32_t i = 0; i < o->path_len; i++)
        put_place(s, o->path[i] - 1, out);
    if (o->size_class)
        str_printf(out, " %u", o->size_class);
    if (o->module != ID_NONE)
        str_printf(out, " %s+%" PRIx64, data_module_image(s->data, o->module)->path, o->offset);
    if (o->name && !o->path_len)
        str_printf(out, " %s", o->name);
}
