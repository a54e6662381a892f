/* SPDX-License-Identifier: Apache-2.0
 * The small shared object that the tests read, cut off and corrupt: symbols of each kind, packed relocations, a needed
 * library, a run path, unwind tables, and exception tables through the cleanup attribute (-fexceptions). */

typedef int (*callback)(int);

int fixture_call(callback fn, int n);
int fixture_walk(callback fn, int n);
extern const callback fixture_table[4];
extern int fixture_data[3];

int fixture_data[3] = {1, 2, 3};

static void undo(const int *p) { fixture_data[0] += *p; }

int fixture_call(callback fn, int n)
{
    __attribute__((cleanup(undo))) int kept = n;
    return fn(kept) + 1;
}

int fixture_walk(callback fn, int n)
{
    __attribute__((cleanup(undo))) int outer = n;
    int sum = 0;
    for (int i = 0; i < n; i++) {
        __attribute__((cleanup(undo))) int inner = i;
        sum += fn(inner) + fixture_call(fn, outer);
    }
    return sum;
}

static __attribute__((noinline)) int local_one(int n) { return n * 3; }
static __attribute__((noinline)) int local_two(int n) { return n - 7; }

const callback fixture_table[4] = {local_one, local_two, local_one, local_two};
