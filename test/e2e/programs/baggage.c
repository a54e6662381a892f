/* SPDX-License-Identifier: Apache-2.0
 *
 * baggage: reads its own file. Prints the content of its section .baggage, which is not mapped, then what stands behind
 * its section headers, then the last line of the file.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *part(FILE *f, long offset, size_t bytes)
{
    char *p = calloc(1, bytes + 1);
    if (!p || fseek(f, offset, offset < 0 ? SEEK_END : SEEK_SET) < 0 || fread(p, 1, bytes, f) != bytes)
        exit(3);
    return p;
}

int main(void)
{
    FILE *f = fopen("/proc/self/exe", "rb");
    if (!f)
        return 2;
    Elf64_Ehdr *eh = part(f, 0, sizeof *eh);
    Elf64_Shdr *sh = part(f, (long)eh->e_shoff, eh->e_shnum * sizeof *sh);
    char *names = part(f, (long)sh[eh->e_shstrndx].sh_offset, sh[eh->e_shstrndx].sh_size);
    for (int i = 0; i < eh->e_shnum; i++)
        if (strcmp(names + sh[i].sh_name, ".baggage") == 0)
            printf("section: %s\n", (char *)part(f, (long)sh[i].sh_offset, sh[i].sh_size));
    printf("behind: %s", (char *)part(f, (long)(eh->e_shoff + eh->e_shnum * sizeof *sh), 5));
    printf("end: %s", (char *)part(f, -5, 5));
    return 0;
}
