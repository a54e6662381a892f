/* SPDX-License-Identifier: Apache-2.0
 *
 * forbid PROGRAM ARGS...: executes it where namespaces, mounts and personalities are refused, as in a container.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSE(name)                                                                                                   \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

int main(int argc, char **argv)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(unshare),
        REFUSE(setns),
        REFUSE(mount),
        REFUSE(umount2),
        REFUSE(pivot_root),
        REFUSE(perf_event_open),
        REFUSE(personality),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return perror("forbid"), 125;
    execvp(argv[1], argv + 1);
    return perror(argv[1]), 126;
}
