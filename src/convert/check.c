#include <math.h>
#include <stdio.h>
#include <string.h>

#include "convert/plan.h"
#include "model/rope.h"

static ln_status refuse(const ln_convert_plan *plan, const char *what) {
    return ln_fail(plan->err, LINNET_ERR_UNSUPPORTED, "%s: GGUF's \"%s\" has no form for %s",
                   ln_checkpoint_path(plan->checkpoint), plan->architecture, what);
}

static ln_status find_target(ln_convert_plan *plan) {
    const ln_family *family = plan->spec->family;
    const char *names = family->gguf != NULL ? family->gguf : family->gguf_as;
    if (names == NULL)
        return ln_fail(plan->err, LINNET_ERR_UNSUPPORTED,
                       "%s: the architecture \"%s\" cannot be written as GGUF",
                       ln_checkpoint_path(plan->checkpoint), family->name);
    snprintf(plan->architecture, sizeof plan->architecture, "%.*s", (int)strcspn(names, "|"),
             names);
    plan->target = family->gguf != NULL ? family : NULL;
    for (size_t i = 0; ln_families[i] != NULL && plan->target == NULL; i++)
        if (ln_families[i]->gguf != NULL &&
            ln_list_has(ln_families[i]->gguf, plan->architecture, strlen(plan->architecture)))
            plan->target = ln_families[i];
    LN_BUG_ON(plan->target == NULL);
    return LINNET_OK;
}

/* Which layers see a window follows from the architecture. */
static ln_status check_windows(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    ln_window_rule rule = plan->target->gguf_window != LN_WINDOW_NEVER ? plan->target->gguf_window
                                                                       : plan->target->window;
    size_t window = 0;
    for (size_t i = 0; i < spec->n_layers; i++)
        if (spec->layers[i].attention.window > 0)
            window = spec->layers[i].attention.window;
    for (size_t i = 0; i < spec->n_layers && window > 0; i++) {
        bool windowed = rule == LN_WINDOW_ALL;
        if (rule == LN_WINDOW_PERIOD)
            windowed = (i + 1) % plan->target->window_period != 0;
        if (spec->layers[i].attention.window != (windowed ? window : 0))
            return refuse(plan, "which layers see a sliding window");
    }
    for (size_t i = 0; i < spec->n_layers && plan->target->local_rope; i++)
        if ((spec->layers[i].attention.rope == 1) != (spec->layers[i].attention.window > 0))
            return refuse(plan, "layers of the windowed kind without a window");
    return LINNET_OK;
}

static ln_status check_layers(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    size_t n_dense = 0;
    bool is_deepseek = strcmp(plan->architecture, "deepseek2") == 0, is_moe = false;
    for (size_t i = 0; i < spec->n_layers; i++) {
        const ln_layer_spec *layer = &spec->layers[i];
        bool moe = layer->ffn.moe.n_experts > 0;
        if ((is_moe && !moe) || (moe && !is_moe && i > 0 && !is_deepseek))
            return refuse(plan, "dense layers in the places where they are");
        is_moe |= moe;
        n_dense += !moe;
        if (plan->target->rope_rule == LN_ROPE_LISTED_LAYERS &&
            (layer->attention.rope >= 0) != ((i + 1) % 4 != 0))
            return refuse(plan, "layers without positions other than every fourth");
    }
    if (is_deepseek && n_dense == spec->n_layers)
        return refuse(plan, "a model without experts");
    const ln_ffn_spec *ffn = &spec->layers[0].ffn;
    bool by_gate = spec->family->has_encoder; /* T5's activation follows from its gate */
    ln_activation read = !by_gate     ? plan->target->activation
                         : ffn->gated ? LN_ACT_GELU_TANH
                                      : LN_ACT_RELU;
    if (ffn->activation != read)
        return refuse(plan, "this activation");
    return LINNET_OK;
}

static ln_status check_ropes(const ln_convert_plan *plan) {
    const ln_spec *spec = plan->spec;
    for (size_t i = 0; i < spec->n_ropes; i++) {
        const ln_rope_spec *rope = &spec->ropes[i];
        bool plain = rope->scaling == LN_ROPE_PLAIN;
        if (rope->scaling == LN_ROPE_DYNAMIC)
            return refuse(plan, "dynamic RoPE scaling");
        if (i > 0 && !plain)
            return refuse(plan, "RoPE scaling of windowed layers");
        if (i > 0 && plan->target->local_theta == 0 && rope->theta != spec->ropes[0].theta)
            return refuse(plan, "a RoPE base of windowed layers");
        bool by_factors = rope->scaling == LN_ROPE_LLAMA3 || rope->scaling == LN_ROPE_LONGROPE;
        if (by_factors && spec->n_ropes > 1) /* its tensor would count for all layers */
            return refuse(plan, "RoPE scaling by factors of frequencies");
        if (rope->scaling == LN_ROPE_LONGROPE && (rope->attention_factor > 0 || rope->factor > 0))
            return refuse(plan, "longrope with a factor of its own");
        bool is_latent = spec->layers[0].attention.latent.n_latent > 0;
        if (is_latent && rope->scaling == LN_ROPE_YARN && rope->mscale_all_dim > 0 &&
            (rope->mscale != rope->mscale_all_dim || rope->attention_factor > 0))
            return refuse(plan, "YaRN of a magnitude that mscale_all_dim does not cancel");
        if (rope->style != plan->target->gguf_rope && rope->style != LN_ROPE_HALF)
            return refuse(plan, "rotation of interleaved pairs");
        if (rope->style != plan->target->gguf_rope && is_latent)
            return refuse(plan, "latent attention that rotates halves");
    }
    return LINNET_OK;
}

ln_status ln_convert_check(ln_convert_plan *plan) {
    LN_TRY(find_target(plan));
    const ln_spec *spec = plan->spec;
    LN_TRY(check_windows(plan));
    LN_TRY(check_layers(plan));
    LN_TRY(check_ropes(plan));
    size_t n_normed = plan->target->gguf_qk_norm_layers;
    bool has_norm = spec->layers[0].attention.qk_norm != LN_QK_NORM_NONE;
    if (n_normed > 0 && has_norm != (spec->n_layers >= n_normed))
        return refuse(plan,
                      has_norm ? "q/k norms in so few layers" : "so many layers without q/k norms");
    if (spec->learned_offset > 0)
        return refuse(plan, "positions that do not begin at 0");
    size_t n_alibi = plan->target->gguf_alibi_layers; /* the number of layers says which */
    bool is_alibi = spec->positions == LN_POSITIONS_ALIBI;
    if (n_alibi > 0 ? is_alibi != (spec->n_layers == n_alibi)
                    : spec->positions != plan->target->positions)
        return refuse(plan, "this kind of positions in so many layers");
    if (spec->positions == LN_POSITIONS_RELATIVE && spec->relative_max_distance != 128)
        return refuse(plan, "relative positions up to this distance");
    return LINNET_OK;
}
