/* SPDX-License-Identifier: Apache-2.0
 *
 * References of every kind whose addresses are known, between a write to `first` and one to `last`: others trace them
 * too. With an argument: the same by threads, and by a process that it forks.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

volatile long first, last;
static struct {
    uint64_t words[512];
    uint8_t from[300], to[300];
    double reals[64];
    long index[8];
} data __attribute__((aligned(64)));
static __thread long own[4];

static __attribute__((noinline)) uint64_t sum(const uint64_t *a, long n) { return n ? *a + sum(a + 1, n - 1) : 0; }

static __attribute__((noinline)) void copies(void)
{
    void *to = data.to, *from = data.from;
    long count = 37;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    count = 5;
    __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    count = 9;
    __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(7) : "memory");
    count = 0;
    __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(7) : "memory");
    to = data.to + 200, from = data.from + 200, count = 6;
    __asm__ volatile("std; rep movsw; cld" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    __asm__ volatile("movsb; lodsb; stosb" : "+D"(to), "+S"(from) : : "rax", "memory");
}

/* Flags and all registers are alive where it matters. */
static __attribute__((noinline)) long carries(void)
{
    long low = 0, high = 0;
    uint64_t *p = data.words;
    __asm__ volatile("clc\n1: adc %%rax, (%2)\n adc 8(%2), %0\n lea 16(%2), %2\n dec %1\n jnz 1b\n setc %b0"
                     : "+r"(high), "=&r"(low), "+r"(p)
                     : "1"(20L), "a"(-1L)
                     : "memory", "cc");
    return high;
}

static __attribute__((noinline)) double reals(void)
{
    double s = 0;
    for (int i = 0; i < 64; i++)
        s += data.reals[i] * 1.5 + (data.reals[i] = i);
    return s;
}

static __attribute__((noinline)) void odd(void)
{
    long *p = data.index, kept = 3;
    __asm__ volatile("push (%0)\n pop 8(%0)\n addq $1, 16(%0)\n notq 24(%0)\n test %%rax, 32(%0)\n"
                     "cmovz 40(%0), %%rax\n setz 48(%0)\n neg %%rax\n lea 56(%0), %%rdx\n mov %%rax, (%%rdx)\n"
                     "movdqu (%0), %%xmm0\n movups %%xmm0, 32(%0)\n movzbl 3(%0), %%eax\n"
                     "fldt (%0)\n fstpt 16(%0)\n sub $128, %%rsp\n call 1f\n jmp 2f\n1: ret $0\n2: add $128, %%rsp"
                     :
                     : "r"(p), "a"(kept)
                     : "rdx", "xmm0", "memory", "cc");
    for (int i = 0; i < 4; i++)
        own[i] += i;
}

static __attribute__((noinline)) long compare(void)
{
    void *to = data.to, *from = data.from;
    long count = 20;
    __asm__ volatile("repe cmpsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory", "cc");
    __asm__ volatile("repne scasb" : "+D"(to), "+c"(count) : "a"(77) : "memory", "cc");
    to = data.to + 200, from = data.from + 200, count = 10;
    __asm__ volatile("std; repe cmpsw; cld" : "+D"(to), "+S"(from), "+c"(count) : : "memory", "cc");
    return count;
}

/* Another word than the operand's; and an instruction whose places are not told. */
static __attribute__((noinline)) long others(void)
{
    long bit = 100;
    __asm__ volatile("bts %0, %1" : "+r"(bit), "+m"(data.index[1]) : : "memory", "cc");
    __asm__ volatile("sub $128, %%rsp\n enter $16, $0\n leave\n add $128, %%rsp" : : : "memory", "cc");
    return bit;
}

static uint64_t work(void)
{
    copies();
    odd();
    compare();
    return sum(data.words, 30) + (uint64_t)carries() + (uint64_t)reals() + (uint64_t)own[3];
}

static void *thread(void *arg)
{
    uint64_t s = 0;
    for (int i = 0; i < 2000; i++)
        s += sum(data.words, 200) + (uint64_t)(own[1] += i);
    *(uint64_t *)arg = s;
    return NULL;
}

static void by_threads(void)
{
    pthread_t t[4];
    uint64_t s[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, thread, &s[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    pid_t child = fork();
    if (!child) {
        thread(&s[0]);
        _exit(3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("%d %d\n", s[0] == s[3], WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    (void)argv;
    for (int i = 0; i < 512; i++)
        data.words[i] = (uint64_t)i * 0x123456789abcdefu;
    first = 1;
    uint64_t s = work();
    last = 1;
    s += (uint64_t)others();
    printf("%llx\n", (unsigned long long)s);
    if (argc > 1)
        by_threads();
    return 5;
}
