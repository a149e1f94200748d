#include "hub/files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/load.h"

enum { MAX_FILES = 10000 };
static const json_int_t max_file_bytes = (json_int_t)1 << 50;

void ln_hub_files_free(ln_hub_files *files) {
    for (size_t i = 0; i < files->count; i++)
        free(files->items[i].path);
    free(files->items);
    *files = (ln_hub_files){0};
}

ln_hub_file *ln_hub_files_add(ln_hub_files *files, const char *path) {
    ln_hub_file *items = realloc(files->items, (files->count + 1) * sizeof *items);
    if (!items)
        return NULL;
    files->items = items;
    ln_hub_file *file = &items[files->count];
    *file = (ln_hub_file){.path = strdup(path)};
    if (!file->path)
        return NULL;
    files->count++;
    return file;
}

/* The hash by which the hub names the file's content: of large files its SHA-256. */
static bool read_hash(json_t *object, ln_hub_file *file) {
    json_t *lfs = json_object_get(object, "lfs");
    const char *hash = json_string_value(json_object_get(object, "blobId"));
    size_t n_digits = 40;
    if (json_is_object(lfs)) {
        n_digits = 64;
        hash = json_string_value(json_object_get(lfs, "sha256"));
    }
    if (!hash || strlen(hash) != n_digits || strspn(hash, "0123456789abcdef") != n_digits)
        return false;
    memcpy(file->hash, hash, n_digits + 1);
    return true;
}

static ln_status read_file(json_t *object, ln_hub_files *files, ln_error *err) {
    const char *path = json_string_value(json_object_get(object, "rfilename"));
    json_t *size = json_object_get(object, "size");
    if (!path || strlen(path) != json_string_length(json_object_get(object, "rfilename")) ||
        !ln_hub_is_safe_path(path))
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "the hub's answer names a file that no folder may have");
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->items[i].path, path) == 0)
            return ln_fail(err, LINNET_ERR_FORMAT, "the hub's answer has a file twice: %.200s",
                           path);
    ln_hub_file *file = ln_hub_files_add(files, path);
    if (!file)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
    json_int_t n_bytes = json_integer_value(size);
    if (!json_is_integer(size) || n_bytes < 0 || n_bytes > max_file_bytes ||
        !read_hash(object, file))
        return ln_fail(err, LINNET_ERR_FORMAT, "the hub's answer lacks the size or hash of %.200s",
                       path);
    file->bytes = (uint64_t)n_bytes;
    return LINNET_OK;
}

ln_status ln_hub_files_parse(const char *json, size_t n_bytes, ln_hub_files *files, ln_error *err) {
    json_error_t where;
    size_t index;
    json_t *object;
    *files = (ln_hub_files){0};
    json_t *root = ln_json_load_bytes(json, n_bytes, JSON_REJECT_DUPLICATES, &where);
    const char *commit = json_string_value(json_object_get(root, "sha"));
    json_t *siblings = json_object_get(root, "siblings");
    ln_status status = LINNET_OK;
    if (!root)
        status = ln_fail(err, LINNET_ERR_FORMAT, "the hub's answer is not JSON: %s", where.text);
    else if (!commit || !ln_hub_is_commit(commit) || !json_is_array(siblings))
        status = ln_fail(err, LINNET_ERR_FORMAT, "the hub's answer has no commit or no files");
    else if (json_array_size(siblings) > MAX_FILES)
        status = ln_fail(err, LINNET_ERR_LIMIT, "the repository has more than %d files", MAX_FILES);
    else
        memcpy(files->commit, commit, LN_HUB_COMMIT_BYTES);
    json_array_foreach(siblings, index, object) {
        if (status != LINNET_OK)
            break;
        status = read_file(object, files, err);
    }
    json_decref(root);
    if (status != LINNET_OK)
        ln_hub_files_free(files);
    return status;
}
