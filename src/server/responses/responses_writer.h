/* Answers of OpenAI's Responses API: whole, or as events that are numbered. */
#ifndef LN_SERVER_RESPONSES_RESPONSES_WRITER_H
#define LN_SERVER_RESPONSES_RESPONSES_WRITER_H

#include "server/generation/answer_format.h"

extern const ln_answer_format ln_responses_format;

#endif
