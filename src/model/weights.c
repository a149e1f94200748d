#include "model/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/layout.h"
#include "format/quants.h"
#include "model/family.h"
#include "model/rope.h"
#include "model/source.h"
#include "model/unread.h"

/* Planning and loading are one walk over all weights. While planning, both memories are NULL and
 * results go to scratch structs; both passes add the same parts to the layouts. */
typedef struct loader {
    const ln_checkpoint *checkpoint;
    const ln_spec *spec;
    const ln_backend *backend;
    ln_backend *writable; /* the same backend; NULL while planning */
    char *memory;         /* prepared copies */
    char *table;          /* arrays of ln_weight, and the layers */
    ln_layout layout, table_layout;
    size_t mapped_bytes;
    size_t total_bytes; /* prepared and mapped, when all is loaded */
    size_t first_layer, end_layer;
    ln_weights_options options;
    bool encoder;                /* the walk is in the encoder */
    ln_unread *unread;           /* NULL while loading */
    const ln_tensor *gate_order; /* of the columns of the last gate */
    ln_weights *weights;
    ln_error *err;
} loader;

static void tell_progress(const loader *l) {
    const ln_load_progress *progress = &l->options.progress;
    if (progress->fn != NULL)
        progress->fn(progress->user, progress->before_bytes + l->layout.bytes + l->mapped_bytes,
                     progress->before_bytes + l->total_bytes + progress->after_bytes);
}

/* Plans or prepares one request into the next part of the arena. */
static ln_status prepare(loader *l, const ln_weight_request *request, ln_weight *weight) {
    const ln_tensor *tensor = request->sources[0].tensor;
    ln_dtype dtype = ln_weight_source_dtype(&request->sources[0]);
    size_t bytes;
    if (l->unread != NULL)
        ln_unread_mark_request(l->unread, request);
    if (!l->backend->vtable->supports_weight(l->backend, dtype))
        return ln_fail(l->err, LINNET_ERR_UNSUPPORTED,
                       "%s: tensor %s: weights of type %s are not supported",
                       ln_checkpoint_path(l->checkpoint), tensor->name, ln_dtype_name(dtype));
    LN_TRY(l->backend->vtable->plan_weight(l->backend, request, &bytes, l->err));
    size_t offset = ln_layout_add(&l->layout, bytes, 1);
    size_t row_bytes = 0;
    if (bytes == 0 && ln_dtype_row_bytes(tensor->dtype, request->n_cols, &row_bytes))
        l->mapped_bytes += row_bytes * request->sources[0].n_rows;
    if (l->writable == NULL) {
        *weight = (ln_weight){.data = tensor->data};
        return LINNET_OK;
    }
    LN_TRY(l->writable->vtable->prepare_weight(
        l->writable, request, bytes > 0 ? l->memory + offset : NULL, weight, l->err));
    tell_progress(l);
    return LINNET_OK;
}

/* float32 copies of vectors and small tables; *out stays NULL when the request is empty. */
static ln_status prepare_vector(loader *l, const ln_weight_request *request, const float **out) {
    ln_weight copy = {0};
    *out = NULL;
    if (request->n_sources == 0)
        return LINNET_OK;
    LN_TRY(prepare(l, request, &copy));
    *out = copy.data;
    return LINNET_OK;
}

static ln_status vector(loader *l, ln_tensor_id id, size_t n, const float **out) {
    ln_weight_request request;
    LN_TRY(ln_source_vector(l->checkpoint, l->spec, id, n, &request, l->err));
    return prepare_vector(l, &request, out);
}

/* n floats computed here: position tables. NULL while planning. */
static ln_status table(loader *l, const float *values, size_t n, const float **out) {
    size_t offset = ln_layout_add(&l->layout, n, sizeof(float));
    *out = NULL;
    if (l->writable == NULL)
        return LINNET_OK;
    l->writable->vtable->upload(l->writable, l->memory + offset, values, n * sizeof(float));
    *out = (const float *)(const void *)(l->memory + offset);
    return LINNET_OK;
}

/* Matrices that multiply activations; tables and what chooses experts stay as they are. */
static void quantize_on_load(const loader *l, ln_role role, ln_weight_source *source,
                             size_t n_cols) {
    if (l->options.quantize == NULL || role == LN_ROLE_EMBEDDING ||
        role == LN_ROLE_LEARNED_POSITIONS || role == LN_ROLE_ROUTER ||
        role == LN_ROLE_SHARED_ROUTER)
        return;
    l->weights->n_matrices++;
    if (source->packed.kind != LN_PACKED_NONE || source->transpose)
        return;
    source->packed = ln_packed_on_load(source->tensor, (size_t)(source->tensor->n_elems / n_cols),
                                       n_cols, *l->options.quantize);
    l->weights->n_quantized += source->packed.kind != LN_PACKED_NONE;
}

/* Gate and up meet the same gathered activations; experts would need one gathering each. */
static ln_status check_order(loader *l, ln_tensor_id id, size_t n_packed, const ln_packed *packed) {
    bool is_gate = id.role == LN_ROLE_GATE || id.role == LN_ROLE_SHARED_GATE;
    bool is_up = id.role == LN_ROLE_UP || id.role == LN_ROLE_SHARED_UP;
    const ln_tensor *order = packed->order, *other = is_up ? l->gate_order : order;
    bool is_same =
        order == other || (order != NULL && other != NULL && order->bytes == other->bytes &&
                           memcmp(order->data, other->data, order->bytes) == 0);
    l->gate_order = is_gate ? order : NULL;
    if (is_same && (order == NULL || n_packed == 1))
        return LINNET_OK;
    return ln_fail(l->err, LINNET_ERR_UNSUPPORTED,
                   "%s: tensor %s: columns in an order of their own are not supported here",
                   ln_checkpoint_path(l->checkpoint), order != NULL ? order->name : other->name);
}

/* Prepares a matrix whose columns have an order, and the order, which stays beside it. */
static ln_status prepare_ordered(loader *l, ln_weight_request *request, ln_weight *weight) {
    size_t n = request->n_cols;
    int32_t *columns = calloc(n, sizeof *columns);
    if (columns == NULL)
        return ln_fail(l->err, LINNET_ERR_NOMEM, "out of memory for the order of columns");
    if (l->writable != NULL)
        ln_packed_columns(&request->sources[0].packed, columns);
    request->sources[0].packed.columns = columns;
    ln_status status = prepare(l, request, weight);
    size_t offset = ln_layout_add(&l->layout, n, sizeof *columns);
    if (status == LINNET_OK && l->writable != NULL) {
        l->writable->vtable->upload(l->writable, l->memory + offset, columns, n * sizeof *columns);
        weight->columns = (const int32_t *)(const void *)(l->memory + offset);
    }
    free(columns);
    return status;
}

static ln_weight_use use_of(const ln_spec *spec, ln_role role, const ln_source_shape *shape) {
    if (role == LN_ROLE_LEARNED_POSITIONS || (role == LN_ROLE_EMBEDDING && !spec->tied))
        return LN_USE_TABLE;
    if (role == LN_ROLE_ROUTER || role == LN_ROLE_SHARED_ROUTER)
        return LN_USE_ROUTER;
    return shape->n_packed > 1 ? LN_USE_GROUPED : LN_USE_LINEAR;
}

static ln_status matrix_of(loader *l, ln_tensor_id id, const ln_source_shape *shape,
                           ln_weight *weight) {
    ln_weight_request request;
    LN_TRY(ln_source_matrix(l->checkpoint, l->spec, id, shape, &request, l->err));
    request.use = use_of(l->spec, id.role, shape);
    quantize_on_load(l, id.role, &request.sources[0], shape->n_cols);
    LN_TRY(check_order(l, id, shape->n_packed, &request.sources[0].packed));
    if (request.sources[0].packed.order != NULL)
        LN_TRY(prepare_ordered(l, &request, weight));
    else
        LN_TRY(prepare(l, &request, weight));
    LN_TRY(ln_source_bias(l->checkpoint, l->spec, id, shape, &request, l->err));
    return prepare_vector(l, &request, &weight->bias);
}

static ln_status matrix(loader *l, ln_role role, size_t layer, size_t n_rows, size_t n_cols,
                        ln_weight *weight) {
    ln_source_shape shape = {.n_packed = 1, .n_rows = n_rows, .n_cols = n_cols};
    ln_tensor_id id = {.role = role, .encoder = l->encoder, .layer = layer};
    return matrix_of(l, id, &shape, weight);
}

/* One matrix for each expert or head. *out stays NULL while planning. */
static ln_status matrices(loader *l, ln_role role, size_t layer, const ln_source_shape *shape,
                          ln_weight **out) {
    size_t offset = ln_layout_add(&l->table_layout, shape->n_packed, sizeof **out);
    ln_weight planned;
    *out = l->table != NULL ? (ln_weight *)(void *)(l->table + offset) : NULL;
    for (size_t i = 0; i < shape->n_packed; i++) {
        ln_tensor_id id = {.role = role, .layer = layer, .expert = i};
        LN_TRY(matrix_of(l, id, shape, *out != NULL ? &(*out)[i] : &planned));
    }
    return LINNET_OK;
}

/* A norm that the family names must be there, unless it is optional; one that it does not name
 * stays absent (dim 0). */
static ln_status norm(loader *l, ln_role role, size_t layer, size_t dim, ln_norm *out) {
    ln_checkpoint_format format = ln_checkpoint_get_format(l->checkpoint);
    ln_tensor_id id = {.role = role, .encoder = l->encoder, .layer = layer};
    const ln_binding *binding = ln_family_binding(l->spec->family, format, id, 0);
    *out = (ln_norm){0};
    if (binding == NULL ||
        (binding->optional && ln_family_find(l->spec->family, l->checkpoint, id, &binding) == NULL))
        return LINNET_OK;
    *out = (ln_norm){.kind = l->spec->norm_kind, .eps = l->spec->norm_eps, .dim = dim};
    LN_TRY(vector(l, id, dim, &out->weight));
    id.is_bias = true;
    return vector(l, id, dim, &out->bias);
}

/* Rows of one tensor for each head, as one array. */
static ln_status gather_heads(loader *l, ln_tensor_id id, size_t n_heads, size_t dim,
                              float *weights) {
    ln_source_shape shape = {n_heads, 1, dim};
    ln_weight_request request;
    for (id.expert = 0; id.expert < n_heads; id.expert++) {
        LN_TRY(ln_source_matrix(l->checkpoint, l->spec, id, &shape, &request, l->err));
        const ln_tensor *tensor = request.sources[0].tensor;
        if (ln_dtype_block_elems(tensor->dtype) != 1 || !ln_can_dequantize(tensor->dtype))
            return ln_fail(
                l->err, LINNET_ERR_UNSUPPORTED, "%s: tensor %s: a norm of type %s is not supported",
                ln_checkpoint_path(l->checkpoint), tensor->name, ln_dtype_name(tensor->dtype));
        if (l->unread != NULL)
            ln_unread_mark_request(l->unread, &request);
        if (l->writable != NULL)
            ln_dequantize_row(tensor->dtype, tensor->data, weights + id.expert * dim, dim);
    }
    return LINNET_OK;
}

/* A norm of heads with weights [n_heads][dim]. */
static ln_status norm_by_head(loader *l, ln_role role, size_t layer, size_t n_heads, size_t dim,
                              ln_norm *out) {
    ln_tensor_id id = {.role = role, .layer = layer};
    *out = (ln_norm){.kind = l->spec->norm_kind, .eps = l->spec->norm_eps, .dim = dim};
    if (!ln_family_is_numbered(l->spec->family, l->checkpoint, id)) {
        ln_source_shape shape = {1, n_heads, dim};
        ln_weight_request request;
        LN_TRY(ln_source_matrix(l->checkpoint, l->spec, id, &shape, &request, l->err));
        request.as_f32 = true;
        return prepare_vector(l, &request, &out->weight);
    }
    float *weights = calloc(n_heads * dim, sizeof *weights);
    if (weights == NULL)
        return ln_fail(l->err, LINNET_ERR_NOMEM, "out of memory for the norms of heads");
    ln_status status = gather_heads(l, id, n_heads, dim, weights);
    if (status == LINNET_OK)
        status = table(l, weights, n_heads * dim, &out->weight);
    free(weights);
    return status;
}

static ln_status qk_norms(loader *l, size_t layer, const ln_attention_spec *spec,
                          ln_layer_weights *w) {
    if (spec->qk_norm == LN_QK_NORM_OWN) {
        LN_TRY(norm_by_head(l, LN_ROLE_Q_NORM, layer, spec->n_heads, spec->k_dim, &w->q_norm));
        return norm_by_head(l, LN_ROLE_K_NORM, layer, spec->n_kv_heads, spec->k_dim, &w->k_norm);
    }
    size_t q_heads = spec->qk_norm == LN_QK_NORM_FULL ? spec->n_heads : 1;
    size_t k_heads = spec->qk_norm == LN_QK_NORM_FULL ? spec->n_kv_heads : 1;
    if (spec->qk_norm == LN_QK_NORM_NONE)
        return LINNET_OK;
    LN_TRY(norm(l, LN_ROLE_Q_NORM, layer, q_heads * spec->k_dim, &w->q_norm));
    return norm(l, LN_ROLE_K_NORM, layer, k_heads * spec->k_dim, &w->k_norm);
}

static ln_status latent_attention(loader *l, size_t i, const ln_attention_spec *spec,
                                  ln_layer_weights *w) {
    const ln_latent_spec *latent = &spec->latent;
    size_t dim = l->spec->dim, q_rows = spec->n_heads * (latent->n_plain + latent->n_rope);
    if (latent->q_latent > 0) {
        LN_TRY(matrix(l, LN_ROLE_Q_A, i, latent->q_latent, dim, &w->q_a));
        LN_TRY(norm(l, LN_ROLE_Q_A_NORM, i, latent->q_latent, &w->q_a_norm));
        w->q_a_norm.eps = l->spec->latent_norm_eps;
        LN_TRY(matrix(l, LN_ROLE_Q_B, i, q_rows, latent->q_latent, &w->q_b));
    } else {
        LN_TRY(matrix(l, LN_ROLE_Q, i, q_rows, dim, &w->q));
    }
    LN_TRY(matrix(l, LN_ROLE_KV_A, i, latent->n_latent + latent->n_rope, dim, &w->kv_a));
    LN_TRY(norm(l, LN_ROLE_KV_A_NORM, i, latent->n_latent, &w->kv_a_norm));
    w->kv_a_norm.eps = l->spec->latent_norm_eps;
    ln_source_shape k = {spec->n_heads, latent->n_latent, latent->n_plain};
    ln_source_shape v = {spec->n_heads, latent->v_dim, latent->n_latent};
    LN_TRY(matrices(l, LN_ROLE_K_B, i, &k, &w->k_b));
    LN_TRY(matrices(l, LN_ROLE_V_B, i, &v, &w->v_b));
    return matrix(l, LN_ROLE_O, i, dim, spec->n_heads * latent->v_dim, &w->o);
}

static ln_status attention(loader *l, size_t i, const ln_attention_spec *spec,
                           ln_layer_weights *w) {
    size_t dim = l->spec->dim;
    if (spec->sinks)
        LN_TRY(
            vector(l, (ln_tensor_id){.role = LN_ROLE_SINKS, .layer = i}, spec->n_heads, &w->sinks));
    if (spec->latent.n_latent > 0)
        return latent_attention(l, i, spec, w);
    LN_TRY(qk_norms(l, i, spec, w));
    LN_TRY(matrix(l, LN_ROLE_Q, i, spec->n_heads * spec->k_dim, dim, &w->q));
    LN_TRY(matrix(l, LN_ROLE_K, i, spec->n_kv_heads * spec->k_dim, dim, &w->k));
    LN_TRY(matrix(l, LN_ROLE_V, i, spec->n_kv_heads * spec->v_dim, dim, &w->v));
    return matrix(l, LN_ROLE_O, i, dim, spec->n_heads * spec->v_dim, &w->o);
}

static ln_status experts(loader *l, size_t i, const ln_moe_spec *moe, ln_layer_weights *w) {
    size_t dim = l->spec->dim;
    ln_source_shape in = {moe->n_experts, moe->n_hidden, dim};
    ln_source_shape out = {moe->n_experts, dim, moe->n_hidden};
    LN_TRY(matrix(l, LN_ROLE_ROUTER, i, moe->n_experts, dim, &w->router));
    ln_tensor_id bias = {.role = LN_ROLE_ROUTER_BIAS, .layer = i};
    if (ln_family_binding(l->spec->family, ln_checkpoint_get_format(l->checkpoint), bias, 0) !=
        NULL)
        LN_TRY(vector(l, bias, moe->n_experts, &w->router_bias));
    LN_TRY(matrices(l, LN_ROLE_EXPERT_GATE, i, &in, &w->experts_gate));
    LN_TRY(matrices(l, LN_ROLE_EXPERT_UP, i, &in, &w->experts_up));
    LN_TRY(matrices(l, LN_ROLE_EXPERT_DOWN, i, &out, &w->experts_down));
    if (moe->shared_hidden == 0)
        return LINNET_OK;
    LN_TRY(matrix(l, LN_ROLE_SHARED_GATE, i, moe->shared_hidden, dim, &w->shared_gate));
    LN_TRY(matrix(l, LN_ROLE_SHARED_UP, i, moe->shared_hidden, dim, &w->shared_up));
    LN_TRY(matrix(l, LN_ROLE_SHARED_DOWN, i, dim, moe->shared_hidden, &w->shared_down));
    if (!moe->shared_gate)
        return LINNET_OK;
    return matrix(l, LN_ROLE_SHARED_ROUTER, i, 1, dim, &w->shared_router);
}

static ln_status cross_attention(loader *l, size_t i, const ln_attention_spec *spec,
                                 ln_layer_weights *w) {
    size_t dim = l->spec->dim, q_dim = spec->n_heads * spec->k_dim;
    LN_TRY(norm(l, LN_ROLE_CROSS_NORM, i, dim, &w->cross_norm));
    LN_TRY(matrix(l, LN_ROLE_CROSS_Q, i, q_dim, dim, &w->cross_q));
    LN_TRY(matrix(l, LN_ROLE_CROSS_K, i, q_dim, dim, &w->cross_k));
    LN_TRY(matrix(l, LN_ROLE_CROSS_V, i, q_dim, dim, &w->cross_v));
    return matrix(l, LN_ROLE_CROSS_O, i, dim, q_dim, &w->cross_o);
}

static ln_status layer_weights(loader *l, const ln_layer_spec *layer, size_t i,
                               ln_layer_weights *w) {
    size_t dim = l->spec->dim, n_hidden = layer->ffn.n_hidden;
    *w = (ln_layer_weights){0};
    LN_TRY(norm(l, LN_ROLE_ATTENTION_NORM, i, dim, &w->attention_norm));
    LN_TRY(norm(l, LN_ROLE_ATTENTION_POST_NORM, i, dim, &w->attention_post_norm));
    LN_TRY(norm(l, LN_ROLE_FFN_NORM, i, dim, &w->ffn_norm));
    LN_TRY(norm(l, LN_ROLE_FFN_POST_NORM, i, dim, &w->ffn_post_norm));
    LN_TRY(attention(l, i, &layer->attention, w));
    if (layer->has_cross)
        LN_TRY(cross_attention(l, i, &layer->attention, w));
    if (layer->ffn.moe.n_experts > 0)
        return experts(l, i, &layer->ffn.moe, w);
    if (layer->ffn.gated)
        LN_TRY(matrix(l, LN_ROLE_GATE, i, n_hidden, dim, &w->gate));
    LN_TRY(matrix(l, LN_ROLE_UP, i, n_hidden, dim, &w->up));
    return matrix(l, LN_ROLE_DOWN, i, dim, n_hidden, &w->down);
}

/* Frequency factors: longrope's lists, or the tensors that GGUF keeps for longrope and llama3. */
static ln_status find_freq_factors(const loader *l, const ln_rope_spec *rope,
                                   const float **factors) {
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
    for (size_t i = 0; i < 3 && l->unread != NULL; i++)
        if ((i == 0) == (which == 0)) /* the context decides between the other two */
            ln_unread_mark(l->unread, ln_checkpoint_find(l->checkpoint, names[i]));
    if (tensor == NULL)
        return LINNET_OK;
    LN_TRY(ln_source_check_vector(l->checkpoint, tensor, rope->n_dims / 2, l->err));
    if (tensor->dtype != LN_DTYPE_F32 || tensor->file_offset % sizeof(float) != 0)
        return ln_fail(l->err, LINNET_ERR_UNSUPPORTED, "%s: tensor %s is not aligned F32",
                       ln_checkpoint_path(l->checkpoint), tensor->name);
    *factors = (const float *)(const void *)tensor->data;
    return LINNET_OK;
}

static ln_status ropes(loader *l) {
    for (size_t i = 0; i < l->spec->n_ropes; i++) {
        const ln_rope_spec *spec = &l->spec->ropes[i];
        ln_rope *rope = &l->weights->ropes[i];
        const float *factors;
        *rope = (ln_rope){.style = spec->style, .n_dims = spec->n_dims};
        LN_TRY(find_freq_factors(l, spec, &factors));
        float *inv_freq = calloc(spec->n_dims / 2 + 1, sizeof *inv_freq);
        if (inv_freq == NULL)
            return ln_fail(l->err, LINNET_ERR_NOMEM, "out of memory making the RoPE tables");
        if (l->writable != NULL) /* planning reads no tensor data */
            rope->magnitude = ln_rope_fill(spec, l->options.ctx_tokens, factors, inv_freq);
        ln_status status = table(l, inv_freq, spec->n_dims / 2, &rope->inv_freq);
        free(inv_freq);
        LN_TRY(status);
    }
    return LINNET_OK;
}

/* ALiBi (Press et al., 2021): slopes 2^(-8 i / n) for n heads, n a power of two; for other
 * numbers every other slope of twice that power follows. */
static ln_status alibi(loader *l) {
    if (l->spec->positions != LN_POSITIONS_ALIBI)
        return LINNET_OK;
    size_t n = l->spec->layers[0].attention.n_heads, power = 1;
    while (power * 2 <= n)
        power *= 2;
    float *slopes = calloc(n, sizeof *slopes);
    if (slopes == NULL)
        return ln_fail(l->err, LINNET_ERR_NOMEM, "out of memory making the ALiBi slopes");
    for (size_t i = 0; i < n; i++)
        slopes[i] = (float)(i < power ? exp2(-8.0 * (double)(i + 1) / (double)power)
                                      : exp2(-4.0 * (double)(2 * (i - power) + 1) / (double)power));
    ln_status status = table(l, slopes, n, &l->weights->alibi_slopes);
    free(slopes);
    return status;
}

/* An output whose rows are divided by their length, in float32. */
static ln_status unit_output(loader *l, ln_tensor_id id, ln_weight *weight) {
    ln_source_shape shape = {1, l->spec->n_vocab, l->spec->dim};
    ln_weight_request request;
    LN_TRY(ln_source_matrix(l->checkpoint, l->spec, id, &shape, &request, l->err));
    ln_weight_source *source = &request.sources[0];
    if (source->packed.kind == LN_PACKED_NONE)
        source->packed = ln_packed_unit_rows(source->tensor, shape.n_rows, shape.n_cols);
    if (source->packed.kind != LN_PACKED_UNIT_ROWS)
        return ln_fail(l->err, LINNET_ERR_UNSUPPORTED,
                       "%s: tensor %s: a quantised output cannot be normalised",
                       ln_checkpoint_path(l->checkpoint), source->tensor->name);
    return prepare(l, &request, weight);
}

static ln_status output(loader *l) {
    const ln_binding *binding;
    const ln_spec *spec = l->spec;
    ln_weights *w = l->weights;
    ln_tensor_id id = {.role = LN_ROLE_OUTPUT};
    ln_role role = spec->tied ? LN_ROLE_EMBEDDING : LN_ROLE_OUTPUT;
    w->output = w->embedding;
    if (!spec->tied && spec->unit_output)
        LN_TRY(unit_output(l, id, &w->output));
    else if (!spec->tied || l->first_layer > 0)
        LN_TRY(matrix(l, role, 0, spec->n_vocab, spec->dim, &w->output));
    id.role = LN_ROLE_OUTPUT_BIAS;
    if (spec->tied && ln_family_find(spec->family, l->checkpoint, id, &binding) == NULL)
        id = (ln_tensor_id){.role = LN_ROLE_OUTPUT, .is_bias = true};
    if (ln_family_find(spec->family, l->checkpoint, id, &binding) == NULL)
        return LINNET_OK;
    return vector(l, id, spec->n_vocab, &w->output.bias);
}

/* A norm in front of the logits; one that does nothing when the family has none. */
static ln_status last_norm(loader *l, ln_norm *out) {
    LN_TRY(norm(l, LN_ROLE_OUTPUT_NORM, 0, l->spec->dim, out));
    if (out->dim == 0)
        *out = (ln_norm){.kind = LN_NORM_NONE, .dim = l->spec->dim};
    return LINNET_OK;
}

static ln_status learned_positions(loader *l, ln_weight *weight) {
    if (l->spec->positions != LN_POSITIONS_LEARNED)
        return LINNET_OK;
    return matrix(l, LN_ROLE_LEARNED_POSITIONS, 0, l->spec->n_learned, l->spec->dim, weight);
}

/* The table [n_relative_buckets][n_heads], as float32. */
static ln_status relative_bias(loader *l, const float **out) {
    const ln_spec *spec = l->spec;
    ln_tensor_id id = {.role = LN_ROLE_RELATIVE_BIAS, .encoder = l->encoder};
    const ln_layer_spec *layers = l->encoder ? spec->encoder_layers : spec->layers;
    ln_source_shape shape = {1, spec->n_relative_buckets, layers[0].attention.n_heads};
    ln_weight_request request;
    *out = NULL;
    if (spec->positions != LN_POSITIONS_RELATIVE)
        return LINNET_OK;
    LN_TRY(ln_source_matrix(l->checkpoint, spec, id, &shape, &request, l->err));
    request.as_f32 = true;
    return prepare_vector(l, &request, out);
}

/* The layers of a stack; `layers` is NULL while planning. */
static ln_status stack(loader *l, const ln_layer_spec *specs, size_t n_layers,
                       ln_layer_weights **layers) {
    ln_layer_weights planned;
    size_t offset = ln_layout_add(&l->table_layout, n_layers, sizeof **layers);
    if (l->table != NULL)
        *layers = (ln_layer_weights *)(void *)(l->table + offset);
    for (size_t i = 0; i < n_layers; i++)
        if (l->encoder || (i >= l->first_layer && i < l->end_layer))
            LN_TRY(layer_weights(l, &specs[i], i, *layers != NULL ? &(*layers)[i] : &planned));
    return LINNET_OK;
}

static ln_status encoder(loader *l) {
    const ln_spec *spec = l->spec;
    ln_weights *w = l->weights;
    if (spec->n_encoder_layers == 0)
        return LINNET_OK;
    l->encoder = true;
    LN_TRY(learned_positions(l, &w->encoder.learned_positions));
    LN_TRY(norm(l, LN_ROLE_EMBEDDING_NORM, 0, spec->dim, &w->encoder.embedding_norm));
    LN_TRY(last_norm(l, &w->encoder.output_norm));
    LN_TRY(relative_bias(l, &w->encoder.relative_bias));
    LN_TRY(stack(l, spec->encoder_layers, spec->n_encoder_layers, &w->encoder.layers));
    l->encoder = false;
    return LINNET_OK;
}

/* What comes before the first layer. */
static ln_status embedding(loader *l) {
    const ln_spec *spec = l->spec;
    ln_weights *w = l->weights;
    LN_TRY(matrix(l, LN_ROLE_EMBEDDING, 0, spec->n_vocab, spec->dim, &w->embedding));
    LN_TRY(learned_positions(l, &w->learned_positions));
    return norm(l, LN_ROLE_EMBEDDING_NORM, 0, spec->dim, &w->embedding_norm);
}

static ln_status walk(loader *l) {
    const ln_spec *spec = l->spec;
    ln_weights *w = l->weights;
    size_t end = l->options.end_layer;
    l->first_layer = w->first_layer = l->options.first_layer;
    l->end_layer = w->end_layer = end > 0 ? end : spec->n_layers;
    if (l->first_layer == 0)
        LN_TRY(embedding(l));
    if (l->end_layer == spec->n_layers) {
        LN_TRY(last_norm(l, &w->output_norm));
        LN_TRY(output(l));
    }
    LN_TRY(ropes(l));
    LN_TRY(alibi(l));
    LN_TRY(relative_bias(l, &w->relative_bias));
    LN_TRY(stack(l, spec->layers, spec->n_layers, &w->layers));
    LN_TRY(encoder(l));
    LN_TRY(ln_layout_check(&l->table_layout, "table of the weights", l->err));
    return ln_layout_check(&l->layout, "weights", l->err);
}

ln_status ln_weights_plan_bytes(const ln_checkpoint *checkpoint, const ln_spec *spec,
                                const ln_weights_options *options, const ln_backend *backend,
                                ln_weights_plan *plan, ln_error *err) {
    ln_weights weights = {0};
    ln_unread unread;
    LN_TRY(ln_unread_init(&unread, checkpoint, err));
    loader l = {.checkpoint = checkpoint,
                .spec = spec,
                .backend = backend,
                .options = *options,
                .unread = &unread,
                .weights = &weights,
                .err = err};
    ln_status status = walk(&l);
    if (status == LINNET_OK && l.first_layer == 0 && l.end_layer == spec->n_layers)
        status = ln_unread_check(&unread, spec, err);
    ln_unread_free(&unread);
    LN_TRY(status);
    *plan = (ln_weights_plan){.prepared_bytes = l.layout.bytes,
                              .mapped_bytes = l.mapped_bytes,
                              .table_bytes = l.table_layout.bytes};
    return LINNET_OK;
}

ln_status ln_weights_load(const ln_checkpoint *checkpoint, const ln_spec *spec,
                          const ln_weights_options *options, ln_backend *backend,
                          ln_weights *weights, ln_error *err) {
    size_t ctx_tokens = options->ctx_tokens;
    ln_weights_plan plan;
    *weights = (ln_weights){0};
    if (spec->max_ctx_tokens > 0 && ctx_tokens > spec->max_ctx_tokens)
        return ln_fail(err, LINNET_ERR_LIMIT,
                       "a context of %zu tokens is more than the %zu positions of %s", ctx_tokens,
                       spec->max_ctx_tokens, ln_checkpoint_path(checkpoint));
    LN_TRY(ln_weights_plan_bytes(checkpoint, spec, options, backend, &plan, err));
    LN_TRY(ln_reserve(plan.table_bytes, "table of the weights", &weights->table, err));
    weights->table_bytes = plan.table_bytes;
    ln_status status =
        backend->vtable->reserve(backend, plan.prepared_bytes, "weights", &weights->memory, err);
    if (status == LINNET_OK) {
        weights->memory_bytes = plan.prepared_bytes;
        loader l = {.checkpoint = checkpoint,
                    .spec = spec,
                    .backend = backend,
                    .writable = backend,
                    .memory = weights->memory,
                    .table = weights->table,
                    .total_bytes = plan.prepared_bytes + plan.mapped_bytes,
                    .options = *options,
                    .weights = weights,
                    .err = err};
        status = walk(&l);
        if (backend->vtable->finish_weights != NULL) {
            ln_status end =
                backend->vtable->finish_weights(backend, status == LINNET_OK ? err : NULL);
            status = status == LINNET_OK ? end : status;
        }
        if (status == LINNET_OK)
            tell_progress(&l);
        if (status == LINNET_OK)
            status = ln_checkpoint_check(checkpoint, err);
        ln_checkpoint_drop_pages(checkpoint); /* what became copies was read once */
    }
    if (status != LINNET_OK)
        ln_weights_free(weights, backend);
    return status;
}

void ln_weights_free(ln_weights *weights, ln_backend *backend) {
    backend->vtable->release(backend, weights->memory, weights->memory_bytes);
    ln_unreserve(weights->table, weights->table_bytes);
    *weights = (ln_weights){0};
}
