/* The JSON of llama.cpp's own API: whole answers, and the chunks of a stream. */
#ifndef LN_SERVER_NATIVE_NATIVE_WRITER_H
#define LN_SERVER_NATIVE_NATIVE_WRITER_H

#include "server/generation/answer_format.h"

extern const ln_answer_format ln_native_format;

#endif
