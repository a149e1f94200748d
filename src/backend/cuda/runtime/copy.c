/* Copies of KV blocks, within the device and between it and the swap space of the host. */
#include "backend/cuda/ops.h"

static int copy_array(const ln_kv_layer *layer, const void *from, void *to,
                      const ln_block_copy *copy, size_t dim, ln_cuda_stream stream) {
    size_t bytes = layer->n_heads * ln_kv_head_bytes(layer->dtype, layer->block_tokens, dim);
    return ln_cuda_copy_any((char *)to + (size_t)copy->to * bytes,
                            (const char *)from + (size_t)copy->from * bytes, bytes, stream);
}

int ln_cuda_copy(const ln_op *op, const ln_cuda_step *step, ln_cuda_stream stream) {
    const ln_op_copy *p = &op->copy;
    int code = 0;
    (void)step;
    for (size_t i = 0; i < p->n_copies; i++) {
        const ln_block_copy *copy = &p->copies[i];
        const ln_kv_layer *from = copy->direction == LN_COPY_IN ? p->swap : p->layers;
        const ln_kv_layer *to = copy->direction == LN_COPY_OUT ? p->swap : p->layers;
        for (size_t layer = 0; layer < p->n_layers && code == 0; layer++) {
            if ((int32_t)from[layer].group != copy->group)
                continue;
            code = copy_array(&from[layer], from[layer].k, to[layer].k, copy, from[layer].k_dim,
                              stream);
            if (code == 0 && from[layer].v != from[layer].k)
                code = copy_array(&from[layer], from[layer].v, to[layer].v, copy, from[layer].v_dim,
                                  stream);
        }
    }
    return code;
}
