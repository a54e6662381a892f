/* SPDX-License-Identifier: Apache-2.0
 * Included by the assembler sources that have code in .text.sites, where a signal may come: how far the stack has
 * grown, and how signals are kept away.
 *
 * From here on so many bytes are on the stack above the return address: two words for the unwind tables, behind the
 * configuration, in order of address; the last pair has the end. The blob is linked at 0. */
    .macro STATE pushed
991:
    .pushsection .text.head
    .long 991b, \pushed
    .popsection
    .endm

/* All signals blocked; at [rsp] is room for the set of before, and for one of all behind it. Changes what system calls
 * do, rdi, rsi, rdx and r10. */
    .set MASK_BEFORE, 0
    .set MASK_ALL, 8
    .set SIG_SETMASK, 2
    .set SYS_rt_sigprocmask, 14
    .macro BLOCK_SIGNALS
    mov qword ptr [rsp + MASK_ALL], -1
    mov edi, SIG_SETMASK
    lea rsi, [rsp + MASK_ALL]
    lea rdx, [rsp + MASK_BEFORE]
    mov r10d, 8
    mov eax, SYS_rt_sigprocmask
    syscall
    .endm

    .macro RESTORE_SIGNALS
    mov edi, SIG_SETMASK
    lea rsi, [rsp + MASK_BEFORE]
    xor edx, edx
    mov r10d, 8
    mov eax, SYS_rt_sigprocmask
    syscall
    .endm
