#include "server/generation/structured_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/grammar.h"

/* How a source is written in a body. */
typedef enum source_shape {
    SHAPE_TEXT,   /* a string */
    SHAPE_SCHEMA, /* an object, a boolean, or a string of JSON */
    SHAPE_TAG,    /* an object, or a string of JSON */
    SHAPE_CHOICE, /* a list of strings */
    SHAPE_FLAG    /* true */
} source_shape;

typedef struct source_field {
    const char *name;
    linnet_grammar_kind kind;
    source_shape shape;
} source_field;

static const source_field outer_fields[] = {
    {"guided_json", LINNET_GRAMMAR_JSON_SCHEMA, SHAPE_SCHEMA},
    {"guided_regex", LINNET_GRAMMAR_REGEX, SHAPE_TEXT},
    {"guided_choice", LINNET_GRAMMAR_CHOICE, SHAPE_CHOICE},
    {"guided_grammar", LINNET_GRAMMAR_GBNF, SHAPE_TEXT},
    {"grammar", LINNET_GRAMMAR_GBNF, SHAPE_TEXT},
    {"json_schema", LINNET_GRAMMAR_JSON_SCHEMA, SHAPE_SCHEMA},
    {"structural_tag", LINNET_GRAMMAR_STRUCTURAL_TAG, SHAPE_TAG},
    {0}};

static const source_field inner_fields[] = {
    {"json", LINNET_GRAMMAR_JSON_SCHEMA, SHAPE_SCHEMA},
    {"regex", LINNET_GRAMMAR_REGEX, SHAPE_TEXT},
    {"choice", LINNET_GRAMMAR_CHOICE, SHAPE_CHOICE},
    {"grammar", LINNET_GRAMMAR_GBNF, SHAPE_TEXT},
    {"json_object", LINNET_GRAMMAR_JSON, SHAPE_FLAG},
    {"structural_tag", LINNET_GRAMMAR_STRUCTURAL_TAG, SHAPE_TAG},
    {0}};

/* ---- a source --------------------------------------------------------------------------- */

bool ln_api_set_grammar(ln_generation_request *request, linnet_grammar_kind kind,
                        const json_t *source, const char *param, ln_api_error *error) {
    linnet_request_options *options = &request->options;
    char *text = NULL;
    size_t n_bytes = 0;
    if (error->status != 0)
        return false;
    if (options->grammar_kind != LINNET_GRAMMAR_NONE)
        return ln_api_fail(error, 400, param, "%s and %s exclude each other", param,
                           request->grammar_param);
    if (json_is_string(source)) {
        n_bytes = json_string_length(source);
        text = malloc(n_bytes + 1);
        if (text != NULL)
            memcpy(text, json_string_value(source), n_bytes + 1);
    } else if (source != NULL) {
        text = json_dumps(source, JSON_COMPACT | JSON_ENCODE_ANY);
        n_bytes = text != NULL ? strlen(text) : 0;
    }
    if (source != NULL && text == NULL)
        return ln_api_fail_memory(error);
    snprintf(request->grammar_param, sizeof request->grammar_param, "%s", param);
    request->grammar = text;
    options->grammar_kind = kind;
    options->grammar = text;
    options->grammar_bytes = n_bytes;
    return true;
}

void ln_api_clear_grammar(ln_generation_request *request) {
    free(request->grammar);
    request->grammar = NULL;
    request->grammar_param[0] = '\0';
    request->options.grammar_kind = LINNET_GRAMMAR_NONE;
    request->options.grammar = NULL;
    request->options.grammar_bytes = 0;
}

static bool is_list_of_strings(const json_t *value) {
    size_t index;
    json_t *item;
    if (!json_is_array(value) || json_array_size(value) == 0)
        return false;
    json_array_foreach(value, index, item) {
        if (json_string_length(item) == 0 ||
            strlen(json_string_value(item)) != json_string_length(item))
            return false;
    }
    return true;
}

static bool take_source(const source_field *field, const json_t *value, const char *param,
                        ln_generation_request *request, ln_api_error *error) {
    static const char *const shapes[] = {[SHAPE_TEXT] = "a string that is not empty",
                                         [SHAPE_SCHEMA] = "a JSON schema",
                                         [SHAPE_TAG] = "a structural tag",
                                         [SHAPE_CHOICE] =
                                             "a list of strings that are not empty and have no NUL",
                                         [SHAPE_FLAG] = "true or false"};
    bool fits = false;
    switch (field->shape) {
    case SHAPE_TEXT: fits = json_string_length(value) > 0; break;
    case SHAPE_SCHEMA:
        fits = json_is_object(value) || json_is_boolean(value) || json_string_length(value) > 0;
        break;
    case SHAPE_TAG: fits = json_is_object(value) || json_string_length(value) > 0; break;
    case SHAPE_CHOICE: fits = is_list_of_strings(value); break;
    case SHAPE_FLAG: fits = json_is_boolean(value); break;
    }
    if (!fits)
        return ln_api_fail(error, 400, param, "%s is not %s", param, shapes[field->shape]);
    if (field->shape == SHAPE_FLAG && json_is_false(value))
        return true;
    linnet_grammar_kind kind = field->kind;
    if (kind == LINNET_GRAMMAR_GBNF &&
        ln_grammar_is_lark(json_string_value(value), json_string_length(value)))
        kind = LINNET_GRAMMAR_LARK;
    return ln_api_set_grammar(request, kind, field->shape == SHAPE_FLAG ? NULL : value, param,
                              error);
}

/* ---- how it is written ------------------------------------------------------------------ */

/* Sets a bit of json_form as a field says, one of two words. */
static bool read_word(const ln_fields *fields, const char *name, const char *off, const char *on,
                      unsigned bit, ln_generation_request *request) {
    const char *word = NULL;
    if (!ln_fields_text(fields, name, &word))
        return false;
    if (word != NULL && strcmp(word, off) != 0 && strcmp(word, on) != 0)
        return ln_api_fail(fields->error, 400, name, "%s is neither %s nor %s", name, off, on);
    if (word != NULL)
        request->options.json_form =
            (request->options.json_form & ~bit) | (strcmp(word, on) == 0 ? bit : 0);
    return true;
}

/* Fields that hold for whichever grammar there is, over what it says itself. */
static bool read_form(const ln_fields *fields, ln_generation_request *request) {
    const char *type = NULL;
    linnet_request_options *options = &request->options;
    if (!read_word(fields, "json_whitespace", "free", "compact", LINNET_JSON_COMPACT, request) ||
        !read_word(fields, "json_order", "free", "written", LINNET_JSON_ORDERED, request) ||
        !ln_fields_text(fields, "grammar_type", &type))
        return false;
    if (type == NULL)
        return true;
    if (strcmp(type, "gbnf") != 0 && strcmp(type, "lark") != 0)
        return ln_api_fail(fields->error, 400, "grammar_type",
                           "grammar_type is neither gbnf nor lark");
    if (options->grammar_kind != LINNET_GRAMMAR_GBNF &&
        options->grammar_kind != LINNET_GRAMMAR_LARK)
        return ln_api_fail(fields->error, 400, "grammar_type",
                           "grammar_type stands without a grammar");
    options->grammar_kind = strcmp(type, "lark") == 0 ? LINNET_GRAMMAR_LARK : LINNET_GRAMMAR_GBNF;
    return true;
}

/* ---- fields ----------------------------------------------------------------------------- */

/* All fields of these objects say what the answer must look like, so unknown ones are refused
 * always. */

static bool read_outer(const ln_fields *fields, ln_generation_request *request) {
    for (const source_field *field = outer_fields; field->name != NULL; field++) {
        const json_t *value = ln_fields_get(fields, field->name);
        if (value != NULL && !take_source(field, value, field->name, request, fields->error))
            return false;
    }
    return fields->error->status == 0;
}

static bool read_structured_outputs(const ln_fields *fields, ln_generation_request *request) {
    static const char *const known[] = {"json",
                                        "regex",
                                        "choice",
                                        "grammar",
                                        "json_object",
                                        "backend",
                                        "disable_fallback",
                                        "disable_any_whitespace",
                                        "disable_additional_properties",
                                        "structural_tag",
                                        NULL};
    json_t *outputs = ln_fields_get(fields, "structured_outputs");
    const ln_fields inner = {outputs, "structured_outputs.", fields->error, NULL};
    bool says_form = false;
    char param[64];
    if (outputs == NULL || fields->error->status != 0)
        return fields->error->status == 0;
    if (!json_is_object(outputs))
        return ln_api_fail(fields->error, 400, "structured_outputs",
                           "structured_outputs is not an object");
    if (!ln_fields_only(&inner, known))
        return false;
    for (const source_field *field = inner_fields; field->name != NULL; field++) {
        const json_t *value = ln_fields_get(&inner, field->name);
        says_form = says_form || value != NULL;
        snprintf(param, sizeof param, "%s%s", inner.path, field->name);
        if (value != NULL && !take_source(field, value, param, request, fields->error))
            return false;
    }
    bool is_compact = false, is_closed = false;
    if (!ln_fields_bool(&inner, "disable_any_whitespace", &is_compact) ||
        !ln_fields_bool(&inner, "disable_additional_properties", &is_closed))
        return false;
    if (!says_form && !is_compact && !is_closed)
        return ln_api_fail(fields->error, 400, "structured_outputs",
                           "structured_outputs has none of json, regex, choice, grammar, "
                           "json_object and structural_tag");
    request->options.json_form |=
        (is_compact ? LINNET_JSON_COMPACT : 0u) | (is_closed ? LINNET_JSON_CLOSED : 0u);
    return true;
}

/* {"name": ..., "strict": ..., "schema": ...}: every answer holds its schema; a strict one has the
 * members in the order of the schema, and no others than it names. */
static bool read_named_schema(const json_t *named, ln_generation_request *request,
                              ln_api_error *error) {
    static const char schema[] = "response_format.json_schema.schema";
    static const char *const known[] = {"name", "description", "strict", "schema", NULL};
    const char *text = NULL;
    bool is_strict = false;
    if (!json_is_object(named))
        return ln_api_fail(error, 400, "response_format.json_schema",
                           "response_format.json_schema is not an object");
    const ln_fields inner = {named, "response_format.json_schema.", error, NULL};
    if (!ln_fields_only(&inner, known) || !ln_fields_text(&inner, "name", &text) ||
        !ln_fields_text(&inner, "description", &text) ||
        !ln_fields_bool(&inner, "strict", &is_strict))
        return false;
    const json_t *value = ln_fields_get(&inner, "schema");
    if (!json_is_object(value) && !json_is_boolean(value))
        return ln_api_fail(error, 400, schema, "%s is missing or not a JSON schema", schema);
    if (is_strict)
        request->options.json_form |= LINNET_JSON_ORDERED | LINNET_JSON_CLOSED;
    return ln_api_set_grammar(request, LINNET_GRAMMAR_JSON_SCHEMA, value, schema, error);
}

/* {"type": "structural_tag", ...} is the tag, of the new form or the old one. */
static bool read_tag_format(const json_t *format, ln_generation_request *request,
                            ln_api_error *error) {
    static const char *const known[] = {"type", "format", "structures", "triggers", NULL};
    const ln_fields inner = {format, "response_format.", error, NULL};
    return ln_fields_only(&inner, known) &&
           ln_api_set_grammar(request, LINNET_GRAMMAR_STRUCTURAL_TAG, format, "response_format",
                              error);
}

static bool read_response_format(const ln_fields *fields, ln_generation_request *request) {
    static const char *const known[] = {"type", "json_schema", "schema", NULL};
    const char *type = NULL;
    json_t *format = ln_fields_get(fields, "response_format");
    const ln_fields inner = {format, "response_format.", fields->error, NULL};
    if (format == NULL || fields->error->status != 0)
        return fields->error->status == 0;
    if (!json_is_object(format))
        return ln_api_fail(fields->error, 400, "response_format",
                           "response_format is not an object");
    if (!ln_fields_text(&inner, "type", &type))
        return false;
    if (type != NULL && strcmp(type, "structural_tag") == 0)
        return read_tag_format(format, request, fields->error);
    if (!ln_fields_only(&inner, known))
        return false;
    const json_t *named = ln_fields_get(&inner, "json_schema");
    const json_t *schema = ln_fields_get(&inner, "schema");
    if (type != NULL && strcmp(type, "json_schema") == 0 && schema == NULL)
        return read_named_schema(named, request, fields->error);
    if (named == NULL && type != NULL && strcmp(type, "json_object") == 0) {
        static const source_field field = {"schema", LINNET_GRAMMAR_JSON_SCHEMA, SHAPE_SCHEMA};
        if (schema != NULL)
            return take_source(&field, schema, "response_format.schema", request, fields->error);
        return ln_api_set_grammar(request, LINNET_GRAMMAR_JSON, NULL, "response_format",
                                  fields->error);
    }
    if (named == NULL && schema == NULL && type != NULL && strcmp(type, "text") == 0)
        return true;
    return ln_api_fail(fields->error, 400, "response_format",
                       "response_format: the type is not text, json_object with or without a "
                       "schema, json_schema with json_schema, or structural_tag");
}

bool ln_api_read_grammar(const ln_fields *fields, ln_generation_request *request) {
    return read_response_format(fields, request) && read_structured_outputs(fields, request) &&
           read_outer(fields, request) && read_form(fields, request);
}
