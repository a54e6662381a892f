/* SPDX-License-Identifier: Apache-2.0
 *
 * frames.c on this very process: its chain of calls through the C library and back must be that which the compiler's
 * own unwinder sees (backtrace), also where a frame pointer is needed; and nothing is made up where memory or rules are
 * missing. */
#include "help.h"

#include <alloca.h>
#include <execinfo.h>
#include <link.h>
#include <stdlib.h>

enum { MAX = 64, RBP = 6, RSP = 7 };

struct place {
    uint64_t pc, bias;
    const char *path;
};

static int find_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
    (void)size;
    struct place *p = ctx;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uint64_t lo = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && p->pc >= lo && p->pc < lo + info->dlpi_phdr[i].p_memsz) {
            p->bias = info->dlpi_addr;
            p->path = info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
            return 1;
        }
    }
    return 0;
}

static bool read_self(void *ctx, uint64_t addr, uint64_t *word)
{
    uint64_t min = *(const uint64_t *)ctx; /* nothing below the frame that the walk began in */
    if (addr < min)
        return false;
    const void *at;
    memcpy(&at, &addr, sizeof at);
    memcpy(word, at, sizeof *word);
    return true;
}

static enum image_step step_up(struct image_frame *f, bool is_first, uint64_t *min)
{
    struct place p = {.pc = f->pc - !is_first};
    struct image_unwind u;
    if (!dl_iterate_phdr(find_module, &p))
        return IMAGE_STEP_LOST;
    struct image *img = open_ok(p.path);
    unwind_ok(img, &u);
    enum image_step s = image_unwind_step(img, &u, p.pc - p.bias, f, read_self, min);
    image_close(img);
    return s;
}

static struct image_frame here_frame(uint64_t pc, uint64_t rsp, uint64_t rbp)
{
    struct image_frame f = {.pc = pc, .known = 1u << RBP | 1u << RSP};
    f.regs[RSP] = rsp, f.regs[RBP] = rbp;
    return f;
}

#ifdef __SANITIZE_ADDRESS__
enum { BACKTRACE_OWN = 1 }; /* frames of the sanitizer's own backtrace */
#else
enum { BACKTRACE_OWN = 0 };
#endif

static uint64_t walked[MAX];
static void *wanted[MAX];
static int walked_count, wanted_count;
static enum image_step last;

static __attribute__((noinline)) int compare(const void *a, const void *b)
{
    uint64_t rsp, rbp, pc;
    if (walked_count)
        return *(const int *)a - *(const int *)b;
    wanted_count = backtrace(wanted, MAX);
    __asm__ volatile("mov %%rsp, %0\n mov %%rbp, %1\n lea 0(%%rip), %2" : "=r"(rsp), "=r"(rbp), "=r"(pc));
    struct image_frame f = here_frame(pc, rsp, rbp);
    do {
        walked[walked_count++] = f.pc;
        last = step_up(&f, walked_count == 1, &rsp);
    } while (last == IMAGE_STEP_CALLER && walked_count < MAX);
    return *(const int *)a - *(const int *)b;
}

/* A frame of a size that only a frame pointer knows. */
static __attribute__((noinline)) void sort_some(size_t n)
{
    int *list = alloca(n * sizeof *list);
    for (size_t i = 0; i < n; i++)
        list[i] = (int)(n - i);
    qsort(list, n, sizeof *list, compare);
    assert_int_equal(list[0], 1);
}

/* A frame that is aligned, and of a size that only a frame pointer knows: where its caller's is an expression tells. */
static __attribute__((noinline, force_align_arg_pointer)) void sort_aligned(size_t n)
{
    _Alignas(64) volatile int first[16] = {1};
    int *list = alloca(n * sizeof *list);
    for (size_t i = 0; i < n; i++)
        list[i] = (int)(n - i);
    qsort(list, n, sizeof *list, compare);
    assert_int_equal(list[0], first[0]);
}

static void compare_with_backtrace(void (*sort)(size_t))
{
    walked_count = wanted_count = 0;
    sort(40);
    assert_int_equal(last, IMAGE_STEP_BOTTOM);
    assert_true(walked_count > 4);
    assert_int_equal(walked_count, wanted_count - BACKTRACE_OWN);
    for (int i = 1; i < walked_count; i++) /* the innermost one is not at the same instruction */
        assert_int_equal(walked[i], (uintptr_t)wanted[i + BACKTRACE_OWN]);
}

static void test_same_as_backtrace(void **state)
{
    (void)state;
    compare_with_backtrace(sort_some);
}

static void test_realigned(void **state)
{
    (void)state;
    compare_with_backtrace(sort_aligned);
}

/* In a stub one word is on the stack, and another one behind its push; which of the two the address tells. */
static void test_linkage_stubs(void **state)
{
    (void)state;
    uint64_t stack[2] = {0x1234, 0x5678}, min = (uintptr_t)stack;
    struct place p = {.pc = (uintptr_t)qsort};
    struct image_unwind u;
    assert_int_equal(dl_iterate_phdr(find_module, &p), 1);
    struct image *img = open_ok(p.path);
    unwind_ok(img, &u);
    const struct image_section *plt = image_section_named(img, ".plt");
    assert_non_null(plt);
    for (unsigned at = 0; at < 16; at++) {
        uint64_t vaddr = plt->addr + 16 + at; /* the second, of 16 bytes; the first calls the dynamic linker */
        struct image_frame f = here_frame(p.bias + vaddr, min, 0);
        assert_int_equal(image_unwind_step(img, &u, vaddr, &f, read_self, &min), IMAGE_STEP_CALLER);
        assert_int_equal(f.pc, stack[at >= 11]);
        assert_int_equal(f.regs[RSP], min + (at >= 11 ? 16 : 8));
    }
    image_close(img);
}

/* What the loader begins with is not described, and nothing called it: there a chain is whole. */
static void test_loaders_start(void **state)
{
    (void)state;
    uint64_t stack[4] = {0x1111, 0x2222, 0, 0}, min = (uintptr_t)stack;
    struct image *img = open_ok("/lib64/ld-linux-x86-64.so.2");
    struct image_unwind u;
    unwind_ok(img, &u);
    uint64_t behind = img->entry;
    while (image_unwind_find(&u, behind) == ID_NONE)
        behind++;
    assert_in_range(behind - img->entry, 16, 4096);
    for (uint64_t vaddr = img->entry; vaddr < behind; vaddr++) {
        struct image_frame f = here_frame(vaddr, min, 0);
        assert_int_equal(image_unwind_step(img, &u, vaddr, &f, read_self, &min),
                         vaddr - img->entry < 96 ? IMAGE_STEP_BOTTOM : IMAGE_STEP_LOST);
    }
    struct image_frame f = here_frame(img->entry - 1, min, 0);
    if (image_unwind_find(&u, img->entry - 1) == ID_NONE)
        assert_int_equal(image_unwind_step(img, &u, img->entry - 1, &f, read_self, &min), IMAGE_STEP_LOST);
    image_close(img);
}

static void test_not_known(void **state)
{
    (void)state;
    uint64_t none = UINT64_MAX, rsp;
    __asm__ volatile("mov %%rsp, %0" : "=r"(rsp));
    struct image_frame f = here_frame((uintptr_t)qsort, rsp, 0);
    assert_int_equal(step_up(&f, true, &none), IMAGE_STEP_LOST); /* memory that cannot be read */
    f = (struct image_frame){.pc = (uintptr_t)qsort};
    assert_int_equal(step_up(&f, true, &rsp), IMAGE_STEP_LOST); /* no stack pointer */
    f = here_frame(0x10, rsp, 0);
    assert_int_equal(step_up(&f, true, &rsp), IMAGE_STEP_LOST); /* no code */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_as_backtrace), cmocka_unit_test(test_realigned),
                                       cmocka_unit_test(test_linkage_stubs), cmocka_unit_test(test_loaders_start),
                                       cmocka_unit_test(test_not_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
