/* Launches the kernels of an attention. Decode sequences (one token in this step) and prefill
 * sequences (more) may come in one step; where all of the former come first, each kernel is
 * launched for its own, else it skips the others' sequences.
 *
 *     decode   sm90_decode_q8 (Hopper, int8 and E4M3), with its merge or merge
 *              sm90_decode_f16 (Hopper, f16 and bf16), mma_decode; then merge
 *     prefill  sm90_prefill (Hopper), mma_prefill
 *     latents  sm90_mla (Hopper, f16 and bf16); then merge
 *     else     reference
 *
 * Heads of 512 elements are mma_wide's, to which mma_decode and mma_prefill hand them on.
 *
 * The fused decode kernel has an attention of its own: fused/decode_attention.cuh.
 *
 * All kernels on tensor cores but sm90_mla have the bits of the mma_ ones. */
#include "backend/cuda/attention/launch.cuh"

#include "backend/cuda/attention/merge.cuh"
#include "backend/cuda/attention/mma_decode.cuh"
#include "backend/cuda/attention/mma_prefill.cuh"
#include "backend/cuda/attention/reference.cuh"
#include "backend/cuda/attention/sm90_decode_f16.cuh"
#include "backend/cuda/attention/sm90_decode_q8.cuh"
#include "backend/cuda/attention/sm90_mla.cuh"
#include "backend/cuda/attention/sm90_prefill.cuh"
#include "backend/cuda/runtime/pdl.cuh"

static int decode(const ln_mma_attention_args &args, const ln_qkv_args *qkv,
                  const ln_cuda_step *step, const ln_act_view *to, cudaStream_t stream) {
    size_t n_seqs = step->batch.n_seqs;
    int code;
    bool merges = args.n_splits > 1;
    if (ln_takes_sm90_decode_q8(&args, step)) {
        merges = ln_attention_merges_apart(&args, n_seqs);
        code = ln_attention_sm90_decode_q8(&args, step, !merges, to, stream);
    } else if (ln_takes_sm90_decode_f16(&args, step)) {
        bool is_whole = ln_plan_decodes_whole(&args.a.kv, args.n_splits, n_seqs);
        merges = !is_whole;
        code = ln_attention_sm90_decode_f16(&args, qkv, step, is_whole, to, stream);
    } else {
        code = ln_attention_mma_decode(&args, n_seqs, stream);
    }
    return code != 0 || !merges ? code : ln_attention_merge(&args, n_seqs, to, stream);
}

/* Attention of the step's first sequences alone, which have one token each. */
static int decode_first(const ln_attention_args &a, const ln_cuda_step *step, cudaStream_t stream) {
    ln_cuda_step decodes = *step;
    decodes.batch.n_tokens = decodes.batch.n_seqs = step->n_decodes;
    decodes.most_tokens = 1;
    decodes.shares_new = true; /* with the prompts, as far as is known */
    return decode(ln_make_mma_attention_args(&a, &decodes), NULL, &decodes, NULL, stream);
}

/* The arguments without the first n sequences. */
static void skip_sequences(ln_attention_args *a, size_t n) {
    a->block_tables += n * a->max_blocks;
    a->lengths += n;
    a->seq_starts += n;
}

int ln_mma_attention(const ln_attention_args *a, const ln_qkv_args *qkv, const ln_cuda_step *step,
                     const ln_act_view *to, cudaStream_t stream) {
    ln_mma_attention_args args = ln_make_mma_attention_args(a, step);
    size_t n_seqs = step->batch.n_seqs, most_tokens = step->most_tokens;
    int code = 0;
    if (qkv != NULL && most_tokens > 1) { /* of a prefill */
        ln_qkv_args heads = *qkv;
        if (!ln_kv_has_scales(a->kv.dtype) && ln_qkv_narrows(qkv) && ln_takes_sm90_prefill(&args)) {
            args.a.q_is_narrow = true;
            heads.q_dtype = (uint8_t)a->kv.dtype;
        }
        code = ln_qkv_launch(&heads, step->batch.n_tokens, stream);
        if (code != 0)
            return code;
    }
    if (args.uses_split_kv && most_tokens > 1 && step->n_decodes > 0) {
        code = decode_first(args.a, step, stream);
        skip_sequences(&args.a, step->n_decodes);
        n_seqs -= step->n_decodes;
    } else if (args.uses_split_kv && step->least_tokens == 1) {
        code = decode(args, qkv, step, to, stream);
    }
    if (code != 0 || (args.uses_split_kv && most_tokens == 1))
        return code;
    return ln_takes_sm90_prefill(&args)
               ? ln_attention_sm90_prefill(&args, n_seqs, most_tokens, to, stream)
               : ln_attention_mma_prefill(&args, n_seqs, most_tokens, stream);
}

int ln_cuda_attention(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_attention *p = &op->attention;
    ln_attention_args args = ln_make_attention_args(p, step);
    if (ln_takes_mma_attention(p, step))
        return ln_mma_attention(&args, NULL, step, NULL, stream);
    if (ln_takes_sm90_mla(p, step, ln_has_sm90a_code()))
        return ln_attention_sm90_mla(&args, step, stream);
    return ln_attention_reference(p, &args, step, stream);
}
