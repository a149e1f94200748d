/* Weight pipeline of the fused decode kernel for lists with mixtures. A piece is the warp's K split
 * of an output tile. A warp finds 32 of them at once, a lane each, where decode_pipeline.cuh finds
 * one after the other: pieces of experts are small, and where they lie is known, but for one
 * addition, before the experts are. The pipeline stops in front of a mixture whose experts have not
 * been chosen. */
#ifndef LN_BACKEND_CUDA_FUSED_DECODE_PIECES_CUH
#define LN_BACKEND_CUDA_FUSED_DECODE_PIECES_CUH

#include "backend/cuda/fused/decode_pipeline.cuh"

/* `next` and `most` are of the lane's piece, `left` is of the piece under way. */
typedef struct ln_decode_mixed_pipeline : ln_decode_pipeline {
    const ln_decode_args *p;
    const ln_decode_weight_tiles *weights;
    const uint16_t *n_rounds;  /* [n_linears] output tiles of the warp's group */
    ln_mixture_choice *chosen; /* of the mixture that was chosen for last */
    unsigned n_chosen;         /* mixtures whose experts are known */
    unsigned bytes;            /* of the lane's piece; 0: there are no more */
    unsigned turn;             /* the lane whose piece is under way */
} ln_decode_mixed_pipeline;

/* Output tiles of a group of warps of this block. */
static __device__ __forceinline__ unsigned ln_decode_count_rounds(const ln_decode_weight_tiles &w,
                                                                  unsigned group) {
    unsigned first = blockIdx.x, step = gridDim.x, end = w.tile_ends[LN_GEMM_MAX_PARTS - 1];
    if (w.owner == LN_DECODE_OF_EXPERTS_UP)
        end *= w.n_used;
    else if (w.owner == LN_DECODE_OF_LINEAR && w.gate == NULL)
        first += group * step, step *= LN_DECODE_GROUPS;
    const unsigned n = first < end ? (end - first + step - 1) / step : 0;
    return w.owner == LN_DECODE_OF_EXPERTS_DOWN ? n * ln_mixture_group_choices(w.n_used, group) : n;
}

/* An output tile, and of experts which one of those that the token has; others have choice 0. */
typedef struct ln_decode_tile_number {
    unsigned row, choice;
} ln_decode_tile_number;

static __device__ __forceinline__ ln_decode_tile_number
ln_decode_find_tile(const ln_decode_weight_tiles &w, unsigned round) {
    const unsigned group = ln_mixture_group_of_warp();
    if (w.owner == LN_DECODE_OF_EXPERTS_DOWN) {
        const unsigned per_tile = ln_mixture_group_choices(w.n_used, group),
                       turn = round / per_tile;
        return {blockIdx.x + turn * gridDim.x,
                (round - turn * per_tile) * LN_DECODE_GROUPS + group};
    }
    const unsigned row = ln_decode_tile_of_round(w.gate != NULL, round);
    if (w.owner == LN_DECODE_OF_LINEAR)
        return {row, 0};
    const unsigned choice = row / w.tile_ends[0];
    return {row - choice * w.tile_ends[0], choice};
}

/* Which expert's matrix a lane's piece is of: those of an expert begin so many times 16 bytes
 * behind those of the one before it. 0: the piece is of no expert. */
typedef struct ln_decode_expert_piece {
    unsigned choice, stride_16;
} ln_decode_expert_piece;

/* The lane's piece, number `round` of weights, as if it were of expert 0. */
template <int KIND>
static __device__ __forceinline__ ln_decode_expert_piece
ln_decode_place_piece(const ln_decode_weight_tiles &w, unsigned round, unsigned begin, unsigned end,
                      ln_decode_mixed_pipeline *r) {
    ln_decode_tile_number tile = ln_decode_find_tile(w, round);
    const bool is_gate = w.gate != NULL && ln_mixture_group_of_warp() > 0;
    const unsigned part = (tile.row >= w.tile_ends[0]) + (tile.row >= w.tile_ends[1]);
    tile.row -= part > 0 ? w.tile_ends[part - 1] : 0;
    const ln_decode_tile_copy size = ln_decode_find_tile_copy<KIND>(w.kinds[part]);
    r->next = (is_gate ? w.gate : w.parts[part]) +
              (size_t)tile.row * (w.k_tiles * size.tile_bytes + size.tail_bytes) +
              begin * size.tile_bytes;
    r->bytes = (end - begin) * size.tile_bytes;
    r->most = (unsigned)size.tiles_per_copy * size.tile_bytes;
    if (w.owner == LN_DECODE_OF_LINEAR)
        return {0, 0};
    return {tile.choice, is_gate ? w.experts.gate_stride_16 : w.experts.stride_16};
}

/* Finds the 32 pieces that come next, of weights in front of mixture number n_mixtures, as if they
 * were of expert 0. All before them have been queued. */
template <int KIND>
static __device__ __forceinline__ ln_decode_expert_piece
ln_decode_find_pieces(const ln_decode_args &p, const ln_decode_weight_tiles *weights,
                      unsigned n_mixtures, ln_decode_mixed_pipeline *r) {
    const unsigned all = 0xffffffffu;
    unsigned linear = r->linear, round = r->round + threadIdx.x % LN_WARP;
    ln_decode_expert_piece piece = {};
    r->bytes = 0;
    for (; linear < p.n_linears; linear++) {
        const ln_decode_weight_tiles &w = weights[linear];
        if (w.owner != LN_DECODE_OF_LINEAR && w.mixture >= n_mixtures) {
            round = 0; /* where it goes on */
            break;
        }
        unsigned begin, end;
        ln_decode_k_range(w.k_tiles, &begin, &end);
        const unsigned n = begin < end ? r->n_rounds[linear] : 0;
        if (round < n) {
            piece = ln_decode_place_piece<KIND>(w, round++, begin, end, r);
            break;
        }
        round -= n;
    }
    r->linear = __shfl_sync(all, linear, LN_WARP - 1);
    r->round = __shfl_sync(all, round, LN_WARP - 1);
    r->turn = 0;
    r->left = __shfl_sync(all, r->bytes, 0);
    return piece;
}

/* Moves pieces to the experts that have been chosen. */
static __device__ __forceinline__ void ln_decode_take_experts(const ln_decode_expert_piece &piece,
                                                              ln_decode_mixed_pipeline *r) {
    if (piece.stride_16 > 0)
        r->next += (size_t)r->chosen->experts[piece.choice] * piece.stride_16 * 16;
}

template <int KIND>
static __device__ __forceinline__ void ln_decode_find_first(const ln_decode_args &p,
                                                            const ln_decode_weight_tiles *weights,
                                                            ln_decode_mixed_pipeline *r) {
    ln_decode_take_experts(ln_decode_find_pieces<KIND>(p, weights, r->n_chosen, r), r);
}

template <int KIND>
static __device__ __forceinline__ void
ln_decode_fetch_tiles(const ln_decode_args &p, const ln_decode_weight_tiles *weights,
                      ln_decode_mixed_pipeline *r, unsigned stage) {
    constexpr unsigned STAGE_BYTES = ln_decode_stage_bytes(KIND), all = 0xffffffffu;
    if (r->left == 0)
        return;
    const unsigned bytes = STAGE_BYTES > ln_weight_tile_bytes(KIND)
                               ? min(r->left, __shfl_sync(all, r->most, (int)r->turn))
                               : STAGE_BYTES;
    if (threadIdx.x % LN_WARP == r->turn) {
        ln_stage_fetch(r->stages + stage * STAGE_BYTES, r->next, bytes, &r->barriers[stage]);
        r->next += bytes;
    }
    r->left -= bytes;
    if (r->left > 0)
        return;
    if (++r->turn < LN_WARP)
        r->left = __shfl_sync(all, r->bytes, (int)r->turn);
    else
        ln_decode_find_first<KIND>(p, weights, r);
}

/* Goes on with the experts that have been chosen, all stages being empty. */
template <int KIND>
static __device__ __forceinline__ void ln_decode_begin_experts(const ln_decode_expert_piece &piece,
                                                               ln_decode_mixed_pipeline *r) {
    const ln_decode_args &p = *r->p;
    r->n_chosen++;
    r->has_free_stage = false;
    ln_decode_take_experts(piece, r);
    for (unsigned i = 0, stage = r->stage; i < p.n_stages; i++) {
        ln_decode_fetch_tiles<KIND>(p, r->weights, r, stage);
        stage = stage + 1 == p.n_stages ? 0 : stage + 1;
    }
}

#endif
