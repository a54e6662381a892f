/* SPDX-License-Identifier: Apache-2.0
 * What a guest is made of, fetched once and kept: the kernel image out of Debian's package, which is unpacked and not
 * installed; busybox; the kernel's symbols and the places of members in its structs, which the guest tells in a first
 * boot. All of it lies in a folder named by the hash of the image; the file `current` names that folder. */
#include "guest/guest.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

#define PACKAGE "linux-image-cloud-amd64"
#define BUSYBOX_PACKAGE "busybox-static"
enum { SYMBOLS_MEMORY = 512 << 20, SYMBOLS_LIMIT_S = 300, MB = 1000000 };

static const char *const drivers[] = WIRE_DRIVERS; /* of the kernel's package */

/* ---- places ---- */

static char *home(struct arena *a) { return arena_printf(a, "%s/monster", file_cache_dir(a)); }

char *guest_own_file(struct arena *a, const char *name)
{
    static const char *const beside[] = {"../" MTOOL_LIBEXECDIR "/mtool", "../plugin", "../guest"};
    char *self = file_real_path(a, "/proc/self/exe"), *slash = self ? strrchr(self, '/') : NULL;
    for (size_t i = 0; slash && i < ARRAY_LEN(beside); i++) {
        char *path = arena_printf(a, "%.*s/%s/%s", (int)(slash - self), self, beside[i], name);
        if (file_exists(path))
            return file_real_path(a, path);
    }
    diag_error("%s is not where mtool was installed; 'make install' puts it there", name);
    return NULL;
}

static char *first_match(struct arena *a, const char *pattern)
{
    glob_t g;
    char *found = NULL;
    if (glob(pattern, 0, NULL, &g) == 0)
        found = arena_strdup(a, g.gl_pathv[0]);
    globfree(&g);
    return found;
}

/* ---- fetched ---- */

static int copy(const char *from, const char *to)
{
    struct file_bytes f;
    if (file_map(from, &f) < 0)
        return diag_error("cannot read %s: %s", from, strerror(errno));
    int rc = file_write_whole(to, f.data, f.len, 0755), err = errno;
    file_unmap(&f);
    return rc == 0 ? 0 : diag_error("cannot write %s: %s", to, strerror(err));
}

/* "linux-image-6.1.0-56-cloud-amd64": what the package that follows the newest one stands for. */
static const char *real_package(struct arena *a)
{
    struct strbuf out = {0};
    int status = guest_run_tool((const char *const[]){"apt-cache", "depends", PACKAGE, NULL}, NULL, &out, NULL);
    char *at = out.data ? strstr(out.data, "Depends: linux-image") : NULL;
    const char *name = at ? arena_strndup(a, at + 9, strcspn(at + 9, " \n")) : NULL;
    str_free(&out);
    if (!name)
        diag_error(status < 0 || status == 127 ? "this machine has no apt; give a kernel image by --kernel FILE"
                                               : "apt knows no package " PACKAGE
                                                 "; 'apt-get update' (as root), or --kernel FILE");
    return name;
}

static double size_mb(const char *package)
{
    struct strbuf out = {0};
    guest_run_tool((const char *const[]){"apt-cache", "show", "--no-all-versions", package, NULL}, NULL, &out, NULL);
    char *at = out.data ? strstr(out.data, "\nSize: ") : NULL;
    double mb = at ? strtod(at + 7, NULL) / MB : 0;
    str_free(&out);
    return mb;
}

/* Unpacks the package into `folder`/x. */
static int fetch(struct arena *a, const char *package, const char *folder)
{
    struct strbuf said = {0};
    diag_note("fetching %s (%.1f MB) by apt-get download", package, size_mb(package));
    int status = guest_run_tool((const char *const[]){"apt-get", "download", package, NULL}, folder, NULL, &said);
    char *deb = first_match(a, arena_printf(a, "%s/%s_*.deb", folder, package));
    int rc = 0;
    if (status != 0 || !deb)
        rc = diag_error("cannot fetch %s: %s; see to the network", package, *said.data ? said.data : "apt-get failed");
    else if (guest_run_tool((const char *const[]){"dpkg-deb", "-x", deb, arena_printf(a, "%s/x", folder), NULL}, NULL,
                            NULL, NULL) != 0)
        rc = diag_error("cannot unpack %s; is dpkg-deb installed?", package);
    else
        remove(deb);
    str_free(&said);
    return rc;
}

static int take_kernel(struct arena *a, const char *folder)
{
    char *image = first_match(a, arena_printf(a, "%s/x/boot/vmlinuz-*", folder));
    if (!image)
        return diag_error("the kernel's package holds no boot/vmlinuz");
    const char *version = file_base_name(image) + strlen("vmlinuz-");
    for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
        char *m = first_match(a, arena_printf(a, "%s/x/lib/modules/*/kernel/%s", folder, drivers[i]));
        if (m && copy(m, arena_printf(a, "%s/%s", folder, file_base_name(drivers[i]))) < 0)
            return -1;
    }
    file_write_whole(arena_printf(a, "%s/version", folder), version, strlen(version), 0644);
    return copy(image, arena_printf(a, "%s/vmlinuz", folder));
}

static int fetch_kernel(struct arena *a, const char *folder)
{
    const char *package = real_package(a);
    return package && fetch(a, package, folder) == 0 ? take_kernel(a, folder) : -1;
}

static int take_image(struct arena *a, const char *image, const char *folder)
{
    const char *name = file_base_name(image);
    file_write_whole(arena_printf(a, "%s/version", folder), name, strlen(name), 0644);
    return copy(image, arena_printf(a, "%s/vmlinuz", folder));
}

/* The machine's own, if it is static (dpkg's busybox-static is); else fetched. Without it the guest has no shell. */
static int take_busybox(struct arena *a, const char *folder)
{
    char *to = arena_printf(a, "%s/busybox", folder);
    if (file_exists("/var/lib/dpkg/info/busybox-static.list") && file_exists("/bin/busybox"))
        return copy("/bin/busybox", to);
    if (fetch(a, BUSYBOX_PACKAGE, folder) < 0)
        return -1;
    char *from = first_match(a, arena_printf(a, "%s/x/bin/busybox", folder));
    return from ? copy(from, to) : diag_error("the package of busybox holds no bin/busybox");
}

/* ---- the first boot ---- */

static int write_offsets(struct arena *a, const char *folder)
{
    static const char *const members[] = {"pid", "comm", "mm"};
    struct file_bytes types;
    struct strbuf out = {0};
    if (file_map(arena_printf(a, "%s/stream.%d", folder, WIRE_TYPES), &types) < 0)
        return diag_error("the guest's kernel does not describe its types (CONFIG_DEBUG_INFO_BTF)");
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        uint64_t at = guest_types_offset(types.data, types.len, "task_struct", members[i]);
        if (at == UINT64_MAX) {
            file_unmap(&types);
            return diag_error("the guest's kernel has no task_struct.%s", members[i]);
        }
        str_printf(&out, "%llu\n", (unsigned long long)at);
    }
    file_unmap(&types);
    int rc = file_write_whole(arena_printf(a, "%s/offsets", folder), out.data, out.len, 0644);
    str_free(&out);
    return rc == 0 ? 0 : diag_error("cannot write into %s: %s", folder, strerror(errno));
}

static bool has_drivers(struct arena *a, const char *folder)
{
    bool has_all = true;
    for (size_t i = 0; i < ARRAY_LEN(drivers); i++)
        has_all &= file_exists(arena_printf(a, "%s/%s", folder, file_base_name(drivers[i])));
    return has_all;
}

static int first_boot(struct arena *a, const char *folder)
{
    char *init = guest_own_file(a, "monster-init"), *plugin = guest_own_file(a, "mtool-monster.so");
    struct guest_tree *t = guest_tree_new();
    const char *const command[] = {"symbols", arena_printf(a, "%d", SYMBOLS_MEMORY), "/", "", "", "0", NULL};
    struct guest_boot b = {.kernel = arena_printf(a, "%s/vmlinuz", folder),
                           .archive = arena_printf(a, "%s/archive", folder),
                           .folder = folder,
                           .plugin = plugin,
                           .settings = arena_printf(a, "%s/settings", folder),
                           .memory_bytes = SYMBOLS_MEMORY,
                           .limit_s = SYMBOLS_LIMIT_S};
    char *settings = arena_printf(a, "streams %s\nregion %d\nram-bytes %d\n", folder, SYMBOLS_MEMORY, SYMBOLS_MEMORY);
    int rc = init && plugin ? 0 : -1;
    diag_note("booting it once for its symbols");
    if (rc == 0 && (rc = file_write_whole(b.settings, settings, strlen(settings), 0644)) < 0)
        diag_error("cannot write %s: %s", b.settings, strerror(errno));
    if (rc == 0)
        rc = guest_tree_add_base(t, init, NULL, command);
    if (rc == 0 && has_drivers(a, folder)) /* so that the symbols have theirs */
        rc = guest_tree_add_drivers(t, folder);
    if (rc == 0)
        rc = guest_archive_write(t, b.archive);
    if (rc == 0)
        rc = guest_boot(&b);
    guest_tree_free(t);
    if (rc == 0 && rename(arena_printf(a, "%s/stream.%d", folder, WIRE_SYMBOLS), arena_printf(a, "%s/symbols", folder)))
        rc = diag_error("the guest told no symbols");
    return rc == 0 ? write_offsets(a, folder) : rc;
}

/* ---- kept ---- */

static void remove_scraps(struct arena *a, const char *folder)
{
    static const char *const scraps[] = {"archive", "settings", "console", "messages", "done", "stream.3"};
    guest_remove_folder(arena_printf(a, "%s/x", folder));
    for (size_t i = 0; i < ARRAY_LEN(scraps); i++)
        remove(arena_printf(a, "%s/%s", folder, scraps[i]));
}

static int keep(struct arena *a, const char *folder)
{
    struct file_bytes f;
    char hash[33];
    if (file_map(arena_printf(a, "%s/vmlinuz", folder), &f) < 0)
        return diag_error("cannot read %s/vmlinuz: %s", folder, strerror(errno));
    file_hash_hex(f.data, f.len, hash);
    file_unmap(&f);
    char *place = arena_printf(a, "%s/%s", home(a), hash);
    remove_scraps(a, folder);
    guest_remove_folder(place);
    if (rename(folder, place) < 0 || file_write_whole(arena_printf(a, "%s/current", home(a)), hash, 32, 0644) < 0)
        return diag_error("cannot write into %s: %s", home(a), strerror(errno));
    return 0;
}

static int prepare_in(struct arena *a, const char *kernel, const char *folder)
{
    if ((kernel ? take_image(a, kernel, folder) : fetch_kernel(a, folder)) < 0 || take_busybox(a, folder) < 0 ||
        first_boot(a, folder) < 0)
        return -1;
    return keep(a, folder);
}

int guest_prepare(const char *kernel)
{
    struct arena *a = arena_new();
    char *folder = arena_printf(a, "%s/new.XXXXXX", home(a));
    int rc = guest_emulator() ? 0 : -1;
    if (rc == 0 && (file_make_dirs(home(a), 0700) < 0 || !mkdtemp(folder)))
        rc = diag_error("cannot write into %s: %s", home(a), strerror(errno));
    else if (rc == 0) {
        rc = prepare_in(a, kernel, folder);
        if (rc < 0)
            guest_remove_folder(folder);
    }
    arena_free(a);
    return rc;
}

/* ---- found ---- */

static char *text_of(struct arena *a, const char *path)
{
    struct file_bytes f;
    if (file_map(path, &f) < 0)
        return NULL;
    char *text = arena_strndup(a, (const char *)f.data, f.len);
    file_unmap(&f);
    return text;
}

static char *part(struct guest *g, const char *name) { return arena_printf(g->arena, "%s/%s", g->folder, name); }

static bool read_parts(struct guest *g)
{
    char *offsets = text_of(g->arena, part(g, "offsets"));
    g->version = text_of(g->arena, part(g, "version"));
    g->kernel = part(g, "vmlinuz");
    g->symbols = part(g, "symbols");
    g->busybox = part(g, "busybox");
    g->has_drivers = has_drivers(g->arena, g->folder);
    if (!offsets || !g->version || !file_exists(g->kernel) || !file_exists(g->symbols))
        return false;
    g->task_pid = strtoull(offsets, &offsets, 10);
    g->task_comm = strtoull(offsets, &offsets, 10);
    g->task_mm = strtoull(offsets, &offsets, 10);
    return true;
}

struct guest *guest_find(void)
{
    struct guest *g = xmalloc(sizeof *g);
    g->arena = arena_new();
    char *hash = text_of(g->arena, arena_printf(g->arena, "%s/current", home(g->arena)));
    if (hash) {
        g->folder = arena_printf(g->arena, "%s/%s", home(g->arena), hash);
        if (read_parts(g))
            return g;
    }
    guest_free(g);
    diag_error("no guest is prepared; 'mtool monster prepare' fetches a kernel image (27 MB)");
    return NULL;
}

void guest_free(struct guest *g)
{
    if (!g)
        return;
    arena_free(g->arena);
    free(g);
}
