/* SPDX-License-Identifier: Apache-2.0
 * --help, from the tables of commands and options. Plain text of at most 80 columns. */
#include "cmd/cmd.h"

#define WIDTH 80

void cmd_put_wrapped(struct strbuf *out, const char *text, size_t len, size_t at, size_t indent)
{
    bool is_first = true;
    for (const char *end = text + len; text < end;) {
        const char *blank = memchr(text, ' ', (size_t)(end - text));
        size_t word = (size_t)((blank ? blank : end) - text);
        if (!is_first && at + 1 + word > WIDTH) {
            str_printf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!is_first) {
            str_puts(out, " ");
            at++;
        }
        str_put(out, text, word);
        at += word;
        is_first = false;
        text += word + 1;
    }
    str_puts(out, "\n");
}

static void put_paragraphs(struct strbuf *out, const char *text)
{
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        if (text[0] == ' ')
            str_printf(out, "%.*s\n", (int)len, text);
        else
            cmd_put_wrapped(out, text, len, 0, 0);
    }
}

static void put_option(struct strbuf *out, const struct cmd_option *o)
{
    struct strbuf left = {0};
    if (o->letter)
        str_printf(&left, "  -%c, --%s", o->letter, o->name);
    else
        str_printf(&left, "      --%s", o->name);
    if (o->value)
        str_printf(&left, " %s", o->value);
    if (left.len > 22)
        str_printf(out, "%s\n%24s", left.data, "");
    else
        str_printf(out, "%-24s", left.data);
    cmd_put_wrapped(out, o->text, strlen(o->text), 24, 24);
    str_free(&left);
}

static void put_commands(struct strbuf *out, const char *group)
{
    size_t len = group ? strlen(group) : 0;
    for (size_t i = 0; i < CMD_ID_COUNT; i++) {
        const struct cmd_command *c = &cmd_commands[i];
        if (group && (strncmp(c->name, group, len) != 0 || c->name[len] != ' '))
            continue;
        str_printf(out, "  %-16s", c->name);
        cmd_put_wrapped(out, c->summary, strlen(c->summary), 18, 18);
    }
}

void cmd_help_one(const struct cmd_command *c, struct strbuf *out)
{
    str_printf(out, "usage: mtool %s [OPTIONS]%s%s\n\n", c->name, c->arguments[0] ? " " : "", c->arguments);
    put_paragraphs(out, c->text);
    str_puts(out, "\noptions:\n");
    for (int common = 0; common < 2; common++)
        for (size_t i = 0; i < cmd_option_count; i++)
            if (cmd_options[i].commands & (uint64_t)1 << c->id && (cmd_options[i].commands == CMD_ALL) == common)
                put_option(out, &cmd_options[i]);
}

void cmd_help_group(const char *word, struct strbuf *out)
{
    str_printf(out, "usage: mtool %s COMMAND [OPTIONS] ARGUMENTS\n\n", word);
    for (size_t i = 0; i < cmd_group_count; i++)
        if (strcmp(cmd_groups[i].word, word) == 0)
            str_printf(out, "mtool %s: %s.\n\n", word, cmd_groups[i].summary);
    str_puts(out, "commands:\n");
    put_commands(out, word);
    str_printf(out, "\n'mtool %s COMMAND --help' explains one.\n", word);
}

void cmd_help_all(struct strbuf *out)
{
    int used;
    bool has_run = cmd_find((const char *const[]){"run", NULL}, 1, &used) != NULL;
    str_puts(out, "usage: mtool COMMAND [OPTIONS] ARGUMENTS\n");
    if (has_run)
        str_puts(out, "       mtool ./PROGRAM ARGUMENTS        the same as: mtool run -- ./PROGRAM ARGUMENTS\n");
    str_puts(out, "\nFinds where memory costs a program time, without hardware counters and without\nrecompiling "
                  "it.\n\ncommands:\n");
    put_commands(out, NULL);
    str_puts(out, "\n'mtool COMMAND --help' or 'man mtool-COMMAND' explains one.\n");
}

void cmd_help_warning(const struct cmd_warning *w, struct strbuf *out)
{
    const char *const parts[][2] = {{"meaning: ", w->meaning}, {"cause: ", w->cause}, {"remedy: ", w->remedy}};
    str_printf(out, "The warning '%s'\n", w->id);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        str_printf(out, "\n%s", parts[i][0]);
        cmd_put_wrapped(out, parts[i][1], strlen(parts[i][1]), strlen(parts[i][0]), 0);
    }
}
