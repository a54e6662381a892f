/* SPDX-License-Identifier: Apache-2.0
 *
 * waits: whether a thread that was seen with a chain of calls was waiting for others, whose code asked for it, and by
 * which function. Known by the library that it was in, by the function's name, or since it was in a loop that can only
 * wait; never by how long it took.
 */
#include "prof/impl.h"

#include <fnmatch.h>

static enum waits_library library_of_path(const char *path)
{
    static const struct {
        const char *file;
        enum waits_library kind;
    } known[] = {
#define RUNTIME(file, kind) {file, WAITS_##kind},
#include "prof/runtimes.def"
#undef RUNTIME
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (fnmatch(known[i].file, file_base_name(path), 0) == 0)
            return known[i].kind;
    return WAITS_NONE;
}

static bool is_name_of_wait(const char *name)
{
    static const char *const known[] = {
#define WAIT(name) name,
#include "prof/waits.def"
#undef WAIT
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (fnmatch(known[i], name, 0) == 0)
            return true;
    return false;
}

struct waits {
    struct join *j;
    uint8_t *library;          /* [module] */
    uint8_t *loop;             /* [loop of all modules]: 1 no, 2 yes, 0 not asked */
    uint8_t *named;            /* [function of all modules]: likewise, whether its name is one of a wait */
    struct waits_sense *sense; /* [frame] */
    bool *is_known;
};

struct waits *waits_open(struct join *j)
{
    struct waits *w = ARENA_NEW(j->scratch, struct waits);
    w->j = j;
    w->library = ARENA_ARRAY(j->scratch, uint8_t, j->module_count + 1);
    w->loop = ARENA_ARRAY(j->scratch, uint8_t, j->loop_count + 1);
    w->named = ARENA_ARRAY(j->scratch, uint8_t, j->func_count + 1);
    w->sense = ARENA_ARRAY(j->scratch, struct waits_sense, j->in->frame_count + 1);
    w->is_known = ARENA_ARRAY(j->scratch, bool, j->in->frame_count + 1);
    for (uint32_t i = 0; i < j->module_count; i++)
        w->library[i] = (uint8_t)library_of_path(j->modules[i].path);
    return w;
}

static struct join_module *module_of(struct waits *w, uint32_t frame)
{
    uint32_t module = w->j->in->frames[frame].module;
    return module < w->j->module_count ? &w->j->modules[module] : NULL;
}

enum waits_library waits_library_of_module(const struct waits *w, uint32_t module)
{
    return (enum waits_library)w->library[module];
}

enum waits_library waits_library_of(struct waits *w, uint32_t frame)
{
    uint32_t module = w->j->in->frames[frame].module;
    return module < w->j->module_count ? (enum waits_library)w->library[module] : WAITS_NONE;
}

bool waits_is_wait_loop(struct waits *w, const struct join_module *m, uint32_t loop)
{
    uint8_t *known = &w->loop[m->loop_base + loop];
    if (*known == 0)
        *known = spins_is_wait_loop(m, loop) ? 2 : 1;
    return *known == 2;
}

/* In a loop that waits, or in one inside of it (which takes its time between two looks). */
static bool is_in_wait_loop(struct waits *w, uint32_t frame)
{
    const struct join_module *m = module_of(w, frame);
    uint32_t b = m && m->cfg ? cfg_block_at(m->cfg, w->j->in->frames[frame].vaddr) : ID_NONE;
    if (b == ID_NONE)
        return false;
    for (uint32_t l = m->cfg->blocks.data[b].loop; l != ID_NONE; l = m->cfg->loops.data[l].parent)
        if (waits_is_wait_loop(w, m, l))
            return true;
    return false;
}

static uint32_t function_of(struct waits *w, uint32_t frame)
{
    const struct join_module *m = module_of(w, frame);
    return m && m->cfg ? cfg_func_at(m->cfg, w->j->in->frames[frame].vaddr) : ID_NONE;
}

static bool is_named_wait(struct waits *w, uint32_t frame)
{
    uint32_t func = function_of(w, frame);
    if (func == ID_NONE)
        return false;
    struct join_module *m = module_of(w, frame);
    uint8_t *known = &w->named[m->func_base + func];
    if (*known == 0)
        *known = is_name_of_wait(join_func_name(w->j, m, func)) ? 2 : 1;
    return *known == 2;
}

/* From the innermost frame outwards, as far as code is that of libraries in between (or that they left in a static
 * program, as far as names tell). */
static struct waits_sense make_sense(struct waits *w, uint32_t frame)
{
    const struct observed_frame *frames = w->j->in->frames;
    struct waits_sense s = {.caller = ID_NONE, .into = ID_NONE, .is_wait = is_in_wait_loop(w, frame)};
    uint32_t last = ID_NONE;
    for (uint32_t f = frame; f != ID_NONE; f = frames[f].parent) {
        enum waits_library kind = waits_library_of(w, f);
        bool is_named = kind < WAITS_PARALLEL && is_named_wait(w, f);
        if (kind == WAITS_NONE && !is_named) {
            s.caller = frames[f].module == ID_NONE ? ID_NONE : f;
            break;
        }
        bool waits = kind >= WAITS_PARALLEL || is_named;
        s.is_wait |= waits;
        last = f;
        if (waits)
            s.into = f;
    }
    if (s.caller != ID_NONE)
        s.into = last; /* what the program's own code called */
    return s;
}

const struct waits_sense *waits_sense_of(struct waits *w, uint32_t frame)
{
    if (!w->is_known[frame])
        w->sense[frame] = make_sense(w, frame);
    w->is_known[frame] = true;
    return &w->sense[frame];
}

/* What the caller's code names in its call: also where the called function went on into another. NULL: not said. */
static const char *name_in_call(struct waits *w, uint32_t frame)
{
    struct join_module *m = frame == ID_NONE ? NULL : module_of(w, frame);
    uint64_t vaddr = w->j->in->frames[frame == ID_NONE ? 0 : frame].vaddr;
    uint32_t b = m && m->cfg ? cfg_block_at(m->cfg, vaddr) : ID_NONE;
    const struct cfg_block *block = b == ID_NONE ? NULL : &m->cfg->blocks.data[b];
    if (!block || !block->call_target || vaddr + 1 != block->addr + block->size)
        return NULL;
    uint32_t func = cfg_func_at(m->cfg, block->call_target);
    const char *name = func == ID_NONE ? NULL : join_func_name(w->j, m, func);
    return name && name[0] != '0' ? name : NULL;
}

const char *waits_name(struct waits *w, const struct waits_sense *s)
{
    uint32_t frame = s->into;
    if (frame == ID_NONE || !module_of(w, frame))
        return NULL;
    const char *called = name_in_call(w, s->caller);
    if (called)
        return called;
    uint32_t func = function_of(w, frame);
    struct join_module *m = module_of(w, frame);
    const char *name = func == ID_NONE ? NULL : join_func_name(w->j, m, func);
    return name && name[0] != '0' ? name : file_base_name(m->path);
}

/* System calls in which a thread waits for another. */
static bool is_futex(int32_t number)
{
    enum { FUTEX = 202, FUTEX_WAITV = 449, FUTEX_WAIT = 455 };
    return number == FUTEX || number == FUTEX_WAITV || number == FUTEX_WAIT;
}

bool waits_is_waiting(struct waits *w, const struct observed_thread_sample *d)
{
    return waits_sense_of(w, d->stack)->is_wait || (d->activity == OBSERVED_BLOCKED && is_futex(d->syscall));
}
