/* SPDX-License-Identifier: Apache-2.0
 * The command line to struct cmd_args, by the tables of commands and options. Refuses what it does not know and names
 * the nearest thing that it knows; never guesses, never abbreviates. */
#include "cmd/cmd.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { PART_MAX = 1 << 20 };

struct parser {
    struct cmd_args *out;
    const char *const *words; /* what is still unread, NULL-terminated */
    const char *who;          /* "report: " before messages, "" while the command is not known */
    const char *usage;        /* "mtool report" */
};

/* ---- the nearest word ---- */

struct nearest {
    const char *typed, *best;
    unsigned best_distance;
};

static void consider(struct nearest *n, const char *candidate)
{
    unsigned d = str_distance(n->typed, candidate);
    if (strncmp(n->typed, candidate, strlen(n->typed)) == 0)
        d = 1; /* an abbreviation */
    if (d < n->best_distance) {
        n->best = candidate;
        n->best_distance = d;
    }
}

static struct nearest nearest_init(const char *typed)
{
    size_t len = strlen(typed);
    return (struct nearest){typed, NULL, (unsigned)(len < 6 ? 3 : len / 3 + 2)};
}

/* ---- commands ---- */

static bool first_word_is(const struct cmd_command *c, const char *word)
{
    size_t len = strlen(word);
    return strncmp(c->name, word, len) == 0 && c->name[len] == ' ';
}

bool cmd_is_group(const char *word)
{
    for (size_t i = 0; i < CMD_ID_COUNT; i++)
        if (first_word_is(&cmd_commands[i], word))
            return true;
    return false;
}

const struct cmd_command *cmd_find(const char *const *words, int count, int *used)
{
    for (size_t i = 0; i < CMD_ID_COUNT && count > 0; i++) {
        const struct cmd_command *c = &cmd_commands[i];
        *used = 1;
        if (strcmp(c->name, words[0]) == 0)
            return c;
        *used = 2;
        if (count > 1 && first_word_is(c, words[0]) && strcmp(c->name + strlen(words[0]) + 1, words[1]) == 0)
            return c;
    }
    *used = 0;
    return NULL;
}

static int unknown_command(const char *const *words)
{
    bool in_group = cmd_is_group(words[0]);
    const char *typed = in_group ? words[1] : words[0];
    if (!typed)
        return diag_error("%s: say what; 'mtool %s --help' lists the choice", words[0], words[0]);
    struct nearest n = nearest_init(typed);
    for (size_t i = 0; i < CMD_ID_COUNT; i++) {
        const char *name = cmd_commands[i].name;
        if (!in_group)
            consider(&n, name);
        else if (first_word_is(&cmd_commands[i], words[0]))
            consider(&n, strchr(name, ' ') + 1);
    }
    const char *group = in_group ? words[0] : "", *blank = in_group ? " " : "";
    if (n.best)
        return diag_error("there is no command '%s%s%s'; did you mean '%s%s%s'?", group, blank, typed, group, blank,
                          n.best);
    return diag_error("there is no command '%s%s%s'; 'mtool %s%s--help' lists them", group, blank, typed, group, blank);
}

/* ---- options ---- */

static bool takes(const struct cmd_command *c, const struct cmd_option *o)
{
    return c ? (o->commands & (uint64_t)1 << c->id) != 0 : o->commands == CMD_ALL;
}

static const struct cmd_option *find_option(const struct cmd_command *c, const char *name, size_t len, char letter)
{
    for (size_t i = 0; i < cmd_option_count; i++) {
        const struct cmd_option *o = &cmd_options[i];
        bool is_it = letter ? o->letter == letter : strlen(o->name) == len && memcmp(o->name, name, len) == 0;
        if (is_it && takes(c, o))
            return o;
    }
    return NULL;
}

static int unknown_option(const struct parser *p, const char *word, size_t len)
{
    char *typed = arena_strndup(p->out->arena, word, len);
    struct nearest n = nearest_init(typed);
    for (size_t i = 0; i < cmd_option_count; i++)
        if (word[1] == '-' && takes(p->out->command, &cmd_options[i]))
            consider(&n, arena_printf(p->out->arena, "--%s", cmd_options[i].name));
    if (n.best)
        return diag_error("%sthere is no option '%s'; did you mean '%s'?", p->who, typed, n.best);
    return diag_error("%sthere is no option '%s'; '%s --help' lists them", p->who, typed, p->usage);
}

static int set_choice(const struct parser *p, const struct cmd_option *o, const char *value, unsigned *field)
{
    size_t len = strlen(value);
    unsigned index = 0;
    for (const char *w = o->value; *w; index++) {
        size_t n = strcspn(w, "|");
        if (n == len && memcmp(w, value, len) == 0) {
            *field = index;
            return 0;
        }
        w += n + (w[n] == '|');
    }
    return diag_error("%s--%s cannot be '%s'; it is one of %s", p->who, o->name, value, o->value);
}

static int set_number(const struct parser *p, const struct cmd_option *o, const char *value, uint64_t *field)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || n == 0)
        return diag_error("%s--%s needs a whole number of 1 or more, not '%s'", p->who, o->name, value);
    *field = n;
    return 0;
}

static int set_real(const struct parser *p, const struct cmd_option *o, const char *value, double *field)
{
    char *end;
    double x = strtod(value, &end);
    if (end == value || *end || !isfinite(x) || x <= 0)
        return diag_error("%s--%s needs a number above 0, not '%s'", p->who, o->name, value);
    *field = x;
    return 0;
}

static int set_part(const struct parser *p, const struct cmd_option *o, const char *value, uint64_t *field)
{
    bool is_part = strncmp(value, "1/", 2) == 0 && value[2] >= '1' && value[2] <= '9';
    char *end = NULL;
    unsigned long n = is_part ? strtoul(value + 2, &end, 10) : 0;
    const char * or = strchr(o->value, '|');
    if (or &&strcmp(value, or +1) == 0) {
        *field = 1;
        return 0;
    }
    if (!is_part || *end || n > PART_MAX)
        return diag_error("%s--%s needs one part of so many, as 1/16%s%s, not '%s'", p->who, o->name, or ? ", or " : "",
                          or ? or +1 : "", value);
    *field = n;
    return 0;
}

static void add_text(struct arena *a, struct cmd_texts *to, const char *value)
{
    const char **all = ARENA_ARRAY(a, const char *, to->count + 1);
    for (size_t i = 0; i < to->count; i++)
        all[i] = to->all[i];
    all[to->count] = value;
    *to = (struct cmd_texts){all, to->count + 1};
}

static int set_option(const struct parser *p, const struct cmd_option *o, const char *value)
{
    void *field = (char *)p->out + o->field;
    switch (o->kind) {
    case CMD_FLAG:
        *(bool *)field = true;
        return 0;
    case CMD_MORE:
        ++*(unsigned *)field;
        return 0;
    case CMD_TEXT:
        *(const char **)field = value;
        return 0;
    case CMD_TEXTS:
        add_text(p->out->arena, field, value);
        return 0;
    case CMD_NUMBER:
        return set_number(p, o, value, field);
    case CMD_REAL:
        return set_real(p, o, value, field);
    case CMD_PART:
        return set_part(p, o, value, field);
    case CMD_CHOICE:
        return set_choice(p, o, value, field);
    }
    return -1;
}

static bool needs_value(const struct cmd_option *o) { return o->kind != CMD_FLAG && o->kind != CMD_MORE; }

/* `given`: the value in the same word, NULL if none; else it is the next word. */
static int take_option(struct parser *p, const struct cmd_option *o, const char *given)
{
    if (!needs_value(o))
        return given ? diag_error("%s--%s takes no value", p->who, o->name) : set_option(p, o, NULL);
    if (!given)
        given = *p->words ? *p->words++ : NULL;
    if (!given)
        return diag_error("%s--%s needs a value: %s", p->who, o->name, o->value);
    return set_option(p, o, given);
}

static int parse_long(struct parser *p, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    const struct cmd_option *o = find_option(p->out->command, word + 2, len - 2, 0);
    return o ? take_option(p, o, equals ? equals + 1 : NULL) : unknown_option(p, word, len);
}

static int parse_letters(struct parser *p, const char *word)
{
    for (const char *s = word + 1; *s; s++) {
        const struct cmd_option *o = find_option(p->out->command, "", 0, *s);
        if (!o)
            return unknown_option(p, (char[]){'-', *s, 0}, 2);
        if (needs_value(o))
            return take_option(p, o, s[1] ? s + 1 : NULL);
        if (take_option(p, o, NULL) < 0)
            return -1;
    }
    return 0;
}

static bool is_option(const char *word) { return word[0] == '-' && word[1]; }

/* Options and arguments in any order; "--" ends the options, and so does the first argument of a CMD_TAIL command. */
static int parse_words(struct parser *p, bool stop_at_word)
{
    VEC(const char *) rest = {0};
    int rc = 0;
    bool only_arguments = false;
    while (rc == 0 && *p->words) {
        const char *word = *p->words;
        if (only_arguments || !is_option(word)) {
            if (stop_at_word)
                break;
            only_arguments |= (p->out->command->flags & CMD_TAIL) != 0;
            VEC_PUSH(&rest, word);
            p->words++;
            continue;
        }
        p->words++;
        if (strcmp(word, "--") == 0)
            only_arguments = true;
        else
            rc = word[1] == '-' ? parse_long(p, word) : parse_letters(p, word);
    }
    const char **copy = ARENA_ARRAY(p->out->arena, const char *, rest.len + 1);
    if (rest.len)
        memcpy(copy, rest.data, rest.len * sizeof *copy);
    p->out->rest = copy;
    p->out->rest_count = (int)rest.len;
    VEC_FREE(&rest);
    return rc;
}

static int check_count(const struct parser *p)
{
    const struct cmd_command *c = p->out->command;
    if (p->out->rest_count < c->min && c->flags & CMD_TAIL)
        return diag_error("%ssay which program to run: %s %s", p->who, p->usage, c->arguments);
    if (p->out->rest_count < c->min)
        return diag_error("%s%s is missing; '%s --help' explains", p->who, c->arguments, p->usage);
    if (c->max >= 0 && p->out->rest_count > c->max)
        return diag_error("%s'%s' is one argument too many; '%s --help' explains", p->who, p->out->rest[c->max],
                          p->usage);
    return 0;
}

static const char *quoted_line(struct arena *a, int argc, char **argv)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
    struct strbuf s = {0};
    for (int i = 0; i < argc; i++) {
        const char *w = i ? argv[i] : "mtool";
        str_puts(&s, i ? " " : "");
        if (*w && w[strspn(w, safe)] == 0) {
            str_puts(&s, w);
            continue;
        }
        str_puts(&s, "'");
        for (; *w; w++)
            *w == '\'' ? str_puts(&s, "'\\''") : str_put(&s, w, 1);
        str_puts(&s, "'");
    }
    const char *line = arena_strdup(a, s.data);
    str_free(&s);
    return line;
}

static int is_help_wanted(struct parser *p, const char *const *words)
{
    return words[0] && (strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0) && (p->out->help = true);
}

/* The words after mtool's own options: a command, or a program to run. */
static int parse_command(struct parser *p, const char **topic)
{
    int count = 0, used;
    while (p->words[count])
        count++;
    struct cmd_args *out = p->out;
    out->command = cmd_find(p->words, count, &used);
    if (!out->command && cmd_is_group(p->words[0]) && is_help_wanted(p, p->words + 1)) {
        *topic = p->words[0];
        return 1;
    }
    if (!out->command && strchr(p->words[0], '/')) {
        out->command = cmd_find((const char *const[]){"run", NULL}, 1, &used);
        used = 0;
    }
    if (!out->command)
        return unknown_command(p->words);
    p->words += used;
    p->who = arena_printf(out->arena, "%s: ", out->command->name);
    p->usage = arena_printf(out->arena, "mtool %s", out->command->name);
    if (parse_words(p, false) < 0)
        return -1;
    return out->help ? 1 : check_count(p);
}

int cmd_parse(int argc, char **argv, struct cmd_args *out, const char **topic)
{
    const char **words = ARENA_ARRAY(out->arena, const char *, argc + 1);
    for (int i = 1; i < argc; i++)
        words[i - 1] = argv[i];
    struct parser p = {out, words, "", "mtool"};
    out->line = quoted_line(out->arena, argc, argv);
    *topic = NULL;
    if (words[0] && strcmp(words[0], "--version") == 0)
        words[0] = "version";
    if (parse_words(&p, true) < 0)
        return -1;
    if (out->help)
        return 1;
    if (!*p.words)
        return diag_error("say what to do; 'mtool --help' lists the commands");
    return parse_command(&p, topic);
}
