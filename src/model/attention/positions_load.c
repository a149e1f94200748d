#include "model/attention/positions_load.h"

#include <math.h>
#include <stdlib.h>

#include "model/family.h"
#include "model/layers/sinusoids.h"
#include "model/rope.h"
#include "model/shard.h"

/* Frequency factors: longrope's lists, or the tensors that GGUF keeps for longrope and llama3. */
static ln_status find_freq_factors(const ln_loader *l, size_t number, const float **factors) {
    const ln_rope_spec *rope = &l->spec->ropes[number];
    static const char *const names[] = {"rope_freqs.weight", "rope_factors_short.weight",
                                        "rope_factors_long.weight"};
    bool is_long = ln_rope_is_long(rope, l->options.ctx_tokens);
    *factors = NULL;
    if (ln_checkpoint_get_format(l->checkpoint) != LN_FORMAT_GGUF) {
        *factors = is_long ? rope->long_factors : rope->short_factors;
        return LINNET_OK;
    }
    size_t which = rope->scaling != LN_ROPE_LONGROPE ? 0 : is_long ? 2 : 1;
    const ln_tensor *tensor = ln_checkpoint_find(l->checkpoint, names[which]);
    for (size_t i = 0; i < 3 && l->unused != NULL; i++)
        if ((i == 0) == (which == 0)) /* the context decides between the other two */
            ln_unused_tensors_mark(l->unused, ln_checkpoint_find(l->checkpoint, names[i]));
    if (tensor == NULL || number > 0) /* windowed layers with a table of their own have none */
        return LINNET_OK;
    size_t n_stored = rope->n_dims / (l->spec->family->gguf_half_rope ? 1 : 2);
    LN_TRY(ln_source_check_vector(l->checkpoint, tensor, n_stored, l->err));
    if (tensor->dtype != LN_DTYPE_F32 || tensor->file_offset % sizeof(float) != 0)
        return ln_fail(l->err, LINNET_ERR_UNSUPPORTED, "%s: tensor %s is not aligned F32",
                       ln_checkpoint_path(l->checkpoint), tensor->name);
    *factors = (const float *)(const void *)tensor->data;
    return LINNET_OK;
}

/* Frequencies times what the checkpoint has learned. */
static ln_status learned_frequencies(ln_loader *l, size_t n, float *inv_freq) {
    float *alpha = calloc(n + 1, sizeof *alpha);
    bool is_there;
    if (alpha == NULL)
        return ln_fail(l->err, LINNET_ERR_NOMEM, "out of memory making the RoPE tables");
    ln_status status = ln_load_values(l, LN_ROLE_ROPE_ALPHA, 0, false, n, alpha, &is_there);
    for (size_t i = 0; i < n && is_there; i++)
        inv_freq[i] *= expf(alpha[i]);
    free(alpha);
    return status;
}

/* The rotation back, by negative angles. */
static ln_status back_rope(ln_loader *l, const ln_rope *rope, float *inv_freq, ln_rope *back) {
    *back = *rope;
    for (size_t j = 0; j < rope->n_dims / 2; j++)
        inv_freq[j] = -inv_freq[j];
    return ln_load_table(l, inv_freq, rope->n_dims / 2, &back->inv_freq);
}

ln_status ln_load_ropes(ln_loader *l) {
    for (size_t i = 0; i < l->spec->n_ropes; i++) {
        const ln_rope_spec *spec = &l->spec->ropes[i];
        ln_rope *rope = &l->weights->ropes[i];
        const float *factors;
        *rope = (ln_rope){.style = spec->style,
                          .n_dims = spec->n_dims,
                          .first = l->spec->first_position,
                          .last = l->spec->family->compressed_attention};
        LN_TRY(find_freq_factors(l, i, &factors));
        float *inv_freq = calloc(spec->n_dims / 2 + 1, sizeof *inv_freq);
        if (inv_freq == NULL)
            return ln_fail(l->err, LINNET_ERR_NOMEM, "out of memory making the RoPE tables");
        if (l->writable != NULL) /* planning reads no tensor data */
            rope->magnitude = ln_rope_fill(spec, l->options.ctx_tokens, factors, inv_freq);
        for (size_t j = 0; j < spec->n_dims / 2 && l->spec->family->turns_back; j++)
            inv_freq[j] = -inv_freq[j];
        ln_status status = learned_frequencies(l, spec->n_dims / 2, inv_freq);
        if (status == LINNET_OK)
            status = ln_load_table(l, inv_freq, spec->n_dims / 2, &rope->inv_freq);
        if (status == LINNET_OK && l->spec->family->compressed_attention)
            status = back_rope(l, rope, inv_freq, &l->weights->back_ropes[i]);
        free(inv_freq);
        LN_TRY(status);
    }
    l->weights->still_rope = l->weights->index_rope = l->weights->ropes[0];
    l->weights->still_rope.n_dims = 0;
    bool is_gguf = ln_checkpoint_get_format(l->checkpoint) == LN_FORMAT_GGUF;
    const ln_family *family = l->spec->family;
    l->weights->index_rope.style = is_gguf ? family->gguf_index_rope : family->index_rope;
    return LINNET_OK;
}

/* Where each dimension of an indexer's heads comes from, where the last ones rotate. */
ln_status ln_load_index_columns(ln_loader *l) {
    const ln_attention_spec *attention = &l->spec->layers[0].attention;
    size_t dim = attention->indexer.head_dim, n = attention->indexer.n_heads * dim;
    if (!attention->indexer.turns_last)
        return LINNET_OK;
    int32_t *columns = calloc(n, sizeof *columns);
    if (columns == NULL)
        return ln_fail_memory(l->err, "the order of columns");
    for (size_t i = 0; i < n; i++) {
        size_t from = (i % dim + dim - attention->latent.n_rope) % dim;
        columns[i] = (int32_t)(i - i % dim + from);
    }
    size_t offset = ln_layout_add(&l->layout, n, sizeof *columns);
    if (l->writable != NULL) {
        l->writable->vtable->upload(l->writable, l->memory + offset, columns, n * sizeof *columns);
        l->weights->index_columns = (const int32_t *)(const void *)(l->memory + offset);
    }
    free(columns);
    return LINNET_OK;
}

/* ALiBi (Press et al., 2021): slopes 2^(-8 i / n) for n heads, n a power of two; for other
 * numbers every other slope of twice that power follows. */
ln_status ln_load_alibi(ln_loader *l) {
    if (l->spec->positions != LN_POSITIONS_ALIBI)
        return LINNET_OK;
    const ln_slice *heads = &l->spec->layers[0].part.heads;
    size_t n = ln_shard_whole(l->spec)->layers[0].attention.n_heads, power = 1;
    while (power * 2 <= n)
        power *= 2;
    double scale = l->spec->family->scales_alibi ? (double)l->spec->layers[0].attention.scale : 1.0;
    float *slopes = calloc(n, sizeof *slopes);
    if (slopes == NULL)
        return ln_fail(l->err, LINNET_ERR_NOMEM, "out of memory making the ALiBi slopes");
    for (size_t i = 0; i < n; i++)
        slopes[i] =
            (float)(scale * (i < power
                                 ? exp2(-8.0 * (double)(i + 1) / (double)power)
                                 : exp2(-4.0 * (double)(2 * (i - power) + 1) / (double)power)));
    ln_status status = ln_load_table(l, slopes + heads->begin, heads->n > 0 ? heads->n : n,
                                     &l->weights->alibi_slopes);
    free(slopes);
    return status;
}

ln_status ln_load_learned_positions(ln_loader *l, ln_weight *weight) {
    if (l->spec->positions != LN_POSITIONS_LEARNED)
        return LINNET_OK;
    if (l->spec->computed_positions)
        return ln_load_sinusoids(l, weight);
    return ln_load_matrix(l, LN_ROLE_LEARNED_POSITIONS, 0, l->spec->n_learned, l->spec->dim,
                          weight);
}

/* The table [n_relative_buckets][n_heads], as float32. */
ln_status ln_load_relative_bias(ln_loader *l, const float **out) {
    const ln_spec *spec = l->spec;
    ln_tensor_id id = {.role = LN_ROLE_RELATIVE_BIAS, .encoder = l->encoder};
    const ln_layer_spec *layers = l->encoder ? spec->encoder_layers : spec->layers;
    ln_source_shape shape = {1, spec->n_relative_buckets, layers[0].attention.n_heads};
    ln_weight_request request;
    *out = NULL;
    if (spec->n_relative_buckets == 0)
        return LINNET_OK;
    ln_cut cut = ln_shard_cut(spec, id);
    ln_source_shape whole = ln_cut_shape(&cut, &shape);
    LN_TRY(ln_source_matrix(l->checkpoint, ln_shard_whole(spec), id, &whole, &request, l->err));
    LN_TRY(ln_cut_request(&cut, &request, l->err));
    request.as_f32 = true;
    return ln_load_floats(l, &request, out);
}
