/* SPDX-License-Identifier: Apache-2.0
 * Unwind tables of the copies, behind the jump tables in the read-only data.
 *
 * needs: layout. fills: ro (appended), eh_frame_hdr_*. */
#include "rewrite/impl.h"

static uint64_t map_addr(void *ctx, uint32_t fde, uint64_t addr_old, bool is_landing_pad)
{
    const struct rw *w = ctx;
    const struct cfg *c = w->cfg;
    const struct image_fde *d = &c->unwind.fdes[fde];
    uint32_t f = cfg_func_at(c, d->addr);
    const struct cfg_func *fn = &c->funcs.data[f];
    if (is_landing_pad) {
        uint32_t b = cfg_block_start(c, addr_old);
        return rw_block_moved(w, b) ? rw_enter(w, b) : addr_old;
    }
    if (addr_old >= fn->addr + fn->size)
        return w->funcs[f].addr_new + w->funcs[f].size_new;
    uint32_t i = cfg_insn_at(c, addr_old);
    return i == ID_NONE ? 0 : w->funcs[f].addr_new + w->insn_off[i];
}

int rw_unwind(struct rw *w, size_t *bad_func)
{
    struct cfg *c = w->cfg;
    VEC(struct image_moved_func) moved = {0};
    VEC(uint32_t) ids = {0};
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        if (!w->funcs[f].is_moved || fn->is_plt)
            continue;
        struct image_moved_func m = {fn->fde, w->funcs[f].addr_new, w->funcs[f].size_new};
        VEC_PUSH(&moved, m);
        VEC_PUSH(&ids, f);
    }
    uint64_t first = ALIGN_UP(w->ro_vaddr + w->ro.len, (uint64_t)16), at_lsda, at_frame, at_hdr;
    struct image_unwind_out out = {0};
    size_t bad = 0;
    int rc = 0;
    if (moved.len)
        rc = image_unwind_emit(w->img, &c->unwind, moved.data, moved.len, map_addr, w, first, &out, &at_lsda, &at_frame,
                               &at_hdr, &bad);
    if (rc < 0) {
        *bad_func = bad < ids.len ? ids.data[bad] : SIZE_MAX; /* none is to blame: out of reach of one another */
    } else if (moved.len) {
        static const char zero[64];
        const struct strbuf *parts[3] = {&out.lsda, &out.frame, &out.hdr};
        uint64_t at[3] = {at_lsda, at_frame, at_hdr};
        for (int k = 0; k < 3; k++) {
            while (w->ro_vaddr + w->ro.len < at[k])
                str_put(&w->ro, zero, min_u64(sizeof zero, at[k] - w->ro_vaddr - w->ro.len));
            if (parts[k]->len)
                str_put(&w->ro, parts[k]->data, parts[k]->len);
        }
        w->eh_frame_vaddr = at_frame;
        w->eh_frame_bytes = out.frame.len;
        w->eh_frame_hdr_vaddr = at_hdr;
        w->eh_frame_hdr_bytes = out.hdr.len;
    }
    str_free(&out.frame);
    str_free(&out.lsda);
    str_free(&out.hdr);
    VEC_FREE(&moved);
    VEC_FREE(&ids);
    return rc;
}
