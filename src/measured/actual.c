/* SPDX-License-Identifier: Apache-2.0
 *
 * actual: samples of the program counter become shares of the untouched program's time, with binomial intervals; the
 * plain runs give the seconds that are shared out. A sample's address is that of the instruction that waits, often the
 * one after a load that missed: right within a loop, not to be read as the very instruction.
 */
#include "measured/measured.h"

#include <math.h>
#include <stdlib.h>

static const char *unattributed_reason(const struct join_module *m, uint32_t func)
{
    if (func == ID_NONE)
        return "code outside all known functions";
    if (!m->in->counters)
        return "the counted run did not load this module";
    const struct cfg_func *f = &m->cfg->funcs.data[func];
    if (f->is_plt)
        return "linkage stubs stay in place";
    return f->reason != CFG_REASON_OK ? cfg_reason_text[f->reason] : "not rewritten";
}

static void lose(struct join *j, struct map *index, uint32_t module, uint32_t func, uint64_t count)
{
    struct join_module *m = module == ID_NONE ? NULL : &j->modules[module];
    if (m && func != ID_NONE && m->cfg->funcs.data[func].is_plt)
        func = ID_NONE - 1; /* all stubs of a module are one */
    uint64_t key = (uint64_t)module << 32 | func, at;
    if (map_get(index, key, &at)) {
        j->unattributed.data[at].samples += count;
        return;
    }
    map_put(index, key, j->unattributed.len);
    struct join_unattributed l = {.samples = count};
    if (!m) {
        l.module = "(no file)";
        l.function = "(no file)";
        l.reason = "vdso, code made at run time, or unknown";
    } else if (func == ID_NONE - 1) {
        l.module = m->path;
        l.function = "(linkage stubs)";
        l.reason = "linkage stubs stay in place";
    } else if (func == ID_NONE) {
        l.module = m->path;
        l.function = "(no function)";
        l.reason = unattributed_reason(m, func);
    } else {
        l.module = m->path;
        l.function = join_func_name(j, m, func);
        l.reason = unattributed_reason(m, func);
        l.address = m->cfg->funcs.data[func].addr;
    }
    VEC_PUSH(&j->unattributed, l);
}

/* Puts a sample to its counted block; false if there is none. */
static bool put_to_block(struct join *j, const struct join_module *m, const struct observed_sample *s)
{
    uint32_t b = cfg_block_at(m->cfg, s->vaddr);
    if (b == ID_NONE || !j->funcs[m->func_base + m->cfg->blocks.data[b].func].is_counted)
        return false;
    j->samples[m->block_base + b] += s->count;
    j->samples_counted += s->count;
    if (j->counts[m->block_base + b] == 0)
        j->samples_unexpected += s->count;
    return true;
}

/* Functions left alone are named even where no sample fell. */
static void name_refused(struct join *j, struct map *index)
{
    for (uint32_t k = 0; k < j->module_count; k++) {
        const struct join_module *m = &j->modules[k];
        for (uint32_t f = 0; m->cfg && m->in->counters && f < m->cfg->funcs.len; f++)
            if (m->cfg->funcs.data[f].reason != CFG_REASON_OK && !m->cfg->funcs.data[f].is_plt)
                lose(j, index, k, f, 0);
    }
}

void actual_locate(struct join *j)
{
    struct map index = {0};
    for (size_t i = 0; i < j->in->sample_count; i++) {
        const struct observed_sample *s = &j->in->samples[i];
        j->samples_all += s->count;
        if (s->module >= j->module_count) {
            lose(j, &index, ID_NONE, ID_NONE, s->count);
            continue;
        }
        struct join_module *m = &j->modules[s->module];
        m->samples += s->count;
        if (m->cfg && !put_to_block(j, m, s))
            lose(j, &index, s->module, cfg_func_at(m->cfg, s->vaddr), s->count);
    }
    name_refused(j, &index);
    map_fini(&index);
}

#define MOVED_SPREAD 0.05 /* how much otherwise moved code runs, as a fraction: bench/one-run */

/* Counters may have taken nothing, or twice what is thought (half of the samples that fell on them), and pages that
 * windows had copied likewise, which is half of what these took in the kernel. */
static void widen_for_one_run(struct prof_result *r, double counting_s, double windows_s)
{
    struct prof_interval *t = &r->actual_user_s;
    double more = hypot(isfinite(counting_s) ? counting_s : 0, MOVED_SPREAD * t->value);
    more = hypot(more, isfinite(windows_s) ? windows_s / 2 : 0);
    r->counting_user_s = counting_s;
    r->windows_system_s = windows_s;
    t->low = fmax(0, t->value - hypot(t->value - t->low, more));
    t->high = t->value + hypot(t->high - t->value, more);
}

void actual_whole(struct join *j)
{
    struct prof_result *r = j->r;
    const struct prof_input *in = j->in;
    r->actual_user_s = stats_centre(in->plain_user_s, in->plain_runs, in->guise_user_s, in->guise_runs);
    if (in->ran_once)
        widen_for_one_run(r, in->counting_s, in->windows_s);
    r->actual_system_s = stats_centre(in->plain_system_s, in->plain_system_s ? in->plain_runs : 0, NULL, 0);
    r->plain_runs = (uint32_t)in->plain_runs;
    r->samples = j->samples_all;
    r->samples_lost = in->samples_lost;
    double width = r->actual_user_s.high - r->actual_user_s.low;
    if (in->plain_runs > 1 && r->actual_user_s.value >= 0.1 && width > 0.3 * r->actual_user_s.value)
        prof_warn(r, PROF_WARN_NOISY_RUNS, "user time of the plain runs is known only between %.3g and %.3g s",
                  r->actual_user_s.low, r->actual_user_s.high);
    if (j->samples_all == 0) {
        if (in->plain_runs)
            prof_warn(r, PROF_WARN_NO_SAMPLES, "no samples: times of loops and procedures are unknown");
        return;
    }
    if (j->samples_all < 500)
        prof_warn(r, PROF_WARN_FEW_SAMPLES, "only %llu samples: times of loops and procedures are coarse",
                  (unsigned long long)j->samples_all);
    if (in->samples_lost * 20 > j->samples_all)
        prof_warn(r, PROF_WARN_SAMPLES_LOST, "%llu samples were lost, %llu kept", (unsigned long long)in->samples_lost,
                  (unsigned long long)j->samples_all);
    if (j->samples_unexpected * 50 > j->samples_all)
        prof_warn(r, PROF_WARN_RUNS_DIFFER, "%.0f %% of the samples fell on code that the counted run never executed",
                  100.0 * (double)j->samples_unexpected / (double)j->samples_all);
}

struct prof_interval actual_of(const struct join *j, uint64_t samples)
{
    if (j->samples_all == 0 || isnan(j->r->actual_user_s.value))
        return stats_unknown();
    return stats_product(stats_wilson_again(samples, j->samples_all), j->r->actual_user_s);
}
