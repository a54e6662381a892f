/* SPDX-License-Identifier: Apache-2.0
 * The one way to speak to the user: errors, warnings with ids, notes, progress. All of it on stderr, a line each, in
 * one write so that lines of several processes do not mix. */
#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

bool diag_quiet;
int diag_verbose;

static VEC(struct diag_warning) warnings;
static _Thread_local struct strbuf *held; /* workers of parallel.c have that of the thread which they work for */
static pthread_mutex_t holding = PTHREAD_MUTEX_INITIALIZER;
static bool progress_shown;
static const char *progress_phase;
static double progress_start_s, progress_last_s;

uint64_t time_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double time_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double time_of_thread_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double start_s;

void time_start(void) { start_s = time_now_s(); }
double time_since_start_s(void) { return time_now_s() - start_s; }

__attribute__((format(printf, 2, 0))) static void put_line(const char *prefix, const char *fmt, va_list ap,
                                                           const char *id)
{
    diag_progress_end();
    char text[4096];
    int n = snprintf(text, sizeof text, "mtool: %s", prefix);
    n += vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
    if (n > (int)sizeof text - 80)
        n = (int)sizeof text - 80;
    for (int i = 0; i < n; i++)
        if ((uint8_t)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = '?';
    if (id)
        n += snprintf(text + n, sizeof text - (size_t)n, " [%s]", id);
    text[n++] = '\n';
    if (write(2, text, (size_t)n) < 0)
        return;
}

int diag_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[1024];
    if (held && vsnprintf(text, sizeof text, fmt, ap) >= 0) {
        pthread_mutex_lock(&holding);
        str_puts(held, text);
        pthread_mutex_unlock(&holding);
    } else {
        put_line("error: ", fmt, ap, NULL);
    }
    va_end(ap);
    return -1;
}

void diag_hold(struct strbuf *to) { held = to; }

struct strbuf *diag_held(void) { return held; }

void diag_warn(const char *id, const char *fmt, ...)
{
    va_list ap, ap2;
    va_start(ap, fmt);
    va_copy(ap2, ap);
    char text[2048];
    vsnprintf(text, sizeof text, fmt, ap2);
    va_end(ap2);
    struct diag_warning w = {xstrdup(id), xstrdup(text)};
    VEC_PUSH(&warnings, w);
    put_line("warning: ", fmt, ap, id);
    va_end(ap);
}

size_t diag_warnings(const struct diag_warning **out)
{
    *out = warnings.data;
    return warnings.len;
}

void diag_note(const char *fmt, ...)
{
    if (diag_quiet)
        return;
    va_list ap;
    va_start(ap, fmt);
    put_line("", fmt, ap, NULL);
    va_end(ap);
}

void diag_debug(int level, const char *fmt, ...)
{
    if (diag_verbose < level)
        return;
    va_list ap;
    va_start(ap, fmt);
    put_line("debug: ", fmt, ap, NULL);
    va_end(ap);
}

void diag_progress(const char *phase, uint64_t done, uint64_t total) { diag_progress_of(phase, NULL, done, total); }

void diag_progress_of(const char *phase, const char *what, uint64_t done, uint64_t total)
{
    if (diag_quiet || !isatty(2))
        return;
    double now = time_now_s();
    if (progress_phase != phase) {
        progress_phase = phase;
        progress_start_s = now;
    }
    if (now - progress_start_s < 1.0 || now - progress_last_s < 0.1)
        return;
    progress_last_s = now;
    char text[200], share[16] = "", name[32] = "";
    if (total)
        snprintf(share, sizeof share, " %3.0f %% ", 100.0 * (double)done / (double)total);
    if (what)
        snprintf(name, sizeof name, ": %.28s", what);
    for (char *c = name; *c; c++)
        *c = (uint8_t)*c < 0x20 || *c == 0x7f ? '?' : *c;
    int n = snprintf(text, sizeof text, "\r\033[Kmtool: %.100s%s%s %.0f s", phase, name, share, now - progress_start_s);
    progress_shown = true;
    if (write(2, text, (size_t)n) < 0)
        return;
}

void diag_progress_end(void)
{
    if (progress_shown && write(2, "\r\033[K", 4) < 0)
        return;
    progress_shown = false;
    progress_phase = NULL;
}
