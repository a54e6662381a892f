/* SPDX-License-Identifier: Apache-2.0
 * Long operations in an in-order pipeline: an instruction waits until its operands are there and its unit is free, by
 * the latencies and units of the machine's description. Only vector and floating-point instructions, multiplications
 * and divisions are looked at; an integer instruction that uses a product waits for it too if it is in the same
 * segment. */
#include "plugin/model.h"

#include <math.h>
#include <stdlib.h>

#include "machine/machine.h"

enum { READS_MAX = 4, UNITS_MAX = 32 };

struct slow {
    uint8_t reads[READS_MAX], writes; /* X86_REG_* */
    uint8_t unit;                     /* UNITS_MAX: none */
    uint16_t operation, at;           /* `at`: bytes behind the segment's begin */
    float latency, issue;
    uint64_t stall;
};

static double ready[256]; /* by register: when it can be used */
static double unit_free[UNITS_MAX];

static uint8_t tracked(uint8_t reg) { return reg < X86_REG_COUNT ? reg : X86_REG_NONE; }

void float_describe(struct segment *s, const uint8_t *bytes, size_t len, unsigned operation)
{
    struct x86_detail d;
    enum machine_match how;
    if (!x86_decode_detail(bytes, len, 0, &d))
        return;
    const struct machine_class *c = machine_class_of(model_machine, &d, &how);
    struct slow w = {.writes = X86_REG_NONE, .unit = UNITS_MAX, .operation = (uint16_t)operation, .latency = 1};
    w.at = s->last_at;
    memset(w.reads, X86_REG_NONE, sizeof w.reads);
    for (unsigned i = 0; i < d.read_count && i < READS_MAX; i++)
        w.reads[i] = tracked(d.reads[i]);
    for (unsigned i = 0; i < d.write_count; i++)
        if (d.writes[i] < X86_REG_FLAGS_C || d.writes[i] == X86_REG_X87)
            w.writes = d.writes[i];
    if (c) {
        w.latency = (float)c->latency;
        if (c->use_count && c->uses[0].ports) {
            w.unit = (uint8_t)__builtin_ctz(c->uses[0].ports);
            w.issue = (float)c->uses[0].issue;
        }
    }
    s->slow = xrealloc(s->slow, (s->slow_count + 1) * sizeof *s->slow);
    s->slow[s->slow_count++] = w;
}

uint64_t *float_stall(const struct segment *s, unsigned i) { return &s->slow[i].stall; }
uint64_t float_address(const struct segment *s, unsigned i) { return s->in_file + s->slow[i].at; }

/* The whole is of the one that waits longest. */
void float_run(struct segment *s, double now)
{
    unsigned longest = 0;
    double most = 0, waited = 0;
    for (unsigned i = 0; i < s->slow_count; i++) {
        const struct slow *w = &s->slow[i];
        double at = now + w->operation * model.per_operation + waited, start = at;
        for (unsigned k = 0; k < READS_MAX; k++)
            if (w->reads[k] != X86_REG_NONE)
                start = later(start, ready[w->reads[k]]);
        if (w->unit < UNITS_MAX && w->issue > 1) {
            start = later(start, unit_free[w->unit]);
            unit_free[w->unit] = start + w->issue;
        }
        if (w->writes != X86_REG_NONE)
            ready[w->writes] = start + w->latency;
        waited += start - at;
        if (start - at > most) {
            most = start - at;
            longest = i;
        }
    }
    if (waited >= 0.5)
        model_stall(s, WIRE_STALL_FLOAT, SPOT_SLOW + longest, waited);
}
