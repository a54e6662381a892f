/* SPDX-License-Identifier: Apache-2.0
 * mtool doctor: what this machine allows. Each check tries the thing itself, not a setting that might forbid it, and
 * says what mtool does where it is not to be had. */
#include "cmd/run/profile.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "launch/launch.h"
#include "live/live.h"
#include "machine/machine.h"

#ifndef HWCAP2_FSGSBASE
#define HWCAP2_FSGSBASE (1 << 1)
#endif

struct finding {
    bool is_there;
    const char *text; /* what was found */
};
/* Each in `a`. */
typedef struct finding check_fn(struct arena *a);

static struct finding found(const char *text) { return (struct finding){true, text}; }
static struct finding missing(const char *text) { return (struct finding){false, text}; }

/* The value of the first line "KEY : VALUE" of /proc/cpuinfo, "" if there is none. */
static const char *cpuinfo(struct arena *a, const char *key)
{
    char line[8192];
    const char *value = "";
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && !*value && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        value = arena_strdup(a, colon + 1 + strspn(colon + 1, " "));
    }
    if (f)
        fclose(f);
    return value;
}

static bool has_word(const char *words, const char *word)
{
    size_t len = strlen(word);
    for (const char *s = words; (s = strstr(s, word)); s += len)
        if ((s == words || s[-1] == ' ') && (s[len] == ' ' || s[len] == 0))
            return true;
    return false;
}

/* One line of a small file, NULL if it cannot be read. */
static const char *first_line(struct arena *a, const char *path)
{
    char line[256] = "";
    FILE *f = fopen(path, "re");
    bool is_read = f && fgets(line, sizeof line, f);
    if (f)
        fclose(f);
    line[strcspn(line, "\n")] = 0;
    return is_read ? arena_strdup(a, line) : NULL;
}

static struct finding check_cpu(struct arena *a)
{
    const char *model = cpuinfo(a, "model name");
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return found(arena_printf(a, "%s, %ld processors", *model ? str_printable(a, model) : "unknown", count));
}

static struct finding check_kernel(struct arena *a)
{
    struct utsname u;
    return uname(&u) < 0 ? missing(strerror(errno)) : found(arena_printf(a, "%s %s", u.sysname, u.release));
}

static struct finding check_proc(struct arena *a)
{
    return access("/proc/self/maps", R_OK) == 0 ? found("/proc is mounted")
                                                : missing(arena_printf(a, "/proc/self/maps: %s", strerror(errno)));
}

static struct finding check_clock(struct arena *a)
{
    const char *flags = cpuinfo(a, "flags");
    if (!has_word(flags, "tsc"))
        return missing("no time stamp counter");
    if (!has_word(flags, "constant_tsc") || !has_word(flags, "nonstop_tsc"))
        return missing("the time stamp counter is not said to tick evenly");
    return found("the time stamp counter ticks evenly");
}

static struct finding check_perf(struct arena *a)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = 1000000,
                                   .disabled = 1,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0), err = errno;
    const char *level = first_line(a, "/proc/sys/kernel/perf_event_paranoid");
    if (fd < 0)
        return missing(arena_printf(a, "perf_event_open: %s (perf_event_paranoid is %s)", strerror(err),
                                    level ? level : "unknown"));
    close(fd);
    return found("perf_event_open gives the software clock");
}

static struct finding check_namespace(struct arena *a)
{
    (void)a;
    enum launch_mode mode = launch_mode_probe();
    return mode == LAUNCH_MODE_PATH ? missing(launch_mode_text[mode]) : found(launch_mode_text[mode]);
}

/* Whether a file can be made in `folder`; nothing stays. */
static struct finding try_folder(struct arena *a, const char *folder)
{
    char *name = arena_printf(a, "%s/.mtool-XXXXXX", folder);
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return missing(arena_printf(a, "%s: %s", str_printable(a, folder), strerror(errno)));
    close(fd);
    unlink(name);
    return found(str_printable(a, folder));
}

static struct finding check_memory_files(struct arena *a) { return try_folder(a, "/dev/shm"); }

static struct finding check_cache(struct arena *a)
{
    const char *folder = file_cache_dir(a);
    if (file_make_dirs(folder, 0700) < 0)
        return missing(arena_printf(a, "%s: %s", str_printable(a, folder), strerror(errno)));
    return try_folder(a, folder);
}

static struct finding check_here(struct arena *a)
{
    const char *folder = file_real_path(a, ".");
    return folder ? try_folder(a, folder) : missing(strerror(errno));
}

/* Of the description that runs on this machine use. */
static struct finding check_model(struct arena *a)
{
    const char *path = cmd_machine_path(a);
    struct machine *m = NULL;
    if (!path)
        return missing("there is no place to keep a description");
    if (!file_exists(path))
        return found(
            arena_printf(a, "not calibrated yet: the first mtool run does it and keeps %s", str_printable(a, path)));
    if (machine_read(path, &m) < 0)
        return missing(arena_printf(a, "%s cannot be read", str_printable(a, path)));
    const struct machine_error *e = machine_error_of(m, "all");
    const char *figures = e ? arena_printf(a, "off by %.0f %% in the median, %.0f %% for nine in ten kernels",
                                           100 * e->median, 100 * e->p90)
                            : "not tested";
    bool passes = machine_passes(m);
    const char *text = arena_printf(a, "%s (%s, %s): %s", str_printable(a, m->name), str_printable(a, m->source),
                                    str_printable(a, m->date), figures);
    machine_free(m);
    return passes ? found(text) : missing(arena_printf(a, "%s: its self-test failed", text));
}

static struct finding check_gs(struct arena *a)
{
    (void)a;
    return getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE ? found("the program may set gs by itself")
                                                  : missing("the program may not set gs by itself");
}

static struct finding check_demangler(struct arena *a)
{
    (void)a;
    void *lib = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
    if (!lib)
        return missing("no libstdc++.so.6");
    dlclose(lib);
    return found("libstdc++.so.6");
}

/* What of mtool monster live's there is. */
static struct finding check_live(struct arena *a, enum live_source source)
{
    static struct live_source_state state[LIVE_SOURCES];
    if (!state[source].found)
        live_probe(a, state);
    return (struct finding){state[source].is_used, state[source].found};
}
static struct finding check_bpf(struct arena *a) { return check_live(a, LIVE_BPF); }
static struct finding check_tracepoints(struct arena *a) { return check_live(a, LIVE_TRACEPOINTS); }
static struct finding check_kernel_samples(struct arena *a) { return check_live(a, LIVE_SAMPLES); }
static struct finding check_kernel_names(struct arena *a) { return check_live(a, LIVE_SYMBOLS); }
static struct finding check_counters(struct arena *a) { return check_live(a, LIVE_PMU); }

static const struct {
    const char *name;
    check_fn *check;
    bool is_needed;
    const char *otherwise; /* what mtool does if it is missing */
} checks[] = {
    {"cpu", check_cpu, false, ""},
    {"kernel", check_kernel, false, ""},
    {"proc", check_proc, true, "mtool cannot work: mount /proc"},
    {"clock", check_clock, false, "short times are less exact; intervals become wider"},
    {"samples", check_perf, false, "a timer inside the program takes the samples, fewer and less evenly"},
    {"namespace", check_namespace, false, "the counted copy runs under a path of its own"},
    {"memory files", check_memory_files, false, "counters are kept in a file on disk while the program runs"},
    {"cache", check_cache, true, "mtool cannot work: set XDG_CACHE_HOME to a folder that can be written"},
    {"model", check_model, false,
     "no loop is reported as significant by it alone; run mtool calibrate when less runs on this machine"},
    {"profiles here", check_here, false, "name another place with -o FILE"},
    {"thread counters", check_gs, false, "a system call sets gs in each thread, which costs a little more"},
    {"bpf", check_bpf, false, "monster live reads tracepoints from rings, which costs the program more"},
    {"tracepoints", check_tracepoints, false,
     "without bpf too, monster live tells no system call, fault or interrupt by itself"},
    {"kernel samples", check_kernel_samples, false, "monster live tells user time and the kernel's in all, no regions"},
    {"kernel names", check_kernel_names, false, "monster live tells no regions and functions of the kernel"},
    {"counters", check_counters, false, "monster live tells no cycles, instructions and stalls"},
    {"C++ names", check_demangler, false, "names of C++ functions stay as the linker knows them"},
};

static void put_text(struct strbuf *out, const struct finding *f, size_t check)
{
    enum { INDENT = 22 };
    str_printf(out, "%-4s %-16s ", f->is_there ? "ok" : checks[check].is_needed ? "FAIL" : "no", checks[check].name);
    cmd_put_wrapped(out, f->text, strlen(f->text), INDENT, INDENT);
    if (f->is_there)
        return;
    str_printf(out, "%*sso: ", INDENT, "");
    cmd_put_wrapped(out, checks[check].otherwise, strlen(checks[check].otherwise), INDENT + 4, INDENT);
}

static void put_json(struct json *j, const struct finding *f, size_t check)
{
    json_object(j, NULL);
    json_str(j, "name", checks[check].name);
    json_bool(j, "there", f->is_there);
    json_bool(j, "needed", checks[check].is_needed);
    json_str(j, "found", f->text);
    json_str(j, "instead", f->is_there ? NULL : checks[check].otherwise);
    json_object_end(j);
}

int cmd_doctor(const struct cmd_args *a)
{
    struct strbuf text = {0}, json = {0};
    struct json j;
    bool is_usable = true;
    json_init(&j, &json, true);
    json_object(&j, NULL);
    json_str(&j, "schema", "mtool-doctor-1");
    json_array(&j, "checks");
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        struct finding f = checks[i].check(a->arena);
        is_usable &= f.is_there || !checks[i].is_needed;
        put_text(&text, &f, i);
        put_json(&j, &f, i);
    }
    json_array_end(&j);
    json_object_end(&j);
    int status = cmd_print(a->json ? &json : &text);
    str_free(a->json ? &text : &json);
    return status != CMD_DONE ? status : is_usable ? CMD_DONE : CMD_FAILED;
}
