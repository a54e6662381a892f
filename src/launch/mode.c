/* SPDX-License-Identifier: Apache-2.0
 * How the copies take the place of the originals: a mount namespace of the program's own in which each copy is bound
 * over its original, as root or inside a user namespace, so that every path stays what it was; or none. The probe tries
 * the whole sequence, because each step can be forbidden by itself (seccomp, AppArmor, limits). */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/impl.h"

const char *const launch_mode_text[LAUNCH_MODE_COUNT] = {
    [LAUNCH_MODE_ROOT_NS] = "private mount namespace: every path is the original's; the program can notice other inode "
                            "numbers and sizes of its files, and its mount table",
    [LAUNCH_MODE_USER_NS] = "user and mount namespace: every path is the original's; set-user-id programs lose their "
                            "rights in it, files of other users show as nobody's",
    [LAUNCH_MODE_PATH] = "no namespace: a copy is executed under another path (/proc/self/exe shows it), and only "
                         "libraries found by name are counted, those opened by absolute path are not",
};

static const char *const mode_name[LAUNCH_MODE_COUNT] = {"root-ns", "user-ns", "path"};

enum step { STEP_UNSHARE, STEP_SETGROUPS, STEP_UID_MAP, STEP_GID_MAP, STEP_PRIVATE, STEP_BIND, STEP_SEEN, STEP_COUNT };
static const char *const step_text[STEP_COUNT] = {
    "make a namespace",        "give up setgroups",   "map the user id",    "map the group id",
    "make the mounts private", "bind a copy over it", "see the bound copy",
};

const char *mode_step_text(int step) { return step >= 0 && step < STEP_COUNT ? step_text[step] : "start"; }

static int failed(struct mode_fail *f, enum step step, int bind)
{
    *f = (struct mode_fail){errno, (int)step, bind};
    return -1;
}

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    int err = errno;
    close(fd);
    errno = err;
    return n < 0 ? -1 : 0;
}

static int map_self(struct mode_fail *f, uid_t uid, gid_t gid)
{
    char text[64];
    if (write_text("/proc/self/setgroups", "deny") < 0 && errno != ENOENT)
        return failed(f, STEP_SETGROUPS, -1);
    snprintf(text, sizeof text, "%u %u 1", uid, uid);
    if (write_text("/proc/self/uid_map", text) < 0)
        return failed(f, STEP_UID_MAP, -1);
    snprintf(text, sizeof text, "%u %u 1", gid, gid);
    if (write_text("/proc/self/gid_map", text) < 0)
        return failed(f, STEP_GID_MAP, -1);
    return 0;
}

static int make_namespace(enum launch_mode mode, struct mode_fail *f)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (unshare(mode == LAUNCH_MODE_USER_NS ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) < 0)
        return failed(f, STEP_UNSHARE, -1);
    if (mode == LAUNCH_MODE_USER_NS && map_self(f, uid, gid) < 0)
        return -1;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return failed(f, STEP_PRIVATE, -1);
    return 0;
}

int mode_enter(enum launch_mode mode, const struct bind *binds, size_t bind_count, struct mode_fail *f)
{
    if (mode == LAUNCH_MODE_PATH)
        return 0;
    if (make_namespace(mode, f) < 0)
        return -1;
    for (size_t i = 0; i < bind_count; i++)
        if (mount(binds[i].copy, binds[i].over, NULL, MS_BIND, NULL) < 0)
            return failed(f, STEP_BIND, (int)i);
    return 0;
}

/* ---- the probe ---- */

/* Binds mtool itself over some other file, in a namespace that ends with this process. */
static int try_mode(enum launch_mode mode, struct mode_fail *f)
{
    static const char *const targets[] = {"/etc/passwd", "/bin/sh", "/etc/hosts"};
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    struct stat want, got;
    if (n < 0)
        return failed(f, STEP_BIND, -1);
    self[n] = 0;
    if (make_namespace(mode, f) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        char *real = realpath(targets[i], NULL);
        if (!real)
            continue;
        if (mount(self, real, NULL, MS_BIND, NULL) < 0)
            return failed(f, STEP_BIND, -1);
        if (stat(self, &want) < 0 || stat(real, &got) < 0 || want.st_ino != got.st_ino || want.st_dev != got.st_dev)
            return failed(f, STEP_SEEN, -1);
        return 0;
    }
    errno = ENOENT;
    return failed(f, STEP_BIND, -1);
}

static bool mode_works(enum launch_mode mode)
{
    int fds[2], status = -1;
    struct mode_fail f = {0};
    if (pipe2(fds, O_CLOEXEC) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        int rc = try_mode(mode, &f);
        if (write(fds[1], &f, sizeof f) < 0)
            _exit(1);
        _exit(rc == 0 ? 0 : 1);
    }
    close(fds[1]);
    bool told = read(fds[0], &f, sizeof f) == (ssize_t)sizeof f;
    close(fds[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    bool works = told && status == 0;
    if (!works)
        diag_debug(1, "launch mode %s does not work here: cannot %s: %s", mode_name[mode], mode_step_text(f.step),
                   strerror(f.err));
    return works;
}

enum launch_mode launch_mode_probe(void)
{
    const char *forced = getenv("MTOOL_LAUNCH");
    for (int m = 0; forced && m < LAUNCH_MODE_COUNT; m++)
        if (!strcmp(forced, mode_name[m]))
            return (enum launch_mode)m;
    if (forced && *forced)
        diag_warn("launch-mode", "MTOOL_LAUNCH=%s is none of root-ns, user-ns, path; choosing by trying", forced);
    struct sigaction before = signals_keep_children();
    enum launch_mode mode = LAUNCH_MODE_PATH;
    if (geteuid() == 0 && mode_works(LAUNCH_MODE_ROOT_NS))
        mode = LAUNCH_MODE_ROOT_NS;
    else if (mode_works(LAUNCH_MODE_USER_NS))
        mode = LAUNCH_MODE_USER_NS;
    signals_unkeep_children(&before);
    return mode;
}
