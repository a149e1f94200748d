/* Builds the body of a chat completion from that of another API. Values are borrowed or taken as
 * said; when memory runs out, the builder fails as a whole. */
#ifndef LN_SERVER_GENERATION_CHAT_BUILDER_H
#define LN_SERVER_GENERATION_CHAT_BUILDER_H

#include "server/json/fields.h"

typedef struct ln_chat_builder {
    json_t *body, *messages; /* owned; the body holds the messages, too */
    bool failed;
} ln_chat_builder;

void ln_chat_builder_init(ln_chat_builder *builder);
/* The body, or NULL with the error set; the builder is empty then. */
json_t *ln_chat_builder_take(ln_chat_builder *builder, ln_api_error *error);

/* Sets a member of an object; takes the value, NULL for want of memory. False: it is gone. */
bool ln_chat_builder_put(ln_chat_builder *builder, json_t *object, const char *name, json_t *value);
/* Appends to a list; takes the value. False: it is gone. */
bool ln_chat_builder_append(ln_chat_builder *builder, json_t *list, json_t *value);
/* A field of the body as another one, where it is there. */
void ln_chat_builder_copy(ln_chat_builder *builder, const ln_fields *fields, const char *name,
                          const char *as);
/* Fields by their own names; `names` ends with NULL. */
void ln_chat_builder_copy_all(ln_chat_builder *builder, const ln_fields *fields,
                              const char *const *names);

/* A message, borrowed, NULL for want of memory, as its content may be, which it takes. */
json_t *ln_chat_builder_add_message(ln_chat_builder *builder, const char *role, json_t *content);
/* Adds text to a message's content, on lines of its own. */
void ln_chat_builder_add_text(ln_chat_builder *builder, json_t *message, const json_t *text);
/* Adds a call to a message's tool_calls; borrows `arguments`, JSON or a string of it. */
void ln_chat_builder_add_call(ln_chat_builder *builder, json_t *message, const json_t *id,
                              const json_t *name, const json_t *arguments);
/* The field "tools" of an API's body, a list of bounded length; NULL where it is not there. */
bool ln_chat_builder_find_tools(const ln_fields *fields, const json_t **tools);
/* A function for the body's tools; `parameters` may be NULL. All are borrowed. */
void ln_chat_builder_add_tool(ln_chat_builder *builder, const json_t *name,
                              const json_t *description, const json_t *parameters);
/* A tool of type custom, whose name, description and format stand in `custom`, borrowed. */
void ln_chat_builder_add_custom(ln_chat_builder *builder, const json_t *custom);
/* The answer must be JSON that satisfies the schema, borrowed; a strict one has the members in the
 * order of the schema, and no others. */
void ln_chat_builder_set_schema(ln_chat_builder *builder, const json_t *schema, bool is_strict);

#endif
