/* SPDX-License-Identifier: Apache-2.0
 * The emulator as the plugin sees it, for tests: a translation is made of bytes, and executed step by step. */
#ifndef MTOOL_TEST_FAKE_QEMU_H
#define MTOOL_TEST_FAKE_QEMU_H

#include "plugin/plugin.h"

enum { FAKE_RAM_BYTES = 1 << 20, FAKE_INSNS_MAX = 64, FAKE_HOOKS_MAX = 16 };

struct fake_hook {
    qemu_plugin_vcpu_udata_cb_t call;
    qemu_plugin_vcpu_mem_cb_t access;
    uint64_t *cell, add;
    void *data;
};
struct qemu_plugin_insn {
    uint8_t bytes[16];
    size_t len;
    uint64_t vaddr;
    struct fake_hook hooks[FAKE_HOOKS_MAX];
    unsigned hook_count;
};
struct qemu_plugin_tb {
    struct qemu_plugin_insn insns[FAKE_INSNS_MAX];
    size_t count;
};
/* Each page a function: its row is written as its number, the kernel's from 32 on. Of these 31 is one of interrupts'.
 */
extern bool fake_has_functions;
enum { FAKE_ENTRY_PAGE = 31 };
struct fake_function {
    const char *name;
    uint64_t address;
};
extern const struct fake_function *fake_functions; /* that places_function knows */
extern size_t fake_function_count;
extern const struct fake_function *fake_data; /* that places_datum knows */
extern size_t fake_data_count;
extern uint8_t fake_ram[FAKE_RAM_BYTES];

/* Puts an instruction behind the last; the first is at `vaddr`. */
void fake_append(struct qemu_plugin_tb *tb, uint64_t vaddr, const void *bytes, size_t len);
/* Executes the first `count`: what hangs on them before they do anything. */
void fake_execute(const struct qemu_plugin_tb *tb, size_t count);
/* An access of `1 << shift` bytes by an instruction. */
void fake_access(const struct qemu_plugin_insn *insn, uint64_t vaddr, unsigned shift, bool stores);

#endif
