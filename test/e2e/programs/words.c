/* SPDX-License-Identifier: Apache-2.0
 *
 * words.c: linked beside rewritten objects, writes their counters to the file COUNTER_WORDS when the program ends. */
#include <stdio.h>
#include <stdlib.h>

extern unsigned long __start_mtool_counters[] __attribute__((visibility("hidden"))),
    __stop_mtool_counters[] __attribute__((visibility("hidden")));

__attribute__((destructor(101))) static void write_words(void)
{
    const char *path = getenv("COUNTER_WORDS");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (f) {
        fwrite(__start_mtool_counters, sizeof *__start_mtool_counters,
               (size_t)(__stop_mtool_counters - __start_mtool_counters), f);
        fclose(f);
    }
}
