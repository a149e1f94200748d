#include "cli/chat/conversation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/load.h"
#include "cli/input.h"
#include "cli/output.h"

bool ln_conversation_init(ln_conversation *conversation) {
    conversation->messages = json_array();
    return conversation->messages != NULL;
}

void ln_conversation_free(ln_conversation *conversation) {
    json_decref(conversation->messages);
    conversation->messages = NULL;
}

static json_t *make_message(const char *role, const char *text, size_t n_bytes) {
    json_t *content = json_stringn(text, n_bytes); /* NULL unless it is UTF-8 */
    return content ? json_pack("{s:s, s:o}", "role", role, "content", content) : NULL;
}

static bool has_role(const json_t *message, const char *role) {
    const char *actual = json_string_value(json_object_get(message, "role"));
    return actual && strcmp(actual, role) == 0;
}

bool ln_conversation_set_system(ln_conversation *conversation, const char *text) {
    json_t *message = NULL;
    if (*text != '\0' && !(message = make_message("system", text, strlen(text))))
        return false;
    if (has_role(json_array_get(conversation->messages, 0), "system"))
        json_array_remove(conversation->messages, 0);
    return !message || json_array_insert_new(conversation->messages, 0, message) == 0;
}

bool ln_conversation_add(ln_conversation *conversation, const char *role, const char *text,
                         size_t n_bytes) {
    json_t *message = make_message(role, text, n_bytes);
    return message && json_array_append_new(conversation->messages, message) == 0;
}

bool ln_conversation_drop_last(ln_conversation *conversation, const char *role) {
    size_t count = json_array_size(conversation->messages);
    if (count == 0 || !has_role(json_array_get(conversation->messages, count - 1), role))
        return false;
    return json_array_remove(conversation->messages, count - 1) == 0;
}

void ln_conversation_clear(ln_conversation *conversation) {
    bool has_system = has_role(json_array_get(conversation->messages, 0), "system");
    while (json_array_size(conversation->messages) > (has_system ? 1 : 0))
        json_array_remove(conversation->messages, json_array_size(conversation->messages) - 1);
}

size_t ln_conversation_count(const ln_conversation *conversation) {
    bool has_system = has_role(json_array_get(conversation->messages, 0), "system");
    return json_array_size(conversation->messages) - (has_system ? 1 : 0);
}

/* The messages as JSON without the first n_forgotten behind the system message; NULL when memory is
 * out. */
static char *dump_rest(const ln_conversation *conversation, size_t n_forgotten) {
    json_t *messages = json_copy(conversation->messages); /* the messages are shared */
    size_t first = has_role(json_array_get(messages, 0), "system") ? 1 : 0;
    for (size_t i = 0; i < n_forgotten && json_array_size(messages) > first; i++)
        json_array_remove(messages, first);
    char *text = messages ? json_dumps(messages, JSON_COMPACT) : NULL;
    json_decref(messages);
    return text;
}

linnet_status ln_conversation_encode(const ln_conversation *conversation, size_t n_forgotten,
                                     const linnet_model *model, int32_t **ids, size_t *n_ids,
                                     char **prompt, linnet_error *err) {
    char *text = dump_rest(conversation, n_forgotten);
    if (!text) {
        *err = (linnet_error){.status = LINNET_ERR_NOMEM, .message = "out of memory"};
        return LINNET_ERR_NOMEM;
    }
    linnet_chat_options options;
    linnet_chat_options_init(&options);
    options.messages_json = text;
    linnet_status status = linnet_model_render_chat(model, &options, ids, n_ids, prompt, err);
    free(text);
    return status;
}

int ln_conversation_save(const ln_conversation *conversation, const char *path) {
    if (json_dump_file(conversation->messages, path, JSON_INDENT(2)) == 0)
        return 0;
    return ln_cli_fail("cannot write '%s': %s", path, strerror(errno));
}

/* Whether it is an array of messages: objects with a role and a content that are texts. */
static bool is_conversation(const json_t *messages) {
    size_t index;
    json_t *message;
    json_array_foreach(messages, index, message) {
        if (!json_is_string(json_object_get(message, "role")) ||
            !json_is_string(json_object_get(message, "content")))
            return false;
    }
    return json_is_array(messages);
}

int ln_conversation_load(ln_conversation *conversation, const char *path) {
    char *text = NULL;
    size_t n_bytes = 0;
    int status = ln_cli_read_text(path, &text, &n_bytes);
    if (status != 0)
        return status;
    json_error_t where;
    json_t *messages = ln_json_load_bytes(text, n_bytes, 0, &where);
    free(text);
    if (!messages)
        return ln_cli_fail("'%s', line %d, column %d: %s", path, where.line, where.column,
                           where.text);
    if (!is_conversation(messages)) {
        json_decref(messages);
        return ln_cli_fail("'%s' is not a JSON array of messages with role and content", path);
    }
    json_decref(conversation->messages);
    conversation->messages = messages;
    return 0;
}
