/* SPDX-License-Identifier: Apache-2.0
 * Names of Rust as newer compilers write them ("v0", RFC 2603): _R and a path in prefix notation, with references back
 * to places in the name. What comes out is like what old names give: without the hashes of crates. Identifiers in
 * punycode stay so. A name that is not understood to its end is not a name of Rust.
 */
#include "report/impl.h"

#define DEPTH_MAX 200
#define OUT_MAX 16384 /* references back may make a short name long beyond measure */

struct rust {
    const char *s; /* behind _R: references count from here */
    size_t at, len;
    struct strbuf *out;
    unsigned depth;
    uint64_t bound;  /* lifetimes of the binders around */
    bool is_skipped; /* read, not written */
    bool has_failed;
};

static void path(struct rust *r, bool is_value);
static void type(struct rust *r);
static void constant(struct rust *r);

static char peek(const struct rust *r) { return r->at < r->len && !r->has_failed ? r->s[r->at] : 0; }

static char next(struct rust *r)
{
    char c = peek(r);
    r->has_failed |= c == 0;
    r->at += c != 0;
    return c;
}

static bool eat(struct rust *r, char c)
{
    bool is = peek(r) == c;
    r->at += is;
    return is;
}

static void put(struct rust *r, const char *text, size_t len)
{
    if (r->is_skipped || r->has_failed)
        return;
    str_put(r->out, text, len);
    r->has_failed = r->out->len > OUT_MAX;
}

static void put_text(struct rust *r, const char *text) { put(r, text, strlen(text)); }

static void put_number(struct rust *r, uint64_t n)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    put_text(r, text);
}

/* "_" is 0, "0_" is 1, "Z_" is 62. */
static uint64_t base_62(struct rust *r)
{
    uint64_t n = 0;
    if (eat(r, '_'))
        return 0;
    while (!eat(r, '_') && !r->has_failed) {
        char c = next(r);
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'z' ? (unsigned)(c - 'a') + 10
                                                : (unsigned)(c - 'A') + 36;
        r->has_failed |= digit >= 62 || n > UINT64_MAX / 62 - 62;
        n = n * 62 + digit;
    }
    return n + 1;
}

static uint64_t disambiguator(struct rust *r) { return eat(r, 's') ? base_62(r) + 1 : 0; }

struct word {
    const char *s;
    size_t len;
    bool is_punycode;
};

static struct word identifier(struct rust *r)
{
    struct word w = {.is_punycode = eat(r, 'u')};
    if (!eat(r, '0')) {
        if (peek(r) < '1' || peek(r) > '9')
            r->has_failed = true;
        while (peek(r) >= '0' && peek(r) <= '9' && w.len <= r->len)
            w.len = w.len * 10 + (size_t)(next(r) - '0');
    }
    eat(r, '_');
    if (r->has_failed || w.len > r->len - r->at) {
        r->has_failed = true;
        return (struct word){0};
    }
    w.s = r->s + r->at;
    r->at += w.len;
    return w;
}

static void put_word(struct rust *r, struct word w)
{
    put_text(r, w.is_punycode ? "punycode{" : "");
    put(r, w.s ? w.s : "", w.len);
    put_text(r, w.is_punycode ? "}" : "");
}

/* Reads what stands at a reference's target by `read`. What is skipped need not be followed. */
static void back(struct rust *r, void (*read)(struct rust *, bool), bool argument)
{
    size_t from = r->at - 1, target = base_62(r), here = r->at;
    r->has_failed |= target >= from;
    if (r->has_failed || r->is_skipped)
        return;
    r->at = target;
    read(r, argument);
    r->at = here;
}

static void type_at(struct rust *r, bool unused)
{
    (void)unused;
    type(r);
}

static void constant_at(struct rust *r, bool unused)
{
    (void)unused;
    constant(r);
}

/* ---- lifetimes ---- */

static void put_lifetime(struct rust *r, uint64_t index)
{
    char letter[] = {'\'', 'a', 0};
    r->has_failed |= index > r->bound;
    uint64_t nth = r->bound - index;
    if (index == 0) {
        put_text(r, "'_");
    } else if (nth < 26) {
        letter[1] = (char)('a' + nth);
        put_text(r, letter);
    } else {
        put_text(r, "'_");
        put_number(r, nth);
    }
}

/* "for<'a, 'b> "; how many it binds. */
static uint64_t binder(struct rust *r)
{
    uint64_t count = eat(r, 'G') ? base_62(r) + 1 : 0;
    r->has_failed |= count > 1000;
    for (uint64_t i = 0; i < count && !r->has_failed; i++) {
        put_text(r, i ? ", " : "for<");
        r->bound++;
        put_lifetime(r, 1);
    }
    put_text(r, count ? "> " : "");
    return count;
}

/* ---- generic arguments, types ---- */

static void argument(struct rust *r)
{
    if (eat(r, 'L'))
        put_lifetime(r, base_62(r));
    else if (eat(r, 'K'))
        constant(r);
    else
        type(r);
}

/* Up to E, with commas; how many there were. */
static size_t list(struct rust *r, void (*item)(struct rust *))
{
    size_t count = 0;
    for (; !eat(r, 'E') && !r->has_failed; count++) {
        put_text(r, count ? ", " : "");
        item(r);
    }
    return count;
}

static void reference(struct rust *r, bool is_mutable)
{
    put_text(r, "&");
    uint64_t lifetime = eat(r, 'L') ? base_62(r) : 0;
    if (lifetime) {
        put_lifetime(r, lifetime);
        put_text(r, " ");
    }
    put_text(r, is_mutable ? "mut " : "");
    type(r);
}

static void function_pointer(struct rust *r)
{
    uint64_t bound = binder(r);
    put_text(r, eat(r, 'U') ? "unsafe " : "");
    if (eat(r, 'K')) {
        put_text(r, "extern \"");
        if (eat(r, 'C'))
            put_text(r, "C");
        else
            put_word(r, identifier(r));
        put_text(r, "\" ");
    }
    put_text(r, "fn(");
    list(r, type);
    put_text(r, ")");
    if (!eat(r, 'u')) {
        put_text(r, " -> ");
        type(r);
    }
    r->bound -= bound;
}

/* A path whose generic arguments are left open for "Item = T"; are they? */
static bool open_path(struct rust *r)
{
    bool is_open = false;
    if (r->depth > DEPTH_MAX) {
        r->has_failed = true;
    } else if (eat(r, 'B')) {
        size_t from = r->at - 1, target = base_62(r), here = r->at;
        r->has_failed |= target >= from;
        if (!r->has_failed && !r->is_skipped) {
            r->at = target;
            r->depth++;
            is_open = open_path(r);
            r->depth--;
            r->at = here;
        }
    } else if (eat(r, 'I')) {
        path(r, false);
        put_text(r, "<");
        list(r, argument);
        is_open = true;
    } else {
        path(r, false);
    }
    return is_open;
}

static void object(struct rust *r)
{
    put_text(r, "dyn ");
    uint64_t bound = binder(r);
    for (size_t count = 0; !eat(r, 'E') && !r->has_failed; count++) {
        put_text(r, count ? " + " : "");
        bool is_open = open_path(r);
        for (; eat(r, 'p'); is_open = true) {
            put_text(r, is_open ? ", " : "<");
            put_word(r, identifier(r));
            put_text(r, " = ");
            type(r);
        }
        put_text(r, is_open ? ">" : "");
    }
    r->bound -= bound;
    r->has_failed |= !eat(r, 'L');
    uint64_t lifetime = base_62(r);
    if (lifetime) {
        put_text(r, " + ");
        put_lifetime(r, lifetime);
    }
}

static const char *basic_type(char c)
{
    static const char *const names[26] = {"i8",    "bool", "char", "f64", "str",  "f32",  NULL,  "u8", "isize",
                                          "usize", NULL,   "i32",  "u32", "i128", "u128", "_",   NULL, NULL,
                                          "i16",   "u16",  "()",   "...", NULL,   "i64",  "u64", "!"};
    return c >= 'a' && c <= 'z' ? names[c - 'a'] : NULL;
}

static void array(struct rust *r, bool has_length)
{
    put_text(r, "[");
    type(r);
    if (has_length) {
        put_text(r, "; ");
        constant(r);
    }
    put_text(r, "]");
}

static void type(struct rust *r)
{
    char c = next(r);
    if (++r->depth > DEPTH_MAX)
        r->has_failed = true;
    if (basic_type(c)) {
        put_text(r, basic_type(c));
    } else if (c == 'R' || c == 'Q') {
        reference(r, c == 'Q');
    } else if (c == 'P' || c == 'O') {
        put_text(r, c == 'P' ? "*const " : "*mut ");
        type(r);
    } else if (c == 'A' || c == 'S') {
        array(r, c == 'A');
    } else if (c == 'T') {
        put_text(r, "(");
        put_text(r, list(r, type) == 1 ? ",)" : ")");
    } else if (c == 'F') {
        function_pointer(r);
    } else if (c == 'D') {
        object(r);
    } else if (c == 'B') {
        back(r, type_at, false);
    } else if (c) {
        r->at--;
        path(r, false);
    }
    r->depth--;
}

/* ---- constants ---- */

static uint64_t hex(struct rust *r, bool *is_long)
{
    uint64_t n = 0;
    size_t from = r->at;
    while (!eat(r, '_') && !r->has_failed) {
        char c = next(r);
        r->has_failed |= !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'));
        n = n << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *is_long = r->at - from > 17;
    return n;
}

static void integer(struct rust *r)
{
    bool is_long;
    size_t from = r->at;
    uint64_t n = hex(r, &is_long);
    if (is_long) {
        put_text(r, "0x");
        put(r, r->s + from, r->at - from - 1);
    } else {
        put_number(r, n);
    }
}

static void character(struct rust *r)
{
    bool is_long;
    uint64_t c = hex(r, &is_long);
    char text[16];
    r->has_failed |= is_long || c > 0x10ffff;
    snprintf(text, sizeof text, c >= ' ' && c < 127 ? "'%c'" : "'\\u{%x}'", (unsigned)c);
    put_text(r, text);
}

static void constant(struct rust *r)
{
    bool is_long;
    char c = next(r);
    if (++r->depth > DEPTH_MAX)
        r->has_failed = true;
    if (c == 'B') {
        back(r, constant_at, false);
    } else if (c == 'p') {
        put_text(r, "_");
    } else if (c == 'b') {
        put_text(r, hex(r, &is_long) ? "true" : "false");
    } else if (c == 'c') {
        character(r);
    } else if (c && strchr("hmtyojaslxni", c)) {
        put_text(r, eat(r, 'n') ? "-" : "");
        integer(r);
    } else {
        r->has_failed = true;
    }
    r->depth--;
}

/* ---- paths ---- */

/* A name in a scope; one with an upper-case name space has no name of its own: {closure#0}. */
static void nested(struct rust *r, bool is_value)
{
    char space = next(r);
    path(r, is_value);
    uint64_t nth = disambiguator(r);
    struct word name = identifier(r);
    if (space >= 'A' && space <= 'Z') {
        char other[] = {space, 0};
        put_text(r, "::{");
        put_text(r, space == 'C' ? "closure" : space == 'S' ? "shim" : other);
        put_text(r, name.len ? ":" : "");
        put_word(r, name);
        put_text(r, "#");
        put_number(r, nth);
        put_text(r, "}");
    } else if (name.len) {
        put_text(r, "::");
        put_word(r, name);
    }
}

/* <T>, <T as Trait>; where the impl itself stands is not told. */
static void implemented(struct rust *r, char kind)
{
    if (kind != 'Y') {
        bool was = r->is_skipped;
        disambiguator(r);
        r->is_skipped = true;
        path(r, false);
        r->is_skipped = was;
    }
    put_text(r, "<");
    type(r);
    if (kind != 'M') {
        put_text(r, " as ");
        path(r, false);
    }
    put_text(r, ">");
}

static void path(struct rust *r, bool is_value)
{
    char c = next(r);
    if (++r->depth > DEPTH_MAX)
        r->has_failed = true;
    if (c == 'C') {
        disambiguator(r);
        put_word(r, identifier(r));
    } else if (c == 'N') {
        nested(r, is_value);
    } else if (c == 'M' || c == 'X' || c == 'Y') {
        implemented(r, c);
    } else if (c == 'I') {
        path(r, is_value);
        put_text(r, is_value ? "::<" : "<");
        list(r, argument);
        put_text(r, ">");
    } else if (c == 'B') {
        back(r, path, is_value);
    } else {
        r->has_failed = true;
    }
    r->depth--;
}

bool rust_plain(struct strbuf *out, const char *mangled, size_t len)
{
    size_t start = out->len;
    const char *dot = memchr(mangled, '.', len); /* ".llvm.123": a copy that the linker made */
    size_t own = dot ? (size_t)(dot - mangled) : len;
    struct rust r = {.s = mangled + 2, .len = own - min_u64(own, 2), .out = out};
    path(&r, true);
    if (!r.has_failed && r.at < r.len) { /* the crate for which it was made */
        r.is_skipped = true;
        path(&r, false);
    }
    if (r.has_failed || r.at != r.len || out->len == start) {
        out->len = start;
        return false;
    }
    if (dot && strncmp(dot, ".llvm.", 6) != 0)
        str_put(out, dot, len - own);
    return true;
}
