/* The parts of tokenizer.json around the model. Values are borrowed; what is kept is copied to
 * the tokenizer's arena. Errors name the part and its type. */
#ifndef LN_TEXT_TOKENIZER_JSON_PARTS_H
#define LN_TEXT_TOKENIZER_JSON_PARTS_H

#include <jansson.h>

#include "text/tokenizer/tokenizer_state.h"

enum { LN_JSON_MAX_STEPS = 64, LN_JSON_MAX_DEPTH = 16 };

ln_status ln_json_normalizer(ln_tokenizer *tokenizer, const json_t *value, ln_error *err);
ln_status ln_json_pretokenizer(ln_tokenizer *tokenizer, const json_t *value, ln_error *err);
ln_status ln_json_post_processor(ln_tokenizer *tokenizer, const json_t *value, ln_error *err);

/* steps[LN_JSON_MAX_STEPS]; their regexes are the caller's to free. */
ln_status ln_json_decoder(ln_tokenizer *tokenizer, const json_t *value, ln_decode_step *steps,
                          size_t *n_steps, ln_error *err);

/* Fields with defaults; a field of another type counts as absent. */
bool ln_json_bool(const json_t *object, const char *key, bool fallback);
const char *ln_json_text(const json_t *object, const char *key, size_t *n_bytes); /* or NULL */

/* Decodes base64 to malloc'd bytes; false when it is malformed or memory is out. */
bool ln_base64_decode(const char *text, size_t n_bytes, char **bytes, size_t *n_out);

#endif
