/* The body of OpenAI's Responses API: as that of a chat completion, and as what a response repeats
 * of it. */
#ifndef LN_SERVER_RESPONSES_RESPONSES_INPUT_H
#define LN_SERVER_RESPONSES_RESPONSES_INPUT_H

#include "base/strbuf.h"
#include "server/json/fields.h"
#include "server/responses/response_store.h"

/* What is kept of a body until its response is whole. */
typedef struct ln_responses_request {
    ln_response_store *store; /* borrowed; NULL: the response is not stored */
    bool runs_in_background;
    ln_strbuf echo;  /* members of a response that repeat the body: each with a comma before it */
    ln_strbuf input; /* a list of JSON: all items that it answers, with ids */
    ln_strbuf messages; /* a list of JSON without its ']': the chat so far, without instructions */
} ln_responses_request;

void ln_responses_request_free(ln_responses_request *request);

/* The body of a chat completion, new, or NULL with the error of `fields` set. `kept` is zeroed and
 * receives the rest; it is to be freed in either case. `store` has previous responses. */
json_t *ln_responses_input_translate(const ln_fields *fields, ln_response_store *store,
                                     ln_responses_request *kept);

#endif
