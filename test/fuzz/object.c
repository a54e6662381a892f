/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes rewrite_relocatable: an object is refused in one line, or what is made of it is an object that mtool takes
 * again, as large as its tables say, and the same when it is made once more. What is inserted is told by a byte of the
 * header that means nothing (e_ident[9]). The object is also looked at as a linker's input, for what it wants. */
#include "fuzz.h"

#include <elf.h>
#include <stdlib.h>

#include "ld/ld.h"
#include "rewrite/rewrite.h"

static int make(const uint8_t *bytes, size_t len, const struct rewrite_relocatable_options *opt, struct strbuf *out)
{
    struct rewrite_relocatable_stats stats;
    int rc = rewrite_relocatable("input", bytes, len, opt, out, &stats);
    fuzz_check_said(rc, "input");
    if (rc == 0) {
        FUZZ_CHECK(stats.funcs_moved <= stats.funcs && stats.sections_moved <= stats.sections);
        FUZZ_CHECK(opt->tool != REWRITE_RELOCATABLE_NULL || !stats.counters);
    }
    rewrite_relocatable_stats_free(&stats);
    return rc;
}

/* Every section lies in the file, and every group's members are sections. */
static void check_sections(const struct strbuf *out)
{
    Elf64_Ehdr h;
    Elf64_Shdr s;
    FUZZ_CHECK(out->len >= sizeof h);
    memcpy(&h, out->data, sizeof h);
    for (unsigned i = 0; i < h.e_shnum; i++) {
        memcpy(&s, out->data + h.e_shoff + i * sizeof s, sizeof s);
        FUZZ_CHECK(s.sh_type == SHT_NULL || s.sh_type == SHT_NOBITS ||
                   (s.sh_offset <= out->len && s.sh_size <= out->len - s.sh_offset));
    }
}

static void resolve(const uint8_t *bytes, size_t len)
{
    struct ld_resolver *r = ld_resolver_new();
    ld_resolver_add(r, bytes, len);
    FUZZ_CHECK(!ld_resolver_wants(r, "a name that none has"));
    ld_resolver_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const enum rewrite_relocatable_tool tools[] = {REWRITE_RELOCATABLE_COUNTS, REWRITE_RELOCATABLE_CALLS,
                                                          REWRITE_RELOCATABLE_CLOCKS, REWRITE_RELOCATABLE_NULL};
    uint8_t how = len > 9 ? bytes[9] : 0;
    struct rewrite_relocatable_options opt = {
        .tool = tools[how % ARRAY_LEN(tools)], .poison = how & 8, .all_blocks = how & 16, .locked = how & 32};
    struct strbuf out = {0}, same = {0}, more = {0};
    fuzz_begin();
    resolve(bytes, len);
    if (make(bytes, len, &opt, &out) == 0) {
        check_sections(&out);
        FUZZ_CHECK(make(bytes, len, &opt, &same) == 0);
        FUZZ_CHECK(same.len == out.len && memcmp(same.data, out.data, out.len) == 0);
        opt.tool = REWRITE_RELOCATABLE_NULL;
        FUZZ_CHECK(make((const uint8_t *)out.data, out.len, &opt, &more) == 0);
    }
    str_free(&out);
    str_free(&same);
    str_free(&more);
    return 0;
}
