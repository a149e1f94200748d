/* DoRA: the rows of W + B A get lengths that the adapter has for them. */
#ifndef LN_MODEL_ADAPTER_DORA_H
#define LN_MODEL_ADAPTER_DORA_H

#include "model/adapter/matrix.h"

/* Whether the slot's backend and this kind of matrix can have one; otherwise why not. */
ln_status ln_adapter_check_dora(const ln_adapter_loading *l, ln_tensor_id id,
                                const ln_weight *weight, ln_error *err);

/* What multiplies the linear's results, for a target that has A and B. */
ln_status ln_adapter_load_dora(ln_adapter_loading *l, const ln_adapter_part *part,
                               const ln_adapter_row_map *map, ln_tensor_id id,
                               const ln_weight *weight, ln_adapter_target *target, ln_error *err);

#endif
