/* SPDX-License-Identifier: Apache-2.0
 *
 * told WHAT: instructions whose operands do not say what they reach, between a write to `first` and one to `last`; all
 * that is written besides is in registers. Says what came out, with flags and registers as they should be. Status 77:
 * this processor lacks them.
 */
#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

volatile long first, last;
static struct {
    int32_t table[1024];
    uint8_t a[64], b[64];
    uint8_t state[8192];
    uint64_t bits[8];
} data __attribute__((aligned(4096)));
static uint32_t out[16] __attribute__((aligned(64)));

#define BEGIN __asm__ volatile("movq $1, %0" : "=m"(first)::"memory")
#define END __asm__ volatile("movq $1, %0" : "=m"(last)::"memory")

static uint32_t sum(const uint32_t *words, int n)
{
    uint32_t s = 0;
    for (int i = 0; i < n; i++)
        s = s * 31 + words[i];
    return s;
}

/* Elements 0, 2, 5 and 7 of eight, 100 words apart; then of four by indices of 64 bits. */
__attribute__((target("avx2"))) static void gather(void)
{
    __m256i index = _mm256_setr_epi32(0, 100, 200, 300, 400, 500, 600, 700), got = _mm256_set1_epi32(-9);
    __m256i mask = _mm256_setr_epi32(-1, 0, -1, 1, 0, -1, 0, INT32_MIN);
    __m256i wide = _mm256_setr_epi64x(-2, 1000, 3, 4), all = _mm256_set1_epi64x(-1);
    __m256i longs = _mm256_set1_epi64x(7);
    const int32_t *table = data.table;
    long flags = 0;
    BEGIN;
    __asm__ volatile("stc\n vpgatherdd %3, (%5,%6,4), %0\n setc %b1\n"
                     "vpgatherqq %4, 16(%5,%7,2), %2\n"
                     : "+&x"(got), "+q"(flags), "+&x"(longs), "+&x"(mask), "+&x"(all)
                     : "r"(table), "x"(index), "x"(wide)
                     : "memory");
    END;
    _mm256_store_si256((__m256i *)out, got);
    printf("%x %ld ", sum(out, 8), flags);
    _mm256_store_si256((__m256i *)out, longs);
    printf("%x\n", sum(out, 8));
}

__attribute__((target("avx512f"))) static void scatter(void)
{
    __m512i index = _mm512_setr_epi32(0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240);
    const int32_t *table = data.table;
    __m512i got = _mm512_set1_epi32(5);
    BEGIN;
    __asm__ volatile("vmovdqa32 %1, %%zmm21\n movl $0x8005, %%eax\n kmovw %%eax, %%k3\n"
                     "vpscatterdd %0, (%2,%%zmm21,4)%{%%k3%}\n"
                     "movl $0x00f0, %%eax\n kmovw %%eax, %%k3\n vpgatherdd 4(%2,%%zmm21,4), %0%{%%k3%}\n"
                     "kxorw %%k3, %%k3, %%k3\n vpscatterdd %0, (%2,%%zmm21,4)%{%%k3%}\n"
                     : "+v"(got)
                     : "v"(index), "r"(table)
                     : "rax", "k3", "xmm21", "memory");
    END;
    _mm512_store_si512(out, got);
    printf("%x\n", sum(out, 16));
}

__attribute__((target("avx2"))) static void masked(void)
{
    __m256i mask = _mm256_setr_epi32(0, 0, -1, 0, -1, -1, 0, 0), none = _mm256_setzero_si256(), got;
    __m128i bytes = _mm_setr_epi8(0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0);
    int32_t *table = data.table;
    BEGIN;
    __asm__ volatile("vpmaskmovd 64(%2), %3, %0\n vpmaskmovd %0, %4, (%2)\n vmaskmovpd %0, %3, 128(%2)\n"
                     "mov %2, %%rdi\n vmaskmovdqu %1, %1"
                     : "=&x"(got)
                     : "x"(bytes), "r"(table), "x"(mask), "x"(none)
                     : "rdi", "memory");
    END;
    _mm256_store_si256((__m256i *)out, got);
    printf("%x %x\n", sum(out, 8), sum((const uint32_t *)table, 64));
}

__attribute__((target("avx512f,avx512bw,avx512vl"))) static void evex(void)
{
    int32_t *table = data.table;
    __m512i got;
    long equal;
    BEGIN;
    __asm__ volatile("mov $0xff00, %%eax\n kmovd %%eax, %%k1\n vmovdqu32 (%2), %0%{%%k1%}%{z%}\n"
                     "mov $0x0ff0, %%rax\n kmovq %%rax, %%k2\n vpcmpeqb 256(%2), %0, %%k3%{%%k2%}\n kmovq %%k3, %1\n"
                     "vpcompressd %0, 512(%2)%{%%k1%}\n vpaddd 4(%2)%{1to16%}, %0, %0%{%%k1%}\n"
                     "kxorq %%k1, %%k1, %%k1\n vmovdqu8 %0, (%2)%{%%k1%}\n vpaddd 4(%2)%{1to16%}, %0, %0%{%%k1%}\n"
                     "vmovdqu32 (%2), %%zmm30"
                     : "=&v"(got), "=&r"(equal)
                     : "r"(table)
                     : "rax", "k1", "k2", "k3", "xmm30", "memory");
    END;
    _mm512_store_si512(out, got);
    printf("%x %lx\n", sum(out, 16), equal);
}

/* The first 41 bytes are the same; a 77 is at 20. The last ones go down. */
static void compare(void)
{
    long count = 60, left, down = 9, none = 0;
    void *a = data.a, *b = data.b;
    data.a[41] = 1, data.a[20] = data.b[20] = 77;
    BEGIN;
    __asm__ volatile("repe cmpsb" : "+D"(a), "+S"(b), "+c"(count) : : "memory", "cc");
    left = count, count = 64, a = data.a;
    __asm__ volatile("repne scasb" : "+D"(a), "+c"(count) : "a"(77) : "memory", "cc");
    __asm__ volatile("repe cmpsb" : "+c"(none), "+D"(a), "+S"(b) : : "memory", "cc");
    left += count * 100, a = data.a + 60, b = data.b + 60;
    __asm__ volatile("std\n repe cmpsl\n cld" : "+D"(a), "+S"(b), "+c"(down) : : "memory", "cc");
    END;
    printf("%ld %ld %d\n", left, down, (int)((uint8_t *)a - data.a));
}

static void others(void)
{
    long bit = 200, low = -70;
    uint64_t *bits = data.bits + 2;
    uint8_t *a = data.a, *state = data.state, got = 0;
    data.a[5] = 0x93;
    BEGIN;
    __asm__ volatile("bts %2, (%3)\n btcl %k4, (%3)\n bt %2, (%3)\n setc %b0\n"
                     "mov %5, %%rbx\n mov $5, %%eax\n xlat\n add %%al, %b0\n"
                     "fxsave (%6)\n fxrstor (%6)\n fnstenv 1024(%6)\n fldenv 1024(%6)\n"
                     : "+q"(got), "+m"(data)
                     : "r"(bit), "r"(bits), "r"(low), "r"(a), "r"(state)
                     : "rax", "rbx", "memory", "cc");
    END;
    printf("%x %llx %llx\n", got, (unsigned long long)bits[3], (unsigned long long)bits[-2]);
}

__attribute__((target("xsave"))) static void state(void)
{
    BEGIN;
    __asm__ volatile("mov $3, %%eax\n xor %%edx, %%edx\n xsave64 (%0)\n xrstor64 (%0)" ::"r"(data.state)
                     : "rax", "rdx", "memory");
    END;
    printf("%d\n", data.state[512]);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
        int needs;
    } all[] = {{"gather", gather, 2},   {"scatter", scatter, 3}, {"masked", masked, 2}, {"evex", evex, 4},
               {"compare", compare, 0}, {"others", others, 0},   {"state", state, 1}};
    unsigned a, b, c, d;
    __cpuid(1, a, b, c, d);
    int have[] = {1, (c >> 27 & 1) != 0, __builtin_cpu_supports("avx2"), __builtin_cpu_supports("avx512f"),
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")};
    for (int i = 0; i < 1024; i++)
        data.table[i] = i * 3;
    for (unsigned k = 0; k < sizeof all / sizeof *all; k++) {
        if (argc > 1 && strcmp(argv[1], all[k].name) != 0)
            continue;
        if (!have[all[k].needs] && argc > 1)
            return 77;
        if (have[all[k].needs])
            all[k].run();
    }
    return 0;
}
