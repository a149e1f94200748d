#include "model/embedding/embedding.h"

#include <string.h>

#include "format/quants.h"
#include "model/family.h"

/* A tensor of a head that is [n_out][n_in], or a vector with n_in 0. */
static ln_status check_shape(const ln_checkpoint *checkpoint, const ln_tensor *tensor, size_t n_in,
                             size_t n_out, ln_error *err) {
    bool is_matrix = n_in > 0;
    size_t n = tensor->n_dims == (is_matrix ? 2 : 1) ? (size_t)tensor->dims[0] : 0;
    if (n == n_out && (!is_matrix || tensor->dims[1] == n_in) &&
        ln_dtype_block_elems(tensor->dtype) == 1 && ln_can_dequantize(tensor->dtype))
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT,
                   "%s: tensor %s does not have the shape or type of a head",
                   ln_checkpoint_path(checkpoint), tensor->name);
}

static const ln_tensor *find(const ln_checkpoint *checkpoint, const ln_spec *spec, ln_role role,
                             bool is_bias) {
    const ln_binding *binding;
    ln_tensor_id id = {.role = role, .is_bias = is_bias};
    return ln_family_find(spec->family, checkpoint, id, &binding);
}

/* Adds the stage of a role's matrix, whose rows are as many as it has. */
static ln_status add_stage(const ln_checkpoint *checkpoint, const ln_spec *spec, ln_role role,
                           ln_head_stages *head, ln_error *err) {
    const ln_tensor *weight = find(checkpoint, spec, role, false);
    if (weight == NULL)
        return LINNET_OK;
    ln_head_stage *stage = &head->stages[head->n++];
    *stage = (ln_head_stage){.n_in = spec->dim,
                             .n_out = (size_t)weight->dims[0],
                             .weight = weight,
                             .bias = find(checkpoint, spec, role, true)};
    if (stage->n_out == 0 || stage->n_out > LN_MAX_DIM)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s has no rows",
                       ln_checkpoint_path(checkpoint), weight->name);
    LN_TRY(check_shape(checkpoint, weight, stage->n_in, stage->n_out, err));
    return stage->bias == NULL ? LINNET_OK
                               : check_shape(checkpoint, stage->bias, 0, stage->n_out, err);
}

/* The head of a classifier: a dense layer where there is one, a norm, a row for each label. */
static ln_status read_classes(const ln_checkpoint *checkpoint, const ln_spec *spec,
                              ln_head_stages *head, ln_error *err) {
    const ln_family *family = spec->family;
    ln_meta_value value;
    if (find(checkpoint, spec, LN_ROLE_CLASS_OUT, false) == NULL)
        return LINNET_OK;
    head->pooling = family->class_pooling;
    if (ln_checkpoint_meta(checkpoint, "classifier_pooling", &value) &&
        value.kind == LN_META_STRING && value.string.bytes == 4 &&
        memcmp(value.string.data, "mean", 4) == 0)
        head->pooling = LINNET_POOLING_MEAN;
    LN_TRY(add_stage(checkpoint, spec, LN_ROLE_CLASS_DENSE, head, err));
    if (head->n > 0) {
        ln_head_stage *stage = &head->stages[0];
        stage->activation = family->class_activation;
        stage->norm = find(checkpoint, spec, LN_ROLE_CLASS_NORM, false);
        stage->norm_bias = find(checkpoint, spec, LN_ROLE_CLASS_NORM, true);
        stage->eps = spec->norm_eps;
        if (stage->n_out != spec->dim)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s is not square",
                           ln_checkpoint_path(checkpoint), stage->weight->name);
        if (stage->norm != NULL)
            LN_TRY(check_shape(checkpoint, stage->norm, 0, spec->dim, err));
        if (stage->norm_bias != NULL)
            LN_TRY(check_shape(checkpoint, stage->norm_bias, 0, spec->dim, err));
    }
    return add_stage(checkpoint, spec, LN_ROLE_CLASS_OUT, head, err);
}

/* The head of rows of a matrix. */
static ln_status ask(const ln_checkpoint *checkpoint, const ln_spec *spec, const ln_tensor *weight,
                     ln_embedding *embedding, ln_error *err) {
    const char *path = ln_checkpoint_path(checkpoint);
    size_t row_bytes;
    bool fits = weight != NULL && weight->n_dims == 2 && weight->dims[1] == spec->dim &&
                ln_can_dequantize(weight->dtype) &&
                ln_dtype_row_bytes(weight->dtype, spec->dim, &row_bytes);
    if (!fits || spec->logit_softcap > 0.0f || spec->logit_scale != 1.0f)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: such an output cannot score pairs", path);
    for (int i = 0; i < 2; i++)
        if (embedding->answers[i] < (i == 0 ? 0 : -1) ||
            embedding->answers[i] >= (int64_t)weight->dims[0])
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: there is no token %lld to score pairs by",
                           path, (long long)embedding->answers[i]);
    embedding->asks = true;
    embedding->classes = (ln_head_stages){.pooling = LINNET_POOLING_LAST, .n = 1};
    embedding->classes.stages[0] = (ln_head_stage){
        .n_in = spec->dim, .n_out = 1, .weight = weight, .rows = embedding->answers};
    return LINNET_OK;
}

ln_status ln_embedding_set_answers(const ln_checkpoint *checkpoint, const ln_spec *spec,
                                   ln_embedding *embedding, ln_error *err) {
    ln_role role = spec->tied ? LN_ROLE_EMBEDDING : LN_ROLE_OUTPUT;
    return ask(checkpoint, spec, find(checkpoint, spec, role, false), embedding, err);
}

/* What llama.cpp's converter makes of a language model that reranks: rows of the output, yes before
 * no. */
static bool is_yes_and_no(const ln_checkpoint *checkpoint, const ln_spec *spec,
                          const ln_head_stages *classes) {
    ln_meta_value value;
    return !spec->bidirectional && classes->n == 1 && classes->stages[0].n_out == 2 &&
           classes->stages[0].bias == NULL &&
           ln_checkpoint_meta(checkpoint, "tokenizer.chat_template.rerank", &value);
}

/* GGUF's key: 1 mean, 2 the first token, 3 the last, 4 a reranker's head. */
static void read_gguf_pooling(const ln_checkpoint *checkpoint, ln_embedding *embedding) {
    static const char ending[] = ".pooling_type";
    ln_meta_value arch, value;
    char key[96];
    if (!ln_checkpoint_meta(checkpoint, "general.architecture", &arch) ||
        arch.kind != LN_META_STRING || arch.string.bytes + sizeof ending > sizeof key)
        return;
    memcpy(key, arch.string.data, arch.string.bytes);
    memcpy(key + arch.string.bytes, ending, sizeof ending);
    if (!ln_checkpoint_meta(checkpoint, key, &value) || value.kind != LN_META_INT)
        return;
    embedding->is_described = value.integer >= 1 && value.integer <= 4;
    if (value.integer == 1)
        embedding->dense.pooling = LINNET_POOLING_MEAN;
    if (value.integer == 2)
        embedding->dense.pooling = LINNET_POOLING_CLS;
    if (value.integer == 3)
        embedding->dense.pooling = LINNET_POOLING_LAST;
}

ln_status ln_embedding_read(const ln_checkpoint *checkpoint, const ln_spec *spec, ln_arena *arena,
                            ln_embedding *embedding, ln_error *err) {
    linnet_pooling pooling = spec->family->pooling;
    if (pooling == LINNET_POOLING_DEFAULT)
        pooling = spec->bidirectional ? LINNET_POOLING_MEAN : LINNET_POOLING_LAST;
    embedding->normalizes = true;
    embedding->dense.pooling = pooling;
    LN_TRY(read_classes(checkpoint, spec, &embedding->classes, err));
    if (ln_checkpoint_get_format(checkpoint) == LN_FORMAT_GGUF) {
        read_gguf_pooling(checkpoint, embedding);
        if (!is_yes_and_no(checkpoint, spec, &embedding->classes))
            return LINNET_OK;
        embedding->answers[1] = 1;
        return ask(checkpoint, spec, embedding->classes.stages[0].weight, embedding, err);
    }
    LN_TRY(ln_embedding_read_modules(ln_checkpoint_path(checkpoint), spec, arena, embedding, err));
    return embedding->asks ? ln_embedding_set_answers(checkpoint, spec, embedding, err) : LINNET_OK;
}

void ln_embedding_free(ln_embedding *embedding) {
    for (size_t i = 0; i < embedding->n_maps; i++)
        ln_file_map_close(&embedding->maps[i]);
    ln_tensor_list_free(&embedding->tensors);
    *embedding = (ln_embedding){0};
}
