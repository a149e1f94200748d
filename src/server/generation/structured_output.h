/* What the text must look like: OpenAI's response_format, xgrammar's structural_tag, vLLM's
 * structured_outputs and guided_*, llama.cpp's grammar and json_schema. The library compiles it. */
#ifndef LN_SERVER_GENERATION_STRUCTURED_OUTPUT_H
#define LN_SERVER_GENERATION_STRUCTURED_OUTPUT_H

#include "server/generation/request.h"
#include "server/json/fields.h"

/* Reads the grammar, by whichever field says it: at most one. */
bool ln_api_read_grammar(const ln_fields *fields, ln_generation_request *request);
/* Makes a grammar the request's: `source` is a string's text or a value as JSON. */
bool ln_api_set_grammar(ln_generation_request *request, linnet_grammar_kind kind,
                        const json_t *source, const char *param, ln_api_error *error);
void ln_api_clear_grammar(ln_generation_request *request);

#endif
