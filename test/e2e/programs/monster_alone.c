/* SPDX-License-Identifier: Apache-2.0
 * A program without libc and with a stack of its own, so that its addresses are the same wherever it runs: sorts,
 * chases pointers, copies, and calls code that is spread over many lines. */
enum { N = 20000, BYTES = 1 << 18 };

static unsigned key[N], next[N];
static unsigned char from[BYTES], to[BYTES];
__attribute__((used)) static unsigned char own_stack[1 << 16] __attribute__((aligned(64)));
static unsigned state = 12345;

static unsigned draw(void)
{
    state = state * 1103515245u + 12345u;
    return state >> 8;
}

__attribute__((noinline)) static void sort(int lo, int hi)
{
    while (lo < hi) {
        unsigned pivot = key[lo + (hi - lo) / 2];
        int i = lo, j = hi;
        while (i <= j) {
            while (key[i] < pivot)
                i++;
            while (key[j] > pivot)
                j--;
            if (i <= j) {
                unsigned t = key[i];
                key[i++] = key[j];
                key[j--] = t;
            }
        }
        if (j - lo < hi - i) {
            sort(lo, j);
            lo = i;
        } else {
            sort(i, hi);
            hi = j;
        }
    }
}

#define FAR __attribute__((noinline, aligned(256))) static unsigned
FAR far_1(unsigned x) { return x * 4 + (x >> 1); }
FAR far_2(unsigned x) { return x * 5 + (x >> 2); }
FAR far_3(unsigned x) { return x * 6 + (x >> 3); }
FAR far_4(unsigned x) { return x * 7 + (x >> 4); }
FAR far_5(unsigned x) { return x * 8 + (x >> 5); }
FAR far_6(unsigned x) { return x * 9 + (x >> 6); }
FAR far_7(unsigned x) { return x * 10 + (x >> 7); }
FAR far_8(unsigned x) { return x * 11 + (x >> 8); }
static unsigned (*const volatile far[])(unsigned) = {far_1, far_2, far_3, far_4, far_5, far_6, far_7, far_8};

__attribute__((used)) static unsigned work(void)
{
    unsigned sum = 0;
    for (int i = 0; i < N; i++) {
        key[i] = draw();
        next[i] = draw() % N;
    }
    sort(0, N - 1);
    for (unsigned i = 0, at = 0; i < 4 * N; i++, at = next[at])
        sum = far[sum & 7](sum + key[at]);
    for (int i = 0; i < BYTES; i++)
        to[i] = (unsigned char)(from[i] + 1);
    for (int i = 0; i + 8 <= BYTES; i += 61)
        *(unsigned long *)(to + i) += sum;
    return sum & 63;
}

__asm__(".globl _start\n.type _start, @function\n_start:\n\tlea own_stack+65536(%rip), %rsp\n\tcall work\n\tmov %eax, "
        "%edi\n\tmov $60, %eax\n"
        "\tsyscall\n");
