/* LN_OP_COMPRESS: compressed KV entries, in float32: a softmax-weighted sum of the rows of a run of
 * tokens, then norm and RoPE.
 *
 * Grid n_tokens, block COMPRESS_THREADS: a block whose token ends no run leaves at once. A thread
 * has every COMPRESS_THREADS-th column, and reads its rows twice: largest gate, then the sum. A
 * warp finishes the entry. Shared memory: dim floats. Bytes moved: rows of a run, twice, or of two
 * with overlaps; an entry is written. */
#include "backend/cuda/ops/compress.h"

#include "backend/cuda/ops/entries.cuh"
#include "backend/cuda/ops/qkv.cuh"
#include "backend/cuda/runtime/pdl.cuh"

enum { COMPRESS_THREADS = 256 };

typedef struct compress_args {
    ln_kv_layer rows, entries;
    ln_kv_array keys; /* of entries */
    bool overlaps;
    const float *bias; /* [entry_tokens][rows.k_dim / 2] */
    ln_qkv_args head;  /* how an entry is finished */
    ln_norm norm;
    const int32_t *row_tables, *entry_tables, *positions, *token_seqs;
    size_t max_row_blocks, max_entry_blocks; /* of a row of the tables */
} compress_args;

/* A column of a run's values, and its gates, which lie width behind them. */
typedef struct column {
    const float *rows; /* of the cache */
    const int32_t *table;
    const float *bias;
    size_t at, width;
} column;

static __device__ __forceinline__ const float *row_of(const compress_args &p, const column &c,
                                                      size_t position) {
    return c.rows + ln_single_row(p.rows, c.table, position) * p.rows.k_dim + c.at;
}

static __device__ float largest_gate(const compress_args &p, const column &c, size_t number,
                                     float largest) {
    size_t n = p.entries.entry_tokens;
    for (size_t j = 0; j < n; j++)
        largest =
            fmaxf(largest, row_of(p, c, number * n + j)[c.width] + c.bias[j * c.width + c.at]);
    return largest;
}

static __device__ void add_rows(const compress_args &p, const column &c, size_t number,
                                float largest, float *total, float *sum) {
    size_t n = p.entries.entry_tokens;
    for (size_t j = 0; j < n; j++) {
        const float *row = row_of(p, c, number * n + j);
        float weight = expf(row[c.width] + c.bias[j * c.width + c.at] - largest);
        *total += weight;
        *sum = fmaf(weight, row[0], *sum);
    }
}

/* Element i of an entry before its norm. */
static __device__ float sum_up(const compress_args &p, const int32_t *table, size_t number,
                               size_t i) {
    size_t width = p.rows.k_dim / 2;
    column before = {(const float *)p.rows.k, table, p.bias, i, width}, own = before;
    bool reads_before = p.overlaps && number > 0;
    own.at += p.overlaps ? p.entries.k_dim : 0;
    float largest = -INFINITY, total = 0.0f, sum = 0.0f;
    if (reads_before)
        largest = largest_gate(p, before, number - 1, largest);
    largest = largest_gate(p, own, number, largest);
    if (reads_before)
        add_rows(p, before, number - 1, largest, &total, &sum);
    add_rows(p, own, number, largest, &total, &sum);
    return sum / total;
}

static __global__ void compress(const __grid_constant__ compress_args p) {
    extern __shared__ float entry[];
    ln_pdl_launch_and_wait();
    size_t token = blockIdx.x, dim = p.entries.k_dim, n = p.entries.entry_tokens;
    size_t seq = (size_t)p.token_seqs[token], position = (size_t)p.positions[token];
    if ((position + 1) % n != 0)
        return;
    size_t number = position / n;
    const int32_t *table = p.row_tables + seq * p.max_row_blocks;
    for (size_t i = threadIdx.x; i < dim; i += COMPRESS_THREADS)
        entry[i] = sum_up(p, table, number, i);
    __syncthreads();
    if (threadIdx.x >= LN_WARP)
        return;
    ln_finish_head(p.head, p.norm, 0, (int32_t)(number * n), (unsigned)dim, entry, entry);
    size_t row = ln_entry_row(p.entries, p.entry_tables + seq * p.max_entry_blocks, number);
    ln_kv_store(p.keys, row, entry, dim);
}

int ln_cuda_compress(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_compress *p = &op->compress;
    const ln_batch_group *of_rows = &step->batch.groups[p->rows->group];
    const ln_batch_group *of_entries = &step->batch.groups[p->entries->group];
    compress_args args = {};
    args.rows = *p->rows;
    args.entries = *p->entries;
    args.keys = ln_kv_keys(p->entries);
    args.overlaps = p->overlaps;
    args.bias = p->bias;
    args.norm = *p->norm;
    args.head.normalizes = p->norm->kind != LN_NORM_NONE;
    args.head.has_rope = true;
    args.head.rope = *p->rope;
    args.row_tables = of_rows->block_tables;
    args.max_row_blocks = of_rows->max_blocks;
    args.entry_tables = of_entries->block_tables;
    args.max_entry_blocks = of_entries->max_blocks;
    args.positions = step->batch.positions;
    args.token_seqs = step->token_seqs;
    return ln_pdl_launch(compress, dim3((unsigned)step->batch.n_tokens), COMPRESS_THREADS,
                         p->entries->k_dim * sizeof(float), stream, args);
}
