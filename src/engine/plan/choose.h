/* Sizes that the options leave to the plan. */
#ifndef LN_ENGINE_PLAN_CHOOSE_H
#define LN_ENGINE_PLAN_CHOOSE_H

#include "engine/plan/plan.h"

/* Whether all but the weights takes at most so many eighths of the memory that they leave, with the
 * plan's context, sequences and KV cache. */
bool ln_engine_plan_fits_share(const ln_backend *backend, const linnet_engine_options *options,
                               size_t available, size_t eighths, ln_engine_plan *plan);

/* Sets the context, which tables by position among the weights are as long as. */
ln_status ln_engine_plan_set_ctx(const linnet_model *model, const ln_backend *backend,
                                 size_t ctx_tokens, ln_engine_plan *plan, ln_error *err);

/* The longest context that a model is made for. */
size_t ln_engine_plan_most_ctx(const ln_spec *spec);

/* Chooses the context: the model's own, or the largest multiple of 256 tokens, from 512 on, with
 * which all but the weights takes at most half of the free memory that these leave. Tables by
 * position count as weights. */
ln_status ln_engine_plan_choose_ctx(const linnet_model *model, const linnet_engine_options *options,
                                    const ln_backend *backend, ln_engine_plan *plan, ln_error *err);

/* Whether texts are read for their vectors alone. spec: the model's, or a rank's part of it. */
bool ln_engine_plan_embeds(const linnet_model *model, const ln_spec *spec);

/* A GPU that reads texts for their vectors alone does so faster in long steps: up to 32,768 tokens,
 * in which no text's bits depend on the others, as far as free memory allows. plan->ctx_tokens is
 * chosen before, so texts may be as long as with short steps. */
void ln_engine_plan_choose_steps(const linnet_model *model, const linnet_engine_options *options,
                                 const ln_backend *backend, ln_engine_plan *plan);

#endif
