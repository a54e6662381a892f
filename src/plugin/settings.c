/* SPDX-License-Identifier: Apache-2.0
 * The settings: a file of lines, a key, a blank and a value. */
#include "plugin/plugin.h"

#include <errno.h>
#include <stdlib.h>

struct settings settings;

enum kind { TEXT, NUMBER, FLAG, TEXTS };
static const struct {
    const char *key;
    enum kind kind;
    void *at;
} keys[] = {
    {"program", TEXTS, &settings.programs},     {"maps", TEXT, &settings.maps},
    {"output", TEXT, &settings.output},         {"streams", TEXT, &settings.streams},
    {"placed", TEXT, &settings.placed},         {"symbols", TEXT, &settings.symbols},
    {"modules", TEXT, &settings.modules},       {"machine", TEXT, &settings.machine},
    {"ram-bytes", NUMBER, &settings.ram_bytes}, {"region", NUMBER, &settings.region},
    {"task-pid", NUMBER, &settings.task_pid},   {"task-comm", NUMBER, &settings.task_comm},
    {"task-mm", NUMBER, &settings.task_mm},     {"virtual", FLAG, &settings.is_virtual},
    {"user-only", FLAG, &settings.user_only},   {"kernel-only", FLAG, &settings.kernel_only},
    {"variables", FLAG, &settings.variables},   {"placed-data", TEXT, &settings.placed_data},
    {"calls", FLAG, &settings.calls},           {"marks", TEXT, &settings.marks},
};

static int set(const char *path, char *line)
{
    char *blank = strchr(line, ' ');
    const char *value = blank ? blank + 1 : "";
    if (blank)
        *blank = 0;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (strcmp(keys[i].key, line) != 0)
            continue;
        if (keys[i].kind == TEXT)
            *(const char **)keys[i].at = xstrdup(value);
        else if (keys[i].kind == TEXTS)
            VEC_PUSH(&settings.programs, xstrdup(value));
        else if (keys[i].kind == NUMBER)
            *(uint64_t *)keys[i].at = strtoull(value, NULL, 0);
        else
            *(bool *)keys[i].at = true;
        return 0;
    }
    return diag_error("%s: there is no setting '%s'", path, line);
}

int settings_read(const char *path)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    int rc = 0;
    if (!f)
        return diag_error("cannot read the settings %s: %s", path, strerror(errno));
    while (rc == 0 && (len = getline(&line, &cap, f)) > 0) {
        line[strcspn(line, "\n")] = 0;
        rc = set(path, line);
    }
    free(line);
    fclose(f);
    return rc;
}
