/* SPDX-License-Identifier: Apache-2.0
 * The archive: of each file a head of hexadecimal numbers, its name and its bytes, each filled up to a multiple of four
 * (Documentation/driver-api/early-userspace/buffer-format.rst of the kernel). */
#include "guest/guest.h"

#include <errno.h>
#include <stdlib.h>

static void fill(FILE *f, size_t len)
{
    static const char zeros[4];
    fwrite(zeros, 1, (4 - len % 4) % 4, f);
}

static void put_head(FILE *f, unsigned inode, unsigned mode, unsigned links, int64_t changed, size_t len,
                     const char *path)
{
    unsigned name = (unsigned)strlen(path) + 1;
    int n = fprintf(f, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s", inode, mode, 0u, 0u, links,
                    (unsigned)changed, (unsigned)len, 0u, 0u, 0u, 0u, name, 0u, path);
    fputc(0, f);
    fill(f, (size_t)n + 1);
}

static int put_file(FILE *f, unsigned inode, const struct guest_node *n)
{
    struct file_bytes bytes = {(const uint8_t *)n->text, n->len};
    if (n->source && file_map(n->source, &bytes) < 0)
        return diag_error("cannot read %s: %s", n->source, strerror(errno));
    if (bytes.len > UINT32_MAX)
        return diag_error("%s: files of 4 GB and more do not fit into the guest", n->source);
    put_head(f, inode, 0100000 | n->mode, 1, n->changed, bytes.len, n->path);
    fwrite(bytes.data, 1, bytes.len, f);
    fill(f, bytes.len);
    if (n->source)
        file_unmap(&bytes);
    return 0;
}

static int put_node(FILE *f, unsigned inode, const struct guest_node *n)
{
    if (n->kind == GUEST_FILE)
        return put_file(f, inode, n);
    bool is_link = n->kind == GUEST_LINK;
    size_t len = is_link ? strlen(n->text) : 0;
    put_head(f, inode, (is_link ? 0120000 : 040000) | n->mode, is_link ? 1 : 2, n->changed, len, n->path);
    if (is_link)
        fwrite(n->text, 1, len, f);
    fill(f, len);
    return 0;
}

static int by_path(const void *a, const void *b)
{
    const struct guest_node *const *x = a, *const *y = b;
    return strcmp((*x)->path, (*y)->path);
}

int guest_archive_write(const struct guest_tree *t, const char *path)
{
    FILE *f = fopen(path, "we");
    const struct guest_node **order = xmalloc((t->nodes.len + 1) * sizeof(const struct guest_node *));
    int rc = 0;
    for (size_t i = 0; i < t->nodes.len; i++)
        order[i] = &t->nodes.data[i];
    qsort(order, t->nodes.len, sizeof *order, by_path);
    for (size_t i = 0; f && rc == 0 && i < t->nodes.len; i++)
        rc = put_node(f, (unsigned)i + 1, order[i]);
    free(order);
    if (f)
        put_head(f, 0, 0, 1, 0, 0, "TRAILER!!!");
    bool is_bad = !f || fflush(f) != 0 || ferror(f);
    int err = errno;
    if (f)
        fclose(f);
    return rc == 0 && is_bad ? diag_error("cannot write %s: %s", path, strerror(err)) : rc;
}
