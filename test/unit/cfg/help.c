/* SPDX-License-Identifier: Apache-2.0
 * What the tests of cfg share. */
#include "help.h"

const char *fixture_dir = ".";

void fixture_open(struct fixture *f, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s%s", strchr(name, '/') ? "" : fixture_dir, strchr(name, '/') ? "" : "/", name);
    assert_int_equal(image_open(path, &f->img), 0);
    assert_int_equal(cfg_build(f->img, &f->c), 0);
    cfg_check(f->c);
}

void fixture_close(struct fixture *f)
{
    cfg_free(f->c);
    image_close(f->img);
}

uint64_t label(const struct fixture *f, const char *name)
{
    for (size_t k = 0; k < f->img->symbol_count; k++)
        if (strcmp(f->img->symbols[k].name, name) == 0 && f->img->symbols[k].addr)
            return f->img->symbols[k].addr;
    print_error("no symbol %s\n", name);
    fail();
    return 0;
}

const struct cfg_func *func(const struct fixture *f, const char *name)
{
    uint32_t k = cfg_func_at(f->c, label(f, name));
    assert_int_not_equal(k, ID_NONE);
    assert_int_equal(f->c->funcs.data[k].addr, label(f, name));
    return &f->c->funcs.data[k];
}

uint32_t block_at_label(const struct fixture *f, const char *name) { return cfg_block_start(f->c, label(f, name)); }

uint32_t insn_at_label(const struct fixture *f, const char *name)
{
    uint32_t i = cfg_insn_at(f->c, label(f, name));
    assert_int_not_equal(i, ID_NONE);
    return i;
}

bool has_edge(const struct fixture *f, uint32_t from, uint32_t to, enum cfg_edge_kind kind)
{
    const struct cfg_block *b = &f->c->blocks.data[from];
    cfg_for_each_edge(b, e)
        if (f->c->edges.data[e].to == to && f->c->edges.data[e].kind == kind)
            return true;
    return false;
}

uint32_t find_mark(const struct fixture *f, unsigned mark, unsigned n)
{
    uint32_t want = 0xc0de0000u + mark, imm;
    for (uint32_t i = 0; i < f->c->insns.len; i++) {
        struct x86_insn full = cfg_insn(f->c, i), *in = &full;
        const uint8_t *p =
            in->op == X86_OP_MOV && in->imm_len == 4 ? image_at(f->img, in->addr + in->imm_off, 4) : NULL;
        if (p && (memcpy(&imm, p, 4), imm == want) && n-- == 0)
            return i;
    }
    return ID_NONE;
}

uint32_t block_of_insn(const struct fixture *f, uint32_t insn)
{
    uint32_t b = cfg_block_at(f->c, cfg_insn_addr(f->c, insn));
    assert_int_not_equal(b, ID_NONE);
    return b;
}
