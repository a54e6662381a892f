/* SPDX-License-Identifier: Apache-2.0
 * The link: rewritten copies of its inputs into the temporary folder, then the linker on these. It is run as it was
 * meant as well wherever what it says could be another thing than that. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ld/impl.h"
#include "sched/sched.h"
#include "wire/link.h"

#include "ld_runtime.h"

struct job {
    const struct ld_link *l;
    struct ld_tally *tally;
    struct arena *arena;
    struct ld_line line;
    struct ld_resolver *resolver;
    VEC(struct ld_file) inputs;
    struct ld_copies copies;
    struct rewrite_relocatable_options opt;
    char id[LD_HASH];
    struct ld_schedule schedule;
    bool has_plugin, has_intermediate; /* intermediate: an object of link-time optimisation */
    const char *wrapped;               /* the word that has what is compiled then rewritten; NULL: none has */
    size_t wrapped_at;                 /* in the line */
    bool has_said;                     /* what the link prints was seen before */
};

/* ---- processes ---- */

int ld_run(const char *const *argv, int out, int err)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (out >= 0)
            dup2(out, STDOUT_FILENO);
        if (err >= 0)
            dup2(err, STDERR_FILENO);
        execv(argv[0], (char **)(uintptr_t)argv);
        dprintf(STDERR_FILENO, "mtool: error: %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    if (pid < 0)
        return diag_error("ld: cannot start %s: %s", argv[0], strerror(errno)), 1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int ld_run_plain(const struct ld_link *l, struct arena *a, const char *const *more)
{
    size_t n = 0, k = 0;
    while (l->args[n])
        n++;
    while (more && more[k])
        k++;
    const char **argv = ARENA_ARRAY(a, const char *, n + k + 2);
    argv[0] = l->linker;
    memcpy(argv + 1, l->args, n * sizeof *argv);
    if (k)
        memcpy(argv + 1 + n, more, k * sizeof *argv);
    return ld_run(argv, -1, -1);
}

/* ---- inputs ---- */

/* gcc gives its plugin always, and lld takes no notice of it. */
static bool has_plugin(const struct job *j)
{
    for (size_t i = 0; i < j->line.args.len; i++)
        if (!strncmp(j->line.args.data[i] + strspn(j->line.args.data[i], "-"), "plugin", strlen("plugin")))
            return !strstr(file_base_name(j->l->linker), "lld");
    return false;
}

/* What such code wants of archives is known only when it is compiled. */
static void note_intermediate(struct job *j, const char *path)
{
    if (j->has_intermediate || !ld_resolver_has_intermediate(j->resolver, j->has_plugin))
        return;
    j->has_intermediate = true;
    j->tally->lto = xstrdup(path);
}

static void open_input(struct job *j, const struct ld_input *in)
{
    struct ld_file i = {.in = in};
    if (!in->path || file_map(in->path, &i.file) < 0)
        return;
    const char *why;
    if (ld_is_archive(i.file.data, i.file.len)) {
        i.is_archive = true;
        if (ld_archive_open(j->arena, in->path, &i.archive, &why) < 0) {
            ld_tally_leave(j->tally, in->path, why);
            file_unmap(&i.file);
            return;
        }
    } else if (!ld_resolver_add(j->resolver, i.file.data, i.file.len)) {
        note_intermediate(j, in->path);
        file_unmap(&i.file); /* a shared object, a script */
        return;
    } else {
        note_intermediate(j, in->path);
    }
    VEC_PUSH(&j->inputs, i);
}

static void wrap_generated(struct job *j)
{
    for (size_t i = 0; i < j->line.args.len && j->has_intermediate && !j->wrapped; i++) {
        j->wrapped = ld_generated_wrap(j->l, j->arena, j->line.args.data[i]);
        j->wrapped_at = i;
    }
}

/* ---- threads ---- */

static const char *const thread_makers[] = {
    "pthread_create",
    "thrd_create",
    "GOMP_parallel",
    "__kmpc_fork_call",
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE",
};
/* Shared libraries that make no threads which call the program. */
static const char *const quiet_libraries[] = {"libc.so",        "libm.so",        "libgcc_s.so",
                                              "libstdc++.so",   "libdl.so",       "librt.so",
                                              "libgfortran.so", "libquadmath.so", "ld-linux-x86-64.so"};

bool ld_is_of_c(const char *path)
{
    static const char *const names[] = {"libc.a", "libm.a", "libpthread.a", "libgcc.a", "libgcc_eh.a"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!strcmp(file_base_name(path), names[i]))
            return true;
    return false;
}

static bool is_quiet(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(quiet_libraries); i++)
        if (!strncmp(file_base_name(path), quiet_libraries[i], strlen(quiet_libraries[i])))
            return true;
    return false;
}

/* Whether several threads may be in the code: a shared object never knows. */
static bool may_have_threads(const struct job *j)
{
    for (size_t i = 0; i < ARRAY_LEN(thread_makers); i++)
        if (ld_resolver_wants(j->resolver, thread_makers[i]))
            return true;
    for (size_t i = 0; i < j->line.inputs.len; i++) {
        const char *path = j->line.inputs.data[i].path;
        if (path && strstr(file_base_name(path), ".so") && !is_quiet(path))
            return true;
    }
    return j->line.is_shared;
}

/* Who may see what a program does to its memory in between: handlers of signals, other processes. */
static const char *const watchers[] = {
    "signal", "sigaction", "__sysv_signal", "bsd_signal", "sigset",  "feenableexcept", "mmap",
    "mmap64", "shmat",     "shm_open",      "clone",      "syscall", "dlopen",
};

static bool may_be_seen(const struct job *j)
{
    for (size_t i = 0; i < ARRAY_LEN(watchers); i++)
        if (ld_resolver_wants(j->resolver, watchers[i]))
            return true;
    return j->opt.locked || j->has_intermediate;
}

/* ---- all inputs ---- */

static void take_whole(struct job *j, const struct ld_file *in)
{
    for (size_t m = 0; m < in->archive.members.len; m++) {
        struct ld_member *member = &in->archive.members.data[m];
        member->is_taken = ld_resolver_add(j->resolver, member->data, member->len);
    }
    note_intermediate(j, in->in->path);
}

/* Marks members of archives, of the C library or of others. */
static void take_of(struct job *j, bool is_c)
{
    struct ld_archive *all = xmalloc((j->inputs.len + 1) * sizeof *all); /* they share their members with the inputs' */
    size_t count = 0;
    for (size_t i = 0; i < j->inputs.len; i++)
        if (j->inputs.data[i].is_archive && ld_is_of_c(j->inputs.data[i].in->path) == is_c)
            all[count++] = j->inputs.data[i].archive;
    ld_resolver_take(j->resolver, all, count);
    free(all);
}

/* Of the C library in the end, for it is asked before whether the program makes threads. */
static void take_members(struct job *j)
{
    take_of(j, false);
    for (size_t i = 0; i < j->inputs.len; i++)
        if (j->inputs.data[i].is_archive)
            note_intermediate(j, j->inputs.data[i].in->path); /* one of them */
    for (size_t i = 0; i < j->inputs.len && j->has_intermediate; i++)
        if (j->inputs.data[i].is_archive && !ld_is_of_c(j->inputs.data[i].in->path))
            take_whole(j, &j->inputs.data[i]);
    j->opt.locked = may_have_threads(j) || j->has_intermediate;
    j->opt.clocks_in_line = j->l->samples_short && !j->opt.locked;
    j->tally->is_seen = j->schedule.is_seen = !j->l->is_private && may_be_seen(j);
    take_of(j, true);
}

static void open_inputs(struct job *j)
{
    for (size_t i = 0; i < j->line.inputs.len; i++)
        open_input(j, &j->line.inputs.data[i]);
    for (size_t i = 0; i < j->inputs.len; i++)
        if (j->inputs.data[i].in->is_whole)
            take_whole(j, &j->inputs.data[i]);
    take_members(j);
    wrap_generated(j);
}

/* ---- the runtime ---- */

/* Of what decides which counter is where; names of files, which may be made for one link, do not. */
static bool is_about_files(const struct job *j, size_t arg)
{
    const char *word = j->line.args.data[arg];
    for (size_t i = 0; i < j->line.inputs.len; i++)
        if (j->line.inputs.data[i].arg == arg)
            return true;
    return word == j->line.output || !strncmp(word, "-plugin-opt", strlen("-plugin-opt"));
}

static void make_id(struct job *j)
{
    struct strbuf all = {0};
    rewrite_relocatable_options_put(&j->opt, &all);
    str_puts(&all, j->l->samples_short ? " sampled" : "");
    for (size_t i = 0; i < j->inputs.len; i++) {
        const struct ld_file *f = &j->inputs.data[i];
        str_printf(&all, "|%s", f->same ? f->same->hash : f->hash);
    }
    for (size_t i = 0; i < j->line.args.len; i++)
        if (!is_about_files(j, i))
            str_printf(&all, "|%s", j->line.args.data[i]);
    const char *options = j->wrapped ? getenv("COLLECT_GCC_OPTIONS") : NULL;
    str_puts(&all, options ? options : "");
    ld_hash(all.data, all.len, j->id);
    str_free(&all);
}

static const char *put_counts(struct job *j)
{
    struct strbuf out = {0};
    str_put(&out, ld_runtime, sizeof ld_runtime);
    char *note = memmem(out.data, out.len, WIRE_LINK_MAGIC, strlen(WIRE_LINK_MAGIC));
    assert(note); /* its section */
    struct wire_link link;
    memcpy(&link, note, sizeof link);
    link.tool = j->l->tool->id;
    link.flags = (j->line.is_shared ? WIRE_LINK_SHARED : 0) | (j->l->samples_short ? WIRE_LINK_SAMPLE_SHORT : 0) |
                 (j->opt.clocks_in_line ? WIRE_LINK_IN_LINE : 0);
    memcpy(link.id, j->id, WIRE_LINK_ID);
    snprintf(link.extension, sizeof link.extension, "%s", j->l->tool->extension);
    snprintf(link.name, sizeof link.name, "%s", file_base_name(j->line.output));
    memcpy(note, &link, sizeof link);
    ld_object_fill(&out, LD_WHOLE_SECTION, &j->tally->left);
    const char *path = ld_copies_put(&j->copies, j->inputs.len, "mtool-counts.o", &out);
    str_free(&out);
    return path;
}

static const char *put_tool(struct job *j)
{
    struct strbuf out = {0};
    str_put(&out, j->l->tool->runtime, j->l->tool->runtime_len);
    const char *path = ld_copies_put(&j->copies, j->inputs.len, "mtool-tool.o", &out);
    str_free(&out);
    return path;
}

/* Where the compiler's last object stands, whose unwind table is the mark behind all of them: what has one of its own
 * must be in front of it. Else behind all words. */
static size_t find_end(const struct job *j)
{
    for (size_t i = j->line.inputs.len; i-- > 0;) {
        const struct ld_input *in = &j->line.inputs.data[i];
        if (in->path && !in->is_library && !strncmp(file_base_name(in->path), "crtend", 6))
            return in->arg;
    }
    return j->line.args.len;
}

/* Of programs that keep tables: their ends without finalisers (ldrt/leave.h), unless they wrap such calls themselves.
 */
static size_t put_wraps(const struct job *j, const char **words, size_t n)
{
    enum ld_tool_id tool = j->l->tool->id;
    for (size_t i = 0; i < j->line.args.len; i++)
        if (strstr(j->line.args.data[i], "wrap") || (i && strstr(j->line.args.data[i - 1], "wrap")))
            if (strstr(j->line.args.data[i], "_exit") || strstr(j->line.args.data[i], "_Exit"))
                return n;
    if (tool == LD_TOOL_GPROF || tool == LD_TOOL_CLOCKS) {
        words[n++] = "--wrap=_exit";
        words[n++] = "--wrap=_Exit";
    }
    return n;
}

/* Adds words for the linker, at most four, to as many as the line has. False: there is no room for the files. */
static bool put_runtime(struct job *j, const char **words)
{
    size_t n = j->line.args.len, end = find_end(j);
    const char *counts = put_counts(j), *tool = j->l->tool->runtime ? put_tool(j) : NULL;
    if (tool) {
        memmove(words + end + 1, words + end, (n++ - end) * sizeof *words);
        words[end] = tool;
    }
    n = put_wraps(j, words, n);
    words[n] = counts; /* its page of counters is the last */
    return counts && (tool || !j->l->tool->runtime);
}

/* ---- the line ---- */

/* The words that the linker is run with; NULL if there is no room for the copies. */
static const char **make_line(struct job *j)
{
    const char **argv = ARENA_ARRAY(j->arena, const char *, j->line.args.len + 6);
    argv[0] = j->l->linker;
    memcpy(argv + 1, j->line.args.data, j->line.args.len * sizeof *argv);
    for (size_t i = 0; i < j->inputs.len; i++) {
        const struct ld_file *in = &j->inputs.data[i];
        const char *word = j->line.args.data[in->in->arg];
        bool is_apart = in->in->is_library && (!strcmp(word, "-l") || !strcmp(word, "--library"));
        if (!in->instead)
            continue;
        argv[1 + in->in->arg] = is_apart ? arena_printf(j->arena, "-L%s", j->l->folder) : in->instead;
        if (is_apart) /* two words: the first becomes an option without effect */
            argv[2 + in->in->arg] = in->instead;
    }
    if (j->wrapped)
        argv[1 + j->wrapped_at] = j->wrapped;
    if (!j->l->tool->extension) /* its programs write nothing */
        return argv;
    return put_runtime(j, argv + 1) ? argv : NULL;
}

static bool has_bytes(int fd) { return lseek(fd, 0, SEEK_END) > 0; }

/* Which linkers refuse: they would not see it, for they are given copies. */
static bool output_is_input(const struct job *j)
{
    struct stat out, in;
    if (stat(j->line.output, &out) < 0)
        return false;
    for (size_t i = 0; i < j->line.inputs.len; i++) {
        const char *path = j->line.inputs.data[i].path;
        if (path && stat(path, &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return true;
    }
    return false;
}

static const char *first_line(const struct job *j, int fd)
{
    char text[1024];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return arena_strndup(j->arena, text, strcspn(text, "\n"));
}

static int link_rewritten(struct job *j, const char **why_plain)
{
    const char **argv = make_line(j);
    int fd = memfd_create("mtool-ld", MFD_CLOEXEC);
    int status = argv && fd >= 0 ? ld_run(argv, fd, fd) : 1;
    if (status != 0) {
        const char *why = "there is no room for its temporary files";
        if (argv && fd >= 0)
            why = arena_printf(j->arena, "the linker refuses the rewritten objects: %s", first_line(j, fd));
        status = ld_run_plain(j->l, j->arena, NULL);
        *why_plain = status == 0 ? why : NULL; /* else it is no fault of ours */
    } else if (j->has_said || has_bytes(fd)) { /* its words would name our copies: those of the plain link are shown */
        const char *const elsewhere[] = {"-o", arena_printf(j->arena, "%s/plain", j->l->folder), NULL};
        status = ld_run_plain(j->l, j->arena, elsewhere);
    }
    if (fd >= 0)
        close(fd);
    return status;
}

static int link_whole(struct job *j, const char **why)
{
    static const char no_room[] = "there is no room for its temporary files";
    const char *const *words = ld_bitcode_compile(j->l, &j->line, j->arena, &j->has_said);
    if (words) {
        ld_line_free(&j->line);
        ld_line_parse(j->arena, words, &j->line);
    }
    j->resolver = ld_resolver_new();
    j->has_plugin = has_plugin(j);
    open_inputs(j);
    j->copies = (struct ld_copies){j->arena, j->l->folder, &j->opt, j->tally, j->inputs.data, j->inputs.len};
    bool is_kept = ld_copies_make(&j->copies) == 0;
    int status;
    make_id(j);
    if (!is_kept || !(j->tally->counters || j->tally->blocks_ordered || j->wrapped))
        status = ld_run_plain(j->l, j->arena, NULL), *why = is_kept ? NULL : no_room;
    else if ((status = link_rewritten(j, why)) == 0 && j->wrapped && !*why)
        ld_generated_take(j->l, j->arena, j->tally);
    ld_copies_close(&j->copies);
    VEC_FREE(&j->inputs);
    ld_resolver_free(j->resolver);
    return status;
}

/* Nobody knows what else is linked, and so whether there are threads. */
static int generate(struct job *j)
{
    j->opt.locked = true;
    j->tally->is_seen = j->schedule.is_seen = !j->l->is_private;
    return ld_generate(j->l, j->arena, &j->opt);
}

int ld_link(const struct ld_link *l, struct ld_tally *tally, char **why_plain)
{
    struct job j = {.l = l, .tally = tally, .arena = arena_new(), .opt.tool = l->tool->plan};
    j.opt.all_blocks = l->all_blocks;
    const char *why = NULL;
    int status;
    if (l->tool->id == LD_TOOL_SCHEDULE) {
        j.schedule.sched = sched_new(l->machine);
        j.opt.order = ld_schedule_block;
        j.opt.order_ctx = &j.schedule;
    }
    ld_line_parse(j.arena, l->args, &j.line);
    if (ld_generates())
        status = generate(&j);
    else if (!j.line.links || j.line.is_partial ||
             output_is_input(&j)) /* what is joined now is rewritten when it is linked at last */
        status = ld_run_plain(l, j.arena, NULL);
    else if (l->tool->id == LD_TOOL_PROMOTE)
        status = ld_link_promoted(l, &j.line, j.arena, tally, &why);
    else
        status = link_whole(&j, &why);
    *why_plain = why ? xstrdup(why) : NULL;
    ld_line_free(&j.line);
    sched_free(j.schedule.sched);
    arena_free(j.arena);
    return status;
}
