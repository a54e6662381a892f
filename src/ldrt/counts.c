/* SPDX-License-Identifier: Apache-2.0
 * Linked by `mtool ld` into each executable and shared object: writes its counters to a file when the process ends, or
 * the object is unloaded. Raw system calls, no symbol that others could see; nothing is printed, and what cannot be
 * written is left. A file that exists is never touched: the next free name of NAME, NAME.2, NAME.3, ... is taken. */
#include <asm/unistd.h>
#include <stddef.h>

#include "wire/link.h"

enum { PATH = 4096, NAMES = 10000, AT_FDCWD = -100, READ_ONLY = 0, WRITE_NEW = 01 | 0100 | 0200 | 02000000 };
enum { EEXIST = 17 };

extern uint64_t counters_begin[] __asm__("__start_mtool_counters") __attribute__((weak, visibility("hidden")));
extern uint64_t counters_end[] __asm__("__stop_mtool_counters") __attribute__((weak, visibility("hidden")));
/* Of the C library, which fork() of it asks; 0 where it has none. */
extern int register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                           void *dso) __asm__("__register_atfork") __attribute__((weak));

/* Of the tool's own object (runtime.h); 0 where it has none. */
extern void tool_begin(const volatile struct wire_link *note) __asm__("mtool_tool_begin")
    __attribute__((weak, visibility("hidden")));
extern void tool_forked(void) __asm__("mtool_tool_forked") __attribute__((weak, visibility("hidden")));
extern void tool_end(void) __asm__("mtool_tool_end") __attribute__((weak, visibility("hidden")));

__attribute__((section(WIRE_LINK_SECTION), used)) static const volatile struct wire_link note = {
    .magic = WIRE_LINK_MAGIC, .version = WIRE_LINK_VERSION};

static char folder[PATH], pattern[PATH]; /* the pattern: given, if not empty */

/* ---- system calls ---- */

static long call(long number, long a, long b, long c, long d)
{
    long result;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
}

static long open_file(const char *path, long flags) { return call(__NR_openat, AT_FDCWD, (long)path, flags, 0666); }

static int write_all(long fd, const void *bytes, size_t len)
{
    const char *p = bytes;
    while (len) {
        long n = call(__NR_write, fd, (long)p, (long)len, 0);
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* ---- names ---- */

struct text {
    char *to;
    size_t len, room;
};

static void put(struct text *t, char c)
{
    if (t->len + 1 < t->room)
        t->to[t->len++] = c;
    t->to[t->len] = 0;
}

static void put_text(struct text *t, const volatile char *s)
{
    for (; *s; s++)
        put(t, *s);
}

static void put_number(struct text *t, unsigned long v)
{
    char digits[24];
    int n = 0;
    do
        digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n)
        put(t, digits[--n]);
}

static void put_pattern(struct text *t, const char *p)
{
    for (; *p; p++)
        if (*p == '%' && p[1] == 'p')
            put_number(t, (unsigned long)call(__NR_getpid, 0, 0, 0, 0)), p++;
        else if (*p == '%' && p[1] == 'n')
            put_text(t, note.name), p++;
        else if (*p == '%' && p[1] == '%')
            put(t, '%'), p++;
        else
            put(t, *p);
}

/* The value of WIRE_LINK_ENV as the process got it. */
static void read_pattern(void)
{
    static const char name[] = WIRE_LINK_ENV "=";
    static char bytes[PATH];
    struct text out = {pattern, 0, PATH};
    long fd = open_file("/proc/self/environ", READ_ONLY), n, at = 0; /* at: in the name; below 0: it is another one */
    int is_whole = 0;
    while (fd >= 0 && !is_whole && (n = call(__NR_read, fd, (long)bytes, PATH, 0)) > 0)
        for (long i = 0; i < n && !is_whole; i++) {
            int is_value = at == sizeof name - 1;
            if (!bytes[i])
                is_whole = is_value, at = 0;
            else if (is_value)
                put(&out, bytes[i]);
            else
                at = at >= 0 && bytes[i] == name[at] ? at + 1 : -1;
        }
    if (fd >= 0)
        call(__NR_close, fd, 0, 0, 0);
}

/* ---- counters ---- */

static size_t counter_count(void) { return ((uintptr_t)counters_end - (uintptr_t)counters_begin) / 8; }

static void forget_counts(void) /* in the child of a fork: they are the parent's */
{
    if (tool_forked)
        tool_forked();
    for (size_t i = 0; i < counter_count(); i++)
        if (counters_begin[i]) /* most pages of tables were never touched */
            ((volatile uint64_t *)counters_begin)[i] = 0;
    if (tool_begin)
        tool_begin(&note);
}

static void begin(void)
{
    if (!counter_count())
        return;
    if (call(__NR_getcwd, (long)folder, PATH, 0, 0) <= 0)
        folder[0] = 0;
    read_pattern();
    if (tool_begin)
        tool_begin(&note);
    if (register_atfork)
        register_atfork(0, 0, forget_counts, 0);
}

static long open_new(void)
{
    char path[2 * PATH];
    for (unsigned long n = 1; n < NAMES; n++) {
        struct text t = {path, 0, sizeof path};
        const char *given = pattern[0] ? pattern : "%n.%p.";
        if (given[0] != '/' && folder[0]) {
            put_text(&t, folder);
            put(&t, '/');
        }
        put_pattern(&t, given);
        if (!pattern[0])
            put_text(&t, note.extension);
        if (n > 1) {
            put(&t, '.');
            put_number(&t, n);
        }
        long fd = open_file(path, WRITE_NEW);
        if (fd != -EEXIST)
            return fd;
    }
    return -1;
}

static void end(void)
{
    if (!counter_count())
        return;
    if (tool_end)
        tool_end();
    long fd = open_new();
    if (fd < 0)
        return;
    uint64_t head[] = {(uint64_t)call(__NR_getpid, 0, 0, 0, 0), counter_count()};
    if (write_all(fd, (const void *)&note, sizeof note) == 0 && write_all(fd, head, sizeof head) == 0)
        (void)write_all(fd, counters_begin, counter_count() * sizeof *counters_begin);
    call(__NR_close, fd, 0, 0, 0);
}

/* The first to begin and the last to end: linkers order these sections by their numbers, and what ends does so from the
 * last to the first. */
__attribute__((section(".init_array.00000"), used)) static void (*const at_begin)(void) = begin;
__attribute__((section(".fini_array.00000"), used)) static void (*const at_end)(void) = end;
