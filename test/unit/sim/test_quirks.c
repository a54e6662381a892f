/* SPDX-License-Identifier: Apache-2.0
 * What some cores do and others do not: each shown in cycles, with it and without. */
#include "help.h"

#include <stdio.h>

/* Four wide; four units for integers, two of which shift, two for vectors, two loads, two stores and two jumps a cycle.
 */
static const char base[] =
    "mtool-machine 1\nname \"quirks\"\npipeline out-of-order\nmaximum-multiple-issue 4\nretire-width 8\nfetch-window "
    "0\n"
    "fetch-ops 0\ntaken-interval 0\nforward 5\nreorder 64\nbind-at-dispatch 0\nscheduler all 32\n"
    "unit sh multiplicity 2 scheduler all\nunit pl multiplicity 2 scheduler all\nunit mul scheduler all\n"
    "unit fp multiplicity 2 scheduler all\nunit ld multiplicity 2 scheduler all\nunit st multiplicity 2\n"
    "unit br multiplicity 2\ngroup alu sh pl\nclass other result-latency 1 on alu\nclass int result-latency 1 on alu\n"
    "class shift result-latency 1 on sh\nclass vlogic result-latency 1 on fp\nclass fadd result-latency 3 on fp\n"
    "class fadd.z result-latency 3 on fp:2\nclass fdiv32 result-latency 10 on fp+pl:2.5\n"
    "class imul-wide result-latency 3 second 4 on mul\nclass eliminated result-latency 0 on none\n"
    "class nop result-latency 0 on none\nclass load result-latency 4 on ld\nclass store result-latency 1 on st\n"
    "class jump result-latency 1 on br\nform \"mov r64,r64\" eliminated\n";

static const char *with(const char *lines)
{
    static char text[8192];
    snprintf(text, sizeof text, "%s%send\n", base, lines);
    return text;
}
#define COST(lines, ...)                                                                                               \
    loop_cost(with(lines), (const char *const[]){__VA_ARGS__}, ARRAY_LEN(((const char *const[]){__VA_ARGS__})), false)

#define ADDS "4801d8", "4801d9", "4801da", "4801de" /* add rax, rcx, rdx, rsi: rbx */
#define LEAS "488d4301", "488d4b01", "488d5301"     /* lea rax, rcx, rdx: [rbx+1] */

static void a_nop_shares_the_slot_of_a_neighbour(void **state)
{
    (void)state;
    NEAR(COST("", "90", "90", "90", "90", "90", "90", "90", "90"), 2);
    NEAR(COST("fuse-nop 1\n", "90", "90", "90", "90", "90", "90", "90", "90"), 1);
    NEAR(COST("", "4801d8", "90", "4801d9", "90", "4801da", "90", "4801de", "90"), 2);
    NEAR(COST("fuse-nop 1\n", "4801d8", "90", "4801d9", "90", "4801da", "90", "4801de", "90"), 1);
    /* a nop takes one partner only, before or behind it */
    NEAR(COST("fuse-nop 1\n", "31c0", "31c9", "90", "31c0", "31c9", "90"), 1);
    NEAR(COST("fuse-nop 1\n", "31c0", "90", "90", "31c9", "90", "90"), 0.75);
}

static void renaming_zeroes_and_moves_so_many_a_cycle(void **state)
{
    (void)state;
    NEAR(COST("", "31c0", "31c9", "31d2", "31f6"), 1); /* xor r,r */
    NEAR(COST("zero-limit 2\n", "31c0", "31c9", "31d2", "31f6"), 2);
    NEAR(COST("zero-limit 2\n", "31c0", "31c9", LEAS), 1.25);  /* others fill the width */
    NEAR(COST("", "4889d8", "4889d9", "4889da", "4889de"), 1); /* mov r,rbx */
    NEAR(COST("move-limit 1\n", "4889d8", "4889d9", "4889da", "4889de"), 4);
}

static void vectors_are_zeroed_by_a_rule_of_their_own(void **state)
{
    (void)state;
    NEAR(COST("", "660fefc0", "660fefc9", "660fefd2", "660fefdb"), 1); /* pxor x,x */
    NEAR(COST("zero-idiom-vec 0\n", "660fefc0", "660fefc9", "660fefd2", "660fefdb"), 2);
    NEAR(COST("zero-idiom 0\nzero-idiom-vec 1\n", "660fefc0", "660fefc9", "660fefd2", "660fefdb"), 1);
    NEAR(COST("zero-idiom 0\n", "660fefc0", "660fefc9", "660fefd2", "660fefdb"), 2);
}

static void an_address_of_many_parts_takes_longer(void **state)
{
    (void)state;
    static const char rule[] = "complex-latency 1\n";
    NEAR(COST(rule, "488b00"), 4);     /* mov rax,[rax] */
    NEAR(COST(rule, "488b4008"), 4);   /* [rax+8] */
    NEAR(COST(rule, "488b0400"), 4);   /* [rax+rax] */
    NEAR(COST(rule, "488b440008"), 5); /* [rax+rax+8] */
    NEAR(COST(rule, "488b0440"), 5);   /* [rax+rax*2] */
    NEAR(COST("index-latency 2\ncomplex-latency 1\n", "488b0440"), 6);
}

static void an_index_costs_general_and_vector_registers_apart(void **state)
{
    (void)state;
    static const char rule[] =
        "indexed-load 1\nindexed-new 1\nindexed-store 1\nindexed-load-vec 0\nindexed-new-vec 0\nindexed-store-vec 0\n";
    NEAR(COST(rule, "48030433", LEAS), 1.25); /* add rax,[rbx+rsi] */
    NEAR(COST("", "48030433", LEAS), 1);
    NEAR(COST(rule, "0f560433", LEAS), 1);                   /* orps xmm0,[rbx+rsi] */
    NEAR(COST(rule, "48890433", LEAS), 1.25);                /* mov [rbx+rsi],rax */
    NEAR(COST(rule, "0f110433", LEAS), 1);                   /* movups [rbx+rsi],xmm0 */
    NEAR(COST("indexed-store 1\n", "0f110433", LEAS), 1.25); /* unsaid: as for general registers */
}

static void the_high_half_of_a_product_comes_later(void **state)
{
    (void)state;
    NEAR(COST("", "48f7e3"), 3);           /* mul rbx: rax */
    NEAR(COST("", "48f7e3", "4889d0"), 4); /* and mov rax,rdx */
    NEAR(COST("", "c4e2fbf6d0"), 4);       /* mulx rdx,rax,rax: the high half is named first */
}

static void wide_vectors_take_two_passes(void **state)
{
    (void)state;
    NEAR(COST("", "c5f558c2", "c5f558da", "c5f558e2", "c5f558ea"), 2);                 /* vaddpd y */
    NEAR(COST("", "62f1f54858c2", "62f1f54858da", "62f1f54858e2", "62f1f54858ea"), 4); /* vaddpd z */
}

static void units_are_kept_busy_for_parts_of_cycles(void **state)
{
    (void)state;
    NEAR(COST("", "c5f25ec2", "c5f25eda", "c5f25ee2", "c5f25eea"), 5); /* four divss, 2.5 cycles on either of two */
}

/* Cycles an iteration of instructions with addresses, and where all are taken jumps. */
static double stepped(const char *text, const char *const *hex, const uint64_t *addrs, uint32_t n, uint32_t flags)
{
    struct machine *m = machine_of(text);
    struct sim_insn table[8];
    struct sim_core *c = core_of(m, table, hex, n);
    enum { ITERATIONS = 2000, WARM = 100 };
    sim_core_reset_pipeline(c, WARM * n);
    for (unsigned t = 0; t < ITERATIONS + WARM; t++)
        for (uint32_t i = 0; i < n; i++)
            sim_core_step(c, i, addrs ? addrs[i] : 0, flags);
    double cost = sim_core_cycles(c) / ITERATIONS;
    sim_core_free(c);
    machine_free(m);
    return cost;
}

static void stores_to_one_line_leave_together(void **state)
{
    (void)state;
    static const char *const two[] = {"488903", "488901"}; /* mov [rbx],rax; mov [rcx],rax */
    static const uint64_t together[] = {0x2000, 0x2008}, apart[] = {0x2000, 0x3000};
    static const char queue[] = "store-queue 16\n", merging[] = "store-queue 16\ndrain-line 0.5\n";
    NEAR(stepped(with(queue), two, together, 2, 0), 2);
    NEAR(stepped(with(merging), two, together, 2, 0), 1);
    NEAR(stepped(with(merging), two, apart, 2, 0), 2);
    NEAR(stepped(with("store-queue 16\ndrain 0.5\n"), two, apart, 2, 0), 1);
}

static void forwarding_is_learned(void **state)
{
    (void)state;
    static const char *const chain[] = {"488903", "488b01"}; /* mov [rbx],rax; mov rax,[rcx] */
    static const uint64_t same[] = {0x2000, 0x2000};
    NEAR(stepped(with(""), chain, same, 2, 0), 5);
    NEAR(stepped(with("forward-learned 1\n"), chain, same, 2, 0), 1);
    NEAR(stepped(with("rename 1\n"), chain, same, 2, 0), 5); /* the names differ */
}

static void a_store_of_a_part_is_waited_for_in_the_cache(void **state)
{
    (void)state;
    /* mov [rbx],cl; mov rdx,[rcx]; a chain that the store must not retire before: the load waits for that */
    static const char *const parts[] = {"480fafc0", "4889c6", "880b", "488b11", "4801d0"};
    static const uint64_t addrs[] = {0, 0, 0x2000, 0x2000, 0};
    static const char rule[] = "forward-fail 2\nclass imul result-latency 20 on mul\n";
    double cost = stepped(with(rule), parts, addrs, 5, 0); /* imul 20, retirement, load 4, add 1 */
    assert_true(cost > 24 && cost < 29);
}

static void pieces_of_few_instructions_come_as_a_pair(void **state)
{
    (void)state;
    static const char *const jumps[] = {"eb00", "eb00", "eb00", "eb00"}, *const longer[] = {"90", "90", "eb00"};
    static const char pair[] = "fetch-window 64\ntaken-interval 0.5\nfetch-ops 12\nfetch-share 2\nfetch-pair 1.25\n";
    NEAR(stepped(with(pair), jumps, NULL, 4, SIM_TAKEN), 2.5);
    struct machine *m = machine_of(with(pair));
    struct sim_insn table[4];
    struct sim_core *c = core_of(m, table, longer, 3);
    sim_core_reset_pipeline(c, 300);
    for (unsigned t = 0; t < 1100; t++)
        for (uint32_t i = 0; i < 3; i++)
            sim_core_step(c, i, 0, i == 2 ? SIM_TAKEN : 0);
    NEAR(sim_core_cycles(c) / 1000, 1); /* three instructions: each piece has a cycle to itself */
    sim_core_free(c);
    machine_free(m);
}

static void the_first_window_behind_a_branch_gives_fewer(void **state)
{
    (void)state;
    static const char *const nops[] = {"90", "90", "90", "90", "90", "90", "90", "eb00"};
    static const char rule[] = "fetch-window 64\ntaken-interval 0.5\nfetch-ops 4\nfetch-extra 1\n";
    struct machine *m[2] = {machine_of(with(rule)), NULL};
    char more[256];
    snprintf(more, sizeof more, "%sfetch-first 2\n", rule);
    m[1] = machine_of(with(more));
    for (int k = 0; k < 2; k++) {
        struct sim_insn table[8];
        struct sim_core *c = core_of(m[k], table, nops, 8);
        sim_core_reset_pipeline(c, 800);
        for (unsigned t = 0; t < 1100; t++)
            for (uint32_t i = 0; i < 8; i++)
                sim_core_step(c, i, 0, i == 7 ? SIM_TAKEN : 0);
        NEAR(sim_core_cycles(c) / 1000, k ? 4 : 2);
        sim_core_free(c);
        machine_free(m[k]);
    }
}

static void results_come_later_to_others(void **state)
{
    (void)state;
    static const char rule[] = "class fmul result-latency 3 on fp\nclass fma result-latency 4 elsewhere 6 on fp\n"
                               "form \"movaps x,x\" eliminated\n";
    NEAR(COST(rule, "c4e2f1b8c2"), 4);                     /* vfmadd231pd xmm0,xmm1,xmm2 */
    NEAR(COST(rule, "c4e2f1b8c2", "f20f59c1"), 9);         /* and mulsd xmm0,xmm1 */
    NEAR(COST(rule, "c4e2f1b8c2", "0f28d8", "0f28c3"), 4); /* moved by renaming: still the same result */
    NEAR(COST(rule, "c4e2f1b8c2", "0f28d8", "f20f59d9", "0f28c3"), 9);
}

static void flags_take_longer_into_some_moves(void **state)
{
    (void)state;
    static const char rule[] = "class cmov result-latency 1 on alu\nclass cmov.2 result-latency 1 flags 2 on alu\n"
                               "form \"cmovl r64,r64\" cmov.2\n";
    NEAR(COST(rule, "4839d8", "480f44c1"), 2); /* cmp rax,rbx; cmovz rax,rcx */
    NEAR(COST(rule, "4839d8", "480f4cc1"), 3); /* cmovl */
    NEAR(COST(rule, "480f4cc1"), 1);           /* the flags are old */
}

static double division(uint64_t dividend, uint64_t divisor)
{
    static const char *const hex[] = {"48f7f1"}; /* div rcx: a chain through rax, told to hold the same again */
    struct machine *m = machine_of(with("unit dv\nclass div64 result-latency 10 to 22 keeps 9 on alu+dv:6\n"));
    struct sim_insn table[1];
    struct sim_core *c = core_of(m, table, hex, 1);
    const uint64_t regs[16] = {dividend, divisor};
    sim_core_reset_pipeline(c, 100);
    for (unsigned t = 0; t < 1100; t++) {
        sim_core_set_regs(c, regs);
        sim_core_step(c, 0, 0, 0);
    }
    double cycles = sim_core_cycles(c) / 1000;
    sim_core_free(c);
    machine_free(m);
    return cycles;
}

static void a_division_takes_as_long_as_its_quotient(void **state)
{
    (void)state;
    NEAR(division(1000003, 2000), 10);
    NEAR(division(0x123456789abcdef, 3), 22);
    NEAR(division(UINT64_C(1) << 33, 1), 17); /* half way, and operations start at whole cycles */
    NEAR(division(7, UINT64_MAX), 10);
}

static void two_taken_branches_fit_into_a_cycle(void **state)
{
    (void)state;
    static const char *const jumps[] = {"eb00", "eb00", "eb00", "eb00"};
    static const char one[] = "fetch-window 64\ntaken-interval 1\n";
    static const char two[] = "fetch-window 64\ntaken-interval 0.5\nfetch-windows 2\n";
    NEAR(stepped(with(one), jumps, NULL, 4, SIM_TAKEN), 4);
    NEAR(stepped(with(two), jumps, NULL, 4, SIM_TAKEN), 2);
    NEAR(stepped(with("fetch-window 64\ntaken-interval 0.5\n"), jumps, NULL, 4, SIM_TAKEN), 4); /* one window a cycle */
}

/* jmp rax to so many places in turn, each of which jumps back. */
static double indirect(const char *text, unsigned targets)
{
    static const char *const hex[] = {"ffe0", "ebfc", "ebfa", "ebf8", "ebf6"};
    struct machine *m = machine_of(text);
    struct sim_insn table[8];
    struct sim_core *c = core_of(m, table, hex, ARRAY_LEN(hex));
    enum { ITERATIONS = 2000, WARM = 100 };
    sim_core_reset_pipeline(c, 2 * WARM);
    for (unsigned t = 0; t < ITERATIONS + WARM; t++) {
        sim_core_step(c, 0, 0, SIM_TAKEN);
        sim_core_step(c, 1 + t % targets, 0, SIM_TAKEN);
    }
    double cost = sim_core_cycles(c) / ITERATIONS;
    sim_core_free(c);
    machine_free(m);
    return cost;
}

static void more_targets_make_indirect_jumps_slower(void **state)
{
    (void)state;
    static const char rule[] = "fetch-window 64\ntaken-interval 1\nindirect-interval 2\nindirect-more 1\n";
    double one = indirect(with(rule), 1);
    NEAR(indirect(with(rule), 2), one + 1);
    NEAR(indirect(with(rule), 4), one + 2);
    NEAR(indirect(with("fetch-window 64\ntaken-interval 1\nindirect-interval 2\n"), 4), one);
}

/* Two units, each with a scheduler of its own or both with one; a slow division beside them. */
static double behind_a_division(const char *schedulers)
{
    static const char *const hex[] = {"48f7f1", /* div rcx */
                                      "488d7001", "488d7801", "488d6801", "4c8d4001", "4c8d4801",
                                      "4c8d5001",                                               /* lea r,[rax+1] */
                                      "4801cb",   "4801cb",   "4801cb",   "4801cb",   "4801cb", /* add rbx,rcx */
                                      "4801cb",   "4801cb",   "4801cb",   "4801cb",   "4801cb"};
    char text[2048];
    snprintf(text, sizeof text,
             "mtool-machine 1\nmaximum-multiple-issue 4\nfetch-window 0\nfetch-ops 0\nbind-at-dispatch 1\n%sunit d\n"
             "group ab a b\nclass other result-latency 1 on ab\nclass div64 result-latency 20 on d\nend\n",
             schedulers);
    return loop_cost(text, hex, ARRAY_LEN(hex), false);
}

static void split_schedulers_fill_one_by_one(void **state)
{
    (void)state;
    double split = behind_a_division("scheduler qa 8\nscheduler qb 8\nunit a scheduler qa\nunit b scheduler qb\n");
    double one = behind_a_division("scheduler q 16\nunit a scheduler q\nunit b scheduler q\n");
    double small = behind_a_division("scheduler qa 2\nscheduler qb 2\nunit a scheduler qa\nunit b scheduler qb\n");
    NEAR(one, 20);
    NEAR(split, 20);
    assert_true(small > 26); /* the adds wait for the division */
}

/* Two units, one of which shifts. */
static double on_two_units(unsigned bind, const char *const *hex, size_t n)
{
    char text[1024];
    snprintf(text, sizeof text,
             "mtool-machine 1\nmaximum-multiple-issue 6\nretire-width 8\nfetch-window 0\nfetch-ops 0\n"
             "bind-at-dispatch %u\nscheduler all 32\nunit a scheduler all\nunit b scheduler all\ngroup ab a b\n"
             "class other result-latency 1 on ab\nclass shift result-latency 1 on a\nend\n",
             bind);
    return loop_cost(text, hex, n, false);
}

/* When it starts, oldest first: no unit idles that something waits for. At dispatch, by counters: nearly so, but chains
 * may wait for one unit while the other idles. */
static void units_are_chosen_at_start_or_at_dispatch(void **state)
{
    (void)state;
    static const char *const apart[] = {"48c1e003", "48c1e103", "488d5301", "488d7301", "488d7b01", "4c8d4301"};
    static const char *const chains[] = {"48c1e003", "4801d8", "4801d9", "4801d8", "488d7301", "4801d9"};
    NEAR(on_two_units(0, apart, ARRAY_LEN(apart)), 3);
    NEAR(on_two_units(1, apart, ARRAY_LEN(apart)), 3);
    NEAR(on_two_units(0, chains, ARRAY_LEN(chains)), 3);
    double bound = on_two_units(1, chains, ARRAY_LEN(chains));
    if (!(bound > 3.06 && bound < 3.5))
        fail_msg("bound at dispatch: %g", bound);
}

/* ---- a shipped description against what was timed on that core (its "own" figures) ---- */

static const char *shipped_text(const char *wanted)
{
    const char *name, *text;
    for (size_t i = 0; (text = machine_shipped_text(i, &name)); i++)
        if (strcmp(name, wanted) == 0)
            return text;
    fail_msg("%s is not shipped", wanted);
    return NULL;
}

/* Instructions a cycle of 24 that are made of these in turn. */
static double rate_of(const char *machine, const char *const *hex, size_t n)
{
    enum { ALL = 24 };
    const char *iteration[ALL];
    for (size_t i = 0; i < ALL; i++)
        iteration[i] = hex[i % n];
    return ALL / loop_cost(shipped_text(machine), iteration, ALL, false);
}
#define RATE(...)                                                                                                      \
    rate_of("zen4.machine", (const char *const[]){__VA_ARGS__}, ARRAY_LEN(((const char *const[]){__VA_ARGS__})))
#define LATENCY(...)                                                                                                   \
    loop_cost(shipped_text("zen4.machine"), (const char *const[]){__VA_ARGS__},                                        \
              ARRAY_LEN(((const char *const[]){__VA_ARGS__})), false)
#define ABOUT(a, b)                                                                                                    \
    do {                                                                                                               \
        double got = (a);                                                                                              \
        if (!(fabs(got - (b)) < 0.06 * (b)))                                                                           \
            fail_msg("%s is %g, timed: %g", #a, got, (double)(b));                                                     \
    } while (0)

static void the_zen4_of_the_zoo_has_the_rates_that_were_timed(void **state)
{
    (void)state;
    ABOUT(RATE("90"), 11.8);
    ABOUT(RATE(LEAS, "488d7301"), 3.97);                            /* lea r,[rbx+1] */
    ABOUT(RATE("31c0", "31c9"), 5.94);                              /* xor r,r */
    ABOUT(RATE("4889d8", "4889d9"), 5.96);                          /* mov r,r */
    ABOUT(RATE("660fefc0", "660fefc9"), 5.96);                      /* pxor x,x */
    ABOUT(RATE("c5d9fec4", "c5d9fecc", "c5d9fed4", "c5d9fedc"), 4); /* vpaddd r,xmm4,xmm4 */
    ABOUT(RATE("488d4301", "90", "488d4b01", "90"), 7.86);          /* lea, nop */
    ABOUT(RATE("31c0", "90"), 11.8);                                /* xor, nop */
    ABOUT(RATE("31c0", "31c9", "90"), 8.9);                         /* xor, xor, nop */
    ABOUT(RATE(LEAS, "488d7301", "31ff", "4531c0"), 5.92);          /* four lea, two xor */
    ABOUT(RATE(LEAS, "488b33", "488b3b", "4c8b03"), 5.95);          /* three lea, three loads */
    ABOUT(RATE("488b03", "488b0b", "488b13"), 3);                   /* mov r,[rbx] */
    ABOUT(RATE("48c1e003", "48c1e103", "48c1e203", "48c1e603"), 2); /* shl */
    ABOUT(RATE("480fafc3", "480fafcb", "480fafd3", "480faff3"), 1); /* imul */
}

static void the_zen4_of_the_zoo_has_the_latencies_that_were_timed(void **state)
{
    (void)state;
    ABOUT(LATENCY("488b00"), 4);           /* mov rax,[rax] */
    ABOUT(LATENCY("488b4008"), 4);         /* [rax+8] */
    ABOUT(LATENCY("488b0400"), 4);         /* [rax+rax] */
    ABOUT(LATENCY("488b440008"), 5);       /* [rax+rax+8] */
    ABOUT(LATENCY("488b0440"), 5);         /* [rax+rax*2] */
    ABOUT(LATENCY("48f7e3"), 3);           /* mul rbx: rax */
    ABOUT(LATENCY("48f7e3", "4889d0"), 4); /* and mov rax,rdx */
}

static void the_zen4_of_the_zoo_stores_and_jumps_as_was_timed(void **state)
{
    (void)state;
    static const char *const two[] = {"488903", "488901"}, *const calls[] = {"e800000000", "c3"};
    static const uint64_t together[] = {0x2000, 0x2008}, apart[] = {0x2000, 0x3000}, stack[] = {0x7000, 0x7000};
    const char *zen4 = shipped_text("zen4.machine");
    ABOUT(2 / stepped(zen4, two, together, 2, 0), 2);
    ABOUT(2 / stepped(zen4, two, apart, 2, 0), 1);
    ABOUT(stepped(zen4, calls, stack, 2, SIM_TAKEN), 4);
    double one = indirect(zen4, 1), four = indirect(zen4, 4);                    /* with the jump back, one cycle */
    assert_true(one > 2.8 && one < 3.2 && four > one + 1.7 && four < one + 2.7); /* timed: 2.0 and 4.5 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_nop_shares_the_slot_of_a_neighbour),
        cmocka_unit_test(renaming_zeroes_and_moves_so_many_a_cycle),
        cmocka_unit_test(vectors_are_zeroed_by_a_rule_of_their_own),
        cmocka_unit_test(an_address_of_many_parts_takes_longer),
        cmocka_unit_test(an_index_costs_general_and_vector_registers_apart),
        cmocka_unit_test(the_high_half_of_a_product_comes_later),
        cmocka_unit_test(wide_vectors_take_two_passes),
        cmocka_unit_test(units_are_kept_busy_for_parts_of_cycles),
        cmocka_unit_test(stores_to_one_line_leave_together),
        cmocka_unit_test(forwarding_is_learned),
        cmocka_unit_test(a_store_of_a_part_is_waited_for_in_the_cache),
        cmocka_unit_test(pieces_of_few_instructions_come_as_a_pair),
        cmocka_unit_test(the_first_window_behind_a_branch_gives_fewer),
        cmocka_unit_test(results_come_later_to_others),
        cmocka_unit_test(flags_take_longer_into_some_moves),
        cmocka_unit_test(a_division_takes_as_long_as_its_quotient),
        cmocka_unit_test(two_taken_branches_fit_into_a_cycle),
        cmocka_unit_test(more_targets_make_indirect_jumps_slower),
        cmocka_unit_test(split_schedulers_fill_one_by_one),
        cmocka_unit_test(units_are_chosen_at_start_or_at_dispatch),
        cmocka_unit_test(the_zen4_of_the_zoo_has_the_rates_that_were_timed),
        cmocka_unit_test(the_zen4_of_the_zoo_has_the_latencies_that_were_timed),
        cmocka_unit_test(the_zen4_of_the_zoo_stores_and_jumps_as_was_timed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
