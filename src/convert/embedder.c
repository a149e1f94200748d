/* Models that embed: what a file says of their vectors. */
#include <stdlib.h>

#include "base/file.h"
#include "convert/metadata.h"
#include "model/embedding/embedding.h"

static ln_status refuse(const ln_convert_plan *plan, const char *what) {
    return ln_fail(plan->err, LINNET_ERR_UNSUPPORTED, "%s: %s cannot be converted yet",
                   ln_checkpoint_path(plan->checkpoint), what);
}

/* Whether sentence-transformers' files say how vectors are made. */
static bool has_modules(const ln_convert_plan *plan) {
    char *path = ln_path_join(ln_checkpoint_path(plan->checkpoint), "modules.json");
    bool has = path != NULL && ln_file_exists(path);
    free(path);
    return has;
}

ln_status ln_convert_check_embedder(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    bool says = has_modules(plan);
    ln_embedding embedding = {0};
    ln_arena arena;
    if (!spec->bidirectional && spec->lacks_output)
        return refuse(plan, "models without an output");
    if (!spec->bidirectional && !says)
        return LINNET_OK;
    ln_arena_init(&arena);
    ln_status status = ln_embedding_read(plan->checkpoint, spec, &arena, &embedding, plan->err);
    if (status == LINNET_OK && embedding.classes.n > 0)
        status = refuse(plan, "models that classify");
    else if (status == LINNET_OK && embedding.dense.n > 0)
        status = refuse(plan, "models with dense layers behind their pooling");
    plan->pooling = embedding.dense.pooling;
    ln_embedding_free(&embedding);
    ln_arena_free(&arena);
    return status;
}

void ln_convert_put_embedder(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    static const uint32_t types[] = {
        [LINNET_POOLING_CLS] = 2, [LINNET_POOLING_MEAN] = 1, [LINNET_POOLING_LAST] = 3};
    if (plan->pooling == LINNET_POOLING_DEFAULT)
        return;
    ln_convert_put_number(plan, writer, "pooling_type", types[plan->pooling]);
    if (!plan->spec->bidirectional)
        return;
    ln_gguf_put_bool(writer, ln_convert_key_of(plan, "attention.causal").text, false);
    if (plan->spec->n_types > 0) /* readers look for it among the tokenizer's keys */
        ln_gguf_put_u32(writer, "tokenizer.ggml.token_type_count", (uint32_t)plan->spec->n_types);
}
