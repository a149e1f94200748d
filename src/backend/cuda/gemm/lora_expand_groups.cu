/* Linears of rows that are sorted by group (experts) and have adapters: B low with the B that the
 * row's adapter has for the row's expert, added to what the linear's kernels gave without their
 * epilogue, and the epilogue. In float32; B is float32, or tiles of bf16 (adapter_tiles.h). Rows
 * without an adapter get the bits of the linear's own epilogue.
 *
 * Grid (rows, columns / 256), block 256, a column a thread. Bytes moved: B once or twice for a row,
 * from L2 for rows of the same; rows of float32 in and out. */
#include "backend/cuda/gemm/epilogue.cuh"
#include "backend/cuda/ops/adapter.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum { THREADS = 256 };

/* A weight's adapters, with what LN_OP_LORA_SHRINK made for them, and the sums that they change. */
typedef struct group_sums {
    ln_adapter_heads weight;
    const float *low;  /* [n_rows][low_stride] */
    const float *sums; /* [n_rows][stride], with the bias; NULL: there are none */
    size_t stride;
} group_sums;

typedef struct expand_args {
    ln_adapter_groups groups;
    group_sums of_weight, of_gate;
    size_t low_stride;
    ln_epilogue end; /* without biases */
} expand_args;

/* A column of B low, B in tiles. */
static __device__ __forceinline__ float expand_tiles(const ln_adapter_target &target,
                                                     const float *low, unsigned column) {
    enum { TILES = LN_ADAPTER_B_ROWS / LN_ADAPTER_TILE, WORDS = LN_ADAPTER_TILE_ELEMS / 2 };
    unsigned n = ((unsigned)target.rank + LN_ADAPTER_TILE - 1) / LN_ADAPTER_TILE;
    unsigned tile =
        column / LN_ADAPTER_B_ROWS * n * TILES + column % LN_ADAPTER_B_ROWS / LN_ADAPTER_TILE;
    unsigned row = column % LN_ADAPTER_TILE; /* words as ln_adapter_in_tile has elements */
    const uint32_t *b =
        (const uint32_t *)target.b_tiles + (size_t)tile * WORDS + row % 8 * 16 + row / 8;
    float sum = 0.0f;
    for (unsigned step = 0; step < n; step++, b += TILES * WORDS, low += LN_ADAPTER_TILE)
#pragma unroll
        for (unsigned k = 0; k < LN_ADAPTER_TILE; k += 2) {
            uint32_t two = __ldg(b + k % 8 * 2 + k / 8 * 2);
            sum = fmaf(low[k], ln_bf16((uint16_t)two), sum);
            sum = fmaf(low[k + 1], ln_bf16((uint16_t)(two >> 16)), sum);
        }
    return sum;
}

static __device__ __forceinline__ const ln_adapter_target *find_target(const group_sums &of,
                                                                       const ln_adapter_row &at) {
    return of.weight.targets != NULL && at.slot >= 0
               ? &of.weight.targets[at.group * of.weight.stride + at.slot]
               : NULL;
}

/* A sum with what an adapter (NULL: none) makes of it. */
static __device__ __forceinline__ float add_lora(const group_sums &of,
                                                 const ln_adapter_target *target, size_t low_stride,
                                                 size_t row, unsigned column) {
    float sum = of.sums[row * of.stride + column];
    if (target == NULL)
        return sum;
    const float *low = of.low + row * low_stride;
    if (target->rank > 0)
        sum += target->b_tiles != NULL ? expand_tiles(*target, low, column)
                                       : ln_adapter_expand(*target, low, column);
    if (target->multiply != NULL)
        sum *= target->multiply[column];
    return target->add != NULL ? sum + target->add[column] : sum;
}

static __global__ void __launch_bounds__(THREADS)
    expand_groups(const __grid_constant__ expand_args p) {
    const ln_epilogue &e = p.end;
    unsigned column = blockIdx.y * THREADS + threadIdx.x;
    ln_adapter_row at;
    ln_pdl_launch_and_wait();
    if (!ln_adapter_find_row(p.groups, blockIdx.x, &at) || column >= e.n_out)
        return;
    const ln_adapter_target *target = find_target(p.of_weight, at);
    float u = add_lora(p.of_weight, target, p.low_stride, at.row, column), g = 0.0f;
    if (e.has_gate)
        g = add_lora(p.of_gate, find_target(p.of_gate, at), p.low_stride, at.row, column);
    float activated = ln_gated(e.activation, e.has_gate, g, u);
    if (target != NULL && target->multiply_after != NULL)
        activated *= target->multiply_after[column];
    float residual = e.residual != NULL ? e.residual[at.row * e.n_out + column] : 0.0f;
    e.out[at.row * e.out_stride + column] = ln_epilogue_end(e, activated, residual);
}

static bool describe_sums(const ln_weight *weight, const float *low, const ln_op *raw,
                          size_t n_groups, group_sums *of) {
    size_t stride = raw->linear.out_stride;
    of->low = low;
    of->sums = raw->linear.out;
    of->stride = stride > 0 ? stride : weight->n_rows;
    return ln_describe_adapters(weight, n_groups, &of->weight);
}

int ln_cuda_lora_expand_groups(const ln_op *op, const ln_op *raw, const ln_op *raw_gate,
                               const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_linear *p = &op->linear;
    size_t n_groups = p->groups.n_groups, n_out = p->weight->n_rows;
    expand_args args = {};
    ln_epilogue &e = args.end;
    bool is_even = describe_sums(p->weight, p->low, raw, n_groups, &args.of_weight);
    if (raw_gate != NULL)
        is_even &= describe_sums(p->gate, p->gate_low, raw_gate, n_groups, &args.of_gate);
    args.groups = ln_describe_adapter_groups(
        p->groups, ln_cuda_find_adapter_rows(op, p->adapters, step), p->rows_per_token, is_even);
    args.low_stride = p->low_stride;
    e.has_gate = raw_gate != NULL;
    e.activation = p->activation;
    e.residual = p->residual;
    e.scale = p->scale;
    e.softcap = p->softcap;
    e.n_out = n_out;
    e.out_stride = p->out_stride > 0 ? p->out_stride : n_out;
    e.out = p->out;
    for (; args.groups.first < n_groups; args.groups.first += args.groups.here) {
        if (!is_even)
            ln_describe_adapters(p->weight + args.groups.first, 1, &args.of_weight.weight);
        if (!is_even && raw_gate != NULL)
            ln_describe_adapters(p->gate + args.groups.first, 1, &args.of_gate.weight);
        int code =
            ln_pdl_launch(expand_groups, dim3((unsigned)p->n_rows, ln_ceil_div(n_out, THREADS)),
                          THREADS, 0, stream, args);
        if (code != 0)
            return code;
    }
    return 0;
}
