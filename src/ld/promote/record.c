/* SPDX-License-Identifier: Apache-2.0
 * What promotion did, kept in the linked file, in a section of its own that is not loaded. Text: a line for all, a line
 * for each variable, tabs between the fields.
 *
 *   mtoolprm <TAB> 1 <TAB> root <TAB> whether counted <TAB> why nothing
 *   name address bytes register-or-- loads stores loads, stores estimated loads, stores measured why
 */
#include "ld/impl.h"
#include "ld/promote/promote.h"

#include <elf.h>
#include <stdlib.h>

#define MAGIC "mtoolprm\t1\t"

void promote_record_put(const struct ld_promotion *p, struct strbuf *out)
{
    str_printf(out, MAGIC "%s\t%d\t%s\n", p->root, p->has_counts, p->why);
    for (size_t i = 0; i < p->variables.len; i++) {
        const struct ld_promoted *v = &p->variables.data[i];
        str_printf(out, "%s\t%llx\t%u\t%s\t%llu\t%llu\t%.17g\t%.17g\t%.17g\t%.17g\t%s\n",
                   str_printable(p->arena, v->name), (unsigned long long)v->address, v->bytes, v->reg ? v->reg : "-",
                   (unsigned long long)v->loads, (unsigned long long)v->stores, v->loads_estimated, v->stores_estimated,
                   v->loads_measured, v->stores_measured, str_printable(p->arena, v->why));
    }
}

/* The next field of a line; *text goes behind it. */
static char *field(char **text, char end)
{
    char *from = *text, *to = from ? strchr(from, end) : NULL;
    *text = to ? to + 1 : NULL;
    if (to)
        *to = 0;
    return to ? from : NULL;
}

static bool take_line(struct ld_promotion *p, char **text)
{
    enum { FIELDS = 11 };
    char *f[FIELDS];
    for (unsigned i = 0; i < FIELDS; i++)
        if (!(f[i] = field(text, i + 1 < FIELDS ? '\t' : '\n')))
            return false;
    struct ld_promoted v = {.name = f[0],
                            .address = strtoull(f[1], NULL, 16),
                            .bytes = (unsigned)strtoul(f[2], NULL, 10),
                            .reg = strcmp(f[3], "-") != 0 ? f[3] : NULL,
                            .loads = strtoull(f[4], NULL, 10),
                            .stores = strtoull(f[5], NULL, 10),
                            .loads_estimated = strtod(f[6], NULL),
                            .stores_estimated = strtod(f[7], NULL),
                            .loads_measured = strtod(f[8], NULL),
                            .stores_measured = strtod(f[9], NULL),
                            .why = f[10]};
    VEC_PUSH(&p->variables, v);
    return true;
}

static bool take_all(struct ld_promotion *p, const uint8_t *bytes, size_t len)
{
    if (len < strlen(MAGIC) || memcmp(bytes, MAGIC, strlen(MAGIC)) != 0)
        return false;
    char *text = arena_strndup(p->arena, (const char *)bytes, len) + strlen(MAGIC), *counted;
    p->root = field(&text, '\t');
    counted = field(&text, '\t');
    p->why = field(&text, '\n');
    p->has_counts = counted && *counted == '1';
    while (p->why && text && *text)
        if (!take_line(p, &text))
            return false;
    return p->why != NULL;
}

static const struct image_section *record_in(const struct image *img)
{
    const struct image_section *s = ld_section_of(img, PROMOTE_RECORD);
    return s && s->size ? s : NULL;
}

bool ld_promotion_is_in(const char *path)
{
    struct image *img = ld_open_quietly(path);
    bool is = img && record_in(img);
    image_close(img);
    return is;
}

int ld_promotion_read(const char *path, struct ld_promotion *out)
{
    struct image *img;
    *out = (struct ld_promotion){0};
    if (image_open_copy(path, &img) < 0)
        return -1;
    out->arena = arena_new();
    const struct image_section *s = record_in(img);
    int rc = 0;
    if (!s)
        rc = diag_error("ld-report: %s was not linked by 'mtool ld --tool promote', or was stripped", path);
    else if (!take_all(out, img->bytes + s->offset, s->size))
        rc = diag_error("ld-report: %s: what was done to it is damaged, or of another version of mtool; link it again",
                        path);
    image_close(img);
    if (rc < 0)
        ld_promotion_free(out);
    return rc;
}

void ld_promotion_free(struct ld_promotion *p)
{
    VEC_FREE(&p->variables);
    arena_free(p->arena);
    p->arena = NULL;
}
