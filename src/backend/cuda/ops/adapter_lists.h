/* Adapters as one more K split of a GEMM: y = x W^T + low B^T, whose K steps are the ranks of all
 * runs of rows, sixteen at a time; low has zeros where a row is of another run.
 * ops/lora_shrink_mma.cu makes it, so a launch does not depend on which adapters a step has. */
#ifndef LN_BACKEND_CUDA_OPS_ADAPTER_LISTS_H
#define LN_BACKEND_CUDA_OPS_ADAPTER_LISTS_H

#include <stddef.h>

enum {
    LN_ADAPTER_LISTS = 3,       /* linears of a GEMM */
    LN_ADAPTER_MAX_STEPS = 512, /* of a list */
    LN_ADAPTER_STAGE_STEPS = 8, /* K steps of a pipeline stage: lists are filled up to them */
    LN_ADAPTER_LIST_ROWS = 64,
    LN_ADAPTER_LIST_TILE = 8192, /* bytes of an activation tile: 64 rows, 4 K steps */
    LN_ADAPTER_LIST_TILES = LN_ADAPTER_MAX_STEPS / 4
};

/* B of sixteen ranks: fragments of the first 64 columns, and bytes from those to the next 64. */
typedef struct ln_adapter_step {
    const char *b;
    size_t stride;
} ln_adapter_step;

typedef struct ln_adapter_list {
    unsigned n, n_up;   /* K steps; those of a gated linear that are not the gate's come first */
    unsigned unused[2]; /* steps lie at multiples of 16 bytes */
    ln_adapter_step steps[LN_ADAPTER_MAX_STEPS];
} ln_adapter_list;

typedef struct ln_adapter_lists {
    char low[LN_ADAPTER_LISTS][LN_ADAPTER_LIST_TILES][LN_ADAPTER_LIST_TILE];
    ln_adapter_list lists[LN_ADAPTER_LISTS];
} ln_adapter_lists;

#endif
