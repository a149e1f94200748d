/* Which operations run as one launch: linears that multiply the same activations, and norms,
 * attention and gated linears whose epilogue converts their result to the form that the linears
 * behind them read. */
#include "backend/cuda/gemm/fuse.cuh"

#include "backend/cuda/attention/args.cuh"
#include "backend/cuda/gemm/cublaslt.h"
#include "backend/cuda/ops/norm.cuh"

static bool takes_tiles(const ln_op *op) {
    const ln_op_linear *p = &op->linear;
    return op->kind == LN_OP_LINEAR && p->n_rows > 0 && p->weight->layout != LN_LAYOUT_NONE &&
           p->groups.n_groups == 0 && (p->gate == NULL || p->gate->layout == p->weight->layout) &&
           (p->weight->layout != LN_LAYOUT_F8_ROW || p->rows_per_x <= 1);
}

static bool is_plain(const ln_op_linear *p) {
    return p->gate == NULL && p->residual == NULL && p->rows_per_x <= 1;
}

/* Whether linears of two kinds can go together. */
static bool go_together(const ln_weight *a, const ln_weight *b, bool may_mix) {
    return a->n_cols == b->n_cols &&
           (a->layout == b->layout || (may_mix && ln_weight_tile_dequantizes_to_f16((int)a->layout) &&
                                       ln_weight_tile_dequantizes_to_f16((int)b->layout)));
}

size_t ln_gemm_count_fusable(const ln_op *ops, size_t n_ops, bool may_mix) {
    if (n_ops == 0 || !takes_tiles(ops))
        return 0;
    const ln_op_linear *a = &ops->linear;
    size_t n = 1;
    for (; n < n_ops && n < LN_GEMM_MAX_PARTS && is_plain(a) && takes_tiles(&ops[n]); n++) {
        const ln_op_linear *b = &ops[n].linear;
        if (!is_plain(b) || b->x != a->x || b->x_stride != a->x_stride || b->n_rows != a->n_rows ||
            !go_together(a->weight, b->weight, may_mix))
            break;
    }
    return n;
}

size_t ln_cuda_gemm_fusable(const ln_op *ops, size_t n_ops) {
    return ln_gemm_count_fusable(ops, n_ops, false);
}

/* Rows that an operation leaves, each behind the other. */
typedef struct result_rows {
    const float *at; /* [n_rows][dim] */
    size_t n_rows, dim;
    const ln_value_uses *uses; /* of these rows */
} result_rows;

/* What these linears want of another operation's result, of which they make x, *wanted. Whether
 * that operation can give it: if each row lies as it is wanted. *only: whether nothing else reads
 * the rows. */
static bool wants_result(const ln_op *ops, size_t n_ops, const result_rows &result,
                         const ln_converted_act *x, ln_converted_act *wanted, bool *only) {
    *wanted = {};
    wanted->blas = x->blas;
    wanted->memory = x->memory;
    wanted->bytes = x->bytes;
    bool by_blas = ln_cublaslt_takes(x->blas, ops, n_ops);
    ln_act_require(&ops->linear, ln_gemm_any_precise(ops, n_ops), by_blas, wanted);
    *only = ln_value_stays_within(result.uses, n_ops) && !by_blas;
    return ops->linear.x == result.at && wanted->n_rows == result.n_rows &&
           wanted->stride == result.dim && ln_act_view_of(wanted).cols == result.dim;
}

int ln_cuda_norm_convert(const ln_op *norm, const ln_op *ops, size_t n_ops, const ln_cuda_step *step,
                      ln_converted_act *x, ln_cuda_stream stream) {
    const ln_op_norm *p = &norm->norm;
    result_rows result = {p->out, p->n_rows, p->norm->dim, &step->uses[norm->out[LN_OUT]]};
    ln_converted_act wanted;
    bool only, fits = wants_result(ops, n_ops, result, x, &wanted, &only);
    x->of = NULL;
    if (!fits || !ln_norm_converts(p))
        return ln_cuda_norm(norm, step, stream);
    *x = wanted;
    ln_act_view to = ln_act_view_of(&wanted);
    const int32_t *rows = p->rows != NULL ? step->batch.logit_rows : NULL;
    return ln_norm_launch(p->norm, p->n_rows, rows, p->x, p->residual, p->scale,
                          only ? NULL : p->out, &to, stream);
}

int ln_cuda_attention_convert(const ln_op *qkv, const ln_op *attention, const ln_op *ops, size_t n_ops,
                           const ln_cuda_step *step, ln_converted_act *x, ln_cuda_stream stream) {
    const ln_op_attention *p = &attention->attention;
    result_rows result = {p->out, step->batch.n_tokens, p->n_heads * p->kv->v_dim,
                          &step->uses[attention->out[LN_OUT]]};
    ln_converted_act wanted;
    bool only, fits = n_ops > 0 && wants_result(ops, n_ops, result, x, &wanted, &only);
    x->of = NULL;
    ln_attention_args args = ln_make_attention_args(p, step);
    bool converts = fits && !wanted.by_row && ln_takes_mma_attention(p, step) &&
                    ln_mma_attention_converts(&args, step);
    if (!converts && qkv == NULL)
        return ln_cuda_attention(attention, step, stream);
    ln_qkv_args heads = {};
    ln_act_view to = {};
    if (qkv != NULL)
        heads = ln_make_qkv_args(&qkv->qkv, step);
    if (converts) {
        *x = wanted;
        to = ln_act_view_of(&wanted);
    }
    return ln_mma_attention(&args, qkv != NULL ? &heads : NULL, step, converts ? &to : NULL,
                             stream);
}

bool ln_gemm_converts_result(const ln_op *ops, size_t n_next, const ln_cuda_step *step,
                             const ln_gemm_args &args, const ln_converted_act *x,
                             ln_converted_act *next, bool *only) {
    const ln_op_linear *p = &ops->linear;
    const ln_epilogue &e = args.parts[0].epilogue;
    result_rows result = {e.out, args.n_rows, e.n_out, &step->uses[ops->out[LN_OUT]]};
    int kind = (int)p->weight->layout;
    *only = false;
    if (p->gate == NULL || n_next == 0 || (kind != LN_LAYOUT_BF16 && kind != LN_LAYOUT_F8_ROW) ||
        !args.x.panel || args.n_rows <= LN_SMALL_M_ROWS || !ln_epilogue_is_plain(e) ||
        e.out_stride != e.n_out || !wants_result(ops + 1, n_next, result, x, next, only))
        return false;
    size_t bytes = args.n_rows * sizeof(__nv_bfloat16), half = ln_act_half(x);
    if (!next->in_panels || args.x.cols * bytes > half || e.n_out * bytes > half)
        return false;
    next->is_behind = !x->is_behind;
    return kind == LN_LAYOUT_F8_ROW
               ? *only && next->is_f8 && ln_act_takes_f16(next)
               : !next->is_int8 && !next->by_row && !next->precise && !x->precise;
}
