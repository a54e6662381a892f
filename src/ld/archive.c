/* SPDX-License-Identifier: Apache-2.0
 * Archives: "!<arch>\n" or "!<thin>\n", then members, each with a header of 60 bytes of text, from even offsets on. The
 * index is the member "/" (offsets of 4 bytes, the highest first) or "/SYM64/" (of 8); "//" holds long names. */
#include <ar.h>
#include <stdlib.h>

#include "ld/ld.h"

#define THIN "!<thin>\n"
enum { HEADER = sizeof(struct ar_hdr) };
_Static_assert(sizeof(struct ar_hdr) == 60, "as above");

bool ld_is_archive(const uint8_t *bytes, size_t len)
{
    return len >= SARMAG && (memcmp(bytes, ARMAG, SARMAG) == 0 || memcmp(bytes, THIN, SARMAG) == 0);
}

struct reader {
    struct ld_archive *ar;
    const char *path;
    bool is_thin;
    const uint8_t *index; /* NULL none */
    size_t index_len;
    unsigned width; /* of its numbers */
    const char *why;
};

static int bad(struct reader *r, const char *why)
{
    r->why = why;
    return -1;
}

/* ---- members ---- */

static uint64_t decimal(const char *text, size_t len)
{
    uint64_t v = 0;
    for (size_t i = 0; i < len && text[i] >= '0' && text[i] <= '9'; i++)
        v = v * 10 + (uint64_t)(text[i] - '0');
    return v;
}

/* Digits, at least one, and blanks behind them: what linkers refuse must not be healed. */
static bool is_decimal(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && text[i] >= '0' && text[i] <= '9')
        i++;
    bool is_any = i > 0;
    while (i < len && text[i] == ' ')
        i++;
    return is_any && i == len;
}

/* NAME and blanks behind it. */
static bool is_named(const struct ar_hdr *h, const char *name)
{
    size_t i = strlen(name);
    if (memcmp(h->ar_name, name, i) != 0)
        return false;
    while (i < sizeof h->ar_name && h->ar_name[i] == ' ')
        i++;
    return i == sizeof h->ar_name;
}

/* "name/", or "/N": at N of the table of long names, to "/\n". */
static const char *name_of(struct reader *r, const struct ar_hdr *h)
{
    const char *text = h->ar_name;
    size_t len = sizeof h->ar_name;
    if (text[0] == '/' && !is_decimal(text + 1, len - 1))
        return NULL;
    if (text[0] == '/') {
        uint64_t at = HEADER + decimal(text + 1, len - 1);
        if (!r->ar->names || at >= r->ar->names_len)
            return NULL;
        text = (const char *)r->ar->names + at;
        len = r->ar->names_len - at;
        const char *end = memchr(text, '\n', len);
        len = end ? (size_t)(end - text) : len;
        return arena_strndup(r->ar->arena, text, len && text[len - 1] == '/' ? len - 1 : len);
    }
    const char *end = memchr(text, '/', len);
    len = end ? (size_t)(end - text) : len;
    while (len && text[len - 1] == ' ')
        len--;
    return arena_strndup(r->ar->arena, text, len);
}

static int map_thin(struct reader *r, struct ld_member *m)
{
    const char *slash = strrchr(r->path, '/'), *path = m->name;
    if (slash && m->name[0] != '/')
        path = arena_printf(r->ar->arena, "%.*s/%s", (int)(slash - r->path), r->path, m->name);
    struct file_bytes f;
    if (file_map(path, &f) < 0)
        return bad(r, arena_printf(r->ar->arena, "%s, of this thin archive, cannot be read", path));
    VEC_PUSH(&r->ar->others, f);
    m->data = f.data;
    m->len = f.len;
    return 0;
}

static int add_member(struct reader *r, const struct ar_hdr *h, size_t at, size_t len)
{
    struct ld_member m = {
        .header = (const uint8_t *)h, .data = (const uint8_t *)h + HEADER, .header_at = at, .len = len};
    if (!(m.name = name_of(r, h)) || strchr(m.name, '\n'))
        return bad(r, "the name of a member is missing");
    if (r->is_thin && map_thin(r, &m) < 0)
        return -1;
    VEC_PUSH(&r->ar->members, m);
    return 0;
}

static bool take_table(struct reader *r, const struct ar_hdr *h, size_t len)
{
    const uint8_t *data = (const uint8_t *)h + HEADER;
    bool is_wide = is_named(h, "/SYM64/");
    if (is_wide || is_named(h, "/")) {
        r->index = data;
        r->index_len = len;
        r->width = is_wide ? 8 : 4;
    } else if (is_named(h, "//")) {
        r->ar->names = (const uint8_t *)h;
        r->ar->names_len = HEADER + len;
    } else {
        return false;
    }
    return true;
}

static int read_members(struct reader *r)
{
    const struct file_bytes *f = &r->ar->file;
    for (size_t at = SARMAG; at < f->len;) {
        const struct ar_hdr *h = (const struct ar_hdr *)(f->data + at);
        if (f->len - at < HEADER || memcmp(h->ar_fmag, ARFMAG, sizeof h->ar_fmag) != 0 ||
            !is_decimal(h->ar_size, sizeof h->ar_size))
            return bad(r, "it is cut off or corrupt");
        size_t len = decimal(h->ar_size, sizeof h->ar_size);
        bool is_table = h->ar_name[0] == '/' && (h->ar_name[1] < '0' || h->ar_name[1] > '9');
        bool is_here = !r->is_thin || is_table;
        if (is_here && len > f->len - at - HEADER)
            return bad(r, "it is cut off");
        if (!take_table(r, h, len) && add_member(r, h, at, len) < 0)
            return -1;
        at += HEADER + (is_here ? ALIGN_UP(len, 2) : 0);
    }
    return 0;
}

/* ---- its index ---- */

static uint64_t big_endian(const uint8_t *p, unsigned width)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < width; i++)
        v = v << 8 | p[i];
    return v;
}

static uint32_t member_at(const struct ld_archive *ar, uint64_t at)
{
    size_t i = PARTITION_POINT(k, 0, ar->members.len, ar->members.data[k].header_at < at);
    return i < ar->members.len && ar->members.data[i].header_at == at ? (uint32_t)i : ID_NONE;
}

static int read_index(struct reader *r)
{
    if (!r->index)
        return r->ar->members.len ? bad(r, "it has no index; run ranlib on it") : 0;
    uint64_t count = r->index_len >= r->width ? big_endian(r->index, r->width) : UINT64_MAX;
    if (count > r->index_len / r->width - 1)
        return bad(r, "its index is corrupt");
    const uint8_t *name = r->index + r->width * (count + 1), *end = r->index + r->index_len;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *zero = name < end ? memchr(name, 0, (size_t)(end - name)) : NULL;
        uint32_t member = member_at(r->ar, big_endian(r->index + r->width * (i + 1), r->width));
        if (!zero || member == ID_NONE)
            return bad(r, "its index is corrupt");
        VEC_PUSH(&r->ar->symbols, ((struct ld_symbol){(const char *)name, member}));
        name = zero + 1;
    }
    return 0;
}

/* ---- all ---- */

int ld_archive_open(struct arena *a, const char *path, struct ld_archive *out, const char **why)
{
    *out = (struct ld_archive){.arena = a};
    struct reader r = {.ar = out, .path = path, .why = "it cannot be read"};
    int rc = file_map(path, &out->file);
    if (rc == 0) {
        r.is_thin = memcmp(out->file.data, THIN, SARMAG) == 0;
        rc = read_members(&r) < 0 ? -1 : read_index(&r);
    }
    *why = r.why;
    if (rc < 0)
        ld_archive_close(out);
    return rc;
}

void ld_archive_close(struct ld_archive *ar)
{
    for (size_t i = 0; i < ar->others.len; i++)
        file_unmap(&ar->others.data[i]);
    VEC_FREE(&ar->others);
    VEC_FREE(&ar->members);
    VEC_FREE(&ar->symbols);
    file_unmap(&ar->file);
}

/* ---- writing ---- */

static void put_padding(struct strbuf *out)
{
    if (out->len & 1)
        str_puts(out, "\n");
}

static void put_header(struct strbuf *out, const void *like, size_t len)
{
    struct ar_hdr h;
    char text[sizeof h.ar_size + 1];
    memcpy(&h, like, sizeof h);
    memset(h.ar_size, ' ', sizeof h.ar_size);
    int digits = snprintf(text, sizeof text, "%zu", len);
    memcpy(h.ar_size, text, (size_t)digits);
    memcpy(h.ar_fmag, ARFMAG, sizeof h.ar_fmag);
    str_put(out, &h, sizeof h);
}

static size_t len_now(const struct ld_member *m) { return m->instead ? m->instead_len : m->len; }

static void put_number(struct strbuf *out, uint64_t v)
{
    for (int shift = 56; shift >= 0; shift -= 8)
        str_put(out, &(uint8_t){(uint8_t)(v >> shift)}, 1);
}

/* Name, date, owner, group and mode; the length is put in. */
static const char index_header[HEADER + 1] = "/SYM64/         0           0     0     0       0         `\n";

static bool is_written(const struct ld_archive *ar, size_t symbol)
{
    return !ar->members.data[ar->symbols.data[symbol].member].is_dropped;
}

/* Offsets of 8 bytes in the index, whatever the size. */
void ld_archive_write(const struct ld_archive *ar, struct strbuf *out)
{
    size_t index = 8, count = 0, at;
    for (size_t i = 0; i < ar->symbols.len; i++)
        if (is_written(ar, i))
            index += 8 + strlen(ar->symbols.data[i].name) + 1, count++;
    uint64_t *where = xmalloc((ar->members.len + 1) * sizeof *where);
    at = SARMAG + HEADER + ALIGN_UP(index, 2) + ALIGN_UP(ar->names_len, 2);
    for (size_t i = 0; i < ar->members.len; i++) {
        where[i] = at;
        if (!ar->members.data[i].is_dropped)
            at += HEADER + ALIGN_UP(len_now(&ar->members.data[i]), 2);
    }
    str_reserve(out, at + 1);
    str_puts(out, ARMAG);
    put_header(out, index_header, index);
    put_number(out, count);
    for (size_t i = 0; i < ar->symbols.len; i++)
        if (is_written(ar, i))
            put_number(out, where[ar->symbols.data[i].member]);
    for (size_t i = 0; i < ar->symbols.len; i++)
        if (is_written(ar, i))
            str_put(out, ar->symbols.data[i].name, strlen(ar->symbols.data[i].name) + 1);
    put_padding(out);
    if (ar->names)
        str_put(out, ar->names, ar->names_len);
    put_padding(out);
    for (size_t i = 0; i < ar->members.len; i++) {
        const struct ld_member *m = &ar->members.data[i];
        if (m->is_dropped)
            continue;
        put_header(out, m->header, len_now(m));
        str_put(out, m->instead ? m->instead : m->data, len_now(m));
        put_padding(out);
    }
    free(where);
}
