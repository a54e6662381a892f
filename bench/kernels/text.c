/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of bytes: searching, comparing, parsing, formatting, coding and decoding. */
#include "kernels.h"

KEEP static void find_byte(struct data *d)
{
    size_t e = 0;
    while (e < d->n && d->s[e] != 1) /* never there */
        e++;
    d->result = e;
}

KEEP static void compare_bytes(struct data *d)
{
    size_t e = 0;
    for (const uint8_t *a = d->s, *b = d->s + d->n / 2; e < d->n / 2 && (a[e] ^ b[e]) != 0xff; e++)
        continue;
    d->result = e;
}

KEEP static void upper_case(struct data *d)
{
    const uint8_t *restrict s = d->s;
    uint8_t *restrict t = d->t;
    for (size_t e = 0, n = d->n; e < n; e++)
        t[e] = s[e] >= 'a' && s[e] <= 'z' ? s[e] - 32 : s[e];
}

KEEP static void count_words(struct data *d)
{
    unsigned words = 0, in = 0;
    for (size_t e = 0; e < d->n; e++) {
        unsigned letter = d->s[e] != ' ';
        words += letter & ~in;
        in = letter;
    }
    d->result = words;
}

KEEP static void search(struct data *d)
{
    unsigned found = 0;
    for (size_t e = 0; e + 4 < d->n; e++)
        if (d->s[e] == 'q' && d->s[e + 1] == 'u' && d->s[e + 2] == 'e')
            found++;
    d->result = found;
}

KEEP static void run_lengths(struct data *d)
{
    size_t out = 0;
    for (size_t e = 0; e < 256;) {
        size_t end = e + 1;
        while (end < 256 && d->s[end] / 16 == d->s[e] / 16)
            end++;
        d->t[out++] = d->s[e];
        d->t[out++] = (uint8_t)(end - e);
        e = end;
    }
    d->result = out;
}

KEEP static void match_lengths(struct data *d)
{
    size_t s = 0;
    for (size_t e = 0; e < 64; e++) {
        const uint8_t *a = d->s + e, *b = d->s + 256 + (e ^ 1);
        size_t k = 0;
        while (k < 32 && (a[k] & 0x70) == (b[k] & 0x70))
            k++;
        s += k;
    }
    d->result = s;
}

KEEP static void parse_numbers(struct data *d)
{
    uint64_t s = 0, v = 0;
    for (size_t e = 0; e < 256; e++) {
        unsigned c = d->s[e];
        if ((e & 7) == 7) {
            s += v;
            v = 0;
        } else {
            v = v * 10 + c % 16;
        }
    }
    d->result = s;
}

KEEP static void format_numbers(struct data *d)
{
    uint8_t *out = d->t;
    for (size_t e = 0; e < 32; e++) {
        uint32_t v = (uint32_t)d->i[e] + 100000;
        uint8_t digits[10];
        int k = 0;
        for (; v; v /= 10)
            digits[k++] = (uint8_t)('0' + v % 10);
        while (k)
            *out++ = digits[--k];
    }
    d->result = (uint64_t)(out - d->t);
}

KEEP static void hexadecimal(struct data *d)
{
    static const char digit[] = "0123456789abcdef";
    for (size_t e = 0; e < 256; e++) {
        d->t[2 * e] = (uint8_t)digit[d->s[e] >> 4];
        d->t[2 * e + 1] = (uint8_t)digit[d->s[e] & 15];
    }
}

KEEP static void base_64(struct data *d)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *out = d->t;
    for (size_t e = 0; e + 3 <= 384; e += 3, out += 4) {
        uint32_t v = (uint32_t)d->s[e] << 16 | (uint32_t)d->s[e + 1] << 8 | d->s[e + 2];
        out[0] = (uint8_t)digit[v >> 18];
        out[1] = (uint8_t)digit[v >> 12 & 63];
        out[2] = (uint8_t)digit[v >> 6 & 63];
        out[3] = (uint8_t)digit[v & 63];
    }
}

KEEP static void utf_8(struct data *d)
{
    unsigned code_points = 0, wide = 0;
    for (size_t e = 0; e < d->n;) {
        unsigned c = d->s[e];
        unsigned len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        wide += len > 1;
        code_points++;
        e += len;
    }
    d->result = code_points + wide;
}

KEEP static void state_machine(struct data *d) /* a table of states by classes of letters */
{
    static const uint8_t next[4][4] = {{1, 2, 0, 3}, {1, 1, 2, 0}, {0, 3, 2, 1}, {3, 0, 1, 2}};
    unsigned state = 0, accepted = 0;
    for (size_t e = 0; e < d->n; e++) {
        state = next[state][d->s[e] & 3];
        accepted += state == 2;
    }
    d->result = accepted;
}

KEEP static void swap_ends(struct data *d)
{
    for (size_t a = 0, b = d->n - 1; a < b; a++, b--) {
        uint8_t c = d->t[a];
        d->t[a] = d->t[b];
        d->t[b] = c;
    }
}

const struct kernel text_kernels[] = {
    {"find-byte", "strings", find_byte, LARGE},
    {"compare-bytes", "strings", compare_bytes, LARGE},
    {"upper-case", "strings", upper_case, LARGE},
    {"count-words", "strings", count_words, LARGE},
    {"search", "strings", search, LARGE},
    {"run-lengths", "strings", run_lengths, 0},
    {"match-lengths", "strings", match_lengths, 0},
    {"parse-numbers", "strings", parse_numbers, 0},
    {"format-numbers", "strings", format_numbers, 0},
    {"hexadecimal", "strings", hexadecimal, 0},
    {"base-64", "strings", base_64, 0},
    {"utf-8", "strings", utf_8, LARGE},
    {"state-machine", "dispatch", state_machine, LARGE | COMPUTE},
    {"swap-ends", "strings", swap_ends, LARGE},
    {0},
};
