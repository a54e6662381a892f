/* SPDX-License-Identifier: Apache-2.0
 * The kernel's description of its own types (Documentation/bpf/btf.rst): where a member of a struct lies. */
#include "guest/guest.h"

enum { BTF_MAGIC = 0xeb9f, KIND_ARRAY = 3, KIND_STRUCT = 4, KIND_UNION = 5, KIND_COUNT = 20 };

struct btf {
    struct cursor types;
    const char *strings;
    size_t strings_len;
};

static const char *text_at(const struct btf *b, uint64_t offset)
{
    return offset < b->strings_len && memchr(b->strings + offset, 0, b->strings_len - offset) ? b->strings + offset
                                                                                              : "";
}

static bool open_types(const uint8_t *bytes, size_t len, struct btf *out)
{
    struct cursor head = {.start = bytes, .p = bytes, .end = bytes + len};
    bool is_it = cursor_uint(&head, 2) == BTF_MAGIC;
    cursor_skip(&head, 2);
    uint64_t head_len = cursor_uint(&head, 4), type_off = cursor_uint(&head, 4), type_len = cursor_uint(&head, 4);
    uint64_t str_off = cursor_uint(&head, 4), str_len = cursor_uint(&head, 4);
    if (head.is_bad || !is_it || head_len + type_off + type_len > len || head_len + str_off + str_len > len)
        return false;
    const uint8_t *at = bytes + head_len + type_off;
    out->types = (struct cursor){.start = at, .p = at, .end = at + type_len};
    out->strings = (const char *)bytes + head_len + str_off;
    out->strings_len = str_len;
    return true;
}

/* Bytes behind a type's head of 12 bytes. */
static uint64_t tail_of(unsigned kind, unsigned count)
{
    static const uint8_t each[KIND_COUNT] = {
        [KIND_STRUCT] = 12, [KIND_UNION] = 12, [6] = 8, [13] = 8, [15] = 12, [19] = 12};
    static const uint8_t once[KIND_COUNT] = {[1] = 4, [KIND_ARRAY] = 12, [14] = 4, [17] = 4};
    return kind < KIND_COUNT ? (uint64_t)each[kind] * count + once[kind] : 0;
}

static uint64_t member_offset(const struct btf *b, struct cursor *c, unsigned count, bool has_bits, const char *member)
{
    for (unsigned i = 0; i < count && !c->is_bad; i++) {
        const char *name = text_at(b, cursor_uint(c, 4));
        cursor_skip(c, 4);
        uint64_t offset = cursor_uint(c, 4);
        if (strcmp(name, member) == 0)
            return (has_bits ? offset & 0xffffff : offset) / 8;
    }
    return UINT64_MAX;
}

uint64_t guest_types_offset(const uint8_t *types, size_t len, const char *structure, const char *member)
{
    struct btf b;
    if (!open_types(types, len, &b))
        return UINT64_MAX;
    while (cursor_left(&b.types) >= 12 && !b.types.is_bad) {
        const char *name = text_at(&b, cursor_uint(&b.types, 4));
        uint64_t info = cursor_uint(&b.types, 4);
        unsigned kind = info >> 24 & 31, count = info & 0xffff;
        cursor_skip(&b.types, 4);
        if (kind == KIND_STRUCT && strcmp(name, structure) == 0)
            return member_offset(&b, &b.types, count, info >> 31, member);
        cursor_skip(&b.types, tail_of(kind, count));
    }
    return UINT64_MAX;
}
