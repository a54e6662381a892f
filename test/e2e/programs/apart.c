/* SPDX-License-Identifier: Apache-2.0
 *
 * apart: two threads at the same time, each with an array of its own that it reads, writes and moves, and one table
 * that both read some time after the first thread has filled it, which is in the past then for whoever orders their
 * references by time. Before, each reads as much of something else as any of its caches hold: whoever makes a thread
 * writes into its stack at some time, and a line taken away then is a way that stands empty later. So what each misses
 * in caches of its own that forget the least recently used is the same in any order.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OWN = 6000, TABLE = 3000, ROUNDS = 30, MOVED = 700, STEP = 5, OTHER = 1 << 18, LINE = 64 };

static _Alignas(4096) volatile uint32_t left[OWN], right[OWN], table[TABLE];
static const volatile char other[OTHER] = {1};

static void *work(void *array)
{
    volatile uint32_t *own = array;
    uint32_t sum = 0;
    usleep(50000);
    for (uint32_t i = 0; i < OTHER; i += LINE)
        sum += (uint32_t)other[i];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < OWN; i++)
            own[i] += table[(i * 7 + round) % TABLE];
        for (uint32_t i = round; i < OWN; i += STEP)
            sum += own[i] ^ own[(i * 17) % OWN];
        memmove((char *)array + round, (char *)array + 4 * (OWN - MOVED) - 1, MOVED);
    }
    own[0] = sum;
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (uint32_t i = 0; i < TABLE; i++)
        table[i] = i * i;
    if (pthread_create(&threads[0], NULL, work, (void *)left) != 0 ||
        pthread_create(&threads[1], NULL, work, (void *)right) != 0)
        return 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("%u %u\n", left[0], right[0]);
    return 0;
}
