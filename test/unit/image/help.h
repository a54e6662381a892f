/* SPDX-License-Identifier: Apache-2.0
 * What the tests of image share: stderr caught, and a copy of an image with moved functions and their new tables. */
#ifndef TEST_IMAGE_HELP_H
#define TEST_IMAGE_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "image/image.h"

/* Between the two, what is written to stderr is kept; the text (cut at 4 KiB) is valid until the next catch_begin. */
void catch_begin(void);
const char *catch_end(void);

struct image *open_ok(const char *path);
void unwind_ok(const struct image *img, struct image_unwind *out);

/* An image without section headers that has room for moved code in one executable segment and the tables of
 * image_unwind_emit in another, as a rewriter would write it. All functions that can move are moved. With
 * some_pads_stay every third landing pad remains in the old code. */
struct grown {
    const struct image *img;
    const struct image_unwind *u;
    uint64_t stretch;   /* each old byte becomes that many */
    uint64_t code_base; /* the new address of an old one: code_base + (old - vaddr_lo) * stretch */
    struct image_moved_func *moved;
    bool some_pads_stay;
    struct image_state *states; /* not NULL: the stretch is 2, and the second half of each copy is pieces put behind it,
                                   each with the frame of the same offset in the first half, some with more pushed */
    size_t moved_count;
    uint64_t lsda_at, frame_at, hdr_at;
    uint8_t *bytes;
    size_t len;
    struct image *img_new;
    struct image_unwind u_new;
};
uint32_t grown_pushed(uint64_t offset); /* at that offset of the second half */
uint64_t grown_addr(const struct grown *g, uint64_t addr_old);
uint64_t grown_pad(const struct grown *g, uint64_t pad_old);
void grown_open(struct grown *g, const struct image *img, const struct image_unwind *u, uint64_t stretch,
                bool some_pads_stay, bool has_states);
void grown_close(struct grown *g);

#endif
