/* SPDX-License-Identifier: Apache-2.0
 * Signals that come between any two instructions of a function that keeps what its caller has in registers, and uses
 * them: the handler walks the stack, and every second one throws out of it. Prints how many walks did not find all
 * callers, and how often the caller's registers were not as before; ends with status 1 if any. */
#include <cstdio>
#include <signal.h>
#include <sys/time.h>
#include <unwind.h>

enum { TURNS = 300, WORDS = 512, CALLED_MAX = 3 };

static volatile long inside;
static long words[WORDS];
static int depth_of_main, walks, wrong_walks;

static _Unwind_Reason_Code count(_Unwind_Context *, void *depth)
{
    return ++*(int *)depth < 100 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

__attribute__((noinline)) static int walk()
{
    int depth = 0;
    _Unwind_Backtrace(count, &depth);
    return depth;
}

static void on_signal(int)
{
    if (!inside)
        return;
    walks++;
    int more = walk() - depth_of_main - 3; /* the handler, the signal's frame, the function; those of mtool's runtime */
    if (more < 0 || more > CALLED_MAX)
        wrong_walks++;
    if (walks % 2)
        throw walks;
    inside = 2;
}

/* Until a signal came. It calls nothing, but mtool's runtime may be between its instructions. */
__attribute__((noinline)) static long work(long a, long b, long c, long d)
{
    long e = a ^ b, f = b ^ c, g = c ^ d, room[32];
    inside = 1;
    for (long i = 0; inside == 1; i++) {
        long *w = &words[i % WORDS], *r = &room[i & 31];
        *r = *w + a;
        *w += e ^ f;
        a += *r;
        b ^= *w;
        c += b;
        d ^= a;
        e += c;
        f ^= d;
        g += e;
        if (*w & 1)
            words[(i * 7) % WORDS] = g;
    }
    inside = 0;
    return a + b + c + d + e + f + g;
}

int main(int argc, char **)
{
    struct sigaction on = {};
    sigset_t just_that;
    struct itimerval often = {{0, 1000}, {0, 1000}};
    long p = argc, q = argc + 1, r = argc + 2, s = argc + 3;
    int thrown = 0, lost = 0;
    on.sa_handler = on_signal;
    on.sa_flags = SA_RESTART;
    sigemptyset(&just_that);
    sigaddset(&just_that, SIGPROF);
    depth_of_main = walk();
    sigaction(SIGPROF, &on, nullptr);
    setitimer(ITIMER_PROF, &often, nullptr);
    while (walks < TURNS) {
        try {
            words[0] += work(p, q, r, s);
        } catch (int) {
            inside = 0;
            thrown++;
            sigprocmask(SIG_UNBLOCK, &just_that, nullptr);
        }
        lost += q != p + 1 || r != p + 2 || s != p + 3;
    }
    std::printf("%d walks wrong, %d times lost, %d not thrown\n", wrong_walks, lost, TURNS / 2 - thrown);
    return wrong_walks || lost || thrown != TURNS / 2;
}
