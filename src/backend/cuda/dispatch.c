#include "backend/cuda/dispatch.h"

#include "backend/cuda/attention/select.h"
#include "backend/cuda/fused/decode.h"

static const ln_cuda_kernel kernels[LN_OP_COUNT] = {
    [LN_OP_COPY] = ln_cuda_copy,
    [LN_OP_EMBED] = ln_cuda_embed,
    [LN_OP_NORM] = ln_cuda_norm,
    [LN_OP_LINEAR] = ln_cuda_linear,
    [LN_OP_QKV] = ln_cuda_qkv,
    [LN_OP_LATENT] = ln_cuda_latent,
    [LN_OP_ATTENTION] = ln_cuda_attention,
    [LN_OP_ROUTE] = ln_cuda_route,
    [LN_OP_GROUP] = ln_cuda_group,
    [LN_OP_COMBINE] = ln_cuda_combine,
    [LN_OP_GATHER] = ln_cuda_gather,
    [LN_OP_SAMPLE] = ln_cuda_sample,
};

bool ln_cuda_has_kernel(ln_op_kind kind) {
    return kernels[kind] != NULL;
}

/* A mixture of experts, as models queue it behind a norm. */
enum { ROUTER = 1, ROUTE, GROUP, EXPERTS };

/* Whether a norm's result goes to a router and the experts that it chooses, to those in the form
 * that few rows take. */
static bool feeds_experts(const ln_op *ops, size_t n_ops) {
    if (n_ops <= EXPERTS || ops->kind != LN_OP_NORM || ops[ROUTER].kind != LN_OP_LINEAR ||
        ops[ROUTE].kind != LN_OP_ROUTE || ops[GROUP].kind != LN_OP_GROUP ||
        !ln_cuda_takes_grouped_gemm(&ops[EXPERTS]))
        return false;
    const ln_op_linear *p = &ops[EXPERTS].linear;
    return p->rows_per_x > 1 && p->n_rows < LN_ACT_TILES_MIN_ROWS * p->groups.n_groups;
}

/* Whether rows that were converted are still what they were after an operation. */
static bool keeps_x(const ln_op *op, const ln_converted_act *x) {
    return op->kind == LN_OP_ROUTE || op->kind == LN_OP_GROUP ||
           (op->kind == LN_OP_LINEAR && op->linear.out != x->of);
}

size_t ln_cuda_dispatch(const ln_op *ops, size_t n_ops, const ln_cuda_step *step,
                        ln_converted_act *x, ln_cuda_stream stream, int *code) {
    size_t n = ln_cuda_fused_decode_ops(ops, n_ops, step);
    if (n > 0) {
        x->of = NULL;
        *code = ln_cuda_fused_decode(ops, n, step, stream);
        return n;
    }
    n = ln_cuda_linear_norm(ops, n_ops, step, x, stream, code);
    if (n > 0)
        return n;
    n = ln_cuda_gemm_fusable(ops, n_ops);
    if (n > 0) {
        size_t n_next = ln_cuda_gemm_fusable(ops + n, n_ops - n);
        *code = ln_cuda_gemm(ops, n, n_next, step, x, stream);
        return n;
    }
    n = ln_cuda_gemm_fusable(ops + 1, n_ops - 1);
    if (n > 0 && ops->kind == LN_OP_NORM) {
        *code = ln_cuda_norm_convert(ops, ops + 1, n, step, x, stream);
        return 1;
    }
    if (feeds_experts(ops, n_ops)) {
        *code = ln_cuda_norm_convert(ops, ops + EXPERTS, 1, step, x, stream);
        return 1;
    }
    if (n > 0 && ops->kind == LN_OP_ATTENTION) {
        *code = ln_cuda_attention_convert(NULL, ops, ops + 1, n, step, x, stream);
        return 1;
    }
    if (n_ops > 1 && ln_cuda_attention_fuses_qkv(ops, ops + 1, step)) {
        n = ln_cuda_gemm_fusable(ops + 2, n_ops - 2);
        *code = ln_cuda_attention_convert(ops, ops + 1, ops + 2, n, step, x, stream);
        return 2;
    }
    if (ln_cuda_takes_grouped_gemm(ops)) {
        *code = ln_cuda_grouped_gemm(ops, x, stream);
        return 1;
    }
    if (!keeps_x(ops, x))
        x->of = NULL;
    *code = kernels[ops->kind](ops, step, stream);
    return 1;
}
