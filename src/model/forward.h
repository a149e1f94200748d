/* The forward pass: records the operations of one step for a batch. */
#ifndef LN_MODEL_FORWARD_H
#define LN_MODEL_FORWARD_H

#include "model/activations.h"
#include "model/spec.h"
#include "model/weights.h"

/* The most operations that a step records. */
size_t ln_forward_max_ops(const ln_spec *spec);

/* Records a step of encoders into ops: a batch of whole encoder prompts, whose keys and values for
 * cross-attention go to their slots. No logits. */
size_t ln_forward_record_encoder(const ln_spec *spec, const ln_weights *weights,
                                 const ln_activations *activations, const ln_kv_layer *kv,
                                 const ln_batch *batch, ln_op *ops);

/* Records a step into ops[ln_forward_max_ops]; returns their number. kv [n_kv_layers]. The logits
 * of batch->logit_rows are in activations->logits after the run. All pointers must stay valid until
 * then. What the operations read and write has its ids (backend/values.h). With the weights of some
 * layers alone, the step begins and ends with activations->x [n_tokens][dim] at the layers'
 * borders. */
size_t ln_forward_record(const ln_spec *spec, const ln_weights *weights,
                         const ln_activations *activations, const ln_kv_layer *kv,
                         const ln_batch *batch, ln_op *ops);

#endif
