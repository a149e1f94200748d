#include "convert/ngrams.h"

#include "convert/metadata.h"
#include "model/layers/ngrams.h"

ln_status ln_convert_index_means(ln_convert_plan *plan, ln_tensor_id id,
                                 const ln_indexer_spec *index) {
    size_t width = index->head_dim, dim = plan->spec->dim;
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_INDEX_Q), index->n_heads * width, dim));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_INDEX_K), width, dim));
    LN_TRY(ln_convert_norm(plan, ln_id_as(id, LN_ROLE_INDEX_Q_NORM), width));
    return ln_convert_norm(plan, ln_id_as(id, LN_ROLE_INDEX_NORM), width);
}

static ln_status find(const ln_convert_plan *plan, size_t layer, ln_unused_tensors *unused,
                      ln_ngrams *n, size_t *n_rows) {
    ln_ngram_source source = {plan->checkpoint, plan->spec, layer, unused, true};
    return ln_find_ngrams(&source, n, n_rows, plan->err);
}

/* The whole table, of which a folder may have many parts. */
static ln_status table(ln_convert_plan *plan, ln_tensor_id id) {
    ln_ngrams n;
    size_t n_rows;
    id.role = LN_ROLE_NGRAM_EMBEDDING;
    LN_TRY(find(plan, id.layer, &plan->unused, &n, &n_rows));
    size_t n_cols = plan->spec->ngrams.width / ln_ngrams_n_heads(&n);
    for (id.expert = 0; id.expert < n.n_parts; id.expert++) {
        size_t left = n_rows - id.expert * n.part_rows;
        ln_source_shape shape = {n.n_parts, left < n.part_rows ? left : n.part_rows, n_cols};
        ln_weight_request request;
        LN_TRY(ln_source_matrix(plan->checkpoint, plan->spec, id, &shape, &request, plan->err));
        LN_TRY(ln_convert_request(plan, id, 1, &request, ln_convert_as_is, false));
    }
    return LINNET_OK;
}

/* Taps of each channel of all streams. */
static ln_status taps(ln_convert_plan *plan, ln_tensor_id id) {
    const ln_spec *spec = plan->spec;
    size_t n_channels = spec->hyper.n * spec->dim, n_taps = spec->ngrams.n_taps;
    uint64_t dims[] = {n_channels, n_taps};
    ln_weight_request request;
    const ln_binding *binding;
    id.role = LN_ROLE_NGRAM_CONV;
    const ln_tensor *tensor = ln_family_find(spec->family, plan->checkpoint, id, &binding);
    if (tensor == NULL || tensor->n_elems != n_channels * n_taps)
        return ln_source_vector(plan->checkpoint, spec, id, n_channels * n_taps, &request,
                                plan->err);
    ln_weight_source source = {.tensor = tensor, .n_rows = n_channels, .run_rows = n_channels};
    request = (ln_weight_request){.n_sources = 1, .sources = {source}, .n_cols = n_taps};
    LN_TRY(ln_convert_request(plan, id, 1, &request, ln_convert_as_is, false));
    ln_convert_reshape(plan, 2, dims);
    return LINNET_OK;
}

ln_status ln_convert_ngrams(ln_convert_plan *plan, ln_tensor_id id) {
    static const ln_role norms[] = {LN_ROLE_NGRAM_KEY_NORM, LN_ROLE_NGRAM_STREAM_NORM,
                                    LN_ROLE_NGRAM_CONV_NORM};
    const ln_spec *spec = plan->spec;
    size_t width = spec->hyper.n * spec->dim;
    if (id.layer >= spec->n_layers || !spec->layers[id.layer].ngrams.is_there)
        return LINNET_OK;
    LN_TRY(table(plan, id));
    LN_TRY(ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_NGRAM_KEY), width, spec->ngrams.width));
    LN_TRY(
        ln_convert_matrix(plan, ln_id_as(id, LN_ROLE_NGRAM_VALUE), spec->dim, spec->ngrams.width));
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        LN_TRY(ln_convert_norm(plan, ln_id_as(id, norms[i]), width));
    return taps(plan, id);
}

/* ---- what its readers take for granted, and keys ------------------------------------------ */

const char *ln_convert_unknown_ngrams(const ln_spec *spec) {
    if (spec->ngrams.n_layers > 1)
        return "n-grams in several layers";
    if (spec->ngrams.n_layers > 0 && spec->ngrams.width != spec->dim)
        return "embeddings of n-grams of another width than the model's";
    return NULL;
}

static void put_list(const ln_convert_plan *plan, ln_gguf_writer *writer, const char *name,
                     const uint64_t *values, size_t n) {
    ln_gguf_put_array(writer, ln_convert_key_of(plan, name).text, LN_GGUF_U64, values, n);
}

/* The token that stands for pictures, which text has none of. */
static void put_picture(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    ln_meta_value value;
    if (ln_checkpoint_meta(plan->checkpoint, "image_token_id", &value) &&
        value.kind == LN_META_INT && value.integer >= 0 && value.integer <= UINT32_MAX)
        ln_convert_put_number(plan, writer, "ple.image_token_id", (size_t)value.integer);
}

static ln_status put_hashes(const ln_convert_plan *plan, ln_gguf_writer *writer, int32_t layer) {
    const ln_spec *spec = plan->spec;
    ln_ngrams n;
    size_t n_rows;
    LN_TRY(find(plan, (size_t)layer, NULL, &n, &n_rows));
    size_t n_heads = ln_ngrams_n_heads(&n);
    ln_gguf_put_array(writer, ln_convert_key_of(plan, "ple.layers").text, LN_GGUF_I32, &layer, 1);
    ln_convert_put_number(plan, writer, "ple.ngram_size", n.n_tokens);
    ln_convert_put_number(plan, writer, "ple.heads_per_ngram", n.heads_per_length);
    ln_convert_put_number(plan, writer, "ple.conv_kernel", spec->ngrams.n_taps);
    ln_convert_put_number(plan, writer, "ple.eos_token_id", (size_t)n.end);
    put_picture(plan, writer);
    ln_convert_put_number(plan, writer, "embedding_length_per_layer_input",
                          spec->ngrams.width / n_heads);
    put_list(plan, writer, "ple.layer_multipliers", n.factors, n.n_tokens);
    put_list(plan, writer, "ple.head_offsets", n.begins, n_heads);
    put_list(plan, writer, "ple.head_vocab_sizes", n.sizes, n_heads);
    return LINNET_OK;
}

ln_status ln_convert_put_ngrams(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    const ln_spec *spec = plan->spec;
    int32_t runs[LN_MAX_LAYERS];
    if (!plan->target->index_means)
        return LINNET_OK;
    for (size_t i = 0; i < spec->n_layers; i++)
        runs[i] = (int32_t)spec->layers[i].attention.indexer.run_tokens;
    ln_gguf_put_array(writer, ln_convert_key_of(plan, "attention.compress_ratios").text,
                      LN_GGUF_I32, runs, spec->n_layers);
    for (size_t i = 0; i < spec->n_layers; i++)
        if (spec->layers[i].ngrams.is_there)
            return put_hashes(plan, writer, (int32_t)i);
    return LINNET_OK;
}
