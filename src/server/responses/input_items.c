#include "server/responses/input_items.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/load.h"
#include "base/json/value.h"

enum { MAX_ITEMS = 10000, MAX_REFERENCED_BYTES = 16 << 20 };

/* ---- completing ------------------------------------------------------------------------- */

/* The parts of a message as lists have them: one that the assistant said has annotations. */
static void complete_parts(json_t *item) {
    json_t *content = json_object_get(item, "content"), *part;
    bool is_assistant = strcmp(ln_json_text_of(item, "role"), "assistant") == 0;
    size_t index;
    if (json_is_string(content))
        json_object_set_new(item, "content",
                            json_pack("[{s:s, s:O}]", "type",
                                      is_assistant ? "output_text" : "input_text", "text",
                                      content));
    json_array_foreach(json_object_get(item, "content"), index, part) {
        if (strcmp(ln_json_text_of(part, "type"), "output_text") == 0 &&
            json_object_get(part, "annotations") == NULL)
            json_object_set_new(part, "annotations", json_array());
    }
}

static void complete_item(json_t *item, const char *serial, size_t index) {
    char id[64];
    snprintf(id, sizeof id, "item_%s_%zu", serial, index);
    if (!json_is_string(json_object_get(item, "id")))
        json_object_set_new(item, "id", json_string(id));
    if (json_is_string(json_object_get(item, "role")) &&
        !json_is_string(json_object_get(item, "type")))
        json_object_set_new(item, "type", json_string("message"));
    bool is_reasoning = strcmp(ln_json_text_of(item, "type"), "reasoning") == 0;
    if (is_reasoning && !json_is_array(json_object_get(item, "summary")))
        json_object_set_new(item, "summary", json_array());
    if (!is_reasoning && !json_is_string(json_object_get(item, "status")))
        json_object_set_new(item, "status", json_string("completed"));
    if (strcmp(ln_json_text_of(item, "type"), "message") == 0)
        complete_parts(item);
}

/* Takes ids away that items before have, or all. By ids pages of lists go on. */
static bool clear_ids(json_t *items, const ln_item_list *past) {
    size_t index;
    json_t *item, *seen = json_object();
    bool done = seen != NULL;
    for (size_t i = 0; past != NULL && i < past->n_items; i++)
        done = json_object_set_new_nocheck(seen, past->items[i].id, json_true()) == 0 && done;
    json_array_foreach(items, index, item) {
        const char *id = json_string_value(json_object_get(item, "id"));
        if (id == NULL)
            continue;
        if (past == NULL || json_object_get(seen, id) != NULL)
            json_object_del(item, "id");
        else
            done = json_object_set_new_nocheck(seen, id, json_true()) == 0 && done;
    }
    json_decref(seen);
    return done;
}

/* ---- references ------------------------------------------------------------------------- */

/* {"type": "item_reference", "id": ...}, whose type may be left out. */
static bool is_reference(const json_t *item) {
    const json_t *type = json_object_get(item, "type");
    bool has_type = type != NULL && !json_is_null(type);
    return has_type ? ln_json_is(type, "item_reference")
                    : json_is_string(json_object_get(item, "id")) &&
                          json_object_get(item, "role") == NULL;
}

/* What a reference names, new; NULL with the error set. */
static json_t *resolve(const json_t *item, const char *param, ln_response_store *store,
                       size_t *n_bytes, ln_api_error *error) {
    const char *id = json_string_value(json_object_get(item, "id"));
    char *text = id != NULL ? ln_response_store_get_item(store, NULL, id) : NULL;
    json_t *found = NULL;
    *n_bytes += text != NULL ? strlen(text) : 0;
    if (id == NULL) {
        ln_api_fail(error, 400, param, "%s: a reference needs an id", param);
    } else if (text == NULL) {
        ln_api_fail(
            error, 404, param,
            "%s: Item with id '%.128s' not found. Items are not kept when `store` is false.", param,
            id);
    } else if (*n_bytes > MAX_REFERENCED_BYTES) {
        ln_api_fail(error, 400, param, "%s: references name more than %d bytes", param,
                    MAX_REFERENCED_BYTES);
    } else {
        found = ln_json_load_bytes(text, strlen(text), JSON_ALLOW_NUL, NULL);
        if (!json_is_object(found))
            ln_api_fail_memory(error);
    }
    free(text);
    if (error->status == 0)
        return found;
    json_decref(found);
    return NULL;
}

/* ---- lists ------------------------------------------------------------------------------ */

static bool check_item(const json_t *item, const char *param, ln_api_error *error) {
    const json_t *id = json_object_get(item, "id");
    if (!json_is_object(item))
        return ln_api_fail(error, 400, param, "%s: it is not an object", param);
    return id == NULL || json_is_string(id) || json_is_null(id) ||
           ln_api_fail(error, 400, param, "%s: its id is not a string", param);
}

json_t *ln_input_items_read(const json_t *input, const char *name, const char *serial,
                            const ln_item_list *past, ln_response_store *store,
                            ln_api_error *error) {
    size_t index, n_bytes = 0;
    const json_t *item;
    char param[96];
    bool is_text = json_is_string(input) && strcmp(name, "input") == 0;
    json_t *items = json_array();
    if (is_text) {
        json_array_append_new(items, json_pack("{s:s, s:O}", "role", "user", "content", input));
    } else if (json_array_size(input) == 0 || json_array_size(input) > MAX_ITEMS) {
        ln_api_fail(error, 400, name, "%s is not a %slist of 1 to %d items", name,
                    strcmp(name, "input") == 0 ? "string or a " : "", MAX_ITEMS);
    }
    json_array_foreach((json_t *)(uintptr_t)input, index, item) {
        snprintf(param, sizeof param, "%s[%zu]", name, index);
        if (error->status != 0 || !check_item(item, param, error))
            break;
        json_array_append_new(items, is_reference(item)
                                         ? resolve(item, param, store, &n_bytes, error)
                                         : json_deep_copy(item));
    }
    size_t n_items = is_text ? 1 : json_array_size(input);
    if (error->status == 0 && (json_array_size(items) != n_items || !clear_ids(items, past)))
        ln_api_fail_memory(error);
    if (error->status != 0) {
        json_decref(items);
        return NULL;
    }
    for (index = 0; index < n_items; index++)
        complete_item(json_array_get(items, index), serial, index);
    return items;
}

bool ln_input_items_keep(const json_t *items, ln_item_list *list) {
    size_t index;
    json_t *item;
    json_array_foreach((json_t *)(uintptr_t)items, index, item) {
        char *text = json_dumps(item, JSON_COMPACT);
        ln_item_list_add(list, 0, json_string_value(json_object_get(item, "id")), text);
        free(text);
    }
    return !list->failed;
}

json_t *ln_input_items_parse(const ln_item_list *list) {
    json_t *items = json_array();
    bool is_whole = items != NULL;
    for (size_t i = 0; is_whole && i < list->n_items; i++) {
        const char *text = list->items[i].json;
        json_t *item = ln_json_load_bytes(text, strlen(text), JSON_ALLOW_NUL, NULL);
        is_whole = json_is_object(item);
        if (is_whole)
            json_array_append_new(items, item);
        else
            json_decref(item);
    }
    if (is_whole && json_array_size(items) == list->n_items)
        return items;
    json_decref(items);
    return NULL;
}
