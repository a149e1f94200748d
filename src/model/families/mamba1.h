/* Tensors of Mamba 1's mixers. */
#ifndef LN_MODEL_FAMILIES_MAMBA1_H
#define LN_MODEL_FAMILIES_MAMBA1_H

#include "model/families/bindings.h"

#define LN_MAMBA1_INPUT(mixer_role, base)                                                          \
    {                                                                                              \
        .role = mixer_role, .hf = base ".in_proj", .gguf = "blk.%d.ssm_in",                        \
        .hf_part = LN_PART_MIXER_HALVES, .gguf_part = LN_PART_MIXER_HALVES                         \
    }
#define LN_MAMBA1_CONTROL(mixer_role, base)                                                        \
    {                                                                                              \
        .role = mixer_role, .hf = base ".x_proj", .gguf = "blk.%d.ssm_x",                          \
        .hf_part = LN_PART_MIXER_CONTROLS, .gguf_part = LN_PART_MIXER_CONTROLS                     \
    }
#define LN_MAMBA1_VECTOR(mixer_role, name, gguf_name)                                              \
    { .role = mixer_role, .hf = name, .gguf = gguf_name, .hf_bare = true, .gguf_bare = true }

/* Of a mixer whose names in folders begin with `base`. */
#define LN_MAMBA1_MIXER(base)                                                                      \
    LN_MAMBA1_INPUT(LN_ROLE_MIXER_IN, base), LN_MAMBA1_INPUT(LN_ROLE_MIXER_GATE, base),            \
        {.role = LN_ROLE_MIXER_CONV, .hf = base ".conv1d"},                                        \
        LN_MAMBA1_CONTROL(LN_ROLE_MIXER_A_LOW, base), LN_MAMBA1_CONTROL(LN_ROLE_MIXER_K, base),    \
        LN_MAMBA1_CONTROL(LN_ROLE_MIXER_Q, base),                                                  \
        {.role = LN_ROLE_MIXER_A, .hf = base ".dt_proj", .gguf = "blk.%d.ssm_dt"},                 \
        LN_MAMBA1_VECTOR(LN_ROLE_MIXER_RATE, base ".A_log", "blk.%d.ssm_a"),                       \
        LN_MAMBA1_VECTOR(LN_ROLE_MIXER_SKIP, base ".D", "blk.%d.ssm_d"), {                         \
        .role = LN_ROLE_MIXER_OUT, .hf = base ".out_proj"                                          \
    }

#endif
