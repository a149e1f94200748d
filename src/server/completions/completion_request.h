/* OpenAI's completions, read from their fields: prompts that are text or token ids. */
#ifndef LN_SERVER_COMPLETIONS_COMPLETION_REQUEST_H
#define LN_SERVER_COMPLETIONS_COMPLETION_REQUEST_H

#include "server/generation/generate.h"

ln_generation_reader ln_completion_request_read;

#endif
