// SPDX-License-Identifier: Apache-2.0
//
// The caller of frames.f90: exceptions pass through Fortran's frames and are caught on the other side.
#include "here.h"
#include <stdexcept>

extern "C" void walk(void (*callback)(int), int n, int *total);
static int limit;
extern "C" void callback(int i)
{
    HERE(callback);
    if (i == limit)
        throw std::runtime_error("limit");
}

int main()
{
    int total = 0, caught = 0;
    unsigned long calls = 0;
    for (limit = 1; limit <= 40; limit++) {
        try {
            walk(callback, 30, &total);
            calls += 30;
        } catch (const std::exception &e) {
            HERE(caught);
            caught++;
            calls += static_cast<unsigned long>(limit);
        }
    }
    printf("%d %d\n", total, caught);
    expect("callback", calls);
    expect("caught", 30);
    return 0;
}
