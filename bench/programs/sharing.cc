// SPDX-License-Identifier: Apache-2.0
//
// sharing CASE [REPEATS]: twelve ways in which threads write different bytes of one line. With -DPADDED, the twin, each
// thread's bytes have lines of their own; the work is the same. The program looks itself whether the bytes lie as they
// should, and ends with 3 if they do not.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>

#ifdef PADDED
#define APART alignas(128)
enum { IS_PADDED = 1, STEP = 128 };
#else
#define APART
enum { IS_PADDED = 0, STEP = 1 };
#endif
#define NOINLINE __attribute__((noinline))

enum { THREADS_MAX = 8, PART = 100 };
typedef volatile long word;

static long repeats = 100000;
static pthread_barrier_t together;

// ---- threads ----

struct job {
    void (*run)(void *data);
    void *data;
};

static void *enter(void *job_)
{
    const job *j = (const job *)job_;
    pthread_barrier_wait(&together);
    j->run(j->data);
    return nullptr;
}

static void run_all(const job *jobs, int count)
{
    pthread_t thread[THREADS_MAX];
    pthread_barrier_init(&together, nullptr, (unsigned)count);
    for (int t = 0; t < count; t++)
        if (pthread_create(&thread[t], nullptr, enter, (void *)&jobs[t]) != 0)
            exit(2);
    for (int t = 0; t < count; t++)
        pthread_join(thread[t], nullptr);
}

// Whether neighbours share a line where they should, and nowhere else.
static void check(volatile void *a, volatile void *b)
{
    bool is_same = (unsigned long)a / 64 == (unsigned long)b / 64;
    if (is_same == (bool)IS_PADDED) {
        fprintf(stderr, "sharing: %p and %p do not lie as they should\n", (void *)a, (void *)b);
        exit(3);
    }
}

NOINLINE static void count_word(void *data)
{
    word *w = (word *)data;
    for (long i = 0; i < repeats; i++)
        *w = *w + (i & 3);
}

static void run_words(word *const *words, int count)
{
    job jobs[THREADS_MAX];
    for (int t = 0; t < count; t++)
        jobs[t] = {count_word, (void *)words[t]};
    for (int t = 0; t + 1 < count; t++)
        check(words[t], words[t + 1]);
    run_all(jobs, count);
}

// ---- fields of a structure ----

struct alignas(128) account {
    word paid;
    APART word owed;
};
static account ledger;

NOINLINE static void pay(void *) { count_word((void *)&ledger.paid); }
NOINLINE static void owe(void *)
{
    for (long i = 0; i < repeats; i++)
        ledger.owed = ledger.owed + 1;
}
static void fields()
{
    const job jobs[] = {{pay, nullptr}, {owe, nullptr}};
    check(&ledger.paid, &ledger.owed);
    run_all(jobs, 2);
}

// ---- elements of an array, by thread ----

struct slot {
    APART word hits;
};
alignas(128) static slot slots[8];

static void elements()
{
    word *words[8];
    for (int t = 0; t < 8; t++)
        words[t] = &slots[t].hits;
    run_words(words, 8);
}

// ---- neighbours on the heap ----

NOINLINE static word *make_left()
{
    word *w = (word *)calloc(IS_PADDED ? 32 : 1, sizeof(word));
    *w = 1;
    return w;
}
NOINLINE static word *make_right()
{
    word *w = (word *)calloc(IS_PADDED ? 64 : 2, sizeof(word));
    *w = 2;
    return w;
}

static void heap()
{
    word *words[2];
    do { // what lies at the end of a line is left, and one more
        if (!malloc(sizeof(word)))
            exit(2);
        words[0] = make_left();
        words[1] = make_right();
    } while (!IS_PADDED && (unsigned long)words[0] / 64 != (unsigned long)words[1] / 64);
    run_words(words, 2);
}

// ---- variables side by side ----

APART static word produced = 1;
alignas(128) static word consumed = 1; // gcc lays it before the other

NOINLINE static void produce(void *)
{
    for (long i = 0; i < repeats; i++)
        produced = produced + 1;
}
NOINLINE static void consume(void *)
{
    for (long i = 0; i < repeats; i++)
        consumed = consumed + 1;
}
static void globals()
{
    const job jobs[] = {{produce, nullptr}, {consume, nullptr}};
    check(&produced, &consumed);
    run_all(jobs, 2);
}

// ---- objects of a class, each of one thread ----

class worker
{
public:
    NOINLINE void work()
    {
        for (long i = 0; i < repeats; i++)
            done = done + 1;
    }
    word done = 0;

private:
    char room[STEP > 1 ? 248 : 8] = {};
};

NOINLINE static void let_work(void *data) { ((worker *)data)->work(); }
static void objects()
{
    worker *workers[4];
    job jobs[4];
    do {
        if (!malloc(sizeof(word)))
            exit(2);
        for (int t = 0; t < 4; t++)
            workers[t] = new worker;
    } while (!IS_PADDED && ((unsigned long)workers[0] / 64 != (unsigned long)workers[1] / 64 ||
                          (unsigned long)workers[2] / 64 != (unsigned long)workers[3] / 64));
    for (int t = 0; t < 4; t++)
        jobs[t] = {let_work, workers[t]};
    check(&workers[0]->done, &workers[1]->done);
    check(&workers[2]->done, &workers[3]->done);
    run_all(jobs, 4);
}

// ---- a counter beside a lock that others take ----

struct alignas(128) guarded {
    std::atomic<int> lock;
    APART word waiting;
};
static guarded guard;

NOINLINE static void take_lock(void *)
{
    for (long i = 0; i < repeats; i++) {
        guard.lock.exchange(1, std::memory_order_acquire);
        guard.lock.store(0, std::memory_order_release);
    }
}
NOINLINE static void count_waiting(void *)
{
    for (long i = 0; i < repeats; i++)
        guard.waiting = guard.waiting + 1;
}
static void lock()
{
    const job jobs[] = {{take_lock, nullptr}, {count_waiting, nullptr}};
    check(&guard.lock, &guard.waiting);
    run_all(jobs, 2);
}

// ---- a flag that others read ----

struct alignas(128) state {
    volatile int stop;
    APART word progress;
};
static state shared_state;

NOINLINE static void watch(void *)
{
    long seen = 0;
    for (long i = 0; i < repeats; i++)
        seen += shared_state.stop;
    if (seen)
        abort();
}
NOINLINE static void advance(void *)
{
    for (long i = 0; i < repeats; i++)
        shared_state.progress = shared_state.progress + 1;
}
static void flag()
{
    const job jobs[] = {{advance, nullptr}, {watch, nullptr}, {watch, nullptr}, {watch, nullptr}};
    check(&shared_state.stop, &shared_state.progress);
    run_all(jobs, 4);
}

// ---- parts of an array whose bounds are in the midst of lines ----

alignas(128) static volatile int image[4 * (PART + 28)];

NOINLINE static void fill(void *data)
{
    volatile int *part = (volatile int *)data;
    for (long r = 0; r < repeats / PART; r++)
        for (int i = 0; i < PART; i++)
            part[i] = part[i] + 1;
}
static void parts()
{
    job jobs[4];
    for (int t = 0; t < 4; t++)
        jobs[t] = {fill, (void *)&image[t * (PART + (IS_PADDED ? 28 : 0))]};
    for (int t = 0; t < 3; t++)
        check((int *)jobs[t].data + PART - 1, jobs[t + 1].data);
    run_all(jobs, 4);
}

// ---- the end of an array and the begin of the next ----

struct alignas(128) rows {
    volatile int odd[PART];
    APART volatile int even[PART];
};
static rows table;

NOINLINE static void fill_odd(void *)
{
    for (long r = 0; r < repeats / PART; r++)
        for (int i = 0; i < PART; i++)
            table.odd[i] = table.odd[i] + 1;
}
NOINLINE static void fill_even(void *)
{
    for (long r = 0; r < repeats / PART; r++)
        for (int i = 0; i < PART; i++)
            table.even[i] = table.even[i] + 3;
}
static void arrays()
{
    const job jobs[] = {{fill_odd, nullptr}, {fill_even, nullptr}};
    check(&table.odd[PART - 1], &table.even[0]);
    run_all(jobs, 2);
}

// ---- partial sums of OpenMP ----

alignas(128) static word sums[4 * 16];

NOINLINE static void openmp()
{
    enum { EACH = IS_PADDED ? 16 : 1 };
    check(&sums[0], &sums[EACH]);
#pragma omp parallel for num_threads(4) schedule(static, 1)
    for (int t = 0; t < 4; t++)
        for (long i = 0; i < repeats; i++)
            sums[t * EACH] = sums[t * EACH] + i;
}

// ---- bytes ----

alignas(128) static volatile unsigned char ticks[8 * STEP];

NOINLINE static void tick(void *data)
{
    volatile unsigned char *c = (volatile unsigned char *)data;
    for (long i = 0; i < repeats; i++)
        *c = (unsigned char)(*c + 1);
}
static void bytes()
{
    job jobs[8];
    for (int t = 0; t < 8; t++)
        jobs[t] = {tick, (void *)&ticks[t * STEP]};
    check(&ticks[0], &ticks[STEP]);
    run_all(jobs, 8);
}

// ---- a frame of the thread that waits for the others ----

NOINLINE static void stack()
{
    alignas(128) slot found[3] = {};
    word *words[3];
    for (int t = 0; t < 3; t++)
        words[t] = &found[t].hits;
    run_words(words, 3);
}

// ---- all ----

static const struct {
    const char *name;
    void (*run)();
} cases[] = {{"fields", fields}, {"elements", elements}, {"heap", heap},     {"globals", globals},
             {"objects", objects}, {"lock", lock},       {"flag", flag},     {"parts", parts},
             {"arrays", arrays},   {"openmp", openmp},   {"bytes", bytes},   {"stack", stack}};

int main(int argc, char **argv)
{
    if (argc > 2)
        repeats = atol(argv[2]);
    for (const auto &c : cases)
        if (argc > 1 && !strcmp(argv[1], c.name)) {
            c.run();
            return 0;
        }
    for (const auto &c : cases)
        puts(c.name);
    return argc > 1 ? 2 : 0;
}
