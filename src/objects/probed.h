/* SPDX-License-Identifier: Apache-2.0
 *
 * objects/probed.h: what the rewriter is to probe.
 */
#ifndef MTOOL_OBJECTS_PROBED_H
#define MTOOL_OBJECTS_PROBED_H

#include "result/result.h"
#include "rewrite/rewrite.h"

/* The objects of a module that are to be probed, as rewrite_options.objects wants them, in r's arena; NULL: none. Their
 * cells are numbered in the order of candidates. */
const struct rewrite_objects *prof_probes_list(const struct prof_result *r, const char *module);

#endif
