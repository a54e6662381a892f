/* SPDX-License-Identifier: Apache-2.0
 * What programs of `mtool ld` wrote, printed: one file a tool. Arguments are those of mtool ld-report: the linked file,
 * then what it wrote. Return as commands do. */
#ifndef MTOOL_CMD_LD_REPORT_H
#define MTOOL_CMD_LD_REPORT_H

#include "cmd/cmd.h"
#include "ld/ld.h"

int report_blocks(const struct cmd_args *a);
int report_sources(const struct cmd_args *a); /* of blocks, with --lines or --source */
int report_variables(const struct cmd_args *a);
int report_clocks(const struct cmd_args *a);
int report_events(const struct cmd_args *a);
int report_gprof(const struct cmd_args *a);

/* Prints and empties it; text with what was linked as it was at its end, and the names of C++ and Rust as their authors
 * wrote them. */
int report_print(const struct cmd_args *a, struct strbuf *out);
/* What of the program was linked as it was, and why: an array of lines. */
void report_put_whole(const struct cmd_args *a, struct json *out);
/* Ends its last array with that behind it, and it. */
void report_end_json(const struct cmd_args *a, struct json *j, struct strbuf *out);
/* Of counts of blocks. */
void report_warn_flow(uint64_t inconsistent);
int report_promote(const struct cmd_args *a);
int report_registers(const struct cmd_args *a);
int report_schedule(const struct cmd_args *a);

#endif
