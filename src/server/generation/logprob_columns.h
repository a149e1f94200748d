/* The logprobs of a choice, collected as JSON while its tokens come. */
#ifndef LN_SERVER_GENERATION_LOGPROB_COLUMNS_H
#define LN_SERVER_GENERATION_LOGPROB_COLUMNS_H

#include "server/generation/answer_format.h"

/* Before those of a completion's output. */
void ln_logprob_columns_begin_output(const ln_answer_writer *writer, ln_choice *choice);

/* Adds the tokens of a completion's prompt to a choice's columns, or the token of an event. */
void ln_logprob_columns_add_echo(const ln_answer_writer *writer, ln_choice *choice,
                                 const linnet_event *event);
void ln_logprob_columns_add(const ln_answer_writer *writer, ln_choice *choice,
                            const linnet_event *event);

/* Collects prompt_logprobs as vLLM has them: null for the first token, and for each other one an
 * object by token ids. A rank is null where the token is not among the likeliest. */
void ln_logprob_columns_put_prompt(const ln_answer_writer *writer, const ln_prompt *prompt,
                                   const linnet_event *event, ln_strbuf *out);

/* Those that were collected, as the API's value. */
void ln_logprob_columns_put(const ln_answer_writer *writer, const ln_choice *choice,
                            ln_strbuf *out);

#endif
