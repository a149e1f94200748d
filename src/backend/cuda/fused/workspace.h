/* Device memory of the fused kernels, all 0 at first: hand-off memory of the decode kernel, then
 * counters and partial sums of the linear + norm kernel. */
#ifndef LN_BACKEND_CUDA_FUSED_WORKSPACE_H
#define LN_BACKEND_CUDA_FUSED_WORKSPACE_H

#include <stddef.h>

enum {
    LN_DECODE_WORKSPACE_BYTES = 8 << 20,
    LN_LINEAR_NORM_COUNTER_BYTES = 2048,
    LN_LINEAR_NORM_BLOCK_BYTES = 32 * 1024 /* partial sums of a block, of which an SM has one */
};

static inline size_t ln_fused_workspace_bytes(unsigned n_sms) {
    return LN_DECODE_WORKSPACE_BYTES + LN_LINEAR_NORM_COUNTER_BYTES +
           (size_t)n_sms * LN_LINEAR_NORM_BLOCK_BYTES;
}

#endif
