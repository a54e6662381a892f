/* SPDX-License-Identifier: Apache-2.0
 * Exact counts as text: a line a block and a line an edge, fields between tabs, so that sort, cut and awk can go on. */
#include "report/impl.h"

static const char *module_name(const struct prof_result *r, uint32_t module, struct arena *a)
{
    const char *path = r->modules[module].path;
    return path ? cell_safe(a, path) : "?";
}

static void put_block(struct strbuf *out, const struct prof_result *r, const struct prof_block_row *b, struct arena *a)
{
    str_printf(out, "block\t%llu\t0x%llx\t%u\t%u\t%u\t%s\t%s\t", (unsigned long long)b->count,
               (unsigned long long)b->address, b->size_bytes, b->instructions, b->memory_ops,
               module_name(r, b->module, a), b->function ? cell_safe(a, b->function) : "?");
    if (b->file)
        str_printf(out, "%s:%u\n", cell_safe(a, b->file), b->line);
    else
        str_puts(out, "?\n");
}

static void put_process(struct strbuf *out, const struct prof_process *p, struct arena *a)
{
    str_printf(out, "process\t%u\t%u\t", p->pid, p->parent);
    str_printf(out, p->exit_status == ID_NONE ? "?\t" : "%u\t", p->exit_status);
    if (p->instructions == PROF_UNKNOWN)
        str_puts(out, "?");
    else
        str_printf(out, "%llu", (unsigned long long)p->instructions);
    str_printf(out, "\t%s%s%s%s\n", p->is_fork ? "(fork) " : "", p->command ? cell_safe(a, p->command) : "?",
               p->refused ? "\t" : "", p->refused ? cell_safe(a, p->refused) : "");
}

void report_counts_text(const struct prof_result *r, struct strbuf *out)
{
    struct arena *a = arena_new();
    if (r->coverage.instructions_counted != PROF_UNKNOWN)
        str_printf(out, "instructions\t%llu\n", (unsigned long long)r->coverage.instructions_counted);
    if (r->process_count)
        str_puts(out, "#process\tpid\tparent\texit\tinstructions\tcommand\n");
    for (size_t i = 0; i < r->process_count; i++)
        put_process(out, &r->process[i], a);
    str_puts(out, "#block\tcount\taddress\tbytes\tinstructions\tmemory_ops\tmodule\tfunction\tline\n");
    for (size_t i = 0; i < r->block_count; i++)
        put_block(out, r, &r->blocks[i], a);
    str_puts(out, "#edge\tcount\tfrom\tto\tmodule\n");
    for (size_t i = 0; i < r->edge_count; i++) {
        const struct prof_edge_row *e = &r->edges[i];
        str_printf(out, "edge\t%llu\t0x%llx\t0x%llx\t%s\n", (unsigned long long)e->count, (unsigned long long)e->from,
                   (unsigned long long)e->to, module_name(r, e->module, a));
    }
    for (size_t i = 0; i < r->refused_count; i++) {
        const struct prof_refused *f = &r->refused[i];
        str_printf(out, "refused\t%s\t%s\t0x%llx\t%s\n", f->module ? cell_safe(a, f->module) : "?",
                   f->function ? cell_safe(a, f->function) : "?", (unsigned long long)f->address,
                   f->reason ? cell_safe(a, f->reason) : "?");
    }
    arena_free(a);
}
