/* SPDX-License-Identifier: Apache-2.0
 *
 * records [RECORDS REPEATS]: sums one field of records of 128 bytes, which is all that is read of each line. In the
 * fixed form that field has an array of its own. The additions are the same.
 */
#include "example.h"

struct particle {
#ifndef FIXED
    double mass;
    double position[3], velocity[3], force[3], spin[3], charge, age, energy;
#else
    double position[3], velocity[3], force[3], spin[3], charge, age, energy, spare;
#endif
};

#ifdef FIXED
KERNEL static double sum(const double *mass, long n)
{
    double s = 0;
    for (long i = 0; i < n; i++) /* HOT */
        s += mass[i];
    return s;
}
#else
KERNEL static double sum(const struct particle *p, long n)
{
    double s = 0;
    for (long i = 0; i < n; i++) /* HOT */
        s += p[i].mass;
    return s;
}
#endif

int main(int argc, char **argv)
{
    long n = example_arg(argc, argv, 1, 400000), repeats = example_arg(argc, argv, 2, 1500);
    struct particle *p = example_alloc((size_t)n, sizeof *p);
    double s = 0;
#ifdef FIXED
    double *mass = example_alloc((size_t)n, sizeof *mass);
    for (long i = 0; i < n; i++)
        mass[i] = (double)(i % 1000) + p[i].age;
    double start = example_seconds();
    for (long r = 0; r < repeats; r++)
        s += sum(mass, n);
#else
    for (long i = 0; i < n; i++)
        p[i].mass = (double)(i % 1000) + p[i].age;
    double start = example_seconds();
    for (long r = 0; r < repeats; r++)
        s += sum(p, n);
#endif
    return example_end(s, (double)n * (double)repeats, example_seconds() - start);
}
