/* SPDX-License-Identifier: Apache-2.0
 *
 * sleeping BLOCKS: a thread allocates BLOCKS blocks and then sleeps nearly to the end; the other one walks through
 * memory for a while, gives the blocks back, allocates as many of its own, and walks on. Prints one value.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORDS = 1 << 18, TIMES = 40, BYTES = 40 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char **blocks;
static int count, is_made, is_over;
static unsigned words[WORDS];

static __attribute__((noinline)) char *made_by_worker(int k)
{
    char *block = malloc(BYTES);
    block[0] = (char)k;
    return block;
}

static void *work(void *unused)
{
    pthread_mutex_lock(&mutex);
    for (int k = 0; k < count; k++)
        blocks[k] = made_by_worker(k);
    is_made = 1;
    pthread_cond_broadcast(&changed);
    while (!is_over)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static __attribute__((noinline)) unsigned walk(void)
{
    unsigned sum = 0;
    for (int t = 0; t < TIMES; t++)
        for (unsigned k = 0; k < WORDS; k++)
            sum += words[(k * 1237u) % WORDS]++;
    return sum;
}

static __attribute__((noinline)) char *made_by_main(int k)
{
    char *block = malloc(BYTES);
    block[0] = (char)(k + 1);
    return block;
}

int main(int argc, char **argv)
{
    pthread_t worker;
    count = argc > 1 ? atoi(argv[1]) : 500;
    blocks = calloc((size_t)count, sizeof *blocks);
    pthread_create(&worker, NULL, work, NULL);
    pthread_mutex_lock(&mutex);
    while (!is_made)
        pthread_cond_wait(&changed, &mutex);
    unsigned sum = walk();
    for (int k = 0; k < count; k++) {
        sum += (unsigned char)blocks[k][0];
        free(blocks[k]);
        blocks[k] = made_by_main(k);
    }
    sum += walk();
    is_over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_join(worker, NULL);
    for (int k = 0; k < count; k++)
        sum += (unsigned char)blocks[k][0];
    printf("%u\n", sum);
}
