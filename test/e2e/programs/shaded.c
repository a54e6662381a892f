/* SPDX-License-Identifier: Apache-2.0
 *
 * shaded: 32 pages, of each of which one quarter is read over and over: the same one of pages that are 16 apart. In a
 * direct-mapped cache of 16 bins these evict each other where pages are mapped in turn, and need not.
 */
enum { PAGES = 32, PAGE = 4096, QUARTER = 1024, BINS = 16, ROUNDS = 200 };

static _Alignas(4096) volatile unsigned char pages[PAGES][PAGE];

static unsigned sum_of(unsigned page)
{
    volatile unsigned *words = (volatile unsigned *)&pages[page][page % BINS % 4 * QUARTER];
    unsigned sum = 0;
    for (unsigned i = 0; i < QUARTER / sizeof *words; i++)
        sum += words[i];
    return sum;
}

int main(void)
{
    unsigned sum = 0;
    for (unsigned page = 0; page < PAGES; page++)
        pages[page][page % BINS % 4 * QUARTER] = 1;
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned page = 0; page < PAGES; page++)
            sum += sum_of(page);
    return sum != ROUNDS * PAGES;
}
