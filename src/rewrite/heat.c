/* SPDX-License-Identifier: Apache-2.0
 *
 * Heat: where samples of a run found a module's program counter, for copies that are made before any run has counted:
 * functions that were seen stand in front, side by side (layout). Any set is as good as any other, and no count depends
 * on it: one that is missing or damaged only costs time. The id is the writer's choice, not made from the samples,
 * since a copy's identity is settled before its layout is, and samples may come until then.
 *
 *   0  "mtoolhot"   8 version  12 unused  16 places
 *   24 id, 32 hex digits   56 hash of all that follows, 32 hex digits
 *   88 {address in the file, samples}[places], 64 bits each
 */
#include "rewrite/impl.h"

#include <stdio.h>
#include <stdlib.h>

enum { HEAT_VERSION = 1, HEAT_HEADER_BYTES = 88, HASH_BYTES = 32, PLACES_MAX = 1 << 20 };

struct header {
    char magic[8];
    uint32_t version, unused;
    uint64_t places;
    char id[HASH_BYTES], hash[HASH_BYTES];
};
_Static_assert(sizeof(struct header) == HEAT_HEADER_BYTES, "the header is drawn above");
_Static_assert(sizeof(struct rewrite_sample) == 16, "and so are the places");

static const struct rewrite_sample *places_of(const struct file_bytes *f)
{
    return (const void *)(f->data + HEAT_HEADER_BYTES);
}

/* It becomes part of a text. */
static bool is_id(const char *id)
{
    for (unsigned k = 0; k < HASH_BYTES; k++)
        if (!((id[k] >= '0' && id[k] <= '9') || (id[k] >= 'a' && id[k] <= 'f')))
            return false;
    return true;
}

/* False: the file is not whole, and nothing is mapped. */
static bool map_heat(const char *path, struct file_bytes *f, struct header *h)
{
    char hash[HASH_BYTES + 1];
    if (!path || file_map(path, f) < 0)
        return false;
    bool ok = f->len >= sizeof *h;
    if (ok) {
        memcpy(h, f->data, sizeof *h);
        ok = !memcmp(h->magic, "mtoolhot", sizeof h->magic) && h->version == HEAT_VERSION && h->places <= PLACES_MAX &&
             f->len == sizeof *h + h->places * sizeof(struct rewrite_sample);
    }
    if (ok) {
        file_hash_hex(f->data + sizeof *h, f->len - sizeof *h, hash);
        ok = !memcmp(hash, h->hash, HASH_BYTES) && is_id(h->id);
    }
    if (!ok)
        file_unmap(f);
    return ok;
}

int rewrite_heat_write(const char *path, const char *id, const struct rewrite_sample *samples, size_t count)
{
    struct header h = {.magic = {'m', 't', 'o', 'o', 'l', 'h', 'o', 't'},
                       .version = HEAT_VERSION,
                       .places = min_u64(count, PLACES_MAX)};
    char hash[HASH_BYTES + 1];
    struct strbuf file = {0};
    size_t bytes = h.places * sizeof *samples;
    file_hash_hex(samples, bytes, hash);
    memcpy(h.id, id, HASH_BYTES);
    memcpy(h.hash, hash, HASH_BYTES);
    str_put(&file, &h, sizeof h);
    str_put(&file, samples, bytes);
    int rc = file_write_kept(path, file.data, file.len, 0600);
    str_free(&file);
    return rc;
}

bool rewrite_heat_id(const char *path, char id[33], uint64_t *samples)
{
    struct file_bytes f;
    struct header h;
    id[0] = 0;
    *samples = 0;
    if (!map_heat(path, &f, &h))
        return false;
    memcpy(id, h.id, HASH_BYTES);
    id[HASH_BYTES] = 0;
    for (uint64_t k = 0; k < h.places; k++)
        *samples += places_of(&f)[k].count;
    file_unmap(&f);
    return true;
}

void rw_heat(struct rw *w)
{
    struct file_bytes f;
    struct header h;
    if (w->feedback_block || !w->opt->heat)
        return; /* counts know better */
    if (w->opt->heat_settle)
        w->opt->heat_settle(w->opt->heat_ctx);
    if (!map_heat(w->opt->heat, &f, &h))
        return;
    w->heat = ARENA_ARRAY(w->arena, uint64_t, w->cfg->funcs.len + 1);
    for (uint64_t k = 0; k < h.places; k++) {
        uint32_t func = cfg_func_at(w->cfg, places_of(&f)[k].addr);
        if (func != ID_NONE)
            w->heat[func] += min_u64(places_of(&f)[k].count, UINT32_MAX);
    }
    file_unmap(&f);
}
