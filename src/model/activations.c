#include "model/activations.h"

#include "base/layout.h"
#include "dist/collectives.h"
#include "model/mixer/shape.h"

static void grow(size_t *a, size_t b) {
    if (b > *a)
        *a = b;
}

/* The widest row of each activation, over all layers. */
typedef struct widths {
    size_t q, k, v, attended, output_gate, hidden, latent_heads, latent_q;
    size_t n_experts, n_used, expert_hidden, expert_out, expert_latent, shared, shortcut, sparse;
    size_t router_hidden, biased_keys, biased_queries;
    size_t conv, mixer_out, decay, beta, low_rank;
    size_t index_heads, index_dim, top_k; /* all indexers are alike */
    size_t turned, head_scales;
    size_t gated, latent_pair;
    size_t relative_queries, n_shared, token_sinks, conv_taps;
    size_t entry_rows;
    size_t logits;
    size_t rows; /* of linears that have a matrix for each head, of a token; else 1 */
} widths;

/* Whether a head works in the same activations; one of its own folder has others. */
static bool has_pairs(const ln_spec *spec) {
    return spec->head != NULL && spec->aux_layers.n == 0;
}

/* Layers of decoder and encoder, and of a head. */
static size_t count_layers(const ln_spec *spec) {
    return spec->n_layers + spec->n_encoder_layers + has_pairs(spec);
}

static const ln_layer_spec *any_layer(const ln_spec *spec, size_t i) {
    if (i >= spec->n_layers + spec->n_encoder_layers)
        return spec->head;
    return i < spec->n_layers ? &spec->layers[i] : &spec->encoder_layers[i - spec->n_layers];
}

static void grow_mixer(widths *w, const ln_mixer_spec *mixer, size_t dim) {
    ln_state_shape shape = ln_mixer_state_shape(mixer, dim, 0);
    if (mixer->kind == LN_MIXER_NONE)
        return;
    grow(&w->conv, ln_mixer_conv_dim(mixer, dim));
    grow(&w->mixer_out, mixer->kind == LN_MIXER_CONV ? dim : mixer->n_heads * mixer->v_dim);
    grow(&w->decay, shape.n_decays);
    grow(&w->beta, mixer->n_heads);
    grow(&w->low_rank, mixer->low_rank);
    grow(&w->low_rank, mixer->gate_rank);
    if (mixer->kind != LN_MIXER_SELECTIVE)
        return;
    grow(&w->low_rank, mixer->n_k_heads * mixer->low_rank);
    grow(&w->q, mixer->n_k_heads * mixer->k_dim);
    grow(&w->k, mixer->n_k_heads * mixer->k_dim);
}

/* What is convolved: inside a recurrent layer, and of n-grams in front of it. */
static void grow_convs(widths *w, const ln_spec *spec, const ln_layer_spec *layer) {
    grow_mixer(w, &layer->mixer, spec->dim);
    if (layer->ngrams.is_there)
        grow(&w->conv, spec->hyper.n * spec->dim);
}

/* Gates that are made apart from what they multiply. */
static void grow_gated(widths *w, const ln_ffn_spec *ffn) {
    const ln_moe_spec *moe = &ffn->moe;
    size_t n_hidden = moe->n_experts > 0 ? moe->shared_hidden : ffn->n_hidden;
    if (ffn->gate_cap > 0)
        grow(&w->gated, n_hidden);
    if (ffn->limit > 0)
        grow(moe->limits_before ? &w->sparse : &w->gated, n_hidden);
    if (ln_moe_limits(moe))
        grow(&w->gated, moe->n_used * moe->n_hidden);
}

static void grow_tied(widths *w, const ln_attention_spec *a) {
    const ln_compressed_spec *compressed = &a->compressed;
    size_t width = a->k_dim > a->indexer.head_dim ? a->k_dim : a->indexer.head_dim;
    if (compressed->q_latent == 0)
        return;
    grow(&w->latent_q, compressed->q_latent);
    grow(&w->latent_heads, compressed->n_groups * compressed->group_width);
    if (a->compressor.n_tokens > 0)
        grow(&w->entry_rows, (a->compressor.overlaps ? 4 : 2) * width);
}

/* The encoder is where the decoder's first layer is. */
static bool is_here(const ln_spec *spec, size_t i) {
    return ln_spec_has_layer(spec, i < spec->n_layers ? i : 0);
}

/* Rank 0 and the one that makes them. */
static bool has_logits(const ln_spec *spec) {
    const ln_mesh *mesh = &spec->ranks.mesh;
    if (spec->bidirectional)
        return false;
    return mesh->rank == 0 || mesh->rank == ln_mesh_rank_of_logits(mesh);
}

static void grow_indexer(widths *w, const ln_attention_spec *a) {
    const ln_indexer_spec *indexer = &a->indexer;
    grow(&w->index_heads, indexer->n_heads);
    grow(&w->index_dim, indexer->head_dim);
    grow(&w->entry_rows, indexer->run_tokens > 0 ? 2 * indexer->head_dim : 0);
    grow(&w->head_scales, a->scales_by_log ? indexer->n_heads : 0);
    grow(&w->turned, indexer->turns_last ? indexer->n_heads * indexer->head_dim : 0);
}

/* Numbers of heads. */
static void grow_heads(widths *w, const ln_attention_spec *a) {
    grow(&w->head_scales, a->scales_by_log ? a->n_heads : 0);
    grow(&w->biased_keys, a->has_key_bias ? a->n_kv_heads : 0);
    grow(&w->biased_queries, a->has_key_bias ? a->n_heads : 0);
}

/* Experts of one row. */
static void grow_retrieved(widths *w, const ln_ffn_spec *ffn) {
    grow(&w->sparse, ffn->retrieved.n_experts);
    grow(&w->n_experts, 2 * ffn->retrieved.n_keys);
}

static widths widths_of(const ln_spec *spec) {
    widths w = {.rows = 1, .logits = has_logits(spec) ? spec->n_vocab : 0};
    for (size_t i = 0; i < count_layers(spec); i++) {
        const ln_indexer_spec *indexer = &any_layer(spec, i)->attention.indexer;
        grow(&w.top_k, ln_index_width(indexer->top_k, indexer->run_tokens)); /* stages pass it on */
        if (!is_here(spec, i))
            continue;
        const ln_layer_spec *layer = any_layer(spec, i);
        const ln_attention_spec *a = &layer->attention;
        const ln_moe_spec *moe = &layer->ffn.moe;
        grow(&w.q, a->n_heads * a->k_dim);
        grow(&w.k, a->n_kv_heads * a->k_dim);
        grow(&w.v, a->n_kv_heads * a->v_dim);
        grow(&w.attended, a->n_heads * a->v_dim);
        if (a->gate != LN_GATE_NONE)
            grow(&w.output_gate, a->n_heads * ln_gate_width(a));
        if (a->latent.n_latent > 0) {
            grow(&w.latent_heads, a->n_heads * (a->latent.n_plain + a->latent.n_rope));
            grow(&w.latent_heads, a->n_heads * a->latent.v_dim);
            grow(&w.latent_q, a->latent.q_latent);
            grow(&w.v, a->latent.n_rope);
            grow(&w.latent_pair, a->latent.pairs ? 2 * a->latent.q_latent : 0);
            grow(&w.rows, a->n_heads);
        }
        grow_tied(&w, a);
        grow_heads(&w, a);
        grow(&w.relative_queries, a->n_heads * a->relative_dim);
        grow(&w.token_sinks, a->head_limit > 0 ? a->n_heads : 0);
        grow(&w.conv_taps, layer->mixer.dynamic ? a->n_kv_heads * layer->mixer.n_taps : 0);
        grow_indexer(&w, a);
        bool is_dense = moe->n_experts == 0 || moe->beside || moe->shortcut;
        grow(&w.hidden, is_dense ? layer->ffn.n_hidden : moe->shared_hidden);
        grow(&w.gated, layer->shared.is_there ? layer->ffn.n_hidden : 0);
        grow(&w.sparse, layer->ffn.is_sparse ? layer->ffn.n_hidden : 0);
        grow_retrieved(&w, &layer->ffn);
        grow_gated(&w, &layer->ffn);
        grow(&w.n_experts, moe->n_experts + moe->n_zero + moe->n_shared);
        grow(&w.n_shared, moe->n_shared);
        grow(&w.router_hidden, moe->router_hidden);
        grow(&w.shortcut, moe->shortcut || layer->takes_shortcut ? spec->dim : 0);
        grow(&w.n_used, moe->n_used);
        if (a->n_experts > 0) {
            grow(&w.n_experts, a->n_experts);
            grow(&w.n_used, a->n_used);
            grow(&w.expert_hidden, a->n_heads * a->k_dim);
            grow(&w.expert_out, a->n_used * spec->dim);
        }
        grow(&w.expert_hidden, moe->n_used * moe->n_hidden);
        grow(&w.expert_out, moe->n_used * spec->dim);
        grow(&w.expert_out, moe->n_used * moe->n_latent);
        grow(&w.expert_latent, moe->n_latent);
        grow(&w.shared, moe->shared_hidden > 0 || moe->beside ? spec->dim : 0);
        grow_convs(&w, spec, layer);
    }
    return w;
}

/* Of what is kept for a head of its own folder, or of what that reads. */
static size_t aux_hidden_width(const ln_spec *spec) {
    if (spec->assisted_dim > 0)
        return spec->assisted_dim;
    size_t n = spec->eagle.aux_layers.n > 0 ? spec->eagle.aux_layers.n : 3;
    return spec->eagle.is_head ? n * spec->eagle.model_dim : spec->aux_layers.n * spec->dim;
}

/* The same of what adapters need. */
static void lay_out_low(const ln_activations_shape *shape, const widths *w, ln_layout *layout,
                        char *memory, ln_activations *a) {
    size_t n_choices = shape->adapts_experts && w->n_used > 0 ? w->n_used : 1;
    a->low_stride = (shape->adapter_rank + LN_ADAPTER_ROWS - 1) / LN_ADAPTER_ROWS * LN_ADAPTER_ROWS;
    for (size_t i = 0; i < LN_MAX_LORA_WEIGHTS; i++) {
        size_t n_each = i < 2 ? n_choices : 1; /* at most ups and gates of experts */
        grow(&n_each, i == 0 ? w->rows : 1);
        size_t n_rows = shape->max_tokens * n_each;
        size_t offset = ln_layout_add(layout, n_rows, a->low_stride * sizeof(float));
        a->low[i] = memory != NULL ? (float *)(void *)(memory + offset) : NULL;
    }
}

/* What one rank of several has besides. */
static void lay_out_ranks(const ln_spec *spec, const ln_activations_shape *shape, ln_layout *layout,
                          char *memory, ln_activations *a) {
    size_t n_ranks = spec->ranks.n, vocab = ln_spec_leads(spec) ? 0 : spec->ranks.vocab.n;
    if (n_ranks == 0)
        return;
    size_t width = spec->dim;
    grow(&width, widths_of(spec).expert_latent);
    size_t sums = ln_collectives_scratch(n_ranks, shape->max_tokens * width);
    size_t rows = shape->max_logits * (vocab + 1);
    size_t partial = ln_layout_add(layout, spec->dim, shape->max_tokens * sizeof(float));
    size_t logits = ln_layout_add(layout, vocab, shape->max_logits * sizeof(float));
    size_t scratch = ln_layout_add(layout, sums > rows ? sums : rows, sizeof(float));
    if (memory == NULL)
        return;
    a->partial = (float *)(void *)(memory + partial);
    a->logits_part = (float *)(void *)(memory + logits);
    a->rank_scratch = (float *)(void *)(memory + scratch);
}

/* Messages of layers that run again. */
static void lay_out_messages(const ln_spec *spec, size_t row, ln_layout *layout, char *memory,
                             ln_activations *a) {
    size_t dim = spec->message_rank > 0 ? spec->dim : 0;
    size_t of_streams = dim > 0 ? (ln_spec_loop_blocks(spec) - 1) * dim : 0;
    for (size_t i = 0; i < 2; i++)
        a->message_streams[i] = ln_layout_place(layout, memory, of_streams, row);
    a->message = ln_layout_place(layout, memory, dim, row);
    a->message_pairs = ln_layout_place(layout, memory, 2 * dim, row);
    a->message_low = ln_layout_place(layout, memory, spec->message_rank, row);
    a->message_forget = ln_layout_place(layout, memory, dim, row);
    a->message_gain = ln_layout_place(layout, memory, dim, row);
}

/* Latents of queries, alone and in pairs, biases, what gates norms, and what stacks of cycles gave.
 */
static void lay_out_gates(const ln_spec *spec, const widths *w, size_t row, ln_layout *layout,
                          char *memory, ln_activations *a) {
    size_t rank = spec->norm_gate_rank;
    a->latent_q = ln_layout_place(layout, memory, w->latent_q, row);
    a->latent_pair = ln_layout_place(layout, memory, w->latent_pair, row);
    a->relative_queries = ln_layout_place(layout, memory, w->relative_queries, row);
    a->shared_weights = ln_layout_place(layout, memory, w->n_shared, row);
    a->token_sinks = ln_layout_place(layout, memory, w->token_sinks, row);
    a->conv_taps = ln_layout_place(layout, memory, w->conv_taps, row);
    size_t dim = spec->residual.n_blocks > 0 ? spec->dim : 0;
    a->block_streams = ln_layout_place(layout, memory, spec->residual.n_blocks * dim, row);
    a->key_input = ln_layout_place(layout, memory, dim, row);
    a->value_input = ln_layout_place(layout, memory, dim, row);
    lay_out_messages(spec, row, layout, memory, a);
    size_t cycle = spec->cycle_layers > 0 || spec->message_rank > 0 ? spec->dim : 0;
    bool loops = spec->loop_layers > 0 && !spec->repeats;
    a->cycle_high = ln_layout_place(layout, memory, loops ? spec->dim : cycle, row);
    a->cycle_low = ln_layout_place(layout, memory, cycle, row);
    a->norm_low = ln_layout_place(layout, memory, rank, row);
    a->norm_gate = ln_layout_place(layout, memory, rank > 0 ? spec->dim : 0, row);
}

/* Two rows side by side, and what blocks that layers share read and give. */
static void lay_out_block(const ln_spec *spec, size_t row, ln_layout *layout, char *memory,
                          ln_activations *a) {
    size_t dim = spec->shares_blocks ? spec->dim : 0;
    size_t of_head = has_pairs(spec) ? spec->dim : spec->assisted_dim;
    a->pairs = ln_layout_place(layout, memory, 2 * (of_head > 0 ? of_head : dim), row);
    a->embedded = ln_layout_place(layout, memory, dim, row);
    a->block = ln_layout_place(layout, memory, dim, row);
    a->block_low = ln_layout_place(layout, memory, spec->shared_rank, row);
}

/* Several residual streams, heads of indexers that are turned, and scales of queries. */
static void lay_out_hyper(const ln_spec *spec, const widths *w, size_t row, ln_layout *layout,
                          char *memory, ln_activations *a) {
    size_t n = spec->hyper.n;
    a->query_scales =
        ln_layout_place(layout, memory, spec->has_query_scales ? LN_QUERY_SCALE_WIDTH : 0, row);
    a->head_scales = ln_layout_place(layout, memory, w->head_scales, row);
    a->key_biases = ln_layout_place(layout, memory, w->biased_keys, row);
    a->key_bias_rows = ln_layout_place(layout, memory, w->biased_queries * LN_KEY_BIAS_DIMS, row);
    a->index_turned = ln_layout_place(layout, memory, w->turned, row);
    a->hyper = ln_layout_place(layout, memory, n * spec->dim, row);
    a->hyper_rows = ln_layout_place(layout, memory, n * spec->dim, row);
    a->hyper_mix = ln_layout_place(layout, memory, (spec->hyper.n_rounds > 0 ? 2 + n : 2) * n, row);
    a->hyper_matrix = ln_layout_place(layout, memory, spec->hyper.n_rounds > 0 ? n * n : 0, row);
    a->entry_rows = ln_layout_place(layout, memory, w->entry_rows, row);
    a->hyper_pre = ln_layout_place(layout, memory, n, row);
    a->hyper_post = ln_layout_place(layout, memory, n, row);
    size_t low_rank = spec->hyper.low_rank;
    a->hyper_low = ln_layout_place(layout, memory, low_rank, row);
    a->hyper_gate = ln_layout_place(layout, memory, low_rank > 0 ? n * spec->dim : 0, row);
    size_t n_before = spec->ngrams.n_layers > 0 ? spec->ngrams.n_tokens - 1 : 0;
    a->ngram_tokens = ln_layout_place(layout, memory, n_before, row);
    a->ngram_before = ln_layout_place(layout, memory, n_before, row);
    a->ngram_rows = ln_layout_place(layout, memory, n_before > 0 ? spec->ngrams.width : 0, row);
}

/* A router's logits, and what it goes through where it is a feed-forward. */
static void lay_out_router(const widths *w, size_t row, ln_layout *layout, char *memory,
                           ln_activations *a) {
    a->router = ln_layout_place(layout, memory, w->n_experts, row);
    a->router_state = ln_layout_place(layout, memory, w->router_hidden, row);
    a->router_normed = ln_layout_place(layout, memory, w->router_hidden, row);
    a->router_hidden = ln_layout_place(layout, memory, w->router_hidden, row);
}

/* Adds every activation to the layout; with memory, points at them. */
static void lay_out(const ln_spec *spec, const ln_activations_shape *shape, ln_layout *layout,
                    char *memory, ln_activations *a) {
    widths w = widths_of(spec);
    size_t row = shape->max_tokens * sizeof(float), max_logits = shape->max_logits;
#define PLACE(member, count, bytes) a->member = ln_layout_place(layout, memory, count, bytes)
    PLACE(x, spec->dim, row);
    PLACE(normed, spec->dim, row);
    PLACE(ffn_normed, spec->dim, row);
    PLACE(q, w.q, row);
    PLACE(k, w.k, row);
    PLACE(v, w.v, row);
    PLACE(attended, w.attended, row);
    PLACE(output_gate, w.output_gate, row);
    PLACE(latent_heads, w.latent_heads, row);
    lay_out_gates(spec, &w, row, layout, memory, a);
    PLACE(index_q, w.index_heads * w.index_dim, row);
    PLACE(index_k, w.index_dim, row);
    PLACE(index_weights, w.index_heads, row);
    PLACE(indices, w.top_k, row);
    lay_out_router(&w, row, layout, memory, a);
    PLACE(experts, w.n_used, row);
    PLACE(expert_weights, w.n_used, row);
    PLACE(expert_order, w.n_used, row);
    PLACE(expert_starts, w.n_experts > 0 ? w.n_experts + 1 : 0, sizeof(int32_t));
    PLACE(expert_hidden, w.expert_hidden, row);
    PLACE(expert_out, w.expert_out, row);
    PLACE(expert_latent, w.expert_latent, row);
    PLACE(shortcut, w.shortcut, row);
    PLACE(shared_out, w.shared, row);
    PLACE(shared_gate, w.shared > 0 ? 1 : 0, row);
    PLACE(hidden, w.hidden, row);
    PLACE(gated, w.gated, row);
    PLACE(conv_in, w.conv, row);
    PLACE(conv_out, w.conv, row);
    PLACE(mixer_gate, w.mixer_out, row);
    PLACE(mixer_out, w.mixer_out, row);
    PLACE(decay, w.decay, row);
    PLACE(beta, w.beta, row);
    PLACE(low_rank, w.low_rank, row);
    PLACE(lookup_rows, spec->n_layers * spec->lookup_dim, row);
    PLACE(lookup, spec->n_layers * spec->lookup_dim, row);
    PLACE(lookup_gate, spec->lookup_dim, row);
    size_t n_streams = spec->n_streams, n_all = n_streams > 0 ? n_streams + 1 : 0;
    PLACE(streams, n_streams * spec->dim, row);
    PLACE(stream_rows, n_streams * spec->dim, row);
    PLACE(stream_router, n_all, row);
    PLACE(stream_coefs, n_all * n_all, row);
    PLACE(predicted, n_streams > 0 ? spec->dim : 0, row);
    PLACE(laurel_low, spec->laurel_rank, row);
    PLACE(laurel, n_streams > 0 ? spec->dim : 0, row);
    PLACE(sparse_gate, w.sparse, row);
    PLACE(gathered, spec->has_order ? ln_step_limits_of(spec, 1, 1, 1).max_width : 0, row);
    PLACE(aux_hidden, aux_hidden_width(spec), row);
    PLACE(logits, w.logits, max_logits * sizeof(float));
    PLACE(chosen, spec->bidirectional ? 0 : LN_CHOSEN_BYTES, max_logits);
#undef PLACE
    lay_out_block(spec, row, layout, memory, a);
    lay_out_hyper(spec, &w, row, layout, memory, a);
    lay_out_low(shape, &w, layout, memory, a);
}

ln_status ln_activations_plan(const ln_spec *spec, const ln_activations_shape *shape, size_t *bytes,
                              ln_error *err) {
    ln_layout layout = {0};
    ln_activations unused;
    if (shape->max_tokens > SIZE_MAX / 64 || shape->max_logits > SIZE_MAX / 64)
        return ln_fail(err, LINNET_ERR_LIMIT, "%zu tokens in a step are too many",
                       shape->max_tokens);
    lay_out(spec, shape, &layout, NULL, &unused);
    lay_out_ranks(spec, shape, &layout, NULL, &unused);
    *bytes = layout.bytes;
    return ln_layout_check(&layout, "activations", err);
}

void ln_activations_bind(const ln_spec *spec, const ln_activations_shape *shape, void *memory,
                         ln_activations *activations) {
    ln_layout layout = {0};
    lay_out(spec, shape, &layout, memory, activations);
    lay_out_ranks(spec, shape, &layout, memory, activations);
}

/* ---- caches ------------------------------------------------------------------------------ */

size_t ln_activations_borders(const ln_spec *spec, const ln_activations *activations,
                              ln_border borders[LN_MAX_BORDERS]) {
    size_t n = 0;
    borders[n++] = (ln_border){activations->x, spec->dim};
    if (spec->lookup_dim > 0)
        borders[n++] = (ln_border){activations->lookup, spec->n_layers * spec->lookup_dim};
    if (spec->shares_blocks)
        borders[n++] = (ln_border){activations->embedded, spec->dim};
    if (spec->n_streams > 0)
        borders[n++] = (ln_border){activations->streams, spec->n_streams * spec->dim};
    if (spec->residual.n_blocks > 0)
        borders[n++] = (ln_border){activations->block_streams, spec->residual.n_blocks * spec->dim};
    if (spec->hyper.n > 0)
        borders[n++] = (ln_border){activations->hyper, spec->hyper.n * spec->dim};
    for (size_t i = 0, n_hidden = 0; i < spec->n_layers && n_hidden == 0; i++) {
        n_hidden = spec->layers[i].ffn.moe.router_hidden;
        if (n_hidden > 0) /* the next layer's router reads it */
            borders[n++] = (ln_border){activations->router_state, n_hidden};
    }
    if (widths_of(spec).shortcut > 0)
        borders[n++] = (ln_border){activations->shortcut, spec->dim};
    for (size_t i = 0; i < 2 && spec->cycle_layers > 0; i++)
        borders[n++] =
            (ln_border){i == 0 ? activations->cycle_high : activations->cycle_low, spec->dim};
    if (spec->loop_layers > 0 && !spec->repeats)
        borders[n++] = (ln_border){activations->cycle_high, spec->dim};
    if (spec->message_rank > 0)
        borders[n++] = (ln_border){activations->cycle_low, spec->dim};
    for (size_t i = 0; i < 2 && spec->message_rank > 0 && ln_spec_loop_blocks(spec) > 1; i++)
        borders[n++] = (ln_border){activations->message_streams[i],
                                   (ln_spec_loop_blocks(spec) - 1) * spec->dim};
    if (spec->n_indexers > 0) /* layers use positions that one before them has chosen */
        borders[n++] = (ln_border){(float *)(void *)activations->indices, widths_of(spec).top_k};
    return n;
}

/* Behind those of layers, and of their indexers and compressors: caches of n-grams. */
static size_t first_of_ngrams(const ln_spec *spec) {
    size_t n = ln_kv_layer_index(spec, spec->n_layers);
    return n + (spec->n_entry_caches > 0 ? spec->n_entry_caches : spec->n_indexers);
}

size_t ln_kv_layer_count(const ln_spec *spec) {
    size_t n = first_of_ngrams(spec) + 4 * spec->ngrams.n_layers;
    if (spec->n_encoder_layers > 0)
        n = 2 * spec->n_layers + 1;
    return n + spec->n_head_layers;
}

/* Whether it is a compressor's, or an indexer's: these are behind those of all layers. */
static bool is_of_entries(const ln_spec *spec, size_t index) {
    return spec->n_entry_caches > 0 && index >= ln_kv_layer_index(spec, spec->n_layers) &&
           index < first_of_ngrams(spec);
}

static bool is_of_ngrams(const ln_spec *spec, size_t index) {
    size_t first = first_of_ngrams(spec);
    return index >= first && index < first + 4 * spec->ngrams.n_layers;
}

static bool is_of_indexer(const ln_spec *spec, size_t index) {
    return spec->n_indexers > 0 && spec->n_entry_caches == 0 &&
           index >= ln_kv_layer_index(spec, spec->n_layers) && index < first_of_ngrams(spec);
}

size_t ln_kv_state_count(const ln_spec *spec) {
    return (spec->has_mixers ? spec->n_layers : 0) + 2 * spec->ngrams.n_layers;
}

size_t ln_kv_layers_bytes(const ln_spec *spec) {
    return ln_kv_layer_count(spec) * sizeof(ln_kv_layer) +
           ln_kv_state_count(spec) * sizeof(ln_state_cache);
}

/* The convolutions of n-grams: of tokens, which it moves, and of values. */
static ln_state_shape ngram_shape(const ln_spec *spec, bool of_values, size_t draft_tokens) {
    size_t n = spec->ngrams.n_tokens;
    ln_state_shape shape = {.conv_dim = n - 1, .n_taps = n};
    if (of_values) {
        shape.conv_dim = spec->hyper.n * spec->dim;
        shape.n_taps = (spec->ngrams.n_taps - 1) * n + 1;
    }
    shape.n_conv_rows = shape.n_taps + draft_tokens;
    return shape;
}

bool ln_kv_state_shape(const ln_spec *spec, size_t index, size_t draft_tokens,
                       ln_state_shape *shape, size_t *states) {
    size_t n_mixers = spec->has_mixers ? spec->n_layers : 0;
    if (index < n_mixers) {
        const ln_mixer_spec *mixer = &spec->layers[index].mixer;
        *shape = ln_mixer_state_shape(mixer, spec->dim, draft_tokens);
        *states = ln_kv_layer_index(spec, index) + 1;
        return mixer->kind != LN_MIXER_NONE;
    }
    *shape = ngram_shape(spec, (index - n_mixers) % 2 == 1, draft_tokens);
    *states = first_of_ngrams(spec) + 2 * (index - n_mixers);
    return true;
}

/* States or tails: a block is one row of floats. */
static void state_shape(const ln_state_shape *shape, bool is_tail, ln_kv_layer *kv) {
    kv->dtype = LN_KV_F32;
    kv->block_tokens = 1;
    kv->n_heads = 1;
    kv->k_dim = kv->v_dim = kv->v_stride =
        is_tail ? ln_tail_block_floats(shape) : ln_state_block_floats(shape);
}

/* Those of a recurrent layer: states (part 1) or tails (part 2). */
static void mixer_shape(const ln_spec *spec, const ln_mixer_spec *mixer, size_t part,
                        size_t draft_tokens, ln_kv_layer *kv) {
    ln_state_shape shape = ln_mixer_state_shape(mixer, spec->dim, draft_tokens);
    kv->group = part == 1 ? mixer->state_group : mixer->tail_group;
    state_shape(&shape, part == 2, kv);
}

/* The layer whose n-grams have cache number `index`. */
static size_t ngram_layer(const ln_spec *spec, size_t index) {
    size_t layer = 0, number = (index - first_of_ngrams(spec)) / 4;
    while (!spec->layers[layer].ngrams.is_there || spec->layers[layer].ngrams.number != number)
        layer++;
    return layer;
}

static void ngram_cache_shape(const ln_spec *spec, size_t index, size_t draft_tokens,
                              ln_kv_layer *kv) {
    const ln_layer_spec *layer = &spec->layers[ngram_layer(spec, index)];
    size_t part = index - layer->ngrams.kv_layer;
    ln_state_shape shape = ngram_shape(spec, part >= 2, draft_tokens);
    bool is_tail = part % 2 == 1;
    kv->group = is_tail ? layer->ngrams.tail_group : layer->ngrams.state_group;
    state_shape(&shape, is_tail, kv);
}

static size_t indexer_layer(const ln_spec *spec, size_t index) {
    size_t layer = 0;
    const ln_indexer_spec *indexer = &spec->layers[0].attention.indexer;
    while (indexer->top_k == 0 || indexer->shared || indexer->kv_layer != index)
        indexer = &spec->layers[++layer].attention.indexer;
    return layer;
}

/* Keys of an indexer, in blocks of the group that its layer has. */
static void indexer_shape(const ln_spec *spec, size_t index, ln_kv_layer *kv) {
    size_t layer = indexer_layer(spec, index);
    const ln_attention_spec *attention = &spec->layers[layer].attention;
    kv->group = attention->kv_group;
    kv->n_heads = 1;
    kv->k_dim = kv->v_dim = kv->v_stride = attention->indexer.head_dim;
}

/* The layer whose compressor has cache number `index`. */
static size_t compressor_layer(const ln_spec *spec, size_t index) {
    size_t layer = 0;
    const ln_compressor_spec *compressor = &spec->layers[0].attention.compressor;
    while (index - compressor->kv_layer >= ln_compressor_caches(compressor))
        compressor = &spec->layers[++layer].attention.compressor;
    return layer;
}

bool ln_kv_layer_is_exact(const ln_spec *spec, size_t index) {
    if (is_of_entries(spec, index)) {
        const ln_attention_spec *a = &spec->layers[compressor_layer(spec, index)].attention;
        return index - a->compressor.kv_layer != 1 || a->indexer.run_tokens > 0;
    }
    return is_of_indexer(spec, index);
}

/* Rows, or entries, of a compressor or of its indexer's. */
static void compressor_shape(const ln_spec *spec, size_t index, ln_kv_layer *kv) {
    const ln_attention_spec *a = &spec->layers[compressor_layer(spec, index)].attention;
    size_t part = index - a->compressor.kv_layer;
    bool is_indexers = part >= 2 || a->indexer.run_tokens > 0;
    size_t dim = is_indexers ? a->indexer.head_dim : a->k_dim;
    bool is_row = part % 2 == 0;
    kv->group = is_row ? a->compressor.row_group : a->compressor.entry_group;
    kv->n_heads = 1;
    kv->entry_tokens = is_row ? 0 : a->compressor.n_tokens;
    kv->k_dim = kv->v_dim = kv->v_stride = is_row ? (a->compressor.overlaps ? 4 : 2) * dim : dim;
}

static void attention_shape(const ln_attention_spec *attention, ln_kv_layer *kv, bool *v_in_k) {
    *v_in_k = attention->latent.n_latent > 0 || attention->compressed.q_latent > 0;
    kv->group = attention->kv_group;
    kv->n_heads = attention->borrows_kv ? 0 : attention->n_kv_heads;
    kv->k_dim = attention->k_dim;
    kv->v_dim = attention->v_dim;
    kv->v_stride = *v_in_k ? attention->k_dim : attention->v_dim;
}

/* The layer whose cache it is; of the encoder's the first. */
static size_t layer_of_cache(const ln_spec *spec, size_t index) {
    if (is_of_indexer(spec, index))
        return indexer_layer(spec, index);
    if (is_of_entries(spec, index))
        return compressor_layer(spec, index);
    if (is_of_ngrams(spec, index))
        return ngram_layer(spec, index);
    if (spec->has_mixers)
        return index / 3;
    return index < 2 * spec->n_layers ? index % spec->n_layers : 0;
}

static void cache_shape(const ln_spec *spec, size_t index, size_t draft_tokens, ln_kv_layer *kv,
                        bool *v_in_k) {
    *v_in_k = true;
    size_t first_of_head = ln_kv_layer_count(spec) - spec->n_head_layers;
    if (index >= first_of_head) {
        attention_shape(&spec->head[index - first_of_head].attention, kv, v_in_k);
        return;
    }
    if (is_of_indexer(spec, index)) {
        indexer_shape(spec, index, kv);
        return;
    }
    if (is_of_entries(spec, index)) {
        compressor_shape(spec, index, kv);
        return;
    }
    if (is_of_ngrams(spec, index)) {
        ngram_cache_shape(spec, index, draft_tokens, kv);
        return;
    }
    if (spec->has_mixers && index % 3 > 0) {
        const ln_mixer_spec *mixer = &spec->layers[index / 3].mixer;
        mixer_shape(spec, mixer, index % 3, draft_tokens, kv);
        return;
    }
    index = spec->has_mixers ? index / 3 : index;
    if (spec->bidirectional && index > 0) { /* all layers use the first one's in turn */
        attention_shape(&spec->layers[index].attention, kv, v_in_k);
        kv->n_heads = 0;
        return;
    }
    bool is_encoder = index == 2 * spec->n_layers;
    bool is_cross = !is_encoder && index >= spec->n_layers;
    const ln_layer_spec *layer =
        is_encoder ? &spec->encoder_layers[0] : &spec->layers[index % spec->n_layers];
    attention_shape(&layer->attention, kv, v_in_k);
    if (!is_cross)
        return;
    kv->group = layer->cross_kv_group;
    kv->n_heads = layer->attention.n_heads;
}

void ln_kv_layer_shape(const ln_spec *spec, size_t index, size_t draft_tokens, ln_kv_layer *kv,
                       bool *v_in_k) {
    cache_shape(spec, index, draft_tokens, kv, v_in_k);
    if (!ln_spec_has_layer(spec, layer_of_cache(spec, index)))
        kv->n_heads = 0;
}

size_t ln_kv_first_shared(const ln_spec *spec) {
    size_t first = spec->n_layers;
    for (size_t i = 0; i < spec->n_layers; i++)
        if (spec->layers[i].attention.borrows_kv && spec->layers[i].attention.kv_layer < first)
            first = spec->layers[i].attention.kv_layer;
    return first;
}

static size_t fill_up(size_t n_cols) {
    return (n_cols + LN_GROUPED_COLUMNS - 1) / LN_GROUPED_COLUMNS * LN_GROUPED_COLUMNS;
}

/* Rows of one token, with their columns, that meet a matrix for each group of them. */
static void grow_grouped(ln_step_limits *limits, size_t n_rows, size_t n_cols) {
    grow(&limits->max_grouped_width, n_rows * fill_up(n_cols));
}

/* Rows of attention that meet a matrix for each expert or head. */
static void grow_attention(ln_step_limits *limits, const ln_layer_spec *layer, size_t dim) {
    const ln_attention_spec *attention = &layer->attention;
    if (attention->n_experts > 0) {
        size_t width = attention->n_kv_heads * attention->k_dim;
        grow_grouped(limits, attention->n_used, dim);
        grow_grouped(limits, attention->n_used, width);
        grow(&limits->max_expert_width, fill_up(dim));
        grow(&limits->max_expert_width, fill_up(width));
        grow(&limits->max_experts, attention->n_experts);
    }
    if (attention->differential)
        grow_grouped(limits, attention->n_kv_heads, dim);
    if (attention->convolved)
        grow_grouped(limits, ln_mixer_conv_units(&layer->mixer),
                     layer->mixer.v_dim * layer->mixer.n_head_taps);
    if (attention->compressed.q_latent > 0)
        grow_grouped(limits, attention->compressed.n_groups,
                     attention->n_heads * attention->k_dim / attention->compressed.n_groups);
    if (attention->latent.n_latent > 0) {
        grow_grouped(limits, attention->n_heads, attention->latent.n_plain);
        grow_grouped(limits, attention->n_heads, attention->latent.n_latent);
    }
}

ln_step_limits ln_step_limits_of(const ln_spec *spec, size_t max_tokens, size_t max_seqs,
                                 size_t max_ctx) {
    ln_step_limits limits = {
        .max_tokens = max_tokens, .max_seqs = max_seqs, .max_ctx = max_ctx, .max_width = spec->dim};
    grow(&limits.max_width, spec->n_layers * spec->lookup_dim);
    grow(&limits.max_width, spec->laurel_rank);
    grow(&limits.max_width, spec->hyper.n * spec->dim);
    grow(&limits.max_width, spec->hyper.low_rank);
    grow(&limits.max_width, spec->ngrams.n_layers > 0 ? spec->ngrams.width : 0);
    grow(&limits.max_width, has_pairs(spec) ? 2 * spec->dim : 0);
    grow(&limits.max_width, aux_hidden_width(spec));
    if (spec->n_streams > 0)
        grow_grouped(&limits, spec->n_streams, spec->dim);
    for (size_t i = 0; i < count_layers(spec); i++) {
        if (!is_here(spec, i))
            continue;
        const ln_layer_spec *layer = any_layer(spec, i);
        const ln_attention_spec *attention = &layer->attention;
        const ln_moe_spec *moe = &layer->ffn.moe;
        size_t head_dim = attention->k_dim > attention->v_dim ? attention->k_dim : attention->v_dim;
        grow(&limits.max_head_dim, head_dim);
        grow(&limits.max_head_dim, attention->indexer.head_dim);
        grow(&limits.max_width, attention->indexer.n_heads * attention->indexer.head_dim);
        if (attention->indexer.top_k > 0)
            limits.max_indexed = max_ctx;
        grow(&limits.max_heads, attention->n_heads);
        grow(&limits.max_width, attention->n_heads * head_dim);
        grow(&limits.max_width, attention->n_heads * attention->relative_dim);
        grow(&limits.max_width, layer->mixer.n_heads * layer->mixer.v_dim);
        grow(&limits.max_state_dim, layer->mixer.k_dim);
        if (!ln_mixer_state_shape(&layer->mixer, spec->dim, 0).selective) /* by a few columns */
            grow(&limits.max_state_dim, layer->mixer.v_dim);
        if (layer->mixer.n_gate_blocks > 0)
            grow_grouped(&limits, layer->mixer.n_gate_blocks,
                         layer->mixer.v_dim / layer->mixer.n_gate_blocks);
        grow(&limits.max_width, attention->n_heads * attention->latent.v_dim);
        grow(&limits.max_width, attention->latent.q_latent);
        grow(&limits.max_width, attention->compressed.q_latent);
        grow(&limits.max_width, attention->compressed.n_groups * attention->compressed.group_width);
        grow(&limits.max_width, attention->latent.n_plain);
        grow(&limits.max_width, attention->latent.n_latent);
        grow(&limits.max_width, layer->ffn.n_hidden);
        grow(&limits.max_width, layer->ffn.retrieved.n_experts);
        grow(&limits.max_width, moe->n_hidden);
        grow(&limits.max_width, moe->n_latent);
        grow(&limits.max_width, moe->shared_hidden);
        grow(&limits.max_experts, moe->n_experts + moe->n_shared);
        if (moe->n_experts > 0) {
            grow_grouped(&limits, moe->n_used, spec->dim);
            grow_grouped(&limits, moe->n_used, moe->n_hidden);
            grow_grouped(&limits, moe->n_used, moe->n_latent);
            grow(&limits.max_expert_width, fill_up(spec->dim));
            grow(&limits.max_expert_width, fill_up(moe->n_hidden));
            grow(&limits.max_expert_width, fill_up(moe->n_latent));
        }
        grow_attention(&limits, layer, spec->dim);
        grow(&limits.max_width, moe->router_hidden);
    }
    return limits;
}
