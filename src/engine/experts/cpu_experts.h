/* Experts of the first layers on the CPU, where a GPU has all else of these
 * (plan/expert_offload.h).
 *
 * A step is recorded as if they were there, and runs in parts: up to a layer's experts on the
 * backend; the rows that the experts read and their choices come to the host, the CPU's kernels
 * compute the experts, and a row for each choice goes back to where the backend adds them up, in
 * the order of the choices. The CPU computes all of them in steps of any size, so the bits of a row
 * do not depend on the others. */
#ifndef LN_ENGINE_EXPERTS_CPU_EXPERTS_H
#define LN_ENGINE_EXPERTS_CPU_EXPERTS_H

#include "backend/values.h"
#include "engine/experts/expert_cache.h"
#include "engine/plan/plan.h"

/* A layer's rows (token, choice), and what they are made of, on the host. */
typedef struct ln_expert_rows {
    float *x;                /* [max_tokens][width] */
    int32_t *experts;        /* [max_tokens][n_used] */
    float *weights;          /* [max_tokens][n_used] */
    int32_t *order, *starts; /* as ln_activations has them, and what follows */
    float *hidden, *gated, *out;
    ln_op *ops;          /* of a layer */
    ln_value_uses *uses; /* of a step's values */
} ln_expert_rows;

typedef struct ln_cpu_experts {
    const ln_cpu_experts_plan *plan; /* the engine's; its n_layers is 0 when there are none */
    const ln_spec *spec;
    bool has_weights;
    ln_weights weights;
    void *memory; /* of the backend: rows */
    ln_expert_rows rows;
    ln_expert_cache cache; /* where they are read from files */
} ln_cpu_experts;

/* Adds the rows to the layout of steps of max_tokens, and the cache where the plan has one; with
 * memory, points at them. */
void ln_cpu_experts_lay_out(const ln_spec *spec, const ln_engine_plan *plan, ln_layout *layout,
                            char *memory, ln_expert_rows *rows, ln_expert_cache *cache);

/* Reserves what was planned, loads the experts, and lets the layers of `weights` have them. After a
 * failure free is called, too. */
ln_status ln_cpu_experts_init(ln_cpu_experts *cpu, const linnet_model *model,
                              const ln_engine_plan *plan, ln_weights *weights, ln_error *err);
void ln_cpu_experts_free(ln_cpu_experts *cpu);
/* What was reserved. */
size_t ln_cpu_experts_bytes(const ln_cpu_experts *cpu);

/* Runs a recorded step up to the operation behind the last experts of the CPU: *n_done operations,
 * 0 when there are none. */
ln_status ln_cpu_experts_run(ln_cpu_experts *cpu, ln_backend *backend,
                             const ln_activations *activations, ln_op *ops, size_t n_ops,
                             size_t *n_done, ln_error *err);

#endif
