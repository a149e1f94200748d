#include "backend/cuda/gemm/args.cuh"

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

ln_gemm_args ln_gemm_make_args(const ln_op *ops, size_t n_ops, const ln_converted_act *x) {
    const ln_op_linear *p = &ops->linear;
    ln_gemm_args args = {};
    args.x = ln_act_view_of(x);
    args.split = ln_split_k_view(x->workspace, x->n_sms);
    args.n_parts = (unsigned)n_ops;
    args.n_tiles = (unsigned)(args.x.cols / ln_weight_tile_cols((int)p->weight->layout));
    args.n_rows = p->n_rows;
    args.rows_per_x = p->rows_per_x > 0 ? p->rows_per_x : 1;
    for (size_t i = 0; i < n_ops; i++)
        args.parts[i] = ln_gemm_make_part(&ops[i].linear);
    return args;
}
