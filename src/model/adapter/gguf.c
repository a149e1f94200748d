/* Adapters as llama.cpp's convert_lora_to_gguf.py writes them: blk.N.attn_q.weight.lora_a and
 * .lora_b, with adapter.lora.alpha. */
#include <string.h>

#include "model/adapter/file.h"

static bool is_text(const ln_gguf *gguf, const char *key, const char *text) {
    ln_meta_value value;
    return ln_gguf_find(gguf, key, &value) && value.kind == LN_META_STRING &&
           value.string.bytes == strlen(text) &&
           memcmp(value.string.data, text, value.string.bytes) == 0;
}

static ln_status read_alpha(const ln_adapter_file *file, double *alpha, ln_error *err) {
    ln_meta_value value;
    *alpha = 0;
    if (!ln_gguf_find(&file->gguf, "adapter.lora.alpha", &value))
        return LINNET_OK;
    *alpha = value.kind == LN_META_FLOAT ? value.real
             : value.kind == LN_META_INT ? (double)value.integer
                                         : -1;
    if (*alpha >= 0 && *alpha < 1e9)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: key adapter.lora.alpha is no such number",
                   file->path);
}

/* The module of a tensor's name, which ends in ".weight.lora_a" or "_b"; false: it does not. */
static bool split_name(const char *name, size_t *n_module, bool *is_a) {
    static const char *const ends[] = {".weight.lora_a", ".weight.lora_b"};
    size_t n = strlen(name), n_end = strlen(ends[0]);
    for (int i = 0; i < 2; i++) {
        if (n <= n_end || strcmp(name + n - n_end, ends[i]) != 0)
            continue;
        *n_module = n - n_end;
        *is_a = i == 0;
        return true;
    }
    return false;
}

ln_status ln_adapter_read_gguf(ln_adapter_file *file, ln_error *err) {
    double alpha;
    if (!is_text(&file->gguf, "general.type", "adapter") ||
        !is_text(&file->gguf, "adapter.type", "lora"))
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: no adapter: general.type is not \"adapter\", or adapter.type not "
                       "\"lora\"",
                       file->path);
    if (ln_gguf_find(&file->gguf, "adapter.alora.invocation_tokens", &(ln_meta_value){0}))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: adapters that invocation tokens switch on are not supported",
                       file->path);
    LN_TRY(read_alpha(file, &alpha, err));
    for (size_t i = 0; i < file->tensors.count; i++) {
        const ln_tensor *tensor = &file->tensors.items[i];
        size_t n_module;
        bool is_a;
        if (!split_name(tensor->name, &n_module, &is_a))
            return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                           "%s: tensor %s is neither lora_a nor lora_b of a matrix", file->path,
                           tensor->name);
        ln_adapter_part *part = ln_adapter_file_part(file, tensor->name, n_module);
        if (part == NULL)
            return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", file->path);
        *(is_a ? &part->a : &part->b) = tensor;
        part->is_embedding = strcmp(part->module, "token_embd") == 0;
        part->a_by_rank = !part->is_embedding;
        if (!is_a && tensor->n_dims == 2) {
            part->rank = (size_t)tensor->dims[1];
            part->scale = alpha > 0 ? alpha / (double)part->rank : 1.0;
        }
    }
    return LINNET_OK;
}
