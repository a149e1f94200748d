#include "backend/cpu/scalar/scalar.h"

#include "format/quants.h"

float ln_scalar_dot(const float *a, const float *b, size_t n) {
    float lanes[LN_SCALAR_LANES] = {0};
    size_t i = 0;
    for (; i + LN_SCALAR_LANES <= n; i += LN_SCALAR_LANES)
        for (size_t lane = 0; lane < LN_SCALAR_LANES; lane++)
            lanes[lane] += a[i + lane] * b[i + lane];
    for (size_t lane = 0; i + lane < n; lane++)
        lanes[lane] += a[i + lane] * b[i + lane];
    for (size_t half = LN_SCALAR_LANES / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; lane++)
            lanes[lane] += lanes[lane + half];
    return lanes[0];
}

static bool is_usable(const ln_cpu_features *processor) {
    (void)processor;
    return true;
}

static size_t max_size(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Floats of a worker: two weight rows (linear), or scores of a split, a row of the cache and a
 * split's result (attention, which covers qkv and latent), or a key and the scores of all positions
 * (index), or the scores of all experts, as they
 * are and with bias, and of their groups (route). */
static size_t plan_scratch(const ln_step_limits *limits) {
    size_t linear = 2 * limits->max_width;
    size_t attention = LN_KV_SPLIT + 3 * limits->max_head_dim;
    size_t index = limits->max_indexed > 0 ? limits->max_indexed + limits->max_head_dim : 0;
    size_t others = max_size(index, ln_state_scratch(limits->max_state_dim));
    return max_size(linear, max_size(attention, max_size(others, 3 * limits->max_experts)));
}

const ln_cpu_kernels ln_scalar_kernels = {
    .isa = "scalar",
    .is_usable = is_usable,
    .supports_weight = ln_can_dequantize,
    .plan_scratch = plan_scratch,
    .kernels =
        {
            [LN_OP_EMBED] = ln_scalar_embed,
            [LN_OP_NORM] = ln_scalar_norm,
            [LN_OP_LINEAR] = ln_scalar_linear,
            [LN_OP_LORA_SHRINK] = ln_scalar_lora_shrink,
            [LN_OP_QKV] = ln_scalar_qkv,
            [LN_OP_LATENT] = ln_scalar_latent,
            [LN_OP_COMPRESS] = ln_scalar_compress,
            [LN_OP_INDEX] = ln_scalar_index,
            [LN_OP_ATTENTION] = ln_scalar_attention,
            [LN_OP_ROUTE] = ln_scalar_route,
            [LN_OP_GROUP] = ln_scalar_group,
            [LN_OP_COMBINE] = ln_scalar_combine,
            [LN_OP_POINTWISE] = ln_scalar_pointwise,
            [LN_OP_CONV] = ln_scalar_conv,
            [LN_OP_SCAN] = ln_scalar_scan,
            [LN_OP_GATED_NORM] = ln_scalar_gated_norm,
            [LN_OP_ROWWISE] = ln_scalar_rowwise,
            [LN_OP_GATHER] = ln_scalar_gather,
            [LN_OP_COPY] = ln_scalar_copy,
            [LN_OP_SAMPLE] = ln_scalar_sample,
            [LN_OP_ALL_REDUCE] = ln_scalar_all_reduce,
            [LN_OP_RANK_GATHER] = ln_scalar_rank_gather,
            [LN_OP_RANK_PASS] = ln_scalar_rank_pass,
        },
};
