/* SPDX-License-Identifier: Apache-2.0
 * How often each line of a source was executed, in the form of gcov's listings. */
#include "cmd/ld/report.h"
#include "report/source.h"

enum { COUNT_WIDTH = 9 };

static void put_line(struct strbuf *out, const char *count, uint32_t line, const char *text)
{
    str_printf(out, "%*s:%5u:%s\n", COUNT_WIDTH, count, line, text);
}

static void put_head(const struct cmd_args *a, const struct ld_sources *all, const struct ld_source *s,
                     const struct source *text, struct strbuf *out)
{
    put_line(out, "-", 0, arena_printf(a->arena, "Source:%s", s->name));
    put_line(out, "-", 0, arena_printf(a->arena, "Runs:%zu", all->files));
    put_line(out, "-", 0,
             arena_printf(a->arena, "Lines executed:%.2f%% of %zu", 100.0 * (double)s->executed / (double)s->count,
                          s->count));
    if (text->path && file_changed_s(text->path) > file_changed_s(a->rest[0]))
        put_line(out, "-", 0, "Source is newer than program");
}

/* Lines without code too, where the source is found; behind its end as gcov has it. */
static void put_source(const struct cmd_args *a, const struct ld_sources *all, const struct ld_source *s,
                       struct strbuf *out)
{
    const struct source *text = source_read(a->arena, s->name, a->source_path, NULL);
    const struct ld_source_line *line = &all->lines.data[s->first], *end = line + s->count;
    put_head(a, all, s, text, out);
    for (uint32_t n = 1; line < end || n <= text->line_count; n++) {
        bool has_code = line < end && line->line == n;
        const char *words = n <= text->line_count ? source_line(a->arena, text, n) : "/*EOF*/";
        if (has_code)
            put_line(out, line->count ? arena_printf(a->arena, "%llu", (unsigned long long)line->count) : "#####", n,
                     words);
        else if (n <= text->line_count)
            put_line(out, "-", n, words);
        else
            n = line->line - 1; /* the next one that has code */
        line += has_code;
    }
}

/* Is it that source, or one in a folder whose path ends so? */
static bool is_named(const char *name, const char *wanted)
{
    size_t len = strlen(name), end = strlen(wanted);
    return len >= end && !strcmp(name + len - end, wanted) && (len == end || name[len - end - 1] == '/');
}

static bool is_shown(const struct cmd_args *a, const struct ld_source *s)
{
    return a->source ? is_named(s->name, a->source) : a->all || s->executed;
}

static void put_text(const struct cmd_args *a, const struct ld_sources *all, struct strbuf *out)
{
    const char **whole;
    uint64_t no_line = all->unknown + all->unread;
    size_t whole_count = ld_whole_read(a->rest[0], a->arena, &whole);
    for (size_t i = 0; i < all->sources.len; i++)
        if (is_shown(a, &all->sources.data[i]))
            put_source(a, all, &all->sources.data[i], out);
    for (size_t i = 0; i < whole_count; i++)
        put_line(out, "-", 0, arena_printf(a->arena, "Linked as it was, not counted:%s", whole[i]));
    if (no_line)
        put_line(out, "-", 0,
                 arena_printf(a->arena, "Instructions of no known line:%llu of %llu", (unsigned long long)no_line,
                              (unsigned long long)all->insns));
}

static void put_json(const struct cmd_args *a, const struct ld_sources *all, struct strbuf *out)
{
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_u64(&j, "files", all->files);
    json_u64(&j, "inconsistent", all->inconsistent);
    json_u64(&j, "instructions", all->insns);
    json_u64(&j, "instructions_of_no_line", all->unknown + all->unread);
    json_array(&j, "sources");
    for (size_t i = 0; i < all->sources.len; i++) {
        const struct ld_source *s = &all->sources.data[i];
        if (!is_shown(a, s))
            continue;
        json_object(&j, NULL);
        json_str(&j, "source", s->name);
        json_array(&j, "lines");
        for (size_t k = s->first; k < s->first + s->count; k++) {
            json_object(&j, NULL);
            json_u64(&j, "line", all->lines.data[k].line);
            json_u64(&j, "count", all->lines.data[k].count);
            json_u64(&j, "instructions", all->lines.data[k].insns);
            json_object_end(&j);
        }
        json_array_end(&j);
        json_object_end(&j);
    }
    report_end_json(a, &j, out);
}

/* An option that names a source which the program has not is no answer of nothing. */
static int check_source(const struct cmd_args *a, const struct ld_sources *all)
{
    for (size_t i = 0; i < all->sources.len; i++)
        if (is_shown(a, &all->sources.data[i]))
            return 0;
    if (a->source)
        return diag_error("blocks: %s has no code of a source %s", a->rest[0], a->source);
    return 0;
}

int report_sources(const struct cmd_args *a)
{
    struct ld_sources *all;
    struct strbuf out = {0};
    if (ld_sources_read(a->rest[0], a->rest + 1, (size_t)a->rest_count - 1, &all) < 0)
        return CMD_UNUSABLE;
    int rc = check_source(a, all) < 0 ? CMD_UNUSABLE : CMD_DONE;
    if (rc == CMD_DONE) {
        report_warn_flow(all->inconsistent);
        if (a->json)
            put_json(a, all, &out);
        else
            put_text(a, all, &out);
        rc = cmd_print(&out);
    }
    ld_sources_free(all);
    return rc;
}
