/* The sizes of the arenas, for given layers of the backend, context and budget. */
#ifndef LN_ENGINE_PLAN_SIZES_H
#define LN_ENGINE_PLAN_SIZES_H

#include "engine/plan/plan.h"
#include "engine/row_sampler.h"

enum { LN_DEFAULT_BATCH_TOKENS = 512 };

/* What steps of the options hold, for plan->ctx_tokens. */
void ln_engine_plan_budget(const linnet_engine_options *options, ln_engine_plan *plan);

/* Sizes all that depends on the layers of the backend: the weights, then the other arenas. */
ln_status ln_engine_plan_weights(const linnet_model *model, const ln_backend *backend,
                                 ln_engine_plan *plan, ln_error *err);
ln_status ln_engine_plan_arenas(const ln_spec *spec, const ln_backend *backend,
                                ln_engine_plan *plan, ln_error *err);

/* Offsets in the engine's own arena, which begins with struct linnet_engine. */
typedef struct ln_engine_layout {
    size_t kv_layers, swap_layers, ops, scheduler, logits;
} ln_engine_layout;
ln_engine_layout ln_engine_plan_lay_out(const ln_spec *spec, const ln_engine_plan *plan,
                                        ln_layout *layout);

/* What the sampling of rows needs memory for. */
ln_row_sampler_shape ln_engine_plan_rows(const ln_spec *spec, const ln_engine_plan *plan);

#endif
