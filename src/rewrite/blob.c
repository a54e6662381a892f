/* SPDX-License-Identifier: Apache-2.0
 * The runtime blob: made from src/rt at build time, placed at the start of the new text, its configuration filled in.
 */
#include "rewrite/impl.h"

#include "rt_blob.h"

enum { BLOB_INIT = 0, BLOB_ENTRY = 8, BLOB_BEFORE_CLONE = 16, BLOB_AFTER_CLONE = 24, BLOB_FORKED = 32, BLOB_REGISTER = 40 };
enum { BLOB_CONFIG = 48 };
enum { CONFIG_SAMPLER = 1, CONFIG_STATIC = 2, CONFIG_GS = 4 }; /* as in rt.h */

uint64_t rw_blob_bytes(void) { return ALIGN_UP((uint64_t)sizeof rt_blob, (uint64_t)64); }

static uint64_t entrance(const struct rw *w, unsigned slot)
{
    uint64_t off;
    memcpy(&off, rt_blob + slot, 8);
    return w->text_vaddr + off;
}

uint64_t rw_blob_init(const struct rw *w) { return entrance(w, BLOB_INIT); }
uint64_t rw_blob_entry(const struct rw *w) { return entrance(w, BLOB_ENTRY); }
uint64_t rw_blob_before_clone(const struct rw *w) { return entrance(w, BLOB_BEFORE_CLONE); }
uint64_t rw_blob_after_clone(const struct rw *w) { return entrance(w, BLOB_AFTER_CLONE); }
uint64_t rw_blob_register(const struct rw *w) { return entrance(w, BLOB_REGISTER); }
uint64_t rw_blob_forked(const struct rw *w) { return entrance(w, BLOB_FORKED); }

void rw_blob_put(const struct rw *w, uint8_t *at)
{
    memcpy(at, rt_blob, sizeof rt_blob);
    uint64_t orig = w->img->kind == IMAGE_DSO ? rw_dynamic_init(w) : w->img->entry;
    uint64_t config[4] = {
        w->rw_vaddr - w->text_vaddr,
        w->opt->plan == REWRITE_COUNT ? ALIGN_UP(8ull * w->counter_count, 4096ull) : 0,
        (w->opt->plan == REWRITE_SAMPLE ? CONFIG_SAMPLER : 0) | (w->img->is_static ? CONFIG_STATIC : 0) |
            (w->opt->threads ? CONFIG_GS : 0),
        orig ? orig - w->text_vaddr : 0,
    };
    memcpy(at + BLOB_CONFIG, config, sizeof config);
    memcpy(at + BLOB_CONFIG + sizeof config, w->key, sizeof w->key);
}
