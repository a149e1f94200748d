/* How a chain's weights come: through rings in shared memory, one for each warp, row of tiles after
 * row of tiles and linear after linear, whatever stage it is. From a stage's end on one slot stays
 * empty until the next x is there, which would wait behind all that blocks ask for at once. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_PIPELINE_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_PIPELINE_CUH

#include "backend/cuda/fused/decode_args.cuh"
#include "backend/cuda/ptx/mbarrier.cuh"

/* A warp's ring, and which of its chain's tiles comes next. */
typedef struct ln_fused_decode_ring {
    uint8_t *slots;
    uint64_t *barriers;
    unsigned slot, parity; /* to be met next */
    bool has_empty;        /* the slot before that one */
    /* of lane 0 */
    unsigned linear, round;
    unsigned left; /* bytes of the row; 0: there are no more */
    unsigned most; /* bytes of a copy */
    const uint8_t *next;
} ln_fused_decode_ring;

/* A warp's slice of the columns. */
static __device__ __forceinline__ void ln_fused_decode_slice(unsigned n_tiles, unsigned *begin,
                                                      unsigned *end) {
    unsigned warp = threadIdx.x / LN_WARP % LN_K_SPLITS;
    unsigned per_slice = (n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    *begin = min(warp * per_slice, n_tiles);
    *end = min((warp + 1) * per_slice, n_tiles);
}

/* The row of tiles that a warp's team takes in a round: where there is a gate, both teams of a
 * block take the same one, the second team the gate's. */
static __device__ __forceinline__ unsigned ln_fused_decode_row(bool has_gate, unsigned round) {
    unsigned team = threadIdx.x / LN_FUSED_DECODE_TEAM;
    return blockIdx.x + (has_gate ? round : LN_FUSED_DECODE_TEAMS * round + team) * gridDim.x;
}

/* Finds the row of tiles that comes next: of this linear or one behind it. */
template <int KIND>
static __device__ __forceinline__ void
ln_fused_decode_next_row(const ln_fused_decode_args &p, const ln_fused_decode_weights *weights, ln_fused_decode_ring *r) {
    for (; r->linear < p.n_linears; r->linear++, r->round = 0) {
        const ln_fused_decode_weights &w = weights[r->linear];
        unsigned begin, end, row = ln_fused_decode_row(w.gate != NULL, r->round);
        ln_fused_decode_slice(w.n_tiles, &begin, &end);
        if (begin == end || row >= w.ends[LN_GEMM_MAX_PARTS - 1])
            continue;
        unsigned part = (row >= w.ends[0]) + (row >= w.ends[1]);
        row -= part > 0 ? w.ends[part - 1] : 0;
        bool is_gate = w.gate != NULL && threadIdx.x >= LN_FUSED_DECODE_TEAM;
        const ln_fused_decode_size size = ln_fused_decode_find_size<KIND>(w.kinds[part]);
        r->next = (is_gate ? w.gate : w.parts[part]) +
                  (size_t)row * (w.n_tiles * size.tile_bytes + size.tail_bytes) +
                  begin * size.tile_bytes;
        r->left = (end - begin) * size.tile_bytes;
        r->most = (unsigned)size.n_copied * size.tile_bytes;
        r->round++;
        return;
    }
}

/* Queues the copy of the next tiles to a slot; by lane 0. */
template <int KIND>
static __device__ __forceinline__ void ln_fused_decode_fetch(const ln_fused_decode_args &p,
                                                      const ln_fused_decode_weights *weights,
                                                      ln_fused_decode_ring *r, unsigned slot) {
    if (r->left == 0)
        return;
    const unsigned bytes = ln_weight_tile_dequantizes_to_f16(KIND) ? min(r->left, r->most) : ln_weight_tile_bytes(KIND);
    ln_stage_fetch(r->slots + slot * ln_fused_decode_slot_bytes(KIND), r->next, bytes, &r->barriers[slot]);
    r->next += bytes;
    r->left -= bytes;
    if (r->left == 0)
        ln_fused_decode_next_row<KIND>(p, weights, r);
}

template <int KIND>
static __device__ __forceinline__ void ln_fused_decode_begin(const ln_fused_decode_args &p,
                                                      const ln_fused_decode_weights *weights,
                                                      uint8_t *memory, ln_fused_decode_ring *r) {
    unsigned warp = threadIdx.x / LN_WARP;
    *r = {};
    r->has_empty = true;
    r->slots = memory + (size_t)warp * p.n_slots * ln_fused_decode_slot_bytes(KIND);
    r->barriers = (uint64_t *)(memory + p.barriers_at) + warp * p.n_slots;
    if (threadIdx.x % LN_WARP == 0) {
        ln_fused_decode_next_row<KIND>(p, weights, r);
        for (unsigned slot = 0; slot < p.n_slots; slot++)
            ln_stage_init(&r->barriers[slot]);
        for (unsigned slot = 0; slot + 1 < p.n_slots; slot++)
            ln_fused_decode_fetch<KIND>(p, weights, r, slot);
    }
    __syncwarp();
}

/* Has the slot that stayed empty filled, if there is one. */
template <int KIND>
static __device__ __forceinline__ void ln_fused_decode_fill(const ln_fused_decode_args &p,
                                                     const ln_fused_decode_weights *weights,
                                                     ln_fused_decode_ring *r) {
    if (r->has_empty && threadIdx.x % LN_WARP == 0)
        ln_fused_decode_fetch<KIND>(p, weights, r, (r->slot > 0 ? r->slot : p.n_slots) - 1);
    r->has_empty = false;
}

/* Goes on to the next slot, and has the one that all lanes are done with filled again, but at the
 * end of a stage. */
template <int KIND>
static __device__ __forceinline__ void ln_fused_decode_leave_slot(const ln_fused_decode_args &p,
                                                           const ln_fused_decode_weights *weights,
                                                           bool is_last, ln_fused_decode_ring *r) {
    __syncwarp();
    if (!is_last && threadIdx.x % LN_WARP == 0)
        ln_fused_decode_fetch<KIND>(p, weights, r, r->slot);
    r->has_empty = is_last;
    bool wraps = r->slot + 1 == p.n_slots;
    r->parity ^= wraps;
    r->slot = wraps ? 0 : r->slot + 1;
}

#endif
