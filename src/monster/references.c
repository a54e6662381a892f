/* SPDX-License-Identifier: Apache-2.0
 * The trace of a state machine as references, in the form of valgrind's lackey, which mtool spy --trace reads: the same
 * addresses and bytes that the caches of the run were reached by. A load and store of one place is one line, at its
 * load; registers of devices, which no cache has, are left out. */
#include "monster/impl.h"

static const struct monster_program *find(const struct monster_result *r, const char *name)
{
    struct strbuf names = {0};
    for (size_t i = 0; i < r->programs.len; i++)
        if (strcmp(r->programs.data[i].name, name) == 0)
            return &r->programs.data[i];
    for (size_t i = 0; i < r->programs.len; i++)
        str_printf(&names, "%s%s", i ? ", " : "", r->programs.data[i].name);
    diag_error("%s: no state machine '%s' ran; %s", r->path, name,
               names.len ? names.data : "there was none (mtool monster run --program references)");
    str_free(&names);
    return NULL;
}

static size_t put(const struct monster_entry *e, struct strbuf *out)
{
    static const char letters[] = "ILSM";
    if (!e->kind || !strchr(letters, e->kind))
        return 0;
    str_printf(out, "%s%c%s%llx,%u\n", e->kind == 'I' ? "" : " ", e->kind, e->kind == 'I' ? "  " : " ",
               (unsigned long long)e->reached, e->bytes);
    return 1;
}

int monster_put_references(const struct monster_result *r, const char *program, struct strbuf *out)
{
    const struct monster_program *p = find(r, program);
    size_t n = 0;
    if (!p)
        return -1;
    for (size_t i = 0; i < p->trace.len; i++)
        n += put(&p->trace.data[i], out);
    if (!n)
        return diag_error("%s: the trace of '%s' has no references", r->path, program);
    if (p->trace_lost)
        diag_note(
            "the trace of '%s' ends early: %llu entries had no room; the line 'trace ENTRIES' of its program makes it",
            program, (unsigned long long)p->trace_lost);
    return 0;
}
