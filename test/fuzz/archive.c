/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes ld_archive_open: whatever the bytes are, a word why not, or members within them; what is written of these is
 * an archive with the same members, names and index, from which a link takes what it took. */
#include "fuzz.h"

#include "ld/ld.h"

static void check_members(const struct ld_archive *ar)
{
    for (size_t i = 0; i < ar->members.len; i++) {
        const struct ld_member *m = &ar->members.data[i];
        FUZZ_CHECK(m->name && (!m->len || m->data));
        FUZZ_CHECK(ar->others.len || (m->data >= ar->file.data && m->data + m->len <= ar->file.data + ar->file.len));
    }
    for (size_t i = 0; i < ar->symbols.len; i++)
        FUZZ_CHECK(ar->symbols.data[i].member < ar->members.len && strlen(ar->symbols.data[i].name) < ar->file.len);
}

static void check_same(const struct ld_archive *a, const struct ld_archive *b)
{
    FUZZ_CHECK(a->members.len == b->members.len && a->symbols.len == b->symbols.len);
    for (size_t i = 0; i < a->members.len; i++) {
        const struct ld_member *x = &a->members.data[i], *y = &b->members.data[i];
        FUZZ_CHECK(!strcmp(x->name, y->name) && x->len == y->len && !memcmp(x->data, y->data, x->len));
        FUZZ_CHECK(x->is_taken == y->is_taken);
    }
    for (size_t i = 0; i < a->symbols.len; i++)
        FUZZ_CHECK(a->symbols.data[i].member == b->symbols.data[i].member &&
                   !strcmp(a->symbols.data[i].name, b->symbols.data[i].name));
}

/* As a link does whose only object is the first member. */
static void take(struct ld_archive *ar)
{
    struct ld_resolver *r = ld_resolver_new();
    if (ar->members.len)
        ld_resolver_add(r, ar->members.data[0].data, ar->members.data[0].len);
    ld_resolver_take(r, ar, 1);
    ld_resolver_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct arena *a = arena_new();
    struct ld_archive ar, again;
    const char *why = NULL;
    fuzz_begin();
    if (ld_is_archive(bytes, len)) {
        int rc = ld_archive_open(a, fuzz_file(bytes, len), &ar, &why);
        FUZZ_CHECK(rc == 0 || (rc == -1 && why && !strchr(why, '\n')));
        if (rc == 0) {
            struct strbuf out = {0};
            check_members(&ar);
            take(&ar);
            ld_archive_write(&ar, &out);
            FUZZ_CHECK(ld_archive_open(a, fuzz_other_file((const uint8_t *)out.data, out.len), &again, &why) == 0);
            take(&again);
            check_same(&ar, &again);
            str_free(&out);
            ld_archive_close(&again);
            ld_archive_close(&ar);
        }
    }
    arena_free(a);
    return 0;
}
