/* SPDX-License-Identifier: Apache-2.0
 *
 * plugins TURNS A B: loads and unloads two shared objects over and over, so that one comes to lie where the other was.
 * Each is plugin.cc. Prints, as "NAME: expect ...", what each must have counted.
 */
#include "here.h"
#include <dlfcn.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int turns = atoi(argv[1]), reused = 0, taken = 0;
    void *before[2] = {NULL, NULL};
    unsigned long calls[2] = {0, 0};
    long sum = 0;
    for (int i = 0; i < turns; i++) {
        int which = i % 5 == 4; /* A four times, then B */
        void *h = dlopen(argv[2 + which], i % 2 ? RTLD_NOW : RTLD_LAZY);
        if (!h) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        long (*work)(long) = (long (*)(long))dlsym(h, "plugin_work");
        if (!work)
            return 3;
        HERE(turn);
        sum += work(i % 10);
        calls[which] += (unsigned long)(i % 10) + 1;
        reused += before[which] == (void *)work;
        taken += before[!which] == (void *)work;
        before[which] = (void *)work;
        if (dlclose(h))
            return 4;
        if (dlopen(argv[2 + which], RTLD_NOLOAD | RTLD_NOW))
            return 5;
    }
    printf("%ld, addresses %s\n", sum, reused || taken ? "used again" : "always new");
    expect("turn", (unsigned long)turns);
    printf("a: expect turns %lu\na: expect made %d\na: expect gone %d\n", calls[0], turns - turns / 5,
           turns - turns / 5);
    printf("b: expect turns %lu\nb: expect made %d\nb: expect gone %d\n", calls[1], turns / 5, turns / 5);
    return 0;
}
