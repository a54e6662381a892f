/* SPDX-License-Identifier: Apache-2.0
 *
 * hidden_threads: makes threads by a function that it asks for by name at run time, so that nobody can foresee it.
 */
#define _GNU_SOURCE
#include "here.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

static void *work(void *turns)
{
    for (unsigned long i = 0; i < (unsigned long)(uintptr_t)turns; i++)
        if (i % 5 == 0)
            HERE(fifth);
    return NULL;
}

int main(void)
{
    typedef int (*maker)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    maker make = (maker)(uintptr_t)dlsym(RTLD_DEFAULT, "pthread_create");
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        if (!make || make(&t[i], NULL, work, (void *)200000))
            return 1;
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    expect("fifth", 160000);
    return 0;
}
