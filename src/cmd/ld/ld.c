/* SPDX-License-Identifier: Apache-2.0
 * mtool ld: runs a build in which each linker is mtool, and is that linker. A folder of scripts named like linkers
 * (linkers.c) comes first on PATH, and on COMPILER_PATH, where compilers look for theirs. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/ld/child.h"
#include "cmd/ld/folder.h"
#include "cmd/ld/linkers.h"
#include "cmd/run/profile.h"
#include "launch/launch.h"
#include "ld/ld.h"
#include "machine/machine.h"

static const char *tool_name(const struct cmd_args *a)
{
    const char *name = a->tool ? a->tool : ld_tools[LD_TOOL_BLOCKS].name;
    return a->clocks && !strcmp(name, ld_tools[LD_TOOL_GPROF].name) ? ld_tools[LD_TOOL_CLOCKS].name : name;
}

/* ---- a step of a build ---- */

/* The words of a shell that call this command for one, with the same options. */
static const char *step_words(const struct cmd_args *a)
{
    struct strbuf out = {0};
    str_put_quoted(&out, file_real_path(a->arena, "/proc/self/exe"));
    str_puts(&out, " ld --quiet --tool ");
    str_put_quoted(&out, tool_name(a));
    if (a->leaves)
        str_puts(&out, " --leaves");
    if (a->sample_short)
        str_puts(&out, " --sample-short");
    if (a->private_memory)
        str_puts(&out, " --private-memory");
    if (a->counted) {
        str_puts(&out, " --counts ");
        str_put_quoted(&out, a->counted);
    }
    if (a->machine) {
        str_puts(&out, " --machine ");
        str_put_quoted(&out, a->machine);
    }
    const char *words = arena_strndup(a->arena, out.data, out.len);
    str_free(&out);
    return words;
}

/* ---- how often variables are used ---- */

/* Of the counted program at PATH and what it wrote. 0, or -1 after one line. */
static int read_counts(const struct cmd_args *a, const char *path, struct ld_variables **out)
{
    glob_t files;
    const char *pattern = arena_printf(a->arena, "%s.*.%s", path, ld_tools[LD_TOOL_VARIABLES].extension);
    if (glob(pattern, 0, NULL, &files) != 0)
        return diag_error("ld: there is no %s; link with --tool variables and run it first", pattern);
    int rc = ld_variables_read(path, (const char *const *)files.gl_pathv, files.gl_pathc, out);
    globfree(&files);
    return rc;
}

/* ---- one link ---- */

/* A line in one write: links of one build may end together. */
static void put_record(const char *folder, const struct strbuf *text)
{
    struct strbuf path = {0};
    str_printf(&path, "%s/links", folder);
    int fd = open(path.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        if (write(fd, text->data, text->len) < 0)
            diag_debug(1, "%s: %s", path.data, strerror(errno));
        close(fd);
    }
    str_free(&path);
}

static void say_tally(const char *folder, const struct ld_tally *t, const char *why_plain)
{
    struct strbuf text = {0};
    str_printf(&text, "T %d %llu %llu %llu %llu %d\n", why_plain == NULL, (unsigned long long)t->funcs,
               (unsigned long long)t->funcs_moved, (unsigned long long)t->counters,
               (unsigned long long)t->blocks_ordered, t->is_seen);
    if (why_plain)
        str_printf(&text, "P %s\n", why_plain);
    if (t->promoted_what)
        str_printf(&text, "R %llu %llu %s\n", (unsigned long long)t->promoted, (unsigned long long)t->accesses,
                   t->promoted_what);
    if (t->lto)
        str_printf(&text, "O %s\n", t->lto);
    for (const char *line = t->left.data; line && *line;) {
        size_t len = strcspn(line, "\n");
        str_printf(&text, "L %.*s\n", (int)len, line);
        line += len + (line[len] == '\n');
    }
    put_record(folder, &text);
    str_free(&text);
}

static int link_once(const struct cmd_args *a, const char *build)
{
    struct ld_tally tally = {0};
    char *why = NULL;
    const char *folder = folder_make(a->arena, build);
    if (!folder)
        return CMD_SELF_FAILED;
    struct machine *machine = NULL;
    struct ld_variables *counts = NULL;
    const char *where;
    struct ld_link l = {.tool = ld_tool_named(tool_name(a)),
                        .linker = a->link,
                        .args = a->rest + 1,
                        .folder = folder,
                        .self = step_words(a),
                        .all_blocks = a->leaves,
                        .samples_short = a->sample_short,
                        .is_private = a->private_memory};
    if (l.tool->id == LD_TOOL_SCHEDULE && cmd_machine_get(a, &machine, &where) != 0)
        return folder_remove(folder), CMD_UNUSABLE;
    if (a->counted && read_counts(a, a->counted, &counts) < 0)
        return folder_remove(folder), CMD_UNUSABLE;
    l.machine = machine;
    l.counts = counts;
    int status = ld_link(&l, &tally, &why);
    if (status == 0 && (tally.funcs || why || tally.left.len || tally.lto))
        say_tally(build, &tally, why);
    folder_remove(folder);
    machine_free(machine);
    if (counts)
        ld_variables_free(counts);
    str_free(&tally.left);
    free(tally.lto);
    free(tally.promoted_what);
    free(why);
    return status;
}

/* ---- what a build's links said ---- */

struct summary {
    unsigned links, counted, left, lto;
    const char *lto_first; /* an input with intermediate code */
    uint64_t funcs, moved, counters, ordered;
    unsigned seen;     /* links whose memory others may see */
    unsigned promoted; /* links with variables in registers */
};

enum { LINKS_SHOWN = 8 }; /* promote: one by one, unless -v */

static void take_line(struct summary *s, const struct ld_tool *tool, const char *line)
{
    unsigned long long v[4];
    int is_counted, is_seen, at = 0;
    if (sscanf(line, "T %d %llu %llu %llu %llu %d", &is_counted, &v[0], &v[1], &v[2], &v[3], &is_seen) == 6) {
        s->links++;
        s->counted += is_counted != 0;
        s->funcs += v[0], s->moved += v[1], s->counters += v[2], s->ordered += v[3];
        s->seen += is_seen != 0;
    } else if (!strncmp(line, "R ", 2) && sscanf(line + 2, "%llu %llu %n", &v[0], &v[1], &at) == 2) {
        s->promoted += v[0] > 0;
        if (s->links > LINKS_SHOWN && !diag_verbose)
            return;
        if (v[0])
            diag_note("%llu variables in registers (%s): %llu instructions no longer reach memory", v[0], line + 2 + at,
                      v[1]);
        else
            diag_note("no variable in a register: %s", line + 2 + at);
    } else if (!strncmp(line, "P ", 2)) {
        diag_warn("ld-plain", "linked as it was%s: %s", tool->id == LD_TOOL_PROMOTE ? "" : ", without counters",
                  line + 2);
    } else if (!strncmp(line, "O ", 2)) {
        s->lto_first = s->lto++ ? s->lto_first : line + 2;
    } else if (!strncmp(line, "L ", 2)) {
        s->left++;
        if (diag_verbose)
            diag_note("taken over as it is: %s", line + 2);
    }
}

static void say_scheduled(const struct summary *s)
{
    diag_note(
        "%u of %u links scheduled: %llu of %llu functions, %llu blocks in another order; 'mtool ld-report PROGRAM' "
        "says what it gains",
        s->counted, s->links, (unsigned long long)s->moved, (unsigned long long)s->funcs,
        (unsigned long long)s->ordered);
    if (s->seen)
        diag_note(
            "of %u of them threads, handlers of signals or other processes may see the memory: accesses to it keep "
            "their order (--private-memory: nobody does)",
            s->seen);
    if (s->left && !diag_verbose)
        diag_note("%u sections or objects are taken over as they are; -v names them", s->left);
}

static void say_promoted(const struct summary *s)
{
    diag_note(
        "%u of %u links with variables in registers; 'mtool ld-report PROGRAM' says which, and why others are not",
        s->promoted, s->links);
}

static void say_linked(const struct cmd_args *a, const struct summary *s, const struct ld_tool *tool)
{
    const char *next = "";
    if (s->counted && tool->id == LD_TOOL_TRACE)
        next = "; run 'mtool ld-trace -- PROGRAM'";
    else if (s->counted)
        next = arena_printf(a->arena, "; run the program, then 'mtool %s PROGRAM PROGRAM.*.%s'",
                            tool->id == LD_TOOL_BLOCKS ? "blocks" : "ld-report", tool->extension);
    if (tool->id == LD_TOOL_TRACE)
        diag_note("%u of %u links can be traced: %llu of %llu functions%s", s->counted, s->links,
                  (unsigned long long)s->moved, (unsigned long long)s->funcs, next);
    else
        diag_note("%u of %u links counted: %llu of %llu functions, %llu counters%s", s->counted, s->links,
                  (unsigned long long)s->moved, (unsigned long long)s->funcs, (unsigned long long)s->counters, next);
}

/* Of a build that failed only what it linked. */
static void say_summary(const struct cmd_args *a, const char *folder, bool is_done)
{
    const struct ld_tool *tool = ld_tool_named(tool_name(a));
    struct summary s = {0};
    struct file_bytes f;
    if (file_map(arena_printf(a->arena, "%s/links", folder), &f) < 0) {
        if (is_done)
            diag_warn(
                "ld-none",
                "the build linked nothing that mtool saw; one that calls a linker by its whole path, tells its "
                "compiler where one is (-B, --ld-path=/..., rustc), clears its environment, or links nothing anew, is "
                "not seen");
        return;
    }
    char *text = arena_strndup(a->arena, (const char *)f.data, f.len), *save = NULL;
    file_unmap(&f);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        take_line(&s, tool, line);
    if (!s.links)
        return;
    if (s.lto)
        diag_warn("ld-lto", "%u of %u links optimise at link time (%s): code made then is as it was; -fno-lto", s.lto,
                  s.links, s.lto_first);
    if (tool->id == LD_TOOL_SCHEDULE) {
        say_scheduled(&s);
        return;
    }
    if (tool->id == LD_TOOL_PROMOTE) {
        say_promoted(&s);
        return;
    }
    say_linked(a, &s, tool);
    if (s.left && !diag_verbose)
        diag_note("%u sections or objects are taken over as they are; -v names them", s.left);
}

/* ---- a build ---- */

static void prepend(const struct cmd_args *a, const char *variable, const char *folder)
{
    const char *old = getenv(variable);
    setenv(variable, old && *old ? arena_printf(a->arena, "%s:%s", folder, old) : folder, 1);
}

/* Its status as wait has it, or -1 after one line. */
static int run_build(const struct cmd_args *a)
{
    int status;
    pid_t pid = child_start("ld", a->rest);
    if (pid < 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return diag_error("ld: lost sight of %s: %s", a->rest[0], strerror(errno));
    child_ended();
    return status;
}

/* The description that all links are scheduled for: read once, in this folder, before the build begins. */
static int keep_machine(const struct cmd_args *a, const char *folder, struct cmd_args *with)
{
    struct machine *m;
    const char *where, *path = arena_printf(a->arena, "%s/machine", folder);
    *with = *a;
    if (strcmp(tool_name(a), ld_tools[LD_TOOL_SCHEDULE].name) != 0)
        return 0;
    int rc = cmd_machine_get(a, &m, &where);
    if (rc == 0 && machine_write(m, path) < 0)
        rc = CMD_SELF_FAILED;
    if (rc == 0)
        machine_free(m);
    with->machine = path;
    return rc;
}

/* The counts that all links go by are there before the build begins. */
static int check_counts(const struct cmd_args *a, struct cmd_args *with)
{
    struct ld_variables *counts = NULL;
    if (!a->counted)
        return 0;
    with->counted = file_real_path(a->arena, a->counted);
    if (!with->counted)
        return diag_error("ld: cannot read %s: %s", a->counted, strerror(errno)), CMD_UNUSABLE;
    if (read_counts(a, with->counted, &counts) < 0)
        return CMD_UNUSABLE;
    ld_variables_free(counts);
    return 0;
}

static int build(const struct cmd_args *a, const char *folder)
{
    struct cmd_args with;
    const char *bin;
    int rc = keep_machine(a, folder, &with);
    if (rc == 0)
        rc = check_counts(a, &with);
    if (rc == 0)
        rc = linkers_put(a->arena, folder, step_words(&with), &bin);
    if (rc)
        return rc;
    setenv(LINKERS_BUILD, folder, 1);
    prepend(a, "PATH", bin);
    prepend(a, "COMPILER_PATH", bin);
    int status = run_build(a);
    if (status < 0)
        return CMD_UNUSABLE;
    say_summary(a, folder, status == 0);
    folder_remove(folder);
    launch_exit_like(status);
}

int cmd_ld(const struct cmd_args *a)
{
    const struct ld_tool *tool = ld_tool_named(tool_name(a));
    if (!tool)
        return CMD_UNUSABLE;
    if ((a->clocks || a->leaves || a->sample_short) && tool->id != LD_TOOL_CLOCKS)
        return diag_error("ld: --%s is of --tool gprof --clocks, not of %s",
                          a->clocks   ? "clocks"
                          : a->leaves ? "leaves"
                                      : "sample-short",
                          tool->name),
               CMD_UNUSABLE;
    if (a->counted && tool->id != LD_TOOL_PROMOTE)
        return diag_error("ld: --counts is of --tool promote, not of %s", tool->name), CMD_UNUSABLE;
    const char *of_build = getenv(LINKERS_BUILD);
    if (!a->link)
        child_hold_signals();
    const char *folder = a->link && of_build ? of_build : folder_make(a->arena, folder_temporary());
    int rc;
    if (!folder)
        return CMD_SELF_FAILED;
    if (!of_build) {
        ld_cache_evict();
        folder_remove_left(a->arena, folder_temporary());
    }
    if (!a->link) {
        rc = build(a, folder);
        folder_remove(folder);
        child_release_signals();
        return rc;
    }
    rc = link_once(a, folder);
    if (!of_build) {
        say_summary(a, folder, rc == 0);
        folder_remove(folder);
    }
    if (rc > 128)
        launch_exit_like(rc - 128);
    return rc;
}
