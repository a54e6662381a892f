/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter among threads (wire/stream.h, WIRE_LINES): before a reference that is told, it is noted which threads have
 * referred to its line, those whose filters must no longer hold the line lose it there, and whether the own filter may
 * hold it is said (rt_last.S).
 *
 * Who changes the word of a line takes the line out of others' filters afterwards; who puts it into his own looks
 * afterwards whether any was taken. Both are in between ordered by a locked instruction, so one of them sees the other.
 * A filter that holds less than it may is right in any case.
 *
 * Of a line that was written by one thread after another had referred to it the word says who wrote it when. What is
 * told of it from then on matters as long as a thread may have lost the line by such a write, byte by byte. When the
 * host has simulated that write and says that none has, it is a line like others again.
 */
#include "rt/rt_state.S"
#include "rt/rt_stream.S"

    .intel_syntax noprefix
    .section .text.sites, "ax"

    .globl rt_note_read, rt_note_written, rt_line_word, rt_line_soon
    .hidden rt_note_read, rt_note_written, rt_line_word, rt_line_soon

    .set LINES, 0x7c000000 /* WIRE_LINES_VADDR */
    .set LINES_MASK, (1 << 22) - 1
    .set STREAMS, LINES - 4096
    .set LIVES, STREAMS + 8 * 61
    .set SIMULATED, STREAM_PATHS + 16 /* from a stream: in struct wire_paths */
    .set LOST, STREAM + STREAM_PATHS + PATHS_BYTES /* WIRE_STREAM_LOST, of the first thread */
    .set MISSED, LOST + (1 << 22) / 8
    .set WATCHED, 61 /* of a word beside a thread's bit: that has it alone, and tells what it writes */
    .set OTHERS, 62 /* of a word: bit; WIRE_LINES_OTHERS */
    .set SINCE, 62 /* of one that says who wrote it when: another one has referred to it since */
    .set WRITER, 56 /* likewise: number of the thread, from this bit on; below: when */
    .set NEVER, (1 << 56) - 1 /* likewise: the host will not say */
    .set MARGIN, 4096 /* bytes of entries of a handler, of a signal that comes before the write's own */

/* The word of the line rdi is asked for soon. Changes rax, rcx. */
rt_line_soon:
    STATE 0
    movzx ecx, byte ptr [rip + rt_config + CONFIG_SHIFT]
    mov rax, rdi
    shr rax, cl
    and eax, LINES_MASK
    prefetcht0 [LINES + rax * 8]
    ret

/* rcx: the word of the line that rax is among the last ones. */
rt_line_word:
    STATE 0
    push rax
    STATE 8
    movzx ecx, byte ptr [rip + rt_config + CONFIG_SHIFT]
    shr rax, cl
    and eax, LINES_MASK /* without NOT_HELD and IS_WRITTEN */
    mov rcx, [LINES + rax * 8]
    pop rax
    STATE 0
    ret

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

/* rdi: where the line begins. Notes that the thread reads it. ZF: the own filter may hold it. Changes rax, rcx, rdx and
 * rsi. */
rt_note_read:
    STATE 0
    mov rdx, gs:[STREAM + OWN]
    test rdx, rdx
    jz none
    movzx ecx, byte ptr [rip + rt_config + CONFIG_SHIFT]
    mov rax, rdi
    shr rax, cl
    and eax, LINES_MASK
    mov ecx, eax
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
    and ecx, PLACES - 1
    shl ecx, PLACE_SHIFT
2:  bsf rsi, rax
    jz held
    btr rax, rsi
    mov rsi, [STREAMS + rsi * 8]
    mov byte ptr [rsi + TAKEN + rcx], 1
    mov qword ptr [rsi + WRITTEN + rcx], 0
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
    and ecx, PLACES - 1
    shl ecx, PLACE_SHIFT
    mov byte ptr [rsi + TAKEN + rcx], 1
    mov qword ptr [rsi + TOUCHED + rcx], 0
    mov qword ptr [rsi + WRITTEN + rcx], 0
none:
    test rsp, rsp
    ret
held:
    cmp eax, eax
    ret

/* Likewise that it writes it; ZF: the own filter may hold that it has; CF: it may hold it, but not as written. */
rt_note_written:
    STATE 0
    mov rdx, gs:[STREAM + OWN]
    test rdx, rdx
    jz none
    movzx ecx, byte ptr [rip + rt_config + CONFIG_SHIFT]
    mov rax, rdi
    shr rax, cl
    and eax, LINES_MASK
    mov ecx, eax
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
    and ecx, PLACES - 1
    shl ecx, PLACE_SHIFT
4:  bsf rsi, rax
    jz none
    btr rax, rsi
    mov rsi, [STREAMS + rsi * 8]
    mov byte ptr [rsi + TAKEN + rcx], 1
    mov qword ptr [rsi + TOUCHED + rcx], 0
    mov qword ptr [rsi + WRITTEN + rcx], 0
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

    .section .note.GNU-stack, "", @progbits
