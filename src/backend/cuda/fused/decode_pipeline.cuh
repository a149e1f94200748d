/* Weight pipeline of the fused decode kernel: each warp is its own producer, of its K range of
 * output tile after output tile and linear after linear, whatever the task. From a task's end on
 * one stage stays free until the next activations are there: their loads would else queue behind
 * all weight loads at once. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_PIPELINE_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_PIPELINE_CUH

#include "backend/cuda/fused/decode_weights.cuh"
#include "backend/cuda/ptx/stage.cuh"

/* A warp's pipeline. Functions take one as PIPELINE: lists with mixtures have another
 * (decode_pieces.cuh), which finds otherwise what comes next. */
typedef struct ln_decode_pipeline {
    uint8_t *stages;
    uint64_t *barriers;
    unsigned stage, parity; /* to be consumed next */
    bool has_free_stage;    /* the stage before that one */
    /* of lane 0 */
    unsigned linear, round;
    unsigned left; /* bytes of the row; 0: there are no more */
    unsigned most; /* bytes of a copy */
    const uint8_t *next;
} ln_decode_pipeline;

/* The warp's K range. */
static __device__ __forceinline__ void ln_decode_k_range(unsigned n_tiles, unsigned *begin,
                                                         unsigned *end) {
    unsigned warp = threadIdx.x / LN_WARP % LN_K_SPLITS;
    unsigned per_slice = (n_tiles + LN_K_SPLITS - 1) / LN_K_SPLITS;
    *begin = min(warp * per_slice, n_tiles);
    *end = min((warp + 1) * per_slice, n_tiles);
}

/* The output tile of a group in a round. With a gate both groups take the same one, the second
 * group the gate's. */
static __device__ __forceinline__ unsigned ln_decode_tile_of_round(bool has_gate, unsigned round) {
    unsigned group = threadIdx.x / LN_DECODE_GROUP_THREADS;
    return blockIdx.x + (has_gate ? round : LN_DECODE_GROUPS * round + group) * gridDim.x;
}

/* Finds the weights that come next: of this linear or one behind it. */
template <int KIND>
static __device__ __forceinline__ void ln_decode_next_tile(const ln_decode_args &p,
                                                           const ln_decode_weight_tiles *weights,
                                                           ln_decode_pipeline *r) {
    for (; r->linear < p.n_linears; r->linear++, r->round = 0) {
        const ln_decode_weight_tiles &w = weights[r->linear];
        unsigned begin, end, row = ln_decode_tile_of_round(w.gate != NULL, r->round);
        ln_decode_k_range(w.k_tiles, &begin, &end);
        if (begin == end || row >= w.tile_ends[LN_GEMM_MAX_PARTS - 1])
            continue;
        unsigned part = (row >= w.tile_ends[0]) + (row >= w.tile_ends[1]);
        row -= part > 0 ? w.tile_ends[part - 1] : 0;
        bool is_gate = w.gate != NULL && threadIdx.x >= LN_DECODE_GROUP_THREADS;
        const ln_decode_tile_copy size = ln_decode_find_tile_copy<KIND>(w.kinds[part]);
        r->next = (is_gate ? w.gate : w.parts[part]) +
                  (size_t)row * (w.k_tiles * size.tile_bytes + size.tail_bytes) +
                  begin * size.tile_bytes;
        r->left = (end - begin) * size.tile_bytes;
        r->most = (unsigned)size.tiles_per_copy * size.tile_bytes;
        r->round++;
        return;
    }
}

/* Finds what comes first. */
template <int KIND>
static __device__ __forceinline__ void ln_decode_find_first(const ln_decode_args &p,
                                                            const ln_decode_weight_tiles *weights,
                                                            ln_decode_pipeline *r) {
    if (threadIdx.x % LN_WARP == 0)
        ln_decode_next_tile<KIND>(p, weights, r);
}

/* Queues the copy of the next K tiles into a stage; by all lanes. */
template <int KIND>
static __device__ __forceinline__ void
ln_decode_fetch_tiles(const ln_decode_args &p, const ln_decode_weight_tiles *weights,
                      ln_decode_pipeline *r, unsigned stage) {
    if (threadIdx.x % LN_WARP > 0 || r->left == 0)
        return;
    constexpr unsigned STAGE_BYTES = ln_decode_stage_bytes(KIND);
    const unsigned bytes =
        STAGE_BYTES > ln_weight_tile_bytes(KIND) ? min(r->left, r->most) : STAGE_BYTES;
    ln_stage_fetch(r->stages + stage * ln_decode_stage_bytes(KIND), r->next, bytes,
                   &r->barriers[stage]);
    r->next += bytes;
    r->left -= bytes;
    if (r->left == 0)
        ln_decode_next_tile<KIND>(p, weights, r);
}

template <int KIND, class PIPELINE>
static __device__ __forceinline__ void
ln_decode_init_pipeline(const ln_decode_args &p, const ln_decode_weight_tiles *weights,
                        uint8_t *memory, PIPELINE *r) {
    unsigned warp = threadIdx.x / LN_WARP;
    *(ln_decode_pipeline *)r = {};
    r->has_free_stage = true;
    r->stages = memory + (size_t)warp * p.n_stages * ln_decode_stage_bytes(KIND);
    r->barriers = (uint64_t *)(memory + p.barriers_offset) + warp * p.n_stages;
    for (unsigned stage = 0; threadIdx.x % LN_WARP == 0 && stage < p.n_stages; stage++)
        ln_stage_init(&r->barriers[stage]);
    __syncwarp();
    ln_decode_find_first<KIND>(p, weights, r);
    for (unsigned stage = 0; stage + 1 < p.n_stages; stage++)
        ln_decode_fetch_tiles<KIND>(p, weights, r, stage);
    __syncwarp();
}

/* Fills the stage that stayed free, if there is one. */
template <int KIND, class PIPELINE>
static __device__ __forceinline__ void
ln_decode_fill_free_stage(const ln_decode_args &p, const ln_decode_weight_tiles *weights,
                          PIPELINE *r) {
    if (r->has_free_stage)
        ln_decode_fetch_tiles<KIND>(p, weights, r, (r->stage > 0 ? r->stage : p.n_stages) - 1);
    r->has_free_stage = false;
}

/* Moves on to the next stage, and refills the one that all lanes have read, but at the end of a
 * task. */
template <int KIND, class PIPELINE>
static __device__ __forceinline__ void
ln_decode_release_stage(const ln_decode_args &p, const ln_decode_weight_tiles *weights,
                        bool is_last, PIPELINE *r) {
    __syncwarp();
    if (!is_last)
        ln_decode_fetch_tiles<KIND>(p, weights, r, r->stage);
    r->has_free_stage = is_last;
    bool wraps = r->stage + 1 == p.n_stages;
    r->parity ^= wraps;
    r->stage = wraps ? 0 : r->stage + 1;
}

#endif
