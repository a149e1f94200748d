/* Limits of the fused kernels (fused/decode.cu, fused/decode_mixture.cu, fused/mixture.cu,
 * fused/linear_norm.cu), for those who plan them. */
#ifndef LN_BACKEND_CUDA_FUSED_LIMITS_H
#define LN_BACKEND_CUDA_FUSED_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include "backend/cuda/fused/workspace.h"
#include "backend/cuda/weights/layout.h"

enum {
    LN_DECODE_MAX_ROWS = 4,
    LN_DECODE_MAX_LINEARS = 48,
    LN_DECODE_MAX_ATTENTIONS = 12,
    LN_DECODE_MAX_TASKS = LN_DECODE_MAX_LINEARS + LN_DECODE_MAX_ATTENTIONS,
    /* Of a list with mixtures: with two linears a layer it is full in front of a linear, with which
     * the next one can begin. */
    LN_DECODE_MAX_MIXTURES = 10,
    LN_DECODE_MIXED_MAX_LINEARS = 2 * LN_DECODE_MAX_MIXTURES,
    LN_DECODE_MIXED_MAX_ATTENTIONS = LN_DECODE_MAX_MIXTURES,
    LN_DECODE_MIN_STAGES = 2,
    LN_DECODE_MAX_STAGES = 16,
    LN_DECODE_WARPS = 16,
    LN_DECODE_MAX_HEADS = 16,            /* query heads to a KV head */
    LN_DECODE_MAX_SPLITS = 264,          /* KV splits of a layer: two for each SM */
    LN_DECODE_DECLARED_BYTES = 36 * 128, /* of shared memory that the kernel declares, at most */
    LN_DECODE_SHARED_BYTES = 227 * 1024 - LN_DECODE_DECLARED_BYTES,
    LN_DECODE_PLAN_BYTES = 640,   /* the next KV split, found ahead */
    LN_DECODE_COUNTER_BYTES = 128 /* the grid barrier's, in front of what blocks hand off */
};

enum { LN_DECODE_HANDOFF_FLOATS = (LN_DECODE_WORKSPACE_BYTES - LN_DECODE_COUNTER_BYTES) / 4 };

/* The weight kinds of the decode kernel: the layouts, but for all that are dequantised to f16
 * LN_LAYOUT_Q4 stands as KIND of a template; each part then says which its own is. */
LN_HOST_DEVICE int ln_decode_kind(int kind) {
    return ln_weight_tile_dequantizes_to_f16(kind) ? (int)LN_LAYOUT_Q4 : kind;
}

/* The kinds that kernels are compiled for, and those of mixtures: experts are not F8_ROW. */
LN_HOST_DEVICE bool ln_decode_is_kind(int kind) {
    return ln_decode_kind(kind) == kind;
}

LN_HOST_DEVICE bool ln_decode_is_mixture_kind(int kind) {
    return ln_decode_is_kind(kind) && kind != LN_LAYOUT_F8_ROW;
}

/* Bytes of a stage of a warp's pipeline of weights: tiles of bytes with row scales come two at
 * once, those of BF16, which are as small, one by one, as its rows of x leave little room. */
LN_HOST_DEVICE unsigned ln_decode_stage_bytes(int kind) {
    if (ln_weight_tile_dequantizes_to_f16(kind))
        return (unsigned)(3 * ln_weight_tile_bytes(LN_LAYOUT_Q6));
    bool takes_two = kind == LN_LAYOUT_INT8_ROW || kind == LN_LAYOUT_F8_ROW;
    return (unsigned)((takes_two ? 2 : 1) * ln_weight_tile_bytes(kind));
}

LN_HOST_DEVICE size_t ln_decode_align(size_t bytes) {
    return (bytes + 127) / 128 * 128;
}

/* Stages of a pipeline beside so much work memory, with their barriers. */
static inline size_t ln_decode_stages_beside(int kind, size_t work_bytes) {
    size_t rest = ln_decode_align(work_bytes) + LN_DECODE_PLAN_BYTES, most = LN_DECODE_MAX_STAGES;
    size_t per_stage = LN_DECODE_WARPS * (ln_decode_stage_bytes(kind) + sizeof(uint64_t));
    size_t n = rest < LN_DECODE_SHARED_BYTES ? (LN_DECODE_SHARED_BYTES - rest) / per_stage : 0;
    return n < most ? n : most;
}

/* Bytes behind the activations of F8_ROW, as ptx/wgmma_fp8_splits.cuh has it. */
enum { LN_DECODE_FP8_BEHIND = 32 * 32 };

/* Columns of x in shared memory, where rows begin in different banks; of F8_ROW whole K splits. */
LN_HOST_DEVICE size_t ln_decode_x_cols(int kind, size_t n_cols) {
    const size_t padded = ln_weight_tile_padded_cols(kind, n_cols),
                 tile = ln_weight_tile_cols(kind);
    if (kind == LN_LAYOUT_F8_ROW)
        return (padded + LN_K_SPLITS * tile - 1) / (LN_K_SPLITS * tile) * (LN_K_SPLITS * tile);
    return padded + (ln_weight_tile_has_16_bit_act(kind) ? 32 : 128);
}

/* Bytes of rows of x in shared memory. */
LN_HOST_DEVICE size_t ln_decode_act_bytes(int kind, size_t n_rows, size_t n_cols, bool precise) {
    size_t cols = ln_decode_x_cols(kind, n_cols);
    size_t bytes = n_rows * cols * (ln_weight_tile_has_16_bit_act(kind) ? sizeof(uint16_t) : 1);
    if (kind == LN_LAYOUT_BF16)
        return bytes * (precise ? 2 : 1);
    if (ln_weight_tile_has_act_row_scales(kind))
        return bytes + n_rows * sizeof(float) +
               (kind == LN_LAYOUT_F8_ROW ? LN_DECODE_FP8_BEHIND : 0);
    return bytes + n_rows * (cols / LN_SCALE_BLOCK) * sizeof(float);
}

/* Work memory of a KV split: KV tiles, and S and P. */
LN_HOST_DEVICE size_t ln_decode_attention_work_bytes(size_t head_dim, unsigned heads_per_kv) {
    return (size_t)4 * 64 * (head_dim + 8) * 2 + (size_t)4 * 16 * 16 +
           (size_t)8192 * (heads_per_kv > 8 ? 2 : 1);
}

/* Floats of the buffers of the split-K reduction, of n_rows rows. */
LN_HOST_DEVICE size_t ln_decode_sums_floats(size_t n_rows, bool has_gate) {
    return (has_gate ? 8u : 4u) * LN_K_SPLITS * LN_WEIGHT_TILE_ROWS * (n_rows | 1);
}

enum {
    LN_LINEAR_NORM_MAX_TASKS = 4,      /* a layer's linears between two attentions */
    LN_LINEAR_NORM_MIN_INT8_ROWS = 17, /* of INT8_ROW; fewer are faster apart */
    LN_LINEAR_NORM_MAX_ADAPTED = 12,   /* their weights with adapters */
    /* What adapters have of all these weights, sixteen ranks of a run of rows each, filled up to
     * four for each. */
    LN_LINEAR_NORM_MAX_ADAPTER_TILES = 384,
    LN_LINEAR_NORM_PART_COLS = 1024,        /* of a part of A x */
    LN_LINEAR_NORM_MAX_ADAPTER_ITEMS = 4096 /* parts of 1024 columns of a linear's tiles */
};

/* The operations of a mixture, as models record them. */
enum {
    LN_MIXTURE_ROUTE,
    LN_MIXTURE_GROUP,
    LN_MIXTURE_UP, /* and gate */
    LN_MIXTURE_DOWN,
    LN_MIXTURE_COMBINE,
    LN_MIXTURE_OPS
};

enum {
    LN_MIXTURE_MAX_USED = 16, /* experts of a token */
    LN_MIXTURE_MAX_EXPERTS = 1024,
    /* Floats of shared memory beside activations and three for each expert: sums of up and gate,
     * for a choice sums and results of down, and what aligns them. */
    LN_MIXTURE_MORE_FLOATS = 4 * LN_K_SPLITS * LN_WEIGHT_TILE_ROWS + 32,
    LN_MIXTURE_FLOATS_OF_CHOICE = (LN_K_SPLITS + 1) * LN_WEIGHT_TILE_ROWS
};

#endif
