/* Experts that stay in the model's files, and a cache of those that were used last
 * (`experts_from_disk`).
 *
 * Each layer has the same number of slots, each of which holds one expert: its matrices as the
 * backend prepares them, by the code that loads weights. A step's experts of a layer are computed
 * in parts: first those that are there, together with as many others as find a slot, then the rest,
 * slot by slot. What a part uses no read of the same part replaces; apart from that an expert takes
 * the slot of the one that was used the longest time ago. Rows of experts do not depend on one
 * another, so parts make no difference to any bit. */
#ifndef LN_ENGINE_EXPERTS_EXPERT_CACHE_H
#define LN_ENGINE_EXPERTS_EXPERT_CACHE_H

#include "base/layout.h"
#include "engine/plan/plan.h"

/* Which experts of a layer are where. */
typedef struct ln_expert_slots {
    int32_t *slot_of;   /* [n_experts]; -1: only in the file */
    int32_t *expert_in; /* [n_slots]; -1: none */
    uint64_t *used;     /* [n_slots]: when, in parts */
} ln_expert_slots;

typedef struct ln_expert_cache {
    ln_backend *backend;
    const ln_checkpoint *checkpoint;
    const ln_spec *spec;
    const ln_weights *weights;
    ln_expert_slots *slots; /* [layers] */
    /* A part: its experts, their matrices and rows */
    size_t n_in_part;
    uint64_t part;
    bool *is_wanted;  /* [most experts] */
    int32_t *experts; /* [most experts] */
    int32_t *order, *starts;
    ln_weight *matrices[LN_EXPERT_MATRICES]; /* [most experts] each */
    ln_op *ops;
    uint64_t n_hits, n_reads, n_read_bytes;
} ln_expert_cache;

/* Adds what a cache takes beside the slots, for layers [0, n_layers) of steps of max_tokens; with
 * memory, points at it. */
void ln_expert_cache_lay_out(const ln_spec *spec, const ln_engine_plan *plan, ln_layout *layout,
                             char *memory, ln_expert_cache *cache);

/* Fills the slots, in the order of experts; the cache is laid out. Errors: IO. */
ln_status ln_expert_cache_init(ln_expert_cache *cache, const linnet_model *model,
                               const ln_engine_plan *plan, const ln_weights *weights,
                               ln_error *err);

/* Runs a layer's experts: ops[0] groups rows, the others are what follows it. Errors: IO when a
 * file cannot be read, and what was read then is forgotten; those of the backend. */
ln_status ln_expert_cache_run(ln_expert_cache *cache, const ln_op *ops, size_t n_ops,
                              ln_error *err);

#endif
