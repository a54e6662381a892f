/* SPDX-License-Identifier: Apache-2.0
 * The described machine: its caches by src/cache, a TLB, a write buffer, and what each miss costs an in-order pipeline,
 * which waits for it. Most references end in a filter that holds exactly the line that was used last in its set: a hit
 * on that changes nothing in the cache. What devices do to memory is not seen.
 *
 * A clock runs beside: operations divided by the width, and stalls. */
#include "plugin/model.h"

#include <math.h>
#include <stdlib.h>

#include "machine/machine.h"

bool model_is_wanted;
struct machine *model_machine;
struct model model;

/* ---- made ---- */

static double latency_of(const char *name)
{
    for (size_t i = 0; i < model_machine->cache_count; i++)
        if (strcmp(model_machine->caches[i].name, name) == 0)
            return model_machine->caches[i].latency;
    return 0;
}

/* cache_of_machine keeps the caches' order, so that the i-th of these that is no TLB and no memory is levels[i]. */
static double latency_of_level(unsigned level)
{
    for (size_t i = 0, n = 0; i < model_machine->cache_count; i++) {
        const struct machine_cache *c = &model_machine->caches[i];
        if (c->kind != MACHINE_CACHE_TLB && strcmp(c->name, "memory") != 0 && n++ == level)
            return c->latency;
    }
    return latency_of("memory");
}

/* What it takes longer than a hit in the nearest data cache, if these levels missed. */
static uint32_t penalty_of(enum cache_side side, unsigned missed)
{
    double nearest = latency_of_level(0), found = 0;
    unsigned seen = 0;
    for (unsigned i = 0; i < model.config.count && found == 0; i++)
        if (model.config.levels[i].side & side && seen++ < 64 && !(missed >> i & 1))
            found = latency_of_level(i);
    if (!missed)
        return 0;
    if (found == 0)
        found = latency_of("memory");
    return (uint32_t)lround(fmax(found - nearest, 0));
}

static void make_penalties(void)
{
    static const enum cache_side sides[] = {CACHE_DATA, CACHE_CODE};
    for (unsigned k = 0; k < 2; k++) {
        int8_t depth = 0;
        for (unsigned i = 0; i < model.config.count; i++)
            model.column[k][i] = model.config.levels[i].side & sides[k] ? depth++ : -1;
        for (unsigned missed = 0; missed < 1u << model.config.count && missed < 1u << WIRE_LEVELS_MAX; missed++)
            model.penalty[k][missed] = penalty_of(sides[k], missed);
    }
    model.uncached = (uint32_t)lround(fmax(latency_of("memory") - latency_of_level(0), 0));
}

static void unmake(void)
{
    if (model.cache)
        cache_free(model.cache);
    if (model.tlb)
        cache_free(model.tlb);
    filter_free(&model.code);
    filter_free(&model.data);
    if (model_machine)
        machine_free(model_machine);
    model_machine = NULL;
    memset(&model, 0, sizeof model);
}

int model_make(void)
{
    unmake();
    if (machine_read(settings.machine, &model_machine) < 0 ||
        cache_of_machine(model_machine, false, &model.config) < 0 ||
        cache_of_machine(model_machine, true, &model.tlb_config) < 0)
        return -1;
    if (model.config.count > WIRE_LEVELS_MAX || !model.config.count)
        return diag_error("%s: %u caches; from 1 to %d can be simulated here", settings.machine, model.config.count,
                          WIRE_LEVELS_MAX);
    for (unsigned i = 0; i < model.config.count; i++) {
        model.config.levels[i].is_shared = false;
        model.config.levels[i].write_through = model_machine->write_buffer > 0;
        model.is_inclusive |= model.config.levels[i].inclusion == CACHE_INCLUSIVE;
    }
    model.cache = cache_new(&model.config, false);
    model.code = filter_of(&model.config, CACHE_CODE);
    model.data = filter_of(&model.config, CACHE_DATA);
    model.per_operation = 1 / fmax(model_machine->max_issue, 1);
    model.entries = (unsigned)fmin(fmax(model_machine->write_buffer, model_machine->store_queue), BUFFER_MAX);
    model.is_buffered = model_machine->write_buffer > 0;
    model.drain = model_machine->write_buffer > 0 ? model_machine->write_drain : model_machine->drain;
    model.drain_page = model_machine->write_page > 0 ? model_machine->write_page : model.drain;
    make_penalties();
    tlb_make();
    if (settings.maps && maps_make(&model.config) < 0)
        return -1;
    model_is_wanted = true;
    return 0;
}

/* ---- stalls ---- */

void model_stall(struct segment *s, enum wire_column cause, unsigned at, double cycles)
{
    static double rest; /* of fractions */
    rest += cycles;
    uint64_t whole = (uint64_t)rest;
    rest -= (double)whole;
    *(at < SPOT_SLOW ? &s->stalls[at][cause - WIRE_STALL_FETCH] : float_stall(s, at - SPOT_SLOW)) += whole;
    totals[s->is_kernel].stalls[cause - WIRE_STALL_FETCH] += whole;
    model.stalls += (double)whole;
}

/* ---- misses ---- */

bool model_leaves_out(bool is_kernel) { return is_kernel ? settings.user_only : settings.kernel_only; }

void model_count_misses(struct row *row, unsigned missed, unsigned side, enum wire_column first)
{
    for (unsigned i = 0; i < model.config.count; i++)
        if (missed >> i & 1 && model.column[side][i] >= 0)
            row->of[first + (unsigned)model.column[side][i]]++;
}

unsigned model_reach(uint64_t address, uint64_t bytes, enum cache_kind kind, struct filter *f)
{
    if (f->is_whole)
        return (unsigned)filter_reach(f, address, bytes) << f->level;
    struct cache_ref ref = {.address = address, .bytes = (uint16_t)bytes, .kind = (uint8_t)kind};
    unsigned missed = cache_reach(model.cache, &ref);
    bool dirty = kind == CACHE_WRITE || kind == CACHE_MODIFY;
    if (missed && model.is_inclusive) {
        filter_forget(&model.code);
        filter_forget(&model.data);
    }
    filter_used(f, address, bytes, dirty);
    return missed;
}

/* ---- written ---- */

void model_write(FILE *f)
{
    char name[8];
    struct strbuf caches = {0};
    if (!model_is_wanted)
        return;
    cache_format(&model.config, &caches);
    fprintf(f, "machine %s\ncaches %s\nlevels", model_machine->name, caches.data);
    for (unsigned i = 0; i < model.config.count; i++)
        fprintf(f, " %s:%d:%d", cache_level_name(&model.config, i, name), model.column[0][i], model.column[1][i]);
    for (unsigned i = 0; i < model.config.count; i++)
        if (model.config.levels[i].side & CACHE_CODE) {
            fprintf(f, "\ncode-cache %llu", (unsigned long long)model.config.levels[i].size_bytes);
            break;
        }
    for (unsigned i = 0; i < model.config.count; i++)
        if (model.config.levels[i].side & CACHE_DATA) {
            fprintf(f, "\ndata-cache %llu", (unsigned long long)model.config.levels[i].size_bytes);
            break;
        }
    fprintf(f, "\nwidth %g\nghz %g\n", model_machine->max_issue, model_machine->tsc_ghz);
    str_free(&caches);
}
