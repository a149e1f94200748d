#include "format/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/hashmap.h"
#include "format/gguf.h"
#include "format/hf_config.h"
#include "format/json.h"
#include "format/safetensors.h"

enum { MAX_INDEX_BYTES = 100 << 20, SPLIT_ENDING_BYTES = sizeof "-00001-of-00002.gguf" };

typedef struct data_file {
    char *path;
    ln_file_map map;
} data_file;

struct ln_checkpoint {
    ln_checkpoint_format format;
    char *path;
    data_file *files; /* [n_files] */
    size_t n_files, max_files;
    ln_tensor_list tensors;
    ln_hashmap by_name;
    ln_arena arena;
    ln_gguf gguf;                 /* of the first part */
    ln_hf_config hf;              /* of a folder */
    const ln_gguf_entry *entries; /* [n_entries] for ln_checkpoint_meta_at */
    size_t n_entries;
    const char *chat_template;
};

/* What a repository that was cloned without Git LFS has in the place of a large file. */
static bool is_lfs_pointer(const ln_file_map *map) {
    static const char begin[] = "version https://git-lfs.github.com/";
    return map->bytes >= sizeof begin && memcmp(map->data, begin, sizeof begin - 1) == 0;
}

/* Maps a data file, the last one from then on; copy of the path and map are the checkpoint's. */
static ln_status add_file(ln_checkpoint *cp, const char *path, ln_error *err) {
    if (cp->n_files == cp->max_files) {
        size_t max_files = cp->max_files * 2 + 4;
        data_file *files = realloc(cp->files, max_files * sizeof *files);
        if (files == NULL)
            return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", path);
        cp->files = files;
        cp->max_files = max_files;
    }
    data_file *added = &cp->files[cp->n_files];
    LN_TRY(ln_file_map_open(&added->map, path, err));
    added->path = strdup(path);
    cp->n_files++;
    if (is_lfs_pointer(&added->map))
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: only a pointer of Git LFS; `git lfs pull' fetches the file", path);
    return added->path != NULL ? LINNET_OK
                               : ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", path);
}

/* ---- GGUF ------------------------------------------------------------------------------- */

/* A file of `count` parts in all; the first has the number 0. */
typedef struct split {
    uint32_t number, count;
} split;

static ln_status read_split_key(const ln_gguf *gguf, const char *key, uint32_t max, uint32_t *out,
                                ln_error *err) {
    ln_meta_value value;
    if (!ln_gguf_find(gguf, key, &value))
        return LINNET_OK;
    if (value.kind != LN_META_INT || value.integer < 0 || value.integer > max)
        return ln_fail(err, LINNET_ERR_FORMAT, "key %s: no whole number from 0 to %" PRIu32, key,
                       max);
    *out = (uint32_t)value.integer;
    return LINNET_OK;
}

static ln_status read_split(const ln_gguf *gguf, split *part, ln_error *err) {
    enum { MAX_PARTS = 99999 }; /* five digits in the name */
    *part = (split){.count = 1};
    LN_TRY(read_split_key(gguf, "split.count", MAX_PARTS, &part->count, err));
    LN_TRY(read_split_key(gguf, "split.no", MAX_PARTS, &part->number, err));
    if (part->count == 0) /* a file that was never split may say so */
        part->count = 1;
    if (part->number >= part->count)
        return ln_fail(err, LINNET_ERR_FORMAT, "key split.no: %" PRIu32 " of %" PRIu32 " parts",
                       part->number, part->count);
    return LINNET_OK;
}

static void split_ending(const split *part, char ending[SPLIT_ENDING_BYTES]) {
    snprintf(ending, SPLIT_ENDING_BYTES, "-%05u-of-%05u.gguf", (part->number + 1) % 100000u,
             part->count % 100000u);
}

/* The path of another part beside `path`, which is part `given`; *other is malloc'd. */
static ln_status other_part(const char *path, const split *given, uint32_t number, char **other,
                            ln_error *err) {
    char ending[SPLIT_ENDING_BYTES];
    split_ending(given, ending);
    size_t n = strlen(path), n_ending = SPLIT_ENDING_BYTES - 1;
    if (n < n_ending || strcmp(path + n - n_ending, ending) != 0)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: the name of part %" PRIu32 " must end in %s",
                       path, given->number + 1, ending);
    *other = strdup(path);
    if (*other == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", path);
    split_ending(&(split){number, given->count}, *other + n - n_ending);
    return LINNET_OK;
}

static ln_status load_part(ln_checkpoint *cp, const char *path, ln_gguf *gguf, split *part,
                           ln_error *err) {
    LN_TRY(add_file(cp, path, err));
    size_t last = cp->n_files - 1;
    const ln_file_map *map = &cp->files[last].map;
    ln_status status =
        ln_gguf_parse(map->data, map->bytes, (uint32_t)last, &cp->arena, gguf, &cp->tensors, err);
    if (status == LINNET_OK)
        status = read_split(gguf, part, err);
    return status == LINNET_OK ? status : ln_error_prefix(err, status, path);
}

static void forget_parts(ln_checkpoint *cp) {
    for (size_t i = 0; i < cp->n_files; i++) {
        ln_file_map_close(&cp->files[i].map);
        free(cp->files[i].path);
    }
    cp->n_files = 0;
    cp->tensors.count = 0;
    ln_arena_free(&cp->arena);
}

static ln_status load_numbered_part(ln_checkpoint *cp, const split *given, uint32_t number,
                                    ln_gguf *gguf, ln_error *err) {
    char *path;
    LN_TRY(other_part(cp->path, given, number, &path, err));
    split part = {0};
    ln_status status = load_part(cp, path, gguf, &part, err);
    if (status == LINNET_OK && (part.number != number || part.count != given->count))
        status = ln_fail(err, LINNET_ERR_FORMAT,
                         "%s: keys split.no and split.count tell part %" PRIu32 " of %" PRIu32
                         ", not %" PRIu32 " of %" PRIu32,
                         path, part.number + 1, part.count, number + 1, given->count);
    free(path);
    return status;
}

static ln_status check_split_total(const ln_checkpoint *cp, ln_error *err) {
    uint32_t n = (uint32_t)cp->tensors.count;
    LN_TRY(read_split_key(&cp->gguf, "split.tensors.count", LN_MAX_TENSORS, &n, err));
    if (n != cp->tensors.count)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "key split.tensors.count: %" PRIu32 ", but the parts hold %zu", n,
                       cp->tensors.count);
    return LINNET_OK;
}

static ln_status check_text_keys(ln_checkpoint *cp, ln_error *err) {
    ln_meta_value value;
    if (ln_gguf_find(&cp->gguf, "general.architecture", &value) &&
        (value.kind != LN_META_STRING || value.string.bytes == 0))
        return ln_fail(err, LINNET_ERR_FORMAT, "key general.architecture: no text");
    if (!ln_gguf_find(&cp->gguf, "tokenizer.chat_template", &value))
        return LINNET_OK;
    if (value.kind != LN_META_STRING || strlen(value.string.data) != value.string.bytes)
        return ln_fail(err, LINNET_ERR_FORMAT, "key tokenizer.chat_template: no text");
    cp->chat_template = value.string.data;
    return LINNET_OK;
}

static ln_status open_gguf(ln_checkpoint *cp, bool tokenizer_only, ln_error *err) {
    split given = {0};
    LN_TRY(load_part(cp, cp->path, &cp->gguf, &given, err));
    if (given.number != 0) {
        forget_parts(cp);
        LN_TRY(load_numbered_part(cp, &given, 0, &cp->gguf, err));
    }
    /* a tokenizer is all in the first part */
    for (uint32_t i = 1; i < given.count && !tokenizer_only; i++) {
        ln_gguf part;
        LN_TRY(load_numbered_part(cp, &given, i, &part, err));
    }
    ln_status status = LINNET_OK;
    if (given.count > 1 && !tokenizer_only)
        status = check_split_total(cp, err);
    if (status == LINNET_OK)
        status = check_text_keys(cp, err);
    cp->entries = cp->gguf.entries;
    cp->n_entries = cp->gguf.n_entries;
    return status == LINNET_OK ? status : ln_error_prefix(err, status, cp->files[0].path);
}

/* ---- a Hugging Face folder -------------------------------------------------------------- */

static ln_status load_safetensors_at(ln_checkpoint *cp, const char *path, ln_error *err) {
    LN_TRY(add_file(cp, path, err));
    size_t last = cp->n_files - 1;
    const ln_file_map *map = &cp->files[last].map;
    ln_status status =
        ln_safetensors_parse(map->data, map->bytes, (uint32_t)last, &cp->arena, &cp->tensors, err);
    return status == LINNET_OK ? status : ln_error_prefix(err, status, path);
}

static ln_status load_safetensors(ln_checkpoint *cp, const char *name, ln_error *err) {
    char *path = ln_path_join(cp->path, name);
    if (path == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", cp->path);
    ln_status status = load_safetensors_at(cp, path, err);
    free(path);
    return status;
}

/* Maps the names and names the file in the error. */
static ln_status index_tensors(ln_checkpoint *cp, ln_error *err) {
    size_t culprit = SIZE_MAX;
    ln_status status = ln_tensor_list_index(&cp->tensors, &cp->arena, &cp->by_name, &culprit, err);
    if (status == LINNET_OK)
        return status;
    const char *path =
        culprit < cp->tensors.count ? cp->files[cp->tensors.items[culprit].file].path : cp->path;
    return ln_error_prefix(err, status, path);
}

static ln_status load_shards(ln_checkpoint *cp, const ln_shard_index *index, const char *path,
                             ln_error *err) {
    for (size_t i = 0; i < index->n_files; i++)
        LN_TRY(load_safetensors(cp, index->files[i], err));
    LN_TRY(index_tensors(cp, err));
    for (size_t i = 0; i < index->n_names; i++) {
        const ln_tensor *tensor = ln_checkpoint_find(cp, index->names[i]);
        if (tensor == NULL || tensor->file != index->file_of[i])
            return ln_fail(err, LINNET_ERR_FORMAT, "%s: tensor %s is not in %s", path,
                           index->names[i], index->files[index->file_of[i]]);
    }
    return LINNET_OK;
}

static ln_status open_sharded(ln_checkpoint *cp, const char *path, ln_error *err) {
    ln_strbuf text;
    ln_strbuf_init(&text);
    ln_arena arena;
    ln_arena_init(&arena);
    ln_shard_index index;
    ln_status status = ln_file_read(path, MAX_INDEX_BYTES, &text, err);
    if (status == LINNET_OK) {
        status = ln_shard_index_parse(text.data, text.len, &arena, &index, err);
        if (status != LINNET_OK)
            ln_error_prefix(err, status, path);
    }
    ln_strbuf_free(&text);
    if (status == LINNET_OK)
        status = load_shards(cp, &index, path, err);
    ln_arena_free(&arena);
    return status;
}

static ln_status open_safetensors(ln_checkpoint *cp, ln_error *err) {
    char *single = ln_path_join(cp->path, "model.safetensors");
    char *index = ln_path_join(cp->path, "model.safetensors.index.json");
    char *pickled = ln_path_join(cp->path, "pytorch_model.bin");
    ln_status status;
    if (single == NULL || index == NULL || pickled == NULL) {
        status = ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", cp->path);
    } else if (ln_file_exists(single)) {
        status = load_safetensors(cp, "model.safetensors", err);
        if (status == LINNET_OK)
            status = index_tensors(cp, err);
    } else if (ln_file_exists(index)) {
        status = open_sharded(cp, index, err);
    } else {
        status = ln_fail(err, LINNET_ERR_FORMAT,
                         "%s: no model.safetensors or model.safetensors.index.json%s", cp->path,
                         ln_file_exists(pickled) ? "; pytorch_model.bin is not read" : "");
    }
    free(single);
    free(index);
    free(pickled);
    return status;
}

/* The top level of config.json in the form of GGUF's entries. */
static ln_status list_config(ln_checkpoint *cp, ln_error *err) {
    size_t n = json_object_size(cp->hf.config);
    ln_gguf_entry *entries = ln_arena_alloc(&cp->arena, n, sizeof *entries);
    if (entries == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", cp->path);
    const char *key;
    json_t *value;
    json_object_foreach(cp->hf.config, key, value) {
        entries[cp->n_entries++] = (ln_gguf_entry){key, ln_json_meta(value)};
    }
    cp->entries = entries;
    return LINNET_OK;
}

static ln_status open_folder(ln_checkpoint *cp, bool tokenizer_only, ln_error *err) {
    LN_TRY(ln_hf_config_open(cp->path, tokenizer_only, &cp->hf, err));
    cp->chat_template = cp->hf.chat_template;
    LN_TRY(list_config(cp, err));
    return tokenizer_only ? LINNET_OK : open_safetensors(cp, err);
}

/* ---- the one view ----------------------------------------------------------------------- */

static ln_status open_any(ln_checkpoint *cp, const char *path, bool tokenizer_only, ln_error *err) {
    ln_arena_init(&cp->arena);
    cp->path = strdup(path);
    if (cp->path == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", path);
    if (ln_file_is_folder(path)) {
        cp->format = LN_FORMAT_HF;
        return open_folder(cp, tokenizer_only, err);
    }
    cp->format = LN_FORMAT_GGUF;
    LN_TRY(open_gguf(cp, tokenizer_only, err));
    return index_tensors(cp, err);
}

ln_status ln_checkpoint_open(const char *path, bool tokenizer_only, ln_checkpoint **checkpoint,
                             ln_error *err) {
    *checkpoint = NULL;
    ln_checkpoint *cp = calloc(1, sizeof *cp);
    if (cp == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", path);
    ln_status status = open_any(cp, path, tokenizer_only, err);
    if (status == LINNET_OK)
        status = ln_checkpoint_check(cp, err);
    for (size_t i = 0; status == LINNET_OK && i < cp->tensors.count; i++)
        cp->tensors.items[i].map = &cp->files[cp->tensors.items[i].file].map;
    if (status == LINNET_OK)
        *checkpoint = cp;
    else
        ln_checkpoint_close(cp);
    return status;
}

void ln_checkpoint_close(ln_checkpoint *checkpoint) {
    if (checkpoint == NULL)
        return;
    forget_parts(checkpoint);
    ln_tensor_list_free(&checkpoint->tensors);
    ln_hf_config_close(&checkpoint->hf);
    free(checkpoint->files);
    free(checkpoint->path);
    free(checkpoint);
}

const char *ln_checkpoint_path(const ln_checkpoint *checkpoint) {
    return checkpoint->path;
}

ln_checkpoint_format ln_checkpoint_get_format(const ln_checkpoint *checkpoint) {
    return checkpoint->format;
}

size_t ln_checkpoint_tensor_count(const ln_checkpoint *checkpoint) {
    return checkpoint->tensors.count;
}

const ln_tensor *ln_checkpoint_tensor(const ln_checkpoint *checkpoint, size_t index) {
    return &checkpoint->tensors.items[index];
}

const ln_tensor *ln_checkpoint_find(const ln_checkpoint *checkpoint, const char *name) {
    uint32_t index;
    if (!ln_hashmap_get(&checkpoint->by_name, name, strlen(name), &index))
        return NULL;
    return &checkpoint->tensors.items[index];
}

size_t ln_checkpoint_file_count(const ln_checkpoint *checkpoint) {
    return checkpoint->n_files;
}

const char *ln_checkpoint_file(const ln_checkpoint *checkpoint, size_t index, int *fd,
                               size_t *bytes) {
    const data_file *file = &checkpoint->files[index];
    *fd = file->map.fd;
    *bytes = file->map.bytes;
    return file->path;
}

void *ln_checkpoint_map(const ln_checkpoint *checkpoint, size_t index, size_t *bytes) {
    const ln_file_map *map = &checkpoint->files[index].map;
    *bytes = map->bytes;
    return (void *)(uintptr_t)map->data;
}

ln_status ln_checkpoint_check(const ln_checkpoint *checkpoint, ln_error *err) {
    for (size_t i = 0; i < checkpoint->n_files; i++)
        LN_TRY(ln_file_map_check(&checkpoint->files[i].map, checkpoint->files[i].path, err));
    return LINNET_OK;
}

void ln_checkpoint_drop_pages(const ln_checkpoint *checkpoint) {
    for (size_t i = 0; i < checkpoint->n_files; i++)
        ln_file_map_drop_pages(&checkpoint->files[i].map);
}

size_t ln_checkpoint_header_bytes(const ln_checkpoint *checkpoint) {
    const ln_checkpoint *cp = checkpoint;
    size_t bytes = sizeof *cp + strlen(cp->path) + 1 + cp->arena.reserved_bytes +
                   cp->hf.heap_bytes + cp->max_files * sizeof *cp->files +
                   cp->tensors.capacity * sizeof *cp->tensors.items;
    for (size_t i = 0; i < cp->n_files; i++)
        bytes += strlen(cp->files[i].path) + 1;
    return bytes;
}

bool ln_checkpoint_meta(const ln_checkpoint *checkpoint, const char *key, ln_meta_value *value) {
    if (checkpoint->format == LN_FORMAT_GGUF)
        return ln_gguf_find(&checkpoint->gguf, key, value);
    return ln_hf_config_find(&checkpoint->hf, key, value);
}

bool ln_checkpoint_meta_is_null(const ln_checkpoint *checkpoint, const char *key) {
    return checkpoint->format == LN_FORMAT_HF && ln_hf_config_is_null(&checkpoint->hf, key);
}

static bool find_json(const json_t *root, const char *key, ln_meta_value *value) {
    const json_t *found = ln_json_find(root, key);
    *value = ln_json_meta(found);
    return found != NULL;
}

bool ln_checkpoint_generation_meta(const ln_checkpoint *checkpoint, const char *key,
                                   ln_meta_value *value) {
    return find_json(checkpoint->hf.generation, key, value);
}

bool ln_checkpoint_tokenizer_meta(const ln_checkpoint *checkpoint, const char *key,
                                  ln_meta_value *value) {
    return find_json(checkpoint->hf.tokenizer, key, value);
}

bool ln_checkpoint_meta_at(const ln_checkpoint *checkpoint, size_t index, const char **key,
                           ln_meta_value *value) {
    if (index >= checkpoint->n_entries)
        return false;
    *key = checkpoint->entries[index].key;
    *value = checkpoint->entries[index].value;
    return true;
}

const char *ln_checkpoint_tokenizer_json(const ln_checkpoint *checkpoint) {
    return checkpoint->hf.tokenizer_json;
}

const char *ln_checkpoint_tokenizer_model(const ln_checkpoint *checkpoint) {
    return checkpoint->hf.tokenizer_model;
}

const char *ln_checkpoint_source_spm(const ln_checkpoint *checkpoint) {
    return checkpoint->hf.source_spm;
}

const char *ln_checkpoint_chat_template(const ln_checkpoint *checkpoint) {
    return checkpoint->chat_template;
}
