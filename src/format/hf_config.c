#include "format/hf_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "format/json.h"

enum { MAX_JSON_BYTES = 64 << 20, MAX_TEMPLATE_BYTES = 4 << 20 };

/* "folder/name" when that file exists, else NULL and success. */
static ln_status find_file(const char *folder, const char *name, char **path, ln_error *err) {
    *path = ln_path_join(folder, name);
    if (*path == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s/%s: out of memory", folder, name);
    if (!ln_file_exists(*path)) {
        free(*path);
        *path = NULL;
    }
    return LINNET_OK;
}

static ln_status parse_file(const char *path, json_t **root, size_t *heap_bytes, ln_error *err) {
    ln_strbuf text;
    ln_strbuf_init(&text);
    size_t estimate = 0;
    ln_status status = ln_file_read(path, MAX_JSON_BYTES, &text, err);
    if (status == LINNET_OK) {
        status = ln_json_parse(text.data != NULL ? text.data : "", text.len, root, &estimate, err);
        if (status != LINNET_OK)
            ln_error_prefix(err, status, path);
    }
    if (status == LINNET_OK)
        *heap_bytes += estimate;
    ln_strbuf_free(&text);
    return status;
}

/* *root stays NULL when there is no such file. */
static ln_status read_json(const char *folder, const char *name, json_t **root, size_t *heap_bytes,
                           ln_error *err) {
    char *path;
    LN_TRY(find_file(folder, name, &path, err));
    ln_status status = path != NULL ? parse_file(path, root, heap_bytes, err) : LINNET_OK;
    free(path);
    return status;
}

/* ---- the chat template ------------------------------------------------------------------ */

static const json_t *default_template(const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name != NULL && strcmp(name, "default") == 0)
            return json_object_get(item, "template");
    }
    return NULL;
}

ln_status ln_hf_chat_template(const json_t *root, char **text, ln_error *err) {
    *text = NULL;
    const json_t *value = ln_json_find(root, "chat_template");
    if (json_is_array(value))
        value = default_template(value);
    if (value == NULL)
        return LINNET_OK;
    const char *string = json_string_value(value);
    if (string == NULL || strlen(string) != json_string_length(value))
        return ln_fail(err, LINNET_ERR_FORMAT, "key chat_template is no text");
    if (json_string_length(value) > MAX_TEMPLATE_BYTES)
        return ln_fail(err, LINNET_ERR_LIMIT, "key chat_template has more than %d bytes",
                       MAX_TEMPLATE_BYTES);
    *text = strdup(string);
    return *text != NULL ? LINNET_OK : ln_fail(err, LINNET_ERR_NOMEM, "out of memory");
}

static ln_status read_template_text(const char *path, char **text, ln_error *err) {
    ln_strbuf buf;
    ln_strbuf_init(&buf);
    ln_status status = ln_file_read(path, MAX_TEMPLATE_BYTES, &buf, err);
    if (status == LINNET_OK && buf.len != (buf.data != NULL ? strlen(buf.data) : 0))
        status = ln_fail(err, LINNET_ERR_FORMAT, "%s: the text holds a NUL", path);
    if (status == LINNET_OK && !ln_strbuf_append(&buf, "", 0))
        status = ln_fail(err, LINNET_ERR_NOMEM, "%s: out of memory", path);
    if (status == LINNET_OK)
        *text = ln_strbuf_take(&buf);
    ln_strbuf_free(&buf);
    return status;
}

/* chat_template.jinja goes before chat_template.json, and that before tokenizer_config.json. */
static ln_status read_template(const char *folder, ln_hf_config *hf, ln_error *err) {
    char *path;
    LN_TRY(find_file(folder, "chat_template.jinja", &path, err));
    ln_status status = path != NULL ? read_template_text(path, &hf->chat_template, err) : LINNET_OK;
    free(path);
    if (status != LINNET_OK || hf->chat_template != NULL)
        return status;
    json_t *root = NULL;
    size_t transient_bytes = 0;
    LN_TRY(read_json(folder, "chat_template.json", &root, &transient_bytes, err));
    path = ln_path_join(folder, root != NULL ? "chat_template.json" : "tokenizer_config.json");
    status = ln_hf_chat_template(root != NULL ? root : hf->tokenizer, &hf->chat_template, err);
    if (status != LINNET_OK)
        ln_error_prefix(err, status, path != NULL ? path : folder);
    free(path);
    json_decref(root);
    return status;
}

/* ---- the folder ------------------------------------------------------------------------- */

static ln_status read_all(const char *folder, bool tokenizer_only, ln_hf_config *hf,
                          ln_error *err) {
    LN_TRY(read_json(folder, "config.json", &hf->config, &hf->heap_bytes, err));
    if (hf->config == NULL && !tokenizer_only)
        return ln_fail(
            err, LINNET_ERR_FORMAT,
            "%s: no config.json, which the folder of a model has; a GGUF file is named itself",
            folder);
    LN_TRY(read_json(folder, "generation_config.json", &hf->generation, &hf->heap_bytes, err));
    LN_TRY(read_json(folder, "tokenizer_config.json", &hf->tokenizer, &hf->heap_bytes, err));
    LN_TRY(find_file(folder, "tokenizer.json", &hf->tokenizer_json, err));
    LN_TRY(find_file(folder, "tokenizer.model", &hf->tokenizer_model, err));
    LN_TRY(find_file(folder, "source.spm", &hf->source_spm, err));
    LN_TRY(read_template(folder, hf, err));
    if (hf->chat_template != NULL)
        hf->heap_bytes += strlen(hf->chat_template) + 1;
    if (tokenizer_only && hf->tokenizer_json == NULL && hf->tokenizer_model == NULL &&
        hf->source_spm == NULL && hf->chat_template == NULL)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "%s: no tokenizer.json, tokenizer.model or source.spm", folder);
    return LINNET_OK;
}

ln_status ln_hf_config_open(const char *folder, bool tokenizer_only, ln_hf_config *hf,
                            ln_error *err) {
    *hf = (ln_hf_config){0};
    ln_status status = read_all(folder, tokenizer_only, hf, err);
    if (status != LINNET_OK)
        ln_hf_config_close(hf);
    return status;
}

void ln_hf_config_close(ln_hf_config *hf) {
    json_decref(hf->config);
    json_decref(hf->generation);
    json_decref(hf->tokenizer);
    free(hf->tokenizer_json);
    free(hf->tokenizer_model);
    free(hf->source_spm);
    free(hf->chat_template);
    *hf = (ln_hf_config){0};
}

bool ln_hf_config_find(const ln_hf_config *hf, const char *key, ln_meta_value *value) {
    const json_t *found = ln_json_find(hf->config, key);
    if (found == NULL)
        found = ln_json_find(ln_json_find(hf->config, "text_config"), key);
    *value = ln_json_meta(found);
    return found != NULL;
}

/* The same in an object, or in one inside it that the dotted key names. */
static bool is_null_in(const json_t *object, const char *key) {
    const char *dot = strrchr(key, '.');
    char path[128];
    if (dot == NULL || (size_t)(dot - key) >= sizeof path)
        return json_is_null(json_object_get(object, key));
    memcpy(path, key, (size_t)(dot - key));
    path[dot - key] = '\0';
    return json_is_null(json_object_get(ln_json_find(object, path), dot + 1));
}

bool ln_hf_config_is_null(const ln_hf_config *hf, const char *key) {
    return is_null_in(hf->config, key) || is_null_in(ln_json_find(hf->config, "text_config"), key);
}
