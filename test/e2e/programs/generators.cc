// SPDX-License-Identifier: Apache-2.0
//
// generators: coroutines of C++20, with a switch inside, left by return, by an exception and by being destroyed
// half-way.
#include "here.h"
#include <coroutine>
#include <exception>
#include <stdexcept>

static unsigned long ended;
struct Guard {
    ~Guard()
    {
        HERE(ended);
        ended++;
    }
};

struct Generator {
    struct promise_type {
        long value = 0;
        std::exception_ptr error;
        Generator get_return_object() { return Generator{std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(long v)
        {
            value = v;
            return {};
        }
        void return_void() {}
        void unhandled_exception() { error = std::current_exception(); }
    };
    std::coroutine_handle<promise_type> handle;
    explicit Generator(std::coroutine_handle<promise_type> h) : handle(h) {}
    Generator(const Generator &) = delete;
    ~Generator() { handle.destroy(); }
    bool next()
    {
        handle.resume();
        if (handle.promise().error)
            std::rethrow_exception(handle.promise().error);
        return !handle.done();
    }
};

static Generator numbers(int n)
{
    Guard guard;
    for (int i = 0; i < n; i++) {
        HERE(resumed);
        switch (i % 6) {
        case 0: co_yield i; break;
        case 1: co_yield i * 2; break;
        case 2: co_yield -i; break;
        case 3:
            if (i > 50)
                throw std::runtime_error("far");
            co_yield 3;
            break;
        case 4: co_yield i ^ 5; break;
        default: co_yield 0;
        }
    }
}

int main()
{
    long sum = 0;
    for (Generator g = numbers(40); g.next();)
        sum += g.handle.promise().value;
    try {
        for (Generator g = numbers(100); g.next();)
            sum += g.handle.promise().value;
    } catch (const std::exception &e) {
        HERE(caught);
        printf("%s\n", e.what());
    }
    {
        Generator g = numbers(10);
        g.next();
        g.next();
    }
    printf("%ld\n", sum);
    expect("resumed", 40 + 52 + 2);
    expect("caught", 1);
    expect("ended", 3);
    return 0;
}
