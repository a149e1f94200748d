/* The plan of a draft model: its checkpoint, and the sizes of all that it takes; and of a head. */
#ifndef LN_ENGINE_PLAN_DRAFT_H
#define LN_ENGINE_PLAN_DRAFT_H

#include "engine/plan/plan.h"

/* Opens the draft model's folder, if there is one and may be used: draft->model or draft->head.
 * The caller closes both. Errors: those of ln_model_open. */
ln_status ln_engine_plan_open_draft(const linnet_engine_options *options, ln_draft_plan *draft,
                                    ln_error *err);

/* Checks that it can draft for `model`, once it is chosen; a head with
 * caches of its own becomes that of plan->spec. Errors: UNSUPPORTED. */
ln_status ln_engine_plan_check_draft(const linnet_model *model, ln_engine_plan *plan,
                                     ln_error *err);

/* What its weights take; then, once budget and KV shape are chosen, all of it: plan->draft, its
 * part of plan->limits and plan->bytes. */
ln_status ln_engine_plan_draft_weights(const linnet_model *model, ln_engine_plan *plan,
                                       const ln_backend *backend, ln_error *err);
ln_status ln_engine_plan_draft(ln_engine_plan *plan, ln_error *err);

/* The shape of its steps: tables as long as the model's. */
ln_kv_shape ln_engine_plan_draft_shape(const ln_engine_plan *plan);

/* Lays out K and V blocks of every layer; with `layers`, these are bound to `memory`. */
void ln_engine_plan_lay_out_draft_kv(const ln_engine_plan *plan, ln_layout *layout,
                                     ln_kv_layer *layers, void *memory);

/* Lays out the host's memory of its steps. */
typedef struct ln_draft_layout {
    size_t layers, ops, decoding, asked, step;
} ln_draft_layout;
ln_draft_layout ln_engine_plan_lay_out_draft(const ln_engine_plan *plan, ln_layout *layout);

/* The same of a head's. */
typedef struct ln_head_layout {
    size_t ops, asked, rows, step;
    size_t ids, row; /* with tokens of its own: which of the model's they are, a row of logits */
} ln_head_layout;
/* Of the activations that a head of its own folder has. */
ln_activations_shape ln_engine_plan_head_activations(const ln_engine_plan *plan);

ln_head_layout ln_engine_plan_lay_out_head(const ln_engine_plan *plan, ln_layout *layout);

#endif
