/* A batch: the tokens of one step, flat and ragged. Prefill and decode mix; a prompt may come in
 * chunks. All arrays belong to the engine and stay valid while the step runs. */
#ifndef LN_BACKEND_BATCH_H
#define LN_BACKEND_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/draw.h"

enum { LN_MAX_KV_GROUPS = 6 };

/* Where the batch's keys and values lie in one KV group (layers that cache alike). A slot is
 * block * block_tokens + offset in block. */
typedef struct ln_batch_group {
    const int32_t *block_tables; /* [n_seqs][max_blocks]; -1: freed, behind the window */
    size_t max_blocks;
    const int32_t *lengths; /* [n_seqs] tokens cached once this step has written its own */
    const int32_t *slots;   /* [n_tokens] where each token's K and V are written */
} ln_batch_group;

/* Rows of a step that have an adapter, in runs of rows with the same one. */
enum { LN_ADAPTER_RUN = 16 };
typedef struct ln_adapter_run {
    int32_t slot;       /* of the adapter: index of ln_weight.adapters */
    int32_t begin, end; /* of `order`, at most LN_ADAPTER_RUN rows */
} ln_adapter_run;

typedef struct ln_adapter_rows {
    size_t n_runs;              /* 0: no row has an adapter, and nothing else is looked at */
    const int32_t *slots;       /* [rows] the row's adapter, or -1 */
    const int32_t *order;       /* rows that have one, sorted by adapter, ascending in each */
    const ln_adapter_run *runs; /* [n_runs] */
} ln_adapter_rows;

typedef struct ln_batch {
    size_t n_tokens, n_seqs, n_logits, n_groups;
    const int32_t *tokens;      /* [n_tokens] ids, each below n_vocab; with has_device_tokens in the
                                   backend's memory, where the step before writes them, and where
                                   LN_OP_SAMPLE, last of this one, writes the next: each row
                                   over its own token, then the only one that it reads */
    const int32_t *positions;   /* [n_tokens] absolute, contiguous within a sequence */
    const int32_t *seq_starts;  /* [n_seqs + 1] first token of each sequence, then n_tokens */
    const int32_t *logit_rows;  /* [n_logits] tokens whose logits are wanted, ascending */
    const int32_t *hidden_rows; /* [n_hidden] the same of hidden states behind the last norm */
    size_t n_hidden;
    const int32_t *types; /* [n_tokens] which of several texts a token is of; NULL: the first */
    const ln_draw *draws; /* [n_logits] for LN_OP_SAMPLE; NULL: it takes the best */
    const int32_t *edits; /* [n_edit_rows][LN_DRAW_WORDS] of these draws, or NULL */
    size_t n_edit_rows;   /* at most n_seqs */
    ln_batch_group groups[LN_MAX_KV_GROUPS];
    ln_adapter_rows adapters, logit_adapters; /* of the tokens, and of the rows of logits */
    bool repeats; /* what operations point to (weights, norms, caches) stays as it is from step to
                     step: equal operations may be replayed */
    bool has_device_tokens;
} ln_batch;

#endif
