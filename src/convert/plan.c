#include "convert/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/rope.h"
#include "model/xielu.h"

static ln_status out_of_memory(const ln_convert_plan *plan) {
    return ln_fail(plan->err, LINNET_ERR_NOMEM, "out of memory converting %s",
                   ln_checkpoint_path(plan->checkpoint));
}

void ln_convert_plan_free(ln_convert_plan *plan) {
    for (size_t i = 0; i < plan->n_parts; i++) {
        free((void *)plan->parts[i].values);
        free((void *)plan->parts[i].columns);
    }
    free(plan->parts);
    free(plan->tensors);
    ln_unread_free(&plan->unread);
    plan->parts = NULL;
    plan->tensors = NULL;
}

/* ---- tensors and their parts ------------------------------------------------------------ */

static void *grow(void *items, size_t count, size_t *capacity, size_t item_bytes) {
    if (count < *capacity)
        return items;
    size_t larger = *capacity == 0 ? 256 : 2 * *capacity;
    void *moved = realloc(items, larger * item_bytes);
    if (moved != NULL)
        *capacity = larger;
    return moved;
}

/* The tensor of this name, made when it is new; fused ones were made a few steps ago. */
static ln_status tensor_of(ln_convert_plan *plan, const char *name, size_t *index) {
    for (size_t i = plan->n_tensors; i-- > 0 && i + 8 > plan->n_tensors;)
        if (strcmp(plan->tensors[i].name, name) == 0) {
            *index = i;
            return LINNET_OK;
        }
    void *moved =
        grow(plan->tensors, plan->n_tensors, &plan->tensor_capacity, sizeof *plan->tensors);
    if (moved == NULL)
        return out_of_memory(plan);
    plan->tensors = moved;
    *index = plan->n_tensors++;
    plan->tensors[*index] = (ln_convert_tensor){0};
    snprintf(plan->tensors[*index].name, sizeof plan->tensors->name, "%s", name);
    return LINNET_OK;
}

static ln_status add_part(ln_convert_plan *plan, const ln_convert_part *part) {
    void *moved = grow(plan->parts, plan->n_parts, &plan->part_capacity, sizeof *plan->parts);
    if (moved == NULL)
        return out_of_memory(plan);
    plan->parts = moved;
    plan->parts[plan->n_parts++] = *part;
    return LINNET_OK;
}

/* Appends units to a tensor, one of n_packed alike. */
static ln_status append(ln_convert_plan *plan, const char *name, size_t n_packed,
                        ln_convert_part *part, bool is_vector) {
    LN_TRY(tensor_of(plan, name, &part->tensor));
    ln_convert_tensor *tensor = &plan->tensors[part->tensor];
    part->begin = tensor->n_units;
    tensor->n_units += part->n_units;
    tensor->is_vector = is_vector;
    tensor->whole |= part->scale != 1;
    tensor->packed = part->source.packed.kind;
    int n = 0;
    if (n_packed > 1)
        tensor->dims[n++] = n_packed;
    tensor->dims[n++] = n_packed > 1 ? part->n_units : tensor->n_units;
    if (!is_vector)
        tensor->dims[n++] = part->n_cols;
    tensor->n_dims = n;
    return add_part(plan, part);
}

/* The new file's name of a role; false when it has none. */
static bool name_of(const ln_convert_plan *plan, ln_tensor_id id, char *name) {
    const ln_binding *binding = NULL;
    const ln_family *family = plan->spec->family;
    if (ln_family_find(family, plan->checkpoint, id, &binding) == NULL)
        binding = ln_family_binding(family, LN_FORMAT_HF, id, 0);
    if (binding == NULL || binding->gguf == NULL || plan->target != family)
        binding = ln_family_binding(plan->target, LN_FORMAT_GGUF, id, 0);
    if (binding == NULL)
        return false;
    ln_binding_name(binding, LN_FORMAT_GGUF, id, name);
    return true;
}

static ln_status unnamed(const ln_convert_plan *plan, ln_tensor_id id) {
    char name[LN_TENSOR_NAME_BYTES] = "(unknown)";
    const ln_binding *binding = ln_family_binding(plan->spec->family, LN_FORMAT_HF, id, 0);
    if (binding != NULL)
        ln_binding_name(binding, LN_FORMAT_HF, id, name);
    return ln_fail(plan->err, LINNET_ERR_UNSUPPORTED, "%s: GGUF's \"%s\" has no name for tensor %s",
                   ln_checkpoint_path(plan->checkpoint), plan->architecture, name);
}

/* q and k rotate halves in folders, and neighbours in the files of some architectures. */
static void set_rotation(const ln_convert_plan *plan, ln_role role, ln_convert_part *part) {
    const ln_spec *spec = plan->spec;
    if ((role != LN_ROLE_Q && role != LN_ROLE_K) || spec->n_ropes == 0 ||
        spec->ropes[0].style == plan->target->gguf_rope)
        return;
    part->head_dim = spec->layers[0].attention.k_dim;
    part->rope_dims = spec->ropes[0].n_dims;
}

static ln_status add_request(ln_convert_plan *plan, ln_tensor_id id, size_t n_packed,
                             const ln_weight_request *request, ln_convert_part part,
                             bool is_vector) {
    char name[LN_TENSOR_NAME_BYTES];
    if (request->n_sources == 0)
        return LINNET_OK;
    if (!name_of(plan, id, name))
        return unnamed(plan, id);
    ln_unread_mark_request(&plan->unread, request);
    part.source = request->sources[0];
    part.n_units = part.source.n_rows;
    part.n_cols = request->n_cols;
    set_rotation(plan, id.role, &part);
    return append(plan, name, n_packed, &part, is_vector);
}

/* ---- roles ------------------------------------------------------------------------------ */

static const ln_convert_part as_is = {.scale = 1};

/* Where the columns of a quantised matrix have an order of their own, the part keeps it. */
static ln_status find_order(const ln_convert_plan *plan, ln_weight_request *request,
                            ln_convert_part *part) {
    ln_packed *packed = &request->sources[0].packed;
    if (packed->order == NULL)
        return LINNET_OK;
    int32_t *columns = calloc(packed->n_cols, sizeof *columns);
    if (columns == NULL)
        return out_of_memory(plan);
    ln_packed_columns(packed, columns);
    part->columns = columns;
    packed->columns = columns;
    return LINNET_OK;
}

static ln_status matrix_of(ln_convert_plan *plan, ln_tensor_id id, const ln_source_shape *shape) {
    ln_weight_request request;
    ln_convert_part part = as_is;
    LN_TRY(ln_source_matrix(plan->checkpoint, plan->spec, id, shape, &request, plan->err));
    LN_TRY(find_order(plan, &request, &part));
    ln_status status = add_request(plan, id, shape->n_packed, &request, part, false);
    if (status != LINNET_OK)
        free((void *)part.columns);
    LN_TRY(status); /* from here on the plan owns them */
    LN_TRY(ln_source_bias(plan->checkpoint, plan->spec, id, shape, &request, plan->err));
    id.is_bias = true;
    return add_request(plan, id, shape->n_packed, &request, as_is, true);
}

static ln_status matrix(ln_convert_plan *plan, ln_tensor_id id, size_t n_rows, size_t n_cols) {
    ln_source_shape shape = {1, n_rows, n_cols};
    return matrix_of(plan, id, &shape);
}

static ln_status matrices(ln_convert_plan *plan, ln_tensor_id id, size_t n_packed, size_t n_rows,
                          size_t n_cols) {
    ln_source_shape shape = {n_packed, n_rows, n_cols};
    for (id.expert = 0; id.expert < n_packed; id.expert++)
        LN_TRY(matrix_of(plan, id, &shape));
    return LINNET_OK;
}

static ln_status vector(ln_convert_plan *plan, ln_tensor_id id, size_t n, float offset) {
    ln_weight_request request;
    ln_convert_part part = {.scale = 1, .offset = offset};
    LN_TRY(ln_source_vector(plan->checkpoint, plan->spec, id, n, &request, plan->err));
    return add_request(plan, id, 1, &request, part, true);
}

/* A norm that the family names; folders may hold its distance from one. */
static ln_status norm(ln_convert_plan *plan, ln_tensor_id id, size_t n) {
    bool moved = plan->spec->norm_kind == LN_NORM_RMS_PLUS_ONE &&
                 plan->target->gguf_norm != LN_NORM_RMS_PLUS_ONE;
    if (ln_family_binding(plan->spec->family, LN_FORMAT_HF, id, 0) == NULL)
        return LINNET_OK;
    LN_TRY(vector(plan, id, n, moved ? 1 : 0));
    id.is_bias = true;
    return vector(plan, id, n, 0);
}

/* A norm of heads with weights [n_heads][dim], in one tensor or in one for each head. */
static ln_status norm_by_head(ln_convert_plan *plan, ln_tensor_id id, size_t n_heads, size_t dim) {
    bool numbered = ln_family_is_numbered(plan->spec->family, plan->checkpoint, id);
    ln_source_shape shape = {1, n_heads, dim};
    if (numbered)
        shape = (ln_source_shape){n_heads, 1, dim};
    for (id.expert = 0; id.expert < n_heads; id.expert++) {
        ln_weight_request request;
        LN_TRY(ln_source_matrix(plan->checkpoint, plan->spec, id, &shape, &request, plan->err));
        request.sources[0].row_begin = numbered ? 0 : id.expert * dim;
        request.sources[0].n_rows = request.sources[0].run_rows = dim;
        request.n_cols = 1;
        LN_TRY(add_request(plan, id, n_heads, &request, as_is, true));
    }
    return LINNET_OK;
}

static ln_tensor_id in_layer(ln_tensor_id id, ln_role role) {
    id.role = role;
    return id;
}

static ln_status latent(ln_convert_plan *plan, ln_tensor_id id, const ln_attention_spec *a) {
    const ln_latent_spec *l = &a->latent;
    size_t dim = plan->spec->dim, q_rows = a->n_heads * (l->n_plain + l->n_rope);
    if (l->q_latent > 0) {
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_Q_A), l->q_latent, dim));
        LN_TRY(norm(plan, in_layer(id, LN_ROLE_Q_A_NORM), l->q_latent));
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_Q_B), q_rows, l->q_latent));
    } else {
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_Q), q_rows, dim));
    }
    const ln_indexer_spec *index = &a->indexer;
    if (index->top_k > 0 && !index->shared) {
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_INDEX_Q), index->n_heads * index->head_dim,
                      l->q_latent));
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_INDEX_K), index->head_dim, dim));
        LN_TRY(norm(plan, in_layer(id, LN_ROLE_INDEX_K_NORM), index->head_dim));
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_INDEX_WEIGHTS), index->n_heads, dim));
    }
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_KV_A), l->n_latent + l->n_rope, dim));
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_KV_A_NORM), l->n_latent));
    LN_TRY(matrices(plan, in_layer(id, LN_ROLE_K_B), a->n_heads, l->n_latent, l->n_plain));
    LN_TRY(matrices(plan, in_layer(id, LN_ROLE_V_B), a->n_heads, l->v_dim, l->n_latent));
    return matrix(plan, in_layer(id, LN_ROLE_O), dim, a->n_heads * l->v_dim);
}

static bool has(const ln_convert_plan *plan, ln_tensor_id id) {
    return ln_family_has(plan->spec->family, plan->checkpoint, id);
}

/* Keys and values that a folder holds go along, although nothing reads them. */
static ln_status borrowing_attention(ln_convert_plan *plan, ln_tensor_id id,
                                     const ln_attention_spec *a) {
    size_t dim = plan->spec->dim, kv_rows = a->n_kv_heads * a->k_dim;
    ln_tensor_id k = in_layer(id, LN_ROLE_K), v = in_layer(id, LN_ROLE_V);
    ln_tensor_id k_norm = in_layer(id, LN_ROLE_K_NORM);
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_Q_NORM), a->k_dim));
    if (has(plan, k_norm))
        LN_TRY(norm(plan, k_norm, a->k_dim));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_Q), a->n_heads * a->k_dim, dim));
    if (has(plan, k))
        LN_TRY(matrix(plan, k, kv_rows, dim));
    if (has(plan, v))
        LN_TRY(matrix(plan, v, kv_rows, dim));
    return matrix(plan, in_layer(id, LN_ROLE_O), dim, a->n_heads * a->v_dim);
}

static ln_status attention(ln_convert_plan *plan, ln_tensor_id id, const ln_attention_spec *a) {
    size_t dim = plan->spec->dim;
    size_t q_heads = a->qk_norm == LN_QK_NORM_FULL ? a->n_heads : 1;
    size_t k_heads = a->qk_norm == LN_QK_NORM_FULL ? a->n_kv_heads : 1;
    if (a->sinks)
        LN_TRY(vector(plan, in_layer(id, LN_ROLE_SINKS), a->n_heads, 0));
    if (a->latent.n_latent > 0)
        return latent(plan, id, a);
    if (a->borrows_kv)
        return borrowing_attention(plan, id, a);
    if (a->qk_norm == LN_QK_NORM_OWN) {
        LN_TRY(norm_by_head(plan, in_layer(id, LN_ROLE_Q_NORM), a->n_heads, a->k_dim));
        LN_TRY(norm_by_head(plan, in_layer(id, LN_ROLE_K_NORM), a->n_kv_heads, a->k_dim));
    } else if (a->qk_norm != LN_QK_NORM_NONE && !a->bare_qk_norm) {
        LN_TRY(norm(plan, in_layer(id, LN_ROLE_Q_NORM), q_heads * a->k_dim));
        LN_TRY(norm(plan, in_layer(id, LN_ROLE_K_NORM), k_heads * a->k_dim));
    }
    size_t n_gates = a->n_heads * (a->gate == LN_GATE_BY_ELEMENT ? a->v_dim : 1);
    if (a->gate != LN_GATE_NONE)
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_ATTENTION_GATE), n_gates, dim));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_Q), a->n_heads * a->k_dim, dim));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_K), a->n_kv_heads * a->k_dim, dim));
    if (!a->k_is_v)
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_V), a->n_kv_heads * a->v_dim, dim));
    return matrix(plan, in_layer(id, LN_ROLE_O), dim, a->n_heads * a->v_dim);
}

static ln_status cross_attention(ln_convert_plan *plan, ln_tensor_id id,
                                 const ln_attention_spec *a) {
    size_t dim = plan->spec->dim, q_dim = a->n_heads * a->k_dim;
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_CROSS_NORM), dim));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_CROSS_Q), q_dim, dim));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_CROSS_K), q_dim, dim));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_CROSS_V), q_dim, dim));
    return matrix(plan, in_layer(id, LN_ROLE_CROSS_O), dim, q_dim);
}

static ln_status experts(ln_convert_plan *plan, ln_tensor_id id, const ln_moe_spec *moe) {
    size_t dim = plan->spec->dim;
    ln_tensor_id bias = in_layer(id, LN_ROLE_ROUTER_BIAS);
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_ROUTER), moe->n_experts, dim));
    if (ln_family_binding(plan->spec->family, LN_FORMAT_HF, bias, 0) != NULL)
        LN_TRY(vector(plan, bias, moe->n_experts, 0));
    LN_TRY(matrices(plan, in_layer(id, LN_ROLE_EXPERT_GATE), moe->n_experts, moe->n_hidden, dim));
    LN_TRY(matrices(plan, in_layer(id, LN_ROLE_EXPERT_UP), moe->n_experts, moe->n_hidden, dim));
    LN_TRY(matrices(plan, in_layer(id, LN_ROLE_EXPERT_DOWN), moe->n_experts, dim, moe->n_hidden));
    if (moe->shared_hidden == 0)
        return LINNET_OK;
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_SHARED_GATE), moe->shared_hidden, dim));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_SHARED_UP), moe->shared_hidden, dim));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_SHARED_DOWN), dim, moe->shared_hidden));
    if (!moe->shared_gate)
        return LINNET_OK;
    return vector(plan, in_layer(id, LN_ROLE_SHARED_ROUTER), dim, 0);
}

static ln_status layer_streams(ln_convert_plan *plan, ln_tensor_id id) {
    const ln_spec *spec = plan->spec;
    size_t dim = spec->dim, n = spec->n_streams + 1, rank = spec->laurel_rank;
    if (spec->n_streams == 0)
        return LINNET_OK;
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_ALTUP_NORM), dim));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_ALTUP_ROUTER), n, dim));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_ALTUP_PREDICT), n * n, n));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_ALTUP_CORRECT), n, n));
    LN_TRY(vector(plan, in_layer(id, LN_ROLE_ALTUP_SCALE), dim, 0));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_LAUREL_LEFT), rank, dim));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_LAUREL_RIGHT), dim, rank));
    return norm(plan, in_layer(id, LN_ROLE_LAUREL_NORM), dim);
}

/* What Gemma's layers have beside attention and feed-forward. */
static ln_status layer_lookup(ln_convert_plan *plan, ln_tensor_id id, const ln_layer_spec *spec) {
    size_t dim = plan->spec->dim, lookup_dim = plan->spec->lookup_dim;
    const ln_moe_spec *moe = &spec->ffn.moe;
    if (spec->scaled)
        LN_TRY(vector(plan, in_layer(id, LN_ROLE_LAYER_SCALE), 1, 0));
    if (lookup_dim > 0) {
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_LOOKUP_GATE), lookup_dim, dim));
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_LOOKUP_OUT), dim, lookup_dim));
        LN_TRY(norm(plan, in_layer(id, LN_ROLE_LOOKUP_POST_NORM), dim));
    }
    if (moe->n_experts == 0 || !moe->beside)
        return LINNET_OK;
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_DENSE_POST_NORM), dim));
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_EXPERTS_NORM), dim));
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_EXPERTS_POST_NORM), dim));
    LN_TRY(vector(plan, in_layer(id, LN_ROLE_ROUTER_NORM), dim, 0));
    return vector(plan, in_layer(id, LN_ROLE_EXPERT_SCALE), moe->n_experts, 0);
}

static ln_status layer(ln_convert_plan *plan, const ln_layer_spec *spec, ln_tensor_id id) {
    size_t dim = plan->spec->dim, n_hidden = spec->ffn.n_hidden;
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_ATTENTION_NORM), dim));
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_ATTENTION_POST_NORM), dim));
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_FFN_NORM), dim));
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_FFN_POST_NORM), dim));
    LN_TRY(attention(plan, id, &spec->attention));
    if (spec->has_cross)
        LN_TRY(cross_attention(plan, id, &spec->attention));
    LN_TRY(layer_lookup(plan, id, spec));
    LN_TRY(layer_streams(plan, id));
    if (spec->ffn.moe.n_experts > 0)
        LN_TRY(experts(plan, id, &spec->ffn.moe));
    if (spec->ffn.moe.n_experts > 0 && !spec->ffn.moe.beside)
        return LINNET_OK;
    ln_xielu xielu; /* goes with the metadata */
    if (spec->ffn.xielu)
        LN_TRY(ln_xielu_read(plan->checkpoint, plan->spec, id.layer, &plan->unread, false, &xielu,
                             plan->err));
    if (spec->ffn.gated)
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_GATE), n_hidden, dim));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_UP), n_hidden, dim));
    return matrix(plan, in_layer(id, LN_ROLE_DOWN), dim, n_hidden);
}

/* ---- the whole model -------------------------------------------------------------------- */

static ln_status unit_output(ln_convert_plan *plan, ln_tensor_id id, const ln_source_shape *shape) {
    ln_weight_request request;
    LN_TRY(ln_source_matrix(plan->checkpoint, plan->spec, id, shape, &request, plan->err));
    ln_weight_source *source = &request.sources[0];
    if (source->packed.kind == LN_PACKED_NONE)
        source->packed = ln_packed_unit_rows(source->tensor, shape->n_rows, shape->n_cols);
    return add_request(plan, id, 1, &request, as_is, false);
}

/* The output. Where an architecture scales the logits because it is tied, a copy of the embedding,
 * or of an output equal to it, with the scale in it: not every reader would multiply by it. */
static ln_status output(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    ln_tensor_id id = {.role = LN_ROLE_OUTPUT};
    ln_source_shape shape = {1, spec->n_vocab, spec->dim};
    if (!spec->tied && spec->unit_output)
        return unit_output(plan, id, &shape);
    if (!spec->tied && (!plan->target->scale_tied_logits || spec->logit_scale == 1.0f))
        return matrix_of(plan, id, &shape);
    const ln_binding *binding;
    ln_tensor_id bias = {.role = LN_ROLE_OUTPUT, .is_bias = true};
    if (ln_family_find(spec->family, plan->checkpoint, bias, &binding) != NULL)
        return ln_fail(plan->err, LINNET_ERR_UNSUPPORTED,
                       "%s: GGUF's \"%s\" has no form for a bias of a tied output",
                       ln_checkpoint_path(plan->checkpoint), plan->architecture);
    if (!plan->target->scale_tied_logits)
        return LINNET_OK;
    ln_tensor_id source = {.role = spec->tied ? LN_ROLE_EMBEDDING : LN_ROLE_OUTPUT};
    ln_weight_request request;
    ln_convert_part part = {.scale = spec->logit_scale};
    LN_TRY(ln_source_matrix(plan->checkpoint, spec, source, &shape, &request, plan->err));
    return add_request(plan, id, 1, &request, part, false);
}

/* Readers want a row for each token: those past the table have its first. */
static ln_status fill_lookup(ln_convert_plan *plan, ln_tensor_id id, size_t width) {
    ln_source_shape shape = {1, plan->spec->n_lookup, width};
    for (size_t i = plan->spec->n_lookup; i < plan->spec->n_vocab; i++) {
        ln_weight_request request;
        LN_TRY(ln_source_matrix(plan->checkpoint, plan->spec, id, &shape, &request, plan->err));
        request.sources[0].n_rows = request.sources[0].run_rows = 1;
        LN_TRY(add_request(plan, id, 1, &request, as_is, false));
    }
    return LINNET_OK;
}

/* The matrices between streams. */
static ln_status streams(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    ln_tensor_id begin = {.role = LN_ROLE_ALTUP_BEGIN}, end = {.role = LN_ROLE_ALTUP_END};
    if (spec->n_streams == 0)
        return LINNET_OK;
    LN_TRY(matrices(plan, begin, spec->n_streams, spec->dim, spec->dim));
    return matrices(plan, end, spec->n_streams, spec->dim, spec->dim);
}

/* Tables of the layers' embeddings. */
static ln_status lookup(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    ln_tensor_id id = {.role = LN_ROLE_LOOKUP_EMBEDDING};
    size_t width = spec->n_layers * spec->lookup_dim;
    if (width == 0)
        return LINNET_OK;
    LN_TRY(matrix(plan, id, spec->n_lookup, width));
    LN_TRY(fill_lookup(plan, id, width));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_LOOKUP_PROJECTION), width, spec->dim));
    return norm(plan, in_layer(id, LN_ROLE_LOOKUP_NORM), spec->lookup_dim);
}

/* Factors that divide the frequencies, as a vector of their own. */
static ln_status add_factors(ln_convert_plan *plan, const char *name, const float *factors,
                             size_t n) {
    ln_convert_part part = {.n_units = n, .n_cols = 1, .scale = 1};
    float *copy = malloc(n * sizeof *copy);
    if (copy == NULL)
        return out_of_memory(plan);
    memcpy(copy, factors, n * sizeof *copy);
    part.values = copy;
    ln_status status = append(plan, name, 1, &part, true);
    if (status != LINNET_OK)
        free(copy);
    return status; /* the plan owns the copy now: NOLINT(clang-analyzer-unix.Malloc) */
}

/* Pairs that do not turn are told by factors that leave nothing of their frequencies. */
static ln_status turning_factors(ln_convert_plan *plan, const ln_rope_spec *rope) {
    size_t n = rope->n_dims / 2;
    bool is_proportional = rope->scaling == LN_ROPE_PROPORTIONAL;
    float *factors = calloc(n, sizeof *factors);
    if (factors == NULL)
        return out_of_memory(plan);
    for (size_t i = 0; i < n; i++)
        factors[i] = !is_proportional       ? 1.0f
                     : i >= rope->n_turning ? 1e30f
                     : rope->factor > 0     ? (float)rope->factor
                                            : 1.0f;
    ln_status status = add_factors(plan, "rope_freqs.weight", factors, n);
    free(factors);
    return status;
}

static ln_status rope_factors(ln_convert_plan *plan) {
    const ln_rope_spec *rope = &plan->spec->ropes[0];
    size_t n = rope->n_dims / 2;
    if (plan->spec->n_ropes == 0)
        return LINNET_OK;
    if (rope->scaling == LN_ROPE_LONGROPE) {
        LN_TRY(add_factors(plan, "rope_factors_long.weight", rope->long_factors, n));
        return add_factors(plan, "rope_factors_short.weight", rope->short_factors, n);
    }
    if (plan->target->gguf_turning)
        return turning_factors(plan, rope);
    if (rope->scaling != LN_ROPE_LLAMA3)
        return LINNET_OK;
    ln_rope_spec plain = *rope;
    plain.scaling = LN_ROPE_PLAIN;
    float *factors = calloc(2 * n, sizeof *factors);
    if (factors == NULL)
        return out_of_memory(plan);
    size_t n_stored = plan->target->gguf_half_rope ? 2 * n : n; /* the rest is not read */
    ln_rope_fill(&plain, plan->spec->ctx_tokens, NULL, factors);
    ln_rope_fill(rope, plan->spec->ctx_tokens, NULL, factors + n);
    for (size_t i = 0; i < n; i++)
        factors[i] /= factors[n + i];
    for (size_t i = n; i < n_stored; i++)
        factors[i] = 1.0f;
    ln_status status = add_factors(plan, "rope_freqs.weight", factors, n_stored);
    free(factors);
    return status;
}

static ln_status stack(ln_convert_plan *plan, const ln_layer_spec *layers, size_t n_layers,
                       bool encoder) {
    const ln_spec *spec = plan->spec;
    ln_tensor_id id = {.encoder = encoder};
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_EMBEDDING_NORM), spec->dim));
    LN_TRY(norm(plan, in_layer(id, LN_ROLE_OUTPUT_NORM), spec->dim));
    if (spec->positions == LN_POSITIONS_RELATIVE)
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_RELATIVE_BIAS), spec->n_relative_buckets,
                      layers[0].attention.n_heads));
    for (id.layer = 0; id.layer < n_layers; id.layer++)
        LN_TRY(layer(plan, &layers[id.layer], id));
    return LINNET_OK;
}

bool ln_convert_has_head(const ln_convert_plan *plan) {
    ln_tensor_id id = {.role = LN_ROLE_HEAD_INPUT};
    return plan->spec->mtp != NULL &&
           ln_family_binding(plan->target, LN_FORMAT_GGUF, id, 0) != NULL;
}

/* The head that drafts, a layer behind the last one. */
static ln_status head(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    static const ln_role norms[] = {LN_ROLE_HEAD_TOKEN_NORM, LN_ROLE_HEAD_HIDDEN_NORM,
                                    LN_ROLE_HEAD_NORM};
    static const ln_role tables[] = {LN_ROLE_HEAD_OUTPUT, LN_ROLE_HEAD_EMBEDDING};
    ln_tensor_id id = {.layer = spec->n_layers, .stem = spec->family->head_stem};
    if (!ln_convert_has_head(plan))
        return LINNET_OK;
    LN_TRY(layer(plan, spec->mtp, id));
    LN_TRY(matrix(plan, in_layer(id, LN_ROLE_HEAD_INPUT), spec->dim, 2 * spec->dim));
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        LN_TRY(norm(plan, in_layer(id, norms[i]), spec->dim));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (has(plan, in_layer(id, tables[i])))
            LN_TRY(matrix(plan, in_layer(id, tables[i]), spec->n_vocab, spec->dim));
    return LINNET_OK;
}

static int compare_parts(const void *a, const void *b) {
    const ln_convert_part *left = a, *right = b;
    if (left->tensor != right->tensor)
        return left->tensor < right->tensor ? -1 : 1;
    return left->begin < right->begin ? -1 : left->begin > right->begin;
}

static void sort_parts(ln_convert_plan *plan) {
    qsort(plan->parts, plan->n_parts, sizeof *plan->parts, compare_parts);
    for (size_t i = plan->n_parts; i-- > 0;) {
        ln_convert_tensor *tensor = &plan->tensors[plan->parts[i].tensor];
        tensor->first_part = i;
        tensor->n_parts++;
        tensor->plan = plan;
    }
}

ln_status ln_convert_plan_tensors(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    ln_tensor_id id = {.role = LN_ROLE_EMBEDDING};
    LN_TRY(ln_unread_init(&plan->unread, plan->checkpoint, plan->err));
    LN_TRY(matrix(plan, id, spec->n_vocab, spec->dim));
    if (spec->positions == LN_POSITIONS_LEARNED)
        LN_TRY(matrix(plan, in_layer(id, LN_ROLE_LEARNED_POSITIONS), spec->n_learned, spec->dim));
    LN_TRY(lookup(plan));
    LN_TRY(streams(plan));
    LN_TRY(output(plan));
    LN_TRY(rope_factors(plan));
    if (spec->n_encoder_layers > 0)
        LN_TRY(stack(plan, spec->encoder_layers, spec->n_encoder_layers, true));
    LN_TRY(stack(plan, spec->layers, spec->n_layers, false));
    LN_TRY(head(plan));
    sort_parts(plan);
    return ln_unread_check(&plan->unread, spec, plan->err);
}
