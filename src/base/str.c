/* SPDX-License-Identifier: Apache-2.0
 * Growing strings, and text made safe for a terminal. */
#include "base/base.h"

#include <stdlib.h>

void str_reserve(struct strbuf *s, size_t more)
{
    size_t cap = s->cap ? s->cap : 64;
    if (s->cap >= s->len + more + 1)
        return;
    while (cap < s->len + more + 1)
        cap *= 2;
    s->data = xrealloc(s->data, cap);
    s->cap = cap;
}

void str_put(struct strbuf *s, const void *bytes, size_t len)
{
    str_reserve(s, len);
    if (len)
        memcpy(s->data + s->len, bytes, len);
    s->len += len;
    s->data[s->len] = 0;
}

void str_puts(struct strbuf *s, const char *text) { str_put(s, text, strlen(text)); }

void str_put_quoted(struct strbuf *s, const char *word)
{
    str_puts(s, "'");
    for (; *word; word++)
        str_puts(s, *word == '\'' ? "'\\''" : (char[]){*word, 0});
    str_puts(s, "'");
}

void str_printf(struct strbuf *s, const char *fmt, ...)
{
    va_list ap, ap2;
    va_start(ap, fmt);
    va_copy(ap2, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char small[256];
    char *p = (size_t)n < sizeof small ? small : xmalloc((size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, ap2);
    va_end(ap2);
    str_put(s, p, (size_t)n);
    if (p != small)
        free(p);
}

void str_free(struct strbuf *s)
{
    free(s->data);
    memset(s, 0, sizeof *s);
}

const char *str_printable(struct arena *a, const char *text)
{
    size_t bad = 0, len = strlen(text);
    for (size_t i = 0; i < len; i++)
        bad += (uint8_t)text[i] < 0x20 || text[i] == 0x7f;
    if (!bad)
        return text;
    char *out = arena_alloc(a, len + 3 * bad + 1), *p = out;
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)text[i];
        if (c < 0x20 || c == 0x7f)
            p += snprintf(p, 5, "\\x%02x", c);
        else
            *p++ = (char)c;
    }
    return out;
}

unsigned str_distance(const char *a, const char *b)
{
    enum { MAX = 60 };
    unsigned row[MAX + 1];
    size_t n = strnlen(b, MAX);
    for (size_t k = 0; k <= n; k++)
        row[k] = (unsigned)k;
    for (size_t i = 0; i < MAX && a[i]; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t k = 0; k < n; k++) {
            unsigned changed = diagonal + (a[i] != b[k]);
            diagonal = row[k + 1];
            row[k + 1] = (unsigned)min_u64(changed, min_u64(row[k], row[k + 1]) + 1);
        }
    }
    return row[n];
}

bool name_fits(const char *patterns, const char *name)
{
    size_t len = strcspn(name, ".");
    for (const char *p = patterns; *p;) {
        size_t n = strcspn(p, " ");
        bool is_open = n && p[n - 1] == '*';
        size_t fixed = n - is_open;
        if (len >= fixed && (is_open || len == fixed) && strncmp(p, name, fixed) == 0)
            return true;
        p += n + strspn(p + n, " ");
    }
    return false;
}
