/* Which kernel serves an attention, as the host chooses it. */
#ifndef LN_BACKEND_CUDA_ATTENTION_SELECT_H
#define LN_BACKEND_CUDA_ATTENTION_SELECT_H

#include "backend/cuda/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LN_ATTENTION_COUNTERS = 8192,     /* in front of the scratch: finished KV splits */
    LN_ATTENTION_SPLIT_HEADS = 16,    /* query heads to a KV head, where KV is split */
    LN_SM90_DECODE_F16_MAX_HEADS = 8, /* the same */
    LN_SM90_DECODE_Q8_MAX_SEQS = 512,
    LN_DECODES_WHOLE_DIM = 128, /* head dim up to which a warp has registers for merged splits */
    LN_MLA_K_DIM = 576,         /* a latent and its rotated elements, as sm90_mla.cu takes them */
    LN_MLA_V_DIM = 512,
    LN_MLA_ROWS = 64,
    LN_MLA_SPLIT = 512 /* keys of a KV split of it; O is large, and merging goes through L2 */
};

/* Whether kernels on tensor cores take the operation. */
bool ln_takes_mma_attention(const ln_op_attention *op, const ln_cuda_step *step);

/* Whether sm90_mla.cu takes it, which the others do not. */
bool ln_takes_sm90_mla(const ln_op_attention *op, const ln_cuda_step *step, bool has_sm90a);

/* How such a kernel divides KV. */
typedef struct ln_attention_split {
    unsigned heads_per_kv, n_splits; /* n_splits: that the block tables can hold */
    unsigned split_keys;             /* of a KV split, at absolute multiples */
    unsigned block_shift;            /* a block has 1 << block_shift tokens */
    bool has_scratch;                /* for partial results of all splits */
    bool uses_split_kv;              /* sequences of one token are the split kernel's */
    bool reads_past_only; /* of the rows they read, this step writes none but their own */
    size_t n_items;       /* splits of all heads of all sequences */
} ln_attention_split;

ln_attention_split ln_attention_find_split(const ln_kv_layer *kv, size_t n_heads,
                                           const ln_cuda_step *step);

/* Whether Hopper's kernels for decode take it: sm90_decode_f16.cu and sm90_decode_q8.cu. */
bool ln_plan_takes_decode_f16(const ln_kv_layer *kv, bool sees_all, const ln_attention_split *split,
                              const ln_cuda_step *step, bool has_sm90a);
/* Whether a warp of sm90_decode_f16.cu takes all KV splits of a KV head, of n_splits at most: where
 * there is one, or few and sequences enough to keep all SMs busy. */
bool ln_plan_decodes_whole(const ln_kv_layer *kv, size_t n_splits, size_t n_seqs);
bool ln_plan_takes_decode_q8(const ln_kv_layer *kv, const ln_attention_split *split, size_t n_seqs,
                             bool has_sm90a);

/* Whether its kernel does what the QKV in front of it asks for, too. NULL, or why not. */
const char *ln_plan_refuses_qkv(const ln_op *qkv, const ln_op *attention, const ln_cuda_step *step,
                                bool has_sm90a);
/* Whether Hopper's kernel for prompts (sm90_prefill.cu) has heads of this size in such a cache. */
bool ln_is_sm90_prefill_dim(const ln_kv_layer *kv);
/* Whether it takes all of the operation. */
bool ln_plan_takes_prefill(const ln_op_attention *op, const ln_cuda_step *step, bool has_sm90a);
/* Whether q between a QKV and the attention of prompts behind it can be 16 bits. NULL, or why not.
 */
const char *ln_plan_refuses_prefill_qkv(const ln_op *qkv, const ln_op *attention,
                                        const ln_cuda_step *step, bool has_sm90a);
/* Whether its kernel converts the result for a linear. */
bool ln_plan_attention_converts(const ln_op_attention *op, const ln_cuda_step *step,
                                bool has_sm90a);

#ifdef __cplusplus
}
#endif

#endif
