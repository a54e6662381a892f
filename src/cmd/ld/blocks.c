/* SPDX-License-Identifier: Apache-2.0
 * Of programs with counters of blocks: how often what was linked was executed; mtool blocks. */
#include <stdlib.h>

#include "cmd/ld/report.h"

static int by_insns(const void *a, const void *b)
{
    const struct ld_function *x = a, *y = b;
    return x->insns != y->insns ? (x->insns < y->insns ? 1 : -1)
                                : (x->address > y->address) - (x->address < y->address);
}

static size_t executed(const struct ld_blocks *all, const struct ld_function *f)
{
    size_t n = 0;
    for (size_t i = f->first; i < f->first + f->count; i++)
        n += all->blocks.data[i].count != 0;
    return n;
}

static void put_table(const struct cmd_args *a, const struct ld_blocks *b, struct strbuf *out)
{
    size_t rows = a->top ? a->top : 20, shown = 0;
    str_puts(out, "    instructions         calls       blocks  function\n");
    for (size_t i = 0; i < b->functions.len && (a->all || shown < rows); i++, shown++) {
        const struct ld_function *f = &b->functions.data[i];
        uint64_t calls = f->calls + f->tail_calls;
        if (!f->insns && !a->all)
            break;
        str_printf(out, "%16llu %13llu %5zu / %-5zu %s  (%s)\n", (unsigned long long)f->insns,
                   (unsigned long long)calls, executed(b, f), f->count,
                   *f->name ? f->name : arena_printf(a->arena, "%#llx", (unsigned long long)f->address),
                   file_base_name(f->object));
    }
    if (shown < b->functions.len && !a->all)
        str_printf(out, "%zu more functions; --all prints them\n", b->functions.len - shown);
}

static void put_json(const struct cmd_args *a, const struct ld_blocks *b, struct strbuf *out)
{
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_u64(&j, "files", b->files);
    json_u64(&j, "inconsistent", b->inconsistent);
    json_array(&j, "functions");
    for (size_t i = 0; i < b->functions.len; i++) {
        const struct ld_function *f = &b->functions.data[i];
        json_object(&j, NULL);
        json_str(&j, "function", *f->name ? f->name : NULL);
        json_str(&j, "object", f->object);
        json_hex(&j, "address", f->address);
        json_u64(&j, "calls", f->calls + f->tail_calls);
        json_u64(&j, "instructions", f->insns);
        json_array(&j, "blocks");
        for (size_t k = f->first; k < f->first + f->count; k++) {
            uint64_t from = k == f->first ? f->address : b->blocks.data[k].address; /* with the entrance's counter */
            json_object(&j, NULL);
            json_hex(&j, "address", from);
            json_u64(&j, "bytes", b->blocks.data[k].end - from);
            json_u64(&j, "instructions", b->blocks.data[k].insns);
            json_u64(&j, "count", b->blocks.data[k].count);
            json_object_end(&j);
        }
        json_array_end(&j);
        json_object_end(&j);
    }
    report_end_json(a, &j, out);
}

int report_blocks(const struct cmd_args *a)
{
    struct ld_blocks *b;
    struct strbuf out = {0};
    if (a->lines || a->source)
        return report_sources(a);
    if (a->source_path)
        return diag_error("blocks: --source-path goes with --lines"), CMD_UNUSABLE;
    if (ld_blocks_read(a->rest[0], a->rest + 1, (size_t)a->rest_count - 1, &b) < 0)
        return CMD_UNUSABLE;
    if (b->functions.len)
        qsort(b->functions.data, b->functions.len, sizeof *b->functions.data, by_insns);
    report_warn_flow(b->inconsistent);
    if (a->json)
        put_json(a, b, &out);
    else
        put_table(a, b, &out);
    ld_blocks_free(b);
    return report_print(a, &out);
}

int cmd_blocks(const struct cmd_args *a) { return report_blocks(a); }
