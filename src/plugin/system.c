/* SPDX-License-Identifier: Apache-2.0
 * What the plugin knows of the guest's kernel: which process runs, read in its memory where it switches and where a
 * process becomes another program; and which instructions faulted, read on the stack where exceptions enter it. */
#include "plugin/plugin.h"

#include <stdlib.h>

enum { COMM = 16, ENTRY_BYTES = 64 };

struct process {
    uint64_t pid;
    char comm[COMM];
    struct totals of[2];
};

/* Exceptions that are faults (Intel SDM 3A, 6.5): the instruction will be executed again. With an error code the stack
 * holds it below the address. */
static struct exception {
    const char *name;
    bool has_code;
    uint64_t function, store; /* its first store: the address is behind what that wrote */
} exceptions[] = {
    {"asm_exc_divide_error", false, 0, 0},
    {"asm_exc_bounds", false, 0, 0},
    {"asm_exc_invalid_op", false, 0, 0},
    {"asm_exc_device_not_available", false, 0, 0},
    {"asm_exc_segment_not_present", true, 0, 0},
    {"asm_exc_stack_segment", true, 0, 0},
    {"asm_exc_general_protection", true, 0, 0},
    {"asm_exc_page_fault", true, 0, 0},
    {"asm_exc_alignment_check", true, 0, 0},
    {"asm_exc_coprocessor_error", false, 0, 0},
    {"asm_exc_simd_coprocessor_error", false, 0, 0},
};
enum { FETCH_FAULT = 16 }; /* bit of a page fault's error code: it was the instruction that was not there */

static const char *const switch_names[] = {"finish_task_switch", "finalize_exec"};

static struct {
    uint64_t switches[ARRAY_LEN(switch_names)];
    uint64_t current, per_cpu; /* addresses of symbols */
    VEC(struct process) all;
    size_t running;
    VEC(const char *) programs; /* names of processes, each once */
    uint32_t program;           /* that runs */
    struct totals base[2], at_end[2];
} the;

/* ---- found ---- */

void system_find(void)
{
    for (size_t i = 0; i < ARRAY_LEN(exceptions); i++)
        exceptions[i].function = places_kernel_function(exceptions[i].name);
    for (size_t i = 0; i < ARRAY_LEN(switch_names); i++)
        the.switches[i] = places_kernel_function(switch_names[i]);
    the.current = places_kernel_symbol("current_task");
    the.per_cpu = places_kernel_symbol("__per_cpu_offset");
}

const char *system_missing(void)
{
    for (size_t i = 0; i < ARRAY_LEN(switch_names); i++)
        if (!the.switches[i])
            return switch_names[i];
    if (!places_kernel_function("asm_exc_page_fault"))
        return "asm_exc_page_fault";
    return !the.per_cpu ? "__per_cpu_offset" : NULL;
}

uint64_t system_space;

/* ---- processes ---- */

static uint64_t kernel_word(uint64_t vaddr)
{
    uint64_t word = 0;
    const void *at = ram_at(ram_address_of_kernel(vaddr), sizeof word);
    if (at)
        memcpy(&word, at, sizeof word);
    return word;
}

uint32_t system_program(void) { return the.program; }
const char *system_program_name(uint32_t program)
{
    return program < the.programs.len ? the.programs.data[program] : "";
}

static void note_program(const char *comm)
{
    for (the.program = 0; the.program < the.programs.len; the.program++)
        if (strcmp(the.programs.data[the.program], comm) == 0)
            return;
    VEC_PUSH(&the.programs, xstrdup(comm));
}

static void look_at_current(void)
{
    struct process p = {.pid = 0};
    uint64_t task = kernel_word(kernel_word(the.per_cpu) + the.current), mm = kernel_word(task + settings.task_mm);
    const char *comm = ram_at(ram_address_of_kernel(task + settings.task_comm), COMM);
    p.pid = kernel_word(task + settings.task_pid) & UINT32_MAX;
    if (comm)
        memcpy(p.comm, comm, COMM - 1);
    if (mm)
        system_space = mm >> 6 & 0xfffff;
    tlb_forget_space();
    watch_process(p.pid, p.comm);
    note_program(p.comm);
    for (the.running = 0; the.running < the.all.len; the.running++)
        if (the.all.data[the.running].pid == p.pid && strcmp(the.all.data[the.running].comm, p.comm) == 0)
            return;
    VEC_PUSH(&the.all, p);
}

static void add(struct totals *to, const struct totals *now, const struct totals *base)
{
    to->instructions += now->instructions - base->instructions;
    to->operations += now->operations - base->operations;
    to->restarts += now->restarts - base->restarts;
    for (unsigned i = 0; i < WIRE_STALL_COUNT; i++)
        to->stalls[i] += now->stalls[i] - base->stalls[i];
}

static void account(void)
{
    struct process *p = &the.all.data[the.running];
    for (int k = 0; k < 2; k++) {
        add(&p->of[k], &totals[k], &the.base[k]);
        the.base[k] = totals[k];
    }
}

static void on_switch(unsigned vcpu, void *none)
{
    (void)vcpu, (void)none;
    if (!plugin_is_counting)
        return;
    account();
    look_at_current();
}

void system_begin(void)
{
    memcpy(the.base, totals, sizeof totals);
    look_at_current();
}

void system_end(void)
{
    account();
    memcpy(the.at_end, totals, sizeof totals);
}

/* ---- exceptions ---- */

/* QEMU 7.2 also calls it for what other instructions write by its helpers, if the instruction of the hook ended its
 * translation; so what was written is looked at: the address behind the call of the entry, or the number that stands
 * for an error code. */
static void on_exception(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *exception)
{
    const struct exception *e = exception;
    struct qemu_plugin_hwaddr *h = qemu_plugin_get_hwaddr(info, vaddr);
    (void)vcpu;
    if (!plugin_is_counting || !h || qemu_plugin_hwaddr_is_io(h))
        return;
    const uint64_t *stack = ram_at(qemu_plugin_hwaddr_phys_addr(h), 4 * sizeof *stack);
    bool is_it = stack && (e->has_code ? stack[0] - e->function < ENTRY_BYTES : stack[0] == UINT64_MAX);
    if (!is_it || (e->has_code && stack[1] & FETCH_FAULT && strstr(e->name, "page_fault")))
        return;
    segments_restart(stack[e->has_code ? 2 : 1]);
}

void system_hook(struct qemu_plugin_insn *insn, uint64_t vaddr, uint64_t function, bool stores)
{
    if ((int64_t)vaddr >= 0)
        return;
    for (size_t i = 0; i < ARRAY_LEN(switch_names) && vaddr == function; i++)
        if (the.switches[i] == vaddr)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_switch, QEMU_PLUGIN_CB_NO_REGS, NULL);
    for (size_t i = 0; i < ARRAY_LEN(exceptions) && stores; i++) {
        struct exception *e = &exceptions[i];
        if (!e->function || e->function != function)
            continue;
        if (!e->store)
            e->store = vaddr;
        if (e->store == vaddr)
            qemu_plugin_register_vcpu_mem_cb(insn, on_exception, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, e);
    }
}

/* ---- written ---- */

static void write_totals(FILE *f, const struct totals *t)
{
    fprintf(f, " %llu %llu", (unsigned long long)(t->instructions - t->restarts), (unsigned long long)t->operations);
    for (unsigned i = 0; i < WIRE_STALL_COUNT; i++)
        fprintf(f, " %llu", (unsigned long long)t->stalls[i]);
}

void system_write(FILE *f)
{
    for (int k = 0; k < 2; k++) {
        fprintf(f, "total %s", k ? "kernel" : "user");
        write_totals(f, &the.at_end[k]);
        fprintf(f, "\n");
    }
    for (size_t i = 0; i < the.all.len; i++) {
        const struct process *p = &the.all.data[i];
        fprintf(f, "process %llu", (unsigned long long)p->pid);
        write_totals(f, &p->of[0]);
        write_totals(f, &p->of[1]);
        fprintf(f, "\t%s\n", p->comm);
    }
}
