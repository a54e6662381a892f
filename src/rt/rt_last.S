/* SPDX-License-Identifier: Apache-2.0
 *
 * The last lines of each place of the filter, in the order of use (wire/stream.h): a reference to one of them that is
 * not the last one is not told either, but brings it to the front; how the order then differs from the one that was
 * told stands in ORDER, and is told in front of the next line that is. Sites come here when the last line of the place
 * is another one, or is not known to be written. They have moved the stack pointer past the red zone and put what they
 * say below it: at [rsp-64] where a line begins or an address, at [rsp-72] a word (SAYS_*). All registers stay, flags
 * do not. A line is told by where it begins, a place by how far it is from the first one.
 *
 * Among threads rt_lines.S says what the filter may hold. TOUCHED and WRITTEN, which sites ask, and TAKEN others write
 * to as well: who takes a line sets TAKEN, then clears the two. So who comes here looks at TAKEN first, and if it is
 * set up all lines of the place again; and once more behind the locked instruction that puts a line into TOUCHED.
 *
 * A handler of a signal that comes between the steps may leave a line among the last ones that is none of them, or in
 * another order: a miss may then be taken for a hit.
 */
#include "rt/rt_state.S"
#include "rt/rt_stream.S"

    .intel_syntax noprefix
    .section .text.sites, "ax"

    .set AS_TOLD, 0x76543210 /* WIRE_ORDER_AS_TOLD */
    .set EVENT_ORDER, 0x80050000 - 0x100000000 /* WIRE_EVENT(...) */
    .set EVENT_PAUSE, 0x80060001 - 0x100000000
    .set PAUSE_BYTES, 32
    .set PAUSE_TICKS, 20000

    .globl rt_line_read, rt_line_written, rt_line_told_read, rt_line_told_written, rt_line_both_read
    .hidden rt_line_read, rt_line_written, rt_line_told_read, rt_line_told_written, rt_line_both_read
    .globl rt_line_both_written, rt_lines_range, rt_lines_ranged
    .hidden rt_line_both_written, rt_lines_range, rt_lines_ranged
    .globl rt_lines_reach, rt_lines_noted, rt_line_is_read, rt_line_is_written, rt_forget_lines
    .hidden rt_lines_reach, rt_lines_noted, rt_line_is_read, rt_line_is_written, rt_forget_lines

    .macro SAVE_SOME
    STATE 0
    push rdi
    STATE 8
    push rsi
    STATE 16
    push rax
    STATE 24
    push rcx
    STATE 32
    .endm
    .macro SAVE_REST
    push rdx
    STATE 40
    push r8
    STATE 48
    .endm
    .macro SAVE
    SAVE_SOME
    SAVE_REST
    .endm
    .macro RESTORE_SOME
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
    .macro RESTORE
    pop r8
    STATE 40
    pop rdx
    STATE 32
    RESTORE_SOME
    .endm
    .set SITE_SAYS, 48 + 8 - 72 /* from the stack pointer, when registers are saved */
    .set SITE_LINE, 48 + 8 - 64
    .set SITE_LINE_SOME, 32 + 8 - 64 /* when some are */
    .set SITE_FLAGS, 48 + 8

/* rdi: a line. Brings it to the front of its place; what stood in front of it, or all but the last one, goes one back.
 * esi, r8d: the place. ZF: it was there; then rax is its word, and ecx 4 times how far behind. Else the place's first
 * word is the caller's to write. Changes rdx. */
bring:
    STATE 0
    FIND_PLACE
bring_in:
    STATE 0
    mov r8d, esi
    mov rax, gs:[STREAM + LAST + rsi]
    mov rcx, rax
    xor rcx, rdi
    shl rcx, 2
    jz 4f
    movzx edx, byte ptr [rip + rt_config + CONFIG_LAST]
    cmp edx, PLACE_LINES
    jb 2f
    .irp K, 1, 2, 3, 4, 5, 6, 7
    mov rcx, gs:[STREAM + LAST + rsi + \K * 8]
    mov gs:[STREAM + LAST + rsi + \K * 8], rax
    mov rax, rcx
    xor rcx, rdi
    shl rcx, 2
    jz brought_\K
    .endr
    test rsp, rsp
    ret
    .irp K, 1, 2, 3, 4, 5, 6, 7
brought_\K:
    mov ecx, 4 * \K
    mov gs:[STREAM + LAST + rsi], rax
    cmp eax, eax
    ret
    .endr
1:  mov rcx, gs:[STREAM + LAST + r8]
    mov gs:[STREAM + LAST + r8], rax
    mov rax, rcx
    xor rcx, rdi
    shl rcx, 2
    jz 3f
2:  add r8d, 8
    lea ecx, [rsi + rdx * 8]
    cmp r8d, ecx
    jb 1b
    mov r8d, esi
    test rsp, rsp
    ret
3:  mov ecx, r8d
    mov r8d, esi
    sub ecx, esi
    shr ecx, 1
4:  mov gs:[STREAM + LAST + rsi], rax
    cmp eax, eax
    ret

/* Of the place esi the line at ecx / 4 has come to the front: so has the digit there. Changes rax, rdx, r8. */
rotate:
    STATE 0
    mov edx, gs:[STREAM + ORDER + rsi]
    xor edx, AS_TOLD
    mov r8d, edx
    shr r8d, cl
    mov eax, r8d
    shl eax, cl
    sub edx, eax
    and r8d, 15
    shl edx, 4
    add edx, r8d
    shl r8d, cl
    sub eax, r8d
    add eax, edx
    xor eax, AS_TOLD
    mov gs:[STREAM + ORDER + rsi], eax
    ret

/* How the lines of the place esi stand, if otherwise than they were told. Changes rax, rcx. */
tell_order:
    STATE 0
    mov eax, gs:[STREAM + ORDER + rsi]
    test eax, eax
    jnz 1f
    ret
1:  mov dword ptr gs:[STREAM + ORDER + rsi], 0
    xor eax, AS_TOLD
    mov ecx, ENTRY_BYTES
    xadd gs:[STREAM + PUT], rcx
    mov qword ptr gs:[rcx], EVENT_ORDER
    mov gs:[rcx + 8], eax
    mov eax, esi
    shr eax, PLACE_SHIFT
    mov gs:[rcx + 12], eax
    ret

/* From the line rdi to the one behind or in front of it. Changes rax, rcx. */
    .macro STEP how
    movzx ecx, byte ptr [rip + rt_config + CONFIG_SHIFT]
    mov eax, 1
    shl rax, cl
    \how rdi, rax
    .endm

/* ---- what need not be told ---- */

/* The line rdi, whose word is rax, is the second last of the place esi: the last two change places. Changes rcx. */
    .macro SWAP_LAST_TWO
    mov rcx, gs:[STREAM + LAST + rsi]
    mov gs:[STREAM + LAST + rsi + 8], rcx
    mov gs:[STREAM + LAST + rsi], rax
    mov ecx, gs:[STREAM + ORDER + rsi]
    rol cl, 4
    xor cl, (AS_TOLD & 15) ^ (AS_TOLD >> 4 & 15) | ((AS_TOLD & 15) ^ (AS_TOLD >> 4 & 15)) << 4
    mov gs:[STREAM + ORDER + rsi], ecx
    xor ecx, ecx
    bt rax, IS_WRITTEN
    cmovc rcx, rdi
    mov gs:[STREAM + TOUCHED + rsi], rdi
    mov gs:[STREAM + WRITTEN + rsi], rcx
    .endm

/* A site's reference to one line. ZF: it need not be told. Most are to the second last line of their place, for which
 * few registers do: LINE_ENTER, then a jump to 2 if it is another one, then LINE_LEAVE. 1: of several threads. */
    .macro LINE_ENTER
    SAVE_SOME
    mov rdi, [rsp + SITE_LINE_SOME]
    test dword ptr [rip + rt_config + CONFIG_FLAGS], CONFIG_LINES
    jnz 1f
    FIND_PLACE
    mov rax, gs:[STREAM + LAST + rsi + 8]
    mov rcx, rax
    .endm
    .macro LINE_LEAVE among, far
    SWAP_LAST_TWO
    cmp eax, eax
    RESTORE_SOME
    STATE 32
1:  SAVE_REST
    call \among
    RESTORE
    STATE 32
2:  SAVE_REST
    call \far
    RESTORE
    .endm

rt_line_read:
    LINE_ENTER
    xor rcx, rdi
    shl rcx, 2
    jnz 2f
    LINE_LEAVE among_read, pass_far_read

rt_line_written:
    LINE_ENTER
    btr rcx, IS_WRITTEN
    jnc 2f
    cmp rcx, rdi
    jne 2f
    LINE_LEAVE among_written, pass_far_written

/* Likewise to this one and the next; if one of them has to be told, so is how both places stand. */
rt_line_both_read:
    SAVE
    mov rdi, [rsp + SITE_LINE]
    call pass_read
    jne 1f
    STEP add
    call pass_read
    je 2f
    STEP sub
    call tell_read
    test rsp, rsp
    RESTORE
    STATE 48
1:  STEP add
    call tell_read
    test rsp, rsp
2:  RESTORE

rt_line_both_written:
    SAVE
    mov rdi, [rsp + SITE_LINE]
    call pass_written
    jne 1f
    STEP add
    call pass_written
    je 2f
    STEP sub
    call tell_written
    test rsp, rsp
    RESTORE
    STATE 48
1:  STEP add
    call tell_written
    test rsp, rsp
2:  RESTORE

/* ---- one thread ---- */

/* A reference to the line rdi. ZF: it need not be told; else the line is the last one of its place, and how the place
 * stood was told. Changes rax, rcx, rdx, rsi, r8. */
pass_read:
    STATE 0
    test dword ptr [rip + rt_config + CONFIG_FLAGS], CONFIG_LINES
    jnz among_read
    FIND_PLACE

/* Likewise, of the place esi. */
pass_far_read:
    STATE 0
    call bring_in
    jne 1f
    call put_passed
    call rotate
    cmp eax, eax
    ret
1:  mov gs:[STREAM + LAST + rsi], rdi
    mov gs:[STREAM + TOUCHED + rsi], rdi
    mov qword ptr gs:[STREAM + WRITTEN + rsi], 0
    call tell_order
    test rsp, rsp
    ret

pass_written:
    STATE 0
    test dword ptr [rip + rt_config + CONFIG_FLAGS], CONFIG_LINES
    jnz among_written
    FIND_PLACE
pass_far_written:
    STATE 0
    call bring_in
    jne 1f
    bt rax, IS_WRITTEN
    jnc 1f
    call put_passed
    call rotate
    cmp eax, eax
    ret
1:  call put_written
    test rsp, rsp
    ret

/* The line rdi, whose word is rax, is the last one of the place esi. Changes rdx. */
put_passed:
    STATE 0
    xor edx, edx
    bt rax, IS_WRITTEN
    cmovc rdx, rdi
    mov gs:[STREAM + TOUCHED + rsi], rdi
    mov gs:[STREAM + WRITTEN + rsi], rdx
    ret

/* The line rdi, which was brought, is the first of its place and was written to. Changes rax, rcx. */
put_written:
    STATE 0
    mov rax, rdi
    bts rax, IS_WRITTEN
    mov gs:[STREAM + LAST + rsi], rax
    mov gs:[STREAM + TOUCHED + rsi], rdi
    mov gs:[STREAM + WRITTEN + rsi], rdi
    jmp tell_order

/* The line rdi is told to be read, or written; it is the last one of its place. Changes rax, rcx, rdx, rsi, r8. */
tell_read:
    STATE 0
    test dword ptr [rip + rt_config + CONFIG_FLAGS], CONFIG_LINES
    jnz look_tell_read
    call bring
    mov rdx, rdi
    cmove rdx, rax
    mov gs:[STREAM + LAST + rsi], rdx
    mov gs:[STREAM + TOUCHED + rsi], rdi
    bt rdx, IS_WRITTEN
    mov edx, 0
    cmovc rdx, rdi
    mov gs:[STREAM + WRITTEN + rsi], rdx
    jmp tell_order

tell_written:
    STATE 0
    test dword ptr [rip + rt_config + CONFIG_FLAGS], CONFIG_LINES
    jnz look_tell_written
    call bring
    jmp put_written

/* ---- among threads ---- */

/* If another one has taken a line of the place of rdi: which of them may still be held. Changes rax, rcx, rdx, rsi, r8.
 */
look:
    STATE 0
    FIND_PLACE
    cmp byte ptr gs:[STREAM + TAKEN + rsi], 0
    jne 1f
    ret
1:  xor eax, eax
    xchg gs:[STREAM + TAKEN + rsi], al
    lea r8d, [rsi + PLACE_BYTES]
    mov rdx, gs:[STREAM + OWN]
2:  mov rax, gs:[STREAM + LAST + rsi]
    test rax, rax
    jle 5f
    test rdx, rdx
    jz 3f
    call rt_line_word
    test rcx, rcx
    js 3f
    cmp rcx, rdx
    je 5f
    test rcx, rdx
    jnz 4f
3:  bts rax, NOT_HELD
4:  btr rax, IS_WRITTEN
    mov gs:[STREAM + LAST + rsi], rax
5:  add esi, 8
    cmp esi, r8d
    jb 2b
    ret

/* The line rdi is the first of the place rsi, and the filter holds it; rdx: it again if it was written to, else 0. That
 * it was written is put in before the line, and others take it out behind that, so it never stands alone. Changes rax.
 */
hold:
    STATE 0
    mov rax, rdi
    mov gs:[STREAM + WRITTEN + rsi], rdx
    xchg rax, gs:[STREAM + TOUCHED + rsi]
    cmp byte ptr gs:[STREAM + TAKEN + rsi], 0
    jne hold_nothing
    ret
hold_nothing:
    STATE 0
    mov qword ptr gs:[STREAM + TOUCHED + rsi], 0
    mov qword ptr gs:[STREAM + WRITTEN + rsi], 0
    ret

among_read:
    STATE 0
    call look
    call bring
    jne 1f
    bt rax, NOT_HELD
    jc 1f
    xor edx, edx
    bt rax, IS_WRITTEN
    cmovc rdx, rdi
    call hold
    call rotate
    cmp eax, eax
    ret
1:  call rt_line_soon
    call pause
    call note_brought_read
    test rsp, rsp
    ret

among_written:
    STATE 0
    call look
    call bring
    jne 1f
    bt rax, NOT_HELD
    jc 1f
    bt rax, IS_WRITTEN
    jnc 1f
    mov rdx, rdi
    call hold
    call rotate
    cmp eax, eax
    ret
1:  call rt_line_soon
    call pause
    call note_brought_written
    test rsp, rsp
    ret

look_tell_read:
    STATE 0
    call look
    call bring

/* The line rdi, which was brought, is told to be read. Changes rax, rcx, rdx, rsi, r8. */
note_brought_read:
    STATE 0
    call begin_note
    call rt_note_read
    mov rax, rdi
    mov edx, 0
    jz put_held
    jmp put_not_held

look_tell_written:
    STATE 0
    call look
    call bring

note_brought_written:
    STATE 0
    call begin_note
    call rt_note_written
    mov rax, rdi
    mov rdx, rdi
    jz 1f
    mov edx, 0 /* flags stay */
    jc put_held
    jmp put_not_held
1:  bts rax, IS_WRITTEN

/* rax: the line as it stands among the last ones; rdx: it again if the filter may hold it as written, else 0. */
put_held:
    STATE 0
    mov gs:[STREAM + LAST + r8], rax
    mov esi, r8d
    jmp hold
put_not_held:
    STATE 0
    bts rax, NOT_HELD
    mov gs:[STREAM + LAST + r8], rax
    mov esi, r8d
    jmp hold_nothing

/* Until it is known whether it is held. Changes rax, rcx. */
begin_note:
    STATE 0
    mov rax, rdi
    bts rax, NOT_HELD
    mov gs:[STREAM + LAST + r8], rax
    jmp tell_order

/* Where nothing was told for long: when the last reference was, and when this one is. The clock is not asked where that
 * may be forbidden. Changes rax, rcx, rdx. */
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

/* ---- what is told in any case ---- */

/* A site's reference to a line. */
rt_line_told_read:
    SAVE
    mov rdi, [rsp + SITE_LINE]
    test dword ptr [rip + rt_config + CONFIG_FLAGS], CONFIG_LINES
    jz 1f
    call pause
1:  call tell_read
    RESTORE

rt_line_told_written:
    SAVE
    mov rdi, [rsp + SITE_LINE]
    test dword ptr [rip + rt_config + CONFIG_FLAGS], CONFIG_LINES
    jz 1f
    call pause
1:  call tell_written
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

/* A site's string instruction, rcx times; flags are on the stack. ZF: it need not be told, being to one line. */
rt_lines_range:
    SAVE
    mov eax, [rsp + SITE_SAYS]
    mov rdi, [rsp + SITE_LINE]
    movzx esi, ax
    mov rdx, rsi
    imul rsi, rcx
    test rsi, rsi
    jz 4f
    test dword ptr [rsp + SITE_FLAGS], DIRECTION
    jz 1f
    sub rdi, rsi
    add rdi, rdx
1:  test eax, SAYS_MAY_PASS
    jz 3f
    mov ecx, eax
    shr ecx, SAYS_SHIFT
    lea rdx, [rdi + rsi - 1]
    xor rdx, rdi
    shr rdx, cl
    jnz 3f
    shr rdi, cl
    shl rdi, cl
    test eax, SAYS_STORES
    jnz 2f
    call pass_read
    RESTORE
    STATE 48
2:  call pass_written
    RESTORE
    STATE 48
3:  call ranged
    test rsp, rsp
4:  RESTORE

/* By the rest of the runtime: rdi, rsi, eax: address, bytes, not 0, SAYS_*. All registers stay. */
rt_lines_ranged:
    SAVE
    call ranged
    RESTORE

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
    shl r10, cl
    shr rdi, cl
    shl rdi, cl
    test dword ptr [rip + rt_config + CONFIG_FLAGS], CONFIG_LINES
    jnz 1f
    mov eax, PLACE_LINES * PLACES - 1
    shl rax, cl
    neg rax
    add rax, r10
    cmp rdi, rax
    cmovl rdi, rax
1:  test r9d, SAYS_STORES
    jnz 2f
    call tell_read
    jmp 3f
2:  call tell_written
3:  STEP add
    cmp rdi, r10
    jbe 1b
    pop r10
    STATE 8
    pop r9
    STATE 0
    ret

/* A site's access of several lines. */
rt_lines_reach:
    SAVE
    mov eax, [rsp + SITE_SAYS]
    mov rdi, [rsp + SITE_LINE]
    movzx esi, ax
    call noted
    RESTORE

/* By the rest of the runtime: rdi, rsi, eax: address, bytes, SAYS_*. All registers stay. */
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
    shl r8, cl
    shr rdi, cl
    shl rdi, cl
1:  test r9d, SAYS_STORES
    jnz 2f
    call rt_note_read
    jmp 3f
2:  call rt_note_written
3:  STEP add
    cmp rdi, r8
    jbe 1b
    pop r9
    STATE 8
    pop r8
    STATE 0

/* No line is known any more. All registers stay. */
rt_forget_lines:
    STATE 0
    push rax
    STATE 8
    push rcx
    STATE 16
    push rsi
    STATE 24
    mov esi, PLACE_BYTES * PLACES
    cmp byte ptr [rip + rt_config + CONFIG_LAST], 1
    ja 1f
    test dword ptr [rip + rt_config + CONFIG_FLAGS], CONFIG_LINES
    jz 3f
1:  sub esi, PLACE_BYTES
    call tell_order
    xor eax, eax
    .set K, 0
    .rept PLACE_LINES
    mov gs:[STREAM + LAST + rsi + K], rax
    .set K, K + 8
    .endr
    test esi, esi
    jnz 1b
    mov esi, PLACE_BYTES * PLACES
3:  xor eax, eax
4:  mov gs:[STREAM + TOUCHED - PLACE_BYTES + rsi], rax
    mov gs:[STREAM + WRITTEN - PLACE_BYTES + rsi], rax
    sub esi, PLACE_BYTES
    jnz 4b
    pop rsi
    STATE 16
    pop rcx
    STATE 8
    pop rax
    STATE 0
    ret

    .section .note.GNU-stack, "", @progbits
