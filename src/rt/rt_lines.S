/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter among threads (wire/stream.h, WIRE_LINES): before a reference that is told, which threads have referred to
 * its line is noted, those whose filters must no longer hold the line lose it there, and the own filter holds it if it
 * may. Sites have moved the stack pointer past the red zone and put what they say below it: at [rsp-64] a line's number
 * or an address, at [rsp-72] a word (SAYS_*). All registers stay, flags do not.
 *
 * Who changes the word of a line takes the line out of others' filters afterwards; who puts it into his own looks at
 * the word once more afterwards. Both are in between ordered by a locked instruction, so one of them sees the other. A
 * filter that holds less than it may is right in any case.
 */
#include "rt/rt_state.S"

    .intel_syntax noprefix
    .section .text.sites, "ax"

    .set STREAM, 0x7f000000 /* WIRE_STREAM_VADDR; then offsets in struct wire_stream */
    .set TOUCHED, 192
    .set WRITTEN, 192 + 8 * 64
    .set OWN, 192 + 5 * 8 * 64 + 8 + 2 * 16 * 32 + 16 * 32 + 8
    .set LINES, 0x7c000000 /* WIRE_LINES_VADDR */
    .set LINES_MASK, (1 << 22) - 1
    .set STREAMS, LINES - 4096

    .set SAYS_BYTES, 0xffff /* of an access; of an element */
    .set SAYS_STORES, 1 << 16
    .set SAYS_SHIFT, 24 /* log2 of the filter's lines */
    .set DIRECTION, 0x400

/* rdi: the line's number. Changes rax, rcx, rdx, rsi. */
read:
    STATE 0
    mov rdx, gs:[STREAM + OWN]
    test rdx, rdx
    jz forget
    mov ecx, edi
    and ecx, LINES_MASK
1:  mov rax, [LINES + rcx * 8]
    test rax, rax
    js forget
    test rax, rdx
    jnz 3f
    mov rsi, rax
    or rsi, rdx
    lock cmpxchg [LINES + rcx * 8], rsi
    jne 1b
    and ecx, 63
2:  bsf rsi, rax
    jz 3f
    btr rax, rsi
    mov rsi, [STREAMS + rsi * 8]
    mov qword ptr [rsi + WRITTEN + rcx * 8], 0
    jmp 2b
3:  mov ecx, edi
    mov esi, edi
    and ecx, LINES_MASK
    and esi, 63
    mov qword ptr gs:[STREAM + WRITTEN + rsi * 8], 0
    mov rax, rdi
    xchg rax, gs:[STREAM + TOUCHED + rsi * 8]
    cmp qword ptr [LINES + rcx * 8], 0
    js forget
    cmp qword ptr gs:[STREAM + OWN], 0
    je forget
    ret

write:
    STATE 0
    mov rdx, gs:[STREAM + OWN]
    test rdx, rdx
    jz forget
    mov ecx, edi
    and ecx, LINES_MASK
1:  mov rax, [LINES + rcx * 8]
    cmp rax, rdx
    je 4f
    test rax, rax
    js forget
    mov rsi, rdx
    jz 2f
    or rsi, rax
    bts rsi, 63
2:  lock cmpxchg [LINES + rcx * 8], rsi
    jne 1b
    test rax, rax
    jz 4f
    and ecx, 63
3:  bsf rsi, rax
    jz forget
    btr rax, rsi
    mov rsi, [STREAMS + rsi * 8]
    mov qword ptr [rsi + TOUCHED + rcx * 8], 0
    mov qword ptr [rsi + WRITTEN + rcx * 8], 0
    jmp 3b
4:  mov ecx, edi
    mov esi, edi
    and ecx, LINES_MASK
    and esi, 63
    mov qword ptr gs:[STREAM + WRITTEN + rsi * 8], rdi
    mov rax, rdi
    xchg rax, gs:[STREAM + TOUCHED + rsi * 8]
    cmp [LINES + rcx * 8], rdx
    jne forget
    cmp qword ptr gs:[STREAM + OWN], 0
    je forget
    ret

/* The own filter holds nothing in the line's place. */
forget:
    mov esi, edi
    and esi, 63
    mov qword ptr gs:[STREAM + TOUCHED + rsi * 8], 0
    mov qword ptr gs:[STREAM + WRITTEN + rsi * 8], 0
    ret

    .macro SAVE
    STATE 0
    push rdi
    STATE 8
    push rsi
    STATE 16
    push rax
    STATE 24
    push rcx
    STATE 32
    push rdx
    STATE 40
    .endm
    .macro RESTORE
    pop rdx
    STATE 32
    pop rcx
    STATE 24
    pop rax
    STATE 16
    pop rsi
    STATE 8
    pop rdi
    STATE 0
    ret
    .endm
    .set SITE_SAYS, 40 + 8 - 72 /* from the stack pointer, when registers are saved */
    .set SITE_LINE, 40 + 8 - 64
    .set SITE_FLAGS, 40 + 8

    .globl rt_line_read, rt_line_written, rt_lines_range, rt_lines_reach
    .hidden rt_line_read, rt_line_written, rt_lines_range, rt_lines_reach
    .globl rt_line_is_read, rt_line_is_written, rt_lines_noted
    .hidden rt_line_is_read, rt_line_is_written, rt_lines_noted
/* A site's reference to one line. */
rt_line_read:
    SAVE
    mov rdi, [rsp + SITE_LINE]
    call read
    RESTORE

rt_line_written:
    SAVE
    mov rdi, [rsp + SITE_LINE]
    call write
    RESTORE

/* A site's string instruction, rcx times; flags are on the stack. */
rt_lines_range:
    SAVE
    mov eax, [rsp + SITE_SAYS]
    mov rdi, [rsp + SITE_LINE]
    movzx esi, ax
    mov rdx, rsi
    imul rsi, rcx
    test rsi, rsi
    jz 2f
    test dword ptr [rsp + SITE_FLAGS], DIRECTION
    jz 1f
    sub rdi, rsi
    add rdi, rdx
1:  call noted
2:  RESTORE

/* A site's access of several lines. */
rt_lines_reach:
    SAVE
    mov eax, [rsp + SITE_SAYS]
    mov rdi, [rsp + SITE_LINE]
    movzx esi, ax
    call noted
    RESTORE

/* By the rest of the runtime: of the line rdi. All registers stay. */
rt_line_is_read:
    SAVE
    call read
    RESTORE

rt_line_is_written:
    SAVE
    call write
    RESTORE

/* Likewise: rdi, rsi, eax: address, bytes, SAYS_*. All registers stay. */
rt_lines_noted:
    SAVE
    call noted
    RESTORE

/* rdi, rsi, eax: address, bytes, SAYS_*. The own filter holds nothing then. Changes rax, rcx, rdx, rdi, rsi. */
noted:
    STATE 0
    push r8
    STATE 8
    push r9
    STATE 16
    mov r9d, eax
    mov ecx, eax
    shr ecx, SAYS_SHIFT
    lea r8, [rdi + rsi - 1]
    shr r8, cl
    shr rdi, cl
1:  test r9d, SAYS_STORES
    jnz 2f
    call read
    jmp 3f
2:  call write
3:  inc rdi
    cmp rdi, r8
    jbe 1b
    pop r9
    STATE 8
    pop r8
    STATE 0
    jmp rt_forget_lines

    .section .note.GNU-stack, "", @progbits
