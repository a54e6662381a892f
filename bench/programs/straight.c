/* SPDX-License-Identifier: Apache-2.0
 * straight [TIMES]: a procedure of some two hundred lines without any loop, called for each of many records, as in the
 * paper's fpppp: it has to be cut into pieces. Prints one value. */
#include <stdio.h>
#include <stdlib.h>

enum { RECORDS = 4000, FIELDS = 64 };
static double table[RECORDS][FIELDS];

__attribute__((noinline)) static double record(double *r, const double *other)
{
    double s = 0, p = 1;
    r[0] = r[5] * 0.5 + other[11];
    s += r[7] * other[18];
    p = p * 0.999 + r[5] * other[14];
    r[21] = r[44] * 0.5 + other[34];
    if (r[28] > other[57])
        s += r[63];
    p = p * 0.999 + r[28] * other[35];
    r[42] = r[19] * 0.5 + other[57];
    s += r[49] * other[32];
    p = p * 0.999 + r[51] * other[56];
    r[63] = r[58] * 0.5 + other[16];
    s += r[6] * other[7];
    p = p * 0.999 + r[10] * other[13];
    r[20] = r[33] * 0.5 + other[39];
    if (r[27] > other[46])
        s += r[4];
    p = p * 0.999 + r[33] * other[34];
    r[41] = r[8] * 0.5 + other[62];
    s += r[48] * other[21];
    p = p * 0.999 + r[56] * other[55];
    r[62] = r[47] * 0.5 + other[21];
    s += r[5] * other[60];
    p = p * 0.999 + r[15] * other[12];
    r[19] = r[22] * 0.5 + other[44];
    if (r[26] > other[35])
        s += r[9];
    p = p * 0.999 + r[38] * other[33];
    r[40] = r[61] * 0.5 + other[3];
    s += r[47] * other[10];
    p = p * 0.999 + r[61] * other[54];
    r[61] = r[36] * 0.5 + other[26];
    s += r[4] * other[49];
    p = p * 0.999 + r[20] * other[11];
    r[18] = r[11] * 0.5 + other[49];
    if (r[25] > other[24])
        s += r[14];
    p = p * 0.999 + r[43] * other[32];
    r[39] = r[50] * 0.5 + other[8];
    s += r[46] * other[63];
    p = p * 0.999 + r[2] * other[53];
    r[60] = r[25] * 0.5 + other[31];
    s += r[3] * other[38];
    p = p * 0.999 + r[25] * other[10];
    r[17] = r[0] * 0.5 + other[54];
    if (r[24] > other[13])
        s += r[19];
    p = p * 0.999 + r[48] * other[31];
    r[38] = r[39] * 0.5 + other[13];
    s += r[45] * other[52];
    p = p * 0.999 + r[7] * other[52];
    r[59] = r[14] * 0.5 + other[36];
    s += r[2] * other[27];
    p = p * 0.999 + r[30] * other[9];
    r[16] = r[53] * 0.5 + other[59];
    if (r[23] > other[2])
        s += r[24];
    p = p * 0.999 + r[53] * other[30];
    r[37] = r[28] * 0.5 + other[18];
    s += r[44] * other[41];
    p = p * 0.999 + r[12] * other[51];
    r[58] = r[3] * 0.5 + other[41];
    s += r[1] * other[16];
    p = p * 0.999 + r[35] * other[8];
    r[15] = r[42] * 0.5 + other[0];
    if (r[22] > other[55])
        s += r[29];
    p = p * 0.999 + r[58] * other[29];
    r[36] = r[17] * 0.5 + other[23];
    s += r[43] * other[30];
    p = p * 0.999 + r[17] * other[50];
    r[57] = r[56] * 0.5 + other[46];
    s += r[0] * other[5];
    p = p * 0.999 + r[40] * other[7];
    r[14] = r[31] * 0.5 + other[5];
    if (r[21] > other[44])
        s += r[34];
    p = p * 0.999 + r[63] * other[28];
    r[35] = r[6] * 0.5 + other[28];
    s += r[42] * other[19];
    p = p * 0.999 + r[22] * other[49];
    r[56] = r[45] * 0.5 + other[51];
    s += r[63] * other[58];
    p = p * 0.999 + r[45] * other[6];
    r[13] = r[20] * 0.5 + other[10];
    if (r[20] > other[33])
        s += r[39];
    p = p * 0.999 + r[4] * other[27];
    r[34] = r[59] * 0.5 + other[33];
    s += r[41] * other[8];
    p = p * 0.999 + r[27] * other[48];
    r[55] = r[34] * 0.5 + other[56];
    s += r[62] * other[47];
    p = p * 0.999 + r[50] * other[5];
    r[12] = r[9] * 0.5 + other[15];
    if (r[19] > other[22])
        s += r[44];
    p = p * 0.999 + r[9] * other[26];
    r[33] = r[48] * 0.5 + other[38];
    s += r[40] * other[61];
    p = p * 0.999 + r[32] * other[47];
    r[54] = r[23] * 0.5 + other[61];
    s += r[61] * other[36];
    p = p * 0.999 + r[55] * other[4];
    r[11] = r[62] * 0.5 + other[20];
    if (r[18] > other[11])
        s += r[49];
    p = p * 0.999 + r[14] * other[25];
    r[32] = r[37] * 0.5 + other[43];
    s += r[39] * other[50];
    p = p * 0.999 + r[37] * other[46];
    r[53] = r[12] * 0.5 + other[2];
    s += r[60] * other[25];
    p = p * 0.999 + r[60] * other[3];
    r[10] = r[51] * 0.5 + other[25];
    if (r[17] > other[0])
        s += r[54];
    p = p * 0.999 + r[19] * other[24];
    r[31] = r[26] * 0.5 + other[48];
    s += r[38] * other[39];
    p = p * 0.999 + r[42] * other[45];
    r[52] = r[1] * 0.5 + other[7];
    s += r[59] * other[14];
    p = p * 0.999 + r[1] * other[2];
    r[9] = r[40] * 0.5 + other[30];
    if (r[16] > other[53])
        s += r[59];
    p = p * 0.999 + r[24] * other[23];
    r[30] = r[15] * 0.5 + other[53];
    s += r[37] * other[28];
    p = p * 0.999 + r[47] * other[44];
    r[51] = r[54] * 0.5 + other[12];
    s += r[58] * other[3];
    p = p * 0.999 + r[6] * other[1];
    r[8] = r[29] * 0.5 + other[35];
    if (r[15] > other[42])
        s += r[0];
    p = p * 0.999 + r[29] * other[22];
    r[29] = r[4] * 0.5 + other[58];
    s += r[36] * other[17];
    p = p * 0.999 + r[52] * other[43];
    r[50] = r[43] * 0.5 + other[17];
    s += r[57] * other[56];
    p = p * 0.999 + r[11] * other[0];
    r[7] = r[18] * 0.5 + other[40];
    if (r[14] > other[31])
        s += r[5];
    p = p * 0.999 + r[34] * other[21];
    r[28] = r[57] * 0.5 + other[63];
    s += r[35] * other[6];
    p = p * 0.999 + r[57] * other[42];
    r[49] = r[32] * 0.5 + other[22];
    s += r[56] * other[45];
    p = p * 0.999 + r[16] * other[63];
    r[6] = r[7] * 0.5 + other[45];
    if (r[13] > other[20])
        s += r[10];
    p = p * 0.999 + r[39] * other[20];
    r[27] = r[46] * 0.5 + other[4];
    s += r[34] * other[59];
    p = p * 0.999 + r[62] * other[41];
    r[48] = r[21] * 0.5 + other[27];
    s += r[55] * other[34];
    p = p * 0.999 + r[21] * other[62];
    r[5] = r[60] * 0.5 + other[50];
    if (r[12] > other[9])
        s += r[15];
    p = p * 0.999 + r[44] * other[19];
    r[26] = r[35] * 0.5 + other[9];
    s += r[33] * other[48];
    p = p * 0.999 + r[3] * other[40];
    r[47] = r[10] * 0.5 + other[32];
    s += r[54] * other[23];
    p = p * 0.999 + r[26] * other[61];
    r[4] = r[49] * 0.5 + other[55];
    if (r[11] > other[62])
        s += r[20];
    p = p * 0.999 + r[49] * other[18];
    r[25] = r[24] * 0.5 + other[14];
    s += r[32] * other[37];
    p = p * 0.999 + r[8] * other[39];
    r[46] = r[63] * 0.5 + other[37];
    s += r[53] * other[12];
    p = p * 0.999 + r[31] * other[60];
    r[3] = r[38] * 0.5 + other[60];
    if (r[10] > other[51])
        s += r[25];
    p = p * 0.999 + r[54] * other[17];
    r[24] = r[13] * 0.5 + other[19];
    s += r[31] * other[26];
    p = p * 0.999 + r[13] * other[38];
    r[45] = r[52] * 0.5 + other[42];
    s += r[52] * other[1];
    p = p * 0.999 + r[36] * other[59];
    r[2] = r[27] * 0.5 + other[1];
    if (r[9] > other[40])
        s += r[30];
    p = p * 0.999 + r[59] * other[16];
    r[23] = r[2] * 0.5 + other[24];
    s += r[30] * other[15];
    p = p * 0.999 + r[18] * other[37];
    return s + p;
}

int main(int argc, char **argv)
{
    int times = argc > 1 ? atoi(argv[1]) : 400;
    double sum = 0;
    for (int i = 0; i < RECORDS; i++)
        for (int k = 0; k < FIELDS; k++)
            table[i][k] = (i * 31 + k * 17) % 101 / 101.0;
    for (int t = 0; t < times; t++)
        for (int i = 0; i < RECORDS; i++)
            sum = sum * 0.9 + record(table[i], table[(i * 7919) % RECORDS]) * 1e-6;
    printf("%g\n", sum);
    return 0;
}
