/* SPDX-License-Identifier: Apache-2.0
 *
 * peculiar: what compilers and people do rarely: functions made on the stack, code that looks at its return address and
 * at constants among code, flags and registers passed as no ABI says, code without any unwind table, stacks switched by
 * hand, returns by push and jump. The hand-written part is peculiar.S.
 */
#include "here.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

/* peculiar.S */
long bare_loop(long n, long (*f)(long));                /* no unwind table; calls back */
long bare_table(unsigned long which);                   /* no unwind table, a jump table among code */
long carry_add(uint64_t *a, const uint64_t *b, long n); /* local calls that pass and return flags */
long zero_count(const char *s, long n);                 /* a local function that returns ZF */
long inline_text(char *out);                            /* a call followed by text that the callee reads and skips */
long pushed_return(long x);                             /* leaves by push and ret */
long skipping_return(void);
long other_stack(long (*f)(long), long x, void *top);
long odd_registers(long x); /* a local function that takes and returns in odd registers */
long local_gotos(long x);   /* calls and jumps to labels of other functions */

static NOINLINE long triple(long x)
{
    HERE(triple);
    return 3 * x + 1;
}

static NOINLINE long apply(long (*f)(long), long n)
{
    long s = 0;
    for (long i = 0; i < n; i++)
        s += f(i);
    return s;
}

#ifndef __clang__
static NOINLINE long nested(long k)
{
    long calls = 0;
    long inner(long x)
    {
        HERE(inner);
        calls++;
        return x * k;
    }
    long s = apply(inner, 100); /* the address of a nested function: code on the stack */
    return s + calls;
}
#endif

static void *seen[3];
static NOINLINE void *caller(void) { return __builtin_return_address(0); }
static NOINLINE int addresses(void)
{
    for (volatile int i = 0; i < 3; i++)
        seen[i] = caller(); /* one place: always the same */
    void *other = caller();
    return seen[0] == seen[1] && seen[1] == seen[2] && other != seen[0];
}

int main(void)
{
    printf("%ld\n", apply(triple, 10));
#ifndef __clang__
    printf("%ld\n", nested(7));
    expect("inner", 100);
#endif
    printf("%ld %ld\n", bare_loop(20, triple), bare_loop(3, labs));
    for (unsigned long i = 0; i < 5; i++)
        printf("%ld ", bare_table(i));
    uint64_t a[4] = {UINT64_MAX, UINT64_MAX, 5, UINT64_MAX}, b[4] = {1, 0, UINT64_MAX - 5, 0};
    long carry = carry_add(a, b, 4);
    printf("\n%ld %llx %llx %llx %llx\n", carry, (unsigned long long)a[0], (unsigned long long)a[1],
           (unsigned long long)a[2], (unsigned long long)a[3]);
    printf("%ld\n", zero_count("a\0b\0\0c\0dd", 9));
    char text[32] = "";
    long len = inline_text(text);
    printf("%ld %s\n", len, text);
    printf("%ld %ld %ld\n", pushed_return(5), odd_registers(11), local_gotos(4));
    printf("%ld\n", skipping_return());
    char *stack = malloc(1 << 16);
    printf("%ld\n", other_stack(triple, 100, stack + (1 << 16)));
    free(stack);
    printf("%s\n", addresses() ? "as ever" : "strange");
    expect("triple", 10 + 20 + 1);
    return 0;
}
