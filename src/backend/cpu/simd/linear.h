/* y = x W^T with its epilogue, for every layout of weights. Workers take units of TILE_PANELS
 * panels of 16 output rows, whoever is free the next one, or several where rows are few. Rows of x
 * go in chunks, made ready as the kernel wants them (int8, bf16): a few by each worker for itself,
 * more by all workers together. Those of experts become int8 together for all experts where they
 * fit, and chunks copy theirs.
 *
 * A sum never depends on the chunk, the tile or the worker, so any number of threads and rows gives
 * the same bits. */
#ifndef LN_BACKEND_CPU_SIMD_LINEAR_H
#define LN_BACKEND_CPU_SIMD_LINEAR_H

#include "backend/cpu/lazy.h"
#include "backend/cpu/pack_read.h"
#include "backend/cpu/scalar/scalar.h"
#include "backend/cpu/simd/f8.h"
#include "backend/cpu/simd/lora.h"
#include "backend/cpu/simd/math.h"
#include "backend/cpu/simd/rows.h"
#include "backend/cpu/simd/super.h"

enum {
    MAX_CHUNK = 256,  /* rows of x, whole groups */
    SMALL_M_ROWS = 4, /* up to here packed panels are unpacked in registers */
    BLOCK_ROWS = 64,  /* whole groups, whose sums stay in the first-level cache until they are
                         finished */
    CHUNK_BYTES = 3 << 20,
    STREAM_BYTES = 16 << 20, /* of output, from which on it goes past the caches */
    TAKE_BYTES = 1 << 20,    /* of weights that a worker takes at once, at most, */
    WORKER_TAKES = 4,        /* and how often it takes some, at least, for few rows, */
    BUSY_TAKES = 32          /* and for more, where a take lasts longer */
};

/* One matrix in a running linear: how its rows of x lie, and where a unit's sums go. */
typedef struct operand {
    const ln_weight *weight;
    int8_rows int8;
    super_rows super;
    bf16_rows bf16;
    float *y; /* [rows of the chunk, whole groups][UNIT], for each unit that is taken at once */
} operand;

typedef struct linear_job {
    const ln_op_linear *p;
    const ln_cpu_worker *worker;
    operand up, gate;
    operand ready;     /* all rows of x of all groups, prepared by all workers; weight NULL: none */
    size_t n_used;     /* matrices that have rows; all lie in one list of units */
    size_t n;          /* rows of the chunk */
    bool small_m;      /* they meet packed int8 panels all at once */
    bool streams;      /* the output goes past the caches: STREAM_BYTES or more, in whole lines */
    bool shares_rows;  /* others may still read prepared rows in the shared memory */
    const float *own;  /* the row of x that the worker's own memory holds, for weights of `own_for`;
                          NULL: none, or several */
    uint32_t own_for;  /* a layout */
    uint8_t *unpacked; /* [TILE_PANELS][UNPACKED_PANEL] */
    float *sums;       /* as an operand's y, of LN_PACK_F8 without scales */
    float *w_rows;     /* [16][n_in], layout LN_PACK_NONE; two panels of bf16, LN_PACK_F8 */
    size_t out_rows[MAX_CHUNK];   /* their numbers in `out` */
    size_t ready_rows[MAX_CHUNK]; /* and in `ready` */
    const float *x[MAX_CHUNK];
} linear_job;

LN_INLINE size_t round_up(size_t n, size_t step) {
    return (n + step - 1) / step * step;
}

static bool is_int8(const ln_weight *weight) {
    return weight->layout != LN_PACK_NONE && weight->layout != LN_PACK_F8 &&
           weight->layout != LN_PACK_BF16;
}

/* Bytes of one prepared row of x. */
static size_t row_bytes_of(const ln_weight *weight) {
    switch (weight->layout) {
    case LN_PACK_NONE: return 0;
    case LN_PACK_F8:
    case LN_PACK_BF16: return round_up(bf16_row_bytes(weight->n_cols), 64);
    default: break;
    }
    ln_pack pack = (ln_pack)weight->layout;
    return round_up(is_super(pack) ? super_row_bytes(weight->n_cols)
                                   : int8_row_bytes(int8_kind_of(pack), weight->n_cols),
                    64);
}

/* Bytes of a row in any layout, for weight and gate. */
static size_t most_row_bytes(size_t width) {
    return 2 * round_up(4 * width + 128, 64);
}

/* Bytes of up to SMALL_M_ROWS rows that lie alone, for one of both; they are less than those of 16
 * rows but where a row has few columns. */
static size_t alone_bytes(size_t width) {
    size_t blocks = width / LN_PACK_COLS / GROUP_ROWS + 1,
           supers = width / SUPER_COLS / GROUP_ROWS + 1;
    size_t small = blocks * 2 * sizeof(int8_block), large = supers * sizeof(super_block);
    return SMALL_M_ROWS * (small > large ? small : large);
}

/* Bytes of a worker's own rows. */
static size_t own_bytes(size_t width) {
    size_t whole = most_row_bytes(width) * GROUP_ROWS, alone = 2 * alone_bytes(width);
    return round_up(whole > alone ? whole : alone, 64);
}

/* Floats of a worker for weights of up to `width` columns: a few rows of x as prepared, sums of
 * weight and gate, and of FP8 without scales, unpacked panels, 16 rows of float32. */
static size_t linear_scratch(size_t width) {
    size_t rows = own_bytes(width);
    size_t sums = 3 * MAX_CHUNK * UNIT * sizeof(float), unpacked = TILE_PANELS * UNPACKED_PANEL;
    return (rows + sums + unpacked) / sizeof(float) + round_up(width, LANES) * LANES;
}

/* Bytes that the workers share: a chunk of prepared rows. */
static size_t linear_shared(size_t width) {
    size_t group = most_row_bytes(width) * GROUP_ROWS;
    return group > CHUNK_BYTES ? group : CHUNK_BYTES;
}

/* Rows of x that a chunk of n holds, of those that fit `bytes`: chunks of a linear are about
 * equal. */
static size_t chunk_rows(const linear_job *job, size_t n, size_t bytes) {
    size_t row = row_bytes_of(job->up.weight);
    if (job->gate.weight != NULL && job->gate.weight->layout != job->up.weight->layout)
        row += row_bytes_of(job->gate.weight);
    size_t most = row > 0 ? bytes / row / GROUP_ROWS * GROUP_ROWS : MAX_CHUNK;
    most = most > MAX_CHUNK ? MAX_CHUNK : most < GROUP_ROWS ? GROUP_ROWS : most;
    size_t n_chunks = (n + most - 1) / most;
    return n_chunks > 1 ? round_up((n + n_chunks - 1) / n_chunks, GROUP_ROWS) : most;
}

/* The first n rows of a group of 16, as int8. */
LN_INLINE void prepare_group(const operand *o, size_t group, size_t n, const float *const *x) {
    ln_pack pack = (ln_pack)o->weight->layout;
    if (is_super(pack))
        super_quantize(&o->super, group, super_kind_of(pack), n, x);
    else
        int8_quantize(&o->int8, group, int8_kind_of(pack), n, x);
}

/* Where rows as int8 lie. */
LN_INLINE void place_int8(operand *o, void *memory) {
    o->int8 = int8_place(memory, int8_kind_of((ln_pack)o->weight->layout), o->weight->n_cols);
    o->super = super_place(memory, o->weight->n_cols);
}

/* Rows [begin, end) of the chunk, `begin` at a group's first, in the form that the operand wants;
 * returns the bytes that all take at `memory`. */
static size_t prepare_rows(linear_job *job, operand *o, size_t begin, size_t end, char *memory) {
    size_t k = o->weight->n_cols;
    ln_pack pack = (ln_pack)o->weight->layout;
    switch (o->weight->layout) {
    case LN_PACK_NONE: return 0;
    case LN_PACK_F8:
    case LN_PACK_BF16:
        o->bf16 = bf16_place(memory, k, job->p->precise);
        for (size_t i = begin; i < end; i++)
            bf16_put(&o->bf16, i, k, job->x[i]);
        break;
    default:
        place_int8(o, memory);
        if (job->small_m) {
            for (size_t i = begin; i < end; i++) {
                if (is_super(pack))
                    super_quantize_alone(&o->super, i, super_kind_of(pack), job->x[i]);
                else
                    int8_quantize_alone(&o->int8, i, int8_kind_of(pack), job->x[i]);
            }
            return alone_bytes(k);
        }
        for (size_t i = begin; i < end; i += GROUP_ROWS)
            prepare_group(o, i / GROUP_ROWS, end - i < GROUP_ROWS ? end - i : GROUP_ROWS,
                          job->x + i);
    }
    return round_up(job->n, GROUP_ROWS) * row_bytes_of(o->weight);
}

/* Float32 rows of W, and n rows of x from `first` on as they are. */
static void multiply_plain(const linear_job *job, const operand *o, size_t panel, size_t first,
                           size_t n, float *y) {
    const ln_weight *w = o->weight;
    const float *rows[LANES];
    for (size_t lane = 0; lane < LANES; lane++) {
        size_t row = panel * LANES + lane;
        rows[lane] = row < w->n_rows ? rows_load(w, row, job->w_rows + lane * w->n_cols)
                                     : job->w_rows; /* computed, never stored */
    }
    rows_multiply(n, job->x + first, rows, w->n_cols, y);
}

/* What the worker reads after the `bytes` of each panel from w on: as many of the same panels, or
 * behind their last columns of the panels that follow. */
LN_INLINE fetcher fetch_after(const uint8_t *w, size_t bytes, bool last, size_t n_panels,
                              size_t panel_bytes) {
    fetcher next = {.bytes = bytes};
    for (size_t p = 0; p < n_panels; p++)
        next.at[p] = w + bytes + (p + (last ? n_panels - 1 : 0)) * panel_bytes;
    return next;
}

static void multiply_int8(const linear_job *job, const operand *o, const uint8_t *panels,
                          size_t panel_bytes, size_t n_panels) {
    ln_pack pack = (ln_pack)o->weight->layout;
    size_t block_bytes = panel_bytes / o->int8.n_blocks;
    for (size_t first = 0; first < o->int8.n_blocks; first += UNPACK_BLOCKS) {
        size_t left = o->int8.n_blocks - first, n = left < UNPACK_BLOCKS ? left : UNPACK_BLOCKS;
        const uint8_t *w = panels + first * block_bytes;
        fetcher next = fetch_after(w, n * block_bytes, n == left, n_panels, panel_bytes);
        if (MATRIX_ROWS == 0 && is_direct(pack, job->worker->direct)) {
            direct_multiply_rows(pack, n_panels, w, panel_bytes, next, &o->int8, job->n, first, n,
                                 o->y);
            continue;
        }
        for (size_t p = 0; p < n_panels; p++)
            int8_unpack(pack, panels + p * panel_bytes, first, n,
                        job->unpacked + p * UNPACKED_PANEL);
        fetch_some(&next, n_panels, next.bytes);
        if (MATRIX_ROWS > 0 && o->int8.n_parts == 1)
            int8_matrix(pack, n_panels, job->unpacked, &o->int8, job->n, first, n, o->y);
        else
            int8_multiply_rows(pack, n_panels, job->unpacked, &o->int8, job->n, first, n, o->y);
    }
}

static void multiply_super(const linear_job *job, const operand *o, const uint8_t *panels,
                           size_t panel_bytes, size_t n_panels) {
    ln_pack pack = (ln_pack)o->weight->layout;
    for (size_t first = 0; first < o->super.n_supers; first += UNPACK_SUPERS) {
        size_t left = o->super.n_supers - first, n = left < UNPACK_SUPERS ? left : UNPACK_SUPERS;
        const uint8_t *w = panels + first * super_bytes(pack);
        fetcher next = fetch_after(w, n * super_bytes(pack), n == left, n_panels, panel_bytes);
        if (MATRIX_ROWS == 0 && super_is_direct(pack, job->worker->direct)) {
            super_direct_rows(n_panels, w, panel_bytes, next, &o->super, job->n, first, n, o->y);
            continue;
        }
        for (size_t p = 0; p < n_panels; p++)
            super_unpack(pack, panels + p * panel_bytes, first, n,
                         job->unpacked + p * UNPACKED_PANEL);
        fetch_some(&next, n_panels, next.bytes);
        if (MATRIX_ROWS > 0)
            super_matrix(pack, n_panels, job->unpacked, &o->super, job->n, first, n, o->y);
        else
            super_multiply_rows(pack, n_panels, job->unpacked, &o->super, job->n, first, n, o->y);
    }
}

static void multiply_f8(const linear_job *job, const operand *o, const uint8_t *panels,
                        size_t panel_bytes, size_t n_panels) {
    size_t n_blocks = o->weight->n_cols / LN_PACK_COLS, n;
    size_t w_bytes = o->weight->n_cols / 2 * STEP_BYTES;
    uint8_t *w = (uint8_t *)job->w_rows;
    for (size_t first = 0; first < n_blocks; first += n) {
        const uint8_t *blocks = panels + first * F8_BLOCK_BYTES;
        n = f8_run(blocks, panel_bytes, n_panels, n_blocks - first);
        for (size_t p = 0; p < n_panels; p++)
            f8_unpack(blocks + p * panel_bytes, n, w + p * w_bytes);
        bf16_range range = {first * LN_PACK_COLS, n * LN_PACK_COLS};
        bf16_multiply(n_panels, w, w_bytes, &o->bf16, range, job->n, 0, job->sums);
        f8_fold(blocks, panel_bytes, n_panels, job->n, job->sums, first == 0, o->y);
    }
}

/* Bytes that loops fetch in front where they read line after line. */
LN_INLINE size_t far_ahead(const linear_job *job) {
    return job->worker->far ? job->worker->ahead : 0;
}

/* Up to SMALL_M_ROWS rows against one packed panel. */
static void multiply_small_m(const linear_job *job, const operand *o, const uint8_t *panel,
                             float *y) {
    ln_pack pack = (ln_pack)o->weight->layout;
    const ln_cpu_worker *worker = job->worker;
    if (ln_is_grid(pack))
        grid_multiply_small_m(pack, job->n, panel, &o->super, y);
    else if (is_super(pack))
        super_multiply_small_m(pack, job->n, panel, &o->super, worker->ahead, worker->far, y);
    else
        int8_multiply_small_m(pack, job->n, panel, &o->int8, far_ahead(job), y);
}

/* o->y = the chunk's rows against n_panels panels from `panel` on. */
static void multiply_unit(const linear_job *job, const operand *o, size_t panel, size_t n_panels) {
    const ln_weight *w = o->weight;
    size_t panel_bytes = LANES * w->row_bytes;
    if (w->layout == LN_PACK_NONE) {
        for (size_t p = 0; p < n_panels; p++)
            multiply_plain(job, o, panel + p, 0, job->n, o->y + p * LANES);
        return;
    }
    const uint8_t *panels = ln_lazy_panels(w, panel, n_panels, job->worker->panels);
    if (w->layout == LN_PACK_BF16)
        bf16_multiply(n_panels, panels, panel_bytes, &o->bf16, (bf16_range){0, w->n_cols}, job->n,
                      far_ahead(job), o->y);
    else if (w->layout == LN_PACK_F8)
        multiply_f8(job, o, panels, panel_bytes, n_panels);
    else if (job->small_m)
        for (size_t p = 0; p < n_panels; p++)
            multiply_small_m(job, o, panels + p * panel_bytes, o->y + p * LANES);
    else if (is_super((ln_pack)w->layout))
        multiply_super(job, o, panels, panel_bytes, n_panels);
    else
        multiply_int8(job, o, panels, panel_bytes, n_panels);
}

static vf load_bias(const ln_weight *weight, size_t column, size_t n) {
    if (weight->bias == NULL)
        return vf_set(0.0f);
    return n < LANES ? vf_load_n(weight->bias + column, n) : vf_load(weight->bias + column);
}

/* What the adapter of a row of the output, if it has one, does to a weight. */
LN_INLINE const ln_adapter_target *adapter_of(const ln_op_linear *p, const ln_weight *weight,
                                              size_t row) {
    return ln_adapter_of(p->adapters, weight, ln_linear_token(p, row));
}

/* The first n of the 16 columns from `column` on of one row of the output. */
static void finish(const linear_job *job, size_t row, size_t column, size_t n, vf u, vf g) {
    const ln_op_linear *p = job->p;
    size_t n_out = p->weight->n_rows, out_row = job->out_rows[row];
    const ln_weight *gate = job->gate.weight;
    const ln_adapter_target *adapter = adapter_of(p, job->up.weight, out_row);
    u = vf_add(u, load_bias(job->up.weight, column, n));
    u = lora_add(adapter, p->low, out_row * p->low_stride, column, u);
    if (gate != NULL) {
        g = vf_add(g, load_bias(gate, column, n));
        g = lora_add(adapter_of(p, gate, out_row), p->gate_low, out_row * p->low_stride, column, g);
    }
    vf y = gate != NULL ? vf_gate(p->activation, g, u) : vf_activate(p->activation, u);
    if (adapter != NULL && adapter->multiply_after != NULL)
        y = vf_mul(y, vf_load(adapter->multiply_after + column));
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

/* Rows of sums of TILE_PANELS panels in an operand's y. */
LN_INLINE size_t sum_rows(const linear_job *job) {
    return job->small_m ? SMALL_M_ROWS : round_up(job->n, GROUP_ROWS);
}

/* Where the sums of panel number `i` of those taken at once begin in an operand's y. */
LN_INLINE size_t sums_at(const linear_job *job, size_t i) {
    return i / TILE_PANELS * sum_rows(job) * UNIT;
}

/* Lines of a row that the n columns from `column` on of the output will need, into the second-level
 * cache: rows are too far apart for the processor to fetch them by itself. */
LN_INLINE void fetch_output(const linear_job *job, size_t row, size_t column, size_t n) {
    const ln_op_linear *p = job->p;
    size_t n_out = p->weight->n_rows, out_row = job->out_rows[row];
    const float *out = p->out + out_row * (p->out_stride > 0 ? p->out_stride : n_out) + column;
    const float *residual = p->residual != NULL ? p->residual + out_row * n_out + column : out;
    for (size_t i = 0; i < n; i += LANES) {
        __builtin_prefetch(out + i, 1, 2);
        if (residual != out)
            __builtin_prefetch(residual + i, 0, 2);
    }
}

/* Sums of rows of x, one row after another [UNIT]; `gate` is NULL where there is none. */
typedef struct unit_sums {
    const float *up, *gate;
} unit_sums;

LN_INLINE unit_sums sums_from(const linear_job *job, size_t at) {
    return (unit_sums){job->up.y + at, job->gate.weight != NULL ? job->gate.y + at : NULL};
}

/* What finish does to rows [first, first + n) of a whole unit, where neither adapters nor a
 * soft-cap count. */
LN_INLINE void finish_rows(const linear_job *job, ln_activation activation, bool has_gate,
                           size_t first, size_t n, size_t column, unit_sums sums) {
    const ln_op_linear *p = job->p;
    size_t n_out = p->weight->n_rows, out_stride = p->out_stride > 0 ? p->out_stride : n_out;
    const vf scale = vf_set(p->scale);
    vf bias[TILE_PANELS], gate_bias[TILE_PANELS];
    for (size_t i = 0; i < TILE_PANELS; i++) {
        bias[i] = load_bias(job->up.weight, column + i * LANES, LANES);
        gate_bias[i] = has_gate ? load_bias(job->gate.weight, column + i * LANES, LANES) : bias[i];
    }
    for (size_t row = first; row < first + n; row++) {
        size_t out_row = job->out_rows[row], at = (row - first) * UNIT;
        float *out = p->out + out_row * out_stride + column;
        if (!job->streams && row + BLOCK_ROWS < job->n)
            fetch_output(job, row + BLOCK_ROWS, column, UNIT);
        for (size_t i = 0; i < TILE_PANELS; i++) {
            vf y = vf_add(vf_load(sums.up + at + i * LANES), bias[i]);
            if (has_gate)
                y = vf_gate(activation, vf_add(vf_load(sums.gate + at + i * LANES), gate_bias[i]),
                            y);
            else
                y = vf_activate(activation, y);
            y = vf_mul(y, scale);
            if (p->residual != NULL)
                y = vf_add(vf_load(p->residual + out_row * n_out + column + i * LANES), y);
            if (job->streams)
                vf_stream(out + i * LANES, y);
            else
                vf_store(out + i * LANES, y);
        }
    }
}

/* The output of rows [first, first + n), whose sums are at hand, for n_columns columns of one
 * unit. */
static void finish_block(const linear_job *job, size_t first, size_t n, size_t column,
                         size_t n_columns, unit_sums sums) {
    const ln_op_linear *p = job->p;
    bool is_plain = n_columns == UNIT && p->adapters == NULL && p->softcap <= 0.0f;
    if (is_plain && sums.gate == NULL && p->activation == LN_ACT_NONE) {
        finish_rows(job, LN_ACT_NONE, false, first, n, column, sums);
    } else if (is_plain && sums.gate == NULL) {
        finish_rows(job, p->activation, false, first, n, column, sums);
    } else if (is_plain && p->activation == LN_ACT_SILU) {
        finish_rows(job, LN_ACT_SILU, true, first, n, column, sums);
    } else {
        for (size_t i = 0; i < n; i++)
            for (size_t at = 0; at < n_columns; at += LANES)
                finish(job, first + i, column + at, n_columns - at < LANES ? n_columns - at : LANES,
                       vf_load(sums.up + i * UNIT + at),
                       sums.gate != NULL ? vf_load(sums.gate + i * UNIT + at) : vf_set(0.0f));
    }
}

/* Columns of the output that n_panels panels from `panel` on are. */
LN_INLINE size_t columns_of(const linear_job *job, size_t panel, size_t n_panels) {
    size_t left = job->up.weight->n_rows - panel * LANES;
    return left < n_panels * LANES ? left : n_panels * LANES;
}

/* Before sums are at hand, the lines that those of the first rows will be written to. */
LN_INLINE void fetch_first_rows(const linear_job *job, size_t column, size_t n_columns) {
    if (job->n <= SMALL_M_ROWS || job->streams)
        return;
    for (size_t i = 0; i < job->n && i < BLOCK_ROWS; i++)
        fetch_output(job, i, column, n_columns);
}

/* The output of the panels from `panel` on, up to a unit of those in [begin, end). */
static void finish_unit(const linear_job *job, size_t begin, size_t panel, size_t end) {
    size_t n_panels = end - panel < TILE_PANELS ? end - panel : TILE_PANELS;
    finish_block(job, 0, job->n, panel * LANES, columns_of(job, panel, n_panels),
                 sums_from(job, sums_at(job, panel - begin)));
}

/* Whether rows meet a unit block after block: weights need not be unpacked for each, and there is
 * no gate whose sums must wait for others. */
static bool goes_in_blocks(const linear_job *job) {
    const ln_weight *w = job->up.weight;
    bool as_it_lies = w->layout == LN_PACK_NONE && w->dtype == LN_DTYPE_F32;
    return job->n > SMALL_M_ROWS && job->gate.weight == NULL &&
           (as_it_lies || w->layout == LN_PACK_BF16);
}

/* Many rows against a unit of panels, and their output, block after block. */
static void multiply_blocks(const linear_job *job, size_t panel, size_t n_panels) {
    const operand *up = &job->up;
    const ln_weight *w = up->weight;
    const uint8_t *panels = NULL;
    size_t column = panel * LANES, left = columns_of(job, panel, n_panels);
    if (w->layout == LN_PACK_BF16)
        panels = ln_lazy_panels(w, panel, n_panels, job->worker->panels);
    fetch_first_rows(job, column, left);
    for (size_t first = 0; first < job->n; first += BLOCK_ROWS) {
        size_t n = job->n - first < BLOCK_ROWS ? job->n - first : BLOCK_ROWS;
        if (w->layout == LN_PACK_BF16) {
            bf16_rows rows = bf16_rows_from(up->bf16, first);
            bf16_multiply(n_panels, panels, LANES * w->row_bytes, &rows, (bf16_range){0, w->n_cols},
                          n, first == 0 ? far_ahead(job) : 0, up->y);
        } else {
            for (size_t i = 0; i < n_panels; i++)
                multiply_plain(job, up, panel + i, first, n, up->y + i * LANES);
        }
        finish_block(job, first, n, column, left, sums_from(job, 0));
    }
}

/* Panels that a worker takes at once: so many that streams are long, yet all workers end together
 * behind the last matrix, and there is room for their sums. */
static size_t panels_to_take(const linear_job *job, size_t n_panels) {
    if (goes_in_blocks(job))
        return TILE_PANELS;
    size_t n_takes_each = job->n > SMALL_M_ROWS ? BUSY_TAKES : WORKER_TAKES;
    size_t fair = n_panels * job->n_used / (job->worker->count * n_takes_each);
    size_t most = TAKE_BYTES / (job->up.weight->row_bytes * LANES + 1),
           room = MAX_CHUNK / sum_rows(job) * TILE_PANELS;
    most = most < room ? most : room;
    fair = fair < most ? fair : most;
    if (fair <= TILE_PANELS)
        return TILE_PANELS;
    size_t n_takes = (n_panels + fair - 1) / fair; /* of one matrix, about equal */
    return round_up((n_panels + n_takes - 1) / n_takes, TILE_PANELS);
}

/* The chunk's rows against the panels [begin, end) of one matrix. */
static void multiply_run(const linear_job *job, const operand *o, size_t begin, size_t end) {
    for (size_t panel = begin; panel < end; panel += TILE_PANELS) {
        size_t n = end - panel < TILE_PANELS ? end - panel : TILE_PANELS;
        operand at = *o;
        at.y += sums_at(job, panel - begin);
        multiply_unit(job, &at, panel, n);
    }
}

/* Panels taken at once of one matrix before those of its gate: memory is read in long streams. */
static void multiply_panels(const linear_job *job) {
    size_t n_panels = (job->up.weight->n_rows + LANES - 1) / LANES;
    size_t step = panels_to_take(job, n_panels), item;
    bool in_blocks = goes_in_blocks(job);
    while (ln_cpu_take(job->worker, (n_panels + step - 1) / step, &item)) {
        size_t begin = item * step, end = begin + step < n_panels ? begin + step : n_panels;
        if (in_blocks) {
            multiply_blocks(job, begin, end - begin);
            continue;
        }
        multiply_run(job, &job->up, begin, end);
        if (job->gate.weight != NULL)
            multiply_run(job, &job->gate, begin, end);
        fetch_first_rows(job, begin * LANES, columns_of(job, begin, end - begin));
        for (size_t panel = begin; panel < end; panel += TILE_PANELS)
            finish_unit(job, begin, panel, end);
    }
}

/* The chunk's rows [begin, end) as weight and gate want them, at `memory`. */
static void prepare_operands(linear_job *job, size_t begin, size_t end, char *memory) {
    operand *up = &job->up, *gate = &job->gate;
    size_t used = prepare_rows(job, up, begin, end, memory);
    if (gate->weight != NULL && gate->weight->layout == up->weight->layout) {
        gate->int8 = up->int8;
        gate->super = up->super;
        gate->bf16 = up->bf16;
    } else if (gate->weight != NULL) {
        prepare_rows(job, gate, begin, end, memory + used);
    }
}

/* The chunk's rows, copied from those that are ready. */
static void copy_rows(linear_job *job, operand *o, void *memory) {
    ln_pack pack = (ln_pack)o->weight->layout;
    place_int8(o, memory);
    for (size_t i = 0; i < job->n; i++) {
        if (is_super(pack))
            super_copy(&job->ready.super, job->ready_rows[i], super_kind_of(pack), &o->super, i,
                       job->small_m);
        else
            int8_copy(&job->ready.int8, job->ready_rows[i], &o->int8, i, job->small_m);
    }
}

/* Whether the rows that the operation before this one prepared serve this one, too. */
static bool rows_are_ready(const linear_job *job) {
    const ln_op *before = job->worker->joins;
    return before != NULL && job->n == job->p->n_rows && before->linear.gate == NULL &&
           job->gate.weight == NULL && before->linear.precise == job->p->precise &&
           before->linear.weight->layout == job->up.weight->layout;
}

/* The chunk's rows in the worker's own memory. Experts that follow one another may multiply the
 * same row, which is there but once. */
static void prepare_own(linear_job *job, bool ready) {
    const ln_weight *up = job->up.weight, *gate = job->gate.weight;
    bool one_form = gate == NULL || gate->layout == up->layout;
    bool is_there = job->n == 1 && one_form && job->own == job->x[0] && job->own_for == up->layout;
    prepare_operands(job, 0, ready || is_there ? 0 : job->n, (char *)job->worker->scratch);
    job->own = job->n == 1 && one_form ? job->x[0] : NULL;
    job->own_for = up->layout;
}

static void multiply_chunk(linear_job *job) {
    const ln_cpu_worker *worker = job->worker;
    const size_t sums = MAX_CHUNK * UNIT;
    size_t own_rows = own_bytes(job->up.weight->n_cols);
    job->small_m = job->n <= SMALL_M_ROWS && is_int8(job->up.weight) &&
                   (job->gate.weight == NULL || is_int8(job->gate.weight));
    job->up.y = worker->scratch + own_rows / sizeof(float);
    job->gate.y = job->up.y + sums;
    job->sums = job->gate.y + sums;
    job->unpacked = (uint8_t *)(job->sums + sums);
    job->w_rows = (float *)(void *)(job->unpacked + TILE_PANELS * UNPACKED_PANEL);
    bool ready = rows_are_ready(job);
    if (job->ready.weight != NULL) {
        copy_rows(job, &job->up, worker->scratch);
        job->gate.int8 = job->up.int8;
        job->gate.super = job->up.super;
    } else if (job->n <=
               (job->p->groups.n_groups > 0 ? (size_t)GROUP_ROWS : (size_t)SMALL_M_ROWS)) {
        prepare_own(job, ready);
    } else {
        size_t begin, end;
        ln_cpu_share(worker, ready ? 0 : (job->n + GROUP_ROWS - 1) / GROUP_ROWS, &begin, &end);
        if (!ready && job->shares_rows)
            ln_cpu_barrier(worker);
        end = end * GROUP_ROWS < job->n ? end * GROUP_ROWS : job->n;
        prepare_operands(job, begin * GROUP_ROWS, end, worker->shared);
        if (!ready)
            ln_cpu_barrier(worker);
        job->shares_rows = true;
    }
    bf16_begin();
    multiply_panels(job);
    bf16_end();
}

/* Where `ready` has the row of x that row number i of the groups' order multiplies. Rows of x that
 * several experts share lie there as in x; others lie in the groups' order. */
LN_INLINE size_t ready_row(const ln_op_linear *p, size_t i) {
    return p->rows_per_x > 1 ? (size_t)p->groups.order[i] / p->rows_per_x : i;
}

/* Whether all groups want x in one form, of which all rows fit the shared memory. */
static bool shares_form(const ln_op_linear *p, size_t n) {
    const ln_row_groups *groups = &p->groups;
    if (groups->order == NULL || n <= GROUP_ROWS || !is_int8(p->weight) ||
        round_up(n, GROUP_ROWS) * row_bytes_of(p->weight) > CHUNK_BYTES)
        return false;
    for (size_t i = 0; i < groups->n_groups; i++)
        if (p->weight[i].layout != p->weight->layout ||
            (p->gate != NULL && p->gate[i].layout != p->weight->layout))
            return false;
    return true;
}

/* Rows of x for all groups: a token's row goes to many experts, and becomes int8 but once. */
static void prepare_for_groups(linear_job *job) {
    const ln_op_linear *p = job->p;
    if (p->groups.order == NULL)
        return;
    size_t n_grouped = (size_t)p->groups.starts[p->groups.n_groups], begin, end;
    size_t n = p->rows_per_x > 1 ? p->n_rows / p->rows_per_x : n_grouped;
    if (!shares_form(p, n))
        return;
    size_t x_stride = p->x_stride > 0 ? p->x_stride : p->weight->n_cols;
    job->ready.weight = p->weight;
    place_int8(&job->ready, job->worker->shared);
    ln_cpu_share(job->worker, (n + GROUP_ROWS - 1) / GROUP_ROWS, &begin, &end);
    for (size_t group = begin; group < end; group++) {
        const float *x[GROUP_ROWS];
        size_t first = group * GROUP_ROWS, count = n - first < GROUP_ROWS ? n - first : GROUP_ROWS;
        for (size_t i = 0; i < count; i++)
            x[i] = p->x +
                   (p->rows_per_x > 1 ? first + i : (size_t)p->groups.order[first + i]) * x_stride;
        prepare_group(&job->ready, group, count, x);
    }
    ln_cpu_barrier(job->worker);
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
    size_t bytes = job->ready.weight != NULL ? own_bytes(job->up.weight->n_cols) : CHUNK_BYTES;
    size_t most = chunk_rows(job, end > i ? (end - i + step - 1) / step : 1, bytes);
    while (i < end) {
        for (job->n = 0; job->n < most && i < end; job->n++, i += step) {
            size_t row = sorted ? (size_t)groups->order[i] : i;
            job->out_rows[job->n] = row;
            job->ready_rows[job->n] = sorted ? ready_row(p, i) : 0;
            job->x[job->n] = p->x + (p->rows_per_x > 1 ? row / p->rows_per_x : row) * x_stride;
        }
        multiply_chunk(job);
    }
}

static bool streams_output(const ln_op_linear *p) {
    size_t n_out = p->weight->n_rows, stride = p->out_stride > 0 ? p->out_stride : n_out;
    return p->residual == NULL && p->n_rows * n_out * sizeof(float) >= STREAM_BYTES &&
           stride % LANES == 0 && (uintptr_t)p->out % (LANES * sizeof(float)) == 0;
}

static size_t count_used(const ln_row_groups *groups) {
    if (groups->order == NULL)
        return groups->n_groups > 0 ? groups->n_groups : 1;
    size_t n_used = 0;
    for (size_t group = 0; group < groups->n_groups; group++)
        n_used += groups->starts[group] < groups->starts[group + 1];
    return n_used;
}

static void linear(const ln_op *op, const ln_cpu_worker *worker) {
    linear_job job = {.p = &op->linear, .worker = worker, .shares_rows = worker->joins != NULL};
    size_t n_groups = job.p->groups.n_groups > 0 ? job.p->groups.n_groups : 1;
    job.n_used = count_used(&job.p->groups);
    job.streams = streams_output(job.p);
    prepare_for_groups(&job);
    for (size_t group = 0; group < n_groups; group++)
        multiply_group(&job, group);
    if (job.streams)
        vf_stream_end();
}

/* Row `row` of a weight as float32: where it lies, or in scratch [n_cols]. */
static const float *read_row(const ln_weight *weight, size_t row, const ln_cpu_worker *worker) {
    float *scratch = worker->scratch;
    if (weight->layout == LN_PACK_NONE)
        return rows_load(weight, row, scratch);
    const uint8_t *panel = ln_lazy_panels(weight, row / LANES, 1, worker->panels);
    ln_pack_read_row((ln_pack)weight->layout, panel, row % LANES, weight->n_cols, scratch);
    return scratch;
}

static void embed(const ln_op *op, const ln_cpu_worker *worker) {
    ln_scalar_embed_by(op, worker, read_row);
}

#endif
