/* SPDX-License-Identifier: Apache-2.0
 * What the files of launch share: small checked records on disk, identities of files, the start of a program, the
 * counter file, address spaces, samplers. Nothing here is for other folders. */
#ifndef MTOOL_LAUNCH_IMPL_H
#define MTOOL_LAUNCH_IMPL_H

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "launch/launch.h"

/* ---- record.c: a small text file of "name value" lines that ends with its own hash, whole or absent ---- */

/* The lines without the hash, in `a`; NULL if the file is missing, cut off or changed. */
char *record_read(struct arena *a, const char *path);
int record_write(const char *path, struct strbuf *lines); /* 0, or -1 with errno; appends the hash to `lines` */
/* The value of the line that starts with NAME and a blank, up to the end of the line, in `a`; NULL if there is none. */
const char *record_get(struct arena *a, const char *lines, const char *name);
uint64_t record_get_u64(const char *lines, const char *name); /* 0 if there is none */

/* ---- identity.c: what a file is, known from an earlier look as long as its stat did not change ---- */

struct identity {
    const char *key;     /* image key */
    enum image_kind kind;
    const char *interp;  /* PT_INTERP, NULL if none */
    const char *foreign; /* foreign run time, NULL if none */
};
bool identity_known(struct arena *a, const char *path, struct identity *out);
int identity_read(struct arena *a, const char *path, struct identity *out); /* known, else opens the file; -1 after one line */

/* ---- libraries.c ---- */

/* Appends what INTERP --list says that the executable needs, and what earlier runs saw. 0, or -1 after one line. */
int libraries_list(struct launch_program *p, const char *interp);
struct launch_module *module_find(const struct launch_program *p, const char *path); /* by original or copy; or NULL */
struct launch_module *module_add(struct launch_program *p, const char *path, const char *soname); /* finds or appends */

#endif
