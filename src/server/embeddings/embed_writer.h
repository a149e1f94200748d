/* Answers made of vectors: of OpenAI's, vLLM's, Jina's, Ollama's and llama.cpp's APIs. */
#ifndef LN_SERVER_EMBEDDINGS_EMBED_WRITER_H
#define LN_SERVER_EMBEDDINGS_EMBED_WRITER_H

#include "server/generation/answer_format.h"

extern const ln_answer_format ln_embed_format, ln_embed_pooling_format, ln_embed_classes_format,
    ln_embed_rerank_format, ln_embed_score_format, ln_embed_ollama_format,
    ln_embed_ollama_old_format, ln_embed_native_format;

#endif
