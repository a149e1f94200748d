/* A chain's linears: the sums of gemm/select.cu in the same order, from weights that come through
 * rings in shared memory. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_LINEAR_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_LINEAR_CUH

#include "backend/cuda/fused/decode_activations.cuh"
#include "backend/cuda/gemm/mma_fragments.cuh"

/* ---- products -------------------------------------------------------------------------------- */

/* Adds the next tile of the ring, times x, to the sums of rows of tiles g and g + 8 and rows of x
 * 2 t and 2 t + 1; is_last: of the stage. */
template <int KIND>
static __device__ __forceinline__ void
ln_chain_add(const ln_chain_args &p, const ln_chain_weights *weights, ln_chain_ring *r,
             const ln_tile_x_parts &x, const unsigned rows[3], unsigned first_unit, bool precise,
             bool is_last, float sum[4]) {
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
    ln_chain_leave_slot<KIND>(p, weights, is_last, r);
}

/* The same of a tile in shared memory that becomes f16. */
template <int KIND>
static __device__ __forceinline__ void ln_chain_add_widened(const uint8_t *at,
                                                            const ln_tile_x_parts &x, unsigned row,
                                                            unsigned unit, float sum[4]) {
    const unsigned lane = threadIdx.x % LN_WARP;
    ln_lane_tile<KIND> tile;
    ln_lane_x<KIND, false> share;
    ln_take_unit<KIND>(at, 0, lane, tile);
    ln_load_x<KIND, false>(x, row, 0, 0, unit, lane, share);
    ln_add_unit<KIND, false>(tile, share, false, sum);
}

/* And of n of them, mostly as many as a copy brings. */
template <int KIND>
static __device__ __forceinline__ void ln_chain_add_slot(const uint8_t *tiles, unsigned n,
                                                         const ln_tile_x_parts &x, unsigned row,
                                                         unsigned unit, float sum[4]) {
    constexpr unsigned BYTES = ln_tile_bytes(KIND), N = ln_chain_size_of(KIND).n_copied;
    if (n == N)
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            ln_chain_add_widened<KIND>(tiles + i * BYTES, x, row, unit + i, sum);
    else
#pragma unroll 1
        for (unsigned i = 0; i < n; i++)
            ln_chain_add_widened<KIND>(tiles + i * BYTES, x, row, unit + i, sum);
}

/* And of the next n of the ring. */
template <int KIND>
static __device__ __forceinline__ void
ln_chain_add_narrow(const ln_chain_args &p, const ln_chain_weights *weights, ln_chain_ring *r,
                    int kind, unsigned n, const ln_tile_x_parts &x, unsigned row,
                    unsigned first_unit, bool is_last, float sum[4]) {
    const uint8_t *tiles = r->slots + r->slot * ln_chain_slot_bytes(KIND);
    ln_ring_wait(&r->barriers[r->slot], r->parity);
    switch (kind) {
    case LN_TILE_Q4: ln_chain_add_slot<LN_TILE_Q4>(tiles, n, x, row, first_unit, sum); break;
    case LN_TILE_Q5: ln_chain_add_slot<LN_TILE_Q5>(tiles, n, x, row, first_unit, sum); break;
    case LN_TILE_Q6: ln_chain_add_slot<LN_TILE_Q6>(tiles, n, x, row, first_unit, sum); break;
    case LN_TILE_MXFP4: ln_chain_add_slot<LN_TILE_MXFP4>(tiles, n, x, row, first_unit, sum); break;
    case LN_TILE_F8: ln_chain_add_slot<LN_TILE_F8>(tiles, n, x, row, first_unit, sum); break;
    default: ln_chain_add_slot<LN_TILE_I8>(tiles, n, x, row, first_unit, sum);
    }
    ln_chain_leave_slot<KIND>(p, weights, is_last, r);
}

/* Whether products meet one row of x by blocks of its columns. */
template <int KIND, bool ONE> static __device__ constexpr bool ln_chain_by_blocks(void) {
    return ONE && !ln_tile_meets_16(KIND);
}

/* ln_chain_add of INT8 and INT4 for one row of x, whose blocks in a tile are the columns of B
 * operands. Column n of a product is of use where the A operand is block n, too, so that lanes t
 * have what becomes of blocks 2 t and 2 t + 1, with an eighth of the scales to multiply by. They
 * add it to the sums of rows of tiles g and g + 8 one after another; lanes t = 3 have these. */
template <int KIND>
static __device__ __forceinline__ void
ln_chain_add_blocks(const ln_chain_args &p, const ln_chain_weights *weights, ln_chain_ring *r,
                    const ln_tile_x_parts &x, unsigned tile, bool is_last, float sum[4]) {
    enum { BLOCKS = (int)ln_tile_cols(KIND) / LN_TILE_BLOCK, PAIRS = BLOCKS / 2 };
    static_assert(BLOCKS == 8, "columns of a product");
    unsigned lane = threadIdx.x % LN_WARP, g = lane / 4, t = lane % 4;
    const int8_t *values = x.int8 + tile * (unsigned)ln_tile_cols(KIND);
    const uint2 own = *(const uint2 *)(values + g / 2 * 64 + t * 16 + g % 2 * 8);
    const float2 x_scales = *(const float2 *)(x.scales + tile * BLOCKS + 2 * t);
    /* blocks i and i + 4 share a product's columns */
    const uint2 none = make_uint2(0, 0);
    const uint2 low = g < PAIRS ? own : none, high = g < PAIRS ? none : own;
    const uint8_t *at = r->slots + r->slot * ln_tile_bytes(KIND);
    ln_ring_wait(&r->barriers[r->slot], r->parity);
    const uint32_t *scales = (const uint32_t *)(at + ln_tile_scale_at(KIND, g, 0)) + t;
    const uint32_t w_scales[2] = {scales[0], scales[32]}; /* of rows g and g + 8 */
    float c[PAIRS][4], v[4];
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        float *to = c[block % PAIRS];
        uint4 a;
        if constexpr (KIND == LN_TILE_INT8)
            a = ((const uint4 *)at)[block * LN_WARP + lane];
        else
            a = ln_unpack_int4(((const uint4 *)at)[block / 2 * LN_WARP + lane], block);
        if (block < PAIRS)
            ln_mma_int8(to, a, low.x, low.y);
        else
            ln_mma_whole(to, a, high.x, high.y);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float w = ln_f16((uint16_t)(w_scales[i / 2] >> i % 2 * 16));
        v[i] = fmaf(t % 2 ? c[2 + i % 2][i] : c[i % 2][i], w, -LN_INT_START * w);
    }
    ln_chain_leave_slot<KIND>(p, weights, is_last, r);
#pragma unroll
    for (int turn = 0; turn < 4; turn++)
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            float before = __shfl_sync(0xffffffffu, sum[i], (t + 3) % 4, 4);
            sum[i] = fmaf(v[i + 1], x_scales.y, fmaf(v[i], x_scales.x, before));
        }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Where sums of slices meet: the eight of a team's row, or the sixteen of a row and its gate. Warps
 * put them to places by turns and go on; who finishes a row waits for them, and warps wait only
 * where a place is not empty again yet. */
enum {
    LN_CHAIN_TEAM_PLACES = 2,
    LN_CHAIN_GATE_PLACES = 4,
    LN_CHAIN_MEETINGS = LN_CHAIN_TEAMS + 1 /* of teams, and of the block */
};

typedef struct ln_chain_meeting {
    uint64_t full[LN_CHAIN_GATE_PLACES], empty[LN_CHAIN_GATE_PLACES]; /* barriers */
} ln_chain_meeting;

/* Rows that this warp has met others for, of the chain so far. */
typedef struct ln_chain_met {
    unsigned by_team, by_block;
} ln_chain_met;

/* Lanes of a warp that leave sums: of as many rows of x as there are, two a lane. */
static __device__ __forceinline__ unsigned ln_chain_leavers(unsigned n_rows) {
    return LN_WARP / 4 * ((n_rows + 1) / 2);
}

/* By one thread, before the block's first barrier. Who wrote sums arrives, and so does who read
 * them, so that tools can follow. */
static __device__ __forceinline__ void ln_chain_init_meetings(unsigned n_rows,
                                                              ln_chain_meeting *meetings) {
    for (unsigned m = 0; m < LN_CHAIN_MEETINGS; m++)
        for (unsigned i = 0; i < LN_CHAIN_GATE_PLACES; i++) {
            unsigned n_warps = m == LN_CHAIN_TEAMS ? LN_CHAIN_WARPS : LN_TILE_SLICES;
            ln_ring_init_for(&meetings[m].full[i], n_warps * ln_chain_leavers(n_rows));
            ln_ring_init_for(&meetings[m].empty[i], n_rows * LN_TILE_ROWS);
        }
}

/* Floats of a slice's sums of all warps of a team. */
static __host__ __device__ __forceinline__ unsigned ln_chain_sum_floats(unsigned n_rows) {
    return LN_TILE_SLICES * LN_TILE_ROWS * (n_rows | 1);
}

/* And of all places. */
static __host__ __device__ __forceinline__ unsigned ln_chain_place_floats(unsigned n_rows,
                                                                          bool has_gate) {
    return (has_gate ? 2 * LN_CHAIN_GATE_PLACES : LN_CHAIN_TEAMS * LN_CHAIN_TEAM_PLACES) *
           ln_chain_sum_floats(n_rows);
}

/* Puts a slice's sums where the others meet them. */
template <int KIND, bool ONE>
static __device__ __forceinline__ void ln_chain_leave(unsigned n_rows, float *sums,
                                                      const float sum[4], uint64_t *full) {
    unsigned lane = threadIdx.x % LN_WARP, width = n_rows | 1, t = lane % 4;
    unsigned slice = threadIdx.x / LN_WARP % LN_TILE_SLICES;
    unsigned first = (ln_chain_by_blocks<KIND, ONE>() ? 3 - t : t) * 2;
#pragma unroll
    for (int i = 0; i < 4; i += ONE ? 2 : 1) {
        unsigned column = lane / 4 + i / 2 * 8, row = first + i % 2;
        if (row < n_rows)
            sums[(slice * LN_TILE_ROWS + column) * width + row] = sum[i];
    }
    if (first < n_rows)
        ln_ring_arrive(full);
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
    float scale, gate_scale; /* of the row of weights, if narrow */
} ln_chain_end;

/* The scales that a column of results has behind its row of tiles, or 1. */
static __device__ __forceinline__ void ln_chain_load_scales(const ln_tile_part &part,
                                                            unsigned n_tiles, unsigned tile_row,
                                                            ln_chain_end *end) {
    const unsigned kind = part.kind, column = threadIdx.x % LN_TILE_ROWS;
    end->scale = end->gate_scale = 1.0f;
    if (!ln_tile_has_row_scales(kind))
        return;
    size_t at = tile_row * ln_tile_row_bytes(kind, n_tiles);
    end->scale = ln_tile_row_scales(kind, part.weight + at, n_tiles)[column];
    if (part.gate != NULL)
        end->gate_scale = ln_tile_row_scales(kind, part.gate + at, n_tiles)[column];
}

static __device__ __forceinline__ void ln_chain_load_end(const ln_epilogue &e, size_t row,
                                                         size_t column, ln_chain_end *end) {
    end->bias = e.bias != NULL ? e.bias[column] : 0.0f;
    end->gate_bias = e.gate_bias != NULL ? e.gate_bias[column] : 0.0f;
    end->residual = e.residual != NULL ? ln_look(e.residual + row * e.n_out + column) : 0.0f;
}

/* Finishes a sum u with its gate's g; passed: for other blocks, or NULL. */
static __device__ __forceinline__ void ln_chain_finish_sum(const ln_epilogue &e, float *passed,
                                                           bool residual_is_passed, size_t row,
                                                           size_t column, float u, float g,
                                                           ln_chain_end end) {
    while (residual_is_passed && ln_is_missing(end.residual))
        end.residual = ln_look(e.residual + row * e.n_out + column);
    float y = ln_epilogue_value(e, u, g, end.bias, end.gate_bias, end.residual);
    if (passed != NULL)
        ln_pass(passed + row * e.out_stride + column, y);
    if (e.out != NULL)
        e.out[row * e.out_stride + column] = y;
}

/* ---- a stage --------------------------------------------------------------------------------- */

/* A row of tiles of a warp's team, and what the warp has to finish of it. */
typedef struct ln_chain_round {
    unsigned part, column; /* of the part: this lane's */
    unsigned row;          /* of x: the warp finishes its sums, if there is such a row */
    bool is_there, finishes, precise;
    uint8_t kind; /* of tiles */
    ln_chain_end end;
} ln_chain_round;

/* The part that has a row of tiles, which becomes its number there. */
static __device__ __forceinline__ unsigned ln_chain_part(const ln_chain_linear &l,
                                                         unsigned *tile_row) {
    unsigned part = 0;
    for (; part + 1 < l.n_parts; part++) {
        unsigned n = ((unsigned)l.parts[part].epilogue.n_out + LN_TILE_ROWS - 1) / LN_TILE_ROWS;
        if (*tile_row < n)
            break;
        *tile_row -= n;
    }
    return part;
}

/* n_met: rows that the warp has met others for so far. The warps take turns with finishing, so that
 * none falls behind. */
template <int KIND>
static __device__ __forceinline__ ln_chain_round ln_chain_begin_round(const ln_chain_linear &l,
                                                                      unsigned n_rows,
                                                                      unsigned round,
                                                                      unsigned n_met) {
    ln_chain_round at = {};
    const unsigned lane = threadIdx.x % LN_WARP;
    const bool has_gate = l.has_gate;
    unsigned tile_row = ln_chain_row(has_gate, round);
    at.is_there = tile_row < l.n_tile_rows;
    if (!at.is_there)
        return at;
    at.part = ln_chain_part(l, &tile_row);
    const ln_tile_part &part = l.parts[at.part];
    at.row = (threadIdx.x / LN_WARP - n_met) % (has_gate ? LN_CHAIN_WARPS : LN_TILE_SLICES);
    at.column = tile_row * LN_TILE_ROWS + lane;
    at.finishes = at.row < n_rows && lane < LN_TILE_ROWS && at.column < part.epilogue.n_out;
    at.precise = part.precise;
    at.kind = part.kind;
    if (at.finishes)
        ln_chain_load_end(part.epilogue, at.row, at.column, &at.end);
    if (at.finishes && ln_tile_is_narrow(KIND))
        ln_chain_load_scales(part, l.n_tiles, tile_row, &at.end);
    return at;
}

/* Rows of tiles in turns with the other teams, `at` being the first. ONE: of one row of x, where
 * sums of others that products bring along are spared. */
template <int KIND, bool ONE>
static __device__ __forceinline__ void
ln_chain_rows(const ln_chain_args &p, const ln_chain_weights *weights, const ln_chain_linear &l,
              const ln_tile_x_parts &x, float *all_sums, ln_chain_meeting *meetings,
              ln_chain_ring *r, ln_chain_met *met, ln_chain_round at) {
    constexpr unsigned PER_TILE = ln_tile_cols(KIND) / ln_lane_tile<KIND>::UNIT;
    const unsigned lane = threadIdx.x % LN_WARP, team = threadIdx.x / LN_CHAIN_TEAM;
    const unsigned n_rows = ONE ? 1 : p.n_rows, last = n_rows - 1, cols = (unsigned)x.cols;
    const unsigned rows[3] = {min(lane / 4, last) * cols, min(lane % 4 * 2, last) * cols,
                              min(lane % 4 * 2 + 1, last) * cols};
    const unsigned per_sum = ln_chain_sum_floats(n_rows);
    const bool has_gate = l.has_gate;
    const unsigned places = has_gate ? LN_CHAIN_GATE_PLACES : LN_CHAIN_TEAM_PLACES;
    ln_chain_meeting &meeting = meetings[has_gate ? LN_CHAIN_TEAMS : team];
    unsigned n_met = has_gate ? met->by_block : met->by_team, begin, end;
    ln_chain_slice(l.n_tiles, &begin, &end);
    for (unsigned round = 0; at.is_there;) {
        const bool is_last = ln_chain_row(has_gate, round + 1) >= l.n_tile_rows;
        float sum[4] = {};
        const unsigned step = ln_chain_find_size<KIND>(at.kind).n_copied;
        for (unsigned tile = begin; tile < end; tile += step)
            if constexpr (ln_tile_is_narrow(KIND))
                ln_chain_add_narrow<KIND>(p, weights, r, at.kind, min(step, end - tile), x, rows[0],
                                          tile, is_last && tile + step >= end, sum);
            else if constexpr (ln_chain_by_blocks<KIND, ONE>())
                ln_chain_add_blocks<KIND>(p, weights, r, x, tile, is_last && tile + 1 == end, sum);
            else
                ln_chain_add<KIND>(p, weights, r, x, rows, tile * PER_TILE, at.precise,
                                   is_last && tile + 1 == end, sum);
        unsigned place = n_met % places, parity = n_met / places % 2;
        float *sums = all_sums + (has_gate ? 2 * place : team * places + place) * per_sum;
        ln_ring_wait(&meeting.empty[place], parity ^ 1);
        ln_chain_leave<KIND, ONE>(n_rows, sums + (has_gate ? team * per_sum : 0), sum,
                                  &meeting.full[place]);
        if (at.row < n_rows) {
            const ln_epilogue e = l.parts[at.part].epilogue; /* loaded ahead of the wait */
            float *const passed = l.passed[at.part];
            const bool residual_is_passed = l.residual_is_passed;
            ln_ring_wait(&meeting.full[place], parity);
            if (at.finishes) {
                float u = ln_chain_merge(sums, lane, at.row, n_rows | 1), g = 0.0f;
                if (has_gate)
                    g = ln_chain_merge(sums + per_sum, lane, at.row, n_rows | 1);
                if (ln_tile_is_narrow(KIND)) {
                    const float scale = x.scales[at.row];
                    u *= at.end.scale * scale, g *= at.end.gate_scale * scale;
                }
                ln_chain_finish_sum(e, passed, residual_is_passed, at.row, at.column, u, g, at.end);
            }
            if (lane < LN_TILE_ROWS)
                ln_ring_arrive(&meeting.empty[place]);
        }
        at = ln_chain_begin_round<KIND>(l, n_rows, ++round, ++n_met);
    }
    *(has_gate ? &met->by_block : &met->by_team) = n_met;
}

/* Lets no thread of the block on before all blocks have arrived. */
static __device__ __forceinline__ void ln_chain_meet(const ln_chain_args &p, unsigned *turn) {
    if (threadIdx.x == 0)
        ln_wait_for_blocks(p.arrived, turn);
    __syncthreads();
}

/* One stage, at `work` in shared memory. Before the first results are passed, norms included,
 * blocks have met. Of one row of x what the first round needs is found before x is there; of more,
 * registers would not do. */
template <int KIND, bool ONE>
static __device__ __forceinline__ void
ln_chain_multiply(const ln_chain_args &p, const ln_chain_weights *weights, const ln_chain_linear &l,
                  uint8_t *work, float *shared, ln_chain_meeting *meetings, ln_chain_ring *r,
                  ln_chain_met *met, bool meets, unsigned *turn) {
    float *sums = (float *)work;
    const unsigned n_rows = ONE ? 1 : p.n_rows, n_met = l.has_gate ? met->by_block : met->by_team;
    uint8_t *at = (uint8_t *)(sums + ln_chain_place_floats(n_rows, l.has_gate));
    ln_tile_x_parts x = {};
    bool passes_norms = l.passed_normed != NULL;
    if (meets && passes_norms)
        ln_chain_meet(p, turn);
    ln_chain_round first = {};
    if (ONE)
        first = ln_chain_begin_round<KIND>(l, n_rows, 0, n_met);
    if (blockIdx.x < l.n_tile_rows)
        x = ln_chain_x<KIND>(p, weights, l, n_rows, at, shared, r);
    __syncthreads();
    if (meets && !passes_norms)
        ln_chain_meet(p, turn);
    if (!ONE)
        first = ln_chain_begin_round<KIND>(l, n_rows, 0, n_met);
    ln_chain_rows<KIND, ONE>(p, weights, l, x, sums, meetings, r, met, first);
}

#endif
