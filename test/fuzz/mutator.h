/* SPDX-License-Identifier: Apache-2.0
 * What the mutators of ELF files share: the file as it is changed, and chance (splitmix64, Steele and others 2014). */
#ifndef MTOOL_FUZZ_MUTATOR_H
#define MTOOL_FUZZ_MUTATOR_H

#include "fuzz.h"

#include <elf.h>

struct mutator {
    uint8_t *bytes;
    size_t len, max;
    uint64_t random;
};

static inline uint64_t any(struct mutator *m)
{
    uint64_t x = m->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}
static inline uint64_t below(struct mutator *m, uint64_t n) { return n ? any(m) % n : 0; }
static inline bool one_in(struct mutator *m, unsigned n) { return below(m, n) == 0; }

static inline Elf64_Ehdr header(const struct mutator *m)
{
    Elf64_Ehdr h;
    memcpy(&h, m->bytes, sizeof h);
    return h;
}

#endif
