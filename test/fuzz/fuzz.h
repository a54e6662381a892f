/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fuzz harnesses share. Each harness is one LLVMFuzzerTestOneInput over one reader of mtool. It is linked
 * twice: with libFuzzer, which looks for inputs (make fuzz), and with replay.c, which runs the seeds, every past
 * finding and some rounds of the mutator as a plain test. A harness checks meaning, not only crashes; what must hold is
 * FUZZ_CHECKed.
 */
#ifndef MTOOL_FUZZ_H
#define MTOOL_FUZZ_H

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);
int LLVMFuzzerInitialize(int *argc, char ***argv);
/* Changes bytes[0, len) in place to at most `most` bytes; the same seed does the same. Returns the new length. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t len, size_t max, unsigned seed);
/* Of libFuzzer, or of replay.c. */
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t len, size_t max);

#define FUZZ_CHECK(cond) ((cond) ? (void)0 : fuzz_failed(#cond, __FILE__, __LINE__))
_Noreturn void fuzz_failed(const char *what, const char *file, int line);

/* ---- common.c: what mtool says is caught; files ---- */

void fuzz_begin(void); /* forgets what was said */
/* A reader returned `rc`: 0 and nothing said, or -1 after exactly one line that has no line end and names the file. */
void fuzz_check_said(int rc, const char *file);
const char *fuzz_said(void); /* the last error, "" none */
/* Whether the line tells the place: an offset in the file, or that the whole file is meant. */
void fuzz_check_tells_place(void);
/* A file in memory that holds these bytes, until the next call; its path. */
const char *fuzz_file(const uint8_t *bytes, size_t len);
const char *fuzz_other_file(const uint8_t *bytes, size_t len); /* beside it */
FILE *fuzz_nowhere(void);                                      /* to dump to */
uint64_t fuzz_hash(const uint8_t *bytes, size_t len);

#endif
