/* linnet_model: a checkpoint opened with its spec, tokenizer and chat template. */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "engine/api/options.h"
#include "model/family.h"

const char *linnet_version(void) {
    return LINNET_VERSION;
}

void linnet_free(void *memory) {
    free(memory);
}

/* ---- stop ids --------------------------------------------------------------------------- */

/* Where metadata name ids that end a text. */
typedef bool (*meta_fn)(const ln_checkpoint *checkpoint, const char *key, ln_meta_value *value);

typedef struct id_source {
    const char *file; /* for errors */
    const char *key;
    meta_fn find;
} id_source;

static const id_source hf_stops[] = {
    {"config.json", "eos_token_id", ln_checkpoint_meta},
    {"config.json", "text_config.eos_token_id", ln_checkpoint_meta},
    {"generation_config.json", "eos_token_id", ln_checkpoint_generation_meta},
};
static const id_source gguf_stops[] = {
    {"the GGUF metadata", "tokenizer.ggml.eos_token_id", ln_checkpoint_meta},
    {"the GGUF metadata", "tokenizer.ggml.eot_token_id", ln_checkpoint_meta},
    {"the GGUF metadata", "tokenizer.ggml.eom_token_id", ln_checkpoint_meta},
};

/* Adds an id in ascending order, once. */
static ln_status add_stop(linnet_model *model, int32_t id, ln_error *err) {
    size_t at = 0;
    while (at < model->n_stop_ids && model->stop_ids[at] < id)
        at++;
    if (at < model->n_stop_ids && model->stop_ids[at] == id)
        return LINNET_OK;
    int32_t *ids = realloc(model->stop_ids, (model->n_stop_ids + 1) * sizeof *ids);
    if (ids == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory opening the model");
    memmove(ids + at + 1, ids + at, (model->n_stop_ids - at) * sizeof *ids);
    ids[at] = id;
    model->stop_ids = ids;
    model->n_stop_ids++;
    return LINNET_OK;
}

static ln_status add_stop_value(linnet_model *model, const id_source *source,
                                const ln_meta_value *value, ln_error *err) {
    const char *path = ln_checkpoint_path(model->checkpoint);
    if (value->kind != LN_META_INT)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %s in %s is no token id", path, source->key,
                       source->file);
    if (value->integer < 0 || value->integer > INT32_MAX)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %s in %s is %lld, which is no token id", path,
                       source->key, source->file, (long long)value->integer);
    if ((uint64_t)value->integer >= model->spec.n_vocab)
        return LINNET_OK; /* it cannot be sampled: a small model that kept a default */
    return add_stop(model, (int32_t)value->integer, err);
}

/* An id, or a list of ids. */
static ln_status add_stops_of(linnet_model *model, const id_source *source, ln_error *err) {
    enum { MAX_LISTED = 1024 };
    ln_meta_value value, item;
    if (!source->find(model->checkpoint, source->key, &value))
        return LINNET_OK;
    if (value.kind != LN_META_ARRAY)
        return add_stop_value(model, source, &value, err);
    if (value.array.count > MAX_LISTED)
        return ln_fail(err, LINNET_ERR_LIMIT, "%s: %s in %s lists more than %d ids",
                       ln_checkpoint_path(model->checkpoint), source->key, source->file,
                       MAX_LISTED);
    for (size_t i = 0; ln_meta_item(&value, i, &item); i++)
        LN_TRY(add_stop_value(model, source, &item, err));
    return LINNET_OK;
}

static ln_status read_stops(linnet_model *model, ln_error *err) {
    bool is_gguf = ln_checkpoint_get_format(model->checkpoint) == LN_FORMAT_GGUF;
    const id_source *sources = is_gguf ? gguf_stops : hf_stops;
    size_t n_sources =
        is_gguf ? sizeof gguf_stops / sizeof *gguf_stops : sizeof hf_stops / sizeof *hf_stops;
    for (size_t i = 0; i < n_sources; i++)
        LN_TRY(add_stops_of(model, &sources[i], err));
    int32_t eos = model->tokenizer != NULL ? ln_tokenizer_eos(model->tokenizer) : -1;
    if (eos >= 0 && (size_t)eos < model->spec.n_vocab) /* past it: it cannot be sampled */
        return add_stop(model, eos, err);
    return LINNET_OK;
}

/* ---- open ------------------------------------------------------------------------------- */

static ln_status read_name(linnet_model *model, const char *path, ln_error *err) {
    ln_meta_value value;
    size_t n_bytes = strlen(path);
    while (n_bytes > 1 && path[n_bytes - 1] == '/')
        n_bytes--;
    const char *name = path;
    for (size_t i = 0; i + 1 < n_bytes; i++)
        if (path[i] == '/')
            name = path + i + 1;
    n_bytes -= (size_t)(name - path);
    if (ln_checkpoint_meta(model->checkpoint, "general.name", &value) &&
        value.kind == LN_META_STRING && value.string.bytes > 0) {
        name = value.string.data;
        n_bytes = value.string.bytes;
    }
    model->name = strndup(name, n_bytes);
    if (model->name == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory opening %s", path);
    return LINNET_OK;
}

/* A checkpoint without a tokenizer opens, and so does one whose chat template does not compile:
 * linnet_model_encode_chat then says why. */
static ln_status read_text(linnet_model *model, ln_error *err) {
    ln_status status = ln_tokenizer_open(model->checkpoint, &model->tokenizer, err);
    if (status != LINNET_OK) {
        model->tokenizer = NULL;
        return status == LINNET_ERR_STATE ? LINNET_OK : status;
    }
    model->bos_id = ln_tokenizer_bos(model->tokenizer);
    const char *source = model->chat_source = ln_checkpoint_chat_template(model->checkpoint);
    ln_error template_error = {0};
    if (source != NULL && ln_template_compile(source, strlen(source), "chat template",
                                              &model->chat_template, &template_error) != LINNET_OK)
        model->chat_template = NULL;
    if (template_error.status == LINNET_ERR_NOMEM)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s", template_error.message);
    return LINNET_OK;
}

static ln_status read_all(linnet_model *model, const char *path, ln_error *err) {
    LN_TRY(ln_checkpoint_open(path, false, &model->checkpoint, err));
    LN_TRY(ln_spec_read(model->checkpoint, &model->arena, &model->spec, err));
    LN_TRY(read_text(model, err));
    LN_TRY(read_name(model, path, err));
    return read_stops(model, err);
}

linnet_status linnet_model_open(const char *path, linnet_model **out, linnet_error *err) {
    *out = NULL;
    linnet_model *model = calloc(1, sizeof *model);
    if (model == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory opening %s", path);
    ln_arena_init(&model->arena);
    model->bos_id = -1;
    ln_status status = read_all(model, path, err);
    if (status == LINNET_OK)
        *out = model;
    else
        linnet_model_close(model);
    return status;
}

void linnet_model_close(linnet_model *model) {
    if (model == NULL)
        return;
    free(model->stop_ids);
    free(model->name);
    free(model->own_source);
    if (model->chat_template != NULL)
        ln_template_free(model->chat_template);
    if (model->tokenizer != NULL)
        ln_tokenizer_close(model->tokenizer);
    ln_arena_free(&model->arena);
    if (model->checkpoint != NULL)
        ln_checkpoint_close(model->checkpoint);
    free(model);
}

void linnet_model_get_info(const linnet_model *model, linnet_model_info *info) {
    linnet_model_info full = {
        .architecture = model->spec.family->name,
        .name = model->name,
        .n_vocab = (int32_t)model->spec.n_vocab,
        .n_layers = (int32_t)model->spec.n_layers,
        .ctx_tokens = (int64_t)model->spec.ctx_tokens,
        .has_tokenizer = model->tokenizer != NULL,
        .has_chat_template = model->chat_template != NULL,
        .bos_id = model->bos_id,
        .stop_ids = model->stop_ids,
        .n_stop_ids = model->n_stop_ids,
        .has_encoder = model->spec.n_encoder_layers > 0,
    };
    ln_options_give(&full, sizeof full, info);
}

/* ---- text and ids ----------------------------------------------------------------------- */

static ln_status need_tokenizer(const linnet_model *model, ln_error *err) {
    if (model->tokenizer != NULL)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_STATE, "%s has no tokenizer",
                   ln_checkpoint_path(model->checkpoint));
}

linnet_status linnet_model_set_chat_template(linnet_model *model, const char *source,
                                             size_t n_bytes, linnet_error *err) {
    ln_template *compiled;
    LN_TRY(need_tokenizer(model, err));
    LN_TRY(ln_template_compile(source, n_bytes, "chat template", &compiled, err));
    char *own = strndup(source, n_bytes);
    if (own == NULL) {
        ln_template_free(compiled);
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the chat template");
    }
    if (model->chat_template != NULL)
        ln_template_free(model->chat_template);
    free(model->own_source);
    model->chat_source = model->own_source = own;
    model->chat_template = compiled;
    return LINNET_OK;
}

linnet_status linnet_model_encode(const linnet_model *model, const char *text, size_t n_bytes,
                                  bool add_special, bool parse_special, int32_t **ids,
                                  size_t *n_ids, linnet_error *err) {
    *ids = NULL;
    *n_ids = 0;
    LN_TRY(need_tokenizer(model, err));
    unsigned flags =
        (add_special ? LN_ENCODE_ADD_SPECIAL : 0u) | (parse_special ? LN_ENCODE_PARSE_SPECIAL : 0u);
    ln_ids list = {0};
    ln_status status = ln_tokenizer_encode(model->tokenizer, text, n_bytes, flags, &list, err);
    if (status != LINNET_OK) {
        ln_ids_free(&list);
        return status;
    }
    *ids = list.data;
    *n_ids = list.count;
    return LINNET_OK;
}

linnet_status linnet_model_decode(const linnet_model *model, const int32_t *ids, size_t n_ids,
                                  bool keep_special, char **text, size_t *n_bytes,
                                  linnet_error *err) {
    *text = NULL;
    *n_bytes = 0;
    LN_TRY(need_tokenizer(model, err));
    ln_strbuf buf;
    ln_strbuf_init(&buf);
    ln_status status = ln_tokenizer_decode(model->tokenizer, ids, n_ids, keep_special, &buf, err);
    if (status == LINNET_OK && !ln_strbuf_append(&buf, "", 0))
        status = ln_fail(err, LINNET_ERR_NOMEM, "out of memory decoding %zu tokens", n_ids);
    if (status != LINNET_OK) {
        ln_strbuf_free(&buf);
        return status;
    }
    *n_bytes = buf.len;
    *text = ln_strbuf_take(&buf);
    return LINNET_OK;
}
