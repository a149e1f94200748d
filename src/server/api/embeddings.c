/* Vectors and scores of texts: /v1/embeddings, /pooling, /classify, /v1/rerank, /v1/score, Ollama's
 * /api/embed and /api/embeddings, llama.cpp's /embedding. */
#include <string.h>

#include "server/api/routes.h"
#include "server/embeddings/embed_request.h"
#include "server/embeddings/embed_writer.h"
#include "server/generation/generation.h"
#include "server/ollama/ollama_input.h"

static bool as_it_is(ln_api_task *task, const ln_fields *fields) {
    (void)task, (void)fields;
    return true;
}

/* There a model's name may have a tag behind it. */
static bool drop_tag(ln_api_task *task, const ln_fields *fields) {
    const json_t *name = ln_fields_get(fields, "model");
    if (!json_is_string(name) || json_string_length(name) != strlen(json_string_value(name)))
        return true; /* the reader says what is wrong */
    json_t *bare = ln_ollama_input_model(name);
    return json_object_set_new((json_t *)(uintptr_t)fields->root, "model", bare) == 0 ||
           ln_api_fail_memory(&task->error);
}

/* An endpoint is a reader of bodies and a format of answers. */
#define ENDPOINT(name, reader, answer_format, prepare)                                             \
    static bool read_##name(ln_api_task *task, const ln_fields *fields) {                          \
        return prepare(task, fields) && ln_generate(task, fields, reader);                         \
    }                                                                                              \
    void ln_endpoint_##name(ln_context *context, ln_exchange *exchange) {                          \
        static const ln_api_work work = {.kind = LN_API_COMPLETION,                                \
                                         .generates = true,                                        \
                                         .format = &(answer_format),                               \
                                         .read = read_##name,                                      \
                                         .answer = ln_generation_begin};                           \
        ln_api_task_push(context, exchange, &work);                                                \
    }

ENDPOINT(embeddings, ln_embed_read, ln_embed_format, as_it_is)
ENDPOINT(pooling, ln_embed_read, ln_embed_pooling_format, as_it_is)
ENDPOINT(classify, ln_embed_read_classes, ln_embed_classes_format, as_it_is)
ENDPOINT(rerank, ln_embed_read_rerank, ln_embed_rerank_format, as_it_is)
ENDPOINT(score, ln_embed_read_score, ln_embed_score_format, as_it_is)
ENDPOINT(ollama_embed, ln_embed_read_ollama, ln_embed_ollama_format, drop_tag)
ENDPOINT(ollama_embeddings, ln_embed_read_ollama_old, ln_embed_ollama_old_format, drop_tag)
ENDPOINT(native_embedding, ln_embed_read_native, ln_embed_native_format, as_it_is)
