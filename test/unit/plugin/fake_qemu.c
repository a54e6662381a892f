/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_qemu.h"

#include <assert.h>

uint8_t fake_ram[FAKE_RAM_BYTES];
bool plugin_is_counting = true;

enum { STORES = 1 << 8 };
struct qemu_plugin_hwaddr {
    uint64_t vaddr;
};

void fake_append(struct qemu_plugin_tb *tb, uint64_t vaddr, const void *bytes, size_t len)
{
    struct qemu_plugin_insn *i = &tb->insns[tb->count];
    assert(tb->count < FAKE_INSNS_MAX && len <= sizeof i->bytes);
    i->vaddr = tb->count ? i[-1].vaddr + i[-1].len : vaddr;
    i->len = len;
    memcpy(i->bytes, bytes, len);
    tb->count++;
}

void fake_execute(const struct qemu_plugin_tb *tb, size_t count)
{
    for (size_t k = 0; k < count; k++)
        for (unsigned h = 0; h < tb->insns[k].hook_count; h++) {
            const struct fake_hook *hook = &tb->insns[k].hooks[h];
            if (hook->call)
                hook->call(0, hook->data);
            if (hook->cell)
                *hook->cell += hook->add;
        }
}

void fake_access(const struct qemu_plugin_insn *insn, uint64_t vaddr, unsigned shift, bool stores)
{
    for (unsigned h = 0; h < insn->hook_count; h++)
        if (insn->hooks[h].access)
            insn->hooks[h].access(0, shift | (stores ? STORES : 0), vaddr, insn->hooks[h].data);
}

static void add_hook(struct qemu_plugin_insn *insn, struct fake_hook hook)
{
    assert(insn->hook_count < FAKE_HOOKS_MAX);
    insn->hooks[insn->hook_count++] = hook;
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_udata_cb_t cb,
                                            enum qemu_plugin_cb_flags flags, void *data)
{
    (void)flags;
    add_hook(insn, (struct fake_hook){.call = cb, .data = data});
}

void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, enum qemu_plugin_op op, void *cell,
                                                uint64_t number)
{
    (void)op;
    add_hook(insn, (struct fake_hook){.cell = cell, .add = number});
}

void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_mem_cb_t cb,
                                      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw, void *data)
{
    (void)flags, (void)rw;
    add_hook(insn, (struct fake_hook){.access = cb, .data = data});
}

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb) { return tb->count; }
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i)
{
    return &((struct qemu_plugin_tb *)(uintptr_t)tb)->insns[i];
}
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn) { return insn->bytes; }
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn) { return insn->len; }
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn) { return insn->vaddr; }
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn) { return &fake_ram[insn->vaddr % FAKE_RAM_BYTES]; }
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info) { return info & 0xff; }
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info) { return info & STORES; }
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr)
{
    static struct qemu_plugin_hwaddr h;
    (void)info;
    h.vaddr = vaddr;
    return &h;
}
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *h) { return h->vaddr >> 40 == 0xdef; }
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *h) { return h->vaddr % FAKE_RAM_BYTES; }

/* ---- what others of the plugin's files are asked for here ---- */

enum { PAGES = 32 }; /* of user code, and of the kernel's */
static struct row rows[2], pages[2 * PAGES];
static uint64_t last_asked;
bool fake_has_functions;
const struct fake_function *fake_functions;
size_t fake_function_count;

static struct row *row_at(uint64_t vaddr)
{
    size_t i = (vaddr >> 12) % PAGES + ((int64_t)vaddr < 0 ? PAGES : 0);
    if (!fake_has_functions)
        return &rows[(int64_t)vaddr < 0];
    pages[i].id = (uint32_t)i + 1;
    pages[i].written = (uint32_t)i;
    pages[i].bytes = 1 << 12;
    return &pages[i];
}

void places_forget(void) {}
struct row *places_row(uint64_t vaddr, const void *host, uint64_t *function)
{
    (void)host;
    *function = vaddr & ~0xfffull;
    last_asked = vaddr;
    return row_at(vaddr);
}
struct row *places_target(uint64_t target, bool *is_begin)
{
    *is_begin = !(target & 0xfff);
    return row_at(target);
}
uint32_t places_file(uint64_t vaddr, uint64_t *in_file)
{
    *in_file = vaddr & 0xffff;
    return (int64_t)vaddr >= 0;
}
const char *places_file_path(uint32_t file, const char **key)
{
    *key = "key";
    return file == 1 ? "/bin/fake" : NULL;
}
const char *places_name(void) { return (last_asked >> 12) % PAGES == FAKE_ENTRY_PAGE ? "asm_exc_any" : "any"; }
bool places_function(void *none, size_t i, const char **name, uint64_t *first, uint64_t *last)
{
    (void)none;
    if (i >= fake_function_count)
        return false;
    *name = fake_functions[i].name;
    *first = *last = fake_functions[i].address;
    return true;
}
uint64_t places_kernel_function(const char *name)
{
    for (size_t i = 0; i < fake_function_count; i++)
        if (strcmp(fake_functions[i].name, name) == 0)
            return fake_functions[i].address;
    return 0;
}
uint64_t places_kernel_symbol(const char *name) { return places_kernel_function(name); }
const struct fake_function *fake_data;
size_t fake_data_count;
bool places_datum(size_t i, const char **name, uint64_t *address)
{
    if (i >= fake_data_count)
        return false;
    *name = fake_data[i].name;
    *address = fake_data[i].address;
    return true;
}
const void *ram_at(uint64_t physical, size_t len)
{
    return physical + len <= FAKE_RAM_BYTES ? &fake_ram[physical] : NULL;
}
uint64_t ram_address_of(const void *host) { return (uint64_t)((const uint8_t *)host - fake_ram); }
uint64_t ram_address_of_kernel(uint64_t vaddr) { return vaddr % FAKE_RAM_BYTES; }
uint64_t system_space = 1;
uint32_t system_program(void) { return 0; }
const char *system_program_name(uint32_t program) { return program ? NULL : "fake"; }
void system_hook(struct qemu_plugin_insn *insn, uint64_t vaddr, uint64_t function, bool stores)
{
    (void)insn, (void)vaddr, (void)function, (void)stores;
}
bool watch_is_wanted;
void watch_instruction(struct qemu_plugin_insn *insn, const struct mix_insn *i, struct segment *s, const uint8_t *bytes,
                       size_t len, uint64_t function)
{
    (void)insn, (void)i, (void)s, (void)bytes, (void)len, (void)function;
}
void watch_register(void) {}
void plugin_mark(struct qemu_plugin_insn *insn, uint16_t mark) { (void)insn, (void)mark; }
