// SPDX-License-Identifier: Apache-2.0
//
// parallel_plugin: opened by threads of parallel.c. Runs code of its own while it is being relocated (the function that
// chooses another) and before main would, on whatever thread opens it.
#include <cstddef>
#include <numeric>
#include <vector>

extern "C" {
static long sum_plain(long n)
{
    std::vector<long> v(static_cast<std::size_t>(n));
    std::iota(v.begin(), v.end(), 1L);
    return std::accumulate(v.begin(), v.end(), 0L);
}
static int count_features(int from)
{
    int n = 0;
    for (int i = from; i < 100; i++)
        n += i % 7 == 3;
    return n;
}
static long (*choose())(long) { return count_features(3) ? sum_plain : nullptr; }
long sum_chosen(long n) __attribute__((ifunc("choose")));
long plugin_sum(long n) { return sum_chosen(n); }
}
static const std::vector<long> early(100, sum_plain(10));
