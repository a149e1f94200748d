#include "model/load_tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/quantize/mix.h"
#include "format/quants.h"
#include "model/adapter/load.h"
#include "model/family.h"
#include "model/shard.h"

void ln_load_tell(const ln_loader *l) {
    const ln_load_progress *progress = &l->options.progress;
    if (progress->fn != NULL)
        progress->fn(progress->user, progress->before_bytes + l->layout.bytes + l->mapped_bytes,
                     progress->before_bytes + l->total_bytes + progress->after_bytes);
}

/* Notes where an expert's matrix is, and what it will take. */
static ln_status store_matrix(ln_loader *l, const ln_weight_request *request) {
    ln_weight_request copy = *request;
    ln_expert_store *store = l->store;
    size_t bytes, row_bytes, index = l->stored_matrix;
    const ln_weight_source *source = &request->sources[0];
    ln_layout one = {0};
    copy.copies = true;
    LN_TRY(l->backend->vtable->plan_weight(l->backend, &copy, &bytes, l->err));
    ln_layout_add(&one, bytes, 1);
    ln_layout_add(&one, 0, 1);
    if (one.bytes > store->matrix_bytes[index])
        store->matrix_bytes[index] = one.bytes;
    if (ln_dtype_row_bytes(ln_weight_source_dtype(source), request->n_cols, &row_bytes) &&
        row_bytes * source->n_rows > l->stored_bytes)
        l->stored_bytes = row_bytes * source->n_rows;
    if (store->matrices[index] != NULL)
        store->matrices[index][l->stored_expert] =
            (ln_stored_matrix){*source, request->n_cols, request->use};
    l->stored_expert++;
    return LINNET_OK;
}

ln_status ln_load_weight(ln_loader *l, const ln_weight_request *request, ln_weight *weight) {
    const ln_tensor *tensor = request->sources[0].tensor;
    ln_dtype dtype = ln_weight_source_dtype(&request->sources[0]);
    size_t bytes;
    if (l->unused != NULL)
        ln_unused_tensors_mark_request(l->unused, request);
    if (!l->backend->vtable->supports_weight(l->backend, dtype))
        return ln_fail(l->err, LINNET_ERR_UNSUPPORTED,
                       "%s: tensor %s: the %s backend has no kernels for weights of type %s",
                       ln_checkpoint_path(l->checkpoint), tensor->name, l->backend->vtable->name,
                       ln_dtype_name(dtype));
    if (l->store != NULL && !request->as_f32)
        return store_matrix(l, request);
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
    ln_load_tell(l);
    return LINNET_OK;
}

ln_status ln_load_floats(ln_loader *l, const ln_weight_request *request, const float **out) {
    ln_weight copy = {0};
    *out = NULL;
    if (request->n_sources == 0)
        return LINNET_OK;
    LN_TRY(ln_load_weight(l, request, &copy));
    *out = copy.data;
    return LINNET_OK;
}

ln_status ln_load_vector(ln_loader *l, ln_tensor_id id, size_t n, const float **out) {
    ln_weight_request request;
    ln_cut cut = ln_shard_cut(l->spec, id);
    size_t n_whole = cut.rows.n > 0 ? cut.rows.of : n;
    *out = NULL;
    if (id.is_bias && cut.drops_bias)
        return LINNET_OK;
    LN_TRY(ln_source_vector(l->checkpoint, ln_shard_whole(l->spec), id, n_whole, &request, l->err));
    LN_TRY(ln_cut_request(&cut, &request, l->err));
    return ln_load_floats(l, &request, out);
}

ln_status ln_load_float_matrix(ln_loader *l, ln_role role, size_t i, size_t n_rows, size_t n_cols,
                               const float **out) {
    ln_source_shape shape = {1, n_rows, n_cols};
    ln_tensor_id id = {.role = role, .layer = i};
    ln_weight_request request;
    LN_TRY(ln_source_matrix(l->checkpoint, ln_shard_whole(l->spec), id, &shape, &request, l->err));
    request.as_f32 = true;
    return ln_load_floats(l, &request, out);
}

ln_status ln_load_table(ln_loader *l, const float *values, size_t n, const float **out) {
    size_t offset = ln_layout_add(&l->layout, n, sizeof(float));
    *out = NULL;
    if (l->writable == NULL)
        return LINNET_OK;
    l->writable->vtable->upload(l->writable, l->memory + offset, values, n * sizeof(float));
    *out = (const float *)(const void *)(l->memory + offset);
    return LINNET_OK;
}

ln_status ln_load_columns(ln_loader *l, const int32_t *columns, size_t n, const int32_t **out) {
    size_t offset = ln_layout_add(&l->layout, n, sizeof *columns);
    if (l->writable == NULL)
        return LINNET_OK;
    l->writable->vtable->upload(l->writable, l->memory + offset, columns, n * sizeof *columns);
    *out = (const int32_t *)(const void *)(l->memory + offset);
    return LINNET_OK;
}

/* What mixes streams: few rows or columns. */
static bool is_of_streams(ln_role role) {
    return role == LN_ROLE_ALTUP_ROUTER || role == LN_ROLE_ALTUP_PREDICT ||
           role == LN_ROLE_ALTUP_CORRECT || role == LN_ROLE_ATTENTION_HYPER ||
           role == LN_ROLE_FFN_HYPER || role == LN_ROLE_OUTPUT_HYPER;
}

/* Tables, what chooses experts, and small matrices whose errors reach all tokens. */
static bool is_precise(ln_role role) {
    if (role >= LN_ROLE_Q_MESSAGE_DOWN && role <= LN_ROLE_FFN_MESSAGE_GAIN)
        return true;
    if (role >= LN_ROLE_ROUTER && role <= LN_ROLE_ROUTER_SECOND)
        return true;
    switch ((int)role) {
    case LN_ROLE_EMBEDDING:
    case LN_ROLE_LEARNED_POSITIONS:
    case LN_ROLE_TOKEN_TYPES:
    case LN_ROLE_LOOKUP_EMBEDDING:
    case LN_ROLE_NGRAM_EMBEDDING:
    case LN_ROLE_HEAD_EMBEDDING:
    case LN_ROLE_HEAD_CONV:
    case LN_ROLE_SHARED_ROUTER:
    case LN_ROLE_KEY_BIAS:
    case LN_ROLE_RELATIVE_QUERIES:
    case LN_ROLE_TOKEN_SINKS:
    case LN_ROLE_K_TAPS:
    case LN_ROLE_V_TAPS: return true;
    default: return false;
    }
}

/* Whether `linnet quantize` would quantise the tensor of this role; true where GGUF has none. */
static bool may_be_quantized(const ln_loader *l, ln_tensor_id id) {
    char name[LN_TENSOR_NAME_BYTES];
    const ln_binding *binding = ln_family_binding(l->spec->family, LN_FORMAT_GGUF, id, 0);
    if (binding == NULL)
        return true;
    ln_binding_name(binding, LN_FORMAT_GGUF, id, name);
    return !ln_mix_keeps(name);
}

static void quantize_on_load(const ln_loader *l, ln_tensor_id id, ln_weight_source *source,
                             size_t n_cols) {
    if (l->options.quantize == NULL || is_precise(id.role) || !may_be_quantized(l, id))
        return;
    l->weights->n_matrices++;
    if (ln_packed_quantize(&source->packed, *l->options.quantize))
        l->weights->n_quantized++;
    if (source->packed.kind != LN_PACKED_NONE || source->transpose)
        return;
    source->packed = ln_packed_on_load(source->tensor, (size_t)(source->tensor->n_elems / n_cols),
                                       n_cols, *l->options.quantize);
    l->weights->n_quantized += source->packed.kind != LN_PACKED_NONE;
}

/* Gate and up meet the same gathered activations; experts would need one gathering each. */
static ln_status check_order(ln_loader *l, ln_tensor_id id, size_t n_packed,
                             const ln_packed *packed) {
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
static ln_status prepare_ordered(ln_loader *l, ln_weight_request *request, ln_weight *weight) {
    size_t n = request->n_cols;
    int32_t *columns = calloc(n, sizeof *columns);
    if (columns == NULL)
        return ln_fail_memory(l->err, "the order of columns");
    if (l->writable != NULL)
        ln_packed_columns(&request->sources[0].packed, columns);
    request->sources[0].packed.columns = columns;
    ln_status status = ln_load_weight(l, request, weight);
    size_t offset = ln_layout_add(&l->layout, n, sizeof *columns);
    if (status == LINNET_OK && l->writable != NULL) {
        l->writable->vtable->upload(l->writable, l->memory + offset, columns, n * sizeof *columns);
        weight->columns = (const int32_t *)(const void *)(l->memory + offset);
    }
    free(columns);
    return status;
}

static ln_weight_use use_of(const ln_spec *spec, ln_tensor_id id, const ln_source_shape *shape) {
    ln_role role = id.role;
    if (role == LN_ROLE_LEARNED_POSITIONS || role == LN_ROLE_LOOKUP_EMBEDDING ||
        role == LN_ROLE_NGRAM_EMBEDDING || role == LN_ROLE_HEAD_EMBEDDING ||
        role == LN_ROLE_TOKEN_TYPES ||
        (role == LN_ROLE_EMBEDDING && (!spec->tied || spec->bidirectional || id.encoder)))
        return LN_USE_TABLE;
    if (role == LN_ROLE_ROUTER || role == LN_ROLE_ATTENTION_ROUTER ||
        role == LN_ROLE_SHARED_ROUTER || is_of_streams(role))
        return LN_USE_ROUTER;
    bool is_shared = role == LN_ROLE_SHARED_GATE || role == LN_ROLE_SHARED_UP ||
                     role == LN_ROLE_SHARED_DOWN; /* met by all rows, each by itself */
    return shape->n_packed > 1 && !is_shared ? LN_USE_GROUPED : LN_USE_LINEAR;
}

/* magnifies_scores of recorder.h, before the rotations are there: by their kind, not their
 * magnitude. */
static bool may_magnify_scores(const ln_spec *spec, const ln_attention_spec *attention) {
    ln_rope_scaling scaling =
        attention->rope >= 0 ? spec->ropes[attention->rope].scaling : LN_ROPE_PLAIN;
    double over_root = (double)attention->scale * sqrt((double)attention->k_dim);
    return over_root > 1.0 + 1e-3 || scaling == LN_ROPE_YARN || scaling == LN_ROPE_LONGROPE;
}

static bool magnifies_errors(const ln_spec *spec, const ln_layer_spec *layers, size_t n) {
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const ln_layer_spec *layer = &layers[i];
        any |= layer->ffn.moe.n_experts > 0 || layer->ffn.retrieved.n_experts > 0 ||
               layer->mixer.kind != LN_MIXER_NONE || layer->attention.latent.n_latent > 0 ||
               may_magnify_scores(spec, &layer->attention);
    }
    return any;
}

/* Float32 weights may be rounded where no layer of the model has what asks for precise linears:
 * choices, recurrences, large scores. What classifies a text, or mixes streams, is small. */
static bool rounds_f32(const ln_spec *spec, ln_role role) {
    return role != LN_ROLE_CLASS_DENSE && role != LN_ROLE_CLASS_OUT && spec->n_streams == 0 &&
           !magnifies_errors(spec, spec->layers, spec->n_layers) &&
           !magnifies_errors(spec, spec->encoder_layers, spec->n_encoder_layers);
}

static ln_status matrix_of(ln_loader *l, ln_tensor_id id, const ln_source_shape *shape,
                           ln_weight *weight) {
    const ln_spec *whole = ln_shard_whole(l->spec);
    ln_weight_request request;
    ln_cut cut = ln_shard_cut(l->spec, id);
    ln_source_shape whole_shape = ln_cut_shape(&cut, shape);
    id.expert += cut.packed.begin;
    LN_TRY(ln_source_matrix(l->checkpoint, whole, id, &whole_shape, &request, l->err));
    request.use = use_of(l->spec, id, &whole_shape);
    request.rounds_f32 = rounds_f32(whole, id.role);
    quantize_on_load(l, id, &request.sources[0], whole_shape.n_cols);
    LN_TRY(check_order(l, id, shape->n_packed, &request.sources[0].packed));
    LN_TRY(ln_cut_request(&cut, &request, l->err));
    if (request.sources[0].packed.order != NULL)
        LN_TRY(prepare_ordered(l, &request, weight));
    else
        LN_TRY(ln_load_weight(l, &request, weight));
    LN_TRY(ln_source_bias(l->checkpoint, whole, id, &whole_shape, &request, l->err));
    if (l->unused != NULL && cut.drops_bias)
        ln_unused_tensors_mark_request(l->unused, &request);
    if (cut.drops_bias)
        return LINNET_OK;
    cut.cols.n = 0; /* a bias is one column */
    LN_TRY(ln_cut_request(&cut, &request, l->err));
    return ln_load_floats(l, &request, &weight->bias);
}

/* Tables but for the embedding, and what mixes streams, no adapter changes. */
static bool can_have_adapters(ln_role role) {
    return !is_of_streams(role) && role != LN_ROLE_LEARNED_POSITIONS &&
           role != LN_ROLE_LOOKUP_EMBEDDING && role != LN_ROLE_ALTUP_BEGIN &&
           role != LN_ROLE_ALTUP_END;
}

static void add_adapters(ln_loader *l, ln_role role, size_t n_rows, size_t n_cols, size_t rank,
                         ln_weight *weight) {
    size_t n_slots = l->options.n_adapters;
    weight->adapters = weight->device_adapters = NULL;
    if (n_slots == 0 || l->options.head || !can_have_adapters(role))
        return;
    ln_adapter_lay_out(&l->adapter, l->backend, role, n_rows, n_cols, rank);
    size_t offset = ln_layout_add(&l->table_layout, n_slots, sizeof *weight->adapters);
    if (l->table != NULL)
        weight->adapters = (ln_adapter_target *)(void *)(l->table + offset);
    if (!l->backend->vtable->on_device)
        return;
    offset = ln_layout_add(&l->layout, n_slots, sizeof *weight->device_adapters);
    if (l->memory != NULL)
        weight->device_adapters = (ln_adapter_target *)(void *)(l->memory + offset);
}

void ln_load_adapters_of(ln_loader *l, ln_role role, size_t n_rows, size_t n_cols,
                         ln_weight *weight) {
    add_adapters(l, role, n_rows, n_cols, l->options.adapter_rank, weight);
}

ln_status ln_load_matrix(ln_loader *l, ln_role role, size_t layer, size_t n_rows, size_t n_cols,
                         ln_weight *weight) {
    ln_source_shape shape = {.n_packed = 1, .n_rows = n_rows, .n_cols = n_cols};
    ln_tensor_id id = {.role = role, .encoder = l->encoder, .layer = layer, .stem = l->stem};
    LN_TRY(matrix_of(l, id, &shape, weight));
    ln_load_adapters_of(l, role, n_rows, n_cols, weight);
    return LINNET_OK;
}

ln_status ln_load_joined(ln_loader *l, const ln_role *roles, const size_t *n_rows, size_t n_roles,
                         size_t layer, size_t n_cols, ln_weight *weight) {
    ln_weight_request joined = {.n_cols = n_cols};
    size_t all_rows = 0;
    LN_BUG_ON(n_roles > LN_MAX_SOURCES);
    for (size_t i = 0; i < n_roles; i++) {
        ln_source_shape shape = {.n_packed = 1, .n_rows = n_rows[i], .n_cols = n_cols};
        ln_tensor_id id = {.role = roles[i], .layer = layer, .stem = l->stem};
        ln_weight_request request;
        LN_TRY(ln_source_matrix(l->checkpoint, l->spec, id, &shape, &request, l->err));
        quantize_on_load(l, id, &request.sources[0], n_cols);
        LN_TRY(check_order(l, id, 1, &request.sources[0].packed));
        joined.sources[joined.n_sources++] = request.sources[0];
        all_rows += n_rows[i];
    }
    LN_TRY(ln_load_weight(l, &joined, weight));
    add_adapters(l, LN_ROLE_MIXER_IN, all_rows, n_cols, n_roles * l->options.adapter_rank, weight);
    return LINNET_OK;
}

ln_status ln_load_values(ln_loader *l, ln_role role, size_t layer, bool is_bias, size_t n,
                         float *values, bool *is_there) {
    ln_tensor_id id = {.role = role, .layer = layer, .stem = l->stem, .is_bias = is_bias};
    const ln_family *family = l->spec->family;
    const char *path = ln_checkpoint_path(l->checkpoint);
    ln_checkpoint_format format = ln_checkpoint_get_format(l->checkpoint);
    const ln_binding *binding = ln_family_binding(family, format, id, 0), *found;
    const ln_tensor *tensor = ln_family_find(family, l->checkpoint, id, &found);
    *is_there = tensor != NULL;
    if (tensor == NULL && (is_bias || binding == NULL || binding->optional))
        return LINNET_OK;
    if (tensor == NULL) {
        ln_weight_request request;
        return ln_source_vector(l->checkpoint, l->spec, id, n, &request, l->err);
    }
    size_t begin;
    if (!ln_source_values(l->spec, format == LN_FORMAT_HF ? found->hf_part : found->gguf_part, id,
                          n, tensor, &begin))
        return ln_fail(l->err, LINNET_ERR_FORMAT, "%s: tensor %s does not have %zu elements", path,
                       tensor->name, n);
    if (l->unused != NULL)
        ln_unused_tensors_mark(l->unused, tensor);
    if (l->writable != NULL)
        ln_dequantize_row(tensor->dtype,
                          (const char *)tensor->data + begin * ln_dtype_block_bytes(tensor->dtype),
                          values, n);
    return LINNET_OK;
}

ln_status ln_load_value_table(ln_loader *l, ln_role role, size_t layer, bool is_bias, size_t n,
                              float (*of)(float), const float **out) {
    bool is_there;
    float *values = calloc(n, sizeof *values);
    *out = NULL;
    if (values == NULL)
        return ln_fail_memory(l->err, "a table of weights");
    ln_status status = ln_load_values(l, role, layer, is_bias, n, values, &is_there);
    for (size_t i = 0; i < n && of != NULL; i++)
        values[i] = of(values[i]);
    if (status == LINNET_OK && is_there)
        status = ln_load_table(l, values, n, out);
    free(values);
    return status;
}

ln_status ln_load_constant(ln_loader *l, float value, size_t n, const float **out) {
    float *values = calloc(n, sizeof *values);
    if (values == NULL)
        return ln_fail_memory(l->err, "a table of constants");
    for (size_t i = 0; i < n; i++)
        values[i] = value;
    ln_status status = ln_load_table(l, values, n, out);
    free(values);
    return status;
}

static bool has_expert_adapters(const ln_loader *l, ln_role role) {
    return ln_role_is_of_expert(role) && l->options.adapts_experts && !l->options.only_experts;
}

ln_status ln_load_packed(ln_loader *l, ln_role role, size_t layer, size_t number,
                         const ln_source_shape *shape, ln_weight *weight) {
    ln_tensor_id id = {.role = role, .layer = layer, .stem = l->stem, .expert = number};
    LN_TRY(matrix_of(l, id, shape, weight));
    weight->adapters = weight->device_adapters = NULL;
    return LINNET_OK;
}

ln_status ln_load_numbered(ln_loader *l, ln_role role, size_t layer, size_t number, size_t n_rows,
                           size_t n_cols, ln_weight *weight) {
    ln_source_shape shape = {.n_packed = 1, .n_rows = n_rows, .n_cols = n_cols};
    return ln_load_packed(l, role, layer, number, &shape, weight);
}

ln_status ln_load_matrices(ln_loader *l, ln_role role, size_t layer, const ln_source_shape *shape,
                           ln_weight **out) {
    size_t offset = ln_layout_add(&l->table_layout, shape->n_packed, sizeof **out);
    ln_weight planned = {0};
    *out = l->table != NULL ? (ln_weight *)(void *)(l->table + offset) : NULL;
    for (size_t i = 0; i < shape->n_packed; i++) {
        ln_weight *weight = *out != NULL ? &(*out)[i] : &planned;
        LN_TRY(ln_load_packed(l, role, layer, i, shape, weight));
        if (role == LN_ROLE_K_B || role == LN_ROLE_V_B || has_expert_adapters(l, role))
            ln_load_adapters_of(l, role, shape->n_rows, shape->n_cols, weight);
    }
    return LINNET_OK;
}

/* The weights of a norm times `factor`, plus `offset`. */
static ln_status changed_weights(ln_loader *l, ln_tensor_id id, size_t dim, float factor,
                                 float offset, const float **out) {
    ln_weight_request request;
    LN_TRY(ln_source_vector(l->checkpoint, l->spec, id, dim, &request, l->err));
    const ln_tensor *tensor = request.sources[0].tensor;
    if (ln_dtype_block_elems(tensor->dtype) != 1 || !ln_can_dequantize(tensor->dtype))
        return ln_fail(
            l->err, LINNET_ERR_UNSUPPORTED, "%s: tensor %s: a norm of type %s is not supported",
            ln_checkpoint_path(l->checkpoint), tensor->name, ln_dtype_name(tensor->dtype));
    float *weights = calloc(dim, sizeof *weights);
    if (weights == NULL)
        return ln_fail_memory(l->err, "a norm");
    if (l->unused != NULL)
        ln_unused_tensors_mark_request(l->unused, &request);
    if (l->writable != NULL)
        ln_dequantize_row(tensor->dtype, tensor->data, weights, dim);
    for (size_t i = 0; i < dim; i++)
        weights[i] = weights[i] * factor + offset;
    ln_status status = ln_load_table(l, weights, dim, out);
    free(weights);
    return status;
}

ln_status ln_load_norm(ln_loader *l, ln_role role, size_t layer, size_t dim, ln_norm *out) {
    const ln_family *family = l->spec->family;
    ln_checkpoint_format format = ln_checkpoint_get_format(l->checkpoint);
    ln_tensor_id id = {.role = role, .encoder = l->encoder, .layer = layer, .stem = l->stem};
    const ln_binding *binding = ln_family_binding(family, format, id, 0);
    *out = (ln_norm){0};
    bool is_bare = ln_family_is_bare(family, role);
    if (!is_bare &&
        (binding == NULL ||
         (binding->optional && ln_family_find(family, l->checkpoint, id, &binding) == NULL)))
        return LINNET_OK;
    *out = (ln_norm){.kind = l->spec->norm_kind, .eps = l->spec->norm_eps, .dim = dim};
    if (role == LN_ROLE_ATTENTION_POST_NORM || role == LN_ROLE_FFN_POST_NORM)
        out->eps = l->spec->post_norm_eps;
    if (role == LN_ROLE_OUTPUT_NORM && l->spec->output_norm_eps > 0)
        out->eps = l->spec->output_norm_eps;
    if (is_bare)
        return LINNET_OK;
    if (role == LN_ROLE_OUTPUT_NORM && family->output_norm_is_rms)
        out->kind = LN_NORM_RMS;
    if (family->norms_add_one && format == LN_FORMAT_HF)
        LN_TRY(
            changed_weights(l, id, dim, 1.0f, ln_family_norm_offset(family, role), &out->weight));
    else
        LN_TRY(ln_load_vector(l, id, dim, &out->weight));
    id.is_bias = true;
    return ln_load_vector(l, id, dim, &out->bias);
}

/* Rows of one tensor for each head, as one array. */
static ln_status gather_heads(ln_loader *l, ln_tensor_id id, size_t n_heads, size_t dim,
                              float *weights) {
    ln_cut cut = ln_shard_cut(l->spec, id);
    ln_source_shape shape = {cut.rows.n > 0 ? cut.rows.of : n_heads, 1, dim};
    ln_weight_request request;
    const ln_binding *binding;
    for (id.expert = 0; id.expert < shape.n_packed && l->unused != NULL; id.expert++)
        ln_unused_tensors_mark(l->unused,
                               ln_family_find(l->spec->family, l->checkpoint, id, &binding));
    for (size_t head = 0; head < n_heads; head++) {
        id.expert = cut.rows.begin + head;
        LN_TRY(
            ln_source_matrix(l->checkpoint, ln_shard_whole(l->spec), id, &shape, &request, l->err));
        const ln_tensor *tensor = request.sources[0].tensor;
        if (ln_dtype_block_elems(tensor->dtype) != 1 || !ln_can_dequantize(tensor->dtype))
            return ln_fail(
                l->err, LINNET_ERR_UNSUPPORTED, "%s: tensor %s: a norm of type %s is not supported",
                ln_checkpoint_path(l->checkpoint), tensor->name, ln_dtype_name(tensor->dtype));
        if (l->unused != NULL)
            ln_unused_tensors_mark_request(l->unused, &request);
        if (l->writable != NULL)
            ln_dequantize_row(tensor->dtype, tensor->data, weights + head * dim, dim);
    }
    return LINNET_OK;
}

/* One tensor that has a row for each head; a bias may be absent. */
static ln_status heads_of_one(ln_loader *l, ln_tensor_id id, size_t n_heads, size_t dim,
                              const float **out) {
    const ln_binding *binding;
    ln_cut cut = ln_shard_cut(l->spec, id);
    ln_source_shape shape = {1, n_heads, dim}, whole = ln_cut_shape(&cut, &shape);
    ln_weight_request request;
    if (id.is_bias && ln_family_find(l->spec->family, l->checkpoint, id, &binding) == NULL)
        return LINNET_OK;
    LN_TRY(ln_source_matrix(l->checkpoint, ln_shard_whole(l->spec), id, &whole, &request, l->err));
    LN_TRY(ln_cut_request(&cut, &request, l->err));
    request.as_f32 = true;
    return ln_load_floats(l, &request, out);
}

ln_status ln_load_norm_by_head(ln_loader *l, ln_role role, size_t layer, size_t n_heads, size_t dim,
                               ln_norm *out) {
    ln_tensor_id id = {.role = role, .layer = layer, .stem = l->stem};
    *out = (ln_norm){.kind = l->spec->norm_kind, .eps = l->spec->norm_eps, .dim = dim};
    if (!ln_family_is_numbered(l->spec->family, l->checkpoint, id)) {
        LN_TRY(heads_of_one(l, id, n_heads, dim, &out->weight));
        id.is_bias = true;
        return heads_of_one(l, id, n_heads, dim, &out->bias);
    }
    float *weights = calloc(n_heads * dim, sizeof *weights);
    if (weights == NULL)
        return ln_fail_memory(l->err, "the norms of heads");
    ln_status status = gather_heads(l, id, n_heads, dim, weights);
    if (status == LINNET_OK)
        status = ln_load_table(l, weights, n_heads * dim, &out->weight);
    free(weights);
    return status;
}

ln_status ln_load_scaled_norm(ln_loader *l, ln_role role, size_t layer, size_t dim, float factor,
                              ln_norm *out) {
    ln_tensor_id id = {.role = role, .layer = layer, .stem = l->stem};
    *out = (ln_norm){.kind = l->spec->norm_kind, .eps = l->spec->norm_eps, .dim = dim};
    return changed_weights(l, id, dim, factor, 0.0f, &out->weight);
}
