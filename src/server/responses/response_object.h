/* The JSON of a response: the object, and the items of its output. */
#ifndef LN_SERVER_RESPONSES_RESPONSE_OBJECT_H
#define LN_SERVER_RESPONSES_RESPONSE_OBJECT_H

#include "server/generation/answer_format.h"
#include "server/responses/responses_input.h"

/* What the request of a writer keeps. */
ln_responses_request *ln_response_kept(const ln_answer_writer *writer);

/* How a choice ended: "in_progress", "completed" or "incomplete". */
const char *ln_response_status(const ln_choice *choice);

/* The id of an item of the output, and the item: as it begins, without text, or whole. */
void ln_response_put_item_id(const ln_answer_writer *writer, const ln_choice *choice, size_t index,
                             ln_strbuf *out);
void ln_response_put_item(const ln_answer_writer *writer, const ln_choice *choice, size_t index,
                          bool begins, ln_strbuf *out);
/* The content of a text or reasoning, as one part of an item. */
void ln_response_put_part(const ln_answer_writer *writer, const ln_choice *choice, size_t index,
                          bool begins, ln_strbuf *out);
/* The logprobs of a text, as a list: those that no delta had, and all. */
void ln_response_put_new_logprobs(const ln_answer_writer *writer, ln_choice *choice,
                                  ln_strbuf *out);
void ln_response_put_logprobs(const ln_answer_writer *writer, const ln_choice *choice,
                              ln_strbuf *out);

/* The whole object. `choice` NULL: there is no output yet. `error` NULL: none. */
void ln_response_put(const ln_answer_writer *writer, const char *status, const ln_choice *choice,
                     const ln_api_error *error, ln_strbuf *out);

/* Stores the response, which is `json`, with the items that it answers and, once it is over, those
 * of its output (`choice`; NULL: not yet), which then belong to its conversation, too. */
void ln_response_store_answer(const ln_answer_writer *writer, const char *status,
                              const ln_choice *choice, const char *json);

#endif
