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
 *
 * Of a line that was written by one thread after another had referred to it the word says who wrote it when. What is
 * told of it from then on matters as long as a thread may have lost the line by such a write, byte by byte. When the
 * host has simulated that write and says that none has, it is a line like others again.
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
    .set START, 16
    .set THREAD, 32
    .set FILLED, 64
    .set IS_CONFINED, 76
    .set EVENT_PAUSE, 0x80060001 - 0x100000000 /* WIRE_EVENT(...) */
    .set EVENT_SWAPPED, 0x80050001 - 0x100000000
    .set SWAPPED_BYTES, 32
    .set PAUSE_BYTES, 32
    .set PAUSE_TICKS, 20000
    .set LINES, 0x7c000000 /* WIRE_LINES_VADDR */
    .set LINES_MASK, (1 << 22) - 1
    .set STREAMS, LINES - 4096
    .set LIVES, STREAMS + 8 * 61
    .set SIMULATED, 8192 + 17 * 65536 + 16 /* from a stream: WIRE_STREAM_PATHS, in struct wire_paths */
    .set LOST, STREAM + 8192 + 17 * 65536 + 2101248 /* WIRE_STREAM_LOST, of the first thread */
    .set MISSED, LOST + (1 << 22) / 8
    .set WATCHED, 61 /* of a word beside a thread's bit: that has it alone, and tells what it writes */
    .set OTHERS, 62 /* of a word: bit; WIRE_LINES_OTHERS */
    .set SINCE, 62 /* of one that says who wrote it when: another one has referred to it since */
    .set WRITER, 56 /* likewise: number of the thread, from this bit on; below: when */
    .set NEVER, (1 << 56) - 1 /* likewise: the host will not say */
    .set MARGIN, 4096 /* bytes of entries of a handler, of a signal that comes before the write's own */

    .set SAYS_BYTES, 0xffff /* of an access; of an element */
    .set SAYS_STORES, 1 << 16
    .set SAYS_ALONE, 1 << 17 /* there are no other threads: no line has a word */
    .set SAYS_SHIFT, 24 /* log2 of the filter's lines */
    .set DIRECTION, 0x400

/* rax: a word that says who wrote the line when. CF: the host has simulated that write. rdx becomes the thread's bit.
 * Changes rsi. */
is_simulated:
    STATE 0
    mov rsi, rax
    shr rsi, WRITER
    and esi, 63
    mov rsi, [STREAMS + rsi * 8]
    mov rdx, rax
    mov rsi, [rsi + SIMULATED]
    shl rdx, 64 - WRITER
    shl rsi, 64 - WRITER
    cmp rdx, rsi
    mov rdx, gs:[STREAM + OWN]
    ret

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
    js 3f
    test rax, rdx
    jnz held
    bt rax, WATCHED
    jc 7f
    mov rsi, rax
    or rsi, rdx
    lock cmpxchg [LINES + rcx * 8], rsi
    jne 1b
    and rax, [LIVES]
    btr rax, OTHERS
    and ecx, 63
2:  bsf rsi, rax
    jz held
    btr rax, rsi
    mov rsi, [STREAMS + rsi * 8]
    mov qword ptr [rsi + WRITTEN + rcx * 8], 0
    mov qword ptr [rsi + SECOND_WRITTEN + rcx * 8], 0
    jmp 2b
/* Who wrote it, if no other has referred to it since, has it alone again; else others may have it. */
3:  call is_simulated
    jnc 6f
    mov rsi, rax
    shr rsi, WRITER
    bt rdx, rsi
    mov rsi, rdx
    jnc 4f
    bt rax, SINCE
    jc 4f
    bt dword ptr [LOST], ecx
    jnc 5f
    bt dword ptr [MISSED], ecx
    jc none
    bts rsi, WATCHED
    jmp 5f
4:  bt dword ptr [LOST], ecx
    jc 6f
    bts rsi, OTHERS
5:  lock cmpxchg [LINES + rcx * 8], rsi
    jne 1b
    jmp held
6:  mov rsi, rax
    shr rsi, WRITER
    bt rdx, rsi
    jc none
    mov rsi, rax
    bts rsi, SINCE
    jc none
    lock cmpxchg [LINES + rcx * 8], rsi
    jne 1b
    jmp none
/* Another one has it alone, who may have written it up to now. */
7:  bsf rsi, rax
    mov rsi, [STREAMS + rsi * 8]
    mov rdx, [rsi + FILLED]
    shl rdx, 16
    add rdx, [rsi + PUT]
    sub rdx, [rsi + START]
    add rdx, MARGIN
    bsf rsi, rax
    or esi, 3 << 6 /* bits 63 and SINCE of the word */
    shl rsi, WRITER
    or rsi, rdx
    mov rdx, gs:[STREAM + OWN]
    lock cmpxchg [LINES + rcx * 8], rsi
    jne 1b
    bsf rsi, rax
    mov rsi, [STREAMS + rsi * 8]
    and ecx, 63
    mov qword ptr [rsi + TOUCHED + rcx * 8], 0
    mov qword ptr [rsi + WRITTEN + rcx * 8], 0
    mov qword ptr [rsi + SECOND + rcx * 8], 0
    mov qword ptr [rsi + SECOND_WRITTEN + rcx * 8], 0
none:
    test rsp, rsp
    ret
held:
    cmp eax, eax
    ret

/* Likewise that it writes it; ZF: the own filter may hold that it has; CF: it may hold it, but not as written. */
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
    js 5f
    bt rax, WATCHED
    jc 7f
    mov rsi, rax
    and rsi, [LIVES]
    or rsi, rdx
    cmp rsi, rdx /* all others are gone */
    je 3f
2:  mov rsi, gs:[STREAM + FILLED]
    shl rsi, 16
    add rsi, gs:[STREAM + PUT]
    sub rsi, gs:[STREAM + START]
    add rsi, MARGIN
    mov edx, gs:[STREAM + THREAD]
    or edx, 128 /* bit 63 of the word */
    shl rdx, WRITER
    or rsi, rdx
    mov rdx, gs:[STREAM + OWN]
3:  lock cmpxchg [LINES + rcx * 8], rsi
    jne 1b
    test rsi, rsi
    jns held
    test rax, rax
    js none
    and rax, [LIVES]
    btr rax, OTHERS
    or rax, rdx
    and ecx, 63
4:  bsf rsi, rax
    jz none
    btr rax, rsi
    mov rsi, [STREAMS + rsi * 8]
    mov qword ptr [rsi + TOUCHED + rcx * 8], 0
    mov qword ptr [rsi + WRITTEN + rcx * 8], 0
    mov qword ptr [rsi + SECOND + rcx * 8], 0
    mov qword ptr [rsi + SECOND_WRITTEN + rcx * 8], 0
    jmp 4b
/* Who wrote it last, since when no other has referred to it, takes it from nobody by this write. Of the writes of two
 * that follow soon the host could simulate the second first: of such lines all is told for ever. */
5:  mov rsi, rax
    shl rsi, 64 - WRITER
    cmp rsi, -1 << (64 - WRITER)
    je none
    mov rsi, rax
    shr rsi, WRITER
    bt rdx, rsi
    jnc 6f
    bt rax, SINCE
    jc 2b
    call is_simulated
    jnc none
    mov rsi, rdx
    bt dword ptr [LOST], ecx
    jnc 3b
    bt dword ptr [MISSED], ecx
    jc none
    bts rsi, WATCHED
    lock cmpxchg [LINES + rcx * 8], rsi
    jne 1b
    jmp 8f
6:  call is_simulated
    jc 2b
    movabs rsi, NEVER
    or rsi, rax
    jmp 3b
7:  test rax, rdx
    jnz 8f
    movabs rsi, NEVER | 1 << 63
    jmp 3b
8:  test rsp, rsp
    stc
    ret

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
    mov ecx, 0 /* flags stay */
    jc mark
    bts rax, NOT_HELD
    jmp mark

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
1:  call ranged
2:  RESTORE

/* rdi, rsi, eax: address, bytes, SAYS_*. Its lines become the last ones of their places, one after the other, as
 * whoever reads the range takes them; of many, where that is all there is to do, those that stay. Changes all that SAVE
 * saves. */
ranged:
    STATE 0
    push r9
    STATE 8
    push r10
    STATE 16
    mov r9d, eax
    mov ecx, eax
    shr ecx, SAYS_SHIFT
    lea r10, [rdi + rsi - 1]
    shr r10, cl
    shr rdi, cl
    test r9d, SAYS_ALONE
    jz 1f
    lea rax, [r10 - 2 * 64 + 1]
    cmp rdi, rax
    cmovl rdi, rax
1:  call tell_order
    test r9d, SAYS_ALONE
    jnz 3f
    test r9d, SAYS_STORES
    jnz 2f
    call tell_read
    jmp 4f
2:  call tell_written
    jmp 4f
3:  call keep
4:  inc rdi
    cmp rdi, r10
    jbe 1b
    mov qword ptr gs:[STREAM + SWAPS], 0
    pop r10
    STATE 8
    pop r9
    STATE 0
    ret

/* If the last two lines of the place of the line rdi stand the other way round than they were told, that is told.
 * Changes rax, rcx, rsi. */
tell_order:
    STATE 0
    mov esi, edi
    and esi, 63
    cmp qword ptr gs:[STREAM + SWAPPED + rsi * 8], 0
    jne 1f
    ret
1:  mov qword ptr gs:[STREAM + SWAPPED + rsi * 8], 0
    xor eax, eax
    bts rax, rsi
    mov ecx, SWAPPED_BYTES
    xadd gs:[STREAM + PUT], rcx
    mov qword ptr gs:[rcx], EVENT_SWAPPED
    mov qword ptr gs:[rcx + 8], 0
    mov gs:[rcx + 16], rax
    ret

/* The line rdi is the last one of its place, of one thread alone; r9d: SAYS_*. What was known to be written is so.
 * Changes rax, rcx, rdx, rsi. */
keep:
    STATE 0
    mov esi, edi
    and esi, 63
    mov rdx, gs:[STREAM + TOUCHED + rsi * 8]
    mov rcx, gs:[STREAM + WRITTEN + rsi * 8]
    cmp rdx, rdi
    je 2f
    mov rax, gs:[STREAM + SECOND_WRITTEN + rsi * 8]
    cmp rdi, gs:[STREAM + SECOND + rsi * 8]
    je 1f
    xor eax, eax
1:  mov gs:[STREAM + SECOND + rsi * 8], rdx
    mov gs:[STREAM + SECOND_WRITTEN + rsi * 8], rcx
    mov gs:[STREAM + TOUCHED + rsi * 8], rdi
    mov rcx, rax
2:  test r9d, SAYS_STORES
    cmovnz rcx, rdi
    mov gs:[STREAM + WRITTEN + rsi * 8], rcx
    ret

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
