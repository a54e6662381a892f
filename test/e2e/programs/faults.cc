/* SPDX-License-Identifier: Apache-2.0
 *
 * faults: blocks that are left in their middle by an exception that the handler of a fault throws: out of straight
 * code, out of a loop of one block, out of a callee, through a frame that cleans up. Built with -fnon-call-exceptions.
 */
#include <csignal>
#include <cstdio>
#include <sys/mman.h>

struct fault {
    int signal;
};
static volatile int cleanups, inside;
struct cleaner {
    ~cleaner() { cleanups = cleanups + 1; }
};

static void on_fault(int sig) { throw fault{sig}; }

static __attribute__((noinline)) long sum_of(const int *at, long n)
{
    long sum = 0;
    for (long i = 0; i < n; i++)
        sum += at[i];
    return sum;
}

static __attribute__((noinline)) long pick(const int *a, const int *b, bool twice)
{
    long x = *a;
    try {
        x += *b * 3L;
        x ^= x << 7;
    } catch (const fault &f) {
        x += f.signal;
        inside = inside + 1;
    }
    return twice ? x + *a : x;
}

static __attribute__((noinline)) int cleaned(int a, int b)
{
    cleaner c;
    int more = a + 1;
    return a / b + more;
}

int main()
{
    struct sigaction on = {};
    on.sa_handler = on_fault;
    on.sa_flags = SA_NODEFER;
    sigaction(SIGSEGV, &on, nullptr);
    sigaction(SIGFPE, &on, nullptr);
    char *page = static_cast<char *>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(page + 4096, 4096, PROT_NONE);
    const int *end = reinterpret_cast<int *>(page + 4096), good = 3;
    volatile int caught = 0;
    volatile long sum = 0;
    for (volatile int i = 0; i < 15; i++) {
        try {
            sum += pick(&good, i % 5 == 1 ? end : &good, i & 1);
            sum += cleaned(i, i % 7);
            sum += sum_of(end - 32, 30 + (i & 3));
        } catch (const fault &f) {
            caught = caught + 1;
            sum += f.signal;
        }
    }
    std::printf("%ld, %d caught, %d cleanups\n", sum, caught + inside, cleanups);
    return 0;
}
