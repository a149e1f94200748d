/* An all-reduce fused with the norm behind it: M rows of dim float32 are summed over ranks, in
 * their order, and a residual is added; then RMS or LayerNorm of the rows, and the conversion of
 * its result for the next linear.
 *
 * A block takes rows and meets the blocks of the same number of the other ranks, which have the
 * same rows. One-shot: it reads what all ranks have of its rows. Two-shot: it sums rows of its
 * rank's part, meets again, and reads sums. Of few rows each rank pushes its own to the others.
 * Grid: M, at most LN_IPC_BLOCKS; block 512, a row in registers, or 256 for rows of fewer than 512
 * columns, as ops/norm_launch.cu adds up either. Constants of the norm are loaded ahead of the PDL
 * wait. Bytes: as of the all-reduce, and the norm's result. */
#include "backend/cuda/ops/norm_row.cuh"
#include "backend/cuda/ranks/ipc.h"
#include "backend/cuda/ranks/ipc_device.cuh"

typedef struct reduce_norm_args {
    ln_ipc_group g;
    ln_norm_args norm;
    const float *x, *residual; /* of the part's first row */
    float *sums;               /* the same, or NULL: nobody reads them */
    size_t n_rows, first;      /* of the part; rows before it */
    bool in_two, pushes;
} reduce_norm_args;

/* What a block needs beside a row. */
template <int FOURS> struct constants {
    float4 factor[FOURS], bias[FOURS];
    float *shared;
    unsigned *greatest;
};

/* Rows [begin, end) of the part, whose sums load(float4 of the part) gives. */
template <int FOURS, ln_norm_conversion TO, typename Load>
static __device__ __forceinline__ void finish_rows(const reduce_norm_args &p, size_t begin,
                                                   size_t end, const constants<FOURS> &c,
                                                   Load load) {
    unsigned n_fours = (unsigned)p.norm.norm.dim / 4;
    for (size_t row = begin; row < end; row++) {
        ln_norm_row<FOURS, 1> held;
        float mean, inverse;
#pragma unroll
        for (int h = 0; h < FOURS; h++) {
            unsigned i = ln_norm_row_index<1>(0, h);
            size_t at = row * n_fours + i;
            float4 sum = i < n_fours ? load(at) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (i < n_fours && p.residual != NULL)
                sum = ln_ipc_add(((const float4 *)p.residual)[at], sum);
            held.at[0][h] = sum;
        }
#pragma unroll
        for (int h = 0; h < FOURS; h++)
            if (p.sums != NULL && ln_norm_row_index<1>(0, h) < n_fours)
                ((float4 *)p.sums)[row * n_fours + ln_norm_row_index<1>(0, h)] = held.at[0][h];
        ln_norm_row_statistics(p.norm.norm, held, c.shared, &mean, &inverse);
        ln_norm_finish_row<TO>(p.norm, p.first + row, held, c.factor, c.bias, mean, inverse,
                               c.greatest);
    }
}

/* Rows of the block, copied to the rank's arena; false: others have not come. */
static __device__ bool offer_rows(const reduce_norm_args &p, unsigned number, size_t begin,
                                  size_t end) {
    size_t n_fours = p.norm.norm.dim / 4;
    ln_ipc_copy((const float4 *)p.x, ln_ipc_data<float4>(p.g, p.g.rank, number), begin * n_fours,
                end * n_fours);
    return ln_ipc_meet(p.g, 0, number);
}

template <int FOURS, ln_norm_conversion TO>
static __device__ __forceinline__ void at_once(const reduce_norm_args &p, unsigned number,
                                               const constants<FOURS> &c) {
    size_t begin, end;
    ln_ipc_find_elements(p.n_rows, &begin, &end);
    if (!offer_rows(p, number, begin, end))
        return;
    if (p.g.n_ranks <= 2)
        finish_rows<FOURS, TO>(p, begin, end, c,
                               [&](size_t i) { return ln_ipc_sum<float4, 2>(p.g, number, i); });
    else if (p.g.n_ranks <= 4)
        finish_rows<FOURS, TO>(p, begin, end, c,
                               [&](size_t i) { return ln_ipc_sum<float4, 4>(p.g, number, i); });
    else
        finish_rows<FOURS, TO>(p, begin, end, c,
                               [&](size_t i) { return ln_ipc_sum<float4>(p.g, number, i); });
}

template <int FOURS, ln_norm_conversion TO>
static __device__ __forceinline__ void pushed(const reduce_norm_args &p, unsigned number,
                                              const constants<FOURS> &c) {
    size_t begin, end, n_fours = p.norm.norm.dim / 4;
    const float4 *x = (const float4 *)p.x;
    ln_ipc_find_elements(p.n_rows, &begin, &end);
    for (size_t i = begin * n_fours + threadIdx.x; i < end * n_fours; i += LN_NORM_VTHREADS)
        ln_ipc_push(p.g, number, i, x[i]);
    finish_rows<FOURS, TO>(p, begin, end, c,
                           [&](size_t i) { return ln_ipc_pushed_sum(p.g, number, i, x[i]); });
}

template <int FOURS, ln_norm_conversion TO>
static __device__ __forceinline__ void in_two(const reduce_norm_args &p, unsigned number,
                                              const constants<FOURS> &c) {
    size_t begin, end, n_fours = p.norm.norm.dim / 4;
    unsigned n_ranks = p.g.n_ranks;
    for (unsigned rank = 0; rank < n_ranks; rank++) {
        ln_ipc_find_share(p.n_rows, p.g, rank, &begin, &end);
        ln_ipc_copy((const float4 *)p.x, ln_ipc_data<float4>(p.g, p.g.rank, number),
                    begin * n_fours, end * n_fours);
    }
    if (!ln_ipc_meet(p.g, 0, number))
        return;
    float4 *sums = ln_ipc_sums<float4>(p.g, p.g.rank, number);
    size_t first = ln_ipc_share(p.n_rows, p.g.rank, n_ranks) * n_fours;
    ln_ipc_find_share(p.n_rows, p.g, p.g.rank, &begin, &end);
    ln_ipc_move<float4, LN_IPC_SUMS>(
        begin * n_fours, end * n_fours,
        [&](size_t i) { return ln_ipc_sum<float4>(p.g, number, i); },
        [&](size_t i, float4 sum) { sums[i - first] = sum; });
    if (!ln_ipc_meet(p.g, 1, number))
        return;
    for (unsigned turn = 0; turn < n_ranks; turn++) {
        unsigned rank = (p.g.rank + turn) % n_ranks; /* no two begin at the same one */
        const float4 *theirs = ln_ipc_sums<float4>(p.g, rank, number);
        first = ln_ipc_share(p.n_rows, rank, n_ranks) * n_fours;
        ln_ipc_find_share(p.n_rows, p.g, rank, &begin, &end);
        finish_rows<FOURS, TO>(p, begin, end, c, [=](size_t i) { return theirs[i - first]; });
    }
}

template <int FOURS, ln_norm_conversion TO>
static __global__ void __launch_bounds__(LN_NORM_VTHREADS)
    reduce_norm(const __grid_constant__ reduce_norm_args p) {
    __shared__ float shared[LN_MAX_WARPS];
    __shared__ unsigned greatest[LN_MAX_WARPS];
    constants<FOURS> c;
    c.shared = shared;
    c.greatest = greatest;
    ln_norm_load_constants<1>(p.norm.norm, c.factor, c.bias);
    unsigned number = ln_ipc_begin_number(p.g);
    if (p.pushes)
        pushed<FOURS, TO>(p, number, c);
    else if (p.in_two)
        in_two<FOURS, TO>(p, number, c);
    else
        at_once<FOURS, TO>(p, number, c);
    __syncthreads();
    ln_ipc_end_number(p.g, number);
}

/* Rows of few columns: their sums are written, and read for the norm. */
static __global__ void __launch_bounds__(LN_NORM_THREADS)
    reduce_norm_narrow(const __grid_constant__ reduce_norm_args p) {
    __shared__ float shared[LN_MAX_WARPS];
    unsigned number = ln_ipc_begin_number(p.g);
    size_t begin, end, dim = p.norm.norm.dim;
    float *own = ln_ipc_data<float>(p.g, p.g.rank, number);
    ln_ipc_find_elements(p.n_rows, &begin, &end);
    for (size_t i = begin * dim + threadIdx.x; i < end * dim; i += LN_NORM_THREADS)
        own[i] = p.x[i];
    if (!ln_ipc_meet(p.g, 0, number))
        end = begin;
    for (size_t row = begin; row < end; row++) {
        float mean, inverse, *sums = p.sums + row * dim;
        for (size_t i = threadIdx.x; i < dim; i += LN_NORM_THREADS) {
            float sum = ln_ipc_sum<float>(p.g, number, row * dim + i);
            sums[i] = p.residual != NULL ? p.residual[row * dim + i] + sum : sum;
        }
        ln_norm_statistics(p.norm.norm, sums, shared, &mean, &inverse);
        for (size_t i = threadIdx.x; i < dim; i += LN_NORM_THREADS) {
            float y = ln_norm_apply(p.norm.norm, sums[i], i, mean, inverse);
            size_t at = (p.first + row) * dim + i;
            p.norm.out[at] = p.norm.residual != NULL ? p.norm.residual[at] + p.norm.scale * y : y;
        }
    }
    ln_ipc_end_number(p.g, number);
}

template <int FOURS>
static int launch(const reduce_norm_args &args, const ln_ipc_part *part, ln_cuda_stream stream) {
    switch (ln_norm_find_conversion(args.norm)) {
    case LN_NORM_CONVERTED:
        return ln_ipc_launch(reduce_norm<FOURS, LN_NORM_CONVERTED>, part, LN_NORM_VTHREADS, stream,
                             args);
    case LN_NORM_CONVERTED_BY_ROW:
        return ln_ipc_launch(reduce_norm<FOURS, LN_NORM_CONVERTED_BY_ROW>, part, LN_NORM_VTHREADS,
                             stream, args);
    default:
        return ln_ipc_launch(reduce_norm<FOURS, LN_NORM_NOT_CONVERTED>, part, LN_NORM_VTHREADS,
                             stream, args);
    }
}

int ln_ipc_reduce_norm(const ln_ipc_group *group, const ln_ipc_part *part, const ln_ipc_norm *op,
                       ln_cuda_stream stream) {
    const ln_op_norm *norm = op->norm;
    size_t dim = norm->norm->dim, first = part->begin * dim;
    reduce_norm_args args = {};
    args.g = *group;
    args.norm.norm = *norm->norm;
    args.norm.residual = norm->residual;
    args.norm.scale = norm->scale;
    args.norm.out = op->leaves_out ? NULL : norm->out;
    args.norm.converts = op->to != NULL;
    if (op->to != NULL)
        args.norm.to = ln_act_view_of(op->to);
    args.x = op->sum->x + first;
    args.residual = op->sum->residual != NULL ? op->sum->residual + first : NULL;
    args.sums = op->leaves_out_sum ? NULL : op->sum->out + first;
    args.n_rows = part->n;
    args.first = part->begin;
    args.in_two = part->in_two;
    args.pushes = part->pushes;
    switch (dim < LN_NORM_VTHREADS ? 0 : ln_ceil_div(dim, 4 * LN_NORM_VTHREADS)) {
    case 0:
        args.sums = op->sum->out + first;
        return ln_ipc_launch(reduce_norm_narrow, part, LN_NORM_THREADS, stream, args);
    case 1: return launch<1>(args, part, stream);
    case 2: return launch<2>(args, part, stream);
    default: return launch<LN_NORM_MAX_FOURS>(args, part, stream);
    }
}
