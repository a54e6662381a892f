/* SPDX-License-Identifier: Apache-2.0
 * A source file, looked for where the compiler found it and below a folder that the user names, as lines. Knows nothing
 * of figures. */
#include "report/source.h"

#include <time.h>

#include "report/impl.h"

static const char *try_path(struct arena *a, struct strbuf *looked, const char *path, struct file_bytes *bytes)
{
    str_printf(looked, "%s%s", looked->len ? ", " : "", path);
    return file_map(path, bytes) == 0 ? arena_strdup(a, path) : NULL;
}

/* Behind leading slashes, "." and "..". */
static const char *without_dots(const char *s)
{
    for (;;) {
        size_t dots = strspn(s, ".");
        if (s[dots] != '/')
            return s;
        s += dots + 1;
    }
}

/* As the profile names it; else below `folder`, with one leading folder less each time. */
static const char *find(struct arena *a, const char *name, const char *folder, struct strbuf *looked,
                        struct file_bytes *bytes)
{
    const char *path = try_path(a, looked, name, bytes);
    const char *tail = without_dots(name);
    for (; !path && folder && *tail; tail = without_dots(tail + strcspn(tail, "/")))
        path = try_path(a, looked, arena_printf(a, "%s/%s", folder, tail), bytes);
    return path;
}

static void split_lines(struct arena *a, struct source *s, const struct file_bytes *bytes)
{
    const char *text = arena_strndup(a, bytes->len ? (const char *)bytes->data : "", bytes->len),
               *end = text + bytes->len;
    size_t count = 1;
    for (const char *c = text; c < end && (c = memchr(c, '\n', (size_t)(end - c))); c++)
        count++;
    s->lines = ARENA_ARRAY(a, const char *, count + 1);
    for (const char *c = text; c < end;) {
        const char *next = memchr(c, '\n', (size_t)(end - c));
        s->lines[s->line_count++] = c;
        c = next ? next + 1 : end;
    }
    s->lines[s->line_count] = end;
}

static bool is_newer(const char *path, const char *started)
{
    struct tm t = {0};
    const char *end = started ? strptime(started, "%Y-%m-%dT%H:%M:%S", &t) : NULL;
    return end && file_changed_s(path) > timegm(&t);
}

struct source *source_read(struct arena *a, const char *name, const char *folder, const char *started)
{
    struct source *s = ARENA_NEW(a, struct source);
    struct strbuf looked = {0};
    struct file_bytes bytes = {0};
    s->name = name;
    s->path = find(a, name, folder, &looked, &bytes);
    s->looked = arena_strdup(a, looked.data);
    if (s->path) {
        split_lines(a, s, &bytes);
        s->is_newer = is_newer(s->path, started);
        file_unmap(&bytes);
    }
    str_free(&looked);
    return s;
}

/* Blanks stand for tabs. */
const char *source_line(struct arena *a, const struct source *s, uint32_t line)
{
    enum { TAB = 8, MAX_BYTES = 4096 };
    const char *from = s->lines[line - 1], *to = s->lines[line];
    struct strbuf text = {0};
    size_t len = min_u64((size_t)(to - from), MAX_BYTES);
    str_puts(&text, "");
    for (size_t i = 0; i < len && from[i] && from[i] != '\n' && from[i] != '\r'; i++)
        from[i] == '\t' ? str_put(&text, "        ", TAB - text.len % TAB) : str_put(&text, from + i, 1);
    const char *out = cell_safe(a, arena_strdup(a, text.data));
    str_free(&text);
    return out;
}
