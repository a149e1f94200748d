/* y = x W^T with its epilogue, for every layout of weights. A worker takes a range of panels of 16
 * output rows. Rows of x go in chunks that fit the L2 cache as the kernel wants them (int8, two
 * bf16); a panel then meets all rows of the chunk.
 *
 * No thread writes what another reads, and a sum never depends on the chunk or the tile, so any
 * number of threads and rows gives the same bits. */
#ifndef LN_BACKEND_CPU_SIMD_LINEAR_H
#define LN_BACKEND_CPU_SIMD_LINEAR_H

#include "backend/cpu/simd/int8.h"
#include "backend/cpu/simd/math.h"
#include "backend/cpu/simd/rows.h"

enum {
    MAX_CHUNK = 240, /* rows of x, whole groups */
    FEW_ROWS = 4,    /* up to here packed panels are unpacked in registers */
    CHUNK_BYTES = 1 << 20
};

/* One matrix in a running linear: how its rows of x lie, and where a panel is unpacked. */
typedef struct operand {
    const ln_weight *weight;
    int8_rows int8;
    bf16_rows bf16;
    float *panel; /* scratch: an unpacked panel, or 16 rows of float32 */
    const uint8_t *packed;
    const float *rows[LANES]; /* of W, layout LN_PACK_NONE */
} operand;

typedef struct linear_job {
    const ln_op_linear *p;
    const ln_cpu_worker *worker;
    operand up, gate;
    size_t n;                   /* rows of the chunk */
    bool few;                   /* they meet packed int8 panels all at once */
    size_t out_rows[MAX_CHUNK]; /* their numbers in `out` */
    const float *x[MAX_CHUNK];
} linear_job;

LN_INLINE size_t round_up(size_t n, size_t step) {
    return (n + step - 1) / step * step;
}

static bool is_int8(const ln_weight *weight) {
    return weight->layout != LN_PACK_NONE && weight->layout != LN_PACK_BF16;
}

/* Bytes of one prepared row of x. */
static size_t row_bytes_of(const ln_weight *weight) {
    switch (weight->layout) {
    case LN_PACK_NONE: return 0;
    case LN_PACK_BF16: return round_up(bf16_row_bytes(weight->n_cols), 64);
    default: return round_up(int8_row_bytes(weight->n_cols), 64);
    }
}

/* Floats of an unpacked panel, or of 16 rows. */
static size_t panel_floats(size_t k) {
    return round_up(k, LN_PACK_COLS) * LANES;
}

/* Floats of a worker for weights of up to `width` columns: prepared rows of x and an unpacked
 * panel, for weight and gate each. */
static size_t linear_scratch(size_t width) {
    size_t row = 2 * round_up(4 * width + 128, 64); /* no layout takes more for a row of x */
    size_t chunk = row * GROUP_ROWS > CHUNK_BYTES ? row * GROUP_ROWS : CHUNK_BYTES;
    return chunk / sizeof(float) + 2 * panel_floats(width);
}

/* Rows of x that a chunk holds. */
static size_t chunk_rows(const linear_job *job) {
    size_t row = row_bytes_of(job->up.weight);
    if (job->gate.weight != NULL && job->gate.weight->layout != job->up.weight->layout)
        row += row_bytes_of(job->gate.weight);
    size_t fit = row > 0 ? CHUNK_BYTES / row / GROUP_ROWS * GROUP_ROWS : MAX_CHUNK;
    if (fit < GROUP_ROWS)
        return GROUP_ROWS;
    return fit < MAX_CHUNK ? fit : MAX_CHUNK;
}

/* The chunk's rows of x in the form that the operand wants; returns the bytes used at `memory`. */
static size_t prepare_rows(linear_job *job, operand *o, char *memory) {
    size_t k = o->weight->n_cols;
    switch (o->weight->layout) {
    case LN_PACK_NONE: return 0;
    case LN_PACK_BF16:
        o->bf16 = bf16_place(memory, k);
        for (size_t i = 0; i < job->n; i++)
            bf16_split(&o->bf16, i, k, job->x[i]);
        break;
    default:
        o->int8 = int8_place(memory, k);
        for (size_t i = 0; i < job->n; i++)
            int8_quantize(&o->int8, i, int8_kind_of((ln_pack)o->weight->layout), job->x[i]);
    }
    return round_up(job->n, GROUP_ROWS) * row_bytes_of(o->weight);
}

static void load_panel(const linear_job *job, operand *o, size_t panel) {
    const ln_weight *w = o->weight;
    if (w->layout != LN_PACK_NONE) {
        o->packed = (const uint8_t *)w->data + panel * LANES * w->row_bytes;
        if (w->layout != LN_PACK_BF16 && !job->few)
            int8_unpack((ln_pack)w->layout, o->packed, w->n_cols, (uint8_t *)o->panel);
        return;
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        size_t row = panel * LANES + lane;
        o->rows[lane] = row < w->n_rows ? rows_load(w, row, o->panel + lane * w->n_cols)
                                        : o->rows[lane - 1]; /* computed, never stored */
    }
}

/* y [height][16] = rows [row, row + height) of the chunk times the loaded panel. */
static void multiply_tile(const linear_job *job, const operand *o, size_t row, size_t height,
                          float *y) {
    const ln_weight *w = o->weight;
    if (w->layout == LN_PACK_NONE) {
        size_t n = row + height < job->n ? height : job->n - row;
        rows_multiply(n, job->x + row, o->rows, w->n_cols, y);
    } else if (w->layout == LN_PACK_BF16) {
        bf16_multiply(height, o->packed, &o->bf16, row, y);
    } else if (job->few) {
        int8_multiply_few((ln_pack)w->layout, job->n, o->packed, &o->int8, y);
    } else if (height == MATRIX_ROWS) {
        int8_matrix((ln_pack)w->layout, (const uint8_t *)o->panel, &o->int8, row, y);
    } else {
        int8_multiply_many((ln_pack)w->layout, height, (const uint8_t *)o->panel, &o->int8, row, y);
    }
}

static vf load_bias(const ln_weight *weight, size_t column, size_t n) {
    if (weight->bias == NULL)
        return vf_set(0.0f);
    return n < LANES ? vf_load_n(weight->bias + column, n) : vf_load(weight->bias + column);
}

/* The first n of the 16 columns from `column` on of one row of the output. */
static void finish(const linear_job *job, size_t row, size_t column, size_t n, vf u, vf g) {
    const ln_op_linear *p = job->p;
    size_t n_out = p->weight->n_rows, out_row = job->out_rows[row];
    const ln_weight *gate = job->gate.weight;
    u = vf_add(u, load_bias(job->up.weight, column, n));
    vf y = gate != NULL ? vf_gate(p->activation, vf_add(g, load_bias(gate, column, n)), u)
                        : vf_activate(p->activation, u);
    y = vf_mul(y, vf_set(p->scale));
    if (p->residual != NULL) {
        const float *residual = p->residual + out_row * n_out + column;
        y = vf_add(n < LANES ? vf_load_n(residual, n) : vf_load(residual), y);
    }
    if (p->softcap > 0.0f)
        y = vf_softcap(y, p->softcap);
    float *out = p->out + out_row * (p->out_stride > 0 ? p->out_stride : n_out) + column;
    if (n < LANES)
        vf_store_n(out, y, n);
    else
        vf_store(out, y);
}

static bool any_bf16(const linear_job *job) {
    const ln_weight *gate = job->gate.weight;
    return job->up.weight->layout == LN_PACK_BF16 || (gate != NULL && gate->layout == LN_PACK_BF16);
}

static size_t tile_height(const linear_job *job, size_t row) {
    size_t left = job->n - row;
    if (job->few)
        return job->n;
    if (MATRIX_ROWS > 0 && (left > TILE_STEP || any_bf16(job)))
        return MATRIX_ROWS;
    if (job->n == 1)
        return 1;
    return left > TILE_STEP ? TILE_ROWS : TILE_STEP;
}

static void multiply_panel(linear_job *job, size_t panel) {
    float up[LANES * LANES], gate[LANES * LANES];
    size_t column = panel * LANES, left = job->p->weight->n_rows - column;
    size_t n_columns = left < LANES ? left : LANES;
    bool has_gate = job->gate.weight != NULL;
    load_panel(job, &job->up, panel);
    if (has_gate)
        load_panel(job, &job->gate, panel);
    for (size_t row = 0; row < job->n;) {
        size_t height = tile_height(job, row);
        multiply_tile(job, &job->up, row, height, up);
        if (has_gate)
            multiply_tile(job, &job->gate, row, height, gate);
        for (size_t i = 0; i < height && row + i < job->n; i++)
            finish(job, row + i, column, n_columns, vf_load(up + i * LANES),
                   has_gate ? vf_load(gate + i * LANES) : vf_set(0.0f));
        row += height;
    }
}

static void multiply_chunk(linear_job *job) {
    char *memory = (char *)job->worker->scratch;
    operand *up = &job->up, *gate = &job->gate;
    job->few = job->n <= FEW_ROWS && is_int8(up->weight) &&
               (gate->weight == NULL || is_int8(gate->weight));
    size_t width = up->weight->n_cols, used = prepare_rows(job, up, memory);
    if (gate->weight != NULL && gate->weight->layout == up->weight->layout) {
        gate->int8 = up->int8;
        gate->bf16 = up->bf16;
    } else if (gate->weight != NULL) {
        used += prepare_rows(job, gate, memory + used);
    }
    up->panel = (float *)(void *)(memory + used);
    gate->panel = up->panel + panel_floats(width);
    size_t begin, end, n_panels = (up->weight->n_rows + LANES - 1) / LANES;
    ln_cpu_share(job->worker, n_panels, &begin, &end);
    matrix_begin();
    for (size_t panel = begin; panel < end; panel++)
        multiply_panel(job, panel);
    matrix_end();
}

/* The rows of one group, chunk after chunk. */
static void multiply_group(linear_job *job, size_t group) {
    const ln_op_linear *p = job->p;
    const ln_row_groups *groups = &p->groups;
    bool sorted = groups->order != NULL;
    size_t step = sorted || groups->n_groups == 0 ? 1 : groups->n_groups;
    size_t i = sorted ? (size_t)groups->starts[group] : group;
    size_t end = sorted ? (size_t)groups->starts[group + 1] : p->n_rows;
    job->up = (operand){.weight = &p->weight[group]};
    job->gate = (operand){.weight = p->gate != NULL ? &p->gate[group] : NULL};
    size_t x_stride = p->x_stride > 0 ? p->x_stride : job->up.weight->n_cols;
    size_t most = chunk_rows(job);
    while (i < end) {
        for (job->n = 0; job->n < most && i < end; job->n++, i += step) {
            size_t row = sorted ? (size_t)groups->order[i] : i;
            job->out_rows[job->n] = row;
            job->x[job->n] = p->x + (p->rows_per_x > 1 ? row / p->rows_per_x : row) * x_stride;
        }
        multiply_chunk(job);
    }
}

static void linear(const ln_op *op, const ln_cpu_worker *worker) {
    linear_job job = {.p = &op->linear, .worker = worker};
    size_t n_groups = job.p->groups.n_groups > 0 ? job.p->groups.n_groups : 1;
    for (size_t group = 0; group < n_groups; group++)
        multiply_group(&job, group);
}

/* Row `row` of a weight as float32: where it lies, or in scratch [n_cols]. */
static const float *read_row(const ln_weight *weight, size_t row, float *scratch) {
    if (weight->layout == LN_PACK_NONE)
        return rows_load(weight, row, scratch);
    const uint8_t *panel = (const uint8_t *)weight->data + row / LANES * LANES * weight->row_bytes;
    ln_pack_read_row((ln_pack)weight->layout, panel, row % LANES, weight->n_cols, scratch);
    return scratch;
}

static void embed(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_embed *p = &op->embed;
    const ln_batch *batch = op->batch;
    size_t dim = p->table->n_cols;
    size_t begin, end;
    ln_cpu_share(worker, batch->n_tokens, &begin, &end);
    for (size_t token = begin; token < end; token++) {
        const float *row = read_row(p->table, (size_t)batch->tokens[token], worker->scratch);
        float *out = p->out + token * dim;
        for (size_t i = 0; i < dim; i++)
            out[i] = row[i] * p->scale;
        if (p->learned == NULL)
            continue;
        size_t position = (size_t)batch->positions[token] + p->learned_offset;
        row = read_row(p->learned, position, worker->scratch);
        for (size_t i = 0; i < dim; i++)
            out[i] += row[i];
    }
}

#endif
