/* SPDX-License-Identifier: Apache-2.0
 *
 * symbols: functions of a program or library by the symbol table that was taken off it and kept with its debug
 * information. What the file itself still has is no matter of this.
 */
#include "debug/debug.h"

#include <gelf.h>

static void take_table(Elf *elf, Elf_Scn *section, const GElf_Shdr *head, debug_symbol_fn take, void *ctx)
{
    Elf_Data *data = elf_getdata(section, NULL);
    GElf_Sym s;
    for (int i = 0; data && gelf_getsym(data, i, &s); i++) {
        unsigned type = GELF_ST_TYPE(s.st_info);
        const char *name = elf_strptr(elf, head->sh_link, s.st_name);
        if (s.st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC) && name && *name)
            take(ctx, s.st_value, name);
    }
}

void debug_symbols_each(const char *path, const char *root, debug_symbol_fn take, void *ctx)
{
    struct debug_file f;
    if (!debug_file_open(path, root, &f))
        return;
    Elf *elf = dwarf_getelf(f.dwarf);
    GElf_Shdr head;
    for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s))
        if (gelf_getshdr(s, &head) && head.sh_type == SHT_SYMTAB)
            take_table(elf, s, &head, take, ctx);
    debug_file_close(&f);
}
