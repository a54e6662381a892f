/* SPDX-License-Identifier: Apache-2.0
 * JSON written as it comes. Strings that are no valid UTF-8 get U+FFFD; numbers that are not finite become null. */
#include "base/base.h"

#include <assert.h>
#include <math.h>

void json_init(struct json *j, struct strbuf *out, bool pretty)
{
    memset(j, 0, sizeof *j);
    j->out = out;
    j->pretty = pretty;
}

static void put_quoted(struct strbuf *out, const char *s)
{
    static const char replacement[] = "\xef\xbf\xbd";
    str_put(out, "\"", 1);
    for (const uint8_t *p = (const uint8_t *)s; *p;) {
        if (*p == '"' || *p == '\\') {
            str_printf(out, "\\%c", *p++);
        } else if (*p < 0x20 || *p == 0x7f) {
            str_printf(out, "\\u%04x", *p++);
        } else if (*p < 0x80) {
            str_put(out, p++, 1);
        } else {
            size_t n = *p >= 0xc2 && *p < 0xe0   ? 2
                       : *p >= 0xe0 && *p < 0xf0 ? 3
                       : *p >= 0xf0 && *p < 0xf5 ? 4
                                                 : 0,
                   i = 1;
            while (i < n && (p[i] & 0xc0) == 0x80)
                i++;
            bool bad = n == 0 || i < n || (n == 3 && *p == 0xe0 && p[1] < 0xa0) ||
                       (n == 3 && *p == 0xed && p[1] > 0x9f) || (n == 4 && *p == 0xf0 && p[1] < 0x90) ||
                       (n == 4 && *p == 0xf4 && p[1] > 0x8f);
            if (bad)
                str_put(out, replacement, 3), p++;
            else
                str_put(out, p, n), p += n;
        }
    }
    str_put(out, "\"", 1);
}

static void begin(struct json *j, const char *key)
{
    if (j->need_comma[j->depth])
        str_put(j->out, ",", 1);
    if (j->pretty && j->depth > 0) {
        str_put(j->out, "\n", 1);
        for (int i = 0; i < j->depth; i++)
            str_put(j->out, " ", 1);
    }
    j->need_comma[j->depth] = true;
    if (key) {
        put_quoted(j->out, key);
        str_puts(j->out, j->pretty ? ": " : ":");
    }
}

static void open_group(struct json *j, const char *key, const char *bracket)
{
    begin(j, key);
    str_puts(j->out, bracket);
    j->depth++;
    assert(j->depth < (int)ARRAY_LEN(j->need_comma)); /* our documents are at most a dozen deep */
    j->need_comma[j->depth] = false;
}

static void close_group(struct json *j, const char *bracket)
{
    bool any = j->need_comma[j->depth];
    j->depth--;
    if (j->pretty && any) {
        str_put(j->out, "\n", 1);
        for (int i = 0; i < j->depth; i++)
            str_put(j->out, " ", 1);
    }
    str_puts(j->out, bracket);
    if (j->depth == 0)
        str_put(j->out, "\n", 1);
}

void json_object(struct json *j, const char *key) { open_group(j, key, "{"); }
void json_object_end(struct json *j) { close_group(j, "}"); }
void json_array(struct json *j, const char *key) { open_group(j, key, "["); }
void json_array_end(struct json *j) { close_group(j, "]"); }

void json_str(struct json *j, const char *key, const char *val)
{
    begin(j, key);
    if (val)
        put_quoted(j->out, val);
    else
        str_puts(j->out, "null");
}

void json_u64(struct json *j, const char *key, uint64_t val)
{
    begin(j, key);
    str_printf(j->out, "%llu", (unsigned long long)val);
}

void json_i64(struct json *j, const char *key, int64_t val)
{
    begin(j, key);
    str_printf(j->out, "%lld", (long long)val);
}

void json_hex(struct json *j, const char *key, uint64_t val)
{
    begin(j, key);
    str_printf(j->out, "\"0x%llx\"", (unsigned long long)val);
}

void json_real(struct json *j, const char *key, double val)
{
    begin(j, key);
    if (isfinite(val))
        str_printf(j->out, "%.9g", val);
    else
        str_puts(j->out, "null");
}

void json_bool(struct json *j, const char *key, bool val)
{
    begin(j, key);
    str_puts(j->out, val ? "true" : "false");
}

void json_null(struct json *j, const char *key)
{
    begin(j, key);
    str_puts(j->out, "null");
}
