/* The forms of calls: a step for each. */
#ifndef LN_TEXT_CHAT_CALLS_FORMS_H
#define LN_TEXT_CHAT_CALLS_FORMS_H

#include "text/chat/calls/call_state.h"

ln_calls_result ln_json_calls_step(ln_call_reader *reader, char byte);
ln_calls_result ln_named_calls_step(ln_call_reader *reader, char byte);
ln_calls_result ln_tagged_calls_step(ln_call_reader *reader, char byte);
/* PYTHON and GEMMA: a call at a time. */
ln_calls_result ln_literal_calls_step(ln_call_reader *reader, char byte);

/* An argument's value, as JSON: what the type says, or what the text looks like. */
void ln_calls_put_value(ln_parameter_type type, const char *text, size_t n_bytes, ln_strbuf *json);
/* The same of the argument that the reader has read, in a syntax whose values nest. */
void ln_nested_value_put(const ln_call_reader *reader, ln_parameter_type type, const char *text,
                         size_t n_bytes, ln_strbuf *json);

#endif
