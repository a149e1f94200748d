/* A chain's linears: the sums of tile_linear.cu in the same order, from weights that come through
 * rings in shared memory. */
#ifndef LN_BACKEND_CUDA_CHAIN_LINEAR_CUH
#define LN_BACKEND_CUDA_CHAIN_LINEAR_CUH

#include "backend/cuda/chain.cuh"
#include "backend/cuda/ring.cuh"
#include "backend/cuda/tile_lane.cuh"

enum { LN_CHAIN_SHARE = LN_HELD_THREADS / LN_CHAIN_THREADS };

/* ---- weights --------------------------------------------------------------------------------- */

/* A warp's ring, and which of its chain's tiles comes next. */
typedef struct ln_chain_ring {
    uint8_t *slots;
    uint64_t *barriers;
    unsigned slot, parity; /* to be met next */
    /* of lane 0 */
    unsigned linear, tile_row, tile, end; /* end: of the slice's tiles */
    bool is_gate;
    const uint8_t *up, *gate; /* the row's first tile */
} ln_chain_ring;

/* A warp's slice of the columns. */
static __device__ __forceinline__ void ln_chain_slice(unsigned n_tiles, unsigned *begin,
                                                      unsigned *end) {
    unsigned warp = threadIdx.x / LN_WARP % LN_TILE_SLICES;
    unsigned per_slice = (n_tiles + LN_TILE_SLICES - 1) / LN_TILE_SLICES;
    *begin = min(warp * per_slice, n_tiles);
    *end = min((warp + 1) * per_slice, n_tiles);
}

static __device__ __forceinline__ const ln_tile_part &ln_chain_part(const ln_chain_linear &l,
                                                                    unsigned *tile_row) {
    unsigned part = 0;
    for (; part + 1 < l.n_parts; part++) {
        unsigned n = ((unsigned)l.parts[part].epilogue.n_out + LN_TILE_ROWS - 1) / LN_TILE_ROWS;
        if (*tile_row < n)
            break;
        *tile_row -= n;
    }
    return l.parts[part];
}

/* The first row of tiles that a warp's team takes; every ln_chain_step()th one is its own. */
static __device__ __forceinline__ unsigned ln_chain_first(void) {
    return blockIdx.x + threadIdx.x / LN_CHAIN_TEAM * gridDim.x;
}

static __device__ __forceinline__ unsigned ln_chain_step(void) {
    return gridDim.x * LN_CHAIN_TEAMS;
}

/* Finds the row of tiles that comes next: of this linear or one behind it. */
template <int KIND>
static __device__ __forceinline__ void
ln_chain_next_row(const ln_chain_args &p, const ln_chain_weights *weights, ln_chain_ring *r) {
    for (; r->linear < p.n_linears; r->linear++, r->tile_row = ln_chain_first()) {
        const ln_chain_weights &w = weights[r->linear];
        ln_chain_slice(w.n_tiles, &r->tile, &r->end);
        if (r->tile == r->end || r->tile_row >= w.ends[LN_TILE_MAX_PARTS - 1])
            continue;
        unsigned part = (r->tile_row >= w.ends[0]) + (r->tile_row >= w.ends[1]);
        unsigned row = r->tile_row - (part > 0 ? w.ends[part - 1] : 0);
        size_t at = (size_t)row * w.n_tiles * ln_tile_bytes(KIND);
        r->up = w.parts[part] + at;
        r->gate = w.gate != NULL ? w.gate + at : NULL;
        return;
    }
}

/* Queues the copy of the next tile to a slot; by lane 0. */
template <int KIND>
static __device__ __forceinline__ void ln_chain_fetch(const ln_chain_args &p,
                                                      const ln_chain_weights *weights,
                                                      ln_chain_ring *r, unsigned slot) {
    if (r->linear >= p.n_linears)
        return;
    const uint8_t *row = r->is_gate ? r->gate : r->up;
    ln_ring_fetch(r->slots + slot * ln_tile_bytes(KIND),
                  row + (size_t)r->tile * ln_tile_bytes(KIND), ln_tile_bytes(KIND),
                  &r->barriers[slot]);
    if (r->gate != NULL && !r->is_gate) {
        r->is_gate = true;
        return;
    }
    r->is_gate = false;
    if (++r->tile < r->end)
        return;
    r->tile_row += ln_chain_step();
    ln_chain_next_row<KIND>(p, weights, r);
}

template <int KIND>
static __device__ __forceinline__ void ln_chain_begin(const ln_chain_args &p,
                                                      const ln_chain_weights *weights,
                                                      uint8_t *memory, ln_chain_ring *r) {
    unsigned warp = threadIdx.x / LN_WARP;
    *r = {};
    r->slots = memory + (size_t)warp * p.n_slots * ln_tile_bytes(KIND);
    r->barriers = (uint64_t *)(memory + p.barriers_at) + warp * p.n_slots;
    r->tile_row = ln_chain_first();
    if (threadIdx.x % LN_WARP == 0) {
        ln_chain_next_row<KIND>(p, weights, r);
        for (unsigned slot = 0; slot < p.n_slots; slot++)
            ln_ring_init(&r->barriers[slot]);
        for (unsigned slot = 0; slot < p.n_slots; slot++)
            ln_chain_fetch<KIND>(p, weights, r, slot);
    }
    __syncwarp();
}

/* ---- x --------------------------------------------------------------------------------------- */

/* Rows of float32 to the form that tiles meet, filled up with zeros to n_cols columns. */
static __device__ __forceinline__ void ln_chain_convert(const ln_chain_linear &l, unsigned n_rows,
                                                        const ln_tile_x_parts &to,
                                                        unsigned n_cols) {
    enum { AT_ONCE = 8 };
    for (unsigned row = 0; row < n_rows; row++) {
        const float *x = l.x + (size_t)row * l.stride;
        for (unsigned first = 0; first < n_cols; first += AT_ONCE * 4 * LN_CHAIN_THREADS) {
            float4 held[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                unsigned col = first + (i * LN_CHAIN_THREADS + threadIdx.x) * 4;
                held[i] = col < l.n_cols ? *(const float4 *)(x + col)
                                         : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                unsigned col = first + (i * LN_CHAIN_THREADS + threadIdx.x) * 4;
                const float v[4] = {held[i].x, held[i].y, held[i].z, held[i].w};
                if (col < n_cols)
                    ln_tile_x_put(to, row, col, v);
            }
        }
    }
}

/* The same of their norms, of which every block writes a share to l.normed. */
template <int HELD>
static __device__ __forceinline__ void ln_chain_normalize(const ln_chain_linear &l, unsigned n_rows,
                                                          const ln_tile_x_parts &to,
                                                          float *shared) {
    size_t dim = l.norm.dim;
    ln_held_row<HELD, LN_CHAIN_SHARE> weight = {}, bias = {}, x;
    if (l.norm.weight != NULL)
        ln_hold_row(l.norm.weight, dim, weight);
    if (l.norm.bias != NULL)
        ln_hold_row(l.norm.bias, dim, bias);
    for (unsigned row = 0; row < n_rows; row++) {
        size_t from = l.rows != NULL ? (size_t)l.rows[row] : row;
        float mean, inverse;
        ln_hold_row(l.x + from * dim, dim, x);
        ln_held_statistics(l.norm, x, shared, &mean, &inverse);
#pragma unroll
        for (int s = 0; s < LN_CHAIN_SHARE; s++)
#pragma unroll
            for (int h = 0; h < HELD; h++) {
                unsigned i = ln_held_index<LN_CHAIN_SHARE>(s, h);
                if (i >= (unsigned)dim / 4)
                    continue;
                float y[4];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    y[j] =
                        ln_norm_weigh(l.norm, ln_part(x.at[s][h], j), ln_part(weight.at[s][h], j),
                                      ln_part(bias.at[s][h], j), mean, inverse);
                if (i % gridDim.x == blockIdx.x)
                    ((float4 *)(l.normed + row * dim))[i] = make_float4(y[0], y[1], y[2], y[3]);
                ln_tile_x_put(to, row, 4 * (size_t)i, y);
            }
    }
}

/* Has the norm's weights brought near; by one warp. */
static __device__ __forceinline__ void ln_chain_expect_norm(const ln_chain_linear &l) {
    enum { LINE = 128 / sizeof(float) };
    for (unsigned i = threadIdx.x % LN_WARP * LINE;
         l.normalizes && l.norm.weight != NULL && i < (unsigned)l.norm.dim; i += LN_WARP * LINE)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(l.norm.weight + i));
}

/* Makes x at `work`. shared [LN_MAX_WARPS] */
template <int KIND>
static __device__ __forceinline__ ln_tile_x_parts ln_chain_x(const ln_chain_linear &l,
                                                             unsigned n_rows, uint8_t *work,
                                                             float *shared) {
    ln_tile_x_parts x = {};
    x.cols = l.x_cols;
    x.is_int8 = KIND != LN_TILE_BF16;
    x.bf16 = (__nv_bfloat16 *)work;
    x.rest = l.precise ? x.bf16 + n_rows * x.cols : NULL;
    x.int8 = (int8_t *)work;
    x.scales = (float *)(work + n_rows * x.cols);
    unsigned held =
        l.normalizes ? ((unsigned)l.norm.dim + 4 * LN_HELD_THREADS - 1) / (4 * LN_HELD_THREADS) : 0;
    if (held == 1)
        ln_chain_normalize<1>(l, n_rows, x, shared);
    else if (held == 2)
        ln_chain_normalize<2>(l, n_rows, x, shared);
    else if (held > 2)
        ln_chain_normalize<LN_MAX_HELD>(l, n_rows, x, shared);
    else
        ln_chain_convert(l, n_rows, x, l.n_tiles * (unsigned)ln_tile_cols(KIND));
    __syncthreads();
    return x;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Adds the next tile of the ring, times x, to the sums of rows of tiles g and g + 8 and rows of x
 * 2 t and 2 t + 1, and has its slot filled again. */
template <int KIND>
static __device__ __forceinline__ void
ln_chain_add(const ln_chain_args &p, const ln_chain_weights *weights, ln_chain_ring *r,
             const ln_tile_x_parts &x, const unsigned rows[3], unsigned first_unit, bool precise,
             float sum[4]) {
    constexpr int UNITS = (int)ln_tile_cols(KIND) / ln_lane_tile<KIND>::UNIT;
    unsigned lane = threadIdx.x % LN_WARP;
    const uint8_t *tile = r->slots + r->slot * ln_tile_bytes(KIND);
    ln_ring_wait(&r->barriers[r->slot], r->parity);
#pragma unroll
    for (int unit = 0; unit < UNITS; unit++) {
        ln_lane_tile<KIND> part;
        ln_take_unit<KIND>(tile, unit, lane, part);
        if (KIND == LN_TILE_BF16 && precise) {
            ln_lane_x<KIND, true> share;
            ln_load_x<KIND, true>(x, rows[0], rows[1], rows[2], first_unit + unit, lane, share);
            ln_add_unit<KIND, true>(part, share, true, sum);
        } else {
            ln_lane_x<KIND, false> share;
            ln_load_x<KIND, false>(x, rows[0], rows[1], rows[2], first_unit + unit, lane, share);
            ln_add_unit<KIND, false>(part, share, false, sum);
        }
    }
    __syncwarp();
    if (lane == 0)
        ln_chain_fetch<KIND>(p, weights, r, r->slot);
    bool wraps = r->slot + 1 == p.n_slots;
    r->parity ^= wraps;
    r->slot = wraps ? 0 : r->slot + 1;
}

/* Puts a slice's sums where the others meet them. */
static __device__ __forceinline__ void ln_chain_leave(unsigned n_rows, float *sums,
                                                      const float sum[4]) {
    unsigned lane = threadIdx.x % LN_WARP, width = n_rows | 1;
    unsigned slice = threadIdx.x / LN_WARP % LN_TILE_SLICES;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        unsigned column = lane / 4 + i / 2 * 8, row = lane % 4 * 2 + i % 2;
        if (row < n_rows)
            sums[(slice * LN_TILE_ROWS + column) * width + row] = sum[i];
    }
}

static __device__ __forceinline__ float ln_chain_merge(const float *sums, unsigned column,
                                                       unsigned row, unsigned width) {
    float total = sums[column * width + row];
#pragma unroll
    for (int s = 1; s < LN_TILE_SLICES; s++)
        total += sums[(s * LN_TILE_ROWS + column) * width + row];
    return total;
}

/* What is added to a sum, loaded ahead of it. */
typedef struct ln_chain_end {
    float bias, gate_bias, residual;
} ln_chain_end;

static __device__ __forceinline__ void ln_chain_load_end(const ln_epilogue &e, size_t row,
                                                         size_t column, ln_chain_end *end) {
    end->bias = e.bias != NULL ? e.bias[column] : 0.0f;
    end->gate_bias = e.gate_bias != NULL ? e.gate_bias[column] : 0.0f;
    end->residual = e.residual != NULL ? e.residual[row * e.n_out + column] : 0.0f;
}

/* One stage: rows of tiles in turns with the other teams. *n counts them. */
template <int KIND>
static __device__ __forceinline__ void
ln_chain_multiply(const ln_chain_args &p, const ln_chain_weights *weights, const ln_chain_linear &l,
                  uint8_t *memory, float *shared, ln_chain_ring *r, unsigned *n) {
    constexpr unsigned PER_TILE = ln_tile_cols(KIND) / ln_lane_tile<KIND>::UNIT;
    unsigned lane = threadIdx.x % LN_WARP, warp = threadIdx.x / LN_WARP, begin, end;
    ln_tile_x_parts x = ln_chain_x<KIND>(l, p.n_rows, memory + p.work_at, shared);
    unsigned last = p.n_rows - 1, cols = (unsigned)x.cols;
    const unsigned rows[3] = {min(lane / 4, last) * cols, min(lane % 4 * 2, last) * cols,
                              min(lane % 4 * 2 + 1, last) * cols};
    unsigned width = p.n_rows | 1, per_sum = LN_TILE_SLICES * LN_TILE_ROWS * width;
    ln_chain_slice(l.n_tiles, &begin, &end);
    for (unsigned tile_row = ln_chain_first(); tile_row < l.n_tile_rows;
         tile_row += ln_chain_step(), ++*n) {
        unsigned row_of_part = tile_row;
        const ln_tile_part &part = ln_chain_part(l, &row_of_part);
        /* the warps take turns, so that none falls behind */
        unsigned row = (warp - *n) % LN_TILE_SLICES;
        size_t column = (size_t)row_of_part * LN_TILE_ROWS + lane;
        bool finishes = row < p.n_rows && lane < LN_TILE_ROWS && column < part.epilogue.n_out;
        ln_chain_end end_of_row = {};
        if (finishes)
            ln_chain_load_end(part.epilogue, row, column, &end_of_row);
        float up[4] = {}, gate[4] = {};
        for (unsigned tile = begin; tile < end; tile++) {
            ln_chain_add<KIND>(p, weights, r, x, rows, tile * PER_TILE, part.precise, up);
            if (l.has_gate)
                ln_chain_add<KIND>(p, weights, r, x, rows, tile * PER_TILE, part.precise, gate);
        }
        float *sums = (float *)(memory + p.sums_at) +
                      (*n % 2 + threadIdx.x / LN_CHAIN_TEAM * 2) * 2 * per_sum;
        ln_chain_leave(p.n_rows, sums, up);
        if (l.has_gate)
            ln_chain_leave(p.n_rows, sums + per_sum, gate);
        ln_team_barrier();
        if (finishes)
            part.epilogue.out[row * part.epilogue.out_stride + column] = ln_epilogue_value(
                part.epilogue, ln_chain_merge(sums, lane, row, width),
                l.has_gate ? ln_chain_merge(sums + per_sum, lane, row, width) : 0.0f,
                end_of_row.bias, end_of_row.gate_bias, end_of_row.residual);
    }
}

#endif
