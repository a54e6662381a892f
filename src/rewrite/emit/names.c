/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for moved code at run time: dladdr, and so backtrace_symbols, look for a function's name among the dynamic
 * symbols, by address. Copies the dynamic symbols and their GNU hash table, and appends one symbol for the copy of each
 * function that has a name, with the same name. The appended ones are of a type that no lookup by name accepts, and no
 * name hashes to them unless its bucket is shared. Nothing is done for modules without a GNU hash table.
 *
 * needs: layout. fills: dynsym_vaddr, gnu_hash_vaddr, ro.
 */
#include "rewrite/impl.h"

#include <elf.h>

struct gnu_hash {            /* where its parts are in the file */
    uint32_t buckets, first; /* first: symbol that it begins with */
    uint64_t bytes;          /* of all before the chains */
    const uint8_t *head, *bucket, *chain;
};

static uint32_t word_of(const uint8_t *table, uint64_t i)
{
    uint32_t v;
    memcpy(&v, table + 4 * i, 4);
    return v;
}

/* Its last symbol must be the last of the table, which more are appended to. */
static bool read_hash(const struct image *img, uint64_t addr, struct gnu_hash *h)
{
    h->head = addr ? image_at(img, addr, 16) : NULL;
    if (!h->head)
        return false;
    h->buckets = word_of(h->head, 0);
    h->first = word_of(h->head, 1);
    h->bytes = 16 + 8ull * word_of(h->head, 2) + 4ull * h->buckets;
    if (h->first == 0 || h->first >= img->dynsym_count || !h->buckets)
        return false;
    uint64_t chain_bytes = 4 * (img->dynsym_count - h->first);
    h->head = image_at(img, addr, h->bytes + chain_bytes);
    if (!h->head)
        return false;
    h->chain = h->head + h->bytes;
    h->bucket = h->chain - 4ull * h->buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < h->buckets; i++)
        last = word_of(h->bucket, i) > last ? word_of(h->bucket, i) : last;
    if (last < h->first || last >= img->dynsym_count)
        return false;
    while (last + 1 < img->dynsym_count && !(word_of(h->chain, last - h->first) & 1))
        last++;
    return last + 1 == img->dynsym_count && word_of(h->chain, last - h->first) & 1;
}

/* The symbol for the copy of the function that s names; false if there is none. */
static bool moved_name(const struct rw *w, Elf64_Sym *s, uint32_t *func)
{
    unsigned type = ELF64_ST_TYPE(s->st_info);
    bool is_code = type == STT_FUNC || type == STT_NOTYPE || type == STT_GNU_IFUNC;
    bool is_here = s->st_shndx != SHN_UNDEF && s->st_shndx < SHN_LORESERVE && s->st_size;
    uint32_t b = is_code && is_here ? cfg_block_start(w->cfg, s->st_value) : ID_NONE;
    if (!rw_block_moved(w, b))
        return false;
    uint32_t f = w->cfg->blocks.data[b].func;
    if (s->st_value != w->cfg->funcs.data[f].addr)
        return false;
    s->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FILE); /* dladdr does not look at it; lookups by name refuse it */
    s->st_value = w->funcs[f].addr_new;
    s->st_size = w->funcs[f].size_hot;
    *func = f;
    return true;
}

static uint32_t put_names(struct rw *w, const uint8_t *symbols)
{
    uint32_t n = 0;
    for (size_t i = 1; i < w->img->dynsym_count; i++) {
        Elf64_Sym s;
        memcpy(&s, symbols + i * sizeof s, sizeof s);
        uint32_t f;
        if (!moved_name(w, &s, &f))
            continue;
        str_put(&w->ro, (const char *)&s, sizeof s);
        n++;
        s.st_value = w->funcs[f].addr_cold;
        s.st_size = w->funcs[f].size_new - w->funcs[f].size_hot;
        if (!s.st_size)
            continue;
        str_put(&w->ro, (const char *)&s, sizeof s);
        n++;
    }
    return n;
}

/* The appended symbols are one chain: of a bucket that was empty, else behind the last one's. */
static void put_hash(struct rw *w, const struct gnu_hash *h, uint32_t added)
{
    uint32_t old = (uint32_t)w->img->dynsym_count, free_bucket = 0, end = 1;
    uint64_t at = w->ro.len;
    str_put(&w->ro, (const char *)h->head, h->bytes + 4ull * (old - h->first));
    while (free_bucket < h->buckets && word_of(h->bucket, free_bucket))
        free_bucket++;
    char *chains = w->ro.data + at + h->bytes;
    if (free_bucket < h->buckets)
        memcpy(chains - 4ull * (h->buckets - free_bucket), &old, 4);
    else
        chains[4ull * (old - h->first - 1)] &= (char)~1; /* not the end any more */
    for (uint32_t i = 0; i + 1 < added; i++)
        str_put(&w->ro, "\0\0\0", 4);
    str_put(&w->ro, (const char *)&end, 4);
}

void rw_names(struct rw *w, uint64_t symtab, uint64_t gnu_hash)
{
    struct gnu_hash h;
    size_t bytes = w->img->dynsym_count * sizeof(Elf64_Sym), before = w->ro.len;
    const uint8_t *symbols = symtab ? image_at(w->img, symtab, bytes) : NULL;
    if (!w->instrument->moves || w->img->is_static || !symbols || !read_hash(w->img, gnu_hash, &h))
        return;
    str_put(&w->ro, (const char *)symbols, bytes);
    uint32_t added = put_names(w, symbols);
    if (!added) {
        w->ro.len = before;
        return;
    }
    w->dynsym_vaddr = w->ro_vaddr + before;
    w->gnu_hash_vaddr = w->ro_vaddr + w->ro.len;
    put_hash(w, &h, added);
    while (w->ro.len % 16)
        str_put(&w->ro, "", 1);
}
