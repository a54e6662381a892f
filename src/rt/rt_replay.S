/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of a replay. It is copied to a page near the program's code, its data are in the page behind it
 * (struct area_data of replay.c), so that neither needs a register. Then: the two canaries.
 */
    .intel_syntax noprefix
    .text

    .set DATA, rt_area_code + 4096
    .set IN, DATA
    .set OUT, DATA + 128
    .set STATUS, DATA + 256
    .set TARGET, DATA + 264
    .set VECTORS, DATA + 272
    .set VECTORS_MASK, DATA + 280
    .set HOST_RSP, DATA + 288
    .set BEGIN, DATA + 296
    .set END, DATA + 304

    .globl rt_area_code, rt_area_exit, rt_area_code_end
    .hidden rt_area_code, rt_area_exit, rt_area_code_end
/* void(void): loads the program's registers and goes on at the target. */
rt_area_code:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    mov [rip + HOST_RSP], rsp
    mov rcx, [rip + VECTORS]
    mov eax, [rip + VECTORS_MASK]
    mov edx, [rip + VECTORS_MASK + 4]
    xrstor64 [rcx]
    push qword ptr [rip + STATUS]
    popfq
    lfence
    rdtsc
    mov [rip + BEGIN], eax
    mov [rip + BEGIN + 4], edx
    lfence
    mov rax, [rip + IN]
    mov rcx, [rip + IN + 8]
    mov rdx, [rip + IN + 16]
    mov rbx, [rip + IN + 24]
    mov rsp, [rip + IN + 32]
    mov rbp, [rip + IN + 40]
    mov rsi, [rip + IN + 48]
    mov rdi, [rip + IN + 56]
    mov r8, [rip + IN + 64]
    mov r9, [rip + IN + 72]
    mov r10, [rip + IN + 80]
    mov r11, [rip + IN + 88]
    mov r12, [rip + IN + 96]
    mov r13, [rip + IN + 104]
    mov r14, [rip + IN + 112]
    mov r15, [rip + IN + 120]
    jmp [rip + TARGET]
/* From the program's code: back to the caller of the above. */
rt_area_exit:
    mov [rip + OUT], rax
    mov [rip + OUT + 16], rdx
    lfence
    rdtsc
    mov [rip + END], eax
    mov [rip + END + 4], edx
    mov [rip + OUT + 8], rcx
    mov [rip + OUT + 24], rbx
    mov [rip + OUT + 32], rsp
    mov [rip + OUT + 40], rbp
    mov [rip + OUT + 48], rsi
    mov [rip + OUT + 56], rdi
    mov [rip + OUT + 64], r8
    mov [rip + OUT + 72], r9
    mov [rip + OUT + 80], r10
    mov [rip + OUT + 88], r11
    mov [rip + OUT + 96], r12
    mov [rip + OUT + 104], r13
    mov [rip + OUT + 112], r14
    mov [rip + OUT + 120], r15
    mov rsp, [rip + HOST_RSP]
    cld
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
rt_area_code_end:

    .macro TIMED body
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov r8, rax
    lfence
    mov ecx, edi
    xor esi, esi
    mov edi, 3
    .p2align 6
1:  \body
    dec ecx
    jnz 1b
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    sub rax, r8
    ret
    .endm
    .macro ADDITIONS
    .rept 16
    add rsi, rdi
    .endr
    .endm
    .macro INDEPENDENT
    .rept 8
    add rax, rsi
    mov r10d, 1
    mov r10, rsi
    add rdx, rsi
    add r9, rsi
    mov r10, rdi
    mov r10d, 2
    add r11, rsi
    mov r10, rsi
    .endr
    .endm

/* uint64_t(uint32_t turns): ticks of 16 additions a turn, each of which needs the one before; of 72 that hardly wait
 * for each other, and need two units where they need three slots: of which there is less beside a neighbour that is at
 * work. (Nops told it, but some cores fuse each with the one beside it.) */
    .globl rt_chain, rt_width
    .hidden rt_chain, rt_width
rt_chain: TIMED ADDITIONS
rt_width: TIMED INDEPENDENT

    .section .note.GNU-stack, "", @progbits
