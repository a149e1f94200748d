#include "backend/cuda/attention/select.h"

static bool is_size(size_t dim) {
    static const size_t sizes[] = {16, 32, 64, 80, 96, 128, 256, 512};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] == dim)
            return true;
    return false;
}

bool ln_takes_mma_attention(const ln_op_attention *op, const ln_cuda_step *step) {
    const ln_kv_layer *kv = op->kv;
    size_t d = kv->k_dim;
    uintptr_t addresses =
        (uintptr_t)kv->k | (uintptr_t)kv->v | (uintptr_t)op->q | (uintptr_t)op->out;
    bool is_power = (kv->block_tokens & (kv->block_tokens - 1)) == 0;
    bool has_whole_rows =
        !ln_kv_has_scales(kv->dtype) || ln_kv_head_bytes(kv->dtype, kv->block_tokens, d) % 16 == 0;
    return !step->exact && op->indices == NULL && op->entries == NULL &&
           op->relative_logits.queries == NULL && !op->own_sinks && is_power && op->scale > 0.0f &&
           kv->dtype != LN_KV_F32 && kv->v_dim == d && kv->v_stride == d && kv->v != kv->k &&
           is_size(d) && addresses % 16 == 0 && has_whole_rows;
}

bool ln_takes_sm90_mla(const ln_op_attention *op, const ln_cuda_step *step, bool has_sm90a) {
    enum { MIN_SHIFT = 3 }; /* boxes of whole swizzle patterns of 8 rows */
    const ln_kv_layer *kv = op->kv;
    bool is_power = (kv->block_tokens & (kv->block_tokens - 1)) == 0;
    bool is_plain = op->softcap <= 0.0f && !ln_attention_has_bias(op) && !op->own_sinks &&
                    op->indices == NULL && op->entries == NULL;
    return has_sm90a && !step->exact && is_plain && is_power &&
           kv->block_tokens >= (size_t)1 << MIN_SHIFT && op->scale > 0.0f &&
           (kv->dtype == LN_KV_F16 || kv->dtype == LN_KV_BF16) && kv->v == kv->k &&
           kv->n_heads == 1 && kv->k_dim == LN_MLA_K_DIM && kv->v_dim == LN_MLA_V_DIM &&
           (uintptr_t)kv->k % 16 == 0 && ((uintptr_t)op->q | (uintptr_t)op->out) % 16 == 0;
}

static bool decodes(const ln_cuda_step *step) {
    return step->least_tokens == 1 && step->most_tokens == 1;
}

ln_attention_split ln_attention_find_split(const ln_kv_layer *kv, size_t n_heads,
                                           const ln_cuda_step *step) {
    ln_attention_split split = {.heads_per_kv = (unsigned)(n_heads / kv->n_heads)};
    while ((size_t)1 << split.block_shift < kv->block_tokens)
        split.block_shift++;
    size_t max_tokens = step->batch.groups[kv->group].max_blocks * kv->block_tokens;
    split.split_keys = kv->k_dim == LN_MLA_K_DIM ? (unsigned)LN_MLA_SPLIT : LN_KV_SPLIT;
    split.n_splits = (unsigned)((max_tokens + split.split_keys - 1) / split.split_keys);
    split.n_items = step->batch.n_seqs * n_heads * split.n_splits;
    size_t bytes =
        LN_ATTENTION_COUNTERS * sizeof(unsigned) + split.n_items * (kv->k_dim + 2) * sizeof(float);
    split.has_scratch = bytes <= step->scratch_bytes;
    split.uses_split_kv = split.heads_per_kv <= LN_ATTENTION_SPLIT_HEADS && split.has_scratch;
    split.reads_past_only = !step->shares_new && decodes(step);
    return split;
}

bool ln_plan_takes_decode_f16(const ln_kv_layer *kv, bool sees_all, const ln_attention_split *split,
                              const ln_cuda_step *step, bool has_sm90a) {
    enum { MIN_SHIFT = 4 }; /* a group of keys to a block at least, and no more blocks than lanes */
    return (kv->dtype == LN_KV_F16 || kv->dtype == LN_KV_BF16) && split->uses_split_kv &&
           decodes(step) && !sees_all && has_sm90a && split->block_shift >= MIN_SHIFT &&
           split->heads_per_kv <= LN_SM90_DECODE_F16_MAX_HEADS &&
           (kv->k_dim == 64 || kv->k_dim == 128 || kv->k_dim == 256);
}

bool ln_plan_decodes_whole(const ln_kv_layer *kv, size_t n_splits, size_t n_seqs) {
    enum { MOST_SPLITS = 8, LEAST_WARPS = 1024 };
    return n_splits == 1 || (n_splits <= MOST_SPLITS && n_seqs * kv->n_heads >= LEAST_WARPS &&
                             kv->k_dim <= LN_DECODES_WHOLE_DIM);
}

bool ln_plan_takes_decode_q8(const ln_kv_layer *kv, const ln_attention_split *split, size_t n_seqs,
                             bool has_sm90a) {
    enum { MIN_SHIFT = 1 }; /* no more blocks to a tile than lanes */
    return ln_kv_has_scales(kv->dtype) && split->uses_split_kv && has_sm90a &&
           split->block_shift >= MIN_SHIFT && n_seqs <= LN_SM90_DECODE_Q8_MAX_SEQS &&
           n_seqs * kv->n_heads < LN_ATTENTION_COUNTERS &&
           (kv->k_dim == 64 || kv->k_dim == 128 || kv->k_dim == 256);
}

/* Whether heads need a rotation alone, of few pairs: ln_has_rope_angles. */
static bool has_rope_angles(const ln_op_qkv *p) {
    enum { LANES = 32 };
    return p->rope != NULL && p->rope->n_dims > 0 && !p->rope->last &&
           p->rope->n_dims <= 2 * LN_ROPE_LANE_PAIRS * LANES;
}

/* Whether the attention has its q and its cache from this operation. */
static bool reads_heads(const ln_op *attention, const ln_op *qkv) {
    return attention->in[LN_IN_Q] != 0 && attention->in[LN_IN_Q] == qkv->out[LN_OUT_Q] &&
           attention->in[LN_IN_CACHE] == qkv->out[LN_OUT_CACHE] &&
           qkv->qkv.n_heads == attention->attention.n_heads;
}

const char *ln_plan_refuses_qkv(const ln_op *qkv, const ln_op *attention, const ln_cuda_step *step,
                                bool has_sm90a) {
    const ln_op_qkv *h = &qkv->qkv;
    const ln_op_attention *p = &attention->attention;
    if (!reads_heads(attention, qkv))
        return "attention does not read what this finishes";
    if (step->one_by_one)
        return "a profile times every operation by itself";
    if (!ln_takes_mma_attention(p, step))
        return "attention runs without tensor cores";
    if (ln_qkv_takes_more(h))
        return "heads take more than a norm and a rotation";
    if (h->qk_norm != LN_QK_NORM_NONE)
        return "q and k have norms of their own";
    ln_attention_split split = ln_attention_find_split(p->kv, p->n_heads, step);
    if (!ln_plan_takes_decode_f16(p->kv, p->sees_all, &split, step, has_sm90a))
        return "only Hopper's decode of f16 and bf16 caches finishes q, k and v";
    if (!split.reads_past_only)
        return "sequences read what others write in this step";
    bool are_aligned = ((uintptr_t)h->k | (uintptr_t)h->v) % 16 == 0;
    return has_rope_angles(h) && are_aligned ? NULL : "heads have no rotation, or a long one";
}

bool ln_is_sm90_prefill_dim(const ln_kv_layer *kv) {
    return kv->k_dim == 64 || kv->k_dim == 128 || kv->k_dim == 256;
}

bool ln_plan_takes_prefill(const ln_op_attention *op, const ln_cuda_step *step, bool has_sm90a) {
    enum { MIN_SHIFT = 3 }; /* boxes of whole swizzle patterns of 8 rows */
    ln_attention_split split = ln_attention_find_split(op->kv, op->n_heads, step);
    bool is_plain = op->softcap <= 0.0f && !ln_attention_has_bias(op);
    return has_sm90a && ln_takes_mma_attention(op, step) && is_plain &&
           split.block_shift >= MIN_SHIFT && ln_is_sm90_prefill_dim(op->kv) &&
           (step->least_tokens > 1 || !split.uses_split_kv);
}

const char *ln_plan_refuses_prefill_qkv(const ln_op *qkv, const ln_op *attention,
                                        const ln_cuda_step *step, bool has_sm90a) {
    const ln_op_qkv *h = &qkv->qkv;
    const ln_op_attention *p = &attention->attention;
    if (!reads_heads(attention, qkv))
        return "attention does not read what this finishes";
    if (step->one_by_one)
        return "a profile times every operation by itself";
    if (!ln_plan_takes_prefill(p, step, has_sm90a))
        return "only Hopper's attention of prompts reads q in 16 bits";
    return h->qk_norm == LN_QK_NORM_FULL ? "q and k are normalised as whole rows" : NULL;
}

bool ln_plan_attention_converts(const ln_op_attention *op, const ln_cuda_step *step,
                                bool has_sm90a) {
    ln_attention_split split = ln_attention_find_split(op->kv, op->n_heads, step);
    return ln_takes_mma_attention(op, step) && split.uses_split_kv && decodes(step) &&
           (split.n_splits > 1 ||
            ln_plan_takes_decode_f16(op->kv, op->sees_all, &split, step, has_sm90a) ||
            ln_plan_takes_decode_q8(op->kv, &split, step->batch.n_seqs, has_sm90a));
}
