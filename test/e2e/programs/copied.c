/* SPDX-License-Identifier: Apache-2.0
 * Built-in functions as V8 has them: one piece of assembly without unwind description, whose place and length symbols
 * tell (of a stripped file: a name among the constants). They are run where they are and in a copy of the piece, and
 * what they call looks up the return address in both. Prints how often it was in which. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef uint64_t back_fn(uint64_t a);
typedef uint64_t entry_fn(back_fn *back, uint64_t a);

__asm__(".intel_syntax noprefix\n"
        ".text\n"
        ".p2align 6\n"
        ".globl v8_Default_embedded_blob_code_\n.hidden v8_Default_embedded_blob_code_\n"
        "v8_Default_embedded_blob_code_:\n"
        ".type Builtins_Entry, @function\n"
        "Builtins_Entry:\n"
        "    push rbx\n"
        "    mov rbx, 20\n"
        "1:  call Builtins_Step\n"
        "    mov rsi, rax\n"
        "    dec rbx\n"
        "    jnz 1b\n"
        "    pop rbx\n"
        "    ret\n"
        ".size Builtins_Entry, . - Builtins_Entry\n"
        ".p2align 6, 0xcc\n"
        ".type Builtins_Step, @function\n"
        "Builtins_Step:\n"
        "    push rdi\n"
        "    mov rax, rdi\n"
        "    mov rdi, rsi\n"
        "    mov ecx, 30\n"
        "2:  rol rdi, 3\n"
        "    add rdi, rcx\n"
        "    dec ecx\n"
        "    jnz 2b\n"
        "    call rax\n"
        "    pop rdi\n"
        "    ret\n"
        ".size Builtins_Step, . - Builtins_Step\n"
        ".p2align 6, 0xcc\n"
        ".fill 512, 1, 0xcc\n" /* less is not looked at */
        "piece_end:\n"
        ".section .rodata\n"
        ".p2align 2\n"
        ".globl v8_Default_embedded_blob_code_size_\n.hidden v8_Default_embedded_blob_code_size_\n"
        "v8_Default_embedded_blob_code_size_:\n"
        "    .long piece_end - v8_Default_embedded_blob_code_\n"
        ".byte 0\n.asciz \"InterpreterEntryTrampoline\"\n"
        ".text\n"
        ".att_syntax\n");
extern const char v8_Default_embedded_blob_code_[];
extern const uint32_t v8_Default_embedded_blob_code_size_;

static const char *copy;
static uint64_t in_place, in_copy, elsewhere;

static uint64_t __attribute__((noinline)) back(uint64_t a)
{
    const char *from = __builtin_return_address(0);
    uint32_t len = v8_Default_embedded_blob_code_size_;
    if (from >= v8_Default_embedded_blob_code_ && from < v8_Default_embedded_blob_code_ + len)
        in_place++;
    else if (from >= copy && from < copy + len)
        in_copy++;
    else
        elsewhere++;
    return a ^ a >> 7;
}

int main(int argc, char **argv)
{
    uint64_t sum = 1;
    long rounds = argc > 1 ? atol(argv[1]) : 100;
    size_t len = v8_Default_embedded_blob_code_size_;
    char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(p, v8_Default_embedded_blob_code_, len);
    mprotect(p, len, PROT_READ | PROT_EXEC);
    copy = p;
    for (long i = 0; i < rounds; i++)
        sum = ((entry_fn *)(uintptr_t)(i & 1 ? copy : v8_Default_embedded_blob_code_))(back, sum + (uint64_t)i);
    printf("sum %llx, in place %llu, in the copy %llu, elsewhere %llu\n", (unsigned long long)sum,
           (unsigned long long)in_place, (unsigned long long)in_copy, (unsigned long long)elsewhere);
    return 0;
}
