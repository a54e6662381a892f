// SPDX-License-Identifier: Apache-2.0
// Allocates by operator new in each of its forms, by containers, and where an exception comes out of it.
#include <cstdio>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

struct node {
    node *next;
    char text[24];
};
struct alignas(64) line {
    char bytes[64];
};

static __attribute__((noinline)) node *grow(node *tail)
{
    node *n = new node;
    n->next = tail;
    return n;
}

static __attribute__((noinline)) unsigned refuse()
{
    try {
        volatile size_t much = size_t(1) << 60;
        return std::unique_ptr<char[]>(new char[much])[0];
    } catch (const std::bad_alloc &) {
        return 1;
    }
}

int main()
{
    node *list = nullptr;
    for (int i = 0; i < 100; i++)
        list = grow(list);
    std::vector<int> v;
    for (int i = 0; i < 1000; i++)
        v.push_back(i);
    std::map<int, std::string> m;
    for (int i = 0; i < 50; i++)
        m[i] = std::string(40, 'x');
    auto lines = std::make_unique<line[]>(4);
    auto bare = std::unique_ptr<int>(new (std::nothrow) int(3));
    unsigned refused = refuse();
    delete grow(nullptr);
    std::printf("%zu %zu %d %u\n", v.size(), m.size(), *bare, refused);
    for (; list; delete list, list = nullptr)
        lines[0].bytes[0] = list->text[0];
    return 0;
}
