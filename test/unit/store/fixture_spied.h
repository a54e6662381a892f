/* SPDX-License-Identifier: Apache-2.0
 *
 * What mtool spy finds, put to results made by hand.
 */
#ifndef MTOOL_TEST_FIXTURE_SPIED_H
#define MTOOL_TEST_FIXTURE_SPIED_H

#include "result/result.h"

void fixture_add_spied(struct prof_result *r);
void fixture_untime_spied(struct prof_result *r);
void fixture_worsen_spied(
    struct prof_result *r); /* the first object misses twice as much, the second has another name */
void fixture_spoil_spied(struct prof_result *r); /* names that no sane program has, unknown figures */

#endif
