/* SPDX-License-Identifier: Apache-2.0
 *
 * mp3d [PARTICLES SIDE SWEEPS]: particles fly through a box of SIDE x SIDE x SIDE cells; each sweep moves every
 * particle and adds it to the cell that it is in (the heart of MP3D, a wind-tunnel code of the SPLASH suite).
 * Neighbours in the list of particles are nowhere near each other in the box, so nearly every cell is a miss. Fixed:
 * the particles are sorted by cell now and then.
 */
#include "example.h"

struct particle {
    float x, y, z, u, v, w; /* place in cells, speed in cells a sweep: never negative, the wind blows one way */
};
struct cell {
    uint32_t count, visits;
    float momentum, energy;
};

static inline float wrapped(float x, float side) { return x >= side ? x - side : x; }

static inline long cell_of(const struct particle *p, long side)
{
    return ((long)p->z * side + (long)p->y) * side + (long)p->x;
}

KERNEL static void move(struct particle *particles, long n, struct cell *cells, long side)
{
    float end = (float)side;
    for (struct particle *p = particles; p < particles + n; p++) { /* HOT */
        p->x = wrapped(p->x + p->u, end);
        p->y = wrapped(p->y + p->v, end);
        p->z = wrapped(p->z + p->w, end);
        struct cell *c = &cells[cell_of(p, side)];
        c->visits++;
        c->momentum += p->u;
        c->energy += p->u * p->u + p->v * p->v + p->w * p->w;
    }
}

#ifdef FIXED
/* Counting sort; cells[].count is its scratch. */
KERNEL static void sort_by_cell(struct particle **particles, struct particle **spare, long n, struct cell *cells,
                                long side)
{
    uint32_t place = 0;
    for (long c = 0; c < side * side * side; c++)
        cells[c].count = 0;
    for (long i = 0; i < n; i++)
        cells[cell_of(&(*particles)[i], side)].count++;
    for (long c = 0; c < side * side * side; c++) {
        uint32_t here = cells[c].count;
        cells[c].count = place;
        place += here;
    }
    for (long i = 0; i < n; i++)
        (*spare)[cells[cell_of(&(*particles)[i], side)].count++] = (*particles)[i];
    struct particle *keep = *particles;
    *particles = *spare;
    *spare = keep;
}
#endif

static float fraction(void) { return (float)(example_random() >> 40) * 0x1p-24f; }

int main(int argc, char **argv)
{
    long n = example_arg(argc, argv, 1, 1500000), side = example_arg(argc, argv, 2, 128);
    long sweeps = example_arg(argc, argv, 3, 30);
    struct particle *particles = example_alloc((size_t)n, sizeof *particles);
    struct cell *cells = example_alloc((size_t)(side * side * side), sizeof *cells);
    for (long i = 0; i < n; i++)
        particles[i] = (struct particle){fraction() * (float)side, fraction() * (float)side, fraction() * (float)side,
                                         fraction() * 0.2f,        fraction() * 0.01f,       fraction() * 0.01f};
#ifdef FIXED
    struct particle *spare = example_alloc((size_t)n, sizeof *spare);
#endif

    double start = example_seconds();
    for (long s = 0; s < sweeps; s++) {
#ifdef FIXED
        if (s % 10 == 0)
            sort_by_cell(&particles, &spare, n, cells, side);
#endif
        move(particles, n, cells, side);
    }
    double seconds = example_seconds() - start, sum = 0;
    for (long c = 0; c < side * side * side; c++)
        sum += (double)cells[c].visits * (double)(c % 1021);
    return example_end(sum, (double)n * (double)sweeps, seconds);
}
