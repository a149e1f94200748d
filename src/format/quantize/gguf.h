/* A GGUF file from another: the same metadata, matrices in other types. */
#ifndef LN_FORMAT_QUANTIZE_GGUF_H
#define LN_FORMAT_QUANTIZE_GGUF_H

#include "format/checkpoint.h"
#include "format/quantize/mix.h"

typedef struct ln_quantize_options {
    const ln_mix *mix;
    const ln_keep_rule *rules; /* [n_rules] */
    size_t n_rules, n_threads;
    bool (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes); /* or NULL */
    void *user;
} ln_quantize_options;

/* Writes `path`. Tensors that have their type already are copied; what GGUF holds beside values
 * stays. A split checkpoint becomes one file. Errors: ARGUMENT (not GGUF), UNSUPPORTED (a tensor
 * whose type cannot be read), and those of ln_write_gguf. */
ln_status ln_quantize_gguf(const ln_checkpoint *checkpoint, const char *path,
                           const ln_quantize_options *options, ln_error *err);

#endif
