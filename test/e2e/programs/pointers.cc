/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls through pointers whose targets are drawn at random: of a table of functions 70 in 100 calls of
 * `by_table` go to `often` and 30 to `seldom`, of `by_turned` 40 and 60; of virtual functions 80 to that of Often and
 * 20 to that of Seldom. */
#include <cstdint>
#include <cstdio>

using step = uint64_t (*)(uint64_t);

__attribute__((noinline)) static uint64_t often(uint64_t v) { return v * 6364136223846793005u + 1442695040888963407u; }
__attribute__((noinline)) static uint64_t seldom(uint64_t v) { return v * 2862933555777941757u + 3037000493u; }
static step volatile steps[] = {often, seldom};

struct Base {
    virtual uint64_t next(uint64_t v) = 0;
    virtual ~Base() = default;
};
struct Often : Base {
    uint64_t next(uint64_t v) override { return v * 3202034522624059733u + 1; }
};
struct Seldom : Base {
    uint64_t next(uint64_t v) override { return v * 3935559000370003845u + 2691343689449507681u; }
};

static bool is_drawn(uint64_t v, unsigned in_hundred) { return (v >> 33) % 100 < in_hundred; }

__attribute__((noinline)) static uint64_t by_table(uint64_t v, int turns)
{
    for (int k = 0; k < turns; k++)
        v = steps[is_drawn(v, 30)](v) ^ v >> 29;
    return v;
}

__attribute__((noinline)) static uint64_t by_turned(uint64_t v, int turns)
{
    for (int k = 0; k < turns; k++)
        v = steps[is_drawn(v, 60)](v) ^ v >> 27;
    return v;
}

__attribute__((noinline)) static uint64_t by_class(Base *const volatile *of, uint64_t v, int turns)
{
    for (int k = 0; k < turns; k++)
        v = of[is_drawn(v, 20)]->next(v) ^ v >> 31;
    return v;
}

int main()
{
    Often o;
    Seldom s;
    Base *const volatile of[] = {&o, &s};
    uint64_t v = 1;
    for (int k = 0; k < 100; k++)
        v = by_class(of, by_turned(by_table(v, 300000), 300000), 300000);
    std::printf("%llu\n", (unsigned long long)v);
}
