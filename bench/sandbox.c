/* SPDX-License-Identifier: Apache-2.0
 *
 * sandbox OUT-FOLDER MODE=BINDS... < JOBS: runs programs in the plain form and in others, and says whether they differ.
 * BINDS is a file of lines "COPY<tab>ORIGINAL": in this mode each copy is bound over its original. JOBS are lines
 * "PROGRAM<tab>OPTION"; of each one line goes out: "PROGRAM<tab>OPTION<tab>PLAIN<tab>MODE=VERDICT..." where PLAIN is
 * how the plain run ended, and VERDICT is same, varies (the plain runs differ among themselves in the same way), or
 * DIFFERS. What differs is kept in OUT-FOLDER.
 *
 * Each run has an empty folder, empty stdin, its own processes, mounts, network and user (nobody, no capabilities),
 * sees all files but the temporary ones read-only, and is killed with all its children at the limit of time. Needs
 * root. Compares standard output, standard error, exit status and signals; not what is written to files.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MODES_MAX = 8,
    SECONDS = 5,
    SECONDS_OF_ENDLESS = 2,
    OUTPUT_MAX = 16 << 20,
    NOBODY = 65534,
    AGAIN_MAX = 6,
    KEPT_MAX = 12
};

struct mode {
    const char *name;
    int mounts; /* descriptor of its mount namespace */
};

struct outcome {
    char end[32];  /* "exit 0", "signal 11", "limit" */
    char *text[2]; /* stdout, stderr */
    size_t len[2];
};

static void fail(const char *what)
{
    fprintf(stderr, "sandbox: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- modes ---- */

static void bind_all(const char *list)
{
    char line[8192];
    FILE *f = fopen(list, "r");
    if (!f)
        fail(list);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *over = strchr(line, '\t');
        if (!over)
            continue;
        *over++ = 0;
        if (mount(line, over, NULL, MS_BIND, NULL) < 0)
            fail(over);
    }
    fclose(f);
}

static void make_readonly(void)
{
    struct {
        uint64_t set, clear, propagation, userns;
    } attr = {.set = 1 /* MOUNT_ATTR_RDONLY */};
    if (syscall(442 /* mount_setattr */, AT_FDCWD, "/", 0x8000 /* AT_RECURSIVE */, &attr, sizeof attr) < 0)
        fail("mount_setattr");
}

/* A process that has made the mounts holds them open until their descriptor is taken. */
static int mode_open(const char *binds)
{
    int ready[2], hold[2];
    char path[64], byte;
    if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(hold, O_CLOEXEC) < 0)
        fail("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        close(hold[1]);
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
            fail("mount namespace");
        if (binds)
            bind_all(binds);
        make_readonly();
        if (write(ready[1], "r", 1) == 1 && read(hold[0], &byte, 1) < 0)
            _exit(1);
        _exit(0);
    }
    close(ready[1]);
    close(hold[0]);
    if (read(ready[0], &byte, 1) != 1)
        exit(1);
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail(path);
    close(hold[1]);
    close(ready[0]);
    waitpid(pid, NULL, 0);
    return fd;
}

/* ---- one run ---- */

static void empty_folders(void)
{
    static const char *const folders[] = {"/tmp", "/var/tmp", "/run", "/home", "/root", "/dev/shm", "/mnt"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *real = realpath(folders[i], NULL);
        if (real && mount("none", real, "tmpfs", 0, "mode=1777,size=256m") < 0)
            fail(real);
        free(real);
    }
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV, NULL) < 0)
        fail("/proc");
    mkdir("/tmp/empty", 0777);
    if (chmod("/tmp/empty", 0777) < 0 || chdir("/tmp/empty") < 0)
        fail("/tmp/empty");
}

_Noreturn static void become_program(const char *program, const char *option, int out, int err)
{
    static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/games",
                                      "HOME=/tmp/empty",
                                      "LC_ALL=C",
                                      "TERM=dumb",
                                      "TZ=UTC",
                                      "USER=nobody",
                                      "PYTHONHASHSEED=0",
                                      "PERL_HASH_SEED=0",
                                      "PYTHONDONTWRITEBYTECODE=1",
                                      "COLUMNS=80",
                                      NULL};
    const char *base = strrchr(program, '/');
    char *argv[] = {strdup(base ? base + 1 : program), option[0] ? strdup(option) : NULL, NULL};
    struct rlimit file = {64 << 20, 64 << 20}, none = {0, 0};
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setrlimit(RLIMIT_FSIZE, &file);
    setrlimit(RLIMIT_CORE, &none);
    setsid();
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        _exit(126);
    dup2(null_fd, 0);
    dup2(out, 1);
    dup2(err, 2);
    execve(program, argv, (char *const *)(uintptr_t)env);
    _exit(errno == EACCES ? 126 : 127);
}

/* The first process of the run's own process namespace: with its end all others end. Tells how the program ended. */
_Noreturn static void be_first(const char *program, const char *option, int out, int err, int tell, int seconds)
{
    sigset_t child;
    struct timespec limit = {seconds, 0};
    siginfo_t info;
    int status = 0;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    empty_folders();
    pid_t pid = fork();
    if (pid == 0) {
        sigprocmask(SIG_UNBLOCK, &child, NULL);
        become_program(program, option, out, err);
    }
    for (;;) {
        pid_t got = waitpid(-1, &status, WNOHANG);
        if (got == pid)
            break;
        if (got > 0)
            continue;
        if (sigtimedwait(&child, &info, &limit) < 0 && errno == EAGAIN) {
            status = -1;
            break;
        }
    }
    if (write(tell, &status, sizeof status) != sizeof status)
        _exit(1);
    _exit(0);
}

static char *read_all(int fd, size_t *len)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        fail("output");
    *len = st.st_size < OUTPUT_MAX ? (size_t)st.st_size : OUTPUT_MAX;
    char *text = malloc(*len + 1);
    if (!text || pread(fd, text, *len, 0) != (ssize_t)*len)
        fail("output");
    text[*len] = 0;
    return text;
}

static void run(const struct mode *m, const char *program, const char *option, int seconds, struct outcome *o)
{
    int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC), tell[2], status = -2;
    if (out < 0 || err < 0 || pipe2(tell, O_CLOEXEC) < 0)
        fail("memfd");
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setns(m->mounts, CLONE_NEWNS) < 0 || unshare(CLONE_NEWNS | CLONE_NEWPID) < 0)
            fail("namespaces");
        pid_t first = fork();
        if (first == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            be_first(program, option, out, err, tell[1], seconds);
        }
        waitpid(first, NULL, 0);
        _exit(0);
    }
    close(tell[1]);
    if (read(tell[0], &status, sizeof status) != sizeof status)
        status = -2;
    waitpid(pid, NULL, 0);
    close(tell[0]);
    if (status < 0)
        snprintf(o->end, sizeof o->end, status == -1 ? "limit" : "none");
    else if (WIFSIGNALED(status))
        snprintf(o->end, sizeof o->end, "signal %d", WTERMSIG(status));
    else
        snprintf(o->end, sizeof o->end, "exit %d", WEXITSTATUS(status));
    o->text[0] = read_all(out, &o->len[0]);
    o->text[1] = read_all(err, &o->len[1]);
    close(out);
    close(err);
}

static void outcome_free(struct outcome *o)
{
    free(o->text[0]);
    free(o->text[1]);
}

/* Of a run that was cut off how much it had printed is chance. */
static bool is_same(const struct outcome *a, const struct outcome *b)
{
    if (strcmp(a->end, b->end))
        return false;
    if (!strcmp(a->end, "limit"))
        return true;
    for (int i = 0; i < 2; i++)
        if (a->len[i] != b->len[i] || memcmp(a->text[i], b->text[i], a->len[i]))
            return false;
    return true;
}

/* ---- verdicts ---- */

struct plain { /* what the original was seen to do */
    struct outcome seen[KEPT_MAX];
    int count;
    bool varies;
};

static void plain_again(struct plain *p, const struct mode *plain, const char *program, const char *option, int seconds)
{
    struct outcome *o = &p->seen[p->count];
    run(plain, program, option, seconds, o);
    for (int i = 0; i < p->count; i++)
        p->varies |= !is_same(o, &p->seen[i]);
    if (p->count + 1 < KEPT_MAX)
        p->count++;
    else
        outcome_free(o);
}

static bool is_seen(const struct plain *p, const struct outcome *o)
{
    for (int i = 0; i < p->count; i++)
        if (is_same(o, &p->seen[i]))
            return true;
    return false;
}

static void keep(const char *folder, const char *program, const char *option, const char *who, const struct outcome *o)
{
    static const char *const what[] = {"out", "err"};
    char path[4096], name[2048];
    snprintf(name, sizeof name, "%s%s", program + 1, option);
    for (char *c = name; *c; c++)
        if (*c == '/')
            *c = '_';
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s.%s.%s", folder, name, who, what[i]);
        FILE *f = fopen(path, "w");
        if (!f || fwrite(o->text[i], 1, o->len[i], f) != o->len[i] || (i == 1 && fprintf(f, "\n[%s]\n", o->end) < 0) ||
            fclose(f))
            fail(path);
    }
}

/* A difference is looked at again: the clock may have struck between two runs, or the machine been busy. */
static const char *judge(struct plain *p, const struct mode *plain, const struct mode *m, const char *program,
                         const char *option, const char *folder)
{
    const char *verdict = "same";
    struct outcome o;
    run(m, program, option, strcmp(p->seen[0].end, "limit") ? SECONDS : SECONDS_OF_ENDLESS, &o);
    bool same = is_seen(p, &o);
    for (int again = 0; !same && again < AGAIN_MAX && !p->varies; again++) {
        struct outcome next;
        plain_again(p, plain, program, option, 3 * SECONDS);
        run(m, program, option, 3 * SECONDS, &next);
        same = is_seen(p, &o) || (again > 0 && is_seen(p, &next) && !strcmp(o.end, "limit"));
        outcome_free(&next);
    }
    if (!same)
        verdict = p->varies ? "varies" : "DIFFERS";
    /* Endings must be among those that the original had, whatever it prints. */
    if (!same && p->varies) {
        bool ended_so = false;
        for (int i = 0; i < p->count; i++)
            ended_so |= !strcmp(p->seen[i].end, o.end);
        if (!ended_so)
            verdict = "DIFFERS";
    }
    if (!strcmp(verdict, "DIFFERS")) {
        keep(folder, program, option, "plain", &p->seen[0]);
        keep(folder, program, option, m->name, &o);
    }
    outcome_free(&o);
    return verdict;
}

static void do_job(const struct mode *modes, int count, const char *program, const char *option, const char *folder)
{
    struct plain p = {.count = 0};
    plain_again(&p, &modes[0], program, option, SECONDS);
    if (strcmp(p.seen[0].end, "limit"))
        plain_again(&p, &modes[0], program, option, SECONDS);
    printf("%s\t%s\t%s", program, option, p.seen[0].end);
    for (int m = 1; m < count; m++)
        printf("\t%s=%s", modes[m].name, judge(&p, &modes[0], &modes[m], program, option, folder));
    printf("\n");
    fflush(stdout);
    for (int i = 0; i < p.count; i++)
        outcome_free(&p.seen[i]);
}

int main(int argc, char **argv)
{
    struct mode modes[MODES_MAX] = {{"plain", -1}};
    char line[8192];
    int count = 1;
    if (argc < 2 || argc - 1 > MODES_MAX) {
        fprintf(stderr, "usage: sandbox OUT-FOLDER MODE=BINDS... < JOBS\n");
        return 2;
    }
    if (unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        fail("namespaces");
    modes[0].mounts = mode_open(NULL);
    for (int i = 2; i < argc; i++, count++) {
        char *binds = strchr(argv[i], '=');
        if (!binds)
            return 2;
        *binds++ = 0;
        modes[count] = (struct mode){argv[i], mode_open(binds)};
    }
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        char *option = strchr(line, '\t');
        if (!option)
            continue;
        *option++ = 0;
        do_job(modes, count, line, option, argv[1]);
    }
    return 0;
}
