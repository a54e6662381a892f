/* SPDX-License-Identifier: Apache-2.0
 *
 * here.h: a place in a program whose count is known. HERE(x) puts a label and an instruction at the place (several
 * labels if the compiler copies it); expect(x, n) prints how often it must have been passed.
 */
#ifndef HERE_H
#define HERE_H
#include <stdio.h>

#define HERE(place) __asm__ volatile("here_" #place "_%=: nop" ::: "memory")

static inline void expect(const char *place, unsigned long n) { printf("expect %s %lu\n", place, n); }

#endif
