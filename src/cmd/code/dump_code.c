/* SPDX-License-Identifier: Apache-2.0
 * mtool dump insn|cfg|loops|layout: the intermediate forms of one ELF file, in stable text or JSON. */
#include "cfg/cfg.h"
#include "cmd/cmd.h"
#include "report/report.h"

static int dump(const struct cmd_args *a, enum cfg_dump_what what)
{
    struct image *img;
    struct cfg *c = NULL;
    if (image_open(a->rest[0], &img) < 0)
        return CMD_UNUSABLE;
    int rc = cfg_build(img, &c);
    if (rc == 0) {
        cfg_dump(c, what, a->json, name_plain, stdout);
        cfg_free(c);
    }
    image_close(img);
    struct strbuf nothing = {0};
    return rc < 0 ? CMD_UNUSABLE : cmd_print(&nothing);
}

int cmd_dump_insn(const struct cmd_args *a) { return dump(a, CFG_DUMP_INSN); }
int cmd_dump_cfg(const struct cmd_args *a) { return dump(a, CFG_DUMP_CFG); }
int cmd_dump_loops(const struct cmd_args *a) { return dump(a, CFG_DUMP_LOOPS); }

int cmd_dump_image(const struct cmd_args *a)
{
    struct image *img;
    if (image_open(a->rest[0], &img) < 0)
        return CMD_UNUSABLE;
    image_dump(img, stdout);
    image_close(img);
    struct strbuf nothing = {0};
    return cmd_print(&nothing);
}
