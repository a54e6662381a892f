/* SPDX-License-Identifier: Apache-2.0
 * Files of the host into the guest's tree. What a program needs is asked of its own loader, which lists it without
 * running the program. */
#include "guest/guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/image.h"

enum { LINKS_MAX = 40 };

struct guest_tree *guest_tree_new(void)
{
    struct guest_tree *t = xmalloc(sizeof *t);
    t->arena = arena_new();
    return t;
}

void guest_tree_free(struct guest_tree *t)
{
    if (!t)
        return;
    VEC_FREE(&t->nodes);
    VEC_FREE(&t->programs);
    map_fini(&t->index);
    arena_free(t->arena);
    free(t);
}

static uint64_t hash_of(const char *path)
{
    uint64_t h = 0xcbf29ce484222325ull;
    for (; *path; path++)
        h = (h ^ (uint8_t)*path) * 0x100000001b3ull;
    return h;
}

static const char *bare(const char *path)
{
    while (*path == '/')
        path++;
    return path;
}

bool guest_tree_has(const struct guest_tree *t, const char *path) { return map_has(&t->index, hash_of(bare(path))); }

/* False: it is there already. */
static bool put(struct guest_tree *t, struct guest_node n)
{
    n.path = arena_strdup(t->arena, bare(n.path));
    if (!*n.path || guest_tree_has(t, n.path))
        return false;
    map_put(&t->index, hash_of(n.path), t->nodes.len);
    VEC_PUSH(&t->nodes, n);
    return true;
}

void guest_tree_add_folder(struct guest_tree *t, const char *path)
{
    char *whole = arena_strdup(t->arena, bare(path));
    for (char *slash = strchr(whole, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        put(t, (struct guest_node){.path = whole, .kind = GUEST_FOLDER, .mode = 0755});
        *slash = '/';
    }
    put(t, (struct guest_node){.path = whole, .kind = GUEST_FOLDER, .mode = 0755});
}

static void add_parent(struct guest_tree *t, const char *path)
{
    char *whole = arena_strdup(t->arena, path), *slash = strrchr(whole, '/');
    if (slash && slash != whole) {
        *slash = 0;
        guest_tree_add_folder(t, whole);
    }
}

void guest_tree_add_link(struct guest_tree *t, const char *path, const char *to)
{
    add_parent(t, path);
    put(t, (struct guest_node){.path = arena_strdup(t->arena, path),
                               .kind = GUEST_LINK,
                               .mode = 0777,
                               .text = arena_strdup(t->arena, to)});
}

void guest_tree_add_text(struct guest_tree *t, const char *path, const void *text, size_t len)
{
    char *copy = arena_alloc(t->arena, len + 1);
    if (len)
        memcpy(copy, text, len);
    add_parent(t, path);
    put(t, (struct guest_node){
               .path = arena_strdup(t->arena, path), .kind = GUEST_FILE, .mode = 0644, .text = copy, .len = len});
}

int guest_tree_add_as(struct guest_tree *t, const char *source, const char *path, unsigned mode)
{
    struct stat st;
    if (stat(source, &st) < 0)
        return diag_error("cannot read %s: %s", source, strerror(errno));
    add_parent(t, path);
    bool is_new = put(t, (struct guest_node){.path = arena_strdup(t->arena, path),
                                             .kind = GUEST_FILE,
                                             .mode = mode,
                                             .source = arena_strdup(t->arena, source)});
    if (is_new && mode & 0111)
        VEC_PUSH(&t->programs, arena_strdup(t->arena, source));
    return 0;
}

/* ---- programs ---- */

/* What the loader prints of the libraries: "\tNAME => PATH (ADDRESS)" or "\tPATH (ADDRESS)"; the text is the caller's
 * to free. */
static char *listed_by_loader(const char *loader, const char *program)
{
    int fds[2];
    struct strbuf out = {0};
    char buffer[4096];
    ssize_t n;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return NULL;
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(fds[1], 1);
        dup2(null, 2);
        setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
        execl(loader, loader, program, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    while ((n = read(fds[0], buffer, sizeof buffer)) > 0)
        str_put(&out, buffer, (size_t)n);
    close(fds[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return out.data;
}

static int add_libraries(struct guest_tree *t, const char *loader, const char *program)
{
    char *text = listed_by_loader(loader, program), *state = NULL;
    int rc = 0;
    for (char *line = text ? strtok_r(text, "\n", &state) : NULL; line && rc == 0;
         line = strtok_r(NULL, "\n", &state)) {
        char *path = strchr(line, '/'), *end = path ? strstr(path, " (0x") : NULL;
        if (strstr(line, "not found"))
            rc = diag_error("%s: the library %.*s is not found", program, (int)strcspn(bare(line + 1), " "), line + 1);
        else if (end && !strstr(path, "=>")) {
            *end = 0;
            rc = guest_tree_add(t, path);
        }
    }
    free(text);
    return rc;
}

static int add_program(struct guest_tree *t, const char *path)
{
    struct image *img;
    int rc = 0;
    VEC_PUSH(&t->programs, arena_strdup(t->arena, path));
    struct strbuf held = {0};
    diag_hold(&held);
    int opened = image_open(path, &img);
    diag_hold(NULL);
    str_free(&held);
    if (opened < 0) /* an object file or another machine's: a file like others */
        return t->programs.len--, 0;
    const char *loader = img->interp ? img->interp : "/lib64/ld-linux-x86-64.so.2";
    if (img->interp)
        rc = guest_tree_add(t, img->interp);
    if (rc == 0 && img->needed_count)
        rc = add_libraries(t, loader, path);
    image_close(img);
    return rc;
}

/* What env starts, by its words: a program of PATH behind options and variables. */
static int add_started_by_env(struct guest_tree *t, char **state)
{
    const char *word = strtok_r(NULL, " \t", state);
    while (word && (*word == '-' || strchr(word, '=')))
        word = strtok_r(NULL, " \t", state);
    const char *program = word ? guest_find_program(t->arena, word) : NULL;
    return program ? guest_tree_add(t, program) : 0;
}

/* Of a script: the interpreter that its first line names, or has env look for. */
static int add_interpreter(struct guest_tree *t, char *head)
{
    char *state = NULL;
    head[strcspn(head, "\n")] = 0;
    const char *path = strtok_r(head + 2, " \t", &state);
    if (!path || *path != '/' || !file_exists(path))
        return 0;
    int rc = guest_tree_add(t, path);
    return rc == 0 && strcmp(file_base_name(path), "env") == 0 ? add_started_by_env(t, &state) : rc;
}

static int add_needs(struct guest_tree *t, const char *path)
{
    char head[PATH_MAX] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, head, sizeof head - 1) : -1;
    if (fd < 0)
        return diag_error("cannot read %s: %s", path, strerror(errno));
    close(fd);
    if (n >= 4 && memcmp(head, "\177ELF", 4) == 0)
        return add_program(t, path);
    return n > 2 && memcmp(head, "#!", 2) == 0 ? add_interpreter(t, head) : 0;
}

/* ---- paths ---- */

static int add_folder_with_all(struct guest_tree *t, const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    int rc = 0;
    if (!d)
        return diag_error("cannot read the folder %s: %s", path, strerror(errno));
    guest_tree_add_folder(t, path);
    while (rc == 0 && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = guest_tree_add(t, arena_printf(t->arena, "%s/%s", path, e->d_name));
    closedir(d);
    return rc;
}

static int add_file(struct guest_tree *t, const char *path, const struct stat *st)
{
    add_parent(t, path);
    bool is_new = put(t, (struct guest_node){.path = arena_strdup(t->arena, path),
                                             .kind = GUEST_FILE,
                                             .mode = st->st_mode & 07777,
                                             .changed = st->st_mtime,
                                             .source = arena_strdup(t->arena, path)});
    return is_new ? add_needs(t, path) : 0;
}

/* The first component of an absolute path that is a symbolic link: its length, 0: none is. *to: what it says. */
static size_t link_in(struct arena *a, const char *path, char **to)
{
    char target[PATH_MAX];
    for (const char *at = path + 1;; at++) {
        at += strcspn(at, "/");
        char *front = arena_strndup(a, path, (size_t)(at - path));
        ssize_t n = readlink(front, target, sizeof target - 1);
        if (n > 0) {
            *to = arena_strndup(a, target, (size_t)n);
            return (size_t)(at - path);
        }
        if (!*at)
            return 0;
    }
}

static char *absolute(struct arena *a, const char *path)
{
    char here[PATH_MAX];
    if (*path == '/' || !getcwd(here, sizeof here))
        return arena_strdup(a, path);
    return arena_printf(a, "%s/%s", here, path);
}

int guest_tree_add(struct guest_tree *t, const char *path)
{
    char *at = absolute(t->arena, path), *to = NULL;
    struct stat st;
    for (unsigned n = 0;; n++) {
        size_t len = link_in(t->arena, at, &to);
        if (!len)
            break;
        if (n == LINKS_MAX)
            return diag_error("%s: too many symbolic links", path);
        char *link = arena_strndup(t->arena, at, len);
        guest_tree_add_link(t, link, to);
        char *slash = strrchr(link, '/');
        *slash = 0;
        at = *to == '/' ? arena_printf(t->arena, "%s%s", to, at + len)
                        : arena_printf(t->arena, "%s/%s%s", link, to, at + len);
    }
    char *real = file_real_path(t->arena, at);
    if (!real || stat(real, &st) < 0)
        return diag_error("cannot read %s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return add_folder_with_all(t, real);
    return S_ISREG(st.st_mode) ? add_file(t, real, &st) : diag_error("%s is no file and no folder", path);
}

/* ---- the base ---- */

static void add_command(struct guest_tree *t, const char *const *command)
{
    struct strbuf text = {0};
    for (; *command; command++)
        str_put(&text, *command, strlen(*command) + 1);
    guest_tree_add_text(t, WIRE_COMMAND, text.data, text.len);
    str_free(&text);
}

/* Its programs by their names, as it lists them. */
static int add_busybox(struct guest_tree *t, const char *busybox)
{
    struct strbuf out = {0};
    char *state = NULL;
    if (guest_run_tool((const char *const[]){busybox, "--list-full", NULL}, NULL, &out, NULL) != 0)
        return diag_error("%s does not run", busybox);
    int rc = guest_tree_add_as(t, busybox, "/mtool/busybox", 0755);
    if (!guest_tree_has(t, "bin") && guest_tree_has(t, "usr/bin"))
        guest_tree_add_link(t, "/bin", "usr/bin");
    else if (!guest_tree_has(t, "bin"))
        guest_tree_add_folder(t, "/bin");
    for (char *line = out.data ? strtok_r(out.data, "\n", &state) : NULL; line; line = strtok_r(NULL, "\n", &state)) {
        const char *name = file_base_name(line);
        bool is_taken = guest_tree_has(t, arena_printf(t->arena, "usr/bin/%s", name)) ||
                        guest_tree_has(t, arena_printf(t->arena, "bin/%s", name));
        if (!is_taken)
            guest_tree_add_link(t, arena_printf(t->arena, "/mtool/bin/%s", name), "../busybox");
    }
    if (!guest_tree_has(t, "usr/bin/sh") && !guest_tree_has(t, "usr/bin/dash") && !guest_tree_has(t, "bin/sh"))
        guest_tree_add_link(t, guest_tree_has(t, "usr/bin") ? "/usr/bin/sh" : "/bin/sh", "/mtool/busybox");
    str_free(&out);
    return rc;
}

int guest_tree_add_drivers(struct guest_tree *t, const char *folder)
{
    static const char *const drivers[] = WIRE_DRIVERS;
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(drivers) && rc == 0; i++) {
        const char *name = file_base_name(drivers[i]);
        rc = guest_tree_add_as(t, arena_printf(t->arena, "%s/%s", folder, name),
                               arena_printf(t->arena, WIRE_DRIVER_FOLDER "/%s", name), 0644);
    }
    return rc;
}

int guest_tree_add_base(struct guest_tree *t, const char *init, const char *busybox, const char *const *command)
{
    static const char *const folders[] = {"/dev", "/proc", "/sys", "/tmp", "/var/tmp", "/etc", "/root"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        guest_tree_add_folder(t, folders[i]);
    add_command(t, command);
    if (guest_tree_add_as(t, init, "/mtool/init", 0755) < 0)
        return -1;
    return busybox ? add_busybox(t, busybox) : 0;
}
