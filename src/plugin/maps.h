/* SPDX-License-Identifier: Apache-2.0
 *
 * What of mappings and of uses of pages is on the way of most references, in line: whether no mapping need hear of one,
 * which is so if all of them have what is reached and it changes nothing there; and the count of its use.
 */
#ifndef MTOOL_PLUGIN_MAPS_H
#define MTOOL_PLUGIN_MAPS_H

#include "plugin/plugin.h"

enum { FRONT_LINES = 1 << 16, PART_SHIFT = 8 };

extern uint64_t maps_front[FRONT_LINES]; /* by line: (line + 1) << 1, and 1 if a store changes nothing either; 0: not
                                            known */

static inline uint64_t *maps_front_of(uint64_t line) { return &maps_front[line % FRONT_LINES]; }

/* `shift`: of data, of an address to its line. */
static inline bool maps_front_has(uint64_t physical, unsigned bytes, bool stores, unsigned shift)
{
    for (uint64_t line = physical >> shift; line <= (physical + bytes - 1) >> shift; line++)
        if (*maps_front_of(line) >> 1 != line + 1 || (stores && !(*maps_front_of(line) & 1)))
            return false;
    return true;
}

/* Who reaches a page of user addresses now: as it is kept of the page's frame. */
static inline uint64_t maps_owner(uint64_t vaddr) { return vaddr >> PAGE_SHIFT << 20 | (system_space + 1); }

/* All mappings had its lines, which nothing changed since, and its page is whose it was. Of one that maps_finish said
 * it may be asked of. */
static inline bool maps_have(const struct segment *s)
{
    return s->maps_stamp == 1 + *s->maps_blocks[0] + *s->maps_blocks[1] &&
           (s->is_kernel || *s->maps_owner == maps_owner(s->vaddr));
}

struct page_uses {
    uint64_t *of[PAGE_SIDES]; /* by part of a page of the guest's memory */
    uint64_t parts;
};
extern struct page_uses page_uses;

static inline void pages_use(uint64_t physical, unsigned side, uint64_t times)
{
    uint64_t part = physical >> PART_SHIFT;
    if (part < page_uses.parts)
        page_uses.of[side][part] += times;
}

#endif
