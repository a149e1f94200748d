/* The first layers, on the CPU, where a GPU has only the last ones (plan/offload.h): weights, KV
 * blocks and activations of their own. A step runs them first and hands the rows of x on.
 *
 * The engine's own backend has the other layers and the output, and its arenas are theirs. */
#ifndef LN_ENGINE_CPU_LAYERS_H
#define LN_ENGINE_CPU_LAYERS_H

#include "engine/kv_memory.h"
#include "model/forward.h"

typedef struct ln_cpu_layers {
    const ln_cpu_layers_plan *plan; /* the engine's; its n_layers is 0 when there are none */
    const ln_spec *spec;
    bool has_weights;
    ln_weights weights;
    void *kv, *activation_memory;
    ln_activations activations;
} ln_cpu_layers;

/* Reserves what was planned, binds its layers of kv_layers, and loads the weights. After a failure
 * free is called, too. */
ln_status ln_cpu_layers_init(ln_cpu_layers *cpu, const linnet_model *model,
                             const ln_engine_plan *plan, ln_kv_layer *kv_layers, ln_error *err);
void ln_cpu_layers_free(ln_cpu_layers *cpu);
/* What was reserved. */
size_t ln_cpu_layers_bytes(const ln_cpu_layers *cpu);

/* Runs the first layers of a step, if there are any, after the cache's copies of their blocks, and
 * uploads the rows at the border to the activations of the backend that has the other layers. ops
 * [1 + ln_forward_max_ops] is room to record into. */
ln_status ln_cpu_layers_run(const ln_cpu_layers *cpu, const ln_batch *batch, const ln_kv_memory *kv,
                            const ln_kv_cache *cache, ln_op *ops, ln_backend *next,
                            const ln_activations *next_activations, ln_error *err);

#endif
