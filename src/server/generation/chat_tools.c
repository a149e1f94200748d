#include "server/generation/chat_tools.h"

#include <stdio.h>
#include <string.h>

#include "base/json/value.h"
#include "server/generation/structured_output.h"
#include "server/json/schema_shape.h"

enum { MAX_TOOLS = 128, MAX_NAME = 64 };

/* A name that stands in every syntax of calls as it is. */
static bool is_name(const json_t *name) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const char *text = json_string_value(name);
    size_t n_bytes = json_string_length(name);
    return n_bytes > 0 && n_bytes <= MAX_NAME && strspn(text, allowed) == n_bytes;
}

static bool check_tool(const json_t *tool, size_t index, ln_api_error *error) {
    const json_t *function = json_object_get(tool, "function");
    const json_t *parameters = json_object_get(function, "parameters");
    const json_t *description = json_object_get(function, "description");
    const json_t *strict = json_object_get(function, "strict");
    char param[96];
    snprintf(param, sizeof param, "tools[%zu]", index);
    if (!ln_json_is(json_object_get(tool, "type"), "function") || !json_is_object(function))
        return ln_api_fail(error, 400, param, "%s is not of type function or custom", param);
    if (!is_name(json_object_get(function, "name")))
        return ln_api_fail(error, 400, param,
                           "%s: the name is not 1 to %d letters, digits, '_', '-' and '.'", param,
                           MAX_NAME);
    if (parameters != NULL && !json_is_object(parameters) && !json_is_null(parameters))
        return ln_api_fail(error, 400, param, "%s: parameters is not an object", param);
    const char *fault = json_is_object(parameters) ? ln_schema_find_fault(parameters) : NULL;
    if (fault != NULL)
        return ln_api_fail(error, 400, param, "%s: parameters is no JSON Schema, by its '%s'",
                           param, fault);
    if (description != NULL && !json_is_string(description) && !json_is_null(description))
        return ln_api_fail(error, 400, param, "%s: description is not a string", param);
    if (strict != NULL && !json_is_boolean(strict) && !json_is_null(strict))
        return ln_api_fail(error, 400, param, "%s: strict is not true or false", param);
    return true;
}

static bool check_tools(const json_t *tools, ln_api_error *error) {
    size_t index;
    json_t *tool;
    if (!json_is_array(tools) || json_array_size(tools) > MAX_TOOLS)
        return ln_api_fail(error, 400, "tools", "tools is not a list of at most %d tools",
                           MAX_TOOLS);
    json_array_foreach(tools, index, tool) {
        if (!check_tool(tool, index, error))
            return false;
    }
    return true;
}

static bool has_tool(const json_t *tools, const char *name) {
    size_t index;
    json_t *tool;
    json_array_foreach(tools, index, tool) {
        const json_t *inner = json_object_get(tool, "function");
        if (inner == NULL) /* in a choice */
            inner = json_object_get(tool, "custom");
        if (ln_json_is(json_object_get(inner, "name"), name))
            return true;
    }
    return false;
}

/* {"type": "function", "function": {"name": ...}} */
static bool read_named(const json_t *choice, ln_api_tools *tools, ln_api_error *error) {
    const json_t *name = json_object_get(json_object_get(choice, "function"), "name");
    if (!ln_json_is(json_object_get(choice, "type"), "function") || !is_name(name))
        return ln_api_fail(error, 400, "tool_choice",
                           "tool_choice is not of type function with a function's name");
    if (!has_tool(tools->list, json_string_value(name)))
        return ln_api_fail(error, 400, "tool_choice", "tool_choice: tools has no function '%s'",
                           json_string_value(name));
    tools->must_call = true;
    tools->name = json_string_value(name);
    return true;
}

static bool check_allowed(const json_t *names, ln_api_error *error) {
    size_t index;
    json_t *tool;
    char path[64];
    const char *type;
    json_array_foreach(names, index, tool) {
        const ln_fields fields = {tool, path, error, NULL};
        snprintf(path, sizeof path, "tool_choice.allowed_tools.tools[%zu].", index);
        if (!ln_fields_text(&fields, "type", &type))
            return false;
    }
    return true;
}

/* {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}: the body's other tools
 * are as if they were not there. */
static bool read_allowed(const ln_fields *fields, const json_t *choice, ln_api_tools *tools) {
    const json_t *allowed = json_object_get(choice, "allowed_tools");
    const json_t *names = json_object_get(allowed, "tools"),
                 *mode = json_object_get(allowed, "mode");
    size_t index;
    json_t *tool;
    if (!check_allowed(names, fields->error))
        return false;
    json_t *list = json_array();
    bool is_whole = list != NULL;
    tools->must_call = ln_json_is(mode, "required");
    json_array_foreach(tools->list, index, tool) {
        const json_t *name = json_object_get(json_object_get(tool, "function"), "name");
        if (has_tool(names, json_string_value(name)))
            is_whole = json_array_append(list, tool) == 0 && is_whole;
    }
    if (!is_whole) {
        json_decref(list);
        return ln_api_fail_memory(fields->error);
    }
    if ((!tools->must_call && !ln_json_is(mode, "auto")) || json_array_size(list) == 0) {
        json_decref(list);
        return ln_api_fail(fields->error, 400, "tool_choice",
                           "tool_choice: allowed_tools needs the mode auto or required, and names "
                           "of tools");
    }
    tools->list = list;
    return json_object_set_new((json_t *)(uintptr_t)fields->root, "tools", list) == 0 ||
           ln_api_fail_memory(fields->error);
}

/* ---- functions, from before there were tools -------------------------------------------- */

static bool fail_function_call(ln_api_error *error) {
    return ln_api_fail(error, 400, "function_call",
                       "function_call is not none, auto, or the name of one of the functions");
}

/* The tool_choice that a function_call means; NULL: none of these. */
static json_t *choice_of(const json_t *call, const json_t *tools) {
    json_t *name = json_object_get(call, "name");
    if (ln_json_is(call, "none") || ln_json_is(call, "auto"))
        return ln_json_share(call);
    if (!is_name(name) || !has_tool(tools, json_string_value(name)))
        return NULL;
    return json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name);
}

/* The functions as tools; NULL: they are no functions, or memory is out. */
static json_t *make_tools(const json_t *functions, ln_api_error *error) {
    json_t *tools = json_array(), *function;
    size_t index;
    json_array_foreach(functions, index, function) {
        json_t *tool = json_pack("{s:s, s:O}", "type", "function", "function", function);
        json_array_append_new(tools, tool);
    }
    if (json_is_array(functions) && json_array_size(functions) > 0 &&
        json_array_size(tools) == json_array_size(functions) && check_tools(tools, error))
        return tools;
    json_decref(tools);
    error->status = 0;
    ln_api_fail(error, 400, "functions",
                "functions is not a list of 1 to %d functions with names and parameters",
                MAX_TOOLS);
    return NULL;
}

bool ln_api_shape_functions(const ln_fields *fields, bool *is_legacy) {
    json_t *root = (json_t *)(uintptr_t)fields->root;
    const json_t *functions = ln_fields_get(fields, "functions");
    const json_t *call = ln_fields_get(fields, "function_call");
    *is_legacy = functions != NULL;
    if (functions == NULL)
        return call == NULL || ln_json_is(call, "none") || fail_function_call(fields->error);
    if (ln_fields_get(fields, "tools") != NULL || ln_fields_get(fields, "tool_choice") != NULL)
        return ln_api_fail(fields->error, 400, "functions",
                           "functions and tools exclude each other");
    json_t *tools = make_tools(functions, fields->error);
    if (tools == NULL)
        return false;
    json_t *choice = call != NULL ? choice_of(call, tools) : json_string("auto");
    if (json_object_set_new(root, "tools", tools) != 0 ||
        json_object_set_new(root, "parallel_tool_calls", json_false()) != 0)
        ln_api_fail_memory(fields->error);
    if (choice == NULL || json_object_set_new(root, "tool_choice", choice) != 0)
        return fail_function_call(fields->error);
    return fields->error->status == 0;
}

/* ---- tools that take free text ---------------------------------------------------------- */

/* The schema of a custom tool's input, with the grammar of a format; NULL with the error set. */
static json_t *make_input(const json_t *format, const char *param, ln_api_error *error) {
    const json_t *inner = json_object_get(format, "grammar");
    const json_t *grammar = json_is_object(inner) ? inner : format;
    const json_t *type = json_object_get(format, "type");
    json_t *syntax = json_object_get(grammar, "syntax");
    json_t *definition = json_object_get(grammar, "definition");
    if (format == NULL || json_is_null(format) || ln_json_is(type, "text"))
        return json_pack("{s:s}", "type", "string");
    if (ln_json_is(type, "grammar") && json_string_length(definition) > 0 &&
        (ln_json_is(syntax, "lark") || ln_json_is(syntax, "regex") || ln_json_is(syntax, "gbnf")))
        return json_pack("{s:s, s:{s:O, s:O}}", "type", "string", "grammar", "syntax", syntax,
                         "definition", definition);
    ln_api_fail(error, 400, param,
                "%s: format is neither text nor a grammar with the syntax lark, regex or gbnf and "
                "a definition",
                param);
    return NULL;
}

static bool shape_custom(json_t *tools, size_t index, json_t *names, ln_api_error *error) {
    const json_t *custom = json_object_get(json_array_get(tools, index), "custom");
    json_t *name = json_object_get(custom, "name");
    json_t *description = json_object_get(custom, "description");
    char param[96];
    snprintf(param, sizeof param, "tools[%zu]", index);
    if (!is_name(name))
        return ln_api_fail(error, 400, param,
                           "%s: a custom tool needs a name of 1 to %d letters, digits, '_', '-' "
                           "and '.'",
                           param, MAX_NAME);
    json_t *input = make_input(json_object_get(custom, "format"), param, error);
    if (input == NULL)
        return error->status != 0 ? false : ln_api_fail_memory(error);
    json_t *tool = json_pack("{s:s, s:{s:O, s:{s:s, s:{s:o}, s:[s], s:b}}}", "type", "function",
                             "function", "name", name, "parameters", "type", "object", "properties",
                             "input", input, "required", "input", "additionalProperties", 0);
    bool is_whole = description == NULL || json_object_set(json_object_get(tool, "function"),
                                                           "description", description) == 0;
    if (tool == NULL || !is_whole || json_array_append(names, name) != 0) {
        json_decref(tool);
        return ln_api_fail_memory(error);
    }
    return json_array_set_new(tools, index, tool) == 0 || ln_api_fail_memory(error);
}

bool ln_api_shape_custom_tools(const ln_fields *fields, json_t **names) {
    json_t *root = (json_t *)(uintptr_t)fields->root;
    json_t *tools = json_object_get(root, "tools"), *choice = json_object_get(root, "tool_choice");
    *names = NULL;
    for (size_t i = 0; i < json_array_size(tools) && i < MAX_TOOLS; i++) {
        if (!ln_json_is(json_object_get(json_array_get(tools, i), "type"), "custom"))
            continue;
        if (*names == NULL)
            *names = json_array();
        if (!shape_custom(tools, i, *names, fields->error))
            return false;
    }
    if (*names == NULL || !ln_json_is(json_object_get(choice, "type"), "custom"))
        return true;
    const json_t *named = json_object_get(json_object_get(choice, "custom"), "name");
    return json_object_set_new(root, "tool_choice",
                               json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name",
                                         json_is_string(named) ? json_string_value(named) : "")) ==
               0 ||
           ln_api_fail_memory(fields->error);
}

bool ln_api_read_tools(const ln_fields *fields, ln_api_tools *tools) {
    const json_t *choice = ln_fields_get(fields, "tool_choice");
    *tools = (ln_api_tools){.list = ln_fields_get(fields, "tools"), .many = true};
    if (!ln_fields_bool(fields, "parallel_tool_calls", &tools->many) ||
        (tools->list != NULL && !check_tools(tools->list, fields->error)))
        return false;
    if (json_array_size(tools->list) == 0)
        tools->list = NULL;
    if (ln_json_is(choice, "none"))
        tools->list = NULL; /* the template does not see them */
    if (choice == NULL || ln_json_is(choice, "none"))
        return true;
    if (tools->list == NULL)
        return ln_api_fail(fields->error, 400, "tool_choice", "tool_choice needs tools");
    tools->must_call = ln_json_is(choice, "required");
    if (tools->must_call || ln_json_is(choice, "auto"))
        return true;
    if (ln_json_is(json_object_get(choice, "type"), "allowed_tools"))
        return read_allowed(fields, choice, tools);
    if (json_is_object(choice))
        return read_named(choice, tools, fields->error);
    return ln_api_fail(
        fields->error, 400, "tool_choice",
        "tool_choice is not none, auto, required, a named function or allowed_tools");
}

bool ln_api_may_bind_calls(const ln_api_tools *tools, const ln_generation_request *request) {
    const ln_call_syntax *syntax = request->syntax;
    const json_t *tool;
    size_t i;
    if (syntax == NULL || tools->must_call || request->custom_tools == NULL ||
        request->options.grammar_kind != LINNET_GRAMMAR_NONE || request->continues_answer ||
        syntax->form == LN_CALLS_RECIPIENT || syntax->address != NULL)
        return false;
    json_array_foreach(tools->list, i, tool) {
        const json_t *function = json_object_get(tool, "function");
        const json_t *properties =
            json_object_get(json_object_get(function, "parameters"), "properties");
        const json_t *name = json_object_get(function, "name"), *item;
        size_t j;
        json_array_foreach(request->custom_tools, j, item) {
            if (json_equal(item, name) &&
                json_is_object(json_object_get(json_object_get(properties, "input"), "grammar")))
                return true;
        }
    }
    return false;
}

bool ln_api_shape_calls(const ln_api_tools *tools, ln_generation_request *request,
                        ln_api_error *error) {
    linnet_request_options *options = &request->options;
    if (options->grammar_kind != LINNET_GRAMMAR_NONE &&
        strncmp(request->grammar_param, "response_format", strlen("response_format")) != 0)
        return ln_api_fail(error, 400, "tool_choice", "tool_choice and %s exclude each other",
                           request->grammar_param);
    /* response_format is about content, of which there will be none */
    ln_api_clear_grammar(request);
    json_t *source =
        json_pack("{s:O, s:s, s:b}", "tools", tools->list, "syntax", request->syntax->name,
                  "parallel", tools->many && tools->name == NULL);
    if (source != NULL && request->format != NULL)
        json_object_set_new(source, "reasoning_format", json_string(request->format->name));
    if (source != NULL && tools->name != NULL)
        json_object_set_new(source, "name", json_string(tools->name));
    if (source != NULL && request->custom_tools != NULL)
        json_object_set(source, "custom", request->custom_tools);
    if (source != NULL && tools->is_bound)
        json_object_set_new(source, "free", json_true());
    bool done = source != NULL
                    ? ln_api_set_grammar(request, LINNET_GRAMMAR_TOOLS, source, "tools", error)
                    : ln_api_fail_memory(error);
    json_decref(source);
    return done;
}
