/* SPDX-License-Identifier: Apache-2.0
 * Which command lines are accepted, what is made of scripts, and that every unusable one is refused with one line. */
#include "help.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "launch/launch.h"

/* Finds argv with stderr taken; NULL if refused. */
static struct launch_program *find(const char *const *argv, char **err)
{
    char *path = help_path("err");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), saved = dup(2);
    dup2(fd, 2);
    struct launch_program *p;
    int rc = launch_program_find(argv, &p);
    dup2(saved, 2);
    close(saved);
    close(fd);
    *err = help_read(path);
    free(path);
    assert_true((rc == 0) == (p != NULL));
    return p;
}

static void refused(const char *const *argv, const char *because)
{
    char *err;
    assert_null(find(argv, &err));
    char *nl = strchr(err, '\n');
    if (strncmp(err, "mtool: error: ", 14) || !strstr(err, because) || !nl || nl[1])
        fail_msg("wanted one line with \"%s\", got: %s", because, err);
    free(err);
}

static struct launch_program *found(const char *const *argv)
{
    char *err;
    struct launch_program *p = find(argv, &err);
    if (!p)
        fail_msg("refused: %s", err);
    free(err);
    return p;
}

static void copy_file(const char *from, const char *to, size_t max)
{
    struct file_bytes f;
    assert_int_equal(file_map(from, &f), 0);
    assert_int_equal(file_write_whole(to, f.data, max < f.len ? max : f.len, 0755), 0);
    file_unmap(&f);
}

static void test_plain_program(void **state)
{
    (void)state;
    struct launch_program *p = found(ARGV(help_victim(), "a", "b"));
    assert_string_equal(p->argv[0], help_victim());
    assert_string_equal(p->argv[2], "b");
    assert_null(p->argv[3]);
    assert_null(p->script);
    assert_true(p->modules[0].is_exe);
    bool libc = false, interp = false;
    for (size_t i = 1; i < p->module_count; i++) {
        libc |= p->modules[i].soname && !strcmp(p->modules[i].soname, "libc.so.6");
        interp |= p->modules[i].is_interp;
        assert_int_equal(p->modules[i].path[0], '/');
        assert_null(strstr(p->modules[i].path, "vdso"));
    }
    assert_true(libc && interp);
    launch_program_free(p);
    p = found(ARGV(help_victim())); /* now known to the index */
    assert_int_equal(strlen(p->key), 32);
    launch_program_free(p);
}

static void test_by_path_variable(void **state)
{
    (void)state;
    char *bin = help_path("bin"), *in_bin = help_path("bin/tool"), *old = xstrdup(getenv("PATH"));
    mkdir(bin, 0755);
    copy_file(help_victim(), in_bin, SIZE_MAX);
    setenv("PATH", bin, 1);
    struct launch_program *p = found(ARGV("tool"));
    assert_string_equal(p->argv[0], "tool");
    assert_string_equal(p->exec_path, in_bin);
    assert_string_equal(p->path, in_bin);
    launch_program_free(p);
    chmod(in_bin, 0644);
    refused(ARGV("tool"), "bin/tool: no permission to execute it");
    refused(ARGV("no-such-tool"), "no-such-tool: not found in PATH");
    setenv("PATH", old, 1);
    free(old);
    free(bin);
    free(in_bin);
}

static void test_bad_files(void **state)
{
    (void)state;
    char *f = help_path("bad");
    refused(ARGV("/nonexistent/x"), "/nonexistent/x: no such file");
    refused(ARGV(""), "empty");
    refused(ARGV(help_dir), "is a directory");
    refused((const char *const[]){NULL}, "no program given");
    refused(ARGV("/dev/null"), "not a regular file");
    help_write(f, "hello", 0644);
    refused(ARGV(f), "no permission to execute");
    help_write(f, "hello", 0755);
    refused(ARGV(f), "not an ELF file");
    help_write(f, "", 0755);
    refused(ARGV(f), "empty");
    copy_file(help_victim(), f, 40);
    refused(ARGV(f), "cut off");
    copy_file(help_victim(), f, 3000);
    refused(ARGV(f), "bad: ");
    refused(ARGV(help_library()), "is a shared object");
    free(f);
}

static void patched(const char *to, size_t offset, const void *bytes, size_t len)
{
    copy_file(help_victim(), to, SIZE_MAX);
    int fd = open(to, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, bytes, len, (off_t)offset), len);
    close(fd);
}

static void test_other_machines(void **state)
{
    (void)state;
    char *f = help_path("other");
    patched(f, 18, "\xb7", 2); /* e_machine: EM_AARCH64 */
    refused(ARGV(f), "aarch64");
    patched(f, 4, "\1", 1); /* EI_CLASS: 32 bits */
    refused(ARGV(f), "32-bit");
    patched(f, 16, "\1", 2); /* e_type: ET_REL */
    refused(ARGV(f), "relocatable");
    free(f);
}

static void test_privileged(void **state)
{
    (void)state;
    char *f = help_path("setuid");
    copy_file(help_victim(), f, SIZE_MAX);
    if (geteuid() == 0) {
        assert_int_equal(chown(f, 65534, 65534), 0);
        chmod(f, 04755);
        refused(ARGV(f), "set-user-id");
        chmod(f, 02755);
        refused(ARGV(f), "set-group-id");
    } else {
        chmod(f, 04755); /* of this user: changes nothing */
        launch_program_free(found(ARGV(f)));
    }
    free(f);
}

static void test_scripts(void **state)
{
    (void)state;
    char *s = help_path("script"), *s2 = help_path("script2"), text[600];
    snprintf(text, sizeof text, "#! %s -x y \nwords\n", help_victim());
    help_write(s, text, 0755);
    struct launch_program *p = found(ARGV(s, "one"));
    assert_string_equal(p->script, s);
    assert_string_equal(p->exec_path, s);
    assert_string_equal(p->argv[0], s);
    assert_string_equal(p->argv[1], "one");
    assert_string_equal(p->elf_argv[0], help_victim());
    assert_string_equal(p->elf_argv[1], "-x y");
    assert_string_equal(p->elf_argv[2], s);
    assert_string_equal(p->elf_argv[3], "one");
    assert_null(p->elf_argv[4]);
    launch_program_free(p);
    snprintf(text, sizeof text, "#!%s\n", s);
    help_write(s2, text, 0755);
    p = found(ARGV(s2, "two"));
    assert_string_equal(p->elf_argv[0], help_victim());
    assert_string_equal(p->elf_argv[2], s);
    assert_string_equal(p->elf_argv[3], s2);
    assert_string_equal(p->elf_argv[4], "two");
    launch_program_free(p);
    free(s);
    free(s2);
}

static void test_env_scripts(void **state)
{
    (void)state;
    char *s = help_path("env-script");
    help_write(s, "#!/usr/bin/env sleep\n", 0755);
    struct launch_program *p = found(ARGV(s, "one"));
    assert_string_equal(file_base_name(p->path), "sleep");
    assert_string_equal(p->argv[0], "sleep");
    assert_string_equal(p->argv[1], s);
    assert_string_equal(p->argv[2], "one");
    launch_program_free(p);
    help_write(s, "#!/usr/bin/env -S sleep -a\t-b\n", 0755);
    p = found(ARGV(s, "one"));
    assert_string_equal(p->argv[2], "-b");
    assert_string_equal(p->argv[3], s);
    launch_program_free(p);
    help_write(s, "#!/usr/bin/env -i sleep\n", 0755);
    refused(ARGV(s), "asks env for more");
    help_write(s, "#!/usr/bin/env no-such-interpreter\n", 0755);
    refused(ARGV(s), "no-such-interpreter");
    free(s);
}

static void test_bad_scripts(void **state)
{
    (void)state;
    char *s = help_path("bad-script"), text[600];
    help_write(s, "#!/no/such/interpreter\n", 0755);
    refused(ARGV(s), "its interpreter /no/such/interpreter does not exist");
    help_write(s, "#!\n", 0755);
    refused(ARGV(s), "names no interpreter");
    snprintf(text, sizeof text, "#!%s\n", s);
    help_write(s, text, 0755);
    refused(ARGV(s), "call each other");
    free(s);
}

static void test_missing_library(void **state)
{
    (void)state;
    char *f = help_path("needs");
    struct file_bytes v;
    copy_file(help_victim(), f, SIZE_MAX);
    assert_int_equal(file_map(help_victim(), &v), 0);
    const uint8_t *at = memmem(v.data, v.len, "libc.so.6", 10);
    assert_non_null(at);
    patched(f, (size_t)(at - v.data), "libq.so.6", 9);
    file_unmap(&v);
    refused(ARGV(f), "libq.so.6: cannot open");
    free(f);
}

static void test_remembered_modules(void **state)
{
    (void)state;
    struct launch_program *p = found(ARGV(help_victim()));
    size_t n = p->module_count;
    struct launch_module *m = xmalloc((n + 1) * sizeof *m);
    memcpy(m, p->modules, n * sizeof *m);
    m[n] = (struct launch_module){.path = help_library(), .found_at_run_time = true};
    struct launch_program with = *p;
    with.modules = m;
    with.module_count = n + 1;
    assert_int_equal(launch_remember_modules(&with), 0);
    launch_program_free(p);
    free(m);
    p = found(ARGV(help_victim()));
    assert_int_equal(p->module_count, n + 1);
    assert_string_equal(p->modules[n].path, help_library());
    assert_true(p->modules[n].found_at_run_time);
    launch_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_program),   cmocka_unit_test(test_by_path_variable),
        cmocka_unit_test(test_bad_files),       cmocka_unit_test(test_other_machines),
        cmocka_unit_test(test_privileged),      cmocka_unit_test(test_scripts),
        cmocka_unit_test(test_env_scripts),     cmocka_unit_test(test_bad_scripts),
        cmocka_unit_test(test_missing_library), cmocka_unit_test(test_remembered_modules),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
