/* SPDX-License-Identifier: Apache-2.0
 *
 * Machines that nobody has built, drawn by a seed: widths, units of two files or of one, schedulers that are shared or
 * not, latencies, fusion, idioms, rules of addresses, branches and memory, each within what cores have had. A slot of a
 * division is an operation on some unit: calibration takes those that it cannot place for operations that run anywhere,
 * as they do on all cores known. */
#include "zoo.h"

#include <stdlib.h>

static uint64_t state;

static unsigned below(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

static unsigned between(unsigned low, unsigned high) { return low + below(high - low + 1); }
static bool chance(unsigned percent) { return below(100) < percent; }

static void put_flag(struct strbuf *s, const char *name, unsigned percent)
{
    str_printf(s, "%s %d\n", name, chance(percent));
}

static void put_front(struct strbuf *s, unsigned width)
{
    static const unsigned windows[] = {32, 64};
    static const char *const intervals[] = {"1", "1", "2"};
    str_printf(s, "maximum-multiple-issue %u\nretire-width %u\nbind-at-dispatch %d\nstart-delay %u\n", width,
               width + below(3), chance(50), between(1, 3));
    str_printf(s, "fetch-window %u\nfetch-ops %u\nfetch-extra 1\nfetch-windows 2\nfetch-queue %u\n", windows[below(2)],
               width + below(3), between(24, 144));
    str_printf(s, "taken-interval %s\ncall-interval 2\nret-interval 2\nindirect-interval %u\nmispredict %u\n",
               intervals[below(3)], between(2, 4), between(9, 22));
    put_flag(s, "fuse-test", 90);
    put_flag(s, "fuse-cmp", 90);
    put_flag(s, "fuse-alu", 50);
    put_flag(s, "fuse-inc", 50);
    put_flag(s, "fuse-nop", 20);
    put_flag(s, "fuse-load", 85);
    put_flag(s, "fuse-store", 60);
    put_flag(s, "indexed-load", 40);
    str_puts(s, "indexed-load-vec 0\nindexed-new-vec 0\nindexed-store-vec 0\n");
}

/* Drawn places for what waits in the core: with what is put on top of it (`more`) at most three fifths as many as the
 * reorder buffer has. A result that waits has a register, so that a scheduler or queue with more places than there are
 * registers, as was drawn before, could never be full, and nothing could tell its size. Cores stay below that: the
 * schedulers of Skylake have 97 of 224, the queue of loads of Zen 2 has 116 of 224. */
static unsigned places(unsigned low, unsigned high, unsigned rob, unsigned more)
{
    unsigned drawn = between(low, high), max = rob * 3 / 5 - more;
    return drawn < max ? drawn : max;
}

static void put_memory(struct strbuf *s, unsigned load, unsigned rob)
{
    str_printf(s, "index-latency %d\ncomplex-latency 1\n", chance(30));
    str_printf(s, "forward %u\nforward-vec %u\nforward-fail %u\nrename %d\n", load + below(3), load + 1 + below(3),
               between(11, 18), chance(30) ? (int)below(2) : -1);
    str_printf(s, "cross-load 1\ncross-latency %u\ncross-store %u\n", between(1, 8), below(2));
    str_printf(s, "reorder %u\nint-registers %u\nvec-registers %u\nload-queue %u\nstore-queue %u\n", rob, rob * 2 / 3,
               rob * 3 / 4, places(48, 190, rob, 0), places(36, 100, rob, 0));
}

struct units {
    unsigned alus, muls, shifts, jumps, vecs, fps, shuffles, loads, stores;
    bool together; /* vector operations run on the integer units */
};

static void put_group(struct strbuf *s, const char *name, const char *unit, unsigned first, unsigned count)
{
    str_printf(s, "group %s", name);
    for (unsigned i = first; i < first + count; i++)
        str_printf(s, " %s%u", unit, i);
    str_puts(s, "\n");
}

static void put_units(struct strbuf *s, const struct units *u, unsigned rob)
{
    bool split = !u->together && chance(40);
    enum { EACH = 8 };
    unsigned ints = places(32, 110, rob, split ? u->alus * EACH : 0);
    if (split)
        for (unsigned i = 0; i < u->alus; i++)
            str_printf(s, "scheduler int%u %u\n", i, ints / u->alus + EACH);
    else
        str_printf(s, "scheduler int %u\n", ints);
    str_printf(s, "scheduler vec %u\nscheduler mem %u\n", places(32, 110, rob, 0), places(32, 80, rob, 0));
    for (unsigned i = 0; i < u->alus; i++)
        split ? str_printf(s, "unit alu%u scheduler int%u\n", i, i) : str_printf(s, "unit alu%u scheduler int\n", i);
    for (unsigned i = 0; !u->together && i < u->vecs; i++)
        str_printf(s, "unit fp%u scheduler vec\n", i);
    for (unsigned i = 0; i < u->loads; i++)
        str_printf(s, "unit load%u scheduler mem\n", i);
    for (unsigned i = 0; i < u->stores; i++)
        str_printf(s, "unit store%u\n", i);
    str_puts(s, "unit divider\nunit int-divider\n");
    const char *vec = u->together ? "alu" : "fp";
    put_group(s, "alus", "alu", 0, u->alus);
    put_group(s, "muls", "alu", u->alus - u->muls, u->muls);
    put_group(s, "shifts", "alu", 0, u->shifts);
    put_group(s, "jumps", "alu", u->alus - u->jumps, u->jumps);
    put_group(s, "vecs", vec, 0, u->vecs);
    put_group(s, "fps", vec, 0, u->fps);
    put_group(s, "shuffles", vec, u->vecs - u->shuffles, u->shuffles);
    put_group(s, "loads", "load", 0, u->loads);
    put_group(s, "stores", "store", 0, u->stores);
}

static void put_classes(struct strbuf *s, unsigned load)
{
    unsigned add = between(2, 4), mul = between(3, 5), fma = between(4, 6);
    str_puts(
        s,
        "class other result-latency 2 on alus\nclass int result-latency 1 on alus\nclass mov result-latency 1 on alus\n"
        "class mov-eliminated result-latency 0 on none\nclass lea result-latency 1 on alus\nclass nop result-latency 0 "
        "on none\n"
        "class branch result-latency 1 on jumps\nclass jump result-latency 1 on jumps\nclass jump-indirect "
        "result-latency 1 on jumps\n"
        "class call result-latency 1 slots 2 on jumps\nclass ret result-latency 1 slots 2 on jumps\n"
        "class bit-test result-latency 1 on shifts\nclass setcc result-latency 1 on shifts\nclass cmov result-latency "
        "1 on shifts\n"
        "class adc result-latency 1 on shifts\n");
    str_printf(s,
               "class lea3 result-latency %u on muls\nclass shift result-latency 1 on shifts\nclass shift-cl "
               "result-latency %u slots 2 on shifts+shifts\n",
               between(1, 3), between(1, 2));
    str_printf(s,
               "class shift-double result-latency 3 on muls\nclass imul result-latency %u on muls\nclass imul-wide "
               "result-latency 4 slots 2 on muls+alus\n",
               between(3, 4));
    str_printf(s, "class bit result-latency %u on muls\nclass crc result-latency 3 on muls\n", between(1, 3));
    str_printf(s,
               "class div32 result-latency %u slots 4 on muls+alus+alus+alus+int-divider:6\n"
               "class div64 result-latency %u slots 4 on muls+alus+alus+alus+int-divider:10\n",
               between(10, 20), between(14, 30));
    str_printf(s,
               "class vlogic result-latency 1 on vecs\nclass vint result-latency %u on vecs\nclass vmul result-latency "
               "%u on fps\n"
               "class vshift result-latency 1 on fps\nclass shuffle result-latency 1 on shuffles\nclass permute "
               "result-latency 3 on shuffles\n"
               "class blend result-latency 1 on vecs\nclass vmov result-latency 1 on vecs\n",
               between(1, 2), between(3, 5));
    str_printf(s,
               "class to-int result-latency %u on fps\nclass from-int result-latency %u on shuffles\nclass kmask "
               "result-latency 1 on fps\n",
               between(2, 4), between(2, 4));
    str_printf(s,
               "class fadd result-latency %u on fps\nclass fmul result-latency %u on fps\nclass fma result-latency %u "
               "on fps\n",
               add, mul, fma);
    str_printf(s, "class fdiv32 result-latency %u on fps+divider:4\nclass fdiv64 result-latency %u on fps+divider:6\n",
               between(10, 14), between(13, 18));
    str_printf(s,
               "class fsqrt32 result-latency %u on fps+divider:6\nclass fsqrt64 result-latency %u on fps+divider:9\n",
               between(12, 16), between(17, 22));
    str_puts(s, "class frecip result-latency 4 on fps\nclass fcmp result-latency 4 slots 2 on fps+alus\nclass cvt "
                "result-latency 6 slots 2 on fps+shuffles\n"
                "class x87 result-latency 4 on fps\nclass atomic result-latency 18 slots 6 on alus+stores:16\nclass "
                "fence result-latency 30 on stores:30\n"
                "class string result-latency 3 slots 4 on alus\nclass prefetch result-latency 0 on none\nclass gather "
                "result-latency 18 slots 8 on loads:8\n"
                "class store result-latency 1 on stores+loads\n");
    str_printf(s,
               "class load result-latency %u on loads\nclass load.x result-latency %u on loads\nclass load.y "
               "result-latency %u on loads\n",
               load, load + 1, load + 2);
    str_puts(s, "form \"mov r64,r64\" mov-eliminated\nform \"mov r32,r32\" mov-eliminated\n");
}

struct machine *zoo_random(uint32_t seed)
{
    struct strbuf s = {0};
    struct machine *m = NULL;
    char name[32];
    state = seed * 0x9e3779b97f4a7c15u + 12345;
    struct units u = {.alus = between(3, 6), .together = chance(35)};
    u.vecs = u.together ? between(2, u.alus < 4 ? 3 : 4) : between(2, 4);
    u.muls = between(1, 2), u.shifts = between(2, u.alus - 1), u.jumps = between(1, 2);
    u.fps = between(2, u.vecs), u.shuffles = between(1, u.vecs > 2 ? 2 : 1);
    u.loads = between(2, 3), u.stores = between(1, 2);
    unsigned load = between(3, 6), width = between(u.alus > 4 ? u.alus : 4, 9);
    snprintf(name, sizeof name, "random %u", seed);
    str_printf(&s,
               "mtool-machine 1\nname \"%s\"\ndate \"\"\nsource \"drawn\"\npipeline out-of-order\ntsc-ghz "
               "2.5\ncore-per-tsc 1.%02u\n",
               name, below(60));
    put_front(&s, width);
    unsigned rob = between(120, 560);
    put_memory(&s, load, rob);
    str_puts(&s, "cache L1 data size 32K line 64 ways 8 latency 4\ncache L2 both size 1M line 64 ways 8 latency 14\n"
                 "cache memory both size 16G line 64 ways 0 latency 200\n");
    put_units(&s, &u, rob);
    put_classes(&s, load);
    str_puts(&s, "end\n");
    if (machine_parse(name, s.data, s.len, &m) < 0)
        m = NULL;
    str_free(&s);
    return m;
}
