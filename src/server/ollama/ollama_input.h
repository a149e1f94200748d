/* Bodies of Ollama's API as those of chat completions and completions. */
#ifndef LN_SERVER_OLLAMA_OLLAMA_INPUT_H
#define LN_SERVER_OLLAMA_OLLAMA_INPUT_H

#include "server/json/fields.h"

typedef enum ln_ollama_kind {
    LN_OLLAMA_CHAT,
    LN_OLLAMA_GENERATE, /* a prompt that becomes the message of a chat */
    LN_OLLAMA_RAW       /* a prompt that is continued as it is */
} ln_ollama_kind;

/* The body of /api/chat, or of /api/generate, as a new object; NULL with the error of `fields` set.
 * *kind is what it asks for. *is_empty: there is nothing to answer, as clients ask for a model to
 * be loaded; NULL is returned then. */
json_t *ln_ollama_input_translate_chat(const ln_fields *fields, bool *is_empty);
json_t *ln_ollama_input_translate_generate(const ln_fields *fields, ln_ollama_kind *kind,
                                           bool *is_empty);

/* A model's name without the tag that stands for any: "demo:latest" is "demo". A new string. */
json_t *ln_ollama_input_model(const json_t *name);

#endif
