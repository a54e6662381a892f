/* SPDX-License-Identifier: Apache-2.0
 *
 * replay/impl.h: a window's steps, ready to be cut.
 */
#ifndef MTOOL_REPLAY_IMPL_H
#define MTOOL_REPLAY_IMPL_H

#include "replay/replay.h"
#include "x86/x86.h"

/* stream.c */
struct insn { /* one for each address */
    struct x86_detail d;
    uint8_t bytes[X86_MORE_BYTES];
    bool is_barrier;              /* no slice contains it */
    uint32_t piece;               /* that it was met in last; the next three are of that */
    uint32_t visits, first, last; /* first, last: steps */
};
struct step {
    uint32_t insn;
    uint64_t regs[16]; /* before it */
};
struct stream {
    VEC(struct insn) insns;
    VEC(struct step) steps;
    struct map by_address; /* to the place in insns, plus 1 */
    uint64_t fs, gs;
};
/* false: the words are broken, or begin with unknown code. */
bool stream_read(struct stream *s, const struct wire_windows *w, uint32_t window);
void stream_free(struct stream *s);
static inline struct insn *insn_of(const struct stream *s, uint32_t step)
{
    return &s->insns.data[s->steps.data[step].insn];
}
struct insn *insn_at(const struct stream *s, uint64_t address); /* NULL: it was not executed */
/* That its instruction's access of this number reaches. */
static inline uint64_t stream_address(const struct stream *s, uint32_t step, int access)
{
    return x86_access_address(&insn_of(s, step)->d.access[access], s->steps.data[step].regs, s->fs, s->gs);
}

/* bound.c */
/* The conditional jump of step last - 1 went the same way each time from step `first` on: makes it go the other way the
 * last time. Fills enter, end and the bound patch. false: there is no way. */
bool bound_jump(const struct stream *s, uint32_t first, uint32_t last, struct wire_form *out);
/* Where it then goes. */
uint64_t bound_way_out(const struct stream *s, uint32_t jump);

/* stub.c */
/* A stub that only ends the replay. */
void stub_end(struct wire_stub *out);
/* A stub at the instruction of step `at`, which is executed several times in steps `at` to `last`: counts and goes on.
 * false: there is no way to have it there. */
bool stub_count(const struct stream *s, uint32_t at, uint32_t last, struct wire_stub *out);

/* link.c */
/* As bound_jump, where a word that is loaded says whether there is another iteration. */
bool bound_link(const struct stream *s, uint32_t first, uint32_t last, struct wire_form *out);

/* bytes.c: maps of addresses of bytes to what is first done with them, */
enum {
    BYTES_READ = 1,
    BYTES_WRITTEN,
    BYTES_CARRIED /* read, then written */,
    BYTES_RESTORED /* with what was there */
};
void bytes_note(const struct stream *s, uint32_t step, struct map *bytes);
/* of steps first to last - 1: those that are carried, and at the end hold what they held, become restored. */
void bytes_find_restored(const struct stream *s, uint32_t first, uint32_t last, struct map *bytes);
/* Does the program wait for what these steps read before they write it? Else only they would, if they went round. */
bool bytes_waited_for(const struct stream *s, uint32_t first, uint32_t last, const struct map *bytes);

/* chains.c: does the program around steps first to last - 1 wait about as much as they would for themselves, if they
 * went round? renewed: general registers that each round gets anew. */
bool chains_go_on(const struct stream *s, uint32_t first, uint32_t last, uint16_t renewed);

/* rounds.c */
/* Makes a form that is there, from step `first` on, but for its stub, one that goes round: see wire_form.rounds. false:
 * it may not, for what it leaves behind could lead the next round somewhere else. */
bool make_round(const struct stream *s, uint32_t first, struct wire_form *out);

#endif
