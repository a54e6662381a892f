/* SPDX-License-Identifier: Apache-2.0
 * The hand-written part of peculiar.c; what each function is for stands there. */
    .intel_syntax noprefix
    .macro FUNC name
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
    .endm
    .macro END name
    .cfi_endproc
    .size \name, . - \name
    .endm

    .text
    .globl bare_loop
    .type bare_loop, @function
bare_loop:
    push rbx
    push r12
    push r13
    mov rbx, rdi
    mov r12, rsi
    xor r13d, r13d
1:  test rbx, rbx
    je 2f
    mov rdi, rbx
    call r12
    add r13, rax
    dec rbx
    jmp 1b
2:  mov rax, r13
    pop r13
    pop r12
    pop rbx
    ret

    .globl bare_table
    .type bare_table, @function
bare_table:
    cmp rdi, 3
    ja 5f
    lea rax, [rip + 9f]
    movsxd rdi, dword ptr [rax + rdi * 4]
    add rax, rdi
    jmp rax
9:  .long 1f - 9b, 2f - 9b, 3f - 9b, 4f - 9b
1:  mov eax, 10
    ret
2:  mov eax, 20
    ret
3:  mov eax, 30
    ret
4:  mov eax, 40
    ret
5:  mov eax, -1
    ret

/* one limb: in CF, out CF */
FUNC limb
    mov rax, [rdi]
    adc rax, [rsi]
    mov [rdi], rax
    lea rdi, [rdi + 8]
    lea rsi, [rsi + 8]
    ret
END limb
FUNC carry_add
    clc
1:  call limb
    dec rdx /* leaves CF */
    jnz 1b
    setc al
    movzx eax, al
    ret
END carry_add

/* is the byte at rdi zero? ZF */
FUNC is_zero
    cmp byte ptr [rdi], 0
    lea rdi, [rdi + 1]
    je 1f
    nop
1:  ret
END is_zero
FUNC zero_count
    xor eax, eax
1:  call is_zero
    jne 2f
    inc rax
2:  dec rsi
    jnz 1b
    ret
END zero_count

/* the text after the call is data for the callee; not described as a function, as such code is not */
    .globl inline_text
    .type inline_text, @function
inline_text:
    call 1f
    .asciz "words among code"
    ret
1:  pop rsi
    xor eax, eax
2:  mov dl, [rsi]
    inc rsi
    mov [rdi], dl
    inc rdi
    inc rax
    test dl, dl
    jne 2b
    push rsi
    ret

FUNC pushed_return
    lea rax, [rdi + rdi * 4]
    lea rdx, [rip + 1f]
    push rdx
    .cfi_adjust_cfa_offset 8
    ret
1:  .cfi_adjust_cfa_offset -8
    add rax, 3
    ret
END pushed_return

FUNC skipping_return /* the callee skips the instruction behind its call */
    mov eax, 1
    call 1f
    mov eax, 2
    ret
1:  add qword ptr [rsp], 5
    ret
END skipping_return

FUNC other_stack
    push rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    mov rbp, rsp
    .cfi_def_cfa_register rbp
    mov rsp, rdx
    mov rax, rdi
    mov rdi, rsi
    call rax
    mov rsp, rbp
    pop rbp
    .cfi_def_cfa rsp, 8
    ret
END other_stack

FUNC square_r11 /* r11 := r10 * r10 + ecx */
    mov r11, r10
    imul r11, r10
    add r11, rcx
    ret
END square_r11
FUNC odd_registers
    mov r10, rdi
    mov ecx, 7
    mov r8d, 0
    call square_r11
    mov rax, r11
    add rax, r8
    add rax, rcx
    ret
END odd_registers

FUNC local_gotos
    mov rax, rdi
    call inside_part
    cmp rax, 100
    jb inside_jump
    ret
END local_gotos
FUNC parts
    neg rax
inside_part:
    add rax, 7
    ret
inside_jump:
    imul rax, rax, 9
    ret
END parts

    .section .note.GNU-stack, "", @progbits
