/* SPDX-License-Identifier: Apache-2.0
 *
 * shapes: one program with the control flow that compilers make of C: loops, recursion, tail calls, switches as tables
 * and trees, computed goto, calls through pointers, callbacks from libc, red zones, flags and string instructions that
 * must survive. Every count is a closed form or kept by the program itself. With an argument it does a tenth of it.
 */
#include "here.h"
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

static uint32_t random_state = 1;
static uint32_t next_random(void) { return random_state = random_state * 1664525u + 1013904223u, random_state >> 16; }

static NOINLINE long triangle(long n)
{
    long s = 0;
    for (long i = 0; i < n; i++)
        for (long j = 0; j <= i; j++) {
            HERE(triangle);
            s += i ^ j;
        }
    return s;
}

static NOINLINE long search(const int *a, long n, int wanted)
{
    for (long i = 0; i < n; i++) {
        HERE(search);
        if (a[i] == wanted)
            return i;
    }
    return -1;
}

NOINLINE long fib(long n);
NOINLINE long fib(long n)
{
    HERE(fib);
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static NOINLINE int is_odd(long n);
static NOINLINE int is_even(long n)
{
    HERE(even);
    return n == 0 ? 1 : is_odd(n - 1);
}
static NOINLINE int is_odd(long n)
{
    HERE(odd);
    return n == 0 ? 0 : is_even(n - 1);
}

static unsigned long case_count[8];
static NOINLINE long dense(unsigned which, long x)
{
    switch (which) {
    case 0:
        HERE(case0);
        return x + 1;
    case 1:
        HERE(case1);
        return x * 3;
    case 2:
        HERE(case2);
        return x ^ 0x55;
    case 3:
        HERE(case3);
        x = x << 2; /* falls through */
    case 4:
        HERE(case4);
        return x - 7;
    case 5:
        HERE(case5);
        return x / 3;
    case 6:
        HERE(case6);
        return -x;
    default:
        HERE(case7);
        return x >> 1;
    }
}
static NOINLINE const char *sparse(int x)
{
    switch (x) {
    case -1000:
        HERE(sparse);
        return "a";
    case 3:
        HERE(sparse);
        return "b";
    case 70000:
        HERE(sparse);
        return "c";
    case 1 << 30:
        HERE(sparse);
        return "d";
    }
    return "none";
}

enum { OP_PUSH, OP_ADD, OP_LOOP, OP_DUP, OP_END };
static NOINLINE long interpret(const uint8_t *code, long turns)
{
    static const void *const go[] = {&&push, &&add, &&loop, &&dup, &&end};
    long stack[16], *top = stack;
    const uint8_t *pc = code;
    *top = 0;
    goto *go[*pc++];
push:
    HERE(op_push);
    *++top = *pc++;
    goto *go[*pc++];
add:
    HERE(op_add);
    top[-1] += top[0];
    top--;
    goto *go[*pc++];
dup:
    HERE(op_dup);
    top[1] = top[0];
    top++;
    goto *go[*pc++];
loop:
    HERE(op_loop);
    if (--turns > 0)
        pc = code;
    goto *go[*pc++];
end:
    return *top;
}

static NOINLINE long twice(long x)
{
    HERE(twice);
    return 2 * x;
}
static NOINLINE long plus(long x)
{
    HERE(plus);
    return x + 1;
}

static unsigned long compared;
static int compare(const void *a, const void *b)
{
    HERE(compare);
    compared++;
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static jmp_buf place;
static NOINLINE void jump_out(int depth)
{
    HERE(jump_out);
    if (depth == 0)
        longjmp(place, 1);
    jump_out(depth - 1);
}

/* Leaf code that keeps values below the stack pointer and carries across instructions. */
static NOINLINE uint64_t wide_sum(const uint64_t *a, long n)
{
    unsigned __int128 s = 0;
    for (long i = 0; i < n; i++) {
        HERE(wide);
        s += (unsigned __int128)a[i] * 0xfffffffffffffff1u;
    }
    return (uint64_t)s ^ (uint64_t)(s >> 64);
}
static NOINLINE uint64_t red_zone(uint64_t x)
{
    volatile uint64_t keep[8];
    for (int i = 0; i < 8; i++) {
        HERE(red_zone);
        keep[i] = x * (uint64_t)i;
    }
    return keep[1] ^ keep[3] ^ keep[7];
}
static NOINLINE void copy_bytes(char *to, const char *from, size_t n)
{
    HERE(copy);
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}
static NOINLINE double mean(const double *x, long n)
{
    double s = 0;
    for (long i = 0; i < n; i++) {
        HERE(mean);
        s += x[i] > 0.5 ? x[i] : -x[i];
    }
    return s / (double)n;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? 100 : 1000;
    (void)argv;
    printf("%ld\n", triangle(n / 3));
    expect("triangle", (unsigned long)(n / 3 * (n / 3 + 1) / 2));

    int numbers[1000];
    for (int i = 0; i < n; i++)
        numbers[i] = (int)next_random();
    unsigned long steps = 0;
    for (int i = 0; i < n; i += 7) {
        long at = search(numbers, n, numbers[i]);
        steps += (unsigned long)at + 1;
    }
    expect("search", steps);

    long calls[20] = {1, 1};
    for (int i = 2; i < 20; i++)
        calls[i] = 1 + calls[i - 1] + calls[i - 2];
    printf("%ld\n", fib(n / 100 + 5));
    expect("fib", (unsigned long)calls[n / 100 + 5]);
    printf("%d\n", is_even(n + 1));
    expect("even", (unsigned long)n / 2 + 1);
    expect("odd", (unsigned long)n / 2 + 1);

    long x = 1;
    for (int i = 0; i < 5 * n; i++) {
        unsigned which = next_random() % 11;
        case_count[which > 7 ? 7 : which]++;
        if (which == 3)
            case_count[4]++;
        x = dense(which, x) & 0xffffff;
    }
    printf("%ld\n", x);
    for (int i = 0; i < 8; i++) {
        char name[] = "case0";
        name[4] = (char)('0' + i);
        expect(name, case_count[i]);
    }
    static const int keys[] = {-1001, -1000, -999, 2, 3, 4, 69999, 70000, 70001, 1 << 30, (1 << 30) + 1};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        printf("%s ", sparse(keys[i]));
    printf("\n");
    expect("sparse", 4);

    static const uint8_t code[] = {OP_PUSH, 7, OP_DUP, OP_ADD, OP_ADD, OP_LOOP, OP_END};
    printf("%ld\n", interpret(code, n / 2));
    expect("op_push", (unsigned long)n / 2);
    expect("op_dup", (unsigned long)n / 2);
    expect("op_add", (unsigned long)n);
    expect("op_loop", (unsigned long)n / 2);

    static long (*const table[])(long) = {twice, plus, plus};
    long y = 1;
    for (int i = 0; i < 3 * n; i++)
        y = table[i % 3](y) & 0xffff;
    printf("%ld\n", y);
    expect("twice", (unsigned long)n);
    expect("plus", 2 * (unsigned long)n);

    qsort(numbers, (size_t)n, sizeof numbers[0], compare);
    printf("%d %d\n", numbers[0], numbers[n - 1]);
    expect("compare", compared);

    volatile int jumps = 0;
    if (setjmp(place))
        jumps++;
    if (jumps < 50)
        jump_out(9);
    expect("jump_out", 500);

    uint64_t words[64];
    for (int i = 0; i < 64; i++)
        words[i] = (uint64_t)next_random() << 48 | next_random();
    printf("%llx %llx\n", (unsigned long long)wide_sum(words, 64), (unsigned long long)red_zone(words[3]));
    expect("wide", 64);
    expect("red_zone", 8);

    char text[40];
    for (int i = 0; i < 10; i++)
        copy_bytes(text, "the quick brown fox jumps over it", 34);
    printf("%s %zu\n", text, strlen(text));
    expect("copy", 10);

    double reals[256];
    for (int i = 0; i < 256; i++)
        reals[i] = next_random() / 65536.0;
    printf("%.15g\n", mean(reals, 256));
    expect("mean", 256);
    return 42;
}
