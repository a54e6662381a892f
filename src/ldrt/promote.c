/* SPDX-License-Identifier: Apache-2.0
 * Linked by `mtool ld --tool promote` into each executable. One of its two pieces of code is completed in the linked
 * file (src/ld/promote/patch.c): nops become the loads of the registers that hold variables, and the call or jump
 * behind them gets its target, main or the entry point. Neither is reached unless that is done. The section of the
 * record is empty until the second link. */
__asm__(".text\n"
        ".globl mtool_promote_main, mtool_promote_main_loads, mtool_promote_entry, mtool_promote_entry_loads\n"
        ".hidden mtool_promote_main, mtool_promote_main_loads, mtool_promote_entry, mtool_promote_entry_loads\n"
        ".type mtool_promote_main, @function\n"
        "mtool_promote_main:\n"
        ".cfi_startproc\n"
        "endbr64\n"
        "push %rbx\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset %rbx, 0\n"
        "push %rbp\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset %rbp, 0\n"
        "push %r12\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset %r12, 0\n"
        "push %r13\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset %r13, 0\n"
        "push %r14\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset %r14, 0\n"
        "push %r15\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset %r15, 0\n"
        "sub $8, %rsp\n .cfi_adjust_cfa_offset 8\n"
        "mtool_promote_main_loads: .fill 48, 1, 0x90\n" /* 6 registers, 8 bytes each */
        ".byte 0xe8, 0, 0, 0, 0\n"                      /* call main */
        "add $8, %rsp\n .cfi_adjust_cfa_offset -8\n"
        "pop %r15\n .cfi_adjust_cfa_offset -8\n .cfi_restore %r15\n"
        "pop %r14\n .cfi_adjust_cfa_offset -8\n .cfi_restore %r14\n"
        "pop %r13\n .cfi_adjust_cfa_offset -8\n .cfi_restore %r13\n"
        "pop %r12\n .cfi_adjust_cfa_offset -8\n .cfi_restore %r12\n"
        "pop %rbp\n .cfi_adjust_cfa_offset -8\n .cfi_restore %rbp\n"
        "pop %rbx\n .cfi_adjust_cfa_offset -8\n .cfi_restore %rbx\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size mtool_promote_main, . - mtool_promote_main\n"
        ".type mtool_promote_entry, @function\n"
        "mtool_promote_entry:\n"
        ".cfi_startproc\n"
        ".cfi_undefined %rip\n"
        "endbr64\n"
        "mtool_promote_entry_loads: .fill 120, 1, 0x90\n" /* 15 registers */
        ".byte 0xe9, 0, 0, 0, 0\n"                        /* jmp to the entry point */
        "ud2\n"
        ".cfi_endproc\n"
        ".size mtool_promote_entry, . - mtool_promote_entry\n"
        ".section mtool_promoted,\"\",@progbits\n"
        ".ascii \"mtoolprm\"\n"
        ".text");
