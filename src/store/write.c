/* SPDX-License-Identifier: Apache-2.0
 * The result model to rows. The place is tried before the work is done; the file itself is made at the end, under a
 * hidden name in the same folder, in one transaction, and moved into place whole. Until then nothing of it is on disk,
 * so a killed run leaves nothing; while it is made, signals that would end the process wait (and make it stop early).
 */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/impl.h"

struct store {
    char *path;    /* final once committed */
    char *program; /* chosen name: what PROGRAM.N.mtool begins with, else NULL */
    bool is_forced;
};

#define NAME_MAX 200     /* bytes of the program's name in the profile's: leaves room for what is added to it */
#define NUMBER_MAX 10000 /* of PROGRAM.N.mtool */
#define BATCH_ROWS 100   /* inserted by one statement */

/* ---- strings that repeat ---- */

struct intern {
    struct map by_pointer, by_hash;
    VEC(const char *) texts;
};

static uint64_t hash_text(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    return h;
}

static uint32_t intern_text(struct intern *n, const char *s)
{
    uint64_t id, hash = 0;
    if (map_get(&n->by_pointer, (uintptr_t)s, &id))
        return (uint32_t)id;
    for (hash = hash_text(s); map_get(&n->by_hash, hash, &id) && strcmp(n->texts.data[id], s) != 0; hash++)
        ;
    if (!map_has(&n->by_hash, hash)) {
        id = n->texts.len;
        map_put(&n->by_hash, hash, id);
        VEC_PUSH(&n->texts, s);
    }
    map_put(&n->by_pointer, (uintptr_t)s, id);
    return (uint32_t)id;
}

static void intern_fini(struct intern *n)
{
    map_fini(&n->by_pointer);
    map_fini(&n->by_hash);
    VEC_FREE(&n->texts);
}

/* ---- names and places ---- */

static int cannot_write(const char *path, int err)
{
    const char *advice = err == ENOSPC || err == EDQUOT ? "free some space there or choose another place with -o FILE"
                         : err == EFBIG                 ? "it would exceed the limit of file sizes (ulimit -f)"
                         : err == ENOENT                ? "make the folder first, or choose another place with -o FILE"
                                                        : "choose another place with -o FILE";
    return diag_error("cannot write the profile %s: %s; %s", path, strerror(err), advice);
}

/* PROGRAM.mtool, PROGRAM.2.mtool, ... in the current folder. A name that begins with - would be taken for an option. */
static char *numbered_name(const char *program, unsigned n)
{
    struct strbuf s = {0};
    str_puts(&s, program[0] == '-' ? "./" : "");
    str_put(&s, program, strnlen(program, NAME_MAX));
    if (n > 1)
        str_printf(&s, ".%u", n);
    str_puts(&s, ".mtool");
    return s.data;
}

static bool is_taken(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static char *free_name(const char *program)
{
    for (unsigned n = 1;; n++) {
        char *name = numbered_name(program, n);
        if (n == NUMBER_MAX || !is_taken(name))
            return name;
        free(name);
    }
}

/* A new empty file beside `path`; *name is the caller's. -1 with errno. */
static int create_temporary(const char *path, char **name)
{
    const char *base = file_base_name(path);
    for (unsigned n = 0;; n++) {
        struct strbuf s = {0};
        str_printf(&s, "%.*s.%.*s.%d-%u", (int)(base - path), path, NAME_MAX, base, (int)getpid(), n);
        int fd = open(s.data, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) {
            *name = s.data;
            return fd;
        }
        str_free(&s);
    }
}

static int try_place(const char *path)
{
    char *name;
    int fd = create_temporary(path, &name), err = errno;
    if (fd >= 0) {
        close(fd);
        unlink(name);
    }
    free(name);
    return fd < 0 ? cannot_write(path, err) : 0;
}

static int check_given(const char *path, bool force)
{
    struct stat st;
    if (!path[0] || path[strlen(path) - 1] == '/')
        return diag_error("cannot write a profile to '%s': that is no file name", path);
    if (lstat(path, &st) < 0)
        return 0;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return diag_error("cannot write a profile to %s: it is %s; choose another place with -o FILE", path,
                          S_ISDIR(st.st_mode) ? "a folder" : "no regular file");
    return force ? 0 : diag_error("%s exists; choose another name, or --force to replace it", path);
}

int store_create(const char *path, const char *program, bool force, struct store **out)
{
    const char *base = program ? file_base_name(program) : "";
    if (!path && !base[0])
        base = "program";
    if (path && check_given(path, force) < 0)
        return -1;
    struct store *s = xmalloc(sizeof *s);
    s->is_forced = force && path;
    s->program = path ? NULL : xstrdup(base);
    s->path = path ? xstrdup(path) : free_name(base);
    if (try_place(s->path) < 0) {
        store_abort(s);
        return -1;
    }
    *out = s;
    return 0;
}

const char *store_path(const struct store *s) { return s->path; }

void store_abort(struct store *s)
{
    if (!s)
        return;
    free(s->path);
    free(s->program);
    free(s);
}

/* ---- rows ---- */

struct writer {
    sqlite3 *db;
    const sigset_t *ends; /* signals that wait; one of them makes the writer stop */
    bool is_interrupted;
    struct intern functions, sources;
};

static void bind_intern(sqlite3_stmt *st, int i, struct intern *n, const char *text)
{
    if (text)
        sqlite3_bind_int64(st, i, intern_text(n, text));
    else
        sqlite3_bind_null(st, i);
}

static void bind_or_null(sqlite3_stmt *st, int i, uint64_t value, uint64_t null)
{
    if (value == null)
        sqlite3_bind_null(st, i);
    else
        sqlite3_bind_int64(st, i, (int64_t)value);
}

static void bind_text(sqlite3_stmt *st, int i, const char *text)
{
    if (text)
        sqlite3_bind_text(st, i, text, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(st, i);
}

/* Binding can only fail for want of memory or by a wrong index, and both show in the next step. */
static void bind_column(struct writer *w, sqlite3_stmt *st, int i, const struct prof_field *c, const void *row,
                        size_t n)
{
    const void *field = (const char *)row + c->offset;
    switch (c->type) {
    case PROF_TYPE_INDEX:
        sqlite3_bind_int64(st, i, (int64_t)n);
        break;
    case PROF_TYPE_TEXT:
    case PROF_TYPE_NAME:
        bind_text(st, i, *(const char *const *)field);
        break;
    case PROF_TYPE_COUNT:
    case PROF_TYPE_COUNT_OR_0:
        bind_or_null(st, i, *(const uint64_t *)field, PROF_UNKNOWN);
        break;
    case PROF_TYPE_ADDRESS:
    case PROF_TYPE_ADDRESS_OR_0:
        sqlite3_bind_int64(st, i, (int64_t) * (const uint64_t *)field);
        break;
    case PROF_TYPE_SIZE:
    case PROF_TYPE_LINE_KEY:
        sqlite3_bind_int64(st, i, *(const uint32_t *)field);
        break;
    case PROF_TYPE_ID:
    case PROF_TYPE_TRUTH:
        bind_or_null(st, i, *(const uint32_t *)field, ID_NONE);
        break;
    case PROF_TYPE_LINE:
        bind_or_null(st, i, *(const uint32_t *)field, 0);
        break;
    case PROF_TYPE_STATUS:
        sqlite3_bind_int(st, i, *(const int *)field);
        break;
    case PROF_TYPE_SECONDS:
    case PROF_TYPE_SHARE:
    case PROF_TYPE_REAL: /* SQLite makes NULL of NAN */
        sqlite3_bind_double(st, i, *(const double *)field);
        break;
    case PROF_TYPE_BOOL:
        sqlite3_bind_int(st, i, *(const bool *)field);
        break;
    case PROF_TYPE_KIND:
        bind_text(st, i, prof_kind_name[*(const enum prof_kind *)field]);
        break;
    case PROF_TYPE_VERDICT:
        bind_text(st, i, prof_verdict_name[*(const enum prof_verdict *)field]);
        break;
    case PROF_TYPE_ESTIMABLE:
        bind_text(st, i, prof_estimable_name[*(const enum prof_estimable *)field]);
        break;
    case PROF_TYPE_DATA_KIND:
        bind_text(st, i, prof_data_kind_name[*(const enum prof_data_kind *)field]);
        break;
    case PROF_TYPE_DATA_OWNER:
        bind_text(st, i, prof_data_owner_name[*(const enum prof_data_owner *)field]);
        break;
    case PROF_TYPE_FUNCTION:
        bind_intern(st, i, &w->functions, *(const char *const *)field);
        break;
    case PROF_TYPE_SOURCE:
        bind_intern(st, i, &w->sources, *(const char *const *)field);
        break;
    case PROF_TYPE_PLAIN:
    case PROF_TYPE_OVERHEAD:
    case PROF_TYPE_MAX:
        break;
    }
}

static bool must_stop(struct writer *w)
{
    sigset_t pending;
    sigpending(&pending);
    for (int sig = 1; sig < NSIG; sig++)
        w->is_interrupted |= sigismember(w->ends, sig) == 1 && sigismember(&pending, sig) == 1;
    return w->is_interrupted;
}

/* An insertion of that many rows at once: three times as fast as one by one. */
static sqlite3_stmt *prepare_insert(sqlite3 *db, const struct store_table *t, size_t rows)
{
    struct strbuf sql = {0};
    str_printf(&sql, "INSERT INTO %s VALUES", t->name);
    for (size_t n = 0; n < rows; n++) {
        for (size_t i = 0; i < t->column_count; i++)
            str_puts(&sql, i ? ",?" : n ? "),(?" : "(?");
    }
    str_puts(&sql, ")");
    sqlite3_stmt *st = NULL;
    sqlite3_prepare_v2(db, sql.data, -1, &st, NULL);
    str_free(&sql);
    return st;
}

/* Rows first, first + many, ... while a whole batch is left; returns the first row not written, or -1. */
static ssize_t write_batches(struct writer *w, const struct store_table *t, const char *rows, size_t first,
                             size_t count, size_t many)
{
    if (count - first < many)
        return (ssize_t)first;
    sqlite3_stmt *st = prepare_insert(w->db, t, many);
    bool ok = st != NULL;
    for (; ok && count - first >= many; first += many) {
        int index = 1;
        for (size_t n = first; n < first + many; n++)
            for (size_t i = 0; i < t->column_count; i++)
                bind_column(w, st, index++, t->columns[i], rows + n * t->row_bytes, n);
        ok = sqlite3_step(st) == SQLITE_DONE && !must_stop(w);
        sqlite3_reset(st);
    }
    sqlite3_finalize(st);
    return ok ? (ssize_t)first : -1;
}

/* 0, or -1 with the reason in the connection or is_interrupted. */
static int write_rows(struct writer *w, enum store_table_id id, const void *rows, size_t count)
{
    const struct store_table *t = store_table(id);
    ssize_t first = write_batches(w, t, rows, 0, count, BATCH_ROWS);
    if (first >= 0)
        first = write_batches(w, t, rows, (size_t)first, count, 1);
    return first < 0 ? -1 : 0;
}

static size_t argument_count(const struct prof_result *r)
{
    size_t n = 0;
    while (r->command && r->command[n])
        n++;
    return n;
}

static int write_lists(struct writer *w, const struct prof_result *r)
{
    int rc = 0;
    for (unsigned id = 0; id < STORE_TABLE_COUNT && rc == 0; id++) {
        const struct store_table *t = store_table(id);
        const void *rows;
        size_t count;
        if (!t->list)
            continue;
        memcpy(&rows, (const char *)r + t->list, sizeof rows);
        memcpy(&count, (const char *)r + t->count, sizeof count);
        rc = write_rows(w, (enum store_table_id)id, rows, count);
    }
    return rc;
}

/* Functions and sources come last: they are known when all who name them are written. */
static int write_tables(struct writer *w, const struct prof_result *r)
{
    int rc = write_rows(w, STORE_RUN, r, 1);
    rc = rc ? rc : write_rows(w, STORE_MACHINE, r, 1);
    rc = rc ? rc : write_rows(w, STORE_ARGUMENT, r->command, argument_count(r));
    rc = rc ? rc : write_lists(w, r);
    rc = rc ? rc : write_rows(w, STORE_FUNCTIONS, w->functions.texts.data, w->functions.texts.len);
    return rc ? rc : write_rows(w, STORE_SOURCES, w->sources.texts.data, w->sources.texts.len);
}

/* The file is ours alone and thrown away on failure: no journal, no sync but the one at the end. */
static int begin(sqlite3 *db)
{
    struct strbuf sql = {0};
    str_printf(&sql,
               "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;"
               "PRAGMA application_id=%d; PRAGMA user_version=%d; BEGIN;",
               STORE_APPLICATION_ID, STORE_SCHEMA_VERSION);
    store_schema_sql(&sql);
    int rc = sqlite3_exec(db, sql.data, NULL, NULL, NULL) == SQLITE_OK ? 0 : -1;
    str_free(&sql);
    return rc;
}

/* The errno behind the failure, 0 if there was none. */
static int error_of(sqlite3 *db)
{
    int err = 0;
    if (sqlite3_errcode(db) == SQLITE_FULL)
        return ENOSPC;
    if (sqlite3_errcode(db) == SQLITE_IOERR)
        sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &err);
    return err ? err : sqlite3_system_errno(db);
}

static int cannot_write_database(const struct writer *w, const char *path)
{
    int err = error_of(w->db);
    if (w->is_interrupted)
        return diag_error("interrupted: the profile %s is not written", path);
    return err ? cannot_write(path, err) : diag_error("cannot write the profile %s: %s", path, sqlite3_errmsg(w->db));
}

static int write_database(const char *hidden, const char *path, const struct prof_result *r, const sigset_t *ends)
{
    struct writer w = {.ends = ends};
    int rc = sqlite3_open_v2(hidden, &w.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK ? 0 : -1;
    rc = rc ? rc : begin(w.db);
    rc = rc ? rc : write_tables(&w, r);
    rc = rc ? rc : sqlite3_exec(w.db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK ? 0 : -1;
    if (rc)
        cannot_write_database(&w, path);
    sqlite3_close(w.db);
    intern_fini(&w.functions);
    intern_fini(&w.sources);
    return rc;
}

/* ---- into place ---- */

/* Never replaces. Where the file system cannot rename so, an empty file holds the name first. -1 with errno. */
static int move_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    close(fd);
    if (rename(from, to) == 0)
        return 0;
    int err = errno;
    unlink(to);
    errno = err;
    return -1;
}

static void set_path(struct store *s, char *path)
{
    free(s->path);
    s->path = path;
}

/* Another run may have taken the name meanwhile: then the next free one. Losing the result of a long run is worse. */
static int move_into_place(struct store *s, const char *hidden)
{
    if (s->is_forced) {
        char *real = realpath(s->path, NULL); /* keep a link to a profile a link */
        int rc = rename(hidden, real ? real : s->path);
        free(real);
        return rc;
    }
    char *given = xstrdup(s->path);
    int rc;
    for (unsigned n = 2; (rc = move_new(hidden, s->path)) < 0 && errno == EEXIST && n < NUMBER_MAX; n++) {
        struct strbuf next = {0};
        str_printf(&next, "%s.%u", given, n);
        set_path(s, s->program ? numbered_name(s->program, n) : next.data);
        if (s->program)
            str_free(&next);
    }
    if (rc == 0 && !s->program && strcmp(given, s->path) != 0)
        diag_warn("profile-name-taken", "%s was made by someone else meanwhile; the profile is %s", given, s->path);
    free(given);
    return rc;
}

static void sync_folder(const char *path)
{
    const char *base = file_base_name(path);
    char *folder = base == path ? xstrdup(".") : xstrdup(path);
    if (base != path)
        folder[base - path] = 0;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd); /* some file systems cannot sync a folder; the profile is whole all the same */
        close(fd);
    }
    free(folder);
}

static int commit(struct store *s, const struct prof_result *r, const sigset_t *ends)
{
    char *hidden;
    int fd = create_temporary(s->path, &hidden), rc = fd < 0 ? cannot_write(s->path, errno) : 0;
    rc = rc ? rc : write_database(hidden, s->path, r, ends);
    if (rc == 0 && (fsync(fd) < 0 || move_into_place(s, hidden) < 0))
        rc = cannot_write(s->path, errno);
    if (rc == 0)
        sync_folder(s->path);
    if (fd >= 0) {
        close(fd);
        if (rc)
            unlink(hidden);
    }
    free(hidden);
    return rc;
}

int store_commit(struct store *s, const struct prof_result *r)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t ends, before;
    struct sigaction sa, ignore = {.sa_handler = SIG_IGN}, file_size;
    sigprocmask(SIG_BLOCK, NULL, &before);
    sigemptyset(&ends);
    for (size_t i = 0; i < ARRAY_LEN(ending); i++) /* an ignored signal would stay pending if blocked */
        if (sigaction(ending[i], NULL, &sa) == 0 && sa.sa_handler != SIG_IGN && sigismember(&before, ending[i]) == 0)
            sigaddset(&ends, ending[i]);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    sigaction(SIGXFSZ, &ignore, &file_size); /* a file too large is an error, not the end */
    int rc = commit(s, r, &ends);
    sigaction(SIGXFSZ, &file_size, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
}
