/* SPDX-License-Identifier: Apache-2.0
 * A command line to the program that it would run: the file by PATH, a script followed to its interpreter as the kernel
 * and env do it, and one clear line for everything that cannot be profiled. Starts nothing of the program itself. */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "launch/impl.h"

#define SCRIPTS_MAX 4         /* nested interpreters; the kernel stops there too */
#define SCRIPT_LINE_BYTES 255 /* what the kernel reads of the first line */

/* ---- the file by its name ---- */

static bool can_execute(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

/* As execvp: the first that can be executed; else *denied is one that exists and cannot. */
static const char *find_in_path(struct arena *a, const char *name, const char **denied)
{
    const char *dirs = getenv("PATH");
    for (const char *s = dirs ? dirs : "/bin:/usr/bin";; s++) {
        size_t len = strcspn(s, ":");
        const char *path = len ? arena_printf(a, "%.*s/%s", (int)len, s, name) : arena_printf(a, "./%s", name);
        struct stat st;
        if (can_execute(path))
            return path;
        if (!*denied && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            *denied = path;
        s += len;
        if (!*s)
            return NULL;
    }
}

const char *program_locate(struct arena *a, const char *name)
{
    if (!*name) {
        diag_error("the program's name is empty; give the program to run");
        return NULL;
    }
    if (strchr(name, '/'))
        return name;
    const char *denied = NULL, *path = find_in_path(a, name, &denied);
    if (path)
        return path;
    if (denied)
        diag_error("%s: no permission to execute it; make it executable (chmod +x)", denied);
    else if (file_exists(name))
        diag_error("%s: not found in PATH; for the file in this folder write ./%s", name, name);
    else
        diag_error("%s: not found in PATH; check the name or give the program's path", name);
    return NULL;
}

int program_check_file(const char *path, struct stat *st)
{
    if (stat(path, st) < 0) {
        if (errno == ENOENT)
            return diag_error("%s: no such file; check the path of the program", path);
        return diag_error("%s: cannot be reached: %s", path, strerror(errno));
    }
    if (S_ISDIR(st->st_mode))
        return diag_error("%s: is a directory; give the program inside it", path);
    if (!S_ISREG(st->st_mode))
        return diag_error("%s: is not a regular file; give an executable", path);
    if (!can_execute(path))
        return diag_error("%s: no permission to execute it; make it executable (chmod +x)", path);
    return 0;
}

/* ---- scripts ---- */

struct script_line {
    const char *interp, *arg; /* arg NULL if none */
};

/* The kernel's rules (fs/binfmt_script.c): blanks around, the first word, all the rest one argument. 1 if it is one. */
static int read_script_line(struct arena *a, const char *path, struct script_line *out)
{
    char buf[SCRIPT_LINE_BYTES + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, buf, SCRIPT_LINE_BYTES);
    if (fd >= 0)
        close(fd);
    if (n < 2 || buf[0] != '#' || buf[1] != '!')
        return 0;
    buf[n] = 0;
    buf[strcspn(buf, "\n")] = 0;
    char *s = buf + 2 + strspn(buf + 2, " \t"), *end = s + strlen(s);
    while (end > s && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = 0;
    size_t len = strcspn(s, " \t");
    if (!len) {
        diag_error("%s: its first line names no interpreter after #!; fix that line", path);
        return -1;
    }
    out->interp = arena_strndup(a, s, len);
    s += len + strspn(s + len, " \t");
    out->arg = *s ? arena_strdup(a, s) : NULL;
    return 1;
}

static const char **argv_with(struct arena *a, const char *const *words, size_t n, const char *path,
                              const char *const *argv)
{
    size_t rest = 0;
    while (argv[0] && argv[rest + 1])
        rest++;
    const char **out = ARENA_ARRAY(a, const char *, n + rest + 2);
    memcpy(out, words, n * sizeof *out);
    out[n] = path;
    for (size_t i = 0; i < rest; i++)
        out[n + 1 + i] = argv[i + 1];
    return out;
}

static bool is_env(const char *interp) { return !strcmp(file_base_name(interp), "env"); }

/* `#!/usr/bin/env [-S] NAME ARGS...`: env would execute NAME, so NAME is what is started: env itself counts nothing. */
static int follow_env(struct launch_program *p, const char *path, const char *arg)
{
    const char *words[SCRIPT_LINE_BYTES];
    size_t n = 0;
    bool split = !strncmp(arg, "-S", 2), plain = !strpbrk(arg, "=\\\"'$#");
    char *at = NULL, *s = arena_strdup(p->arena, arg + (split ? 2 : 0));
    if (split)
        for (char *w = strtok_r(s, " \t", &at); w; w = strtok_r(NULL, " \t", &at))
            words[n++] = w;
    else
        words[n++] = s;
    if (!n || words[0][0] == '-' || !plain)
        return diag_error(
            "%s: its first line asks env for more than a program; name its interpreter on the command line", path);
    const char *found = program_locate(p->arena, words[0]);
    if (!found)
        return -1;
    p->elf_argv = p->argv = argv_with(p->arena, words, n, path, p->elf_argv);
    p->exec_path = found;
    return 0;
}

static int follow_script(struct launch_program *p, const char *path, const struct script_line *line)
{
    if (!p->script)
        p->script = path;
    if (is_env(line->interp) && line->arg)
        return follow_env(p, path, line->arg);
    struct stat st;
    if (stat(line->interp, &st) < 0)
        return diag_error("%s: its interpreter %s does not exist; fix its first line or install it", path,
                          line->interp);
    const char *words[] = {line->interp, line->arg};
    p->elf_argv = argv_with(p->arena, words, line->arg ? 2 : 1, path, p->elf_argv);
    return 0;
}

/* Follows scripts from p->exec_path to the ELF file; NULL after one line. */
static const char *follow(struct launch_program *p, struct stat *st)
{
    const char *path = p->exec_path;
    for (int depth = 0; depth <= SCRIPTS_MAX; depth++) {
        struct script_line line = {0};
        if (program_check_file(path, st) < 0)
            return NULL;
        int is_script = read_script_line(p->arena, path, &line);
        if (is_script == 0)
            return path;
        if (is_script < 0 || follow_script(p, path, &line) < 0)
            return NULL;
        path = is_env(line.interp) && line.arg ? p->exec_path : line.interp;
    }
    diag_error("%s: more than %d scripts call each other as interpreters; name the last interpreter yourself",
               p->exec_path, SCRIPTS_MAX);
    return NULL;
}

/* ---- what must not be run rewritten ---- */

static int check_privileges(const char *path, const struct stat *st)
{
    if ((st->st_mode & S_ISUID) && st->st_uid != geteuid())
        return diag_error("%s: is set-user-id; its copy would lose those rights, so it is not profiled", path);
    if ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) && st->st_gid != getegid())
        return diag_error("%s: is set-group-id; its copy would lose those rights, so it is not profiled", path);
    if (geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        return diag_error("%s: has file capabilities; its copy would lose them, so it is not profiled", path);
    return 0;
}

static int check_identity(const char *path, const struct identity *id)
{
    if (id->foreign)
        return diag_error("%s: refused because it carries the %s run time, which walks its own code", path,
                          id->foreign);
    if (id->kind == IMAGE_DSO)
        return diag_error("%s: is a shared object; give a program that uses it", path);
    if (id->interp && !file_exists(id->interp))
        return diag_error("%s: its loader %s does not exist; install the system that it was built for", path,
                          id->interp);
    return 0;
}

static int fill(struct launch_program *p)
{
    struct stat st;
    struct identity id;
    const char *elf = follow(p, &st);
    if (!elf || check_privileges(elf, &st) < 0)
        return -1;
    p->path = file_real_path(p->arena, elf);
    if (!p->path)
        return diag_error("%s: cannot be resolved: %s", elf, strerror(errno));
    if (identity_read(p->arena, p->path, &id) < 0 || check_identity(p->path, &id) < 0)
        return -1;
    p->key = id.key;
    p->is_static = !id.interp;
    p->is_fixed = id.kind == IMAGE_EXEC;
    module_add(p, p->path, NULL)->is_exe = true;
    if (p->script)
        diag_note("%s is a script; profiling its interpreter %s", p->script, p->path);
    return libraries_list(p, id.interp);
}

int launch_program_find(const char *const *argv, struct launch_program **out)
{
    *out = NULL;
    struct arena *a = arena_new();
    struct launch_program *p = ARENA_NEW(a, struct launch_program);
    p->arena = a;
    size_t n = 0;
    while (argv[n])
        n++;
    p->argv = ARENA_ARRAY(a, const char *, n + 1);
    for (size_t i = 0; i < n; i++)
        p->argv[i] = arena_strdup(a, argv[i]);
    p->elf_argv = p->argv;
    p->exec_path = n ? program_locate(a, p->argv[0]) : NULL;
    if (!n)
        diag_error("no program given; write it after the options, as in: mtool run -- ./program arguments");
    if (!p->exec_path || fill(p) < 0) {
        launch_program_free(p);
        return -1;
    }
    *out = p;
    return 0;
}

void launch_program_free(struct launch_program *p)
{
    if (!p)
        return;
    copies_ahead_end(p);
    free(p->modules);
    arena_free(p->arena);
}
