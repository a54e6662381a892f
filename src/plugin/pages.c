/* SPDX-License-Identifier: Apache-2.0
 * Which parts of which pages are used how much, as data and as code, and in which bins each policy has them; and the
 * marks that an earlier run made of that, for policies that go by them (the paper's page marking schemes, Figure 13).
 * A page is one of a program's, by the name of its process, or a frame of the kernel's own. Of several processes of one
 * name uses are added up, and the bins are those of the last one. */
#include "plugin/maps.h"

#include <errno.h>
#include <stdlib.h>

enum { KERNEL = 0 };
_Static_assert(WIRE_PAGE_PARTS << PART_SHIFT == 1 << PAGE_SHIFT, "so many parts are a page");

struct page {
    uint32_t program; /* as system_program has it, and 1; KERNEL */
    uint64_t address;
    uint64_t of[2][WIRE_PAGE_PARTS];
    uint32_t bins[PAGE_POLICIES_MAX];
};

static struct {
    uint32_t *owner; /* [frames] whose it is now: index in pages, and 1; 0: the kernel's */
    uint64_t count;
    bool is_ended;
    VEC(struct page) pages;
    struct map index; /* program and page: index in pages, and 1 */
    struct map marks; /* by page: index in marked, and 1 */
    VEC(struct page_mark) marked;
} the;

struct page_uses page_uses;

static uint64_t key_of(uint32_t program, uint64_t address) { return (uint64_t)program << 44 | address >> PAGE_SHIFT; }

static uint64_t mark_key(bool is_kernel, uint64_t address) { return (address >> PAGE_SHIFT) << 1 | is_kernel; }

/* ---- marks ---- */

static bool take_shades(const char *text, uint8_t shade[WIRE_PAGE_PARTS])
{
    for (unsigned i = 0; i < WIRE_PAGE_PARTS; i++) {
        if (text[i] < '0' || text[i] >= '0' + WIRE_PAGE_SHADES)
            return false;
        shade[i] = (uint8_t)(text[i] - '0');
    }
    return true;
}

/* Of programs that have a page at the same address, which they often share: what is dark for one is dark. */
static void add_mark(const struct page_mark *m)
{
    uint64_t *place = map_place(&the.marks, mark_key(m->is_kernel, m->address));
    if (!*place) {
        VEC_PUSH(&the.marked, *m);
        *place = the.marked.len;
        return;
    }
    struct page_mark *to = &the.marked.data[*place - 1];
    for (unsigned side = 0; side < PAGE_SIDES; side++) {
        if (m->number[side] && (!to->number[side] || m->number[side] < to->number[side]))
            to->number[side] = m->number[side];
        for (unsigned i = 0; i < WIRE_PAGE_PARTS; i++)
            to->shade[side][i] = (uint8_t)max_u64(to->shade[side][i], m->shade[side][i]);
    }
}

static void take_mark(void *ctx, char *line)
{
    struct page_mark m = {.address = 0};
    char *rest = line, shades[2][WIRE_PAGE_PARTS + 1];
    int name = 0;
    unsigned long long address;
    if (sscanf(rest, "%llx %u %u %16s %16s %n", &address, &m.number[0], &m.number[1], shades[0], shades[1], &name) <
            5 ||
        !name || !take_shades(shades[0], m.shade[0]) || !take_shades(shades[1], m.shade[1])) {
        *(bool *)ctx = false;
        return;
    }
    rest += name;
    rest[strcspn(rest, "\n")] = 0;
    m.address = address;
    m.is_kernel = strcmp(rest, "kernel") == 0;
    add_mark(&m);
}

/* Of the programs that run. */
const struct page_mark *pages_mark(uint64_t page)
{
    uint64_t at;
    return map_get(&the.marks, mark_key(false, page << PAGE_SHIFT), &at) && at ? &the.marked.data[at - 1] : NULL;
}

const struct page_mark *pages_mark_at(size_t i) { return i < the.marked.len ? &the.marked.data[i] : NULL; }

/* ---- used ---- */

static uint32_t index_of(uint32_t program, uint64_t address)
{
    uint64_t *place = map_place(&the.index, key_of(program, address));
    if (!*place) {
        VEC_PUSH(&the.pages, ((struct page){.program = program, .address = address}));
        *place = the.pages.len;
    }
    return (uint32_t)*place;
}

/* What was counted of the frame goes to whose it was. */
static void settle(uint64_t frame)
{
    uint64_t *uses[PAGE_SIDES];
    bool is_used = false;
    for (unsigned k = 0; k < PAGE_SIDES; k++) {
        uses[k] = &page_uses.of[k][frame * WIRE_PAGE_PARTS];
        for (unsigned i = 0; i < WIRE_PAGE_PARTS; i++)
            is_used |= uses[k][i] != 0;
    }
    if (!is_used)
        return;
    uint32_t page = the.owner[frame] ? the.owner[frame] : index_of(KERNEL, frame << PAGE_SHIFT);
    for (unsigned k = 0; k < PAGE_SIDES; k++)
        for (unsigned i = 0; i < WIRE_PAGE_PARTS; i++) {
            the.pages.data[page - 1].of[k][i] += uses[k][i];
            uses[k][i] = 0;
        }
}

void pages_own(uint64_t frame, uint64_t page)
{
    if (frame >= the.count)
        return;
    settle(frame);
    the.owner[frame] = index_of(system_program() + 1, page << PAGE_SHIFT);
}

void pages_bin(uint64_t frame, unsigned policy, uint32_t bin)
{
    if (frame < the.count && the.owner[frame])
        the.pages.data[the.owner[frame] - 1].bins[policy] = bin;
}

int pages_make(void)
{
    bool is_good = true;
    xfree_sparse(the.owner);
    xfree_sparse(page_uses.of[PAGE_DATA]);
    xfree_sparse(page_uses.of[PAGE_CODE]);
    map_fini(&the.index);
    map_fini(&the.marks);
    VEC_FREE(&the.pages);
    VEC_FREE(&the.marked);
    memset(&the, 0, sizeof the);
    the.count = settings.ram_bytes >> PAGE_SHIFT;
    the.owner = xmalloc_sparse((the.count + 1) * sizeof *the.owner);
    page_uses.parts = the.count * WIRE_PAGE_PARTS;
    for (unsigned side = 0; side < PAGE_SIDES; side++)
        page_uses.of[side] = xmalloc_sparse((page_uses.parts + 1) * sizeof *page_uses.of[side]);
    if (settings.marks && file_each_line(settings.marks, take_mark, &is_good) < 0)
        return diag_error("cannot read %s: %s", settings.marks, strerror(errno));
    return is_good ? 0 : diag_error("%s: no marks of pages", settings.marks);
}

/* ---- written ---- */

void pages_end(void)
{
    for (uint64_t frame = 0; frame < the.count && !the.is_ended; frame++)
        settle(frame);
    the.is_ended = true;
}

void pages_write(FILE *f, unsigned policies, uint32_t (*bin_of_kernel)(uint64_t frame, unsigned policy))
{
    pages_end();
    for (size_t n = 0; n < the.pages.len; n++) {
        const struct page *p = &the.pages.data[n];
        fprintf(f, "page %llx", (unsigned long long)p->address);
        for (unsigned k = 0; k < 2; k++)
            for (unsigned i = 0; i < WIRE_PAGE_PARTS; i++)
                fprintf(f, " %llu", (unsigned long long)p->of[k][i]);
        for (unsigned i = 0; i < policies; i++)
            fprintf(f, " %u", p->program == KERNEL ? bin_of_kernel(p->address >> PAGE_SHIFT, i) : (unsigned)p->bins[i]);
        fprintf(f, "\t%s\n", p->program == KERNEL ? "kernel" : system_program_name(p->program - 1));
    }
}
