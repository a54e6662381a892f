/* SPDX-License-Identifier: Apache-2.0
 *
 * The hook around system calls that make processes or threads, or that install a handler of signals. */
#include "rewrite/impl.h"
#include "wire/wire.h"

/* In front of a syscall only rcx and r11 are free (the kernel overwrites them), and the flags are not:
 *   lea ecx,[rax-13]; jrcxz L; the same with 56, 57, 435, 157, 317; syscall; jmp C; L: jmp stub; C:
 * 13 rt_sigaction, 56 clone, 57 fork, 435 clone3; 157 prctl and 317 seccomp, which may forbid what the runtime calls.
 * vfork (58) shares its parent's memory while the parent waits: nothing to do. */
void rw_put_syscall(uint8_t *at, uint64_t addr, uint64_t stub)
{
    at = rw_put_bytes(at, "\x8d\x48\xf3\xe3\x26\x8d\x48\xc8\xe3\x21\x8d\x48\xc7\xe3\x1c", 15);
    at = rw_put_bytes(at, "\x8d\x88\x4d\xfe\xff\xff\xe3\x14\x8d\x88\x63\xff\xff\xff\xe3\x0c", 16);
    at = rw_put_bytes(at, "\x8d\x88\xc3\xfe\xff\xff\xe3\x04\x0f\x05\xeb\x05", 12);
    rw_put_jmp(at, addr + 43, stub);
}

/* lea rsp,[rsp-128]; call TARGET; lea rsp,[rsp+128]: past the red zone. The runtime keeps all registers. */
static uint8_t *put_call_out(uint8_t *p, uint64_t addr, uint64_t target)
{
    p = rw_put_bytes(p, "\x48\x8d\x64\x24\x80", 5);
    rw_put_call(p, addr + 5, target);
    return rw_put_bytes(p + 5, "\x48\x8d\xa4\x24\x80\x00\x00\x00", 8);
}

/*   lea ecx,[rax-13]; jrcxz sigaction
 *   call out before_clone; syscall; mov rcx,rax; jrcxz child
 *   call out after_clone; jmp back
 *   child: mov rcx,[rip->counting]; jrcxz out; mov rcx,WIRE_PCB_VADDR; mov rcx,[rcx]; jrcxz forked; jmp out
 *   forked: call out forked
 *   out: jmp back
 *   sigaction: call out catch; jmp back
 * In the child rcx and r11 are free, as after every system call. */
void rw_put_syscall_stub(const struct rw *w, uint8_t *at, uint64_t addr, uint64_t back)
{
    uint8_t *p = rw_put_bytes(at, "\x8d\x48\xf3\xe3\x61", 5);
    p = put_call_out(p, addr + 5, rw_blob_before_clone(w));
    p = rw_put_bytes(p, "\x0f\x05\x48\x89\xc1\xe3\x17", 7);
    p = put_call_out(p, addr + (uint64_t)(p - at), rw_blob_after_clone(w));
    rw_put_jmp(p, addr + (uint64_t)(p - at), back);
    p = rw_put_bytes(p + 5, "\x48\x8b\x0d", 3);
    p = rw_put32(p, w->rw_vaddr + RW_DATA_COUNTING - (addr + (uint64_t)(p - at) + 4));
    p = rw_put_bytes(p, "\xe3\x23\x48\xb9", 4);
    uint64_t pcb = WIRE_PCB_VADDR;
    memcpy(p, &pcb, 8);
    p = rw_put_bytes(p + 8, "\x48\x8b\x09\xe3\x02\xeb\x12", 7);
    p = put_call_out(p, addr + (uint64_t)(p - at), rw_blob_forked(w));
    rw_put_jmp(p, addr + (uint64_t)(p - at), back);
    p = put_call_out(p + 5, addr + (uint64_t)(p + 5 - at), rw_blob_catch(w));
    rw_put_jmp(p, addr + (uint64_t)(p - at), back);
}

void rw_syscall_stub_frames(const struct rw_fragment *f, struct rw_frames *out)
{
    static const uint8_t pushed[][2] = {{10, 128}, {23, 0}, {35, 128},  {48, 0},
                                        {84, 128}, {97, 0}, {107, 128}, {120, 0}};
    for (size_t k = 0; k < ARRAY_LEN(pushed); k++)
        rw_frame(out, f->off + pushed[k][0], pushed[k][1]);
}

/* mov eax,number; then as above, back to behind the original's system call */
void rw_put_hook_stub(const struct rw *w, uint8_t *at, const struct rw_hook *h)
{
    *at++ = 0xb8;
    at = rw_put32(at, h->number);
    rw_put_syscall_stub(w, at, h->stub + 5, h->addr + 7);
}
