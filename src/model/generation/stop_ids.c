#include "model/generation/stop_ids.h"

#include <stdlib.h>
#include <string.h>

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

typedef struct stop_reader {
    const ln_checkpoint *checkpoint;
    size_t n_vocab;
    ln_stop_ids *ids;
} stop_reader;

/* Adds an id in ascending order, once. */
static ln_status add_stop(ln_stop_ids *ids, int32_t id, ln_error *err) {
    size_t at = 0;
    while (at < ids->count && ids->ids[at] < id)
        at++;
    if (at < ids->count && ids->ids[at] == id)
        return LINNET_OK;
    int32_t *longer = realloc(ids->ids, (ids->count + 1) * sizeof *longer);
    if (longer == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory opening the model");
    memmove(longer + at + 1, longer + at, (ids->count - at) * sizeof *longer);
    longer[at] = id;
    ids->ids = longer;
    ids->count++;
    return LINNET_OK;
}

static ln_status add_stop_value(const stop_reader *r, const id_source *source,
                                const ln_meta_value *value, ln_error *err) {
    const char *path = ln_checkpoint_path(r->checkpoint);
    if (value->kind != LN_META_INT)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %s in %s is no token id", path, source->key,
                       source->file);
    if (value->integer < 0 || value->integer > INT32_MAX)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %s in %s is %lld, which is no token id", path,
                       source->key, source->file, (long long)value->integer);
    if ((uint64_t)value->integer >= r->n_vocab) { /* a small model that kept a default */
        r->ids->n_outside++;
        return LINNET_OK;
    }
    return add_stop(r->ids, (int32_t)value->integer, err);
}

/* An id, or a list of ids. */
static ln_status add_stops_of(const stop_reader *r, const id_source *source, ln_error *err) {
    enum { MAX_LISTED = 1024 };
    ln_meta_value value, item;
    if (!source->find(r->checkpoint, source->key, &value))
        return LINNET_OK;
    if (value.kind != LN_META_ARRAY)
        return add_stop_value(r, source, &value, err);
    if (value.array.count > MAX_LISTED)
        return ln_fail(err, LINNET_ERR_LIMIT, "%s: %s in %s lists more than %d ids",
                       ln_checkpoint_path(r->checkpoint), source->key, source->file, MAX_LISTED);
    for (size_t i = 0; ln_meta_item(&value, i, &item); i++)
        LN_TRY(add_stop_value(r, source, &item, err));
    return LINNET_OK;
}

ln_status ln_stop_ids_read(const ln_checkpoint *checkpoint, const ln_tokenizer *tokenizer,
                           size_t n_vocab, ln_stop_ids *ids, ln_error *err) {
    const stop_reader *r = &(stop_reader){.checkpoint = checkpoint, .n_vocab = n_vocab, .ids = ids};
    bool is_gguf = ln_checkpoint_get_format(r->checkpoint) == LN_FORMAT_GGUF;
    const id_source *sources = is_gguf ? gguf_stops : hf_stops;
    size_t n_sources =
        is_gguf ? sizeof gguf_stops / sizeof *gguf_stops : sizeof hf_stops / sizeof *hf_stops;
    for (size_t i = 0; i < n_sources; i++)
        LN_TRY(add_stops_of(r, &sources[i], err));
    int32_t eos = tokenizer != NULL ? ln_tokenizer_eos(tokenizer) : -1;
    if (eos >= 0 && (size_t)eos < r->n_vocab) /* past it: it cannot be sampled */
        return add_stop(r->ids, eos, err);
    return LINNET_OK;
}

int32_t ln_forced_end_read(const ln_checkpoint *checkpoint, const ln_stop_ids *stops) {
    static const char key[] = "forced_eos_token_id";
    ln_meta_value value, first;
    if (ln_checkpoint_get_format(checkpoint) == LN_FORMAT_GGUF)
        return -1;
    if (!ln_checkpoint_generation_meta(checkpoint, key, &value) &&
        !ln_checkpoint_meta(checkpoint, key, &value))
        return -1;
    if (value.kind == LN_META_ARRAY && ln_meta_item(&value, 0, &first))
        value = first;
    for (size_t i = 0; value.kind == LN_META_INT && i < stops->count; i++)
        if (stops->ids[i] == value.integer)
            return stops->ids[i];
    return -1;
}
