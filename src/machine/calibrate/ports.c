/* SPDX-License-Identifier: Apache-2.0
 *
 * Units from timings: each family of operations runs on some set of ports; how many follows from its interval alone,
 * which ones it shares with another family follows from the time of both mixed. The sets that explain all timings best
 * are searched: families are placed one after the other, then moved one at a time while that helps, from several
 * orders. Ports that no timing tells apart from others come out alike, which is all that a model needs. */
#include "machine/calibrate/calib.h"

#include <math.h>

enum { ORDERS = 24, ROUNDS = 12 };

struct search {
    struct port_family *f;
    size_t n;
    const struct port_mix *mix;
    size_t mixes;
    double width;
    bool apart; /* general and vector operations share no port */
    uint32_t ports[CALIB_BASIS_MAX];
    bool placed[CALIB_BASIS_MAX];
};

static unsigned count_of(uint32_t ports) { return (unsigned)__builtin_popcount(ports); }

/* Time of a round by the sets: the most crowded of the two sets and their union, or the width. */
static double predicted(const struct search *s, const struct port_mix *m)
{
    double both = (m->a + m->b) / (double)count_of(s->ports[m->i] | s->ports[m->j]);
    double isolated = fmax(m->a / (double)count_of(s->ports[m->i]), m->b / (double)count_of(s->ports[m->j]));
    return fmax(fmax(both, isolated), (m->a + m->b) / s->width);
}

double ports_predict(const struct port_family *families, const struct port_mix *m, double width)
{
    struct search s = {.width = width};
    s.ports[m->i] = families[m->i].ports;
    s.ports[m->j] = families[m->j].ports;
    return predicted(&s, m);
}

static double misfit_of_mix(const struct search *s, const struct port_mix *m)
{
    double d = log(predicted(s, m) / m->cycles);
    return d * d;
}

/* A chained one may be slower than its ports. */
static double misfit_isolated(const struct search *s, size_t i)
{
    double off = log(1.0 / count_of(s->ports[i]) / s->f[i].interval);
    return off * off * (s->f[i].is_chained && off < 0 ? 0.2 : 4);
}

/* Ports that family i must not use. */
static uint32_t others_ports(const struct search *s, size_t i)
{
    uint32_t ports = 0;
    enum port_file mine = s->f[i].file;
    for (size_t k = 0; s->apart && mine != PORT_FILE_ANY && k < s->n; k++)
        if (k != i && s->placed[k] && s->f[k].file != PORT_FILE_ANY && s->f[k].file != mine)
            ports |= s->ports[k];
    return ports;
}

/* Deviations of the timings that family i takes part in; a touch more for each port, so that fewer win a tie. */
static double misfit_of(const struct search *s, size_t i)
{
    double sum = misfit_isolated(s, i);
    for (size_t k = 0; k < s->mixes; k++) {
        const struct port_mix *m = &s->mix[k];
        if ((m->i == i || m->j == i) && s->placed[m->i] && s->placed[m->j])
            sum += misfit_of_mix(s, m);
    }
    return sum;
}

static uint32_t all_used(const struct search *s)
{
    uint32_t used = 0;
    for (size_t i = 0; i < s->n; i++)
        used |= s->placed[i] ? s->ports[i] : 0;
    return used;
}

/* The best set for family i among all of about the right size that use at most one run of new ports. */
static void place(struct search *s, size_t i)
{
    s->placed[i] = false;
    uint32_t used = all_used(s), old = s->ports[i];
    unsigned known = used ? 32 - (unsigned)__builtin_clz(used) : 0;
    double size = 1 / s->f[i].interval;
    double best = INFINITY, more = s->f[i].is_chained ? 1.3 : 0.75;
    uint32_t best_ports = old, closed = others_ports(s, i);
    s->placed[i] = true;
    for (uint32_t p = 1; p < 1u << CALIB_PORT_MAX; p++) {
        uint32_t fresh = p >> known; /* new ports only in order: 1, 11, 111 */
        if (fresh & (fresh + 1) || count_of(p) > size + more || count_of(p) < size - 0.75 || p & closed)
            continue;
        s->ports[i] = p;
        double m = misfit_of(s, i) + 1e-4 * count_of(p & ~used) + 1e-7 * (p != old);
        if (m < best) {
            best = m;
            best_ports = p;
        }
    }
    s->ports[i] = best_ports;
}

static double total_misfit(const struct search *s)
{
    double sum = 0;
    for (size_t k = 0; k < s->mixes; k++)
        sum += misfit_of_mix(s, &s->mix[k]);
    for (size_t i = 0; i < s->n; i++)
        sum += misfit_isolated(s, i);
    return sum + 1e-4 * count_of(all_used(s));
}

static void shuffle(size_t *order, size_t n, uint32_t seed)
{
    for (size_t i = n; i > 1; i--) {
        seed = seed * 1664525u + 1013904223u;
        size_t k = (seed >> 8) % i, t = order[i - 1];
        order[i - 1] = order[k];
        order[k] = t;
    }
}

static double one_order(struct search *s, uint32_t seed)
{
    size_t order[CALIB_BASIS_MAX], n = s->n;
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
        s->placed[i] = false;
        s->ports[i] = 0;
    }
    shuffle(order, n, seed);
    for (size_t i = 0; i < n; i++)
        place(s, order[i]);
    double before = INFINITY, now = total_misfit(s);
    for (int r = 0; r < ROUNDS && now < before - 1e-9; r++) {
        before = now;
        for (size_t i = 0; i < n; i++)
            place(s, order[i]);
        now = total_misfit(s);
    }
    return now;
}

static double mean_deviation(const struct search *s)
{
    double sum = 0;
    for (size_t k = 0; k < s->mixes; k++)
        sum += fabs(predicted(s, &s->mix[k]) / s->mix[k].cycles - 1);
    return s->mixes ? sum / (double)s->mixes : 0;
}

/* Ports renumbered without gaps. */
static unsigned compact(struct port_family *f, size_t n)
{
    uint32_t used = 0;
    unsigned number[32], count = 0;
    for (size_t i = 0; i < n; i++)
        used |= f[i].ports;
    for (unsigned p = 0; p < 32; p++)
        number[p] = used >> p & 1 ? count++ : 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t ports = 0;
        for (unsigned p = 0; p < 32; p++)
            if (f[i].ports >> p & 1)
                ports |= 1u << number[p];
        f[i].ports = ports;
    }
    return count;
}

/* A comparison and its jump: two slots where they do not fuse. */
static bool is_pair(const struct port_family *f) { return strcmp(f->form, "jcc i") == 0; }

/* Does some mix of a general and a vector operation take longer than each alone and the width explain? One may be a
 * slip; and operations that keep the same share of the time are told by several. Two mixes, or one in twenty, may lose
 * by chance. */
static bool files_meet(const struct search *s)
{
    unsigned seen = 0, lost = 0;
    for (size_t k = 0; k < s->mixes; k++) {
        const struct port_mix *m = &s->mix[k];
        const struct port_family *f = &s->f[m->i], *g = &s->f[m->j];
        if (f->file == PORT_FILE_ANY || g->file == PORT_FILE_ANY || f->file == g->file || is_pair(f) || is_pair(g))
            continue;
        double allowed = fmax(fmax(m->a * f->interval, m->b * g->interval), (m->a + m->b) / s->width);
        if (m->cycles > allowed * 1.15 + 0.05)
            diag_debug(2, "%u %s and %u %s take %.2f, not %.2f", m->a, f->form, m->b, g->form, m->cycles, allowed);
        seen++;
        lost += m->cycles > allowed * 1.15 + 0.05;
    }
    return !seen || lost > fmax(2, 0.05 * seen);
}

unsigned ports_solve(struct port_family *families, size_t family_count, const struct port_mix *mixes, size_t mix_count,
                     double width, double *misfit)
{
    struct search s = {.f = families, .n = family_count, .mix = mixes, .mixes = mix_count, .width = width};
    double best = INFINITY;
    s.apart = !files_meet(&s);
    for (uint32_t o = 0; o < ORDERS; o++) {
        double m = one_order(&s, o * 7919 + 1);
        if (m >= best - 1e-9)
            continue;
        best = m;
        for (size_t i = 0; i < family_count; i++)
            families[i].ports = s.ports[i];
        *misfit = mean_deviation(&s);
    }
    return compact(families, family_count);
}
