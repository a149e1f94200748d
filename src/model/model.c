#include "model/model.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "model/generation/stop_ids.h"
#include "model/spec_read.h"

static ln_status read_name(linnet_model *model, const char *path, ln_error *err) {
    ln_meta_value value;
    size_t n_bytes;
    const char *name = ln_path_model_name(path, &n_bytes);
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
 * rendering a chat then says why. */
static ln_status read_text(linnet_model *model, ln_error *err) {
    ln_status status = ln_tokenizer_open(model->checkpoint, &model->tokenizer, err);
    if (status != LINNET_OK) {
        model->tokenizer = NULL;
        return status == LINNET_ERR_STATE ? LINNET_OK : status;
    }
    model->bos_id = ln_tokenizer_bos(model->tokenizer);
    const char *source = model->chat_source = ln_checkpoint_chat_template(model->checkpoint);
    ln_error template_error = {0};
    if (source != NULL && ln_jinja_compile(source, strlen(source), "chat template",
                                           &model->chat_template, &template_error) != LINNET_OK)
        model->chat_template = NULL;
    if (template_error.status == LINNET_ERR_NOMEM)
        return ln_fail(err, LINNET_ERR_NOMEM, "%s", template_error.message);
    return LINNET_OK;
}

static bool is_qwen3_reranker(const linnet_model *model) {
    static const char word[] = "qwen3-reranker";
    const char *at = ln_checkpoint_path(model->checkpoint);
    for (; *at != '\0'; at++)
        if (strncasecmp(at, word, sizeof word - 1) == 0)
            return ln_checkpoint_get_format(model->checkpoint) == LN_FORMAT_HF;
    return false;
}

/* The token that a word is. */
static ln_status find_word(const linnet_model *model, const char *word, int64_t *id,
                           ln_error *err) {
    ln_ids list = {0};
    ln_status status = ln_tokenizer_encode(model->tokenizer, word, strlen(word), 0, &list, err);
    *id = list.count == 1 ? list.data[0] : -1;
    ln_ids_free(&list);
    return status;
}

/* Makes a Qwen3-Reranker score by its tokens yes and no, where only its path says what it is. */
static ln_status find_answers(linnet_model *model, ln_error *err) {
    ln_embedding *e = &model->embedding;
    int64_t yes, no;
    if (e->asks || e->classes.n > 0 || model->tokenizer == NULL || !is_qwen3_reranker(model))
        return LINNET_OK;
    LN_TRY(find_word(model, "yes", &yes, err));
    LN_TRY(find_word(model, "no", &no, err));
    if (yes < 0 || no < 0)
        return LINNET_OK;
    e->answers[0] = yes;
    e->answers[1] = no;
    return ln_embedding_set_answers(model->checkpoint, &model->spec, e, err);
}

static ln_status read_all(linnet_model *model, const char *path, ln_error *err) {
    LN_TRY(ln_checkpoint_open(path, false, &model->checkpoint, err));
    LN_TRY(ln_spec_read(model->checkpoint, &model->arena, &model->spec, err));
    LN_TRY(
        ln_embedding_read(model->checkpoint, &model->spec, &model->arena, &model->embedding, err));
    LN_TRY(read_text(model, err));
    LN_TRY(find_answers(model, err));
    LN_TRY(read_name(model, path, err));
    ln_stop_ids stops = {0};
    ln_status status =
        ln_stop_ids_read(model->checkpoint, model->tokenizer, model->spec.n_vocab, &stops, err);
    model->stop_ids = stops.ids;
    model->n_stop_ids = stops.count;
    model->n_outside_ids = stops.n_outside;
    LN_TRY(status);
    model->forced_end_id = ln_forced_end_read(model->checkpoint, &stops);
    return ln_forbidden_read(model->checkpoint, model->spec.n_vocab, &stops, &model->arena,
                             &model->forbidden, err);
}

ln_status ln_model_open(const char *path, linnet_model **out, ln_error *err) {
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
        ln_model_close(model);
    return status;
}

void ln_model_close(linnet_model *model) {
    if (model == NULL)
        return;
    free(model->stop_ids);
    free(model->name);
    free(model->own_source);
    if (model->chat_template != NULL)
        ln_jinja_free(model->chat_template);
    if (model->pair_template != NULL)
        ln_jinja_free(model->pair_template);
    if (model->tokenizer != NULL)
        ln_tokenizer_close(model->tokenizer);
    ln_embedding_free(&model->embedding);
    ln_arena_free(&model->arena);
    if (model->checkpoint != NULL)
        ln_checkpoint_close(model->checkpoint);
    free(model);
}

ln_status ln_model_need_tokenizer(const linnet_model *model, ln_error *err) {
    if (model->tokenizer != NULL)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_STATE, "%s has no tokenizer",
                   ln_checkpoint_path(model->checkpoint));
}

ln_status ln_model_set_chat_template(linnet_model *model, const char *source, size_t n_bytes,
                                     ln_error *err) {
    ln_jinja_template *compiled;
    LN_TRY(ln_model_need_tokenizer(model, err));
    LN_TRY(ln_jinja_compile(source, n_bytes, "chat template", &compiled, err));
    char *own = strndup(source, n_bytes);
    if (own == NULL) {
        ln_jinja_free(compiled);
        return ln_fail_memory(err, "the chat template");
    }
    if (model->chat_template != NULL)
        ln_jinja_free(model->chat_template);
    free(model->own_source);
    model->chat_source = model->own_source = own;
    model->chat_template = compiled;
    return LINNET_OK;
}
