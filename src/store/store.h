/* SPDX-License-Identifier: Apache-2.0
 *
 * store: the profile file, one SQLite database a run, drawn in doc/profile.md. Result model to rows and back.
 */
#ifndef MTOOL_STORE_H
#define MTOOL_STORE_H

#include "base/base.h"
#include "result/result.h"

#define STORE_SCHEMA_VERSION 26
/* The oldest that is read too: it lacks the tables of mtool spy, all before 22 those of arcs and samples, all
 * before 23 that of stalls, and all before 24 that of processes followed, which are empty then; all before 25 lack the
 * seconds of lines, which are unknown then, and all before 26 the tables of pages. */
#define STORE_SCHEMA_OLDEST 20

/* ---- write.c ---- */

/* Tries PATH before the work is done, so that an unwritable place is refused early; leaves nothing on disk until
 * store_commit. NULL path: chooses PROGRAM.mtool, PROGRAM.2.mtool, ... in the current folder, never an existing one.
 * An existing PATH is refused unless force. 0, or -1 after one line. */
struct store;
int store_create(const char *path, const char *program, bool force, struct store **out);
/* Where the profile goes; final after store_commit, since another run may take the name meanwhile. */
const char *store_path(const struct store *s);
/* Writes everything in one transaction under a hidden name and renames into place. SIGINT, SIGTERM, SIGHUP and SIGQUIT
 * are held back meanwhile and make it stop. 0, or -1 after one line (full disk...); nothing half-written stays. */
int store_commit(struct store *s, const struct prof_result *r);
void store_abort(struct store *s); /* frees; also after commit */

/* ---- read.c ---- */

/* Reads a profile. 0, or -1 after one line (missing, no profile of ours, newer or too old a schema, corrupt). */
int store_read(const char *path, struct prof_result **out);
/* Schema and row counts as stable text, for `mtool dump db`. 0, or -1 after one line. */
int store_dump(const char *path, bool json, struct strbuf *out);

#endif
