/* SPDX-License-Identifier: Apache-2.0
 * A command run in the guest: the steps. */
#include "monster/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/guest.h"
#include "machine/machine.h"

enum {
    MB = 1 << 20,
    MEMORY_MIN_MB = 64, /* of which the kernel says at least what it lacks; with less it may stand still */
    MEMORY_MAX_MB = 3000,
    SPARE_MB = 512,
    SHIFT_MAX = 7,
    LIMIT_S = 600,
    PATH_LEN = 4096,
    DAY_S = 86400,
    USUAL_S = 1767225600,
    BINS_MAX = 65536
};

struct job {
    const struct monster_options *o;
    struct arena *a;
    struct guest *guest;
    struct guest_tree *tree;
    const char *folder; /* of the job's own files */
    const char *program, *machine;
    double ghz;
    bool places_code, places_data; /* some policy has the kernel's functions, or variables, placed */
    struct guest_boot boot;
};

static const char *part(const struct job *j, const char *name) { return arena_printf(j->a, "%s/%s", j->folder, name); }

static int write_part(const char *path, const struct strbuf *text)
{
    return file_write_whole(path, text->data ? text->data : "", text->len, 0600) == 0
               ? 0
               : diag_error("cannot write %s: %s", path, strerror(errno));
}

/* ---- the command ---- */

static int find_program(struct job *j)
{
    const char *at = guest_find_program(j->a, j->o->argv[0]);
    char here[PATH_LEN];
    struct stat st;
    if (!at)
        return diag_error("monster run: there is no program %s", j->o->argv[0]);
    if (stat(at, &st) < 0 || !S_ISREG(st.st_mode))
        return diag_error("monster run: %s is no program", at);
    j->program = *at == '/' || !getcwd(here, sizeof here) ? at : arena_printf(j->a, "%s/%s", here, at);
    return 0;
}

/* The words of an argument that are files here, as the whole of it may be: of a script for a shell, of OPTION=FILE. */
static int add_words(const struct job *j, const char *argument)
{
    static const char between[] = " \t\n=;<>&|()'\"";
    struct stat st;
    char *words = arena_strdup(j->a, argument), *state = NULL;
    if (stat(argument, &st) == 0 && S_ISREG(st.st_mode))
        return guest_tree_add(j->tree, argument);
    for (char *word = strtok_r(words, between, &state); word; word = strtok_r(NULL, between, &state))
        if (stat(word, &st) == 0 && S_ISREG(st.st_mode) && access(word, R_OK) == 0 && guest_tree_add(j->tree, word) < 0)
            return -1;
    return 0;
}

/* The program, what the user names, and the arguments that are files here; the shell that programs start others by. */
static int add_files(struct job *j)
{
    static const char *const usual[] = {"/etc/ld.so.cache", "/etc/passwd", "/etc/group", "/bin/sh"};
    if (guest_tree_add(j->tree, j->program) < 0)
        return -1;
    for (size_t i = 0; i < j->o->file_count; i++)
        if (guest_tree_add(j->tree, j->o->files[i]) < 0)
            return -1;
    for (size_t i = 1; j->o->argv[i]; i++)
        if (add_words(j, j->o->argv[i]) < 0)
            return -1;
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (file_exists(usual[i]) && guest_tree_add(j->tree, usual[i]) < 0)
            return -1;
    return monster_add_compilers(j->tree, j->o->argv);
}

/* A file or a pipe is read by the guest's program as by any; a terminal is not. */
static int add_input(struct job *j, const char **input)
{
    struct stat st;
    char buffer[1 << 16];
    struct strbuf text = {0};
    ssize_t n;
    *input = "";
    if (fstat(STDIN_FILENO, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode)))
        return 0;
    while ((n = read(STDIN_FILENO, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            str_put(&text, buffer, (size_t)n);
    int rc = n < 0 ? diag_error("monster run: cannot read standard input: %s", strerror(errno)) : 0;
    guest_tree_add_text(j->tree, "/mtool/stdin", text.data ? text.data : "", text.len);
    str_free(&text);
    *input = "/mtool/stdin";
    return rc;
}

/* "": there is none. */
static const char *disk_of(const struct job *j)
{
    if (!j->o->has_disk)
        return "";
    return arena_printf(j->a, "%.0f %.0f", 1e6 * j->o->disk_ms, 1e6 * j->o->disk_mb_s);
}

static int check_disk(const struct job *j)
{
    if (!j->o->has_disk)
        return 0;
    if (!j->guest->has_drivers)
        return diag_error(
            "monster run: the guest has no drivers of a disk, since an older mtool prepared it or it is of a "
            "kernel image of your own: 'mtool monster prepare --force'");
    return file_exists(j->guest->busybox) ? guest_tree_add_drivers(j->tree, j->guest->folder)
                                          : diag_error("monster run: the guest has no busybox, which makes the disk's "
                                                       "file system: 'mtool monster prepare --force'");
}

static int add_command(struct job *j)
{
    static const char *const environment[] = {
        "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/mtool/bin", "HOME=/root", "TERM=dumb",
        "LC_ALL=C"};
    const char *input, *plugin = guest_own_file(j->a, "mtool-monster.so"), *init = guest_own_file(j->a, "monster-init");
    char here[PATH_LEN];
    VEC(const char *) words = {0};
    size_t argc = 0;
    if (!plugin || !init || add_input(j, &input) < 0)
        return -1;
    if (!getcwd(here, sizeof here))
        return diag_error("monster run: the current folder: %s", strerror(errno));
    guest_tree_add_folder(j->tree, here);
    while (j->o->argv[argc])
        argc++;
    const char *head[] = {"run",      arena_printf(j->a, "%llu", (unsigned long long)j->boot.memory_bytes),
                          here,       input,
                          disk_of(j), arena_printf(j->a, "%zu", argc + 1),
                          j->program};
    for (size_t i = 0; i < ARRAY_LEN(head); i++)
        VEC_PUSH(&words, head[i]);
    for (size_t i = 0; i < argc; i++)
        VEC_PUSH(&words, j->o->argv[i]);
    for (size_t i = 0; i < ARRAY_LEN(environment); i++)
        VEC_PUSH(&words, environment[i]);
    VEC_PUSH(&words, NULL);
    j->boot.plugin = plugin;
    int rc = guest_tree_add_base(j->tree, init, file_exists(j->guest->busybox) ? j->guest->busybox : NULL, words.data);
    VEC_FREE(&words);
    return rc;
}

/* ---- the machine ---- */

/* Of those that are built in; until the next call. */
static const char *shipped_machine(size_t i)
{
    static char base[64];
    const char *name;
    if (!machine_shipped_text(i, &name))
        return NULL;
    snprintf(base, sizeof base, "%.*s", (int)strcspn(name, "."), name);
    return base;
}

/* The file of a description, or the name of one that is built in, which is written into the job's folder. */
static int find_machine(struct job *j, const char *wanted)
{
    const char *name, *text;
    size_t len = strlen(wanted);
    for (size_t i = 0; !strchr(wanted, '/') && (text = machine_shipped_text(i, &name)); i++)
        if (strncmp(name, wanted, len) == 0 && strcmp(name + len, ".machine") == 0) {
            struct strbuf copy = {0};
            str_puts(&copy, text);
            j->machine = part(j, "machine");
            int rc = write_part(j->machine, &copy);
            str_free(&copy);
            return rc;
        }
    j->machine = file_real_path(j->a, wanted);
    return j->machine ? 0
                      : diag_error("monster run: there is no machine '%s': it is a description's file, or the name of "
                                   "one that is built in, as decstation-3100 and generic-core%s",
                                   wanted, monster_like(j->a, wanted, shipped_machine));
}

static bool takes(const char **text, const char *word, bool *is_there)
{
    if (strncmp(*text, word, strlen(word)) != 0 || *is_there)
        return false;
    *text += strlen(word);
    return *is_there = true;
}

/* "+kernel=N", "+place" and "+data", each once at most. */
static bool are_additions(const char *text, bool *is_placed, bool *has_data)
{
    static const char front[] = "+kernel=";
    bool has_bins = false;
    while (*text) {
        char *end;
        if (takes(&text, "+place", is_placed) || takes(&text, "+data", has_data))
            continue;
        if (has_bins || strncmp(text, front, strlen(front)) != 0 || text[strlen(front)] < '1' ||
            text[strlen(front)] > '9')
            return false;
        has_bins = true;
        if (strtoul(text + strlen(front), &end, 10) > BINS_MAX)
            return false;
        text = end;
    }
    return true;
}

static int check_maps(struct job *j)
{
    static const char *const names[] = {
#define MAP(id, name, text) name,
#include "wire/maps.def"
#undef MAP
    };
    char *list = arena_strdup(j->a, j->o->maps), *state = NULL;
    bool is_any_marked = false;
    if (!j->o->machine)
        return diag_error("monster run: --maps needs caches: --model");
    for (char *name = strtok_r(list, ",", &state); name; name = strtok_r(NULL, ",", &state)) {
        bool is_known = false, is_placed = false, has_data = false;
        size_t len = strcspn(name, "+");
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            is_known |= strlen(names[i]) == len && strncmp(names[i], name, len) == 0;
        if (!is_known || !are_additions(name + len, &is_placed, &has_data))
            return diag_error("monster run: there is no mapping policy '%s': real, colour, hop, best, random, shade, "
                              "number, each also "
                              "with bins for the kernel alone, as hop+kernel=4, or its functions or variables placed, "
                              "hop+place, hop+data",
                              name);
        j->places_code |= is_placed;
        j->places_data |= has_data;
        is_any_marked |= (len == strlen("shade") && strncmp(name, "shade", len) == 0) ||
                         (len == strlen("number") && strncmp(name, "number", len) == 0);
    }
    if (is_any_marked && !j->o->marks)
        return diag_error("monster run: --maps with shade or number needs the pages by which it is done: --marks FILE, "
                          "of an earlier run with --maps");
    if (!is_any_marked && j->o->marks)
        return diag_error("monster run: --marks is about policies shade and number: --maps real,shade,number");
    if (j->places_code && !j->o->place)
        return diag_error("monster run: --maps with +place needs the calls by which it is done: --place FILE, of an "
                          "earlier run with --calls");
    if (j->places_data && !j->o->place)
        return diag_error("monster run: --maps with +data needs the uses by which it is done: --place FILE, of an "
                          "earlier run with --variables");
    if (!j->places_code && !j->places_data && j->o->place)
        return diag_error("monster run: --place is about policies with +place or +data: --maps real,real+place");
    return 0;
}

static int check_place(const struct job *j, const struct monster_result *r)
{
    if (j->places_code && !r->has_calls)
        return diag_error("%s: it has no calls, by which functions are placed: mtool monster run --calls", r->path);
    if (j->places_data && !r->has_variables)
        return diag_error("%s: it has no variables, which are to be placed: mtool monster run --variables", r->path);
    if (strcmp(r->kernel, j->guest->version) != 0)
        return diag_error("%s: it is of Linux %s, and the guest has %s", r->path, r->kernel, j->guest->version);
    return 0;
}

static int write_order(const struct job *j, const char *setting, const struct strbuf *list, struct strbuf *settings)
{
    str_printf(settings, "%s %s\n", setting, part(j, setting));
    return write_part(part(j, setting), list);
}

/* The kernel's functions and variables, in the order that an earlier run says, as the plugin reads them. */
static int write_placed(const struct job *j, struct strbuf *settings)
{
    if (!j->o->place)
        return 0;
    struct monster_result *r = monster_read(j->o->place);
    struct strbuf code = {0}, data = {0};
    int rc = r ? check_place(j, r) : -1;
    uint32_t *order = r ? ARENA_ARRAY(j->a, uint32_t, max_u64(r->functions.len, r->variables.len) + 1) : NULL;
    size_t n = rc == 0 && j->places_code ? monster_order(r, "kernel", order) : 0;
    for (size_t i = 0; i < n; i++)
        str_printf(&code, "%llx\n", (unsigned long long)r->functions.data[order[i]].address);
    if (rc == 0 && j->places_code)
        rc = write_order(j, "placed", &code, settings);
    n = rc == 0 && j->places_data ? monster_order_variables(r, order) : 0;
    for (size_t i = 0; i < n; i++)
        str_printf(&data, "%llx\n", (unsigned long long)r->variables.data[order[i]].address);
    if (rc == 0 && j->places_data)
        rc = write_order(j, "placed-data", &data, settings);
    str_free(&code);
    str_free(&data);
    monster_free(r);
    return rc;
}

/* How pages were used in an earlier run. The kernel's frames are the same in each run of the same guest. */
static int write_marks(const struct job *j, struct strbuf *settings)
{
    if (!j->o->marks)
        return 0;
    struct monster_result *r = monster_read(j->o->marks);
    struct strbuf list = {0};
    if (!r)
        return -1;
    int rc = 0;
    if (!r->pages.len)
        rc = diag_error("%s: it has no pages, by which others are marked: mtool monster run --maps real", r->path);
    monster_put_marks(r, &list);
    str_printf(settings, "marks %s\n", part(j, "marks"));
    if (rc == 0)
        rc = write_part(part(j, "marks"), &list);
    str_free(&list);
    monster_free(r);
    return rc;
}

static int choose_machine(struct job *j)
{
    struct machine *m;
    if (j->o->maps && check_maps(j) < 0)
        return -1;
    if (j->o->marks && !j->o->maps)
        return diag_error("monster run: --marks is about policies shade and number: --maps real,shade,number");
    if (j->o->place && !j->o->maps)
        return diag_error("monster run: --place is about policies with +place or +data: --maps real,real+place");
    if (j->o->variables && !j->o->machine)
        return diag_error("monster run: --variables needs caches: --model");
    if (!j->o->machine)
        return 0;
    if (find_machine(j, j->o->machine) < 0 || machine_read(j->machine, &m) < 0)
        return -1;
    j->ghz = m->tsc_ghz;
    machine_free(m);
    return 0;
}

/* The guest's clock at about the machine's speed, an instruction a cycle, where that is slower than 1 GHz: so that
 * its timer interrupts, and disks, come as often. */
static unsigned shift_of(double ghz)
{
    return ghz > 0 && ghz < 1 ? (unsigned)fmin(fmax(round(log2(1 / ghz)), 0), SHIFT_MAX) : 0;
}

/* ---- booted ---- */

static int write_settings(const struct job *j)
{
    struct strbuf s = {0};
    str_printf(&s, "output %s\nstreams %s\n", part(j, "result"), j->folder);
    str_printf(&s, "symbols %s\nmodules %s\n", j->guest->symbols, part(j, "modules"));
    str_printf(&s, "ram-bytes %llu\nregion %llu\n", (unsigned long long)j->boot.memory_bytes,
               (unsigned long long)j->boot.memory_bytes);
    str_printf(&s, "task-pid %llu\ntask-comm %llu\ntask-mm %llu\n", (unsigned long long)j->guest->task_pid,
               (unsigned long long)j->guest->task_comm, (unsigned long long)j->guest->task_mm);
    if (j->machine)
        str_printf(&s, "machine %s\n", j->machine);
    if (j->o->maps)
        str_printf(&s, "maps %s\n", j->o->maps);
    str_puts(&s, j->o->is_virtual ? "virtual\n" : "");
    str_puts(&s, j->o->calls ? "calls\n" : "");
    str_puts(&s, j->o->variables ? "variables\n" : "");
    str_puts(&s, j->o->user_only ? "user-only\n" : j->o->kernel_only ? "kernel-only\n" : "");
    int rc = write_placed(j, &s);
    if (rc == 0)
        rc = write_marks(j, &s);
    if (rc == 0)
        rc = monster_programs_write(j->o, j->guest->symbols, part(j, "modules"), part(j, "programs"), &s);
    if (rc == 0)
        rc = write_part(j->boot.settings, &s);
    str_free(&s);
    return rc;
}

static uint64_t bytes_of(const struct guest_tree *t)
{
    uint64_t sum = 0;
    struct stat st;
    for (size_t i = 0; i < t->nodes.len; i++)
        sum += t->nodes.data[i].source && stat(t->nodes.data[i].source, &st) == 0 ? (uint64_t)st.st_size
                                                                                  : t->nodes.data[i].len;
    return sum;
}

/* The archive and what is unpacked of it, both, and room for the program; of a disk its own, and what is read of it. */
static int choose_memory(struct job *j)
{
    uint64_t times = j->o->has_disk ? 4 : 2, need = times * bytes_of(j->tree) / MB + SPARE_MB,
             mb = j->o->memory_mb ? j->o->memory_mb : ALIGN_UP(need, 64);
    if (mb < MEMORY_MIN_MB)
        return diag_error("monster run: --memory %llu: the guest's kernel alone needs %d MB", (unsigned long long)mb,
                          MEMORY_MIN_MB);
    if (mb > MEMORY_MAX_MB)
        return diag_error("monster run: the guest would need %llu MB; it can have %d, so fewer or smaller files",
                          (unsigned long long)mb, MEMORY_MAX_MB);
    j->boot.memory_bytes = mb * MB;
    j->boot.is_memory_given = j->o->memory_mb > 0;
    return 0;
}

/* Files of the future would confuse make: the first midnight behind the newest of them, if it is behind the usual date.
 */
static int64_t day_of(const struct guest_tree *t)
{
    int64_t newest = 0;
    for (size_t i = 0; i < t->nodes.len; i++)
        newest = t->nodes.data[i].changed > newest ? t->nodes.data[i].changed : newest;
    return newest >= USUAL_S ? newest / DAY_S + 1 : 0;
}

static int make_guest(struct job *j)
{
    j->boot.kernel = j->guest->kernel;
    j->boot.folder = j->folder;
    j->boot.archive = part(j, "archive");
    j->boot.settings = part(j, "settings");
    j->boot.shift = shift_of(j->ghz);
    j->boot.day = day_of(j->tree);
    j->boot.limit_s = j->o->limit_s > 0 ? j->o->limit_s : LIMIT_S;
    if (choose_memory(j) < 0 || add_command(j) < 0 || guest_modules_write(j->tree, part(j, "modules")) < 0 ||
        write_settings(j) < 0 || guest_archive_write(j->tree, j->boot.archive) < 0)
        return -1;
    return 0;
}

/* ---- told ---- */

static int pass_on(const char *path, int fd)
{
    struct file_bytes f;
    size_t done = 0;
    if (file_map(path, &f) < 0)
        return 0; /* nothing was written */
    while (done < f.len) {
        ssize_t n = write(fd, f.data + done, f.len - done);
        if (n < 0 && errno != EINTR)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    bool is_whole = done == f.len;
    file_unmap(&f);
    return is_whole ? 0 : diag_error("monster run: cannot pass on the program's output: %s", strerror(errno));
}

static int make_result(const struct job *j, struct strbuf *out)
{
    struct file_bytes f;
    str_printf(out, "mtool-monster 1\nversion " MTOOL_VERSION "\nkernel %s\nshift %u\ncommand", j->guest->version,
               j->boot.shift);
    for (size_t i = 0; j->o->argv[i]; i++)
        str_printf(out, " %s", str_printable(j->a, j->o->argv[i]));
    str_puts(out, "\n");
    if (j->o->has_disk)
        str_printf(out, "disk %g %g\n", j->o->disk_ms, j->o->disk_mb_s);
    if (file_map(part(j, "result"), &f) < 0)
        return diag_error("the plugin left no result: %s", strerror(errno));
    str_put(out, f.data, f.len);
    file_unmap(&f);
    return 0;
}

/* Whether a process of that name was busybox's, though there is another program of it here. */
static const char *other_program(const struct job *j, const char *name)
{
    bool is_applet = strcmp(name, "init") != 0 && /* the guest's first process */
                     guest_tree_has(j->tree, arena_printf(j->a, "/mtool/bin/%s", name));
    const char *at = is_applet ? guest_find_program(j->a, name) : NULL;
    const char *real = at ? file_real_path(j->a, at) : NULL;
    return real && !guest_tree_has(j->tree, real) ? real : NULL;
}

/* What was executed may be another program than one thinks. */
static void tell_of_busybox(const struct job *j, const struct strbuf *result)
{
    struct strbuf names = {0}, options = {0};
    char *lines = arena_strdup(j->a, result->data), *state = NULL;
    if (strncmp(file_base_name(j->program), "busybox", strlen("busybox")) == 0)
        return;
    for (char *line = strtok_r(lines, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
        const char *name = strncmp(line, "process ", strlen("process ")) == 0 ? strchr(line, '\t') : NULL;
        const char *other = name ? other_program(j, name + 1) : NULL;
        const char *option = other ? arena_printf(j->a, " --file %s", other) : NULL;
        if (!option || (options.data && strstr(options.data, option)))
            continue;
        str_printf(&names, "%s%s", names.len ? ", " : "", name + 1);
        str_puts(&options, option);
    }
    if (names.len)
        diag_note("in the guest busybox's was executed, since it had no other: %s; to have yours:%s", names.data,
                  options.data);
    str_free(&names);
    str_free(&options);
}

static int do_job(struct job *j, struct strbuf *result)
{
    if (!(j->guest = guest_find()) || find_program(j) < 0 || choose_machine(j) < 0 || check_disk(j) < 0 ||
        add_files(j) < 0 || make_guest(j) < 0)
        return -1;
    if (guest_boot(&j->boot) < 0)
        return -2;
    if (pass_on(arena_printf(j->a, "%s/stream.%d", j->folder, WIRE_STDOUT), STDOUT_FILENO) < 0 ||
        pass_on(arena_printf(j->a, "%s/stream.%d", j->folder, WIRE_STDERR), STDERR_FILENO) < 0)
        return -2;
    const char *killed = guest_killed_for_memory(j->a, j->folder);
    if (killed)
        diag_warn("guest-memory", "the guest's memory of %llu MB was full: its kernel killed %s",
                  (unsigned long long)(j->boot.memory_bytes / MB), killed);
    if (make_result(j, result) < 0)
        return -2;
    tell_of_busybox(j, result);
    return 0;
}

int monster_run(const struct monster_options *o, struct strbuf *result)
{
    struct job j = {.o = o, .a = arena_new(), .tree = guest_tree_new()};
    const char *tmp = getenv("TMPDIR");
    char *folder = arena_printf(j.a, "%s/mtool-monster.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    int rc = guest_emulator() ? 0 : -1;
    if (rc == 0 && !mkdtemp(folder))
        rc = diag_error("cannot write into %s: %s", tmp && *tmp ? tmp : "/tmp", strerror(errno));
    else if (rc == 0) {
        j.folder = folder;
        rc = do_job(&j, result);
        guest_remove_folder(folder);
    }
    guest_free(j.guest);
    guest_tree_free(j.tree);
    arena_free(j.a);
    guest_pass_signal_on();
    return rc;
}
