/* SPDX-License-Identifier: Apache-2.0
 *
 * parted ROUNDS [cold]: a function of which most is executed only with cold: there it throws, takes a signal whose
 * handler counts the frames that it stands on, asks for the names of these, calls with arguments on the stack, jumps by
 * a table, and turns in a loop. Prints one value, and with cold what it found.
 */
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unwind.h>

static volatile int frames;
static char names[400];
static jmp_buf back;

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *at, void *wanted)
{
    Dl_info info;
    frames = frames + 1;
    if (wanted && dladdr(reinterpret_cast<void *>(_Unwind_GetIP(at) - 1), &info) && info.dli_sname &&
        std::strlen(names) + std::strlen(info.dli_sname) + 2 < sizeof names && frames < 6)
        std::strcat(std::strcat(names, " "), info.dli_sname);
    return _URC_NO_REASON;
}

static void on_signal(int sig)
{
    _Unwind_Backtrace(count_frame, nullptr);
    if (sig == SIGUSR2)
        std::longjmp(back, 1);
}

extern "C" {
__attribute__((noinline)) long many(long a, long b, long c, long d, long e, long f, long g, long h)
{
    _Unwind_Backtrace(count_frame, nullptr);
    return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8;
}

__attribute__((noinline)) long few(long a, long b, long c, long d, long e, long f, long g, long h)
{
    return a ^ b ^ c * d ^ e ^ f * g ^ h;
}

__attribute__((noinline)) void thrower(long what)
{
    if (what)
        throw what;
}

/* No destructor in it, so it has no exception table. */
__attribute__((noinline)) long work(long round, int what)
{
    long sum = round;
    for (int i = 0; i < 8; i++)
        sum = sum * 31 + (sum >> 7) + what;
    if (what == 1) {
        thrower(sum | 1);
        sum++;
    }
    if (what == 2) {
        raise(SIGUSR1);
        sum += frames;
    }
    if (what == 3) {
        sum += many(1, 2, 3, sum, 5, round, 7, frames);
        sum ^= many(sum, 2, 3, 4, sum, 6, 7, frames);
    }
    if (what == 4) {
        _Unwind_Backtrace(count_frame, names);
        sum += frames;
    }
    if (what == 5)
        raise(SIGUSR2);
    if (what > 5)
        for (int i = 0; i < what * 10; i++) {
            switch ((i * 7 + what) % 9) {
            case 0:
                sum += 3;
                break;
            case 1:
                sum ^= i;
                break;
            case 2:
                sum -= what;
                break;
            case 3:
                sum *= 3;
                break;
            case 4:
                sum += few(i, i, i, i, i, i, i, 1);
                break;
            case 5:
                sum = ~sum;
                break;
            default:
                sum += i & what;
                break;
            }
            if (sum % 1000 == 77)
                sum += 5;
        }
    return sum;
}
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? std::atol(argv[1]) : 5;
    volatile long sum = 0;
    std::signal(SIGUSR1, on_signal);
    std::signal(SIGUSR2, on_signal);
    for (long r = 0; r < rounds; r++)
        sum = sum ^ work(r, 0);
    if (argc > 2)
        for (volatile int what = 1; what < 12; what = what + 1) {
            frames = 0;
            try {
                if (!setjmp(back))
                    sum = sum ^ work(what, what);
            } catch (long thrown) {
                sum = sum + thrown;
            }
            std::printf("%d: %d frames%s\n", what, frames, names);
            names[0] = 0;
        }
    std::printf("%ld\n", sum);
}
