#include <math.h>
#include <stdio.h>
#include <string.h>

#include "convert/compressed.h"
#include "convert/dflash.h"
#include "convert/ngrams.h"
#include "convert/plan.h"
#include "convert/sparse_blocks.h"

static ln_status refuse(const ln_convert_plan *plan, const char *what) {
    return ln_fail(plan->err, LINNET_ERR_UNSUPPORTED, "%s: GGUF's \"%s\" has no form for %s",
                   ln_checkpoint_path(plan->checkpoint), plan->architecture, what);
}

/* Where models of a family have several names: by experts, and by recurrent layers. */
static const char *name_of_kind(const ln_spec *spec, const char *names) {
    const ln_family *family = spec->family;
    bool has_experts = ln_convert_mixtures_of(spec).n_mixtures > 0;
    if (family->gguf_unnormed != NULL && ln_convert_attention(spec)->qk_norm == LN_QK_NORM_NONE)
        return family->gguf_unnormed;
    if (family->gguf_even != NULL && !spec->has_mixers)
        return has_experts ? strchr(family->gguf_even, '|') + 1 : family->gguf_even;
    return has_experts && family->gguf_mixture != NULL ? family->gguf_mixture : names;
}

static ln_status find_target(ln_convert_plan *plan) {
    const ln_family *family = plan->spec->family;
    const char *names = family->gguf != NULL ? family->gguf : family->gguf_as;
    if (names == NULL || (family->drafts && !family->assists &&
                          !family->drafts_blocks)) /* GGUF has layers of the model */
        return ln_fail(plan->err, LINNET_ERR_UNSUPPORTED,
                       "%s: the architecture \"%s\" cannot be written as GGUF",
                       ln_checkpoint_path(plan->checkpoint), family->name);
    names = name_of_kind(plan->spec, names);
    snprintf(plan->architecture, sizeof plan->architecture, "%.*s", (int)strcspn(names, "|"),
             names);
    bool is_own = family->gguf != NULL &&
                  ln_list_has(family->gguf, plan->architecture, strlen(plan->architecture));
    plan->target = is_own ? family : NULL;
    for (size_t i = 0; ln_families[i] != NULL && plan->target == NULL; i++)
        if (ln_families[i]->gguf != NULL &&
            ln_list_has(ln_families[i]->gguf, plan->architecture, strlen(plan->architecture)))
            plan->target = ln_families[i];
    LN_BUG_ON(plan->target == NULL);
    return LINNET_OK;
}

static size_t window_of(const ln_layer_spec *layer) {
    return layer->attention.window > 0 ? layer->attention.window : layer->attention.chunk;
}

/* Which layers see a window follows from the architecture. */
static ln_status check_windows(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    ln_window_rule rule = plan->target->gguf_window != LN_WINDOW_NEVER ? plan->target->gguf_window
                                                                       : plan->target->window;
    size_t window = 0;
    if (plan->target->compressed_attention) {
        const char *unknown = ln_convert_uncompressed(spec);
        return unknown != NULL ? refuse(plan, unknown) : LINNET_OK;
    }
    bool is_local = plan->target->local_rope; /* then what sees a window rotates by its table */
    for (size_t i = 0; i < spec->n_layers && ln_convert_has_lists(plan); i++)
        if (is_local &&
            (spec->layers[i].attention.rope == 1) != (spec->layers[i].attention.window > 0))
            return refuse(plan, "layers of the windowed kind without a window");
    for (size_t i = 0; i < spec->n_layers && plan->target->rope_rule == LN_ROPE_LISTED; i++)
        if ((spec->layers[i].attention.rope >= 0) != (spec->layers[i].attention.window > 0))
            return refuse(plan, "layers that rotate without a window");
    if (plan->target->gguf_post_eps > 0 &&
        spec->post_norm_eps != (float)plan->target->gguf_post_eps)
        return refuse(plan, "this epsilon of norms behind blocks");
    if (ln_convert_has_lists(plan) || plan->target->gguf_window_list) /* a list says it */
        return LINNET_OK;
    for (size_t i = 0; i < spec->n_layers; i++)
        if (window_of(&spec->layers[i]) > 0)
            window = window_of(&spec->layers[i]);
    for (size_t i = 0; i < spec->n_layers && window > 0; i++) {
        bool windowed = rule == LN_WINDOW_ALL;
        if (rule == LN_WINDOW_PERIOD)
            windowed = (i + 1) % plan->target->window_period != 0;
        if (rule == LN_WINDOW_BEHIND)
            windowed = i % plan->target->window_period != 0;
        if (rule == LN_WINDOW_ROTATED)
            windowed = spec->layers[i].attention.rope >= 0;
        if (window_of(&spec->layers[i]) != (windowed ? window : 0))
            return refuse(plan, "which layers see a sliding window");
    }
    ln_rope_rule rotation = plan->target->rope_rule;
    bool by_window =
        rotation == LN_ROPE_WINDOWED_LAYERS || (rotation == LN_ROPE_WINDOWED_OR_ALL && window > 0);
    bool by_none = rotation == LN_ROPE_WINDOWED_OR_ALL && window == 0;
    for (size_t i = 0; i < spec->n_layers && (by_window || by_none); i++)
        if ((spec->layers[i].attention.rope >= 0) != (by_none || window_of(&spec->layers[i]) > 0))
            return refuse(plan, "which layers rotate");
    for (size_t i = 0; i < spec->n_layers && plan->target->local_rope; i++)
        if ((spec->layers[i].attention.rope == 1) != (spec->layers[i].attention.window > 0))
            return refuse(plan, "layers of the windowed kind without a window");
    return LINNET_OK;
}

/* What readers of the file take for granted of the attention. */
static ln_status check_attention(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    const ln_attention_spec *first = ln_convert_attention(spec);
    size_t n_experts = 0;
    for (size_t i = 0; i < spec->n_layers; i++)
        if (spec->layers[i].ffn.moe.n_experts > 0)
            n_experts = spec->layers[i].ffn.moe.n_experts;
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_attention_spec *a = &spec->layers[i].attention;
        if (a->n_heads == 0)
            continue;
        if (a->gate == LN_GATE_NONE && plan->target->output_gate_key != NULL)
            return refuse(plan, "attention without a gate");
        if (a->v_scale != 1.0f && !plan->target->gguf_folds_scales &&
            !plan->target->gguf_value_scale)
            return refuse(plan, "a scale of values");
        if (a->qk_norm == LN_QK_NORM_OWN && spec->ropes[0].style != plan->target->gguf_rope)
            return refuse(plan, "norms of heads that rotate halves");
        if (a->clip > 0 && !plan->target->gguf_clips)
            return refuse(plan, "limits of queries, keys and values");
        bool is_listed = ln_convert_has_lists(plan);
        bool lists_heads =
            plan->target->lists_alone || plan->target->gguf_lists || plan->target->latents_by_kind;
        if ((a->n_heads != first->n_heads && !lists_heads) ||
            (a->n_kv_heads != first->n_kv_heads && !is_listed))
            return refuse(plan, "heads that differ from layer to layer");
        if (plan->target->query_scale != spec->family->query_scale && a->q_scale.beta != 0)
            return refuse(plan, "queries that grow with their position");
        bool is_unnormed = n_experts == plan->target->gguf_unnormed_experts;
        if (plan->target->bare_qk_norm && !ln_convert_weighs_qk(plan) && a->rope >= 0 &&
            (a->qk_norm == LN_QK_NORM_NONE) != is_unnormed)
            return refuse(plan, "q/k norms or their absence with so many experts");
    }
    return LINNET_OK;
}

/* All layers choose from all experts by softmax. */
static ln_status check_softmax(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_moe_spec *moe = &spec->layers[i].ffn.moe;
        if (moe->n_experts == 0 || moe->router != LN_ROUTER_SOFTMAX || moe->n_groups > 0)
            return refuse(plan, "this choice of experts");
        if (spec->ropes[0].n_dims != spec->layers[i].attention.k_dim)
            return refuse(plan, "heads that rotate in part");
    }
    return LINNET_OK;
}

/* Windows, heads, bases of rotations and factors that readers have whatever files say. */
static ln_status check_constants(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    const ln_family *target = plan->target;
    const ln_attention_spec *a = ln_convert_attention(spec);
    double residual = 1.4 / sqrt((double)spec->n_layers), logit = 256.0 / (double)spec->dim;
    if (target->gguf_softmax_alone)
        LN_TRY(check_softmax(plan));
    size_t fixed = target->gguf_window_tokens;
    for (size_t i = 0; i < spec->n_layers && fixed > 0; i++)
        if (window_of(&spec->layers[i]) > 0 && window_of(&spec->layers[i]) != fixed)
            return refuse(plan, "a window of this size");
    if (target->gguf_plain_heads &&
        (a->n_kv_heads != a->n_heads || a->n_heads * a->k_dim != spec->dim))
        return refuse(plan, "heads of these sizes");
    if (target->gguf_theta > 0 && spec->ropes[0].theta != target->gguf_theta)
        return refuse(plan, "this base of rotations");
    if (target->gguf_fixed_scales && (fabs((double)spec->embedding_scale / 12 - 1) > 1e-6 ||
                                      fabs((double)spec->residual_scale / residual - 1) > 1e-6 ||
                                      fabs((double)spec->logit_scale / logit - 1) > 1e-6))
        return refuse(plan, "these multipliers");
    return LINNET_OK;
}

/* What its readers take for granted of Command A+. */
static ln_status check_averages(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    for (size_t i = 0; i < spec->n_layers && plan->target->shared_share > 0; i++) {
        const ln_layer_spec *layer = &spec->layers[i];
        bool is_dense = layer->ffn.moe.n_experts == 0;
        if (!is_dense && layer->ffn.moe.shared_hidden > 0 &&
            layer->ffn.moe.shared_scale != (float)plan->target->shared_share)
            return refuse(plan, "a shared expert's sum with the others");
        if ((layer->attention.rope >= 0) != (is_dense || layer->attention.window > 0))
            return refuse(plan, "which layers rotate");
    }
    return LINNET_OK;
}

static ln_status check_layers(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    LN_TRY(check_averages(plan));
    const char *unknown = ln_convert_unknown_blocks(plan);
    if (unknown == NULL)
        unknown = ln_convert_unknown_ngrams(spec);
    if (unknown == NULL)
        unknown = ln_convert_unknown_dflash(plan);
    if (unknown == NULL && plan->target->latents_by_kind)
        unknown = ln_convert_unknown_latents(spec);
    if (unknown != NULL)
        return refuse(plan, unknown);
    if (spec->n_streams > 0 && !spec->scales_stream)
        return refuse(plan, "layers' embeddings that read a stream as it is");
    ln_convert_mixtures mixtures = ln_convert_mixtures_of(spec);
    /* with widths for each layer, or by their routers */
    bool is_listed = plan->target->one_block || plan->target->gguf_dense_by_router;
    if (mixtures.n_mixtures > 0 && !is_listed &&
        (!mixtures.is_regular || (mixtures.n_dense_first > 0 && !plan->target->gguf_dense_first) ||
         (mixtures.step > 1 && !plan->target->gguf_dense_between)))
        return refuse(plan, "dense layers in the places where they are");
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_layer_spec *layer = &spec->layers[i];
        if (layer->ffn.moe.softcap > 0)
            return refuse(plan, "a cap of the router's logits");
        if (plan->target->rope_rule == LN_ROPE_LISTED_LAYERS &&
            (layer->attention.rope >= 0) != ((i + 1) % 4 != 0))
            return refuse(plan, "layers without positions other than every fourth");
    }
    const ln_ffn_spec *ffn = ln_convert_ffn(spec);
    bool by_gate = ln_family_gate_shows(spec->family); /* T5's activation follows from its gate */
    ln_activation read = !by_gate     ? ln_family_activation(plan->target)
                         : ffn->gated ? LN_ACT_GELU_TANH
                                      : LN_ACT_RELU;
    bool has_ffn = ffn->n_hidden > 0 || mixtures.n_mixtures > 0;
    bool is_situ = plan->target->situ;
    if (has_ffn && (ffn->activation != read || ffn->xielu != plan->target->xielu ||
                    (ffn->gate_cap > 0) != is_situ))
        return refuse(plan, "this activation");
    if (ffn->slope > 0)
        return refuse(plan, "these limits of what gate and up give");
    const ln_moe_spec *moe = &spec->layers[spec->n_layers - 1].ffn.moe;
    if (moe->router == LN_ROUTER_SPARSEMIXER && moe->jitter != 0.01f)
        return refuse(plan, "this jitter of the router");
    return LINNET_OK;
}

/* What readers take for granted of recurrent layers: that there are some, Mamba's norms, attention
 * beside other kinds, and that KDA has as many heads, for whose number there is one key. */
static ln_status check_mixers(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    ln_mixer kind = plan->target->mixer;
    size_t n_heads = ln_convert_attention(spec)->n_heads;
    bool has_both = kind == LN_MIXER_KDA || kind == LN_MIXER_DELTA || kind == LN_MIXER_CONV;
    bool has_mixer = false;
    float kept = spec->layers[0].ffn_keep; /* of lightning attention's files, which have one */
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_mixer_spec *mixer = &spec->layers[i].mixer;
        has_mixer |= mixer->kind != LN_MIXER_NONE;
        if (kind == LN_MIXER_LIGHTNING &&
            (spec->layers[i].attention_keep != kept || spec->layers[i].ffn_keep != kept ||
             spec->layers[i].ffn.moe.scale != 1 ||
             (mixer->kind != LN_MIXER_NONE && mixer->out_scale != 1)))
            return refuse(plan, "these factors of residual streams");
        if (mixer->kind == LN_MIXER_KDA && n_heads > 0 && mixer->n_heads != n_heads)
            return refuse(plan, "recurrent layers with heads of another number than attention's");
        if (mixer->kind == LN_MIXER_DELTA &&
            mixer->sigmoid_gate != plan->target->gguf_sigmoid_gates)
            return refuse(plan, "this gate of recurrent layers");
        if (mixer->kind == LN_MIXER_KDA && mixer->bound == 0 && plan->target->flat_rates)
            return refuse(plan, "decays without a bound");
        if (mixer->kind == LN_MIXER_SSD && !mixer->has_norm && !plan->target->mixers_beside)
            return refuse(plan, "recurrent layers without a norm");
    }
    if (has_both && n_heads == 0)
        return refuse(plan, "models without attention");
    bool is_even = kind != LN_MIXER_NONE && !has_mixer;
    return is_even ? refuse(plan, "models without recurrent layers") : LINNET_OK;
}

static ln_status check_ropes(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    for (size_t i = 0; i < spec->n_ropes; i++) {
        const ln_rope_spec *rope = &spec->ropes[i];
        bool plain = rope->scaling == LN_ROPE_PLAIN;
        if (rope->scaling == LN_ROPE_PROPORTIONAL && !plan->target->gguf_turning &&
            !plan->target->still_latents)
            return refuse(plan, "pairs that do not turn");
        if (plan->target->gguf_half_rope &&
            2 * spec->ropes[0].n_dims > ln_convert_attention(spec)->k_dim)
            return refuse(plan, "layers that see all and rotate more than half of a head");
        if (rope->sections[0] > 0 && plan->target->gguf_half_sections)
            return refuse(plan, "sections of pairs that are interleaved");
        if (rope->scaling == LN_ROPE_DYNAMIC)
            return refuse(plan, "dynamic RoPE scaling");
        if (i > 0 && !plain)
            return refuse(plan, "RoPE scaling of windowed layers");
        if (i > 0 && plan->target->local_theta == 0 && !plan->target->compressed_attention &&
            rope->theta != spec->ropes[0].theta)
            return refuse(plan, "a RoPE base of windowed layers");
        bool by_factors = rope->scaling == LN_ROPE_LLAMA3 || rope->scaling == LN_ROPE_LONGROPE;
        bool are_all = spec->n_ropes > 1 && !plan->target->lists_alone;
        if (by_factors && are_all) /* its tensor would count for all layers */
            return refuse(plan, "RoPE scaling by factors of frequencies");
        if (rope->scaling == LN_ROPE_LONGROPE &&
            (rope->attention_factor > 0 || rope->factor > 0 || rope->short_magnitude > 0))
            return refuse(plan, "longrope with a factor of its own");
        bool is_latent = ln_convert_attention(spec)->latent.n_latent > 0;
        if (is_latent && rope->scaling == LN_ROPE_YARN && rope->mscale_all_dim > 0 &&
            (rope->mscale != rope->mscale_all_dim || rope->attention_factor > 0))
            return refuse(plan, "YaRN of a magnitude that mscale_all_dim does not cancel");
        if (rope->style != plan->target->gguf_rope && rope->style != LN_ROPE_HALF && !is_latent)
            return refuse(plan, "rotation of interleaved pairs");
    }
    return LINNET_OK;
}

ln_status ln_convert_check(ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    LN_TRY(ln_convert_check_embedder(plan));
    LN_TRY(find_target(plan));
    if (spec->bidirectional && !plan->target->bidirectional)
        return refuse(plan, "tokens that see those behind them");
    LN_TRY(check_windows(plan));
    LN_TRY(check_layers(plan));
    LN_TRY(check_attention(plan));
    LN_TRY(check_ropes(plan));
    LN_TRY(check_mixers(plan));
    LN_TRY(check_constants(plan));
    size_t n_normed = plan->target->gguf_qk_norm_layers;
    bool has_norm = ln_convert_attention(spec)->qk_norm != LN_QK_NORM_NONE;
    if (n_normed > 0 && has_norm != (spec->n_layers >= n_normed))
        return refuse(plan,
                      has_norm ? "q/k norms in so few layers" : "so many layers without q/k norms");
    if (plan->target->parallel_key == NULL && spec->layers[0].placement != plan->target->placement)
        return refuse(plan, "blocks one after the other");
    if (spec->learned_offset > 0)
        return refuse(plan, "positions that do not begin at 0");
    size_t n_alibi = plan->target->gguf_alibi_layers; /* the number of layers says which */
    bool is_alibi = spec->positions == LN_POSITIONS_ALIBI;
    if (n_alibi > 0 ? is_alibi != (spec->n_layers == n_alibi)
                    : spec->positions != plan->target->positions && !plan->target->gguf_rope_flag)
        return refuse(plan, "this kind of positions in so many layers");
    if (spec->positions == LN_POSITIONS_RELATIVE && spec->relative_max_distance != 128)
        return refuse(plan, "relative positions up to this distance");
    return LINNET_OK;
}
