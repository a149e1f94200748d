/* Tensors of Mamba 2's mixers, which many families share. */
#ifndef LN_MODEL_FAMILIES_MAMBA2_H
#define LN_MODEL_FAMILIES_MAMBA2_H

#include "model/families/bindings.h"

#define LN_MAMBA2_INPUT(mixer_role, base)                                                          \
    {                                                                                              \
        .role = mixer_role, .hf = base ".in_proj", .gguf = "blk.%d.ssm_in",                        \
        .hf_part = LN_PART_MIXER_SSD, .gguf_part = LN_PART_MIXER_SSD                               \
    }
#define LN_MAMBA2_VECTOR(mixer_role, name, gguf_name)                                              \
    { .role = mixer_role, .hf = name, .gguf = gguf_name, .hf_bare = true, .gguf_bare = true }

/* Of a mixer whose names in folders begin with `base`. */
#define LN_MAMBA2_MIXER(base)                                                                      \
    LN_MAMBA2_INPUT(LN_ROLE_MIXER_GATE, base), LN_MAMBA2_INPUT(LN_ROLE_MIXER_IN, base),            \
        LN_MAMBA2_INPUT(LN_ROLE_MIXER_A, base),                                                    \
        {.role = LN_ROLE_MIXER_CONV, .hf = base ".conv1d"},                                        \
        LN_MAMBA2_VECTOR(LN_ROLE_MIXER_RATE, base ".A_log", "blk.%d.ssm_a"),                       \
        LN_MAMBA2_VECTOR(LN_ROLE_MIXER_A_BIAS, base ".dt_bias", "blk.%d.ssm_dt.bias"),             \
        LN_MAMBA2_VECTOR(LN_ROLE_MIXER_SKIP, base ".D", "blk.%d.ssm_d"),                           \
        {.role = LN_ROLE_MIXER_NORM, .hf = base ".norm"}, {                                        \
        .role = LN_ROLE_MIXER_OUT, .hf = base ".out_proj"                                          \
    }

#endif
