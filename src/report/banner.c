/* SPDX-License-Identifier: Apache-2.0
 * What stands before everything else in a report: that the model of the processor is not to be relied on. */
#include "report/impl.h"

const char *banner_sentence(const struct prof_result *r, struct arena *a)
{
    if (!prof_model_failed(r))
        return NULL;
    return arena_printf(a,
                        "The model of the processor fails: off by %s in the median, %s for nine in ten kernels. No "
                        "loop is reported as significant by it alone, "
                        "only where replays measured most of its ideal time. Run mtool calibrate when less runs "
                        "on the machine; if that does not "
                        "help, send a tape of it (mtool calibrate --record FILE).",
                        figure_percent(a, r->machine.ideal_error_median),
                        figure_percent(a, r->machine.ideal_error_p90));
}

void banner_put(const struct prof_result *r, unsigned width, struct arena *a, struct strbuf *out)
{
    const char *sentence = banner_sentence(r, a);
    if (sentence)
        cell_put_wrapped(out, sentence, width, 2);
}
