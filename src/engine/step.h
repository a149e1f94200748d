/* A step: the arrays of a batch, built from the scheduler's chunks in planned memory. */
#ifndef LN_ENGINE_STEP_H
#define LN_ENGINE_STEP_H

#include "backend/batch.h"
#include "engine/scheduler.h"

typedef struct ln_step_group {
    int32_t *block_tables; /* [max_seqs][max_blocks] */
    int32_t *lengths;      /* [max_seqs] */
    int32_t *slots;        /* [max_tokens] */
} ln_step_group;

/* The arrays of ln_adapter_rows. */
typedef struct ln_step_adapters {
    int32_t *slots, *order; /* [rows] */
    ln_adapter_run *runs;   /* [rows] */
} ln_step_adapters;

typedef struct ln_step {
    int32_t *tokens, *positions;  /* [max_tokens] */
    int32_t *seq_starts;          /* [max_seqs + 1] */
    int32_t *logit_rows;          /* [max_logits] */
    int32_t *hidden_rows, *types; /* [max_tokens] */
    ln_draw *draws;               /* [max_logits] */
    int32_t *edits;               /* [max_seqs][LN_DRAW_WORDS] */
    ln_step_group groups[LN_KV_MAX_GROUPS];
    size_t n_adapters;               /* slots of adapters; 0: the next two are empty */
    ln_step_adapters adapters;       /* of [max_tokens] */
    ln_step_adapters logit_adapters; /* of [max_logits] */
    ln_batch batch;                  /* points to the arrays above */
    size_t part_tokens; /* of a micro-batch, where stages are told a step; 0: it is not divided */
    bool by_part;       /* micro-batches have results of their own (execute.c) */
    bool shares_tokens; /* those that the backend of rank 0 samples come to the other ranks that
                           embed, for the step behind */
} ln_step;

/* Adds the arrays to an empty layout; init takes that many bytes, which outlive the step. */
void ln_step_plan(const ln_step_budget *budget, const ln_kv_shape *shape, ln_layout *layout);
void ln_step_init(ln_step *step, const ln_step_budget *budget, const ln_kv_shape *shape,
                  void *memory);

/* Fills step->batch with the scheduler's chunks, in their order. */
void ln_step_build(ln_step *step, const ln_scheduler *scheduler);

/* Another rank than 0: sorts the rows of a step whose slots are there; `any`: some have adapters.
 */
void ln_step_sort_adapters(ln_step *step, bool any);

/* Sorts n_rows rows from `first` on, whose slots are there, into the arrays of `to`; rows count
 * from `first`. */
ln_adapter_rows ln_step_sort_slots(const ln_step *step, const ln_step_adapters *to, size_t first,
                                   size_t n_rows);

/* Fills step->batch with the step behind the one of these chunks, which has not been committed: the
 * next token of each, from tokens [n_chunks] in the backend's memory. */
void ln_step_follow(ln_step *step, const ln_scheduler *scheduler, const int32_t *tokens);

#endif
