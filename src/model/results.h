/* The results of a step as operations: logits and hidden states, and how the ranks hand rows on. */
#ifndef LN_MODEL_RESULTS_H
#define LN_MODEL_RESULTS_H

#include "model/recorder.h"

/* Logits of the batch's logit_rows of the residual stream, in a->logits. */
void ln_record_logits(recorder *r);
/* Hidden states behind the output norm, where the last block has left ffn_normed. */
void ln_record_hidden_states(recorder *r);

/* Rows of x [n_rows][dim] go to a rank, or come from it. */
void ln_record_rank_pass(recorder *r, size_t other, bool sends, size_t n_rows, size_t dim,
                         float *x);
/* What the last stage has made comes to rank 0. */
void ln_record_results(recorder *r);

#endif
