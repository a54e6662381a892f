/* SPDX-License-Identifier: Apache-2.0
 * ranks: an MPI program of which rank r does r + 1 shares of work between barriers. */
#include <mpi.h>
#include <stdio.h>

static __attribute__((noinline)) double work(long turns)
{
    double sum = 0;
    for (long i = 1; i <= turns; i++)
        sum += 1.0 / (double)i;
    return sum;
}

int main(int argc, char **argv)
{
    int rank, count;
    double sum = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    for (int i = 0; i < 10; i++) {
        sum += work((rank + 1) * 5000000L);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks: %.6f\n", count, all);
    MPI_Finalize();
    return 0;
}
