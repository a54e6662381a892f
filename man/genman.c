/* SPDX-License-Identifier: Apache-2.0
 * The tables of commands, options and warnings to one page of the manual, on standard output. Run by the build: genman
 * PAGE, where PAGE is mtool or mtool-WORD (all commands that begin with WORD); or warnings, which is doc/warnings.md.
 */
#include "cmd/cmd.h"

/* ---- roff ---- */

static void put_roff(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (i == 0 && (text[0] == '.' || text[0] == '\''))
            fputs("\\&", stdout);
        if (text[i] == '\\')
            fputs("\\e", stdout);
        else if (text[i] == '-')
            fputs("\\-", stdout);
        else
            putchar(text[i]);
    }
}

static void put_line(const char *text)
{
    put_roff(text, strlen(text));
    putchar('\n');
}

/* As in commands.def: paragraphs between empty lines; lines that begin with a blank are shown as they are. */
static void put_paragraphs(const char *text)
{
    bool is_example = false;
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        bool is_blank = text[0] == ' ';
        if (is_blank != is_example)
            puts(is_blank ? ".RS 4\n.nf" : ".fi\n.RE");
        is_example = is_blank;
        if (len == 0) {
            puts(".PP");
            continue;
        }
        size_t skip = is_blank ? strspn(text, " ") : 0;
        put_roff(text + skip, len - skip);
        putchar('\n');
    }
    if (is_example)
        puts(".fi\n.RE");
}

static void put_option(const struct cmd_option *o)
{
    puts(".TP");
    if (o->letter)
        printf("\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", stdout);
    put_roff(o->name, strlen(o->name));
    fputs("\\fR", stdout);
    if (o->value) {
        fputs(" \\fI", stdout);
        put_roff(o->value, strlen(o->value));
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put_line(o->text);
}

/* A command's own options. */
static void put_options(const struct cmd_command *c)
{
    for (size_t i = 0; i < cmd_option_count; i++)
        if (cmd_options[i].commands & (uint64_t)1 << c->id && cmd_options[i].commands != CMD_ALL)
            put_option(&cmd_options[i]);
}

static void put_common_options(void)
{
    for (size_t i = 0; i < cmd_option_count; i++)
        if (cmd_options[i].commands == CMD_ALL)
            put_option(&cmd_options[i]);
}

static void put_synopsis(const struct cmd_command *c)
{
    puts(".PP");
    fputs(".B mtool ", stdout);
    put_line(c->name);
    fputs("[\\fIOPTIONS\\fR]", stdout);
    putchar(' ');
    put_line(c->arguments);
}

static void put_head(const char *page, const char *summary)
{
    fputs(".TH ", stdout);
    for (const char *s = page; *s; s++)
        putchar(*s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s);
    puts(" 1 \"\" \"mtool " MTOOL_VERSION "\" \"User Commands\"");
    puts(".SH NAME");
    fputs(page, stdout);
    fputs(" \\- ", stdout);
    put_line(summary);
}

static void put_status(bool has_tail, bool has_plain)
{
    puts(".SH EXIT STATUS");
    if (has_plain)
        puts(".TP\n0\nDone.\n.TP\n1\nThe job failed, or a check found something.");
    puts(".TP\n2\nThe command line is wrong, or the input cannot be used.");
    if (has_tail)
        puts(".TP\n125\nmtool itself failed.\n.TP\nof the program\nA command that runs a program ends as the program "
             "did, by the same status or signal.");
}

/* ---- pages ---- */

static bool begins_with(const struct cmd_command *c, const char *word)
{
    size_t len = strlen(word);
    return strncmp(c->name, word, len) == 0 && (c->name[len] == 0 || c->name[len] == ' ');
}

static const char *group_summary(const char *word)
{
    for (size_t i = 0; i < cmd_group_count; i++)
        if (strcmp(cmd_groups[i].word, word) == 0)
            return cmd_groups[i].summary;
    return NULL;
}

static int put_word_page(const char *page, const char *word)
{
    const struct cmd_command *of[CMD_ID_COUNT];
    size_t count = 0;
    bool has_tail = false, has_plain = false;
    for (size_t i = 0; i < CMD_ID_COUNT; i++)
        if (begins_with(&cmd_commands[i], word))
            of[count++] = &cmd_commands[i];
    if (!count)
        return 1;
    const char *summary = group_summary(word);
    put_head(page, summary ? summary : of[0]->summary);
    puts(".SH SYNOPSIS");
    for (size_t i = 0; i < count; i++)
        put_synopsis(of[i]);
    puts(".SH DESCRIPTION");
    for (size_t i = 0; i < count; i++) {
        if (summary) {
            fputs(".SS mtool ", stdout);
            put_line(of[i]->name);
        }
        put_paragraphs(of[i]->text);
        if (!summary)
            puts(".SH OPTIONS");
        put_options(of[i]);
        has_tail |= (of[i]->flags & CMD_TAIL) != 0;
        has_plain |= !(of[i]->flags & CMD_TAIL);
    }
    if (summary)
        puts(".SH OPTIONS OF ALL");
    put_common_options();
    put_status(has_tail, has_plain);
    puts(".SH SEE ALSO\n.BR mtool (1)");
    return 0;
}

static bool has_run(void)
{
    for (size_t i = 0; i < CMD_ID_COUNT; i++)
        if (strcmp(cmd_commands[i].name, "run") == 0)
            return true;
    return false;
}

static int put_main_page(void)
{
    put_head("mtool", "find where memory costs a program time");
    puts(".SH SYNOPSIS\n.B mtool\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR] \\fIARGUMENTS\\fR");
    if (has_run())
        puts(".PP\n.B mtool\n\\fI./PROGRAM\\fR \\fIARGUMENTS\\fR");
    puts(".SH DESCRIPTION");
    puts("Tells where memory costs a program time, without hardware counters and without recompiling it.");
    puts(".SH COMMANDS");
    for (size_t i = 0; i < CMD_ID_COUNT; i++) {
        fputs(".TP\n.B ", stdout);
        put_line(cmd_commands[i].name);
        put_line(cmd_commands[i].summary);
    }
    puts(".SH OPTIONS\nEvery command takes these.");
    put_common_options();
    put_status(has_run(), true);
    puts(".SH FILES\n.TP\n\\fIPROGRAM\\fR.mtool\nA profile: one SQLite file a run, never overwritten unless asked to.");
    puts(".TP\n$XDG_CACHE_HOME/mtool, ~/.cache/mtool\nWhat need not be made twice. It can be deleted at any time; "
         "what was configured under mtool ld is then to be configured anew.");
    return 0;
}

/* ---- doc/warnings.md ---- */

static int put_warnings(void)
{
    puts("# Warnings\n\nEvery warning of mtool ends with its id in brackets. `mtool help ID` prints the same as this "
         "page. "
         "The page is made\nfrom `src/cmd/warnings.def` and `src/result/warnings.def` by `genman warnings`.");
    for (size_t i = 0; i < cmd_warning_count; i++) {
        const struct cmd_warning *w = &cmd_warnings[i];
        printf("\n## %s\n\n%s\n\n*Cause.* %s\n\n*Remedy.* %s\n", w->id, w->meaning, w->cause, w->remedy);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const char prefix[] = "mtool-";
    if (argc == 2 && strcmp(argv[1], "mtool") == 0)
        return put_main_page();
    if (argc == 2 && strcmp(argv[1], "warnings") == 0)
        return put_warnings();
    if (argc == 2 && strncmp(argv[1], prefix, sizeof prefix - 1) == 0)
        return put_word_page(argv[1], argv[1] + sizeof prefix - 1);
    fputs("usage: genman mtool|mtool-WORD|warnings\n", stderr);
    return 2;
}
