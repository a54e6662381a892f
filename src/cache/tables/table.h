/* SPDX-License-Identifier: Apache-2.0
 *
 * Large tables that are reached here and there, all the time: in pages of 2 MB where the system has such, so that the
 * processor knows where they are. A heap begins at no such page, and what is freed in it comes back in small ones.
 */
#ifndef MTOOL_CACHE_TABLES_TABLE_H
#define MTOOL_CACHE_TABLES_TABLE_H

#include "base/base.h"

void *table_new(size_t len_bytes);                              /* zeroed */
void *table_grow(void *p, size_t len_bytes, size_t more_bytes); /* what is new is zeroed */
void table_free(void *p, size_t len_bytes);                     /* as long as it was made; NULL: nothing */

#endif
