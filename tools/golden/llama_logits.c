/* Writes the logits that llama.cpp gives for each token of a list, for llama_cpp.py. The file needs
 * no tokenizer. Keys and values are float32, so that only the order of sums differs from linnet's.
 * The context is no longer than the model's, by which llama.cpp chooses factors of LongRoPE.
 *
 *     cc -I LLAMA/include -I LLAMA/ggml/include llama_logits.c -L BUILD/bin -lllama -lggml-base
 */
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 512, MAX_CONTEXT = 1024 };

static void show_errors(enum ggml_log_level level, const char *text, void *unused) {
    (void)unused;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static struct llama_context *open_context(const char *path) {
    struct llama_model_kv_override overrides[2] = {{.tag = LLAMA_KV_OVERRIDE_TYPE_STR}};
    strcpy(overrides[0].key, "tokenizer.ggml.model");
    strcpy(overrides[0].val_str, "none");
    struct llama_model_params of_model = llama_model_default_params();
    of_model.kv_overrides = overrides;
    struct llama_model *model = llama_model_load_from_file(path, of_model);
    if (model == NULL)
        return NULL;
    struct llama_context_params params = llama_context_default_params();
    int32_t n_trained = llama_model_n_ctx_train(model);
    params.n_ctx = n_trained < MAX_CONTEXT ? (uint32_t)n_trained : MAX_CONTEXT;
    params.n_batch = params.n_ubatch = params.n_outputs_max = MAX_TOKENS;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    return llama_init_from_model(model, params);
}

static void read_ids(char *text, struct llama_batch *batch) {
    for (char *word = strtok(text, ","); word != NULL && batch->n_tokens < MAX_TOKENS;
         word = strtok(NULL, ",")) {
        int32_t i = batch->n_tokens++;
        batch->token[i] = atoi(word);
        batch->pos[i] = i;
        batch->n_seq_id[i] = 1;
        batch->seq_id[i][0] = 0;
        batch->logits[i] = true;
    }
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s FILE.gguf IDS OUT\n", argv[0]);
        return 2;
    }
    llama_log_set(show_errors, NULL);
    llama_backend_init();
    struct llama_context *context = open_context(argv[1]);
    struct llama_batch batch = llama_batch_init(MAX_TOKENS, 0, 1);
    read_ids(argv[2], &batch);
    if (context == NULL || llama_decode(context, batch) != 0)
        return 1;
    int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)));
    FILE *out = fopen(argv[3], "wb");
    for (int32_t i = 0; out != NULL && i < batch.n_tokens; i++)
        fwrite(llama_get_logits_ith(context, i), sizeof(float), (size_t)n_vocab, out);
    return out == NULL || fclose(out) != 0;
}
