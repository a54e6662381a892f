/* SPDX-License-Identifier: Apache-2.0
 * The model against plain simulations of the same references: caches by cache_run without the filter, the write buffer
 * by a queue that is stepped. */
#include "fake_qemu.h"
#include "machine/machine.h"
#include "plugin/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { REFERENCES = 200000 };

static void use_machine(const char *name)
{
    const char *text, *own;
    char *path = xstrdup("/tmp/mtool-test-machine.XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; (text = machine_shipped_text(i, &own)); i++)
        if (strcmp(own, name) == 0)
            assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    settings.machine = path;
    assert_int_equal(model_make(), 0);
    unlink(path);
    free(path);
}

/* Addresses that go back to what was reached lately, mostly. */
static uint64_t next_address(struct rng *g)
{
    static uint64_t recent[64];
    unsigned k = (unsigned)rng_below(g, 64);
    if (rng_below(g, 8) == 0)
        recent[k] = rng_below(g, FAKE_RAM_BYTES - 64) & ~7ull;
    else
        recent[k] = (recent[k] + 8 * rng_below(g, 4)) % (FAKE_RAM_BYTES - 64);
    return recent[k];
}

static uint64_t sum_of(const struct row *r, enum wire_column first, unsigned level) { return r->of[first + level]; }

static void same_misses(const char *machine, struct cache_config *k)
{
    struct rng g = {7};
    struct qemu_plugin_tb load = {.count = 0}, store = {.count = 0}, modify = {.count = 0};
    uint64_t function;
    struct row *r = places_row(0x1000, fake_ram, &function);
    use_machine(machine);
    struct cache *plain = cache_new(k, false);
    fake_append(&load, 0x1000, "\x48\x8b\x03", 3);
    fake_append(&store, 0x1000, "\x48\x89\x03", 3);
    fake_append(&modify, 0x1000, "\x48\x01\x03", 3);
    segments_translate(&load);
    segments_translate(&store);
    segments_translate(&modify);
    memset(r, 0, sizeof *r);
    for (int n = 0; n < REFERENCES; n++) {
        struct cache_ref ref = {.address = next_address(&g), .bytes = 8};
        unsigned what = (unsigned)rng_below(&g, 4);
        ref.kind = what == 0 ? CACHE_WRITE : what == 1 ? CACHE_MODIFY : CACHE_READ;
        cache_run(plain, &ref, 1);
        if (what == 1) {
            fake_access(&modify.insns[0], ref.address, 3, false);
            fake_access(&modify.insns[0], ref.address, 3, true);
        } else
            fake_access(what ? &load.insns[0] : &store.insns[0], ref.address, 3, !what);
    }
    for (unsigned level = 0, depth = 0; level < k->count; level++) {
        if (!(k->levels[level].side & CACHE_DATA))
            continue;
        assert_int_equal(sum_of(r, WIRE_READ_MISSES, depth), cache_counts(plain, level)->misses[CACHE_READ]);
        assert_int_equal(sum_of(r, WIRE_WRITE_MISSES, depth), cache_counts(plain, level)->misses[CACHE_WRITE]);
        depth++;
    }
    assert_true(r->of[WIRE_READ_MISSES] > 1000);
    cache_free(plain);
}

static void config_of(const char *name, struct cache_config *out)
{
    const char *text, *own;
    struct machine *m = NULL;
    for (size_t i = 0; !m && (text = machine_shipped_text(i, &own)); i++)
        if (strcmp(own, name) == 0)
            assert_int_equal(machine_parse(own, text, strlen(text), &m), 0);
    assert_int_equal(cache_of_machine(m, false, out), 0);
    for (unsigned i = 0; i < out->count; i++)
        out->levels[i].write_through = m->write_buffer > 0;
    machine_free(m);
}

static void with_machine(const char *name, void (*check)(const char *machine, struct cache_config *k))
{
    struct cache_config k;
    config_of(name, &k);
    check(name, &k);
}

static void direct_mapped(void **state)
{
    (void)state;
    with_machine("decstation-3100.machine", same_misses);
}

static void three_levels(void **state)
{
    (void)state;
    with_machine("zen5.machine", same_misses);
}

/* Translations of instructions in up to four lines of four bytes, without accesses, near each other and far, some in
 * the same sets; some of more lines than a segment may have. */
enum { BLOCKS = 600, LONGEST = 12, LONG = 60, BLOCK_BYTES = 1024 };
static void make_blocks(struct qemu_plugin_tb blocks[BLOCKS], struct rng *g, unsigned longest)
{
    static const char *const bytes[] = {"\x90",
                                        "\x01\xd8",
                                        "\x48\x01\xd8",
                                        "\x48\x83\xc0\x10",
                                        "\xb8\x01\x02\x03\x04",
                                        "\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08",
                                        "\x66\x66\x66\x66\x66\x81\xc0\x01\x02"};
    for (int b = 0; b < BLOCKS; b++) {
        uint64_t at = rng_below(g, FAKE_RAM_BYTES >> 16) << 16 | rng_below(g, b % 2 ? 1 << 16 : 1 << 10);
        unsigned count = 1 + (unsigned)rng_below(g, b % 16 ? LONGEST : longest);
        memset(&blocks[b], 0, sizeof blocks[b]);
        for (unsigned k = 0; k < count; k++) {
            const char *one = bytes[rng_below(g, ARRAY_LEN(bytes))];
            fake_append(&blocks[b], at % (FAKE_RAM_BYTES - BLOCK_BYTES), one, strlen(one));
        }
        segments_translate(&blocks[b]);
    }
}

/* An instruction counts once, however many lines it misses. */
static void same_fetches(const char *machine, struct cache_config *k)
{
    struct rng g = {11};
    struct qemu_plugin_tb *blocks = xmalloc(BLOCKS * sizeof *blocks);
    uint64_t function, executed = 0, before = totals[0].instructions;
    struct row *r = places_row(0x1000, fake_ram, &function);
    use_machine(machine);
    struct cache *plain = cache_new(k, false);
    make_blocks(blocks, &g, LONG);
    memset(r, 0, sizeof *r);
    for (int n = 0, b = 0; n < REFERENCES / 4; n++) {
        if (rng_below(&g, 4) == 0)
            b = (int)rng_below(&g, n % 1000 < 500 ? 40 : BLOCKS);
        fake_execute(&blocks[b], blocks[b].count);
        for (size_t i = 0; i < blocks[b].count; i++) {
            struct cache_ref ref = {.address = blocks[b].insns[i].vaddr, .bytes = (uint16_t)blocks[b].insns[i].len};
            cache_run(plain, &ref, 1);
        }
        executed += blocks[b].count;
    }
    for (unsigned level = 0, depth = 0; level < k->count; level++)
        if (k->levels[level].side & CACHE_CODE)
            assert_int_equal(sum_of(r, WIRE_FETCH_MISSES, depth++), cache_counts(plain, level)->misses[CACHE_FETCH]);
    assert_true(r->of[WIRE_FETCH_MISSES] > 1000);
    assert_int_equal(totals[0].instructions - before, executed);
    cache_free(plain);
    free(blocks);
}

static void code_direct_mapped(void **state)
{
    (void)state;
    with_machine("decstation-3100.machine", same_fetches);
    with_machine("decstation-5000.machine", same_fetches);
}

static void code_three_levels(void **state)
{
    (void)state;
    with_machine("zen5.machine", same_fetches);
}

/* ---- mappings ---- */

enum { FRAMES = FAKE_RAM_BYTES >> 12, PAGES = 4 * FRAMES, POLICIES = 3 };

/* Each policy with caches that hear of all. */
struct plain_map {
    struct cache *cache;
    uint32_t bin[FRAMES], hop;
    uint64_t misses[CACHE_KIND_COUNT];
};
struct plain_maps {
    struct plain_map of[POLICIES]; /* real, colour, hop */
    uint64_t owner[FRAMES];
    bool is_known[PAGES];
    unsigned bins, code_shift;
};

static void plain_note(struct plain_maps *p, uint64_t vaddr)
{
    uint64_t page = vaddr >> 12, frame = page % FRAMES;
    if (p->owner[frame] == page + 1)
        return;
    p->owner[frame] = page + 1;
    p->of[0].bin[frame] = (uint32_t)(frame % p->bins);
    p->of[1].bin[frame] = (uint32_t)(page % p->bins);
    p->of[2].bin[frame] = p->of[2].hop++ % p->bins;
}

static void plain_reach(struct plain_maps *p, uint64_t vaddr, unsigned bytes, enum cache_kind kind)
{
    uint64_t frame = (vaddr >> 12) % FRAMES;
    for (int i = 0; i < POLICIES; i++) {
        struct plain_map *m = &p->of[i];
        struct cache_ref ref = {.address = (frame * p->bins + m->bin[frame]) << 12 | (vaddr & 0xfff)};
        ref.bytes = (uint16_t)bytes;
        ref.kind = (uint8_t)kind;
        m->misses[kind == CACHE_MODIFY ? CACHE_READ : kind] += cache_reach(m->cache, &ref) != 0;
    }
}

static void plain_fetch(struct plain_maps *p, const struct qemu_plugin_tb *tb)
{
    const struct qemu_plugin_insn *last = &tb->insns[tb->count - 1];
    uint64_t from = tb->insns[0].vaddr, end = last->vaddr + last->len - 1;
    plain_note(p, from);
    for (uint64_t line = from >> p->code_shift; line <= end >> p->code_shift; line++)
        plain_reach(p, line << p->code_shift, 1, CACHE_FETCH);
}

static void plain_access(struct plain_maps *p, uint64_t vaddr, enum cache_kind kind)
{
    if (!p->is_known[vaddr >> 12])
        plain_note(p, vaddr);
    p->is_known[vaddr >> 12] = true;
    plain_reach(p, vaddr, 8, kind);
}

static void run_maps(struct plain_maps *p, const struct qemu_plugin_tb *blocks)
{
    struct rng g = {13};
    struct qemu_plugin_tb load = {.count = 0}, store = {.count = 0}, modify = {.count = 0};
    fake_append(&load, 0x1000, "\x48\x8b\x03", 3);
    fake_append(&store, 0x1000, "\x48\x89\x03", 3);
    fake_append(&modify, 0x1000, "\x48\x01\x03", 3);
    segments_translate(&load);
    segments_translate(&store);
    segments_translate(&modify);
    for (int n = 0; n < REFERENCES; n++) {
        uint64_t page = rng_below(&g, n % 2000 < 1900 ? 12 : PAGES);
        uint64_t vaddr = page << 12 | rng_below(&g, n % 2 ? 0x200 : 0xff9);
        const struct qemu_plugin_tb *block = &blocks[rng_below(&g, n % 1000 < 900 ? 40 : BLOCKS)];
        unsigned what = (unsigned)rng_below(&g, 5);
        if (what == 0) {
            fake_execute(block, block->count);
            plain_fetch(p, block);
        } else if (what == 1) {
            fake_access(&modify.insns[0], vaddr, 3, false);
            fake_access(&modify.insns[0], vaddr, 3, true);
            plain_access(p, vaddr, CACHE_MODIFY);
        } else {
            fake_access(what == 2 ? &store.insns[0] : &load.insns[0], vaddr, 3, what == 2);
            plain_access(p, vaddr, what == 2 ? CACHE_WRITE : CACHE_READ);
        }
    }
}

static void measure(struct plain_maps *p, const struct cache_config *k)
{
    for (unsigned i = 0; i < k->count; i++) {
        p->bins = (unsigned)max_u64(p->bins, k->levels[i].size_bytes / k->levels[i].ways >> 12);
        if (k->levels[i].side == CACHE_CODE)
            p->code_shift = (unsigned)__builtin_ctz(k->levels[i].line_bytes);
    }
    for (int i = 0; i < POLICIES; i++)
        p->of[i].cache = cache_new(k, false);
}

static void same_maps(const char *machine)
{
    static const char *const names[] = {"real", "colour", "hop"};
    struct rng g = {17};
    struct qemu_plugin_tb *blocks = xmalloc(BLOCKS * sizeof *blocks);
    struct plain_maps *p = xmalloc(sizeof *p);
    struct cache_config k;
    char *text = NULL;
    size_t len;
    settings.ram_bytes = FAKE_RAM_BYTES;
    settings.maps = "real,colour,hop";
    use_machine(machine);
    make_blocks(blocks, &g, LONGEST);
    config_of(machine, &k);
    measure(p, &k);
    run_maps(p, blocks);
    FILE *f = open_memstream(&text, &len);
    maps_write(f);
    fclose(f);
    for (int i = 0; i < POLICIES; i++) {
        struct strbuf line = {0};
        const uint64_t *misses = p->of[i].misses;
        str_printf(&line, "map %s %llu %llu %llu 0 0 0 %u\n", names[i], (unsigned long long)misses[CACHE_FETCH],
                   (unsigned long long)misses[CACHE_READ], (unsigned long long)misses[CACHE_WRITE], p->bins);
        assert_non_null(strstr(text, line.data));
        assert_true(misses[CACHE_FETCH] > 1000 && misses[CACHE_READ] > 1000 && misses[CACHE_WRITE] > 1000);
        str_free(&line);
        cache_free(p->of[i].cache);
    }
    assert_true(p->of[0].misses[CACHE_READ] != p->of[2].misses[CACHE_READ]);
    settings.maps = NULL;
    maps_are_wanted = false;
    free(text);
    free(p);
    free(blocks);
}

static void maps_direct_mapped(void **state)
{
    (void)state;
    same_maps("decstation-3100.machine");
    same_maps("decstation-5000.machine");
}

static void maps_three_levels(void **state)
{
    (void)state;
    same_maps("zen5.machine");
}

/* Pages that marks say something of: what is used most comes first, dark parts come apart. */
static void marked_pages(void **state)
{
    (void)state;
    static const char dark[] = "2222222222222222", white[] = "0000000000000000", first[] = "2222222200000000",
                      last[] = "0000000022222222";
    char path[] = "/tmp/mtool-test-marks.XXXXXX", *text = NULL;
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    size_t len;
    struct qemu_plugin_tb load = {.count = 0};
    fprintf(f, "0 1 0 %s %s kernel\n", dark, white); /* bin 0 */
    fprintf(f, "10000 2 0 %s %s fake\n12000 1 0 %s %s fake\n", first, white, last, white);
    fprintf(f, "14000 3 0 %s %s fake\n16000 4 0 %s %s fake\n", first, white, last, white);
    fprintf(f, "1a000 1 0 %s %s other\n", dark, white);
    fclose(f);
    settings.ram_bytes = FAKE_RAM_BYTES;
    settings.maps = "number,shade+kernel=14";
    settings.marks = path;
    use_machine("decstation-3100.machine");
    fake_append(&load, 0x1000, "\x48\x8b\x03", 3);
    segments_translate(&load);
    for (uint64_t at = 0x10000; at <= 0x18000; at += 0x2000)
        for (int n = 0; n < 3; n++)
            fake_access(&load.insns[0], at + 0x108, 3, false);
    pages_end();
    fake_access(&load.insns[0], 0x10108, 3, false); /* counts no more */
    f = open_memstream(&text, &len);
    maps_write(f);
    fclose(f);
    /* number: from bin 1 on, since bin 0 is the kernel's; what has none is the first of the others */
    static const unsigned bins[][3] = {
        {0x10000, 2, 14}, {0x12000, 1, 14}, {0x14000, 3, 15}, {0x16000, 4, 15}, {0x18000, 0, 14}};
    for (size_t i = 0; i < ARRAY_LEN(bins); i++) {
        struct strbuf line = {0};
        str_printf(&line, "page %x 0 3", bins[i][0]);
        for (unsigned k = 2; k < 2 * WIRE_PAGE_PARTS; k++)
            str_puts(&line, " 0");
        str_printf(&line, " %u %u\tfake\n", bins[i][1], bins[i][2]);
        if (!strstr(text, line.data))
            fail_msg("'%s' is not in\n%s", line.data, text);
        str_free(&line);
    }
    settings.maps = settings.marks = NULL;
    maps_are_wanted = false;
    unlink(path);
    free(text);
}

/* A TLB of 64 pages with random replacement, of which it is known what goes: as one that is asked each time. */
static void tlb(void **state)
{
    (void)state;
    struct rng g = {5};
    struct qemu_plugin_tb load = {.count = 0};
    struct cache_config k;
    uint64_t function;
    struct row *r = places_row(0x1000, fake_ram, &function);
    use_machine("decstation-3100.machine");
    assert_int_equal(cache_of_machine(model_machine, true, &k), 0);
    assert_int_equal(k.count, 1);
    k.levels[0].policy = CACHE_RANDOM;
    struct cache *plain = cache_new(&k, false);
    fake_append(&load, 0x1000, "\x48\x8b\x03", 3);
    segments_translate(&load);
    memset(r, 0, sizeof *r);
    for (int n = 0; n < REFERENCES; n++) {
        uint64_t page = rng_below(&g, n % 2000 < 1500 ? 60 : 100);
        struct cache_ref ref = {.address = page << 12, .bytes = 1, .kind = CACHE_READ};
        cache_run(plain, &ref, 1);
        fake_access(&load.insns[0], (page << 12) + (rng_below(&g, 4000) & ~7ull), 3, false);
        if (rng_below(&g, 5000) == 0)
            tlb_forget_pages(0, NULL);
    }
    assert_int_equal(r->of[WIRE_TLB_MISSES], cache_counts(plain, 0)->misses[CACHE_READ]);
    assert_true(r->of[WIRE_TLB_MISSES] > 10000);
    cache_free(plain);
}

/* Four entries, each written in five cycles, one behind another: stores back to back, and after pauses. */
static void write_buffer(void **state)
{
    (void)state;
    struct qemu_plugin_tb store = {.count = 0};
    uint64_t before;
    const uint64_t *stalled_so_far = &totals[0].stalls[WIRE_STALL_WRITE - WIRE_STALL_FETCH];
    VEC(double) done = {0};
    struct rng g = {3};
    double stalled = 0;
    use_machine("decstation-3100.machine");
    fake_append(&store, 0x2000, "\x48\x89\x03", 3);
    segments_translate(&store);
    fake_access(&store.insns[0], 0x8000, 3, false); /* its page is in the TLB from here on */
    for (int n = 0; n < 1000; n++) {
        double now = model_now(), wait = done.len >= 4 ? fmax(done.data[done.len - 4] - now, 0) : 0;
        double last = done.len ? done.data[done.len - 1] : 0;
        VEC_PUSH(&done, fmax(last, now + wait) + 5);
        before = *stalled_so_far;
        fake_access(&store.insns[0], 0x8000, 3, true);
        assert_int_equal(*stalled_so_far - before, wait);
        stalled += wait;
        totals[0].operations += 1 + (rng_below(&g, 16) ? 0 : rng_below(&g, 40));
    }
    assert_true(stalled > 1000);
    VEC_FREE(&done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_mapped),      cmocka_unit_test(three_levels),
        cmocka_unit_test(code_direct_mapped), cmocka_unit_test(code_three_levels),
        cmocka_unit_test(maps_direct_mapped), cmocka_unit_test(maps_three_levels),
        cmocka_unit_test(marked_pages),       cmocka_unit_test(tlb),
        cmocka_unit_test(write_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
