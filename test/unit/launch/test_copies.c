/* SPDX-License-Identifier: Apache-2.0
 * Copies and counted runs, with a rewriter that only copies files: what is made when, damage, refusals, the limit of
 * the cache; each launch mode and what makes it fall to the next; counters summed over processes; the fallback sampler.
 */
#include "help.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "launch/launch.h"

static char *result_file, *log_file;

/* Runs the driver on the victim; the result's text (heap), with the program's output in *out if not NULL. */
static char *run_count(const char *behaviour, const char *arg, void (*before)(void), char **out)
{
    unlink(log_file);
    struct help_run r = help_run(ARGV(help_driver(), "count", result_file, help_victim(), behaviour, arg), before);
    if (r.status != 0)
        fail_msg("status %x: %s", r.status, r.err);
    if (out)
        *out = xstrdup(r.out);
    help_run_free(&r);
    return help_read(result_file);
}

/* How many modules were rewritten in the last run. */
static size_t rewritten(void)
{
    if (!file_exists(log_file))
        return 0;
    char *text = help_read(log_file);
    size_t n = 0;
    for (const char *s = text; (s = strchr(s, '\n')); s++)
        n++;
    free(text);
    return n;
}

/* The word after "copy NAME ". */
static char *copy_of(const char *result, const char *name)
{
    char want[200], copy[512] = "";
    snprintf(want, sizeof want, "\ncopy %s ", name);
    const char *s = strstr(result, want);
    assert_non_null(s);
    assert_int_equal(sscanf(s + strlen(want), "%511s", copy), 1);
    return xstrdup(copy);
}

static long long size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (long long)st.st_size : -1;
}

/* ---- the cache ---- */

static void test_made_once(void **state)
{
    (void)state;
    char *text = run_count("exit", "0", NULL, NULL);
    assert_int_equal(rewritten(), 2); /* the victim and libc; not the loader */
    char *exe = copy_of(text, "launch-victim"), *libc = copy_of(text, "libc.so.6");
    assert_int_equal(size_of(exe), size_of(help_victim()) + 1);
    assert_true(size_of(libc) > 0);
    assert_string_equal(file_base_name(exe), "launch-victim");
    free(text);
    text = run_count("exit", "0", NULL, NULL);
    assert_int_equal(rewritten(), 0);
    free(text);
    free(exe);
    free(libc);
}

static void test_damage_is_fixed(void **state)
{
    (void)state;
    char *text = run_count("exit", "0", NULL, NULL), *exe = copy_of(text, "launch-victim"), path[600];
    free(text);
    assert_int_equal(truncate(exe, 1000), 0);
    free(run_count("exit", "0", NULL, NULL));
    assert_int_equal(rewritten(), 1);
    assert_int_equal(size_of(exe), size_of(help_victim()) + 1);
    int fd = open(exe, O_WRONLY | O_CLOEXEC); /* the same size, another content */
    assert_int_equal(pwrite(fd, "x", 1, 5000), 1);
    close(fd);
    free(run_count("exit", "0", NULL, NULL));
    assert_int_equal(rewritten(), 1);
    snprintf(path, sizeof path, "%.*s/meta", (int)(file_base_name(exe) - exe - 1), exe);
    help_write(path, "key 1\n", 0600);
    free(run_count("exit", "0", NULL, NULL));
    assert_int_equal(rewritten(), 1);
    snprintf(path, sizeof path, "%.*s/map", (int)(file_base_name(exe) - exe - 1), exe);
    unlink(path);
    free(run_count("exit", "0", NULL, NULL));
    assert_int_equal(rewritten(), 1);
    free(exe);
}

static void test_changed_program_is_rewritten(void **state)
{
    (void)state;
    char *prog = help_path("changing");
    struct file_bytes f;
    assert_int_equal(file_map(help_victim(), &f), 0);
    assert_int_equal(file_write_whole(prog, f.data, f.len, 0755), 0);
    for (int i = 0; i < 2; i++) {
        unlink(log_file);
        struct help_run r = help_run(ARGV(help_driver(), "count", result_file, prog, "exit", "0"), NULL);
        assert_int_equal(r.status, 0);
        help_run_free(&r);
        assert_int_equal(rewritten(), 1);
        FILE *out = fopen(prog, "ae"); /* as a new build would */
        assert_true(fputs("more", out) >= 0);
        fclose(out);
    }
    file_unmap(&f);
    free(prog);
}

static void fail_libc(void) { setenv("LAUNCH_FAKE", "fail:libc.so.6", 1); }
static void crash_exe(void) { setenv("LAUNCH_FAKE", "crash:launch-victim", 1); }

static void fresh_cache(const char *name)
{
    char *cache = help_path(name);
    setenv("XDG_CACHE_HOME", cache, 1);
    free(cache);
}

static void test_refused_modules(void **state)
{
    (void)state;
    fresh_cache("cache-refused");
    char *text = run_count("exit", "0", fail_libc, NULL);
    assert_non_null(strstr(text, "copy libc.so.6 - refused "));
    assert_non_null(strstr(text, "has too many hands"));
    char *exe = copy_of(text, "launch-victim");
    assert_string_not_equal(exe, "-");
    free(exe);
    free(text);
    text = run_count("exit", "0", NULL, NULL); /* not tried again */
    assert_int_equal(rewritten(), 0);
    assert_non_null(strstr(text, "has too many hands"));
    free(text);
    fresh_cache("cache-crash");
    text = run_count("exit", "0", crash_exe, NULL);
    assert_non_null(strstr(text, "copy launch-victim - refused the rewriter itself was ended by signal 6"));
    free(text);
    text = run_count("exit", "0", NULL, NULL); /* a crash is not remembered */
    assert_int_equal(rewritten(), 1);
    free(text);
    fresh_cache("cache");
}

static void slow_libc(void) { setenv("LAUNCH_FAKE", "slow:libc.so.6", 1); }

static void test_two_at_once_make_one(void **state)
{
    (void)state;
    fresh_cache("cache-two");
    unlink(log_file);
    char *r2 = help_path("result2");
    setenv("LAUNCH_FAKE", "slow:libc.so.6", 1);
    pid_t pid = fork();
    if (pid == 0) {
        execl(help_driver(), help_driver(), "count", r2, help_victim(), "exit", "0", (char *)NULL);
        _exit(120);
    }
    struct help_run r = help_run(ARGV(help_driver(), "count", result_file, help_victim(), "exit", "0"), slow_libc);
    unsetenv("LAUNCH_FAKE");
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(r.status, 0);
    assert_int_equal(rewritten(), 2);
    help_run_free(&r);
    free(r2);
    fresh_cache("cache");
}

static size_t entries_in(const char *dir)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.' || !strncmp(e->d_name, ".tmp", 4);
    if (d)
        closedir(d);
    return n;
}

static void test_limit_of_the_cache(void **state)
{
    (void)state;
    fresh_cache("cache-limit");
    char *text = run_count("exit", "0", NULL, NULL), *exe = copy_of(text, "launch-victim");
    char *copies = help_path("cache-limit/mtool/copies"), *tmp = help_path("cache-limit/mtool/copies/.tmp-999999999-x");
    free(text);
    assert_int_equal(entries_in(copies), 2);
    *strrchr(exe, '/') = 0;
    struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, exe, old, 0), 0);
    mkdir(tmp, 0700);
    setenv("MTOOL_CACHE_MB", "0", 1);
    struct help_run r = help_run(ARGV(help_driver(), "count", "-", "/bin/true"), NULL);
    assert_int_equal(r.status, 0);
    help_run_free(&r);
    unsetenv("MTOOL_CACHE_MB");
    assert_false(file_exists(exe)); /* old: gone; libc and true are in use: kept; the left-over is swept away */
    assert_int_equal(entries_in(copies), 2);
    free(tmp);
    free(copies);
    free(exe);
    fresh_cache("cache");
}

static void test_cache_that_cannot_be_written(void **state)
{
    (void)state;
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    struct help_run r = help_run(ARGV(help_driver(), "count", "-", help_victim(), "exit", "0"), NULL);
    assert_int_equal(r.status, 125 << 8);
    assert_non_null(strstr(r.err, "set XDG_CACHE_HOME"));
    help_run_free(&r);
    r = help_run(ARGV(help_driver(), "plain", "-", help_victim(), "exit", "4"), NULL);
    assert_int_equal(r.status, 4 << 8);
    help_run_free(&r);
    fresh_cache("cache");
}

/* ---- launch modes ---- */

static void check_counts(const char *text, long first, long last)
{
    char want[700];
    snprintf(want, sizeof want, "module %s soname - exe 1 interp 0 run_time 0 other 0 first %ld last %ld\n",
             help_victim(), first, last);
    if (!strstr(text, want))
        fail_msg("no %s in %s", want, text);
}

static void check_files_are_copies(const char *out, const char *exe)
{
    char path[600];
    long long size;
    assert_int_equal(sscanf(out, "exe %599s %lld", path, &size), 2);
    assert_string_equal(path, exe);
    assert_int_equal(size, size_of(help_victim()) + 1);
}

static void forbid_namespaces(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mount, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1 /* EPERM */),
    };
    struct sock_fprog prog = {ARRAY_LEN(code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
        _exit(119);
}

static void forbid_perf_too(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
    };
    struct sock_fprog prog = {ARRAY_LEN(code), code};
    forbid_namespaces();
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
        _exit(119);
}

static void test_mode_of_this_machine(void **state)
{
    (void)state;
    char *out, *text = run_count("files", "", NULL, &out);
    if (help_value(text, "mode") != LAUNCH_MODE_PATH) {
        check_files_are_copies(out, help_victim());
        char *libc = copy_of(text, "libc.so.6"), want[100];
        snprintf(want, sizeof want, "libc.so.6 %lld\n", size_of(libc));
        assert_non_null(strstr(out, want));
        free(libc);
    }
    check_counts(text, 42, 1);
    free(out);
    free(text);
}

static void force_user_ns(void) { setenv("MTOOL_LAUNCH", "user-ns", 1); }

static void test_user_namespace(void **state)
{
    (void)state;
    struct help_run probe = help_run(ARGV("unshare", "-U", "-m", "-r", "true"), NULL);
    bool works = probe.status == 0;
    help_run_free(&probe);
    if (!works) {
        print_message("user namespaces are refused here\n");
        skip();
    }
    char *out, *text = run_count("files", "", force_user_ns, &out);
    assert_int_equal(help_value(text, "mode"), LAUNCH_MODE_USER_NS);
    check_files_are_copies(out, help_victim());
    check_counts(text, 42, 1);
    free(out);
    free(text);
}

static void test_no_namespace_allowed(void **state)
{
    (void)state;
    char *out, *text = run_count("files", "", forbid_namespaces, &out);
    assert_int_equal(help_value(text, "mode"), LAUNCH_MODE_PATH);
    char *exe = copy_of(text, "launch-victim"), *libc = copy_of(text, "libc.so.6"), target[600] = "";
    check_files_are_copies(out, exe);
    check_counts(text, 42, 1);
    struct launch_program *p;
    assert_int_equal(launch_program_find(ARGV(help_victim()), &p), 0);
    char *link = arena_printf(p->arena, "%s/libc.so.6", launch_path_mode_dir(p));
    assert_true(readlink(link, target, sizeof target - 1) > 0);
    assert_string_equal(target, libc);
    launch_program_free(p);
    free(out);
    free(text);
    free(exe);
    free(libc);
}

static void become_nobody(void)
{
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0))
        _exit(119);
}

static void test_ordinary_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    char *dir = help_path("nobody"), *file = help_path("nobody/result");
    assert_int_equal(mkdir(dir, 0777) | chmod(dir, 0777) | chmod(help_dir, 0755), 0);
    setenv("XDG_CACHE_HOME", dir, 1);
    struct help_run r = help_run(ARGV("/bin/sh", "-c", "test -x \"$0\"", help_driver()), become_nobody);
    bool reachable = r.status == 0;
    help_run_free(&r);
    for (int i = 0; reachable && i < 2; i++) {
        r = help_run(ARGV(help_driver(), i ? "sampled" : "count", file, help_victim(), "busy", "0.2"), become_nobody);
        if (r.status)
            fail_msg("status %x: %s", r.status, r.err);
        help_run_free(&r);
        char *text = help_read(file);
        if (i == 0)
            check_counts(text, 42, 1);
        else if (help_value(text, "sampler") == LAUNCH_SAMPLER_PERF)
            assert_true(help_value(text, "samples_user") > 50);
        free(text);
        unlink(file);
    }
    fresh_cache("cache");
    free(dir);
    free(file);
    if (!reachable) {
        print_message("the build folder cannot be reached by another user\n");
        skip();
    }
}

/* ---- counters ---- */

static void test_counters_of_killed_children(void **state)
{
    (void)state;
    char *text = run_count("counted-forks", "100", NULL, NULL);
    check_counts(text, 142, 101);
    assert_int_equal(help_value(text, "forks"), 100);
    free(text);
}

static void small_file_limit(void)
{
    struct rlimit l = {4096, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &l);
    launch_own_limits();
}

static void test_limit_of_file_size(void **state)
{
    (void)state;
    free(run_count("exit", "0", NULL, NULL)); /* the copies are there */
    char *text = run_count("exit", "0", small_file_limit, NULL);
    free(text);
    unlink(result_file);
}

static void test_killed_mtool_leaves_nothing_for_long(void **state)
{
    (void)state;
    char name[64] = "/dev/shm/mtool-999999999-AbCdEf";
    help_write(name, "left over", 0600);
    free(run_count("exit", "0", NULL, NULL));
    assert_false(file_exists(name));
}

/* ---- the fallback sampler ---- */

static void check_timer(const char *how, void (*before)(void))
{
    struct help_run r = help_run(ARGV(help_driver(), how, result_file, help_victim(), "busy", "0.6"), before);
    if (r.status)
        fail_msg("status %x: %s", r.status, r.err);
    char *text = help_read(result_file), want[600];
    assert_int_equal(help_value(text, "sampler"), LAUNCH_SAMPLER_TIMER);
    assert_true(help_value(text, "samples_all") > 30);
    snprintf(want, sizeof want, "\nsample %s ", help_victim());
    double in_victim = 0, n;
    for (const char *s = text; (s = strstr(s, want)); s++)
        if (sscanf(s + strlen(want), "%*x %lf", &n) == 1)
            in_victim += n;
    assert_true(in_victim > 0.8 * help_value(text, "samples_all"));
    help_run_free(&r);
    free(text);
}

static void test_timer_sampler(void **state)
{
    (void)state;
    check_timer("timer", NULL);
    check_timer("sampled", forbid_perf_too);
}

static void test_without_any_sampler(void **state)
{
    (void)state;
    struct help_run r = help_run(ARGV(help_driver(), "timer", result_file, "/bin/sh", "-c", "exit 9"), NULL);
    assert_int_equal(r.status, 9 << 8);
    char *text = help_read(result_file);
    assert_int_equal(help_value(text, "sampler"), LAUNCH_SAMPLER_NONE);
    assert_non_null(strstr(text, "note perf_event is refused"));
    help_run_free(&r);
    free(text);
}

static int setup(void **state)
{
    help_setup(state);
    result_file = help_path("result");
    log_file = help_path("log");
    setenv("LAUNCH_FAKE_LOG", log_file, 1);
    return 0;
}

static int teardown(void **state)
{
    free(result_file);
    free(log_file);
    return help_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_once),
        cmocka_unit_test(test_damage_is_fixed),
        cmocka_unit_test(test_changed_program_is_rewritten),
        cmocka_unit_test(test_refused_modules),
        cmocka_unit_test(test_two_at_once_make_one),
        cmocka_unit_test(test_limit_of_the_cache),
        cmocka_unit_test(test_cache_that_cannot_be_written),
        cmocka_unit_test(test_mode_of_this_machine),
        cmocka_unit_test(test_user_namespace),
        cmocka_unit_test(test_no_namespace_allowed),
        cmocka_unit_test(test_ordinary_user),
        cmocka_unit_test(test_counters_of_killed_children),
        cmocka_unit_test(test_limit_of_file_size),
        cmocka_unit_test(test_killed_mtool_leaves_nothing_for_long),
        cmocka_unit_test(test_timer_sampler),
        cmocka_unit_test(test_without_any_sampler),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
