/* SPDX-License-Identifier: Apache-2.0
 * To be compiled without unwind tables: C functions behind pointers, assembly that is called and assembly that is only
 * reached through a pointer, tables among the code that read as code. Prints a sum and, if asked, what
 * is expected of the counts. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t mix_fn(uint64_t a, uint64_t b);

__asm__(".intel_syntax noprefix\n"
        ".text\n"
        ".p2align 4\n"
        ".globl asm_called\n.type asm_called, @function\n"
        "asm_called:\n" /* flags go in and out */
        "    adc rdi, rsi\n"
        "    mov rax, rdi\n"
        "    rol rax, 7\n"
        "    bt rax, 3\n"
        "    ret\n"
        ".size asm_called, . - asm_called\n"
        ".p2align 4\n"
        ".globl asm_switch\n.type asm_switch, @function\n"
        "asm_switch:\n" /* by a table of distances, as assembly for several processors has it */
        "    and esi, 3\n"
        "    lea rdx, [rip + cases]\n"
        "    movsxd rsi, dword ptr [rdx + rsi * 4]\n"
        "    add rsi, rdx\n"
        "    jmp rsi\n"
        "2:  add rdi, 3\n"
        "    mov rax, rdi\n"
        "    ret\n"
        "3:  lea rax, [rdi * 8 + 1]\n"
        "    ret\n"
        "4:  mov rax, rdi\n"
        "    bswap rax\n"
        "    ret\n"
        ".size asm_switch, . - asm_switch\n"
        ".p2align 4\n"
        "read_table:\n" /* data: would decode as mov rax, rdi; ret */
        ".rept 8\n.byte 0x48, 0x89, 0xf8, 0xc3\n.endr\n"
        ".p2align 4\n"
        ".globl asm_pointed\n.type asm_pointed, @function\n"
        "asm_pointed:\n"
        "    mov rcx, 40\n"
        "    mov rax, rdi\n"
        "1:  add rax, rsi\n"
        "    ror rax, 3\n"
        "    dec rcx\n"
        "    jnz 1b\n"
        "    movdqa xmm0, [rip + read_table]\n"
        "    movq rdx, xmm0\n"
        "    xor rax, rdx\n"
        "    ret\n"
        ".size asm_pointed, . - asm_pointed\n"
        ".p2align 4\n"
        ".globl table_in_text\n"
        "table_in_text:\n" /* data: behind the end of a function, aligned, held, and in front of code that runs */
        ".rept 5\n.byte 0x48, 0x89, 0xf8\n.endr\n.byte 0x90\n"
        ".globl asm_cold\n.type asm_cold, @function\n"
        "asm_cold:\n"
        "    xor rax, rsi\n"
        "    ret\n"
        ".size asm_cold, . - asm_cold\n"
        ".section .rodata\n"
        ".p2align 2\n"
        "cases: .long 2b - cases, 3b - cases, 4b - cases, 2b - cases\n"
        ".text\n"
        ".att_syntax\n");
uint64_t asm_called(uint64_t a, uint64_t b);
uint64_t asm_pointed(uint64_t a, uint64_t b);
uint64_t asm_switch(uint64_t a, uint64_t b);
uint64_t asm_cold(uint64_t a, uint64_t b);
extern const unsigned char table_in_text[16];

enum { CARRIES = 8 };

/* Long enough for samples: a core that retires many instructions at once is hardly ever interrupted in a short
 * function. */
static uint64_t carried(uint64_t a, uint64_t b)
{
    uint64_t out = a;
    for (int i = 0; i < CARRIES; i++) {
        unsigned char carry;
        __asm__("stc\n\tcall asm_called\n\tsetc %1" : "=a"(out), "=q"(carry), "+D"(a), "+S"(b) : : "cc");
        a = out + carry;
    }
    return a;
}

static uint64_t multiply(uint64_t a, uint64_t b)
{
    for (int i = 0; i < 12; i++)
        a = a * 6364136223846793005u + b;
    return a;
}

static uint64_t count_bits(uint64_t a, uint64_t b)
{
    uint64_t n = 0;
    for (uint64_t v = a ^ b; v; v &= v - 1)
        n++;
    return a + n;
}

mix_fn *volatile held = asm_cold;

static uint64_t by_text(uint64_t a, uint64_t b)
{
    const unsigned char *t = table_in_text;
    __asm__("" : "+r"(t));
    for (int i = 0; i < 16; i++)
        a += t[(b + (uint64_t)i) % 16];
    return a;
}

static mix_fn *const mixers[] = {carried, multiply, asm_pointed, count_bits, asm_switch, by_text};
enum { MIXERS = sizeof mixers / sizeof *mixers };

static int compare(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    uint64_t keep[256] = {0}, sum = 88172645463325252u;
    for (unsigned i = 0; i < rounds * MIXERS; i++) {
        sum = mixers[i % MIXERS](sum, i);
        keep[i % 256] ^= sum;
    }
    qsort(keep, 256, sizeof *keep, compare);
    for (int i = 0; i < 256; i++)
        sum = sum * 31 + keep[i];
    printf("%016llx\n", (unsigned long long)sum);
    if (argc > 2)
        printf("expect multiply %u\nexpect asm_pointed %u\nexpect asm_called %u\nexpect asm_switch %u\n", rounds,
               rounds, CARRIES * rounds, rounds);
    return 0;
}
