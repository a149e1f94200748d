/* The JSON of OpenAI's completions and chat completions: whole answers, and the chunks of a
 * stream. */
#ifndef LN_SERVER_GENERATION_OPENAI_WRITER_H
#define LN_SERVER_GENERATION_OPENAI_WRITER_H

#include "server/generation/answer_format.h"

extern const ln_answer_format ln_openai_chat_format, ln_openai_completion_format;

#endif
