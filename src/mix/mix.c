/* SPDX-License-Identifier: Apache-2.0
 * An instruction into the classes of Table 1 of the paper, in operations: those of a machine on which each access to
 * memory is an instruction of its own. A move between a register and memory is that access and nothing else. */
#include "mix/mix.h"

enum trait { UNKNOWN, ORDINARY, MOVES, SYSTEM, FLOATS };
enum { MNEMONICS_MAX = 4096, NO_WORK = WIRE_MARKERS + 1 };

static const char *const system_names[] = {
    "in",       "out",      "insb",      "insw",     "insd",     "outsb",      "outsw",      "outsd",    "cli",
    "sti",      "hlt",      "lgdt",      "lidt",     "lldt",     "ltr",        "str",        "sldt",     "sgdt",
    "sidt",     "lmsw",     "smsw",      "clts",     "invd",     "wbinvd",     "invlpg",     "invpcid",  "rdmsr",
    "wrmsr",    "rdtsc",    "rdtscp",    "rdpmc",    "cpuid",    "swapgs",     "iret",       "iretd",    "iretq",
    "sysret",   "sysexit",  "syscall",   "sysenter", "int",      "int1",       "int3",       "into",     "ud0",
    "ud1",      "ud2",      "lfence",    "mfence",   "sfence",   "fxsave",     "fxsave64",   "fxrstor",  "fxrstor64",
    "xsave",    "xsave64",  "xrstor",    "xrstor64", "xsaveopt", "xsaveopt64", "xsavec",     "xsavec64", "xsaves",
    "xsaves64", "xrstors",  "xrstors64", "xgetbv",   "xsetbv",   "monitor",    "mwait",      "stac",     "clac",
    "rdfsbase", "rdgsbase", "wrfsbase",  "wrgsbase", "ldmxcsr",  "stmxcsr",    "verr",       "verw",     "lar",
    "lsl",      "rsm",      "vmcall",    "pushfq",   "popfq",    "clflush",    "clflushopt", "clwb",     "lds"};

static const char *const move_names[] = {"movzx", "movsx", "movsxd", "movbe", "lodsb", "lodsw",
                                         "lodsd", "lodsq", "stosb",  "stosw", "stosd", "stosq",
                                         "movsb", "movsw", "movsd",  "movsq", "leave"};

static bool is_in(const char *const *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

static bool ends_in(const char *name, const char *const *ends, size_t count)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < count; i++)
        if (len > 2 && strcmp(name + len - 2, ends[i]) == 0)
            return true;
    return false;
}

/* Of a mnemonic that takes vector or x87 registers: does it move, or compute with floating-point numbers? */
static enum trait trait_of_vector(const char *name)
{
    static const char *const float_ends[] = {"ps", "pd", "ss", "sd"};
    const char *bare = name[0] == 'v' ? name + 1 : name;
    if (strncmp(bare, "mov", 3) == 0 || strncmp(bare, "lddqu", 5) == 0 || strncmp(bare, "broadcast", 9) == 0)
        return MOVES;
    if (strcmp(name, "fld") == 0 || strcmp(name, "fst") == 0 || strcmp(name, "fstp") == 0)
        return MOVES;
    if (name[0] == 'f' || strncmp(bare, "cvt", 3) == 0)
        return FLOATS;
    return bare[0] != 'p' && ends_in(bare, float_ends, ARRAY_LEN(float_ends)) ? FLOATS : ORDINARY;
}

static enum trait trait_of(const struct x86_insn *x)
{
    static uint8_t known[MNEMONICS_MAX];
    const char *name = x86_mnemonic_name(x->mnemonic);
    enum trait t = x->mnemonic < MNEMONICS_MAX ? (enum trait)known[x->mnemonic] : UNKNOWN;
    if (t != UNKNOWN)
        return t;
    if (is_in(system_names, ARRAY_LEN(system_names), name))
        t = SYSTEM;
    else if (x->props & X86_PROP_VEC)
        t = trait_of_vector(name);
    else
        t = is_in(move_names, ARRAY_LEN(move_names), name) ? MOVES : ORDINARY;
    if (x->mnemonic < MNEMONICS_MAX)
        known[x->mnemonic] = (uint8_t)t;
    return t;
}

static bool is_system_mov(const uint8_t *bytes, const struct x86_insn *x)
{
    unsigned at = (bytes[0] & 0xf0) == 0x40;
    return x->len >= at + 3 && bytes[at] == 0x0f && bytes[at + 1] >= 0x20 && bytes[at + 1] <= 0x23;
}

/* The class of what it does beside its accesses; NO_WORK: nothing. */
static unsigned work_of(const uint8_t *bytes, const struct x86_insn *x, bool reaches_memory)
{
    if (x->props & X86_PROP_NOP)
        return WIRE_NOPS;
    switch ((enum x86_kind)x->kind) {
    case X86_JMP:
    case X86_JMP_IND:
    case X86_CALL:
    case X86_CALL_IND:
    case X86_RET:
        return WIRE_JUMPS;
    case X86_JCC:
    case X86_JCXZ:
    case X86_XBEGIN:
        return WIRE_BRANCHES;
    case X86_SYSCALL:
    case X86_TRAP:
    case X86_INT:
        return WIRE_SYSTEM;
    default:
        break;
    }
    enum trait t = trait_of(x);
    if (t == SYSTEM || is_system_mov(bytes, x))
        return WIRE_SYSTEM;
    if (x->op == X86_OP_MUL || x->op == X86_OP_MULX || x->op == X86_OP_DIV || x->op == X86_OP_IDIV)
        return WIRE_MULDIV;
    bool moves =
        t == MOVES || x->op == X86_OP_MOV || x->op == X86_OP_MOVSXD || x->op == X86_OP_PUSH || x->op == X86_OP_POP;
    if (moves && reaches_memory)
        return NO_WORK;
    return t == FLOATS ? WIRE_FLOAT : WIRE_ALU;
}

static uint8_t special_of(const uint8_t *bytes, const struct x86_insn *x)
{
    const char *name = x86_mnemonic_name(x->mnemonic);
    if (is_system_mov(bytes, x) || strcmp(name, "invlpg") == 0 || strcmp(name, "invpcid") == 0)
        return MIX_MAPS_ANEW;
    return strcmp(name, "hlt") == 0 ? MIX_HALTS : MIX_PLAIN;
}

static bool describe_marker(const uint8_t *bytes, size_t len, struct mix_insn *out)
{
    uint32_t number;
    if (len != WIRE_MARK_LEN || memcmp(bytes, WIRE_MARK_BYTES, 4) != 0)
        return false;
    memcpy(&number, bytes + 4, sizeof number);
    if (number >> 16 != WIRE_MARK_NUMBER(0) >> 16)
        return false;
    out->special = MIX_MARKER;
    out->mark = (uint16_t)number;
    out->is_counted = out->mark >= WIRE_MARK_USER;
    out->mix[WIRE_MARKERS - WIRE_NOPS] = 1;
    out->operations = 1;
    return true;
}

void mix_describe(const uint8_t *bytes, size_t len, uint64_t vaddr, struct mix_insn *out)
{
    memset(out, 0, sizeof *out);
    out->is_counted = true;
    if (!x86_decode(bytes, len, vaddr, &out->x)) { /* what faults: counts as one of the system's, if ever */
        out->mix[WIRE_SYSTEM - WIRE_NOPS] = out->operations = 1;
        out->may_leave = true;
        return;
    }
    const struct x86_insn *x = &out->x;
    if (describe_marker(bytes, len, out))
        return;
    bool is_nop = x->props & X86_PROP_NOP;
    uint8_t loads = is_nop ? 0 : x->loads, stores = is_nop ? 0 : x->stores;
    unsigned work = work_of(bytes, x, loads || stores);
    out->mix[WIRE_LOADS - WIRE_NOPS] = loads;
    out->mix[WIRE_STORES - WIRE_NOPS] = stores;
    if (work <= WIRE_MARKERS)
        out->mix[work - WIRE_NOPS] = 1;
    out->operations = (uint8_t)(loads + stores + (work <= WIRE_MARKERS));
    /* a move from memory to memory, push and call have two places; whatever works on memory has one */
    out->is_modify = loads && stores && work <= WIRE_MARKERS && !(x->props & X86_PROP_STACK);
    out->special = work == WIRE_SYSTEM ? special_of(bytes, x) : MIX_PLAIN;
    out->may_leave = loads || stores || work == WIRE_SYSTEM || x->op == X86_OP_DIV || x->op == X86_OP_IDIV;
}
