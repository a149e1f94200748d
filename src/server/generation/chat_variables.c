#include "server/generation/chat_variables.h"

#include <string.h>

static void set_thinking(json_t *variables, bool thinks) {
    static const char *const names[] = {"enable_thinking", "thinking"}; /* templates differ */
    for (size_t i = 0; i < 2; i++)
        json_object_set_new(variables, names[i], json_boolean(thinks));
}

/* "none" asks for no reasoning at all. */
static void set_effort(json_t *variables, const char *effort) {
    if (effort == NULL)
        return;
    if (strcmp(effort, "none") == 0)
        set_thinking(variables, false);
    json_object_set_new(variables, "reasoning_effort", json_string(effort));
}

/* A boolean, or an effort that turns thinking on. */
static bool read_think(const ln_fields *fields, json_t *variables) {
    const json_t *value = ln_fields_get(fields, "think");
    const char *effort = NULL;
    bool thinks = true;
    if (value == NULL)
        return true;
    if (json_is_string(value) ? !ln_fields_text(fields, "think", &effort)
                              : !ln_fields_bool(fields, "think", &thinks))
        return false;
    set_thinking(variables, thinks);
    set_effort(variables, effort);
    return true;
}

/* {"effort": ..., "enabled": ..., "exclude": ...} */
static bool read_reasoning(const ln_fields *fields, json_t *variables, bool *shows_reasoning) {
    static const char *const known[] = {"effort",     "enabled", "exclude", "summary",
                                        "max_tokens", "context", NULL};
    json_t *value = ln_fields_get(fields, "reasoning");
    const ln_fields inner = {value, "reasoning.", fields->error, fields->ignored};
    const char *effort = NULL;
    bool thinks = true, is_hidden = false;
    if (value == NULL)
        return true;
    if (!json_is_object(value))
        return ln_api_fail(fields->error, 400, "reasoning", "reasoning is not an object");
    if (!ln_fields_only(&inner, known) || !ln_fields_text(&inner, "effort", &effort) ||
        !ln_fields_bool(&inner, "enabled", &thinks) ||
        !ln_fields_bool(&inner, "exclude", &is_hidden))
        return false;
    if (ln_fields_get(&inner, "enabled") != NULL)
        set_thinking(variables, thinks);
    set_effort(variables, effort);
    *shows_reasoning = *shows_reasoning && !is_hidden;
    return true;
}

/* What an answer may draw on, for templates that know it. */
static bool read_documents(const ln_fields *fields, json_t *variables) {
    enum { MAX_DOCUMENTS = 1000 };
    json_t *documents = ln_fields_get(fields, "documents"), *document;
    size_t index;
    bool fits = json_is_array(documents) && json_array_size(documents) <= MAX_DOCUMENTS;
    json_array_foreach(documents, index, document) fits = fits && json_is_object(document);
    if (documents == NULL)
        return true;
    if (!fits)
        return ln_api_fail(fields->error, 400, "documents",
                           "documents is not a list of at most %d objects", MAX_DOCUMENTS);
    return json_object_set(variables, "documents", documents) == 0 ||
           ln_api_fail_memory(fields->error);
}

static bool read_fields(const ln_fields *fields, json_t *variables, bool *shows_reasoning) {
    const char *effort = NULL, *verbosity = NULL;
    bool thinks = true;
    if (!ln_fields_text(fields, "reasoning_effort", &effort) ||
        !ln_fields_text(fields, "verbosity", &verbosity) ||
        !ln_fields_bool(fields, "enable_thinking", &thinks) ||
        !ln_fields_bool(fields, "include_reasoning", shows_reasoning))
        return false;
    set_effort(variables, effort);
    if (verbosity != NULL)
        json_object_set_new(variables, "verbosity", json_string(verbosity));
    if (ln_fields_get(fields, "enable_thinking") != NULL)
        set_thinking(variables, thinks);
    return read_documents(fields, variables) && read_think(fields, variables) &&
           read_reasoning(fields, variables, shows_reasoning);
}

bool ln_chat_variables_read(const ln_fields *fields, const json_t *own, json_t **variables,
                            bool *shows_reasoning) {
    const json_t *given = ln_fields_get(fields, "chat_template_kwargs");
    json_t *made = own != NULL ? json_deep_copy(own) : json_object();
    *shows_reasoning = true;
    if (made == NULL)
        ln_api_fail_memory(fields->error);
    else if (given != NULL && !json_is_object(given))
        ln_api_fail(fields->error, 400, "chat_template_kwargs",
                    "chat_template_kwargs is not an object");
    else if (read_fields(fields, made, shows_reasoning) && given != NULL)
        json_object_update(made, (json_t *)(uintptr_t)given); /* what is said exactly wins */
    if (fields->error->status == 0) {
        *variables = made;
        return true;
    }
    json_decref(made);
    return false;
}
