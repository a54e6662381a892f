/* SPDX-License-Identifier: Apache-2.0
 *
 * The blob starts with a table of its entrances and the configuration that the rewriter fills in; then the code.
 * Entrances keep every register and the flags (except where noted), and leave the red zone alone where they are called
 * from inserted code (the caller has moved the stack pointer).
 */
    .intel_syntax noprefix
    .section .text.head, "ax"
    .globl rt_blob
    .hidden rt_blob
rt_blob:
    .quad rt_init_entry - rt_blob       /* 0: DT_INIT of a shared object */
    .quad rt_exe_entry - rt_blob        /* 8: e_entry of an executable */
    .quad rt_before_clone - rt_blob     /* 16 */
    .quad rt_after_clone_ - rt_blob     /* 24 */
    .quad rt_forked - rt_blob           /* 32 */
    .quad rt_register - rt_blob         /* 40: resolver of an IRELATIVE relocation */
    .globl rt_config
    .hidden rt_config
rt_config:                              /* 48: see struct rt_config */
    .skip 64

    .text
/* DT_INIT(argc, argv, envp), then the module's own DT_INIT if it has one. */
rt_init_entry:
    push rdi
    push rsi
    push rdx
    mov rdi, rdx
    call rt_start
    pop rdx
    pop rsi
    pop rdi
    lea r11, [rip + rt_blob]
    mov rax, [rip + rt_config + 24]
    test rax, rax
    jz 1f
    add r11, rax
    jmp r11
1:  ret

/* e_entry: rsp points at argc; rdx (the dynamic linker's exit function) must survive. */
rt_exe_entry:
    mov rdi, rsp
    push rdx
    mov rax, [rdi]
    lea rdi, [rdi + rax * 8 + 16]
    call rt_start
    pop rdx
    lea r11, [rip + rt_blob]
    add r11, [rip + rt_config + 24]
    jmp r11

    .globl rt_sigreturn
    .hidden rt_sigreturn
rt_sigreturn:
    mov eax, 15
    syscall

    .macro SAVED target
    pushfq
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    push rbp
    mov rbp, rsp
    and rsp, -16
    cld
    mov rdx, rsi
    mov rsi, rdi
    mov rdi, rax
    call \target
    mov rsp, rbp
    pop rbp
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    popfq
    ret
    .endm

rt_before_clone: SAVED rt_note_clone
rt_after_clone_: SAVED rt_after_clone
rt_forked: SAVED rt_new_process

    .section .note.GNU-stack, "", @progbits
