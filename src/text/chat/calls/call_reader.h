/* The tool-call parser, for any syntax (call_syntax.h): it is fed what follows the text that begins
 * calls, and hands on names and arguments as soon as they are certain. */
#ifndef LN_TEXT_CHAT_CALLS_CALL_READER_H
#define LN_TEXT_CHAT_CALLS_CALL_READER_H

#include "text/chat/calls/call_state.h"

void ln_call_reader_init(ln_call_reader *reader, const ln_call_syntax *syntax,
                         const ln_call_sink *sink);
void ln_call_reader_free(ln_call_reader *reader);
/* After ENDED or FAILED, `held` has the bytes that are no part of a call. */
ln_calls_result ln_call_reader_feed(ln_call_reader *reader, char byte);
/* There is no more text: the same of what is held then. */
ln_calls_result ln_call_reader_finish(ln_call_reader *reader);
bool ln_call_reader_has_failed(const ln_call_reader *reader); /* memory ran out */

#endif
