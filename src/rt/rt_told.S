/* SPDX-License-Identifier: Apache-2.0
 *
 * What instructions reach whose operands alone do not say it (wire/stream.h, enum wire_told_kind). A site has moved the
 * stack pointer past the red zone, left room there (WIRE_TOLD_ROOM) with a vector of indices in it, pushed rax, rcx and
 * rdx, and put the address, what kind it is and a mask into these. All registers and flags stay; a signal may come
 * anywhere. What needs more than a few steps is done by told.c, with signals blocked.
 */
#include "rt/rt_state.S"
#include "rt/rt_stream.S"

    .intel_syntax noprefix
    .section .text.sites, "ax"

    .set CALLS_MAX, 512
    .set EVENT_RANGE, 0x80000002 - 0x100000000 /* WIRE_EVENT(...) */
    .set EVENT_UNTOLD, 0x80030000 - 0x100000000
    .set EVENT_REACH, 0x80040001 - 0x100000000
    .set RANGE_BYTES, 48
    .set REACH_BYTES, 32

    /* upper half of the word: WIRE_TOLD_* less 32 */
    .set ELEMENT_BITS, 7
    .set SCALE_SHIFT, 3
    .set STORES, 1 << 5
    .set INDEX_8, 1 << 6
    .set IS_PACKED, 1 << 7
    .set COUNT_SHIFT, 8
    .set IS_WHOLE, 1 << 15
    .set FILTER_SHIFT, 16
    .set KIND_SHIFT, 20
    .set KIND_ELEMENTS, 0
    .set KIND_MASKED, 1
    .set KIND_FIXED, 2
    .set KIND_BIT, 3
    .set KIND_COMPARED, 4
    .set KIND_CALLED, 5

    .set ROOM, 192 /* WIRE_TOLD_ROOM */
    .set PUSHED, 7 * 8
    .set SAVED_RDI, 32
    .set SAVED_RSI, 40
    .set SAVED_FLAGS, 48
    .set SAVED_RCX, PUSHED + 16
    .set INDICES, PUSHED + 32
    .set STACK_BEFORE, PUSHED + 32 + ROOM

/* r9d: the word's upper half; r8: what entries call the site by. */
    .globl rt_told
    .hidden rt_told
rt_told:
    STATE 0
    pushfq
    STATE 8
    push rsi
    STATE 16
    push rdi
    STATE 24
    push r8
    STATE 32
    push r9
    STATE 40
    push r10
    STATE 48
    push r11
    STATE 56
    mov r8d, [rip + rt_config + CONFIG_KEY]
    shl r8, 32
    mov r9d, ecx
    or r8, r9
    shr rcx, 32
    mov r9d, ecx
    shr ecx, KIND_SHIFT
    cmp ecx, KIND_MASKED
    jb elements
    je masked
    cmp ecx, KIND_BIT
    jb fixed
    je bits
    cmp ecx, KIND_COMPARED
    je compared
    cmp ecx, KIND_CALLED
    jne apart

/* A system call, when it has returned; its number was kept as rcx is for comparisons. */
    lea r10, [rsp + STACK_BEFORE]
    movzx ecx, r10b
    cmp r10, gs:[STREAM + CALLS + rcx * 2]
    jne out /* it is a new thread's; or a handler of a signal has been there */
    mov rcx, gs:[STREAM + CALLS + rcx * 2 + 8]
    cmp rcx, CALLS_MAX
    jae out
    lea r10, [rip + rt_calls_known]
    cmp byte ptr [r10 + rcx], 0
    jne apart
out:
    pop r11
    STATE 48
    pop r10
    STATE 40
    pop r9
    STATE 32
    pop r8
    STATE 24
    pop rdi
    STATE 16
    pop rsi
    STATE 8
    popfq
    STATE 0
    ret
    STATE 56 /* what follows is reached from further up */

/* A gather or scatter: an entry for each element that is asked for. */
elements:
    xor r10d, r10d
1:  bt rdx, r10
    jnc 4f
    test r9d, INDEX_8
    jnz 2f
    movsxd rdi, dword ptr [rsp + INDICES + r10 * 4]
    jmp 3f
2:  mov rdi, [rsp + INDICES + r10 * 8]
3:  mov ecx, r9d
    shr ecx, SCALE_SHIFT
    and ecx, 3
    shl rdi, cl
    add rdi, rax
    call tell_element
4:  inc r10d
    call count
    cmp r10d, ecx
    jb 1b
    jmp out

/* From the first element that is asked for to the last. */
masked:
    call count
    cmp ecx, 64
    je 1f
    mov rsi, -1
    shl rsi, cl
    not rsi
    and rdx, rsi
1:  test rdx, rdx
    jz out
    mov ecx, r9d
    and ecx, ELEMENT_BITS
    mov rdi, rax
    mov esi, 1
    test r9d, IS_WHOLE
    jnz 3f
    test r9d, IS_PACKED
    jz 2f
    popcnt rsi, rdx
    jmp 3f
2:  bsf r10, rdx
    bsr rsi, rdx
    sub rsi, r10
    inc rsi
    shl r10, cl
    add rdi, r10
3:  shl rsi, cl
    call tell_reach
    jmp out

fixed:
    mov rdi, rax
    mov rsi, rdx
    call tell_reach
    jmp out

/* The word that has bit number rdx. */
bits:
    mov ecx, r9d
    and ecx, ELEMENT_BITS
    add ecx, 3
    sar rdx, cl
    sub ecx, 3
    shl rdx, cl
    lea rdi, [rax + rdx]
    call tell_element
    jmp out

/* A string instruction that compares, when it has ended: as far as rcx went down. The place of what it was before says
 * whose that is. */
compared:
    mov ecx, r8d
    and ecx, 31
    shl ecx, 4
    lea r10, [rsp + STACK_BEFORE]
    cmp r10, gs:[STREAM + BEFORE + rcx]
    jne 3f
    mov r10, gs:[STREAM + BEFORE + rcx + 8]
    sub r10, [rsp + SAVED_RCX]
    jz out
    mov ecx, r9d
    and ecx, ELEMENT_BITS
    mov rdx, r10
    shl rdx, cl
    test dword ptr [rsp + SAVED_FLAGS], DIRECTION
    jz 1f
    neg rdx
1:  mov rdi, [rsp + SAVED_RDI]
    sub rdi, rdx
    call tell_range
    test r9d, IS_PACKED
    jz 2f
    inc r8
    mov rdi, [rsp + SAVED_RSI]
    sub rdi, rdx
    call tell_range
2:  jmp out
3:  call tell_nothing
    jmp out

count:
    STATE 0
    mov ecx, r9d
    shr ecx, COUNT_SHIFT
    and ecx, 127
    ret

    .macro FLUSH
    mov rcx, gs:[STREAM + PUT]
    cmp rcx, gs:[STREAM + LIMIT]
    jb 9f
    call rt_chunk_full
9:  ret
    .endm

/* rdi: its address */
tell_element:
    STATE 0
    mov ecx, r9d
    and ecx, ELEMENT_BITS
    mov esi, 1
    shl esi, cl
    call passes
    jz 1f
    ret
1:  mov r11d, ENTRY_BYTES
    xadd gs:[STREAM + PUT], r11
    mov gs:[r11], rdi
    mov gs:[r11 + 8], r8
    FLUSH

/* rdi, rsi: address and bytes */
tell_reach:
    STATE 0
    call passes
    jz 1f
    ret
1:  mov r11d, REACH_BYTES
    xadd gs:[STREAM + PUT], r11
    mov qword ptr gs:[r11], EVENT_REACH
    mov gs:[r11 + 8], r8
    mov gs:[r11 + 16], rdi
    mov gs:[r11 + 24], rsi
    FLUSH

/* rdi, r10: address of the first element, their number */
tell_range:
    STATE 0
    call note_range
    mov r11d, RANGE_BYTES
    xadd gs:[STREAM + PUT], r11
    mov qword ptr gs:[r11], EVENT_RANGE
    mov gs:[r11 + 8], r8
    mov gs:[r11 + 16], rdi
    mov gs:[r11 + 24], r10
    mov rcx, [rsp + SAVED_FLAGS + 8]
    mov gs:[r11 + 32], rcx
    FLUSH

/* rdx: its bytes, below zero if it goes down. */
note_range:
    STATE 0
    test r9d, 15 << FILTER_SHIFT
    jz 2f
    push rdi
    STATE 8
    push rsi
    STATE 16
    push rax
    STATE 24
    mov rsi, rdx
    test rsi, rsi
    jns 1f
    mov ecx, r9d
    and ecx, ELEMENT_BITS
    mov eax, 1
    shl eax, cl
    add rdi, rsi
    add rdi, rax
    neg rsi
1:  call says
    call rt_lines_ranged
    pop rax
    STATE 16
    pop rsi
    STATE 8
    pop rdi
    STATE 0
2:  ret

/* Of the word to eax. */
says:
    STATE 0
    mov eax, r9d
    shr eax, FILTER_SHIFT
    and eax, 15
    shl eax, SAYS_SHIFT
    test r9d, STORES
    jz 1f
    or eax, SAYS_STORES
1:  ret

tell_nothing:
    STATE 0
    mov r11d, ENTRY_BYTES
    xadd gs:[STREAM + PUT], r11
    mov qword ptr gs:[r11], EVENT_UNTOLD
    mov gs:[r11 + 8], r8
    FLUSH

/* The filter of these bytes: not zero, if they are of the line that was the last one in its place. Else that is so from
 * now on. */
passes:
    STATE 0
    mov ecx, r9d
    shr ecx, FILTER_SHIFT
    and ecx, 15
    jnz 1f
    ret
1:  lea r11, [rdi + rsi - 1]
    push rdi
    STATE 8
    push rsi
    STATE 16
    shr r11, cl
    shl r11, cl
    shr rdi, cl
    shl rdi, cl
    cmp rdi, r11
    jne 3f
    FIND_PLACE
    test r9d, STORES
    jnz 2f
    cmp rdi, gs:[STREAM + TOUCHED + rsi]
    je 6f
    jmp 4f
2:  cmp rdi, gs:[STREAM + WRITTEN + rsi]
    je 6f
    jmp 4f
3:  mov esi, 1
    shl rsi, cl
    call mark
    add rdi, rsi
    cmp rdi, r11
    jne 5f
4:  call mark
    pop rsi
    STATE 8
    jmp 7f
    STATE 16
5:  pop rsi
    STATE 8
    call forget_all
7:  xor ecx, ecx
    pop rdi
    STATE 0
    ret
    STATE 16
6:  or ecx, 64
    pop rsi
    STATE 8
    pop rdi
    STATE 0
    ret

/* rdi: one of several lines behind the address that is on the stack; rsi: bytes from there. */
forget_all:
    STATE 0
    test dword ptr [rip + rt_config + CONFIG_FLAGS], CONFIG_LINES
    jz rt_forget_lines
    mov rdi, [rsp + 8]
    push rax
    STATE 8
    call says
    call rt_lines_noted
    pop rax
    STATE 0
    ret

mark:
    STATE 0
    test r9d, STORES
    jz rt_line_is_read
    jmp rt_line_is_written

/* By told.c: as rt_chunk_full, with all signals blocked; a program that has forbidden itself system calls without. */
    .set ADDRESS, 16
    .set SAVED_RBP, 24
    STATE 56
apart:
    push rbp
    STATE 64
    sub rsp, 24
    STATE 88
    cld
    mov [rsp + ADDRESS], rax
    cmp dword ptr gs:[STREAM + IS_CONFINED], 0
    jne 1f
    BLOCK_SIGNALS
1:  mov rbp, rsp
    and rsp, -16
    mov rdi, rbp
    mov rsi, r8
    mov edx, r9d
    call rt_stream_told
    mov rsp, rbp
    mov rbp, [rsp + SAVED_RBP]
    cmp dword ptr gs:[STREAM + IS_CONFINED], 0
    jne 2f
    RESTORE_SIGNALS
2:  add rsp, 24
    STATE 64
    pop rbp
    STATE 56
    jmp out

    .globl rt_described_end
    .hidden rt_described_end
rt_described_end:
    STATE 0

    .section .note.GNU-stack, "", @progbits
