/* SPDX-License-Identifier: Apache-2.0
 *
 * Profile feedback: what counts give to the next copy of the same file: how often each block, edge and entrance was
 * passed, on a logarithmic scale of 16 bits. The planner then knows the hot paths where it would guess, and the hot
 * functions stand side by side. No count depends on it: a file that is missing, damaged or of another program's way of
 * running only costs time.
 *
 *   0  "mtoollrn"   8 version  12 blocks  16 edges  20 unused  24 instructions executed
 *   32 hash of all that follows, 32 hex digits: tells one file of feedback from another
 *   64 block[blocks] edge[edges] enter[blocks], 16 bits each: 0 never passed, else more the more often
 */
#include "rewrite/impl.h"

#include <stdio.h>
#include <stdlib.h>

enum { FEEDBACK_VERSION = 1, FEEDBACK_HEADER_BYTES = 64, HASH_BYTES = 32 };

struct header {
    char magic[8];
    uint32_t version, blocks, edges, unused;
    uint64_t instructions;
    char hash[HASH_BYTES];
};
_Static_assert(sizeof(struct header) == FEEDBACK_HEADER_BYTES, "the header is drawn above");

static bool is_header(const struct header *h)
{
    return !memcmp(h->magic, "mtoollrn", sizeof h->magic) && h->version == FEEDBACK_VERSION;
}

/* Counts of at least 1 are ordered as the bits of their floats are; five bits behind the exponent's are kept. */
static uint16_t scale(uint64_t count)
{
    float f = (float)count;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return count ? (uint16_t)(RW_WEIGHT_FEEDBACK + (bits >> 18) - (127u << 5)) : 0;
}

double rw_feedback_count(uint16_t scaled)
{
    uint32_t bits = ((uint32_t)scaled - RW_WEIGHT_FEEDBACK + (127u << 5)) << 18;
    float f;
    memcpy(&f, &bits, 4);
    return scaled ? (double)f : 0;
}

static void put_scaled(struct strbuf *to, const uint64_t *counts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t v = scale(counts[i]);
        str_put(to, &v, sizeof v);
    }
}

static bool read_header(const char *path, struct header *h)
{
    FILE *f = fopen(path, "re");
    bool ok = f && fread(h, sizeof *h, 1, f) == 1 && is_header(h);
    if (f)
        fclose(f);
    return ok;
}

bool rewrite_feedback_id(const char *path, char id[33], uint64_t *instructions)
{
    struct header h;
    if (!read_header(path, &h))
        return false;
    memcpy(id, h.hash, HASH_BYTES);
    id[HASH_BYTES] = 0;
    *instructions = h.instructions;
    return true;
}

bool rewrite_feedback_fits(const char *path, const struct rewrite_map *m)
{
    struct header h;
    return read_header(path, &h) && h.blocks == m->cfg->blocks.len && h.edges == m->cfg->edges.len;
}

int rewrite_feedback_write(const struct rewrite_map *m, const struct rewrite_flow *f, uint64_t min, const char *path)
{
    const struct cfg *c = m->cfg;
    struct header h = {.magic = {'m', 't', 'o', 'o', 'l', 'l', 'r', 'n'},
                       .version = FEEDBACK_VERSION,
                       .blocks = (uint32_t)c->blocks.len,
                       .edges = (uint32_t)c->edges.len,
                       .instructions = rewrite_flow_instructions(m, f)};
    if (h.instructions < min)
        return 0;
    struct strbuf body = {0}, file = {0};
    put_scaled(&body, f->blocks, c->blocks.len);
    put_scaled(&body, f->edges, c->edges.len);
    put_scaled(&body, f->enter, c->blocks.len);
    char hash[33];
    file_hash_hex(body.data, body.len, hash);
    memcpy(h.hash, hash, HASH_BYTES);
    str_put(&file, &h, sizeof h);
    str_put(&file, body.data, body.len);
    int rc = file_write_kept(path, file.data, file.len, 0600);
    str_free(&file);
    str_free(&body);
    return rc;
}

static const uint16_t *take(struct rw *w, const uint8_t **at, size_t n)
{
    uint16_t *out = ARENA_ARRAY(w->arena, uint16_t, n + 1);
    memcpy(out, *at, n * sizeof *out);
    *at += n * sizeof *out;
    for (size_t i = 0; i < n; i++)
        if (out[i] >= RW_WEIGHT_FORCED)
            out[i] = RW_WEIGHT_FORCED - 1;
    return out;
}

void rw_feedback(struct rw *w)
{
    const struct cfg *c = w->cfg;
    struct file_bytes f;
    struct header h;
    char hash[33];
    size_t need = FEEDBACK_HEADER_BYTES + 2 * (2 * c->blocks.len + c->edges.len);
    if (!w->opt->feedback || file_map(w->opt->feedback, &f) < 0)
        return;
    bool ok = f.len == need;
    if (ok) {
        memcpy(&h, f.data, sizeof h);
        file_hash_hex(f.data + FEEDBACK_HEADER_BYTES, f.len - FEEDBACK_HEADER_BYTES, hash);
        ok = is_header(&h) && h.blocks == c->blocks.len && h.edges == c->edges.len && !memcmp(hash, h.hash, HASH_BYTES);
    }
    if (ok) {
        const uint8_t *at = f.data + FEEDBACK_HEADER_BYTES;
        w->feedback_block = take(w, &at, c->blocks.len);
        w->feedback_edge = take(w, &at, c->edges.len);
        w->feedback_enter = take(w, &at, c->blocks.len);
    }
    file_unmap(&f);
}
