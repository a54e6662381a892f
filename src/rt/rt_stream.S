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
    .set TOUCHED, 192
    .set WRITTEN, TOUCHED + 8 * 64
    .set LAST, WRITTEN + 8 * 64
    .set ORDER, LAST + 8 * 8 * 64
    .set TAKEN, ORDER + 4 * 64
    .set BEFORE, TAKEN + 64
    .set CALLS, BEFORE + 16 * 32
    .set OPEN, CALLS + 16 * 32
    .set OPEN_COUNT, OPEN + 32 * 32
    .set OWN, OPEN_COUNT + 8
    .set TOLD, OWN + 8
    .set STREAM_PATHS, 12288 + 17 * 65536 /* WIRE_STREAM_PATHS */
    .set PATHS_BYTES, 2101248

    .set NOT_HELD, 63 /* bits of a word of LAST: WIRE_NOT_HELD, WIRE_IS_WRITTEN */
    .set IS_WRITTEN, 62
    .set ENTRY_BYTES, 16

    /* of struct rt_config */
    .set CONFIG_FLAGS, 16
    .set CONFIG_LINES, 64
    .set CONFIG_LAST, 17 /* byte: how many lines of each place are kept (CONFIG_LAST_SHIFT) */
    .set CONFIG_KEY, 32

    .set SAYS_STORES, 1 << 16 /* WIRE_LINES_STORES; below: bytes of an access, of an element */
    .set SAYS_MAY_PASS, 1 << 17 /* WIRE_LINES_MAY_PASS */
    .set SAYS_SHIFT, 24 /* WIRE_LINES_SHIFT: log2 of the filter's lines */
    .set DIRECTION, 0x400

    .set PLACE_LINES, 8 /* WIRE_LAST_LINES */
    .set PLACE_BYTES, 8 * PLACE_LINES
    .set PLACE_SHIFT, 6
