/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that do not return. Without them every `call abort` seems to go on into whatever block was placed after it,
 * which makes false paths and false loops. A function does not return if it holds no return, no indirect jump, and
 * leads by jumps only to functions that do not return; of imported ones, and of those that a relocatable object wants
 * of others, a list of names decides.
 */
#include "cfg/impl.h"

#include <stdlib.h>

/* A star stands for any end. */
static const char *const names[] = {
    "abort",
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "pthread_exit",
    "thrd_exit",
    "__assert_fail",
    "__assert_perror_fail",
    "__assert",
    "__stack_chk_fail",
    "__chk_fail",
    "__fortify_fail",
    "longjmp",
    "_longjmp",
    "siglongjmp",
    "__longjmp_chk",
    "__libc_start_main",
    "__libc_fatal",
    "__libc_longjmp",
    "__libc_siglongjmp",
    "__libc_exit",
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_pure_virtual",
    "__cxa_deleted_virtual",
    "__cxa_throw_bad_array_new_length",
    "__cxa_throw_bad_array_length",
    "__cxa_call_unexpected",
    "__cxa_call_terminate",
    "_Unwind_Resume",
    "_ZSt9terminatev",
    "_ZSt10unexpectedv",
    "_ZSt*__throw_*",
    "_ZSt17rethrow_exceptionNSt*",
    "_gfortran_stop_*",
    "_gfortran_error_stop_*",
    "_gfortran_runtime_error",
    "_gfortran_runtime_error_at",
    "_gfortran_os_error",
    "_gfortran_os_error_at",
    "_gfortran_exit_*",
    "g_assertion_message_expr",
    "g_assertion_message",
    "g_abort",
    "Perl_croak",
    "Perl_croak_*",
    "Py_FatalError",
    "_Py_FatalErrorFunc",
    "Py_Exit",
    "rb_raise",
    "rb_exc_raise",
    "lua_error",
    "luaL_error",
};

/* Of the C library, but no name that is reserved to it: what is called so may be an object's beside this one. */
static const char *const unreserved[] = {"err", "errx", "verr", "verrx"};

static bool matches(const char *name, const char *pattern)
{
    for (; *pattern && *pattern != '*'; name++, pattern++)
        if (*name != *pattern)
            return false;
    if (!*pattern)
        return !*name;
    for (; *name; name++)
        if (matches(name, pattern + 1))
            return true;
    return !pattern[1];
}

static bool is_any_of(const char *name, const char *const *patterns, size_t count)
{
    for (size_t k = 0; name && k < count; k++)
        if (matches(name, patterns[k]))
            return true;
    return false;
}

static bool is_known(const char *name)
{
    return is_any_of(name, names, ARRAY_LEN(names)) || is_any_of(name, unreserved, ARRAY_LEN(unreserved));
}

/* Does an address stand for a function of another object that is known not to return, or for the linker's word for it?
 */
static bool is_known_elsewhere(const struct build *b, uint64_t addr)
{
    const struct image *img = b->img;
    if (!img->functions || !cfg_is_elsewhere(b->c, addr))
        return false;
    return is_any_of(img->functions[(addr - img->functions_lo) / img->function_bytes], names, ARRAY_LEN(names));
}

/* The symbol whose address the dynamic linker puts into the memory operand of the indirect call or jump i. */
static const char *imported_name(const struct build *b, uint32_t i)
{
    const struct x86_insn *in = cfg_shape(b->c, i);
    bool loads = (in->props & X86_PROP_RIPREL) && in->loads;
    const struct image_reloc *r = loads ? image_reloc_at(b->img, cfg_insn_target(b->c, i)) : NULL;
    return r ? r->sym_name : NULL;
}

static uint32_t stub_jump(const struct cfg *c, const struct cfg_func *f)
{
    cfg_for_each_insn(f, i)
        if (cfg_kind(c, i) == X86_JMP_IND)
            return i;
    return ID_NONE;
}

/* Imported function called by instruction i, through its stub g or directly through the GOT; NULL: not known. */
static const char *called_name(const struct build *b, uint32_t i, uint32_t g)
{
    uint32_t jump = g == ID_NONE ? ID_NONE : stub_jump(b->c, &b->c->funcs.data[g]);
    if (g != ID_NONE && jump == ID_NONE)
        return NULL;
    return imported_name(b, g == ID_NONE ? i : jump);
}

/* glibc's error ends the program if its first argument is not 0. */
static bool is_error(const char *name)
{
    return name && (strcmp(name, "error") == 0 || strcmp(name, "error_at_line") == 0);
}

/* Does the straight line of code before the call put a constant other than 0 into edi? */
static bool is_status_set(const struct build *b, uint32_t call)
{
    for (uint32_t i = call; i-- > 0 && call - i < 24;) {
        const struct x86_insn *in = cfg_shape(b->c, i);
        if (ends_block(in->kind))
            return false;
        if (in->gpr_written & 1 << X86_RDI)
            return in->op == X86_OP_MOV && in->imm_len == 4 && cfg_insn_target(b->c, i) != 0;
    }
    return false;
}

/* Could it be one, by itself? */
static bool may_lack_return(const struct build *b, const struct cfg_func *f)
{
    const struct cfg *c = b->c;
    if (f->is_plt) {
        uint32_t jump = stub_jump(c, f);
        return jump != ID_NONE && is_known(imported_name(b, jump));
    }
    if (!f->insn_count || f->reason == CFG_REASON_OVERLAP || f->reason == CFG_REASON_UNDECODABLE)
        return false;
    cfg_for_each_insn(f, i)
        if (cfg_kind(c, i) == X86_RET || cfg_kind(c, i) == X86_JMP_IND)
            return false;
    const struct x86_insn *last = cfg_shape(c, f->insn_first + f->insn_count - 1);
    return !falls_through(last->kind) || last->kind == X86_CALL || last->kind == X86_CALL_IND;
}

/* Does a jump of f lead to a function that may return? */
static bool jumps_to_returning(const struct build *b, const struct cfg_func *f, const uint8_t *lacks)
{
    const struct cfg *c = b->c;
    cfg_for_each_insn(f, i) {
        if (!is_direct_jump(cfg_kind(c, i)) || func_holds(f, cfg_insn_target(c, i)))
            continue;
        uint32_t g = cfg_func_at(c, cfg_insn_target(c, i));
        if (g == ID_NONE ? !is_known_elsewhere(b, cfg_insn_target(c, i)) : !lacks[g])
            return true;
    }
    return false;
}

#define FUNCS_A_RANGE 64

struct finder {
    const struct build *b;
    uint8_t *lacks; /* [funcs.len] */
};

static void judge_range(void *ctx, size_t first, size_t end)
{
    const struct finder *n = ctx;
    for (size_t k = first; k < end; k++)
        n->lacks[k] = may_lack_return(n->b, &n->b->c->funcs.data[k]);
}

static void mark_calls(const struct build *b, const struct cfg_func *f, const uint8_t *lacks)
{
    const struct cfg *c = b->c;
    cfg_for_each_insn(f, i) {
        uint8_t kind = cfg_kind(c, i);
        if (kind != X86_CALL && kind != X86_CALL_IND)
            continue;
        uint64_t target = cfg_insn_target(c, i);
        uint32_t g = kind == X86_CALL ? cfg_func_at(c, target) : ID_NONE;
        bool at_entry = g != ID_NONE && c->funcs.data[g].addr == target;
        const char *name = kind == X86_CALL_IND || (at_entry && c->funcs.data[g].is_plt) ? called_name(b, i, g) : NULL;
        bool names_target = kind == X86_CALL || (cfg_shape(c, i)->props & X86_PROP_RIPREL);
        if ((at_entry && lacks[g]) || is_known(name) || (is_error(name) && is_status_set(b, i)) ||
            (names_target && is_known_elsewhere(b, target)))
            b->marks[i] |= MARK_NORETURN;
    }
}

static void mark_range(void *ctx, size_t first, size_t end)
{
    const struct finder *n = ctx;
    for (size_t k = first; k < end; k++)
        mark_calls(n->b, &n->b->c->funcs.data[k], n->lacks);
}

/* needs: functions. fills: marks NORETURN of call instructions. */
void build_noreturn(struct build *b)
{
    const struct cfg *c = b->c;
    uint8_t *lacks = xmalloc(c->funcs.len + 1);
    struct finder n = {b, lacks};
    parallel_for(c->funcs.len, FUNCS_A_RANGE, judge_range, &n);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t k = 0; k < c->funcs.len; k++)
            if (lacks[k] && !c->funcs.data[k].is_plt && jumps_to_returning(b, &c->funcs.data[k], lacks)) {
                lacks[k] = 0;
                changed = true;
            }
    }
    parallel_for(c->funcs.len, FUNCS_A_RANGE, mark_range, &n);
    free(lacks);
}
