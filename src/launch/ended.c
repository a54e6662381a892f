/* SPDX-License-Identifier: Apache-2.0
 * Processes whose references are followed and that are over: what is left in their chunks is handed over, and the
 * memory of these given back, so that a program may make thousands. One is over when it is gone, or when another
 * program runs in it; what is taken for alive by mistake is only handed over later.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "launch/impl.h"

static const double APART = 0.02; /* seconds from one look to the next */

static const struct wire_area *whose(const struct references *s, uint32_t area)
{
    return &s->counters->header->areas[area];
}

/* Of the first thread of a process. */
static bool is_first(const struct references *s, uint32_t area)
{
    const struct wire_stream *w = s->areas[area].stream;
    return w && w->self && w->process == area && whose(s, area)->pid;
}

static bool is_of(const struct references *s, uint32_t area, uint32_t process)
{
    const struct wire_stream *w = s->areas[area].stream;
    return w && w->self && w->process == process && whose(s, area)->pid == whose(s, process)->pid;
}

/* A process in a namespace of its own may have told the number of another one: it maps no counter file. */
void references_see_begin(struct references *s, uint32_t area)
{
    char path[40], inode[32];
    struct stat st;
    struct strbuf maps = {0};
    if (!s->counters->plan->follows || !is_first(s, area) || fstat(s->counters->file.fd, &st) < 0)
        return;
    snprintf(path, sizeof path, "/proc/%u/maps", whose(s, area)->pid);
    snprintf(inode, sizeof inode, " %llu ", (unsigned long long)st.st_ino);
    s->areas[area].is_known = procfs_read(path, &maps) == 0 && strstr(maps.data, inode);
    str_free(&maps);
}

/* A first thread that has ended stays as a zombie while others go on. */
static bool is_gone(pid_t pid)
{
    pid_t two[2];
    return !procfs_is_alive(pid) && procfs_threads(pid, two, ARRAY_LEN(two)) < 2;
}

static bool is_over(const struct references *s, uint32_t process)
{
    uint32_t pid = whose(s, process)->pid;
    for (uint32_t area = process + 1; area < s->area_count; area++)
        if (s->areas[area].is_known && is_first(s, area) && whose(s, area)->pid == pid)
            return true;
    return is_gone((pid_t)pid);
}

static void give_back(struct references *s, uint32_t area)
{
    uint64_t at = WIRE_HEADER_BYTES + area * s->counters->plan->area_bytes;
    munmap(s->areas[area].stream, WIRE_STREAM_PATHS);
    s->areas[area].stream = NULL;
    (void)!fallocate(s->counters->file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, WIRE_STREAM_BYTES);
}

static bool take_each(struct references *s, uint32_t process)
{
    bool any = false;
    for (uint32_t area = process; area < s->area_count; area++)
        any |= is_of(s, area, process) && references_take_chunk(s, area);
    return any;
}

static void close_process(struct references *s, uint32_t process)
{
    while (take_each(s, process))
        continue;
    for (uint32_t area = s->area_count; area-- > process;) /* the first last, which tells whose the others are */
        if (is_of(s, area, process)) {
            references_take_rest(s, area);
            if (s->areas[area].stream)
                give_back(s, area);
        }
    s->opt->ended(s->opt->ctx, process);
}

void references_see_ends(struct references *s)
{
    double now = time_now_s();
    if (!s->counters->plan->follows || !s->opt->ended || now - s->looked_s < APART)
        return;
    s->looked_s = now;
    for (uint32_t process = 0; process < s->area_count; process++)
        if (s->areas[process].is_known && is_first(s, process) && is_over(s, process))
            close_process(s, process);
}
