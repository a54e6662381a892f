/* SPDX-License-Identifier: Apache-2.0
 * The two links of promotion: one that keeps relocations and symbols, into the temporary folder, and the build's own
 * with the record of what is decided of the first, whose result is then changed in place. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ld/impl.h"
#include "ld/promote/promote.h"

struct links {
    const struct ld_link *l;
    const struct ld_line *line;
    struct arena *arena;
    struct ld_tally *tally;
    const char *why;
};

/* Options that leave out symbols, or names of sections, which the first link needs. */
static bool strips(const char *word)
{
    static const char *const words[] = {"-s",        "-S",          "-x",          "-X",
                                        "strip-all", "strip-debug", "discard-all", "discard-locals"};
    const char *name = word + strspn(word, "-");
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (words[i][0] == '-' ? !strcmp(word, words[i]) : name > word + 1 && !strcmp(name, words[i]))
            return true;
    return false;
}

static size_t find_end(const struct ld_line *line)
{
    for (size_t i = line->inputs.len; i-- > 0;) {
        const struct ld_input *in = &line->inputs.data[i];
        if (in->path && !in->is_library && !strncmp(file_base_name(in->path), "crtend", 6))
            return in->arg;
    }
    return line->args.len;
}

/* The build's words with the runtime among them. OUTPUT NULL: as the build wants it. */
static const char **make_line(const struct links *k, const char *runtime, const char *output, bool keeps_relocs)
{
    const char **argv = ARENA_ARRAY(k->arena, const char *, k->line->args.len + 10);
    size_t n = 0, end = find_end(k->line);
    argv[n++] = k->l->linker;
    for (size_t i = 0; i <= k->line->args.len; i++) {
        if (i == end)
            argv[n++] = runtime;
        if (i < k->line->args.len && (!output || !strips(k->line->args.data[i])))
            argv[n++] = k->line->args.data[i];
    }
    argv[n++] = "-u"; /* also where what nobody refers to is left out */
    argv[n++] = PROMOTE_MAIN;
    argv[n++] = "-u";
    argv[n++] = PROMOTE_ENTRY;
    if (keeps_relocs)
        argv[n++] = "--emit-relocs";
    if (output) {
        argv[n++] = "-o";
        argv[n++] = output;
    }
    return argv;
}

/* The runtime's object with another record. */
static bool put_runtime(const struct links *k, const char *path, const struct strbuf *record)
{
    struct strbuf out = {0};
    str_put(&out, k->l->tool->runtime, k->l->tool->runtime_len);
    if (record)
        ld_object_fill(&out, PROMOTE_RECORD, record);
    bool is_put = file_write_whole(path, out.data, out.len, 0600) == 0;
    str_free(&out);
    return is_put;
}

static void tell(struct links *k, const struct promote_facts *f, const struct ld_promotion *p)
{
    struct strbuf names = {0};
    for (size_t i = 0; i < p->variables.len; i++) {
        const struct ld_promoted *v = &p->variables.data[i];
        if (!v->reg)
            continue;
        str_printf(&names, "%s%s in %s", names.len ? ", " : "", v->name, v->reg);
        k->tally->promoted++;
    }
    for (size_t i = 0; i < f->accesses.len; i++)
        for (size_t v = 0; v < p->variables.len; v++)
            k->tally->accesses += p->variables.data[v].reg &&
                                  p->variables.data[v].address == f->variables.data[f->accesses.data[i].variable].addr;
    k->tally->funcs = k->tally->funcs_moved = f->cfg->funcs.len;
    k->tally->promoted_what =
        xstrdup(names.len ? str_printable(k->arena, names.data) : str_printable(k->arena, p->why));
    str_free(&names);
}

static int link_captured(struct links *k, const char **argv, const char *what)
{
    int fd = memfd_create("mtool-ld", MFD_CLOEXEC);
    int status = fd >= 0 ? ld_run(argv, fd, fd) : 1;
    char text[1024];
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = 0;
    if (status != 0)
        k->why = arena_printf(k->arena, "%s: %s", what, arena_strndup(k->arena, text, strcspn(text, "\n")));
    if (fd >= 0)
        close(fd);
    return status;
}

/* The build's own link, and what is decided into it. The linker's status; *why is set if the result is not that. */
static int link_second(struct links *k, const struct promote_facts *f)
{
    struct ld_promotion p;
    struct strbuf record = {0};
    const char *runtime = arena_printf(k->arena, "%s/mtool-promoted.o", k->l->folder);
    promote_decide(f, k->l->counts, &p);
    promote_record_put(&p, &record);
    int status = 1;
    if (!put_runtime(k, runtime, &record)) {
        k->why = "there is no room for its temporary files";
    } else if ((status = ld_run(make_line(k, runtime, NULL, false), -1, -1)) == 0 && !*p.why &&
               promote_patch(f, &p, k->line->output, &k->why) < 0) {
        /* lld lays out otherwise where it keeps relocations: then they are kept */
        status = link_captured(k, make_line(k, runtime, NULL, true), "the linker refuses to keep relocations");
        if (status == 0 && promote_patch(f, &p, k->line->output, &k->why) < 0)
            status = 1;
    }
    if (status == 0)
        tell(k, f, &p);
    VEC_FREE(&p.variables);
    str_free(&record);
    return status;
}

static int link_of(struct links *k, const char *first)
{
    struct image *img = NULL;
    struct cfg *cfg = NULL;
    struct promote_facts facts;
    struct strbuf said = {0};
    int status = 1;
    diag_hold(&said);
    bool is_read = image_open_copy(first, &img) == 0 && cfg_build(img, &cfg) == 0;
    diag_hold(NULL);
    str_free(&said);
    if (is_read) {
        promote_facts_find(img, cfg, &facts);
        status = link_second(k, &facts);
        promote_facts_fini(&facts);
    } else {
        k->why = "what the linker makes of it is not understood";
    }
    cfg_free(cfg);
    image_close(img);
    return status;
}

int ld_link_promoted(const struct ld_link *l, const struct ld_line *line, struct arena *a, struct ld_tally *tally,
                     const char **why)
{
    struct links k = {l, line, a, tally, NULL};
    const char *runtime = arena_printf(a, "%s/mtool-promote.o", l->folder),
               *first = arena_printf(a, "%s/first", l->folder);
    int status = 1;
    if (line->is_shared)
        k.why = "it is a shared object, whose registers are those of who calls it";
    else if (!put_runtime(&k, runtime, NULL))
        k.why = "there is no room for its temporary files";
    else if (link_captured(&k, make_line(&k, runtime, first, true), "the linker refuses to keep relocations") == 0)
        status = link_of(&k, first);
    (void)unlink(first);
    if (status != 0) { /* as it was meant; what it says is said */
        status = ld_run_plain(l, a, NULL);
        *why = status == 0 ? k.why ? k.why : "the linker refuses what is added" : NULL;
    }
    return status;
}
