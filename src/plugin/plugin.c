/* SPDX-License-Identifier: Apache-2.0
 * The phases. Until the guest's first marker only markers are looked for, at the emulator's plain speed; then all
 * translations are thrown away and what is wanted is counted; at the second marker the figures are taken. What comes
 * after it, when the guest hands over what its program wrote, is translated as before and not looked at: throwing
 * translations away once more would leave QEMU 7.2 with a pointer to callbacks of theirs. */
#include "plugin/plugin.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

QEMU_EXPORTED int qemu_plugin_version = QEMU_INTERFACE;

static qemu_plugin_id_t own;
static bool is_begun;
bool plugin_is_counting;

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    if (is_begun) {
        segments_translate(tb);
        return;
    }
    for (size_t n = qemu_plugin_tb_n_insns(tb), k = 0; k < n; k++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
        uint32_t number;
        const uint8_t *bytes = qemu_plugin_insn_data(insn);
        if (qemu_plugin_insn_size(insn) != WIRE_MARK_LEN || memcmp(bytes, WIRE_MARK_BYTES, 4) != 0)
            continue;
        memcpy(&number, bytes + 4, sizeof number);
        if (number >> 16 == WIRE_MARK_NUMBER(0) >> 16)
            plugin_mark(insn, (uint16_t)number);
    }
}

/* All translations are gone. */
static void on_reset(qemu_plugin_id_t id)
{
    if (is_begun)
        system_begin();
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
}

static void on_begin(unsigned vcpu, void *none)
{
    (void)vcpu, (void)none;
    if (is_begun)
        return;
    is_begun = plugin_is_counting = true;
    qemu_plugin_reset(own, on_reset);
}

static void on_end(unsigned vcpu, void *none)
{
    (void)vcpu, (void)none;
    if (!plugin_is_counting)
        return;
    plugin_is_counting = false;
    watch_end();
    segments_sum();
    spots_end();
    if (maps_are_wanted)
        pages_end();
    system_end();
}

/* ---- what the guest hands over ---- */

static void on_chunk(unsigned vcpu, void *none)
{
    const struct wire_region *r = ram_region();
    char path[4096];
    (void)vcpu, (void)none;
    if (r->magic != WIRE_REGION_MAGIC || r->stream >= WIRE_STREAM_COUNT ||
        r->bytes > WIRE_REGION_BYTES - WIRE_REGION_HEAD)
        return;
    snprintf(path, sizeof path, "%s/stream.%u", settings.streams, (unsigned)r->stream);
    FILE *f = fopen(path, "ae");
    if (!f || fwrite((const uint8_t *)r + WIRE_REGION_HEAD, 1, r->bytes, f) != r->bytes || fclose(f) != 0) {
        diag_error("cannot write %s: %s", path, strerror(errno));
        _exit(1);
    }
}

static void on_done(unsigned vcpu, void *none)
{
    (void)vcpu, (void)none;
    char path[4096];
    result_write();
    snprintf(path, sizeof path, "%s/done", settings.streams);
    FILE *f = fopen(path, "we"); /* says that nothing is missing */
    if (f)
        fclose(f);
    fflush(NULL);
    _exit(0); /* nothing of the guest is needed any more */
}

void plugin_mark(struct qemu_plugin_insn *insn, uint16_t mark)
{
    static const qemu_plugin_vcpu_udata_cb_t does[] = {NULL, on_begin, on_end, on_chunk, on_done};
    if (mark < ARRAY_LEN(does) && does[mark])
        qemu_plugin_register_vcpu_insn_exec_cb(insn, does[mark], QEMU_PLUGIN_CB_NO_REGS, NULL);
}

/* ---- loaded ---- */

static int check(const qemu_info_t *info, int argc)
{
    if (!info->system_emulation || strcmp(info->target_name, "x86_64") != 0)
        return diag_error("this plugin is for qemu-system-x86_64, not for %s", info->target_name);
    if (info->system.smp_vcpus != 1)
        return diag_error("this plugin counts one processor, not %d", info->system.smp_vcpus);
    return argc == 1 ? 0 : diag_error("this plugin takes one argument, settings=FILE");
}

QEMU_EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    const char *equals = argc == 1 ? strchr(argv[0], '=') : NULL;
    own = id;
    if (check(info, argc) < 0 || settings_read(equals ? equals + 1 : argv[0]) < 0 || ram_find() < 0)
        return -1;
    if (settings.output && places_read() < 0)
        return -1;
    if (settings.placed && placed_read() < 0)
        return -1;
    if ((settings.variables || settings.placed_data) && variables_read() < 0)
        return -1;
    if (settings.output)
        system_find();
    if (settings.output && system_missing())
        return diag_error("the guest's kernel has no symbol %s", system_missing());
    if (settings.machine && model_make() < 0)
        return -1;
    if (settings.programs.len && watch_read() < 0)
        return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    return 0;
}
