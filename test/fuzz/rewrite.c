/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes rewrite_file: a file is refused in one line, or its copy is one that mtool itself takes, with unwind tables,
 * and with a map by which a run that never came has counts of zero everywhere. Which plan is made is told by a byte of
 * the header that means nothing (e_ident[9]). */
#include "fuzz.h"

#include <stdlib.h>
#include <unistd.h>

#include "rewrite/rewrite.h"

static char copy[64], map[80];

static void remove_files(void)
{
    unlink(copy);
    unlink(map);
}

static void check_map(void)
{
    struct rewrite_map *m;
    FUZZ_CHECK(rewrite_map_open(map, &m) == 0);
    size_t n = m->cfg->blocks.len;
    uint64_t *zero = xmalloc(8ull * m->counter_count), *counts = xmalloc(16 * n + 8 * m->cfg->edges.len);
    FUZZ_CHECK(rewrite_counts_solve(m, zero, counts, counts + 2 * n, counts + n) == 0);
    for (size_t i = 0; i < 2 * n + m->cfg->edges.len; i++)
        FUZZ_CHECK(counts[i] == 0);
    for (size_t b = 0; b < n; b++)
        FUZZ_CHECK(!m->block_addr_new[b] || m->block_addr_new[b] - m->text_new_lo <= m->text_new_hi - m->text_new_lo);
    free(zero);
    free(counts);
    rewrite_map_close(m);
}

static void check_copy(const struct rewrite_stats *s)
{
    struct image *img;
    struct image_unwind u;
    FUZZ_CHECK(image_open_copy(copy, &img) == 0);
    FUZZ_CHECK(image_unwind_read(img, &u) == 0);
    FUZZ_CHECK(s->funcs_moved <= s->funcs && s->file_bytes_new <= img->len_bytes);
    image_close(img);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct rewrite_options opt = {.plan = REWRITE_COUNT};
    struct rewrite_stats stats;
    if (!copy[0]) {
        snprintf(copy, sizeof copy, "/dev/shm/mtool-fuzz-%d", (int)getpid());
        snprintf(map, sizeof map, "%s.map", copy);
        atexit(remove_files);
    }
    uint8_t how = len > 9 ? bytes[9] : 0;
    if (how & 7)
        opt.plan = (enum rewrite_plan)((how & 7) % REWRITE_PLAN_COUNT);
    opt.poison = how & 8;
    opt.all_blocks = how & 16;
    opt.rpath = how & 32 ? "/tmp/a:/tmp/b" : NULL;
    opt.interp = how & 64 ? "/tmp/another-loader.so" : NULL;
    fuzz_begin();
    int rc = rewrite_file(fuzz_file(bytes, len), &opt, copy, map, &stats);
    fuzz_check_said(rc, "/proc/self/fd/");
    if (rc < 0) {
        fuzz_check_tells_place();
        return 0;
    }
    check_copy(&stats);
    check_map();
    return 0;
}
