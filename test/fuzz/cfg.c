/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes cfg_build: whatever the image reader lets through, a cfg whose invariants hold, that can be printed and asked
 * for liveness, and that is the same after it was saved and loaded. */
#include "fuzz.h"

#include "cfg/cfg.h"

static void ask_liveness(const struct cfg *c)
{
    struct cfg_liveness l = {0};
    for (uint32_t f = 0; f < c->funcs.len; f++) {
        const struct cfg_func *fn = &c->funcs.data[f];
        if (!fn->block_count)
            continue;
        cfg_liveness_build(c, f, &l);
        cfg_for_each_block(fn, b) {
            struct cfg_live first, before = cfg_live_before(&l, b);
            cfg_live_inside(&l, b, &first, 1);
            FUZZ_CHECK(first.flags <= X86_ALL_FLAGS && first.flags == before.flags &&
                       first.gpr_dead == before.gpr_dead);
        }
    }
    cfg_liveness_fini(&l);
}

static void save_and_load(const struct cfg *c)
{
    struct strbuf first = {0}, second = {0};
    struct cfg *loaded;
    FUZZ_CHECK(cfg_save(c, &first) == 0);
    FUZZ_CHECK(cfg_load((const uint8_t *)first.data, first.len, &loaded) == 0);
    cfg_check(loaded);
    FUZZ_CHECK(cfg_save(loaded, &second) == 0);
    FUZZ_CHECK(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    cfg_free(loaded);
    str_free(&first);
    str_free(&second);
}

/* Printing takes ten times as long as all the rest, so only some are. */
static void use(const struct cfg *c, bool is_printed)
{
    cfg_check(c);
    ask_liveness(c);
    for (int what = CFG_DUMP_INSN; is_printed && what <= CFG_DUMP_LOOPS; what++) {
        cfg_dump(c, (enum cfg_dump_what)what, false, NULL, fuzz_nowhere());
        cfg_dump(c, (enum cfg_dump_what)what, true, NULL, fuzz_nowhere());
    }
    save_and_load(c);
}

/* Code without unwind description: with some addresses that a run might have executed, right or wrong. */
static void build_sampled(const struct image *img, uint64_t seed)
{
    enum { SEEN = 24 };
    uint64_t seen[SEEN];
    size_t n = 0;
    struct cfg *c;
    for (size_t k = 0; k < img->section_count && n < SEEN; k++) {
        const struct image_section *s = &img->sections[k];
        for (; s->size && image_is_code(img, s->addr) && n < SEEN && (n + 1) % 8; n++)
            seen[n] = s->addr + (seed = seed * 6364136223846793005u + 1442695040888963407u) / 3 % s->size;
    }
    if (cfg_build_sampled(img, seen, n, &c) < 0)
        return;
    cfg_check(c);
    for (size_t f = 0; f + 1 < c->funcs.len; f++)
        FUZZ_CHECK(!cfg_is_gap_func(&c->funcs.data[f]) ||
                   c->funcs.data[f].addr + c->funcs.data[f].size <= c->funcs.data[f + 1].addr);
    cfg_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct image *img;
    struct cfg *c;
    fuzz_begin();
    if (image_open_bytes("input", bytes, len, &img) < 0)
        return 0;
    int rc = cfg_build(img, &c);
    fuzz_check_said(rc, "input");
    if (rc < 0) {
        fuzz_check_tells_place();
    } else {
        use(c, fuzz_hash(bytes, len) % 32 == 0);
        cfg_free(c);
        build_sampled(img, fuzz_hash(bytes, len));
    }
    image_close(img);
    return 0;
}
