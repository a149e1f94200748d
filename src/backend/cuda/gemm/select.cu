/* Linears of packed weight tiles (weights/layout.h): chooses the kernel by M, weight layout and
 * device, and sees to the activations being in the form that it reads. */
#include "backend/cuda/gemm/cublaslt.h"
#include "backend/cuda/gemm/fuse.cuh"

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

bool ln_gemm_any_precise(const ln_op *ops, size_t n_ops) {
    bool precise = false;
    for (size_t i = 0; i < n_ops; i++)
        precise |= ops[i].linear.precise;
    return precise;
}

int ln_gemm_prepare_act(const ln_op *ops, size_t n_ops, bool by_blas, ln_converted_act *x,
                      ln_cuda_stream stream) {
    bool is_missing = ln_act_require(&ops->linear, ln_gemm_any_precise(ops, n_ops), by_blas, x);
    return is_missing ? ln_act_convert(x, stream) : 0;
}

/* Runs a gate of F8_ROW whose result is x of the linears behind it, *next. */
static int run_gate(ln_gemm_args &args, ln_converted_act *x, ln_converted_act *next, ln_cuda_stream stream) {
    args.to = {};
    args.to.cols = next->n_cols;
    args.to.bf16 = ln_act_view_of(next).bf16;
    int code = ln_gemm_sm90(LN_LAYOUT_F8_ROW, args, stream);
    next->is_behind = x->is_behind; /* what the gate read is of no use any more */
    *x = *next;
    return code != 0 ? code : ln_act_convert_f16(x, args.to.bf16, stream);
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

int ln_cuda_gemm(const ln_op *ops, size_t n_ops, size_t n_next, const ln_cuda_step *step,
                 ln_converted_act *x, ln_cuda_stream stream) {
    const ln_op_linear *p = &ops->linear;
    int kind = (int)p->weight->layout;
    if (ln_cublaslt_takes(x->blas, ops, n_ops)) {
        int code = ln_gemm_prepare_act(ops, n_ops, true, x, stream);
        if (code == 0)
            code = ln_cublaslt_linears(x->blas, ops, n_ops, x, stream);
        if (code != cudaErrorNotSupported) /* tiles serve what the library refuses */
            return code;
    }
    int code = ln_gemm_prepare_act(ops, n_ops, false, x, stream);
    if (code != 0)
        return code;
    ln_gemm_args args = ln_gemm_make_args(ops, n_ops, x);
    for (size_t i = 0; i < n_ops; i++)
        if (ops[i].linear.out == x->of)
            x->of = NULL;
    ln_converted_act next;
    bool only;
    args.converts = ln_gemm_converts_result(ops, n_next, step, args, x, &next, &only);
    args.leaves_out = args.converts && only;
    if (args.converts && kind == LN_LAYOUT_F8_ROW)
        return run_gate(args, x, &next, stream);
    if (args.converts) {
        *x = next;
        args.to = ln_act_view_of(x);
    }
    if (args.x.panel > 0)
        return args.n_rows > LN_SMALL_M_ROWS || kind == LN_LAYOUT_F8_ROW
                   ? ln_gemm_sm90(kind, args, stream)
                   : ln_gemm_sm90_small_m(kind, args, stream);
    return kind == LN_LAYOUT_F8_ROW ? ln_gemm_sm90_small_m_fp8(args, stream)
                                    : ln_gemm_mma_small_m(kind, args, stream);
}
