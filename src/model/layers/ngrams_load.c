#include <stdlib.h>
#include <string.h>

#include "model/family.h"
#include "model/layers/ngrams.h"

/* ---- hashes, as the reference makes them where the checkpoint does not hold them ------------- */

static uint64_t splitmix64(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Odd, and so small that products with tokens stay positive. */
static void make_factors(const ln_spec *spec, size_t number, ln_ngrams *n) {
    uint64_t half = (uint64_t)INT64_MAX / spec->n_vocab / 2;
    uint64_t seed = spec->ngrams.seed + UINT64_C(10007) * number;
    for (size_t i = 0; i < n->n_tokens; i++) {
        uint64_t x = seed + UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
        n->factors[i] = 2 * (splitmix64(x) % (half > 0 ? half : 1)) + 1;
    }
}

static bool is_prime(uint64_t x) {
    for (uint64_t i = 2; i * i <= x; i++)
        if (x % i == 0)
            return false;
    return x >= 2;
}

/* A prime for each head of all layers, from the base on. */
static void make_sizes(const ln_spec *spec, size_t number, ln_ngrams *n) {
    size_t n_heads = ln_ngrams_n_heads(n);
    uint64_t prime = spec->ngrams.base - 1, begin = 0;
    for (size_t i = 0; i < (number + 1) * n_heads; i++) {
        do
            prime++;
        while (!is_prime(prime));
        if (i < number * n_heads)
            continue;
        n->sizes[i - number * n_heads] = prime;
        n->begins[i - number * n_heads] = begin;
        begin += prime;
    }
}

static size_t count_rows(const ln_spec *spec, const ln_ngrams *n) {
    size_t last = ln_ngrams_n_heads(n) - 1, divisor = spec->ngrams.divisor;
    return (size_t)(n->begins[last] + n->sizes[last] + divisor - 1) / divisor * divisor;
}

/* Whole numbers that the checkpoint holds in place of these. */
static ln_status read_numbers(const ln_ngram_source *source, ln_role role, size_t n, uint64_t *out,
                              ln_error *err) {
    ln_tensor_id id = {.role = role, .layer = source->layer};
    const ln_binding *binding;
    const ln_tensor *tensor =
        ln_family_find(source->spec->family, source->checkpoint, id, &binding);
    if (tensor == NULL)
        return LINNET_OK;
    if (tensor->dtype != LN_DTYPE_I64 || tensor->n_elems != n)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s does not hold %zu whole numbers",
                       ln_checkpoint_path(source->checkpoint), tensor->name, n);
    if (source->unused != NULL)
        ln_unused_tensors_mark(source->unused, tensor);
    if (source->reads)
        memcpy(out, tensor->data, n * sizeof *out);
    return LINNET_OK;
}

/* Whether every hash names a row of so many. */
static bool are_in_table(const ln_ngrams *n, size_t n_rows) {
    for (size_t i = 0; i < ln_ngrams_n_heads(n); i++)
        if (n->sizes[i] == 0 || n->begins[i] > n_rows || n->sizes[i] > n_rows - n->begins[i])
            return false;
    return true;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static ln_status load_parts(ln_loader *l, size_t i, size_t n_rows, size_t n_cols, ln_ngrams *n) {
    size_t offset = ln_layout_add(&l->table_layout, n->n_parts, sizeof *n->parts);
    ln_weight planned = {0}, *parts = NULL;
    if (l->table != NULL)
        parts = (ln_weight *)(void *)(l->table + offset);
    for (size_t part = 0; part < n->n_parts; part++) {
        size_t begin = part * n->part_rows, left = n_rows - begin;
        LN_TRY(ln_load_numbered(l, LN_ROLE_NGRAM_EMBEDDING, i, part,
                                left < n->part_rows ? left : n->part_rows, n_cols,
                                parts != NULL ? &parts[part] : &planned));
    }
    n->parts = parts;
    if (!l->backend->vtable->on_device)
        return LINNET_OK;
    offset = ln_layout_add(&l->layout, n->n_parts, sizeof *n->parts);
    if (l->writable == NULL)
        return LINNET_OK;
    l->writable->vtable->upload(l->writable, l->memory + offset, parts, n->n_parts * sizeof *parts);
    n->device_parts = (const ln_weight *)(const void *)(l->memory + offset);
    return LINNET_OK;
}

/* Rows of a table that is in one tensor. */
static size_t stored_rows(const ln_ngram_source *source, size_t n_rows) {
    ln_tensor_id id = {.role = LN_ROLE_NGRAM_EMBEDDING, .layer = source->layer};
    const ln_binding *binding;
    const ln_tensor *tensor =
        ln_family_find(source->spec->family, source->checkpoint, id, &binding);
    return tensor != NULL && tensor->n_dims == 2 ? (size_t)tensor->dims[0] : n_rows;
}

ln_status ln_find_ngrams(const ln_ngram_source *source, ln_ngrams *n, size_t *n_rows,
                         ln_error *err) {
    const ln_spec *spec = source->spec;
    *n = (ln_ngrams){.n_tokens = spec->ngrams.n_tokens,
                     .heads_per_length = spec->ngrams.heads_per_length,
                     .end = spec->ngrams.end};
    size_t n_heads = ln_ngrams_n_heads(n), number = spec->layers[source->layer].ngrams.number;
    LN_BUG_ON(n_heads == 0);
    if (spec->ngrams.listed) {
        memcpy(n->factors, spec->ngrams.factors, sizeof n->factors);
        memcpy(n->sizes, spec->ngrams.sizes, sizeof n->sizes);
        memcpy(n->begins, spec->ngrams.begins, sizeof n->begins);
        *n_rows = stored_rows(source, 1);
    } else {
        make_factors(spec, number, n);
        make_sizes(spec, number, n);
        *n_rows = count_rows(spec, n);
        LN_TRY(read_numbers(source, LN_ROLE_NGRAM_FACTORS, n->n_tokens, n->factors, err));
        LN_TRY(read_numbers(source, LN_ROLE_NGRAM_SIZES, n_heads, n->sizes, err));
        LN_TRY(read_numbers(source, LN_ROLE_NGRAM_BEGINS, n_heads, n->begins, err));
    }
    if (!are_in_table(n, *n_rows))
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: hashes of n-grams in layer %zu are outside a table of %zu rows",
                       ln_checkpoint_path(source->checkpoint), source->layer, *n_rows);
    ln_tensor_id table = {.role = LN_ROLE_NGRAM_EMBEDDING, .layer = source->layer};
    bool has_parts = ln_family_is_numbered(spec->family, source->checkpoint, table);
    size_t n_parts = has_parts ? spec->ngrams.n_parts : 1;
    n->part_rows = (*n_rows + n_parts - 1) / n_parts;
    n->n_parts = (*n_rows + n->part_rows - 1) / n->part_rows;
    return LINNET_OK;
}

static ln_status load_table(ln_loader *l, size_t i, ln_ngrams *n) {
    size_t n_rows;
    ln_ngram_source source = {.checkpoint = l->checkpoint,
                              .spec = l->spec,
                              .layer = i,
                              .unused = l->unused,
                              .reads = l->writable != NULL};
    LN_TRY(ln_find_ngrams(&source, n, &n_rows, l->err));
    return load_parts(l, i, n_rows, l->spec->ngrams.width / ln_ngrams_n_heads(n), n);
}

/* [channel][tap] becomes [tap][channel], with taps of zero between, as far apart as n-grams reach.
 */
static ln_status load_taps(ln_loader *l, size_t i, const float **out) {
    size_t n = l->spec->hyper.n * l->spec->dim, n_stored = l->spec->ngrams.n_taps;
    size_t spacing = l->spec->ngrams.n_tokens, n_taps = (n_stored - 1) * spacing + 1;
    bool is_there;
    float *stored = calloc(n * (n_stored + n_taps), sizeof *stored);
    if (stored == NULL)
        return ln_fail_memory(l->err, "a convolution");
    float *taps = stored + n * n_stored;
    ln_status status =
        ln_load_values(l, LN_ROLE_NGRAM_CONV, i, false, n * n_stored, stored, &is_there);
    for (size_t channel = 0; channel < n; channel++)
        for (size_t tap = 0; tap < n_stored; tap++)
            taps[tap * spacing * n + channel] = stored[channel * n_stored + tap];
    if (status == LINNET_OK)
        status = ln_load_table(l, taps, n * n_taps, out);
    free(stored);
    return status;
}

static ln_status load_stream_norm(ln_loader *l, ln_role role, size_t i, const float **out) {
    ln_norm norm;
    LN_TRY(ln_load_norm(l, role, i, l->spec->hyper.n * l->spec->dim, &norm));
    *out = norm.weight;
    return LINNET_OK;
}

ln_status ln_load_layer_ngrams(ln_loader *l, const ln_layer_spec *layer, size_t i,
                               ln_layer_weights *w) {
    const ln_spec *spec = l->spec;
    ln_ngram_weights *own = &w->ngram;
    size_t width = spec->ngrams.width, dim = spec->dim;
    if (!layer->ngrams.is_there)
        return LINNET_OK;
    LN_TRY(load_table(l, i, &own->table));
    LN_TRY(ln_load_matrix(l, LN_ROLE_NGRAM_KEY, i, spec->hyper.n * dim, width, &own->key));
    LN_TRY(ln_load_matrix(l, LN_ROLE_NGRAM_VALUE, i, dim, width, &own->value));
    LN_TRY(load_stream_norm(l, LN_ROLE_NGRAM_KEY_NORM, i, &own->key_norm));
    LN_TRY(load_stream_norm(l, LN_ROLE_NGRAM_STREAM_NORM, i, &own->stream_norm));
    LN_TRY(load_stream_norm(l, LN_ROLE_NGRAM_CONV_NORM, i, &own->conv_norm));
    return load_taps(l, i, &own->taps);
}

/* The number of each token plus one, in every column. */
static ln_status load_token_ids(ln_loader *l, size_t n_cols) {
    size_t n = l->spec->n_vocab;
    const float *table;
    float *ids = calloc(n * n_cols, sizeof *ids);
    if (ids == NULL)
        return ln_fail_memory(l->err, "the numbers of tokens");
    for (size_t i = 0; i < n * n_cols; i++)
        ids[i] = (float)(i / n_cols + 1);
    ln_status status = ln_load_table(l, ids, n * n_cols, &table);
    free(ids);
    l->weights->token_ids = (ln_weight){.dtype = LN_DTYPE_F32,
                                        .n_rows = n,
                                        .n_cols = n_cols,
                                        .row_bytes = n_cols * sizeof *ids,
                                        .data = table};
    return status;
}

ln_status ln_load_ngrams(ln_loader *l) {
    size_t n = l->spec->ngrams.n_tokens;
    float taps[LN_MAX_NGRAM * LN_MAX_NGRAM] = {0};
    if (l->spec->ngrams.n_layers == 0)
        return LINNET_OK;
    for (size_t before = 1; before < n;
         before++) /* column before - 1 is of so many tokens before */
        taps[(n - 1 - before) * (n - 1) + before - 1] = 1.0f;
    LN_TRY(load_token_ids(l, n - 1));
    return ln_load_table(l, taps, n * (n - 1), &l->weights->token_taps);
}
