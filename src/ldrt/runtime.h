/* SPDX-License-Identifier: Apache-2.0
 * Between the object that writes counters (counts.c) and that of a tool. Hidden symbols: each linked file has its own.
 */
#ifndef MTOOL_LDRT_RUNTIME_H
#define MTOOL_LDRT_RUNTIME_H

#include "wire/link.h"

/* Before the program's own initialisers, and in the child of a fork, whose counters are zeros then. */
void tool_begin(const volatile struct wire_link *note) __asm__("mtool_tool_begin");
/* May be missing: in the child of a fork, before its counters are made zeros. */
void tool_forked(void) __asm__("mtool_tool_forked");
/* It may be missing: all that the tool keeps is in the section of counters, as it is to be written, at any time. So
 * that can be the memory of a file. */
void tool_lasts(void) __asm__("mtool_tool_lasts");
/* In front of the counters' being written. */
void tool_end(void) __asm__("mtool_tool_end");

#endif
