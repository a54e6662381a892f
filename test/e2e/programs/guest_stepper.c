/* SPDX-License-Identifier: Apache-2.0
 *
 * guest_stepper SOCKET BEGIN END: the oracle of counting in a guest. Speaks the remote protocol of gdb with an emulator
 * that waits at SOCKET (-gdb unix:SOCKET,server=on -S): lets it run to BEGIN (hex; no other program may have code
 * there), then executes one instruction at a time, of user and kernel, until END is the next, and writes how often each
 * was begun: lines "ADDRESS COUNT", hex and decimal. Elements of a rep instruction are one each, and one more. Some
 * 3,000 a second.
 *
 * The emulator stops after an instruction, and where an exception enters the kernel. In front of a page fault that says
 * that the instruction itself was not there, the one at which it stopped before was not begun; of other faults it was,
 * and is begun once more behind them. Where they enter is read in the processor's own table. No interrupts come.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SLOTS (1u << 20)
enum { PACKET = 1 << 16, GATES = 256, GATE_BYTES = 16, TABLE = GATES * GATE_BYTES, PART = 512 };
enum { FIRST_INTERRUPT = 32, PAGE_FAULT = 14, WAS_FETCH = 16, RIP = 16, RSP = 7, STEPS_MAX = 5000000 };

static struct {
    uint64_t address, count;
} seen[SLOTS];
static int fd;
static char reply[PACKET];

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "guest_stepper: %s\n", what);
    exit(1);
}

static void add(uint64_t address, int64_t n)
{
    uint64_t h = address * 0x9e3779b97f4a7c15u >> 44;
    while (seen[h].address && seen[h].address != address)
        h = (h + 1) % SLOTS;
    seen[h].address = address;
    seen[h].count += (uint64_t)n;
}

/* ---- packets: $TEXT#SUM, each answered by + ---- */

static void put(const char *text)
{
    char packet[PACKET];
    unsigned char sum = 0;
    for (const char *p = text; *p; p++)
        sum = (unsigned char)(sum + (unsigned char)*p);
    int n = snprintf(packet, sizeof packet, "$%s#%02x", text, sum);
    if (write(fd, packet, (size_t)n) != n)
        fail("the emulator is gone");
}

static int get(void)
{
    static char buffer[PACKET];
    static ssize_t len, at;
    if (at == len) {
        at = 0;
        len = read(fd, buffer, sizeof buffer);
        if (len <= 0)
            fail("the emulator ended");
    }
    return buffer[at++];
}

static const char *take(void)
{
    size_t n = 0;
    int c;
    while ((c = get()) != '$')
        ;
    while ((c = get()) != '#' && n < sizeof reply - 1)
        reply[n++] = (char)c;
    reply[n] = 0;
    get(), get();
    if (write(fd, "+", 1) != 1)
        fail("the emulator is gone");
    return reply;
}

static const char *ask(const char *text)
{
    put(text);
    return take();
}

static void go_on(const char *how)
{
    if (ask(how)[0] != 'T' && reply[0] != 'S')
        fail(reply);
}

/* ---- what the processor has ---- */

static unsigned byte_of(const char *hex)
{
    unsigned b = 0;
    if (sscanf(hex, "%2x", &b) != 1)
        fail(reply);
    return b;
}

static uint64_t register_of(unsigned number)
{
    char text[16];
    uint64_t value = 0;
    snprintf(text, sizeof text, "p%x", number);
    ask(text);
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)byte_of(reply + 2 * (size_t)i) << 8 * i;
    return value;
}

static int memory_of(uint64_t address, unsigned char *to, size_t len)
{
    char text[64];
    snprintf(text, sizeof text, "m%llx,%zx", (unsigned long long)address, len);
    if (ask(text)[0] == 'E' || strlen(reply) != 2 * len)
        return -1;
    for (size_t i = 0; i < len; i++)
        to[i] = (unsigned char)byte_of(reply + 2 * i);
    return 0;
}

/* Of "IDT=     ADDRESS LIMIT" in what the emulator's monitor says of the registers. */
static uint64_t table_of_gates(void)
{
    static const char command[] = "info registers";
    static char said[PACKET];
    char text[128] = "qRcmd,";
    size_t n = 0;
    for (const char *p = command; *p; p++)
        sprintf(text + strlen(text), "%02x", (unsigned)*p);
    for (put(text); take()[0] == 'O' && strcmp(reply, "OK") != 0;)
        for (const char *p = reply + 1; p[0] && p[1] && n < sizeof said - 1; p += 2)
            said[n++] = (char)byte_of(p);
    const char *at = strstr(said, "IDT=");
    if (!at)
        fail("no table of gates");
    return strtoull(at + 4, NULL, 16);
}

static uint64_t gates[GATES];
static void read_gates(void)
{
    unsigned char t[TABLE];
    uint64_t at = table_of_gates();
    for (size_t i = 0; i < sizeof t; i += PART)
        if (memory_of(at + i, t + i, PART) < 0)
            fail("no table of gates");
    for (size_t i = 0; i < GATES; i++) {
        const unsigned char *g = t + i * GATE_BYTES;
        uint64_t high = (uint64_t)g[11] << 56 | (uint64_t)g[10] << 48 | (uint64_t)g[9] << 40 | (uint64_t)g[8] << 32;
        gates[i] = high | (uint64_t)g[7] << 24 | (uint64_t)g[6] << 16 | (uint64_t)g[1] << 8 | g[0];
    }
}

static int gate_at(uint64_t pc)
{
    for (int i = 0; i < GATES; i++)
        if (gates[i] == pc)
            return i;
    return -1;
}

/* ---- the stretch ---- */

static void attach(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    for (int tries = 0; tries < 600; tries++) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
            return;
        close(fd);
        usleep(100000);
    }
    fail("no emulator at the socket");
}

static void run_to(uint64_t begin)
{
    char text[64];
    snprintf(text, sizeof text, "Z0,%llx,1", (unsigned long long)begin);
    if (strcmp(ask(text), "OK") != 0)
        fail("no breakpoint");
    go_on("c");
    text[0] = 'z';
    if (strcmp(ask(text), "OK") != 0)
        fail("the breakpoint stays");
}

/* What was begun before the processor came to this gate. */
static void take_back(int gate, uint64_t before)
{
    unsigned char code[8] = {0};
    if (gate == PAGE_FAULT && memory_of(register_of(RSP), code, sizeof code) < 0)
        fail("no error code");
    if (gate >= FIRST_INTERRUPT)
        fail("an interrupt");
    if (code[0] & WAS_FETCH)
        add(before, -1);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        fail("SOCKET BEGIN END");
    uint64_t begin = strtoull(argv[2], NULL, 16), end = strtoull(argv[3], NULL, 16), before = 0;
    attach(argv[1]);
    /* Without interrupts and timers: the pauses between steps would be idle time, which this clock passes over. */
    if (strcmp(ask("Qqemu.sstep=7"), "OK") != 0)
        fail("the emulator cannot step without interrupts");
    ask("qXfer:features:read:target.xml:0,ffb"); /* without it no single registers are told */
    run_to(begin);
    read_gates();
    for (unsigned n = 0;; n++) {
        uint64_t pc = register_of(RIP);
        int gate = gate_at(pc);
        if (pc == end)
            break;
        if (n > STEPS_MAX)
            fail("the end was not reached");
        if (gate >= 0)
            take_back(gate, before);
        add(pc, 1);
        before = pc;
        go_on("s");
    }
    put("k");
    for (size_t i = 0; i < SLOTS; i++)
        if (seen[i].count)
            printf("%llx %llu\n", (unsigned long long)seen[i].address, (unsigned long long)seen[i].count);
    return 0;
}
