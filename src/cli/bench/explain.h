/* linnet bench --explain: which kernels serve the operations of a step. */
#ifndef LN_CLI_BENCH_EXPLAIN_H
#define LN_CLI_BENCH_EXPLAIN_H

#include "backend/backend.h"

/* A launch of the step. */
typedef struct ln_explained_launch {
    int32_t layer, last_layer; /* of its first and last operation; -1: outside the layers */
    size_t n_ops;
    const char *kernel, *apart;
    char ops[96]; /* what they are */
} ln_explained_launch;

/* The step that is explained: the first one of n_seqs sequences that is a decode, or that is not.
 */
typedef struct ln_explained_step {
    ln_explainer explainer;
    size_t n_seqs;
    bool decodes;
    size_t n_tokens, n_ops; /* of the step; 0: none was seen yet */
    ln_explained_launch *launches;
    size_t n_launches, max_launches;
    bool has_heard; /* another step has begun */
    bool has_no_memory;
} ln_explained_step;

/* From now on the backend's steps are looked at; `step` stays until forget. */
void ln_cli_explain_next(ln_explained_step *step, ln_backend *backend, size_t n_seqs, bool decodes);
/* Prints it: equal layers once. false: no such step was seen, or memory ran out. */
bool ln_cli_explain_print(const ln_explained_step *step);
void ln_cli_explain_forget(ln_explained_step *step, ln_backend *backend);

#endif
