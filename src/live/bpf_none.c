/* SPDX-License-Identifier: Apache-2.0
 * In the place of bpf.c where mtool was built without clang or libbpf. */
#include "live/impl.h"

struct live_bpf *live_bpf_open(const struct live_target *t, struct arena *a, const char **why)
{
    (void)t, (void)a;
    *why = "mtool was built without it (clang or libbpf-dev was missing)";
    return NULL;
}
void live_bpf_cost(struct live_bpf *b, struct live_cost *c) { (void)b, (void)c; }
void live_bpf_begin(struct live_bpf *b) { (void)b; }
int live_bpf_fd(const struct live_bpf *b) { return (void)b, -1; }
void live_bpf_drain(struct live_bpf *b) { (void)b; }
void live_bpf_stop(struct live_bpf *b, struct live_sums *out) { (void)b, (void)out; }
void live_bpf_close(struct live_bpf *b) { (void)b; }
