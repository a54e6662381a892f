/* SPDX-License-Identifier: Apache-2.0
 *
 * The forms of what mtool monster live has seen.
 */
#ifndef MTOOL_CMD_MONSTER_LIVE_FORM_H
#define MTOOL_CMD_MONSTER_LIVE_FORM_H

#include "base/base.h"
#include "live/live.h"

/* what: the command line, or what else was watched; top: rows of a table at most. */
void live_put_text(struct strbuf *out, const struct live_result *r, const char *what, size_t top);
void live_put_json(struct strbuf *out, const struct live_result *r, const char *what);

#endif
