/* The table of one instruction set: what is vectorised here, the rest from the scalar kernels. */
#ifndef LN_BACKEND_CPU_SIMD_TABLE_H
#define LN_BACKEND_CPU_SIMD_TABLE_H

#include "backend/cpu/scalar/scalar.h"
#include "backend/cpu/simd/attention.h"
#include "backend/cpu/simd/conv.h"
#include "backend/cpu/simd/indexer.h"
#include "backend/cpu/simd/linear.h"
#include "backend/cpu/simd/moe.h"
#include "backend/cpu/simd/norm.h"
#include "backend/cpu/simd/scan.h"
#include "backend/cpu/simd/spin.h"
#include "base/cpuid.h"

static bool supports_weight(ln_dtype dtype) {
    return ln_can_dequantize(dtype);
}

static size_t plan_scratch(const ln_step_limits *limits) {
    size_t scalar = ln_scalar_kernels.plan_scratch(limits);
    size_t multiply = linear_scratch(limits->max_width);
    size_t attend = attention_scratch(limits->max_head_dim);
    size_t own = multiply > attend ? multiply : attend;
    size_t index = indexer_scratch(limits->max_indexed, limits->max_head_dim);
    own = index > own ? index : own;
    size_t recur = scan_scratch(limits->max_state_dim);
    own = recur > own ? recur : own;
    return scalar > own ? scalar : own;
}

static size_t plan_shared(const ln_step_limits *limits) {
    size_t multiply = linear_shared(limits->max_width);
    size_t scores = whole_vectors(limits->max_indexed) * sizeof(float);
    multiply = scores > multiply ? scores : multiply;
    return multiply > ATTENTION_SHARED ? multiply : ATTENTION_SHARED;
}

#ifndef LN_PACKER
#define LN_PACKER ln_pack_panel
#endif

#define LN_SIMD_TABLE(name)                                                                        \
    {                                                                                              \
        .isa = (name), .is_usable = is_usable, .supports_weight = supports_weight,                 \
        .packer = LN_PACKER, .packs = (1u << LN_PACK_COUNT) - (1u << (LN_PACK_NONE + 1)),          \
        .rounds_f32 = ROUNDS_F32 != 0, .plan_scratch = plan_scratch, .plan_shared = plan_shared,   \
        .spin_int8 = spin_int8, .spin_float = spin_float,                                          \
        .kernels = {                                                                               \
            [LN_OP_EMBED] = embed,                                                                 \
            [LN_OP_NORM] = norm,                                                                   \
            [LN_OP_LINEAR] = linear,                                                               \
            [LN_OP_LORA_SHRINK] = lora_shrink,                                                     \
            [LN_OP_QKV] = qkv,                                                                     \
            [LN_OP_LATENT] = latent,                                                               \
            [LN_OP_COMPRESS] = ln_scalar_compress,                                                 \
            [LN_OP_INDEX] = index_positions,                                                       \
            [LN_OP_ATTENTION] = attention,                                                         \
            [LN_OP_ROUTE] = ln_scalar_route,                                                       \
            [LN_OP_GROUP] = ln_scalar_group,                                                       \
            [LN_OP_COMBINE] = combine,                                                             \
            [LN_OP_CONV] = conv,                                                                   \
            [LN_OP_SCAN] = scan,                                                                   \
            [LN_OP_GATED_NORM] = gated_norm,                                                       \
            [LN_OP_GATHER] = ln_scalar_gather,                                                     \
            [LN_OP_COPY] = ln_scalar_copy,                                                         \
            [LN_OP_SAMPLE] = ln_scalar_sample,                                                     \
            [LN_OP_ALL_REDUCE] = ln_scalar_all_reduce,                                             \
            [LN_OP_RANK_GATHER] = ln_scalar_rank_gather,                                           \
            [LN_OP_RANK_PASS] = ln_scalar_rank_pass,                                               \
            [LN_OP_POINTWISE] = ln_scalar_pointwise,                                               \
            [LN_OP_ROWWISE] = ln_scalar_rowwise,                                                   \
        },                                                                                         \
    }

#endif
