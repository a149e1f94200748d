/* LN_OP_EMBED: rows of the token table, with what adapters add to them, and rows of types and
 * learned positions. Grid (n_tokens, columns / 1024), block 128, eight columns a thread. Bytes
 * moved: table rows in their own types, a row of float32. And the same of hashed n-grams: grid
 * (n_tokens, heads), block 32. */
#include "backend/cuda/ops.h"
#include "backend/cuda/ops/adapter.cuh"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/weights/dequantize_iq.cuh"
#include "backend/cuda/weights/traits.cuh"

enum { EMBED_THREADS = 128, NGRAM_THREADS = 32 };

typedef struct table {
    const uint8_t *data; /* NULL: none */
    ln_dtype dtype;
    size_t n_rows, row_bytes;
    int tiles;     /* ln_weight_layout */
    bool is_short; /* rows are plain floats that are not padded to whole groups */
} table;

typedef struct embed_args {
    table tokens_table, learned, types_table;
    size_t learned_offset, dim;
    bool is_part; /* the table begins with row part_begin of a larger one */
    size_t part_begin;
    float scale;
    const int32_t *tokens, *positions, *types; /* types NULL: all are the first */
    const ln_adapter_target *targets;          /* by slot, or NULL: no token has an adapter */
    const int32_t *slots;                      /* [n_tokens] */
    float *out;
} embed_args;

/* Columns k to k + LN_GROUP - 1 of a row of `dim`, as far as it goes. */
static __device__ void load_columns(const table &t, size_t row, size_t dim, size_t k,
                                    float *values) {
    if (t.tiles != LN_LAYOUT_NONE)
        for (size_t i = 0; i < LN_GROUP && k + i < dim; i++)
            values[i] = ln_weight_tile_value(t.tiles, t.data, dim, row, k + i);
    else if (t.is_short)
        for (size_t i = 0; i < LN_GROUP && k + i < dim; i++)
            values[i] = *(const float *)(t.data + row * t.row_bytes + (k + i) * sizeof(float));
    else
        ln_load_any(t.dtype, t.data + row * t.row_bytes, k, values);
}

static __device__ void add_row(const table &t, size_t row, size_t dim, float scale, bool adds,
                               float *out) {
    size_t k = ((size_t)blockIdx.y * EMBED_THREADS + threadIdx.x) * LN_GROUP;
    float values[LN_GROUP];
    if (k >= dim)
        return;
    load_columns(t, row, dim, k, values);
    for (size_t i = 0; i < LN_GROUP && k + i < dim; i++)
        out[k + i] = adds ? out[k + i] + values[i] : values[i] * scale;
}

/* Adds scale * B a[id] of the token's adapter. */
static __device__ void add_lora(const embed_args &p, size_t token, size_t id, float *out) {
    size_t k = ((size_t)blockIdx.y * EMBED_THREADS + threadIdx.x) * LN_GROUP;
    const ln_adapter_target *target = ln_adapter_target_of(p.targets, p.slots[token]);
    if (target == NULL || target->rank == 0)
        return;
    for (size_t i = 0; i < LN_GROUP && k + i < p.dim; i++)
        out[k + i] += p.scale * ln_adapter_expand(*target, target->a + id * target->rank, k + i);
}

/* It is launched without PDL, so it may let the next kernel start at once. */
static __global__ void embed(const __grid_constant__ embed_args p) {
    size_t token = blockIdx.x;
    ln_pdl_launch_dependents();
    float *out = p.out + token * p.dim;
    size_t id = (size_t)p.tokens[token] - p.part_begin; /* of a token ahead of a part: too large */
    bool is_there = id < p.tokens_table.n_rows;
    id = is_there ? id : 0;
    is_there |= !p.is_part;
    add_row(p.tokens_table, id, p.dim, is_there ? p.scale : 0.0f, false, out);
    if (p.targets != NULL && is_there)
        add_lora(p, token, id, out);
    if (p.types_table.data != NULL) {
        size_t type = p.types != NULL ? (size_t)p.types[token] : 0;
        add_row(p.types_table, type < p.types_table.n_rows ? type : 0, p.dim, 1.0f, true, out);
    }
    if (p.learned.data != NULL)
        add_row(p.learned, (size_t)p.positions[token] + p.learned_offset, p.dim, 1.0f, true, out);
}

static __host__ __device__ table table_of(const ln_weight *weight) {
    table t = {};
    if (weight != NULL) {
        t.data = (const uint8_t *)weight->data;
        t.dtype = weight->dtype;
        t.n_rows = weight->n_rows;
        t.row_bytes = weight->row_bytes;
        t.tiles = (int)weight->layout;
        size_t whole = (weight->n_cols + LN_GROUP - 1) / LN_GROUP * LN_GROUP * sizeof(float);
        t.is_short = t.dtype == LN_DTYPE_F32 && t.tiles == LN_LAYOUT_NONE &&
                     (t.row_bytes < whole || (t.row_bytes | (uintptr_t)t.data) % 16 != 0);
    }
    return t;
}

typedef struct ngram_args {
    ln_ngrams ngrams;
    const int32_t *tokens;
    const float *before; /* [n_tokens][ngrams' n_tokens - 1] */
    float *out;
} ngram_args;

static __global__ void embed_ngrams(const __grid_constant__ ngram_args p) {
    const ln_ngrams &n = p.ngrams;
    size_t token = blockIdx.x, head = blockIdx.y;
    ln_pdl_launch_and_wait();
    size_t row = ln_ngrams_row(&n, p.tokens[token], p.before + token * (n.n_tokens - 1), head);
    table t = table_of(&n.device_parts[row / n.part_rows]);
    size_t dim = n.device_parts[0].n_cols;
    float *out = p.out + (token * gridDim.y + head) * dim;
    for (size_t k = threadIdx.x * LN_GROUP; k < dim; k += NGRAM_THREADS * LN_GROUP) {
        float values[LN_GROUP];
        load_columns(t, row % n.part_rows, dim, k, values);
        for (size_t i = 0; i < LN_GROUP && k + i < dim; i++)
            out[k + i] = values[i];
    }
}

int ln_cuda_embed(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_embed *p = &op->embed;
    const ln_batch *batch = &step->batch;
    if (p->ngrams != NULL) {
        ngram_args ngrams = {*p->ngrams, batch->tokens, p->before, p->out};
        dim3 heads((unsigned)batch->n_tokens, (unsigned)ln_ngrams_n_heads(p->ngrams));
        return ln_pdl_launch(embed_ngrams, heads, NGRAM_THREADS, 0, stream, ngrams);
    }
    embed_args args = {};
    args.tokens_table = table_of(p->table);
    args.learned = table_of(p->learned);
    args.types_table = table_of(p->types);
    args.learned_offset = p->learned_offset;
    args.dim = p->table->n_cols;
    args.is_part = p->is_part;
    args.part_begin = p->is_part ? p->part_begin : 0;
    args.scale = p->scale;
    args.tokens = batch->tokens;
    args.positions = batch->positions;
    args.types = batch->types;
    args.targets = batch->adapters.n_runs > 0 ? p->table->device_adapters : NULL;
    args.slots = batch->adapters.slots;
    args.out = p->out;
    dim3 grid((unsigned)batch->n_tokens, (unsigned)ln_ceil_div(args.dim, EMBED_THREADS * LN_GROUP));
    embed<<<grid, EMBED_THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}
