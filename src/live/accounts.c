/* SPDX-License-Identifier: Apache-2.0
 * The kernel's own accounts of a process or of the system: /proc/PID/stat, /proc/stat, /proc/vmstat, rusage. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "live/impl.h"

#define PF_KTHREAD 0x00200000u

struct live_accounts live_accounts_none(void)
{
    return (struct live_accounts){NAN, NAN, NAN, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
}

/* The fields behind "pid (name) ", which may hold anything. */
static bool stat_of(const char *path, char *line, int room, const char **fields)
{
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(line, room, f);
    if (f)
        fclose(f);
    char *end = ok ? strrchr(line, ')') : NULL;
    *fields = end && end[1] == ' ' ? end + 2 : NULL;
    return *fields != NULL;
}

static bool read_process(pid_t pid, struct live_accounts *out)
{
    char path[48], line[1024];
    const char *fields;
    /* fields 3 ff.: state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime cutime cstime */
    unsigned long long minor, cminor, major, cmajor, user, system, cuser, csystem;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!stat_of(path, line, sizeof line, &fields) ||
        sscanf(fields, "%*c %*d %*d %*d %*d %*d %*u %llu %llu %llu %llu %llu %llu %llu %llu", &minor, &cminor, &major,
               &cmajor, &user, &system, &cuser, &csystem) != 8)
        return false;
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    *out = live_accounts_none();
    out->user_s = (double)(user + cuser) * tick;
    out->system_s = (double)(system + csystem) * tick;
    out->faults_minor = minor + cminor;
    out->faults_major = major + cmajor;
    return true;
}

static uint64_t value_of(const char *path, const char *key)
{
    char line[256];
    uint64_t value = UINT64_MAX;
    size_t len = strlen(key);
    FILE *f = fopen(path, "re");
    while (f && value == UINT64_MAX && fgets(line, sizeof line, f))
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            value = strtoull(line + len, NULL, 10);
    if (f)
        fclose(f);
    return value;
}

static bool read_system(struct live_accounts *out)
{
    unsigned long long user, nice, system, idle, wait, irq, soft;
    FILE *f = fopen("/proc/stat", "re");
    int n =
        f ? fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait, &irq, &soft) : 0;
    if (f)
        fclose(f);
    if (n != 7)
        return false;
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    *out = live_accounts_none();
    out->user_s = (double)(user + nice) * tick;
    out->system_s = (double)(system + irq + soft) * tick;
    out->idle_s = (double)(idle + wait) * tick;
    out->switches = value_of("/proc/stat", "ctxt");
    uint64_t faults = value_of("/proc/vmstat", "pgfault");
    out->faults_major = value_of("/proc/vmstat", "pgmajfault");
    if (faults != UINT64_MAX && out->faults_major != UINT64_MAX)
        out->faults_minor = faults - out->faults_major;
    return true;
}

bool live_accounts_read(pid_t pid, struct live_accounts *out)
{
    return pid ? read_process(pid, out) : read_system(out);
}

static double seconds(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

struct live_accounts live_accounts_of(const struct rusage *u)
{
    return (struct live_accounts){.user_s = seconds(u->ru_utime),
                                  .system_s = seconds(u->ru_stime),
                                  .idle_s = NAN,
                                  .faults_minor = (uint64_t)u->ru_minflt,
                                  .faults_major = (uint64_t)u->ru_majflt,
                                  .switches = (uint64_t)(u->ru_nvcsw + u->ru_nivcsw),
                                  .preemptions = (uint64_t)u->ru_nivcsw};
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a == UINT64_MAX || b == UINT64_MAX ? UINT64_MAX : a - min_u64(a, b);
}

struct live_accounts live_accounts_less(const struct live_accounts *a, const struct live_accounts *b)
{
    return (struct live_accounts){.user_s = a->user_s - b->user_s,
                                  .system_s = a->system_s - b->system_s,
                                  .idle_s = a->idle_s - b->idle_s,
                                  .faults_minor = less(a->faults_minor, b->faults_minor),
                                  .faults_major = less(a->faults_major, b->faults_major),
                                  .switches = less(a->switches, b->switches),
                                  .preemptions = less(a->preemptions, b->preemptions)};
}

bool live_is_kernel_thread(pid_t tid)
{
    char path[48], line[1024];
    const char *fields;
    unsigned flags;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)tid);
    return stat_of(path, line, sizeof line, &fields) && sscanf(fields, "%*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
           flags & PF_KTHREAD;
}

size_t live_threads_of(pid_t pid, pid_t **tids)
{
    char path[48];
    VEC(pid_t) all = {0};
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            VEC_PUSH(&all, (pid_t)atoi(e->d_name));
    if (d)
        closedir(d);
    *tids = all.data;
    return all.len;
}
