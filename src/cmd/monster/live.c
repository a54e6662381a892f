/* SPDX-License-Identifier: Apache-2.0
 * mtool monster live: what the running kernel tells of a command, a process or the whole system. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/monster/live_form.h"
#include "launch/launch.h"

enum { TOP_DEFAULT = 10 };

/* ---- what is asked for ---- */

static int parse_without(const struct cmd_args *a, unsigned *out)
{
    for (size_t i = 0; i < a->without.count; i++) {
        const char *s = a->without.all[i];
        for (size_t len; *s; s += len + (s[len] == ',')) {
            len = strcspn(s, ",");
            int source = live_source_find(s, len);
            if (source < 0)
                return diag_error("monster live: --without: there is no source '%.*s'; mtool doctor lists them",
                                  (int)len, s);
            *out |= 1u << source;
        }
    }
    return 0;
}

static int check(const struct cmd_args *a)
{
    int ways = (a->rest_count > 0) + (a->pid > 0) + a->system;
    if (ways == 0)
        return diag_error("monster live: say what to watch: -- COMMAND, --pid PID or --system");
    if (ways > 1)
        return diag_error("monster live: a command, --pid and --system exclude each other");
    if (a->limit > 0 && a->rest_count)
        return diag_error("monster live: --limit is about --pid and --system; a command ends by itself");
    if (a->hz > LIVE_HERTZ_MAX)
        return diag_error("monster live: --hz %g: at most %d, above it sampling measures itself", a->hz,
                          LIVE_HERTZ_MAX);
    if (a->analyser && !a->program)
        return diag_error("monster live: --analyser is about the state machine of --program");
    if (a->force && !a->output)
        return diag_error("monster live: --force is about the file of --output");
    return a->output ? cmd_place_check("monster live", a->output, "", a->force) : 0;
}

static enum live_scope scope_of(const struct cmd_args *a)
{
    return a->rest_count ? LIVE_COMMAND : a->pid ? LIVE_PROCESS : LIVE_SYSTEM;
}

/* ---- watching ---- */

struct watch {
    struct live_options opt;
    struct live_session *session;
};

static void started(void *ctx, int pid)
{
    struct watch *w = ctx;
    w->session = live_session_begin(&w->opt, pid);
}

static void ended(void *ctx, const struct rusage *usage)
{
    struct watch *w = ctx;
    live_session_stop(w->session, usage);
}

static int watch_command(const struct cmd_args *a, struct watch *w, int *status, const char **what)
{
    struct launch_result run;
    const struct launch_watcher watcher = {started, ended, w};
    int rc = launch_command(a->rest, &watcher, &run);
    struct strbuf words = {0};
    for (int i = 0; i < a->rest_count; i++)
        str_printf(&words, "%s%s", i ? " " : "", a->rest[i]);
    *what = arena_strdup(a->arena, words.data);
    str_free(&words);
    *status = rc == 0 ? run.status : 0;
    return rc < 0 ? CMD_UNUSABLE : CMD_DONE;
}

/* Until Ctrl-C or a like signal, which are all blocked, the end of the process, or the limit. */
static void wait_for_end(const sigset_t *ends, int process, double limit_s)
{
    struct pollfd p[2] = {{.fd = signalfd(-1, ends, SFD_CLOEXEC), .events = POLLIN}, {.fd = process, .events = POLLIN}};
    double end_s = time_now_s() + limit_s;
    while (!(limit_s > 0 && time_now_s() >= end_s) && !p[0].revents && !p[1].revents) {
        double left_s = limit_s > 0 ? end_s - time_now_s() : 1;
        poll(p, 2, left_s < 0 ? 0 : left_s < 1 ? (int)(1000 * left_s) + 1 : 1000);
        diag_progress("watching; Ctrl-C ends it", 0, 0);
    }
    diag_progress_end();
    struct signalfd_siginfo info; /* what ended it ends nothing else */
    if (p[0].revents && read(p[0].fd, &info, sizeof info) < 0)
        diag_debug(1, "no signal was read: %s", strerror(errno));
    close(p[0].fd);
}

static int watch_running(const struct cmd_args *a, struct watch *w, const char **what)
{
    int process = -1;
    if (a->pid) {
        process = (int)syscall(SYS_pidfd_open, (pid_t)a->pid, 0);
        if (process < 0)
            return diag_error("monster live: process %llu: %s; ps shows which there are", (unsigned long long)a->pid,
                              strerror(errno)),
                   CMD_UNUSABLE;
        *what = arena_printf(a->arena, "process %llu", (unsigned long long)a->pid);
    } else {
        *what = "the whole system";
    }
    sigset_t ends, before; /* one that comes while the sources are opened ends the watching, not mtool */
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, &before);
    w->session = live_session_begin(&w->opt, (pid_t)a->pid);
    wait_for_end(&ends, process, a->limit);
    live_session_stop(w->session, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (process >= 0)
        close(process);
    return CMD_DONE;
}

/* ---- the report ---- */

/* A command's standard output is its own. */
static int print(const struct cmd_args *a, struct strbuf *text)
{
    if (!a->rest_count)
        return cmd_print(text);
    size_t n = fwrite(text->data, 1, text->len, stderr);
    bool ok = n == text->len;
    str_free(text);
    return ok ? CMD_DONE : CMD_FAILED;
}

static int report(const struct cmd_args *a, const struct live_result *r, const char *what)
{
    struct strbuf json = {0}, text = {0};
    int rc = CMD_DONE;
    if (a->output) {
        live_put_json(&json, r, what);
        rc = cmd_place_write("monster live", a->output, &json);
    }
    if (a->json)
        live_put_json(&text, r, what);
    else
        live_put_text(&text, r, what, a->top ? a->top : TOP_DEFAULT);
    int printed = print(a, &text);
    return rc != CMD_DONE ? rc : printed;
}

static int watch(const struct cmd_args *a, struct live_program *program, unsigned without, int *end)
{
    struct watch w = {.opt = {scope_of(a), a->hz, without, program}};
    const char *what = NULL;
    int status = 0;
    int rc = a->rest_count ? watch_command(a, &w, &status, &what) : watch_running(a, &w, &what);
    if (rc != CMD_DONE) {
        if (w.session)
            live_result_free(live_session_finish(w.session));
        return rc;
    }
    struct live_result *r = live_session_finish(w.session);
    if (program && !r->has_program)
        diag_error("monster live: %s: there are no events here to move it; the table of sources says why", a->program);
    rc = report(a, r, what);
    live_result_free(r);
    *end = status;
    return rc != CMD_DONE && a->rest_count ? CMD_SELF_FAILED : rc;
}

int cmd_monster_live(const struct cmd_args *a)
{
    unsigned without = 0;
    int status = 0;
    struct live_program *program = NULL;
    if (check(a) < 0 || parse_without(a, &without) < 0)
        return CMD_UNUSABLE;
    if (a->program && !(program = live_program_read(a->program, a->analyser)))
        return CMD_UNUSABLE;
    int rc = watch(a, program, without, &status);
    live_program_free(program);
    if (rc == CMD_DONE && a->rest_count)
        launch_exit_like(status);
    return rc;
}
