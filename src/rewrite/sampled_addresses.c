/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses that runs were seen to execute outside of what unwind tables describe, kept for the next copies: where
 * something holds the address of a function around them, it is proven to be code (cfg_build_sampled). Any set is as
 * good as any other: one that is missing or damaged costs counts of such functions, nothing else.
 *
 *   0  "mtoolsee"   8 version  12 times written  16 addresses
 *   24 hash of all that follows, 32 hex digits: tells one from another
 *   56 address[addresses], ascending, 64 bits each, as in the file
 */
#include "rewrite/impl.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SAMPLED_VERSION = 1,
    HASH_BYTES = 32,
    SAMPLED_HEADER_BYTES = 56,
    ADDRESSES_MAX = 1 << 16,
    TIMES_MAX = 6,
    LINE_BYTES = 64
};
static const double NEWS_MIN = 0.002; /* of all samples: less is not worth another copy */

struct header {
    char magic[8];
    uint32_t version, times;
    uint64_t count;
    char hash[HASH_BYTES];
};
_Static_assert(sizeof(struct header) == SAMPLED_HEADER_BYTES, "the header is drawn above");

struct sampled {
    VEC(uint64_t) at; /* sorted, unique */
    uint32_t times;
    char id[HASH_BYTES + 1];
};

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool read_sampled(const char *path, struct sampled *out)
{
    struct file_bytes f;
    struct header h;
    char hash[HASH_BYTES + 1];
    *out = (struct sampled){0};
    if (!path || file_map(path, &f) < 0)
        return false;
    bool ok = f.len >= sizeof h;
    if (ok) {
        memcpy(&h, f.data, sizeof h);
        ok = !memcmp(h.magic, "mtoolsee", sizeof h.magic) && h.version == SAMPLED_VERSION && h.count <= ADDRESSES_MAX &&
             f.len == sizeof h + h.count * 8;
    }
    if (ok) {
        file_hash_hex(f.data + sizeof h, f.len - sizeof h, hash);
        ok = !memcmp(hash, h.hash, HASH_BYTES);
    }
    for (uint64_t k = 0; ok && k < h.count; k++) {
        uint64_t at;
        memcpy(&at, f.data + sizeof h + k * 8, 8);
        VEC_PUSH(&out->at, at);
    }
    if (ok) {
        out->times = h.times;
        memcpy(out->id, hash, sizeof out->id);
    }
    file_unmap(&f);
    return ok;
}

static int write_sampled(const struct sampled *s, const char *path)
{
    struct header h = {.magic = {'m', 't', 'o', 'o', 'l', 's', 'e', 'e'},
                       .version = SAMPLED_VERSION,
                       .times = s->times,
                       .count = s->at.len};
    char hash[HASH_BYTES + 1];
    struct strbuf file = {0};
    file_hash_hex(s->at.data, s->at.len * 8, hash);
    memcpy(h.hash, hash, HASH_BYTES);
    str_put(&file, &h, sizeof h);
    str_put(&file, s->at.data, s->at.len * 8);
    int rc = file_write_kept(path, file.data, file.len, 0600);
    str_free(&file);
    return rc;
}

bool rewrite_sampled_id(const char *path, char id[33])
{
    struct sampled s;
    bool ok = read_sampled(path, &s);
    memcpy(id, s.id, sizeof s.id);
    VEC_FREE(&s.at);
    return ok;
}

/* Has an address of the same line of the cache been seen? */
static bool is_known_line(const struct sampled *s, uint64_t addr)
{
    size_t lo = PARTITION_POINT(i, 0, s->at.len, s->at.data[i] / LINE_BYTES < addr / LINE_BYTES);
    return lo < s->at.len && s->at.data[lo] / LINE_BYTES == addr / LINE_BYTES;
}

static bool is_described(const struct image *img, const struct image_unwind *u, uint64_t addr)
{
    const struct image_section *s = image_section_of(img, addr);
    return !image_is_code(img, addr) || image_unwind_find(u, addr) != ID_NONE ||
           (s && strncmp(s->name, ".plt", 4) == 0);
}

/* Adds what is outside of the unwind tables; returns how many of the samples fell on lines that nothing was known of.
 */
static uint64_t add_news(struct sampled *s, const struct image *img, const struct rewrite_sample *samples, size_t count)
{
    struct image_unwind u;
    uint64_t news = 0;
    size_t before = s->at.len;
    if (image_unwind_read(img, &u) < 0)
        return 0;
    for (size_t k = 0; k < count && s->at.len < ADDRESSES_MAX; k++) {
        if (is_described(img, &u, samples[k].addr))
            continue;
        struct sampled old = *s;
        old.at.len = before;
        news += is_known_line(&old, samples[k].addr) ? 0 : samples[k].count;
        VEC_PUSH(&s->at, samples[k].addr);
    }
    if (!s->at.len)
        return 0;
    size_t n = 0;
    qsort(s->at.data, s->at.len, sizeof *s->at.data, by_value);
    for (size_t k = 0; k < s->at.len; k++)
        if (!n || s->at.data[n - 1] != s->at.data[k])
            s->at.data[n++] = s->at.data[k];
    s->at.len = n;
    return news;
}

int rewrite_sampled_write(const char *in, const struct rewrite_sample *samples, size_t count, uint64_t all,
                          const char *path)
{
    struct image *img;
    struct sampled s;
    int rc = 0;
    read_sampled(path, &s);
    if (s.times < TIMES_MAX && image_open(in, &img) == 0) {
        uint64_t news = add_news(&s, img, samples, count);
        s.times++;
        if (news && (double)news >= NEWS_MIN * (double)all)
            rc = write_sampled(&s, path);
        image_close(img);
    }
    VEC_FREE(&s.at);
    return rc;
}

int rw_build_cfg(struct rw *w)
{
    struct sampled s;
    read_sampled(w->opt->sampled, &s);
    int rc = cfg_build_sampled(w->img, s.at.data, s.at.len, &w->cfg);
    VEC_FREE(&s.at);
    return rc;
}
