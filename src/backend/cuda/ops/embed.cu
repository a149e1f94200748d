/* LN_OP_EMBED: rows of the token table, plus learned positions. Grid (n_tokens, columns / 1024),
 * block 128, eight columns a thread. Bytes moved: a table row in its own type, a row of float32. */
#include "backend/cuda/ops.h"
#include "backend/cuda/runtime/pdl.cuh"
#include "backend/cuda/weights/dequantize_iq.cuh"
#include "backend/cuda/weights/traits.cuh"

enum { EMBED_THREADS = 128 };

typedef struct table {
    const uint8_t *data; /* NULL: none */
    ln_dtype dtype;
    size_t n_rows, row_bytes;
    int tiles; /* ln_weight_layout */
} table;

static __device__ void add_row(const table &t, size_t row, size_t dim, float scale, bool adds,
                               float *out) {
    size_t k = ((size_t)blockIdx.y * EMBED_THREADS + threadIdx.x) * LN_GROUP;
    float values[LN_GROUP];
    if (k >= dim)
        return;
    if (t.tiles != LN_LAYOUT_NONE)
        for (size_t i = 0; i < LN_GROUP && k + i < dim; i++)
            values[i] = ln_weight_tile_value(t.tiles, t.data, dim, row, k + i);
    else
        ln_load_any(t.dtype, t.data + row * t.row_bytes, k, values);
    for (size_t i = 0; i < LN_GROUP && k + i < dim; i++)
        out[k + i] = adds ? out[k + i] + values[i] : values[i] * scale;
}

/* It is launched without PDL, so it may let the next kernel start at once. */
static __global__ void embed(table tokens_table, table learned, size_t learned_offset, size_t dim,
                             float scale, const int32_t *tokens, const int32_t *positions,
                             float *out) {
    size_t token = blockIdx.x;
    ln_pdl_launch_dependents();
    out += token * dim;
    size_t id = (size_t)tokens[token];
    add_row(tokens_table, id < tokens_table.n_rows ? id : 0, dim, scale, false, out);
    if (learned.data != NULL)
        add_row(learned, (size_t)positions[token] + learned_offset, dim, 1.0f, true, out);
}

static table table_of(const ln_weight *weight) {
    table t = {};
    if (weight != NULL) {
        t.data = (const uint8_t *)weight->data;
        t.dtype = weight->dtype;
        t.n_rows = weight->n_rows;
        t.row_bytes = weight->row_bytes;
        t.tiles = (int)weight->layout;
    }
    return t;
}

int ln_cuda_embed(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_embed *p = &op->embed;
    dim3 grid((unsigned)step->batch.n_tokens,
              (unsigned)ln_ceil_div(p->table->n_cols, EMBED_THREADS * LN_GROUP));
    embed<<<grid, EMBED_THREADS, 0, stream>>>(table_of(p->table), table_of(p->learned),
                                              p->learned_offset, p->table->n_cols, p->scale,
                                              step->batch.tokens, step->batch.positions, p->out);
    return cudaGetLastError();
}
