/* SPDX-License-Identifier: Apache-2.0
 * The profile file: what is written is read back equal; nothing half-written stays; what is no profile is refused. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "store/impl.h"
#include "store/store.h"

static char folder[64];

/* Every test begins in an empty folder of its own. */
static int enter(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/mtool-store-XXXXXX");
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    char command[160];
    snprintf(command, sizeof command, "chmod -R u+w %s && rm -rf %s", folder, folder);
    return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static int files_here(void)
{
    FILE *f = popen("ls -A | wc -l", "r");
    int n = -1;
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void write_profile(const char *path, const struct prof_result *r)
{
    struct store *s;
    assert_int_equal(store_create(path, "prog", true, &s), 0);
    assert_int_equal(store_commit(s, r), 0);
    store_abort(s);
}

static void round_trip(const char *name)
{
    struct prof_result *r = fixture_result(name), *back = NULL;
    write_profile("p.mtool", r);
    assert_int_equal(store_read("p.mtool", &back), 0);
    const char *difference = fixture_difference(r, back);
    if (difference)
        fail_msg("%s: %s differs", name, difference);
    prof_result_free(back);
    prof_result_free(r);
}

static void test_round_trip(void **state)
{
    (void)state;
    round_trip("typical");
    round_trip("nasty");
    round_trip("nothing");
    round_trip("counts");
    round_trip("empty");
    round_trip("spied");
    round_trip("only-spied");
    round_trip("nasty-spied");
    assert_int_equal(files_here(), 1);
}

/* Another value for every field of a row; what names a row of another list names its first. */
static void fill_field(const struct prof_field *f, char *row, size_t i)
{
    void *field = row + f->offset;
    bool is_link = f->doc && strstr(f->doc, ".id");
    switch (prof_type_about[f->type].bytes) {
    case 1:
        *(bool *)field = true;
        break;
    case 4: /* enums too: their second value */
        *(uint32_t *)field = is_link                                                   ? 0
                             : f->type >= PROF_TYPE_KIND || f->type == PROF_TYPE_TRUTH ? 1
                                                                                       : 100 + (uint32_t)i;
        break;
    default:
        if (strcmp(prof_type_about[f->type].sql, "REAL") == 0)
            *(double *)field = 0.5 + (double)i;
        else if (f->type >= PROF_TYPE_COUNT)
            *(uint64_t *)field = 1000 + i;
        else
            *(const char **)field = f->column;
    }
}

static bool has_member(const struct prof_field *f) { return f->column && f->type != PROF_TYPE_INDEX; }

static void fill_row(const struct prof_row *row, char *to)
{
    for (size_t i = 0; i < row->field_count; i++)
        if (has_member(&row->fields[i]))
            fill_field(&row->fields[i], to, i);
}

/* A result whose every field has a value, and whose lists have one row each. */
static struct prof_result *full_result(void)
{
    struct prof_result *r = prof_result_new();
    for (unsigned id = 0; id < PROF_ROW_COUNT; id++) {
        const struct prof_row *row = &prof_rows[id];
        char *rows = row->table ? arena_alloc(r->arena, row->bytes) : (char *)r;
        size_t one = 1;
        fill_row(row, rows);
        if (row->table) {
            memcpy((char *)r + row->list, &rows, sizeof rows);
            memcpy((char *)r + row->count, &one, sizeof one);
        }
    }
    return r;
}

static void test_every_field_comes_back(void **state)
{
    (void)state;
    struct prof_result *r = full_result(), *back, *empty = prof_result_new();
    assert_non_null(fixture_difference(r, empty));
    write_profile("p.mtool", r);
    assert_int_equal(store_read("p.mtool", &back), 0);
    const char *difference = fixture_difference(r, back);
    if (difference)
        fail_msg("%s differs", difference);
    prof_result_free(empty);
    prof_result_free(back);
    prof_result_free(r);
}

/* A unit stands in the name where a mistake is possible. */
static void test_units(void **state)
{
    (void)state;
    for (unsigned id = 0; id < PROF_ROW_COUNT; id++) {
        for (size_t i = 0; i < prof_rows[id].field_count; i++) {
            const struct prof_field *f = &prof_rows[id].fields[i];
            const char *name = f->column ? f->column : f->key;
            bool is_in_seconds = strlen(name) > 2 && strcmp(name + strlen(name) - 2, "_s") == 0;
            if (is_in_seconds != (f->type == PROF_TYPE_SECONDS))
                fail_msg("%s: its name and its type have another unit", name);
        }
    }
}

static void test_views(void **state)
{
    (void)state;
    struct prof_result *r = fixture_result("spied");
    write_profile("p.mtool", r);
    prof_result_free(r);
    sqlite3 *db;
    sqlite3_stmt *st;
    static const struct {
        const char *sql;
        int rows;
    } queries[] = {{"SELECT function, memory_s FROM bottleneck WHERE memory_s > 0", 3},
                   {"SELECT * FROM loop", 3},
                   {"SELECT * FROM procedure", 2},
                   {"SELECT * FROM estimate WHERE scope = 'self'", 5},
                   {"SELECT * FROM measurement", 10},
                   {"SELECT * FROM overhead WHERE overhead > 1", 2},
                   {"SELECT * FROM named_block WHERE function IS NULL", 1},
                   {"SELECT * FROM object WHERE branch_s IS NULL", 5},
                   {"SELECT * FROM data_level WHERE level = 'L2' AND misses > 2", 3}};
    assert_int_equal(sqlite3_open_v2("p.mtool", &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
        int rows = 0;
        assert_int_equal(sqlite3_prepare_v2(db, queries[i].sql, -1, &st, NULL), SQLITE_OK);
        while (sqlite3_step(st) == SQLITE_ROW)
            rows++;
        if (rows != queries[i].rows)
            fail_msg("%s: %d rows", queries[i].sql, rows);
        sqlite3_finalize(st);
    }
    sqlite3_close(db);
}

static void test_names(void **state)
{
    (void)state;
    struct prof_result *r = fixture_result("empty");
    struct store *a, *b, *c;
    assert_int_equal(store_create(NULL, "/usr/bin/prog", false, &a), 0);
    assert_int_equal(store_create(NULL, "/usr/bin/prog", false, &b), 0); /* at the same time */
    assert_int_equal(files_here(), 0);
    assert_int_equal(store_commit(a, r), 0);
    assert_int_equal(store_commit(b, r), 0);
    assert_string_equal(store_path(a), "prog.mtool");
    assert_string_equal(store_path(b), "prog.2.mtool");
    assert_int_equal(store_create(NULL, "prog", false, &c), 0);
    assert_string_equal(store_path(c), "prog.3.mtool");
    store_abort(a);
    store_abort(b);
    store_abort(c);
    assert_int_equal(store_create(NULL, "-rf", false, &a), 0);
    assert_string_equal(store_path(a), "./-rf.mtool");
    store_abort(a);
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_int_equal(store_create(NULL, name, false, &a), 0);
    assert_int_equal(store_commit(a, r), 0);
    store_abort(a);
    assert_int_equal(files_here(), 3);
    prof_result_free(r);
}

static void test_given_name(void **state)
{
    (void)state;
    struct prof_result *r = fixture_result("empty");
    struct store *s;
    assert_int_equal(store_create("a.mtool", "p", false, &s), 0);
    close(open("a.mtool", O_CREAT | O_WRONLY, 0600)); /* someone else was faster */
    assert_int_equal(store_commit(s, r), 0);
    assert_string_equal(store_path(s), "a.mtool.2");
    store_abort(s);
    assert_int_equal(store_create("a.mtool", "p", false, &s), -1);
    assert_int_equal(store_create("a.mtool", "p", true, &s), 0);
    assert_int_equal(store_commit(s, r), 0);
    assert_string_equal(store_path(s), "a.mtool");
    store_abort(s);
    struct prof_result *back;
    assert_int_equal(store_read("a.mtool", &back), 0);
    prof_result_free(back);
    prof_result_free(r);
}

static void test_refused_places(void **state)
{
    (void)state;
    struct store *s;
    assert_int_equal(mkdir("d", 0755), 0);
    close(open("f", O_CREAT | O_WRONLY, 0600));
    static const char *const places[] = {"nowhere/a.mtool", "f/a.mtool", "d", "d/", "", "/dev/null", "/proc/a.mtool"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (store_create(places[i], "p", true, &s) != -1)
            fail_msg("'%s' was taken", places[i]);
    assert_int_equal(files_here(), 2);
}

/* In a child, so that the user, the limits and the signals are its own. */
static int in_child(int (*body)(void))
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int body_unwritable(void)
{
    struct store *s;
    if (geteuid() == 0 && setuid(65534) < 0)
        return 2;
    return store_create(NULL, "p", false, &s) == -1 ? 0 : 1;
}

static void test_unwritable_folder(void **state)
{
    (void)state;
    assert_int_equal(chmod(".", 0555), 0);
    assert_int_equal(in_child(body_unwritable), 0);
}

static int body_file_limit(void)
{
    struct prof_result *r = fixture_large(20000);
    struct store *s;
    struct rlimit limit = {200 << 10, 200 << 10};
    if (setrlimit(RLIMIT_FSIZE, &limit) < 0 || store_create("p.mtool", "p", false, &s) < 0)
        return 2;
    int rc = store_commit(s, r);
    store_abort(s);
    prof_result_free(r);
    return rc == -1 ? 0 : 1;
}

/* A file system of 128 KB, in a mount namespace of the child's own. */
static int body_full_disk(void)
{
    struct prof_result *r = fixture_large(20000);
    struct store *s;
    if (unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("none", folder, "tmpfs", 0, "size=128k") < 0 ||
        chdir(folder) < 0)
        return 77;
    if (store_create("p.mtool", "p", false, &s) < 0)
        return 2;
    int rc = store_commit(s, r);
    store_abort(s);
    prof_result_free(r);
    return rc == -1 && files_here() == 0 ? 0 : 1;
}

static void test_full(void **state)
{
    (void)state;
    assert_int_equal(in_child(body_file_limit), 0);
    assert_int_equal(files_here(), 0);
    int status = in_child(body_full_disk);
    if (WEXITSTATUS(status) == 77)
        skip(); /* no namespaces here */
    assert_int_equal(status, 0);
}

static int body_interrupted(void)
{
    struct prof_result *r = fixture_large(20000);
    struct store *s;
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    if (store_create("p.mtool", "p", false, &s) < 0)
        return 2;
    pid_t parent = getpid(), killer = fork();
    if (killer == 0) { /* as soon as the hidden file is there */
        while (system("ls -A | grep -q .") != 0)
            ;
        kill(parent, SIGTERM);
        _exit(0);
    }
    for (int i = 0; i < 1000; i++) { /* until one falls into a commit; the signal ends us */
        store_commit(s, r);
        unlink(store_path(s));
    }
    return 3;
}

static void test_interrupted(void **state)
{
    (void)state;
    int status = in_child(body_interrupted);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
    assert_int_equal(system("test -z \"$(ls -A | grep '^\\.')\""), 0);
}

/* ---- reading what is no good profile ---- */

static void test_foreign(void **state)
{
    (void)state;
    struct prof_result *r = fixture_result("typical"), *back;
    assert_int_equal(store_read("missing.mtool", &back), -1);
    assert_int_equal(store_read(".", &back), -1);
    assert_int_equal(store_read("/dev/zero", &back), -1);
    assert_int_equal(system("echo hello > text; : > empty; head -c 4096 /dev/urandom > random"), 0);
    assert_int_equal(store_read("text", &back), -1);
    assert_int_equal(store_read("empty", &back), -1);
    assert_int_equal(store_read("random", &back), -1);
    run_sql("other.db", "CREATE TABLE run(x)");
    assert_int_equal(store_read("other.db", &back), -1);
    write_profile("p.mtool", r);
    run_sql("p.mtool", "PRAGMA user_version=99");
    assert_int_equal(store_read("p.mtool", &back), -1);
    run_sql("p.mtool", "PRAGMA user_version=0");
    assert_int_equal(store_read("p.mtool", &back), -1);
    prof_result_free(r);
}

static void test_wrong_rows(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "DELETE FROM run",
        "INSERT INTO run SELECT * FROM run",
        "DROP TABLE edge",
        "ALTER TABLE object RENAME COLUMN samples TO sample_count",
        "UPDATE object SET kind = 'thing' WHERE id = 1",
        "UPDATE block SET module = 77 WHERE rowid = 1",
        "UPDATE block SET function = -1 WHERE rowid = 1",
        "UPDATE block SET size_bytes = 1 << 40 WHERE rowid = 1",
        "UPDATE edge SET module = 3",
        "DELETE FROM module WHERE id = 0",
        "UPDATE thread_object SET object = 5",
        "DELETE FROM thread WHERE id = 1",
        "UPDATE wait SET object = 5",
        "UPDATE region_thread SET region = 2",
        "UPDATE rank_spread SET object = 5",
        "DROP TABLE spy",
        "UPDATE data_object SET kind = 'thing' WHERE id = 1",
        "UPDATE data_cell SET object = 4",
        "UPDATE data_miss SET cache = 3 WHERE rowid = 1",
        "UPDATE data_miss SET owner_id = 1 WHERE owner = 'program'",
        "UPDATE data_miss SET owner_id = 4 WHERE owner = 'field'",
        "UPDATE data_evictor SET by_object = 4 WHERE rowid = 1",
        "UPDATE data_site SET sharing = 2",
        "UPDATE data_curve SET object = 4",
        "UPDATE data_touched SET object = 4",
        "UPDATE data_advice SET object = 4",
    };
    struct prof_result *r = fixture_result("spied"), *back;
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        write_profile("p.mtool", r);
        run_sql("p.mtool", changes[i]);
        if (store_read("p.mtool", &back) != -1)
            fail_msg("read after: %s", changes[i]);
    }
    prof_result_free(r);
}

/* Seconds of lines on a described machine; profiles from before they were there. */
static void test_line_seconds(void **state)
{
    (void)state;
    struct prof_line lines[] = {{"/home/u/a.c", 3, 10, 5, PROF_UNKNOWN, 2.5, 1.25}};
    struct prof_result *r = fixture_result("typical"), *back;
    r->lines = lines;
    r->line_count = ARRAY_LEN(lines);
    write_profile("p.mtool", r);
    assert_int_equal(store_read("p.mtool", &back), 0);
    assert_null(fixture_difference(r, back));
    assert_true(back->lines[0].memory_s > 1.2 && back->lines[0].memory_s < 1.3);
    prof_result_free(back);
    run_sql("p.mtool", "ALTER TABLE line DROP COLUMN actual_s; ALTER TABLE line DROP COLUMN memory_s");
    assert_int_equal(store_read("p.mtool", &back), -1);
    run_sql("p.mtool", "PRAGMA user_version=24");
    assert_int_equal(store_read("p.mtool", &back), 0);
    assert_int_equal(back->lines[0].instructions, 10);
    assert_true(isnan(back->lines[0].actual_s) && isnan(back->lines[0].memory_s));
    prof_result_free(back);
    prof_result_free(r);
}

/* Pages, and their bins with policies of mapping. */
static void test_pages(void **state)
{
    (void)state;
    struct prof_page pages[] = {{"sort", 0x560000, "code", 77, 1, "2100000000000000"},
                                {"kernel", 0x1000, "data", PROF_UNKNOWN, 2, NULL}};
    struct prof_page_bin bins[] = {{0, "hop", 3}, {1, "hop+place", 15}};
    struct prof_result *r = fixture_result("typical"), *back;
    r->pages = pages;
    r->page_count = ARRAY_LEN(pages);
    r->page_bins = bins;
    r->page_bin_count = ARRAY_LEN(bins);
    write_profile("p.mtool", r);
    assert_int_equal(store_read("p.mtool", &back), 0);
    assert_null(fixture_difference(r, back));
    assert_string_equal(back->pages[0].shades, "2100000000000000");
    assert_int_equal(back->page_bins[1].bin, 15);
    prof_result_free(back);
    run_sql("p.mtool", "UPDATE page_bin SET page = 2 WHERE page = 1");
    assert_int_equal(store_read("p.mtool", &back), -1);
    run_sql("p.mtool", "DROP TABLE page_bin; DROP TABLE page; PRAGMA user_version=25");
    assert_int_equal(store_read("p.mtool", &back), 0);
    assert_int_equal(back->page_count, 0);
    prof_result_free(back);
    prof_result_free(r);
}

/* What a described machine waited for, of whole modes and of objects. */
static void test_stalls(void **state)
{
    (void)state;
    struct prof_stall stalls[] = {{ID_NONE, "user", "write", 70, 7e-8},
                                  {ID_NONE, "kernel", "idle", PROF_UNKNOWN, NAN},
                                  {1, "user", "write", UINT32_MAX + 1ull, 4.294967296}};
    struct prof_result *r = fixture_result("typical"), *back;
    r->stalls = stalls;
    r->stall_count = ARRAY_LEN(stalls);
    write_profile("p.mtool", r);
    assert_int_equal(store_read("p.mtool", &back), 0);
    assert_null(fixture_difference(r, back));
    assert_int_equal(back->stall_count, 3);
    assert_int_equal(back->stalls[2].cycles, UINT32_MAX + 1ull);
    assert_string_equal(back->stalls[1].cause, "idle");
    prof_result_free(back);
    run_sql("p.mtool", "UPDATE stall SET object = 4000 WHERE object = 1");
    assert_int_equal(store_read("p.mtool", &back), -1);
    prof_result_free(r);
}

/* Schema 20 had no table of what mtool spy finds, nor had 21 arcs and samples, nor 22 stalls, nor 23 processes
 * that were followed. */
static void test_older(void **state)
{
    (void)state;
    static const char *const tables[] = {"spy",       "cache",      "data_object",  "data_frame",   "data_cell",
                                         "data_line", "data_field", "data_miss",    "data_evictor", "data_sharing",
                                         "data_site", "data_curve", "data_picture", "data_touched", "data_advice"};
    struct prof_result *r = fixture_result("typical"), *back;
    struct strbuf text = {0};
    write_profile("p.mtool", r);
    run_sql("p.mtool", "DROP TABLE data_process");
    assert_int_equal(store_read("p.mtool", &back), -1);
    run_sql("p.mtool", "PRAGMA user_version=23");
    assert_int_equal(store_read("p.mtool", &back), 0);
    prof_result_free(back);
    run_sql("p.mtool", "DROP TABLE stall");
    assert_int_equal(store_read("p.mtool", &back), -1);
    run_sql("p.mtool", "PRAGMA user_version=22");
    assert_int_equal(store_read("p.mtool", &back), 0);
    assert_null(fixture_difference(r, back));
    prof_result_free(back);
    run_sql("p.mtool", "DROP TABLE arc");
    run_sql("p.mtool", "DROP TABLE pc_sample");
    assert_int_equal(store_read("p.mtool", &back), -1);
    run_sql("p.mtool", "PRAGMA user_version=21");
    assert_int_equal(store_read("p.mtool", &back), 0);
    assert_true(r->arc_count > 0 && r->pc_sample_count > 0);
    r->arc_count = r->pc_sample_count = 0;
    assert_null(fixture_difference(r, back));
    prof_result_free(back);
    run_sql("p.mtool", "DROP VIEW data_level");
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "DROP TABLE %s", tables[i]);
        run_sql("p.mtool", sql);
    }
    assert_int_equal(store_read("p.mtool", &back), -1);
    run_sql("p.mtool", "PRAGMA user_version=20");
    assert_int_equal(store_read("p.mtool", &back), 0);
    assert_null(fixture_difference(r, back));
    assert_int_equal(back->spy_count, 0);
    assert_int_equal(store_dump("p.mtool", false, &text), 0);
    assert_non_null(strstr(text.data, "schema 20\n"));
    assert_non_null(strstr(text.data, "data_object 0 rows\n"));
    prof_result_free(back);
    run_sql("p.mtool", "PRAGMA user_version=19");
    assert_int_equal(store_read("p.mtool", &back), -1);
    str_free(&text);
    prof_result_free(r);
}

static void put_file(const char *path, const void *bytes, size_t len)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* Wherever it is cut or changed, reading ends: with a line, or with figures; never in a crash. */
static void test_damage(void **state)
{
    (void)state;
    struct prof_result *r = fixture_result("nasty-spied"), *back;
    write_profile("p.mtool", r);
    struct file_bytes whole;
    assert_int_equal(file_map("p.mtool", &whole), 0);
    for (size_t len = 0; len < whole.len; len += 1777) {
        put_file("cut.mtool", whole.data, len);
        if (store_read("cut.mtool", &back) != -1)
            fail_msg("read, cut after %zu of %zu bytes", len, whole.len);
    }
    uint8_t *copy = xmalloc(whole.len);
    for (size_t at = 0; at < whole.len; at += 397) {
        memcpy(copy, whole.data, whole.len);
        copy[at] ^= 0xff;
        copy[(at * 7919) % whole.len] ^= 0x10;
        put_file("bad.mtool", copy, whole.len);
        if (store_read("bad.mtool", &back) == 0)
            prof_result_free(back);
    }
    free(copy);
    file_unmap(&whole);
    prof_result_free(r);
}

/* Read-only places, and names that are special to SQLite's URIs. */
static void test_reads_anywhere(void **state)
{
    (void)state;
    struct prof_result *r = fixture_result("typical"), *back;
    static const char name[] = "a%20b?mode=rwc#c d\xc3\xa9.mtool";
    write_profile(name, r);
    assert_int_equal(store_read(name, &back), 0);
    prof_result_free(back);
    char *full = realpath(name, NULL);
    assert_int_equal(store_read(full, &back), 0);
    prof_result_free(back);
    free(full);
    assert_int_equal(files_here(), 1);
    prof_result_free(r);
}

static void test_dump(void **state)
{
    (void)state;
    struct prof_result *r = fixture_result("typical");
    struct strbuf text = {0}, json = {0};
    write_profile("p.mtool", r);
    assert_int_equal(store_dump("p.mtool", false, &text), 0);
    assert_non_null(strstr(text.data, "schema 26\n"));
    assert_non_null(strstr(text.data, "block      3 rows\n"));
    assert_non_null(strstr(text.data, "CREATE TABLE edge ("));
    assert_int_equal(store_dump("p.mtool", true, &json), 0);
    assert_non_null(strstr(json.data, "\"schema\": \"mtool-db-1\""));
    str_free(&text);
    str_free(&json);
    assert_int_equal(store_dump("missing", false, &text), -1);
    prof_result_free(r);
}

/* doc/profile.md shows the schema as it is. REBASE=1 writes it there. */
static void test_page(void **state)
{
    (void)state;
    static const char fence[] = "```sql\n";
    struct file_bytes file;
    struct strbuf schema = {0}, page = {0};
    const char *path = getenv("PAGE");
    assert_non_null(path);
    assert_int_equal(file_map(path, &file), 0);
    char *text = xmalloc(file.len + 1);
    memcpy(text, file.data, file.len);
    char *begin = strstr(text, fence), *end = begin ? strstr(begin + sizeof fence - 1, "```\n") : NULL;
    assert_non_null(end);
    char version[32];
    snprintf(version, sizeof version, "now %d. ", STORE_SCHEMA_VERSION);
    assert_non_null(strstr(text, version));
    store_schema_sql(&schema);
    str_put(&page, text, (size_t)(begin - text) + sizeof fence - 1);
    str_puts(&page, schema.data);
    str_puts(&page, end);
    if (getenv("REBASE"))
        put_file(path, page.data, page.len);
    else
        assert_string_equal(text, page.data);
    file_unmap(&file);
    free(text);
    str_free(&schema);
    str_free(&page);
}

static void test_many(void **state)
{
    (void)state;
    struct prof_result *r = fixture_large(20000), *back;
    write_profile("p.mtool", r);
    assert_int_equal(store_read("p.mtool", &back), 0);
    assert_null(fixture_difference(r, back));
    prof_result_free(back);
    prof_result_free(r);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip),     TEST(test_every_field_comes_back),
        TEST(test_units),          TEST(test_views),
        TEST(test_names),          TEST(test_given_name),
        TEST(test_refused_places), TEST(test_unwritable_folder),
        TEST(test_full),           TEST(test_interrupted),
        TEST(test_foreign),        TEST(test_wrong_rows),
        TEST(test_older),          TEST(test_damage),
        TEST(test_reads_anywhere), TEST(test_dump),
        TEST(test_page),           TEST(test_many),
        TEST(test_line_seconds),   TEST(test_pages),
        TEST(test_stalls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
