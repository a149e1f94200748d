/* A draft model: a smaller checkpoint with the same vocabulary that drafts for speculation.
 *
 * Its keys and values lie in blocks with the numbers of the model's, so one block table serves
 * both. Where a block holds nothing of the draft's (after a swap, in a copy) the tokens are read
 * again, or drafts are worse; no output depends on them. Drafts are sampled as the model's tokens
 * are, with the random numbers of their positions. */
#ifndef LN_ENGINE_DRAFT_MODEL_H
#define LN_ENGINE_DRAFT_MODEL_H

#include "engine/plan/plan.h"
#include "engine/step.h"
#include "model/forward.h"
#include "sampling/sampler.h"

typedef struct ln_draft_model {
    const ln_draft_plan *plan; /* the engine's; its model is NULL when there is none */
    ln_backend *backend;       /* the engine's, as what follows */
    const ln_kv_cache *kv;
    ln_sampler *sampler;
    size_t max_tokens; /* of a step */
    bool has_weights;
    ln_weights weights;
    void *kv_memory, *activation_memory, *memory; /* as planned */
    ln_activations activations;
    ln_kv_layer *layers;             /* [ln_kv_layer_count] */
    ln_op *ops;                      /* [ln_forward_max_ops] */
    ln_sequence **decoding, **asked; /* [max_seqs] that could have drafts, that wait for a token */
    ln_step step;
    float *logits; /* of the last batch [n_logits][n_vocab], the host's */
} ln_draft_model;

/* Reserves what was planned, and loads the weights. After a failure free is called, too. */
ln_status ln_draft_model_init(ln_draft_model *draft, const ln_engine_plan *plan,
                              ln_backend *backend, const ln_kv_cache *kv, ln_sampler *sampler,
                              ln_error *err);
void ln_draft_model_free(ln_draft_model *draft);
/* What was reserved, and the open model's own. */
size_t ln_draft_model_bytes(const ln_draft_model *draft);

#endif
