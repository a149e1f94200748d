#include "model/adapter/file.h"

#include <stdlib.h>
#include <string.h>

#include "format/quants.h"
#include "format/safetensors.h"

enum { MAX_CONFIG_BYTES = 16 << 20 };

ln_adapter_part *ln_adapter_file_find(const ln_adapter_file *file, const char *module) {
    uint32_t index;
    return ln_hashmap_get(&file->by_module, module, strlen(module), &index) ? &file->parts[index]
                                                                            : NULL;
}

ln_adapter_part *ln_adapter_file_part(ln_adapter_file *file, const char *module, size_t n_bytes) {
    uint32_t index;
    if (ln_hashmap_get(&file->by_module, module, n_bytes, &index))
        return &file->parts[index];
    char *name = ln_arena_copy(&file->arena, module, n_bytes);
    index = (uint32_t)file->n_parts;
    if (name == NULL || !ln_hashmap_add(&file->by_module, name, n_bytes, index))
        return NULL;
    file->parts[index] = (ln_adapter_part){.module = name, .scale = 1.0};
    file->n_parts++;
    return &file->parts[index];
}

/* ---- what both forms must hold ------------------------------------------------------------- */

static ln_status check_matrix(const ln_adapter_file *file, const ln_tensor *tensor, ln_error *err) {
    if (!ln_can_dequantize(tensor->dtype))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: tensor %s: matrices of type %s are not supported", file->path,
                       tensor->name, ln_dtype_name(tensor->dtype));
    if (tensor->n_dims == 2 && tensor->dims[0] > 0 && tensor->dims[1] > 0)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s is no matrix", file->path, tensor->name);
}

/* The lengths that a DoRA gives a module's rows. */
static ln_status check_magnitude(const ln_adapter_file *file, const ln_adapter_part *part,
                                 ln_error *err) {
    const ln_tensor *tensor = part->magnitude;
    if (part->is_embedding || part->n_experts > 0)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: module %s: DoRA of embeddings and experts is not supported", file->path,
                       part->module);
    if (ln_dtype_block_elems(tensor->dtype) == 1 && ln_can_dequantize(tensor->dtype) &&
        tensor->n_elems == part->b->dims[0])
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s has not a value for each row of B",
                   file->path, tensor->name);
}

static ln_status check_part(ln_adapter_file *file, const ln_adapter_part *part, ln_error *err) {
    if (part->vector != NULL) {
        LN_TRY(check_matrix(file, part->vector, err));
        if (part->a == NULL && part->b == NULL)
            return LINNET_OK;
    }
    if (part->vector != NULL || part->a == NULL || part->b == NULL)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: module %s lacks one of its matrices A and B",
                       file->path, part->module);
    LN_TRY(check_matrix(file, part->a, err));
    LN_TRY(check_matrix(file, part->b, err));
    uint64_t rank = part->b->dims[1], of_a = part->a->dims[part->a_by_rank ? 0 : 1];
    if (rank != of_a)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: module %s: A has rank %llu and B %llu",
                       file->path, part->module, (unsigned long long)of_a,
                       (unsigned long long)rank);
    if (part->n_experts > 0 && rank == part->rank * part->n_experts)
        rank = part->rank; /* of one of them */
    size_t most =
        LN_MAX_ADAPTER_RANK * (part->n_experts > 0 ? 2u : 1u); /* gates and ups have two */
    if (rank > most)
        return ln_fail(err, LINNET_ERR_LIMIT,
                       "%s: module %s: its rank is %llu; at most %zu is possible", file->path,
                       part->module, (unsigned long long)rank, most);
    if (part->rank != rank)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: module %s: its rank is %llu, and the configuration says %zu",
                       file->path, part->module, (unsigned long long)rank, part->rank);
    file->rank = part->rank > file->rank ? part->rank : file->rank;
    return part->magnitude != NULL ? check_magnitude(file, part, err) : LINNET_OK;
}

static ln_status check(ln_adapter_file *file, ln_error *err) {
    if (file->n_parts == 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: the adapter has no matrices", file->path);
    for (size_t i = 0; i < file->n_parts; i++)
        LN_TRY(check_part(file, &file->parts[i], err));
    return LINNET_OK;
}

/* ---- opening ------------------------------------------------------------------------------- */

static ln_status no_memory(const ln_adapter_file *file, ln_error *err) {
    return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", file->path);
}

/* Room for a part of each tensor. */
static ln_status make_parts(ln_adapter_file *file, ln_error *err) {
    size_t n = file->tensors.count;
    file->parts = ln_arena_alloc(&file->arena, n + 1, sizeof *file->parts);
    return file->parts != NULL && ln_hashmap_init(&file->by_module, &file->arena, n + 1)
               ? LINNET_OK
               : no_memory(file, err);
}

static ln_status read_config(ln_adapter_file *file, const char *path, ln_error *err) {
    ln_strbuf text = {0};
    ln_status status = ln_file_read(path, MAX_CONFIG_BYTES, &text, err);
    if (status == LINNET_OK) {
        status =
            ln_json_parse(text.data != NULL ? text.data : "", text.len, &file->config, NULL, err);
        if (status != LINNET_OK)
            ln_error_prefix(err, status, path);
    }
    ln_strbuf_free(&text);
    return status;
}

static ln_status read_tensors(ln_adapter_file *file, const char *path, ln_error *err) {
    LN_TRY(ln_file_map_open(&file->map, path, err));
    ln_status status =
        ln_safetensors_parse(file->map.data, file->map.bytes, 0, &file->arena, &file->tensors, err);
    if (status != LINNET_OK)
        return ln_error_prefix(err, status, path);
    LN_TRY(make_parts(file, err));
    return ln_adapter_read_peft(file, err);
}

static ln_status open_folder(ln_adapter_file *file, ln_error *err) {
    char *config = ln_path_join(file->path, "adapter_config.json");
    char *tensors = ln_path_join(file->path, "adapter_model.safetensors");
    char *pickle = ln_path_join(file->path, "adapter_model.bin");
    ln_status status = LINNET_OK;
    if (config == NULL || tensors == NULL || pickle == NULL)
        status = no_memory(file, err);
    else if (!ln_file_exists(tensors) && ln_file_exists(pickle))
        status = ln_fail(err, LINNET_ERR_UNSUPPORTED,
                         "%s: pickles are not read; save the adapter as safetensors", pickle);
    if (status == LINNET_OK)
        status = read_config(file, config, err);
    if (status == LINNET_OK)
        status = read_tensors(file, tensors, err);
    free(config);
    free(tensors);
    free(pickle);
    return status;
}

static ln_status open_gguf(ln_adapter_file *file, ln_error *err) {
    LN_TRY(ln_file_map_open(&file->map, file->path, err));
    ln_status status = ln_gguf_parse(file->map.data, file->map.bytes, 0, &file->arena, &file->gguf,
                                     &file->tensors, err);
    if (status != LINNET_OK)
        return ln_error_prefix(err, status, file->path);
    LN_TRY(make_parts(file, err));
    return ln_adapter_read_gguf(file, err);
}

ln_status ln_adapter_file_open(const char *path, ln_adapter_file *file, ln_error *err) {
    *file = (ln_adapter_file){.path = path, .map = {.fd = -1}};
    ln_arena_init(&file->arena);
    bool is_folder = ln_file_is_folder(path);
    file->format = is_folder ? LN_FORMAT_HF : LN_FORMAT_GGUF;
    ln_status status = is_folder ? open_folder(file, err) : open_gguf(file, err);
    if (status == LINNET_OK)
        status = check(file, err);
    if (status != LINNET_OK)
        ln_adapter_file_close(file);
    return status;
}

void ln_adapter_file_close(ln_adapter_file *file) {
    json_decref(file->config);
    ln_tensor_list_free(&file->tensors);
    if (file->map.data != NULL)
        ln_file_map_close(&file->map);
    ln_arena_free(&file->arena);
    *file = (ln_adapter_file){.map = {.fd = -1}};
}
