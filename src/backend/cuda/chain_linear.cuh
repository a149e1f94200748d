/* A chain's linears: the sums of tile_linear.cu in the same order, from weights that come through
 * rings in shared memory. */
#ifndef LN_BACKEND_CUDA_CHAIN_LINEAR_CUH
#define LN_BACKEND_CUDA_CHAIN_LINEAR_CUH

#include "backend/cuda/chain_x.cuh"
#include "backend/cuda/ring.cuh"
#include "backend/cuda/tile_lane.cuh"

/* ---- weights --------------------------------------------------------------------------------- */

/* A warp's ring, and which of its chain's tiles comes next. */
typedef struct ln_chain_ring {
    uint8_t *slots;
    uint64_t *barriers;
    unsigned n_slots, slot, parity; /* slot, parity: to be met next */
    /* of lane 0 */
    unsigned linear, round;
    unsigned left; /* tiles of the row; 0: there are no more */
    const uint8_t *next;
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

/* The row of tiles that a warp's team takes in a round: where there is a gate, both teams of a
 * block take the same one, the second team the gate's. */
static __device__ __forceinline__ unsigned ln_chain_row(bool has_gate, unsigned round) {
    unsigned team = threadIdx.x / LN_CHAIN_TEAM;
    return blockIdx.x + (has_gate ? round : LN_CHAIN_TEAMS * round + team) * gridDim.x;
}

/* Finds the row of tiles that comes next: of this linear or one behind it. */
template <int KIND>
static __device__ __forceinline__ void
ln_chain_next_row(const ln_chain_args &p, const ln_chain_weights *weights, ln_chain_ring *r) {
    for (; r->linear < p.n_linears; r->linear++, r->round = 0) {
        const ln_chain_weights &w = weights[r->linear];
        unsigned begin, end, row = ln_chain_row(w.gate != NULL, r->round);
        ln_chain_slice(w.n_tiles, &begin, &end);
        if (begin == end || row >= w.ends[LN_TILE_MAX_PARTS - 1])
            continue;
        unsigned part = (row >= w.ends[0]) + (row >= w.ends[1]);
        row -= part > 0 ? w.ends[part - 1] : 0;
        bool is_gate = w.gate != NULL && threadIdx.x >= LN_CHAIN_TEAM;
        r->next = (is_gate ? w.gate : w.parts[part]) +
                  ((size_t)row * w.n_tiles + begin) * ln_tile_bytes(KIND);
        r->left = end - begin;
        r->round++;
        return;
    }
}

/* Queues the copy of the next tile to a slot; by lane 0. */
template <int KIND>
static __device__ __forceinline__ void ln_chain_fetch(const ln_chain_args &p,
                                                      const ln_chain_weights *weights,
                                                      ln_chain_ring *r, unsigned slot) {
    if (r->left == 0)
        return;
    ln_ring_fetch(r->slots + slot * ln_tile_bytes(KIND), r->next, ln_tile_bytes(KIND),
                  &r->barriers[slot]);
    r->next += ln_tile_bytes(KIND);
    if (--r->left == 0)
        ln_chain_next_row<KIND>(p, weights, r);
}

template <int KIND>
static __device__ __forceinline__ void
ln_chain_begin(const ln_chain_args &p, const ln_chain_memory &where,
               const ln_chain_weights *weights, uint8_t *memory, ln_chain_ring *r) {
    unsigned warp = threadIdx.x / LN_WARP;
    *r = {};
    r->n_slots = where.n_slots;
    r->slots = memory + (size_t)warp * r->n_slots * ln_tile_bytes(KIND);
    r->barriers = (uint64_t *)(memory + where.barriers_at) + warp * r->n_slots;
    if (threadIdx.x % LN_WARP == 0) {
        ln_chain_next_row<KIND>(p, weights, r);
        for (unsigned slot = 0; slot < r->n_slots; slot++)
            ln_ring_init(&r->barriers[slot]);
        for (unsigned slot = 0; slot < r->n_slots; slot++)
            ln_chain_fetch<KIND>(p, weights, r, slot);
    }
    __syncwarp();
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
    bool wraps = r->slot + 1 == r->n_slots;
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

/* Waits for the slices of both teams' row and its gate, or of the own team's row. */
static __device__ __forceinline__ void ln_chain_meet(bool has_gate) {
    if (has_gate)
        __syncthreads();
    else
        ln_team_barrier();
}

/* One stage: rows of tiles in turns with the other teams. */
template <int KIND>
static __device__ __forceinline__ void
ln_chain_multiply(const ln_chain_args &p, const ln_chain_memory &where,
                  const ln_chain_weights *weights, const ln_chain_linear &l, uint8_t *memory,
                  float *shared, ln_chain_ring *r) {
    constexpr unsigned PER_TILE = ln_tile_cols(KIND) / ln_lane_tile<KIND>::UNIT;
    unsigned lane = threadIdx.x % LN_WARP, team = threadIdx.x / LN_CHAIN_TEAM, begin, end;
    ln_tile_x_parts x = ln_chain_x<KIND>(l, p.n_rows, memory + where.work_at, shared);
    unsigned last = p.n_rows - 1, cols = (unsigned)x.cols;
    const unsigned rows[3] = {min(lane / 4, last) * cols, min(lane % 4 * 2, last) * cols,
                              min(lane % 4 * 2 + 1, last) * cols};
    const unsigned width = p.n_rows | 1, per_sum = LN_TILE_SLICES * LN_TILE_ROWS * width;
    const unsigned n_tile_rows = l.n_tile_rows;
    const bool has_gate = l.has_gate;
    float *all_sums = (float *)(memory + where.sums_at);
    ln_chain_slice(l.n_tiles, &begin, &end);
    for (unsigned round = 0;; round++) {
        unsigned tile_row = ln_chain_row(has_gate, round);
        if (tile_row >= n_tile_rows)
            break;
        const ln_tile_part &part = ln_chain_part(l, &tile_row);
        /* the warps take turns, so that none falls behind */
        unsigned turns = has_gate ? LN_CHAIN_WARPS : LN_TILE_SLICES;
        unsigned row = (threadIdx.x / LN_WARP - round) % turns;
        size_t column = (size_t)tile_row * LN_TILE_ROWS + lane;
        bool finishes = row < p.n_rows && lane < LN_TILE_ROWS && column < part.epilogue.n_out;
        const bool precise = part.precise;
        ln_chain_end end_of_row = {};
        if (finishes)
            ln_chain_load_end(part.epilogue, row, column, &end_of_row);
        float sum[4] = {};
        for (unsigned tile = begin; tile < end; tile++)
            ln_chain_add<KIND>(p, weights, r, x, rows, tile * PER_TILE, precise, sum);
        /* up and gate of a round, or rounds of a team */
        float *sums = all_sums + (has_gate ? round % 2 * 2 : team * 2 + round % 2) * per_sum;
        ln_chain_leave(p.n_rows, sums + (has_gate ? team * per_sum : 0), sum);
        ln_chain_meet(has_gate);
        if (finishes)
            part.epilogue.out[row * part.epilogue.out_stride + column] = ln_epilogue_value(
                part.epilogue, ln_chain_merge(sums, lane, row, width),
                has_gate ? ln_chain_merge(sums + per_sum, lane, row, width) : 0.0f, end_of_row.bias,
                end_of_row.gate_bias, end_of_row.residual);
    }
}

#endif
