/* SPDX-License-Identifier: Apache-2.0
 *
 * translated SECONDS: does for so long, again and again, what is hard to translate: operands relative to the
 * instruction of every encoding, jumps that reach 127 bytes, repeated string instructions of length 0 and backwards,
 * flags that live across indirect jumps and returns, calls through the stack, odd registers as bases, 16-bit pushes,
 * the red zone. Ends with 1 if a turn gives another sum than the first. With -DLIBRARY turn() alone, to be far from the
 * executable, with -DMAIN_ONLY the rest. To be compiled without a red zone.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t turn(void);

#ifndef MAIN_ONLY
#define USED __attribute__((used))
static uint64_t table[8] USED = {3, 1, 4, 1, 5, 9, 2, 6};
static uint64_t pair[2] USED __attribute__((aligned(16))) = {7, 9};
static double reals[8] USED __attribute__((aligned(64))) = {1, 2, 3, 4, 5, 6, 7, 8};
static char text[64] USED = "the quick brown fox jumps over the lazy dog", to[64] USED;

static uint64_t relative(uint64_t v)
{
    __asm__ volatile(
        "addq table+8(%%rip), %0\n\t"
        "imulq $5, table+16(%%rip), %%rax\n\txorq %%rax, %0\n\t"
        "cmpl $4, table+16(%%rip)\n\tsete %%al\n\tmovzbl %%al, %%eax\n\taddq %%rax, %0\n\t"
        "leaq table+40(%%rip), %%r13\n\taddq 0(%%r13), %0\n\tmovq $1, %%r12\n\taddq -8(%%r13,%%r12,8), %0\n\t"
        "pushq table+24(%%rip)\n\tpopq %%rcx\n\taddq %%rcx, %0\n\t"
        "movq $7, %%rax\n\tmovq $9, %%rdx\n\tmovq $11, %%rbx\n\tmovq $13, %%rcx\n\t"
        "lock cmpxchg16b pair(%%rip)\n\tmovq $7, pair(%%rip)\n\tmovq $9, pair+8(%%rip)\n\taddq %%rdx, %0\n\t"
        "movl $77, %%eax\n\txorl %%edx, %%edx\n\tdivq table+40(%%rip)\n\taddq %%rdx, %0\n\t"
        "movsd reals+8(%%rip), %%xmm0\n\taddsd reals(%%rip), %%xmm0\n\tcvttsd2si %%xmm0, %%rax\n\taddq %%rax, %0"
        : "+r"(v)
        :
        : "rax", "rbx", "rcx", "rdx", "r12", "r13", "xmm0", "memory", "cc");
    return v;
}

__attribute__((target("avx2"))) static uint64_t vectors(uint64_t v)
{
    uint64_t sum[4];
    __asm__ volatile("vmovupd reals(%%rip), %%ymm8\n\tvaddpd reals+32(%%rip), %%ymm8, %%ymm9\n\t"
                     "vbroadcastsd reals+16(%%rip), %%ymm10\n\tvmulpd %%ymm10, %%ymm9, %%ymm9\n\t"
                     "vpcmpeqd %%ymm1, %%ymm1, %%ymm1\n\tvpsrlq $63, %%ymm1, %%ymm2\n\tleaq table(%%rip), %%r13\n\t"
                     "vpgatherqq %%ymm1, (%%r13,%%ymm2,8), %%ymm3\n\tvpaddq %%ymm3, %%ymm9, %%ymm9\n\t"
                     "vmovdqu %%ymm9, %0\n\tvzeroupper"
                     : "=m"(sum)
                     :
                     : "r13", "xmm1", "xmm2", "xmm3", "xmm8", "xmm9", "xmm10", "memory");
    return v + sum[0] + sum[1] * 3 + sum[2] * 5 + sum[3] * 7;
}

__attribute__((target("avx512f"))) static uint64_t wide_vectors(uint64_t v)
{
    uint64_t sum[8];
    __asm__ volatile("vmovupd reals(%%rip), %%zmm18\n\tmovl $0xa5, %%eax\n\tkmovw %%eax, %%k1\n\t"
                     "vaddpd reals+8(%%rip)%{1to8%}, %%zmm18, %%zmm19%{%%k1%}\n\tvmulpd reals(%%rip), %%zmm19, "
                     "%%zmm20%{%%k1%}%{z%}\n\t"
                     "vmovdqu64 %%zmm20, %0\n\tvzeroupper"
                     : "=m"(sum)
                     :
                     : "rax", "memory");
    return v + sum[0] + sum[2] * 3 + sum[5] * 5 + sum[7] * 7;
}

static uint64_t loops(uint64_t v)
{
    __asm__ volatile(
        "movl $5, %%ecx\n1:\taddq $3, %0\n\tloop 1b\n\t"
        "movl $9, %%ecx\n2:\taddq %%rcx, %0\n\tcmpl $4, %%ecx\n\tloopne 2b\n\taddq %%rcx, %0\n\t"
        "jrcxz 3f\n\taddq $11, %0\n3:\txorl %%ecx, %%ecx\n\tstc\n\tjrcxz 4f\n\taddq $13, %0\n4:\tadcq $17, %0"
        : "+r"(v)
        :
        : "rcx", "cc");
    return v;
}

static uint64_t strings(uint64_t v)
{
    uint64_t left, at;
    __asm__ volatile(
        "movl $40, %%ecx\n\tleaq text(%%rip), %%rsi\n\tleaq to(%%rip), %%rdi\n\trep movsb\n\t"
        "movl $5, %%ecx\n\trep stosb\n\txorl %%ecx, %%ecx\n\trep movsq\n\trepe cmpsb\n\t"
        "leaq text(%%rip), %%rdi\n\tmovl $44, %%ecx\n\tmovl $'q', %%eax\n\trepne scasb\n\tmovq (%%rdi), %1\n\tmovq "
        "%%rcx, %0\n\t"
        "std\n\tleaq text+20(%%rip), %%rsi\n\tleaq to+40(%%rip), %%rdi\n\tmovl $7, %%ecx\n\trep movsb\n\tcld\n\t"
        "leaq text(%%rip), %%rsi\n\tleaq to(%%rip), %%rdi\n\tmovl $44, %%ecx\n\trepe cmpsb\n\taddq %%rcx, %0\n\taddb "
        "-1(%%rsi), %b0"
        : "=&r"(left), "=&r"(at)
        :
        : "rax", "rcx", "rsi", "rdi", "memory", "cc");
    return v + left * 31 + at;
}

/* Carry, zero and overflow must come through a jump, a call and a return unharmed. */
static uint64_t flags(uint64_t v)
{
    __asm__ volatile("leaq 1f(%%rip), %%rcx\n\tstc\n\tjmp *%%rcx\n1:\tadcq $0, %0\n\t"
                     "leaq 5f(%%rip), %%rdx\n\tsubq $160, %%rsp\n\tmovq %%rdx, 8(%%rsp)\n\tmovb $127, %%al\n\taddb $1, "
                     "%%al\n\tcall *8(%%rsp)\n\t"
                     "seto %%al\n\tmovzbl %%al, %%eax\n\tleaq (%0,%%rax,4), %0\n\tadcq $2, %0\n\tjmp 6f\n"
                     "5:\tleaq 16(%0), %0\n\tret\n"
                     "6:\tleaq 7f(%%rip), %%rdx\n\tmovq %%rdx, 16(%%rsp)\n\txorl %%eax, %%eax\n\tjmp *16(%%rsp)\n"
                     "7:\tsetz %%al\n\taddq %%rax, %0\n\taddq $160, %%rsp"
                     : "+r"(v)
                     :
                     : "rax", "rcx", "rdx", "memory", "cc");
    return v;
}

static uint64_t stack(uint64_t v)
{
    __asm__ volatile(
        "movq %0, -72(%%rsp)\n\tleaq -256(%%rsp), %%rsp\n\t"
        "pushw $5\n\tpushw $6\n\tmovl (%%rsp), %%eax\n\tpopw %%cx\n\tpopw %%cx\n\taddq %%rax, %0\n\t"
        "call 1f\n1:\tpopq %%rax\n\tleaq 1b(%%rip), %%rcx\n\tsubq %%rcx, %%rax\n\taddq %%rax, %0\n\t"
        "pushq $3\n\tpushq $4\n\tcall 2f\n\tjmp 3f\n2:\tmovq 8(%%rsp), %%rax\n\taddq 16(%%rsp), %%rax\n\tret $16\n"
        "3:\taddq %%rax, %0\n\tpushq %%rbp\n\tmovq %%rsp, %%rbp\n\tsubq $48, %%rsp\n\tmovq %0, -8(%%rbp)\n\tleave\n\t"
        "movq %%rsp, %%rcx\n\tpushq %%rsp\n\tpopq %%rax\n\tsubq %%rcx, %%rax\n\taddq %%rax, %0\n\t"
        "xchgq %%rsp, %%rcx\n\tmovq %0, -8(%%rsp)\n\tleaq 256(%%rsp), %%rsp\n\taddq -72(%%rsp), %0"
        : "+r"(v)
        :
        : "rax", "rcx", "memory", "cc");
    return v;
}

static uint64_t one(uint64_t v) { return v * 3 + 1; }
static uint64_t two(uint64_t v) { return v ^ v >> 7; }
static uint64_t (*volatile const steps[4])(uint64_t) = {one, two, relative, loops};

static uint64_t switches(uint64_t v)
{
    for (int k = 0; k < 12; k++)
        switch ((v >> k) & 7) {
        case 0:
            v += table[1];
            break;
        case 1:
            v ^= table[2] << 4;
            break;
        case 2:
            v = steps[v & 3](v);
            break;
        case 3:
            v -= table[3];
            break;
        case 4:
            v *= table[4];
            break;
        case 5:
            v = v << 3 | v >> 61;
            break;
        case 6:
            v += table[6] + (uint64_t)k;
            break;
        default:
            v = ~v;
            break;
        }
    return v;
}

uint64_t turn(void)
{
    uint64_t v = 1;
    for (int k = 0; k < 200; k++) {
        v = switches(stack(flags(strings(loops(relative(v))))));
        v = __builtin_cpu_supports("avx2") ? vectors(v) : v;
        v = __builtin_cpu_supports("avx512f") ? wide_vectors(v) : v;
    }
    return v;
}
#endif

#ifndef LIBRARY
int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 0.2;
    uint64_t first = turn(), turns = 0;
    while ((double)clock() / CLOCKS_PER_SEC < seconds)
        for (int k = 0; k < 50; k++, turns++)
            if (turn() != first)
                return puts("another sum"), 1;
    return turns == 0;
}
#endif
