/* The forward pass: records the operations of one step for a batch. */
#ifndef LN_MODEL_FORWARD_H
#define LN_MODEL_FORWARD_H

#include "backend/backend.h"
#include "model/spec.h"
#include "model/weights.h"

/* Activations, in the backend's memory; rows up to the step's limits. */
typedef struct ln_activations {
    float *x;                   /* [max_tokens][dim] the residual stream */
    float *normed, *ffn_normed; /* [max_tokens][dim] */
    float *q;                   /* [max_tokens][max n_heads * k_dim] */
    float *k, *v;               /* [max_tokens][max n_kv_heads * k_dim], ... v_dim */
    float *attended;            /* [max_tokens][max n_heads * v_dim] */
    float *hidden;              /* [max_tokens][max n_hidden] */
    float *logits;              /* [max_logits][n_vocab] */
} ln_activations;

/* Bytes for steps of max_tokens tokens and max_logits rows of logits, then the pointers into
 * `memory` of that size. */
ln_status ln_activations_plan(const ln_spec *spec, size_t max_tokens, size_t max_logits,
                              size_t *bytes, ln_error *err);
void ln_activations_bind(const ln_spec *spec, size_t max_tokens, size_t max_logits, void *memory,
                         ln_activations *activations);

/* The most operations that a step records. */
size_t ln_forward_max_ops(const ln_spec *spec);

/* Records a step into ops[ln_forward_max_ops]; returns their number. kv [n_layers]. The logits of
 * batch->logit_rows are in activations->logits after the run. All pointers must stay valid until
 * then. */
size_t ln_forward_record(const ln_spec *spec, const ln_weights *weights,
                         const ln_activations *activations, const ln_kv_layer *kv,
                         const ln_batch *batch, ln_op *ops);

/* Sizes for ln_backend's scratch. */
ln_step_limits ln_forward_limits(const ln_spec *spec, size_t max_tokens, size_t max_seqs,
                                 size_t max_ctx);

#endif
