/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd: the command line. One file per command; the commands and their options are tables (commands.def, options.def)
 * that also make --help and the man pages. To add a command: a row in commands.def, its options in options.def, fields
 * in struct cmd_args if they are new, and a file with `int cmd_ID(const struct cmd_args *a)` in meson.build.
 *
 *   run/       commands that start the user's program     profiles/  commands that read what a run left
 *   machine/   commands about the processor               code/      commands about an ELF file
 *   monster/   commands about a whole system
 *   ld/        links, and what they made counts
 */
#ifndef MTOOL_CMD_H
#define MTOOL_CMD_H

#include "base/base.h"
#include "report/report.h" /* of it: the list of what can be exported */

/* What main ends with. Commands with CMD_TAIL end with the program's own status, or CMD_SELF_FAILED. */
enum { CMD_DONE = 0, CMD_FAILED = 1, CMD_UNUSABLE = 2, CMD_SELF_FAILED = 125 };

/* ---- table.c: the .def files as data; knows no command's function, so that the man page maker can use it ---- */

enum cmd_id {
#define COMMAND(id, name, arguments, min, max, flags, summary, text) CMD_ID_##id,
#include "cmd/commands.def"
#undef COMMAND
    CMD_ID_COUNT
};
#define CMD_BIT(id) ((uint64_t)1 << CMD_ID_##id)
#define CMD_ALL UINT64_MAX

enum cmd_flag { CMD_TAIL = 1 };

struct cmd_command { /* a row of commands.def */
    enum cmd_id id;
    const char *name, *arguments;
    int min, max; /* arguments; most -1: any number */
    unsigned flags;
    const char *summary, *text;
};
extern const struct cmd_command cmd_commands[CMD_ID_COUNT];

struct cmd_group { /* a row of groups.def */
    const char *word, *summary;
};
extern const struct cmd_group cmd_groups[];
extern const size_t cmd_group_count;

enum cmd_kind { CMD_FLAG, CMD_MORE, CMD_TEXT, CMD_TEXTS, CMD_NUMBER, CMD_REAL, CMD_PART, CMD_CHOICE };

struct cmd_texts { /* of an option that may be given several times, in their order */
    const char *const *all;
    size_t count;
};

struct cmd_option { /* a row of options.def */
    uint64_t commands;
    const char *name;
    char letter;
    enum cmd_kind kind;
    size_t field; /* offset in struct cmd_args */
    const char *value, *text;
};
extern const struct cmd_option cmd_options[];
extern const size_t cmd_option_count;

/* ---- warnings.c ---- */

struct cmd_warning { /* a row of warnings.def or result/warnings.def */
    const char *id, *meaning, *cause, *remedy;
};
extern const struct cmd_warning cmd_warnings[];
extern const size_t cmd_warning_count;
const struct cmd_warning *cmd_warning_find(const char *id); /* NULL if there is none */

/* What the user typed. A field is zero if its option was not given. */
struct cmd_args {
    const struct cmd_command *command;
    const char *const
        *rest; /* arguments that are no options, NULL-terminated; of CMD_TAIL the program and its arguments */
    int rest_count;
    const char *line; /* the whole command line, quoted as for a shell, for the profile */
    const char *output, *machine, *fail_if;
    const char *calibrate_as, *tape_record, *tape_replay;
    const char *html, *source_path; /* of report */
    uint64_t runs;
    double hz;
    uint64_t baseline_threads;
    bool windows, quick, one_run, spy, unfiltered, blocks, follow, no_probes, yes;
    const char *probe, *unprobed; /* objects that are to be probed, or not, with commas between */
    bool what_if;
    bool force, poison, all_blocks, all_probes, by_thread, plan_count, plan_none, plan_trace, plan_references;
    bool help, quiet, json, all;
    unsigned verbose;
    uint64_t top, columns;
    uint64_t count, length, steps; /* of dump window */
    double interval;
    bool check, heads;
    const char *module;                                   /* of export */
    const char *link;                                     /* of ld */
    const char *tool;                                     /* likewise; of ld-report */
    unsigned overhead;                                    /* of ld-report */
    bool clocks, leaves, sample_short;                    /* of ld */
    uint64_t windows_count, window_size, windows_at_once; /* of ld-report */
    bool private_memory;                                  /* of ld */
    bool lines;                                           /* of blocks, ld-report */
    const char *source;                                   /* likewise */
    const char *counted;                                  /* promote: the program that was counted; NULL none */
    const char *trace;                                    /* of spy; of ld-trace what it reads */
    uint64_t sets;                                        /* of spy and run: the N of 1/N */
    uint64_t sample;                                      /* likewise; 1: all; 0: not said */
    uint64_t sample_length;
    bool sample_evenly;
    struct cmd_texts caches, allocators, idioms;
    struct cmd_texts files; /* of monster run, as memory, limit, is_virtual and of are */
    uint64_t memory;
    double limit; /* seconds; of monster live too, as are the next five, alone */
    uint64_t pid;
    bool system;
    struct cmd_texts without;
    const char *program;
    bool analyser;   /* of monster run too */
    bool is_virtual; /* of monster run, and the next two */
    struct cmd_texts programs;
    const char *maps, *place, *marks;
    unsigned of;
    const char *disk;                           /* of monster run */
    bool calls, variables;                      /* likewise */
    const char *kernel, *figure, *profile;      /* of monster prepare and report */
    const char *order, *references;             /* of monster report */
    unsigned linker;                            /* enum monster_linker; of export the same, without bfd */
    unsigned form;                              /* of trace, and of ld-trace */
    uint64_t filter;                            /* of trace */
    unsigned by, sort;                          /* enums of struct report_options */
    unsigned value;                             /* that of struct export_options */
    const char *export_to[REPORT_EXPORT_COUNT]; /* NULL: not wanted */
    struct arena *arena;                        /* owns the above */
};

/* ---- parse.c ---- */

/* argv as main gets it into *out. Returns 0 if a command is to be run; 1 if there is nothing left to do but help
 * (out->help set, command NULL: of mtool as a whole, or *topic: of the commands that begin with that word);
 * -1 after one line. out->command is set as soon as it is known, also on -1. */
int cmd_parse(int argc, char **argv, struct cmd_args *out, const char **topic);
/* The command whose name is these words, NULL if there is none; *used becomes the number of words taken. */
const struct cmd_command *cmd_find(const char *const *words, int count, int *used);
bool cmd_is_group(const char *word); /* the first word of two-word commands */

/* ---- help.c ---- */

void cmd_help_all(struct strbuf *out);                     /* of mtool as a whole */
void cmd_help_group(const char *word, struct strbuf *out); /* of the commands that begin with WORD */
void cmd_help_one(const struct cmd_command *c, struct strbuf *out);
void cmd_help_warning(const struct cmd_warning *w, struct strbuf *out);
/* Puts `len` bytes of text and a newline, broken at blanks to 80 columns; the first line goes on at column `at`,
 * further ones begin at `indent`. */
void cmd_put_wrapped(struct strbuf *out, const char *text, size_t len, size_t at, size_t indent);

/* ---- output.c ---- */

/* Writes and flushes standard output. A reader that went away ends the process quietly; any other failure is one line.
 * Returns CMD_DONE or CMD_FAILED. Frees out. */
int cmd_print(struct strbuf *out);
bool cmd_has_colour(int fd); /* a terminal that takes it, and NO_COLOR is not set */
unsigned cmd_columns(const struct cmd_args *a,
                     int fd); /* --columns, else the terminal's width, else COLUMNS, else 80 */

/* ---- place.c: files that the user names for what a command writes ---- */

/* Before anything is written. 0, or -1 after one line. `profile`: the file that is read. */
int cmd_place_check(const char *command, const char *path, const char *profile, bool force);
/* CMD_DONE, or after one line CMD_UNUSABLE (nothing can be written there) or CMD_FAILED. Frees text. */
int cmd_place_write(const char *command, const char *path, struct strbuf *text);

/* ---- report.c ---- */

/* Before anything is read: what cannot be done with --html and the options around it. 0, or -1 after one line. */
int cmd_html_check(const char *command, const struct cmd_args *a, const char *profile);
/* The text or JSON of mtool report on standard output, as the options say. Returns as cmd_print. */
int cmd_report_print(const struct cmd_args *a, const struct prof_result *r);

/* ---- rank.c ---- */

struct cmd_rank {
    uint32_t rank, count; /* of how many; ID_NONE not known, or no parallel job */
};
struct cmd_rank cmd_rank_of_job(void);
/* The path with the rank in place of each %r; path may be NULL. 0, or -1 after one line: there is no rank. */
int cmd_rank_in_path(struct arena *a, const char *path, struct cmd_rank r, const char **out);

/* ---- main.c and one file per command ---- */
#define COMMAND(id, name, arguments, min, max, flags, summary, text) int cmd_##id(const struct cmd_args *a);
#include "cmd/commands.def"
#undef COMMAND

#endif
