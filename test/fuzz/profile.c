/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes the reader of profiles: a file is refused in one line, or every painter can paint it. The seeds are the
 * results of the store's own tests, written by it when the first input comes: the input is a list of changes to one of
 * them (byte 0 which; then 5 bytes each: 4 where, 1 what), for a database of its own making SQLite would refuse at
 * once. */
#include "fuzz.h"

#include <stdlib.h>
#include <unistd.h>

#include "../unit/store/fixture.h"
#include "report/report.h"
#include "store/store.h"

static const char *const names[] = {"typical", "nasty", "nothing", "counts", "empty", "nasty-spied"};
static struct file_bytes seeds[ARRAY_LEN(names)];

static void make_seed(size_t k)
{
    char path[64];
    struct store *s;
    snprintf(path, sizeof path, "/dev/shm/mtool-fuzz-%d.profile", (int)getpid());
    struct prof_result *r = fixture_result(names[k]);
    FUZZ_CHECK(store_create(path, "seed", true, &s) == 0 && store_commit(s, r) == 0);
    store_abort(s);
    prof_result_free(r);
    FUZZ_CHECK(file_map(path, &seeds[k]) == 0);
    unlink(path);
}

static void paint(const struct prof_result *r)
{
    struct strbuf out = {0};
    for (int by = REPORT_BY_OBJECT; by <= REPORT_BY_ADVICE; by++) {
        struct report_options o = {.all = true, .by = by, .columns = 60u + 20u * (unsigned)by};
        report_summary(r, &o, &out);
        report_table(r, &o, &out);
    }
    report_json(r, &out);
    report_counts_json(r, &out);
    report_counts_text(r, &out);
    str_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct prof_result *r;
    size_t k = len ? bytes[0] % ARRAY_LEN(names) : 0;
    if (!seeds[k].len)
        make_seed(k);
    uint8_t *file = xmalloc(seeds[k].len);
    memcpy(file, seeds[k].data, seeds[k].len);
    for (size_t at = 1; at + 5 <= len; at += 5) {
        uint32_t where;
        memcpy(&where, bytes + at, 4);
        file[where % seeds[k].len] = bytes[at + 4];
    }
    fuzz_begin();
    const char *path = fuzz_file(file, seeds[k].len);
    int rc = store_read(path, &r);
    fuzz_check_said(rc, path);
    if (rc == 0) {
        paint(r);
        prof_result_free(r);
    }
    struct strbuf out = {0};
    fuzz_check_said(store_dump(path, false, &out), path);
    str_free(&out);
    free(file);
    return 0;
}
