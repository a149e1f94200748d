#include "model/source.h"

#include <stdio.h>
#include <string.h>

#include "format/quants.h"

static ln_status missing(const ln_checkpoint *checkpoint, const ln_spec *spec, ln_tensor_id id,
                         ln_error *err) {
    ln_checkpoint_format format = ln_checkpoint_get_format(checkpoint);
    const ln_binding *binding = ln_family_binding(spec->family, format, id, 0);
    char name[LN_TENSOR_NAME_BYTES] = "(of no known name)";
    if (binding != NULL)
        ln_binding_name(binding, format, id, name);
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s is missing",
                   ln_checkpoint_path(checkpoint), name);
}

static ln_status wrong_shape(const ln_checkpoint *checkpoint, const ln_tensor *tensor,
                             const uint64_t *dims, int n_dims, ln_error *err) {
    char found[96] = "", wanted[96] = "";
    for (int i = 0; i < tensor->n_dims; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%llu", i > 0 ? " x " : "",
                 (unsigned long long)tensor->dims[i]);
    for (int i = 0; i < n_dims; i++)
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%s%llu",
                 i > 0 ? " x " : "", (unsigned long long)dims[i]);
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s has shape %s, not %s",
                   ln_checkpoint_path(checkpoint), tensor->name, tensor->n_dims > 0 ? found : "()",
                   wanted);
}

ln_status ln_source_check_vector(const ln_checkpoint *checkpoint, const ln_tensor *tensor, size_t n,
                                 ln_error *err) {
    uint64_t dim = n;
    if (tensor->n_elems == n && tensor->n_dims > 0 && tensor->dims[tensor->n_dims - 1] == n)
        return LINNET_OK;
    return wrong_shape(checkpoint, tensor, &dim, 1, err);
}

/* The stored tensor: one of them, or `packed` of them in one, each rows x cols as stored. cols 0:
 * vectors. */
static ln_status check_stored(const ln_checkpoint *checkpoint, const ln_tensor *tensor,
                              size_t packed, size_t rows, size_t cols, ln_error *err) {
    uint64_t dims[3];
    int n_dims = 0;
    if (packed > 1)
        dims[n_dims++] = packed;
    dims[n_dims++] = rows;
    if (cols > 0)
        dims[n_dims++] = cols;
    if (tensor->n_dims == 1 && n_dims == 2 && rows == 1 && tensor->dims[0] == cols)
        return LINNET_OK; /* GGUF drops outer dimensions of 1 */
    if (tensor->n_dims == 2 && n_dims == 3 && tensor->dims[0] == packed * rows &&
        tensor->dims[1] == cols)
        return LINNET_OK; /* one below the other */
    if (tensor->n_dims == 3 && n_dims == 3 && tensor->dims[0] == packed * rows &&
        tensor->dims[1] > 0 && cols % tensor->dims[1] == 0 &&
        tensor->dims[2] == cols / tensor->dims[1])
        return LINNET_OK; /* the same of a convolution, whose taps are columns */
    if (tensor->n_dims == 1 && n_dims == 2 && cols == 0 && tensor->dims[0] == packed * rows)
        return LINNET_OK;
    int n_ones = 0; /* outermost, where one head or expert is stored as one of many */
    while (n_ones < tensor->n_dims - n_dims && tensor->dims[n_ones] == 1)
        n_ones++;
    if (tensor->n_dims - n_ones == n_dims &&
        memcmp(tensor->dims + n_ones, dims, (size_t)n_dims * sizeof *dims) == 0)
        return LINNET_OK;
    return wrong_shape(checkpoint, tensor, dims, n_dims, err);
}

/* Where the parts of all that a delta net reads begin: of k, v, the gate, beta and the decay. */
static size_t delta_begin(const ln_mixer_spec *m, ln_role role) {
    size_t k = m->n_k_heads * m->k_dim, v = m->n_heads * m->v_dim;
    switch (role) {
    case LN_ROLE_MIXER_K: return k;
    case LN_ROLE_MIXER_V: return 2 * k;
    case LN_ROLE_MIXER_GATE: return 2 * k + v;
    case LN_ROLE_MIXER_B: return 2 * (k + v);
    case LN_ROLE_MIXER_A: return 2 * (k + v) + m->n_heads;
    default: return 0;
    }
}

/* Which rows of one of Mamba 1's stored matrices a role takes, as part_of has it. */
static ln_weight_source selective_part(const ln_mixer_spec *m, ln_part part, ln_role role,
                                       size_t n_rows, size_t *stored_rows) {
    ln_weight_source source = {.n_rows = n_rows, .run_rows = n_rows};
    if (part == LN_PART_MIXER_CONTROLS) {
        source.row_begin = role == LN_ROLE_MIXER_A_LOW ? 0
                           : role == LN_ROLE_MIXER_K   ? m->low_rank
                                                       : m->low_rank + m->k_dim;
        *stored_rows = m->low_rank + 2 * m->k_dim;
        return source;
    }
    *stored_rows = 2 * n_rows;
    source.row_begin = role == LN_ROLE_MIXER_IN ? 0 : n_rows;
    if (part == LN_PART_MIXER_PAIRS) {
        source.row_begin = role == LN_ROLE_MIXER_IN ? 0 : 1;
        source.run_rows = 1;
        source.run_stride = 2;
    }
    return source;
}

/* The same of any recurrent layer's matrices. */
static ln_weight_source mixer_part(const ln_mixer_spec *m, ln_part part, ln_role role,
                                   size_t n_rows, size_t *stored_rows) {
    ln_weight_source source = {.n_rows = n_rows, .run_rows = n_rows};
    size_t k = m->n_k_heads * m->k_dim, v = m->n_heads * m->v_dim, per_k;
    size_t n_k_heads = m->n_k_heads > 0 ? m->n_k_heads : 1; /* a convolution alone has none */
    size_t heads_per_k = m->n_heads / n_k_heads;
    per_k = heads_per_k * m->v_dim;
    switch (part) {
    case LN_PART_MIXER_QKV:
        source.row_begin = role == LN_ROLE_MIXER_Q || role == LN_ROLE_MIXER_CONV_Q   ? 0
                           : role == LN_ROLE_MIXER_K || role == LN_ROLE_MIXER_CONV_K ? k
                                                                                     : 2 * k;
        *stored_rows = 2 * k + v;
        break;
    case LN_PART_MIXER_QKV_BY_HEAD:
    case LN_PART_MIXER_QKVZ_BY_HEAD:
        source.run_stride = 2 * m->k_dim + (part == LN_PART_MIXER_QKV_BY_HEAD ? 1 : 2) * per_k;
        source.run_rows = n_rows / n_k_heads;
        source.row_begin = role == LN_ROLE_MIXER_Q   ? 0
                           : role == LN_ROLE_MIXER_K ? m->k_dim
                           : role == LN_ROLE_MIXER_V ? 2 * m->k_dim
                                                     : 2 * m->k_dim + per_k;
        *stored_rows = n_k_heads * source.run_stride;
        break;
    case LN_PART_MIXER_BA_BY_HEAD:
        source.run_stride = 2 * heads_per_k;
        source.run_rows = heads_per_k;
        source.row_begin = role == LN_ROLE_MIXER_B ? 0 : heads_per_k;
        *stored_rows = 2 * m->n_heads;
        break;
    case LN_PART_MIXER_SSD:
        source.row_begin = role == LN_ROLE_MIXER_GATE ? 0
                           : role == LN_ROLE_MIXER_IN ? v
                                                      : 2 * (v + k);
        *stored_rows = 2 * (v + k) + m->n_heads;
        break;
    case LN_PART_MIXER_QKVZBA:
        source.row_begin = delta_begin(m, role);
        *stored_rows = 2 * (k + v + m->n_heads);
        break;
    case LN_PART_MIXER_HALVES:
    case LN_PART_MIXER_PAIRS:
    case LN_PART_MIXER_CONTROLS: return selective_part(m, part, role, n_rows, stored_rows);
    default: /* thirds */
        source.row_begin = role == LN_ROLE_MIXER_IN_GATE ? 0
                           : role == LN_ROLE_MIXER_GATE  ? n_rows
                                                         : 2 * n_rows;
        *stored_rows = 3 * n_rows;
        break;
    }
    return source;
}

/* Of a gate and what it multiplies, or of keys and values. */
static bool is_first_of_two(ln_role role) {
    return role == LN_ROLE_K || role == LN_ROLE_GATE || role == LN_ROLE_EXPERT_GATE ||
           role == LN_ROLE_SHARED_GATE || role == LN_ROLE_BLOCK_GATE_HIGH;
}

/* The queries of latent attention, or a gate of its output beside them. */
static ln_weight_source query_part(const ln_attention_spec *a, ln_role role, size_t n_rows,
                                   size_t *stored_rows) {
    size_t q = a->latent.n_plain + a->latent.n_rope, v = a->latent.v_dim;
    bool is_q = role == LN_ROLE_Q_B;
    *stored_rows = a->n_heads * (q + v);
    return (ln_weight_source){
        .n_rows = n_rows, .row_begin = is_q ? 0 : q, .run_rows = is_q ? q : v, .run_stride = q + v};
}

/* The values of KV head number `head` of differential attention: those of one of the first half of
 * the stored heads, and of one of the second. */
static ln_weight_source value_pair(const ln_attention_spec *a, size_t head, size_t *stored_rows) {
    size_t half = a->n_kv_heads > 1 ? a->n_kv_heads / 2 : 1; /* they are in pairs */
    *stored_rows = a->n_kv_heads * a->k_dim;
    return (ln_weight_source){.n_rows = 2 * a->k_dim,
                              .row_begin = head % half * a->k_dim,
                              .run_rows = a->k_dim,
                              .run_stride = half * a->k_dim};
}

static ln_weight_source fourth_part(ln_role role, size_t n_rows, size_t *stored_rows) {
    size_t index = role == LN_ROLE_Q ? 1 : role == LN_ROLE_K ? 2 : role == LN_ROLE_V ? 3 : 0;
    *stored_rows = 4 * n_rows;
    return (ln_weight_source){.n_rows = n_rows, .row_begin = index * n_rows, .run_rows = n_rows};
}

/* The key of latent attention that rotates. */
static ln_weight_source key_part(const ln_attention_spec *a, size_t n_rows, size_t *stored_rows) {
    *stored_rows = a->latent.n_latent + a->latent.n_rope;
    return (ln_weight_source){
        .n_rows = n_rows, .row_begin = a->latent.n_latent, .run_rows = n_rows};
}

/* Of queries beside whose heads lie those of a gate of the output, and what follows them: keys,
 * then values, or nothing. */
static ln_weight_source gated_part(const ln_attention_spec *a, ln_role role, size_t n_rows) {
    size_t q = 2 * a->n_heads * a->k_dim, k = a->n_kv_heads * a->k_dim;
    if (role == LN_ROLE_K || role == LN_ROLE_V)
        return (ln_weight_source){
            .n_rows = n_rows, .row_begin = role == LN_ROLE_K ? q : q + k, .run_rows = n_rows};
    return (ln_weight_source){.n_rows = n_rows,
                              .row_begin = role == LN_ROLE_Q ? 0 : a->k_dim,
                              .run_rows = a->k_dim,
                              .run_stride = 2 * a->k_dim};
}

/* Which rows of one stored matrix a role takes, and how many rows are stored in all. */
static ln_weight_source part_of(const ln_spec *spec, ln_part part, ln_tensor_id id, size_t n_rows,
                                size_t *stored_rows) {
    const ln_layer_spec *layer = ln_layer_of(spec, id);
    const ln_attention_spec *a = &layer->attention;
    size_t q = a->n_heads * a->k_dim, k = a->n_kv_heads * a->k_dim, v = a->n_kv_heads * a->v_dim;
    size_t n_kv_heads = a->n_kv_heads > 0 ? a->n_kv_heads : 1, group_q = q / n_kv_heads;
    ln_weight_source source = {.n_rows = n_rows, .run_rows = n_rows};
    *stored_rows = n_rows;
    switch (part) {
    case LN_PART_ALL:
    case LN_PART_KV_BY_HEAD: break; /* see latent_part */
    case LN_PART_BEFORE_PADDING: *stored_rows = n_rows + spec->n_padding; break;
    case LN_PART_BEFORE_EMBEDDED: *stored_rows = n_rows + spec->family->n_only_embedded; break;
    case LN_PART_QKV:
    case LN_PART_QKV_BY_SHARD:
        source.row_begin = id.role == LN_ROLE_Q ? 0 : id.role == LN_ROLE_K ? q : q + k;
        *stored_rows = q + k + v;
        break;
    case LN_PART_QVK_BY_FOURTH:
        source.run_rows = n_rows / 4;
        source.run_stride = (q + k + v) / 4;
        source.row_begin = id.role == LN_ROLE_Q ? 0 : id.role == LN_ROLE_V ? q / 4 : (q + v) / 4;
        *stored_rows = q + k + v;
        break;
    case LN_PART_QKV_BY_GROUP:
        source.row_begin = id.role == LN_ROLE_Q   ? 0
                           : id.role == LN_ROLE_K ? group_q
                                                  : group_q + a->k_dim;
        source.run_rows = n_rows / n_kv_heads;
        source.run_stride = group_q + a->k_dim + a->v_dim;
        *stored_rows = q + k + v;
        break;
    case LN_PART_GATE_UP:
    case LN_PART_UP_GATE:
        source.row_begin = is_first_of_two(id.role) == (part == LN_PART_GATE_UP) ? 0 : n_rows;
        *stored_rows = 2 * n_rows;
        break;
    case LN_PART_GATE_UP_BY_ROW:
        source.row_begin = is_first_of_two(id.role) ? 0 : 1;
        source.run_rows = 1;
        source.run_stride = 2;
        *stored_rows = 2 * n_rows;
        break;
    case LN_PART_Q_GATE_BY_HEAD: *stored_rows = 2 * n_rows; return gated_part(a, id.role, n_rows);
    case LN_PART_GATED_QKV: *stored_rows = 2 * q + k + v; return gated_part(a, id.role, n_rows);
    case LN_PART_INDEX_QK:
        source.row_begin = id.role == LN_ROLE_INDEX_Q ? 0 : a->indexer.n_heads * n_rows;
        *stored_rows = (a->indexer.n_heads + 1) * a->indexer.head_dim;
        break;
    case LN_PART_KV_ROPE: return key_part(a, n_rows, stored_rows);
    case LN_PART_LATENT_Q_GATE: return query_part(a, id.role, n_rows, stored_rows);
    case LN_PART_GQKV: return fourth_part(id.role, n_rows, stored_rows);
    case LN_PART_VALUE_PAIRS: return value_pair(a, id.expert, stored_rows);
    default: /* a recurrent layer's */
        return mixer_part(&layer->mixer, part, id.role, n_rows, stored_rows);
    }
    return source;
}

/* Head number id.expert of a stored [heads * (plain + v)][latent]. */
static ln_weight_source latent_part(const ln_spec *spec, ln_tensor_id id, size_t n_rows,
                                    size_t *stored_rows) {
    const ln_attention_spec *a = &spec->layers[id.layer].attention;
    const ln_latent_spec *latent = &a->latent;
    size_t begin = id.expert * (latent->n_plain + latent->v_dim);
    ln_weight_source source = {.n_rows = n_rows, .run_rows = n_rows};
    *stored_rows = a->n_heads * (latent->n_plain + latent->v_dim);
    if (id.role == LN_ROLE_K_B) {
        source.transpose = true;
        source.col_begin = begin;
    } else {
        source.row_begin = begin + latent->n_plain;
    }
    return source;
}

ln_weight_source ln_source_part(const ln_spec *spec, ln_part part, ln_tensor_id id, size_t n_rows,
                                size_t *stored_rows) {
    return part == LN_PART_KV_BY_HEAD ? latent_part(spec, id, n_rows, stored_rows)
                                      : part_of(spec, part, id, n_rows, stored_rows);
}

bool ln_source_values(const ln_spec *spec, ln_part part, ln_tensor_id id, size_t n,
                      const ln_tensor *tensor, size_t *begin) {
    *begin = 0;
    if (ln_dtype_block_elems(tensor->dtype) != 1 || !ln_can_dequantize(tensor->dtype))
        return false;
    if (id.role == LN_ROLE_MIXER_RATE && spec->family->flat_rates && tensor->n_elems > n)
        return true;
    if (part != LN_PART_MIXER_QKV)
        return tensor->n_elems == n;
    const ln_mixer_spec *m = &ln_layer_of(spec, id)->mixer;
    size_t k = m->n_k_heads * m->k_dim, v = m->n_heads * m->v_dim, stored_rows;
    size_t n_rows = id.role == LN_ROLE_MIXER_CONV_V ? v : k, n_cols = n_rows > 0 ? n / n_rows : 0;
    *begin = mixer_part(m, part, id.role, n_rows, &stored_rows).row_begin * n_cols;
    return n == n_rows * n_cols && tensor->n_elems == stored_rows * n_cols;
}

/* Whether the name of a binding stands for one matrix out of many in a packed tensor. */
static bool is_packed(const ln_binding *binding, bool is_hf, const ln_source_shape *shape) {
    bool is_bare;
    const char *name = ln_binding_pattern(binding, is_hf ? LN_FORMAT_HF : LN_FORMAT_GGUF, &is_bare);
    ln_part part = is_hf ? binding->hf_part : binding->gguf_part;
    return shape->n_packed > 1 && strstr(name, "%e") == NULL && part != LN_PART_VALUE_PAIRS;
}

/* Rows of a part of all rows become those of the same part of each shard. */
static ln_status take_shards(const ln_checkpoint *checkpoint, size_t rows, ln_weight_source *source,
                             ln_error *err) {
    size_t n = source->packed.n_shards;
    if (source->n_rows % n != 0 || source->row_begin % n != 0)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: tensor %s: %zu shards do not divide rows %zu to %zu",
                       ln_checkpoint_path(checkpoint), source->tensor->name, n, source->row_begin,
                       source->row_begin + source->n_rows);
    source->row_begin /= n;
    source->run_rows = source->n_rows / n;
    source->run_stride = rows / n;
    return LINNET_OK;
}

/* Whether a tensor that may lie either way fits only with its columns as rows. */
static bool lies_across(const ln_tensor *tensor, size_t rows, const ln_source_shape *shape) {
    return tensor->n_dims >= 2 && tensor->dims[tensor->n_dims - 2] != rows &&
           tensor->dims[tensor->n_dims - 1] == rows &&
           tensor->dims[tensor->n_dims - 2] == shape->n_cols;
}

/* The same of experts in FP8 below one another. */
static bool experts_lie_across(const ln_checkpoint *checkpoint, const ln_spec *spec,
                               const ln_binding *binding, const char *name, size_t rows,
                               const ln_source_shape *shape) {
    char placed[LN_TENSOR_NAME_BYTES];
    const ln_tensor *tensor = NULL;
    if (!binding->hf_either && !binding->hf_transposed)
        return false;
    for (size_t i = 0; tensor == NULL && ln_family_place(spec->family, name, i, placed); i++)
        tensor = ln_checkpoint_find(checkpoint, placed);
    return tensor != NULL && tensor->dtype == LN_DTYPE_F8_E4M3 && tensor->n_dims == 3 &&
           (binding->hf_transposed || lies_across(tensor, rows, shape));
}

/* A binding's tensor in one of the quantised forms of Hugging Face folders. */
static ln_status find_packed_binding(const ln_checkpoint *checkpoint, const ln_spec *spec,
                                     const ln_binding *binding, ln_tensor_id id,
                                     const ln_source_shape *shape, ln_weight_source *source,
                                     ln_error *err) {
    char name[LN_TENSOR_NAME_BYTES], placed[LN_TENSOR_NAME_BYTES];
    size_t rows, n_cols = shape->n_cols;
    bool packed = is_packed(binding, true, shape);
    size_t n_packed = packed ? shape->n_packed : 1, index = packed ? id.expert : 0;
    ln_binding_name(binding, LN_FORMAT_HF, id, name);
    if (!binding->hf_bare)
        name[strlen(name) - strlen(".weight")] = '\0';
    if (binding->hf_part == LN_PART_KV_BY_HEAD) {
        *source = latent_part(spec, id, shape->n_rows, &rows);
        n_cols = spec->layers[id.layer].attention.latent.n_latent;
        n_packed = 1;
    } else {
        *source = part_of(spec, binding->hf_part, id, shape->n_rows, &rows);
        if (experts_lie_across(checkpoint, spec, binding, name, rows, shape)) {
            source->transpose = true;
            source->col_begin = index * shape->n_cols;
            n_cols = rows;
            rows = shape->n_cols;
        } else {
            source->row_begin += index * rows;
        }
    }
    bool by_shard = binding->hf_part == LN_PART_QKV_BY_SHARD;
    size_t n_kv_heads = by_shard ? spec->layers[id.layer].attention.n_kv_heads : 0;
    for (size_t i = 0;
         source->packed.kind == LN_PACKED_NONE && ln_family_place(spec->family, name, i, placed);
         i++)
        LN_TRY(by_shard ? ln_packed_find_shards(checkpoint, placed, n_kv_heads, rows, n_cols,
                                                &source->packed, err)
                        : ln_packed_find(checkpoint, placed, n_packed, n_packed * rows, n_cols,
                                         &source->packed, err));
    source->tensor = source->packed.values;
    if (by_shard && source->packed.n_shards > 0)
        LN_TRY(take_shards(checkpoint, rows, source, err));
    if (source->packed.kind == LN_PACKED_NONE || !source->transpose)
        return LINNET_OK;
    source->transpose = false;
    return ln_packed_turn(checkpoint, &source->packed, source->col_begin, shape->n_cols, err);
}

/* The role's matrix in one of the quantised forms; kind NONE when none of its names is stored so.
 */
static ln_status find_packed(const ln_checkpoint *checkpoint, const ln_spec *spec, ln_tensor_id id,
                             const ln_source_shape *shape, ln_weight_source *source,
                             ln_error *err) {
    const ln_binding *binding;
    *source = (ln_weight_source){0};
    for (size_t i = 0; source->packed.kind == LN_PACKED_NONE; i++) {
        binding = ln_family_binding(spec->family, LN_FORMAT_HF, id, i);
        if (binding == NULL)
            return LINNET_OK;
        LN_TRY(find_packed_binding(checkpoint, spec, binding, id, shape, source, err));
    }
    return LINNET_OK;
}

/* How many matrices a tensor of n_packed has: some of experts that give what they read follow where
 * transformers has them in memory. */
static size_t stored_in(const ln_tensor *tensor, const ln_spec *spec, ln_tensor_id id,
                        size_t n_packed) {
    size_t n_zero = ln_role_is_of_expert(id.role) ? ln_layer_of(spec, id)->ffn.moe.n_zero : 0;
    return n_packed > 1 && tensor->n_dims == 3 && tensor->dims[0] == n_packed + n_zero
               ? n_packed + n_zero
               : n_packed;
}

ln_status ln_source_matrix(const ln_checkpoint *checkpoint, const ln_spec *spec, ln_tensor_id id,
                           const ln_source_shape *shape, ln_weight_request *request,
                           ln_error *err) {
    bool is_hf = ln_checkpoint_get_format(checkpoint) == LN_FORMAT_HF;
    ln_weight_source source;
    if (is_hf && !id.is_bias) {
        LN_TRY(find_packed(checkpoint, spec, id, shape, &source, err));
        *request =
            (ln_weight_request){.n_sources = 1, .sources = {source}, .n_cols = shape->n_cols};
        if (source.packed.kind != LN_PACKED_NONE)
            return LINNET_OK;
    }
    const ln_binding *binding;
    const ln_tensor *tensor = ln_family_find(spec->family, checkpoint, id, &binding);
    if (tensor == NULL)
        return missing(checkpoint, spec, id, err);
    ln_part part = is_hf ? binding->hf_part : binding->gguf_part;
    size_t rows;
    if (part == LN_PART_KV_BY_HEAD) {
        source = latent_part(spec, id, shape->n_rows, &rows);
        size_t n_latent = spec->layers[id.layer].attention.latent.n_latent;
        LN_TRY(check_stored(checkpoint, tensor, 1, rows, n_latent, err));
    } else {
        bool packed = is_packed(binding, is_hf, shape);
        size_t n_packed = stored_in(tensor, spec, id, packed ? shape->n_packed : 1);
        size_t index = packed ? id.expert : 0;
        source = part_of(spec, part, id, shape->n_rows, &rows);
        source.transpose = is_hf && (binding->hf_transposed ||
                                     (binding->hf_either && lies_across(tensor, rows, shape)));
        if (source.transpose) {
            LN_TRY(check_stored(checkpoint, tensor, n_packed, shape->n_cols, rows, err));
            source.col_begin = index * shape->n_cols;
        } else {
            LN_TRY(check_stored(checkpoint, tensor, n_packed, rows, shape->n_cols, err));
            source.row_begin += index * rows;
        }
    }
    source.tensor = tensor;
    *request = (ln_weight_request){.n_sources = 1, .sources = {source}, .n_cols = shape->n_cols};
    return LINNET_OK;
}

ln_status ln_source_bias(const ln_checkpoint *checkpoint, const ln_spec *spec, ln_tensor_id id,
                         const ln_source_shape *shape, ln_weight_request *request, ln_error *err) {
    bool is_hf = ln_checkpoint_get_format(checkpoint) == LN_FORMAT_HF;
    const ln_binding *binding;
    *request = (ln_weight_request){0};
    id.is_bias = true;
    const ln_tensor *tensor = ln_family_find(spec->family, checkpoint, id, &binding);
    if (tensor == NULL)
        return LINNET_OK;
    if (is_hf && binding->hf_part == LN_PART_QKV_BY_SHARD)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: tensor %s: which rows of a bias are q, k and v is not known",
                       ln_checkpoint_path(checkpoint), tensor->name);
    size_t rows;
    ln_weight_source source =
        part_of(spec, is_hf ? binding->hf_part : binding->gguf_part, id, shape->n_rows, &rows);
    bool is_one = tensor->n_dims == 1 && tensor->n_elems == rows; /* all have the same */
    if (is_packed(binding, is_hf, shape) && !is_one) {
        LN_TRY(check_stored(checkpoint, tensor, shape->n_packed, rows, 0, err));
        source.row_begin += id.expert * rows;
    } else {
        LN_TRY(ln_source_check_vector(checkpoint, tensor, rows, err));
    }
    source.tensor = tensor;
    *request =
        (ln_weight_request){.n_sources = 1, .sources = {source}, .n_cols = 1, .as_f32 = true};
    return LINNET_OK;
}

ln_status ln_source_vector(const ln_checkpoint *checkpoint, const ln_spec *spec, ln_tensor_id id,
                           size_t n, ln_weight_request *request, ln_error *err) {
    ln_checkpoint_format format = ln_checkpoint_get_format(checkpoint);
    const ln_binding *binding;
    const ln_tensor *tensor = ln_family_find(spec->family, checkpoint, id, &binding);
    *request = (ln_weight_request){0};
    if (tensor == NULL) {
        binding = ln_family_binding(spec->family, format, id, 0);
        bool optional = binding != NULL && binding->optional;
        return optional || id.is_bias ? LINNET_OK : missing(checkpoint, spec, id, err);
    }
    bool is_first_row = spec->family->experts_of_pictures && id.role == LN_ROLE_ROUTER_BIAS &&
                        tensor->n_dims == 2 && tensor->dims[0] == 2 && tensor->dims[1] == n;
    if (!is_first_row)
        LN_TRY(ln_source_check_vector(checkpoint, tensor, n, err));
    ln_weight_source source = {.tensor = tensor, .n_rows = n, .run_rows = n};
    *request =
        (ln_weight_request){.n_sources = 1, .sources = {source}, .n_cols = 1, .as_f32 = true};
    return LINNET_OK;
}
