/* SPDX-License-Identifier: Apache-2.0
 * mtool instrument: writes a rewritten file and its map, and says what was left alone and why. */
#include "cmd/cmd.h"
#include "rewrite/rewrite.h"

static void say(const struct rewrite_stats *s, const char *out)
{
    diag_note(
        "%s: %u of %u functions moved (%llu of %llu bytes of code), %llu blocks, %llu edges, %llu counters, text %.2f "
        "times the old, %.2f s",
        out, s->funcs_moved, s->funcs, (unsigned long long)s->text_bytes_old, (unsigned long long)s->code_bytes,
        (unsigned long long)s->blocks, (unsigned long long)s->edges, (unsigned long long)s->counters,
        s->text_bytes_old ? (double)s->text_bytes_new / (double)s->text_bytes_old : 0.0, s->seconds);
    for (int r = 1; r < CFG_REASON_COUNT; r++)
        if (s->refused[r])
            diag_note("refused: %6u functions: %s", s->refused[r], cfg_reason_text[r]);
}

int cmd_instrument(const struct cmd_args *a)
{
    if (a->plan_count + a->plan_none + a->plan_trace + a->all_probes + a->plan_references > 1)
        return diag_error("instrument: --count, --trace, --references, --none and --all-probes exclude each other; "
                          "give one"),
               CMD_UNUSABLE;
    const char *in = a->rest[0];
    const char *out = a->output
                          ? a->output
                          : arena_printf(a->arena, "%s.%s", file_base_name(in), a->plan_trace ? "traced" : "counted");
    if (!a->force && file_exists(out))
        return diag_error("%s: exists already; choose another name with -o, or --force to replace it", out),
               CMD_UNUSABLE;
    static const struct rewrite_objects every = {.all = true};
    struct rewrite_options opt = {.plan = a->plan_none         ? REWRITE_NONE
                                          : a->plan_trace      ? REWRITE_SAMPLE
                                          : a->plan_references ? REWRITE_REFERENCES
                                          : a->all_probes      ? REWRITE_PROBE
                                                               : REWRITE_COUNT,
                                  .poison = a->poison,
                                  .all_blocks = a->all_blocks,
                                  .threads = a->by_thread || a->plan_references,
                                  .objects = a->all_probes ? &every : NULL};
    struct rewrite_stats stats;
    if (rewrite_file(in, &opt, out, arena_printf(a->arena, "%s.map", out), &stats) < 0)
        return CMD_UNUSABLE;
    say(&stats, out);
    return CMD_DONE;
}
