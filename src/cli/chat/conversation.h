/* The messages of a chat: an optional system message, then user and assistant in turn. */
#ifndef LN_CLI_CHAT_CONVERSATION_H
#define LN_CLI_CHAT_CONVERSATION_H

#include <jansson.h>
#include <linnet.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct ln_conversation {
    json_t *messages; /* array of {role, content}; owned */
} ln_conversation;

/* Functions that return bool fail when memory runs out, or the text is not UTF-8. */
bool ln_conversation_init(ln_conversation *conversation);
void ln_conversation_free(ln_conversation *conversation);

/* Sets, or with an empty text removes, the system message. */
bool ln_conversation_set_system(ln_conversation *conversation, const char *text);
/* `role` is "user" or "assistant". */
bool ln_conversation_add(ln_conversation *conversation, const char *role, const char *text,
                         size_t n_bytes);
/* Takes the last message away when `role` said it; false when another did, or there is none. */
bool ln_conversation_drop_last(ln_conversation *conversation, const char *role);
/* Drops all but the system message. */
void ln_conversation_clear(ln_conversation *conversation);

/* How many messages there are beside the system message. */
size_t ln_conversation_count(const ln_conversation *conversation);

/* The ids that the model's chat template makes of it, up to where the assistant answers, and
 * *prompt, the text that it rendered; as linnet_model_render_chat. The first n_forgotten messages
 * behind the system message are left out. */
linnet_status ln_conversation_encode(const ln_conversation *conversation, size_t n_forgotten,
                                     const linnet_model *model, int32_t **ids, size_t *n_ids,
                                     char **prompt, linnet_error *err);

/* Writes the messages as a JSON array, or replaces them by those of a file. They print what
 * failed and return the exit status; after a failure the conversation is as before. */
int ln_conversation_save(const ln_conversation *conversation, const char *path);
int ln_conversation_load(ln_conversation *conversation, const char *path);

#endif
