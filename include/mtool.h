/* SPDX-License-Identifier: Apache-2.0
 *
 * mtool.h: regions in the source of a program that mtool is to time, and names for its memory. For C and C++, x86-64
 * ELF.
 *
 *     #include <mtool.h>
 *
 *     MTOOL_REGION_BEGIN(assemble);
 *     ...
 *     MTOOL_REGION_END(assemble);
 *
 * Each macro is one instruction, a nop, and a note beside the code that says where it stands; notes are not loaded, and
 * survive strip. Nothing is linked or called. `mtool run` reports how long the region took, and `mtool run --probe
 * assemble` times it whatever it costs.
 *
 * A name is an identifier; it needs no declaration, and may stand for several places. A region begins and ends in the
 * same function (what is inlined there belongs to it). A return, an exception or a jump around its end that leaves it
 * ends it too. Where it ends it must have begun on all ways: begin it in an `if` and end it behind, and mtool says so
 * and measures nothing. The compiler moves no access to memory across the borders of a region, so put them around
 * loops, not into the innermost.
 *
 *     struct node *pool = malloc(bytes);
 *     MTOOL_OBJECT(pool, bytes, "nodes");
 *
 * From there on `mtool spy` and `mtool run --spy` tell these bytes as the data object of that name, whatever else lies
 * there: all of a block, or the part of a pool that an allocator of the program's own hands out. All memory of one name
 * is one object. A name ends when the block is given back, another one covers it, or it is named with 0 bytes; so
 * memory on the stack is to be unnamed before its function returns. It is one nop too; the pointer and the number are
 * evaluated, nothing is read or called. The name is a string literal without % " and \.
 */
#ifndef MTOOL_H
#define MTOOL_H

#if defined __x86_64__ && defined __ELF__
/* A note (gABI chapter 5) of the owner "mtool", of type 1 (begin) or 2 (end): the address of the nop, 8 bytes, and the
 * name. */
#define MTOOL_NOTE_(type, name)                                                                                        \
    "990: nop\n"                                                                                                       \
    ".pushsection .note.mtool,\"?\",\"note\"\n"                                                                        \
    ".balign 4\n"                                                                                                      \
    ".4byte 992f-991f, 994f-993f, " type "\n"                                                                          \
    "991: .asciz \"mtool\"\n"                                                                                          \
    "992: .balign 4\n"                                                                                                 \
    "993: .8byte 990b\n"                                                                                               \
    ".asciz \"" name "\"\n"                                                                                            \
    "994: .balign 4\n"                                                                                                 \
    ".popsection"
#define MTOOL_REGION_NOTE_(type, name) __asm__ volatile(MTOOL_NOTE_(type, name) : : : "memory")
/* Of type 3: the nop where the memory at rdi, of rsi bytes, gets the name. */
#define MTOOL_OBJECT(pointer, bytes, name)                                                                             \
    __asm__ volatile(MTOOL_NOTE_("3", name)                                                                            \
                     :                                                                                                 \
                     : "D"((const volatile void *)(pointer)), "S"((unsigned long)(bytes))                              \
                     : "memory")
#else
#define MTOOL_REGION_NOTE_(type, name) ((void)0)
#define MTOOL_OBJECT(pointer, bytes, name) ((void)(pointer), (void)(bytes))
#endif

#define MTOOL_REGION_BEGIN(name) MTOOL_REGION_NOTE_("1", #name)
#define MTOOL_REGION_END(name) MTOOL_REGION_NOTE_("2", #name)

#ifdef __cplusplus
/* From here to the end of the scope, however it is left. */
#define MTOOL_REGION(name)                                                                                             \
    struct mtool_region_##name {                                                                                       \
        __attribute__((always_inline)) mtool_region_##name() { MTOOL_REGION_BEGIN(name); }                             \
        __attribute__((always_inline)) ~mtool_region_##name() { MTOOL_REGION_END(name); }                              \
    } mtool_region_in_scope_##name
#endif

#endif
