// SPDX-License-Identifier: Apache-2.0
// A seed of objects: a table of jumps, exceptions, a group, thread-local storage, calls through pointers, debug lines.
extern "C" int elsewhere(int x);
thread_local int mine;
static int (*table[2])(int) = {elsewhere, nullptr};
template <class T> T larger(T a, T b) { return a < b ? b : a; }
struct guard {
    int *p;
    ~guard() { ++*p; }
};
int pick(int x)
{
    guard g{&mine};
#ifdef __cpp_exceptions
    try {
#else
    {
#endif
        switch (x) {
        case 0: return elsewhere(x);
        case 1: return larger(x, mine);
        case 2: return table[x & 1](x);
#ifdef __cpp_exceptions
        case 3: throw x;
#endif
        case 4: return x * 5;
        case 5: return larger(x, 7) - 3;
        }
    }
#ifdef __cpp_exceptions
    catch (int thrown) {
        mine += thrown;
    }
#endif
    for (int i = 0; i < x; i++)
        mine ^= elsewhere(i);
    return mine;
}
