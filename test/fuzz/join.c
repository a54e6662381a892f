/* SPDX-License-Identifier: Apache-2.0
 * Fuzzes the join with a map from the cache that was damaged in ways its reader cannot see: the counts may be nonsense,
 * but they, the walks of the core model over them and the tables made of them keep within their arrays. The original is
 * the one that the map names, if that is still a seed. */
#include "fuzz.h"

#include <stdlib.h>

#include "machine/machine.h"
#include "prof/prof.h"
#include "rewrite/rewrite.h"

static void join(const struct rewrite_map *m, uint64_t random)
{
    static const double user_s[] = {1.0, 1.1, 0.9}, system_s[] = {0.01, 0.01, 0.02};
    static struct machine *machine;
    if (!machine)
        machine = machine_default();
    uint64_t *counters = xmalloc(8ull * m->counter_count + 8);
    for (uint32_t i = 0; i < m->counter_count; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        counters[i] = random >> (24 + (random >> 59));
    }
    struct observed_sample samples[8];
    for (size_t i = 0; i < ARRAY_LEN(samples); i++)
        samples[i] = (struct observed_sample){0, 0x4c0 + (random >> i) % 0x180, 10};
    struct prof_input_module module = {.path = m->in_path, .map = m, .counters = counters};
    struct prof_input in = {.modules = &module,
                            .module_count = 1,
                            .samples = samples,
                            .sample_count = ARRAY_LEN(samples),
                            .sample_period_s = 0.001,
                            .plain_user_s = user_s,
                            .plain_system_s = system_s,
                            .plain_runs = ARRAY_LEN(user_s),
                            .machine = machine,
                            .want_blocks = true,
                            .sim_budget_s = 0.002,
                            .seed = 1};
    struct prof_result *r = prof_result_new();
    int rc = prof_join(r, &in);
    fuzz_check_said(rc, m->in_path);
    for (size_t i = 0; rc == 0 && i < r->object_count; i++)
        FUZZ_CHECK(r->objects[i].id == i && r->objects[i].function && r->objects[i].module);
    prof_result_free(r);
    free(counters);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct rewrite_map *m;
    fuzz_begin();
    const char *path = fuzz_file(bytes, len);
    int rc = rewrite_map_open(path, &m);
    fuzz_check_said(rc, path);
    if (rc < 0)
        return 0;
    if (strstr(m->in_path, "/test/fuzz/"))
        join(m, fuzz_hash(bytes, len));
    rewrite_map_close(m);
    return 0;
}
