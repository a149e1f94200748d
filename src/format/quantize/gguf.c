#include "format/quantize/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "format/quantize/write.h"
#include "format/quants.h"

enum { QUANTIZATION_VERSION = 2 };

/* ---- metadata --------------------------------------------------------------------------- */

/* Keys that are written anew, or say how the old file was laid out. */
static bool is_rewritten(const char *key, size_t n_bytes) {
    static const char *const keys[] = {"general.file_type", "general.quantization_version",
                                       "general.alignment"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (n_bytes == strlen(keys[i]) && memcmp(key, keys[i], n_bytes) == 0)
            return true;
    return n_bytes >= 6 && memcmp(key, "split.", 6) == 0;
}

static ln_status copy_metadata(const ln_checkpoint *checkpoint, const ln_mix *mix,
                               ln_gguf_writer *writer, ln_error *err) {
    int fd;
    size_t bytes;
    const char *path = ln_checkpoint_file(checkpoint, 0, &fd, &bytes);
    ln_file_map map;
    LN_TRY(ln_file_map_open(&map, path, err));
    ln_status status = ln_gguf_copy_meta(writer, map.data, map.bytes, is_rewritten, err);
    ln_file_map_close(&map);
    if (status != LINNET_OK)
        return ln_error_prefix(err, status, path);
    ln_gguf_put_u32(writer, "general.quantization_version", QUANTIZATION_VERSION);
    ln_gguf_put_u32(writer, "general.file_type", mix->file_type);
    return LINNET_OK;
}

/* A whole number under "ARCHITECTURE.name"; of a list, the greatest. */
static size_t number_of(const ln_checkpoint *checkpoint, const char *architecture, const char *name,
                        size_t fallback) {
    char key[128];
    ln_meta_value value, item;
    int64_t most = 0;
    snprintf(key, sizeof key, "%s.%s", architecture, name);
    if (!ln_checkpoint_meta(checkpoint, key, &value))
        return fallback;
    if (value.kind == LN_META_INT)
        most = value.integer;
    for (size_t i = 0; ln_meta_item(&value, i, &item); i++)
        if (item.kind == LN_META_INT && item.integer > most)
            most = item.integer;
    return most > 0 ? (size_t)most : fallback;
}

static void describe(const ln_checkpoint *checkpoint, ln_mix_model *model) {
    ln_meta_value value;
    *model = (ln_mix_model){.has_output = ln_checkpoint_find(checkpoint, "output.weight") != NULL};
    if (ln_checkpoint_meta(checkpoint, "general.architecture", &value) &&
        value.kind == LN_META_STRING)
        snprintf(model->architecture, sizeof model->architecture, "%.*s",
                 (int)(value.string.bytes < 63 ? value.string.bytes : 63), value.string.data);
    const char *arch = model->architecture;
    model->n_layers = number_of(checkpoint, arch, "block_count", 1);
    model->n_experts = number_of(checkpoint, arch, "expert_count", 0);
    size_t heads = number_of(checkpoint, arch, "attention.head_count", 1);
    model->heads_per_kv = heads / number_of(checkpoint, arch, "attention.head_count_kv", heads);
}

/* ---- tensors ---------------------------------------------------------------------------- */

static ln_status read_rows(const ln_write_tensor *tensor, size_t row, size_t n_rows, float *out,
                           ln_error *err) {
    const ln_tensor *from = tensor->source;
    size_t n_cols = (size_t)tensor->dims[tensor->n_dims - 1], row_bytes;
    if (!ln_dtype_row_bytes(from->dtype, n_cols, &row_bytes))
        return ln_fail(err, LINNET_ERR_FORMAT, "tensor %s: its rows are no whole number of blocks",
                       tensor->name);
    ln_dequantize_row(from->dtype, from->data + row * row_bytes, out, n_rows * n_cols);
    return LINNET_OK;
}

static bool holds_integers(ln_dtype dtype) {
    return dtype == LN_DTYPE_I8 || dtype == LN_DTYPE_I16 || dtype == LN_DTYPE_I32 ||
           dtype == LN_DTYPE_I64;
}

static ln_status plan_tensor(const ln_mix_choice *choice, const ln_tensor *from,
                             ln_write_tensor *to, ln_error *err) {
    *to = (ln_write_tensor){.name = from->name, .dtype = from->dtype, .n_dims = from->n_dims};
    memcpy(to->dims, from->dims, sizeof to->dims);
    to->source = from;
    if (!holds_integers(from->dtype))
        to->dtype = ln_mix_choose(choice, from->name, from->n_dims, from->dims, from->dtype);
    if (to->dtype == from->dtype)
        to->raw = from->data;
    else if (!ln_can_dequantize(from->dtype))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED, "tensor %s: type %s cannot be read", from->name,
                       ln_dtype_name(from->dtype));
    return LINNET_OK;
}

ln_status ln_quantize_gguf(const ln_checkpoint *checkpoint, const char *path,
                           const ln_quantize_options *options, ln_error *err) {
    if (ln_checkpoint_get_format(checkpoint) != LN_FORMAT_GGUF)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "%s is not a GGUF file; `linnet convert' takes a folder",
                       ln_checkpoint_path(checkpoint));
    size_t n_tensors = ln_checkpoint_tensor_count(checkpoint);
    ln_mix_choice choice = {options->mix, options->rules, options->n_rules, {{0}, 0, 0, 0, false}};
    ln_write_tensor *tensors = calloc(n_tensors + 1, sizeof *tensors);
    if (tensors == NULL)
        return ln_fail_memory(err, "the list of tensors");
    describe(checkpoint, &choice.model);
    ln_status status = LINNET_OK;
    for (size_t i = 0; i < n_tensors && status == LINNET_OK; i++)
        status = plan_tensor(&choice, ln_checkpoint_tensor(checkpoint, i), &tensors[i], err);
    if (status != LINNET_OK)
        status = ln_error_prefix(err, status, ln_checkpoint_path(checkpoint));
    ln_gguf_writer writer;
    ln_gguf_writer_init(&writer);
    if (status == LINNET_OK)
        status = copy_metadata(checkpoint, options->mix, &writer, err);
    ln_write_job job = {.tensors = tensors,
                        .n_tensors = n_tensors,
                        .n_threads = options->n_threads,
                        .rules = options->rules,
                        .n_rules = options->n_rules,
                        .rows = read_rows,
                        .progress = options->progress,
                        .user = options->user};
    if (status == LINNET_OK)
        status = ln_write_gguf(&writer, path, &job, err);
    ln_gguf_writer_free(&writer);
    free(tensors);
    return status;
}
