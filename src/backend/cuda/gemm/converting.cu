/* Norms and attention that convert their result to the form that the linears behind them read. */
#include "backend/cuda/activations/view.cuh"
#include "backend/cuda/attention/launch.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/ops/norm.cuh"

int ln_cuda_norm_convert(const ln_cuda_launch *launch, const ln_op *ops, const ln_cuda_step *step,
                         ln_cuda_stream stream) {
    const ln_op_norm *p = &ops[launch->first].norm;
    ln_act_view to = ln_act_view_of(&launch->to);
    const int32_t *rows = ln_cuda_norm_rows(&ops[launch->first], step);
    return ln_norm_launch(p->norm, p->n_rows, rows, p->x, p->residual, p->scale,
                          launch->leaves_out ? NULL : p->out, &to, stream);
}

int ln_cuda_attention_convert(const ln_cuda_launch *launch, const ln_op *ops,
                              const ln_cuda_step *step, ln_cuda_stream stream) {
    bool has_qkv = launch->n_ops > 1;
    const ln_op *first = &ops[launch->first], *attention = first + has_qkv;
    ln_attention_args args = ln_make_attention_args(&attention->attention, step);
    ln_qkv_args heads = {};
    ln_act_view to = {};
    if (has_qkv)
        heads = ln_make_qkv_args(&first->qkv, step);
    if (launch->converts_to)
        to = ln_act_view_of(&launch->to);
    return ln_mma_attention(&args, has_qkv ? &heads : NULL, step, launch->converts_to ? &to : NULL,
                            stream);
}
