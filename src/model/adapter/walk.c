#include "model/adapter/walk.h"

#include <stddef.h>

/* The matrices of a layer. */
static const struct {
    ln_role role;
    size_t offset; /* in ln_layer_weights */
} matrices[] = {
#define MATRIX(role, member)                                                                       \
    { role, offsetof(ln_layer_weights, member) }
    MATRIX(LN_ROLE_Q, q),
    MATRIX(LN_ROLE_K, k),
    MATRIX(LN_ROLE_V, v),
    MATRIX(LN_ROLE_V_DELAYED, v_delayed),
    MATRIX(LN_ROLE_KEY_BIAS, key_bias),
    MATRIX(LN_ROLE_O, o),
    MATRIX(LN_ROLE_ATTENTION_GATE, attention_gate),
    MATRIX(LN_ROLE_GATE, gate),
    MATRIX(LN_ROLE_UP, up),
    MATRIX(LN_ROLE_DOWN, down),
    MATRIX(LN_ROLE_CROSS_Q, cross_q),
    MATRIX(LN_ROLE_CROSS_K, cross_k),
    MATRIX(LN_ROLE_CROSS_V, cross_v),
    MATRIX(LN_ROLE_CROSS_O, cross_o),
    MATRIX(LN_ROLE_ROUTER, router),
    MATRIX(LN_ROLE_ROUTER_IN, router_in),
    MATRIX(LN_ROLE_ROUTER_FIRST, router_first),
    MATRIX(LN_ROLE_ROUTER_SECOND, router_second),
    MATRIX(LN_ROLE_SHARED_GATE, shared_gate),
    MATRIX(LN_ROLE_SHARED_UP, shared_up),
    MATRIX(LN_ROLE_SHARED_DOWN, shared_down),
    MATRIX(LN_ROLE_SHARED_ROUTER, shared_router),
    MATRIX(LN_ROLE_Q_A, q_a),
    MATRIX(LN_ROLE_Q_B, q_b),
    MATRIX(LN_ROLE_KV_A, kv_a),
    MATRIX(LN_ROLE_INDEX_Q, index_q),
    MATRIX(LN_ROLE_INDEX_K, index_k),
    MATRIX(LN_ROLE_INDEX_WEIGHTS, index_weights),
    MATRIX(LN_ROLE_LOOKUP_GATE, lookup_gate),
    MATRIX(LN_ROLE_LOOKUP_OUT, lookup_out),
    MATRIX(LN_ROLE_LAUREL_LEFT, laurel_left),
    MATRIX(LN_ROLE_LAUREL_RIGHT, laurel_right),
    MATRIX(LN_ROLE_MIXER_IN, mixer.in),
    MATRIX(LN_ROLE_MIXER_IN_GATE, mixer.in_gate),
    MATRIX(LN_ROLE_MIXER_GATE, mixer.gate),
    MATRIX(LN_ROLE_MIXER_GATE_LOW, mixer.gate_low),
    MATRIX(LN_ROLE_MIXER_A, mixer.a),
    MATRIX(LN_ROLE_MIXER_A_LOW, mixer.a_low),
    MATRIX(LN_ROLE_MIXER_B, mixer.b),
    MATRIX(LN_ROLE_MIXER_Q, mixer.q),
    MATRIX(LN_ROLE_MIXER_K, mixer.k),
    MATRIX(LN_ROLE_MIXER_OUT, mixer.out),
    MATRIX(LN_ROLE_ATTENTION_HYPER_LOW, attention_hyper.low),
    MATRIX(LN_ROLE_ATTENTION_HYPER_GATE, attention_hyper.gate),
    MATRIX(LN_ROLE_FFN_HYPER_LOW, ffn_hyper.low),
    MATRIX(LN_ROLE_FFN_HYPER_GATE, ffn_hyper.gate),
    MATRIX(LN_ROLE_NGRAM_KEY, ngram.key),
    MATRIX(LN_ROLE_NGRAM_VALUE, ngram.value),
#undef MATRIX
};

typedef struct walker {
    ln_adapter_visit visit;
    void *context;
    ln_error *err;
} walker;

static ln_status visit_one(const walker *w, ln_tensor_id id, const ln_weight *weight) {
    return weight->adapters != NULL ? w->visit(w->context, id, weight, w->err) : LINNET_OK;
}

/* One matrix for each head or expert. */
static ln_status visit_packed(const walker *w, ln_tensor_id id, const ln_weight *weights,
                              size_t n) {
    for (id.expert = 0; weights != NULL && id.expert < n; id.expert++)
        LN_TRY(visit_one(w, id, &weights[id.expert]));
    return LINNET_OK;
}

static ln_status visit_layer(const walker *w, ln_tensor_id id, const ln_layer_spec *spec,
                             const ln_layer_weights *layer) {
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        const char *at = (const char *)layer + matrices[i].offset;
        id.role = matrices[i].role;
        LN_TRY(visit_one(w, id, (const ln_weight *)(const void *)at));
    }
    id.role = LN_ROLE_K_B;
    LN_TRY(visit_packed(w, id, layer->k_b, spec->attention.n_heads));
    id.role = LN_ROLE_V_B;
    LN_TRY(visit_packed(w, id, layer->v_b, spec->attention.n_heads));
    size_t n_experts = spec->ffn.moe.n_experts > 0 ? ln_layer_n_experts(spec) : 0;
    id.role = LN_ROLE_EXPERT_GATE;
    LN_TRY(visit_packed(w, id, layer->experts_gate, n_experts));
    id.role = LN_ROLE_EXPERT_UP;
    LN_TRY(visit_packed(w, id, layer->experts_up, n_experts));
    id.role = LN_ROLE_EXPERT_DOWN;
    return visit_packed(w, id, layer->experts_down, n_experts);
}

ln_status ln_adapter_walk(const ln_spec *spec, const ln_weights *weights, ln_adapter_visit visit,
                          void *context, ln_error *err) {
    const walker w = {visit, context, err};
    LN_TRY(visit_one(&w, (ln_tensor_id){.role = LN_ROLE_EMBEDDING}, &weights->embedding));
    LN_TRY(visit_one(&w, (ln_tensor_id){.role = LN_ROLE_OUTPUT}, &weights->output));
    LN_TRY(visit_one(&w, (ln_tensor_id){.role = LN_ROLE_LOOKUP_PROJECTION},
                     &weights->lookup_projection));
    LN_TRY(visit_one(&w, (ln_tensor_id){.role = LN_ROLE_OUTPUT_HYPER_LOW},
                     &weights->output_hyper.low));
    LN_TRY(visit_one(&w, (ln_tensor_id){.role = LN_ROLE_OUTPUT_HYPER_GATE},
                     &weights->output_hyper.gate));
    for (size_t i = weights->first_layer; i < weights->end_layer; i++)
        LN_TRY(visit_layer(&w, (ln_tensor_id){.layer = i}, &spec->layers[i], &weights->layers[i]));
    for (size_t i = 0; i < spec->n_encoder_layers && weights->encoder.layers != NULL; i++)
        LN_TRY(visit_layer(&w, (ln_tensor_id){.layer = i, .encoder = true},
                           &spec->encoder_layers[i], &weights->encoder.layers[i]));
    return LINNET_OK;
}
