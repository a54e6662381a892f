/* SPDX-License-Identifier: Apache-2.0
 *
 * unforeseen: a replay begins in the middle of loops and calls. What a processor foretells by what came before, it need
 * not foretell there, however often the slice is replayed: the end of a loop of more turns than it surely remembers,
 * and returns from functions that were called before the slice began.
 */
#include "estimate/replays/replay_mispredicts.h"

#include "replay/replay.h"

struct history {
    const struct sim_insn *table;
    uint64_t step, from;
    struct map runs; /* of conditional jumps, by instruction: twice how often the same way in a row, plus which way */
    uint32_t depth;  /* of calls since the begin */
    uint32_t count;
};

static bool ends_long_run(struct history *s, uint32_t index, bool taken)
{
    uint64_t run = 0;
    map_get(&s->runs, index, &run);
    bool same = (run & 1) == taken;
    map_put(&s->runs, index, same ? run + 2 : (uint64_t)taken + 2);
    return !same && run / 2 > REPLAY_REMEMBERED;
}

static bool returns_to_before(struct history *s, const struct sim_insn *i)
{
    if (sim_insn_is_call(i))
        s->depth++;
    if (!sim_insn_is_return(i))
        return false;
    bool is_before = s->depth == 0;
    s->depth -= !is_before;
    return is_before;
}

static void see_step(void *ctx, uint32_t index, const uint64_t regs[16], uint64_t from, uint64_t to)
{
    struct history *s = ctx;
    const struct sim_insn *i = &s->table[index];
    bool is_conditional = sim_insn_is_branch(i) && i->shape->cond < 16;
    bool is_replay_mispredict =
        is_conditional ? ends_long_run(s, index, to != from + i->shape->len) : returns_to_before(s, i);
    (void)regs;
    s->count += is_replay_mispredict && s->step >= s->from;
    s->step++;
}

uint32_t replay_mispredicts_in(const struct window_player *p, const struct trained_slice *s)
{
    struct history history = {.table = p->table, .step = s->first, .from = s->from};
    window_steps(p, s->window, s->first, s->last, see_step, &history);
    map_fini(&history.runs);
    return history.count;
}
