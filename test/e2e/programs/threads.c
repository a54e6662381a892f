/* SPDX-License-Identifier: Apache-2.0
 * threads N TURNS: N threads go round the same loop TURNS times each, all at once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static __attribute__((noinline)) long work(long turns)
{
    long sum = 0;
    for (long i = 0; i < turns; i++)
        sum += i ^ sum >> 3;
    return sum;
}

static void *body(void *turns) { return (void *)work((long)turns); }

int main(int argc, char **argv)
{
    int n = argc > 2 ? atoi(argv[1]) : 1;
    long turns = argc > 2 ? atol(argv[2]) : 1000, sum = 0;
    pthread_t t[64];
    for (int i = 0; i < n && i < 64; i++)
        if (pthread_create(&t[i], NULL, body, (void *)turns))
            return 1;
    for (int i = 0; i < n && i < 64; i++) {
        void *r;
        pthread_join(t[i], &r);
        sum += (long)r;
    }
    printf("%ld\n", sum);
    return 0;
}
