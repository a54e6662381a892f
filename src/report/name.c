/* SPDX-License-Identifier: Apache-2.0
 * Names of functions as people wrote them. The C++ run time library of this machine does the work if it is there (no
 * build depends on it); Rust names of the older kind are C++ names with escapes and a hash, which are fixed here,
 * those of the newer kind are read by rust.c. */
#include <dlfcn.h>
#include <stdlib.h>

#include "report/impl.h"

#define INLINED " (inlined in " /* as prof names a loop that was inlined: "INNER (inlined in OUTER)" */

typedef char *demangle_fn(const char *mangled, char *buffer, size_t *len, int *status);

static demangle_fn *demangler(void)
{
    static demangle_fn *fn;
    static bool is_tried;
    if (!is_tried) {
        is_tried = true;
        void *lib = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        void *symbol = lib ? dlsym(lib, "__cxa_demangle") : NULL;
        memcpy(&fn, &symbol, sizeof fn); /* ISO C has no cast from object to function pointer; POSIX promises this */
    }
    return fn;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '$';
}

/* "core::fmt::write::h0123456789abcdef" without the hash. */
static size_t without_rust_hash(const char *s, size_t len)
{
    const size_t hash = sizeof "::h0123456789abcdef" - 1;
    if (len <= hash || strncmp(s + len - hash, "::h", 3) != 0)
        return len;
    return strspn(s + len - hash + 3, "0123456789abcdef") == 16 ? len - hash : len;
}

static void put_rust(struct strbuf *out, const char *s, size_t len)
{
    static const struct {
        const char *code, *text;
    } escapes[] = {{"$LT$", "<"},  {"$GT$", ">"},  {"$LP$", "("},  {"$RP$", ")"},  {"$C$", ","},   {"$RF$", "&"},
                   {"$BP$", "*"},  {"$SP$", "@"},  {"$u20$", " "}, {"$u27$", "'"}, {"$u5b$", "["}, {"$u5d$", "]"},
                   {"$u7b$", "{"}, {"$u7d$", "}"}, {"$u7e$", "~"}, {"$u3b$", ";"}, {"$u2b$", "+"}, {"..", "::"}};
    for (size_t i = 0, k; i < len;) {
        for (k = 0; k < ARRAY_LEN(escapes); k++)
            if (strncmp(s + i, escapes[k].code, strlen(escapes[k].code)) == 0)
                break;
        if (s[i] == '_' && s[i + 1] == '$') {
            i++; /* an identifier cannot begin with $ */
        } else if (k < ARRAY_LEN(escapes)) {
            str_puts(out, escapes[k].text);
            i += strlen(escapes[k].code);
        } else {
            str_put(out, s + i++, 1);
        }
    }
}

static void put_demangled(struct strbuf *out, const char *token, size_t len)
{
    char *mangled = xmalloc(len + 1), *plain = NULL;
    int status = -1;
    memcpy(mangled, token, len);
    if (demangler())
        plain = demangler()(mangled, NULL, NULL, &status);
    size_t plain_len = plain ? strlen(plain) : 0, kept = plain ? without_rust_hash(plain, plain_len) : 0;
    if (status != 0 || !plain)
        str_put(out, token, len);
    else if (kept < plain_len)
        put_rust(out, plain, kept);
    else
        str_puts(out, plain);
    free(plain);
    free(mangled);
}

const char *name_plain(struct arena *a, const char *function)
{
    struct strbuf out = {0};
    if (!strstr(function, "_Z") && !strstr(function, "_R"))
        return function;
    for (const char *s = function; *s;) {
        size_t len = 0;
        while (is_name_char(s[len]))
            len++;
        if (len > 2 && s[0] == '_' && s[1] == 'Z')
            put_demangled(&out, s, len);
        else if (!(len > 2 && s[0] == '_' && s[1] == 'R' && rust_plain(&out, s, len)))
            str_put(&out, s, len ? len : 1);
        s += len ? len : 1;
    }
    const char *plain = arena_strndup(a, out.data, out.len);
    str_free(&out);
    return plain;
}

const char *name_warning_text(struct arena *a, const struct prof_warning *w)
{
    return w->text ? name_plain(a, w->text) : "?";
}

/* Length of the name before its arguments: "f(int) const" is 1, "operator()(int)" is 10. */
static size_t length_without_arguments(const char *s, size_t len)
{
    static const char constant[] = " const";
    const char *clone = strstr(s, " [clone");
    size_t end = clone ? (size_t)(clone - s) : len, depth = 0;
    if (end > sizeof constant && strncmp(s + end - (sizeof constant - 1), constant, sizeof constant - 1) == 0)
        end -= sizeof constant - 1;
    if (end == 0 || s[end - 1] != ')')
        return len;
    for (size_t i = end; i-- > 0;) {
        depth += s[i] == ')';
        if (s[i] == '(' && --depth == 0)
            return i > 0 && s[i - 1] != ' ' ? i : len;
    }
    return len;
}

/* "operator<<" is a name, not the beginning of template arguments. */
static size_t operator_length(const char *s)
{
    static const char word[] = "operator";
    return strncmp(s, word, sizeof word - 1) == 0 ? sizeof word - 1 + strspn(s + sizeof word - 1, "<>=-!()") : 0;
}

const char *name_brief(struct arena *a, const char *plain)
{
    const char *inlined = strstr(plain, INLINED);
    if (inlined) {
        const char *in = inlined + sizeof INLINED - 1;
        const char *inner = name_brief(a, arena_strndup(a, plain, (size_t)(inlined - plain)));
        return arena_printf(a, "%s" INLINED "%s)", inner, name_brief(a, arena_strndup(a, in, strlen(in) - (*in != 0))));
    }
    struct strbuf out = {0};
    size_t len = length_without_arguments(plain, strlen(plain)), depth = 0;
    bool is_rust = plain[0] == '<'; /* "<T as Trait>::method": what is between the brackets is the name */
    str_puts(&out, "");
    for (size_t i = 0; i < len; i++) {
        size_t op = depth ? 0 : operator_length(plain + i);
        if (is_rust) {
            str_put(&out, plain + i, 1);
        } else if (op) {
            str_put(&out, plain + i, min_u64(op, len - i));
            i += op - 1;
        } else if (plain[i] == '<') {
            if (depth++ == 0)
                str_puts(&out, "<..>");
        } else if (plain[i] == '>' && depth) {
            depth--;
        } else if (!depth) {
            str_put(&out, plain + i, 1);
        }
    }
    const char *brief = arena_strndup(a, out.data, out.len);
    str_free(&out);
    return brief;
}
