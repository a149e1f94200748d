/* DeepSeek V4: attention with compressors, and tables of experts. */
#include "convert/compressed.h"

#include <stdlib.h>

#include "convert/metadata.h"
#include "model/ffn/hash_routing.h"

/* `first`: the first of its four roles. */
static ln_status compressor(ln_convert_plan *plan, ln_tensor_id id, const ln_compressor_spec *spec,
                            ln_role first, size_t dim) {
    size_t width = spec->overlaps ? 2 * dim : dim;
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, first), width, plan->spec->dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, (ln_role)(first + 1)), width, plan->spec->dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, (ln_role)(first + 2)), spec->n_tokens, width));
    return ln_convert_norm(plan, ln_id_as(id, (ln_role)(first + 3)), dim);
}

ln_status ln_convert_compressed(ln_convert_plan *plan, ln_tensor_id id,
                                const ln_attention_spec *a) {
    const ln_compressed_spec *spec = &a->compressed;
    const ln_indexer_spec *index = &a->indexer;
    size_t dim = plan->spec->dim, q_rows = a->n_heads * a->k_dim;
    size_t o_rows = spec->n_groups * spec->group_width;
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_Q_A), spec->q_latent, dim));
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_Q_A_NORM), spec->q_latent));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_Q_B), q_rows, spec->q_latent));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_K), a->k_dim, dim));
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_K_NORM), a->k_dim));
    LN_TRY(
        ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_O_GROUPS), o_rows, q_rows / spec->n_groups));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_O), dim, o_rows));
    if (a->compressor.n_tokens > 0)
        LN_TRY(compressor(plan, id, &a->compressor, LN_ROLE_COMPRESS_VALUE, a->k_dim));
    if (index->top_k == 0)
        return LINNET_OK;
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_INDEX_Q), index->n_heads * index->head_dim,
                             spec->q_latent));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_INDEX_WEIGHTS), index->n_heads, dim));
    return compressor(plan, id, &a->compressor, LN_ROLE_INDEX_VALUE, index->head_dim);
}

ln_status ln_convert_hash_experts(ln_convert_plan *plan, ln_tensor_id id, const ln_moe_spec *moe) {
    const ln_binding *binding;
    char name[LN_TENSOR_NAME_BYTES];
    uint64_t dims[] = {plan->spec->n_vocab, moe->n_used};
    size_t n = plan->spec->n_vocab * moe->n_used;
    id.role = LN_ROLE_HASH_EXPERTS;
    const ln_tensor *tensor = ln_family_find(plan->spec->family, plan->checkpoint, id, &binding);
    if (tensor == NULL || tensor->n_elems != n ||
        (tensor->dtype != LN_DTYPE_I64 && tensor->dtype != LN_DTYPE_I32))
        return ln_fail(plan->err, LINNET_ERR_FORMAT,
                       "%s: layer %zu has no table of %zu experts that tokens meet (tid2eid)",
                       ln_checkpoint_path(plan->checkpoint), id.layer, n);
    int32_t *numbers = calloc(n + 1, sizeof *numbers);
    if (numbers == NULL)
        return ln_convert_no_memory(plan);
    bool is_valid = true;
    for (size_t i = 0; i < n; i++) {
        int64_t number = ln_whole_number(tensor, i);
        is_valid &= number >= 0 && (uint64_t)number < moe->n_experts;
        numbers[i] = (int32_t)number;
    }
    ln_unused_tensors_mark(&plan->unused, tensor);
    binding = ln_family_binding(plan->target, LN_FORMAT_GGUF, id, 0);
    ln_binding_name(binding, LN_FORMAT_GGUF, id, name);
    ln_status status = LINNET_OK;
    if (!is_valid)
        status = ln_fail(plan->err, LINNET_ERR_FORMAT, "%s: tensor %s names no expert of %zu",
                         ln_checkpoint_path(plan->checkpoint), tensor->name, moe->n_experts);
    if (status == LINNET_OK)
        status = ln_convert_add_numbers(plan, name, 2, dims, numbers);
    if (status != LINNET_OK)
        free(numbers);
    return status;
}

/* ---- what its readers take for granted, and keys ------------------------------------------ */

const char *ln_convert_uncompressed(const ln_spec *spec) {
    bool has_hashed = true;
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_layer_spec *layer = &spec->layers[i];
        const ln_compressor_spec *compressor = &layer->attention.compressor;
        if (compressor->n_tokens > 0 && compressor->n_tokens != (compressor->overlaps ? 4 : 128))
            return "entries of runs of other lengths than 4 and 128";
        if (layer->ffn.moe.hash_routed && !has_hashed)
            return "tables of experts behind layers without";
        has_hashed = layer->ffn.moe.hash_routed;
        if (layer->ffn.moe.n_experts == 0)
            return "layers without experts";
    }
    if (spec->ropes[0].attention_factor != 1)
        return "a magnitude of YaRN";
    return spec->hyper.magnitude != 2 ? "a magnitude of residual streams" : NULL;
}

void ln_convert_put_compressed(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    const ln_spec *spec = plan->spec;
    const ln_compressed_spec *compressed = &spec->layers[0].attention.compressed;
    uint32_t ratios[LN_MAX_LAYERS], n_hashed = 0;
    if (!plan->target->compressed_attention)
        return;
    for (size_t i = 0; i < spec->n_layers; i++) {
        ratios[i] = (uint32_t)spec->layers[i].attention.compressor.n_tokens;
        n_hashed += spec->layers[i].ffn.moe.hash_routed;
    }
    const struct {
        const char *name;
        size_t value;
    } sizes[] = {{"attention.q_lora_rank", compressed->q_latent},
                 {"attention.output_group_count", compressed->n_groups},
                 {"attention.output_lora_rank", compressed->group_width},
                 {"hash_layer_count", n_hashed},
                 {"embedding_length_out", spec->hyper.n * spec->dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        ln_convert_put_number(plan, writer, sizes[i].name, sizes[i].value);
    ln_gguf_put_array(writer, ln_convert_key_of(plan, "attention.compress_ratios").text,
                      LN_GGUF_U32, ratios, spec->n_layers);
    ln_gguf_put_f32(writer, ln_convert_key_of(plan, "attention.compress_rope_freq_base").text,
                    (float)spec->ropes[0].theta);
}
