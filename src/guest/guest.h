/* SPDX-License-Identifier: Apache-2.0
 *
 * guest: a kernel image, a program with what it needs, and files, into a small system that an emulator boots, runs the
 * program in, and takes the output from. It needs no root and changes nothing of the machine.
 */
#ifndef MTOOL_GUEST_H
#define MTOOL_GUEST_H

#include "base/base.h"
#include "wire/monster.h"

/* ---- tree.c: what is in the guest's file system ---- */

enum guest_kind { GUEST_FOLDER, GUEST_LINK, GUEST_FILE };
struct guest_node {
    char *path; /* without the slash at the front, as in the archive */
    enum guest_kind kind;
    unsigned mode;   /* permissions */
    int64_t changed; /* seconds since 1970 */
    char *source;    /* FILE: the host's path, or NULL: `text`; LINK: what it says is in `text` */
    char *text;
    size_t len;
};
struct guest_tree {
    struct arena *arena;
    VEC(struct guest_node) nodes;
    struct map index;           /* hash of the path */
    VEC(const char *) programs; /* ELF files among them, real paths */
};
struct guest_tree *guest_tree_new(void);
void guest_tree_free(struct guest_tree *t);
/* The host's file or folder of that path, at the same path: a symbolic link with what it leads to, a folder with all
 * that is in it, a program with the interpreter and the libraries that it needs. 0, or -1 after one line. */
int guest_tree_add(struct guest_tree *t, const char *path);
/* The host's file as another path, without what it needs, and without when it changed: a part of the guest, whose
 * figures are not to depend on when it was installed. 0, or -1 after one line. */
int guest_tree_add_as(struct guest_tree *t, const char *source, const char *path, unsigned mode);
void guest_tree_add_folder(struct guest_tree *t, const char *path); /* and those above it */
void guest_tree_add_link(struct guest_tree *t, const char *path, const char *to);
void guest_tree_add_text(struct guest_tree *t, const char *path, const void *text, size_t len);
/* What each guest has: init, which does `command` (wire/monster.h; ends in NULL), empty folders, and of busybox, where
 * it is not NULL, the shell and the small programs whose paths are not taken. */
int guest_tree_add_base(struct guest_tree *t, const char *init, const char *busybox, const char *const *command);
/* The disk's drivers, which are in that folder. 0, or -1 after one line. */
int guest_tree_add_drivers(struct guest_tree *t, const char *folder);
bool guest_tree_has(const struct guest_tree *t, const char *path);

/* ---- tools.c ---- */

/* Another program, run in `folder` (NULL: here). Its output (NULL: thrown away), and the last line of its messages in
 * `said`, which may be NULL. Its status, or -1: it could not be run. */
int guest_run_tool(const char *const *argv, const char *folder, struct strbuf *out, struct strbuf *said);
/* The program that the name or path means, by PATH. NULL: there is none. */
const char *guest_find_program(struct arena *a, const char *name);

/* ---- newc.c ---- */

/* The tree as an archive that a kernel unpacks at its start (cpio, new ASCII form): the same bytes for the same files.
 * 0, or -1 after one line. */
int guest_archive_write(const struct guest_tree *t, const char *path);

/* ---- modules.c ---- */

/* Functions of the tree's programs and libraries, as the plugin reads them: by their symbols, and where there are none
 * by the unwind table. 0, or -1 after one line. */
int guest_modules_write(const struct guest_tree *t, const char *path);

/* ---- types.c ---- */

/* Offset of a member of a struct in the kernel's own description of its types (BTF); UINT64_MAX: it is not there. */
uint64_t guest_types_offset(const uint8_t *types, size_t len, const char *structure, const char *member);

/* ---- boot.c ---- */

struct guest_boot {
    const char *kernel, *archive, *folder; /* folder: where the emulator's and the streams' files go */
    const char *plugin, *settings;
    uint64_t memory_bytes; /* of the guest, without the region */
    unsigned shift;        /* an instruction takes 1 << shift ns of the guest's clock */
    bool is_memory_given;  /* by the user, who may give more */
    double limit_s;
    int64_t day; /* its date, days since 1970; 0: the first of 2026 */
};
/* Boots, and waits for the end. 0 if the guest handed all over, -1 after one line: no emulator, it refused the plugin,
 * the kernel panicked, the limit passed. */
int guest_boot(const struct guest_boot *b);
/* Of a guest that has ended: the first process that its kernel killed since memory was full; NULL: none. */
const char *guest_killed_for_memory(struct arena *a, const char *folder);
/* Of what is caught while the emulator runs: mtool ends by it, if it was, when its files are cleared away. */
void guest_pass_signal_on(void);
const char *guest_emulator(void); /* its name, or NULL after one line: it is not installed */

/* ---- prepare.c ---- */

struct guest { /* what is prepared, in `arena` */
    struct arena *arena;
    const char *folder, *kernel, *symbols, *busybox; /* files; busybox NULL: none */
    const char *version;                             /* "6.1.0-56-cloud-amd64" */
    uint64_t task_pid, task_comm, task_mm;
    bool has_drivers; /* of a disk */
};
/* Fetches and prepares what is not there yet; says what. `kernel`: an image to be used instead of Debian's, or NULL. 0,
 * or -1 after one line. */
int guest_prepare(const char *kernel);
void guest_remove_folder(const char *path); /* with all that is in it */
/* What was prepared last. NULL after one line if nothing was. */
struct guest *guest_find(void);
void guest_free(struct guest *g);
/* mtool's own files beside it: "monster-init", "mtool-monster.so". NULL after one line: they are not there. */
char *guest_own_file(struct arena *a, const char *name);

#endif
