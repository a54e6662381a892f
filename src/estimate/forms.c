/* SPDX-License-Identifier: Apache-2.0
 *
 * forms: which forms of instructions take part in what was executed and are unknown to the description of the machine,
 * the most executed first. Asks for them; how they are timed, and where they are kept, others know.
 */
#include "estimate/model/walks.h"

#include <stdlib.h>

enum { FORMS_MAX = 48 };
#define BLOCKS_SHARE 0.995 /* of the instructions executed: blocks that are looked at */
#define FORM_SHARE 0.0005  /* of them: worth timing */

struct heat {
    uint32_t block;
    uint64_t instructions;
};
struct unknown {
    char form[MACHINE_NAME_LEN];
    uint64_t count;
};
struct forms {
    struct join *j;
    VEC(struct heat) blocks;
    VEC(struct unknown) unknown;
};

static int compare_heat(const void *x, const void *y)
{
    const struct heat *a = x, *b = y;
    if (a->instructions != b->instructions)
        return a->instructions < b->instructions ? 1 : -1;
    return (a->block > b->block) - (a->block < b->block);
}

static void list_blocks(struct forms *f)
{
    struct join *j = f->j;
    for (uint32_t b = 0; b < j->block_count; b++)
        if (j->counts[b])
            VEC_PUSH(&f->blocks, ((struct heat){b, j->counts[b] * walk_block(j, b)->insn_count}));
    if (f->blocks.len)
        qsort(f->blocks.data, f->blocks.len, sizeof *f->blocks.data, compare_heat);
}

static void note(struct forms *f, const char *form, uint64_t count)
{
    for (size_t i = 0; i < f->unknown.len; i++)
        if (!strcmp(f->unknown.data[i].form, form)) {
            f->unknown.data[i].count += count;
            return;
        }
    struct unknown u = {.count = count};
    snprintf(u.form, sizeof u.form, "%s", form);
    VEC_PUSH(&f->unknown, u);
}

static void look_at(struct forms *f, uint32_t block)
{
    const struct cfg_block *b = walk_block(f->j, block);
    const struct machine *m = f->j->in->machine;
    const uint8_t *bytes = image_at(walk_module(f->j, block)->img, b->addr, b->size);
    struct x86_detail d;
    for (uint32_t off = 0; bytes && off < b->size; off += d.insn.len) {
        if (!x86_decode_detail(bytes + off, b->size - off, b->addr + off, &d))
            return;
        if (!d.is_pure_move && !d.is_zero_idiom && !machine_form_named(m, d.form) && machine_can_time(&d))
            note(f, d.form, f->j->counts[block]);
    }
}

static void look_at_hot(struct forms *f)
{
    uint64_t observed = 0;
    for (size_t i = 0; i < f->blocks.len && (double)observed < BLOCKS_SHARE * (double)f->j->instructions; i++) {
        if (walk_module(f->j, f->blocks.data[i].block)->img)
            look_at(f, f->blocks.data[i].block);
        observed += f->blocks.data[i].instructions;
    }
}

static int compare_counts(const void *x, const void *y)
{
    const struct unknown *a = x, *b = y;
    return a->count != b->count ? (a->count < b->count ? 1 : -1) : strcmp(a->form, b->form);
}

static void ask(struct forms *f)
{
    const struct prof_input *in = f->j->in;
    const char *list[FORMS_MAX];
    size_t n = 0;
    if (f->unknown.len)
        qsort(f->unknown.data, f->unknown.len, sizeof *f->unknown.data, compare_counts);
    for (; n < f->unknown.len && n < FORMS_MAX &&
           (double)f->unknown.data[n].count > FORM_SHARE * (double)f->j->instructions;
         n++)
        list[n] = f->unknown.data[n].form;
    if (n)
        in->time_forms(in->time_forms_ctx, list, n);
}

void forms_request(struct join *j)
{
    struct forms f = {.j = j};
    if (!j->in->machine || !j->in->time_forms)
        return;
    list_blocks(&f);
    look_at_hot(&f);
    ask(&f);
    VEC_FREE(&f.blocks);
    VEC_FREE(&f.unknown);
}
