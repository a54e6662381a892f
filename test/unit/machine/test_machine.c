/* SPDX-License-Identifier: Apache-2.0
 * Machine descriptions: read what was written, tell mistakes with line and column, find the class of any instruction.
 * And the detailed decoding that its forms come from. */
#include "machine/calibrate/calib.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h> /* needs the three above it */

static void round_trip_keeps_everything(void **state)
{
    (void)state;
    struct machine *m = machine_default(), *again = NULL;
    struct strbuf a = {0}, b = {0};
    machine_format(m, &a);
    assert_int_equal(machine_parse("again", a.data, a.len, &again), 0);
    machine_format(again, &b);
    assert_string_equal(a.data, b.data);
    assert_int_equal(m->class_count, again->class_count);
    assert_true(m->class_count > 50);
    str_free(&a);
    str_free(&b);
    machine_free(m);
    machine_free(again);
}

static void all_latencies_of_a_class_are_kept(void **state)
{
    (void)state;
    static const char line[] =
        "class int result-latency 2 to 9 keeps 4 second 3 elsewhere 5 flags 6 slots 2 on a+a:3\n";
    char text[256];
    int len = snprintf(text, sizeof text, "mtool-machine 1\nunit a\nclass other result-latency 1 on a\n%send\n", line);
    struct machine *m = NULL;
    assert_int_equal(machine_parse("f", text, (size_t)len, &m), 0);
    const struct machine_class *c = machine_class_named(m, "int");
    assert_true(c->latency == 2 && c->latency_high == 9 && c->occupies_high == 4 && c->latency_second == 3);
    assert_true(c->latency_bypass == 5 && c->latency_flags == 6);
    struct strbuf s = {0};
    machine_format(m, &s);
    assert_non_null(strstr(s.data, line));
    str_free(&s);
    machine_free(m);
}

static void every_shipped_description_keeps_its_meaning(void **state)
{
    (void)state;
    const char *name, *text;
    size_t count = 0;
    for (; (text = machine_shipped_text(count, &name)); count++) {
        struct machine *m = NULL, *again = NULL;
        struct strbuf a = {0}, b = {0};
        assert_int_equal(machine_parse(name, text, strlen(text), &m), 0);
        machine_format(m, &a);
        assert_int_equal(machine_parse("again", a.data, a.len, &again), 0);
        machine_format(again, &b);
        assert_string_equal(a.data, b.data);
        assert_int_equal(m->form_count, again->form_count);
        assert_int_equal(m->processor_count, again->processor_count);
        assert_non_null(machine_error_of(m, "anything"));
        str_free(&a);
        str_free(&b);
        machine_free(m);
        machine_free(again);
    }
    assert_true(count >= 13);
}

/* Each file of the folder is built in, and says the same. */
static void every_file_of_machines_is_shipped(void **state)
{
    (void)state;
    DIR *d = opendir(MACHINES_DIR);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        const char *name, *text = NULL;
        if (!strstr(e->d_name, ".machine"))
            continue;
        for (size_t i = 0; (text = machine_shipped_text(i, &name)) && strcmp(name, e->d_name) != 0;)
            i++;
        if (!text)
            fail_msg("%s is not built in: name it in src/machine/meson.build", e->d_name);
        char path[4096];
        struct file_bytes f;
        snprintf(path, sizeof path, "%s/%s", MACHINES_DIR, e->d_name);
        assert_int_equal(file_map(path, &f), 0);
        assert_int_equal(f.len, strlen(text));
        assert_memory_equal(f.data, text, f.len);
        file_unmap(&f);
    }
    closedir(d);
}

static void processors_find_their_description(void **state)
{
    (void)state;
    static const struct {
        const char *vendor, *name;
        unsigned family, model;
    } cases[] = {
        {"amd", "AMD Zen 4", 25, 17},
        {"amd", "AMD Zen 4", 25, 97},
        {"amd", "AMD Zen 5", 26, 2},
        {"amd", "AMD Zen 5", 26, 68},
        {"amd", "AMD Zen 3", 25, 1},
        {"amd", "AMD Zen 2", 23, 49},
        {"intel", "Intel Skylake", 6, 85},
        {"intel", "Intel Sunny Cove (Ice Lake)", 6, 106},
        {"intel", "Intel Golden Cove", 6, 143},
        {"intel", "Intel Gracemont", 6, 190},
        {"intel", "Intel Bonnell (Atom)", 6, 28},
        {"amd", NULL, 15, 17},
        {"intel", NULL, 25, 17},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct machine *m = machine_shipped(cases[i].vendor, cases[i].family, cases[i].model);
        if (!cases[i].name != !m || (m && strcmp(m->name, cases[i].name) != 0))
            fail_msg("%s %u %u is %s", cases[i].vendor, cases[i].family, cases[i].model, m ? m->name : "none");
        machine_free(m);
    }
    struct machine *here = machine_shipped_here(); /* whatever it is, it says so itself */
    assert_true(!here || here->processor_count > 0);
    machine_free(here);
}

/* Each line that the file may have is in the manual. */
static void the_manual_names_every_line(void **state)
{
    (void)state;
    static const char *const words[] = {
#define X(group, field, name, value, text) "`" name "`",
#include "machine/params.def"
#undef X
        "`name ", "`processor ", "`scheduler ", "`unit ", "`group ", "`class ", "`form ", "`cache ", "`error ", "`end`",
    };
    struct file_bytes f;
    assert_int_equal(file_map(MANUAL, &f), 0);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (!memmem(f.data, f.len, words[i], strlen(words[i])))
            fail_msg("doc/machine.md does not name %s", words[i]);
    file_unmap(&f);
}

/* What reading `text` says on stderr. */
static void message_of(const char *text, char *out, size_t cap)
{
    char path[] = "/tmp/mtool-test-XXXXXX";
    int fd = mkstemp(path), keep = dup(2);
    assert_true(fd >= 0 && keep >= 0);
    dup2(fd, 2);
    struct machine *m = NULL;
    int rc = machine_parse("f", text, strlen(text), &m);
    dup2(keep, 2);
    ssize_t n = pread(fd, out, cap - 1, 0);
    out[n > 0 ? n : 0] = 0;
    close(fd);
    close(keep);
    unlink(path);
    assert_int_equal(rc, -1);
}

static void mistakes_have_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "f:1:1: not a machine description"},
        {"\x7f"
         "ELF\x02\x01",
         "f:1:1: not a machine description"},
        {"mtool-machine 2\nend\n", "f:1:1: a machine description of another version"},
        {"mtool-machine 1\n\n  reorder many\nend\n", "f:3:11: not a number: \"many\""},
        {"mtool-machine 1\nreorder 5 6\nend\n", "f:2:11: too much on the line: \"6\""},
        {"mtool-machine 1\nreorder\nend\n", "f:2:8: the line ends where a number is expected"},
        {"mtool-machine 1\nspeed 9\nend\n", "f:2:1: unknown word \"speed\""},
        {"mtool-machine 1\nname \"abc\nend\n", "f:2:6: a quoted text does not end on its line"},
        {"mtool-machine 1\nunit a\nunit a\nend\n", "f:3:6: second unit or group with the name \"a\""},
        {"mtool-machine 1\nunit a multiplicity 99\nend\n", "f:2:21: number out of range: \"99\""},
        {"mtool-machine 1\nunit a\nclass int result-latency 1 on b\nend\n", "f:3:31: unknown unit or group in \"b\""},
        {"mtool-machine 1\nunit a\nclass int result-latency 1\nend\n", "f:3:27: a class needs result-latency and on"},
        {"mtool-machine 1\ncache L1 data size 32K ways 8 latency 5\nend\n", "f:2:40: a cache needs size and line"},
        {"mtool-machine 1\nunit a\nform \"add r64,r64\" int\nend\n", "f:3:20: unknown class \"int\""},
        {"mtool-machine 1\nprocessor arm 8 1\nend\n", "f:2:11: unknown vendor \"arm\""},
        {"mtool-machine 1\nprocessor amd 25 9-4\nend\n", "f:2:18: no models of processors: \"9-4\""},
        {"mtool-machine 1\nprocessor amd 25\nend\n", "f:2:17: the line ends where models is expected"},
        {"mtool-machine 1\ncache L1 disk\nend\n", "f:2:10: unknown kind of cache \"disk\""},
        {"mtool-machine 1\nunit a\nclass other result-latency 1 on a\n",
         "f:4:1: the file stops without a line \"end\""},
        {"mtool-machine 1\nunit a\nend\n", "f:4:1: the class \"other\" is missing"},
        {"mtool-machine 1\nend\n", "f:3:1: no unit is declared"},
        {"mtool-machine 1\nunit a\nclass int result-latency -2 on a\nend\n",
         "f:3:26: number out of range: \"-2\"; write one from 0 to 10000"},
        {"mtool-machine 1\nunit a\nclass int result-latency 9 to 4 on a\nend\n",
         "the latency for unfavourable operands is the smaller"},
        {"mtool-machine 1\nunit a\nclass int result-latency 1 on a:0\nend\n", "f:3:31: bad issue latency in \"a:0\""},
        {"mtool-machine 1\nscheduler s\nend\n", "f:2:12: the line ends where its size is expected"},
        {"mtool-machine 1\nscheduler s 0\nend\n", "f:2:13: number out of range: \"0\"; write one from 1 to 4096"},
        {"mtool-machine 1\nunit a\ngroup g\nend\n", "f:3:8: the line ends where the name of a unit is expected"},
        {"mtool-machine 1\nunit a multiplicity 31\nunit b multiplicity 2\nend\n", "f:3:22: more than 32 units"},
        {"mtool-machine 1\nunit a\nclass other result-latency 1 on a\n  class load result-latency 4 on none\nend\n",
         "f:4:9: no unit runs the accesses of class \"load\"; name a unit behind on"},
        {"mtool-machine 1\nreorder 8\nunit a\nclass other result-latency 1 slots 9 on a\nend\n",
         "f:4:7: reorder is smaller than the slots of class \"other\""},
        {"mtool-machine 1\nscheduler s 1\nunit a multiplicity 2 scheduler s\nclass other result-latency 1 on a\n"
         "class int result-latency 1 on a+a\nend\n",
         "f:5:7: a scheduler is too small to hold all operations of class \"int\""},
        {"mtool-machine 1\nunit a\nfetch-windows 0\nclass other result-latency 1 on a\nend\n",
         "fetch-windows must be positive"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char said[4096];
        message_of(cases[i].text, said, sizeof said);
        if (!strstr(said, cases[i].message))
            fail_msg("case %zu said: %s", i, said);
        assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1); /* one line */
    }
}

static struct x86_detail detail_of(const char *hex)
{
    uint8_t bytes[15];
    size_t len = strlen(hex) / 2;
    for (size_t i = 0; i < len; i++) {
        const char pair[] = {hex[2 * i], hex[2 * i + 1], 0};
        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    struct x86_detail d;
    assert_int_equal(x86_decode_detail(bytes, len, 0, &d), len);
    return d;
}

static void details_are_right(void **state)
{
    (void)state;
    static const struct {
        const char *hex, *form;
        unsigned reads, writes, addrs; /* how many */
        bool load, store;
    } cases[] = {
        {"4801d8", "add r64,r64", 2, 3, 0, false, false},
        {"480303", "add r64,r64", 1, 3, 1, true, false},
        {"480103", "add r64,r64", 1, 2, 1, true, true},
        {"8b04cb", "mov r32,m", 0, 1, 2, true, false},
        {"890424", "mov m,r32", 1, 0, 1, false, true},
        {"488d440801", "lea r64,b+i+d", 0, 1, 2, false, false},
        {"50", "push r64", 1, 0, 1, false, true},
        {"c3", "ret", 0, 0, 1, true, false},
        {"48f7f1", "div r64", 3, 4, 0, false, false},
        {"0f46c1", "cmovbe r32,r32", 4, 1, 0, false, false},
        {"0f4cc1", "cmovl r32,r32", 3, 1, 0, false, false},
        {"d3e0", "shl r32,cl", 4, 3, 0, false, false},
        {"31c0", "xor r32,r32", 0, 3, 0, false, false},
        {"c4e2f5b8c2", "vfmadd231pd y,y,y", 3, 1, 0, false, false},
        {"62f1fd49584040", "vaddpd z{k},z,z", 2, 1, 1, true, false},
        {"f20f2a00", "cvtsi2sd x,r32", 1, 1, 1, true, false},
        {"f20f2d00", "cvtsd2si r32,x", 0, 1, 1, true, false},
        {"f3a4", "rep movsb", 3, 3, 2, true, true},
        {"f00fb10f", "lock cmpxchg r32,r32", 2, 3, 1, true, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct x86_detail d = detail_of(cases[i].hex);
        assert_string_equal(d.form, cases[i].form);
        assert_int_equal(d.read_count, cases[i].reads);
        assert_int_equal(d.write_count, cases[i].writes);
        assert_int_equal(d.addr_reg_count, cases[i].addrs);
        assert_int_equal(d.is_load, cases[i].load);
        assert_int_equal(d.is_store, cases[i].store);
    }
    assert_true(detail_of("31c0").is_zero_idiom);
    assert_true(detail_of("4889e5").is_mov_elim);
    assert_int_equal(detail_of("4839fe").fuse, X86_FUSE_CMP);
    assert_int_equal(detail_of("75fe").insn.cond, 5);
    assert_int_equal(detail_of("4883ec18").effect, X86_EFFECT_ADD_IMM);
    assert_int_equal(detail_of("4883ec18").imm, -0x18);
}

static void the_speed_is_told_of_this_cpu_only(void **state)
{
    (void)state;
    struct machine *m = machine_new();
    m->name = "another processor";
    m->core_per_tsc = 1;
    m->nop_cycles = 0.25;
    struct machine_speed other = machine_speed_now(m);
    assert_true(isnan(other.core_per_tsc) && isnan(other.share));
    m->name = str_printable(m->arena, native_cpu_name());
    struct machine_speed now = machine_speed_now(m);
    if (isnan(now.core_per_tsc))
        skip(); /* never twenty chains in peace */
    assert_true(now.core_per_tsc > 0.1 && now.core_per_tsc < 10);
    assert_true(now.share > 0 && now.share <= 1);
    m->nop_cycles = 0;
    assert_true(isnan(machine_speed_now(m).share));
    machine_free(m);
}

static void latencies_tell_the_clock(void **state)
{
    (void)state;
    static const double core[] = {1, 1, 3, 3, 1, 1, 2, 1, 3, 3, 4, 4},
                        noise[] = {1.01, 0.99, 3.02, 2.97, 1, 1.01, 2.02, 3, 4.03, 4},
                        junk[] = {1.37, 1.73, 2.41, 3.29, 1.13, 1.57, 2.83}, few[] = {1.5, 1.5, 4.5};
    double scaled[ARRAY_LEN(core)];
    assert_true(calib_clock_unit(core, ARRAY_LEN(core)) == 1);
    assert_true(calib_clock_unit(noise, ARRAY_LEN(noise)) == 1);
    assert_true(calib_clock_unit(few, ARRAY_LEN(few)) == 1);
    assert_true(calib_clock_unit(junk, ARRAY_LEN(junk)) < 1);
    static const double units[] = {5, 2, 0.5, 1.4, 0.7};
    for (size_t u = 0; u < ARRAY_LEN(units); u++) {
        for (size_t i = 0; i < ARRAY_LEN(core); i++)
            scaled[i] = core[i] * units[u];
        double found = calib_clock_unit(scaled, ARRAY_LEN(core));
        if (fabs(found / units[u] - 1) > 0.02)
            fail_msg("a unit of %g, not of %g", found, units[u]);
    }
}

static void what_would_leave_something_behind_is_not_timed(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        bool can;
    } cases[] = {
        {"66854300", true},    /* test r16,r16 of memory */
        {"480fafc3", true},    /* imul */
        {"c4e2f5b8c2", true},  /* vfmadd231pd */
        {"c5fb92c8", true},    /* kmovd k,r32 */
        {"488d440801", true},  /* lea */
        {"d3e0", true},        /* shl r32,cl */
        {"50", false},         /* push */
        {"58", false},         /* pop */
        {"f3480faed0", false}, /* wrfsbase */
        {"8ed8", false},       /* mov ds,eax */
        {"fd", false},         /* std */
        {"9d", false},         /* popf */
        {"d8c1", false},       /* fadd st,st(1) */
        {"0fa2", false},       /* cpuid */
        {"c3", false},         /* ret */
        {"75fe", false},       /* jne */
        {"ffe0", false},       /* jmp rax */
        {"ffd0", false},       /* call rax */
        {"f3a4", false},       /* rep movsb */
        {"f00fb10f", false},   /* lock cmpxchg */
        {"f4", false},         /* hlt */
        {"0f05", false},       /* syscall */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct x86_detail d = detail_of(cases[i].hex);
        if (machine_can_time(&d) != cases[i].can)
            fail_msg("%s (%s)", cases[i].hex, d.form);
    }
}

/* False: *wrong, on the heap, says what was measured. */
static bool extends_on_its_own_machine(const char *const *forms, char **wrong)
{
    struct machine *m = machine_default();
    m->source = "calibrated";
    m->name = str_printable(m->arena, native_cpu_name());
    struct machine_form add = {.form = "add r64,r64", .measured_latency = 1, .measured_interval = 0.25};
    add.class_id = (uint32_t)(machine_class_named(m, "int") - m->classes);
    machine_add_form(m, &add);
    struct calib width = {.m = m, .lab = lab_open(NULL, 1)};
    bool is_right = true;
    *wrong = NULL;
    if (width.lab) {
        lab_plan(width.lab, 2, 1);
        calib_width(&width);
        lab_close(width.lab);
    }
    if (width.lab && machine_extend(m, forms, 1, 2)) { /* else others disturbed it */
        struct x86_detail d = detail_of("6685c3");
        enum machine_match how;
        const struct machine_class *c = machine_class_of(m, &d, &how);
        is_right = how == MACHINE_MATCH_FORM && c->latency >= 1 && c->latency < 3 && c->slots >= 1 && c->slots < 3;
        if (!is_right)
            assert_true(asprintf(wrong, "class %s: latency %g, slots %g", c->name, c->latency, c->slots) > 0);
    }
    machine_free(m);
    return is_right;
}

static void forms_met_later_are_timed_on_their_own_machine_only(void **state)
{
    (void)state;
    static const char *const forms[] = {"test r16,r16"};
    struct machine *m = machine_default();
    m->source = "calibrated";
    m->name = "another processor";
    struct machine_form add = {.form = "add r64,r64", .measured_latency = 1, .measured_interval = 0.25};
    add.class_id = (uint32_t)(machine_class_named(m, "int") - m->classes);
    machine_add_form(m, &add);
    assert_int_equal(machine_extend(m, forms, 1, 1), 0);
    assert_null(machine_form_named(m, forms[0]));
    machine_free(m);
    struct lab *lab = lab_open(NULL, 1);
    if (!lab)
        skip();
    lab_close(lab);
    char *wrong = NULL;
    bool is_right = false;
    for (int attempt = 0; attempt < 3 && !is_right; attempt++) { /* others on the processor disturb one */
        free(wrong);
        is_right = extends_on_its_own_machine(forms, &wrong);
    }
    if (!is_right)
        print_error("%s\n", wrong);
    free(wrong);
    assert_true(is_right);
}

static void does_nothing(uint64_t iterations, void *data) { (void)iterations, (void)data; }

/* It is as if it were missing, measured as well as on the tape. */
static void what_no_processor_takes_is_not_believed(void **state)
{
    (void)state;
    struct machine_bench bench = {.record = machine_tape_new()};
    struct lab *lab = lab_open(&bench, 1);
    if (lab) {
        lab_name(lab, "a million iterations of nothing");
        double cycles = lab_call_cycles(lab, does_nothing, NULL, 1000000);
        lab_close(lab);
        assert_true(cycles < 0);
    }
    machine_tape_free(bench.record);
    if (!lab)
        skip();
}

static void every_instruction_finds_a_class(void **state)
{
    (void)state;
    struct machine *m = machine_default();
    static const struct {
        const char *hex, *class_name;
    } cases[] = {
        {"4801d8", "int"},
        {"4889d8", "mov-eliminated"},
        {"0fb6c1", "mov"},
        {"480fafc3", "imul"},
        {"48f7e1", "imul-wide"},
        {"48f7f1", "div64"},
        {"f7f1", "div32"},
        {"488d440801", "lea3"},
        {"488d4001", "lea"},
        {"d3e0", "shift-cl"},
        {"f20f58c1", "fadd"},
        {"c4e2f5b8c2", "fma"},
        {"c5fd5ec1", "fdiv64.y"},
        {"f30f51c1", "fsqrt32"},
        {"660f70c000", "shuffle"},
        {"660f6ec0", "from-int"},
        {"660fd7c1", "to-int"},
        {"75fe", "branch"},
        {"c3", "ret"},
        {"ffe0", "jump-indirect"},
        {"0fa2", "fence"},
        {"f00fb10f", "atomic"},
        {"62f1fd49584040", "fadd"},
        {"d8c1", "x87"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct x86_detail d = detail_of(cases[i].hex);
        const struct machine_class *c = machine_class_of(m, &d, NULL);
        assert_non_null(c);
        if (strcmp(c->name, cases[i].class_name))
            fail_msg("%s (%s) is %s, not %s", cases[i].hex, d.form, c->name, cases[i].class_name);
    }
    struct x86_detail load = detail_of("c5fc1000");
    assert_null(machine_class_of(m, &load, NULL));
    assert_string_equal(machine_access(m, &load, false)->name, "load.y");
    machine_free(m);
}

/* Elsewhere a form stands for other encodings of its operation; an lea of one address does not for another. */
static void forms_of_lea_stand_for_themselves(void **state)
{
    (void)state;
    struct machine *m = machine_shipped("amd", 25, 1); /* lists lea r64,b+i*s among the slow ones */
    struct x86_detail plain = detail_of("488d4001"), scaled = detail_of("488d0448");
    assert_string_equal(machine_class_of(m, &plain, NULL)->name, "lea");
    assert_string_equal(machine_class_of(m, &scaled, NULL)->name, "lea3");
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_keeps_everything),
        cmocka_unit_test(all_latencies_of_a_class_are_kept),
        cmocka_unit_test(every_shipped_description_keeps_its_meaning),
        cmocka_unit_test(every_file_of_machines_is_shipped),
        cmocka_unit_test(processors_find_their_description),
        cmocka_unit_test(mistakes_have_line_and_column),
        cmocka_unit_test(details_are_right),
        cmocka_unit_test(the_manual_names_every_line),
        cmocka_unit_test(the_speed_is_told_of_this_cpu_only),
        cmocka_unit_test(latencies_tell_the_clock),
        cmocka_unit_test(what_would_leave_something_behind_is_not_timed),
        cmocka_unit_test(forms_met_later_are_timed_on_their_own_machine_only),
        cmocka_unit_test(what_no_processor_takes_is_not_believed),
        cmocka_unit_test(every_instruction_finds_a_class),
        cmocka_unit_test(forms_of_lea_stand_for_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
