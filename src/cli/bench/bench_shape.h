/* Checkpoints of known shapes with random weights, for benchmarks that anyone can repeat. */
#ifndef LN_CLI_BENCH_BENCH_SHAPE_H
#define LN_CLI_BENCH_BENCH_SHAPE_H

#include <linnet.h>

/* The names of the shapes and of the mixtures of types, for help and messages. */
#define LN_CLI_SHAPE_NAMES                                                                         \
    "tinyllama-1.1b, llama-2-7b, mistral-7b, llama-3-8b, small-mixtral, mixtral-2-layers, "        \
    "qwen3-moe-4-layers, gpt-oss-4-layers or small-deepseek"
#define LN_CLI_MIXTURE_NAMES                                                                       \
    "q4_0, q8_0, q4_k_m, mxfp4_moe, iq1_s, iq2_xxs, iq2_s, iq3_xxs, iq3_s, tq1_0, tq2_0, f16, "    \
    "bf16 or f32"

/* Writes a GGUF file of the shape `shape` ("tinyllama-1.1b") with random weights in the mixture
 * `type` ("q4_0"): the types that llama.cpp's quantiser gives each tensor under that name.
 * Errors: ARGUMENT for an unknown name, IO. */
linnet_status ln_cli_write_shape(const char *shape, const char *type, const char *path,
                                 linnet_error *err);

#endif
