/* The first layers, on the CPU, where a GPU takes only the last ones: weights, KV blocks and
 * activations of their own. A step runs them first and hands the rows of x on.
 *
 * The engine's own backend has the other layers and the output, and its arenas are theirs. */
#ifndef LN_ENGINE_PLAN_CPU_LAYERS_H
#define LN_ENGINE_PLAN_CPU_LAYERS_H

#include "engine/plan/plan.h"
#include "model/activations.h"

typedef struct ln_front {
    const ln_front_plan *plan; /* the engine's; its n_layers is 0 when there is none */
    bool has_weights;
    ln_weights weights;
    void *kv, *activation_memory;
    ln_activations activations;
} ln_front;

/* Chooses how many layers the first ones are, which `gpu_layers` of the options asks for or the
 * memory of the GPU; creates their backend and sizes all that they take. The plan has every other
 * size for all layers on `backend`, and is sized again. Errors: UNSUPPORTED, ARGUMENT, NOMEM. */
ln_status ln_front_plan_make(const linnet_model *model, const linnet_engine_options *options,
                             const ln_backend *backend, const ln_backend_options *backend_options,
                             ln_engine_plan *plan, ln_error *err);

/* Sizes what depends on the budget and the KV shape: plan->front, its part of plan->limits and
 * plan->bytes. */
ln_status ln_front_plan_rest(const ln_spec *spec, ln_engine_plan *plan, ln_error *err);

/* Reserves what was planned, binds its layers of kv_layers, and loads the weights. After a failure
 * free is called, too. */
ln_status ln_front_init(ln_front *front, const linnet_model *model, const ln_engine_plan *plan,
                        ln_kv_layer *kv_layers, ln_error *err);
void ln_front_free(ln_front *front);
/* What was reserved. */
size_t ln_front_bytes(const ln_front *front);

/* Runs the first layers of the step that was built, and copies of KV blocks before them, if there
 * are layers; ops [1 + ln_forward_max_ops] is room to record into. */
ln_status ln_front_run(linnet_engine *engine, ln_op *ops, ln_error *err);

#endif
