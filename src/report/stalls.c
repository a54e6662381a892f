/* SPDX-License-Identifier: Apache-2.0
 * What a described machine waited for, by cause: rows of the result's stalls, found by mode and object. */
#include <math.h>

#include "report/impl.h"

static const struct {
    const char *cause, *word;
} causes[STALL_CAUSES] = {{"read_instruction", "instruction fetch"},
                          {"read_data", "data read"},
                          {"uncached", "uncached read"},
                          {"write", "write buffer"},
                          {"float", "floating point"},
                          {"tlb", "TLB"},
                          {"idle", "nothing to do"}};

const char *stall_word(unsigned cause) { return causes[cause].word; }

double stall_seconds(const struct prof_result *r, uint32_t object, const char *mode, unsigned cause)
{
    double sum = NAN;
    for (size_t i = 0; i < r->stall_count; i++) {
        const struct prof_stall *s = &r->stalls[i];
        if (s->object == object && s->cause && !strcmp(s->cause, causes[cause].cause) &&
            (!mode || (s->mode && !strcmp(s->mode, mode))))
            sum = prof_sum(sum, s->stall_s);
    }
    return sum;
}
