/* SPDX-License-Identifier: Apache-2.0
 *
 * The blob starts with a table of its entrances and the configuration that the rewriter fills in; then the code.
 * Entrances keep every register and the flags (except where noted), and leave the red zone alone where they are called
 * from inserted code (the caller has moved the stack pointer).
 */
#include "rt/rt_state.S"

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
    .quad rt_probe_start - rt_blob      /* 48: probes; rcx is the cell, edx:eax the stamp */
    .quad rt_probe_stop - rt_blob       /* 56 */
    .quad rt_probe_start_gs - rt_blob   /* 64: the cell is the thread's own */
    .quad rt_probe_stop_gs - rt_blob    /* 72 */
    .quad rt_probe_start_framed - rt_blob    /* 80: the site says where its frame is */
    .quad rt_probe_stop_framed - rt_blob     /* 88 */
    .quad rt_probe_start_framed_gs - rt_blob /* 96 */
    .quad rt_probe_stop_framed_gs - rt_blob  /* 104 */
    .quad rt_landed - rt_blob           /* 112: control came by the unwinder; the old stack pointer is 152 bytes up */
    .quad rt_described_end - rt_blob    /* 120: end of the code that rt_states describes, from rt_probe_start on */
    .globl rt_config
    .hidden rt_config
rt_config:                              /* 128: see struct rt_config */
    .skip 64
    .quad rt_catch - rt_blob            /* 192: in the stead of the system call rt_sigaction */
    .quad rt_fault_return - rt_blob     /* 200: where handlers of faults return to */
    .quad rt_chunk_full - rt_blob       /* 208: the thread's chunk of references is full */
    .quad rt_forget_lines - rt_blob     /* 216: the filter's tables say nothing any more; flags change */
    .quad rt_watched - rt_blob          /* 224: a watched function is entered or left */
    .quad rt_told - rt_blob             /* 232: an instruction whose operands do not say where it reaches */
    .quad rt_line_read - rt_blob        /* 240: a reference to a line; ZF: it need not be told */
    .quad rt_line_written - rt_blob     /* 248 */
    .quad rt_line_told_read - rt_blob   /* 256: it is told; flags change */
    .quad rt_line_told_written - rt_blob /* 264 */
    .quad rt_line_both_read - rt_blob   /* 272: to two lines, of which the first is said; ZF: it need not be told */
    .quad rt_line_both_written - rt_blob /* 280 */
    .quad rt_lines_reach - rt_blob      /* 288: to several */
    .quad rt_lines_range - rt_blob      /* 296: by a string instruction; ZF: it need not be told */
rt_states:                              /* 304: see STATE */

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
    test byte ptr [rip + rt_config + 16], 8 /* CONFIG_PROBES */
    jz 1f
    lea r11, [rip + rt_blob]
    add r11, [rip + rt_config]
    mov [r11 + 24], rdx /* rt_data.at_exit */
    lea rdx, [rip + rt_exit_handler]
1:  lea r11, [rip + rt_blob]
    add r11, [rip + rt_config + 24]
    jmp r11

/* What the start-up code of C libraries has called last of all exit handlers (psABI, process initialization). */
rt_exit_handler:
    push rdi
    call rt_probes_exit
    pop rdi
    test rax, rax
    jz 1f
    jmp rax
1:  ret

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

/* Probes (wire.h, struct wire_probe): everything but rax, rcx and rdx stays, flags too. The site has gone 128 bytes
 * past the red zone, saved these three, and stamped before any of this was fetched: rcx is the cell, edx:eax the stamp.
 * What came before the stamp is done, what comes after the probe has not begun, so that what a probe takes can be seen
 * in a few that stamp again at their end: by a hash of the stamp, which no program is in step with, and whose low bits
 * alone would not do (of some processors it is a multiple of 21). */
    .set PROBE_START, 0
    .set PROBE_STACK, 8
    .set PROBE_READING_TICKS, 16
    .set PROBE_READING_NS, 24
    .set PROBE_TICKS, 32
    .set PROBE_COUNT, 40
    .set PROBE_CLOCKED_TICKS, 48
    .set PROBE_CLOCKED_NS, 56
    .set PROBE_CUT, 64
    .set PROBE_LOOKS, 68
    .set PROBE_RESTARTS, 72
    .set PROBE_LOOK_SEEN, 76
    .set PROBE_LOOK_TICKS, 80
    .set PROBE_BEGIN_TICKS, 88
    .set PROBE_BEGIN_SQUARES, 96
    .set PROBE_END_TICKS, 104
    .set PROBE_END_SQUARES, 112
    .set PROBE_BEGIN_SEEN, 120
    .set PROBE_END_SEEN, 124
    .set PROBE_PUSHED, 2 * 8 + 8 + 3 * 8 + 128 /* since the program: two here, return address, the site's, red zone */
    .set PROBE_FRAME, 2 * 8 + 8 - 64 /* where a site that tells its frame left it, below the stack pointer */

    .macro PROBE_ENTER
    STATE 0
    push rsi
    STATE 8
    mov esi, eax
    lahf
    seto al
    push rax
    STATE 16
    shl rdx, 32
    or rsi, rdx
    .endm

    .macro PROBE_LEAVE
    pop rax
    STATE 8
    add al, 0x7f
    sahf
    pop rsi
    STATE 0
    ret
    STATE 16 /* what follows is reached from further up */
    .endm

    .macro STAMP
    rdtsc
    shl rdx, 32
    or rax, rdx
    .endm

/* Goes on behind it; what was interrupted is left out. */
    .macro PROBE_COST at, which, leave
    lfence
    imul eax, esi, 0x9e3779b1
    cmp eax, 1 << 27 /* one in WIRE_PROBE_SHARE */
    jae \leave
    STAMP
    sub rax, rsi
    cmp rax, 8192 /* WIRE_PROBE_COST_MAX */
    ja \leave
    add qword ptr \at[rcx + PROBE_\which\()_TICKS], rax
    imul rax, rax
    add qword ptr \at[rcx + PROBE_\which\()_SQUARES], rax
    inc dword ptr \at[rcx + PROBE_\which\()_SEEN]
    .endm

/* Of all that look at the processor time: rax is the stamp behind that. */
    .macro PROBE_LOOKED at, leave
    sub rax, rsi
    cmp rax, 1 << 16 /* WIRE_PROBE_LOOK_MAX */
    ja \leave
    add qword ptr \at[rcx + PROBE_LOOK_TICKS], rax
    inc dword ptr \at[rcx + PROBE_LOOK_SEEN]
    jmp \leave
    .endm

    .macro PROBE_PLACE framed
    .ifb \framed
    lea rdx, [rsp + PROBE_PUSHED]
    .else
    mov rdx, [rsp + PROBE_FRAME]
    .endif
    .endm

    .macro PROBES at, name, framed
rt_probe_start\name:
    PROBE_ENTER
    PROBE_PLACE \framed
    cmp qword ptr \at[rcx + PROBE_START], 0
    jne 4f
1:  mov qword ptr \at[rcx + PROBE_STACK], rdx
    mov qword ptr \at[rcx + PROBE_START], rsi
    mov rdx, rsi
    sub rdx, qword ptr \at[rcx + PROBE_READING_TICKS]
    cmp rdx, 1 << 20 /* WIRE_PROBE_READING */
    ja 3f
    PROBE_COST "\at", BEGIN, 5f
5:  PROBE_LEAVE
3:  inc dword ptr \at[rcx + PROBE_LOOKS]
    inc dword ptr \at[rcx + PROBE_RESTARTS]
    call rt_probe_read_clock
    mov qword ptr \at[rcx + PROBE_READING_NS], rax
    lfence
    STAMP
    mov qword ptr \at[rcx + PROBE_READING_TICKS], rax
    mov qword ptr \at[rcx + PROBE_START], rax
    PROBE_LOOKED "\at", 5b
4:  cmp qword ptr \at[rcx + PROBE_STACK], rdx /* the one under way is further up: this is recursion */
    ja 5b
    inc dword ptr \at[rcx + PROBE_CUT]
    jmp 1b

rt_probe_stop\name:
    PROBE_ENTER
    cmp qword ptr \at[rcx + PROBE_START], 0
    je 7f
    PROBE_PLACE \framed
    cmp qword ptr \at[rcx + PROBE_STACK], rdx
    jne 7f
    mov rdx, rsi
    sub rdx, qword ptr \at[rcx + PROBE_START]
    add qword ptr \at[rcx + PROBE_TICKS], rdx
    inc qword ptr \at[rcx + PROBE_COUNT]
    mov qword ptr \at[rcx + PROBE_START], 0
    mov rdx, rsi
    sub rdx, qword ptr \at[rcx + PROBE_READING_TICKS]
    cmp rdx, 1 << 20
    ja 8f
    PROBE_COST "\at", END, 7f
7:  PROBE_LEAVE
8:  inc dword ptr \at[rcx + PROBE_LOOKS]
    add qword ptr \at[rcx + PROBE_CLOCKED_TICKS], rdx
    mov qword ptr \at[rcx + PROBE_READING_TICKS], rsi
    call rt_probe_read_clock
    mov rdx, rax
    sub rdx, qword ptr \at[rcx + PROBE_READING_NS]
    add qword ptr \at[rcx + PROBE_CLOCKED_NS], rdx
    mov qword ptr \at[rcx + PROBE_READING_NS], rax
    lfence
    STAMP
    PROBE_LOOKED "\at", 7b
    .endm

    .section .text.sites, "ax"
    PROBES "", ""
    PROBES "gs:", _gs
    PROBES "", _framed, framed
    PROBES "gs:", _framed_gs, framed

/* The thread's processor time in ns, in rax; rcx stays. */
rt_probe_read_clock:
    STATE 0
    push rcx
    STATE 8
    push rsi
    STATE 16
    push rdi
    STATE 24
    push r11
    STATE 32
    sub rsp, 16
    STATE 48
    mov eax, 228 /* clock_gettime */
    mov edi, 3   /* CLOCK_THREAD_CPUTIME_ID */
    mov rsi, rsp
    syscall
    pop rax
    STATE 40
    imul rax, rax, 1000000000
    pop rdi
    STATE 32
    add rax, rdi
    pop r11
    STATE 24
    pop rdi
    STATE 16
    pop rsi
    STATE 8
    pop rcx
    STATE 0
    ret

/* As SAVED, with all signals blocked inside: those that wait come where the stack is described, and rbp, which frames
 * are found by, is the program's. */
    .set STREAM_IS_CONFINED, 0x7f000000 + 76 /* WIRE_STREAM_VADDR + offset of is_confined */
    .globl rt_chunk_full
    .hidden rt_chunk_full
rt_chunk_full:
    STATE 0
    pushfq
    STATE 8
    push rax
    STATE 16
    push rcx
    STATE 24
    push rdx
    STATE 32
    push rsi
    STATE 40
    push rdi
    STATE 48
    push r8
    STATE 56
    push r9
    STATE 64
    push r10
    STATE 72
    push r11
    STATE 80
    push rbp
    STATE 88
    sub rsp, 16
    STATE 104
    cld
    cmp dword ptr gs:[STREAM_IS_CONFINED], 0
    jne 3f
    BLOCK_SIGNALS
    mov rbp, rsp
    and rsp, -16
    call rt_stream_full
    mov rsp, rbp
    mov rbp, [rsp + 16]
    RESTORE_SIGNALS
2:  add rsp, 16
    STATE 88
    pop rbp
    STATE 80
    pop r11
    STATE 72
    pop r10
    STATE 64
    pop r9
    STATE 56
    pop r8
    STATE 48
    pop rdi
    STATE 40
    pop rsi
    STATE 32
    pop rdx
    STATE 24
    pop rcx
    STATE 16
    pop rax
    STATE 8
    popfq
    STATE 0
    ret
    STATE 104 /* what follows is reached from further up */
3:  mov rbp, rsp
    and rsp, -16
    call rt_stream_full_confined
    mov rsp, rbp
    mov rbp, [rsp + 16]
    jmp 2b

/* A watched function is entered, or (bit 31) left: eax is its number, with WIRE_CALL_*, rax what it was before is
 * pushed, above the red zone. Makes an event of the thread's stream (wire/stream.h) without a system call, but where
 * what is looked at on the stack goes on in the next page: but for the first thread's stack that may be none, which a
 * set of signals there tells that cannot be taken; a program that forbids itself system calls has none, and no time
 * stamp. Everything stays but rax; rbp is the program's. */
    .set STREAM, 0x7f000000 /* WIRE_STREAM_VADDR; then offsets in struct wire_stream */
    .set STREAM_PUT, 0
    .set STREAM_LIMIT, 8
    .set STREAM_START, 16
    .set STREAM_BEGIN, 24
    .set STREAM_IS_ALONE, 84
    .set STREAM_STACK_TOP, 120
    .set STREAM_OPEN, 192
    .set OPEN_SHIFT, 5 /* of struct wire_open: */
    .set OPEN_STACK, STREAM_OPEN - 32
    .set OPEN_RETURN, STREAM_OPEN - 24
    .set OPEN_ARGUMENT, STREAM_OPEN - 16
    .set OPEN_KEPT, STREAM_OPEN - 8
    .set OPEN_OUTER, STREAM_OPEN - 64 /* the stack pointer of the one around it */
    .set STREAM_OPEN_COUNT, STREAM_OPEN + 32 * 32
    .set STREAM_COPIES, STREAM_OPEN_COUNT + 4 * 8
    .set STREAM_PATHS, 12288 + 17 * 65536
    .set OPEN_MAX, 32
    .set PATHS_IS_NEAR, STREAM_PATHS
    .set NODES, STREAM + STREAM_PATHS + 64
    .set NODE_BYTES_SHIFT, 5
    .set NODE_VALUE, 0
    .set NODE_FROM, 8
    .set NODE_LOOK, 12
    .set NODE_NUMBER, 16
    .set NODE_ROOT, 2
    .set NODE_NEXT, (1 << NODE_BYTES_SHIFT) - 1 /* from a node's number to the place behind it */
    .set LOOK_LEADS, 30
    .set LOOK_OFFSET, 0x3fffffff
    .set HASH_FROM, 2654435761
    .set HASH_FACTOR, 2246822519
    .set HASH_SHIFT, 16
    .set STACK_SURE, 1 << 20 /* so far below its top nothing but the stack can be, where the stack pointer is */
    .set CHUNK_BYTES, 65536
    .set WATCH_PUSHED, 9 * 8 + 8 + 8 + 128
    .set WATCH_RDI, 3 * 8
    .set WATCH_RSI, 4 * 8
    .set WATCH_RDX, 5 * 8
    .set WATCH_R8, 7 * 8
    .set WATCH_RCX, 8 * 8
    .set WATCH_RAX, 10 * 8
    .set WATCH_NEAR, 512 /* WIRE_CALL_NEAR */
    .set WATCH_HEAD, 16 + 80
    .set WATCH_SHORT, 16 + 32
    .set WATCH_LEAST, 16 + 16
    .set WATCH_GIVEN, 16 + 48
    .set WATCH_GIVEN_ALONE, 16 + 16
    .set EVENT_KEPT, 0x80010002 - 0x100000000 /* WIRE_EVENT(...) */
    .set EVENT_GIVEN, 0x80070003 - 0x100000000
    .set EVENT_GIVEN_ALONE, 0x80070001 - 0x100000000
    .set CALL_PATH_SHIFT, 48
    .set CALL_RETURNS, 31
    .set CALL_JUMPS, 30
    .set CALL_OPENS, 28
    .set CALL_STORES, 27
    .set CALL_WHOLE, 0x24000000 /* WIRE_CALL_NAMES, WIRE_CALL_ARGUMENTS */
    .set CALL_SEVERAL, 0x0c000000 /* WIRE_CALL_ARGUMENTS, WIRE_CALL_STORES */
    .set CALL_OWN, 25
    .set CALL_TOLD, 0x60ffffff
    .set OPEN_OWN, 63
    .set CONFIG_KEY, 32
    .set EFAULT, 14

/* r11: the time of a call; changes rax and rdx. */
    .macro WATCH_TIME
    mov r11, gs:[STREAM + STREAM_BEGIN]
    cmp dword ptr gs:[STREAM + STREAM_IS_ALONE], 0
    jne 9f
    mov r11, -1
    cmp dword ptr gs:[STREAM_IS_CONFINED], 0
    jne 9f
    rdtsc
    shl rdx, 32
    lea r11, [rdx + rax]
9:
    .endm

rt_watched:
    STATE 0
    push rcx
    STATE 8
    push r8
    STATE 16
    mov r8d, eax
    lahf
    seto al
    push rax
    STATE 24
    push rdx
    STATE 32
    push rsi
    STATE 40
    push rdi
    STATE 48
    push r9
    STATE 56
    push r10
    STATE 64
    push r11
    STATE 72
    lea r9, [rsp + WATCH_PUSHED]

/* An entrance that was kept is told with its return, or before anything else. */
    mov ecx, gs:[STREAM + STREAM_OPEN_COUNT]
    test ecx, ecx
    jz 1f
    mov edi, ecx
    shl edi, OPEN_SHIFT
    mov rax, gs:[STREAM + OPEN_KEPT + rdi]
    test rax, rax
    jnz watch_kept

/* Calls that are no longer under way are forgotten. r10: where the innermost one is that is, ecx: how many are. */
watch_looks:
1:  xor r10d, r10d
    test ecx, ecx
    jz 5f
    mov edx, ecx
    shl edx, OPEN_SHIFT
    mov r10, gs:[STREAM + OPEN_STACK + rdx]
    mov rdi, r10
    sub rdi, r9
    jb 2f
    cmp rdi, WATCH_NEAR - 8
    ja 4f
    mov eax, r9d
    and eax, 4095
    add eax, edi
    cmp eax, 4096 - 8
    jbe 3f
    mov eax, WATCH_NEAR
    call bytes_of_stack
    sub eax, 8
    cmp edi, eax
    jg 4f
3:  mov rax, [r10]
    xor rax, gs:[STREAM + OPEN_RETURN + rdx]
    shl rax, 1 /* without OPEN_OWN */
    jz 5f
2:  dec ecx
    jmp 1b
4:  cmp qword ptr gs:[STREAM + OPEN_RETURN + rdx], 0 /* OPEN_OWN is its sign */
    jns 2b
5:  mov gs:[STREAM + STREAM_OPEN_COUNT], rcx
    WATCH_TIME
    test r8d, r8d
    js watch_leaves
    bt r8d, CALL_JUMPS
    jc watch_short
    bt r8d, CALL_OPENS
    jc watch_opens
    test r8d, CALL_WHOLE
    jz watch_takes
    xor edi, edi
    xor ecx, ecx
    jmp watch_whole

/* rax: what is kept of the innermost call, rdi: where that is. A signal's handler may have told it meanwhile. */
watch_kept:
    xor edx, edx
    cmpxchg gs:[STREAM + OPEN_KEPT + rdi], rdx
    jne watch_looks
    mov rsi, rax
    xor r10d, r10d
    cmp ecx, 1
    je 1f
    mov r10, gs:[STREAM + OPEN_OUTER + rdi]
1:  test r8d, r8d
    jns 2f
    cmp r9, gs:[STREAM + OPEN_STACK + rdi]
    je watch_gives
2:  WATCH_TIME
    mov eax, WATCH_SHORT
    xadd gs:[STREAM + STREAM_PUT], rax
    mov rdx, gs:[STREAM + STREAM_START]
    add rdx, CHUNK_BYTES - WATCH_SHORT
    cmp rax, rdx
    ja 3f
    mov rdx, gs:[STREAM + OPEN_ARGUMENT + rdi]
    mov gs:[rax + 16], rdx
    mov rdx, gs:[STREAM + OPEN_STACK + rdi]
    mov gs:[rax + 24], rdx
    mov gs:[rax + 32], r11
    mov rdx, rsi
    shl rdx, CALL_PATH_SHIFT
    or rdx, r10
    mov gs:[rax + 40], rdx
    shr rsi, 32
    mov edx, [rip + rt_config + CONFIG_KEY]
    mov gs:[rax + 8], esi
    mov gs:[rax + 12], edx
    mov qword ptr gs:[rax], EVENT_KEPT
3:  mov ecx, gs:[STREAM + STREAM_OPEN_COUNT]
    jmp watch_looks

/* It returns: rsi: what was kept, rdi: where, r10: the call around it. */
watch_gives:
    cmp dword ptr gs:[STREAM + STREAM_IS_ALONE], 0
    je 1f
    test r10, r10
    jnz 1f
    mov ecx, WATCH_GIVEN_ALONE
    mov r11, EVENT_GIVEN_ALONE
    jmp 2f
1:  WATCH_TIME
    mov rdx, r11
    mov ecx, WATCH_GIVEN
    mov r11, EVENT_GIVEN
2:  mov eax, ecx
    xadd gs:[STREAM + STREAM_PUT], rax
    add rcx, rax
    sub rcx, CHUNK_BYTES
    cmp rcx, gs:[STREAM + STREAM_START]
    ja 4f
    mov rcx, [rsp + WATCH_RAX]
    mov gs:[rax + 16], rcx
    mov rcx, gs:[STREAM + OPEN_ARGUMENT + rdi]
    mov gs:[rax + 24], rcx
    cmp r11, EVENT_GIVEN
    jne 3f
    mov gs:[rax + 32], r9
    mov gs:[rax + 40], rdx
    mov gs:[rax + 48], r10
3:  mov ecx, esi
    shl ecx, 16
    shr rsi, 32
    or ecx, esi
    mov gs:[rax + 8], ecx
    mov ecx, [rip + rt_config + CONFIG_KEY]
    mov gs:[rax + 12], ecx
    mov gs:[rax], r11
4:  mov r10, r9
    jmp watch_told

watch_leaves:
    bt r8d, CALL_STORES
    jnc watch_short
    mov eax, WATCH_NEAR
    call bytes_of_stack
    mov ecx, eax
    xor edi, edi
    jmp watch_whole

/* It is kept: before its event, so that handlers of signals that come behind that find it. */
watch_opens:
    cmp r10, r9
    je 1f
    cmp ecx, OPEN_MAX
    jae 2f
    inc ecx
1:  mov edx, ecx
    shl edx, OPEN_SHIFT
    mov rax, [r9]
    bt r8d, CALL_OWN
    jnc 3f
    bts rax, OPEN_OWN
3:  mov qword ptr gs:[STREAM + OPEN_KEPT + rdx], 0
    mov gs:[STREAM + OPEN_STACK + rdx], r9
    mov gs:[STREAM + OPEN_RETURN + rdx], rax
    mov gs:[STREAM + STREAM_OPEN_COUNT], rcx

/* Is it a known path? rsi: the node, rax: what was found where that says, ecx: bytes of the stack that are there, less
 * 8, edx: the number of the last node that has one, rdi: a place. */
2:  mov eax, WATCH_NEAR
    call bytes_of_stack
    lea ecx, [rax - 8]
    xor edx, edx
    mov esi, NODE_ROOT
    mov rax, [r9]
    jmp 4f
3:  lea edi, [rsi + NODE_NEXT]
    cmp esi, gs:[NODES + NODE_FROM + rdi]
    jne 4f
    cmp rax, gs:[NODES + NODE_VALUE + rdi]
    je 6f
4:  imul edi, esi, HASH_FROM - 0x100000000
    xor edi, eax
    imul edi, edi, HASH_FACTOR - 0x100000000
    shr edi, HASH_SHIFT
    shl edi, NODE_BYTES_SHIFT
5:  cmp esi, gs:[NODES + NODE_FROM + rdi]
    jne 8f
    cmp rax, gs:[NODES + NODE_VALUE + rdi]
    jne 9f
6:  lea esi, [rdi + 1]
    mov eax, gs:[NODES + NODE_NUMBER + rdi]
    test eax, eax
    cmovnz edx, eax
    mov edi, gs:[NODES + NODE_LOOK + rdi]
    test edi, edi
    jz 12f
    js 10f
    mov eax, edi
    and eax, LOOK_OFFSET
    cmp eax, ecx
    jg 11f
7:  mov rax, [r9 + rax]
    bt edi, LOOK_LEADS
    jnc 3b
    sub rax, r9
    jmp 3b
8:  cmp dword ptr gs:[NODES + NODE_FROM + rdi], 0
    je 12f
9:  add edi, 1 << NODE_BYTES_SHIFT
    jmp 5b
10: mov rax, rbp
    sub rax, r9
    jmp 3b
11: add eax, WATCH_NEAR /* the word is farther up than is known to be there */
    call bytes_of_stack
    lea ecx, [rax - 8]
    mov eax, edi
    and eax, LOOK_OFFSET
    cmp eax, ecx
    jle 7b
12: mov edi, edx
    test edx, edx
    jnz watch_known

/* It is not: the stack is copied. A chunk that has no room for it ends here, and with it the time of its calls. */
    mov eax, gs:[STREAM + STREAM_COPIES]
    cmp eax, WATCH_NEAR
    jbe 7f
    cmp dword ptr gs:[STREAM + PATHS_IS_NEAR], 0
    je 7f
    mov eax, WATCH_NEAR
7:  call bytes_of_stack
    mov ecx, eax
    xor edi, edi
    mov rax, gs:[STREAM + STREAM_PUT]
    lea rdx, [rax + rcx + WATCH_HEAD - CHUNK_BYTES]
    cmp rdx, gs:[STREAM + STREAM_START]
    jbe watch_whole
    mov gs:[STREAM + STREAM_LIMIT], rax
    call rt_chunk_full
    WATCH_TIME
    jmp watch_whole

/* rdi: the path's number. An entrance that says nothing more than that and one argument is kept where the call is, if
 * that began now and is the innermost one. */
watch_known:
    xor ecx, ecx
    test r8d, CALL_SEVERAL
    jnz watch_whole
    cmp r10, r9
    je 1f
    mov ecx, gs:[STREAM + STREAM_OPEN_COUNT]
    shl ecx, OPEN_SHIFT
    jz 1f
    cmp r9, gs:[STREAM + OPEN_STACK + rcx]
    jne 1f
    mov rax, [rsp + WATCH_RDI]
    mov gs:[STREAM + OPEN_ARGUMENT + rcx], rax
    mov eax, r8d
    and eax, CALL_TOLD
    shl rax, 32
    or rax, rdi
    mov gs:[STREAM + OPEN_KEPT + rcx], rax
    jmp watch_ends
1:  shl rdi, CALL_PATH_SHIFT
    or r10, rdi
    jmp watch_short

/* edi: the path's number; ecx: bytes of the stack; r10, r11: the innermost open call, the time. */
watch_whole:
    lea edx, [rcx + WATCH_HEAD]
    mov rax, rdx
    xadd gs:[STREAM + STREAM_PUT], rax
    add rdx, rax
    mov rsi, gs:[STREAM + STREAM_START]
    add rsi, CHUNK_BYTES
    cmp rdx, rsi
    ja watch_told
    mov gs:[rax + 16 + 72], rdi
    mov gs:[rax + 16 + 64], r10
    mov gs:[rax + 16 + 56], r11
    mov gs:[rax + 16 + 48], r9
    mov gs:[rax + 16 + 40], rbp
    mov rdx, [rsp + WATCH_R8]
    mov gs:[rax + 16 + 32], rdx
    mov rdx, [rsp + WATCH_RCX]
    mov gs:[rax + 16 + 24], rdx
    mov rdx, [rsp + WATCH_RDX]
    mov gs:[rax + 16 + 16], rdx
    mov rdx, [rsp + WATCH_RSI]
    mov gs:[rax + 16 + 8], rdx
    mov rdx, [rsp + WATCH_RDI]
    test r8d, r8d
    cmovs rdx, [rsp + WATCH_RAX]
    mov gs:[rax + 16], rdx
    lea esi, [rcx + WATCH_HEAD - 16]
    lea rdx, [rax + WATCH_HEAD]
    mov rdi, r9
1:  sub ecx, 8
    js watch_begun
    mov r11, [rdi]
    mov gs:[rdx], r11
    add rdi, 8
    add rdx, 8
    jmp 1b

watch_short:
    mov eax, WATCH_SHORT
    xadd gs:[STREAM + STREAM_PUT], rax
    mov rdx, gs:[STREAM + STREAM_START]
    add rdx, CHUNK_BYTES - WATCH_SHORT
    cmp rax, rdx
    ja watch_told
    mov rdx, [rsp + WATCH_RDI]
    test r8d, r8d
    cmovs rdx, [rsp + WATCH_RAX]
    mov gs:[rax + 16], rdx
    mov gs:[rax + 24], r9
    mov gs:[rax + 32], r11
    mov gs:[rax + 40], r10
    mov esi, WATCH_SHORT - 16

    jmp watch_begun

/* Memory is given back. */
watch_takes:
    cmp dword ptr gs:[STREAM + STREAM_IS_ALONE], 0
    je watch_short
    mov eax, WATCH_LEAST
    xadd gs:[STREAM + STREAM_PUT], rax
    mov rdx, gs:[STREAM + STREAM_START]
    add rdx, CHUNK_BYTES - WATCH_LEAST
    cmp rax, rdx
    ja watch_told
    mov rdx, [rsp + WATCH_RDI]
    mov gs:[rax + 16], rdx
    mov gs:[rax + 24], r10
    mov esi, WATCH_LEAST - 16

/* rax: the event, but for its first entry; esi: bytes behind that. */
watch_begun:
    mov ecx, [rip + rt_config + CONFIG_KEY]
    mov gs:[rax + 12], ecx
    mov ecx, r8d
    and ecx, CALL_TOLD
    mov gs:[rax + 8], ecx
    mov ecx, r8d
    shr ecx, CALL_RETURNS
    inc ecx /* WIRE_EVENT_ENTER, WIRE_EVENT_LEAVE */
    shl ecx, 16
    shr esi, 4
    lea ecx, [rcx + rsi]
    or ecx, 0x80000000
    movsxd rcx, ecx
    mov gs:[rax], rcx

/* What has returned is over: behind its event, as handlers that come before it must not forget it. */
watch_told:
    test r8d, r8d
    jns 1f
    cmp r10, r9
    jne 1f
    mov ecx, gs:[STREAM + STREAM_OPEN_COUNT]
    sub ecx, 1
    jb 1f
    mov gs:[STREAM + STREAM_OPEN_COUNT], rcx
1:  mov rax, gs:[STREAM + STREAM_PUT]
    cmp rax, gs:[STREAM + STREAM_LIMIT]
    jae 3f
watch_ends:
2:  pop r11
    STATE 64
    pop r10
    STATE 56
    pop r9
    STATE 48
    pop rdi
    STATE 40
    pop rsi
    STATE 32
    pop rdx
    STATE 24
    pop rax
    STATE 16
    add al, 0x7f
    sahf
    pop r8
    STATE 8
    pop rcx
    STATE 0
    ret
    STATE 72
3:  call rt_chunk_full
    jmp 2b

/* eax: so many bytes of the stack can be read from r9 on, as many as eax asks for at most; at least WATCH_NEAR if they
 * are there. */
bytes_of_stack:
    STATE 80
    push rcx
    STATE 88
    mov ecx, eax
    mov eax, r9d
    and eax, 4095
    add eax, ecx
    cmp eax, 4096
    jbe 1f
    mov rax, gs:[STREAM + STREAM_STACK_TOP]
    sub rax, r9
    cmp rax, STACK_SURE
    ja 2f
    cmp rax, rcx
    jae 1f
    and eax, -16
    cmp eax, WATCH_NEAR
    jae 3f
    mov ecx, WATCH_NEAR
2:  mov eax, r9d
    and eax, 4095
    neg eax
    add eax, 4096
    cmp dword ptr gs:[STREAM_IS_CONFINED], 0
    jne 5f
    push rdx
    STATE 96
    push rsi
    STATE 104
    push rdi
    STATE 112
    push r10
    STATE 120
    push r11
    STATE 128
    push rax
    STATE 136
4:  mov rax, [rsp]
    cmp eax, ecx
    jae 6f
    lea rsi, [r9 + rax]
    push rcx
    STATE 144
    mov rdi, -1
    xor edx, edx
    mov r10d, 8
    mov eax, SYS_rt_sigprocmask
    syscall
    pop rcx
    STATE 136
    cmp eax, -EFAULT
    je 6f
    add dword ptr [rsp], 4096
    jmp 4b
6:  pop rax
    STATE 128
    pop r11
    STATE 120
    pop r10
    STATE 112
    pop rdi
    STATE 104
    pop rsi
    STATE 96
    pop rdx
    STATE 88
5:  and eax, -16
    cmp eax, ecx
    cmova eax, ecx
3:  pop rcx
    STATE 80
    ret
    STATE 88 /* what follows is reached from further up */
1:  mov eax, ecx
    jmp 3b

    .text

/* As the system call rt_sigaction: rcx, r11 and rax change, nothing else. */
rt_catch:
    pushfq
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push rbp
    mov rbp, rsp
    and rsp, -16
    cld
    mov rcx, r10
    call rt_sigaction
    mov rsp, rbp
    pop rbp
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    popfq
    ret

/* What the kernel calls for a fault, with the stack pointer at its frame: goes on to the program's handler with all as
 * it was, but that this returns to rt_fault_return. */
    .globl rt_thunks
    .hidden rt_thunks
rt_thunks:
    .set THUNK, 0
    .rept 32 /* CAUGHT_MAX */
    .byte 0xb8 /* mov eax, THUNK */
    .long THUNK
    .byte 0xe9 /* jmp */
    .long rt_fault - . - 4
    .set THUNK, THUNK + 1
    .endr

rt_fault:
    mov rcx, rsp
    push rdi
    push rsi
    push rdx
    mov edi, eax
    mov rsi, rcx
    call rt_fault_came
    pop rdx
    pop rsi
    pop rdi
    mov r11, rax
    xor eax, eax
    jmp r11

/* The stack pointer is at the context, as where libc's code for the end of a handler begins. Unwinders look up the byte
 * before it. */
    nop
    .globl rt_fault_return
    .hidden rt_fault_return
rt_fault_return:
    mov rdi, rsp
    call rt_fault_returned
    mov eax, 15
    syscall

/* The site has saved rdx, rcx and rax, and its red zone lies above. setjmp's first return, with 0 in rax, has left
 * nothing; what unwinders come with is an address. */
rt_landed:
    mov rcx, [rsp + 8 + 16]
    jrcxz 1f
    lea rax, [rsp + 8 + 152]
    jmp rt_landed_
1:  ret
rt_landed_: SAVED rt_probes_landed

    .section .note.GNU-stack, "", @progbits
