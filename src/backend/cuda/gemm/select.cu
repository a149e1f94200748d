/* y = x W^T with its epilogue, W in tiles (weights/layout.h), on tensor cores (mma_small_m.cuh).
 *
 * Grid: (rows of tiles, rows of x by 8 * GROUPS). Block: eight warps. The first weights are under
 * way before the kernel that makes x has ended. */
#include "backend/cuda/attention/args.cuh"
#include "backend/cuda/gemm/cublaslt.h"
#include "backend/cuda/ops/norm.cuh"
#include "backend/cuda/gemm/mma_small_m.cuh"

enum { MAX_GROUPS = 8 };

/* Eights of rows that Hopper has kernels for here: more of them are in panels, but for linears that
 * no model has, which take turns of as many. */
template <int KIND>
static constexpr int HOPPER_GROUPS = KIND == LN_LAYOUT_INT8_ROW ? MAX_GROUPS : 1;

/* Offsets from the first row. */
template <int GROUPS>
static __device__ __forceinline__ void find_rows(const ln_gemm_args &p, size_t first,
                                                 lane_rows<GROUPS> &rows) {
    unsigned lane = threadIdx.x % LN_WARP, cols = (unsigned)p.x.cols;
    unsigned last = (unsigned)(p.n_rows - 1 - first), per_x = (unsigned)p.rows_per_x;
    unsigned skipped = (unsigned)(first % per_x);
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        rows.own[group] = (min(group * 8 + lane / 4, last) + skipped) / per_x * cols;
#pragma unroll
        for (int i = 0; i < 2; i++)
            rows.scales[group][i] =
                (min(group * 8 + lane % 4 * 2 + i, last) + skipped) / per_x * cols;
    }
}

template <int KIND, int GROUPS, int AHEAD, bool GATE, bool PRECISE>
static __device__ __forceinline__ void multiply_tiles(const ln_gemm_args &p) {
    __shared__ slices<GROUPS> shared;
    ln_pdl_launch_dependents();
    float up_sum[GROUPS][4] = {}, gate_sum[GROUPS][4] = {};
    float up[(GROUPS + 1) / 2] = {}, gate[(GROUPS + 1) / 2] = {};
    size_t first = (size_t)blockIdx.y * 8 * GROUPS;
    unsigned tile_row = blockIdx.x;
    const ln_gemm_part &part = ln_gemm_find_part(p, LN_WEIGHT_TILE_ROWS, &tile_row);
    lane_slice<KIND, AHEAD, GATE> slice;
    begin_slice<KIND>(p, part.weight, part.gate, tile_row, slice);
    lane_rows<GROUPS> rows;
    find_rows<GROUPS>(p, first, rows);
    ln_act_view x = p.x;
    size_t x_at = first / p.rows_per_x * x.cols;
    x.bf16 += x_at, x.int8 += x_at, x.scales += x_at / LN_SCALE_BLOCK; /* these of blocks */
    if constexpr (PRECISE)
        x.rest += x_at;
    ln_pdl_wait();
    multiply_slice<KIND, GROUPS, AHEAD, GATE, PRECISE>(x, rows, part.precise, slice, up_sum,
                                                       gate_sum);
    merge<KIND, GROUPS>(shared, up_sum, up);
    if constexpr (GATE)
        merge<KIND, GROUPS>(shared, gate_sum, gate);
#pragma unroll
    for (int i = 0; i < (GROUPS + 1) / 2; i++) {
        unsigned element = threadIdx.x + i * TILE_THREADS;
        size_t row = first + element / LN_WEIGHT_TILE_ROWS;
        size_t column = (size_t)tile_row * LN_WEIGHT_TILE_ROWS + element % LN_WEIGHT_TILE_ROWS;
        if (element >= 8 * GROUPS * LN_WEIGHT_TILE_ROWS || row >= p.n_rows ||
            column >= part.epilogue.n_out)
            continue;
        if constexpr (ln_weight_tile_has_act_row_scales(KIND)) {
            up[i] = scale_sum<KIND>(p, part.weight, tile_row, row, column, up[i]);
            if constexpr (GATE)
                gate[i] = scale_sum<KIND>(p, part.gate, tile_row, row, column, gate[i]);
        }
        ln_finish(part.epilogue, row, column, up[i], gate[i]);
    }
}

template <int KIND, int GROUPS, int AHEAD, bool GATE, bool PRECISE>
static __global__ void
__launch_bounds__(TILE_THREADS, GROUPS == 1 || (GROUPS == 2 && KIND == LN_LAYOUT_BF16) ? 2 : 1)
    tile_linear(const __grid_constant__ ln_gemm_args p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (GROUPS > HOPPER_GROUPS<KIND>)
        __trap();
    else
#endif
        multiply_tiles<KIND, GROUPS, AHEAD, GATE, PRECISE>(p);
}

/* ---- launching ------------------------------------------------------------------------------ */

template <int KIND, int GROUPS, bool GATE, bool PRECISE>
static int launch(const ln_gemm_args &args, cudaStream_t stream) {
    constexpr int AHEAD = units_ahead<KIND, GROUPS, GATE>();
    dim3 grid(ln_gemm_output_tiles(args, LN_WEIGHT_TILE_ROWS), ln_ceil_div(args.n_rows, 8 * GROUPS));
    return ln_pdl_launch(tile_linear<KIND, GROUPS, AHEAD, GATE, PRECISE>, grid, TILE_THREADS, 0, stream,
                     args);
}

template <int KIND, bool GATE, bool PRECISE>
static int launch_rows(const ln_gemm_args &args, cudaStream_t stream) {
    int most = ln_has_sm90a_code() ? HOPPER_GROUPS<KIND> : MAX_GROUPS;
    if (args.n_rows <= 8 || most == 1)
        return launch<KIND, 1, GATE, PRECISE>(args, stream);
    if (args.n_rows <= 16)
        return launch<KIND, 2, GATE, PRECISE>(args, stream);
    if (args.n_rows <= 32)
        return launch<KIND, 4, GATE, PRECISE>(args, stream);
    return launch<KIND, MAX_GROUPS, GATE, PRECISE>(args, stream);
}

template <int KIND> static int launch_kind(const ln_gemm_args &args, cudaStream_t stream) {
    bool has_gate = args.parts[0].gate != NULL;
    if constexpr (KIND == LN_LAYOUT_BF16)
        if (ln_gemm_is_precise(args))
            return has_gate ? launch_rows<KIND, true, true>(args, stream)
                            : launch_rows<KIND, false, true>(args, stream);
    return has_gate ? launch_rows<KIND, true, false>(args, stream)
                    : launch_rows<KIND, false, false>(args, stream);
}

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

static bool any_precise(const ln_op *ops, size_t n_ops) {
    bool precise = false;
    for (size_t i = 0; i < n_ops; i++)
        precise |= ops[i].linear.precise;
    return precise;
}

/* Rows that an operation leaves, each behind the other. */
typedef struct result_rows {
    const float *at; /* [n_rows][dim] */
    size_t n_rows, dim;
    size_t n_readers; /* linears that read them, when nothing else does; or 0 */
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
    ln_act_require(&ops->linear, any_precise(ops, n_ops), by_blas, wanted);
    *only = result.n_readers > 0 && result.n_readers <= n_ops && !by_blas;
    return ops->linear.x == result.at && wanted->n_rows == result.n_rows &&
           wanted->stride == result.dim && ln_act_view_of(wanted).cols == result.dim;
}

int ln_cuda_norm_convert(const ln_op *norm, const ln_op *ops, size_t n_ops, const ln_cuda_step *step,
                      ln_converted_act *x, ln_cuda_stream stream) {
    const ln_op_norm *p = &norm->norm;
    result_rows result = {p->out, p->n_rows, p->norm->dim, p->n_readers};
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
    result_rows result = {p->out, step->batch.n_tokens, p->n_heads * p->kv->v_dim, 0};
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

int ln_gemm_prepare_act(const ln_op *ops, size_t n_ops, bool by_blas, ln_converted_act *x,
                      ln_cuda_stream stream) {
    bool is_missing = ln_act_require(&ops->linear, any_precise(ops, n_ops), by_blas, x);
    return is_missing ? ln_act_convert(x, stream) : 0;
}

/* Whether the gate's result can be written as the n_next linears behind it want it, *next, or, of
 * F8_ROW, as rows of bf16 that are converted then. *only: whether in no other form. */
static bool converts_result(const ln_op *ops, size_t n_next, const ln_gemm_args &args,
                            const ln_converted_act *x, ln_converted_act *next, bool *only) {
    const ln_op_linear *p = &ops->linear;
    const ln_epilogue &e = args.parts[0].epilogue;
    result_rows result = {e.out, args.n_rows, e.n_out, p->n_readers};
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

int ln_cuda_gemm(const ln_op *ops, size_t n_ops, size_t n_next, ln_converted_act *x,
                        ln_cuda_stream stream) {
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
    args.converts = converts_result(ops, n_next, args, x, &next, &only);
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
    switch (kind) {
    case LN_LAYOUT_F8_ROW: return ln_gemm_sm90_small_m_fp8(args, stream);
    case LN_LAYOUT_BF16: return launch_kind<LN_LAYOUT_BF16>(args, stream);
    case LN_LAYOUT_INT8: return launch_kind<LN_LAYOUT_INT8>(args, stream);
    case LN_LAYOUT_Q4: return launch_kind<LN_LAYOUT_Q4>(args, stream);
    case LN_LAYOUT_Q5: return launch_kind<LN_LAYOUT_Q5>(args, stream);
    case LN_LAYOUT_Q6: return launch_kind<LN_LAYOUT_Q6>(args, stream);
    case LN_LAYOUT_F8: return launch_kind<LN_LAYOUT_F8>(args, stream);
    case LN_LAYOUT_MXFP4: return launch_kind<LN_LAYOUT_MXFP4>(args, stream);
    case LN_LAYOUT_I8: return launch_kind<LN_LAYOUT_I8>(args, stream);
    case LN_LAYOUT_INT8_ROW: return launch_kind<LN_LAYOUT_INT8_ROW>(args, stream);
    default: return launch_kind<LN_LAYOUT_INT4>(args, stream);
    }
}
