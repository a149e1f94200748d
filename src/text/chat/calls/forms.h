/* The forms of calls: a step for each. */
#ifndef LN_TEXT_CHAT_CALLS_FORMS_H
#define LN_TEXT_CHAT_CALLS_FORMS_H

#include "text/chat/calls/call_state.h"

ln_calls_result ln_json_calls_step(ln_call_reader *reader, char byte);
ln_calls_result ln_named_calls_step(ln_call_reader *reader, char byte);
ln_calls_result ln_tagged_calls_step(ln_call_reader *reader, char byte);
/* PYTHON and GEMMA: a call at a time. */
ln_calls_result ln_literal_calls_step(ln_call_reader *reader, char byte);

#endif
