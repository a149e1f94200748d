/* Linears of packed weight tiles (weights/layout.h): dispatch to a kernel by weight layout, by M
 * above LN_SMALL_M_ROWS, and by whether activations lie in tiles, as they do on Hopper from 9 rows
 * on (ln_act_require of activations/form.c). Converts activations to the form that the kernel
 * reads. */
#include "backend/cuda/gemm/select.cuh"

#include "backend/cuda/activations/convert.h"
#include "backend/cuda/gemm/cublaslt.h"
#include "backend/cuda/launch.h"

int ln_gemm_sm90(int layout, const ln_gemm_args &args, cudaStream_t stream) {
    switch (ln_traits_of(layout).acts) {
    case LN_ACT_TYPE_BF16: return ln_gemm_sm90_bf16(args, stream);
    case LN_ACT_TYPE_FP8_ROW: return ln_gemm_sm90_fp8(args, stream);
    case LN_ACT_TYPE_INT8_ROW: return ln_gemm_sm90_int8_row(args, stream);
    case LN_ACT_TYPE_INT8_BLOCK: return ln_gemm_sm90_int(layout, args, stream);
    default: return ln_gemm_sm90_f16(layout, args, stream);
    }
}

/* Runs a gate of F8_ROW, whose result becomes the activations of the linears behind it: rows of
 * bf16 in the other half of its memory first. */
static int run_gate(ln_gemm_args &args, const ln_cuda_launch *launch, ln_cuda_stream stream) {
    ln_converted_act rows = launch->to;
    rows.is_behind = !launch->x.is_behind;
    args.to = {};
    args.to.cols = launch->to.n_cols;
    args.to.bf16 = ln_act_view_of(&rows).bf16;
    int code = ln_gemm_sm90(LN_LAYOUT_F8_ROW, args, stream);
    return code != 0 ? code : ln_act_convert_bf16(&launch->to, args.to.bf16, stream);
}

static int multiply(int layout, const ln_gemm_args &args, ln_cuda_stream stream) {
    if (args.x.rows_per_tile > 0)
        return args.n_rows > LN_SMALL_M_ROWS || layout == LN_LAYOUT_F8_ROW
                   ? ln_gemm_sm90(layout, args, stream)
                   : ln_gemm_sm90_small_m(layout, args, stream);
    return layout == LN_LAYOUT_F8_ROW ? ln_gemm_sm90_small_m_fp8(args, stream)
                                      : ln_gemm_mma_small_m(layout, args, stream);
}

/* What cuBLASLt refused, by tiles; the activations then are as the plan has them. */
static int run_refused(const ln_cuda_launch *launch, const ln_op *ops, ln_cuda_stream stream) {
    ln_converted_act tiles = ln_act_none(&launch->x);
    bool precise = false;
    for (size_t i = 0; i < launch->n_ops; i++)
        precise |= ops[i].linear.precise;
    ln_act_require(ops, precise, false, ln_has_sm90a_code(), &tiles);
    int code = ln_act_convert(&tiles, stream);
    if (code == 0)
        code = multiply((int)ops->linear.weight->layout,
                        ln_gemm_make_args(ops, launch->n_ops, &tiles), stream);
    return code != 0 ? code
                     : ln_act_convert(launch->converts_to ? &launch->to : &launch->x, stream);
}

int ln_cuda_gemm(const ln_cuda_launch *launch, const ln_op *ops, ln_cuda_stream stream) {
    return ln_cuda_gemm_with_lora(launch, ops, {NULL, 0}, stream);
}

int ln_cuda_gemm_with_lora(const ln_cuda_launch *launch, const ln_op *ops,
                           const ln_gemm_adapters &adapters, ln_cuda_stream stream) {
    ops += launch->first;
    int layout = (int)ops->linear.weight->layout;
    ln_converted_act x = launch->x;
    int code = launch->converts_x ? ln_act_convert(&x, stream) : 0;
    if (code == 0 && launch->by_blas) {
        code = ln_cublaslt_linears(x.blas, ops, launch->n_ops, &x, stream);
        return code == cudaErrorNotSupported ? run_refused(launch, ops, stream) : code;
    }
    if (code != 0)
        return code;
    ln_gemm_args args = ln_gemm_make_args(ops, launch->n_ops, &x);
    args.adapters = adapters;
    args.converts = launch->converts_to;
    args.leaves_out = launch->leaves_out;
    if (launch->converts_to && layout == LN_LAYOUT_F8_ROW)
        return run_gate(args, launch, stream);
    if (launch->converts_to)
        args.to = ln_act_view_of(&launch->to);
    return multiply(layout, args, stream);
}
