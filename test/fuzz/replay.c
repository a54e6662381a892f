/* SPDX-License-Identifier: Apache-2.0
 * A harness as a plain test, without libFuzzer:  replay ROUNDS FINDINGS SEED...  runs every seed, every past finding
 * and ROUNDS changed seeds a seed (the same ones each time), each within 5 s of processor time and 2 GB. TAP.
 *
 * FINDINGS has one input a line: the name of a seed (the last part of its path) or "-" for none, then changes in order:
 * `size=N` cuts off or appends zero bytes, `OFFSET:HEX` writes bytes, both numbers hexadecimal; # and the rest is said.
 */
#include "fuzz.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#define LEN_MAX (1u << 20)
#define CPU_MAX_S 5

#ifdef __SANITIZE_ADDRESS__
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "max_allocation_size_mb=2048:allocator_may_return_null=1"; }
#else
static void limit_memory(void)
{
    struct rlimit l = {2ull << 30, 2ull << 30};
    setrlimit(RLIMIT_AS, &l);
}
#endif

static char activity[256];
static unsigned cases;

static void say_activity(int sig)
{
    static const char says[][40] = {"# ended (signal or too slow) at: ", "\n"};
    if (write(1, says[0], strlen(says[0])) < 0 || write(1, activity, strlen(activity)) < 0 || write(1, says[1], 1) < 0)
        _exit(126);
    signal(sig, SIG_DFL);
    raise(sig);
}

static void run(const uint8_t *bytes, size_t len)
{
    uint8_t *exact = malloc(len ? len : 1); /* ends where the sanitizer looks */
    FUZZ_CHECK(exact);
    if (len)
        memcpy(exact, bytes, len);
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = CPU_MAX_S}, NULL);
    LLVMFuzzerTestOneInput(exact, len);
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = 0}, NULL);
    free(exact);
}

/* ---- rounds ---- */

static uint32_t random_state;

static uint32_t next_random(void)
{
    random_state = random_state * 1664525 + 1013904223;
    return random_state >> 8;
}

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t len, size_t max)
{
    if (len && next_random() % 16 == 0)
        return len > max / 2 || next_random() % 2 ? 1 + next_random() % len : len;
    if (len)
        bytes[next_random() % len] = next_random() % 4 ? (uint8_t)next_random() : 0xff;
    return len;
}

__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t len, size_t max, unsigned seed)
{
    for (unsigned n = 1 + seed % 4; n; n--)
        len = LLVMFuzzerMutate(bytes, len, max);
    return len;
}

static void run_rounds(const char *name, const struct file_bytes *seed, unsigned rounds)
{
    uint8_t *bytes = xmalloc(LEN_MAX);
    random_state = 1;
    for (unsigned i = 0; i < rounds; i++) {
        snprintf(activity, sizeof activity, "%s changed, round %u", name, i);
        memcpy(bytes, seed->data, seed->len);
        random_state += i;
        run(bytes, LLVMFuzzerCustomMutator(bytes, seed->len, LEN_MAX, i));
    }
    free(bytes);
    printf("ok %u - %s and %u changes of it\n", ++cases, name, rounds);
}

/* ---- findings ---- */

static size_t write_hex(uint8_t *at, const char *hex)
{
    size_t n = 0;
    for (; isxdigit((unsigned char)hex[0]) && isxdigit((unsigned char)hex[1]); hex += 2, n++) {
        char two[3] = {hex[0], hex[1], 0};
        at[n] = (uint8_t)strtoul(two, NULL, 16);
    }
    FUZZ_CHECK(!*hex); /* the findings file is wrong */
    return n;
}

static void run_finding(char *line, char **seeds, const struct file_bytes *files, size_t count)
{
    const char *about = strchr(line, '#');
    snprintf(activity, sizeof activity, "%s", about ? about + 2 : line);
    line[about ? about - line : (ptrdiff_t)strlen(line)] = 0;
    char *save, *word = strtok_r(line, " \n", &save);
    if (!word)
        return;
    uint8_t *bytes = xmalloc(LEN_MAX);
    size_t len = 0, k = 0;
    while (k < count && strcmp(word, file_base_name(seeds[k])) != 0)
        k++;
    FUZZ_CHECK(k < count || strcmp(word, "-") == 0);
    if (k < count && (len = files[k].len))
        memcpy(bytes, files[k].data, len);
    while ((word = strtok_r(NULL, " \n", &save))) {
        size_t n = strtoul(strchr(word, '=') ? word + 5 : word, &word, 16);
        FUZZ_CHECK(n < LEN_MAX / 2);
        if (*word == ':') {
            n += write_hex(bytes + n, word + 1);
            len = max_u64(len, n);
        } else {
            if (n < len)
                memset(bytes + n, 0, len - n);
            len = n;
        }
    }
    run(bytes, len);
    free(bytes);
    printf("ok %u - found before: %s\n", ++cases, activity);
}

static void run_findings(const char *path, char **seeds, const struct file_bytes *files, size_t count)
{
    char *line = NULL;
    size_t cap = 0;
    FILE *f = fopen(path, "r");
    FUZZ_CHECK(f);
    while (getline(&line, &cap, f) >= 0) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] && line[0] != '#')
            run_finding(line, seeds, files, count);
    }
    free(line);
    fclose(f);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    setvbuf(stdout, NULL, _IONBF, 0);
#ifndef __SANITIZE_ADDRESS__
    limit_memory();
    signal(SIGSEGV, say_activity);
#endif
    signal(SIGPROF, say_activity);
    signal(SIGABRT, say_activity);
    size_t count = (size_t)argc - 3;
    struct file_bytes *files = xmalloc((count + 1) * sizeof *files);
    for (size_t k = 0; k < count; k++)
        FUZZ_CHECK(file_map(argv[k + 3], &files[k]) == 0 && files[k].len < LEN_MAX / 2);
    run_findings(argv[2], argv + 3, files, count);
    for (size_t k = 0; k < count; k++)
        run_rounds(file_base_name(argv[k + 3]), &files[k], (unsigned)strtoul(argv[1], NULL, 10));
    for (size_t k = 0; k < count; k++)
        file_unmap(&files[k]);
    free(files);
    printf("1..%u\n", cases);
    return 0;
}
