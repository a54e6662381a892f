/* SPDX-License-Identifier: Apache-2.0
 * See fuzz.h. The linker puts the functions here in the place of diag_error and diag_warn (--wrap). */
#include "fuzz.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned said_count;
static char said[4096];

/* Names that the linker gives. */
int __wrap_diag_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void __wrap_diag_hold(struct strbuf *to);
static struct strbuf *held;
void __wrap_diag_warn(const char *id, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

int __wrap_diag_error(const char *fmt, ...)
{
    va_list ap;
    char text[sizeof said];
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (held) {
        str_puts(held, text);
        return -1;
    }
    memcpy(said, text, sizeof said);
    said_count++;
    return -1;
}
void __wrap_diag_hold(struct strbuf *to) { held = to; }

void __wrap_diag_warn(const char *id, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap); /* so that its arguments are read */
    va_end(ap);
    FUZZ_CHECK(id[0] && text[0]);
}

_Noreturn void fuzz_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s; last said: %s\n", file, line, what, said);
    abort();
}

void fuzz_begin(void)
{
    said_count = 0;
    said[0] = 0;
    diag_quiet = true;
}

void fuzz_check_said(int rc, const char *file)
{
    FUZZ_CHECK(rc == 0 || rc == -1);
    FUZZ_CHECK(said_count == (rc == 0 ? 0u : 1u));
    FUZZ_CHECK(rc == 0 || strstr(said, file));
    said_count = 0;
}

const char *fuzz_said(void) { return said; }

void fuzz_check_tells_place(void)
{
    static const char *const whole[] = {"is not ",       "is for ",        "is a ",           "is big-endian",
                                        "file is empty", "holds only",     "has ELF type",    "too large",
                                        "made by",       "its copy would", "can be extended", "at most 4 GiB"};
    bool tells = strstr(said, "offset 0x") != NULL;
    for (size_t i = 0; i < ARRAY_LEN(whole); i++)
        tells |= strstr(said, whole[i]) != NULL;
    FUZZ_CHECK(tells);
}

static const char *put_file(int *fd, char path[40], const uint8_t *bytes, size_t len)
{
    if (*fd < 0)
        *fd = memfd_create("input", MFD_CLOEXEC);
    FUZZ_CHECK(*fd >= 0 && ftruncate(*fd, 0) == 0 && ftruncate(*fd, (off_t)len) == 0);
    FUZZ_CHECK(pwrite(*fd, bytes, len, 0) == (ssize_t)len);
    snprintf(path, 40, "/proc/self/fd/%d", *fd);
    return path;
}

const char *fuzz_file(const uint8_t *bytes, size_t len)
{
    static int fd = -1;
    static char path[40];
    return put_file(&fd, path, bytes, len);
}

const char *fuzz_other_file(const uint8_t *bytes, size_t len)
{
    static int fd = -1;
    static char path[40];
    return put_file(&fd, path, bytes, len);
}

FILE *fuzz_nowhere(void)
{
    static FILE *f;
    if (!f)
        f = fopen("/dev/null", "w");
    FUZZ_CHECK(f);
    return f;
}

uint64_t fuzz_hash(const uint8_t *bytes, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}
