/* Linears of packed weight tiles (weights/layout.h): chooses the kernel by M, weight layout and
 * device, and sees to the activations being in the form that it reads. */
#include "backend/cuda/gemm/args.cuh"
#include "backend/cuda/gemm/cublaslt.h"
#include "backend/cuda/launch.h"

ln_gemm_part ln_gemm_make_part(const ln_op_linear *p) {
    ln_gemm_part part = {};
    part.weight = (const uint8_t *)p->weight->data;
    part.gate = p->gate != NULL ? (const uint8_t *)p->gate->data : NULL;
    part.kind = (uint8_t)p->weight->layout;
    part.precise = p->precise && p->weight->layout == LN_LAYOUT_BF16;
    part.epilogue.bias = p->weight->bias;
    part.epilogue.gate_bias = p->gate != NULL ? p->gate->bias : NULL;
    part.epilogue.has_gate = p->gate != NULL;
    part.epilogue.activation = p->activation;
    part.epilogue.residual = p->residual;
    part.epilogue.scale = p->scale;
    part.epilogue.softcap = p->softcap;
    /* another linear rounds it further, which then has half of it to read */
    part.epilogue.rounds = p->gate != NULL && p->weight->layout == LN_LAYOUT_F8_ROW;
    part.epilogue.n_out = p->weight->n_rows;
    part.epilogue.out_stride = p->out_stride > 0 ? p->out_stride : p->weight->n_rows;
    part.epilogue.out = p->out;
    return part;
}

/* Runs a gate of F8_ROW, whose result becomes x of the linears behind it: rows of bf16 in the other
 * half of its memory first. */
static int run_gate(ln_gemm_args &args, const ln_cuda_launch *launch, ln_cuda_stream stream) {
    ln_converted_act rows = launch->to;
    rows.is_behind = !launch->x.is_behind;
    args.to = {};
    args.to.cols = launch->to.n_cols;
    args.to.bf16 = ln_act_view_of(&rows).bf16;
    int code = ln_gemm_sm90(LN_LAYOUT_F8_ROW, args, stream);
    return code != 0 ? code : ln_act_convert_f16(&launch->to, args.to.bf16, stream);
}

ln_gemm_args ln_gemm_make_args(const ln_op *ops, size_t n_ops, const ln_converted_act *x) {
    const ln_op_linear *p = &ops->linear;
    ln_gemm_args args = {};
    args.x = ln_act_view_of(x);
    args.split.left = (unsigned *)x->memory;
    args.split.sums = (float *)x->memory + LN_SPLIT_K_FLAGS;
    args.split.slices = (uint32_t *)args.split.sums + LN_SPLIT_K_FLOATS;
    args.n_parts = (unsigned)n_ops;
    args.n_tiles = (unsigned)(args.x.cols / ln_weight_tile_cols((int)p->weight->layout));
    args.n_rows = p->n_rows;
    args.rows_per_x = p->rows_per_x > 0 ? p->rows_per_x : 1;
    for (size_t i = 0; i < n_ops; i++)
        args.parts[i] = ln_gemm_make_part(&ops[i].linear);
    return args;
}

static int multiply(int kind, const ln_gemm_args &args, ln_cuda_stream stream) {
    if (args.x.panel > 0)
        return args.n_rows > LN_SMALL_M_ROWS || kind == LN_LAYOUT_F8_ROW
                   ? ln_gemm_sm90(kind, args, stream)
                   : ln_gemm_sm90_small_m(kind, args, stream);
    return kind == LN_LAYOUT_F8_ROW ? ln_gemm_sm90_small_m_fp8(args, stream)
                                    : ln_gemm_mma_small_m(kind, args, stream);
}

/* What cuBLASLt refused, by tiles; x then is as the plan has it. */
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
    ops += launch->first;
    int kind = (int)ops->linear.weight->layout;
    ln_converted_act x = launch->x;
    int code = launch->converts_x ? ln_act_convert(&x, stream) : 0;
    if (code == 0 && launch->by_blas) {
        code = ln_cublaslt_linears(x.blas, ops, launch->n_ops, &x, stream);
        return code == cudaErrorNotSupported ? run_refused(launch, ops, stream) : code;
    }
    if (code != 0)
        return code;
    ln_gemm_args args = ln_gemm_make_args(ops, launch->n_ops, &x);
    args.converts = launch->converts_to;
    args.leaves_out = launch->leaves_out;
    if (launch->converts_to && kind == LN_LAYOUT_F8_ROW)
        return run_gate(args, launch, stream);
    if (launch->converts_to)
        args.to = ln_act_view_of(&launch->to);
    return multiply(kind, args, stream);
}
