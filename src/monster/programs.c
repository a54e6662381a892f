/* SPDX-License-Identifier: Apache-2.0
 * Programs of state machines, read and checked before the guest is booted: what is wrong in them is said at once, names
 * that no function has too. */
#include <errno.h>
#include <stdlib.h>

#include "monster/impl.h"
#include "states/states.h"

struct function {
    const char *name;
    struct states_range range; /* empty of user code */
};
struct symbols {
    struct arena *a;
    VEC(struct function) functions;
    VEC(struct function) others; /* range.first: the address */
};

static void take_symbol(void *ctx, char *line)
{
    struct symbols *s = ctx;
    char *at;
    uint64_t address = strtoull(line, &at, 16);
    if (*at != ' ' || !at[1] || at[2] != ' ')
        return;
    struct function f = {arena_strndup(s->a, at + 3, strcspn(at + 3, "\t\n")), {address, address}};
    if (strchr("tTwWiI", at[1]) && (int64_t)address < 0)
        VEC_PUSH(&s->functions, f);
    else
        VEC_PUSH(&s->others, f);
}

static void take_module_line(void *ctx, char *line)
{
    struct symbols *s = ctx;
    char *name;
    if (strncmp(line, "function ", 9) != 0 || !(name = strchr(line + 9, ' ')))
        return;
    struct function f = {arena_strndup(s->a, name + 1, strcspn(name + 1, "\n")), {1, 0}};
    VEC_PUSH(&s->functions, f);
}

static int read_lines(struct symbols *s, const char *path, void (*take)(void *ctx, char *line))
{
    return file_each_line(path, take, s) < 0 ? diag_error("cannot read %s: %s", path, strerror(errno)) : 0;
}

static bool function_at(void *ctx, size_t i, const char **name, struct states_range *range)
{
    const struct symbols *s = ctx;
    if (i >= s->functions.len)
        return false;
    *name = s->functions.data[i].name;
    *range = s->functions.data[i].range;
    return true;
}

static bool symbol_named(void *ctx, const char *name, uint64_t *address)
{
    const struct symbols *s = ctx;
    for (size_t i = 0; i < s->others.len; i++)
        if (strcmp(s->others.data[i].name, name) == 0) {
            *address = s->others.data[i].range.first;
            return true;
        }
    return false;
}

const char *monster_like(struct arena *a, const char *wanted, const char *(*at)(size_t i))
{
    const char *name, *best = NULL;
    size_t least = strlen(wanted) / 2 + 1;
    for (size_t i = 0; (name = at(i)); i++)
        if (str_distance(wanted, name) < least) {
            least = str_distance(wanted, name);
            best = arena_strdup(a, name);
        }
    return best ? arena_printf(a, "; nearest: %s", best) : "";
}

static const char *shipped_name(size_t i)
{
    const char *name;
    return states_shipped(i, &name) ? name : NULL;
}

/* The text of a file, or of a program that is built in, in the arena; NULL after one line. */
static const char *text_of(struct arena *a, const char *which)
{
    const char *name, *text;
    struct file_bytes f;
    for (size_t i = 0; (text = states_shipped(i, &name)); i++)
        if (strcmp(name, which) == 0)
            return text;
    if (file_map(which, &f) < 0) {
        diag_error("monster run: there is no program '%s': a file, or the name of one that is built in "
                   "(doc/states.md)%s",
                   which, monster_like(a, which, shipped_name));
        return NULL;
    }
    text = arena_strndup(a, (const char *)f.data, f.len);
    file_unmap(&f);
    return text;
}

static int check(const struct states_program *p, bool has_machine)
{
    for (size_t i = 0; i < p->patterns.len && !has_machine; i++)
        if (p->patterns.data[i].has_miss)
            return diag_error("%s: the pattern %s asks for misses: they need --model", p->name,
                              p->patterns.data[i].name);
    return 0;
}

static int take_program(struct symbols *s, const char *which, const char *to, bool has_machine, bool analyser)
{
    const struct states_symbols symbols = {.ctx = s, .function = function_at, .symbol = symbol_named};
    const char *text = text_of(s->a, which);
    struct states_program *p = text ? states_parse(which, text, strlen(text), analyser) : NULL;
    int rc = p && check(p, has_machine) == 0 ? states_resolve(p, &symbols) : -1;
    states_free(p);
    if (rc == 0 && file_write_whole(to, text, strlen(text), 0600) < 0)
        rc = diag_error("cannot write %s: %s", to, strerror(errno));
    return rc;
}

/* The name that the program has in the result is that of its file. */
int monster_programs_write(const struct monster_options *o, const char *kernel_symbols, const char *modules,
                           const char *folder, struct strbuf *settings)
{
    struct symbols s = {.a = arena_new()};
    int rc = 0;
    if (o->program_count)
        rc = read_lines(&s, kernel_symbols, take_symbol) < 0 ? -1 : read_lines(&s, modules, take_module_line);
    for (size_t i = 0; rc == 0 && i < o->program_count; i++) {
        const char *base = file_base_name(o->programs[i]), *point = strrchr(base, '.');
        const char *to = arena_printf(s.a, "%s/%zu", folder, i);
        if (file_make_dirs(to, 0700) < 0)
            rc = diag_error("cannot write into %s: %s", folder, strerror(errno));
        to = arena_printf(s.a, "%s/%.*s.states", to, point ? (int)(point - base) : (int)strlen(base), base);
        if (rc == 0)
            rc = take_program(&s, o->programs[i], to, o->machine, o->analyser);
        str_printf(settings, "program %s\n", to);
    }
    VEC_FREE(&s.functions);
    VEC_FREE(&s.others);
    arena_free(s.a);
    return rc;
}
