/* SPDX-License-Identifier: Apache-2.0
 * The emulator, started, watched and ended. It has one processor, whose clock counts instructions, so that each run is
 * the same to the last of them; its memory is no file that could be left behind. */
#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EMULATOR "qemu-system-x86_64"
enum { MB = 1 << 20, ARGUMENTS_MAX = 64, TICK_NS = 100000000, LOOK_MAX = 1 << 16, DAY_S = 86400 };

static int caught; /* a signal that ends mtool, once all is cleared away */

const char *guest_emulator(void)
{
    struct arena *a = arena_new();
    bool is_there = guest_find_program(a, EMULATOR) != NULL;
    arena_free(a);
    if (is_there)
        return EMULATOR;
    diag_error(EMULATOR " is not installed; 'apt-get install qemu-system-x86' installs it");
    return NULL;
}

void guest_pass_signal_on(void)
{
    sigset_t set;
    if (!caught)
        return;
    signal(caught, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, caught);
    raise(caught);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- started ---- */

static const char *date_of(struct arena *a, int64_t day)
{
    time_t at = (time_t)day * DAY_S;
    struct tm date;
    char text[64];
    if (!day || !gmtime_r(&at, &date) || !strftime(text, sizeof text, "%Y-%m-%dT00:00:00", &date))
        return "2026-01-01T00:00:00";
    return arena_strdup(a, text);
}

static void put_arguments(struct arena *a, const struct guest_boot *b, char *argv[ARGUMENTS_MAX])
{
    uint64_t all = b->memory_bytes + WIRE_REGION_BYTES;
    char *const list[] = {
        (char[]){EMULATOR},
        (char[]){"-no-user-config"},
        (char[]){"-nodefaults"},
        (char[]){"-no-reboot"},
        (char[]){"-display"},
        (char[]){"none"},
        (char[]){"-machine"},
        (char[]){"pc,memory-backend=ram"},
        (char[]){"-object"},
        arena_printf(a, "memory-backend-ram,id=ram,size=%llu", (unsigned long long)all),
        (char[]){"-m"},
        arena_printf(a, "%lluM", (unsigned long long)(all / MB)),
        (char[]){"-cpu"},
        (char[]){"qemu64"},
        (char[]){"-smp"},
        (char[]){"1"},
        (char[]){"-accel"},
        (char[]){"tcg,thread=single"},
        (char[]){"-icount"},
        arena_printf(a, "shift=%u,sleep=off", b->shift),
        (char[]){"-rtc"},
        arena_printf(a, "base=%s,clock=vm", date_of(a, b->day)),
        (char[]){"-kernel"},
        arena_strdup(a, b->kernel),
        (char[]){"-initrd"},
        arena_strdup(a, b->archive),
        (char[]){"-append"},
        arena_printf(a,
                     "console=ttyS0 nokaslr norandmaps mitigations=off panic=-1 quiet iomem=relaxed "
                     "mem=%lluM rdinit=/mtool/init",
                     (unsigned long long)(b->memory_bytes / MB)),
        (char[]){"-serial"},
        arena_printf(a, "file:%s/console", b->folder),
        (char[]){"-plugin"},
        arena_printf(a, "%s,settings=%s", b->plugin, b->settings),
    };
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        argv[i] = arena_strdup(a, list[i]);
    argv[ARRAY_LEN(list)] = NULL;
}

static _Noreturn void become(char *const argv[], const char *messages, const sigset_t *mask, pid_t parent)
{
    int null = open("/dev/null", O_RDWR), out = open(messages, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 0); /* a fault for 2 MB in place of 4 KB, of which it has many */
    sigprocmask(SIG_SETMASK, mask, NULL);
    dup2(null, 0);
    dup2(out, 1);
    dup2(out, 2);
    if (getppid() == parent)
        execvp(argv[0], argv);
    _exit(127);
}

/* ---- watched ---- */

static void end_child(pid_t child)
{
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

enum watched { ENDED, TOO_LONG, INTERRUPTED };
static enum watched watch(pid_t child, const sigset_t *set, double limit_s, int *status)
{
    double begin = time_now_s();
    const struct timespec tick = {.tv_nsec = TICK_NS};
    for (;;) {
        if (waitpid(child, status, WNOHANG) == child)
            return ENDED;
        double passed = time_now_s() - begin;
        if (passed > limit_s)
            return end_child(child), TOO_LONG;
        diag_progress("running in the guest", (uint64_t)passed, 0);
        int signal = sigtimedwait(set, NULL, &tick);
        if (signal > 0 && signal != SIGCHLD) {
            caught = signal;
            return end_child(child), INTERRUPTED;
        }
    }
}

static enum watched start_and_watch(const struct guest_boot *b, char *const argv[], const char *messages, int *status)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD};
    sigset_t set, before;
    pid_t self = getpid();
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, &before);
    pid_t child = fork();
    if (child == 0)
        become(argv, messages, &before, self);
    enum watched w = child > 0 ? watch(child, &set, b->limit_s, status) : ENDED;
    diag_progress_end();
    if (!caught)
        sigprocmask(SIG_SETMASK, &before, NULL);
    return w;
}

/* ---- ended ---- */

/* The first line of a file that has one of these words, without what would drive a terminal; NULL: none. */
static const char *line_with(struct arena *a, const char *path, const char *const *words, size_t count)
{
    struct file_bytes f;
    const char *found = NULL;
    if (file_map(path, &f) < 0)
        return NULL;
    char *text = arena_strndup(a, (const char *)f.data, min_u64(f.len, LOOK_MAX)), *state = NULL;
    file_unmap(&f);
    for (char *line = strtok_r(text, "\r\n", &state); line && !found; line = strtok_r(NULL, "\r\n", &state))
        for (size_t i = 0; i < count && !found; i++)
            if (strstr(line, words[i]))
                found = str_printable(a, line);
    return found;
}

static const char *last_line(struct arena *a, const char *path)
{
    struct file_bytes f;
    const char *last = NULL;
    if (file_map(path, &f) < 0)
        return NULL;
    size_t skip = f.len > LOOK_MAX ? f.len - LOOK_MAX : 0;
    char *text = arena_strndup(a, (const char *)f.data + skip, f.len - skip), *state = NULL;
    file_unmap(&f);
    for (char *line = strtok_r(text, "\r\n", &state); line; line = strtok_r(NULL, "\r\n", &state))
        last = line;
    return last ? str_printable(a, last) : NULL;
}

static int explain(struct arena *a, const struct guest_boot *b, const char *console, const char *messages)
{
    static const char *const versions[] = {"plugin requires API", "API version"};
    static const char *const refusals[] = {"mtool: error: "};
    static const char *const panics[] = {"mtool-init: ", "Kernel panic", "Out of memory", "System is deadlocked"};
    const char *line = line_with(a, messages, versions, ARRAY_LEN(versions));
    if (line)
        return diag_error("this " EMULATOR " has another plugin interface than version 1 (QEMU 7.2 to 8.2): %s", line);
    if ((line = line_with(a, messages, refusals, ARRAY_LEN(refusals))))
        return diag_error("the plugin in " EMULATOR ": %s", line + strlen(refusals[0]));
    if ((line = line_with(a, console, panics, ARRAY_LEN(panics))))
        return diag_error("the guest ended early: %s%s", line,
                          b->is_memory_given || strcasestr(line, "memory") ? "; more memory (--memory) may help" : "");
    if ((line = last_line(a, messages)))
        return diag_error(EMULATOR ": %s", line);
    line = last_line(a, console);
    return diag_error("the guest ended early; its last line: %s", line ? line : "none");
}

const char *guest_killed_for_memory(struct arena *a, const char *folder)
{
    static const char killed[] = "Out of memory: Killed process ";
    const char *line = line_with(a, arena_printf(a, "%s/console", folder), (const char *const[]){killed}, 1);
    const char *name = line ? strchr(strstr(line, killed), '(') : NULL;
    return name ? arena_strndup(a, name + 1, strcspn(name + 1, ")")) : NULL;
}

int guest_boot(const struct guest_boot *b)
{
    struct arena *a = arena_new();
    char *argv[ARGUMENTS_MAX], *messages = arena_printf(a, "%s/messages", b->folder);
    char *console = arena_printf(a, "%s/console", b->folder), *done = arena_printf(a, "%s/done", b->folder);
    int status = 0, rc = 0;
    put_arguments(a, b, argv);
    switch (start_and_watch(b, argv, messages, &status)) {
    case TOO_LONG: {
        const char *line = last_line(a, console);
        rc = diag_error("the guest did not end within %g s (--limit); its last line: %s", b->limit_s,
                        line ? line : "none");
        break;
    }
    case INTERRUPTED:
        rc = -1;
        break;
    case ENDED:
        rc = file_exists(done) ? 0 : explain(a, b, console, messages);
    }
    arena_free(a);
    return rc;
}
