/* SPDX-License-Identifier: Apache-2.0
 * mtool dump window: runs a program with windows of its instruction stream taken by translated code, and prints them:
 * which instructions, where they reached memory; or, with --check, whether the processor executed the same step by
 * step. */
#include "cmd/cmd.h"
#include "cmd/run/bursts.h"

#include <sys/wait.h>

enum { TORN_MAX = 64 /* instructions of a record that is left out */ };
enum { LENGTH = 200000, COUNT = 10, STEPS = 20, CHECK_STEPS = 20000, BYTES_A_REFERENCE = 16 };
static const double INTERVAL_S = 0.05;

/* As enum wire_burst_end; one that was cut ends with its length. */
static const char *const end_text[] = {"length", "system call", "fault", "code that is not followed"};

struct window {
    struct launch_burst w;
    struct trace_window trace;
    struct bursts_branches branches;
    struct trace_difference difference;
    bool is_predicted, is_checked, ended_early; /* ended_early: steps went on where the burst did not */
};
struct dump {
    struct bursts bursts; /* first: see bursts_begin */
    const struct cmd_args *args;
    struct launch_program *program;
    uint64_t length;
    VEC(struct window) windows;
    struct arena *arena; /* of what is taken, in another thread */
};

static bool differs(const struct window *w) { return w->difference.what || w->ended_early; }

static enum wire_burst_end how_it_ended(const struct window *w)
{
    return w->trace.bytes < w->w.bytes && !w->w.is_torn ? WIRE_BURST_FULL : (enum wire_burst_end)w->w.end;
}

/* ---- taking ---- */

static uint64_t take(void *ctx, const struct launch_burst *w)
{
    struct dump *d = ctx;
    struct window to = {.w = *w, .trace = bursts_window(&d->bursts, w, d->length)};
    to.is_predicted = !w->waiting; /* else the consumer would fall behind for good */
    if (to.is_predicted)
        to.branches = bursts_predict(&d->bursts, &to.trace, NULL, 0);
    if (!d->args->heads)
        trace_keep_records(&to.trace, d->arena);
    VEC_PUSH(&d->windows, to);
    return to.trace.bytes;
}

static void check_window(struct window *w, const struct wire_windows *steps, uint32_t k)
{
    struct arena *a = arena_new();
    struct trace_window by_step;
    if (trace_steps(steps, k, a, &by_step)) {
        trace_compare(&w->trace, &by_step, &w->difference);
        w->is_checked = true;
        w->ended_early = how_it_ended(w) != WIRE_BURST_FULL && w->difference.left > TORN_MAX;
    }
    arena_free(a);
}

static void check(void *ctx, const struct wire_windows *steps)
{
    struct dump *d = ctx;
    for (size_t i = 0; i < d->windows.len; i++)
        for (uint32_t k = 0; k < steps->window_count; k++)
            if (steps->windows[k].burst == d->windows.data[i].w.number)
                check_window(&d->windows.data[i], steps, k);
}

static int run(struct dump *d, struct launch_result **out)
{
    const struct cmd_args *a = d->args;
    struct launch_burst_options o = {.window_bytes = d->length * BYTES_A_REFERENCE,
                                     .window_max = a->count ? (uint32_t)min_u64(a->count, UINT32_MAX) : COUNT,
                                     .interval_s = a->interval > 0 ? a->interval : INTERVAL_S,
                                     .threads = d->program->made_threads || launch_may_make_threads(d->program),
                                     .steps = a->check ? CHECK_STEPS : 0,
                                     .ctx = d,
                                     .begin = bursts_begin,
                                     .answer = bursts_answer,
                                     .take = take,
                                     .take_steps = a->check ? check : NULL,
                                     .finish = bursts_finish};
    o.stepped_max = o.window_max;
    struct launch_options opt = {.how = LAUNCH_BURSTS, .mode = launch_mode_probe(), .bursts = &o, .mute = true};
    return launch_run(d->program, &opt, out) < 0 ? CMD_SELF_FAILED : 0;
}

/* ---- text ---- */

static void put_place(const struct dump *d, const struct trace_insn *i, struct strbuf *out)
{
    if (i->place == OBSERVED_PLACE_UNKNOWN)
        str_printf(out, "%#18llx  ", (unsigned long long)i->x.addr);
    else
        str_printf(out, "%s+%#llx  ", file_base_name(d->program->modules[OBSERVED_PLACE_MODULE(i->place)].path),
                   (unsigned long long)OBSERVED_PLACE_VADDR(i->place));
}

static void put_step(const struct dump *d, const struct window *w, const struct trace_step *s, struct strbuf *out)
{
    char text[96];
    struct trace_access access[X86_ACCESSES_MAX];
    int accesses = trace_accesses(&w->trace, s, access);
    str_puts(out, "  ");
    put_place(d, s->insn, out);
    x86_format(s->insn->bytes, s->insn->x.len, s->insn->x.addr, text, sizeof text);
    str_puts(out, text);
    for (int k = 0; k < accesses; k++) {
        const struct trace_access *a = &access[k];
        const char *how = a->is_load && a->is_store ? "changes" : a->is_store ? "writes" : "reads";
        if (a->is_known)
            str_printf(out, "%s %s %u at %#llx", k ? "," : "  ;", how, a->bytes, (unsigned long long)a->address);
        else
            str_printf(out, "%s %s %u", k ? "," : "  ;", how, a->bytes);
    }
    str_puts(out, "\n");
}

static void put_check(const struct window *w, struct strbuf *out)
{
    const struct trace_difference *c = &w->difference;
    if (!w->is_checked)
        str_puts(out, "  not taken step by step: not checked\n");
    else if (c->what)
        str_printf(
            out, "  DIFFERS from what was executed step by step at instruction %llu (%#llx): %s is %#llx, not %#llx\n",
            (unsigned long long)c->at, (unsigned long long)c->address, c->what, (unsigned long long)c->by_burst,
            (unsigned long long)c->by_step);
    else if (w->ended_early)
        str_printf(out, "  DIFFERS from what was executed step by step: it ended %llu instructions before that\n",
                   (unsigned long long)c->left);
    else
        str_printf(out, "  the same as step by step: %llu instructions, %llu addresses, %llu of them not recorded\n",
                   (unsigned long long)c->instructions, (unsigned long long)c->addresses,
                   (unsigned long long)c->unknown);
}

static void put_window(const struct dump *d, const struct window *w, struct strbuf *out)
{
    struct trace_stream r;
    struct trace_step s;
    uint64_t max = d->args->steps ? d->args->steps : STEPS;
    str_printf(out, "window %u: thread %d, begins after %.4f s of processor time; %llu instructions, %llu references",
               w->w.number, w->w.thread, w->w.at_s, (unsigned long long)w->trace.instructions,
               (unsigned long long)w->trace.references);
    if (w->is_predicted)
        str_printf(out, ", %llu branches, %llu of them mispredicted", (unsigned long long)w->branches.all,
                   (unsigned long long)w->branches.mispredicted);
    str_printf(out, "; %zu bytes; end: %s\n", w->trace.bytes, end_text[how_it_ended(w)]);
    if (d->args->heads)
        return;
    if (d->args->check) {
        put_check(w, out);
        return;
    }
    trace_begin(&r, &w->trace);
    for (uint64_t n = 0; n < max && trace_next(&r, &s); n++)
        put_step(d, w, &s, out);
}

static void put_text(const struct dump *d, const struct launch_result *r, struct strbuf *out)
{
    const struct launch_burst_counts *c = &r->bursts;
    for (size_t i = 0; i < d->windows.len; i++)
        put_window(d, &d->windows.data[i], out);
    str_printf(out, "%u windows of %u snapshots: %u stood before a system call, %u were lost\n", c->taken, c->begun,
               c->empty, c->lost);
    if (c->skipped)
        str_printf(out, "%u times none was made, since the last was still at work\n", c->skipped);
    if (c->refused)
        str_printf(out, "%u times none could be made: no more processes\n", c->refused);
    if (c->first_thread_only)
        str_puts(out,
                 "only the first thread was looked at: the others block signals, or the kernel is older than 6.4\n");
    if (c->changed)
        str_printf(out, "%u times code had changed and was translated anew\n", c->changed);
}

/* ---- JSON ---- */

static void json_access(const struct trace_access *a, struct json *j)
{
    json_object(j, NULL);
    if (a->is_known)
        json_hex(j, "address", a->address);
    else
        json_null(j, "address");
    json_u64(j, "bytes", a->bytes);
    json_bool(j, "load", a->is_load);
    json_bool(j, "store", a->is_store);
    json_object_end(j);
}

static void json_step(const struct dump *d, const struct window *w, const struct trace_step *s, struct json *j)
{
    struct trace_access access[X86_ACCESSES_MAX];
    int accesses = trace_accesses(&w->trace, s, access);
    uint64_t place = s->insn->place;
    json_object(j, NULL);
    if (place == OBSERVED_PLACE_UNKNOWN) {
        json_null(j, "module");
        json_hex(j, "address", s->insn->x.addr);
    } else {
        json_str(j, "module", d->program->modules[OBSERVED_PLACE_MODULE(place)].path);
        json_hex(j, "address", OBSERVED_PLACE_VADDR(place));
    }
    json_u64(j, "size_bytes", s->insn->x.len);
    if (accesses < 0)
        json_null(j, "memory");
    else
        json_array(j, "memory");
    for (int k = 0; k < accesses; k++)
        json_access(&access[k], j);
    if (accesses >= 0)
        json_array_end(j);
    json_object_end(j);
}

static void json_check(const struct window *w, struct json *j)
{
    const struct trace_difference *c = &w->difference;
    if (!w->is_checked) {
        json_null(j, "check");
        return;
    }
    json_object(j, "check");
    json_bool(j, "same", !differs(w));
    json_str(j, "differs", c->what ? c->what : w->ended_early ? "end" : NULL);
    json_u64(j, "instructions", c->instructions);
    json_u64(j, "addresses", c->addresses);
    json_u64(j, "unknown_addresses", c->unknown);
    json_object_end(j);
}

static void json_steps(const struct dump *d, const struct window *w, struct json *j)
{
    struct trace_stream r;
    struct trace_step s;
    uint64_t max = d->args->steps ? d->args->steps : STEPS;
    json_array(j, "steps");
    trace_begin(&r, &w->trace);
    for (uint64_t n = 0; n < max && trace_next(&r, &s); n++)
        json_step(d, w, &s, j);
    json_array_end(j);
}

static void json_window(const struct dump *d, const struct window *w, struct json *j)
{
    json_object(j, NULL);
    json_u64(j, "number", w->w.number);
    json_i64(j, "thread", w->w.thread);
    json_real(j, "begin_s", w->w.at_s);
    json_u64(j, "instructions", w->trace.instructions);
    json_u64(j, "references", w->trace.references);
    if (w->is_predicted) {
        json_u64(j, "branches", w->branches.all);
        json_u64(j, "mispredicted", w->branches.mispredicted);
    } else {
        json_null(j, "branches");
        json_null(j, "mispredicted");
    }
    json_u64(j, "record_bytes", w->trace.bytes);
    json_str(j, "end", end_text[how_it_ended(w)]);
    if (d->args->check)
        json_check(w, j);
    else if (!d->args->heads)
        json_steps(d, w, j);
    json_object_end(j);
}

static void put_json(const struct dump *d, const struct launch_result *r, struct strbuf *out)
{
    const struct launch_burst_counts *c = &r->bursts;
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_str(&j, "schema", "mtool-window-1");
    json_str(&j, "program", d->program->path);
    json_u64(&j, "snapshots", c->begun);
    json_u64(&j, "empty", c->empty);
    json_u64(&j, "lost", c->lost);
    json_u64(&j, "skipped", c->skipped);
    json_u64(&j, "refused", c->refused);
    json_u64(&j, "code_changed", c->changed);
    json_bool(&j, "first_thread_only", c->first_thread_only);
    json_object(&j, "cost");
    json_real(&j, "program_user_s", r->user_s);
    json_real(&j, "program_system_s", r->system_s);
    json_real(&j, "program_wall_s", r->wall_s);
    json_real(&j, "snapshots_s", c->snapshots_user_s + c->snapshots_system_s);
    json_real(&j, "translator_s", c->answer_s);
    json_real(&j, "consumer_s", c->take_s);
    json_object_end(&j);
    json_array(&j, "windows");
    for (size_t i = 0; i < d->windows.len; i++)
        json_window(d, &d->windows.data[i], &j);
    json_array_end(&j);
    json_object_end(&j);
    str_puts(out, "\n");
}

/* ---- the command ---- */

static int print(const struct dump *d, const struct launch_result *r)
{
    struct strbuf out = {0};
    d->args->json ? put_json(d, r, &out) : put_text(d, r, &out);
    int rc = cmd_print(&out);
    for (size_t i = 0; i < d->windows.len; i++)
        if (differs(&d->windows.data[i]))
            rc = CMD_FAILED;
    return rc;
}

int cmd_dump_window(const struct cmd_args *a)
{
    struct dump d = {.args = a, .length = a->length ? a->length : LENGTH};
    struct launch_result *r = NULL;
    if (a->heads && a->check)
        return diag_error("dump window: --heads and --check exclude each other; give one"), CMD_UNUSABLE;
    if (launch_program_find(a->rest, &d.program) < 0)
        return CMD_UNUSABLE;
    bursts_init(&d.bursts);
    d.arena = arena_new();
    int rc = run(&d, &r);
    if (!rc && r->windows_note)
        diag_warn("no-windows", "no window of the instruction stream was taken: %s", r->windows_note);
    if (!rc)
        rc = print(&d, r);
    launch_result_free(r);
    VEC_FREE(&d.windows);
    arena_free(d.arena);
    bursts_fini(&d.bursts);
    launch_program_free(d.program);
    return rc;
}
