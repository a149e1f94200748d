/* Who drafts, and how much. */
#ifndef LN_ENGINE_PLAN_DRAFTER_H
#define LN_ENGINE_PLAN_DRAFTER_H

#include "engine/plan/plan.h"

/* Chooses plan->draft.kind, the head in plan->spec and plan->draft_tokens, from the options and
 * what the model has. plan->spec is the model's before. Errors: ARGUMENT, UNSUPPORTED. */
ln_status ln_engine_plan_choose_drafter(const linnet_model *model,
                                        const linnet_engine_options *options, ln_engine_plan *plan,
                                        ln_error *err);

/* What a folder is that may draft, for messages. */
const char *ln_drafter_noun(const ln_spec *spec);

#endif
