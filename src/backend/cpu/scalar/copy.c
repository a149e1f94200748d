#include "backend/cpu/scalar/scalar.h"

#include <string.h>

/* A worker's share of a block: the same bytes of every block, so that its copies keep their order
 * without a look at the others. */
static void copy_array(const ln_kv_layer *from_layer, const void *from, void *to,
                       const ln_block_copy *copy, size_t dim, const ln_cpu_worker *worker) {
    size_t head_bytes = ln_kv_head_bytes(from_layer->dtype, from_layer->block_tokens, dim);
    size_t block_bytes = from_layer->n_heads * head_bytes, begin, end;
    ln_cpu_share(worker, block_bytes, &begin, &end);
    const char *source = (const char *)from + (size_t)copy->from * block_bytes;
    char *target = (char *)to + (size_t)copy->to * block_bytes;
    memcpy(target + begin, source + begin, end - begin);
}

void ln_scalar_copy(const ln_op *op, const ln_cpu_worker *worker) {
    const ln_op_copy *p = &op->copy;
    for (size_t i = 0; i < p->n_copies; i++) {
        const ln_block_copy *copy = &p->copies[i];
        const ln_kv_layer *from = copy->direction == LN_COPY_IN ? p->swap : p->layers;
        const ln_kv_layer *to = copy->direction == LN_COPY_OUT ? p->swap : p->layers;
        for (size_t layer = 0; layer < p->n_layers; layer++) {
            if ((int32_t)from[layer].group != copy->group || from[layer].k == NULL)
                continue; /* another group's, or a layer without a cache */
            copy_array(&from[layer], from[layer].k, to[layer].k, copy, from[layer].k_dim, worker);
            if (from[layer].v != from[layer].k)
                copy_array(&from[layer], from[layer].v, to[layer].v, copy, from[layer].v_dim,
                           worker);
        }
    }
}
