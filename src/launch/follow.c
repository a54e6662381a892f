/* SPDX-License-Identifier: Apache-2.0
 * Programs that the program executes, counted too. A seccomp filter in the program has the kernel ask mtool before each
 * execve and exit: mtool looks at what is about to be executed, rewrites it and its libraries if it did not yet, binds
 * the copies into the program's mount namespace, gives them places in the counter file, notes the command, and lets the
 * call go on. So every program is counted the first time it runs, and each process is known with its command and
 * status. Does not read counters; needs a launch mode with a mount namespace.
 *
 * The kernel refuses what nobody answers, and a descendant may outlive the program, or mtool be killed: so a guardian
 * process waits for mtool's end, answers from then on, and ends with the last of the program's processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/impl.h"

#ifndef SECCOMP_USER_NOTIF_FLAG_CONTINUE
#define SECCOMP_USER_NOTIF_FLAG_CONTINUE 1
#endif

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1u << 5)
#endif

#define COMMAND_WORDS_MAX 64
#define COMMAND_BYTES_MAX 2000

struct known { /* an executable that was looked at */
    const char *path;
    uint64_t inode;
    struct timespec changed;
    const char *refused; /* why it is not counted, NULL if it is */
};
struct follow {
    struct launch_program *p;
    struct counters *counters;
    const struct rewrite_options *opt;
    struct arena *arena;
    int listener, mount_ns, user_ns; /* -1: none */
    int guardian_fd;                 /* closed by mtool's end */
    uint64_t *asked;                 /* shared with the guardian: what mtool took up and has not answered; 0 none */
    VEC(struct known) known;
    VEC(struct follow_image) images;
    VEC(bool) bound; /* by module */
};

/* ---- in the program's process ---- */

static int send_fd(int socket, int fd)
{
    char byte = fd < 0 ? 'n' : 'y';
    struct iovec io = {&byte, 1};
    union {
        struct cmsghdr h;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
        control.h.cmsg_level = SOL_SOCKET;
        control.h.cmsg_type = SCM_RIGHTS;
        control.h.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&control.h), &fd, sizeof fd);
    }
    return sendmsg(socket, &m, 0) == 1 ? 0 : -1;
}

void follow_install(int socket)
{
    enum { ASK = SECCOMP_RET_USER_NOTIF, GO = SECCOMP_RET_ALLOW };
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, GO),
        BPF_STMT(BPF_RET | BPF_K, ASK),
    };
    struct sock_fprog program = {ARRAY_LEN(code), code};
    unsigned how = SECCOMP_FILTER_FLAG_NEW_LISTENER, calm = how | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    int fd =
        (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, calm, &program); /* no signal takes it out of an execve */
    if (fd < 0)                                                             /* before Linux 5.19 */
        fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, how, &program);
    if (send_fd(socket, fd) < 0)
        _exit(126); /* mtool is gone */
    if (fd >= 0)
        close(fd);
    close(socket);
}

/* ---- what the kernel asks ---- */

/* A string of another process; NULL if it cannot be read. */
static const char *remote_text(struct arena *a, pid_t pid, uint64_t addr, size_t max)
{
    struct strbuf s = {0};
    char *out = NULL;
    while (addr && s.len < max && !out) {
        char buf[256];
        size_t n = min_u64(sizeof buf, 4096 - addr % 4096);
        union {
            uint64_t addr;
            void *at;
        } there = {.addr = addr};
        struct iovec to = {buf, n}, from = {there.at, n};
        if (process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)n)
            break;
        const char *end = memchr(buf, 0, n);
        str_put(&s, buf, end ? (size_t)(end - buf) : n);
        if (end)
            out = arena_strndup(a, s.len ? s.data : "", min_u64(s.len, max));
        addr += n;
    }
    str_free(&s);
    return out;
}

static const char *remote_command(struct arena *a, pid_t pid, uint64_t argv)
{
    struct strbuf s = {0};
    for (int i = 0; i < COMMAND_WORDS_MAX && argv && s.len < COMMAND_BYTES_MAX; i++) {
        union {
            uint64_t addr;
            void *at;
        } there = {.addr = argv + 8u * (unsigned)i};
        uint64_t word = 0;
        struct iovec to = {&word, 8}, from = {there.at, 8};
        if (process_vm_readv(pid, &to, 1, &from, 1, 0) != 8 || !word)
            break;
        const char *text = remote_text(a, pid, word, COMMAND_BYTES_MAX);
        str_printf(&s, "%s%s", i ? " " : "", text ? text : "?");
    }
    const char *out = arena_strdup(a, s.len ? s.data : "");
    str_free(&s);
    return out;
}

/* The file that it is about to execute, as named in mtool's own namespace; NULL if there is none or it is elsewhere. */
static const char *remote_path(struct arena *a, pid_t pid, const struct seccomp_data *d)
{
    bool at_fd = d->nr == SYS_execveat;
    const char *name = remote_text(a, pid, d->args[at_fd ? 1 : 0], 4095);
    if (!name || strcmp(file_real_path(a, arena_printf(a, "/proc/%d/root", (int)pid)) ?: "?", "/") != 0)
        return NULL;
    if (*name == '/')
        return file_real_path(a, name);
    const char *dir = at_fd && (int)d->args[0] != AT_FDCWD
                          ? arena_printf(a, "/proc/%d/fd/%d", (int)pid, (int)d->args[0])
                          : arena_printf(a, "/proc/%d/cwd", (int)pid);
    return file_real_path(a, *name ? arena_printf(a, "%s/%s", dir, name) : dir);
}

static bool can_run(const char *path, struct stat *st)
{
    char head[4] = "";
    int fd =
        stat(path, st) == 0 && S_ISREG(st->st_mode) && access(path, X_OK) == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    bool can = fd >= 0 && read(fd, head, sizeof head) == sizeof head &&
               (!memcmp(head, "\177ELF", 4) || !memcmp(head, "#!", 2));
    if (fd >= 0)
        close(fd);
    return can;
}

/* ---- a program that is new ---- */

/* In a process of its own: what it says is for mtool, and its memory goes with it. A line a module: path, tab, soname.
 * Copies are made with the profile feedback of the first program, as mtool will look for them (take_modules). */
static _Noreturn void prepare(const struct follow *f, const char *path, int fd)
{
    const char *const argv[] = {path, NULL};
    struct launch_program *q;
    struct strbuf s = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(fd, 2) < 0 || launch_program_find(argv, &q) < 0)
        _exit(1);
    q->key = f->p->key;
    if (copies_make(q, f->opt, q->module_count) < 0)
        _exit(1);
    for (size_t i = 0; i < q->module_count; i++)
        str_printf(&s, "module %s\t%s\n", q->modules[i].path,
                   q->modules[i].soname ? q->modules[i].soname : file_base_name(q->modules[i].path));
    for (size_t done = 0; done < s.len;) {
        ssize_t n = write(fd, s.data + done, s.len - done);
        if (n <= 0)
            _exit(1);
        done += (size_t)n;
    }
    _exit(0);
}

static int run_prepare(struct follow *f, const char *path, struct strbuf *said)
{
    int fds[2], status = -1;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        prepare(f, path, fds[1]);
    close(fds[1]);
    char buf[4096];
    for (ssize_t n; (n = read(fds[0], buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR);)
        if (n > 0)
            str_put(said, buf, (size_t)n);
    close(fds[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return pid > 0 && status == 0 ? 0 : -1;
}

/* Binds copies in the program's namespace. A process of its own, since nobody comes back from a namespace. */
static bool bind_all(const struct follow *f, const struct bind *binds, size_t n)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        if (f->user_ns >= 0 && setns(f->user_ns, CLONE_NEWUSER) < 0)
            _exit(1);
        if (setns(f->mount_ns, CLONE_NEWNS) < 0)
            _exit(1);
        for (size_t i = 0; i < n; i++)
            if (mount(binds[i].copy, binds[i].over, NULL, MS_BIND, NULL) < 0)
                _exit(1);
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return pid > 0 && status == 0;
}

static bool is_bound(struct follow *f, size_t module)
{
    while (f->bound.len <= module)
        VEC_PUSH(&f->bound, false);
    return f->bound.data[module];
}

/* Takes the modules that prepare() told into the program's, with places in the counter file and binds. NULL, or why the
 * executable is not counted. */
static const char *take_modules(struct follow *f, char *text)
{
    VEC(struct bind) binds = {0};
    VEC(uint32_t) fresh = {0};
    const char *refused = NULL;
    char *at = NULL;
    bool is_first = true;
    for (char *line = strtok_r(text, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
        char *tab = strrchr(line, '\t');
        if (strncmp(line, "module ", 7) != 0 || !tab)
            continue;
        *tab = 0;
        struct launch_module *m = module_add(f->p, line + 7, tab + 1);
        size_t i = (size_t)(m - f->p->modules);
        if (!is_bound(f, i)) {
            m->other_program = m->found_at_run_time = false;
            copies_take_known(f->p, i, f->opt);
            if (m->copy && counters_add(f->counters, f->p, (uint32_t)i)) {
                VEC_PUSH(&binds, ((struct bind){m->copy, m->path}));
                VEC_PUSH(&fresh, (uint32_t)i);
            } else if (m->copy) {
                m->copy = NULL;
                m->refused = "no room was left in the counter file";
            }
        }
        if (is_first && !m->copy)
            refused = m->refused ? m->refused : "it was not rewritten";
        is_first = false;
    }
    bool done = !binds.len || bind_all(f, binds.data, binds.len);
    for (size_t k = 0; k < fresh.len; k++)
        f->bound.data[fresh.data[k]] = done;
    VEC_FREE(&binds);
    VEC_FREE(&fresh);
    return !done ? "its copy could not be put in place" : is_first ? "it was not understood" : refused;
}

/* The last line that prepare() wrote, without our own prefix. */
static const char *complaint(struct follow *f, struct strbuf *s)
{
    static const char prefix[] = "mtool: error: ";
    while (s->len && s->data[s->len - 1] == '\n')
        s->data[--s->len] = 0;
    if (!s->len)
        return "it could not be made ready";
    const char *nl = strrchr(s->data, '\n'), *line = nl ? nl + 1 : s->data;
    return arena_strdup(f->arena, strncmp(line, prefix, sizeof prefix - 1) ? line : line + sizeof prefix - 1);
}

/* Why it is not counted; NULL if it is. */
static const char *make_ready(struct follow *f, const char *path, const struct stat *st)
{
    for (size_t i = 0; i < f->known.len; i++) {
        const struct known *k = &f->known.data[i];
        if (!strcmp(k->path, path) && k->inode == st->st_ino && k->changed.tv_sec == st->st_ctim.tv_sec &&
            k->changed.tv_nsec == st->st_ctim.tv_nsec)
            return k->refused;
    }
    struct strbuf said = {0};
    struct known k = {arena_strdup(f->arena, path), st->st_ino, st->st_ctim, NULL};
    if (run_prepare(f, path, &said) == 0)
        k.refused = take_modules(f, said.data);
    else
        k.refused = complaint(f, &said);
    str_free(&said);
    VEC_PUSH(&f->known, k);
    return k.refused;
}

/* ---- images: what each process executed ---- */

static struct follow_image *image_of(struct follow *f, uint32_t pid, uint64_t time_ns)
{
    for (size_t i = f->images.len; i-- > 0;)
        if (f->images.data[i].pid == pid && f->images.data[i].time_ns <= time_ns)
            return &f->images.data[i];
    return NULL;
}

static void take_exec(struct follow *f, uint32_t pid, const struct seccomp_data *d)
{
    struct stat st;
    const char *path = remote_path(f->arena, (pid_t)pid, d);
    if (!path || !can_run(path, &st))
        return; /* it will fail, or is in another root */
    struct follow_image im = {.pid = pid, .status = -1};
    im.refused = make_ready(f, path, &st);
    im.command = remote_command(f->arena, (pid_t)pid, d->args[d->nr == SYS_execveat ? 2 : 1]);
    im.parent = procfs_parent((pid_t)pid);
    im.time_ns = time_now_ns();
    VEC_PUSH(&f->images, im);
}

/* A process that only forked has no image until the counter file or its end tells of it. */
static void take_exit(struct follow *f, uint32_t pid, int code)
{
    struct follow_image *im = image_of(f, pid, UINT64_MAX);
    if (!im || im->status >= 0) {
        VEC_PUSH(&f->images, ((struct follow_image){.pid = pid,
                                                    .status = -1,
                                                    .is_fork = true,
                                                    .time_ns = time_now_ns(),
                                                    .parent = procfs_parent((pid_t)pid)}));
        im = &f->images.data[f->images.len - 1];
    }
    im->status = (code & 0xff) << 8;
    im->end_ns = time_now_ns();
}

/* ---- the loop's part ---- */

static bool answer(int listener, uint64_t id)
{
    struct seccomp_notif_resp r = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r) == 0;
}

static bool is_asked(int listener)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};
    return poll(&p, 1, 0) > 0 && (p.revents & POLLIN);
}

void follow_take(struct follow *f)
{
    while (f->listener >= 0 && is_asked(f->listener)) {
        struct seccomp_notif n = {0};
        if (ioctl(f->listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
            continue; /* it is gone, or a signal took it out; then it asks again */
        *f->asked = n.id;
        size_t images = f->images.len;
        uint32_t pid = procfs_process_of((pid_t)n.pid);
        if (pid && n.data.nr == SYS_exit_group)
            take_exit(f, pid, (int)n.data.args[0]);
        else if (pid)
            take_exec(f, pid, &n.data);
        if (!answer(f->listener, n.id))
            f->images.len = images; /* a signal took it out of the call, which will come again */
        *f->asked = 0;
    }
}

int follow_fd(const struct follow *f) { return f ? f->listener : -1; }

/* ---- the guardian ---- */

static _Noreturn void guard(int listener, int end_fd, const uint64_t *asked)
{
    char byte;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2 && null >= 0; fd++)
        dup2(null, fd);
    int fds[2] = {dup3(listener, 60, O_CLOEXEC), dup3(end_fd, 61, O_CLOEXEC)};
    syscall(SYS_close_range, 3, 59, 0);
    syscall(SYS_close_range, 62, ~0u, 0);
    if (chdir("/") < 0 || read(fds[1], &byte, 1) < 0)
        _exit(1);
    if (*asked)
        answer(fds[0], *asked);
    struct pollfd p = {.fd = fds[0], .events = POLLIN};
    while (poll(&p, 1, -1) >= 0 && !(p.revents & (POLLHUP | POLLERR | POLLNVAL))) {
        struct seccomp_notif n = {0};
        if ((p.revents & POLLIN) && ioctl(fds[0], SECCOMP_IOCTL_NOTIF_RECV, &n) == 0)
            answer(fds[0], n.id);
    }
    _exit(0);
}

/* In a session of its own, where no signal from the terminal reaches it; nobody's child, so that nobody waits for it.
 */
static int start_guardian(int listener, const uint64_t *asked)
{
    int end[2], status;
    if (pipe2(end, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        close(end[1]);
        if (setsid() < 0 || fork() != 0)
            _exit(0);
        guard(listener, end[0], asked);
    }
    close(end[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return end[1];
}

/* Takes the listener that follow_install sent. */
int follow_begin(struct follow *f, int socket, pid_t pid, enum launch_mode mode)
{
    char byte;
    struct iovec io = {&byte, 1};
    union {
        struct cmsghdr h;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&m))
        return -1;
    void *page = mmap(NULL, sizeof *f->asked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -1;
    f->asked = page;
    memcpy(&f->listener, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof f->listener);
    f->guardian_fd = start_guardian(f->listener, f->asked);
    f->mount_ns = open(arena_printf(f->arena, "/proc/%d/ns/mnt", (int)pid), O_RDONLY | O_CLOEXEC);
    if (mode == LAUNCH_MODE_USER_NS)
        f->user_ns = open(arena_printf(f->arena, "/proc/%d/ns/user", (int)pid), O_RDONLY | O_CLOEXEC);
    return 0;
}

struct follow *follow_new(struct launch_program *p, struct counters *c, const struct rewrite_options *opt)
{
    struct arena *a = arena_new();
    struct follow *f = ARENA_NEW(a, struct follow);
    *f = (struct follow){.p = p,
                         .counters = c,
                         .opt = opt,
                         .arena = a,
                         .listener = -1,
                         .mount_ns = -1,
                         .user_ns = -1,
                         .guardian_fd = -1};
    for (size_t i = 0; i < p->module_count; i++)
        VEC_PUSH(&f->bound, p->modules[i].copy != NULL);
    return f;
}

const struct follow_image *follow_images(const struct follow *f, size_t *n)
{
    *n = f->images.len;
    return f->images.data;
}

void follow_free(struct follow *f)
{
    if (!f)
        return;
    int fds[] = {f->listener, f->mount_ns, f->user_ns, f->guardian_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (f->asked)
        munmap(f->asked, sizeof *f->asked);
    VEC_FREE(&f->known);
    VEC_FREE(&f->images);
    VEC_FREE(&f->bound);
    arena_free(f->arena);
}
