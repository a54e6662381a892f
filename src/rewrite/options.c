/* SPDX-License-Identifier: Apache-2.0
 * The options as a text: part of the identity of copies, and of their names in the cache. */
#include "rewrite/rewrite.h"

static void put_object(const struct rewrite_object *o, struct strbuf *out)
{
    static const char *const kinds[] = {[REWRITE_PROCEDURE] = "procedure",
                                        [REWRITE_LOOP] = "loop",
                                        [REWRITE_PIECE] = "piece",
                                        [REWRITE_REGION] = "region"};
    str_puts(out, kinds[o->kind]);
    if (o->kind == REWRITE_REGION)
        str_printf(out, " %s\n", o->region);
    else if (o->kind == REWRITE_PIECE)
        str_printf(out, " %llx %llx\n", (unsigned long long)o->at, (unsigned long long)o->end);
    else
        str_printf(out, " %llx\n", (unsigned long long)o->at);
}

void rewrite_options_put(const struct rewrite_options *opt, struct strbuf *out)
{
    char feedback[33] = "", sampled[33] = "";
    uint64_t instructions, samples;
    char heat[33];
    rewrite_sampled_id(opt->sampled, sampled);
    if (opt->feedback && !rewrite_feedback_id(opt->feedback, feedback, &instructions))
        feedback[0] = 0;
    if (rewrite_heat_id(opt->heat, heat, &samples))
        str_printf(out, "heat %s ", heat);
    if (opt->filter_shift)
        str_printf(out, "filter %u %d %d ", opt->filter_shift, opt->filter_lines, opt->filter_threads);
    if (opt->sets.mask)
        str_printf(out, "sets %u %x %x %x ", opt->sets.shift, opt->sets.factor, opt->sets.mask, opt->sets.value);
    if (opt->samples)
        str_puts(out, "samples ");
    str_printf(out, "plan %d poison %d all %d threads %d lesson %s seen %s probes ", (int)opt->plan, opt->poison,
               opt->all_blocks, opt->threads, feedback, sampled);
    if (opt->objects && opt->objects->all)
        str_puts(out, "all");
    for (size_t i = 0; opt->objects && i < opt->objects->len; i++)
        put_object(&opt->objects->data[i], out);
    for (size_t i = 0; i < opt->watched_count; i++)
        str_printf(out, "watch %s %llx %d%d%d%d\n", opt->watched[i].name, (unsigned long long)opt->watched[i].addr,
                   opt->watched[i].returns, opt->watched[i].stores, opt->watched[i].takes_several,
                   opt->watched[i].is_own);
    if (opt->watch_all)
        str_puts(out, "watch all ");
}
