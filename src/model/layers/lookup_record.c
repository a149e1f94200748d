#include "model/layers/lookup_record.h"

/* (norm of each layer's part of (projection x) / sqrt(dim) + table[token] sqrt(lookup_dim)) /
 * sqrt(2) */
void ln_record_lookup(recorder *r) {
    const ln_weights *w = r->weights;
    const ln_activations *a = r->a;
    const float half = sqrtf(0.5f);
    if (r->spec->lookup_dim == 0)
        return;
    linear(r, &w->lookup_projection, a->x, a->lookup)->scale = 1.0f / sqrtf((float)r->spec->dim);
    push(r, LN_OP_EMBED)->embed = (ln_op_embed){.table = &w->lookup_embedding,
                                                .scale = sqrtf((float)r->spec->lookup_dim) * half,
                                                .out = a->lookup_rows};
    push(r, LN_OP_NORM)->norm = (ln_op_norm){.norm = &w->lookup_norm,
                                             .n_rows = r->batch->n_tokens * r->spec->n_layers,
                                             .x = a->lookup,
                                             .residual = a->lookup_rows,
                                             .scale = half,
                                             .out = a->lookup};
}

void ln_record_gated_lookup(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w,
                            const float *x) {
    const ln_activations *a = r->a;
    size_t dim = r->spec->lookup_dim;
    linear(r, &w->lookup_gate, x, a->lookup_gate)->activation = spec->ffn.activation;
    push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
        .function = LN_POINTWISE_SCALE,
        .n_rows = r->batch->n_tokens,
        .dim = dim,
        .n_gates = dim,
        .x = a->lookup_gate,
        .gate = a->lookup,
        .gate_begin = (size_t)r->layer * dim,
        .gate_stride = r->spec->n_layers * dim,
        .out = a->lookup_gate,
    };
}

void ln_record_layer_end(recorder *r, const ln_layer_spec *spec, const ln_layer_weights *w) {
    if (r->spec->lookup_dim > 0) { /* x += norm(out (act(gate x) * lookup)) */
        ln_record_gated_lookup(r, spec, w, r->a->x);
        linear_to_stream(r, &w->lookup_out, &w->lookup_post_norm, r->a->lookup_gate);
    }
    if (spec->scaled)
        push(r, LN_OP_POINTWISE)->pointwise = (ln_op_pointwise){
            .function = LN_POINTWISE_SCALE,
            .n_rows = r->batch->n_tokens,
            .dim = r->spec->dim,
            .n_gates = 1,
            .x = r->a->x,
            .gate = w->scale,
            .one_gate = true,
            .out = r->a->x,
        };
}
