/* The JSON beside the weights of a Hugging Face folder: config.json, generation_config.json,
 * tokenizer_config.json, and what else tells of tokenizer and chat template. */
#ifndef LN_FORMAT_HF_CONFIG_H
#define LN_FORMAT_HF_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "format/meta.h"

/* All owned; NULL where the folder lacks the file. */
typedef struct ln_hf_config {
    json_t *config, *generation, *tokenizer;
    char *tokenizer_json, *tokenizer_model, *source_spm; /* paths */
    char *chat_template;                                 /* NUL-terminated text */
    size_t heap_bytes; /* an upper estimate of the memory behind all */
} ln_hf_config;

/* Reads the folder. `tokenizer_only`: a file for tokenizer or chat template is enough, else
 * config.json is needed. Errors name the file. On failure *hf needs no closing. */
ln_status ln_hf_config_open(const char *folder, bool tokenizer_only, ln_hf_config *hf,
                            ln_error *err);
void ln_hf_config_close(ln_hf_config *hf);

/* A dotted key of config.json; a key that the top level lacks is looked up in text_config. */
bool ln_hf_config_find(const ln_hf_config *hf, const char *key, ln_meta_value *value);

/* Whether a key (not dotted) is there, but null. */
bool ln_hf_config_is_null(const ln_hf_config *hf, const char *key);

/* The template in the JSON of tokenizer_config.json or chat_template.json: the string
 * chat_template, or the one named "default" in a list. *text is malloc'd, NULL when there is
 * none. Errors: FORMAT, NOMEM. */
ln_status ln_hf_chat_template(const json_t *root, char **text, ln_error *err);

#endif
