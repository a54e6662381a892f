// SPDX-License-Identifier: Apache-2.0
//
// parallel_std [THREADS]: std::thread, std::async, thread_local, and exceptions that cross threads; with -fopenmp a
// parallel loop, a reduction and tasks too.
#include "here.h"
#include <atomic>
#include <cstdlib>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

static thread_local unsigned long mine;

static __attribute__((noinline)) void step(unsigned long i)
{
    HERE(step);
    mine += i;
    if (i % 100 == 99)
        throw std::runtime_error("a hundred");
}

static unsigned long work(unsigned long turns)
{
    unsigned long caught = 0;
    for (unsigned long i = 0; i < turns; i++) {
        try {
            step(i);
        } catch (const std::runtime_error &) {
            HERE(caught);
            caught++;
        }
    }
    return caught;
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 4;
    std::atomic<unsigned long> caught{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < n; t++)
        threads.emplace_back([&] { caught += work(20000); });
    auto later = std::async(std::launch::async, work, 20000ul);
    for (auto &t : threads)
        t.join();
    caught += later.get();
    unsigned long all = n + 1;
#ifdef _OPENMP
    unsigned long sum = 0;
#pragma omp parallel for num_threads(4) reduction(+ : sum) schedule(dynamic, 16)
    for (int i = 0; i < 2000; i++) {
        HERE(omp_for);
        sum += static_cast<unsigned long>(i);
    }
#pragma omp parallel num_threads(4)
#pragma omp single
    for (int i = 0; i < 500; i++) {
#pragma omp task
        HERE(omp_task);
    }
    expect("omp_for", 2000);
    expect("omp_task", 500);
    std::printf("%lu\n", sum);
#endif
    expect("step", all * 20000);
    expect("caught", caught);
    std::printf("%lu %lu\n", static_cast<unsigned long>(caught), all * 200);
    return 0;
}
