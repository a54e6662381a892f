/* SPDX-License-Identifier: Apache-2.0
 * mtool monster: a command in a guest, user and kernel counted instruction by instruction. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "guest/guest.h"
#include "monster/monster.h"
#include "report/report.h"
#include "result/result.h"
#include "store/store.h"

enum { TOP = 20, SIGNAL_STATUS = 128, NOT_STARTED = 126, DISK_MS_MAX = 10000, DISK_MB_S_MAX = 100000 };
#define DISK_MB_S_MIN 0.01

int cmd_monster_prepare(const struct cmd_args *a)
{
    struct guest *g = NULL;
    struct strbuf held = {0};
    diag_hold(&held);
    if (!a->force && !a->kernel)
        g = guest_find();
    diag_hold(NULL);
    str_free(&held);
    if (g && !g->has_drivers) { /* by an older mtool */
        guest_free(g);
        g = NULL;
    }
    if (!g && guest_prepare(a->kernel) < 0)
        return CMD_UNUSABLE;
    if (!g && !(g = guest_find()))
        return CMD_FAILED;
    diag_note("the guest is prepared: Linux %s, in %s; no network is needed any more", g->version, g->folder);
    guest_free(g);
    return CMD_DONE;
}

/* ---- run ---- */

static const char *place_of(const struct cmd_args *a)
{
    const char *name = file_base_name(a->rest[0]);
    if (a->output)
        return a->output;
    char *path = arena_printf(a->arena, "%s.monster", name);
    for (unsigned n = 2; file_exists(path); n++)
        path = arena_printf(a->arena, "%s.%u.monster", name, n);
    return path;
}

static int status_of(const struct monster_result *r)
{
    if (r->end == WIRE_NOT_STARTED) {
        diag_error("monster run: the guest could not start the program: %s", strerror((int)r->status));
        return NOT_STARTED;
    }
    return (int)(r->end == WIRE_SIGNALLED ? SIGNAL_STATUS + r->status : r->status);
}

static int keep(const struct cmd_args *a, const char *path, struct strbuf *text)
{
    struct strbuf report = {0};
    struct monster_result *r = monster_parse(path, text->data, text->len);
    if (!r)
        return CMD_SELF_FAILED;
    int status = status_of(r), rc = cmd_place_write("monster run", path, text);
    monster_put_text(r, a->top ? a->top : TOP, name_plain, &report);
    if (!a->quiet)
        fwrite(report.data, 1, report.len, stderr);
    str_free(&report);
    if (r->end == WIRE_EXITED && r->status)
        diag_note("it exited with %d; in the guest there is no network, and of files and programs only what arguments "
                  "name: --file brings more",
                  (int)r->status);
    monster_free(r);
    diag_note("Result: %s    To see more: mtool monster report %s", path, path);
    return rc == CMD_DONE ? status : CMD_SELF_FAILED;
}

/* "MS,MB_S", or a name. */
static int parse_disk(const struct cmd_args *a, struct monster_options *o)
{
    static const struct {
        const char *name;
        double ms, mb_s;
    } known[] = {{"1990", 24, 1}}; /* as the RZ55: 16 ms to the track, half a turn; 1.25 MB/s off it */
    char *end;
    if (!a->disk)
        return 0;
    o->has_disk = true;
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(a->disk, known[i].name) == 0)
            return o->disk_ms = known[i].ms, o->disk_mb_s = known[i].mb_s, 0;
    o->disk_ms = strtod(a->disk, &end);
    bool is_good = end != a->disk && *end == ',' && o->disk_ms >= 0 && o->disk_ms <= DISK_MS_MAX;
    const char *speed = end + (*end == ',');
    o->disk_mb_s = strtod(speed, &end);
    is_good &= end != speed && !*end && o->disk_mb_s >= DISK_MB_S_MIN && o->disk_mb_s <= DISK_MB_S_MAX;
    return is_good ? 0
                   : diag_error("monster run: --disk %s: milliseconds of a request, up to %d, a comma, and megabytes a "
                                "second, %g to %d; or 1990",
                                a->disk, DISK_MS_MAX, DISK_MB_S_MIN, DISK_MB_S_MAX);
}

int cmd_monster_run(const struct cmd_args *a)
{
    struct strbuf text = {0};
    const char *path = place_of(a);
    struct monster_options o = {.argv = a->rest,
                                .files = a->files.all,
                                .file_count = a->files.count,
                                .machine = a->machine,
                                .programs = a->programs.all,
                                .program_count = a->programs.count,
                                .maps = a->maps,
                                .place = a->place,
                                .marks = a->marks,
                                .analyser = a->analyser,
                                .memory_mb = a->memory,
                                .limit_s = a->limit,
                                .is_virtual = a->is_virtual,
                                .calls = a->calls,
                                .variables = a->variables,
                                .user_only = a->of == 1,
                                .kernel_only = a->of == 2};
    if (parse_disk(a, &o) < 0 || cmd_place_check("monster run", path, "", a->force) < 0)
        return CMD_UNUSABLE;
    int rc = monster_run(&o, &text);
    if (rc < 0) {
        str_free(&text);
        return rc == -1 ? CMD_UNUSABLE : CMD_SELF_FAILED;
    }
    int status = keep(a, path, &text);
    str_free(&text);
    return status;
}

/* ---- report ---- */

static int put(const struct cmd_args *a, struct monster_result *const *r, size_t count, struct strbuf *out)
{
    if (a->figure)
        return monster_put_figure(a->figure, r, count, out);
    for (size_t i = 0; i < count; i++) {
        str_puts(out, i && !a->json ? "\n" : "");
        if (a->json)
            monster_put_json(r[i], out);
        else
            monster_put_text(r[i], a->all ? SIZE_MAX : a->top ? a->top : TOP, name_plain, out);
    }
    return 0;
}

static int check_report(const struct cmd_args *a)
{
    bool writes = a->profile || ((a->order || a->references) && a->output);
    if (a->force && !writes)
        return diag_error("monster report: --force is about the file of --profile or --output");
    if (a->profile && (a->json || a->figure || a->order || a->references || a->rest_count > 1))
        return diag_error("monster report: --profile is of one FILE, and prints nothing");
    if (a->output && !a->order && !a->references)
        return diag_error("monster report: --output is about --order and --references");
    if (a->linker && !a->order)
        return diag_error("monster report: --linker is about --order");
    bool others = a->json || a->figure || a->all || a->top || a->rest_count > 1;
    if (a->order && (others || a->references))
        return diag_error("monster report: --order is of one FILE, in the form that a linker reads");
    if (a->references && others)
        return diag_error("monster report: --references is of one FILE, in the form of valgrind's lackey");
    return a->output ? cmd_place_check("monster report", a->output, a->rest[0], a->force) : 0;
}

/* An order for a linker, or references. */
static int put_for_others(const struct cmd_args *a)
{
    struct strbuf out = {0};
    struct monster_result *r = monster_read(a->rest[0]);
    int rc = -1;
    if (r && a->order)
        rc = monster_put_order(r, a->order, (enum monster_linker)a->linker, &out);
    else if (r)
        rc = monster_put_references(r, a->references, &out);
    if (r)
        monster_free(r);
    if (rc == 0)
        return a->output ? cmd_place_write("monster report", a->output, &out) : cmd_print(&out);
    str_free(&out);
    return CMD_UNUSABLE;
}

static int write_profile(const struct cmd_args *a)
{
    struct monster_result *r = monster_read(a->rest[0]);
    struct prof_result *profile = r ? monster_profile(r) : NULL;
    struct store *s = NULL;
    int rc = profile && store_create(a->profile, NULL, a->force, &s) == 0 ? CMD_DONE : CMD_UNUSABLE;
    if (rc == CMD_DONE)
        rc = store_commit(s, profile) == 0 ? CMD_DONE : CMD_FAILED;
    if (rc == CMD_DONE)
        diag_note("Profile: %s    To see more: mtool report %s", a->profile, a->profile);
    store_abort(s);
    if (profile)
        prof_result_free(profile);
    if (r)
        monster_free(r);
    return rc;
}

int cmd_monster_report(const struct cmd_args *a)
{
    struct strbuf out = {0};
    if (check_report(a) < 0)
        return CMD_UNUSABLE;
    if (a->order || a->references)
        return put_for_others(a);
    if (a->profile)
        return write_profile(a);
    size_t count = (size_t)a->rest_count, n = 0;
    struct monster_result **r = ARENA_ARRAY(a->arena, struct monster_result *, count);
    while (n < count && (r[n] = monster_read(a->rest[n])))
        n++;
    int rc = n == count ? put(a, r, count, &out) : -1;
    while (n)
        monster_free(r[--n]);
    if (rc == 0)
        return cmd_print(&out);
    str_free(&out);
    return CMD_UNUSABLE;
}
