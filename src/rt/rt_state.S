/* SPDX-License-Identifier: Apache-2.0
 * Included by the assembler sources that have code in .text.sites, where a signal may come: how far the stack has
 * grown.
 *
 * From here on so many bytes are on the stack above the return address: two words for the unwind tables, behind the
 * configuration, in order of address; the last pair has the end. The blob is linked at 0. */
    .macro STATE pushed
991:
    .pushsection .text.head
    .long 991b, \pushed
    .popsection
    .endm
