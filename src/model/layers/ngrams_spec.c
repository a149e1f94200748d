#include "model/layers/ngrams.h"

#include "model/family.h"

enum { MAX_TAPS = 32, MAX_PARTS = 1 << 16 };

static const ln_key layers_key = {"ple_layer_ids", "ple.layers"};

/* The token that ends texts, or the first of them. */
static ln_status read_end(const ln_config *config, ln_spec *spec, ln_error *err) {
    ln_meta_value value, item;
    bool is_there =
        ln_config_find(config, (ln_key){"eos_token_id", "ple.eos_token_id"}, &value, NULL);
    if (is_there && value.kind == LN_META_ARRAY)
        is_there = ln_meta_item(&value, 0, &item);
    else if (is_there)
        item = value;
    if (!is_there || item.kind != LN_META_INT || item.integer < 0 || item.integer > INT32_MAX)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: with n-grams, key eos_token_id is no token",
                       ln_checkpoint_path(config->checkpoint));
    spec->ngrams.end = (int32_t)item.integer;
    return LINNET_OK;
}

static ln_status read_list(const ln_config *config, const char *key, size_t n, uint64_t *out,
                           ln_error *err) {
    ln_meta_value list, item;
    bool is_there = ln_config_find(config, (ln_key){"", key}, &list, NULL);
    for (size_t i = 0; i < n; i++) {
        if (!is_there || !ln_meta_item(&list, i, &item) || item.kind != LN_META_INT ||
            item.integer < 0)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s does not list %zu whole numbers",
                           ln_checkpoint_path(config->checkpoint), key, n);
        out[i] = (uint64_t)item.integer;
    }
    return LINNET_OK;
}

/* What GGUF has in place of tensors and of what these are made by. */
static ln_status read_lists(const ln_config *config, ln_spec *spec, size_t n_heads, ln_error *err) {
    size_t head_width;
    LN_TRY(ln_config_need_size(config, (ln_key){"", "embedding_length_per_layer_input"}, 1,
                               LN_MAX_DIM / n_heads, &head_width, err));
    LN_TRY(read_list(config, "ple.layer_multipliers", spec->ngrams.n_tokens, spec->ngrams.factors,
                     err));
    LN_TRY(read_list(config, "ple.head_vocab_sizes", n_heads, spec->ngrams.sizes, err));
    LN_TRY(read_list(config, "ple.head_offsets", n_heads, spec->ngrams.begins, err));
    spec->ngrams.listed = true;
    spec->ngrams.width = n_heads * head_width;
    return LINNET_OK;
}

ln_status ln_spec_read_ngrams(const ln_config *config, ln_spec *spec, ln_error *err) {
    size_t n_taps = 4, n_tokens = 3, n_heads = 8, width = spec->dim, base = 20000000, divisor = 128;
    size_t seed = 1234, n_parts = 512;
    ln_meta_value list;
    bool is_listed = false;
    if (spec->family->ngrams)
        LN_TRY(ln_config_list(config, layers_key, &list, &is_listed, err));
    if (!is_listed || list.array.count == 0)
        return LINNET_OK;
    LN_TRY(ln_config_size(config, (ln_key){"ple_conv_kernel_size", "ple.conv_kernel"}, 1, MAX_TAPS,
                          &n_taps, err));
    LN_TRY(ln_config_size(config, (ln_key){"ngram_size", "ple.ngram_size"}, 2, LN_MAX_NGRAM,
                          &n_tokens, err));
    LN_TRY(ln_config_size(config, (ln_key){"heads_per_ngram", "ple.heads_per_ngram"}, 1,
                          LN_MAX_NGRAM_HEADS / (n_tokens - 1), &n_heads, err));
    LN_TRY(ln_config_size(config, (ln_key){"ple_embed_dim", ""}, 1, LN_MAX_DIM, &width, err));
    LN_TRY(ln_config_size(config, (ln_key){"ngram_vocab_size_base", ""}, 1, 1 << 30, &base, err));
    LN_TRY(ln_config_size(config, (ln_key){"make_ngram_vocab_size_divisible_by", ""}, 1, 1 << 30,
                          &divisor, err));
    LN_TRY(ln_config_size(config, (ln_key){"seed", ""}, 0, INT32_MAX, &seed, err));
    LN_TRY(ln_config_size(config, (ln_key){"split_ngram_parts", ""}, 1, MAX_PARTS, &n_parts, err));
    if (!config->is_gguf && width % ((n_tokens - 1) * n_heads) != 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %zu heads of n-grams do not share %zu columns",
                       ln_checkpoint_path(config->checkpoint), (n_tokens - 1) * n_heads, width);
    spec->ngrams.n_tokens = n_tokens;
    spec->ngrams.heads_per_length = n_heads;
    spec->ngrams.width = width;
    spec->ngrams.n_taps = n_taps;
    spec->ngrams.base = base;
    spec->ngrams.divisor = divisor;
    spec->ngrams.seed = seed;
    spec->ngrams.n_parts = n_parts;
    if (config->is_gguf)
        LN_TRY(read_lists(config, spec, (n_tokens - 1) * n_heads, err));
    return read_end(config, spec, err);
}

/* Layers are counted from one, in GGUF from zero, in any order. */
ln_status ln_spec_layer_ngrams(const ln_config *config, ln_spec *spec, size_t i,
                               ln_layer_spec *layer, ln_error *err) {
    ln_meta_value list, item;
    char name[128];
    int64_t first = config->is_gguf ? 0 : 1;
    if (spec->ngrams.n_tokens == 0 || !ln_config_find(config, layers_key, &list, name))
        return LINNET_OK;
    for (size_t k = 0; ln_meta_item(&list, k, &item); k++) {
        if (item.kind != LN_META_INT || item.integer < first ||
            item.integer - first >= (int64_t)spec->n_layers)
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: key %s does not name layers",
                           ln_checkpoint_path(config->checkpoint), name);
        layer->ngrams.is_there |= item.integer - first == (int64_t)i;
    }
    if (!layer->ngrams.is_there)
        return LINNET_OK;
    if (layer->mixer.kind == LN_MIXER_NONE)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s: layer %zu is not recurrent",
                       ln_checkpoint_path(config->checkpoint), name, i + 1);
    if (spec->ngrams.listed && spec->ngrams.n_layers > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "%s: key %s names more than one layer",
                       ln_checkpoint_path(config->checkpoint), name);
    layer->ngrams.number = spec->ngrams.n_layers++;
    layer->ngrams.state_group = layer->mixer.state_group;
    layer->ngrams.tail_group = layer->mixer.tail_group;
    return LINNET_OK;
}
