// SPDX-License-Identifier: Apache-2.0
//
// thrown: exceptions for the single-stepper: through several frames with and without something to destroy, out of the
// middle of a loop and caught in it, rethrown to an outer handler, replaced by another in a handler, stored and thrown
// again later, and out of libstdc++ itself. A throw is 20,000 instructions, which the single-stepper takes 0.2 s for:
// few of each.
#include "here.h"
#include <exception>
#include <new>

struct Guard {
    int *count;
    explicit Guard(int *c) : count(c) {}
    ~Guard() { ++*count; }
};
struct Base {
    int value;
    virtual ~Base() = default;
};
struct Derived : Base {};
static int destroyed, caught[6];

static __attribute__((noinline)) int leaf(int n, int kind)
{
    HERE(leaf);
    if (n % 3 == 0)
        return n;
    if (kind == 0)
        throw n;
    Derived d;
    d.value = n;
    throw d;
}

// The middle frames: one that destroys, one that has nothing to do, one that looks and lets pass.
static __attribute__((noinline)) int destroying(int n, int kind)
{
    Guard guard(&destroyed);
    return leaf(n, kind) + 1;
}
static __attribute__((noinline)) int bare(int n, int kind) { return destroying(n, kind) * 2 + 1; }
static __attribute__((noinline)) int looking(int n, int kind)
{
    try {
        return bare(n, kind);
    } catch (const char *) {
        return -1; // never
    }
}

static __attribute__((noinline)) int in_a_loop(int turns, int kind)
{
    int sum = 0;
    for (int i = 0; i < turns; i++) {
        try {
            sum += looking(i, kind);
            HERE(whole);
        } catch (int n) {
            HERE(number);
            caught[0]++;
            sum += n;
            if (n % 5 == 0)
                continue;
        } catch (const Base &b) {
            HERE(object);
            caught[1]++;
            if (b.value > 9)
                break;
        }
        sum ^= i;
    }
    return sum;
}

static __attribute__((noinline)) int rethrown(int n)
{
    try {
        try {
            return looking(n, n & 1);
        } catch (int x) {
            HERE(again);
            caught[2]++;
            if (x % 2)
                throw;
            throw static_cast<long>(x); // another in its place
        }
    } catch (long) {
        caught[3]++;
        return 1;
    } catch (...) {
        HERE(outer);
        return 2;
    }
}

static __attribute__((noinline)) int stored(int n)
{
    std::exception_ptr kept;
    try {
        looking(n, 1);
    } catch (...) {
        kept = std::current_exception();
    }
    try {
        if (kept)
            std::rethrow_exception(kept);
    } catch (Derived &d) {
        caught[4] += d.value;
    }
    return kept ? 1 : 0;
}

static __attribute__((noinline)) bool too_much() noexcept
{
    try {
        operator delete(operator new(~0ul >> 1));
        return true;
    } catch (const std::bad_alloc &) {
        caught[5]++;
        return false;
    }
}

int main()
{
    int sum = in_a_loop(14, 0) + in_a_loop(14, 1), kept = 0;
    for (int i = 0; i < 6; i++) {
        sum += rethrown(i);
        kept += stored(i);
        sum += too_much();
    }
    printf("%d %d %d: %d %d %d %d %d %d\n", sum, kept, destroyed, caught[0], caught[1], caught[2], caught[3], caught[4], caught[5]);
    expect("whole", 5 + 4);
    expect("number", static_cast<unsigned long>(caught[0]));
    expect("object", static_cast<unsigned long>(caught[1]));
    expect("again", static_cast<unsigned long>(caught[2]));
    expect("leaf", static_cast<unsigned long>(destroyed));
    return 0;
}
