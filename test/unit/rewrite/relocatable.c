/* SPDX-License-Identifier: Apache-2.0
 *
 * The rewriter of relocatable objects, for scripts:
 *
 *   relocatable rewrite IN.o OUT.o [--counts] [--poison] [--all-blocks] [--locked]   prints what was left as it was
 *   relocatable blocks EXECUTABLE WORDS     a line for each block: address, size, instructions, count
 *
 * WORDS is the content of the section mtool_counters at the program's end. */
#include "rewrite/rewrite.h"

#include <inttypes.h>
#include <stdlib.h>

static int usage(void)
{
    return diag_error("relocatable: rewrite IN.o OUT.o [--counts] [--poison] [--all-blocks] [--locked], or blocks "
                      "EXECUTABLE WORDS");
}

static void print_stats(const struct rewrite_relocatable_stats *st)
{
    printf("functions %u moved %u sections %u moved %u blocks %" PRIu64 " counters %" PRIu64 " bytes %" PRIu64
           " now %" PRIu64 "\n",
           st->funcs, st->funcs_moved, st->sections, st->sections_moved, st->blocks, st->counters, st->code_bytes,
           st->code_bytes_new);
    for (size_t i = 0; i < st->whole_count; i++) {
        const struct rewrite_relocatable_whole *w = &st->whole[i];
        printf("whole %s+0x%" PRIx64 " %" PRIu64 " bytes: %s%s%s\n", w->section, w->at, w->bytes,
               rewrite_relocatable_reason_text[w->why], w->func_why ? ": " : "", cfg_reason_text[w->func_why]);
    }
}

static int rewrite(int argc, char **argv)
{
    struct rewrite_relocatable_options opt = {.tool = REWRITE_RELOCATABLE_NULL};
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "--counts") == 0)
            opt.tool = REWRITE_RELOCATABLE_COUNTS;
        else if (strcmp(argv[i], "--poison") == 0)
            opt.poison = true;
        else if (strcmp(argv[i], "--all-blocks") == 0)
            opt.all_blocks = true;
        else if (strcmp(argv[i], "--locked") == 0)
            opt.locked = true;
        else
            return usage();
    }
    struct file_bytes in;
    struct strbuf out = {0};
    struct rewrite_relocatable_stats stats;
    if (file_map(argv[2], &in) < 0)
        return diag_error("%s: cannot be read", argv[2]);
    int rc = rewrite_relocatable(argv[2], in.data, in.len, &opt, &out, &stats);
    if (rc == 0 && file_write_whole(argv[3], out.data, out.len, 0644) < 0)
        rc = diag_error("%s: cannot be written", argv[3]);
    if (rc == 0)
        print_stats(&stats);
    rewrite_relocatable_stats_free(&stats);
    str_free(&out);
    file_unmap(&in);
    return rc;
}

static void print_block(const struct rewrite_relocatable_unit *u, uint32_t f, uint32_t b, uint64_t count)
{
    const struct cfg_func *fn = &u->map->cfg->funcs.data[f];
    const struct cfg_block *blk = &u->map->cfg->blocks.data[b];
    const uint64_t *addr = u->map->block_addr_new;
    const struct rewrite_relocatable_func *at = &u->funcs[f];
    bool is_first = b == fn->block_first, is_last = b + 1 == fn->block_first + fn->block_count;
    uint64_t first = at->first_block - addr[fn->block_first], from = is_first ? 0 : first + addr[b];
    uint64_t to = is_last ? at->bytes : first + addr[b + 1];
    printf("%" PRIx64 " %" PRIu64 " %u %" PRIu64 "\n", at->vaddr + from, to - from, blk->insn_count, count);
}

static int print_unit(const struct rewrite_relocatable_unit *u, const uint64_t *words)
{
    const struct cfg *c = u->map->cfg;
    struct rewrite_flow flow;
    rewrite_flow_solve(u->map, words, (struct rewrite_side_exits){NULL, 0}, &flow);
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        cfg_for_each_block(fn, b)
            if (u->funcs[f].vaddr)
                print_block(u, f, b, flow.blocks[b]);
    }
    int rc = flow.broken ? diag_error("%s: %" PRIu64 " equations do not hold", u->name, flow.broken) : 0;
    rewrite_flow_free(&flow);
    return rc;
}

static int blocks(const char *executable, const char *path)
{
    struct rewrite_relocatable_linked *l;
    struct file_bytes words;
    if (rewrite_relocatable_linked_open(executable, &l) < 0)
        return -1;
    int rc = file_map(path, &words);
    if (rc < 0 || words.len != l->counters_hi - l->counters_lo) {
        rewrite_relocatable_linked_close(l);
        return diag_error("%s: not the counters of %s", path, executable);
    }
    for (size_t u = 0; u < l->unit_count; u++)
        rc |= print_unit(&l->units[u],
                         (const uint64_t *)(const void *)(words.data + (l->units[u].counters_vaddr - l->counters_lo)));
    file_unmap(&words);
    rewrite_relocatable_linked_close(l);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "rewrite") == 0)
        return rewrite(argc, argv) < 0 ? 2 : 0;
    if (argc == 4 && strcmp(argv[1], "blocks") == 0)
        return blocks(argv[2], argv[3]) < 0 ? 2 : 0;
    return usage() < 0 ? 2 : 0;
}
