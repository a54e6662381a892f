/* SPDX-License-Identifier: Apache-2.0
 * Where blocks began that are no more, and how they ended: by address in pages, so that neighbours stand together and
 * each free costs one place of memory. Of addresses that share a place the last is known. */
#include "data/impl.h"

#include <stdlib.h>

enum { PLACE_SHIFT = 3, HOW_BITS = 2 };

static uint64_t number_of(uint64_t address) { return address >> PLACE_SHIFT; }

void data_ended_note(struct data_ended *e, uint64_t address, enum data_end how)
{
    uint64_t **page = &e->pages[number_of(address) / DATA_ENDED_PAGE % DATA_ENDED_PAGES];
    if (!*page)
        *page = xmalloc(DATA_ENDED_PAGE * sizeof **page);
    (*page)[number_of(address) % DATA_ENDED_PAGE] = address << HOW_BITS | how;
}

enum data_end data_ended_how(const struct data_ended *e, uint64_t address)
{
    const uint64_t *page = e->pages[number_of(address) / DATA_ENDED_PAGE % DATA_ENDED_PAGES];
    uint64_t place = page ? page[number_of(address) % DATA_ENDED_PAGE] : 0;
    return place >> HOW_BITS == address ? (enum data_end)(place & ((1u << HOW_BITS) - 1)) : DATA_END_NONE;
}

void data_ended_copy(struct data_ended *to, const struct data_ended *from)
{
    for (unsigned i = 0; i < DATA_ENDED_PAGES; i++) {
        if (!from->pages[i])
            continue;
        to->pages[i] = xmalloc(DATA_ENDED_PAGE * sizeof *to->pages[i]);
        memcpy(to->pages[i], from->pages[i], DATA_ENDED_PAGE * sizeof *to->pages[i]);
    }
}

void data_ended_fini(struct data_ended *e)
{
    for (unsigned i = 0; i < DATA_ENDED_PAGES; i++)
        free(e->pages[i]);
}
