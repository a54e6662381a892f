/* SPDX-License-Identifier: Apache-2.0
 *
 * Results made by hand, for the tests of store and report.
 */
#ifndef MTOOL_TEST_FIXTURE_H
#define MTOOL_TEST_FIXTURE_H

#include "prof/prof.h"

/* "typical": what a run on a small program gives. "nasty": names that no sane program has, figures unknown or at the
 * ends of their ranges, every list filled. "nothing": objects, none significant. "doubtful": "typical" with a model
 * that failed its self-test. "counts": counts only, no times. "slower":
 * another build of "typical", in which a loop lost more, a function is gone and one is new. "empty": prof_result_new.
 * "spied", "nasty-spied": "typical" and "nasty" with what mtool spy found. "only-spied": nothing was timed.
 * "slower-spied": "slower" with objects that miss more, and one that is another.
 * NULL if there is no such name. */
struct prof_result *fixture_result(const char *name);
/* "typical" with that many blocks and as many edges. */
struct prof_result *fixture_large(size_t blocks);
/* Compares field by field, unknown equal to unknown. NULL if equal, else the name of the first difference. */
const char *fixture_difference(const struct prof_result *a, const struct prof_result *b);

#endif
