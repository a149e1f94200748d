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

/* Records a step into ops[ln_forward_max_ops]; returns their number. kv [ln_kv_layer_count]. The
 * logits of batch->logit_rows are in activations->logits after the run, and hidden states of
 * batch->hidden_rows [n_hidden][dim] in activations->ffn_normed. All pointers must stay valid until
 * then. What the operations read and write has its ids (backend/values.h). With the weights of some
 * layers alone, the step begins and ends with activations->x [n_tokens][dim] at the layers'
 * borders; of a stage, it has passed them on. */
size_t ln_forward_record(const ln_spec *spec, const ln_weights *weights,
                         const ln_activations *activations, const ln_kv_layer *kv,
                         const ln_batch *batch, ln_op *ops);

/* Records what brings the results of a batch, logits and hidden states, from the last stage to rank
 * 0, behind the step that makes them or the last of several; returns the number of operations. */
size_t ln_forward_record_results(const ln_spec *spec, const ln_activations *activations,
                                 const ln_batch *batch, ln_op *ops);

/* What a head that drafts reads beside the batch's tokens: hidden states, which are a norm of rows
 * of activations->x as a step has left it. A token of the batch stands at the position of the
 * hidden state, which is of the token before it. */
typedef struct ln_head_input {
    const ln_norm *norm;
    const float *aux_hidden; /* a head of its own folder: rows of the model's activations, for
                                EAGLE-3 instead of x; NULL: the rows are the head's own */
    const int32_t *rows;     /* [n_tokens] */
} ln_head_input;

/* The same of the head spec->head: its cache is kv, the model's last one, and logits are of the
 * token behind the batch's. Afterwards activations->x [n_tokens][dim] is what the head has made of
 * them, of which weights->output_norm gives the hidden states for its next step.
 *
 * Of an assistant all layers run; kv [ln_kv_layer_count] are the model's, to which their kv_layer
 * points. Logits are of all rows, and activations->aux_hidden [n_tokens][assisted_dim] are the
 * hidden states for its next step.
 *
 * Of a drafter of blocks (DFlash) all layers run; kv [spec->n_layers] are theirs, the last ones
 * beside the model's. With rows of the model, their keys and values are cached and nothing more;
 * without, the batch is of blocks, and logits are of batch->logit_rows. */
size_t ln_forward_max_head_ops(const ln_spec *spec);
size_t ln_forward_record_head(const ln_spec *spec, const ln_weights *weights,
                              const ln_activations *activations, const ln_kv_layer *kv,
                              const ln_batch *batch, const ln_head_input *in, ln_op *ops);

#endif
