/* SPDX-License-Identifier: Apache-2.0
 *
 * cfg-follow [-n STEPS] [-s SKIP] PROGRAM ARGS...: runs a program one instruction at a time and holds every step
 * against the cfg of the module it is in: a step inside a block goes to the next instruction, a block is left along one
 * of its edges, and a block is entered from elsewhere only if it says so. The processor is the oracle. Prints each kind
 * of offence once per place; exits 1 if there was any, 77 if this system does not let a process be traced. */
#include <errno.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cfg/impl.h"

struct module {
    char path[512];
    uint64_t lo, hi, bias; /* of its code in memory; address = file address + bias */
    struct cfg *c;         /* NULL: not a file we can read */
};
#define MODULES 256
static VEC(struct module) modules;
static uint64_t offences, steps, checked;

struct place { /* where the program counter is */
    const struct module *m;
    uint64_t addr;              /* in the file */
    uint32_t func, insn, block; /* ID_NONE: none, or the function was left alone */
};

static void load_module(struct module *m)
{
    struct image *img;
    if (m->path[0] != '/' || image_open(m->path, &img) < 0 || cfg_build(img, &m->c) < 0)
        return;
    for (size_t k = 0; k < img->segment_count; k++) /* the first executable PT_LOAD is what lies at lo */
        if (img->segments[k].type == 1 && (img->segments[k].flags & 1)) {
            m->bias = m->lo - ALIGN_DOWN(img->segments[k].vaddr, 4096ull);
            return;
        }
}

static void read_maps(pid_t pid)
{
    char name[64], line[1024];
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(name, "r");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long long lo, hi;
        char perms[8], path[512] = "";
        if (sscanf(line, "%llx-%llx %7s %*s %*s %*s %511s", &lo, &hi, perms, path) < 3 || perms[2] != 'x')
            continue;
        bool known = false;
        for (size_t k = 0; k < modules.len; k++)
            known |= modules.data[k].lo == lo;
        struct module m = {.lo = lo, .hi = hi};
        memcpy(m.path, path, sizeof m.path);
        if (!known && modules.len < MODULES) {
            load_module(&m);
            VEC_PUSH(&modules, m);
        }
    }
    if (f)
        fclose(f);
}

static const struct module *module_at(pid_t pid, uint64_t pc)
{
    static size_t last;
    for (int pass = 0; pass < 2; pass++) {
        if (last < modules.len && pc - modules.data[last].lo < modules.data[last].hi - modules.data[last].lo)
            return &modules.data[last];
        for (size_t k = 0; k < modules.len; k++)
            if (pc - modules.data[k].lo < modules.data[k].hi - modules.data[k].lo) {
                last = k;
                return &modules.data[k];
            }
        if (pass == 0)
            read_maps(pid);
    }
    return NULL;
}

static struct place place_of(pid_t pid, uint64_t pc)
{
    struct place p = {.m = module_at(pid, pc), .func = ID_NONE, .insn = ID_NONE, .block = ID_NONE};
    if (!p.m || !p.m->c)
        return p;
    p.addr = pc - p.m->bias;
    p.func = cfg_func_at(p.m->c, p.addr);
    if (p.func != ID_NONE) {
        p.insn = cfg_insn_at(p.m->c, p.addr);
        p.block = cfg_block_at(p.m->c, p.addr);
    }
    return p;
}

static void offence(const char *what, const struct place *from, const struct place *to)
{
    static struct map told;
    uint64_t key = from->addr * 31 + to->addr * 7 + (uint64_t)what[0];
    if (map_has(&told, key))
        return;
    map_put(&told, key, 1);
    offences++;
    printf("%s: %s %llx -> %s %llx\n", what, from->m ? file_base_name(from->m->path) : "?",
           (unsigned long long)from->addr, to->m ? file_base_name(to->m->path) : "?", (unsigned long long)to->addr);
}

static bool has_edge_to(const struct cfg *c, const struct cfg_block *b, uint32_t to, bool *leaves)
{
    *leaves = false;
    cfg_for_each_edge(b, e) {
        if (c->edges.data[e].to == to)
            return true;
        *leaves |= c->edges.data[e].to == ID_NONE;
    }
    return false;
}

/* Entered from code without blocks, by a return, or by a call: the block must say that this may be. */
static void check_entered(const struct place *from, const struct place *to)
{
    if (to->block == ID_NONE)
        return;
    const struct cfg_block *b = &to->m->c->blocks.data[to->block];
    if (b->addr != to->addr)
        offence("enters the middle of a block", from, to);
    else if (!(b->flags & CFG_BLOCK_EXT_IN))
        offence("enters a block that says nobody does", from, to);
    if ((b->flags & CFG_BLOCK_RETURN_POINT) && b->addr == to->addr) {
        const struct cfg_block *call = b - 1;
        if ((call->flags & CFG_BLOCK_NORETURN) && from->block != ID_NONE &&
            from->m->c->blocks.data[from->block].term == X86_RET)
            offence("returns from a call that is said not to return", from, to);
    }
}

static void check_step(const struct place *from, const struct place *to)
{
    if (to->block != ID_NONE && to->insn == ID_NONE) {
        offence("stands inside an instruction", from, to);
        return;
    }
    if (from->block == ID_NONE || from->insn == ID_NONE) {
        bool falls_in = from->m == to->m && from->func == to->func && from->func != ID_NONE;
        falls_in |= from->func != ID_NONE &&
                    from->m->c->funcs.data[from->func].reason == CFG_REASON_SIGNAL_FRAME; /* sigreturn */
        if (!falls_in)
            check_entered(from, to);
        return;
    }
    checked++;
    const struct cfg *c = from->m->c;
    const struct cfg_block *b = &c->blocks.data[from->block];
    struct x86_insn full = cfg_insn(c, from->insn), *i = &full;
    bool same = to->m == from->m, leaves;
    if (from->insn != b->insn_first + b->insn_count - 1) {
        bool exec = i->kind == X86_SYSCALL && to->addr != i->addr + i->len;
        if (exec) /* other modules, now */
            modules.len = 0;
        else if (!same || (to->addr != i->addr + i->len && to->addr != i->addr)) /* a rep stays */
            offence("leaves the middle of a block", from, to);
        return;
    }
    if (same && to->addr == i->addr && (i->props & X86_PROP_REP))
        return;
    if (b->term == X86_CALL || b->term == X86_CALL_IND || b->term == X86_RET) {
        check_entered(from, to);
    } else if (!has_edge_to(c, b, same ? to->block : ID_NONE, &leaves)) {
        if (!leaves)
            offence("leaves a block along no edge", from, to);
        check_entered(from, to);
    } else if (same && to->block != ID_NONE && c->blocks.data[to->block].addr != to->addr) {
        offence("enters the middle of a block", from, to);
    }
}

enum { CPUID = 0xa20f, CPUID_BYTES = 2 };

/* What was executed last. Hypervisors execute cpuid for their guests, and some lose the trap behind it: the next
 * instruction is executed too then. */
static struct place executed_last(pid_t pid, const struct place *last, uint64_t pc, const struct place *now)
{
    long word = ptrace(PTRACE_PEEKTEXT, pid, (void *)(uintptr_t)pc, NULL);
    bool is_lost = (word & 0xffff) == CPUID && last->m && (now->m != last->m || now->addr != last->addr + CPUID_BYTES);
    return is_lost ? place_of(pid, pc + CPUID_BYTES) : *last;
}

static int follow(pid_t pid, uint64_t max, uint64_t skip)
{
    struct place last = {.func = ID_NONE, .insn = ID_NONE, .block = ID_NONE};
    bool have_last = false;
    uint64_t pc = 0; /* of the last one */
    int status, sig = 0;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        struct user_regs_struct regs;
        sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
            break;
        if (steps++ >= skip) {
            struct place now = place_of(pid, regs.rip);
            if (have_last && !sig)
                last = executed_last(pid, &last, pc, &now), check_step(&last, &now);
            last = now;
            pc = regs.rip;
            have_last = !sig; /* a signal goes anywhere */
        }
        if (steps > max) {
            ptrace(PTRACE_KILL, pid, NULL, NULL);
            continue;
        }
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, (void *)(intptr_t)sig) < 0)
            break;
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t max = UINT64_MAX, skip = 0;
    int k = 1;
    for (; k + 1 < argc && argv[k][0] == '-'; k += 2) {
        if (argv[k][1] == 'n')
            max = strtoull(argv[k + 1], NULL, 10);
        else
            skip = strtoull(argv[k + 1], NULL, 10);
    }
    if (k >= argc)
        return 2;
    VEC_RESERVE(&modules, MODULES); /* they stay where they are */
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
            _exit(77);
        execvp(argv[k], argv + k);
        _exit(126);
    }
    follow(pid, max, skip);
    if (steps == 0) {
        printf("1..0 # SKIP processes cannot be traced here\n");
        return 77;
    }
    printf("%llu steps, %llu from blocks, %llu offences\n", (unsigned long long)steps, (unsigned long long)checked,
           (unsigned long long)offences);
    return offences != 0;
}
