/* SPDX-License-Identifier: Apache-2.0
 *
 * Timed forms to units and classes. A basis of simple operations is mixed pair by pair, which tells the ports
 * (ports.c); every other form is then mixed with operations that keep one set of ports full: what it adds to their time
 * is the number of its operations that run on these ports only. Forms that come out alike share a class. */
#include "machine/calibrate/calib.h"

#include <math.h>
#include <stdlib.h>

/* Operations of one slot and one unit, on as many different units as possible; the second where the first is missing.
 */
static const char *const basis_forms[][2] = {
    {"add r64,r64", NULL},
    {"lea r64,b+d", NULL},
    {"shl r64,i", NULL},
    {"imul r64,r64", NULL},
    {"cmovcc r64,r64", NULL},
    {"popcnt r64,r64", NULL},
    {"bt r64,r64", NULL},
    {"pdep r64,r64,r64", NULL},
    {"andn r64,r64,r64", NULL},
    {"jcc i", NULL},
    {"vpaddd x,x,x", "paddd x,x"},
    {"vpand x,x,x", "pand x,x"},
    {"vpcmpeqd x,x,x", "pcmpeqd x,x"},
    {"vpmullw x,x,x", "pmullw x,x"},
    {"vpslld x,x,i", "pslld x,i"},
    {"vpshufd x,x,i", "pshufd x,x,i"},
    {"vpunpckldq x,x,x", "punpckldq x,x"},
    {"vaddpd x,x,x", "addpd x,x"},
    {"vmulpd x,x,x", "mulpd x,x"},
    {"vfmadd231pd x,x,x", NULL},
    {"movd r32,x", NULL},
    {"movd x,r32", NULL},
    {"vaesenc x,x,x", "aesenc x,x"},
    {"vcvtdq2ps x,x", "cvtdq2ps x,x"},
    {"vpermd y,y,y", NULL},
    {"vblendps x,x,x,i", "blendps x,x,i"},
    {"vpaddd z,z,z", NULL},
    {"vaddpd z,z,z", NULL},
    {"vpshufd z,z,i", NULL},
    {"vpsrlq z,z,i", NULL},
};

enum { SETS_MAX = 24, MEASUREMENTS_A_FORM = 16 };

struct blockers { /* the distinct sets of ports, smallest first, each with a form that fills it */
    const char *form[SETS_MAX];
    uint32_t ports[SETS_MAX];
    size_t count;
};

/* Times come out a touch low or high: whole numbers are taken where they are near. */
static double tidy(double cycles)
{
    double whole = round(cycles);
    if (whole >= 1 && fabs(cycles - whole) < 0.03 * whole + 0.04)
        return whole;
    return round(cycles * 20) / 20;
}

/* ---- the basis ---- */

static enum port_file file_of(const struct x86_form *f)
{
    return f->vec_bits && f->has_gpr ? PORT_FILE_ANY : f->vec_bits ? PORT_FILE_VECTOR : PORT_FILE_GENERAL;
}

/* Wide and narrow vectors are not mixed: some cores close units to narrow ones while wide ones are about. */
static bool is_wide(const struct x86_form *f) { return f->vec_bits == 512; }
static bool is_vector(const struct x86_form *f) { return f->vec_bits != 0; }

static struct x86_form parse(const char *form)
{
    struct x86_form f;
    x86_form_parse(form, &f);
    return f;
}

/* Assumes one slot and one unit each; a form that takes more here is left out. */
static size_t take_basis(struct calib *k, struct port_family *f)
{
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(basis_forms) && n < CALIB_BASIS_MAX; i++) {
        struct x86_form form = parse(basis_forms[i][0]);
        if (is_wide(&form) && !lab_has_vectors(k->lab, 512))
            continue;
        const struct timed_form *t = timing_of(k, basis_forms[i][0]);
        if (!t && basis_forms[i][1])
            t = timing_of(k, basis_forms[i][1]);
        if (t && t->slots < 1.4 && t->interval < 1.3)
            f[n++] = (struct port_family){t->form, t->interval, 0, file_of(&t->parsed), timing_is_chained(t)};
    }
    return n;
}

static bool is_basis_form(const char *form)
{
    for (size_t i = 0; i < ARRAY_LEN(basis_forms); i++)
        if (!strcmp(basis_forms[i][0], form) || (basis_forms[i][1] && !strcmp(basis_forms[i][1], form)))
            return true;
    return false;
}

static bool may_mix(const char *f, const char *g)
{
    struct x86_form a = parse(f), b = parse(g);
    return !is_vector(&a) || !is_vector(&b) || is_wide(&a) == is_wide(&b);
}

/* Assumes that the width has room for both beside their units: ports.c allows no rate above it. Each in the number that
 * fills its own units for a cycle, so that what is shared shows. */
static size_t mix_basis(struct calib *k, const struct port_family *f, size_t n, struct port_mix *mix)
{
    size_t count = 0;
    for (unsigned i = 0; i < n; i++) {
        diag_progress("mixing instructions", i, n);
        for (unsigned j = i + 1; j < n; j++) {
            if (!may_mix(f[i].form, f[j].form))
                continue;
            unsigned a = (unsigned)(1 / f[i].interval + 0.4), b = (unsigned)(1 / f[j].interval + 0.4);
            double cycles = timing_mix(k, f[i].form, a, f[j].form, b);
            if (cycles > 0)
                mix[count++] = (struct port_mix){i, j, a, b, cycles};
        }
    }
    return count;
}

/* Operations that no chain holds up and that still do not fill their units got them before it was known which would be
 * free. The self-test has the last word. */
static bool is_bound_at_dispatch(const struct port_family *f, size_t n)
{
    unsigned seen = 0, lost = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned ports = (unsigned)__builtin_popcount(f[i].ports);
        seen += ports > 1 && !f[i].is_chained;
        lost += ports > 1 && !f[i].is_chained && f[i].interval * ports > 1.06;
    }
    return lost > 0.1 * seen;
}

static void add_units(struct calib *k, const struct port_family *f, size_t n, unsigned ports)
{
    struct machine *m = k->m;
    m->bind_at_dispatch = is_bound_at_dispatch(f, n);
    machine_add_queue(m, "common", 97);
    for (unsigned p = 0; p < ports; p++) {
        char name[16];
        snprintf(name, sizeof name, "p%u", p);
        uint32_t unit = machine_add_unit(m, name, 1, 1);
        m->units[unit].queue = 0; /* the array may have moved: not in one expression */
    }
    for (size_t i = 0; i < n; i++) {
        char name[MACHINE_NAME_LEN];
        size_t len = strcspn(f[i].form, " ");
        snprintf(name, sizeof name, "on-%.*s", (int)len, f[i].form);
        bool known = false;
        for (size_t g = 0; g < m->group_count; g++)
            known = known || m->groups[g].ports == f[i].ports;
        if (!known && (f[i].ports & (f[i].ports - 1)))
            machine_add_group(m, name, f[i].ports);
    }
}

static int by_size(const void *a, const void *b)
{
    const struct port_family *x = a, *y = b;
    int d = __builtin_popcount(x->ports) - __builtin_popcount(y->ports);
    return d ? d : (x->ports > y->ports) - (x->ports < y->ports);
}

/* One family for each set that leaves some width to the form it is mixed with, and that fills it: one that waits for
 * itself does not. */
static void choose_blockers(struct calib *k, const struct port_family *f, size_t n, bool wide, struct blockers *b)
{
    static const double CHAINED = 0.75; /* of what chains allow */
    b->count = 0;
    for (size_t i = 0; i < n && b->count < SETS_MAX; i++) {
        const struct timed_form *t = timing_of(k, f[i].form);
        if (!f[i].ports || __builtin_popcount(f[i].ports) + 0.5 > k->width || strcmp(f[i].form, "jcc i") == 0 ||
            (t && timing_chained(t) > CHAINED))
            continue;
        struct x86_form form = parse(f[i].form);
        if (is_vector(&form) && is_wide(&form) != wide)
            continue;
        if (b->count && b->ports[b->count - 1] == f[i].ports)
            continue;
        b->form[b->count] = f[i].form;
        b->ports[b->count++] = f[i].ports;
    }
}

/* ---- the operations of a form ---- */

/* How many operations of the form run only on this set of ports; negative: unknown. Assumes that the blockers
 * alone fill the set all the time: so many go beside one form that its own interval and slots leave them the bound;
 * more than its interval has room for is not believed (most_on). */
static double pressure(struct calib *k, const struct timed_form *t, const char *blocker, uint32_t ports)
{
    unsigned n = (unsigned)__builtin_popcount(ports);
    double room = fmax(k->width - n, 0.5), slots = t->slots > 0 ? t->slots : 4;
    unsigned span = (unsigned)ceil(fmax(t->interval + 1, slots / room * 1.3 + 2));
    if (span > 60)
        return -1;
    double cycles = timing_mix(k, t->form, 1, blocker, span * n);
    return cycles < 0 ? -1 : cycles * n - span * n;
}

static bool is_flags(unsigned reg) { return reg == X86_REG_FLAGS_ZAPS || reg == X86_REG_FLAGS_C; }

/* What reads flags that it writes (adc) waits for itself, not for units: copies of it follow each other by its latency.
 * What only reads them (cmov, setcc) does not. */
static bool chains_by_flags(const struct timed_form *t)
{
    static const double NEAR = 0.1;
    struct x86_detail d = detail_of_form(&t->parsed);
    bool both = false;
    for (unsigned i = 0; i < d.read_count; i++)
        both = both || (is_flags(d.reads[i]) && memchr(d.writes, d.reads[i], d.write_count));
    return both && fabs(t->interval - t->latency) < NEAR * t->latency;
}

/* So many operations fit into its own interval on that set. Alone a form is never faster than its units, so all that is
 * allowed for is how well an interval is told: what comes five in a cycle is on no four units, however hard four feel
 * it. The interval of one that waits for itself tells nothing, but it has no more operations than slots. */
static unsigned most_on(const struct timed_form *t, uint32_t ports)
{
    static const double TOLD = 0.05;
    double room = t->interval * __builtin_popcount(ports) * (1 + TOLD) + TOLD;
    return (unsigned)(chains_by_flags(t) ? fmin(room, fmax(1, round(t->slots))) : room);
}

/* What each set of ports feels of a form; negative: not known yet. */
struct felt {
    double by[SETS_MAX];
};

static double feel(struct calib *k, struct timed_form *t, const struct blockers *b, size_t i, struct felt *felt)
{
    if (felt->by[i] < 0)
        felt->by[i] = fmin(pressure(k, t, b->form[i], b->ports[i]), most_on(t, b->ports[i]));
    return felt->by[i];
}

/* Most of an operation is felt by a set that it only often goes to, where units are chosen at dispatch: a wider one
 * then feels more. */
static bool is_felt_wider(struct calib *k, struct timed_form *t, const struct blockers *b, size_t i, struct felt *felt)
{
    for (size_t j = i + 1; j < b->count; j++)
        if (!(b->ports[i] & ~b->ports[j]) && feel(k, t, b, j, felt) > felt->by[i] + 0.1)
            return true;
    return false;
}

/* Of sets of one size that share ports the one counts that it presses hardest. */
static bool is_hardest(struct calib *k, struct timed_form *t, const struct blockers *b, size_t i, struct felt *felt)
{
    size_t hardest = i;
    for (size_t j = i; j < b->count && __builtin_popcount(b->ports[j]) == __builtin_popcount(b->ports[i]); j++) {
        bool meets = j == i || b->ports[j] & b->ports[i];
        hardest = feel(k, t, b, j, felt) > felt->by[hardest] + 0.1 && meets ? j : hardest;
    }
    return hardest == i;
}

/* A form has no more operations than slots; smaller sets are tried first, so that each finds its narrowest. */
static void find_parts(struct calib *k, struct timed_form *t, const struct blockers *b)
{
    static const double FELT = 0.7, SURELY = 0.9;
    unsigned max = (unsigned)fmin(MACHINE_USE_MAX, fmax(1, round(t->slots)));
    struct felt felt;
    k->unsure = false;
    t->part_count = 0;
    for (size_t i = 0; i < b->count; i++)
        felt.by[i] = -1;
    for (size_t i = 0; i < b->count && t->part_count < max; i++) {
        if (!is_hardest(k, t, b, i, &felt))
            continue;
        double known = 0;
        for (unsigned q = 0; q < t->part_count; q++)
            known += (t->ports[q] & ~b->ports[i]) == 0;
        for (double more = felt.by[i] - known; more > FELT && t->part_count < max; more--)
            if (more > SURELY || !is_felt_wider(k, t, b, i, &felt))
                t->ports[t->part_count++] = b->ports[i];
    }
    t->unsure = t->unsure || k->unsure;
}

/* Interval that the operations of a form allow: the most crowded set of ports. */
static double ports_interval(const struct timed_form *t, unsigned ports)
{
    double worst = 0;
    for (uint32_t set = 1; set < 1u << ports; set++) {
        unsigned inside = 0;
        for (unsigned q = 0; q < t->part_count; q++)
            inside += (t->ports[q] & ~set) == 0;
        worst = fmax(worst, inside / (double)__builtin_popcount(set));
    }
    return worst;
}

static uint32_t ports_of_basis(const struct port_family *f, size_t n, const char *form)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(f[i].form, form) == 0 && f[i].ports)
            return f[i].ports;
    return 1;
}

/* The widest set that works on vectors of that size; 0: not known. */
static uint32_t widest_of_vectors(const struct calib *k, bool wide)
{
    uint32_t widest = 0;
    for (size_t i = 0; i < k->basis_count; i++) {
        const struct port_family *f = &k->basis[i];
        struct x86_form form = parse(f->form);
        if (file_of(&form) == PORT_FILE_VECTOR && is_wide(&form) == wide &&
            __builtin_popcount(f->ports) > __builtin_popcount(widest))
            widest = f->ports;
    }
    return widest;
}

/* Does one operation of a form that no blocker saw run on this set of vectors' units? Of what works on vectors the
 * first that was not seen among them, and what comes too often for the units of general operations. */
static bool roams_on_vectors(const struct timed_form *t, uint32_t vectors, uint32_t anywhere)
{
    for (unsigned q = 0; q < t->part_count; q++)
        if (!(t->ports[q] & ~vectors))
            return false;
    return file_of(&t->parsed) == PORT_FILE_VECTOR || (!t->part_count && !most_on(t, anywhere));
}

/* Operations that no blocker saw, because they run almost anywhere, or on as many units as the width has slots, which
 * leaves no room beside what would block them. Those that nothing tells where to run are taken for general operations.
 */
static void add_roaming(const struct calib *k, struct timed_form *t, uint32_t anywhere)
{
    uint32_t vectors = is_vector(&t->parsed) ? widest_of_vectors(k, is_wide(&t->parsed)) : 0;
    if (!t->parsed.count)
        return;
    for (double rest = round(t->slots) - t->part_count; rest > 0.5 && t->part_count < MACHINE_USE_MAX; rest--) {
        bool among = vectors && roams_on_vectors(t, vectors, anywhere);
        t->ports[t->part_count++] = among ? vectors : anywhere;
    }
}

/* Copies alone take at least their slots. */
static double whole_slots(const struct calib *k, const struct timed_form *t)
{
    return fmax(1, fmin(round(t->slots), floor(t->interval * k->width + 0.3)));
}

/* Renaming does it: its result is there at once. A link of a chain in less than half a cycle is in no unit, even where
 * so many moves do not go at the full width. Of a constant no chain can tell; that it comes clearly more often than
 * additions do tells that it needs none of their units. */
static bool is_eliminated(const struct calib *k, const struct timed_form *t)
{
    const double adds = __builtin_popcount(ports_of_basis(k->basis, k->basis_count, "add r64,r64"));
    bool at_once = t->latency >= 0 ? t->latency < 0.8 : t->interval * adds < 0.9;
    bool fills_width = t->interval < 1.35 / k->width || (t->latency >= 0 && t->latency < 0.5 && t->interval < 0.4);
    return at_once && whole_slots(k, t) < 2 && fills_width;
}

/* ---- classes ---- */

static bool same_class(const struct machine_class *a, const struct machine_class *b)
{
    if (fabs(a->latency - b->latency) > 1e-6 || fabs(a->latency_second - b->latency_second) > 1e-6 ||
        fabs(a->latency_high - b->latency_high) > 1e-6 || fabs(a->latency_flags - b->latency_flags) > 1e-6 ||
        fabs(a->occupies_high - b->occupies_high) > 1e-6 || fabs(a->slots - b->slots) > 1e-6 ||
        a->use_count != b->use_count)
        return false;
    for (unsigned i = 0; i < a->use_count; i++)
        if (a->uses[i].ports != b->uses[i].ports || fabs(a->uses[i].issue - b->uses[i].issue) > 1e-6)
            return false;
    return true;
}

struct x86_detail detail_of_form(const struct x86_form *f)
{
    struct x86_choice c = {{5, 6, 7, 3, 2}, 3, 14, X86_REG_NONE, 1, 8};
    struct x86_detail d = {.addr_base = X86_REG_NONE};
    uint8_t bytes[15];
    if (f->has_index)
        c.index = X86_R12;
    if (f->has_scale)
        c.scale = 4;
    int len = x86_encode(f, &c, bytes);
    if (len)
        x86_decode_detail(bytes, (size_t)len, 0, &d);
    return d;
}

/* An old class that is alike, or a new one named by the family and width, with a number if that is taken. */
static uint32_t class_like(struct machine *m, const struct x86_form *form, struct machine_class *c)
{
    struct x86_detail d = detail_of_form(form);
    struct x86_form made; /* not always `form`: of a sum of two registers it has a displacement too */
    x86_form_parse(d.form, &made);
    bool gone = !c->use_count && c->latency < 0.5;
    const char *family = gone ? "eliminated" : machine_family(&d, &made), *width = d.op_bits > 256   ? ".z"
                                                                                   : d.op_bits > 128 ? ".y"
                                                                                                     : "";
    for (uint32_t i = 0; i < m->class_count; i++) {
        size_t n = strlen(family);
        bool kin =
            strncmp(m->classes[i].name, family, n) == 0 && (!m->classes[i].name[n] || m->classes[i].name[n] == '.');
        if (kin && same_class(&m->classes[i], c))
            return i;
    }
    snprintf(c->name, sizeof c->name, "%s%s", family, machine_class_named(m, family) ? width : "");
    for (int n = 2; machine_class_named(m, c->name); n++)
        snprintf(c->name, sizeof c->name, "%s%s.%d", family, width, n);
    return machine_add_class(m, c);
}

static void add_use(struct machine_class *c, uint32_t ports, double issue, bool is_slow_unit)
{
    for (unsigned i = 0; i < c->use_count; i++)
        if (c->uses[i].ports == ports && issue > 1 && is_slow_unit) {
            c->uses[i].issue = fmax(c->uses[i].issue, issue);
            return;
        }
    if (ports && c->use_count < MACHINE_USE_MAX) /* none: no set of units explained its timings */
        c->uses[c->use_count++] = (struct machine_use){ports, issue};
}

/* Groups are made for sets that came out of the mixes of one form only. */
static void name_ports(struct machine *m, uint32_t ports)
{
    for (size_t g = 0; g < m->group_count; g++)
        if (m->groups[g].ports == ports)
            return;
    char name[MACHINE_NAME_LEN];
    snprintf(name, sizeof name, "set-%x", ports);
    if (ports & (ports - 1))
        machine_add_group(m, name, ports);
}

/* Longer than its operations allow: a unit that is not pipelined. */
static bool is_slow(const struct calib *k, const struct timed_form *t, double slots, unsigned ports)
{
    bool chained = chains_by_flags(t);
    double allowed = fmax(ports_interval(t, ports), slots / k->width);
    return !chained && t->interval > allowed * 1.15 + 0.1 && t->interval > 1.5;
}

/* Operations start at whole cycles: what a chain shows more than that is waiting for a unit. */
static double whole_latency(double cycles)
{
    double near = tidy(cycles);
    return near == round(near) || near < 1 ? near : floor(near + 0.3);
}

/* Cycles that each operation keeps its unit: several where a form takes a multiple of what its units allow (512 bits in
 * two passes). */
static double passes(const struct timed_form *t, unsigned ports)
{
    double allowed = ports_interval(t, ports), times = allowed > 0 ? round(t->interval / allowed) : 1;
    return !chains_by_flags(t) && times >= 2 && times <= 8 && fabs(t->interval / allowed - times) < 0.2 ? times : 1;
}

static struct machine_class class_of_timing(struct calib *k, const struct timed_form *t, unsigned ports)
{
    /* operations of one set of ports start one after the other, and the result comes behind the last */
    double behind = fmax(0, ceil(ports_interval(t, ports) - 0.01) - 1);
    struct machine_class c = {.latency =
                                  whole_latency(t->latency < 0 ? 1 : fmax(t->latency - behind, fmin(t->latency, 0.5))),
                              .slots = whole_slots(k, t)};
    c.latency_second = t->latency_second > 0 ? fmax(0, whole_latency(t->latency_second - behind)) : 0;
    c.latency_flags = t->latency_flags > 0 ? whole_latency(t->latency_flags - behind) : 0;
    if (t->slots < 0)
        c.slots = fmin(4, ceil(t->interval * k->width / 2));
    if (is_eliminated(k, t)) {
        c.latency = c.latency_high = 0;
        return c;
    }
    bool slow = is_slow(k, t, c.slots, ports);
    double issue = slow ? 1 : passes(t, ports);
    for (unsigned i = 0; i < t->part_count && c.use_count + slow < MACHINE_USE_MAX; i++) {
        name_ports(k->m, t->ports[i]);
        add_use(&c, t->ports[i], issue, false);
    }
    if (slow)
        add_use(&c,
                machine_ports_named(k->m, division_is(t->form) ? "int-divider"
                                          : t->parsed.divides  ? "divider"
                                                               : "slow"),
                fmax(1, round(t->interval * 2) / 2), true);
    /* of divisions, whose long quotients take longer */
    bool longer = division_is(t->form) && t->latency_high > t->latency + 0.5;
    c.latency_high = longer ? fmax(c.latency, whole_latency(t->latency_high - behind)) : c.latency;
    if (slow && t->interval_high > t->interval + 0.4)
        c.occupies_high = round(t->interval_high * 2) / 2;
    return c;
}

static void add_form(struct machine *m, const struct timed_form *t, uint32_t class_id)
{
    struct machine_form f = {.class_id = class_id,
                             .measured_latency = t->latency < 0 ? -1 : round(t->latency * 100) / 100,
                             .measured_interval = round(t->interval * 1000) / 1000};
    snprintf(f.form, sizeof f.form, "%.47s", t->form);
    machine_add_form(m, &f);
}

static void classify(struct calib *k, struct timed_form *t, uint32_t anywhere, unsigned ports)
{
    add_roaming(k, t, anywhere);
    struct machine_class c = class_of_timing(k, t, ports);
    add_form(k->m, t, class_like(k->m, &t->parsed, &c));
}

static bool wants_parts(const struct calib *k, const struct timed_form *t)
{
    return !is_eliminated(k, t) && !t->parsed.is_jcc;
}

/* Needs 512 bits or masks. */
static bool is_rare(const struct x86_form *f)
{
    bool is_rare = is_wide(f);
    for (unsigned i = 0; i < f->count; i++)
        is_rare |= f->operand[i].kind == X86_FORM_MASK;
    return is_rare;
}

/* The basis has its ports already. */
static bool take_basis_ports(const struct calib *k, struct timed_form *t)
{
    for (size_t i = 0; i < k->basis_count; i++)
        if (strcmp(k->basis[i].form, t->form) == 0) {
            t->ports[0] = k->basis[i].ports;
            t->part_count = 1;
            return true;
        }
    return false;
}

/* Which operations each form has that is not classified yet. Those found while the core was disturbed are looked at
 * once more, as often as the time allows. */
static void find_all_parts(struct calib *k, bool at_any_rate)
{
    struct blockers narrow, wide;
    choose_blockers(k, k->basis, k->basis_count, false, &narrow);
    choose_blockers(k, k->basis, k->basis_count, true, &wide);
    for (int pass = 0; pass < 4; pass++)
        for (size_t i = k->classified; i < k->forms.len; i++) {
            struct timed_form *t = &k->forms.data[i];
            diag_progress("finding units", i - k->classified, k->forms.len - k->classified);
            if (!wants_parts(k, t) || (pass && !t->unsure) || take_basis_ports(k, t))
                continue;
            if (lab_part_is_over(k->lab) && (pass || !at_any_rate)) {
                t->unsure = t->unsure || !pass;
                continue;
            }
            if (pass)
                timing_again(k, t);
            find_parts(k, t, is_rare(&t->parsed) ? &wide : &narrow);
        }
}

/* Common forms first: the first of a family gives its name to the class. Unsure ones are left to their family, unless
 * they are to be its model. */
static void classify_all(struct calib *k, bool even_unsure)
{
    uint32_t anywhere = machine_class_named(k->m, "other")->uses[0].ports;
    unsigned ports = k->ports;
    for (int rare = 0; rare < 2; rare++)
        for (size_t i = k->classified; i < k->forms.len; i++) {
            struct timed_form *t = &k->forms.data[i];
            bool wanted = is_rare(&t->parsed) == rare && !t->parsed.is_jcc;
            if (wanted && (even_unsure || !t->unsure))
                classify(k, t, anywhere, ports);
        }
    k->classified = k->forms.len;
}

/* Classes that the others build on. */
static void add_basic_classes(struct calib *k)
{
    uint32_t anywhere = ports_of_basis(k->basis, k->basis_count, "add r64,r64");
    uint32_t branch = ports_of_basis(k->basis, k->basis_count, "jcc i");
    name_ports(k->m, branch);
    struct machine_class other = {
        .name = "other", .latency = 2, .latency_high = 2, .slots = 1, .use_count = 1, .uses = {{anywhere, 1}}};
    struct machine_class jcc = {
        .name = "branch", .latency = 1, .latency_high = 1, .slots = 1, .use_count = 1, .uses = {{branch, 1}}};
    struct machine_class nop = {.name = "nop", .slots = 1};
    machine_add_class(k->m, &other);
    machine_add_class(k->m, &jcc);
    machine_add_class(k->m, &nop);
}

static void add_dividers(struct calib *k)
{
    machine_add_unit(k->m, "divider", 1, 1);
    if (division_is_shared(k))
        machine_add_group(k->m, "int-divider", machine_ports_named(k->m, "divider"));
    else
        machine_add_unit(k->m, "int-divider", 1, 1);
    machine_add_unit(k->m, "slow", 1, 1);
}

/* Mixes that the units found by all together do not explain are timed once more: of two figures the lower one is less
 * disturbed. Was any of them another? */
static bool mix_again(struct calib *k, struct port_mix *mix, size_t count)
{
    static const double UNLIKE = 0.15, CHANGED = 0.05;
    unsigned implausible = 0, changed = 0;
    for (size_t i = 0; i < count && !lab_part_is_over(k->lab); i++) {
        struct port_mix *m = &mix[i];
        if (fabs(m->cycles / ports_predict(k->basis, m, k->width) - 1) < UNLIKE)
            continue;
        double again = timing_mix(k, k->basis[m->i].form, m->a, k->basis[m->j].form, m->b);
        implausible++;
        changed += again > 0 && again < m->cycles * (1 - CHANGED);
        m->cycles = again > 0 ? fmin(m->cycles, again) : m->cycles;
    }
    diag_debug(1, "calibrate: %u of %zu mixes are not as the units say, %u of them were slips", implausible, count,
               changed);
    return changed > 0;
}

/* Two ways at once: what a form takes alone tells how many units it has, what it takes beside another which.
 * ports_solve weighs them against each other; where it cannot bring them together, they are timed again. */
void calib_units(struct calib *k)
{
    k->basis = ARENA_ARRAY(k->arena, struct port_family, CALIB_BASIS_MAX);
    struct port_mix *mix = ARENA_ARRAY(k->arena, struct port_mix, CALIB_BASIS_MAX * CALIB_BASIS_MAX);
    k->basis_count = take_basis(k, k->basis);
    size_t mixes = mix_basis(k, k->basis, k->basis_count, mix);
    double misfit = 0;
    k->ports = ports_solve(k->basis, k->basis_count, mix, mixes, k->width, &misfit);
    if (mix_again(k, mix, mixes))
        k->ports = ports_solve(k->basis, k->basis_count, mix, mixes, k->width, &misfit);
    diag_debug(1, "%zu mixes of %zu operations show %u units, mean deviation %.1f %%", mixes, k->basis_count, k->ports,
               misfit * 100);
    add_units(k, k->basis, k->basis_count, k->ports);
    qsort(k->basis, k->basis_count, sizeof *k->basis, by_size);
    add_dividers(k);
    add_basic_classes(k);
    find_all_parts(k, true);
    classify_all(k, true);
}

void calib_rest(struct calib *k)
{
    timing_rest(k);
    find_all_parts(k, false);
    classify_all(k, false);
}

/* ---- on what an earlier calibration found ---- */

static void recall_basis(struct calib *k)
{
    k->basis = ARENA_ARRAY(k->arena, struct port_family, CALIB_BASIS_MAX);
    for (size_t i = 0; i < k->m->form_count && k->basis_count < CALIB_BASIS_MAX; i++) {
        const struct machine_form *f = &k->m->forms[i];
        const struct machine_class *c = &k->m->classes[f->class_id];
        if (!is_basis_form(f->form) || c->use_count != 1 || c->uses[0].issue > 1)
            continue;
        k->basis[k->basis_count++] = (struct port_family){
            .form = arena_strdup(k->arena, f->form), .interval = f->measured_interval, .ports = c->uses[0].ports};
        while (c->uses[0].ports >> k->ports)
            k->ports++;
    }
    if (k->basis_count)
        qsort(k->basis, k->basis_count, sizeof *k->basis, by_size);
}

void calib_more(struct calib *k, const char *const *forms, size_t count, double budget_s)
{
    recall_basis(k);
    if (!k->basis_count)
        return;
    lab_plan(k->lab, (unsigned)count * MEASUREMENTS_A_FORM, budget_s);
    for (size_t i = 0; i < count; i++)
        timing_of(k, forms[i]);
    find_all_parts(k, false);
    classify_all(k, false);
}
