#include "backend/cuda/launch.h"

#include "backend/cuda/ops/compress.h"
#include "backend/cuda/ops/route.h"
#include "backend/cuda/ranks/launch.h"
#include "backend/cuda/ranks/link.h"

static const ln_cuda_kernel kernels[LN_OP_COUNT] = {
    [LN_OP_COPY] = ln_cuda_copy,
    [LN_OP_EMBED] = ln_cuda_embed,
    [LN_OP_NORM] = ln_cuda_norm,
    [LN_OP_LINEAR] = ln_cuda_linear,
    [LN_OP_QKV] = ln_cuda_qkv,
    [LN_OP_LATENT] = ln_cuda_latent,
    [LN_OP_COMPRESS] = ln_cuda_compress,
    [LN_OP_INDEX] = ln_cuda_index,
    [LN_OP_ATTENTION] = ln_cuda_attention,
    [LN_OP_ROUTE] = ln_cuda_route,
    [LN_OP_GROUP] = ln_cuda_group,
    [LN_OP_COMBINE] = ln_cuda_combine,
    [LN_OP_POINTWISE] = ln_cuda_pointwise,
    [LN_OP_ROWWISE] = ln_cuda_rowwise,
    [LN_OP_CONV] = ln_cuda_conv,
    [LN_OP_SCAN] = ln_cuda_scan,
    [LN_OP_GATED_NORM] = ln_cuda_gated_norm,
    [LN_OP_GATHER] = ln_cuda_gather,
    [LN_OP_SAMPLE] = ln_cuda_sample,
    [LN_OP_LORA_SHRINK] = ln_cuda_lora_shrink,
    [LN_OP_ALL_REDUCE] = ln_cuda_all_reduce,
    [LN_OP_RANK_GATHER] = ln_cuda_rank_gather,
    [LN_OP_RANK_PASS] = ln_cuda_rank_pass,
};

bool ln_cuda_has_kernel(ln_op_kind kind) {
    return kernels[kind] != NULL;
}

/* An all-reduce with the norm behind it. */
static int reduce_norm(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                       ln_cuda_stream stream) {
    const ln_op *sum = &ops[launch->first];
    const ln_ipc_norm op = {.sum = &sum->all_reduce,
                            .norm = &sum[1].norm,
                            .to = launch->converts_to ? &launch->to : NULL,
                            .leaves_out_sum = plan->places[sum->out[LN_OUT]].is_left_out,
                            .leaves_out = launch->leaves_out};
    return ln_cuda_link_reduce_norm(&op, stream);
}

int ln_cuda_launch_one(const ln_cuda_plan *plan, const ln_cuda_launch *launch, const ln_op *ops,
                       const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op *first = &ops[launch->first];
    if (launch->expands)
        return ln_cuda_lora_expand(launch, ops, step, stream);
    switch (launch->kind) {
    case LN_CUDA_FUSED_DECODE: return ln_cuda_fused_decode(plan, launch, ops, step, stream);
    case LN_CUDA_LINEAR_NORM: return ln_cuda_linear_norm(plan, launch, ops, step, stream);
    case LN_CUDA_MIXTURE: return ln_cuda_mixture(launch, ops, step, stream);
    case LN_CUDA_GEMM: return ln_cuda_gemm(launch, ops, stream);
    case LN_CUDA_LORA_GEMM: return ln_cuda_lora_gemm(launch, ops, step, stream);
    case LN_CUDA_GROUPED_GEMM: return ln_cuda_grouped_gemm(launch, ops, stream);
    case LN_CUDA_NORM:
        return launch->n_ops > 1 ? reduce_norm(plan, launch, ops, stream)
                                 : ln_cuda_norm_convert(launch, ops, step, stream);
    case LN_CUDA_ATTENTION: return ln_cuda_attention_convert(launch, ops, step, stream);
    case LN_CUDA_LINEAR_PAIR: return ln_cuda_linear_pair(first, step, stream);
    case LN_CUDA_ROUTE_GROUP:
        return launch->converts_x ? ln_cuda_route_group_convert(first, &launch->x, step, stream)
                                  : ln_cuda_route_group(first, step, stream);
    case LN_CUDA_OP:
    case LN_CUDA_LAUNCH_KINDS: break;
    }
    return kernels[first->kind](first, step, stream);
}
