#include "model/mixer/record.h"

const ln_state_cache *ln_record_state_cache(const recorder *r) {
    return r->kv[ln_kv_layer_index(r->spec, (size_t)r->layer) + 1].recurrent;
}

static void conv(recorder *r, const ln_mixer_spec *spec, const ln_mixer_weights *w,
                 const float *x) {
    push(r, LN_OP_CONV)->conv = (ln_op_conv){
        .x = x,
        .weight = w->conv,
        .bias = w->conv_bias,
        .silu = spec->kind != LN_MIXER_CONV && spec->kind != LN_MIXER_LRU,
        .cache = ln_record_state_cache(r),
        .out = r->a->conv_out,
    };
}

/* out = x * gate */
static void multiply(recorder *r, const float *x, const float *gate, size_t dim, float *out) {
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
        .function = LN_POINTWISE_SCALE,
        .n_rows = r->batch->n_tokens,
        .dim = dim,
        .n_gates = dim,
        .x = x,
        .gate = gate,
        .out = out,
    };
}

/* A convolution between two gates. */
static void gated_conv(recorder *r, const ln_mixer_spec *spec, const ln_layer_weights *w,
                       const float *x) {
    const ln_activations *a = r->a;
    const ln_mixer_weights *m = &w->mixer;
    size_t dim = r->spec->dim;
    linear(r, &m->in, x, a->conv_in);
    linear(r, &m->in_gate, x, a->mixer_gate);
    multiply(r, a->conv_in, a->mixer_gate, dim, a->conv_in);
    linear(r, &m->gate, x, a->mixer_gate);
    conv(r, spec, m, a->conv_in);
    multiply(r, a->conv_out, a->mixer_gate, dim, a->mixer_out);
    linear_to_stream(r, &m->out, &w->attention_post_norm, a->mixer_out);
}

/* Decays, betas and the output's gate. */
static void controls(recorder *r, const ln_mixer_spec *spec, const ln_mixer_weights *w,
                     const float *x) {
    const ln_activations *a = r->a;
    bool is_low = spec->low_rank > 0, has_low_gate = spec->gate_rank > 0;
    if (is_low)
        precise_linear(r, &w->a_low, x, a->low_rank);
    if (spec->kind != LN_MIXER_LIGHTNING)
        precise_linear(r, &w->a, is_low ? a->low_rank : x, a->decay)->scale = spec->decay_scale;
    if (w->b.data != NULL)
        precise_linear(r, &w->b, x, a->beta);
    if (has_low_gate)
        linear(r, &w->gate_low, x, a->low_rank);
    linear(r, &w->gate, has_low_gate ? a->low_rank : x, a->mixer_gate)->scale = spec->gate_scale;
}

/* Where a row of what the convolution gives has q, k and v: Mamba has them the other way around. */
static ln_op_scan scan_of(const recorder *r, const ln_mixer_spec *spec, const ln_mixer_weights *w) {
    const ln_activations *a = r->a;
    size_t k = spec->n_k_heads * spec->k_dim, v = spec->n_heads * spec->v_dim, width = 2 * k + v;
    bool is_ssd = spec->kind == LN_MIXER_SSD, is_fixed = spec->kind == LN_MIXER_LIGHTNING;
    bool has_delta = spec->kind == LN_MIXER_DELTA || spec->kind == LN_MIXER_KDA;
    return (ln_op_scan){
        .q = a->conv_out + (is_ssd ? v + k : 0),
        .k = a->conv_out + (is_ssd ? v : k),
        .v = a->conv_out + (is_ssd ? 0 : 2 * k),
        .q_stride = width,
        .k_stride = width,
        .v_stride = width,
        .a = is_fixed ? NULL : a->decay,
        .b = has_delta ? a->beta : NULL,
        .doubles_b = spec->doubles_b,
        .decay = is_fixed                     ? LN_DECAY_FIXED
                 : spec->bound > 0            ? LN_DECAY_BOUNDED
                 : spec->kind == LN_MIXER_KDA ? LN_DECAY_CHANNEL
                                              : LN_DECAY_HEAD,
        .rate = w->rate,
        .a_bias = w->a_bias,
        .skip = w->skip,
        .dt_min = spec->dt_min,
        .dt_max = spec->dt_max,
        .bound = spec->bound,
        .q_scale = is_ssd || is_fixed ? 1.0f : 1.0f / sqrtf((float)spec->k_dim),
        .unit_qk = has_delta,
        .scales_v = is_ssd,
        .tiled = spec->tiled,
        .cache = ln_record_state_cache(r),
        .out = a->mixer_out,
    };
}

static void control_norm(recorder *r, const ln_norm *weights, float *x) {
    if (weights->dim > 0)
        norm(r, weights, x, NULL, x);
}

/* out [head] = weights[head] x [head], for all heads of Mamba 1's keys */
static void control_by_head(recorder *r, const ln_mixer_spec *spec, const ln_weight *weights,
                            const float *x, float *out) {
    linear_by_head(r, weights, spec->n_k_heads, x, 0, out, 0)->precise = true;
}

static void selective_controls_by_head(recorder *r, const ln_mixer_spec *spec,
                                       const ln_mixer_weights *w) {
    const ln_activations *a = r->a;
    control_by_head(r, spec, w->a_low_heads, a->conv_out, a->low_rank);
    control_by_head(r, spec, w->k_heads, a->conv_out, a->k);
    control_by_head(r, spec, w->q_heads, a->conv_out, a->q);
    control_by_head(r, spec, w->a_heads, a->low_rank, a->decay);
}

/* Mamba 1: queries, keys and steps come from what the convolution gives. */
static void selective_controls(recorder *r, const ln_mixer_weights *w) {
    const ln_activations *a = r->a;
    precise_linear(r, &w->a_low, a->conv_out, a->low_rank);
    precise_linear(r, &w->k, a->conv_out, a->k);
    precise_linear(r, &w->q, a->conv_out, a->q);
    control_norm(r, &w->a_norm, a->low_rank);
    control_norm(r, &w->k_norm, a->k);
    control_norm(r, &w->q_norm, a->q);
    precise_linear(r, &w->a, a->low_rank, a->decay);
}

static ln_op_scan selective_scan_of(const recorder *r, const ln_mixer_spec *spec,
                                    const ln_mixer_weights *w) {
    const ln_activations *a = r->a;
    return (ln_op_scan){
        .q = a->q,
        .k = a->k,
        .v = a->conv_out,
        .q_stride = spec->n_k_heads * spec->k_dim,
        .k_stride = spec->n_k_heads * spec->k_dim,
        .v_stride = spec->v_dim,
        .a = a->decay,
        .decay = LN_DECAY_SELECTIVE,
        .rate = w->rate,
        .skip = w->skip,
        .dt_min = spec->dt_min,
        .dt_max = spec->dt_max,
        .q_scale = 1.0f,
        .scales_v = true,
        .cache = ln_record_state_cache(r),
        .out = a->mixer_out,
    };
}

/* Griffin's block: what its convolution gives makes decays, and a gate of what the scan reads; what
 * that gives is multiplied with the activation of another branch. */
static void lru(recorder *r, const ln_mixer_spec *spec, const ln_layer_weights *w, const float *x) {
    const ln_activations *a = r->a;
    const ln_mixer_weights *m = &w->mixer;
    size_t n = spec->n_gate_blocks, width = spec->v_dim;
    linear(r, &m->gate, x, a->mixer_gate)->activation = r->layer_spec->ffn.activation;
    precise_linear(r, &m->in, x, a->conv_in);
    conv(r, spec, m, a->conv_in);
    linear_by_head(r, m->a_blocks, n, a->conv_out, 0, a->decay, 0)->precise = true;
    linear_by_head(r, m->in_gate_blocks, n, a->conv_out, 0, a->mixer_out, 0);
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
        .function = LN_POINTWISE_GATE,
        .n_rows = r->batch->n_tokens,
        .dim = width,
        .n_gates = width,
        .x = a->conv_out,
        .gate = a->mixer_out,
        .out = a->conv_out,
    };
    push(r, LN_OP_SCAN)->scan = (ln_op_scan){
        .v = a->conv_out,
        .v_stride = width,
        .a = a->decay,
        .decay = LN_DECAY_LRU,
        .rate = m->rate,
        .q_scale = 1.0f,
        .cache = ln_record_state_cache(r),
        .out = a->mixer_out,
    };
    multiply(r, a->mixer_out, a->mixer_gate, width, a->mixer_out);
    linear_to_stream(r, &m->out, &w->attention_post_norm, a->mixer_out);
}

void ln_record_mixer(recorder *r, const ln_mixer_spec *spec, const ln_layer_weights *w,
                     const float *x) {
    const ln_activations *a = r->a;
    const ln_mixer_weights *m = &w->mixer;
    if (spec->kind == LN_MIXER_CONV) {
        gated_conv(r, spec, w, x);
        return;
    }
    if (spec->kind == LN_MIXER_LRU) {
        lru(r, spec, w, x);
        return;
    }
    precise_linear(r, &m->in, x, a->conv_in);
    if (spec->kind == LN_MIXER_SELECTIVE) {
        linear(r, &m->gate, x, a->mixer_gate);
        conv(r, spec, m, a->conv_in);
        if (spec->by_head)
            selective_controls_by_head(r, spec, m);
        else
            selective_controls(r, m);
        push(r, LN_OP_SCAN)->scan = selective_scan_of(r, spec, m);
    } else {
        controls(r, spec, m, x);
        conv(r, spec, m, a->conv_in);
        push(r, LN_OP_SCAN)->scan = scan_of(r, spec, m);
    }
    push(r, LN_OP_GATED_NORM)->gated_norm = (ln_op_gated_norm){
        .norm = &m->norm,
        .n_rows = r->batch->n_tokens,
        .dim = spec->n_heads * spec->v_dim,
        .n_groups = spec->n_norm_groups,
        .gate_first = spec->gate_first,
        .sigmoid = spec->sigmoid_gate,
        .x = a->mixer_out,
        .gate = a->mixer_gate,
        .out = a->mixer_out,
    };
    scaled_linear_to_stream(r, &m->out, &w->attention_post_norm, a->mixer_out, spec->out_scale,
                            false);
}
