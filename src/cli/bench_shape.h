/* Checkpoints of known shapes with random weights, for benchmarks that anyone can repeat. */
#ifndef LN_CLI_BENCH_SHAPE_H
#define LN_CLI_BENCH_SHAPE_H

#include <linnet.h>

/* The names of the shapes and of the mixtures of types, for messages: "a, b or c". */
extern const char ln_cli_shape_names[];
extern const char ln_cli_mixture_names[];

/* Writes a GGUF file of the shape `shape` ("tinyllama-1.1b") with random weights in the mixture
 * `type` ("q4_0"): the types that llama.cpp's quantiser gives each tensor under that name.
 * Errors: ARGUMENT for an unknown name, IO. */
linnet_status ln_cli_write_shape(const char *shape, const char *type, const char *path,
                                 linnet_error *err);

#endif
