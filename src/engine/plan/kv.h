/* The sizes of the KV cache and of its swap space. */
#ifndef LN_ENGINE_PLAN_KV_H
#define LN_ENGINE_PLAN_KV_H

#include "engine/plan/plan.h"

/* Layers of the KV cache, of all that ln_kv_layer_count counts. */
typedef struct ln_kv_range {
    size_t first, end;
} ln_kv_range;

/* Lays out n_blocks[groups] K and V blocks of these layers in the KV arena, or the swap arena; with
 * kv_layers [ln_kv_layer_count], points them into `memory` as well. */
void ln_engine_plan_lay_out_kv(const ln_spec *spec, const ln_engine_plan *plan, ln_kv_range range,
                               const size_t *n_blocks, ln_layout *layout, ln_kv_layer *kv_layers,
                               void *memory);

/* Chooses the blocks of the KV cache and of its swap space, and sizes both arenas. */
ln_status ln_engine_plan_kv(const ln_spec *spec, ln_engine_plan *plan, ln_error *err);

#endif
