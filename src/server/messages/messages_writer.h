/* Answers of Anthropic's Messages API: a message of content blocks, whole or as events. */
#ifndef LN_SERVER_MESSAGES_MESSAGES_WRITER_H
#define LN_SERVER_MESSAGES_MESSAGES_WRITER_H

#include "server/generation/answer_format.h"

extern const ln_answer_format ln_messages_format;

#endif
