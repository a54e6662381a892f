/* SPDX-License-Identifier: Apache-2.0
 * Opens a profile for reading: says first what is wrong with a file that is none. The file is taken as it is (no locks,
 * no journal beside it) and not trusted: its views cannot reach what is outside of it. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/impl.h"
#include "store/store.h"

/* Of the 100-byte header (SQLite, "Database File Format", 1.3). */
#define HEADER_BYTES 100
#define HEADER_PAGE_BYTES 16
#define HEADER_PAGES 28
#define HEADER_USER_VERSION 60
#define HEADER_APPLICATION_ID 68

int store_damaged(const char *path, const char *why)
{
    return diag_error("%s is a damaged profile (%.100s); make it again with mtool run", path, why);
}

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int check_header(const char *path, const uint8_t *head, size_t len)
{
    static const char magic[16] = "SQLite format 3";
    if (len < HEADER_BYTES || memcmp(head, magic, sizeof magic) != 0 ||
        big_endian(head + HEADER_APPLICATION_ID) != STORE_APPLICATION_ID)
        return diag_error("%s is not a profile of mtool; mtool run makes one", path);
    uint32_t version = big_endian(head + HEADER_USER_VERSION);
    if (version > STORE_SCHEMA_VERSION)
        return diag_error(
            "%s was written by a newer mtool (schema %u, this one reads %u and %u); read it with that one", path,
            version, STORE_SCHEMA_OLDEST, STORE_SCHEMA_VERSION);
    if (version < STORE_SCHEMA_OLDEST)
        return diag_error(
            "%s was written by an older mtool (schema %u, this one reads %u and %u); make it again with mtool run",
            path, version, STORE_SCHEMA_OLDEST, STORE_SCHEMA_VERSION);
    return 0;
}

/* SQLite itself takes the missing part of the last page for zeros. */
static int64_t bytes_in_all(const uint8_t *head)
{
    uint32_t page = big_endian(head + HEADER_PAGE_BYTES) >> 16;
    return (int64_t)(page == 1 ? 65536 : page) * big_endian(head + HEADER_PAGES);
}

static int check_file(const char *path)
{
    uint8_t head[HEADER_BYTES];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? diag_error("there is no profile %s; mtool run makes one", path)
                               : diag_error("cannot read %s: %s", path, strerror(errno));
    bool is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    ssize_t len = is_file ? pread(fd, head, sizeof head, 0) : 0;
    int err = errno;
    close(fd);
    if (!is_file)
        return diag_error("%s is %s; name the profile itself", path,
                          S_ISDIR(st.st_mode) ? "a folder" : "no regular file");
    if (len < 0)
        return diag_error("cannot read %s: %s", path, strerror(err));
    if (check_header(path, head, (size_t)len) < 0)
        return -1;
    return st.st_size < bytes_in_all(head) ? store_damaged(path, "its end is missing") : 0;
}

/* immutable: a profile is never changed once it has its name. */
static void put_uri(struct strbuf *out, const char *path)
{
    str_puts(out, path[0] == '/' ? "file://" : "file:");
    for (; *path; path++)
        if (strchr("%?#", *path) || (uint8_t)*path <= ' ' || (uint8_t)*path >= 0x7f)
            str_printf(out, "%%%02x", (uint8_t)*path);
        else
            str_put(out, path, 1);
    str_puts(out, "?immutable=1");
}

int store_open(const char *path, sqlite3 **out)
{
    if (check_file(path) < 0)
        return -1;
    struct strbuf uri = {0};
    put_uri(&uri, path);
    sqlite3 *db;
    int rc = sqlite3_open_v2(uri.data, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    str_free(&uri);
    if (rc == SQLITE_OK) {
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        rc = sqlite3_exec(db, "PRAGMA cell_size_check=ON; SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    }
    if (rc != SQLITE_OK) {
        store_damaged(path, sqlite3_errmsg(db));
        sqlite3_close(db);
        return -1;
    }
    *out = db;
    return 0;
}
