/* SPDX-License-Identifier: Apache-2.0
 *
 * stepper [-e] OUT PROGRAM ARGS...: the oracle of counting. Runs a program one instruction at a time and writes how
 * often each instruction of its executable followed each other one: lines "PREVIOUS ADDRESS COUNT", hex, as in the
 * file; PREVIOUS is
 * "-" when it was not in the executable. Some 100,000 instructions a second. The repetitions of one rep instruction
 * count as one. With -e it begins at the program's entry, and steps through nothing but the executable: what the loader
 * did before is not seen, and of interest only where it calls the executable (ifuncs, preinit). Libraries, where nearly
 * all steps of C++ are, run at full speed: the executable may not be executed meanwhile, so its next instruction
 * faults. Ends with 1 unless the program ended by itself.
 */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTSIDE UINT64_MAX
#define SLOTS (1u << 20)

enum { CPUID = 0xa20f, CPUID_BYTES = 2, SYSCALL = 0x050f };

static struct pair {
    uint64_t prev, addr, count;
} pairs[SLOTS];

static void add(uint64_t prev, uint64_t addr)
{
    uint64_t h = (prev * 31 + addr) * 0x9e3779b97f4a7c15u >> 44;
    while (pairs[h].count && (pairs[h].prev != prev || pairs[h].addr != addr))
        h = (h + 1) % SLOTS;
    pairs[h] = (struct pair){prev, addr, pairs[h].count + 1};
}

struct range {
    uint64_t lo, hi, base; /* of the mapped executable; base: what is added to addresses of the file */
    uint64_t entry;
    uint64_t code_lo, code_hi; /* of it, what can be executed */
    uint64_t syscall;          /* where the kernel's own code has such an instruction; 0: nowhere */
};

static uint64_t find_syscall(pid_t pid, uint64_t lo, uint64_t hi)
{
    for (uint64_t at = lo; at < hi; at++)
        if ((ptrace(PTRACE_PEEKTEXT, pid, at, NULL) & 0xffff) == SYSCALL)
            return at;
    return 0;
}

static struct range range_of(pid_t pid, const char *program)
{
    char path[64], line[PATH_MAX + 128], real[PATH_MAX];
    struct range r = {.lo = UINT64_MAX, .code_lo = UINT64_MAX};
    Elf64_Ehdr header;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r"), *file = fopen(program, "r");
    if (!maps || !file || fread(&header, sizeof header, 1, file) != 1 || !realpath(program, real))
        exit(2);
    while (fgets(line, sizeof line, maps)) {
        unsigned long lo, hi;
        line[strcspn(line, "\n")] = 0;
        char *name = strchr(line, '/'), may[5];
        if (sscanf(line, "%lx-%lx %4s", &lo, &hi, may) != 3)
            continue;
        if (strstr(line, "[vdso]"))
            r.syscall = find_syscall(pid, lo, hi - 8);
        if (!name || strcmp(name, real))
            continue;
        r.lo = lo < r.lo ? lo : r.lo;
        r.hi = hi > r.hi ? hi : r.hi;
        if (may[2] == 'x') {
            r.code_lo = lo < r.code_lo ? lo : r.code_lo;
            r.code_hi = hi > r.code_hi ? hi : r.code_hi;
        }
    }
    r.base = header.e_type == ET_DYN ? r.lo : 0;
    r.entry = header.e_entry + r.base;
    fclose(maps);
    fclose(file);
    return r;
}

static int is_rep(pid_t pid, uint64_t addr)
{
    uint8_t b[8];
    long word = ptrace(PTRACE_PEEKTEXT, pid, addr, NULL);
    memcpy(b, &word, 8);
    for (int i = 0; i < 4; i++) /* other prefixes may stand before it */
        if (b[i] == 0xf2 || b[i] == 0xf3)
            return 1;
    return 0;
}

static int is_cpuid(pid_t pid, uint64_t addr) { return (ptrace(PTRACE_PEEKTEXT, pid, addr, NULL) & 0xffff) == CPUID; }

/* Runs at full speed to the instruction at `addr`; the status of the stop. */
static int run_to(pid_t pid, uint64_t addr)
{
    struct user_regs_struct regs;
    int status;
    long word = ptrace(PTRACE_PEEKTEXT, pid, addr, NULL);
    ptrace(PTRACE_POKETEXT, pid, addr, (word & ~0xffL) | 0xcc);
    ptrace(PTRACE_CONT, pid, NULL, NULL);
    waitpid(pid, &status, 0);
    ptrace(PTRACE_POKETEXT, pid, addr, word);
    if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) || regs.rip != addr + 1)
        exit(2);
    regs.rip = addr;
    ptrace(PTRACE_SETREGS, pid, NULL, &regs);
    return status;
}

/* The program itself calls mprotect for its executable's code. */
static void protect(pid_t pid, const struct range *r, int prot)
{
    struct user_regs_struct before, call, after;
    int status;
    ptrace(PTRACE_GETREGS, pid, NULL, &before);
    call = before;
    call.rip = r->syscall;
    call.rax = SYS_mprotect;
    call.orig_rax = UINT64_MAX; /* none that would be begun again */
    call.rdi = r->code_lo;
    call.rsi = r->code_hi - r->code_lo;
    call.rdx = (unsigned)prot;
    ptrace(PTRACE_SETREGS, pid, NULL, &call);
    ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
    waitpid(pid, &status, 0);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP || ptrace(PTRACE_GETREGS, pid, NULL, &after) || after.rax)
        exit(2);
    ptrace(PTRACE_SETREGS, pid, NULL, &before);
}

/* Whether it may be told by a SIGSEGV of ours that the executable goes on: while that is blocked, the kernel would set
 * its handler to the default. */
static int can_fault(pid_t pid, const struct range *r)
{
    uint64_t blocked = 0;
    return r->syscall && !ptrace(PTRACE_GETSIGMASK, pid, (void *)sizeof blocked, &blocked) &&
           !(blocked >> (SIGSEGV - 1) & 1);
}

/* Whether a stop is the fault of an executable that goes on. */
static int goes_on(pid_t pid, const struct range *r, int status)
{
    siginfo_t info;
    struct user_regs_struct regs;
    return WIFSTOPPED(status) && WSTOPSIG(status) == SIGSEGV && !ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) &&
           info.si_code == SEGV_ACCERR && !ptrace(PTRACE_GETREGS, pid, NULL, &regs) && regs.rip >= r->code_lo &&
           regs.rip < r->code_hi && (uint64_t)info.si_addr == regs.rip;
}

/* Runs what is outside of the executable at full speed. Whether it ended in the executable, as a
 * step does; else `status` is that of a signal, or the program's end. */
static int run_outside(pid_t pid, const struct range *r, int *status)
{
    protect(pid, r, PROT_READ);
    ptrace(PTRACE_CONT, pid, NULL, NULL);
    waitpid(pid, status, 0);
    int is_step = goes_on(pid, r, *status);
    if (WIFSTOPPED(*status))
        protect(pid, r, PROT_READ | PROT_EXEC);
    return is_step;
}

int main(int argc, char **argv)
{
    int from_entry = argc > 1 && !strcmp(argv[1], "-e");
    argc -= from_entry;
    argv += from_entry;
    if (argc < 3)
        return 2;
    pid_t pid = fork();
    if (pid == 0) {
        personality(ADDR_NO_RANDOMIZE);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execv(argv[2], argv + 2);
        _exit(2);
    }
    int status;
    waitpid(pid, &status, 0);
    if (!WIFSTOPPED(status))
        return 2;
    struct range range = range_of(pid, argv[2]);
    if (from_entry)
        status = run_to(pid, range.entry);
    uint64_t prev = OUTSIDE;
    int came_back = 0;
    while (WIFSTOPPED(status)) {
        struct user_regs_struct regs;
        ptrace(PTRACE_GETREGS, pid, NULL, &regs);
        uint64_t at = regs.rip >= range.lo && regs.rip < range.hi ? regs.rip - range.base : OUTSIDE;
        /* else a signal before the instruction at rip, which is not done again */
        int is_step = came_back || WSTOPSIG(status) == SIGTRAP;
        if (is_step && at != OUTSIDE && !(at == prev && is_rep(pid, regs.rip)))
            add(prev, at);
        prev = at;
        int sig = is_step ? 0 : WSTOPSIG(status);
        came_back = 0;
        if (!sig && from_entry && at == OUTSIDE && can_fault(pid, &range)) {
            came_back = run_outside(pid, &range, &status);
            continue;
        }
        if (!sig && is_cpuid(pid, regs.rip)) { /* hypervisors execute it, and some lose the trap behind it */
            status = run_to(pid, regs.rip + CPUID_BYTES);
            continue;
        }
        ptrace(PTRACE_SINGLESTEP, pid, NULL, (void *)(long)sig);
        waitpid(pid, &status, 0);
    }
    FILE *out = fopen(argv[1], "w");
    if (!out)
        return 2;
    for (uint32_t i = 0; i < SLOTS; i++)
        if (pairs[i].count) {
            if (pairs[i].prev == OUTSIDE)
                fprintf(out, "- %lx %lu\n", pairs[i].addr, pairs[i].count);
            else
                fprintf(out, "%lx %lx %lu\n", pairs[i].prev, pairs[i].addr, pairs[i].count);
        }
    fclose(out);
    return WIFEXITED(status) ? 0 : 1;
}
