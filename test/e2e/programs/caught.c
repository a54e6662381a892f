/* SPDX-License-Identifier: Apache-2.0
 *
 * caught: signals in a small program: raised, one inside the handler of another, and of a fault that the handler mends,
 * on an alternate stack.
 */
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>

static int *page;
static volatile int seen[3];
static char stack[65536];

static void nested(int signal)
{
    seen[0]++;
    if (signal == SIGUSR1)
        raise(SIGUSR2);
}

static void mend(int signal)
{
    seen[1] += signal == SIGSEGV;
    mprotect(page, 4096, PROT_READ);
}

static int read_from(volatile int *at)
{
    int sum = seen[2];
    for (int i = 0; i < 3; i++)
        sum += at[i];
    return sum;
}

int main(void)
{
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction on_fault = {.sa_handler = mend, .sa_flags = SA_ONSTACK}, on_user = {.sa_handler = nested};
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV, &on_fault, NULL);
    sigaction(SIGUSR1, &on_user, NULL);
    sigaction(SIGUSR2, &on_user, NULL);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 60; i++) {
        raise(SIGUSR1);
        mprotect(page, 4096, i % 2 ? PROT_READ : PROT_NONE);
        seen[2] += read_from(page);
    }
    return seen[0] == 120 && seen[1] == 30 ? 0 : 1;
}
