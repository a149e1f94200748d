#include "model/ffn/record.h"

/* out = min(silu(gated), limit) * clamp(out, -limit, limit), or as gpt-oss has it. */
static void limit_gate(recorder *r, size_t n_rows, size_t dim, float limit, float slope,
                       float *out) {
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
        .function = slope > 0.0f ? LN_POINTWISE_CLAMPED_SWIGLU : LN_POINTWISE_LIMITED_SILU,
        .n_rows = n_rows,
        .dim = dim,
        .n_gates = dim,
        .x = out,
        .gate = r->a->gated,
        .limit = limit,
        .scale = slope,
        .out = out,
    };
}

static ln_op_pointwise *push_rows(recorder *r, ln_pointwise function, size_t n_rows, size_t dim) {
    ln_op_pointwise *op = &push(r, LN_OP_POINTWISE)->pointwise;
    *op = (ln_op_pointwise){
        .function = function, .n_rows = n_rows, .dim = dim, .n_gates = dim, .scale = 1.0f};
    return op;
}

/* out = silu(min(gated, limit)) * clamp(out, -limit, limit) */
static void limit_before(recorder *r, size_t n_rows, size_t dim, float limit, float *gated,
                         float *out) {
    ln_op_pointwise *op = push_rows(r, LN_POINTWISE_CLAMPED_SWIGLU, n_rows, dim);
    op->x = r->weights->zeros; /* and one is added to it */
    op->rows_per_x = n_rows;
    op->gate = op->out = gated;
    op->limit = limit;
    op = push_rows(r, LN_POINTWISE_CLAMP, n_rows, dim);
    op->x = op->out = out;
    op->n_gates = 0;
    op->limit = limit;
    op = push_rows(r, LN_POINTWISE_SCALE, n_rows, dim);
    op->x = op->out = out;
    op->gate = gated;
}

/* out = cap(out) cap(gated) sigmoid(gated) */
static void cap_gate(recorder *r, size_t n_rows, size_t dim, float gate_cap, float up_cap,
                     float *out) {
    ln_op_pointwise *op = push_rows(r, LN_POINTWISE_CAPPED_SWIGLU, n_rows, dim);
    op->x = op->out = out;
    op->gate = r->a->gated;
    op->limit = gate_cap;
    op->scale = up_cap;
}

/* act(x gate) * (x up), without gate act(x up) */
static void gated_linear(recorder *r, const ln_weight *up, const ln_weight *gate,
                         ln_activation activation, const float *x, float *out) {
    const ln_weight *const both[] = {up, gate};
    lora_shrink(r, x, gate != NULL ? 2 : 1, both);
    x = gather(r, up, r->batch->n_tokens, x); /* the gate has the same order */
    push_linear(r, &r->batch->adapters,
                (ln_op_linear){
                    .weight = up,
                    .gate = gate,
                    .activation = activation,
                    .n_rows = r->batch->n_tokens,
                    .x = x,
                    .scale = 1.0f,
                    .out = out,
                });
}

/* The same, within the limit or the caps that the feed-forward may have. */
static void limited_linear(recorder *r, const ln_ffn_spec *spec, const ln_weight *up,
                           const ln_weight *gate, const float *x, float *out) {
    if (spec->gate_cap > 0.0f) {
        linear(r, up, x, out);
        linear(r, gate, x, r->a->gated);
        cap_gate(r, r->batch->n_tokens, up->n_rows, spec->gate_cap, spec->up_cap, out);
        return;
    }
    if (spec->limit == 0.0f) {
        gated_linear(r, up, gate, spec->activation, x, out);
        return;
    }
    bool before = spec->moe.limits_before; /* experts alone have gates in `gated` then */
    float *gated = before ? r->a->sparse_gate : r->a->gated;
    linear(r, up, x, out);
    linear(r, gate, x, gated)->scale = spec->gate_scale;
    if (before)
        limit_before(r, r->batch->n_tokens, up->n_rows, spec->limit, gated, out);
    else
        limit_gate(r, r->batch->n_tokens, up->n_rows, spec->limit, spec->slope, out);
}

/* The rows (token, choice) by the expert that was chosen. */
static ln_row_groups rows_by_expert(const recorder *r) {
    return (ln_row_groups){.n_groups = ln_layer_n_experts(r->layer_spec),
                           .order = r->a->expert_order,
                           .starts = r->a->expert_starts};
}

/* What adapters of experts multiply x with first, for linears that follow; a weight that is NULL
 * ends them. */
static void adapt_experts(recorder *r, const ln_moe_spec *moe, const float *x, size_t rows_per_x,
                          const ln_weight *first, const ln_weight *second) {
    const ln_weight *const weights[] = {first, second};
    if (r->batch->adapters.n_runs > 0)
        lora_shrink_rows(r, &r->batch->adapters,
                         (ln_op_lora_shrink){.groups = rows_by_expert(r),
                                             .n_rows = r->batch->n_tokens * moe->n_used,
                                             .rows_per_x = rows_per_x,
                                             .rows_per_token = moe->n_used,
                                             .x = x},
                         second != NULL ? 2 : 1, weights);
}

/* A linear whose rows (token, choice) meet the expert that was chosen. */
static void linear_by_expert(recorder *r, const ln_moe_spec *moe, ln_op_linear op) {
    op.groups = rows_by_expert(r);
    op.n_rows = r->batch->n_tokens * moe->n_used;
    op.rows_per_token = moe->n_used;
    op.scale = 1.0f;
    push_linear(r, &r->batch->adapters, op);
}

/* What the router's matrix reads where it is the last one of a feed-forward. The first one's
 * result goes to the next layer, too. */
static const float *router_input(recorder *r, const ln_layer_weights *w, const float *x) {
    const ln_activations *a = r->a;
    if (w->router_carry != NULL)
        scale_rows(r, r->batch->n_tokens, w->router_in.n_rows, a->router_state, w->router_carry);
    precise_linear(r, &w->router_in, x, a->router_state)->residual =
        w->router_carry != NULL ? a->router_state : NULL;
    norm(r, &w->router_norm, a->router_state, NULL, a->router_normed);
    precise_linear(r, &w->router_first, a->router_normed, a->router_hidden)->activation =
        LN_ACT_GELU;
    precise_linear(r, &w->router_second, a->router_hidden, a->router_normed)->activation =
        LN_ACT_GELU;
    return a->router_normed;
}

static void route(recorder *r, const ln_moe_spec *moe, const ln_layer_weights *w, const float *x) {
    if (moe->router_hidden > 0)
        x = router_input(r, w, x);
    ln_op_linear *router = precise_linear(r, &w->router, x, r->a->router);
    router->softcap = moe->softcap;
    router->scale = moe->logit_scale;
}

void ln_record_first_router(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w) {
    if (spec->moe.routes_first)
        route(r, &spec->moe, w, r->a->x);
}

static void choose_experts(recorder *r, const ln_moe_spec *moe, const ln_layer_weights *w,
                           const float *x) {
    const ln_activations *a = r->a;
    if (!moe->routes_first)
        route(r, moe, w, x);
    push(r, LN_OP_ROUTE)->route = (ln_op_route){
        .logits = a->router,
        .bias = w->router_bias,
        .expert_scale = w->expert_scale,
        .by_token = w->hash_experts,
        .router = moe->router,
        .n_experts = moe->n_experts + moe->n_zero,
        .n_used = moe->n_used,
        .n_shared = moe->n_shared,
        .shared_weights = a->shared_weights,
        .n_groups = moe->n_groups,
        .n_groups_used = moe->n_groups_used,
        .group_by_two = moe->group_by_two,
        .zero_other_groups = moe->zero_other_groups,
        .normalize = moe->normalize,
        .scale = moe->scale,
        .jitter = moe->jitter,
        .experts = a->experts,
        .weights = a->expert_weights,
    };
    push(r, LN_OP_GROUP)->group = (ln_op_group){
        .experts = a->experts,
        .n_rows = r->batch->n_tokens * moe->n_used,
        .first_expert = r->layer_spec->part.experts.begin,
        .n_experts = ln_layer_n_experts(r->layer_spec),
        .order = a->expert_order,
        .starts = a->expert_starts,
    };
}

/* x times the weight of each choice, a row for each, where the experts' results will lie. */
static void scale_inputs(recorder *r, const ln_moe_spec *moe, const float *x) {
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
        .function = LN_POINTWISE_SCALE,
        .n_rows = r->batch->n_tokens * moe->n_used,
        .dim = r->spec->dim,
        .rows_per_x = moe->n_used,
        .n_gates = 1,
        .x = x,
        .gate = r->a->expert_weights,
        .out = r->a->expert_out,
    };
}

/* What the chosen experts give of x, a row for each choice. */
static void run_experts(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                        const float *x) {
    const ln_activations *a = r->a;
    const ln_moe_spec *moe = &spec->moe;
    if (moe->scale_inputs)
        scale_inputs(r, moe, x);
    bool limited = ln_moe_limits(moe);
    ln_op_linear up = {.weight = w->experts_up,
                       .gate = limited || !spec->gated ? NULL : w->experts_gate,
                       .activation = limited ? LN_ACT_NONE : spec->activation,
                       .rows_per_x = moe->scale_inputs ? 1 : moe->n_used,
                       .x = moe->scale_inputs ? a->expert_out : x,
                       .out = a->expert_hidden};
    adapt_experts(r, moe, up.x, up.rows_per_x, w->experts_up, spec->gated ? w->experts_gate : NULL);
    linear_by_expert(r, moe, up);
    if (limited) {
        up.weight = w->experts_gate;
        up.out = a->gated;
        linear_by_expert(r, moe, up);
        size_t n_rows = r->batch->n_tokens * moe->n_used;
        if (moe->gate_cap > 0.0f)
            cap_gate(r, n_rows, moe->n_hidden, moe->gate_cap, moe->up_cap, a->expert_hidden);
        else if (moe->limits_before)
            limit_before(r, n_rows, moe->n_hidden, moe->limit, a->gated, a->expert_hidden);
        else
            limit_gate(r, n_rows, moe->n_hidden, moe->limit, spec->slope, a->expert_hidden);
    }
    adapt_experts(r, moe, a->expert_hidden, 1, w->experts_down, NULL);
    linear_by_expert(
        r, moe,
        (ln_op_linear){.weight = w->experts_down, .x = a->expert_hidden, .out = a->expert_out});
}

/* Whether the ranks of a stage have a part each of what the experts give. */
static bool are_divided(const recorder *r) {
    return r->layer_spec->part.expert_hidden.n > 0 || r->layer_spec->part.experts.n > 0;
}

/* The sum of what the experts that are here give. */
static void combine(recorder *r, const ln_moe_spec *moe, ln_op_combine op) {
    const ln_slice *here = &r->layer_spec->part.experts;
    op.x = r->a->expert_out;
    op.weights = moe->scale_inputs ? NULL : r->a->expert_weights;
    op.n_used = moe->n_used;
    op.experts = here->n > 0 || moe->zero_skips ? r->a->experts : NULL;
    op.first_expert = here->begin;
    op.n_experts = here->n > 0 ? here->n : moe->n_experts;
    push(r, LN_OP_COMBINE)->combine = op;
}

/* Norms of what each expert gives. */
static void norm_experts(recorder *r, const ln_moe_spec *moe, const ln_layer_weights *w) {
    float *out = r->a->expert_out;
    size_t n_rows = r->batch->n_tokens * moe->n_used;
    if (w->expert_out_norm.dim == 0)
        return;
    scale_rows(r, n_rows, moe->n_latent, out, w->expert_post_scale);
    norm(r, &w->expert_out_norm, out, NULL, out)->n_rows = n_rows;
}

/* Experts that read a projection of x, whose sum goes through another to the residual stream, as
 * the shared expert's result does. */
static void latent_mixture(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                           const float *x) {
    const ln_activations *a = r->a;
    const ln_moe_spec *moe = &spec->moe;
    choose_experts(r, moe, w, x);
    precise_linear(r, &w->latent_in, x, a->expert_latent);
    if (w->expert_in_norm.dim > 0)
        norm(r, &w->expert_in_norm, a->expert_latent, NULL, a->expert_latent);
    run_experts(r, spec, w, a->expert_latent);
    norm_experts(r, moe, w);
    combine(r, moe, (ln_op_combine){.dim = moe->n_latent, .scale = 1.0f, .out = a->expert_latent});
    if (are_divided(r))
        all_reduce_rows(r, a->stage_ranks, moe->n_latent, a->expert_latent, NULL, a->expert_latent);
    if (w->latent_norm.dim > 0)
        norm(r, &w->latent_norm, a->expert_latent, NULL, a->expert_latent);
    if (moe->shared_hidden > 0) {
        limited_linear(r, spec, &w->shared_up, spec->gated ? &w->shared_gate : NULL, x, a->hidden);
        linear_to_stream(r, &w->shared_down, NULL, a->hidden);
    }
    if (w->ffn_post_scale != NULL)
        linear_to_scaled_stream(r, &w->latent_out, w->ffn_post_scale, &w->ffn_post_norm,
                                a->expert_latent, NULL);
    else
        linear_to_stream(r, &w->latent_out, NULL, a->expert_latent);
}

/* Shared experts by the weights that the router gives, one after the other. */
static void weighted_experts(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                             const float *x) {
    const ln_activations *a = r->a;
    const ln_moe_spec *moe = &spec->moe;
    for (size_t i = 0; i < moe->n_shared; i++) {
        limited_linear(r, spec, &w->shared_ups[i], spec->gated ? &w->shared_gates[i] : NULL, x,
                       a->hidden);
        ln_op_pointwise *op = push_rows(r, LN_POINTWISE_SCALE, r->batch->n_tokens, moe->n_hidden);
        op->x = op->out = a->hidden;
        op->n_gates = 1;
        op->gate = a->shared_weights;
        op->gate_begin = i;
        op->gate_stride = moe->n_shared;
        linear(r, &w->shared_downs[i], a->hidden, a->shared_out)->residual =
            i > 0 ? a->shared_out : NULL;
    }
}

static void shared_expert(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                          const float *x) {
    const ln_activations *a = r->a;
    const ln_moe_spec *moe = &spec->moe;
    if (moe->n_shared > 0) {
        weighted_experts(r, spec, w, x);
    } else if (moe->shared_hidden > 0) {
        limited_linear(r, spec, &w->shared_up, spec->gated ? &w->shared_gate : NULL, x, a->hidden);
        linear(r, &w->shared_down, a->hidden, a->shared_out)->scale = moe->shared_scale;
    }
    if (moe->shared_gate)
        linear(r, &w->shared_router, x, a->shared_gate);
}

/* The shared expert is first, so that it fuses with the norm and what is before; but it comes
 * behind the choice where that gives its weight, or where another backend computes those that are
 * chosen meanwhile. */
static void mixture(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                    const float *x) {
    const ln_activations *a = r->a;
    const ln_moe_spec *moe = &spec->moe;
    bool has_post_norm = w->ffn_post_norm.dim > 0;
    bool is_partial = are_divided(r);
    bool is_behind = w->experts_apart || moe->n_shared > 0;
    if (!is_behind)
        shared_expert(r, spec, w, x);
    choose_experts(r, moe, w, x);
    if (is_behind)
        shared_expert(r, spec, w, x);
    run_experts(r, spec, w, x);
    ln_op_combine op = {
        .dim = r->spec->dim,
        .shared = moe->shared_hidden > 0 ? a->shared_out : NULL,
        .shared_gate = moe->shared_gate ? a->shared_gate : NULL,
        .residual = has_post_norm || is_partial || r->apart != NULL ? NULL : stream_residual(r),
        .scale = has_post_norm || r->apart != NULL ? 1.0f : r->spec->residual_scale,
        .out = r->apart != NULL ? r->apart
               : is_partial     ? a->partial
               : has_post_norm  ? a->normed
                                : a->x,
    };
    combine(r, moe, op);
    if (has_post_norm && w->ffn_post_scale != NULL)
        scale_rows(r, r->batch->n_tokens, r->spec->dim, op.out, w->ffn_post_scale);
    if (is_partial)
        partial_to_stream(r, a->stage_ranks, &w->ffn_post_norm);
    else if (has_post_norm)
        norm(r, &w->ffn_post_norm, a->normed, stream_residual(r), a->x);
}

/* A dense feed-forward of x and, beside it, experts of the residual stream, each with norms of its
 * own; then one norm of their sum. */
static void dense_and_experts(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                              const float *x) {
    const ln_activations *a = r->a;
    gated_linear(r, &w->up, &w->gate, spec->activation, x, a->hidden);
    linear(r, &w->down, a->hidden, a->normed);
    if (r->layer_spec->part.hidden.n > 0)
        all_reduce(r, a->normed, NULL, a->normed);
    norm(r, &w->dense_post_norm, a->normed, NULL, a->shared_out);
    norm(r, &w->router_norm, a->x, NULL, a->normed);
    choose_experts(r, &spec->moe, w, a->normed);
    norm(r, &w->experts_norm, a->x, NULL, a->ffn_normed);
    run_experts(r, spec, w, a->ffn_normed);
    combine(r, &spec->moe, (ln_op_combine){.dim = r->spec->dim, .scale = 1.0f, .out = a->normed});
    if (are_divided(r))
        all_reduce(r, a->normed, NULL, a->normed);
    norm(r, &w->experts_post_norm, a->normed, a->shared_out, a->normed);
    norm(r, &w->ffn_post_norm, a->normed, a->x, a->x);
}

/* act(what of x gate is large) * (x up) */
static void sparse_linear(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                          const float *x) {
    linear(r, &w->gate, x, r->a->sparse_gate);
    linear(r, &w->up, x, r->a->hidden);
    push(r, LN_OP_ROWWISE)->rowwise = (ln_op_rowwise){.function = LN_ROWWISE_SPARSE_GATE,
                                                      .n_rows = r->batch->n_tokens,
                                                      .dim = spec->n_hidden,
                                                      .activation = spec->activation,
                                                      .deviations = spec->deviations,
                                                      .x = r->a->sparse_gate,
                                                      .y = r->a->hidden,
                                                      .out = r->a->hidden};
}

/* silu(x gate, scaled) * (x up), scaled, by element */
static void scaled_gate(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                        const float *x) {
    const ln_activations *a = r->a;
    size_t n_tokens = r->batch->n_tokens;
    linear(r, &w->up, x, a->hidden);
    linear(r, &w->gate, x, a->gated);
    scale_rows(r, n_tokens, spec->n_hidden, a->gated, w->gate_scales);
    limit_gate(r, n_tokens, spec->n_hidden, spec->limit, 0.0f, a->hidden);
    scale_rows(r, n_tokens, spec->n_hidden, a->hidden, w->up_scales);
}

/* Experts of x beside a dense feed-forward, which join the residual stream behind the next layer.
 * Those that give what they read have a copy of x where the others' results will lie. */
static void shortcut_mixture(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                             const float *x) {
    const ln_activations *a = r->a;
    const ln_moe_spec *moe = &spec->moe;
    choose_experts(r, moe, w, x);
    if (moe->n_zero > 0)
        push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
            .function = LN_POINTWISE_CLAMP,
            .n_rows = r->batch->n_tokens * moe->n_used,
            .dim = r->spec->dim,
            .rows_per_x = moe->n_used,
            .x = x,
            .limit = INFINITY,
            .out = a->expert_out,
        };
    run_experts(r, spec, w, x);
    combine(r, moe, (ln_op_combine){.dim = r->spec->dim, .scale = 1.0f, .out = a->shortcut});
    if (are_divided(r))
        all_reduce(r, a->shortcut, NULL, a->shortcut);
}

void ln_record_shortcut(recorder *r) {
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
        .function = LN_POINTWISE_ADD,
        .n_rows = r->batch->n_tokens,
        .dim = r->spec->dim,
        .n_gates = r->spec->dim,
        .x = r->a->x,
        .gate = r->a->shortcut,
        .scale = 1.0f,
        .out = r->a->x,
    };
}

/* Experts of one row each, beside a dense feed-forward of x: all are computed, and those that
 * product keys choose join the stream. */
static void retrieve(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                     const float *x) {
    const ln_activations *a = r->a;
    precise_linear(r, &w->router, x, a->router);
    linear(r, &w->retrieved_down, x, a->sparse_gate)->activation = spec->activation;
    push(r, LN_OP_ROWWISE)->rowwise = (ln_op_rowwise){.function = LN_ROWWISE_PRODUCT_KEYS,
                                                      .n_rows = r->batch->n_tokens,
                                                      .dim = spec->retrieved.n_experts,
                                                      .n_keys = spec->retrieved.n_keys,
                                                      .n_used = spec->retrieved.n_used,
                                                      .x = a->router,
                                                      .y = a->sparse_gate,
                                                      .out = a->sparse_gate};
    linear_to_stream(r, &w->retrieved_up, NULL, a->sparse_gate);
}

void ln_record_feed_forward(recorder *r, const ln_ffn_spec *spec, const ln_layer_weights *w,
                            const float *x) {
    if (spec->moe.n_experts > 0 && spec->moe.beside) {
        dense_and_experts(r, spec, w, x);
        return;
    }
    if (spec->moe.n_experts > 0 && spec->moe.shortcut) {
        shortcut_mixture(r, spec, w, x);
    } else if (spec->moe.n_experts > 0) {
        (spec->moe.n_latent > 0 ? latent_mixture : mixture)(r, spec, w, x);
        return;
    }
    if (spec->is_sparse)
        sparse_linear(r, spec, w, x);
    else if (w->gate_scales != NULL)
        scaled_gate(r, spec, w, x);
    else
        limited_linear(r, spec, &w->up, spec->gated ? &w->gate : NULL, x, r->a->hidden);
    if (spec->xielu)
        push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
            .function = LN_POINTWISE_XIELU,
            .n_rows = r->batch->n_tokens,
            .dim = spec->n_hidden,
            .x = r->a->hidden,
            .xielu = w->xielu,
            .out = r->a->hidden,
        };
    if (spec->out_norm)
        norm(r, &w->ffn_out_norm, r->a->hidden, NULL, r->a->hidden);
    ln_collectives *ranks = r->layer_spec->part.hidden.n > 0 ? r->a->stage_ranks : NULL;
    if (w->ffn_post_scale != NULL)
        linear_to_scaled_stream(r, &w->down, w->ffn_post_scale, &w->ffn_post_norm, r->a->hidden,
                                ranks);
    else
        scaled_linear_to_stream(r, &w->down, &w->ffn_post_norm, r->a->hidden, spec->down_scale,
                                ranks);
    if (spec->retrieved.n_experts > 0)
        retrieve(r, spec, w, x);
}
