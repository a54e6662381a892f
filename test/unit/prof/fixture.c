/* SPDX-License-Identifier: Apache-2.0
 * A program that is only read: code with known source lines and inlining, and loops in assembly whose time on a
 * described machine is known in closed form. */
__asm__(".text\n"
        /* chain: n turns of a multiplication that waits for the last one */
        ".globl chain\n.type chain, @function\nchain:\n.cfi_startproc\n"
        "  mov %rdi, %rcx\n"
        "1: imul %rax, %rax\n  dec %rcx\n  jnz 1b\n"
        "  ret\n.cfi_endproc\n.size chain, .-chain\n"
        /* leaf: two such multiplications; caller: n calls of it */
        ".globl leaf\n.type leaf, @function\nleaf:\n.cfi_startproc\n"
        "  imul %rax, %rax\n  imul %rax, %rax\n  ret\n.cfi_endproc\n.size leaf, .-leaf\n"
        ".globl caller\n.type caller, @function\ncaller:\n.cfi_startproc\n"
        "  mov %rdi, %rcx\n"
        "1: call leaf\n  dec %rcx\n  jnz 1b\n"
        "  ret\n.cfi_endproc\n.size caller, .-caller\n"
        /* reach: n turns of loads by a register, near and far, by the same one changed, of the frame, of a variable */
        ".globl reach\n.type reach, @function\nreach:\n.cfi_startproc\n"
        "  mov %rsi, %rcx\n"
        "1: mov 8(%rdi), %rax\n  mov 16(%rdi), %rdx\n  mov 256(%rdi), %rdx\n  add $8, %rdi\n"
        "  mov 8(%rdi), %rdx\n  mov (%rsp), %rdx\n  mov reached(%rip), %rdx\n  dec %rcx\n  jnz 1b\n"
        "  ret\n.cfi_endproc\n.size reach, .-reach\n");

long reached = 1;

long far_leaf(long x); /* in the library */
long far_call(long x);
__attribute__((noinline)) long far_call(long x) { return far_leaf(x) + 1; }

long chain(long n);
long caller(long n);
long sum_all(const long *a, long rows, long n);

#line 100 "fixture-lines.c"
static inline __attribute__((always_inline)) long sum_row(const long *row, long n)
{
    long s = 0;
    for (long i = 0; i < n; i++)
        s = s * 3 + row[i];
    return s;
}

__attribute__((noinline)) long sum_all(const long *a, long rows, long n)
{
    long s = 0;
    for (long r = 0; r < rows; r++)
        s ^= sum_row(a + r * n, n) + r;
    return s;
}

int main(int argc, char **argv)
{
    static long a[100];
    (void)argv;
    return (int)(chain(argc) + far_call(argc) + caller(argc) + sum_all(a, 10, argc));
}
