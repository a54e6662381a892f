/* SPDX-License-Identifier: Apache-2.0
 *
 * walk: a copy of the top of a stack to the return addresses on it, by the unwind tables of the files. What a table
 * says for a return address is found out once, by a step from registers and memory that tell where their values came
 * from; programs allocate millions of times from few places.
 */
#include "data/calls.h"

#include <stdlib.h>

enum rule_kind { RULE_STEP, RULE_END };
enum named { NOT_ASKED, NAMELESS, NAMED };
struct rule {       /* of a return address: how the frame that it returns to is left */
    uint64_t place; /* in the original */
    enum rule_kind kind;
    bool by_rbp, saves_rbp;
    int32_t cfa;    /* from rsp or rbp */
    int32_t rbp_at; /* from the CFA: where the caller's is */
    enum named named;
};
enum { RECENT = 256 };
struct recent { /* by low bits of the return address; 0: none */
    uint64_t return_address;
    struct rule *rule;
};
struct walk {
    struct recent recent[RECENT];
    struct data *d;
    struct data_code code;
    struct arena *arena;
    struct map rules; /* return address, as it stands on the stack -> rule */
};

struct walk *walk_new(struct data *d, const struct data_code *code)
{
    struct walk *w = xmalloc(sizeof *w);
    w->d = d;
    w->code = *code;
    w->arena = arena_new();
    return w;
}

void walk_free(struct walk *w)
{
    if (!w)
        return;
    map_fini(&w->rules);
    arena_free(w->arena);
    free(w);
}

/* ---- what a table says ---- */

enum { RBP = 6, RSP = 7 };
#define AT_RSP 0x010000000000ull
#define AT_RBP 0x020000000000ull
#define IN_MEMORY 0x100000000000ull
#define FAR 0x4000000ull

/* Memory whose words say where they are. */
static bool tell_address(void *ctx, uint64_t addr, uint64_t *word)
{
    (void)ctx;
    *word = addr + IN_MEMORY;
    return true;
}

static bool is_near(uint64_t x, uint64_t of) { return x - of < FAR || of - x < FAR; }

static bool take_step(const struct image_frame *f, struct rule *r)
{
    uint64_t cfa = f->regs[RSP], rbp = f->regs[RBP];
    r->by_rbp = is_near(cfa, AT_RBP);
    r->cfa = (int32_t)(cfa - (r->by_rbp ? AT_RBP : AT_RSP));
    r->saves_rbp = rbp != AT_RBP;
    r->rbp_at = (int32_t)(rbp - IN_MEMORY - cfa);
    bool has_rbp = f->known >> RBP & 1 && (rbp == AT_RBP || is_near(rbp - IN_MEMORY, cfa));
    return (r->by_rbp || is_near(cfa, AT_RSP)) && has_rbp && f->pc == cfa - 8 + IN_MEMORY;
}

static void learn(struct walk *w, struct rule *r)
{
    uint32_t module;
    uint64_t vaddr;
    struct image_frame f = {.pc = r->place, .known = 1u << RSP | 1u << RBP};
    f.regs[RSP] = AT_RSP;
    f.regs[RBP] = AT_RBP;
    r->kind = RULE_END;
    if (!data_locate(w->d, r->place - 1, &module, &vaddr))
        return;
    const struct image_unwind *u = data_unwind(w->d, module);
    if (u && image_unwind_step(data_module_image(w->d, module), u, vaddr, &f, tell_address, NULL) == IMAGE_STEP_CALLER)
        r->kind = take_step(&f, r) ? RULE_STEP : RULE_END;
}

static struct rule *find_rule(struct walk *w, uint64_t return_address)
{
    uint64_t known;
    if (map_get(&w->rules, return_address, &known))
        return (struct rule *)(uintptr_t)known;
    struct rule *r = ARENA_NEW(w->arena, struct rule);
    uint64_t original = w->code.original ? w->code.original(w->code.ctx, return_address) : 0;
    r->place = original ? original : return_address;
    learn(w, r);
    map_put(&w->rules, return_address, (uintptr_t)r);
    return r;
}

static struct rule *rule_of(struct walk *w, uint64_t return_address)
{
    struct recent *r = &w->recent[(return_address ^ return_address >> 8) % RECENT];
    if (r->return_address != return_address)
        *r = (struct recent){return_address, find_rule(w, return_address)};
    return r->rule;
}

/* ---- the walk ---- */

static bool word_at(const struct walk_stack *s, uint64_t address, uint64_t *word)
{
    if (address < s->at || s->bytes < sizeof *word || address - s->at > s->bytes - sizeof *word)
        return false;
    memcpy(word, s->copy + (address - s->at), sizeof *word);
    return true;
}

/* Where rbp has its value from; NOT_KNOWN: its place on the stack is not in the copy. */
enum { REGISTER = -1, NOT_KNOWN = -2 };

static void goes_by(struct data_path *by, enum data_word_kind kind, uint64_t offset, uint64_t value)
{
    by->words[by->count++] = (struct data_path_word){kind, (uint32_t)offset, value};
}

static void goes_by_rbp(struct data_path *by, const struct walk_stack *s, int64_t from, uint64_t rbp)
{
    bool is_register = from == REGISTER;
    goes_by(by, is_register ? DATA_WORD_RBP_LEADS : DATA_WORD_LEADS, is_register ? 0 : (uint64_t)from, rbp - s->at);
}

struct climb { /* at a frame: its return address, what is above that, rbp */
    uint64_t word, rsp, rbp;
    int64_t rbp_from;
};
enum step { CLIMBED, ENDED, CUT };

/* To the caller's frame. CUT: nothing has changed. */
static enum step climb(const struct walk_stack *s, const struct rule *r, struct climb *c, struct data_path *by)
{
    uint64_t word;
    if (r->kind == RULE_END || (r->by_rbp && c->rbp_from == NOT_KNOWN))
        return ENDED;
    uint64_t cfa = (r->by_rbp ? c->rbp : c->rsp) + (uint64_t)(int64_t)r->cfa;
    if (cfa <= c->rsp || !word_at(s, cfa - 8, &word))
        return CUT;
    if (r->by_rbp)
        goes_by_rbp(by, s, c->rbp_from, c->rbp);
    uint64_t saved = cfa + (uint64_t)(int64_t)r->rbp_at;
    if (r->saves_rbp)
        c->rbp_from = word_at(s, saved, &c->rbp) ? (int64_t)(saved - s->at) : NOT_KNOWN;
    c->word = word;
    c->rsp = cfa;
    return CLIMBED;
}

/* NULL: there is none, that was the last. */
static struct rule *come_to(struct walk *w, const struct walk_stack *s, const struct climb *c, struct data_path *by)
{
    goes_by(by, DATA_WORD_IS, c->rsp - 8 - s->at, c->word);
    return c->word ? rule_of(w, c->word) : NULL;
}

static bool is_named(struct walk *w, struct rule *r)
{
    if (r->named == NOT_ASKED)
        r->named = data_tells(w->d, r->place) ? NAMED : NAMELESS;
    return r->named == NAMED;
}

static bool has_named(struct walk *w, const uint64_t *path, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (data_tells(w->d, path[i]))
            return true;
    return false;
}

/* From where the near calls end up to the first that has a name; NULL: there is none. */
static const struct rule *look_far(struct walk *w, const struct walk_stack *s, struct climb *c, struct rule *r,
                                   enum step step, struct data_path *by)
{
    by->is_far = true;
    if (step == CUT)
        step = climb(s, r, c, by);
    while (step == CLIMBED && by->count < DATA_WALK_MAX && (r = come_to(w, s, c, by))) {
        if (is_named(w, r))
            return r;
        step = climb(s, r, c, by);
    }
    if (step == CUT && r->by_rbp)
        goes_by_rbp(by, s, c->rbp_from, c->rbp);
    by->is_cut = step == CUT;
    return NULL;
}

size_t walk_path(struct walk *w, const struct walk_stack *s, uint64_t rbp, bool far, uint64_t path[DATA_PATH_MAX],
                 struct data_path *by)
{
    struct walk_stack near = {s->at, s->copy, min_u64(s->bytes, DATA_NEAR_BYTES)};
    struct climb c = {0, s->at + 8, rbp, REGISTER};
    struct rule *r = NULL;
    enum step step = CLIMBED;
    size_t n = 0;
    by->count = 0;
    by->is_far = by->is_cut = false;
    if (!word_at(s, s->at, &c.word))
        return 0;
    while (step == CLIMBED && n < DATA_PATH_MAX && (r = come_to(w, &near, &c, by))) {
        path[n++] = r->place;
        step = climb(&near, r, &c, by);
    }
    if (r && step != ENDED && far && data_has_names(w->d, r->place) && !has_named(w, path, n)) {
        const struct rule *named = look_far(w, s, &c, r, step, by);
        n = named && n < DATA_PATH_MAX ? n + 1 : n;
        path[n - 1] = named ? named->place : path[n - 1];
    } else if (step == CUT && r->by_rbp) {
        goes_by_rbp(by, s, c.rbp_from, c.rbp);
    }
    return n;
}

bool walk_word(const struct walk_stack *s, uint64_t address, uint64_t *word) { return word_at(s, address, word); }
