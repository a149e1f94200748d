/* Adapters of experts: stacks of PEFT's target_parameters, one expert's matrices at a time. */
#ifndef LN_MODEL_ADAPTER_EXPERTS_H
#define LN_MODEL_ADAPTER_EXPERTS_H

#include "model/adapter/matrix.h"

/* Fills the target of one expert's matrix where the file has a stack for it. */
ln_status ln_adapter_load_expert(ln_adapter_loading *l, ln_tensor_id id, const ln_weight *weight,
                                 ln_adapter_target *target, ln_error *err);

/* Steps ask the first expert of a layer whether an adapter changes any: where it changes others
 * alone, the first one gets zeros. */
ln_status ln_adapter_mark_experts(ln_adapter_loading *l, ln_error *err);

#endif
