/* SPDX-License-Identifier: Apache-2.0
 * Text in columns. Names come from files that nobody checked: whatever is in them, a row stays one row and a terminal
 * is not driven by it. Widths follow the usual terminals (wide East Asian letters are two columns, combining marks
 * none). */
#include "report/impl.h"

struct range {
    uint32_t first, last;
};
/* C1 controls, soft hyphen, direction marks and isolates, line separators, byte order mark. */
static const struct range harmful[] = {{0x80, 0x9f},     {0xad, 0xad},     {0x200b, 0x200f}, {0x2028, 0x202e},
                                       {0x2060, 0x206f}, {0xd800, 0xdfff}, {0xfeff, 0xfeff}, {0xe0000, 0xe007f}};
static const struct range wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},  {0xac00, 0xd7a3},
                                    {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},  {0xffe0, 0xffe6},
                                    {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
static const struct range combining[] = {
    {0x300, 0x36f}, {0x1ab0, 0x1aff}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};

static bool is_in(uint32_t c, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

/* The code point at s and its length; length 0 if the bytes are no UTF-8 (overlong forms included). */
static size_t decode(const char *s, uint32_t *out)
{
    const uint8_t *p = (const uint8_t *)s;
    static const uint32_t min[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = p[0] < 0x80                   ? 1
                 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                               : 0;
    uint32_t c = len < 2 ? p[0] : p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    *out = c;
    return len && c >= min[len] && c <= 0x10ffff ? len : 0;
}

static bool is_harmful(uint32_t c) { return c < 0x20 || c == 0x7f || is_in(c, harmful, ARRAY_LEN(harmful)); }

static size_t width_of(uint32_t c)
{
    if (c < 0x300)
        return 1;
    return is_in(c, combining, ARRAY_LEN(combining)) ? 0 : is_in(c, wide, ARRAY_LEN(wide)) ? 2 : 1;
}

static bool is_safe(const char *text)
{
    uint32_t c;
    for (size_t len; *text; text += len)
        if (!(len = decode(text, &c)) || is_harmful(c))
            return false;
    return true;
}

const char *cell_safe(struct arena *a, const char *text)
{
    struct strbuf s = {0};
    uint32_t c;
    if (is_safe(text))
        return text;
    while (*text) {
        size_t len = decode(text, &c);
        if (len && !is_harmful(c)) {
            str_put(&s, text, len);
            text += len;
            continue;
        }
        for (size_t n = len ? len : 1; n; n--)
            str_printf(&s, "\\x%02x", (uint8_t)*text++);
    }
    const char *safe = arena_strndup(a, s.data, s.len);
    str_free(&s);
    return safe;
}

/* Bytes of the longest beginning of at most `width` columns; *taken: its columns. */
static size_t head_bytes(const char *safe, size_t width, size_t *taken)
{
    size_t bytes = 0, len;
    uint32_t c;
    *taken = 0;
    while (safe[bytes] && (len = decode(safe + bytes, &c)) && *taken + width_of(c) <= width) {
        *taken += width_of(c);
        bytes += len;
    }
    return bytes;
}

size_t cell_width(const char *safe)
{
    size_t width;
    head_bytes(safe, SIZE_MAX / 2, &width);
    return width;
}

/* The shortest rest that fits `width`, so that no letter is cut. */
static const char *tail(const char *safe, size_t width)
{
    size_t all = cell_width(safe), taken;
    const char *s = safe + head_bytes(safe, all > width ? all - width : 0, &taken);
    uint32_t c;
    while (*s && cell_width(s) > width)
        s += decode(s, &c);
    return s;
}

void cell_put_short(struct strbuf *out, const char *safe, size_t width)
{
    static const char gap[] = "...";
    const size_t gap_width = sizeof gap - 1;
    size_t taken;
    if (cell_width(safe) <= width) {
        str_puts(out, safe);
    } else if (width <= gap_width) {
        str_put(out, safe, head_bytes(safe, width, &taken));
    } else {
        size_t rest = width - gap_width;
        str_put(out, safe, head_bytes(safe, (rest + 1) / 2, &taken));
        str_puts(out, gap);
        str_puts(out, tail(safe, rest - taken));
    }
}

void cell_put_head(struct strbuf *out, const char *safe, size_t width)
{
    size_t taken, bytes = head_bytes(safe, width, &taken);
    bool is_whole = !safe[bytes];
    str_put(out, safe, is_whole || width < 3 ? bytes : head_bytes(safe, width - 3, &taken));
    str_puts(out, is_whole || width < 3 ? "" : "...");
}

void cell_put_tail(struct strbuf *out, const char *safe, size_t width) { str_puts(out, tail(safe, width)); }

void cell_put_left(struct strbuf *out, const char *safe, size_t width)
{
    size_t begin = out->len;
    cell_put_short(out, safe, width);
    size_t taken = begin < out->len ? cell_width(out->data + begin) : 0;
    if (taken < width)
        str_printf(out, "%*s", (int)(width - taken), "");
}

void cell_put_right(struct strbuf *out, const char *safe, size_t width)
{
    size_t taken = cell_width(safe);
    if (taken < width)
        str_printf(out, "%*s", (int)(width - taken), "");
    str_puts(out, safe);
}

void cell_put_wrapped(struct strbuf *out, const char *safe, size_t width, size_t indent)
{
    size_t at = 0;
    while (*safe) {
        size_t len = strcspn(safe, " ");
        struct strbuf word = {0};
        str_put(&word, safe, len);
        size_t taken = cell_width(word.data);
        if (at > indent && at + 1 + taken > width) {
            str_printf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent || (at && !indent)) {
            str_puts(out, " ");
            at++;
        }
        size_t begin = out->len;
        cell_put_short(out, word.data, width - at);
        at += cell_width(out->data + begin);
        str_free(&word);
        safe += len + strspn(safe + len, " ");
    }
    str_puts(out, "\n");
}
