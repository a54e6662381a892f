/* SPDX-License-Identifier: Apache-2.0
 *
 * gmon.out, version 1, as binutils' gprof reads it (gmon_out.h of the GNU C library): of one file the histogram of
 * program counters and the arcs of its calls. Addresses are those of the file, as gprof takes them from its symbols.
 * A histogram has bins of two bytes, which gprof shares out by function without a remainder, over the pages that were
 * sampled, one record each; a number that a field has no room for is told in several records, which gprof adds up.
 */
#include "report/export/export.h"

#include <math.h>

enum { TAG_HISTOGRAM, TAG_ARC };
enum { VERSION = 1, SPARE_BYTES = 12, DIMENSION_BYTES = 15, PAGE = 4096, BIN_BYTES = 2, BINS = PAGE / BIN_BYTES };
#define SAMPLES_MAX (1u << 28) /* at one place: three days at 1 kHz; more are of a damaged profile */

static void put_u8(struct strbuf *out, uint8_t v) { str_put(out, (const char *)&v, sizeof v); }
static void put_u16(struct strbuf *out, uint16_t v) { str_put(out, (const char *)&v, sizeof v); }
static void put_u32(struct strbuf *out, uint32_t v) { str_put(out, (const char *)&v, sizeof v); }
static void put_u64(struct strbuf *out, uint64_t v) { str_put(out, (const char *)&v, sizeof v); }

/* ---- samples ---- */

/* Samples a second, such that all of them together are the time on the processor. */
static uint32_t rate_of(const struct prof_result *r)
{
    double n = 0, s = r->actual_user_s.value;
    for (size_t i = 0; i < r->pc_sample_count; i++)
        n += (double)export_count(r->pc_samples[i].samples);
    double rate = round(n / s);
    return n > 0 && s > 0 && rate >= 1 && rate < INT32_MAX ? (uint32_t)rate : 1;
}

static uint64_t page_of(const struct prof_pc_sample *s) { return s->address & ~(uint64_t)(PAGE - 1); }

/* The end of the samples from i on that lie in one page. */
static size_t end_of_page(const struct prof_result *r, size_t i)
{
    size_t k = i + 1;
    while (k < r->pc_sample_count && r->pc_samples[k].module == r->pc_samples[i].module &&
           page_of(&r->pc_samples[k]) == page_of(&r->pc_samples[i]))
        k++;
    return k;
}

/* Takes what it tells out of the bins. True if something is left. */
static bool put_page(struct strbuf *out, uint64_t page, uint32_t rate, uint64_t bins[BINS])
{
    char dimension[DIMENSION_BYTES] = "seconds";
    bool any = false;
    put_u8(out, TAG_HISTOGRAM);
    put_u64(out, page);
    put_u64(out, page + PAGE);
    put_u32(out, BINS);
    put_u32(out, rate);
    str_put(out, dimension, sizeof dimension);
    put_u8(out, 's');
    for (size_t i = 0; i < BINS; i++) {
        uint64_t n = min_u64(bins[i], UINT16_MAX);
        put_u16(out, (uint16_t)n);
        bins[i] -= n;
        any |= bins[i] != 0;
    }
    return any;
}

/* gprof wants a histogram, be it empty. */
static void put_samples(struct strbuf *out, const struct prof_result *r, uint32_t module)
{
    uint32_t rate = rate_of(r);
    uint64_t bins[BINS] = {0};
    bool any = false;
    for (size_t i = 0, end; i < r->pc_sample_count; i = end) {
        end = end_of_page(r, i);
        if (r->pc_samples[i].module != module)
            continue;
        for (size_t k = i; k < end; k++)
            bins[r->pc_samples[k].address % PAGE / BIN_BYTES] +=
                min_u64(export_count(r->pc_samples[k].samples), SAMPLES_MAX);
        while (put_page(out, page_of(&r->pc_samples[i]), rate, bins))
            ;
        any = true;
    }
    if (!any)
        put_page(out, 0, rate, bins);
}

/* ---- calls ---- */

static void put_arc(struct strbuf *out, const struct prof_arc *a)
{
    for (uint64_t left = export_count(a->calls); left;) {
        uint32_t n = (uint32_t)min_u64(left, UINT32_MAX);
        put_u8(out, TAG_ARC);
        put_u64(out, a->from);
        put_u64(out, a->to);
        put_u32(out, n);
        left -= n;
    }
}

void export_gprof(const struct prof_result *r, const struct export_options *o, struct arena *a, struct strbuf *out)
{
    static const char spare[SPARE_BYTES];
    (void)a;
    str_puts(out, "gmon");
    put_u32(out, VERSION);
    str_put(out, spare, sizeof spare);
    put_samples(out, r, o->module);
    for (size_t i = 0; i < r->arc_count; i++)
        if (r->arcs[i].from_module == o->module && r->arcs[i].to_module == o->module)
            put_arc(out, &r->arcs[i]);
}
