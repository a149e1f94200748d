/* The memory of the KV cache: where each layer's blocks lie, in the cache and in the swap space. */
#ifndef LN_ENGINE_KV_MEMORY_H
#define LN_ENGINE_KV_MEMORY_H

#include "engine/plan/kv.h"

typedef struct ln_kv_memory {
    ln_kv_layer *layers; /* [ln_kv_layer_count] */
    ln_kv_layer *swap;   /* [ln_kv_layer_count] */
} ln_kv_memory;

/* The operation that makes copies[n_copies] of KV blocks in the layers of the range. */
static inline ln_op ln_kv_copy_op(const ln_kv_memory *memory, ln_kv_range range,
                                  const ln_block_copy *copies, size_t n_copies) {
    return (ln_op){.kind = LN_OP_COPY,
                   .layer = -1,
                   .copy = {.layers = memory->layers + range.first,
                            .swap = memory->swap + range.first,
                            .n_layers = range.end - range.first,
                            .copies = copies,
                            .n_copies = n_copies}};
}

#endif
