// SPDX-License-Identifier: Apache-2.0
//
// unwind: C++ exceptions through frames with destructors, through recursion, through qsort of libc, rethrown, caught by
// a base class, and thrown in a constructor; with containers and streams around them.
#include "here.h"
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

static unsigned long destroyed;
struct Guard {
    ~Guard()
    {
        HERE(destroyed);
        destroyed++;
    }
};
struct Special : std::runtime_error {
    explicit Special(int n) : std::runtime_error("special " + std::to_string(n)) {}
};
struct Fragile {
    Guard guard;
    explicit Fragile(int n)
    {
        if (n % 2)
            throw n;
    }
};

static __attribute__((noinline)) int deep(int n)
{
    Guard g;
    HERE(deep);
    if (n == 0)
        throw Special(n);
    return deep(n - 1) + 1;
}

static int compare(const void *a, const void *b)
{
    if (*static_cast<const int *>(a) == 77 || *static_cast<const int *>(b) == 77)
        throw std::logic_error("77");
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

int main()
{
    int caught = 0;
    for (int i = 0; i < 100; i++) {
        try {
            deep(i % 10);
        } catch (const std::exception &e) {
            HERE(caught);
            caught++;
        }
    }
    expect("deep", 550);
    expect("caught", 100);

    for (int i = 0; i < 40; i++) {
        try {
            try {
                Fragile f(i);
                HERE(whole);
            } catch (int) {
                HERE(rethrown);
                throw;
            }
        } catch (...) {
            caught++;
        }
    }
    expect("whole", 20);
    expect("rethrown", 20);

    std::vector<int> v;
    for (int i = 0; i < 200; i++)
        v.push_back((i * 7919) % 199);
    try {
        qsort(v.data(), v.size(), sizeof(int), compare);
    } catch (const std::logic_error &e) {
        HERE(through_c);
        std::cout << e.what() << '\n';
    }
    expect("through_c", 1);
    try {
        std::vector<int>().at(3);
    } catch (const std::out_of_range &) {
        caught++;
    }

    std::map<std::string, std::unique_ptr<Guard>> map;
    for (int i = 0; i < 300; i++)
        map[std::to_string(i % 100)] = std::make_unique<Guard>();
    map.clear();
    std::sort(v.begin(), v.end(), [](int a, int b) { return a > b; });
    std::cout << v.front() << ' ' << v.back() << ' ' << caught << std::endl;
    expect("destroyed", destroyed);
    fflush(stdout);
    return 7;
}
