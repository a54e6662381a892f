/* SPDX-License-Identifier: Apache-2.0
 * An address into a function. Of the kernel by its symbols. Of user code by what stands on the page: the guest's files
 * were copied in, so each page of code is a page of one of them, wherever it is mapped; code that is on none of them
 * (made at run time, the vdso) has a row of its own. */
#include "plugin/plugin.h"

#include <errno.h>
#include <stdlib.h>

enum { PAGE = 4096, LOOKED = 4096 };
#define NOWHERE SIZE_MAX

struct function {
    uint64_t address; /* of the kernel's as executed, of a module's as in the file */
    const char *name;
    struct row *row; /* NULL: not executed so far */
};
typedef VEC(struct function) function_vec;

struct code { /* executable bytes of a file */
    uint64_t vaddr, offset, bytes;
};
struct module {
    const char *path, *key;
    struct file_bytes bytes;
    function_vec functions; /* by address */
    VEC(struct code) codes;
};
struct page { /* of a file */
    uint32_t module;
    uint64_t offset;
};

static struct arena *arena;
static function_vec kernel;       /* functions, by address */
static VEC(struct function) data; /* the kernel's other symbols */
static VEC(struct module) modules;
static VEC(struct page) pages;
static struct map page_of;    /* by hash of what stands on it: index in pages */
static struct row unknown[2]; /* user, kernel: code of no known function */
static uint32_t rows;         /* made so far */
static struct looked {        /* what stood on a frame of the guest's memory when it was looked at */
    uint64_t frame;           /* and 1 */
    size_t page;              /* index in pages */
} looked[LOOKED];
static struct {          /* the page that was asked for last, */
    const uint8_t *page; /* of the translation that is looked at; NULL: none */
    size_t found;        /* index in pages; NOWHERE: of no file */
} last_page;
static struct {                  /* the code that was asked for last */
    const struct module *module; /* NULL: the kernel, or of no file */
    uint64_t distance;           /* address as executed - in the file */
    bool is_kernel;
} last_code;

/* ---- read ---- */

static bool is_function(char type) { return strchr("tTwWiI", type) != NULL; }

static void take_symbol(void *ctx, char *line)
{
    (void)ctx;
    char *at;
    uint64_t address = strtoull(line, &at, 16);
    if (*at != ' ' || !at[1] || at[2] != ' ')
        return;
    struct function f = {address, arena_strndup(arena, at + 3, strcspn(at + 3, "\t\n")), NULL};
    if (is_function(at[1]) && (int64_t)address < 0)
        VEC_PUSH(&kernel, f);
    else
        VEC_PUSH(&data, f);
}

static void take_module_line(void *ctx, char *line)
{
    (void)ctx;
    struct module *m = modules.len ? &modules.data[modules.len - 1] : NULL;
    char *rest = strchr(line, ' ');
    line[strcspn(line, "\n")] = 0;
    if (!rest)
        return;
    *rest++ = 0;
    if (strcmp(line, "module") == 0) {
        struct module new = {.path = arena_strdup(arena, rest), .key = ""};
        VEC_PUSH(&modules, new);
    } else if (m && strcmp(line, "key") == 0) {
        m->key = arena_strdup(arena, rest);
    } else if (m && strcmp(line, "code") == 0) {
        struct code c = {0};
        c.vaddr = strtoull(rest, &rest, 16);
        c.offset = strtoull(rest, &rest, 16);
        c.bytes = strtoull(rest, &rest, 16);
        VEC_PUSH(&m->codes, c);
    } else if (m && strcmp(line, "function") == 0) {
        struct function f = {.address = strtoull(rest, &rest, 16)};
        f.name = arena_strdup(arena, *rest ? rest + 1 : "");
        VEC_PUSH(&m->functions, f);
    }
}

static int read_lines(const char *path, void (*take)(void *ctx, char *line))
{
    return file_each_line(path, take, NULL) < 0 ? diag_error("cannot read %s: %s", path, strerror(errno)) : 0;
}

static int by_address(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    return x->address != y->address ? (x->address > y->address ? 1 : -1) : strcmp(x->name, y->name);
}

/* In four parts side by side, since each step of one waits for the step before. */
static uint64_t hash_of(const uint8_t *page)
{
    enum { PARTS = 4 };
    uint64_t h[PARTS] = {0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu, 0xd6e8feb86659fd93u}, all = 0;
    for (unsigned i = 0; i < PAGE; i += PARTS * sizeof *h)
        for (unsigned k = 0; k < PARTS; k++) {
            uint64_t word;
            memcpy(&word, page + i + k * sizeof word, sizeof word);
            h[k] = (h[k] ^ word) * 0xff51afd7ed558ccdu;
            h[k] ^= h[k] >> 29;
        }
    for (unsigned k = 0; k < PARTS; k++) {
        all = (all ^ h[k]) * 0xff51afd7ed558ccdu;
        all ^= all >> 29;
    }
    return all;
}

static void add_pages_of(uint32_t module, const struct file_bytes *file, const struct code *c)
{
    uint8_t last[PAGE];
    for (uint64_t at = ALIGN_DOWN(c->offset, PAGE); at < c->offset + c->bytes && at < file->len; at += PAGE) {
        size_t len = min_u64(PAGE, file->len - at);
        memset(last + len, 0, PAGE - len);
        memcpy(last, file->data + at, len);
        struct page p = {module, at};
        uint64_t hash = hash_of(last);
        if (!map_has(&page_of, hash))
            map_put(&page_of, hash, pages.len);
        VEC_PUSH(&pages, p);
    }
}

static int add_pages(uint32_t module)
{
    struct module *m = &modules.data[module];
    if (file_map(m->path, &m->bytes) < 0)
        return diag_error("cannot read %s: %s", m->path, strerror(errno));
    for (size_t i = 0; i < m->codes.len; i++)
        add_pages_of(module, &m->bytes, &m->codes.data[i]);
    return 0;
}

int places_read(void)
{
    arena = arena_new();
    if (read_lines(settings.symbols, take_symbol) < 0 || read_lines(settings.modules, take_module_line) < 0)
        return -1;
    qsort(kernel.data, kernel.len, sizeof *kernel.data, by_address);
    for (uint32_t i = 0; i < modules.len; i++)
        if (add_pages(i) < 0)
            return -1;
    return 0;
}

/* ---- found ---- */

/* The last that begins at or before the address; the first of those that begin at the same. */
static struct function *function_at(const function_vec *v, uint64_t address)
{
    size_t i = PARTITION_POINT(k, 0, v->len, v->data[k].address <= address);
    while (i > 1 && v->data[i - 2].address == v->data[i - 1].address)
        i--;
    return i ? &v->data[i - 1] : NULL;
}

static const char *last_name = "";
const char *places_name(void) { return last_name; }

/* To the next function, or the end of the code; 0: unknown. `m` NULL: of the kernel. */
static uint64_t bytes_of(const struct module *m, const struct function *f)
{
    const function_vec *v = m ? &m->functions : &kernel;
    uint64_t end = UINT64_MAX;
    size_t i = (size_t)(f - v->data);
    while (i < v->len && v->data[i].address == f->address)
        i++;
    if (i < v->len)
        end = v->data[i].address;
    for (size_t k = 0; m && k < m->codes.len; k++)
        if (f->address - m->codes.data[k].vaddr < m->codes.data[k].bytes)
            end = min_u64(end, m->codes.data[k].vaddr + m->codes.data[k].bytes);
    return end == UINT64_MAX ? 0 : end - f->address;
}

static struct row *row_of(const struct module *m, struct function *f)
{
    last_name = f->name;
    if (!f->row) {
        f->row = ARENA_NEW(arena, struct row);
        f->row->id = ++rows;
        f->row->bytes = bytes_of(m, f);
    }
    return f->row;
}

uint32_t places_file(uint64_t vaddr, uint64_t *in_file)
{
    *in_file = vaddr - last_code.distance;
    return last_code.is_kernel || !last_code.module ? 0 : (uint32_t)(last_code.module - modules.data) + 1;
}

const char *places_file_path(uint32_t file, const char **key)
{
    if (!file || file > modules.len)
        return NULL;
    *key = modules.data[file - 1].key;
    return modules.data[file - 1].path;
}

static const struct code *code_at(const struct module *m, uint64_t offset)
{
    for (size_t i = 0; i < m->codes.len; i++)
        if (offset >= ALIGN_DOWN(m->codes.data[i].offset, PAGE) &&
            offset < m->codes.data[i].offset + m->codes.data[i].bytes)
            return &m->codes.data[i];
    return NULL;
}

/* To compare with what stood there takes a tenth of hashing. */
static bool stands_on(const uint8_t *page, size_t i)
{
    const struct file_bytes *file = &modules.data[pages.data[i].module].bytes;
    uint64_t at = pages.data[i].offset;
    return at + PAGE <= file->len && memcmp(page, file->data + at, PAGE) == 0;
}

/* Of files with the same page the first; NOWHERE: of none. Asked for again in a translation it is the same. */
static size_t page_on(uint64_t physical)
{
    const uint8_t *page = physical == RAM_NOWHERE ? NULL : ram_at(ALIGN_DOWN(physical, (uint64_t)PAGE), PAGE);
    uint64_t frame = physical / PAGE, i = NOWHERE;
    struct looked *k = &looked[frame % LOOKED];
    if (!page)
        return NOWHERE;
    if (page == last_page.page)
        return last_page.found;
    if (k->frame == frame + 1 && stands_on(page, k->page))
        i = k->page;
    else if (map_get(&page_of, hash_of(page), &i))
        *k = (struct looked){frame + 1, i};
    last_page.page = page;
    last_page.found = i;
    return i;
}

void places_forget(void) { last_page.page = NULL; }

static struct row *user_row(uint64_t vaddr, const void *host, uint64_t *begin)
{
    size_t i = page_on(ram_address_of(host));
    uint64_t offset;
    *begin = 0;
    last_name = "";
    last_code.module = NULL;
    last_code.is_kernel = false;
    if (i == NOWHERE)
        return &unknown[false];
    struct module *m = &modules.data[pages.data[i].module];
    offset = pages.data[i].offset + vaddr % PAGE;
    const struct code *c = code_at(m, offset);
    struct function *f = c ? function_at(&m->functions, c->vaddr + offset - c->offset) : NULL;
    if (!f)
        return &unknown[false];
    last_code.module = m;
    last_code.distance = vaddr - (c->vaddr + offset - c->offset);
    *begin = f->address + last_code.distance;
    return row_of(m, f);
}

struct row *places_row(uint64_t vaddr, const void *host, uint64_t *function)
{
    if ((int64_t)vaddr >= 0)
        return user_row(vaddr, host, function);
    struct function *f = function_at(&kernel, vaddr);
    *function = f ? f->address : 0;
    last_name = "";
    last_code.is_kernel = true;
    return f ? row_of(NULL, f) : &unknown[true];
}

struct row *places_target(uint64_t target, bool *is_begin)
{
    const function_vec *in = last_code.is_kernel ? &kernel : last_code.module ? &last_code.module->functions : NULL;
    uint64_t address = last_code.is_kernel ? target : target - last_code.distance;
    const char *name = last_name;
    struct function *f = in ? function_at(in, address) : NULL;
    if (!f)
        return NULL;
    *is_begin = f->address == address;
    struct row *row = row_of(last_code.is_kernel ? NULL : last_code.module, f);
    last_name = name;
    return row;
}

bool places_datum(size_t i, const char **name, uint64_t *address)
{
    if (i >= data.len)
        return false;
    *name = data.data[i].name;
    *address = data.data[i].address;
    return true;
}

uint64_t places_kernel_symbol(const char *name)
{
    for (size_t i = 0; i < data.len; i++)
        if (strcmp(data.data[i].name, name) == 0)
            return data.data[i].address;
    return 0;
}

uint64_t places_kernel_function(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < kernel.len; i++) {
        const char *own = kernel.data[i].name;
        if (strncmp(own, name, len) == 0 && (!own[len] || own[len] == '.'))
            return kernel.data[i].address;
    }
    return 0;
}

bool places_function(void *none, size_t i, const char **name, uint64_t *first, uint64_t *last)
{
    (void)none;
    *first = 1;
    *last = 0;
    if (i < kernel.len) {
        *name = kernel.data[i].name;
        *first = kernel.data[i].address;
        while (++i < kernel.len && kernel.data[i].address == *first)
            ;
        *last = i < kernel.len ? kernel.data[i].address - 1 : *first;
        return true;
    }
    i -= kernel.len;
    for (size_t m = 0; m < modules.len; i -= modules.data[m++].functions.len)
        if (i < modules.data[m].functions.len) {
            *name = modules.data[m].functions.data[i].name;
            return true;
        }
    return false;
}

/* ---- written ---- */

static uint32_t written;

static bool is_empty(const struct row *r)
{
    if (r->is_called)
        return false;
    for (unsigned i = 0; i < WIRE_COLUMN_COUNT; i++)
        if (r->of[i])
            return false;
    return true;
}

static void write_row(FILE *f, const char *mode, uint64_t address, struct row *r, const char *module, const char *name)
{
    if (is_empty(r))
        return;
    r->written = written++;
    r->of[WIRE_BYTES] = r->bytes;
    fprintf(f, "function %s %llx", mode, (unsigned long long)address);
    for (unsigned i = 0; i < WIRE_COLUMN_COUNT; i++)
        fprintf(f, " %llu", (unsigned long long)r->of[i]);
    fprintf(f, "\t%s\t%s\n", module, name);
}

void places_write(FILE *f)
{
    static const char *const modes[] = {"user", "kernel"};
    fprintf(f, "columns");
#define COLUMN(id, name) fprintf(f, " " name);
#include "wire/monster.def"
#undef COLUMN
    fprintf(f, "\n");
    for (int k = 0; k < 2; k++)
        write_row(f, modes[k], 0, &unknown[k], "", "");
    for (size_t i = 0; i < kernel.len; i++)
        if (kernel.data[i].row)
            write_row(f, modes[1], kernel.data[i].address, kernel.data[i].row, "kernel", kernel.data[i].name);
    for (size_t m = 0; m < modules.len; m++)
        for (size_t i = 0; i < modules.data[m].functions.len; i++) {
            const struct function *fn = &modules.data[m].functions.data[i];
            if (fn->row)
                write_row(f, modes[0], fn->address, fn->row, modules.data[m].path, fn->name);
        }
}
