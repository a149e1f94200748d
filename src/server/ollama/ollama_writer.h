/* Answers of Ollama's API: an object, or one a line while they stream. */
#ifndef LN_SERVER_OLLAMA_OLLAMA_WRITER_H
#define LN_SERVER_OLLAMA_OLLAMA_WRITER_H

#include "server/generation/answer_format.h"

extern const ln_answer_format ln_ollama_chat_format, ln_ollama_generate_format;

/* A time as Ollama writes it, with quotes. */
void ln_ollama_put_time(int64_t seconds, ln_strbuf *out);

#endif
