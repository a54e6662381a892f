/* SPDX-License-Identifier: Apache-2.0
 *
 * brand: what this processor calls itself, as programs see it. A kernel may know it by another name: hypervisors hide
 * the one or the other. */
#include <cpuid.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    uint32_t r[13] = {0};
    if (__get_cpuid_max(0x80000000u, NULL) < 0x80000004u)
        return puts("unknown x86-64") < 0;
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    char *name = (char *)r + strspn((char *)r, " ");
    for (size_t n = strlen(name); n && name[n - 1] == ' '; n--)
        name[n - 1] = 0;
    return puts(name) < 0;
}
