/* Requests for vectors and scores of texts: what the bodies of several APIs ask for. */
#ifndef LN_SERVER_EMBEDDINGS_EMBED_REQUEST_H
#define LN_SERVER_EMBEDDINGS_EMBED_REQUEST_H

#include "server/generation/generate.h"

enum { LN_EMBED_MAX_TEXTS = 2048 };

/* How an answer is made of vectors, the `extra` of a generation's request. */
typedef struct ln_embed_answer {
    bool is_base64;
    bool is_scored;    /* a prompt is a pair, whose vector is its score; else prompts are texts */
    size_t n_queries;  /* of texts: the first so many, which the others are compared with */
    size_t top_n;      /* results that are shown */
    json_t *documents; /* shared; NULL: they are not shown */
    size_t n_labels;   /* of a classifier */
    const linnet_model *model; /* borrowed */
} ln_embed_answer;

/* OpenAI's /v1/embeddings, vLLM's /pooling and /classify. */
bool ln_embed_read(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                   ln_generation_request *request);
bool ln_embed_read_classes(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                           ln_generation_request *request);
/* Jina's and Cohere's rerank, vLLM's score. */
bool ln_embed_read_rerank(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                          ln_generation_request *request);
bool ln_embed_read_score(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                         ln_generation_request *request);
/* Ollama's two, and llama.cpp's. */
bool ln_embed_read_ollama(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                          ln_generation_request *request);
bool ln_embed_read_ollama_old(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                              ln_generation_request *request);
bool ln_embed_read_native(const ln_fields *fields, const linnet_model *model, size_t ctx_tokens,
                          ln_generation_request *request);

#endif
