/* SPDX-License-Identifier: Apache-2.0
 *
 * A cfg as text for people and as JSON for programs: instructions, blocks with edges and tables, or loops. The same
 * input gives the same bytes. Nothing is decided here.
 */
#include "cfg/impl.h"

#include <assert.h>

static const char *const edge_names[CFG_EDGE_KIND_COUNT] = {"fall", "taken", "table", "return", "tail", "out"};
static const char *const term_names[X86_KIND_COUNT] = {"fall", "jmp",   "jcc", "jcxz",    "xbegin", "call",
                                                       "jmp*", "call*", "ret", "syscall", "trap",   "int"};
static const char *const table_names[CFG_TABLE_KIND_COUNT] = {"pic32", "abs64"};
static const struct {
    uint16_t bit;
    const char *name;
} block_flags[] = {{CFG_BLOCK_ENTRY, "entry"},
                   {CFG_BLOCK_RETURN_POINT, "return-point"},
                   {CFG_BLOCK_LANDING_PAD, "landing-pad"},
                   {CFG_BLOCK_ADDR_TAKEN, "addr-taken"},
                   {CFG_BLOCK_LOOP_HEADER, "loop-header"},
                   {CFG_BLOCK_CALLED, "called"},
                   {CFG_BLOCK_NORETURN, "noreturn"}};

struct dump {
    const struct cfg *c;
    struct strbuf *text; /* of one function at a time */
    struct json *json;   /* NULL: text */
    struct arena *names;
    cfg_plain_fn *plain; /* or NULL */
};

static unsigned long long ull(uint64_t v) { return v; }

static const char *func_name(struct dump *d, const struct cfg_func *f)
{
    const char *name = d->c->img ? image_symbol_name(d->c->img, f->addr, NULL) : NULL;
    return name ? str_printable(d->names, name) : "";
}

static void func_head(struct dump *d, const struct cfg_func *f)
{
    const char *name = func_name(d, f);
    if (d->json) {
        json_hex(d->json, "addr", f->addr);
        json_u64(d->json, "size", f->size);
        json_str(d->json, "name", *name ? name : NULL);
        if (d->plain)
            json_str(d->json, "name_plain", *name ? d->plain(d->names, name) : NULL);
        json_str(d->json, "refused", f->reason == CFG_REASON_OK ? NULL : cfg_reason_text[f->reason]);
        json_bool(d->json, "unresolved", f->unresolved);
        json_bool(d->json, "plt", f->is_plt);
        return;
    }
    str_printf(d->text, "function %llx size %u", ull(f->addr), f->size);
    if (*name)
        str_printf(d->text, " %s", name);
    if (f->reason != CFG_REASON_OK)
        str_printf(d->text, "\x20(refused: %s)", cfg_reason_text[f->reason]);
    str_printf(d->text, "%s%s\n", f->unresolved ? " unresolved" : "", f->is_plt ? " plt" : "");
}

static void put_id(struct dump *d, const char *key, uint32_t id)
{
    if (id == ID_NONE)
        json_null(d->json, key);
    else
        json_u64(d->json, key, id);
}

/* ---- instructions ---- */

static void dump_insn(struct dump *d, const struct x86_insn *i)
{
    char text[160] = "";
    const uint8_t *p = image_at(d->c->img, i->addr, i->len);
    if (p)
        x86_format(p, i->len, i->addr, text, sizeof text);
    if (!d->json) {
        str_printf(d->text, "  %llx  ", ull(i->addr));
        for (unsigned k = 0; p && k < i->len; k++)
            str_printf(d->text, "%02x", p[k]);
        str_printf(d->text, "%*s%s\n", 32 - 2 * i->len, "", text);
        return;
    }
    json_object(d->json, NULL);
    json_hex(d->json, "addr", i->addr);
    json_u64(d->json, "len", i->len);
    json_str(d->json, "text", text);
    struct x86_detail detail;
    json_str(d->json, "form", p && x86_decode_detail(p, i->len, i->addr, &detail) ? detail.form : NULL);
    json_u64(d->json, "loads", i->loads);
    json_u64(d->json, "stores", i->stores);
    json_u64(d->json, "flags_read", i->flags_read);
    json_u64(d->json, "flags_written", i->flags_written);
    json_u64(d->json, "gpr_read", i->gpr_read);
    json_u64(d->json, "gpr_written", i->gpr_written);
    json_object_end(d->json);
}

static void dump_insns(struct dump *d, const struct cfg_func *f)
{
    if (d->json)
        json_array(d->json, "insns");
    cfg_for_each_insn(f, i) {
        struct x86_insn in = cfg_insn(d->c, i);
        dump_insn(d, &in);
    }
    if (d->json)
        json_array_end(d->json);
}

/* ---- blocks ---- */

static void dump_edges_text(struct dump *d, const struct cfg_block *b)
{
    cfg_for_each_edge(b, e) {
        const struct cfg_edge *x = &d->c->edges.data[e];
        str_printf(d->text, "%s %s", e == b->edge_first ? " ->" : ",", edge_names[x->kind]);
        if (x->to != ID_NONE)
            str_printf(d->text, " b%u", x->to);
    }
}

static void dump_block_text(struct dump *d, uint32_t k)
{
    const struct cfg_block *b = &d->c->blocks.data[k];
    str_printf(d->text, "  b%u %llx size %u insns %u mem %u %s", k, ull(b->addr), b->size, b->insn_count, b->mem_ops,
               term_names[b->term]);
    if (b->call_target)
        str_printf(d->text, " %llx", ull(b->call_target));
    dump_edges_text(d, b);
    if (b->loop != ID_NONE)
        str_printf(d->text, " loop %u", b->loop);
    for (size_t i = 0; i < ARRAY_LEN(block_flags); i++)
        if (b->flags & block_flags[i].bit)
            str_printf(d->text, " %s", block_flags[i].name);
    str_puts(d->text, "\n");
}

static void dump_block_json(struct dump *d, uint32_t k)
{
    const struct cfg_block *b = &d->c->blocks.data[k];
    struct json *j = d->json;
    json_object(j, NULL);
    json_u64(j, "id", k);
    json_hex(j, "addr", b->addr);
    json_u64(j, "size", b->size);
    json_u64(j, "insns", b->insn_count);
    json_u64(j, "mem_ops", b->mem_ops);
    json_str(j, "term", term_names[b->term]);
    if (b->call_target)
        json_hex(j, "call_target", b->call_target);
    put_id(d, "loop", b->loop);
    json_array(j, "flags");
    for (size_t i = 0; i < ARRAY_LEN(block_flags); i++)
        if (b->flags & block_flags[i].bit)
            json_str(j, NULL, block_flags[i].name);
    json_array_end(j);
    json_array(j, "edges");
    cfg_for_each_edge(b, e) {
        json_object(j, NULL);
        json_str(j, "kind", edge_names[d->c->edges.data[e].kind]);
        put_id(d, "to", d->c->edges.data[e].to);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

static void dump_blocks(struct dump *d, const struct cfg_func *f)
{
    if (d->json)
        json_array(d->json, "blocks");
    cfg_for_each_block(f, k) {
        if (d->json)
            dump_block_json(d, k);
        else
            dump_block_text(d, k);
    }
    if (d->json)
        json_array_end(d->json);
}

static void dump_tables(struct dump *d)
{
    if (d->json)
        json_array(d->json, "tables");
    for (size_t k = 0; k < d->c->tables.len; k++) {
        const struct cfg_table *t = &d->c->tables.data[k];
        if (!d->json) {
            str_printf(d->text, "table %llx %s entries %u block b%u%s\n", ull(t->addr), table_names[t->kind],
                       t->entries, t->block, t->by_reloc ? " by-reloc" : "");
            continue;
        }
        json_object(d->json, NULL);
        json_hex(d->json, "addr", t->addr);
        json_str(d->json, "kind", table_names[t->kind]);
        json_u64(d->json, "entries", t->entries);
        json_u64(d->json, "block", t->block);
        json_bool(d->json, "by_reloc", t->by_reloc);
        json_object_end(d->json);
    }
    if (d->json)
        json_array_end(d->json);
}

/* ---- loops ---- */

static void dump_loop(struct dump *d, uint32_t k)
{
    const struct cfg_loop *l = &d->c->loops.data[k];
    if (!d->json) {
        str_printf(d->text, "  loop %u header b%u %llx depth %u", k, l->header, ull(d->c->blocks.data[l->header].addr),
                   l->depth);
        if (l->parent != ID_NONE)
            str_printf(d->text, " in %u", l->parent);
        str_puts(d->text, " blocks");
        cfg_for_each_member(l, m)
            str_printf(d->text, " b%u", d->c->loop_members.data[m]);
        str_puts(d->text, "\n");
        return;
    }
    json_object(d->json, NULL);
    json_u64(d->json, "id", k);
    json_u64(d->json, "header", l->header);
    json_hex(d->json, "addr", d->c->blocks.data[l->header].addr);
    json_u64(d->json, "depth", l->depth);
    put_id(d, "parent", l->parent);
    json_array(d->json, "blocks");
    cfg_for_each_member(l, m)
        json_u64(d->json, NULL, d->c->loop_members.data[m]);
    json_array_end(d->json);
    json_object_end(d->json);
}

static void dump_loops(struct dump *d, const struct cfg_func *f)
{
    if (d->json)
        json_array(d->json, "loops");
    cfg_for_each_loop(f, k)
        dump_loop(d, k);
    if (d->json)
        json_array_end(d->json);
}

/* ---- the whole ---- */

static void dump_func(struct dump *d, enum cfg_dump_what what, const struct cfg_func *f)
{
    if (what == CFG_DUMP_LOOPS && f->loop_count == 0)
        return;
    if (d->json)
        json_object(d->json, NULL);
    func_head(d, f);
    switch (what) {
    case CFG_DUMP_INSN:
        dump_insns(d, f);
        break;
    case CFG_DUMP_CFG:
        dump_blocks(d, f);
        break;
    case CFG_DUMP_LOOPS:
        dump_loops(d, f);
        break;
    }
    if (d->json)
        json_object_end(d->json);
}

static void flush_text(struct strbuf *text, FILE *out)
{
    fwrite(text->data, 1, text->len, out);
    text->len = 0;
}

void cfg_dump(const struct cfg *c, enum cfg_dump_what what, bool json, cfg_plain_fn *plain, FILE *out)
{
    struct strbuf text = {0};
    struct json j = {0};
    struct dump d = {.c = c, .text = &text, .json = json ? &j : NULL, .names = arena_new(), .plain = plain};
    assert(what != CFG_DUMP_INSN || c->img); /* a loaded cfg has no instructions */
    if (json) {
        json_init(&j, &text, true);
        json_object(&j, NULL);
        json_array(&j, "functions");
    }
    for (size_t k = 0; k < c->funcs.len; k++) {
        dump_func(&d, what, &c->funcs.data[k]);
        if (text.len > 1 << 16)
            flush_text(&text, out);
    }
    if (json)
        json_array_end(&j);
    if (what == CFG_DUMP_CFG)
        dump_tables(&d);
    if (json)
        json_object_end(&j);
    if (text.len)
        flush_text(&text, out);
    str_free(&text);
    arena_free(d.names);
}
