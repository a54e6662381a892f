# SPDX-License-Identifier: Apache-2.0
# A whole ELF file drawn by hand, to be taken out of the object file byte by byte (objcopy -O binary): headers, dynamic
# section, unwind and exception tables, jump tables, relocations of all three forms, and functions of every shape that
# the rewriter treats in its own way. No linker has a say, so an offset in it means the same with every binutils.
#   EXEC      1: fixed addresses (ET_EXEC), no interpreter and no dynamic section; 0: a position-independent executable
#   SECTIONS  1: with section headers and symbols; 0: stripped of both
# It is read, never run.
        .set BASE, 0x400000 * EXEC
        .set RW, 0x10000                # the writable segment is the same page of the file once more, so far above

        .macro va what                  # an address in the read-only segment
        .quad BASE + \what - start
        .endm
        .macro vd what                  # in the writable one
        .quad BASE + RW + \what - start
        .endm

start:  .byte 0x7f
        .ascii "ELF"
        .byte 2, 1, 1, 0
        .quad 0
        .short 3 - EXEC, 62
        .long 1
        va _start
        .quad phdrs - start
        .quad (sections - start) * SECTIONS
        .long 0
        .short 64, 56, (phdrs_end - phdrs) / 56
        .short 64, (sections_end - sections) / 64 * SECTIONS, ((shstr_header - sections) / 64) * SECTIONS

        .macro ph type, flags, from, to, align, add=0, more=0
        .long \type, \flags
        .quad \from - start
        .quad BASE + \add + \from - start
        .quad BASE + \add + \from - start
        .quad \to - \from
        .quad \to - \from + \more
        .quad \align
        .endm
phdrs:
        .if !EXEC
        ph 6, 4, phdrs, phdrs_end, 8
        ph 3, 4, interp, interp_end, 1
        .endif
        ph 1, 5, start, ro_end, 4096
        ph 1, 6, rw, rw_end, 4096, RW, 256
        .if !EXEC
        ph 2, 6, dynamic, dynamic_end, 8, RW
        ph 0x6474e552, 4, rw, relro_end, 1, RW
        .endif
        ph 4, 4, notes, notes_end, 4
        ph 0x6474e553, 4, property, property_end, 8
        ph 0x6474e550, 4, frame_hdr, frame_hdr_end, 4
        ph 0x6474e551, 6, start, start, 16
        ph 7, 4, tls, tls_end, 8, RW, 16
phdrs_end:

interp: .asciz "/lib64/ld-linux-x86-64.so.2"
interp_end:
        .balign 8
notes:  .long 4, 8, 3
        .asciz "GNU"
        .quad 0x0123456789abcdef
notes_end:
        .balign 8
property:
        .long 4, 16, 5
        .asciz "GNU"
        .long 0xc0000002, 4, 3, 0
property_end:

# ---- what the loader reads ----

        .balign 8
dynsym: .zero 24
        .long n_import - dynstr
        .byte 0x12, 0
        .short 0
        .quad 0, 0
        .long n_main - dynstr
        .byte 0x12, 0
        .short 1
        va main
        .quad cold - main
        .long n_sum - dynstr
        .byte 0x12, 0
        .short 1
        va sum
        .quad sum_end - sum
dynsym_end:
dynstr: .byte 0
n_import: .asciz "import"
n_main: .asciz "main"
n_sum:  .asciz "sum"
n_libc: .asciz "libc.so.6"
n_soname: .asciz "libseed.so.1"
n_path: .asciz "$ORIGIN/lib"
dynstr_end:
        .balign 8
hash:   .long 1, 4, 1, 0, 2, 3, 0
hash_end:
        .balign 8
gnu_hash: .long 1, 2, 1, 6
        .quad -1
        .long 2, 0x7c9a7f6a, 0x0b88ae4b
gnu_hash_end:
        .balign 8
rela:   vd labels
        .quad 8
        va case0
        vd labels + 8
        .quad 8
        va case1
        vd labels + 16
        .quad 8
        va case2
        vd resolver
        .quad 37
        va leaf
        .if EXEC
rela_end:
jmprel:
        .else
        vd pointer
        .quad 0x200000001
        .quad 0
        vd got
        .quad 0x100000006
        .quad 0
rela_end:
jmprel: vd got_plt + 24
        .quad 0x100000007
        .quad 0
        .endif
jmprel_end:
relr:   vd packed
        .quad 0x7
relr_end:

# ---- code ----

        .balign 16
plt:    push got_plt + 8 + RW(%rip)
        jmp *got_plt + 16 + RW(%rip)
        .byte 0x0f, 0x1f, 0x40, 0
        jmp *got_plt + 24 + RW(%rip)
        push $0
        jmp plt
plt_end:

        .balign 16
text:
_start: .byte 0xf3, 0x0f, 0x1e, 0xfa    # endbr64
        xor %ebp, %ebp
        mov (%rsp), %edi
        lea 8(%rsp), %rsi
        and $-16, %rsp
        call main
        mov %eax, %edi
        mov $231, %eax
        syscall
        hlt
_start_end:

        .balign 16
main:   push %rbp                       # a jump table of distances, a call under an exception table
        push %rbx
        sub $24, %rsp
        mov %edi, %ebx
        cmp $4, %edi
        ja 2f
        lea distances(%rip), %rdx
        movslq (%rdx,%rdi,4), %rax
        add %rdx, %rax
        .byte 0x3e                      # notrack
        jmp *%rax
case0:  inc %ebx
        jmp 2f
case1:  mov %rsp, %rdi
        lea 64(%rsp), %rsi
try:    call sum
try_end: add %eax, %ebx
        jmp 2f
case2:  call plt + 16
        test %eax, %eax
        js cold
case3:  mov %ebx, %edi
        call *pointer + RW(%rip)
2:      mov %ebx, %eax
        add $24, %rsp
        pop %rbx
        pop %rbp
        ret
catch:  mov %rax, %rdi
        call leaf
        jmp case3
cold:   mov %ebx, %edi                  # as the compiler splits it off: a piece of main with a description of its own
        call leaf
catch_cold:
        ud2
cold_end:

        .balign 16
sum:    xor %eax, %eax                  # a loop of one block
        mov $7, %ecx
1:      add (%rdi), %rax
        add $8, %rdi
        cmp %rsi, %rdi
        jne 1b
        ret
sum_end:

        .balign 16
nest:   push %rbp                       # loops inside loops, short branches, strings, prefixes, a tail call
        mov %rsp, %rbp
        xor %ecx, %ecx
1:      xor %edx, %edx
2:      mov (%rdi,%rdx,8), %rax
        lea (%rax,%rcx,2), %rax
        mov %rax, (%rsi,%rdx,8)
        inc %rdx
        cmp $100, %rdx
        jb 2b
        inc %rcx
        cmp %r8, %rcx
        jl 1b
        jrcxz 3f
        rep movsb
        loop 1b
3:      cmpl $0, threads + RW(%rip)
        je 4f
        lock
4:      cmpxchg %ecx, (%rdi)
        vaddpd (%rdi), %ymm1, %ymm2
        movq %fs:0, %rax
        xbegin 5f
        xend
5:      leave
        jmp sum
nest_end:

        .balign 16
choose: cmp $2, %edi                    # a table of addresses
        ja 1f
        mov %edi, %edi
        .if EXEC
        jmp *labels_fixed(,%rdi,8)
        .else
        lea labels + RW(%rip), %rax
        jmp *(%rax,%rdi,8)
        .endif
1:      xor %eax, %eax
        ret
        .nops 3
choose_end:

        .balign 16
choose2: cmp $2, %esi                   # the same distances as main, shared
        ja 1f
        mov %esi, %esi
        lea near(%rip), %rcx
        movslq (%rcx,%rsi,4), %rdx
        add %rcx, %rdx
        jmp *%rdx
1:      jmp *%rdi
near0:  mov $1, %eax
        ret
near1:  mov $2, %eax
        ret
near2:  lea near1(%rip), %rax
        cmp %rax, %rdi
        jne near0
        jmp *%rax
choose2_end:

        .balign 16
leaf:   call 1f                         # reads its own address
1:      pop %rax
        sub $(1b - leaf), %rax
        mov %rax, pointer + RW(%rip)
        ret
leaf_end:

        .balign 16
restore: mov $15, %eax
        syscall
restore_end:

        .balign 16
spawn:  mov $56, %eax                   # no description at all
        syscall
        test %eax, %eax
        jz 1f
        ret
1:      jmp near0
spawn_end:
text_end:

# ---- constants ----

        .balign 8
rodata:
distances:
        .long case0 - distances, case1 - distances, case2 - distances, case3 - distances, case0 - distances
near:   .long near0 - near, near1 - near, near2 - near
        .balign 8
labels_fixed_here:
        .set labels_fixed, BASE + labels_fixed_here - start
        va case0
        va near1
        va near2
rodata_end:

        .balign 4
except: .byte 0xff, 0x9b                # call sites from the start, types by distance and through a pointer
        .uleb128 types - 1f
1:      .byte 1
        .uleb128 sites_end - sites
sites:  .uleb128 try - main, try_end - try, catch - main, 1
        .uleb128 case2 - main, case3 - case2, catch_cold - main, 3
        .uleb128 catch - main, cold - catch, 0, 0
sites_end:
        .sleb128 1, 0, -1, -3
        .balign 4
        .long 0
        .long pointer + RW - .
types:  .uleb128 1, 2, 0
except_end:

        .macro fde cie, from, to, lsda=0
7771:   .long 7773f - 7772f
7772:   .long . - \cie
        .long \from - .
        .long \to - \from
        .ifc \lsda,0
        .uleb128 0
        .else
        .uleb128 4
        .ifc \lsda,none
        .long 0
        .else
        .long \lsda - .
        .endif
        .endif
        .endm
        .macro end_record
        .balign 8, 0
7773:
        .endm

        .balign 8
frame_hdr:
        .byte 1, 0x1b, 3, 0x3b
        .long frame - .
        .long 9
        .irp f, _start, main, cold, sum, nest, choose, choose2, leaf, restore
        .long \f - frame_hdr, d_\f - frame_hdr
        .endr
frame_hdr_end:
        .balign 8
frame:
cie:    .long 7773f - .  - 4
        .long 0
        .byte 1
        .asciz "zR"
        .uleb128 1
        .sleb128 -8
        .byte 16
        .uleb128 1
        .byte 0x1b
        .byte 0x0c, 7, 8, 0x90, 1       # def_cfa rsp+8, offset rip
        end_record
d__start:
        fde cie, _start, _start_end
        .byte 0x07, 16                  # undefined rip
        end_record
d_sum:  fde cie, sum, sum_end
        end_record
d_nest: fde cie, nest, nest_end
        .byte 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6  # push, mov rsp to rbp
        .byte 0x02, 5b - nest - 4, 0x0a, 0x0c, 7, 8, 0x41, 0x0b
        end_record
d_choose:
        fde cie, choose, choose_end
        .byte 0x43, 0x2e, 8, 0x16, 6, 2, 0x77, 8      # args_size, a register by an expression
        end_record
d_choose2:
        fde cie, choose2, choose2_end
        .byte 0x03, 5, 0, 0x0f, 3, 0x77, 8, 0x06      # advance by 2 bytes, the frame by an expression
        end_record
d_leaf: fde cie, leaf, leaf_end
        .byte 0x45, 0x0e, 16, 0x41, 0x0e, 8
        end_record
cie_signal:
        .long 7773f - .  - 4
        .long 0
        .byte 1
        .asciz "zRS"
        .uleb128 1
        .sleb128 -8
        .byte 16
        .uleb128 1
        .byte 0x1b
        .byte 0x0f, 4, 0x77, 0xa0, 1, 0x06
        end_record
d_restore:
        fde cie_signal, restore, restore_end
        end_record
cie_except:
        .long 7773f - .  - 4
        .long 0
        .byte 1
        .asciz "zPLR"
        .uleb128 1
        .sleb128 -8
        .byte 16
        .uleb128 7
        .byte 0x9b
        .long pointer + RW - .
        .byte 0x1b, 0x1b
        .byte 0x0c, 7, 8, 0x90, 1
        end_record
d_main: fde cie_except, main, cold, except
        .byte 0x41, 0x0e, 16, 0x86, 2, 0x41, 0x0e, 24, 0x83, 3, 0x44, 0x0e, 48
        end_record
d_cold: fde cie_except, cold, cold_end, none
        end_record
        .long 0
frame_end:
ro_end:

# ---- data ----

        .balign 16
rw:
        .if !EXEC
dynamic:
        .quad 1, n_libc - dynstr, 14, n_soname - dynstr, 29, n_path - dynstr
        .quad 5
        va dynstr
        .quad 10, dynstr_end - dynstr, 6
        va dynsym
        .quad 11, 24, 4
        va hash
        .quad 0x6ffffef5
        va gnu_hash
        .quad 7
        va rela
        .quad 8, rela_end - rela, 9, 24, 23
        va jmprel
        .quad 2, jmprel_end - jmprel, 20, 7, 36
        va relr
        .quad 35, relr_end - relr, 37, 8, 3
        vd got_plt
        .quad 12
        va _start
        .quad 25
        vd packed
        .quad 27, 8, 0x6ffffffb, 0x08000000, 30, 8, 0, 0
dynamic_end:
        .endif
labels: va case0
        va case1
        va case2
packed: va sum
        va nest
        va choose2
got:    .quad 0
relro_end:
got_plt:
        .if EXEC
        .quad 0, 0, 0
        .else
        vd dynamic
        .quad 0, 0
        .endif
        va plt + 22
pointer: va leaf
resolver: va leaf
threads: .long 0
        .balign 8
tls:    .quad 1, 2
tls_end:
rw_end:

# ---- sections and symbols ----

        .if SECTIONS
        .balign 8
symtab: .zero 24
        .macro symbol name, type, from, to
        .long \name - strtab
        .byte \type, 0
        .short 2
        va \from
        .quad \to - \from
        .endm
        symbol s_start, 0x12, _start, _start_end
        symbol s_main, 0x12, main, cold
        symbol s_cold, 2, cold, cold_end
        symbol s_nest, 0x12, nest, nest_end
        symbol s_choose, 0x22, choose, choose_end
        symbol s_spawn, 2, spawn, spawn_end
        symbol s_inside, 0, near1, near1
        symbol s_table, 1, distances, near
        symbol s_resolver, 0x1a, leaf, leaf_end
symtab_end:
strtab: .byte 0
s_start: .asciz "_start"
s_main: .asciz "main"
s_cold: .asciz "main.cold"
s_nest: .asciz "nest"
s_choose: .asciz "choose"
s_spawn: .asciz "spawn"
s_inside: .asciz "inside"
s_table: .asciz "distances"
s_resolver: .asciz "resolver"
strtab_end:
shstrtab: .byte 0
h_dynsym: .asciz ".dynsym"
h_dynstr: .asciz ".dynstr"
h_rela: .asciz ".rela.dyn"
h_plt:  .asciz ".plt"
h_text: .asciz ".text"
h_rodata: .asciz ".rodata"
h_except: .asciz ".gcc_except_table"
h_frame_hdr: .asciz ".eh_frame_hdr"
h_frame: .asciz ".eh_frame"
h_data: .asciz ".data"
h_bss:  .asciz ".bss"
h_symtab: .asciz ".symtab"
h_strtab: .asciz ".strtab"
h_shstrtab: .asciz ".shstrtab"
shstrtab_end:
        .balign 8
        .macro sh name, type, flags, from, to, link=0, info=0, align=1, entsize=0, add=0
        .long \name - shstrtab, \type
        .quad \flags
        .quad (BASE + \add + \from - start) * (\flags & 2) / 2
        .quad \from - start, \to - \from
        .long \link, \info
        .quad \align, \entsize
        .endm
sections: .zero 64
        sh h_dynsym, 11, 2, dynsym, dynsym_end, 2, 1, 8, 24
        sh h_dynstr, 3, 2, dynstr, dynstr_end
        sh h_rela, 4, 2, rela, jmprel_end, 1, 0, 8, 24
        sh h_plt, 1, 6, plt, plt_end, 0, 0, 16, 16
        sh h_text, 1, 6, text, text_end, 0, 0, 16
        sh h_rodata, 1, 2, rodata, rodata_end, 0, 0, 8
        sh h_except, 1, 2, except, except_end, 0, 0, 4
        sh h_frame_hdr, 1, 2, frame_hdr, frame_hdr_end, 0, 0, 4
        sh h_frame, 1, 2, frame, frame_end, 0, 0, 8
        sh h_data, 1, 3, rw, rw_end, 0, 0, 8, 0, RW
        sh h_bss, 8, 3, rw_end, rw_end + 256, 0, 0, 8, 0, RW
        sh h_symtab, 2, 0, symtab, symtab_end, 13, 1, 8, 24
        sh h_strtab, 3, 0, strtab, strtab_end
shstr_header:
        sh h_shstrtab, 3, 0, shstrtab, shstrtab_end
sections_end:
        .else
sections:
shstr_header:
sections_end:
        .endif
