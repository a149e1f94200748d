#include "model/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/layout.h"
#include "model/family.h"
#include "model/rope.h"

/* Planning and loading are one walk over all weights. While planning, `memory` is NULL and the
 * results go to scratch structs; both passes add the same parts to the layout. */
typedef struct loader {
    const ln_checkpoint *checkpoint;
    const ln_spec *spec;
    const ln_backend *backend;
    ln_backend *writable; /* the same backend; NULL while planning */
    char *memory;         /* NULL while planning */
    ln_layout layout;     /* of the prepared bytes */
    size_t mapped_bytes;
    size_t ctx_tokens;
    ln_weights *weights;
    ln_error *err;
} loader;

/* Reports the first name under which a role's tensor was looked for. */
static ln_status missing(const loader *l, ln_role role, size_t layer) {
    ln_checkpoint_format format = ln_checkpoint_get_format(l->checkpoint);
    const ln_binding *binding = ln_family_binding(l->spec->family, format, role, 0);
    char name[LN_TENSOR_NAME_BYTES] = "(of no known name)";
    if (binding != NULL)
        ln_binding_name(binding, format, layer, ".weight", name);
    return ln_fail(l->err, LINNET_ERR_FORMAT, "%s: tensor %s is missing",
                   ln_checkpoint_path(l->checkpoint), name);
}

static const ln_tensor *find(const loader *l, ln_role role, size_t layer, const char *suffix,
                             const ln_binding **binding) {
    return ln_family_find(l->spec->family, l->checkpoint, role, layer, suffix, binding);
}

/* A matrix of n_rows x n_cols as stored; n_cols 0: a vector of n_rows. */
static ln_status check_shape(const loader *l, const ln_tensor *tensor, size_t n_rows,
                             size_t n_cols) {
    const char *path = ln_checkpoint_path(l->checkpoint);
    char shape[96] = "";
    for (int i = 0; i < tensor->n_dims; i++) {
        size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, "%s%llu", i > 0 ? " x " : "",
                 (unsigned long long)tensor->dims[i]);
    }
    if (n_cols == 0) {
        if (tensor->n_elems == n_rows && tensor->dims[tensor->n_dims - 1] == n_rows)
            return LINNET_OK;
        return ln_fail(l->err, LINNET_ERR_FORMAT, "%s: tensor %s has shape %s, not %zu", path,
                       tensor->name, shape, n_rows);
    }
    if (tensor->n_dims == 2 && tensor->dims[0] == n_rows && tensor->dims[1] == n_cols)
        return LINNET_OK;
    return ln_fail(l->err, LINNET_ERR_FORMAT, "%s: tensor %s has shape %s, not %zu x %zu", path,
                   tensor->name, shape, n_rows, n_cols);
}

/* The rows of a stored tensor that a role takes. n_rows is the role's own number. */
static ln_weight_source part_of(const loader *l, const ln_binding *binding, ln_role role,
                                size_t layer, size_t n_rows, size_t *stored_rows) {
    const ln_layer_spec *spec = &l->spec->layers[layer];
    const ln_attention_spec *a = &spec->attention;
    bool is_hf = ln_checkpoint_get_format(l->checkpoint) == LN_FORMAT_HF;
    ln_part part = is_hf ? binding->hf_part : binding->gguf_part;
    size_t q = a->n_heads * a->k_dim, k = a->n_kv_heads * a->k_dim, v = a->n_kv_heads * a->v_dim;
    ln_weight_source source = {.n_rows = n_rows, .run_rows = n_rows};
    source.transpose = is_hf && binding->hf_transposed;
    *stored_rows = n_rows;
    if (part == LN_PART_QKV) {
        source.row_begin = role == LN_ROLE_Q ? 0 : role == LN_ROLE_K ? q : q + k;
        *stored_rows = q + k + v;
    } else if (part == LN_PART_QKV_BY_GROUP) {
        size_t group_q = q / a->n_kv_heads;
        source.row_begin = role == LN_ROLE_Q ? 0 : role == LN_ROLE_K ? group_q : group_q + a->k_dim;
        source.run_rows = n_rows / a->n_kv_heads;
        source.run_stride = group_q + a->k_dim + a->v_dim;
        *stored_rows = q + k + v;
    } else if (part == LN_PART_GATE_UP) {
        source.row_begin = role == LN_ROLE_GATE ? 0 : spec->ffn.n_hidden;
        *stored_rows = 2 * spec->ffn.n_hidden;
    }
    return source;
}

/* Plans or prepares one request into the next part of the arena. */
static ln_status prepare(loader *l, const ln_weight_request *request, ln_weight *weight) {
    const ln_tensor *tensor = request->sources[0].tensor;
    size_t bytes;
    if (!l->backend->vtable->supports_weight(l->backend, tensor->dtype))
        return ln_fail(
            l->err, LINNET_ERR_UNSUPPORTED, "%s: tensor %s: weights of type %s are not supported",
            ln_checkpoint_path(l->checkpoint), tensor->name, ln_dtype_name(tensor->dtype));
    LN_TRY(l->backend->vtable->plan_weight(l->backend, request, &bytes, l->err));
    size_t offset = ln_layout_add(&l->layout, bytes, 1);
    if (bytes == 0)
        l->mapped_bytes += tensor->bytes;
    if (l->writable == NULL) {
        *weight = (ln_weight){.data = tensor->data};
        return LINNET_OK;
    }
    return l->writable->vtable->prepare_weight(
        l->writable, request, bytes > 0 ? l->memory + offset : NULL, weight, l->err);
}

/* A float32 copy of n elements of a vector, the source saying which. */
static ln_status vector(loader *l, const ln_tensor *tensor, ln_weight_source source, size_t stored,
                        const float **out) {
    LN_TRY(check_shape(l, tensor, stored, 0));
    source.tensor = tensor;
    source.transpose = false;
    ln_weight_request request = {.n_sources = 1, .sources = {source}, .n_cols = 1, .as_f32 = true};
    ln_weight copy;
    LN_TRY(prepare(l, &request, &copy));
    *out = copy.data;
    return LINNET_OK;
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

static ln_status matrix(loader *l, ln_role role, size_t layer, size_t n_rows, size_t n_cols,
                        ln_weight *weight) {
    const ln_binding *binding;
    size_t stored_rows;
    const ln_tensor *tensor = find(l, role, layer, ".weight", &binding);
    if (tensor == NULL)
        return missing(l, role, layer);
    ln_weight_source source = part_of(l, binding, role, layer, n_rows, &stored_rows);
    if (source.transpose)
        LN_TRY(check_shape(l, tensor, n_cols, stored_rows));
    else
        LN_TRY(check_shape(l, tensor, stored_rows, n_cols));
    source.tensor = tensor;
    ln_weight_request request = {.n_sources = 1, .sources = {source}, .n_cols = n_cols};
    LN_TRY(prepare(l, &request, weight));
    tensor = find(l, role, layer, ".bias", &binding);
    if (tensor == NULL)
        return LINNET_OK;
    source = part_of(l, binding, role, layer, n_rows, &stored_rows);
    return vector(l, tensor, source, stored_rows, &weight->bias);
}

/* A norm that the family names must be there, unless it is optional; one that it does not name
 * stays absent (dim 0). */
static ln_status norm(loader *l, ln_role role, size_t layer, size_t dim, ln_norm *out) {
    const ln_binding *binding;
    ln_checkpoint_format format = ln_checkpoint_get_format(l->checkpoint);
    const ln_binding *first = ln_family_binding(l->spec->family, format, role, 0);
    ln_weight_source all = {.n_rows = dim, .run_rows = dim};
    *out = (ln_norm){0};
    if (first == NULL)
        return LINNET_OK;
    const ln_tensor *tensor = find(l, role, layer, ".weight", &binding);
    if (tensor == NULL)
        return first->optional ? LINNET_OK : missing(l, role, layer);
    *out = (ln_norm){.kind = l->spec->norm_kind, .eps = l->spec->norm_eps, .dim = dim};
    LN_TRY(vector(l, tensor, all, dim, &out->weight));
    tensor = find(l, role, layer, ".bias", &binding);
    return tensor != NULL ? vector(l, tensor, all, dim, &out->bias) : LINNET_OK;
}

static ln_status qk_norms(loader *l, size_t layer, const ln_attention_spec *spec,
                          ln_layer_weights *w) {
    size_t q_heads = spec->qk_norm == LN_QK_NORM_FULL ? spec->n_heads : 1;
    size_t k_heads = spec->qk_norm == LN_QK_NORM_FULL ? spec->n_kv_heads : 1;
    if (spec->qk_norm == LN_QK_NORM_NONE)
        return LINNET_OK;
    LN_TRY(norm(l, LN_ROLE_Q_NORM, layer, q_heads * spec->k_dim, &w->q_norm));
    return norm(l, LN_ROLE_K_NORM, layer, k_heads * spec->k_dim, &w->k_norm);
}

static ln_status layer_weights(loader *l, size_t i, ln_layer_weights *w) {
    const ln_layer_spec *layer = &l->spec->layers[i];
    const ln_attention_spec *attention = &layer->attention;
    size_t dim = l->spec->dim, n_hidden = layer->ffn.n_hidden;
    LN_TRY(norm(l, LN_ROLE_ATTENTION_NORM, i, dim, &w->attention_norm));
    LN_TRY(norm(l, LN_ROLE_ATTENTION_POST_NORM, i, dim, &w->attention_post_norm));
    LN_TRY(norm(l, LN_ROLE_FFN_NORM, i, dim, &w->ffn_norm));
    LN_TRY(norm(l, LN_ROLE_FFN_POST_NORM, i, dim, &w->ffn_post_norm));
    LN_TRY(qk_norms(l, i, attention, w));
    LN_TRY(matrix(l, LN_ROLE_Q, i, attention->n_heads * attention->k_dim, dim, &w->q));
    LN_TRY(matrix(l, LN_ROLE_K, i, attention->n_kv_heads * attention->k_dim, dim, &w->k));
    LN_TRY(matrix(l, LN_ROLE_V, i, attention->n_kv_heads * attention->v_dim, dim, &w->v));
    LN_TRY(matrix(l, LN_ROLE_O, i, dim, attention->n_heads * attention->v_dim, &w->o));
    if (layer->ffn.gated)
        LN_TRY(matrix(l, LN_ROLE_GATE, i, n_hidden, dim, &w->gate));
    LN_TRY(matrix(l, LN_ROLE_UP, i, n_hidden, dim, &w->up));
    return matrix(l, LN_ROLE_DOWN, i, dim, n_hidden, &w->down);
}

/* Frequency factors: longrope's lists, or the tensors that GGUF keeps for longrope and llama3. */
static ln_status find_freq_factors(const loader *l, const ln_rope_spec *rope,
                                   const float **factors) {
    bool is_long = ln_rope_is_long(rope, l->ctx_tokens);
    *factors = NULL;
    if (ln_checkpoint_get_format(l->checkpoint) != LN_FORMAT_GGUF) {
        *factors = is_long ? rope->long_factors : rope->short_factors;
        return LINNET_OK;
    }
    const char *name = rope->scaling != LN_ROPE_LONGROPE ? "rope_freqs.weight"
                       : is_long                         ? "rope_factors_long.weight"
                                                         : "rope_factors_short.weight";
    const ln_tensor *tensor = ln_checkpoint_find(l->checkpoint, name);
    if (tensor == NULL)
        return LINNET_OK;
    LN_TRY(check_shape(l, tensor, rope->n_dims / 2, 0));
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
            rope->magnitude = ln_rope_fill(spec, l->ctx_tokens, factors, inv_freq);
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

static ln_status output(loader *l) {
    const ln_binding *binding;
    const ln_spec *spec = l->spec;
    if (spec->tied || find(l, LN_ROLE_OUTPUT, 0, ".weight", &binding) == NULL) {
        l->weights->output = l->weights->embedding;
        return LINNET_OK;
    }
    return matrix(l, LN_ROLE_OUTPUT, 0, spec->n_vocab, spec->dim, &l->weights->output);
}

static ln_status walk(loader *l) {
    const ln_spec *spec = l->spec;
    ln_weights *w = l->weights;
    LN_TRY(matrix(l, LN_ROLE_EMBEDDING, 0, spec->n_vocab, spec->dim, &w->embedding));
    if (spec->positions == LN_POSITIONS_LEARNED)
        LN_TRY(matrix(l, LN_ROLE_LEARNED_POSITIONS, 0, spec->n_learned, spec->dim,
                      &w->learned_positions));
    LN_TRY(norm(l, LN_ROLE_EMBEDDING_NORM, 0, spec->dim, &w->embedding_norm));
    LN_TRY(norm(l, LN_ROLE_OUTPUT_NORM, 0, spec->dim, &w->output_norm));
    LN_TRY(output(l));
    LN_TRY(ropes(l));
    LN_TRY(alibi(l));
    ln_layer_weights planned;
    for (size_t i = 0; i < spec->n_layers; i++)
        LN_TRY(layer_weights(l, i, w->layers != NULL ? &w->layers[i] : &planned));
    return ln_layout_check(&l->layout, "weights", l->err);
}

ln_status ln_weights_plan_bytes(const ln_checkpoint *checkpoint, const ln_spec *spec,
                                const ln_backend *backend, ln_weights_plan *plan, ln_error *err) {
    ln_weights weights = {0};
    loader l = {.checkpoint = checkpoint,
                .spec = spec,
                .backend = backend,
                .weights = &weights,
                .err = err};
    LN_TRY(walk(&l));
    *plan = (ln_weights_plan){.prepared_bytes = l.layout.bytes,
                              .mapped_bytes = l.mapped_bytes,
                              .table_bytes = spec->n_layers * sizeof *weights.layers};
    return LINNET_OK;
}

ln_status ln_weights_load(const ln_checkpoint *checkpoint, const ln_spec *spec, size_t ctx_tokens,
                          ln_backend *backend, ln_weights *weights, ln_error *err) {
    ln_weights_plan plan;
    *weights = (ln_weights){0};
    if (spec->max_ctx_tokens > 0 && ctx_tokens > spec->max_ctx_tokens)
        return ln_fail(err, LINNET_ERR_LIMIT,
                       "a context of %zu tokens is more than the %zu positions of %s", ctx_tokens,
                       spec->max_ctx_tokens, ln_checkpoint_path(checkpoint));
    LN_TRY(ln_weights_plan_bytes(checkpoint, spec, backend, &plan, err));
    LN_TRY(ln_reserve(plan.table_bytes, "table of the weights", &weights->table, err));
    weights->table_bytes = plan.table_bytes;
    weights->layers = weights->table;
    ln_status status =
        backend->vtable->reserve(backend, plan.prepared_bytes, "weights", &weights->memory, err);
    if (status == LINNET_OK) {
        weights->memory_bytes = plan.prepared_bytes;
        loader l = {.checkpoint = checkpoint,
                    .spec = spec,
                    .backend = backend,
                    .writable = backend,
                    .memory = weights->memory,
                    .ctx_tokens = ctx_tokens,
                    .weights = weights,
                    .err = err};
        status = walk(&l);
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
