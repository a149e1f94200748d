#include "convert/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ln_status ln_convert_no_memory(const ln_convert_plan *plan) {
    return ln_fail(plan->err, LINNET_ERR_NOMEM, "out of memory converting %s",
                   ln_checkpoint_path(plan->checkpoint));
}

void ln_convert_plan_free(ln_convert_plan *plan) {
    for (size_t i = 0; i < plan->n_parts; i++) {
        free((void *)plan->parts[i].values);
        free((void *)plan->parts[i].columns);
        free((void *)plan->parts[i].new_columns);
    }
    for (size_t i = 0; i < plan->n_tensors; i++)
        free(plan->tensors[i].numbers);
    free(plan->parts);
    free(plan->tensors);
    ln_unused_tensors_free(&plan->unused);
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
        return ln_convert_no_memory(plan);
    plan->tensors = moved;
    *index = plan->n_tensors++;
    plan->tensors[*index] = (ln_convert_tensor){0};
    snprintf(plan->tensors[*index].name, sizeof plan->tensors->name, "%s", name);
    return LINNET_OK;
}

static ln_status add_part(ln_convert_plan *plan, const ln_convert_part *part) {
    void *moved = grow(plan->parts, plan->n_parts, &plan->part_capacity, sizeof *plan->parts);
    if (moved == NULL)
        return ln_convert_no_memory(plan);
    plan->parts = moved;
    plan->parts[plan->n_parts++] = *part;
    return LINNET_OK;
}

ln_status ln_convert_append(ln_convert_plan *plan, const char *name, size_t n_packed,
                            ln_convert_part *part, bool is_vector) {
    LN_TRY(tensor_of(plan, name, &part->tensor));
    ln_convert_tensor *tensor = &plan->tensors[part->tensor];
    part->begin = tensor->n_units;
    tensor->n_units += part->n_units;
    tensor->is_vector = is_vector;
    tensor->whole |= part->scale != 1;
    tensor->packed = part->source.packed.kind;
    plan->last = part->tensor;
    int n = 0;
    if (n_packed > 1)
        tensor->dims[n++] = n_packed;
    tensor->dims[n++] = n_packed > 1 ? part->n_units : tensor->n_units;
    if (!is_vector)
        tensor->dims[n++] = part->n_cols;
    tensor->n_dims = n;
    return add_part(plan, part);
}

ln_status ln_convert_add_numbers(ln_convert_plan *plan, const char *name, int n_dims,
                                 const uint64_t *dims, int32_t *numbers) {
    LN_TRY(tensor_of(plan, name, &plan->last));
    plan->tensors[plan->last].numbers = numbers;
    ln_convert_reshape(plan, n_dims, dims);
    return LINNET_OK;
}

void ln_convert_reshape(ln_convert_plan *plan, int n_dims, const uint64_t *dims) {
    ln_convert_tensor *tensor = &plan->tensors[plan->last];
    tensor->n_dims = n_dims;
    memcpy(tensor->dims, dims, (size_t)n_dims * sizeof *dims);
}

/* The new file's name of a role; false when it has none. */
static bool name_of(const ln_convert_plan *plan, ln_tensor_id id, char *name) {
    const ln_binding *binding = NULL;
    const ln_family *family = plan->spec->family;
    if (ln_family_find(family, plan->checkpoint, id, &binding) == NULL)
        binding = ln_family_binding(family, LN_FORMAT_HF, id, 0);
    bool is_bare, is_named = binding != NULL && plan->target == family &&
                             ln_binding_pattern(binding, LN_FORMAT_GGUF, &is_bare) != NULL;
    if (!is_named)
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

/* Where a head of a role has what rotates; false: it has none. */
static bool find_turning(const ln_convert_plan *plan, ln_role role, const ln_attention_spec *a,
                         ln_convert_part *part) {
    const ln_latent_spec *latent = &a->latent;
    size_t plain = latent->n_plain, index_dim = a->indexer.head_dim;
    part->rope_begin = 0;
    part->rope_dims = plan->spec->ropes[0].n_dims;
    if (role == LN_ROLE_INDEX_Q || role == LN_ROLE_INDEX_K || role == LN_ROLE_INDEX_K_NORM) {
        part->head_dim = index_dim;
        part->rope_dims = latent->n_rope;
        part->rope_begin = a->indexer.turns_last ? index_dim - latent->n_rope : 0;
        return latent->n_rope > 0;
    }
    if (latent->n_latent == 0) {
        part->head_dim = a->k_dim;
        return role == LN_ROLE_Q || role == LN_ROLE_K;
    }
    part->rope_dims = latent->n_rope;
    part->rope_begin = role == LN_ROLE_KV_A          ? latent->n_latent
                       : role == LN_ROLE_K_ROPE_NORM ? 0
                                                     : plain;
    part->head_dim = part->rope_begin + latent->n_rope;
    return role == LN_ROLE_Q || role == LN_ROLE_Q_B || role == LN_ROLE_KV_A ||
           role == LN_ROLE_K_ROPE_NORM;
}

/* What rotates lies as halves in most folders, and as neighbours in the files of some
 * architectures; rows of indexers have an order of their own. */
static void set_rotation(const ln_convert_plan *plan, ln_tensor_id id, ln_convert_part *part) {
    const ln_spec *spec = plan->spec;
    const ln_layer_spec *layers = id.encoder ? spec->encoder_layers : spec->layers;
    size_t n_layers = id.encoder ? spec->n_encoder_layers : spec->n_layers;
    const ln_layer_spec *layer = id.layer < n_layers ? &layers[id.layer] : spec->mtp;
    bool is_index = id.role >= LN_ROLE_INDEX_Q && id.role <= LN_ROLE_INDEX_K_NORM;
    if (layer == NULL)
        return;
    ln_rope_style from = is_index ? spec->family->index_rope : spec->ropes[0].style;
    ln_rope_style to = is_index ? plan->target->gguf_index_rope : plan->target->gguf_rope;
    ln_convert_part turning;
    if (spec->n_ropes > 0 && from != to &&
        find_turning(plan, id.role, &layer->attention, &turning)) {
        part->head_dim = turning.head_dim;
        part->rope_begin = turning.rope_begin;
        part->rope_dims = turning.rope_dims;
        part->from_pairs = from == LN_ROPE_INTERLEAVED;
    } else if (spec->n_ropes == 0 && spec->has_mixers && to == LN_ROPE_INTERLEAVED &&
               (id.role == LN_ROLE_Q || id.role == LN_ROLE_K)) {
        /* what does not rotate lies as if it did, which changes no score */
        part->head_dim = part->rope_dims = layer->attention.k_dim;
    }
}

ln_status ln_convert_request(ln_convert_plan *plan, ln_tensor_id id, size_t n_packed,
                             const ln_weight_request *request, ln_convert_part part,
                             bool is_vector) {
    char name[LN_TENSOR_NAME_BYTES];
    if (request->n_sources == 0)
        return LINNET_OK;
    if (!name_of(plan, id, name))
        return unnamed(plan, id);
    ln_unused_tensors_mark_request(&plan->unused, request);
    part.source = request->sources[0];
    if (part.n_units == 0)
        part.n_units = part.source.n_rows;
    part.n_cols = request->n_cols;
    set_rotation(plan, id, &part);
    return ln_convert_append(plan, name, n_packed, &part, is_vector);
}

/* ---- roles ------------------------------------------------------------------------------ */

const ln_convert_part ln_convert_as_is = {.scale = 1};

bool ln_convert_has(const ln_convert_plan *plan, ln_tensor_id id) {
    return ln_family_has(plan->spec->family, plan->checkpoint, id);
}

/* Where the columns of a quantised matrix have an order of their own, the part keeps it. */
static ln_status find_order(const ln_convert_plan *plan, ln_weight_request *request,
                            ln_convert_part *part) {
    ln_packed *packed = &request->sources[0].packed;
    if (packed->order == NULL)
        return LINNET_OK;
    int32_t *columns = calloc(packed->n_cols, sizeof *columns);
    if (columns == NULL)
        return ln_convert_no_memory(plan);
    ln_packed_columns(packed, columns);
    part->columns = columns;
    packed->columns = columns;
    return LINNET_OK;
}

static void free_columns(const ln_convert_part *part) {
    free((void *)part->columns);
    free((void *)part->new_columns);
}

ln_status ln_convert_rows_of(ln_convert_plan *plan, ln_tensor_id id, const ln_source_shape *shape,
                             ln_convert_slice slice, ln_convert_part part, float bias_scale) {
    ln_weight_request request;
    ln_convert_part bias = {.scale = bias_scale};
    bias.first = part.first = slice.begin;
    bias.n_units = part.n_units = slice.n_rows;
    ln_status status =
        ln_source_matrix(plan->checkpoint, plan->spec, id, shape, &request, plan->err);
    if (status == LINNET_OK)
        status = find_order(plan, &request, &part);
    if (status == LINNET_OK)
        status = ln_convert_request(plan, id, shape->n_packed, &request, part, false);
    if (status != LINNET_OK)
        free_columns(&part);
    LN_TRY(status); /* from here on the plan owns them */
    LN_TRY(ln_source_bias(plan->checkpoint, plan->spec, id, shape, &request, plan->err));
    id.is_bias = true;
    return ln_convert_request(plan, id, shape->n_packed, &request, bias, true);
}

/* What a folder of Falcon-H1 multiplies the results of matrices with lies in the weights of files.
 * *bias: the same of the bias. */
static float folded_scale(const ln_convert_plan *plan, ln_tensor_id id, float *bias) {
    const ln_spec *spec = plan->spec;
    *bias = 1;
    if (!plan->target->gguf_folds_scales)
        return 1;
    if (id.role == LN_ROLE_EMBEDDING)
        return spec->embedding_scale;
    if (id.role == LN_ROLE_OUTPUT)
        return spec->logit_scale;
    const ln_layer_spec *layer = &spec->layers[id.layer];
    const ln_attention_spec *a = &layer->attention;
    switch (id.role) {
    case LN_ROLE_Q:
    case LN_ROLE_V: return a->in_scale;
    case LN_ROLE_K:
        *bias = (float)((double)a->scale / ln_convert_default_scale(plan));
        return a->in_scale * *bias;
    case LN_ROLE_O: return *bias = a->v_scale;
    case LN_ROLE_GATE: return *bias = layer->ffn.gate_scale;
    case LN_ROLE_DOWN: return *bias = layer->ffn.down_scale;
    default: return 1;
    }
}

ln_status ln_convert_matrix_of(ln_convert_plan *plan, ln_tensor_id id,
                               const ln_source_shape *shape) {
    ln_convert_slice all = {0};
    ln_convert_part part = ln_convert_as_is;
    float bias_scale;
    part.scale = folded_scale(plan, id, &bias_scale);
    return ln_convert_rows_of(plan, id, shape, all, part, bias_scale);
}

ln_status ln_convert_matrix(ln_convert_plan *plan, ln_tensor_id id, size_t n_rows, size_t n_cols) {
    ln_source_shape shape = {1, n_rows, n_cols};
    return ln_convert_matrix_of(plan, id, &shape);
}

ln_status ln_convert_matrices(ln_convert_plan *plan, ln_tensor_id id, size_t n_packed,
                              size_t n_rows, size_t n_cols) {
    ln_source_shape shape = {n_packed, n_rows, n_cols};
    for (id.expert = 0; id.expert < n_packed; id.expert++)
        LN_TRY(ln_convert_matrix_of(plan, id, &shape));
    return LINNET_OK;
}

/* A vector that the folder stores as a matrix of one row stays one. */
static void keep_row(ln_convert_plan *plan, const ln_weight_request *request, size_t n) {
    const ln_tensor *tensor = request->n_sources > 0 ? request->sources[0].tensor : NULL;
    uint64_t dims[] = {1, n};
    if (tensor != NULL && tensor->n_dims == 2 && tensor->dims[0] == 1 && n > 1)
        ln_convert_reshape(plan, 2, dims);
}

ln_status ln_convert_vector(ln_convert_plan *plan, ln_tensor_id id, size_t n, float offset) {
    ln_weight_request request;
    ln_convert_part part = {.scale = 1, .offset = offset};
    LN_TRY(ln_source_vector(plan->checkpoint, plan->spec, id, n, &request, plan->err));
    LN_TRY(ln_convert_request(plan, id, 1, &request, part, true));
    keep_row(plan, &request, n);
    return LINNET_OK;
}

ln_status ln_convert_norm(ln_convert_plan *plan, ln_tensor_id id, size_t n) {
    bool moved = plan->spec->norm_kind == LN_NORM_RMS_PLUS_ONE || plan->spec->family->norms_add_one;
    if (id.role == LN_ROLE_OUTPUT_NORM && plan->spec->family->output_norm_is_rms)
        moved = false;
    if (ln_family_binding(plan->spec->family, LN_FORMAT_HF, id, 0) == NULL)
        return LINNET_OK;
    float offset = moved ? ln_family_norm_offset(plan->spec->family, id.role) : 0;
    LN_TRY(ln_convert_vector(plan, id, n, offset));
    id.is_bias = true;
    return ln_convert_vector(plan, id, n, 0);
}
