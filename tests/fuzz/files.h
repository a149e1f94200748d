/* Any bytes as the files of a folder: a line "@NAME" begins a file. What is binary is written as
 * text, so that a changed byte changes a number or a name and not the length of all behind it: of
 * safetensors the header alone, and GGUF as JSON, whose members are the metadata ("KEY:N" has
 * values of GGUF's type N), and in which "tensors" has lists: GGUF's number of the type, then
 * dimensions. */
#ifndef LN_TESTS_FUZZ_FILES_H
#define LN_TESTS_FUZZ_FILES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit/format/writer.h"
#include "format/dtype.h"

enum { MAX_DATA_BYTES = 1 << 20 };

static char folder_path[64];
static const char *const file_names[] = {
    "model.gguf",
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-00001-of-00004.safetensors",
    "model-00002-of-00004.safetensors",
    "model-00003-of-00004.safetensors",
    "model-00004-of-00004.safetensors",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1/config.json",
    "2/config.json",
    "2/model.safetensors",
    "3/config.json",
    "3/model.safetensors",
    "adapter_config.json",
    "adapter_model.safetensors",
};
enum { N_FILE_NAMES = sizeof file_names / sizeof *file_names };

static inline const char *path_of(const char *name) {
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder_path, name);
    return path;
}

static inline void remove_files(void) {
    for (size_t i = 0; i < N_FILE_NAMES; i++)
        unlink(path_of(file_names[i]));
}

static inline void remove_folder(void) {
    remove_files();
    rmdir(path_of("1"));
    rmdir(path_of("2"));
    rmdir(path_of("3"));
    rmdir(folder_path);
}

static inline void make_folder(void) {
    if (folder_path[0] != '\0')
        return;
    strcpy(folder_path, "/dev/shm/linnet-fuzz-XXXXXX");
    if (mkdtemp(folder_path) == NULL) {
        strcpy(folder_path, "/tmp/linnet-fuzz-XXXXXX");
        if (mkdtemp(folder_path) == NULL)
            abort();
    }
    mkdir(path_of("1"), 0700);
    mkdir(path_of("2"), 0700);
    mkdir(path_of("3"), 0700);
    atexit(remove_folder);
}

static inline bool ends_with(const char *text, const char *end) {
    size_t n_text = strlen(text), n_end = strlen(end);
    return n_text >= n_end && strcmp(text + n_text - n_end, end) == 0;
}

/* ---- GGUF ------------------------------------------------------------------------------- */

static inline void put_number(ln_strbuf *out, uint32_t type, const json_t *value) {
    double real = json_number_value(value);
    float single = (float)real;
    int64_t integer = json_is_integer(value) ? json_integer_value(value) : json_is_true(value);
    if (type == LN_GGUF_STRING) {
        put_u64(out, json_string_length(value));
        ln_strbuf_append(out, json_string_value(value), json_string_length(value));
    } else if (type == LN_GGUF_F32) {
        ln_strbuf_append(out, &single, sizeof single);
    } else if (type == LN_GGUF_F64) {
        ln_strbuf_append(out, &real, sizeof real);
    } else {
        ln_strbuf_append(out, &integer, ln_gguf_type_bytes(type));
    }
}

static inline uint32_t type_of(const json_t *value, uint32_t of_integers) {
    switch (json_typeof(value)) {
    case JSON_STRING: return LN_GGUF_STRING;
    case JSON_REAL: return LN_GGUF_F32;
    case JSON_INTEGER: return of_integers;
    case JSON_ARRAY: return LN_GGUF_ARRAY;
    default: return LN_GGUF_BOOL;
    }
}

static inline void put_meta(ln_strbuf *out, const char *key, const json_t *value) {
    const char *colon = strrchr(key, ':');
    size_t n_key = colon != NULL ? (size_t)(colon - key) : strlen(key), i;
    const json_t *first = json_is_array(value) ? json_array_get(value, 0) : value, *item;
    uint32_t type = first != NULL ? type_of(first, first == value ? LN_GGUF_U32 : LN_GGUF_I32)
                                  : (uint32_t)LN_GGUF_I32;
    if (colon != NULL && type != LN_GGUF_STRING)
        type = (uint32_t)atoi(colon + 1) % LN_GGUF_TYPE_COUNT;
    put_u64(out, n_key);
    ln_strbuf_append(out, key, n_key);
    if (!json_is_array(value)) {
        put_u32(out, type);
        put_number(out, type, value);
        return;
    }
    put_u32(out, LN_GGUF_ARRAY);
    put_u32(out, type);
    put_u64(out, json_array_size(value));
    json_array_foreach(value, i, item) {
        put_number(out, type, item);
    }
}

static inline uint64_t put_tensor_info(ln_strbuf *out, const char *name, const json_t *shape,
                                       uint64_t offset) {
    uint64_t dims[8] = {0}, n_rows = 1;
    uint32_t n_dims = 0;
    ln_dtype dtype;
    size_t row_bytes = 0;
    uint32_t type = (uint32_t)json_integer_value(json_array_get(shape, 0));
    for (size_t i = 1; i < json_array_size(shape) && n_dims < 8; i++) {
        dims[n_dims] = (uint64_t)json_integer_value(json_array_get(shape, i));
        n_rows *= n_dims > 0 ? dims[n_dims] : 1;
        n_dims++;
    }
    put_tensor(out, name, n_dims, dims, type, offset);
    if (!ln_dtype_from_gguf(type, &dtype) || !ln_dtype_row_bytes(dtype, dims[0], &row_bytes))
        return offset;
    uint64_t n_bytes = row_bytes * n_rows;
    return n_bytes > MAX_DATA_BYTES ? offset : (offset + n_bytes + 31) / 32 * 32;
}

static inline void put_gguf_of(ln_strbuf *out, const char *text, size_t n_bytes) {
    json_t *root = json_loadb(text, n_bytes, JSON_ALLOW_NUL, NULL), *value;
    json_t *tensors = json_incref(json_object_get(root, "tensors"));
    const char *key;
    uint64_t offset = 0;
    json_object_del(root, "tensors");
    put_gguf(out, 3, json_object_size(tensors), json_object_size(root));
    json_object_foreach(root, key, value) {
        put_meta(out, key, value);
    }
    json_object_foreach(tensors, key, value) {
        offset = put_tensor_info(out, key, value, offset);
    }
    pad_to(out, 32);
    if (offset <= MAX_DATA_BYTES)
        put_bytes(out, (size_t)offset, 1);
    json_decref(tensors);
    json_decref(root);
}

/* ---- safetensors ------------------------------------------------------------------------ */

static inline void put_safetensors_of(ln_strbuf *out, const char *text, size_t n_bytes) {
    json_t *root = json_loadb(text, n_bytes, JSON_ALLOW_NUL, NULL), *value;
    const char *key;
    json_int_t end = 0;
    json_object_foreach(root, key, value) {
        json_int_t last =
            json_integer_value(json_array_get(json_object_get(value, "data_offsets"), 1));
        end = last > end ? last : end;
    }
    json_decref(root);
    put_u64(out, n_bytes);
    ln_strbuf_append(out, text, n_bytes);
    if (end <= MAX_DATA_BYTES)
        put_bytes(out, (size_t)end, 1);
}

/* ---- the folder ------------------------------------------------------------------------- */

static inline void write_file(const char *name, const char *text, size_t n_bytes) {
    ln_strbuf out;
    ln_strbuf_init(&out);
    if (ends_with(name, ".gguf"))
        put_gguf_of(&out, text, n_bytes);
    else if (ends_with(name, ".safetensors"))
        put_safetensors_of(&out, text, n_bytes);
    else
        ln_strbuf_append(&out, text, n_bytes);
    FILE *file = fopen(path_of(name), "wb");
    if (file == NULL)
        abort();
    if (out.len > 0 && fwrite(out.data, 1, out.len, file) != out.len)
        abort();
    fclose(file);
    ln_strbuf_free(&out);
}

/* The end of the file that begins at text + begin: where the next begins, or n_bytes. */
static inline size_t find_end(const char *text, size_t n_bytes, size_t begin) {
    for (size_t i = begin; i < n_bytes; i++)
        if (text[i] == '@' && (i == 0 || text[i - 1] == '\n'))
            return i;
    return n_bytes;
}

/* Makes the folder hold these files and no others; false when there is none. */
static inline bool write_files(const uint8_t *data, size_t n_bytes) {
    const char *text = (const char *)data;
    bool has_any = false;
    make_folder();
    remove_files();
    for (size_t at = find_end(text, n_bytes, 0); at < n_bytes;) {
        const char *line_end = memchr(text + at, '\n', n_bytes - at);
        if (line_end == NULL)
            break;
        size_t n_name = (size_t)(line_end - text) - at - 1, begin = at + n_name + 2;
        size_t end = find_end(text, n_bytes, begin);
        for (size_t i = 0; i < N_FILE_NAMES; i++)
            if (strlen(file_names[i]) == n_name &&
                memcmp(file_names[i], text + at + 1, n_name) == 0) {
                write_file(file_names[i], text + begin, end - begin);
                has_any = true;
            }
        at = end;
    }
    return has_any;
}

#endif
