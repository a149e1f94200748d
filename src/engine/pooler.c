#include "engine/pooler.h"

#include <math.h>
#include <string.h>

#include "engine/request/request.h"

static ln_layout lay_out(const linnet_model *model, char *memory, ln_pooler *pooler) {
    const ln_embedding *embedding = &model->embedding;
    ln_layout layout = {0};
    ln_head_place(&embedding->dense, &layout, memory, &pooler->dense);
    ln_head_place(&embedding->classes, &layout, memory, &pooler->classes);
    size_t scratch = ln_layout_add(&layout, ln_pooler_room(model), sizeof(float));
    if (memory != NULL)
        pooler->scratch = (float *)(void *)(memory + scratch);
    return layout;
}

void ln_pooler_plan(const linnet_model *model, ln_layout *layout) {
    ln_pooler unused;
    *layout = lay_out(model, NULL, &unused);
}

ln_status ln_pooler_init(ln_pooler *pooler, const linnet_model *model, void *memory,
                         ln_error *err) {
    const ln_embedding *embedding = &model->embedding;
    *pooler = (ln_pooler){.embedding = embedding, .dim = model->spec.dim};
    (void)lay_out(model, memory, pooler);
    for (size_t i = 0; i < embedding->n_maps; i++)
        LN_TRY(ln_file_map_check(&embedding->maps[i], "a dense layer's file", err));
    return ln_checkpoint_check(model->checkpoint, err);
}

size_t ln_pooler_room(const linnet_model *model) {
    size_t dense = ln_head_max_width(&model->embedding.dense, model->spec.dim);
    size_t classes = ln_head_max_width(&model->embedding.classes, model->spec.dim);
    return dense > classes ? dense : classes;
}

size_t ln_pooler_width(const linnet_model *model, const linnet_request_options *options) {
    size_t width = model->spec.dim;
    if (options->head == LINNET_HEAD_CLASSES)
        width = ln_head_width(&model->embedding.classes, width);
    else if (options->head == LINNET_HEAD_DEFAULT)
        width = ln_head_width(&model->embedding.dense, width);
    return width;
}

linnet_pooling ln_pooler_kind(const linnet_model *model, const linnet_request_options *options) {
    if (options->pooling != LINNET_POOLING_DEFAULT)
        return options->pooling;
    return options->head == LINNET_HEAD_CLASSES ? model->embedding.classes.pooling
                                                : model->embedding.dense.pooling;
}

size_t ln_pooler_rows(const ln_chunk *chunk, bool *first) {
    const ln_sequence *sequence = chunk->sequence;
    linnet_pooling pooling = sequence != NULL ? sequence->group->pooling : LINNET_POOLING_DEFAULT;
    *first = pooling == LINNET_POOLING_CLS;
    switch (pooling) {
    case LINNET_POOLING_CLS: return sequence->n_cached == 0 ? 1 : 0;
    case LINNET_POOLING_MEAN: return chunk->n_tokens;
    case LINNET_POOLING_LAST:
        return sequence->n_cached + chunk->n_tokens == sequence->n_tokens ? 1 : 0;
    case LINNET_POOLING_DEFAULT: break;
    }
    return 0;
}

void ln_pooler_take(const ln_pooler *pooler, const ln_scheduler *scheduler, const float *hidden) {
    size_t dim = pooler->dim;
    for (size_t i = 0; i < scheduler->n_chunks; i++) {
        const ln_chunk *chunk = &scheduler->chunks[i];
        bool first;
        size_t n_rows = ln_pooler_rows(chunk, &first);
        if (n_rows == 0)
            continue;
        const ln_sequence *sequence = chunk->sequence;
        float *sum = sequence->group->request->embedding;
        bool begins = sequence->n_cached == 0 || sequence->group->pooling == LINNET_POOLING_LAST;
        if (begins)
            memcpy(sum, hidden, dim * sizeof *sum);
        for (size_t row = begins ? 1 : 0; row < n_rows; row++)
            for (size_t j = 0; j < dim; j++)
                sum[j] += hidden[row * dim + j];
        hidden += n_rows * dim;
    }
}

ln_status ln_pooler_finish(const ln_pooler *pooler, linnet_request *request, ln_error *err) {
    const linnet_request_options *options = &request->options;
    float *x = request->embedding;
    bool classifies = options->head == LINNET_HEAD_CLASSES;
    bool normalizes = options->normalization == LINNET_NORMALIZATION_DEFAULT
                          ? pooler->embedding->normalizes && !classifies
                          : options->normalization == LINNET_NORMALIZATION_ON;
    if (request->group.pooling == LINNET_POOLING_MEAN)
        for (size_t i = 0; i < pooler->dim; i++)
            x[i] /= (float)request->n_prompt;
    if (options->head != LINNET_HEAD_NONE)
        ln_head_run(classifies ? &pooler->classes : &pooler->dense, x, pooler->scratch);
    if (normalizes)
        ln_head_normalize(x, request->n_embedding);
    for (size_t i = 0; i < request->n_embedding; i++)
        if (!isfinite(x[i]))
            return ln_fail(err, LINNET_ERR_COMPUTE, "number %zu of the vector is not finite", i);
    request->has_embedding = true;
    return LINNET_OK;
}
