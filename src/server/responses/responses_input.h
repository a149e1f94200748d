/* The body of OpenAI's Responses API: as that of a chat completion, and as what a response repeats
 * of it. */
#ifndef LN_SERVER_RESPONSES_RESPONSES_INPUT_H
#define LN_SERVER_RESPONSES_RESPONSES_INPUT_H

#include "base/strbuf.h"
#include "server/json/fields.h"
#include "server/responses/response_store.h"

enum { LN_RESPONSES_ID_BYTES = 64 };

/* What is kept of a body until its response is whole. */
typedef struct ln_responses_request {
    ln_response_store *store; /* borrowed */
    bool is_stored;           /* the response, as nobody says otherwise */
    bool runs_in_background;
    char conversation[LN_RESPONSES_ID_BYTES]; /* that it belongs to; "": none */
    ln_strbuf echo; /* members of a response that repeat the body: each with a comma before it */
    ln_item_list items; /* all that it answers, where they will be stored */
    size_t n_past;      /* of these: the previous response's, or the conversation's */
} ln_responses_request;

void ln_responses_request_free(ln_responses_request *request);

/* The body of a chat completion, new, or NULL with the error of `fields` set. `kept` is zeroed and
 * receives the rest; it is to be freed in either case. `store` has previous responses and
 * conversations; ids of items are made of `serial`. */
json_t *ln_responses_input_translate(const ln_fields *fields, ln_response_store *store,
                                     const char *serial, ln_responses_request *kept);

#endif
