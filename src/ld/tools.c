/* SPDX-License-Identifier: Apache-2.0
 * The table of tools. */
#include <errno.h>

#include "ld/ld.h"
#include "wire/link.h"

#include "ld_runtime_calls.h"
#include "ld_runtime_clocks.h"
#include "ld_runtime_promote.h"
#include "ld_runtime_trace.h"

#define sizeof_NULL 0
#define sizeof_ld_runtime_calls sizeof ld_runtime_calls
#define sizeof_ld_runtime_clocks sizeof ld_runtime_clocks
#define sizeof_ld_runtime_promote sizeof ld_runtime_promote
#define sizeof_ld_runtime_trace sizeof ld_runtime_trace

const struct ld_tool ld_tools[LD_TOOL_COUNT] = {
#define TOOL(id, name, extension, plan, runtime, does, inserts)                                                        \
    [LD_TOOL_##                                                                                                        \
        id] = {LD_TOOL_##id, name, extension, REWRITE_RELOCATABLE_##plan, runtime, sizeof_##runtime, does, inserts},
#include "ld/tools.def"
#undef TOOL
};

void ld_tools_list(struct strbuf *out)
{
    for (size_t i = 0; i < LD_TOOL_COUNT; i++)
        str_printf(out, "%s%s", i ? ", " : "", ld_tools[i].name);
}

const struct ld_tool *ld_tool_named(const char *name)
{
    struct strbuf known = {0};
    for (size_t i = 0; i < LD_TOOL_COUNT; i++)
        if (!strcmp(ld_tools[i].name, name))
            return &ld_tools[i];
    ld_tools_list(&known);
    diag_error("ld: there is no tool '%s'; there are: %s", name, known.data);
    str_free(&known);
    return NULL;
}

const struct ld_tool *ld_tool_of_file(const char *path)
{
    struct file_bytes f;
    struct wire_link head;
    if (file_map(path, &f) < 0) {
        diag_error("ld-report: cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    bool is_one = f.len >= sizeof head && memcmp(f.data, WIRE_LINK_MAGIC, sizeof head.magic) == 0;
    if (is_one)
        memcpy(&head, f.data, sizeof head);
    file_unmap(&f);
    if (is_one && head.version == WIRE_LINK_VERSION && head.tool < LD_TOOL_COUNT)
        return &ld_tools[head.tool];
    diag_error("ld-report: %s %s", path,
               is_one ? "is of another version of mtool; run the program again"
                      : "was not written by a program that 'mtool ld' linked");
    return NULL;
}

const struct ld_tool *ld_tool_of_linked(const char *path)
{
    struct image *img = NULL;
    struct strbuf why = {0};
    struct wire_link note = {.tool = LD_TOOL_COUNT};
    diag_hold(&why);
    if (image_open(path, &img) == 0) {
        const struct image_section *s = image_section_named(img, WIRE_LINK_SECTION);
        const uint8_t *p = s && s->size == sizeof note ? image_at(img, s->addr, s->size) : NULL;
        if (p && memcmp(p, WIRE_LINK_MAGIC, sizeof note.magic) == 0)
            memcpy(&note, p, sizeof note);
    }
    diag_hold(NULL);
    image_close(img);
    str_free(&why);
    return note.version == WIRE_LINK_VERSION && note.tool < LD_TOOL_COUNT ? &ld_tools[note.tool] : NULL;
}
