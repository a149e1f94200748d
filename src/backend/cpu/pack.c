#include "backend/cpu/pack.h"

#include "base/checked.h"

static const ln_pack packs[LN_DTYPE_COUNT] = {
    [LN_DTYPE_Q4_0] = LN_PACK_Q4_0,       [LN_DTYPE_Q8_0] = LN_PACK_Q8_0,
    [LN_DTYPE_Q4_K] = LN_PACK_Q4_K,       [LN_DTYPE_Q6_K] = LN_PACK_Q6_K,
    [LN_DTYPE_Q5_0] = LN_PACK_Q5_0,       [LN_DTYPE_Q5_K] = LN_PACK_Q5_K,
    [LN_DTYPE_Q3_K] = LN_PACK_Q3_K,       [LN_DTYPE_IQ4_NL] = LN_PACK_IQ4_NL,
    [LN_DTYPE_Q4_1] = LN_PACK_Q4_1,       [LN_DTYPE_Q5_1] = LN_PACK_Q5_1,
    [LN_DTYPE_Q2_K] = LN_PACK_Q2_K,       [LN_DTYPE_IQ4_XS] = LN_PACK_IQ4_XS,
    [LN_DTYPE_I8_G32] = LN_PACK_I8,       [LN_DTYPE_I4_G32] = LN_PACK_I4,
    [LN_DTYPE_MXFP4] = LN_PACK_MXFP4,     [LN_DTYPE_F8_G32] = LN_PACK_F8,
    [LN_DTYPE_F16] = LN_PACK_BF16,        [LN_DTYPE_BF16] = LN_PACK_BF16,
    [LN_DTYPE_TQ1_0] = LN_PACK_TQ1_0,     [LN_DTYPE_TQ2_0] = LN_PACK_TQ2_0,
    [LN_DTYPE_IQ1_S] = LN_PACK_IQ1_S,     [LN_DTYPE_IQ1_M] = LN_PACK_IQ1_M,
    [LN_DTYPE_IQ2_XXS] = LN_PACK_IQ2_XXS, [LN_DTYPE_IQ2_XS] = LN_PACK_IQ2_XS,
    [LN_DTYPE_IQ2_S] = LN_PACK_IQ2_S,     [LN_DTYPE_IQ3_XXS] = LN_PACK_IQ3_XXS,
    [LN_DTYPE_IQ3_S] = LN_PACK_IQ3_S,     [LN_DTYPE_Q1_0] = LN_PACK_Q1_0,
    [LN_DTYPE_Q2_0] = LN_PACK_Q2_0,       [LN_DTYPE_F32] = LN_PACK_BF16,
};

ln_pack ln_pack_of(ln_dtype dtype) {
    return packs[dtype];
}

bool ln_pack_panel_bytes(ln_pack pack, size_t n_cols, size_t *bytes) {
    ln_pack_shape shape = ln_pack_shapes[pack];
    return ln_mul(n_cols / shape.cols + (n_cols % shape.cols != 0), shape.bytes, bytes);
}
