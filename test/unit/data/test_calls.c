/* SPDX-License-Identifier: Apache-2.0
 * Calls of allocators as streams tell them, with stacks made by hand; and what the kernel says is mapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "data/data.h"

static const char *named, *bare, *partly;
static char *real_named;

#define STACK 0x7ffd00001000ull
#define HEAP 0x7f0000000000ull

struct bench {
    struct data *d;
    struct data_calls *calls;
    uint32_t module;
    uint64_t time, words[32];
    uint64_t open[8]; /* calls that are under way, as the runtime keeps them */
    size_t open_count;
    const struct data_path *path; /* of the last one that entered */
};

static struct bench start_of(const char *file, const struct data_watched *own, size_t own_count)
{
    struct bench b = {.d = data_new()};
    assert_int_equal(data_module(b.d, file, 0, &b.module), 0);
    b.calls = data_calls_new(b.d, &(struct data_code){0}, own, own_count);
    return b;
}

static struct bench start(const struct data_watched *own, size_t own_count) { return start_of(named, own, own_count); }

static void end(struct bench *b)
{
    data_calls_free(b->calls);
    data_free(b->d);
}

static uint32_t number_of(const char *name)
{
    for (uint32_t i = 0; i < data_watched_count(); i++)
        if (strcmp(data_watched_name(i), name) == 0)
            return i;
    fail_msg("%s is not watched", name);
    return 0;
}

static uint64_t innermost(struct bench *b, uint64_t stack)
{
    while (b->open_count && b->open[b->open_count - 1] < stack)
        b->open_count--;
    return b->open_count ? b->open[b->open_count - 1] : 0;
}

static void opens(struct bench *b, uint32_t function, uint64_t stack)
{
    if ((function >= data_watched_count() || data_watched_returns(function)) && innermost(b, stack) != stack)
        b->open[b->open_count++] = stack;
}

static struct data_call call_at(struct bench *b, uint32_t function, uint64_t stack, uint64_t a0, uint64_t a1)
{
    return (struct data_call){.thread = 1,
                              .function = function,
                              .arguments = {a0, a1},
                              .stack = stack,
                              .time = ++b->time,
                              .open = innermost(b, stack),
                              .copy = (const uint8_t *)b->words,
                              .copy_bytes = sizeof b->words};
}

static const struct data_path *enter_by(struct bench *b, const struct data_call *c)
{
    b->path = data_entered(b->calls, c);
    opens(b, c->function, c->stack);
    return b->path;
}

static void enter(struct bench *b, const char *name, uint64_t stack, uint64_t a0, uint64_t a1)
{
    struct data_call c = call_at(b, number_of(name), stack, a0, a1);
    enter_by(b, &c);
}

static void jump(struct bench *b, uint64_t stack, uint64_t a0)
{
    struct data_call c = call_at(b, 0, stack, a0, 0);
    data_jumps(b->calls, &c);
}

static void leave(struct bench *b, uint64_t stack, uint64_t value)
{
    struct data_call c = call_at(b, 0, stack, value, 0);
    data_left(b->calls, &c);
    b->open_count -= innermost(b, stack) == stack;
}

static uint64_t address_of(const struct bench *b, const char *name)
{
    const struct image *img = data_module_image(b->d, b->module);
    for (size_t i = 0; i < img->symbol_count; i++)
        if (strcmp(img->symbols[i].name, name) == 0)
            return img->symbols[i].addr;
    fail_msg("no symbol %s", name);
    return 0;
}

/* Behind the first call in a function. */
static uint64_t first_return(const struct bench *b, const char *function)
{
    uint64_t addr = address_of(b, function);
    const uint8_t *code = image_at(data_module_image(b->d, b->module), addr, 64);
    for (uint64_t i = 0; i < 59; i++)
        if (code[i] == 0xe8)
            return addr + i + 5;
    fail_msg("no call in %s", function);
    return 0;
}

static const struct data_object *at(const struct bench *b, uint64_t address)
{
    return data_object(b->d, data_object_at(b->d, address));
}

static void stacks_are_paths(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    b.words[0] = first_return(&b, "build"); /* which has pushed rbx */
    b.words[2] = first_return(&b, "main");
    enter(&b, "malloc", STACK, 100, 0);
    leave(&b, STACK, HEAP);
    assert_int_equal(at(&b, HEAP + 99)->live_bytes, 100);
    assert_int_equal(at(&b, HEAP)->path_len, 2);
    assert_string_equal(data_object_name(b.d, at(&b, HEAP)->id), "named.c:35 build <- named.c:43 main");
    end(&b);
}

/* The same in a copy, whose addresses are others. */
static uint64_t from_copy(void *ctx, uint64_t address)
{
    (void)ctx;
    return address >= 0x900000 ? address - 0x500000 : 0;
}

static void paths_of_copies_are_the_originals(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    data_calls_free(b.calls);
    b.calls = data_calls_new(b.d, &(struct data_code){from_copy, NULL}, NULL, 0);
    b.words[0] = first_return(&b, "build") + 0x500000;
    b.words[2] = first_return(&b, "main");
    enter(&b, "malloc", STACK, 100, 0);
    leave(&b, STACK, HEAP);
    assert_string_equal(data_object_name(b.d, at(&b, HEAP)->id), "named.c:35 build <- named.c:43 main");
    end(&b);
}

/* By another way that rbp leads, or with another caller, it is another path. */
static void paths_are_known_by_their_words(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    b.words[0] = first_return(&b, "build");
    b.words[2] = first_return(&b, "main");
    enter(&b, "malloc", STACK, 100, 0);
    assert_null(b.path); /* of a copy that is cut one cannot tell */
    leave(&b, STACK, HEAP);
    struct data_call c = call_at(&b, number_of("malloc"), STACK, 100, 0);
    uint64_t words[DATA_COPY_BYTES / 8] = {b.words[0], 7, b.words[2]};
    c.copy = (const uint8_t *)words;
    c.copy_bytes = sizeof words;
    const struct data_path *path = enter_by(&b, &c);
    assert_non_null(path);
    assert_true(path->is_new);
    assert_int_equal(path->number, 1);
    assert_true(path->count >= 2);
    assert_int_equal(path->words[0].offset, 0);
    assert_int_equal(path->words[0].value, words[0]);
    assert_int_equal(path->words[1].kind, DATA_WORD_IS);
    assert_int_equal(path->words[1].offset, 16);
    assert_int_equal(path->words[1].value, words[2]);
    assert_false(path->is_settled);
    leave(&b, STACK, HEAP + 4096);
    words[1] = 8; /* which nobody looks at */
    c.stack = STACK - 4096;
    path = enter_by(&b, &c);
    assert_int_equal(path->number, 1);
    assert_false(path->is_new);
    leave(&b, STACK - 4096, HEAP + 8192);
    words[2] = 0;
    assert_int_equal(enter_by(&b, &c)->number, 2);
    leave(&b, STACK - 4096, HEAP + 16384);
    c.copy_bytes = 0;
    for (c.path = 1; c.path < 4; c.path++) {
        assert_null(enter_by(&b, &c));
        leave(&b, STACK - 4096, HEAP + 65536 * c.path);
    }
    assert_int_equal(at(&b, HEAP + 65536)->id, at(&b, HEAP)->id);
    assert_int_equal(at(&b, HEAP + 2 * 65536)->id, at(&b, HEAP + 16384)->id);
    assert_int_equal(at(&b, HEAP + 3 * 65536)->path_len, 0); /* there is none such */
    assert_int_equal(data_calls_lost(b.calls)->unmatched, 0);
    end(&b);
}

/* What a pool gives is another object than what malloc does. */
static void known_paths_are_of_several_layers(void **state)
{
    (void)state;
    const struct data_watched own[] = {{.name = "pool_get"}};
    struct bench b = start(own, 1);
    struct data_call c = call_at(&b, number_of("malloc"), STACK, 100, 0);
    uint64_t words[DATA_COPY_BYTES / 8] = {first_return(&b, "build"), 7, first_return(&b, "main")}, objects[4];
    c.copy = (const uint8_t *)words;
    c.copy_bytes = sizeof words;
    assert_int_equal(enter_by(&b, &c)->number, 1);
    leave(&b, STACK, HEAP);
    c.copy_bytes = 0;
    c.path = 1;
    for (uint64_t i = 0; i < 4; i++) {
        c.function = i % 2 ? (uint32_t)data_watched_count() : number_of("malloc");
        enter_by(&b, &c);
        leave(&b, STACK, HEAP + 4096 * (i + 1));
        objects[i] = at(&b, HEAP + 4096 * (i + 1))->id;
    }
    assert_int_equal(objects[0], at(&b, HEAP)->id);
    assert_int_equal(objects[2], objects[0]);
    assert_int_not_equal(objects[1], objects[0]);
    assert_int_equal(objects[3], objects[1]);
    assert_int_equal(at(&b, HEAP)->blocks, 3);
    assert_int_equal(at(&b, HEAP + 8192)->blocks, 2);
    end(&b);
}

/* A function that has pushed rbx is there so often, in turn with words of it, until the one that called it first. */
static void stack_of(uint64_t *words, size_t room, uint32_t depth, uint64_t inner, uint64_t outer)
{
    memset(words, 0, room);
    for (uint32_t i = 0; i < depth; i++)
        words[2 * i] = inner;
    words[2 * depth] = outer;
}

/* Where no near call has a name, the first is told that has. */
static void names_are_looked_for_farther_up(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    uint64_t inner = first_return(&b, "build"), outer = first_return(&b, "main"), words[DATA_COPY_BYTES / 8];
    end(&b);
    b = start_of(partly, NULL, 0); /* build has no name */
    struct data_call c = call_at(&b, number_of("malloc"), STACK, 100, 0);
    c.copy = (const uint8_t *)words;
    c.copy_bytes = sizeof words;
    for (uint32_t depth = 1; depth < DATA_WALK_MAX; depth += 7) {
        stack_of(words, sizeof words, depth, inner, outer);
        const struct data_path *path = enter_by(&b, &c);
        assert_non_null(path);
        assert_int_equal(path->is_far, depth >= DATA_PATH_MAX);
        assert_int_equal(path->words[depth].offset, 16 * depth);
        assert_int_equal(path->words[depth].value, outer);
        leave(&b, STACK, HEAP + depth * 4096);
        assert_int_equal(at(&b, HEAP + depth * 4096)->path_len, 2); /* each call once */
        assert_string_equal(data_frame(b.d, at(&b, HEAP + depth * 4096)->path[1])->function, "main");
    }
    assert_false(data_paths_are_near(b.calls));
    words[0] = outer;
    for (int i = 0; i < 5000; i++) {
        assert_false(i < 1000 && data_paths_are_near(b.calls));
        enter_by(&b, &c);
        leave(&b, STACK, HEAP);
    }
    assert_true(data_paths_are_near(b.calls));
    stack_of(words, sizeof words, DATA_WALK_MAX + 5, inner, outer);
    enter_by(&b, &c);
    assert_false(data_paths_are_near(b.calls));
    leave(&b, STACK, HEAP);
    assert_int_equal(at(&b, HEAP)->path_len, 1); /* too far */
    end(&b);
    b = start_of(bare, NULL, 0); /* nothing has a name: nobody looks */
    stack_of(words, sizeof words, 40, inner, outer);
    assert_false(enter_by(&b, &c)->is_far);
    leave(&b, STACK, HEAP);
    assert_int_equal(at(&b, HEAP)->path_len, 1);
    end(&b);
}

/* What is looked at where the copy ended early may lead farther another time. */
static void what_was_cut_is_not_known_again(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    uint64_t inner = first_return(&b, "build"), outer = first_return(&b, "main"), words[DATA_COPY_BYTES / 8];
    end(&b);
    b = start_of(partly, NULL, 0);
    struct data_call c = call_at(&b, number_of("malloc"), STACK, 100, 0);
    stack_of(words, sizeof words, 60, inner, outer);
    c.copy = (const uint8_t *)words;
    c.copy_bytes = 800;
    assert_null(enter_by(&b, &c));
    leave(&b, STACK, HEAP);
    assert_int_equal(at(&b, HEAP)->path_len, 1);
    c.copy_bytes = 1200;
    assert_int_equal(enter_by(&b, &c)->number, 1);
    leave(&b, STACK, HEAP + 4096);
    assert_int_equal(at(&b, HEAP + 4096)->path_len, 2);
    end(&b);
}

static void functions_give_and_take(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    enter(&b, "calloc", STACK, 10, 12);
    leave(&b, STACK, HEAP);
    assert_int_equal(at(&b, HEAP + 119)->live_bytes, 120);
    enter(&b, "realloc", STACK, HEAP, 500);
    leave(&b, STACK, HEAP + 0x10000);
    assert_int_equal(at(&b, HEAP)->id, 0);
    assert_int_equal(at(&b, HEAP + 0x10000 + 499)->blocks, 1);
    enter(&b, "aligned_alloc", STACK, 64, 128);
    leave(&b, STACK, HEAP);
    assert_int_not_equal(at(&b, HEAP + 127)->id, 0);
    enter(&b, "free", STACK, HEAP, 0);
    leave(&b, STACK, 0);
    assert_int_equal(at(&b, HEAP)->id, 0);
    enter(&b, "malloc", STACK, 1ull << 40, 0); /* refused */
    leave(&b, STACK, 0);
    assert_int_equal(data_lost(b.d)->impossible + data_lost(b.d)->frees, 0);
    assert_int_equal(data_calls_lost(b.calls)->unmatched, 0);
    end(&b);
}

static void what_is_stored_is_read_from_the_stack(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    struct data_call c = call_at(&b, number_of("posix_memalign"), STACK, STACK + 80, 64);
    c.arguments[2] = 256;
    enter_by(&b, &c);
    b.words[10] = HEAP;
    leave(&b, STACK, 0);
    assert_int_equal(at(&b, HEAP + 255)->live_bytes, 256);
    c.arguments[0] = HEAP; /* not there */
    enter_by(&b, &c);
    leave(&b, STACK, 0);
    assert_int_equal(data_calls_lost(b.calls)->unread, 1);
    end(&b);
}

static void what_is_handed_on_is_one_block(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    enter(&b, "_Znwm", STACK, 40, 0);
    enter(&b, "malloc", STACK - 32, 40, 0);
    leave(&b, STACK - 32, HEAP);
    leave(&b, STACK, HEAP);
    assert_int_equal(at(&b, HEAP)->blocks, 1);
    enter(&b, "_Znwm", STACK, 40, 0);
    jump(&b, STACK, 40);
    enter(&b, "malloc", STACK, 40, 0); /* one return */
    leave(&b, STACK, HEAP + 64);
    assert_int_equal(at(&b, HEAP + 64)->blocks, 2);
    enter(&b, "_ZdlPv", STACK, HEAP, 0);
    enter(&b, "free", STACK - 8, HEAP, 0);
    assert_int_equal(data_lost(b.d)->frees, 0);
    assert_int_equal(at(&b, HEAP)->id, 0);
    end(&b);
}

static void calls_that_do_not_return_are_forgotten(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    enter(&b, "_Znwm", STACK - 64, 1ull << 60, 0); /* allocates the exception */
    enter(&b, "malloc", STACK - 128, 136, 0);
    leave(&b, STACK - 128, HEAP + 4096);
    assert_int_equal(at(&b, HEAP + 4096)->bytes, 136);
    enter(&b, "malloc", STACK, 8, 0);
    leave(&b, STACK, HEAP + 8192);
    assert_int_equal(data_calls_lost(b.calls)->unmatched, 1);
    end(&b);
    b = start(NULL, 0);
    enter(&b, "_Znwm", STACK - 64, 40, 0); /* throws */
    enter(&b, "malloc", STACK, 8, 0);
    leave(&b, STACK, HEAP);
    assert_int_equal(at(&b, HEAP)->bytes, 8);
    assert_int_equal(data_calls_lost(b.calls)->unmatched, 1);
    end(&b);
}

static void cleared_memory_is_handed_on(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    enter(&b, "calloc", STACK, 4, 25);
    jump(&b, STACK, HEAP); /* to memset */
    assert_int_equal(at(&b, HEAP)->bytes, 100);
    enter(&b, "malloc", STACK, 8, 0); /* the next one of the same function */
    leave(&b, STACK, HEAP + 112);
    assert_int_equal(at(&b, HEAP + 112)->smallest, 8);
    enter(&b, "malloc", STACK, 9, 0); /* whose return is not seen */
    enter(&b, "malloc", STACK, 10, 0);
    leave(&b, STACK, HEAP + 128);
    assert_int_equal(at(&b, HEAP + 128)->bytes, 118);
    enter(&b, "malloc", STACK, 11,
          0); /* nor of this one; its caller returns, and another one calls from further down */
    b.open_count = 0;
    enter(&b, "malloc", STACK - 80, 12, 0);
    leave(&b, STACK - 80, HEAP + 144);
    assert_int_equal(at(&b, HEAP + 144)->bytes, 130);
    assert_int_equal(data_calls_lost(b.calls)->unmatched, 2);
    end(&b);
}

static void allocators_of_the_program_lie_upon_malloc(void **state)
{
    (void)state;
    const struct data_watched own[] = {{.name = "pool_get", .size_argument = 1},
                                       {.name = "pool_put", .size_argument = DATA_NO_SIZE}};
    struct bench b = start(own, 2);
    uint32_t pool_get = (uint32_t)data_watched_count();
    struct data_call c = call_at(&b, pool_get, STACK, 7, 24);
    enter_by(&b, &c);
    enter(&b, "malloc", STACK - 48, 4096, 0); /* what it hands out of */
    leave(&b, STACK - 48, HEAP);
    leave(&b, STACK, HEAP + 16);
    assert_int_equal(at(&b, HEAP)->bytes, 4096);
    assert_int_equal(at(&b, HEAP + 16)->bytes, 24);
    assert_int_equal(at(&b, HEAP + 40)->bytes, 4096);
    c = call_at(&b, pool_get + 1, STACK, HEAP + 16, 0); /* what one gave another one takes */
    enter_by(&b, &c);
    assert_int_equal(at(&b, HEAP + 16)->bytes, 4096);
    assert_int_equal(data_lost(b.d)->frees, 0);
    end(&b);
}

static void mappings_of_allocators_are_theirs(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    enter(&b, "malloc", STACK, 1 << 20, 0);
    enter(&b, "mmap", STACK - 200, 0, (1 << 20) + 4096);
    leave(&b, STACK - 200, HEAP);
    leave(&b, STACK, HEAP + 16);
    assert_int_equal(at(&b, HEAP)->kind, DATA_MAPPING);
    assert_string_equal(data_object_name(b.d, at(&b, HEAP)->id), "allocator");
    assert_int_equal(at(&b, HEAP + 16)->bytes, 1 << 20);
    enter(&b, "mmap", STACK, 0, 5000); /* the program's own */
    leave(&b, STACK, HEAP + (8 << 20));
    assert_int_equal(at(&b, HEAP + (8 << 20) + 8191)->kind, DATA_HEAP);
    enter(&b, "munmap", STACK, HEAP, 16 << 20);
    assert_int_equal(at(&b, HEAP + 16)->id, 0);
    assert_int_equal(at(&b, HEAP + (8 << 20))->id, 0);
    end(&b);
}

static void see(struct data *d, const char *text) { data_see_maps(d, text, strlen(text), NULL, NULL); }

static void the_kernel_says_what_is_mapped(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    struct data *d = data_new();
    uint64_t ward = address_of(&b, "ward");
    char *text;
    assert_true(asprintf(&text,
                         "00400000-00401000 r--p 00000000 08:01 42  %s\n"
                         "00401000-00402000 r-xp 00001000 08:01 42  %s\n"
                         "01234000-01255000 rw-p 00000000 00:00 0          [heap]\n"
                         "7f0000000000-7f0000100000 rw-p 00000000 00:00 0 \n"
                         "7f0000200000-7f0000300000 rw-s 00000000 00:01 7  /dev/shm/ring buffer (deleted)\n"
                         "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0  [stack]\n"
                         "nonsense\n"
                         "7ffd00030000-7ffd00020000 r--p",
                         real_named, real_named) > 0);
    for (int i = 0; i < 2; i++) { /* the second time all is known */
        see(d, text);
        assert_string_equal(data_object_name(d, data_object_at(d, ward)), "ward");
        assert_string_equal(data_object_name(d, data_object_at(d, 0x1234000)), "break");
        assert_string_equal(data_object_name(d, data_object_at(d, HEAP)), "anonymous");
        assert_string_equal(data_object_name(d, data_object_at(d, HEAP + 0x200000)), "/dev/shm/ring buffer (deleted)");
        assert_int_equal(data_object(d, data_object_at(d, 0x7ffd00000000 - 4096))->kind, DATA_STACK);
        assert_int_equal(data_object_at(d, 0x7ffd00021000), 0);
    }
    assert_true(data_see_stack(d, HEAP + 0x1000));
    assert_int_equal(data_object(d, data_object_at(d, HEAP))->kind, DATA_STACK);
    assert_false(data_see_stack(d, HEAP + 0x100000));
    free(text);
    data_free(d);
    end(&b);
}

static void the_break_goes_on(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    see(b.d, "01234000-01255000 rw-p 00000000 00:00 0          [heap]\n");
    enter(&b, "brk", STACK, 0x1276000, 0);
    leave(&b, STACK, 0);
    assert_int_equal(at(&b, 0x1275fff)->id, at(&b, 0x1234000)->id);
    assert_int_equal(at(&b, 0x1234000)->live_bytes, 0x42000);
    data_allocate(b.d, DATA_LAYER_HEAP, 0x1254ff0, 64, NULL, 0); /* over the old end */
    data_release(b.d, DATA_LAYER_HEAP, 0x1254ff0);
    assert_int_equal(at(&b, 0x1255010)->id, at(&b, 0x1234000)->id);
    enter(&b, "brk", STACK, 0x1250000, 0);
    leave(&b, STACK, 0);
    assert_int_equal(at(&b, 0x1250000)->id, 0);
    see(b.d, "01234000-01290000 rw-p 00000000 00:00 0          [heap]\n"); /* before the calls are told: */
    assert_int_equal(at(&b, 0x128ffff)->id, at(&b, 0x1234000)->id);
    for (uint64_t to = 0x1270000; to <= 0x1290000; to += 0x20000) {
        enter(&b, "brk", STACK, to, 0);
        leave(&b, STACK, 0);
        assert_int_equal(at(&b, to - 1)->id, at(&b, 0x1234000)->id);
        assert_int_equal(at(&b, to)->id, 0);
    }
    assert_int_equal(at(&b, 0x1250000)->id, at(&b, 0x1234000)->id);
    assert_int_equal(at(&b, 0x1234000)->live_bytes, 0x5c000);
    end(&b);
}

/* Where nothing is known but one call of a program without names, blocks of one size are an object. */
static void sizes_tell_where_paths_do_not(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    static const uint64_t bytes[] = {10, 16, 17, 32, 33, 10};
    uint64_t path[] = {first_return(&b, "build"), first_return(&b, "main")};
    uint32_t ids[ARRAY_LEN(bytes)];
    for (size_t i = 0; i < ARRAY_LEN(bytes); i++) {
        data_allocate(b.d, DATA_LAYER_HEAP, HEAP + i * 64, bytes[i], path, 1);
        assert_int_equal(at(&b, HEAP + i * 64)->id, at(&b, HEAP)->id);
    }
    end(&b);
    b = start_of(bare, NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(bytes); i++) {
        data_allocate(b.d, DATA_LAYER_HEAP, HEAP + i * 64, bytes[i], path, 1);
        ids[i] = at(&b, HEAP + i * 64)->id;
    }
    assert_int_equal(ids[1], ids[0]);
    assert_int_equal(ids[5], ids[0]);
    assert_int_equal(ids[3], ids[2]);
    assert_true(ids[0] != ids[2] && ids[2] != ids[4] && ids[0] != ids[4]);
    assert_int_equal(at(&b, HEAP)->blocks, 3);
    assert_non_null(strstr(data_object_name(b.d, ids[2]), "17-32 bytes at "));
    for (size_t i = 0; i < ARRAY_LEN(bytes); i++) { /* two calls tell more */
        data_allocate(b.d, DATA_LAYER_HEAP, HEAP + i * 64, bytes[i], path, 2);
        assert_int_equal(at(&b, HEAP + i * 64)->id, at(&b, HEAP)->id);
    }
    end(&b);
}

/* What a program allocates before anybody looks at what is mapped stays. */
static void the_break_is_seen_late(void **state)
{
    (void)state;
    struct bench b = start(NULL, 0);
    static const uint64_t blocks[][2] = {{0x12342a0, 24}, {0x1235021, 30}, {0x1238000, 0x3000}};
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
        data_allocate(b.d, DATA_LAYER_HEAP, blocks[i][0], blocks[i][1], NULL, 0);
    uint32_t heap = at(&b, 0x1238000)->id;
    see(b.d, "01234000-01255000 rw-p 00000000 00:00 0          [heap]\n");
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++) {
        assert_int_equal(at(&b, blocks[i][0])->id, heap);
        assert_int_equal(at(&b, blocks[i][0] + blocks[i][1] - 1)->id, heap);
    }
    for (uint64_t address = 0x1234000; address < 0x1255000; address = ALIGN_UP(address + 1, 4096))
        if (address < 0x1238000 || address >= 0x123b000)
            assert_string_equal(data_object_name(b.d, at(&b, address)->id), "break");
    assert_string_equal(data_object_name(b.d, at(&b, 0x1254fff)->id), "break");
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
        data_release(b.d, DATA_LAYER_HEAP, blocks[i][0]);
    assert_int_equal(data_lost(b.d)->frees, 0);
    end(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_are_paths),
        cmocka_unit_test(paths_of_copies_are_the_originals),
        cmocka_unit_test(paths_are_known_by_their_words),
        cmocka_unit_test(known_paths_are_of_several_layers),
        cmocka_unit_test(names_are_looked_for_farther_up),
        cmocka_unit_test(what_was_cut_is_not_known_again),
        cmocka_unit_test(functions_give_and_take),
        cmocka_unit_test(what_is_stored_is_read_from_the_stack),
        cmocka_unit_test(what_is_handed_on_is_one_block),
        cmocka_unit_test(calls_that_do_not_return_are_forgotten),
        cmocka_unit_test(cleared_memory_is_handed_on),
        cmocka_unit_test(allocators_of_the_program_lie_upon_malloc),
        cmocka_unit_test(mappings_of_allocators_are_theirs),
        cmocka_unit_test(the_kernel_says_what_is_mapped),
        cmocka_unit_test(the_break_goes_on),
        cmocka_unit_test(the_break_is_seen_late),
        cmocka_unit_test(sizes_tell_where_paths_do_not),
    };
    assert_true(argc > 4);
    named = argv[1];
    bare = argv[2];
    partly = argv[4];
    real_named = realpath(named, NULL);
    assert_non_null(real_named);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(real_named);
    return failed;
}
