/* SPDX-License-Identifier: Apache-2.0
 *
 * estimate/model/targets.h: where calls and jumps through pointers led.
 */
#ifndef MTOOL_ESTIMATE_MODEL_TARGETS_H
#define MTOOL_ESTIMATE_MODEL_TARGETS_H

#include "estimate/model/walks.h"

struct target {
    uint32_t site, to; /* blocks by number; to ID_NONE: code that is not known */
    uint64_t observed;
    double calls; /* estimated, of the whole run; 0: none that could be told */
};
struct targets {
    struct map index; /* site and to -> place in v; until they are shared */
    VEC(struct target) v;
    uint32_t *first; /* by block: into v; [block_count] is the end */
};
void targets_see(struct targets *t, uint32_t site, uint32_t to);
/* Shares out the count of each site among what was seen of it. outside, by block: entries that no known call or edge
 * explains; no block gets more. Arrays that stay are in j->scratch; nothing is left on the heap. */
void targets_share(struct join *j, const uint64_t *outside, struct targets *t);
/* In order of their blocks. targets NULL: none. */
const struct target *targets_of(const struct targets *t, uint32_t site, uint32_t *count);

#endif
