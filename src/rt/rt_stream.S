/* SPDX-License-Identifier: Apache-2.0
 * Included by the assembler sources that tell references: places in struct wire_stream (wire/stream.h), where gs has
 * the thread's distance; stream.c asserts them.
 */
    .set STREAM, 0x7f000000 /* WIRE_STREAM_VADDR; then offsets in struct wire_stream */
    .set PUT, 0
    .set LIMIT, 8
    .set START, 16
    .set THREAD, 32
    .set FILLED, 64
    .set IS_CONFINED, 76
    .set OPEN, 192
    .set OPEN_COUNT, OPEN + 32 * 32
    .set OWN, OPEN_COUNT + 8
    .set TOLD, OWN + 8
    .set TOUCHED, 2048 /* WIRE_PLACES_AT; of struct wire_slot, one each 64 bytes */
    .set WRITTEN, TOUCHED + 8
    .set ORDER, TOUCHED + 16
    .set TAKEN, TOUCHED + 20
    .set LAST, TOUCHED + 64 * 64
    .set BEFORE, LAST + 8 * 8 * 64
    .set CALLS, BEFORE + 16 * 32
    .set STREAM_PATHS, 12288 + 17 * 65536 /* WIRE_STREAM_PATHS */
    .set PATHS_BYTES, 2101248

    .set NOT_HELD, 63 /* bits of a word of LAST: WIRE_NOT_HELD, WIRE_IS_WRITTEN */
    .set IS_WRITTEN, 62
    .set ENTRY_BYTES, 16

    /* of struct rt_config */
    .set CONFIG_FLAGS, 16
    .set CONFIG_LINES, 64
    .set CONFIG_LAST, 17 /* byte: how many lines of each place are kept (CONFIG_LAST_SHIFT) */
    .set CONFIG_SHIFT, 18 /* byte: log2 of the filter's lines (CONFIG_SHIFT_SHIFT) */
    .set CONFIG_KEY, 32

    .set SAYS_STORES, 1 << 16 /* WIRE_LINES_STORES; below: bytes of an access, of an element */
    .set SAYS_MAY_PASS, 1 << 17 /* WIRE_LINES_MAY_PASS */
    .set SAYS_SHIFT, 24 /* WIRE_LINES_SHIFT: log2 of the filter's lines */
    .set DIRECTION, 0x400

    .set PLACES, 64 /* WIRE_FILTER_SLOTS */
    .set PLACE_LINES, 8 /* WIRE_LAST_LINES */
    .set PLACE_BYTES, 64 /* of struct wire_slot, and of the place's part of LAST */
    .set PLACE_SHIFT, 6

/* esi: how far from the first one the place of the line is that begins at rdi. Changes ecx. */
    .macro FIND_PLACE
    movzx ecx, byte ptr [rip + rt_config + CONFIG_SHIFT]
    mov rsi, rdi
    shr rsi, cl
    and esi, PLACES - 1
    shl esi, PLACE_SHIFT
    .endm
