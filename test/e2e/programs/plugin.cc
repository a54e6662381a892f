// SPDX-License-Identifier: Apache-2.0
//
// plugin: a shared object for plugins.c, with a constructor, a destructor, thread-local state, an exception inside, and
// a switch as a table. KIND makes two that differ in size and result.
#include "here.h"
#include <stdexcept>
#ifndef KIND
#define KIND 1
#endif

static thread_local long kept = KIND;
static int made;
struct Whole {
    Whole()
    {
        HERE(made);
        made = KIND;
    }
    ~Whole()
    {
        HERE(gone);
        made = 0;
    }
};
static Whole whole;
#if KIND == 2
volatile char room[3 << 12] = {1};
#endif

static __attribute__((noinline)) long pick(long x)
{
    switch (x) {
    case 0: return 17;
    case 1: return x * 3;
    case 2: return -x;
    case 3: return x << 4;
    case 4: return kept;
    case 5: throw std::runtime_error("five");
    case 6: return made;
    default: return x % 7;
    }
}

extern "C" long plugin_work(long n)
{
    long sum = 0;
    for (long i = 0; i <= n; i++) {
        HERE(turns);
        try {
            sum += pick(i);
        } catch (const std::exception &e) {
            sum += e.what()[0];
        }
        kept += i;
    }
    return sum * made;
}
