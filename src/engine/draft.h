/* A draft model: a smaller checkpoint with the same vocabulary that guesses for speculation.
 *
 * Its keys and values lie in blocks with the numbers of the model's, so one block table serves
 * both. Where a block holds nothing of the draft's (after a swap, in a copy) the tokens are read
 * again, or guesses are worse; no output depends on them. Guesses are sampled as the model's tokens
 * are, with the random numbers of their positions. */
#ifndef LN_ENGINE_DRAFT_H
#define LN_ENGINE_DRAFT_H

#include "engine/plan/plan.h"
#include "engine/step.h"
#include "model/forward.h"
#include "sampling/sampler.h"

typedef struct ln_draft {
    const ln_draft_plan *plan; /* the engine's; its model is NULL when there is none */
    bool has_weights;
    ln_weights weights;
    void *kv, *activation_memory, *memory; /* as planned */
    ln_activations activations;
    ln_kv_layer *layers;             /* [ln_kv_layer_count] */
    ln_op *ops;                      /* [ln_forward_max_ops] */
    ln_sequence **decoding, **asked; /* [max_seqs] that could have guesses, that wait for one */
    ln_step step;
    float *logits; /* of the last batch [n_logits][n_vocab], the host's */
} ln_draft;

/* Opens the checkpoint and checks that it can draft for `model`; with path NULL draft->model is
 * NULL. The caller closes draft->model. Errors: those of linnet_model_open, UNSUPPORTED. */
ln_status ln_draft_open(const linnet_model *model, const char *path, ln_draft_plan *draft,
                        ln_error *err);
/* What its weights take; then, once budget and KV shape are chosen, all of it: plan->draft, its
 * part of plan->limits and plan->bytes. */
ln_status ln_draft_plan_weights(ln_engine_plan *plan, const ln_backend *backend, ln_error *err);
ln_status ln_draft_plan_rest(ln_engine_plan *plan, ln_error *err);

/* Reserves what was planned, and loads the weights. After a failure free is called, too. */
ln_status ln_draft_init(ln_draft *draft, const ln_engine_plan *plan, ln_backend *backend,
                        ln_error *err);
void ln_draft_free(ln_draft *draft, ln_backend *backend);
/* What was reserved, and the open model's own. */
size_t ln_draft_bytes(const ln_draft *draft);

/* Guesses up to n_draft tokens of each of the n sequences in engine->draft.decoding, which have the
 * blocks for it, and sets their n_draft to what came of it. */
void ln_draft_guess(linnet_engine *engine, size_t n);

#endif
