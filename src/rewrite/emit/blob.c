/* SPDX-License-Identifier: Apache-2.0
 * The runtime blob: made from src/rt at build time, placed at the start of the new text, its configuration filled in.
 */
#include "rewrite/impl.h"

#include "rt_blob.h"

enum {
    BLOB_INIT = 0,
    BLOB_ENTRY = 8,
    BLOB_BEFORE_CLONE = 16,
    BLOB_AFTER_CLONE = 24,
    BLOB_FORKED = 32,
    BLOB_REGISTER = 40,
    BLOB_PROBES = 48,
    BLOB_LANDED = 112,
    BLOB_DESCRIBED_END = 120
};
enum {
    BLOB_CONFIG = 128,
    BLOB_CATCH = 192,
    BLOB_FAULT_RETURN = 200,
    BLOB_CHUNK_FULL = 208,
    BLOB_FORGET_LINES = 216,
    BLOB_WATCHED = 224,
    BLOB_TOLD = 232,
    BLOB_LINE = 240,
    BLOB_LINES_REACH = 288,
    BLOB_LINES_RANGE = 296,
    BLOB_STATES = 304
};

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
uint64_t rw_blob_catch(const struct rw *w) { return entrance(w, BLOB_CATCH); }
uint64_t rw_blob_forget_lines(const struct rw *w) { return entrance(w, BLOB_FORGET_LINES); }
uint64_t rw_blob_line(const struct rw *w, enum rw_line how, bool is_store)
{
    return entrance(w, BLOB_LINE + 16u * how + 8u * is_store);
}
uint64_t rw_blob_lines_reach(const struct rw *w) { return entrance(w, BLOB_LINES_REACH); }
uint64_t rw_blob_lines_range(const struct rw *w) { return entrance(w, BLOB_LINES_RANGE); }
uint64_t rw_blob_chunk_full(const struct rw *w) { return entrance(w, BLOB_CHUNK_FULL); }
uint64_t rw_blob_watched(const struct rw *w) { return entrance(w, BLOB_WATCHED); }
uint64_t rw_blob_told(const struct rw *w) { return entrance(w, BLOB_TOLD); }
uint64_t rw_blob_fault_return(const struct rw *w) { return entrance(w, BLOB_FAULT_RETURN); }

unsigned rw_blob_probe_slot(enum rw_probe what)
{
    return what == RW_PROBE_LANDED ? BLOB_LANDED : BLOB_PROBES + 8 * (unsigned)what;
}

uint64_t rw_blob_probe(const struct rw *w, const struct rw_action *a, bool gs)
{
    bool is_framed = a->frame.reg != IMAGE_CFA_NONE;
    return entrance(w, rw_blob_probe_slot(a->what) + (a->what == RW_PROBE_LANDED ? 0 : 16u * gs + 32u * is_framed));
}

struct rw_blob_probes rw_blob_probes(const struct rw *w)
{
    uint64_t addr = entrance(w, rw_blob_probe_slot(RW_PROBE_START));
    return (struct rw_blob_probes){addr, entrance(w, BLOB_DESCRIBED_END) - addr};
}

bool rw_blob_state(const struct rw *w, unsigned i, uint64_t *addr, uint32_t *pushed)
{
    uint32_t state[2];
    struct rw_blob_probes code = rw_blob_probes(w);
    memcpy(state, rt_blob + BLOB_STATES + 8 * i, sizeof state);
    *addr = w->text_vaddr + state[0];
    *pushed = state[1];
    return *addr < code.addr + code.bytes;
}

const uint8_t *rw_blob_bytes_of(size_t *len, unsigned *config)
{
    *len = sizeof rt_blob;
    *config = BLOB_CONFIG;
    return rt_blob;
}

void rw_blob_put(const struct rw *w, uint8_t *at)
{
    memcpy(at, rt_blob, sizeof rt_blob);
    uint64_t orig = w->img->kind == IMAGE_DSO ? rw_dynamic_init(w) : w->img->entry;
    uint64_t config[4] = {
        w->rw_vaddr - w->text_vaddr,
        rw_has_words(w) ? ALIGN_UP(8ull * w->counter_count, 4096ull) : 0,
        (w->instrument->runtime ? w->instrument->runtime(w) : 0) | (w->img->is_static ? RW_RUNTIME_STATIC : 0) |
            (w->opt->threads ? RW_RUNTIME_GS : 0),
        orig ? orig - w->text_vaddr : 0,
    };
    memcpy(at + BLOB_CONFIG, config, sizeof config);
    memcpy(at + BLOB_CONFIG + sizeof config, w->key, sizeof w->key);
    uint64_t rels[2] = {w->img->vaddr_lo - w->text_vaddr, w->img->kind == IMAGE_DSO ? w->ro_vaddr - w->text_vaddr : 0};
    memcpy(at + BLOB_CONFIG + sizeof config + sizeof w->key, rels, sizeof rels);
}

struct image_moved_func rw_blob_frames(const struct rw *w, struct rw_frames *out)
{
    struct rw_blob_probes code = rw_blob_probes(w);
    uint64_t addr;
    uint32_t pushed;
    for (unsigned i = 0; rw_blob_state(w, i, &addr, &pushed); i++)
        rw_frame(out, (uint32_t)(addr - code.addr), pushed);
    return (struct image_moved_func){ID_NONE, code.addr, code.bytes, out->data, out->len, false};
}
