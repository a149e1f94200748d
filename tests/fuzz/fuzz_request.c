/* Any bytes as the body of a request: the first says of which API. It becomes a request of the
 * engine, or an error of the client's with a status and a sentence. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/completions/completion_request.h"
#include "server/embeddings/embed_request.h"
#include "server/generation/chat_request.h"
#include "server/messages/messages_input.h"
#include "server/native/native_input.h"
#include "server/ollama/keep_alive.h"
#include "server/ollama/ollama_input.h"
#include "server/responses/responses_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { CTX_TOKENS = 512 };

static linnet_model *model;
static ln_response_store *store;

/* What a worker has of a request. */
typedef struct asked {
    ln_fields fields;
    ln_api_error error;
    ln_ignored_fields ignored;
    ln_generation_request request;
    bool is_empty; /* nothing is to be answered */
} asked;

static bool read_with(asked *a, ln_generation_reader *read) {
    return read(&a->fields, model, CTX_TOKENS, &a->request);
}

/* Reads what a body became; takes it. */
static bool read_translated(asked *a, json_t *body, ln_generation_reader *read) {
    const ln_fields fields = {body, "", &a->error, NULL};
    bool done = body != NULL && read(&fields, model, CTX_TOKENS, &a->request);
    json_decref(body);
    return done;
}

static bool read_responses(asked *a) {
    ln_responses_request kept = {0};
    json_t *body = ln_responses_input_translate(&a->fields, store, "0", &kept);
    ln_responses_request_free(&kept);
    return read_translated(a, body, ln_chat_request_read);
}

static bool read_ollama(asked *a, bool is_chat) {
    int64_t keep_ms;
    ln_ollama_kind kind = LN_OLLAMA_CHAT;
    const json_t *keep = json_object_get(a->fields.root, "keep_alive");
    if (keep != NULL)
        ln_ollama_read_keep_alive(keep, &keep_ms);
    json_t *body = is_chat ? ln_ollama_input_translate_chat(&a->fields, &a->is_empty)
                           : ln_ollama_input_translate_generate(&a->fields, &kind, &a->is_empty);
    if (a->is_empty)
        return body == NULL;
    return read_translated(
        a, body, kind == LN_OLLAMA_RAW ? ln_completion_request_read : ln_chat_request_read);
}

static bool read_api(asked *a, unsigned api) {
    switch (api % 14) {
    case 0: return read_with(a, ln_chat_request_read);
    case 1: return read_with(a, ln_completion_request_read);
    case 2: return read_responses(a);
    case 3:
        return read_translated(a, ln_messages_input_translate(&a->fields, false),
                               ln_chat_request_read);
    case 4:
        return read_translated(a, ln_messages_input_translate(&a->fields, true),
                               ln_chat_request_read);
    case 5: return read_ollama(a, true);
    case 6: return read_ollama(a, false);
    case 7:
    case 8:
        return read_translated(a, ln_native_input_translate(&a->fields, api % 2 == 0),
                               ln_completion_request_read);
    case 9: return read_with(a, ln_embed_read);
    case 10: return read_with(a, ln_embed_read_rerank);
    case 11: return read_with(a, ln_embed_read_score);
    case 12: return read_with(a, ln_embed_read_ollama);
    default: return read_with(a, ln_embed_read_native);
    }
}

static void check(const asked *a, bool done) {
    if (done != (a->error.status == 0))
        __builtin_trap();
    if (!done && (a->error.status < 400 || a->error.status >= 500 || a->error.message[0] == '\0'))
        __builtin_trap(); /* whatever a client sends, no error is the server's */
    if (!done || a->is_empty)
        return;
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_model_get_info(model, &info);
    if (a->request.n_prompts == 0)
        __builtin_trap();
    for (size_t i = 0; i < a->request.n_prompts; i++)
        for (size_t j = 0; j < a->request.prompts[i].n_ids; j++)
            if (a->request.prompts[i].ids[j] < 0 || a->request.prompts[i].ids[j] >= info.n_vocab)
                __builtin_trap();
}

static bool open_model(void) {
    static const ln_response_store_limits limits = {4, 1 << 16};
    ln_item_list items = {0};
    linnet_error err = {0};
    if (model != NULL)
        return true;
    ln_item_list_add(&items, 0, "item_1",
                     "{\"id\":\"item_1\",\"role\":\"user\",\"content\":\"Hi\"}");
    if (linnet_model_open("models/demo.gguf", &model, &err) != LINNET_OK ||
        ln_response_store_open(NULL, &limits, &store, &err) != LINNET_OK ||
        !ln_response_store_put(store, "resp_1", "{\"id\":\"resp_1\"}", &items, 1) ||
        !ln_response_store_put(store, "conv_1", "{\"id\":\"conv_1\"}", &items, 1))
        __builtin_trap(); /* it runs in the root of the project */
    ln_item_list_free(&items);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    asked a = {0};
    if (bytes == 0 || !open_model())
        return 0;
    json_t *root = ln_fields_parse((const char *)data + 1, bytes - 1, &a.error);
    if (root == NULL) {
        check(&a, false);
        return 0;
    }
    a.fields = (ln_fields){root, "", &a.error, data[0] < 128 ? &a.ignored : NULL};
    check(&a, read_api(&a, data[0]));
    ln_generation_request_free(&a.request);
    json_decref(root);
    return 0;
}
