/* SPDX-License-Identifier: Apache-2.0
 * What a compiler needs beside its libraries: gcc, clang and what is called cc start other programs, read headers and
 * link with files that no argument names. It is asked itself which they are: its programs and start files by
 * -print-prog-name and -print-file-name, the headers of each source that the guest gets by -M, with the options of the
 * command that headers depend on. What it does not know is left out; the guest's compiler says what it lacks then. */
#include "monster/impl.h"

#include <ctype.h>
#include <unistd.h>

#include "guest/guest.h"

enum { SOURCES_MAX = 2000 };

/* "x86_64-linux-gnu-gcc-12" is gcc. */
static bool is_named(const char *program, const char *name)
{
    const char *base = file_base_name(program);
    size_t len = strlen(base), wanted = strlen(name);
    while (len && (isdigit((unsigned char)base[len - 1]) || base[len - 1] == '.'))
        len--;
    len -= len && base[len - 1] == '-';
    return len >= wanted && strncmp(base + len - wanted, name, wanted) == 0 &&
           (len == wanted || base[len - wanted - 1] == '-');
}

static const struct compiler {
    const char *name;
    bool is_of_cxx;
} compilers[] = {{"gcc", false}, {"cc", false}, {"clang", false}, {"g++", true}, {"c++", true}, {"clang++", true}};

/* NULL: the program is none. */
static const struct compiler *compiler_of(const char *program)
{
    for (size_t i = 0; i < ARRAY_LEN(compilers); i++)
        if (is_named(program, compilers[i].name))
            return &compilers[i];
    return NULL;
}

static bool ends_with(const char *path, const char *const *ends, size_t count)
{
    const char *point = strrchr(file_base_name(path), '.');
    for (size_t i = 0; point && i < count; i++)
        if (strcmp(point, ends[i]) == 0)
            return true;
    return false;
}

static bool is_cxx_source(const char *path)
{
    static const char *const ends[] = {".cc", ".cpp", ".cxx", ".C", ".c++", ".ii"};
    return ends_with(path, ends, ARRAY_LEN(ends));
}

static bool is_source(const char *path)
{
    static const char *const ends[] = {".c", ".S"};
    return ends_with(path, ends, ARRAY_LEN(ends)) || (is_cxx_source(path) && !strstr(path, ".ii"));
}

/* ---- its own programs and files ---- */

/* What it says of one, which may be a name alone: a program of PATH. */
static int add_asked(struct guest_tree *t, const char *compiler, const char *question, const char *name)
{
    struct strbuf out = {0};
    const char *argv[] = {compiler, arena_printf(t->arena, "-print-%s-name=%s", question, name), NULL};
    int rc = 0;
    if (guest_run_tool(argv, NULL, &out, NULL) == 0 && out.data) {
        out.data[strcspn(out.data, "\n")] = 0;
        const char *at = out.data;
        if (!strchr(at, '/') && strcmp(question, "prog") == 0)
            at = guest_find_program(t->arena, at);
        if (at && strchr(at, '/') && access(at, R_OK) == 0)
            rc = guest_tree_add(t, at);
    }
    str_free(&out);
    return rc;
}

static int add_own(struct guest_tree *t, const char *compiler, bool has_cxx)
{
    static const char *const programs[] = {"cc1", "collect2", "as", "ld", "cc1plus"};
    static const char *const files[] = {
        "crt1.o",           "Scrt1.o",          "crti.o",   "crtn.o",      "crtbegin.o",   "crtbeginS.o",
        "crtend.o",         "crtendS.o",        "libgcc.a", "libgcc_s.so", "libc.so",      "libc.so.6",
        "libgcc_s.so.1",    "libc_nonshared.a", "libm.so",  "libm.so.6",   "libmvec.so.1", "ld-linux-x86-64.so.2",
        "liblto_plugin.so", "libstdc++.so"};
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(programs) - !has_cxx && rc == 0; i++)
        rc = add_asked(t, compiler, "prog", programs[i]);
    for (size_t i = 0; i < ARRAY_LEN(files) - !has_cxx && rc == 0; i++)
        rc = add_asked(t, compiler, "file", files[i]);
    return rc;
}

/* ---- headers ---- */

/* Options of the command that say which headers there are, with their values. */
static size_t put_options(const char *const *argv, const char **out)
{
    static const char *const ones[] = {"-I",      "-D", "-U", "-std=", "-include", "-isystem",
                                       "-iquote", "-O", "-f", "-m",    "-pthread", "-nostdinc"};
    size_t n = 0;
    for (size_t i = 1; argv[i]; i++)
        for (size_t k = 0; k < ARRAY_LEN(ones); k++) {
            if (strncmp(argv[i], ones[k], strlen(ones[k])) != 0)
                continue;
            bool has_next = strcmp(argv[i], ones[k]) == 0 && strchr("IDUi", ones[k][1]) && argv[i + 1];
            out[n++] = argv[i];
            if (has_next)
                out[n++] = argv[++i];
            break;
        }
    return n;
}

/* The rules of make that it printed: OBJECT: FILE..., lines that go on end in a backslash. */
static int add_listed(struct guest_tree *t, char *text)
{
    char *state = NULL;
    int rc = 0;
    for (char *word = text ? strtok_r(text, " \n", &state) : NULL; word && rc == 0;
         word = strtok_r(NULL, " \n", &state))
        if (word[strlen(word) - 1] != ':' && !strchr(word, '\\') && access(word, R_OK) == 0)
            rc = guest_tree_add(t, word);
    return rc;
}

static int add_headers(struct guest_tree *t, const char *compiler, const char *const *options, size_t count)
{
    size_t n = 0, nodes = t->nodes.len;
    struct strbuf out = {0};
    const char **argv = ARENA_ARRAY(t->arena, const char *, count + SOURCES_MAX + 4);
    argv[n++] = compiler;
    argv[n++] = "-M";
    argv[n++] = "-MG"; /* one that is not there is no error, but made later, say */
    for (size_t i = 0; i < count; i++)
        argv[n++] = options[i];
    size_t before = n;
    for (size_t i = 0; i < nodes && n < before + SOURCES_MAX; i++)
        if (t->nodes.data[i].source && is_source(t->nodes.data[i].source))
            argv[n++] = t->nodes.data[i].source;
    argv[n] = NULL;
    int rc = 0;
    if (n > before) {
        guest_run_tool(argv, NULL, &out, NULL);
        rc = add_listed(t, out.data);
    }
    str_free(&out);
    return rc;
}

/* Where something else than the command starts the compiler, its options are not known: both with usual ones, which
 * have more headers, and without. */
static int add_all_headers(struct guest_tree *t, const char *compiler, const char *const *command)
{
    static const char *const usual[] = {"-O2", "-D_GNU_SOURCE", "-D_FORTIFY_SOURCE=2", "-pthread"};
    size_t words = 0;
    while (command[words])
        words++;
    if (compiler_of(command[0])) {
        const char **options = ARENA_ARRAY(t->arena, const char *, words + 1);
        return add_headers(t, compiler, options, put_options(command, options));
    }
    return add_headers(t, compiler, NULL, 0) < 0 ? -1 : add_headers(t, compiler, usual, ARRAY_LEN(usual));
}

int monster_add_compilers(struct guest_tree *t, const char *const *command)
{
    size_t count = t->programs.len;
    int rc = 0;
    bool has_cxx = false;
    for (size_t i = 0; i < t->nodes.len; i++)
        has_cxx |= t->nodes.data[i].source && is_cxx_source(t->nodes.data[i].source);
    for (size_t i = 0; i < count && rc == 0; i++) {
        const char *program = t->programs.data[i];
        const struct compiler *c = compiler_of(program);
        if (!c)
            continue;
        rc = add_own(t, program, has_cxx || c->is_of_cxx);
        if (rc == 0)
            rc = add_all_headers(t, program, command);
    }
    return rc;
}
