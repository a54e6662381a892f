/* SPDX-License-Identifier: Apache-2.0
 *
 * far: code in sections that the linker puts as far apart as it is told (--section-start=.far=ADDRESS): calls, jump
 * tables, pointers and unwinding between them.
 */
#include "here.h"
#include <stdlib.h>
#include <unwind.h>

#define FAR __attribute__((noinline, section(".far")))
#define NEAR __attribute__((noinline))

#ifndef NO_UNWIND /* without a header of unwind tables the last frame is not found, in copies it is */
#define UNWIND _Unwind_Backtrace(frame, NULL)
#else
#define UNWIND 0
#endif

__attribute__((unused)) static int frames;
__attribute__((unused)) static _Unwind_Reason_Code frame(struct _Unwind_Context *c, void *arg)
{
    (void)c, (void)arg;
    frames++;
    return _URC_NO_REASON;
}

static NEAR long near(long n);
static FAR long far(long n)
{
    HERE(far);
    switch (n % 8) {
    case 0:
        return n ? near(n - 1) + 1 : UNWIND;
    case 1:
        return near(n - 1) * 3;
    case 2:
        return near(n - 1) ^ 7;
    case 3:
        return near(n - 1) - n;
    case 4:
        return near(n - 1) + 11;
    case 5:
        return near(n / 2) | 1;
    case 6:
        return -near(n - 1);
    default:
        return near(n - 1);
    }
}

static NEAR long near(long n)
{
    HERE(near);
    switch (n % 7) {
    case 0:
        return n ? far(n - 1) : 5;
    case 1:
        return far(n - 1) + 2;
    case 2:
        return far(n - 1) * 5;
    case 3:
        return far(n - 1) & 0xffffff;
    case 4:
        return far(n - 1) - 9;
    case 5:
        return far(n - 1) ^ n;
    default:
        return far(n - 1) + 1;
    }
}

static FAR int compare(const void *a, const void *b)
{
    HERE(compare);
    return *(const int *)a - *(const int *)b;
}

int main(void)
{
    long s = 0, (*volatile through)(long) = far;
    int two[2] = {2, 1};
    for (long i = 0; i < 1000; i++)
        s = (s * 31 + through(i % 90)) & 0xffffffff;
    qsort(two, 2, sizeof two[0], compare);
    printf("%ld %d %d\n", s, two[0], frames);
    expect("compare", 1);
    return 0;
}
