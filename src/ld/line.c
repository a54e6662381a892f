/* SPDX-License-Identifier: Apache-2.0
 * The command line of a linker: which of its words are inputs, and which files they name. Words that are not known are
 * left to the linker. */
#include <ctype.h>

#include "ld/ld.h"

enum { RESPONSE_DEPTH = 16 };

struct state { /* of --push-state */
    bool is_static, is_whole;
};
struct parser {
    struct ld_line *line;
    struct state now;
    VEC(struct state) pushed;
    VEC(const char *) folders; /* of -L: they hold for what stands before them too */
    const char *sysroot;
};

static const char *const with_value[] = {
#define WORD(option) option,
#include "ld/words.def"
#undef WORD
};

/* ---- @files ---- */

/* A word of a response file: blanks end it, quotes and backslashes as in a shell. NULL at the end. */
static const char *next_word(struct arena *a, const char **at)
{
    struct strbuf out = {0};
    const char *p = *at;
    char quote = 0;
    while (isspace((unsigned char)*p))
        p++;
    if (!*p)
        return NULL;
    for (; *p && (quote || !isspace((unsigned char)*p)); p++) {
        if (quote ? *p == quote : (*p == '"' || *p == '\''))
            quote = quote ? 0 : *p;
        else if (*p == '\\' && p[1] && quote != '\'')
            str_put(&out, ++p, 1);
        else
            str_put(&out, p, 1);
    }
    *at = p;
    const char *word = arena_strndup(a, out.data ? out.data : "", out.len);
    str_free(&out);
    return word;
}

static void add_words(struct ld_line *line, const char *word, int depth)
{
    struct file_bytes f;
    if (word[0] != '@' || depth == RESPONSE_DEPTH || file_map(word + 1, &f) < 0) {
        VEC_PUSH(&line->args, word); /* what cannot be read is left as it is, as linkers do */
        return;
    }
    const char *text = arena_strndup(line->arena, (const char *)f.data, f.len), *w;
    file_unmap(&f);
    while ((w = next_word(line->arena, &text)))
        add_words(line, w, depth + 1);
}

/* ---- options ---- */

static bool has_value(const char *option) /* without its dashes */
{
    for (size_t i = 0; i < ARRAY_LEN(with_value); i++)
        if (!strcmp(with_value[i], option))
            return true;
    return false;
}

static bool is_one_of(const char *option, const char *all) /* with blanks between and around */
{
    char word[64];
    return (size_t)snprintf(word, sizeof word, " %s ", option) < sizeof word && strstr(all, word);
}

static void take_switch(struct parser *p, const char *o)
{
    if (is_one_of(o, " static Bstatic dn non_shared "))
        p->now.is_static = true;
    else if (is_one_of(o, " Bdynamic dy call_shared "))
        p->now.is_static = false;
    else if (is_one_of(o, " whole-archive no-whole-archive "))
        p->now.is_whole = *o == 'w';
    else if (is_one_of(o, " r i relocatable Ur "))
        p->line->is_partial = true;
    else if (is_one_of(o, " shared Bshareable "))
        p->line->is_shared = true;
    else if (!strcmp(o, "push-state"))
        VEC_PUSH(&p->pushed, p->now);
    else if (!strcmp(o, "pop-state") && p->pushed.len)
        p->now = p->pushed.data[--p->pushed.len];
}

static void add_input(struct parser *p, size_t arg, const char *text, bool is_library)
{
    struct ld_input in = {.arg = arg, .path = text, .is_library = is_library, .is_whole = p->now.is_whole};
    if (is_library) /* until all folders are known; a blank in front: static ones only */
        in.path = p->now.is_static ? arena_printf(p->line->arena, " %s", text) : text;
    VEC_PUSH(&p->line->inputs, in);
}

static void take_value(struct parser *p, size_t arg, const char *option, const char *value)
{
    if (is_one_of(option, " o output "))
        p->line->output = value;
    else if (is_one_of(option, " L library-path "))
        VEC_PUSH(&p->folders, value);
    else if (is_one_of(option, " l library "))
        add_input(p, arg, value, true);
    else if (!strcmp(option, "sysroot"))
        p->sysroot = value;
}

/* Returns how many words it took. */
static size_t take_option(struct parser *p, size_t i)
{
    const char *word = p->line->args.data[i], *next = p->line->args.data[i + 1], *o = word + 1;
    bool is_long = *o == '-';
    o += is_long;
    const char *equals = strchr(o, '=');
    if (equals && equals - o > 1) {
        take_value(p, i, arena_strndup(p->line->arena, o, (size_t)(equals - o)), equals + 1);
        return 1;
    }
    if (has_value(o) && (!is_long || o[1]) && next) {
        take_value(p, i, o, next);
        return 2;
    }
    take_switch(p, o);
    if (!is_long && strchr("lLo", *o) && o[1] && !is_one_of(o, " omagic "))
        take_value(p, i, (char[]){*o, 0}, o + 1);
    return 1;
}

/* ---- libraries ---- */

static const char *look_in(struct parser *p, const char *folder, const char *name, bool is_static)
{
    struct arena *a = p->line->arena;
    if (*folder == '=' && p->sysroot)
        folder = arena_printf(a, "%s%s", p->sysroot, folder + 1);
    if (*name == ':') {
        const char *exact = arena_printf(a, "%s/%s", folder, name + 1);
        return file_exists(exact) ? exact : NULL;
    }
    const char *shared = arena_printf(a, "%s/lib%s.so", folder, name);
    const char *archive = arena_printf(a, "%s/lib%s.a", folder, name);
    return !is_static && file_exists(shared) ? shared : file_exists(archive) ? archive : NULL;
}

static const char *find_library(struct parser *p, const char *text)
{
    static const char *const usual[] = {"/usr/local/lib/x86_64-linux-gnu",
                                        "/lib/x86_64-linux-gnu",
                                        "/usr/lib/x86_64-linux-gnu",
                                        "/usr/lib64",
                                        "/usr/local/lib64",
                                        "/lib64",
                                        "/usr/local/lib",
                                        "/lib",
                                        "/usr/lib"};
    bool is_static = *text == ' ';
    const char *name = text + is_static, *found = NULL;
    for (size_t i = 0; i < p->folders.len && !found; i++)
        found = look_in(p, p->folders.data[i], name, is_static);
    for (size_t i = 0; i < ARRAY_LEN(usual) && !found && !p->sysroot; i++)
        found = look_in(p, usual[i], name, is_static);
    return found;
}

/* ---- all ---- */

void ld_line_parse(struct arena *a, const char *const *args, struct ld_line *out)
{
    *out = (struct ld_line){.arena = a, .output = "a.out"};
    struct parser p = {.line = out};
    for (; *args; args++)
        add_words(out, *args, 0);
    VEC_PUSH(&out->args, (const char *)NULL);
    out->args.len--;
    for (size_t i = 0; i < out->args.len;) {
        const char *word = out->args.data[i];
        if (word[0] == '-' && word[1]) {
            i += take_option(&p, i);
        } else {
            add_input(&p, i, word, false);
            i++;
        }
    }
    for (size_t i = 0; i < out->inputs.len; i++)
        if (out->inputs.data[i].is_library)
            out->inputs.data[i].path = find_library(&p, out->inputs.data[i].path);
    out->links = out->inputs.len > 0;
    VEC_FREE(&p.pushed);
    VEC_FREE(&p.folders);
}

void ld_line_free(struct ld_line *l)
{
    VEC_FREE(&l->args);
    VEC_FREE(&l->inputs);
}
