/* SPDX-License-Identifier: Apache-2.0
 * The bytes of what is inserted: counters, jumps, padding, and the hook around system calls that make processes. */
#include "rewrite/impl.h"
#include "wire/wire.h"

enum { GS_PREFIX = 0x65 };

unsigned rw_place_bytes(const struct rw_place *p)
{
    static const uint8_t bytes[RW_FORM_COUNT] = {[RW_FORM_INC] = 7, [RW_FORM_REG] = 18, [RW_FORM_PUSH] = 33};
    static const uint8_t accesses[RW_FORM_COUNT] = {[RW_FORM_INC] = 1, [RW_FORM_REG] = 2, [RW_FORM_PUSH] = 2};
    if (p->form == RW_FORM_PROBE)
        return 15 + (unsigned)p->reg * RW_PROBE_ACTION_BYTES + (unsigned)p->framed * RW_PROBE_FRAME_BYTES;
    return bytes[p->form] + (p->gs ? accesses[p->form] : 0u);
}

static uint8_t *put32(uint8_t *p, uint64_t v)
{
    uint32_t x = (uint32_t)v;
    memcpy(p, &x, 4);
    return p + 4;
}

static uint8_t *put_bytes(uint8_t *p, const char *bytes, unsigned n)
{
    memcpy(p, bytes, n);
    return p + n;
}

/* op [rip->c],r or op r,[rip->c] with REX.W, in the thread's own area if gs; addr is where p will stand. */
uint8_t *rw_put_access(uint8_t *p, uint64_t *addr, bool gs, uint8_t op, unsigned r, uint64_t c)
{
    if (gs)
        *p++ = GS_PREFIX;
    *p++ = (uint8_t)(0x48 | r >> 3 << 2);
    *p++ = op;
    *p++ = (uint8_t)(0x05 | (r & 7) << 3);
    *addr += gs ? 8 : 7;
    return put32(p, c - *addr);
}

/* mov r,[rip->c]; lea r,[r+1]; mov [rip->c],r : 18 bytes, 20 with gs */
static uint8_t *put_mov_lea_mov(uint8_t *p, uint64_t addr, bool gs, unsigned r, uint64_t c)
{
    uint8_t hi = (uint8_t)(r >> 3), lo = (uint8_t)(r & 7);
    p = rw_put_access(p, &addr, gs, 0x8b, r, c);
    *p++ = (uint8_t)(0x48 | hi << 2 | hi);
    *p++ = 0x8d;
    *p++ = (uint8_t)(0x40 | lo << 3 | lo); /* rsp and r12 would need a SIB byte: never chosen */
    *p++ = 1;
    addr += 4;
    return rw_put_access(p, &addr, gs, 0x89, r, c);
}

const uint8_t rw_form_push_pushed[2][4][2] = {{{5, 128}, {6, 136}, {25, 128}, {33, 0}},
                                              {{5, 128}, {6, 136}, {27, 128}, {35, 0}}};

void rw_put_counter(uint8_t *at, uint64_t addr, const struct rw_place *p, uint64_t c)
{
    switch ((enum rw_form)p->form) {
    case RW_FORM_INC:
        rw_put_access(at, &addr, p->gs, 0xff, 0, c);
        return;
    case RW_FORM_REG:
        put_mov_lea_mov(at, addr, p->gs, p->reg, c);
        return;
    case RW_FORM_PUSH: /* lea rsp,[rsp-128]; push rax; ...; pop rax; lea rsp,[rsp+128] */
        at = put_bytes(at, "\x48\x8d\x64\x24\x80\x50", 6);
        at = put_mov_lea_mov(at, addr + 6, p->gs, 0, c);
        put_bytes(at, "\x58\x48\x8d\xa4\x24\x80\x00\x00\x00", 9);
        return;
    case RW_FORM_NONE:
    case RW_FORM_PROBE: /* rw_put_probes */
    case RW_FORM_COUNT:
        return;
    }
}

/* Of an action that tells the frame: lea rax,[CFA - 8]; mov [rsp-64],rax, which the runtime reads before anything else
 * is there. The stack pointer is 136 bytes below the program's. */
static uint8_t *put_frame(uint8_t *p, const struct image_cfa *frame)
{
    bool is_rsp = frame->reg == IMAGE_CFA_RSP;
    p = put_bytes(p, is_rsp ? "\x48\x8d\x84\x24" : "\x48\x8d\x84\x25", 4);
    p = put32(p, (uint64_t)(frame->offset - 8 + (is_rsp ? 136 : 0)));
    return put_bytes(p, "\x48\x89\x44\x24\xc0", 5);
}

uint8_t *rw_put_site(uint8_t *at, uint64_t addr, const struct rw_probe_call *calls, unsigned n)
{
    uint8_t *to = put_bytes(at, "\x48\x8d\x64\x24\x80\x50", 6);
    for (unsigned k = 0; k < n; k++) {
        if (calls[k].frame.reg != IMAGE_CFA_NONE)
            to = put_frame(to, &calls[k].frame);
        to = put_bytes(to, "\x48\x8d\x05", 3);
        to = put32(to, calls[k].cell - (addr + (uint64_t)(to - at) + 4));
        rw_put_call(to, addr + (uint64_t)(to - at), calls[k].entrance);
        to += 5;
    }
    return put_bytes(to, "\x58\x48\x8d\xa4\x24\x80\x00\x00\x00", 9);
}

void rw_put_probes(const struct rw *w, uint8_t *at, uint64_t addr, const struct rw_place *p, uint32_t site)
{
    struct rw_probe_call calls[UINT8_MAX];
    for (unsigned k = 0; k < p->reg; k++) {
        struct rw_action a = rw_probe_action(w, site, k);
        calls[k] = (struct rw_probe_call){w->counters_vaddr + a.cell * (uint64_t)WIRE_PROBE_BYTES,
                                          rw_blob_probe(w, &a, p->gs), a.frame};
    }
    rw_put_site(at, addr, calls, p->reg);
}

void rw_put_nops(uint8_t *at, unsigned n)
{
    static const char nops[10][10] = {"",
                                      "\x90",
                                      "\x66\x90",
                                      "\x0f\x1f\x00",
                                      "\x0f\x1f\x40\x00",
                                      "\x0f\x1f\x44\x00\x00",
                                      "\x66\x0f\x1f\x44\x00\x00",
                                      "\x0f\x1f\x80\x00\x00\x00\x00",
                                      "\x0f\x1f\x84\x00\x00\x00\x00\x00",
                                      "\x66\x0f\x1f\x84\x00\x00\x00\x00\x00"};
    while (n) {
        unsigned k = n > 9 ? 9 : n;
        at = put_bytes(at, nops[k], k);
        n -= k;
    }
}

void rw_put_jmp(uint8_t *at, uint64_t addr, uint64_t target)
{
    *at++ = 0xe9;
    put32(at, target - (addr + 5));
}

void rw_put_call(uint8_t *at, uint64_t addr, uint64_t target)
{
    *at++ = 0xe8;
    put32(at, target - (addr + 5));
}

/* In front of a syscall only rcx and r11 are free (the kernel overwrites them), and the flags are not:
 *   lea ecx,[rax-13]; jrcxz L; the same with 56, 57, 435, 157, 317; syscall; jmp C; L: jmp stub; C:
 * 13 rt_sigaction, 56 clone, 57 fork, 435 clone3; 157 prctl and 317 seccomp, which may forbid what the runtime calls.
 * vfork (58) shares its parent's memory while the parent waits: nothing to do. */
void rw_put_syscall(uint8_t *at, uint64_t addr, uint64_t stub)
{
    at = put_bytes(at, "\x8d\x48\xf3\xe3\x26\x8d\x48\xc8\xe3\x21\x8d\x48\xc7\xe3\x1c", 15);
    at = put_bytes(at, "\x8d\x88\x4d\xfe\xff\xff\xe3\x14\x8d\x88\x63\xff\xff\xff\xe3\x0c", 16);
    at = put_bytes(at, "\x8d\x88\xc3\xfe\xff\xff\xe3\x04\x0f\x05\xeb\x05", 12);
    rw_put_jmp(at, addr + 43, stub);
}

/* lea rsp,[rsp-128]; call TARGET; lea rsp,[rsp+128]: past the red zone. The runtime keeps all registers. */
static uint8_t *put_call_out(uint8_t *p, uint64_t addr, uint64_t target)
{
    p = put_bytes(p, "\x48\x8d\x64\x24\x80", 5);
    rw_put_call(p, addr + 5, target);
    return put_bytes(p + 5, "\x48\x8d\xa4\x24\x80\x00\x00\x00", 8);
}

/*   lea ecx,[rax-13]; jrcxz sigaction
 *   call out before_clone; syscall; mov rcx,rax; jrcxz child
 *   call out after_clone; jmp back
 *   child: mov rcx,[rip->counting]; jrcxz out; mov rcx,WIRE_PCB_VADDR; mov rcx,[rcx]; jrcxz forked; jmp out
 *   forked: call out forked
 *   out: jmp back
 *   sigaction: call out catch; jmp back
 * In the child rcx and r11 are free, as after every system call. */
const uint8_t rw_syscall_stub_pushed[8][2] = {{10, 128}, {23, 0}, {35, 128},  {48, 0},
                                              {84, 128}, {97, 0}, {107, 128}, {120, 0}};

void rw_put_syscall_stub(const struct rw *w, uint8_t *at, uint64_t addr, uint64_t back)
{
    uint8_t *p = put_bytes(at, "\x8d\x48\xf3\xe3\x61", 5);
    p = put_call_out(p, addr + 5, rw_blob_before_clone(w));
    p = put_bytes(p, "\x0f\x05\x48\x89\xc1\xe3\x17", 7);
    p = put_call_out(p, addr + (uint64_t)(p - at), rw_blob_after_clone(w));
    rw_put_jmp(p, addr + (uint64_t)(p - at), back);
    p = put_bytes(p + 5, "\x48\x8b\x0d", 3);
    p = put32(p, w->rw_vaddr + RW_DATA_COUNTING - (addr + (uint64_t)(p - at) + 4));
    p = put_bytes(p, "\xe3\x23\x48\xb9", 4);
    uint64_t pcb = WIRE_PCB_VADDR;
    memcpy(p, &pcb, 8);
    p = put_bytes(p + 8, "\x48\x8b\x09\xe3\x02\xeb\x12", 7);
    p = put_call_out(p, addr + (uint64_t)(p - at), rw_blob_forked(w));
    rw_put_jmp(p, addr + (uint64_t)(p - at), back);
    p = put_call_out(p + 5, addr + (uint64_t)(p + 5 - at), rw_blob_catch(w));
    rw_put_jmp(p, addr + (uint64_t)(p - at), back);
}

/* mov eax,number; then as above, back to behind the original's system call */
void rw_put_hook_stub(const struct rw *w, uint8_t *at, const struct rw_hook *h)
{
    *at++ = 0xb8;
    at = put32(at, h->number);
    rw_put_syscall_stub(w, at, h->stub + 5, h->addr + 7);
}
