#include "model/ffn/hash_routing.h"

#include <stdlib.h>
#include <string.h>

#include "model/shard.h"

ln_status ln_spec_read_hash_routing(const ln_config *config, size_t layer, bool *hash_routed,
                                    ln_error *err) {
    ln_meta_value list, item;
    size_t n_first = 3;
    if (ln_config_find(config, (ln_key){"mlp_layer_types", ""}, &list, NULL)) {
        *hash_routed = ln_meta_item(&list, layer, &item) && item.kind == LN_META_STRING &&
                       ln_list_has("hash_moe", item.string.data, item.string.bytes);
        return LINNET_OK;
    }
    LN_TRY(ln_config_size(config, (ln_key){"num_hash_layers", "hash_layer_count"}, 0, LN_MAX_LAYERS,
                          &n_first, err));
    *hash_routed = layer < n_first;
    return LINNET_OK;
}

int64_t ln_whole_number(const ln_tensor *tensor, size_t i) {
    const uint8_t *data = tensor->data;
    int64_t of_64;
    int32_t of_32;
    if (tensor->dtype == LN_DTYPE_I64) {
        memcpy(&of_64, data + i * sizeof of_64, sizeof of_64);
        return of_64;
    }
    memcpy(&of_32, data + i * sizeof of_32, sizeof of_32);
    return of_32;
}

static ln_status read_experts(ln_loader *l, const ln_tensor *tensor, const ln_moe_spec *moe,
                              int32_t *experts) {
    for (size_t i = 0; i < (size_t)tensor->n_elems; i++) {
        int64_t number = ln_whole_number(tensor, i);
        if (number < 0 || (uint64_t)number >= moe->n_experts)
            return ln_fail(l->err, LINNET_ERR_FORMAT, "%s: tensor %s names expert %lld of %zu",
                           ln_checkpoint_path(l->checkpoint), tensor->name, (long long)number,
                           moe->n_experts);
        experts[i] = (int32_t)number;
    }
    return LINNET_OK;
}

ln_status ln_load_hash_experts(ln_loader *l, size_t i, const ln_moe_spec *moe,
                               const int32_t **out) {
    ln_tensor_id id = {.role = LN_ROLE_HASH_EXPERTS, .layer = i};
    const ln_binding *binding;
    const ln_tensor *tensor = ln_family_find(l->spec->family, l->checkpoint, id, &binding);
    const char *path = ln_checkpoint_path(l->checkpoint);
    size_t n = ln_shard_whole(l->spec)->n_vocab * moe->n_used;
    if (tensor == NULL)
        return ln_fail(l->err, LINNET_ERR_FORMAT,
                       "%s: layer %zu has no table of the experts that tokens meet (tid2eid)", path,
                       i);
    if ((tensor->dtype != LN_DTYPE_I64 && tensor->dtype != LN_DTYPE_I32) || tensor->n_elems != n)
        return ln_fail(l->err, LINNET_ERR_FORMAT, "%s: tensor %s does not hold %zu whole numbers",
                       path, tensor->name, n);
    if (l->unused != NULL)
        ln_unused_tensors_mark(l->unused, tensor);
    size_t offset = ln_layout_add(&l->layout, n, sizeof(int32_t));
    if (l->writable == NULL)
        return LINNET_OK;
    int32_t *experts = calloc(n, sizeof *experts);
    if (experts == NULL)
        return ln_fail_memory(l->err, "a table of experts");
    ln_status status = read_experts(l, tensor, moe, experts);
    if (status == LINNET_OK) {
        l->writable->vtable->upload(l->writable, l->memory + offset, experts, n * sizeof *experts);
        *out = (const int32_t *)(const void *)(l->memory + offset);
    }
    free(experts);
    return status;
}
