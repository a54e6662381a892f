/* SPDX-License-Identifier: Apache-2.0
 * Loops that wait for another thread (names begin with wait_) and loops that do not (work_), read by test_threads.c and
 * never run. */
#include <stddef.h>
#include <stdint.h>

struct node {
    struct node *next;
    int key;
};
extern volatile int flag;
volatile int flag;
int lock_word;
uint8_t lock_byte;
uint64_t counter;

void wait_flag(void)
{
    while (!flag)
        ;
}

void wait_argument(const volatile int *at, int value)
{
    while (*at == value)
        ;
}

void wait_pause(int tries)
{
    while (!__atomic_load_n(&lock_word, __ATOMIC_ACQUIRE) && tries-- > 0)
        __builtin_ia32_pause();
}

void wait_test_and_set(void)
{
    while (__atomic_test_and_set(&lock_byte, __ATOMIC_ACQUIRE))
        ;
}

void wait_compare_and_swap(void)
{
    int none = 0;
    while (!__atomic_compare_exchange_n(&lock_word, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        none = 0;
}

void wait_test_then_set(void)
{
    while (__atomic_exchange_n(&lock_word, 1, __ATOMIC_ACQUIRE))
        while (__atomic_load_n(&lock_word, __ATOMIC_RELAXED))
            ;
}

size_t work_length(const char *s)
{
    const char *at = s;
    while (*at)
        at++;
    return (size_t)(at - s);
}

const struct node *work_list(const struct node *n, int key)
{
    while (n->key != key)
        n = n->next;
    return n;
}

uint64_t work_sum(const volatile uint64_t *at, uint64_t n)
{
    uint64_t sum = 0;
    while (n--)
        sum += *at;
    return sum;
}

void work_add(uint64_t n)
{
    while (n--)
        __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
}

uint64_t work_swap(uint64_t by)
{
    uint64_t old = counter;
    while (!__atomic_compare_exchange_n(&counter, &old, old * by + 1, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return old;
}

void work_fill(volatile int *at, const volatile int *until)
{
    while (*until)
        *at = 1;
}

uint64_t work_count(uint64_t x)
{
    uint64_t n = 0;
    for (; x != 1; n++)
        x = x & 1 ? 3 * x + 1 : x / 2;
    return n;
}

int main(int argc, char **argv) { return argc > 5 ? (int)work_length(argv[0]) : 0; }
