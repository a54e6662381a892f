/* SPDX-License-Identifier: Apache-2.0
 *
 * The running machine to its description: the parts of the calibration in their order, on one quiet CPU, within a
 * budget of time. What could not be timed keeps the value of the generic description. */
#include "machine/calibrate/calib.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

double calib_run(struct calib *k, struct lab_code *c, double parts, unsigned fill)
{
    double cycles = lab_loop_cycles(k->lab, c, fill);
    k->unsure = k->unsure || lab_was_unsure(k->lab);
    free(c);
    return cycles < 0 ? -1 : cycles / parts;
}

static const char *today(struct arena *a)
{
    time_t now = time(NULL);
    struct tm t;
    char text[16] = "";
    if (gmtime_r(&now, &t))
        strftime(text, sizeof text, "%Y-%m-%d", &t);
    return arena_strdup(a, text);
}

static double clamp_budget(const struct machine_calibrate_options *o)
{
    double s = o && o->budget_s > 0 ? o->budget_s : 45;
    return s > 60 ? 60 : s;
}

/* Parts in this order, because later ones use what earlier ones found: the width counts slots, branches are a family of
 * operations, the classes name the units of calls, the reorder limits need the loads' units. */
static const struct {
    void (*part)(struct calib *k);
    unsigned measurements; /* about so many */
    double share;          /* of the time; what is left over goes to those that follow; 1 together */
} parts[] = {
    {calib_width, 4, 0.02},      {timing_essential, 300, 0.08}, {calib_clock, 50, 0.01},   {calib_units, 900, 0.2},
    {calib_frontend, 130, 0.08}, {calib_memory, 250, 0.1},      {calib_special, 60, 0.03}, {calib_bypass, 20, 0.01},
    {calib_reorder, 120, 0.08},  {calib_rest, 6000, 0.39},
};

static void run_parts(struct calib *k)
{
    double spare = lab_seconds_left(k->lab) * 0.1, shares = 1;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        double left = lab_seconds_left(k->lab) - spare, planned = left * parts[i].share / shares;
        lab_plan(k->lab, k->quick ? parts[i].measurements / 8 : parts[i].measurements, planned);
        shares -= parts[i].share;
        parts[i].part(k);
        diag_debug(1, "calibrate: canary %.4f, part %zu took %.2f s of %.2f", lab_canary(k->lab), i,
                   left + spare - lab_seconds_left(k->lab), planned);
    }
    diag_progress_end();
}

/* `tape`: what was played, NULL where something was timed. */
static int refuse(const struct tape *tape, size_t forms, bool has_clock)
{
    if (tape && !has_clock)
        return diag_error("%s: describes a core without a clock (number core-per-tsc); record it again where less runs",
                          tape_name(tape));
    if (tape)
        return diag_error("%s: has plausible times of %zu instruction%s, which makes no "
                          "description; record it again where less runs",
                          tape_name(tape), forms, forms == 1 ? "" : "s");
    return diag_error("this machine was never quiet enough to time instructions; calibrate again when less runs on it, "
                      "or name a description of machines/");
}

static int finish(struct calib *k, const struct tape *tape, struct machine **out)
{
    struct machine *m = k->m;
    m->tsc_ghz = round(lab_tsc_ghz(k->lab) * 1e4) / 1e4;
    m->core_per_tsc = round(lab_core_per_tsc(k->lab) * 1e4) / 1e4;
    m->nop_cycles = round(lab_canary(k->lab) * 1e4) / 1e4;
    m->noise = round(lab_noise(k->lab) * 1e4) / 1e4;
    m->name = arena_strdup(m->arena, str_printable(m->arena, lab_cpu_name(k->lab)));
    m->date = today(m->arena);
    m->source = "calibrated";
    m->experiments = MACHINE_EXPERIMENTS;
    diag_debug(1, "calibrate: %zu forms, %.0f %% of samples disturbed, noise %.2f %%", k->forms.len,
               100 * lab_disturbed_share(k->lab), 100 * m->noise);
    if (k->forms.len < 20 || m->core_per_tsc <= 0) {
        bool has_clock = m->core_per_tsc > 0;
        machine_free(m);
        return refuse(tape, k->forms.len, has_clock);
    }
    *out = m;
    return 0;
}

int machine_calibrate(const struct machine_calibrate_options *options, struct machine **out)
{
    struct calib k = {.quick = options && options->quick};
    double budget = clamp_budget(options);
    budget *= k.quick ? 0.1 : 0.9; /* some of it goes to what is not timed */
    k.lab = lab_open(options ? options->bench : NULL, budget);
    if (!k.lab)
        return -1;
    k.is_here = !options || !options->bench || (!options->bench->core && !options->bench->play);
    k.arena = arena_new();
    k.m = machine_new();
    run_parts(&k);
    int rc = finish(&k, options && options->bench ? options->bench->play : NULL, out);
    lab_close(k.lab);
    VEC_FREE(&k.forms);
    arena_free(k.arena);
    return rc;
}
