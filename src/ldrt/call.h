/* SPDX-License-Identifier: Apache-2.0
 * System calls of the objects that are linked in: without the C library, whose errno stays as it is. */
#ifndef MTOOL_LDRT_CALL_H
#define MTOOL_LDRT_CALL_H

/* Returns what the kernel does: -1 to -4095 is an error's number, negated. */
static inline long call6(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline long call(long number, long a, long b, long c, long d) { return call6(number, a, b, c, d, 0, 0); }

#endif
