/* SPDX-License-Identifier: Apache-2.0
 * write-fixture RESULT FILE: one of the results of fixture.h as a profile, for tests of whole commands. */
#include "fixture.h"
#include "store/store.h"

int main(int argc, char **argv)
{
    struct prof_result *r = argc == 3 ? fixture_result(argv[1]) : NULL;
    struct store *s;
    if (!r || store_create(argv[2], r->program ? r->program : "?", true, &s) < 0)
        return 2;
    int rc = store_commit(s, r);
    store_abort(s);
    prof_result_free(r);
    return rc < 0;
}
