/* SPDX-License-Identifier: Apache-2.0
 * Linked by `mtool ld` into each executable and shared object: its counters are the memory of a file from the start, or
 * are written to one when the process ends or the object is unloaded. Raw system calls, no symbol that others could
 * see; nothing is printed, and what cannot be written is left. A file that exists is never touched: the next free name
 * of NAME, NAME.2, NAME.3, ... is taken. */
#include <asm/unistd.h>
#include <stddef.h>

#include "ldrt/call.h"
#include "wire/link.h"

enum { PATH = 4096, NAMES = 10000, AT_FDCWD = -100, READ_ONLY = 0, WRITE_NEW = 02 | 0100 | 0200 | 02000000 };
enum { EEXIST = 17, PAGE = 4096, PROT_RW = 3, MAP_SHARED_FIXED = 0x11, MAP_ANONYMOUS_FIXED = 0x32, RLIMIT_FSIZE = 1 };

extern uint64_t counters_begin[] __asm__("__start_mtool_counters") __attribute__((weak, visibility("hidden")));
extern uint64_t counters_end[] __asm__("__stop_mtool_counters") __attribute__((weak, visibility("hidden")));
/* Of the C library, which fork() of it asks; 0 where it has none. */
extern int register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                           void *dso) __asm__("__register_atfork") __attribute__((weak));

/* Of the tool's own object (runtime.h); 0 where it has none. */
extern void tool_begin(const volatile struct wire_link *note) __asm__("mtool_tool_begin")
    __attribute__((weak, visibility("hidden")));
extern void tool_forked(void) __asm__("mtool_tool_forked") __attribute__((weak, visibility("hidden")));
extern void tool_lasts(void) __asm__("mtool_tool_lasts") __attribute__((weak, visibility("hidden")));
extern void tool_end(void) __asm__("mtool_tool_end") __attribute__((weak, visibility("hidden")));

__attribute__((section(WIRE_LINK_SECTION), used)) static const volatile struct wire_link note = {
    .magic = WIRE_LINK_MAGIC, .version = WIRE_LINK_VERSION};

/* The last of the counters, for it is the last object: so that they begin and end with pages of their own. */
extern char last_page[] __asm__("mtool_last_page") __attribute__((visibility("hidden")));
__asm__(".pushsection mtool_counters,\"aw\",@nobits\n"
        ".balign 4096\n"
        ".globl mtool_last_page\n"
        ".hidden mtool_last_page\n"
        "mtool_last_page: .zero 4096\n"
        ".popsection");

/* What was taken over as it is: for who reads the linked file, so it is not loaded. The link fills it. */
__asm__(".pushsection mtool_whole,\"\",@progbits\n"
        ".popsection");

/* Where this linked file begins. */
extern const char own_begin[] __asm__("__ehdr_start") __attribute__((weak, visibility("hidden")));

static int is_mapped;                    /* the counters are a file's */
static int has_ended;                    /* by the finalisers, behind which exit calls _exit */
static long own_process;                 /* whose memory this is: a child of vfork has another number */
static char made[2 * PATH];              /* the file that was made last */
static char folder[PATH], pattern[PATH]; /* the pattern: given, if not empty */

/* ---- system calls ---- */

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

static long open_new(void)
{
    for (unsigned long n = 1; n < NAMES; n++) {
        struct text t = {made, 0, sizeof made};
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
        long fd = open_file(made, WRITE_NEW);
        if (fd != -EEXIST)
            return fd;
    }
    return -1;
}

static size_t counter_bytes(void) { return (uintptr_t)counters_end - (uintptr_t)counters_begin; }

static long take_back(long fd)
{
    call(__NR_close, fd, 0, 0, 0);
    call(__NR_unlink, (long)made, 0, 0, 0);
    return -1;
}

/* The descriptor of a new file, with its first page; below 0: none can be had. A limit of its size would kill. */
static long begin_file(void)
{
    static const char zero[WIRE_LINK_COUNTS_AT - sizeof(struct wire_link_counts)];
    uint64_t limit[2] = {0};
    if (call(__NR_prlimit64, 0, RLIMIT_FSIZE, 0, (long)limit) < 0 || limit[0] < WIRE_LINK_COUNTS_AT + counter_bytes())
        return -1;
    long fd = open_new();
    uint64_t head[] = {(uint64_t)call(__NR_getpid, 0, 0, 0, 0), counter_count()};
    if (fd >= 0 && write_all(fd, (const void *)&note, sizeof note) == 0 && write_all(fd, head, sizeof head) == 0 &&
        write_all(fd, zero, sizeof zero) == 0)
        return fd;
    return fd >= 0 ? take_back(fd) : -1;
}

static long map_at(void *at, size_t len, long how, long fd)
{
    register long flags __asm__("r10") = how;
    register long file __asm__("r8") = fd;
    register long offset __asm__("r9") = fd < 0 ? 0 : WIRE_LINK_COUNTS_AT;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(__NR_mmap), "D"(at), "S"(len), "d"(PROT_RW), "r"(flags), "r"(file), "r"(offset)
                     : "rcx", "r11", "memory");
    return result;
}

/* The counters become the memory of a file, so that they outlive every end of the process. All of it is there
 * beforehand: a full disk must not be met by a counter. */
static int map_counters(int has_counts)
{
    size_t len = counter_bytes();
    long fd = begin_file();
    if (fd < 0)
        return 0;
    if (call(__NR_fallocate, fd, 0, 0, (long)(WIRE_LINK_COUNTS_AT + len)) < 0 ||
        call(__NR_lseek, fd, WIRE_LINK_COUNTS_AT, 0, 0) < 0 || (has_counts && write_all(fd, counters_begin, len) < 0) ||
        map_at(counters_begin, len, MAP_SHARED_FIXED, fd) != (long)counters_begin)
        return take_back(fd), 0;
    call(__NR_close, fd, 0, 0, 0);
    return 1;
}

/* Of libc that is linked in, the child of a fork executes code before it is told: into its parent's file. */
static int has_own_libc(void)
{
    uintptr_t from = (uintptr_t)own_begin;
    return register_atfork && (uintptr_t)register_atfork - from < (uintptr_t)counters_end - from;
}

static int has_file(void) { return note.extension[0] != 0; }

static int can_be_mapped(void)
{
    uintptr_t begins = (uintptr_t)counters_begin, ends = (uintptr_t)counters_end;
    return (!tool_begin || tool_lasts) && !has_own_libc() && !((begins | ends) & (PAGE - 1)) &&
           (uintptr_t)last_page + PAGE == ends;
}

static void forget_counts(void) /* in the child of a fork: they are the parent's */
{
    own_process = call(__NR_getpid, 0, 0, 0, 0);
    has_ended = 0;
    if (is_mapped) {
        is_mapped = map_counters(0);
        if (!is_mapped)
            map_at(counters_begin, counter_bytes(), MAP_ANONYMOUS_FIXED, -1);
        if (tool_begin)
            tool_begin(&note);
        return;
    }
    if (tool_forked)
        tool_forked();
    for (size_t i = 0; i < counter_count() && has_file(); i++)
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
    own_process = call(__NR_getpid, 0, 0, 0, 0);
    is_mapped = can_be_mapped() && map_counters(1);
    if (tool_begin)
        tool_begin(&note);
    if (register_atfork)
        register_atfork(0, 0, forget_counts, 0);
}

static void end(void)
{
    if (!counter_count() || has_ended)
        return;
    has_ended = 1;
    if (tool_end)
        tool_end();
    long fd = is_mapped || !has_file() ? -1 : begin_file();
    if (fd < 0)
        return;
    (void)write_all(fd, counters_begin, counter_bytes());
    call(__NR_close, fd, 0, 0, 0);
}

void mtool_leave_now(void) __attribute__((visibility("hidden")));
void mtool_leave_now(void)
{
    if (own_process == call(__NR_getpid, 0, 0, 0, 0))
        end();
}

/* The first to begin and the last to end: linkers order these sections by their numbers, and what ends does so from the
 * last to the first. */
__attribute__((section(".init_array.00000"), used)) static void (*const at_begin)(void) = begin;
__attribute__((section(".fini_array.00000"), used)) static void (*const at_end)(void) = end;
