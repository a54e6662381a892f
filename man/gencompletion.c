/* SPDX-License-Identifier: Apache-2.0
 * The tables of commands and options to the completion for a shell, on standard output. Run by the build:
 * gencompletion bash|zsh|fish. */
#include "cmd/cmd.h"

static bool begins_with(const struct cmd_command *c, const char *word)
{
    size_t len = strlen(word);
    return strncmp(c->name, word, len) == 0 && (c->name[len] == 0 || c->name[len] == ' ');
}

static bool takes(const struct cmd_command *c, const struct cmd_option *o)
{
    return (o->commands & (uint64_t)1 << c->id) != 0;
}

static bool is_repeated(size_t command, size_t len)
{
    for (size_t i = 0; i < command; i++)
        if (strncmp(cmd_commands[i].name, cmd_commands[command].name, len) == 0 &&
            strchr(" ", cmd_commands[i].name[len]))
            return true;
    return false;
}

static void put_first_words(void)
{
    for (size_t i = 0; i < CMD_ID_COUNT; i++) {
        size_t len = strcspn(cmd_commands[i].name, " ");
        if (!is_repeated(i, len))
            printf("%.*s ", (int)len, cmd_commands[i].name);
    }
}

static void put_second_words(const char *word)
{
    for (size_t i = 0; i < CMD_ID_COUNT; i++)
        if (begins_with(&cmd_commands[i], word) && cmd_commands[i].name[strlen(word)])
            printf("%s ", cmd_commands[i].name + strlen(word) + 1);
}

static void put_bash(void)
{
    puts("# Completion of mtool's commands and options, made from its tables by the build.\n_mtool()\n{\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} at=1 words=\n    case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in");
    for (size_t i = 0; i < CMD_ID_COUNT; i++) {
        const struct cmd_command *c = &cmd_commands[i];
        printf("    '%s'%s) at=%d words='", c->name, strchr(c->name, ' ') ? "" : "\\ *", strchr(c->name, ' ') ? 2 : 1);
        for (size_t k = 0; k < cmd_option_count; k++)
            if (takes(c, &cmd_options[k]))
                printf("--%s ", cmd_options[k].name);
        printf("' ;;\n");
    }
    fputs("    esac\n    if [ \"$COMP_CWORD\" = 1 ]; then\n        words='", stdout);
    put_first_words();
    puts("'\n    elif [ \"$COMP_CWORD\" = 2 ]; then\n        case ${COMP_WORDS[1]} in");
    for (size_t i = 0; i < cmd_group_count; i++) {
        printf("        %s) at=2 words='", cmd_groups[i].word);
        put_second_words(cmd_groups[i].word);
        puts("' ;;");
    }
    puts("        esac\n    fi\n"
         "    if [ \"$COMP_CWORD\" -le \"$at\" ] || [ \"${cur#-}\" != \"$cur\" ]; then\n"
         "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "    else\n        COMPREPLY=($(compgen -f -- \"$cur\"))\n    fi\n}\ncomplete -o filenames -F _mtool mtool");
}

/* ---- what zsh and fish share ---- */

/* In single quotes of a shell; each of `special` with a backslash before it. */
static void put_quoted(const char *text, const char *special, bool is_fish)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs(is_fish ? "\\'" : "'\\''", stdout);
        else if (*text == '\\')
            fputs("\\\\", stdout);
        else if (strchr(special, *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static bool is_file(const struct cmd_option *o)
{
    return strcmp(o->value, "FILE") == 0 || strcmp(o->value, "OUT") == 0 || strcmp(o->value, "FOLDER") == 0;
}

static void put_choices(const char *choices)
{
    for (; *choices; choices++)
        putchar(*choices == '|' ? ' ' : *choices);
}

static bool in_group(const struct cmd_command *c) { return strchr(c->name, ' ') != NULL; }

/* ---- zsh ---- */

static void put_zsh_command(const char *word, const char *summary)
{
    printf("        '%s:", word);
    put_quoted(summary, ":", false);
    puts("'");
}

static void put_zsh_value(const struct cmd_option *o)
{
    printf(":%s:", o->kind == CMD_CHOICE ? o->name : o->value);
    if (o->kind == CMD_CHOICE) {
        putchar('(');
        put_choices(o->value);
        putchar(')');
    } else if (is_file(o)) {
        fputs(strcmp(o->value, "FOLDER") == 0 ? "_files -/" : "_files", stdout);
    }
}

static void put_zsh_option(const struct cmd_option *o)
{
    bool has_value = o->kind != CMD_FLAG && o->kind != CMD_MORE;
    const char *equals = has_value ? "=" : "";
    fputs("            ", stdout);
    if (o->letter)
        printf("'(-%c --%s)'{-%c%s,--%s%s}'[", o->letter, o->name, o->letter, has_value ? "+" : "", o->name, equals);
    else
        printf("'--%s%s[", o->name, equals);
    put_quoted(o->text, "[]:", false);
    putchar(']');
    if (has_value)
        put_zsh_value(o);
    puts("' \\");
}

static void put_zsh_arguments(const struct cmd_command *c)
{
    printf("        '%s')\n        _arguments -s -S \\\n", c->name);
    for (size_t k = 0; k < cmd_option_count; k++)
        if (takes(c, &cmd_options[k]))
            put_zsh_option(&cmd_options[k]);
    puts(c->flags & CMD_TAIL ? "            '*::program: _normal' ;;" : "            '*:file:_files' ;;");
}

static void put_zsh_list(const char *variable, const char *group)
{
    printf("    %s=(\n", variable);
    for (size_t i = 0; i < CMD_ID_COUNT; i++) {
        const struct cmd_command *c = &cmd_commands[i];
        if (group ? in_group(c) && begins_with(c, group) : !in_group(c))
            put_zsh_command(group ? strchr(c->name, ' ') + 1 : c->name, c->summary);
    }
    for (size_t i = 0; !group && i < cmd_group_count; i++)
        put_zsh_command(cmd_groups[i].word, cmd_groups[i].summary);
    puts("    )");
}

static void put_zsh(void)
{
    puts(
        "#compdef mtool\n# Completion of mtool's commands and options, made from its tables by the build.\n_mtool() {\n"
        "    local -a commands\n    local name=$words[2]\n    if (( CURRENT == 2 )); then");
    put_zsh_list("commands", NULL);
    puts("        _describe command commands\n        _files\n        return\n    fi");
    for (size_t i = 0; i < cmd_group_count; i++) {
        printf("    if [[ $name == %s ]] && (( CURRENT == 3 )); then\n", cmd_groups[i].word);
        put_zsh_list("commands", cmd_groups[i].word);
        puts("        _describe command commands\n        return\n    fi");
        printf("    [[ $name == %s ]] && name=\"$name $words[3]\" && shift words && (( CURRENT-- ))\n",
               cmd_groups[i].word);
    }
    puts("    shift words\n    (( CURRENT-- ))\n    case $name in");
    for (size_t i = 0; i < CMD_ID_COUNT; i++)
        put_zsh_arguments(&cmd_commands[i]);
    puts("        *) _normal ;;\n    esac\n}\nif [[ $funcstack[1] == _mtool ]]; then _mtool \"$@\"; else compdef "
         "_mtool mtool; fi");
}

/* ---- fish ---- */

static void put_fish_condition(const struct cmd_command *c)
{
    size_t len = strcspn(c->name, " ");
    printf("complete -c mtool -n '__fish_seen_subcommand_from %.*s", (int)len, c->name);
    if (c->name[len])
        printf("; and __fish_seen_subcommand_from %s", c->name + len + 1);
    putchar('\'');
}

static void put_fish_option(const struct cmd_command *c, const struct cmd_option *o)
{
    put_fish_condition(c);
    printf(" -l %s", o->name);
    if (o->letter)
        printf(" -s %c", o->letter);
    if (o->kind == CMD_CHOICE) {
        fputs(" -x -a '", stdout);
        put_choices(o->value);
        putchar('\'');
    } else if (o->kind != CMD_FLAG && o->kind != CMD_MORE) {
        fputs(is_file(o) ? " -r -F" : " -x", stdout);
    }
    fputs(" -d '", stdout);
    put_quoted(o->text, "", true);
    puts("'");
}

static void put_fish_word(const char *condition, const char *word, const char *summary)
{
    printf("complete -c mtool -n '%s' -f -a %s -d '", condition, word);
    put_quoted(summary, "", true);
    puts("'");
}

static void put_fish(void)
{
    puts("# Completion of mtool's commands and options, made from its tables by the build.");
    for (size_t i = 0; i < cmd_group_count; i++)
        put_fish_word("__fish_use_subcommand", cmd_groups[i].word, cmd_groups[i].summary);
    for (size_t i = 0; i < CMD_ID_COUNT; i++) {
        const struct cmd_command *c = &cmd_commands[i];
        char condition[100] = "__fish_use_subcommand";
        if (in_group(c))
            snprintf(condition, sizeof condition, "__fish_seen_subcommand_from %.*s", (int)strcspn(c->name, " "),
                     c->name);
        put_fish_word(condition, in_group(c) ? strchr(c->name, ' ') + 1 : c->name, c->summary);
    }
    for (size_t i = 0; i < CMD_ID_COUNT; i++)
        for (size_t k = 0; k < cmd_option_count; k++)
            if (takes(&cmd_commands[i], &cmd_options[k]))
                put_fish_option(&cmd_commands[i], &cmd_options[k]);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *shell;
        void (*put)(void);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    for (size_t i = 0; argc == 2 && i < ARRAY_LEN(shells); i++) {
        if (strcmp(argv[1], shells[i].shell) == 0) {
            shells[i].put();
            return 0;
        }
    }
    fputs("usage: gencompletion bash|zsh|fish\n", stderr);
    return 2;
}
