/* SPDX-License-Identifier: Apache-2.0
 * Plain and sampled runs: the program's end is mtool's end, the program sees its own signals, descriptors and limits,
 * signals reach it once, and samples fall where the time goes. */
#include "help.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "launch/launch.h"

static int status_of(const char *const *argv)
{
    struct help_run r = help_run(argv, NULL);
    int status = r.status;
    help_run_free(&r);
    return status;
}

static void test_exit_status(void **state)
{
    (void)state;
    assert_int_equal(status_of(ARGV(help_driver(), "plain", "-", help_victim(), "exit", "3")), 3 << 8);
    assert_int_equal(status_of(ARGV(help_driver(), "plain", "-", help_victim(), "exit", "0")), 0);
    int s = status_of(ARGV(help_driver(), "plain", "-", help_victim(), "kill", "9"));
    assert_true(WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL);
    s = status_of(ARGV(help_driver(), "plain", "-", help_victim(), "kill", "11"));
    assert_true(WIFSIGNALED(s) && WTERMSIG(s) == SIGSEGV && !WCOREDUMP(s));
    assert_int_equal(status_of(ARGV(help_driver(), "plain", "-", "/nonexistent")), 2 << 8);
}

/* Odd surroundings that a program must find again. */
static void odd_state(void)
{
    signal(SIGUSR2, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGRTMIN + 3);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct rlimit l = {100000000, 200000000};
    setrlimit(RLIMIT_FSIZE, &l);
    l = (struct rlimit){200, 300};
    setrlimit(RLIMIT_NOFILE, &l);
    dup2(1, 77);
    close(0);
}

static void test_nothing_to_notice(void **state)
{
    (void)state;
    const char *hows[] = {"plain", "watch", "count", "sampled"}; /* the timer sampler has its SIGPROF handler */
    struct help_run direct = help_run(ARGV(help_victim(), "state", "x"), odd_state);
    assert_int_equal(direct.status, 0);
    assert_non_null(strstr(direct.out, "fd 77"));
    for (size_t i = 0; i < ARRAY_LEN(hows); i++) {
        struct help_run r = help_run(ARGV(help_driver(), hows[i], "-", help_victim(), "state", "x"), odd_state);
        assert_int_equal(r.status, 0);
        assert_string_equal(r.err, "");
        assert_string_equal(r.out, direct.out);
        help_run_free(&r);
    }
    help_run_free(&direct);
}

/* ---- signals ---- */

struct live { /* a driver in a terminal of its own */
    pid_t pid;
    int fd;
    char text[4096];
    size_t len;
};

static struct live start_in_terminal(const char *const *argv)
{
    struct live l = {0};
    l.pid = forkpty(&l.fd, NULL, NULL, NULL);
    if (l.pid == 0) {
        union {
            const char *const *given;
            char *const *wanted;
        } a = {.given = argv};
        execv(argv[0], a.wanted);
        _exit(120);
    }
    return l;
}

static void read_until(struct live *l, const char *word)
{
    double end = time_now_s() + 10;
    while (!strstr(l->text, word)) {
        ssize_t n = time_now_s() < end ? read(l->fd, l->text + l->len, sizeof l->text - 1 - l->len) : -1;
        if (n <= 0)
            fail_msg("no \"%s\" in: %s", word, l->text);
        l->len += (size_t)n;
    }
}

static int end_of(struct live *l)
{
    int status = -1;
    waitpid(l->pid, &status, 0);
    close(l->fd);
    return status;
}

static void type_key(struct live *l, char c) { assert_int_equal(write(l->fd, &c, 1), 1); }

static void test_interrupt_key_is_the_programs(void **state)
{
    (void)state;
    struct live l = start_in_terminal(ARGV(help_driver(), "plain", "-", help_victim(), "catch", "2"));
    read_until(&l, "ready");
    type_key(&l, 3);
    read_until(&l, "got 1");
    assert_int_equal(end_of(&l), 7 << 8);
}

static void test_interrupt_key_ends_the_program(void **state)
{
    (void)state;
    struct live l = start_in_terminal(ARGV(help_driver(), "sampled", "-", help_victim(), "sleep"));
    read_until(&l, "ready");
    type_key(&l, 3);
    int s = end_of(&l);
    assert_true(WIFSIGNALED(s) && WTERMSIG(s) == SIGINT);
}

static void test_signals_are_passed_on(void **state)
{
    (void)state;
    const int sigs[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT};
    for (size_t i = 0; i < ARRAY_LEN(sigs); i++) {
        char number[8];
        snprintf(number, sizeof number, "%d", sigs[i]);
        struct live l = start_in_terminal(ARGV(help_driver(), "plain", "-", help_victim(), "catch", number));
        read_until(&l, "ready");
        kill(l.pid, sigs[i]);
        read_until(&l, "got 1");
        assert_int_equal(end_of(&l), 7 << 8);
    }
}

static pid_t child_of(pid_t pid)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *f = fopen(path, "re");
    if (f && !fgets(text, sizeof text, f))
        text[0] = 0;
    if (f)
        fclose(f);
    return atoi(text);
}

static void test_program_killed_from_outside(void **state)
{
    (void)state;
    struct live l = start_in_terminal(ARGV(help_driver(), "sampled", "-", help_victim(), "sleep"));
    read_until(&l, "ready");
    pid_t program = child_of(l.pid);
    assert_true(program > 0);
    kill(program, SIGKILL);
    int s = end_of(&l);
    assert_true(WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL);
}

/* A shell with job control: the job stops as one, and goes on. */
static void test_stop_and_continue(void **state)
{
    (void)state;
    char script[1024];
    snprintf(script, sizeof script, "set -m; %s plain - %s stop; echo stopped $?; fg >/dev/null; echo end $?",
             help_driver(), help_victim());
    struct live l = start_in_terminal(ARGV("/bin/bash", "-c", script));
    read_until(&l, "stopped 148");
    read_until(&l, "continued");
    read_until(&l, "end 5");
    assert_int_equal(end_of(&l), 0);
}

/* ---- samples ---- */

/* What one run wrote as its result; NULL if samples are refused here. */
static char *result_of(const char *const *argv, const char *file)
{
    struct help_run r = help_run(argv, NULL);
    assert_int_equal(r.status, 0);
    help_run_free(&r);
    return help_read(file);
}

static uint64_t symbol_address(const char *file, const char *name, uint64_t *size)
{
    struct image *img;
    uint64_t addr = 0;
    assert_int_equal(image_open(file, &img), 0);
    for (size_t i = 0; i < img->symbol_count; i++)
        if (!strcmp(img->symbols[i].name, name)) {
            addr = img->symbols[i].addr;
            *size = img->symbols[i].size;
        }
    image_close(img);
    assert_int_not_equal(addr, 0);
    return addr;
}

static uint64_t samples_in(const char *text, const char *module, uint64_t addr, uint64_t size)
{
    uint64_t n = 0;
    for (const char *s = text; (s = strstr(s, "\nsample ")); s++) {
        char path[512];
        unsigned long long at, count;
        if (sscanf(s, "\nsample %511s %llx %llu", path, &at, &count) == 3 && !strcmp(path, module) && at >= addr &&
            at < addr + size)
            n += count;
    }
    return n;
}

static void test_samples_find_the_hot_function(void **state)
{
    (void)state;
    char *file = help_path("result");
    char *text = result_of(ARGV(help_driver(), "sampled", file, help_victim(), "busy", "0.5"), file);
    if (help_value(text, "sampler") != LAUNCH_SAMPLER_PERF) {
        print_message("perf_event_open is refused here: nothing to see\n");
        skip();
    }
    uint64_t size, addr = symbol_address(help_victim(), "victim_hot", &size);
    uint64_t hot = samples_in(text, help_victim(), addr, size);
    double user = help_value(text, "samples_user"), all = help_value(text, "samples_all");
    double expected = (help_value(text, "user_s") + help_value(text, "system_s")) / help_value(text, "period_s");
    assert_true(user > 50 && user <= all);
    assert_true((double)hot > 0.8 * user);
    if (all < 0.7 * expected || all > 1.3 * expected)
        fail_msg("%g samples, expected about %g", all, expected);
    assert_int_equal(help_value(text, "processes"), 1);
    assert_int_equal(help_value(text, "threads_most"), 1);
    free(text);
    free(file);
}

static void test_samples_in_a_library_opened_late(void **state)
{
    (void)state;
    char *file = help_path("result");
    char *text = result_of(ARGV(help_driver(), "sampled", file, help_victim(), "load", help_library()), file);
    if (help_value(text, "sampler") == LAUNCH_SAMPLER_PERF) {
        uint64_t size, addr = symbol_address(help_library(), "library_work", &size);
        assert_true((double)samples_in(text, help_library(), addr, size) > 0.8 * help_value(text, "samples_user"));
    }
    free(text);
    text = result_of(ARGV(help_driver(), "watch", file, help_victim(), "load", help_library()), file);
    char want[700];
    snprintf(want, sizeof want, "module %s soname liblaunch-library.so exe 0 interp 0 run_time 1 other 0",
             help_library());
    assert_non_null(strstr(text, want));
    free(text);
    free(file);
}

static void test_threads_and_forks_are_seen(void **state)
{
    (void)state;
    char *file = help_path("result");
    char *text = result_of(ARGV(help_driver(), "watch", file, help_victim(), "threads", "3"), file);
    assert_int_equal(help_value(text, "threads_most"), 4);
    free(text);
    text = result_of(ARGV(help_driver(), "sampled", file, help_victim(), "forks", "3"), file);
    if (help_value(text, "sampler") == LAUNCH_SAMPLER_PERF)
        assert_int_equal(help_value(text, "processes"), 4);
    assert_true(help_value(text, "user_s") > 0.02);
    free(text);
    text = result_of(ARGV(help_driver(), "sampled", file, help_victim(), "system", "true"), file);
    if (help_value(text, "sampler") == LAUNCH_SAMPLER_PERF)
        assert_non_null(strstr(text, "other 1"));
    free(text);
    free(file);
}

static void test_exec_in_place_is_seen(void **state)
{
    (void)state;
    char *file = help_path("result"), command[600], want[600];
    snprintf(command, sizeof command, "exec %s busy 0.05", help_victim());
    char *text = result_of(ARGV(help_driver(), "sampled", file, "/bin/sh", "-c", command), file);
    snprintf(want, sizeof want, "\nexecuted %s\n", help_victim());
    if (help_value(text, "sampler") == LAUNCH_SAMPLER_PERF)
        assert_non_null(strstr(text, want));
    free(text);
    text = result_of(ARGV(help_driver(), "sampled", file, help_victim(), "system", "true"), file);
    assert_non_null(strstr(text, "\nexecuted -\n"));
    free(text);
    free(file);
}

static void test_cannot_be_executed(void **state)
{
    (void)state;
    char *f = help_path("no-interp"), text[200];
    memset(text, 0, sizeof text);
    strcpy(text, "\177ELF");
    help_write(f, text, 0755);
    struct help_run r = help_run(ARGV(help_driver(), "plain", "-", f), NULL);
    assert_int_equal(r.status, 2 << 8);
    assert_non_null(strstr(r.err, "mtool: error: "));
    help_run_free(&r);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_status),
        cmocka_unit_test(test_nothing_to_notice),
        cmocka_unit_test(test_interrupt_key_is_the_programs),
        cmocka_unit_test(test_interrupt_key_ends_the_program),
        cmocka_unit_test(test_signals_are_passed_on),
        cmocka_unit_test(test_program_killed_from_outside),
        cmocka_unit_test(test_stop_and_continue),
        cmocka_unit_test(test_samples_find_the_hot_function),
        cmocka_unit_test(test_samples_in_a_library_opened_late),
        cmocka_unit_test(test_threads_and_forks_are_seen),
        cmocka_unit_test(test_exec_in_place_is_seen),
        cmocka_unit_test(test_cannot_be_executed),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
