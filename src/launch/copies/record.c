/* SPDX-License-Identifier: Apache-2.0
 * Small text records of the cache: lines "name value", the last one "sum HASH" over all before it. A record that was
 * cut off or changed reads as missing, so that its owner makes it again. Knows nothing of what the lines mean. */
#include <errno.h>
#include <stdlib.h>

#include "launch/impl.h"

#define SUM_BYTES (4 + 32 + 1) /* "sum " hash newline */

char *record_read(struct arena *a, const char *path)
{
    struct file_bytes f;
    if (file_map(path, &f) < 0)
        return NULL;
    char *lines = NULL;
    if (f.len > SUM_BYTES && f.len < (1u << 20)) {
        size_t len = f.len - SUM_BYTES;
        char sum[33], want[SUM_BYTES + 1];
        file_hash_hex(f.data, len, sum);
        snprintf(want, sizeof want, "sum %s\n", sum);
        if (memcmp(f.data + len, want, SUM_BYTES) == 0)
            lines = arena_strndup(a, (const char *)f.data, len);
    }
    file_unmap(&f);
    return lines;
}

int record_write(const char *path, struct strbuf *lines)
{
    char sum[33];
    file_hash_hex(lines->data, lines->len, sum);
    str_printf(lines, "sum %s\n", sum);
    return file_write_kept(path, lines->data, lines->len, 0600);
}

static const char *value_of(const char *lines, const char *name)
{
    size_t len = strlen(name);
    for (const char *s = lines; s && *s; s = strchr(s, '\n')) {
        s += *s == '\n';
        if (strncmp(s, name, len) == 0 && s[len] == ' ')
            return s + len + 1;
    }
    return NULL;
}

const char *record_get(struct arena *a, const char *lines, const char *name)
{
    const char *v = value_of(lines, name);
    return v ? arena_strndup(a, v, strcspn(v, "\n")) : NULL;
}

uint64_t record_get_u64(const char *lines, const char *name)
{
    const char *v = value_of(lines, name);
    return v ? strtoull(v, NULL, 10) : 0;
}
