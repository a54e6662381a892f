/* SPDX-License-Identifier: Apache-2.0
 *
 * stepper [-e] OUT PROGRAM ARGS...: the oracle of counting. Runs a program one instruction at a time and writes how
 * often each instruction of its executable followed each other one: lines "PREVIOUS ADDRESS COUNT", hex, as in the
 * file; PREVIOUS is
 * "-" when it was not in the executable. Some 100,000 instructions a second. The repetitions of one rep instruction
 * count as one. With -e it begins at the program's entry: what the loader did before is not seen, which for C++ is most
 * of the steps, and of interest only where it calls the executable (ifuncs, preinit). Ends with 1 unless the program
 * ended by itself.
 */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTSIDE UINT64_MAX
#define SLOTS (1u << 20)

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
};

static struct range range_of(pid_t pid, const char *program)
{
    char path[64], line[PATH_MAX + 128], real[PATH_MAX];
    struct range r = {UINT64_MAX, 0, 0, 0};
    Elf64_Ehdr header;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r"), *file = fopen(program, "r");
    if (!maps || !file || fread(&header, sizeof header, 1, file) != 1 || !realpath(program, real))
        exit(2);
    while (fgets(line, sizeof line, maps)) {
        unsigned long lo, hi;
        line[strcspn(line, "\n")] = 0;
        char *name = strchr(line, '/');
        if (sscanf(line, "%lx-%lx", &lo, &hi) == 2 && name && !strcmp(name, real)) {
            r.lo = lo < r.lo ? lo : r.lo;
            r.hi = hi > r.hi ? hi : r.hi;
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

enum { CPUID = 0xa20f, CPUID_BYTES = 2 };

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
    while (WIFSTOPPED(status)) {
        struct user_regs_struct regs;
        ptrace(PTRACE_GETREGS, pid, NULL, &regs);
        uint64_t at = regs.rip >= range.lo && regs.rip < range.hi ? regs.rip - range.base : OUTSIDE;
        int is_step =
            WSTOPSIG(status) == SIGTRAP; /* else a signal before the instruction at rip, which is not done again */
        if (is_step && at != OUTSIDE && !(at == prev && is_rep(pid, regs.rip)))
            add(prev, at);
        prev = at;
        int sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
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
