#include <math.h>
#include <stdint.h>
#include <string.h>

#include "convert/compressed.h"
#include "convert/dflash.h"
#include "convert/hyper.h"
#include "convert/metadata.h"
#include "convert/ngrams.h"
#include "convert/sparse_blocks.h"
#include "model/xielu.h"

typedef struct putter {
    const ln_convert_plan *plan;
    ln_gguf_writer *writer;
    ln_status *status; /* of all that was put so far */
} putter;

static void put_size(const putter *p, const char *name, size_t value) {
    if (value > UINT32_MAX && *p->status == LINNET_OK)
        *p->status = ln_fail(
            p->plan->err, LINNET_ERR_LIMIT, "%s: %s would be %zu, which GGUF's 32 bits do not hold",
            ln_checkpoint_path(p->plan->checkpoint), ln_convert_key_of(p->plan, name).text, value);
    ln_gguf_put_u32(p->writer, ln_convert_key_of(p->plan, name).text, (uint32_t)value);
}

static void put_real(const putter *p, const char *name, double value) {
    ln_gguf_put_f32(p->writer, ln_convert_key_of(p->plan, name).text, (float)value);
}

static void put_flag(const putter *p, const char *name, bool value) {
    ln_gguf_put_bool(p->writer, ln_convert_key_of(p->plan, name).text, value);
}

static void put_text(const putter *p, const char *name, const char *value) {
    ln_gguf_put_string(p->writer, ln_convert_key_of(p->plan, name).text, value, strlen(value));
}

static bool is(const putter *p, const char *architecture) {
    return strcmp(p->plan->architecture, architecture) == 0;
}

static void put_once(const putter *p, const char *name, size_t value, size_t *put) {
    if (*put != value)
        put_size(p, name, value);
    *put = value;
}

/* Queries that grow with their position: all do so alike. */
static void put_query_scale(const putter *p) {
    const ln_spec *spec = p->plan->spec;
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_query_scale *scale = &spec->layers[i].attention.q_scale;
        if (scale->beta == 0)
            continue;
        put_real(p, "attention.temperature_scale", (double)scale->beta);
        put_size(p, "attention.temperature_length", (size_t)scale->period);
        return;
    }
    if (p->plan->target->query_scale != LN_QUERY_SCALE_NONE)
        put_real(p, "attention.temperature_scale", 0);
}

static void put_indexer(const putter *p) {
    const ln_spec *spec = p->plan->spec;
    const ln_indexer_spec *indexer = &spec->layers[0].attention.indexer;
    uint8_t full[LN_MAX_LAYERS];
    for (size_t i = 0; i < spec->n_layers && indexer->top_k == 0; i++)
        indexer = &spec->layers[i].attention.indexer;
    if (indexer->top_k == 0)
        return;
    put_size(p, "attention.indexer.head_count", indexer->n_heads);
    put_size(p, "attention.indexer.key_length", indexer->head_dim);
    size_t n_tokens = indexer->run_tokens > 0 ? indexer->run_tokens : 1; /* of each choice */
    put_size(p, "attention.indexer.top_k", indexer->top_k * n_tokens);
    bool by_kind = p->plan->target->latents_by_kind; /* windowed layers have none */
    for (size_t i = 0; i < spec->n_layers; i++)
        full[i] = !spec->layers[i].attention.indexer.shared &&
                  !(by_kind && spec->layers[i].attention.window > 0);
    if (is(p, "glm-dsa") || p->plan->target->index_runs || p->plan->target->index_turns_last ||
        by_kind)
        ln_gguf_put_array(p->writer, ln_convert_key_of(p->plan, "attention.indexer.types").text,
                          LN_GGUF_BOOL, full, spec->n_layers);
    if (!p->plan->target->index_runs)
        return;
    put_size(p, "attention.indexer.kpool", indexer->run_tokens);
    put_flag(p, "attention.indexer.kpool_select_tail", true);
    put_real(p, "attention.layer_norm_epsilon", 1e-6); /* of its keys */
}

/* Which layers see a window, and of some families which rotate. */
static void put_window_list(const putter *p) {
    const ln_spec *spec = p->plan->spec;
    uint8_t windowed[LN_MAX_LAYERS], rotates[LN_MAX_LAYERS];
    bool all_rotate = true;
    if (!p->plan->target->gguf_window_list)
        return;
    for (size_t i = 0; i < spec->n_layers; i++) {
        windowed[i] = spec->layers[i].attention.window > 0;
        rotates[i] = spec->layers[i].attention.rope >= 0;
        all_rotate = all_rotate && rotates[i];
    }
    ln_gguf_put_array(p->writer,
                      ln_convert_key_of(p->plan, "attention.sliding_window_pattern").text,
                      LN_GGUF_BOOL, windowed, spec->n_layers);
    if (p->plan->target->rope_rule == LN_ROPE_LISTED_BASES && !all_rotate)
        ln_gguf_put_array(p->writer, ln_convert_key_of(p->plan, "attention.rope_pattern").text,
                          LN_GGUF_BOOL, rotates, spec->n_layers);
}

/* Sizes of heads; those of latents are of what the cache has, where readers do not join what makes
 * keys and values. */
static void put_heads(const putter *p, const ln_attention_spec *a) {
    const ln_latent_spec *latent = &a->latent;
    bool joins = latent->n_latent > 0 && ln_convert_joins_kv_b(p->plan);
    if (!ln_convert_lists_kv_heads(p->plan))
        put_size(p, "attention.head_count_kv", joins ? a->n_heads : a->n_kv_heads);
    put_size(p, "attention.key_length", joins ? latent->n_plain + latent->n_rope : a->k_dim);
    put_size(p, "attention.value_length", joins ? latent->v_dim : a->v_dim);
}

static void put_latent(const putter *p, const ln_latent_spec *latent) {
    if (latent->n_latent == 0 || p->plan->target->latents_by_kind) /* lists have them */
        return;
    if (latent->q_latent > 0)
        put_size(p, "attention.q_lora_rank", latent->q_latent);
    put_size(p, "attention.kv_lora_rank", latent->n_latent);
    if (ln_convert_joins_kv_b(p->plan))
        return;
    put_size(p, "attention.key_length_mla", latent->n_plain + latent->n_rope);
    put_size(p, "attention.value_length_mla", latent->v_dim);
}

static void put_attention(const putter *p) {
    const ln_spec *spec = p->plan->spec;
    const ln_attention_spec *a = ln_convert_attention(spec);
    const ln_latent_spec *latent = &a->latent;
    size_t window = 0, chunk = 0;
    bool has_lists = ln_convert_has_lists(p->plan);
    bool lists_heads = p->plan->target->lists_alone || p->plan->target->gguf_lists ||
                       p->plan->target->latents_by_kind;
    if (!has_lists || !lists_heads)
        put_size(p, "attention.head_count", a->n_heads);
    if (!has_lists && a->n_heads > 0)
        put_heads(p, a);
    put_latent(p, latent);
    put_real(p,
             spec->norm_kind == LN_NORM_LAYER ? "attention.layer_norm_epsilon"
                                              : "attention.layer_norm_rms_epsilon",
             (double)spec->norm_eps);
    if (is(p, "phimoe")) /* its readers ask for this one, though its norms are layer norms */
        put_real(p, "attention.layer_norm_rms_epsilon", (double)spec->norm_eps);
    if (latent->n_latent > 0 && spec->latent_norm_eps != spec->norm_eps)
        put_real(p, "attention.latent_layer_norm_rms_epsilon", (double)spec->latent_norm_eps);
    double scale = ln_convert_default_scale(p->plan);
    bool folded = p->plan->target->gguf_folds_scales || a->n_heads == 0;
    folded = folded || ln_convert_weighs_qk(p->plan); /* into weights of norms */
    if (!folded && fabs((double)a->scale / scale - 1) > 1e-6)
        put_real(p, "attention.scale", (double)a->scale);
    if (a->v_scale != 1 && !folded)
        put_real(p, "attention.value_scale", (double)a->v_scale);
    if (a->clip > 0)
        put_real(p, "attention.clamp_kqv", (double)a->clip);
    if (spec->positions == LN_POSITIONS_ALIBI && p->plan->target->gguf_clips)
        put_real(p, "attention.max_alibi_bias", 8);
    if (a->softcap > 0)
        put_real(p, "attn_logit_softcapping", (double)a->softcap);
    for (size_t i = 0; i < spec->n_layers; i++)
        if (spec->layers[i].attention.window > 0)
            window = spec->layers[i].attention.window;
        else if (spec->layers[i].attention.chunk > 0)
            put_once(p, "attention.chunk_size", spec->layers[i].attention.chunk, &chunk);
    if (!has_lists &&
        (window > 0 || is(p, "phi3"))) /* Phi 3's readers guess one unless it is said */
        put_size(p, "attention.sliding_window", window);
    put_window_list(p);
    put_query_scale(p);
    put_indexer(p);
    if (spec->positions == LN_POSITIONS_RELATIVE)
        put_size(p, "attention.relative_buckets_count", spec->n_relative_buckets);
}

/* Latent attention's readers derive the scale of scores from the multiplier; no others read it. */
static void put_yarn(const putter *p, const ln_rope_spec *rope) {
    bool is_latent = ln_convert_attention(p->plan->spec)->latent.n_latent > 0;
    put_text(p, "rope.scaling.type", "yarn");
    put_real(p, "rope.scaling.factor", rope->factor);
    put_size(p, "rope.scaling.original_context_length", (size_t)rope->original_ctx);
    if (rope->beta_fast != 32 || rope->beta_slow != 1) {
        put_real(p, "rope.scaling.yarn_beta_fast", rope->beta_fast);
        put_real(p, "rope.scaling.yarn_beta_slow", rope->beta_slow);
    }
    if (!rope->truncate)
        put_flag(p, "rope.scaling.yarn_truncate", false);
    double extra = ln_convert_yarn_extra(rope);
    if (is_latent && rope->mscale_all_dim > 0)
        put_real(p, "rope.scaling.yarn_log_multiplier", 0.1 * rope->mscale_all_dim);
    else if (fabs(extra - 1) > 1e-7 && !p->plan->target->compressed_attention)
        put_real(p, "rope.scaling.attn_factor", extra);
}

static void put_rope(const putter *p) {
    const ln_spec *spec = p->plan->spec;
    const ln_rope_spec *rope = &spec->ropes[0];
    if (spec->n_ropes == 0) {
        if (ln_convert_attention(spec)->latent.n_latent > 0) /* else readers turn all of a head */
            put_size(p, "rope.dimension_count", 0);
        return;
    }
    if (p->plan->target->still_latents) { /* they have a width, and do not turn */
        put_size(p, "rope.dimension_count", rope->n_dims);
        return;
    }
    put_size(p, "rope.dimension_count", rope->n_dims * (p->plan->target->gguf_half_rope ? 2 : 1));
    bool is_compressed =
        p->plan->target->compressed_attention; /* whose base has a key of its own */
    put_real(p, "rope.freq_base", spec->ropes[is_compressed ? 1 : 0].theta);
    bool is_asked = is(p, "qwen35") || is(p, "qwen35moe") || is(p, "qwen4exp"); /* by readers */
    int32_t sections[4] = {11, 11, 10, 0};
    for (size_t i = 0; i < 4 && rope->sections[0] > 0; i++)
        sections[i] = (int32_t)rope->sections[i];
    if (rope->sections[0] > 0 || is_asked)
        ln_gguf_put_array(p->writer, ln_convert_key_of(p->plan, "rope.dimension_sections").text,
                          LN_GGUF_I32, sections, 4);
    if (spec->n_ropes > 1 && p->plan->target->local_theta > 0)
        put_real(p, "rope.freq_base_swa", spec->ropes[1].theta);
    if (rope->scaling == LN_ROPE_LINEAR) {
        put_text(p, "rope.scaling.type", "linear");
        put_real(p, "rope.scaling.factor", rope->factor);
    } else if (rope->scaling == LN_ROPE_YARN) {
        put_yarn(p, rope);
    } else if (rope->scaling == LN_ROPE_LONGROPE) {
        double stretch = rope->trained_ctx / rope->original_ctx;
        double factor = stretch > 1 ? sqrt(1 + log(stretch) / log(rope->original_ctx)) : 1;
        put_text(p, "rope.scaling.type", "longrope");
        put_size(p, "rope.scaling.original_context_length", (size_t)rope->original_ctx);
        put_real(p, "rope.scaling.attn_factor", factor);
    }
}

static void put_experts(const putter *p) {
    const ln_spec *spec = p->plan->spec;
    ln_convert_mixtures mixtures = ln_convert_mixtures_of(spec);
    const ln_moe_spec *moe = NULL;
    for (size_t i = 0; i < spec->n_layers; i++)
        if (spec->layers[i].ffn.moe.n_experts > 0)
            moe = &spec->layers[i].ffn.moe;
    if (moe == NULL && is(p, "deepseek2")) { /* its readers ask for these even so */
        put_size(p, "leading_dense_block_count", spec->n_layers);
        put_size(p, "expert_feed_forward_length", spec->layers[0].ffn.n_hidden);
        put_size(p, "expert_shared_count", 0);
    }
    if (moe == NULL && is(p, "granitehybrid")) {
        put_size(p, "expert_count", 0);
        put_size(p, "expert_used_count", 0);
        put_size(p, "expert_shared_feed_forward_length", ln_convert_ffn(spec)->n_hidden);
    }
    if (moe == NULL)
        return;
    put_size(p, "expert_count", moe->n_experts);
    put_size(p, "expert_used_count", moe->n_used);
    if (!is(p, "llama"))
        put_size(p, "expert_feed_forward_length", moe->n_hidden);
    if (moe->n_latent > 0)
        put_size(p, is(p, "kimi-k3") ? "expert_latent_length" : "moe_latent_size", moe->n_latent);
    if (moe->router != LN_ROUTER_SOFTMAX_CHOSEN)
        put_flag(p, "expert_weights_norm", moe->normalize);
    if (p->plan->target->gguf_dense_first)
        put_size(p, "leading_dense_block_count", mixtures.n_dense_first);
    if (p->plan->target->gguf_dense_between)
        put_size(p, "interleave_moe_layer_step", mixtures.step);
    bool is_root = moe->router == LN_ROUTER_ROOT_SOFTPLUS;
    if (p->plan->target->gguf_dense_first || moe->router == LN_ROUTER_SIGMOID || is_root ||
        p->plan->target->routes_first) {
        put_size(p, "expert_shared_count", moe->shared_hidden / moe->n_hidden);
        put_size(p, "expert_gating_func", is_root ? 4 : moe->router == LN_ROUTER_SIGMOID ? 2 : 1);
        put_real(p, "expert_weights_scale", (double)moe->scale / (double)moe->shared_scale);
    }
    if (moe->shared_hidden > 0 && !is(p, "deepseek2"))
        put_size(p, "expert_shared_feed_forward_length", moe->shared_hidden);
    if (moe->n_groups > 0) {
        put_size(p, "expert_group_count", moe->n_groups);
        put_size(p, "expert_group_used_count", moe->n_groups_used);
    }
}

/* Block attention residuals, and caps of what is gated. */
static void put_blocks(const putter *p, const ln_ffn_spec *ffn) {
    const ln_spec *spec = p->plan->spec;
    if (spec->residual.n_blocks == 0)
        return;
    put_size(p, "attn_res.block_size", spec->residual.n_layers);
    put_real(p, "activation.situ_beta", (double)ffn->gate_cap);
    put_real(p, "activation.situ_linear_beta", (double)ffn->up_cap);
}

/* xIELU's parameters of all layers, an array for each. */
static void put_xielu(const putter *p) {
    static const char *const names[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta",
                                        "xielu.eps"};
    size_t n_layers = p->plan->spec->n_layers;
    float values[4][LN_MAX_LAYERS];
    for (size_t i = 0; i < n_layers && *p->status == LINNET_OK; i++) {
        ln_xielu stored = {0};
        *p->status =
            ln_xielu_read(p->plan->checkpoint, p->plan->spec, i, NULL, true, &stored, p->plan->err);
        values[0][i] = stored.alpha_p;
        values[1][i] = stored.alpha_n;
        values[2][i] = stored.beta;
        values[3][i] = stored.eps;
    }
    for (size_t i = 0; i < 4 && *p->status == LINNET_OK; i++)
        ln_gguf_put_array(p->writer, names[i], LN_GGUF_F32, values[i], n_layers);
}

/* Multipliers; some architectures must be told even of those that are 1. */
static void put_scales(const putter *p) {
    const ln_spec *spec = p->plan->spec;
    bool all = is(p, "granite") || is(p, "granitehybrid"),
         cohere = is(p, "command-r") || is(p, "cohere2");
    double derived = p->plan->target->scale_embedding ? sqrt((double)spec->dim) : 1;
    double logit = (double)spec->logit_scale;
    if (all || fabs((double)spec->embedding_scale / derived - 1) > 1e-6)
        put_real(p, "embedding_scale", (double)spec->embedding_scale);
    if (all || spec->residual_scale != 1)
        put_real(p, "residual_scale", (double)spec->residual_scale);
    bool folded = p->plan->target->scale_tied_logits; /* into the output */
    if (all || cohere || (logit != 1 && !folded))
        put_real(p, "logit_scale", p->plan->target->divide_logits ? 1 / logit : logit);
    if (spec->logit_softcap > 0)
        put_real(p, "final_logit_softcapping", (double)spec->logit_softcap);
}

ln_status ln_convert_put_keys(const ln_convert_plan *plan, ln_gguf_writer *writer) {
    ln_status status = LINNET_OK;
    putter p = {plan, writer, &status};
    const ln_spec *spec = plan->spec;
    const ln_ffn_spec *ffn = ln_convert_ffn(spec);
    if (spec->n_vocab > 0)
        put_size(&p, "vocab_size", spec->n_vocab);
    put_size(&p, "context_length", spec->ctx_tokens);
    put_size(&p, "embedding_length", spec->dim);
    if (ln_convert_has_lists(plan))
        ln_convert_put_by_layer(plan, writer);
    else if (!plan->target->one_block || plan->target->mixer_word == NULL)
        put_size(&p, "feed_forward_length", ffn->n_hidden * (plan->target->halves_hidden ? 2 : 1));
    if (plan->target->limit_lists)
        ln_convert_put_limits(plan, writer);
    if (ffn->xielu)
        put_xielu(&p);
    if (spec->n_encoder_layers > 0) {
        put_size(&p, "block_count", spec->n_encoder_layers);
        put_size(&p, "decoder_block_count", spec->n_layers);
        put_size(&p, "decoder_start_token_id", (size_t)spec->decoder_start_id);
    } else {
        size_t n_layers = spec->repeats ? spec->loop_layers : spec->n_layers;
        put_size(&p, "block_count", n_layers + ln_convert_has_head(plan));
    }
    if (spec->repeats) {
        put_size(&p, "num_loops", spec->n_loops);
        put_flag(&p, "skip_loop_final_norm", !spec->norms_repeats);
    }
    if (ln_convert_has_head(plan))
        put_size(&p, "nextn_predict_layers", 1);
    if (spec->assisted_dim > 0) {
        put_size(&p, "nextn_predict_layers", spec->n_layers);
        put_size(&p, "embedding_length_out", spec->assisted_dim);
    }
    if (spec->cycle_layers > 0) {
        put_size(&p, "hrm.layers_per_stack", spec->cycle_layers);
        put_size(&p, "hrm.h_cycles", spec->n_layers / (spec->cycle_layers * spec->cycle_stacks));
        put_size(&p, "hrm.l_cycles", spec->cycle_stacks - 1);
    }
    put_attention(&p);
    put_blocks(&p, ffn);
    ln_convert_put_compressed(plan, writer);
    ln_convert_put_hyper(plan, writer);
    if (status == LINNET_OK)
        status = ln_convert_put_ngrams(plan, writer);
    ln_convert_put_dflash(plan, writer);
    ln_convert_put_blocks(plan, writer);
    ln_convert_put_embedder(plan, writer);
    put_rope(&p);
    put_experts(&p);
    if (!plan->target->gguf_folds_scales)
        put_scales(&p);
    ln_convert_put_mixers(plan, writer);
    if (plan->target->parallel_key != NULL)
        put_flag(&p, plan->target->parallel_key, spec->layers[0].placement == LN_PLACE_PARALLEL);
    return status;
}
