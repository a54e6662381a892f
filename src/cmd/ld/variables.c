/* SPDX-License-Identifier: Apache-2.0
 * How often each variable was loaded and stored. */
#include "cmd/ld/report.h"

static const char *const kind_names[LD_VARIABLE_KIND_COUNT] = {
#define X(id, name) [LD_VARIABLE_##id] = name,
    LD_VARIABLE_KINDS(X)
#undef X
};

static const char *place(const struct ld_variables *all, const struct ld_variable *v)
{
    const char *object = v->object ? file_base_name(v->object) : NULL;
    if (v->function && *v->name)
        return arena_printf(all->arena, "%s in %s  (%s)", v->name, v->function, object);
    if (v->function)
        return arena_printf(all->arena, "%s  (%s)", v->function, object);
    return object ? arena_printf(all->arena, "%s  (%s)", v->name, object) : v->name;
}

static void put_text(const struct cmd_args *a, const struct ld_variables *all, struct strbuf *out)
{
    size_t most = a->all ? SIZE_MAX : a->top ? a->top : 20;
    uint64_t loads[LD_VARIABLE_KIND_COUNT] = {0}, stores[LD_VARIABLE_KIND_COUNT] = {0}, both[2] = {0};
    for (size_t i = 0; i < all->variables.len; i++) {
        loads[all->variables.data[i].kind] += all->variables.data[i].loads;
        stores[all->variables.data[i].kind] += all->variables.data[i].stores;
    }
    str_puts(out, "           loads          stores  kind\n");
    for (int k = 0; k < LD_VARIABLE_KIND_COUNT; k++) {
        str_printf(out, "%16llu%16llu  %s\n", (unsigned long long)loads[k], (unsigned long long)stores[k],
                   kind_names[k]);
        both[0] += loads[k], both[1] += stores[k];
    }
    str_printf(out, "%16llu%16llu  all\n\n           loads          stores  kind      variable\n",
               (unsigned long long)both[0], (unsigned long long)both[1]);
    for (size_t i = 0; i < all->variables.len && i < most; i++) {
        const struct ld_variable *v = &all->variables.data[i];
        str_printf(out, "%16llu%16llu  %-9s %s\n", (unsigned long long)v->loads, (unsigned long long)v->stores,
                   kind_names[v->kind], place(all, v));
    }
    if (all->variables.len > most)
        str_printf(out, "%zu more; --all prints them\n", all->variables.len - most);
}

static void put_json(const struct cmd_args *a, const struct ld_variables *all, struct strbuf *out)
{
    struct json j;
    json_init(&j, out, true);
    json_object(&j, NULL);
    json_u64(&j, "files", all->files);
    json_u64(&j, "inconsistent", all->inconsistent);
    json_u64(&j, "unread_instructions", all->unread);
    json_array(&j, "variables");
    for (size_t i = 0; i < all->variables.len; i++) {
        const struct ld_variable *v = &all->variables.data[i];
        bool has_address =
            v->kind == LD_VARIABLE_GLOBAL || v->kind == LD_VARIABLE_CONSTANT || v->kind == LD_VARIABLE_LINKAGE;
        json_object(&j, NULL);
        json_str(&j, "kind", kind_names[v->kind]);
        json_str(&j, "name", *v->name ? v->name : NULL);
        json_str(&j, "function", v->function);
        json_str(&j, "object", v->object);
        if (has_address)
            json_hex(&j, "address", v->id);
        else if (v->kind == LD_VARIABLE_STACK)
            json_i64(&j, "frame_offset", v->offset);
        if (v->bytes)
            json_u64(&j, "bytes", v->bytes);
        json_u64(&j, "loads", v->loads);
        json_u64(&j, "stores", v->stores);
        json_object_end(&j);
    }
    report_end_json(a, &j, out);
}

int report_variables(const struct cmd_args *a)
{
    struct ld_variables *all;
    struct strbuf out = {0};
    if (ld_variables_read(a->rest[0], a->rest + 1, (size_t)a->rest_count - 1, &all) < 0)
        return CMD_UNUSABLE;
    report_warn_flow(all->inconsistent);
    if (a->json)
        put_json(a, all, &out);
    else
        put_text(a, all, &out);
    ld_variables_free(all);
    return report_print(a, &out);
}
