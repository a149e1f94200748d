#include "model/attention/compressed.h"
#include "model/family.h"
#include "model/spec_blocks.h"

enum { MAX_GROUPS = 1024, MAX_RUN = 1 << 16 };

typedef enum layer_kind { WINDOW_ALONE, OVERLAPPING, PLAIN_RUNS } layer_kind;

ln_status ln_spec_read_compressed_fraction(const ln_config *config, size_t head_dim,
                                           double *fraction, ln_error *err) {
    size_t n_rope = 0;
    LN_TRY(ln_config_size(config, (ln_key){"qk_rope_head_dim", ""}, 2, head_dim, &n_rope, err));
    *fraction = n_rope > 0 ? (double)n_rope / (double)head_dim : 64.0 / 512.0;
    return LINNET_OK;
}

static ln_status unknown_kind(const ln_config *config, const char *key, size_t layer,
                              ln_error *err) {
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s has no known kind for layer %zu",
                   ln_checkpoint_path(config->checkpoint), key, layer);
}

/* By a list of words, or of how many tokens become one; without any the first two layers have plain
 * runs, and from there on every other one. */
static ln_status read_kind(const ln_config *config, size_t layer, layer_kind *kind, ln_error *err) {
    static const struct {
        const char *word;
        int64_t ratio;
    } kinds[] = {[WINDOW_ALONE] = {"sliding_attention", 0},
                 [OVERLAPPING] = {"compressed_sparse_attention", 4},
                 [PLAIN_RUNS] = {"heavily_compressed_attention", 128}};
    ln_meta_value list, item;
    char name[128];
    bool by_word = ln_config_find(config, (ln_key){"layer_types", ""}, &list, name);
    *kind = layer >= 2 && layer % 2 != 0 ? OVERLAPPING : PLAIN_RUNS;
    if (!by_word &&
        !ln_config_find(config, (ln_key){"compress_ratios", "attention.compress_ratios"}, &list,
                        name))
        return LINNET_OK;
    if (!ln_meta_item(&list, layer, &item))
        return unknown_kind(config, name, layer, err);
    for (int i = WINDOW_ALONE; i <= PLAIN_RUNS; i++) {
        bool is_it = by_word ? item.kind == LN_META_STRING &&
                                   ln_list_has(kinds[i].word, item.string.data, item.string.bytes)
                             : item.kind == LN_META_INT && item.integer == kinds[i].ratio;
        *kind = (layer_kind)i;
        if (is_it)
            return LINNET_OK;
    }
    return unknown_kind(config, name, layer, err);
}

static ln_status read_compressor(const ln_config *config, ln_spec *spec, layer_kind kind,
                                 ln_compressor_spec *compressor, ln_error *err) {
    static const ln_key keys[] = {
        [OVERLAPPING] = {"compress_rate_csa|compress_rates.compressed_sparse_attention", ""},
        [PLAIN_RUNS] = {"compress_rate_hca|compress_rates.heavily_compressed_attention", ""}};
    *compressor = (ln_compressor_spec){0};
    if (kind == WINDOW_ALONE)
        return LINNET_OK;
    compressor->overlaps = kind == OVERLAPPING;
    compressor->n_tokens = compressor->overlaps ? 4 : 128;
    LN_TRY(ln_config_size(config, keys[kind], 1, MAX_RUN, &compressor->n_tokens, err));
    compressor->kv_layer = spec->n_entry_caches;
    spec->n_entry_caches += ln_compressor_caches(compressor);
    return LINNET_OK;
}

static ln_status read_indexer(const ln_config *config, const ln_spec *spec,
                              ln_indexer_spec *indexer, ln_error *err) {
    LN_TRY(ln_spec_read_indexer_sizes(config, indexer, err));
    if (indexer->n_heads * indexer->head_dim <= LN_MAX_DIM &&
        indexer->head_dim >= spec->ropes[0].n_dims)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "%s: an indexer of %zu heads of %zu, of which %zu dimensions rotate",
                   ln_checkpoint_path(config->checkpoint), indexer->n_heads, indexer->head_dim,
                   spec->ropes[0].n_dims);
}

ln_status ln_spec_read_compressed(const ln_config *config, ln_spec *spec, size_t layer,
                                  size_t window, ln_attention_spec *attention, ln_error *err) {
    ln_compressed_spec *compressed = &attention->compressed;
    layer_kind kind;
    LN_TRY(ln_config_need_size(config, (ln_key){"q_lora_rank", "attention.q_lora_rank"}, 1,
                               LN_MAX_DIM, &compressed->q_latent, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"o_groups", "attention.output_group_count"}, 1,
                               MAX_GROUPS, &compressed->n_groups, err));
    LN_TRY(ln_config_need_size(config, (ln_key){"o_lora_rank", "attention.output_lora_rank"}, 1,
                               LN_MAX_DIM / MAX_GROUPS, &compressed->group_width, err));
    attention->n_kv_heads = 1;
    attention->v_dim = attention->k_dim;
    if (attention->n_heads % compressed->n_groups != 0 || window == 0 ||
        attention->n_heads * attention->k_dim > LN_MAX_DIM)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: %zu heads of %zu in %zu groups with a window of %zu tokens",
                       ln_checkpoint_path(config->checkpoint), attention->n_heads, attention->k_dim,
                       compressed->n_groups, window);
    LN_TRY(read_kind(config, layer, &kind, err));
    LN_TRY(read_compressor(config, spec, kind, &attention->compressor, err));
    attention->rope = kind == WINDOW_ALONE ? 1 : 0;
    return kind == OVERLAPPING ? read_indexer(config, spec, &attention->indexer, err) : LINNET_OK;
}
