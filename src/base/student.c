/* SPDX-License-Identifier: Apache-2.0
 * Student's t, both sides 95 %: for intervals of few values. */
#include "base/base.h"

double student_t(size_t freedom)
{
    static const double t[] = {0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
    return freedom < ARRAY_LEN(t) ? t[freedom] : NORMAL_T + 2.6 / (double)freedom;
}
