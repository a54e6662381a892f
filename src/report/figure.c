/* SPDX-License-Identifier: Apache-2.0
 * Numbers as short text. What is unknown is "?", never 0. */
#include <math.h>

#include "report/impl.h"

static const char unknown[] = "?";

const char *figure_real(struct arena *a, double x, int decimals)
{
    if (!isfinite(x))
        return unknown;
    const char *s = arena_printf(a, "%.*f", decimals, x);
    return s[0] == '-' && strspn(s + 1, "0.") == strlen(s + 1) ? s + 1 : s; /* no "-0.00" */
}

int figure_decimals(double largest) { return !(largest >= 10) ? 3 : largest < 100 ? 2 : largest < 1000 ? 1 : 0; }

const char *figure_interval(struct arena *a, const struct prof_interval *i, int decimals)
{
    if (!isfinite(i->low) || !isfinite(i->high))
        return unknown;
    return arena_printf(a, "%s..%s", figure_real(a, i->low, decimals), figure_real(a, i->high, decimals));
}

/* From a hundred times on as a factor, so that a pointer chase and a bad estimate stay in their column. */
const char *figure_percent(struct arena *a, double fraction)
{
    double percent = 100 * fraction;
    if (!isfinite(percent))
        return unknown;
    if (fabs(fraction) >= 1e5)
        return arena_printf(a, "%.0ex", fraction);
    if (fabs(fraction) >= 100)
        return arena_printf(a, "%.0fx", fraction);
    return arena_printf(a, "%s%%", figure_real(a, percent, fabs(percent) < 9.95 && percent != 0 ? 1 : 0));
}

const char *figure_count(struct arena *a, uint64_t n)
{
    if (n == PROF_UNKNOWN)
        return unknown;
    char digits[24], out[32];
    size_t len = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), at = 0;
    for (size_t i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    return arena_strndup(a, out, at);
}
