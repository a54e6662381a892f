/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter among threads (wire/stream.h, WIRE_LINES): before a reference that is told, which threads have referred to
 * its line is noted, those whose filters must no longer hold the line lose it there, and the own filter holds it if it
 * may; what it may not hold stands there marked, so that the line used before it is known for the last but one. Sites
 * have moved the stack pointer past the red zone and put what they say below it: at [rsp-64] a line's number or an
 * address, at [rsp-72] a word (SAYS_*). All registers stay, flags do not.
 *
 * Who changes the word of a line takes the line out of others' filters afterwards; who puts it into his own looks at
 * the word once more afterwards. Both are in between ordered by a locked instruction, so one of them sees the other. A
 * filter that holds less than it may is right in any case. That a line was written is put in before the line, and
 * others take it out behind that, so it never stands alone.
 */
#include "rt/rt_state.S"

    .intel_syntax noprefix
    .section .text.sites, "ax"

    .set STREAM, 0x7f000000 /* WIRE_STREAM_VADDR; then offsets in struct wire_stream */
    .set TOUCHED, 192
    .set WRITTEN, TOUCHED + 8 * 64
    .set SECOND, WRITTEN + 8 * 64
    .set SECOND_WRITTEN, SECOND + 8 * 64
    .set SWAPPED, SECOND_WRITTEN + 8 * 64
    .set SWAPS, SWAPPED + 8 * 64
    .set SWAPPED_BIT, 62 /* WIRE_SWAPPED */
    .set NOT_HELD, 63 /* of a table's word: the line stands there for the order alone (WIRE_NOT_HELD) */
    .set OWN, 192 + 5 * 8 * 64 + 8 + 2 * 16 * 32 + 32 * 32 + 8
    .set TOLD, OWN + 8
    .set PUT, 0
    .set IS_CONFINED, 76
    .set EVENT_PAUSE, 0x80060001 - 0x100000000 /* WIRE_EVENT(...) */
    .set PAUSE_BYTES, 32
    .set PAUSE_TICKS, 20000
    .set LINES, 0x7c000000 /* WIRE_LINES_VADDR */
    .set LINES_MASK, (1 << 22) - 1
    .set STREAMS, LINES - 4096
    .set LIVES, STREAMS + 8 * 63

    .set SAYS_BYTES, 0xffff /* of an access; of an element */
    .set SAYS_STORES, 1 << 16
    .set SAYS_SHIFT, 24 /* log2 of the filter's lines */
    .set DIRECTION, 0x400

/* rdi: the line's number. Notes that the thread reads it. ZF: the own filter may hold it. Changes rax, rcx, rdx and
 * rsi. */
note_read:
    STATE 0
    mov rdx, gs:[STREAM + OWN]
    test rdx, rdx
    jz none
    mov ecx, edi
    and ecx, LINES_MASK
1:  mov rax, [LINES + rcx * 8]
    test rax, rax
    js none
    test rax, rdx
    jnz held
    mov rsi, rax
    or rsi, rdx
    lock cmpxchg [LINES + rcx * 8], rsi
    jne 1b
    and rax, [LIVES]
    and ecx, 63
2:  bsf rsi, rax
    jz held
    btr rax, rsi
    mov rsi, [STREAMS + rsi * 8]
    mov qword ptr [rsi + WRITTEN + rcx * 8], 0
    mov qword ptr [rsi + SECOND_WRITTEN + rcx * 8], 0
    jmp 2b
held:
    cmp eax, eax
    ret
none:
    test rsp, rsp
    ret

/* Likewise that it writes it; ZF: the own filter may hold that it has. */
note_written:
    STATE 0
    mov rdx, gs:[STREAM + OWN]
    test rdx, rdx
    jz none
    mov ecx, edi
    and ecx, LINES_MASK
1:  mov rax, [LINES + rcx * 8]
    cmp rax, rdx
    je held
    test rax, rax
    js none
    mov rsi, rax
    and rsi, [LIVES]
    or rsi, rdx
    cmp rsi, rdx /* all others are gone */
    je 2f
    bts rsi, 63
2:  lock cmpxchg [LINES + rcx * 8], rsi
    jne 1b
    and rax, [LIVES]
    or rax, rdx
    cmp rax, rdx
    je held
    and ecx, 63
3:  bsf rsi, rax
    jz none
    btr rax, rsi
    mov rsi, [STREAMS + rsi * 8]
    mov qword ptr [rsi + TOUCHED + rcx * 8], 0
    mov qword ptr [rsi + WRITTEN + rcx * 8], 0
    mov qword ptr [rsi + SECOND + rcx * 8], 0
    mov qword ptr [rsi + SECOND_WRITTEN + rcx * 8], 0
    jmp 3b

/* The line rdi is the last one of its place now, and what was told of it is that it is read or written. Changes rax,
 * rcx, rdx, rsi, r8. */
tell_read:
    STATE 0
    call note_read
    mov rax, rdi
    mov ecx, 0
    jz mark
    bts rax, NOT_HELD
    jmp mark

tell_written:
    STATE 0
    call note_written
    mov rax, rdi
    mov rcx, rdi
    jz mark
    bts rax, NOT_HELD
    xor ecx, ecx

/* rax: the line as the table has it; rcx: the same of the table of written ones. What is told says nothing of the order
 * of the two before if the line is one of them: it comes first in either case. */
mark:
    STATE 0
    mov esi, edi
    and esi, 63
    mov rdx, gs:[STREAM + TOUCHED + rsi * 8]
    mov r8, rdx
    btr r8, NOT_HELD
    cmp r8, rdi
    je 2f
    mov r8, gs:[STREAM + SECOND + rsi * 8]
    btr r8, NOT_HELD
    cmp r8, rdi
    mov r8d, 0
    je 1f
    mov r8, gs:[STREAM + SWAPPED + rsi * 8]
1:  mov gs:[STREAM + SWAPS], r8
    mov r8, gs:[STREAM + WRITTEN + rsi * 8]
    mov gs:[STREAM + SECOND_WRITTEN + rsi * 8], r8
    mov gs:[STREAM + SECOND + rsi * 8], rdx
    jmp 3f
2:  mov qword ptr gs:[STREAM + SWAPS], 0
    test rax, rax
    jns 3f
    cmp rax, rdx
    jne 3f
    mov qword ptr gs:[STREAM + SWAPPED + rsi * 8], 0
    ret /* it is not held, and was not */
3:  mov qword ptr gs:[STREAM + SWAPPED + rsi * 8], 0
    mov gs:[STREAM + WRITTEN + rsi * 8], rcx
    xchg rax, gs:[STREAM + TOUCHED + rsi * 8]

/* What the place rsi holds its words must allow. Changes rax, rdx. */
look_again:
    STATE 0
    mov rdx, gs:[STREAM + OWN]
    test rdx, rdx
    jz 4f
    mov rax, gs:[STREAM + TOUCHED + rsi * 8]
    test rax, rax
    jle 1f
    and eax, LINES_MASK
    mov rax, [LINES + rax * 8]
    test rax, rax
    js 4f
    cmp rax, rdx
    je 1f
    mov qword ptr gs:[STREAM + WRITTEN + rsi * 8], 0
1:  mov rax, gs:[STREAM + SECOND + rsi * 8]
    test rax, rax
    jle 3f
    and eax, LINES_MASK
    mov rax, [LINES + rax * 8]
    cmp rax, rdx
    je 3f
    test rax, rax
    jns 2f
    mov qword ptr gs:[STREAM + SECOND + rsi * 8], 0
2:  mov qword ptr gs:[STREAM + SECOND_WRITTEN + rsi * 8], 0
3:  ret
4:  xor eax, eax
    mov gs:[STREAM + TOUCHED + rsi * 8], rax
    mov gs:[STREAM + WRITTEN + rsi * 8], rax
    mov gs:[STREAM + SECOND + rsi * 8], rax
    mov gs:[STREAM + SECOND_WRITTEN + rsi * 8], rax
    ret

/* The line rdi is the last but one of the place rsi: both change places. Changes rax, rcx, rdx, r8. */
swap:
    STATE 0
    mov rax, rdi
    mov rdx, gs:[STREAM + TOUCHED + rsi * 8]
    mov rcx, gs:[STREAM + WRITTEN + rsi * 8]
    mov r8, gs:[STREAM + SECOND_WRITTEN + rsi * 8]
    mov gs:[STREAM + SECOND_WRITTEN + rsi * 8], rcx
    mov gs:[STREAM + SECOND + rsi * 8], rdx
    mov gs:[STREAM + WRITTEN + rsi * 8], r8
    xchg rax, gs:[STREAM + TOUCHED + rsi * 8]
    btc qword ptr gs:[STREAM + SWAPPED + rsi * 8], SWAPPED_BIT
    jmp look_again

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
    push r8
    STATE 48
    .endm
    .macro RESTORE
    pop r8
    STATE 40
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
    .set SITE_SAYS, 48 + 8 - 72 /* from the stack pointer, when registers are saved */
    .set SITE_LINE, 48 + 8 - 64
    .set SITE_FLAGS, 48 + 8

    .globl rt_line_read, rt_line_written, rt_line_told_read, rt_line_told_written, rt_line_next_read
    .hidden rt_line_read, rt_line_written, rt_line_told_read, rt_line_told_written, rt_line_next_read
    .globl rt_line_next_written, rt_lines_range, rt_lines_reach
    .hidden rt_line_next_written, rt_lines_range, rt_lines_reach
    .globl rt_line_is_read, rt_line_is_written, rt_lines_noted
    .hidden rt_line_is_read, rt_line_is_written, rt_lines_noted
/* Where nothing was told for long: when the last reference was, and when this one is. The clock is not asked where that
 * may be forbidden. */
pause:
    STATE 0
    cmp dword ptr gs:[STREAM + IS_CONFINED], 0
    jne 1f
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov rcx, gs:[STREAM + TOLD]
    mov gs:[STREAM + TOLD], rax
    test rcx, rcx
    jz 1f
    mov rdx, rax
    sub rdx, rcx
    cmp rdx, PAUSE_TICKS
    jl 1f
    mov edx, PAUSE_BYTES
    xadd gs:[STREAM + PUT], rdx
    mov qword ptr gs:[rdx], EVENT_PAUSE
    mov qword ptr gs:[rdx + 8], 0
    mov gs:[rdx + 16], rcx
    mov gs:[rdx + 24], rax
1:  ret

/* A site's reference to one line, which is not the last of its place. ZF: it need not be told. */
rt_line_read:
    SAVE
    mov rdi, [rsp + SITE_LINE]
    mov esi, edi
    and esi, 63
    cmp rdi, gs:[STREAM + SECOND + rsi * 8]
    je 1f
    call pause
    call tell_read
    test rsp, rsp
    RESTORE
    STATE 48
1:  call swap
    cmp eax, eax
    RESTORE

rt_line_written:
    SAVE
    mov rdi, [rsp + SITE_LINE]
    mov esi, edi
    and esi, 63
    cmp rdi, gs:[STREAM + SECOND + rsi * 8]
    jne 1f
    cmp rdi, gs:[STREAM + SECOND_WRITTEN + rsi * 8]
    je 2f
1:  call pause
    call tell_written
    test rsp, rsp
    RESTORE
    STATE 48
2:  call swap
    cmp eax, eax
    RESTORE

/* One that is told in any case. */
rt_line_told_read:
    SAVE
    mov rdi, [rsp + SITE_LINE]
    call pause
    call tell_read
    RESTORE

rt_line_told_written:
    SAVE
    mov rdi, [rsp + SITE_LINE]
    call pause
    call tell_written
    RESTORE

/* The second line of that one. */
rt_line_next_read:
    SAVE
    mov rdi, [rsp + SITE_LINE]
    push qword ptr gs:[STREAM + SWAPS]
    STATE 56
    call tell_read
    jmp next

rt_line_next_written:
    SAVE
    mov rdi, [rsp + SITE_LINE]
    push qword ptr gs:[STREAM + SWAPS]
    STATE 56
    call tell_written
next:
    shr qword ptr gs:[STREAM + SWAPS], 1
    pop rcx
    STATE 48
    or gs:[STREAM + SWAPS], rcx
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
    call tell_read
    RESTORE

rt_line_is_written:
    SAVE
    call tell_written
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
    call note_read
    jmp 3f
2:  call note_written
3:  inc rdi
    cmp rdi, r8
    jbe 1b
    pop r9
    STATE 8
    pop r8
    STATE 0
    mov qword ptr gs:[STREAM + SWAPS], 0
    jmp rt_forget_lines

    .section .note.GNU-stack, "", @progbits
