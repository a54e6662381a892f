/* SPDX-License-Identifier: Apache-2.0
 *
 * handover: C++ threads that wait for each other in known places: consumer() waits on a condition variable until
 * producer() has made something, and contend() for a mutex that is nearly always held.
 */
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <thread>

static std::mutex mutex, made_mutex;
static std::condition_variable made_some;
static int made;
static volatile uint64_t sum;

static void work(double seconds) // of processor time
{
    auto now = [] {
        timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    };
    for (double end = now() + seconds; now() < end;)
        for (uint64_t i = 0; i < 10000; i++)
            sum = sum + i;
}

__attribute__((noinline)) static void producer()
{
    for (int i = 0; i < 10; i++) {
        work(0.02);
        std::lock_guard<std::mutex> hold(made_mutex);
        made++;
        made_some.notify_one();
    }
}

__attribute__((noinline)) static void consumer()
{
    for (int i = 1; i <= 10; i++) {
        std::unique_lock<std::mutex> hold(made_mutex);
        made_some.wait(hold, [i] { return made >= i; });
    }
}

__attribute__((noinline)) static void contend()
{
    for (int i = 0; i < 20; i++) {
        std::lock_guard<std::mutex> hold(mutex);
        work(0.01);
    }
}

int main()
{
    std::thread a(producer), b(consumer);
    a.join();
    b.join();
    std::thread c(contend), d(contend);
    c.join();
    d.join();
    std::printf("%d\n", made);
}
