/* SPDX-License-Identifier: Apache-2.0
 * Of tools that keep tables: a program that calls _exit or _Exit leaves without its finalisers, so the linker is asked
 * (--wrap) to give these calls to what stands here. Included by one source of a runtime's object. */
#ifndef MTOOL_LDRT_LEAVE_H
#define MTOOL_LDRT_LEAVE_H

#include <asm/unistd.h>

#include "ldrt/call.h"

/* counts.c: what stands at the end of the process, unless this is a child of vfork, whose memory is its parent's. */
extern void mtool_leave_now(void) __attribute__((visibility("hidden")));
/* The C library's; 0 in a static program where nobody else wants it. */
extern void real_exit(int status) __asm__("__real__exit") __attribute__((weak));
extern void real_Exit(int status) __asm__("__real__Exit") __attribute__((weak));

static inline void leave(int status, void (*really)(int))
{
    mtool_leave_now();
    if (really)
        really(status);
    for (;;)
        call(__NR_exit_group, status, 0, 0, 0);
}

void wrapped_exit(int status) __asm__("__wrap__exit") __attribute__((visibility("hidden")));
void wrapped_exit(int status) { leave(status, real_exit); }
void wrapped_Exit(int status) __asm__("__wrap__Exit") __attribute__((visibility("hidden")));
void wrapped_Exit(int status) { leave(status, real_Exit); }

#endif
