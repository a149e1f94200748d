/* The kernels' launchers, one for each kind of operation. They queue work on the stream and return
 * 0, or the runtime's error code. All pointers of an operation are device memory, but for the
 * structs that it points to (weights, norms, ropes, cache layers), which the launcher reads.
 *
 * Every sum runs in an order that depends on the row's own length alone. */
#ifndef LN_BACKEND_CUDA_OPS_H
#define LN_BACKEND_CUDA_OPS_H

#include "backend/cuda/runtime/device.h"
#include "backend/op.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LN_ROPE_LANE_PAIRS = 2 }; /* of a head that a lane rotates, at most: ops/qkv.cuh */

/* Rows with adapters on the device. Behind the runs of rows with an adapter lie those of the rest,
 * whose slot is -1. Steps that a graph replays have other runs, but the same greatest numbers of
 * them: kernels read how many there are. */
typedef struct ln_cuda_adapter_rows {
    ln_adapter_rows rows;            /* n_runs 0: no row has one */
    const int32_t *counts;           /* [2] runs of rows with an adapter, and all runs */
    size_t most_runs, most_all_runs; /* what these are at most */
} ln_cuda_adapter_rows;

/* The batch on the device. */
typedef struct ln_cuda_step {
    ln_batch batch;            /* its arrays in device memory; block tables cut to what is in use */
    const int32_t *token_seqs; /* [n_tokens] the sequence of each token */
    ln_cuda_adapter_rows adapters, logit_adapters; /* of the batch */
    size_t least_tokens, most_tokens;              /* of one sequence */
    size_t n_decodes; /* sequences of one token, which all come first; 0: none, or not so */
    bool shares_new;  /* a sequence of one token reads what another one writes in this step */
    bool exact;       /* float32 throughout */
    bool one_by_one;  /* kernels do not finish what another operation is for */
    void *scratch;    /* [scratch_bytes] for what lies between two kernels */
    size_t scratch_bytes;
    unsigned *fused_workspace; /* ln_fused_workspace_bytes; NULL: run no fused kernels */
    float *raw;                /* [raw_floats] for linears before their adapters */
    size_t raw_floats;
    void
        *adapter_scratch; /* ln_cuda_adapter_scratch_bytes, zeroed; NULL: they compute in float32 */
} ln_cuda_step;

/* The rows that a norm gathers, or NULL. */
static inline const int32_t *ln_cuda_norm_rows(const ln_op *norm, const ln_cuda_step *step) {
    const int32_t *rows = norm->norm.rows;
    if (rows == NULL)
        return NULL;
    return rows == norm->batch->hidden_rows ? step->batch.hidden_rows : step->batch.logit_rows;
}

/* Those of which an operation knows the host's rows. */
static inline const ln_cuda_adapter_rows *
ln_cuda_find_adapter_rows(const ln_op *op, const ln_adapter_rows *rows, const ln_cuda_step *step) {
    return rows == &op->batch->logit_adapters ? &step->logit_adapters : &step->adapters;
}

/* Memory between the halves of adapters' linears on tensor cores. */
size_t ln_cuda_adapter_scratch_bytes(void);

/* Scratch for attention of max_tokens tokens in each of max_seqs sequences. It begins with words
 * that are 0 between kernels. */
size_t ln_cuda_attention_bytes(size_t max_seqs, size_t max_heads, size_t max_tokens,
                               size_t head_dim);

/* Scratch for the scores of an indexer, behind such words; 0 where it scores none. */
size_t ln_cuda_index_bytes(size_t max_tokens, size_t max_indexed);

typedef int (*ln_cuda_kernel)(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);

int ln_cuda_copy(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_embed(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_norm(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_linear(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_lora_shrink(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_qkv(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_latent(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_index(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_attention(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_route(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_group(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_combine(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_pointwise(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_rowwise(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_conv(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_scan(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_gated_norm(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_gather(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);
int ln_cuda_sample(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
