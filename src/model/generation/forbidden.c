#include "model/generation/forbidden.h"

enum { MAX_WORDS = 65536, MAX_WORD = 256 };

typedef struct reader {
    const ln_checkpoint *checkpoint;
    size_t n_vocab;
    const ln_stop_ids *stops;
    int32_t *ids; /* NULL: they are counted */
    size_t *ends; /* likewise */
    size_t n_ids, n_words;
} reader;

static bool find(const reader *r, const char *key, ln_meta_value *value) {
    return ln_checkpoint_generation_meta(r->checkpoint, key, value) ||
           ln_checkpoint_meta(r->checkpoint, key, value);
}

static bool ends_text(const reader *r, int64_t id) {
    for (size_t i = 0; i < r->stops->count; i++)
        if (r->stops->ids[i] == id)
            return true;
    return false;
}

static ln_status check_id(const reader *r, const char *key, const ln_meta_value *id,
                          ln_error *err) {
    if (id->kind == LN_META_INT && id->integer >= INT32_MIN && id->integer <= INT32_MAX)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: %s: an entry is no token id",
                   ln_checkpoint_path(r->checkpoint), key);
}

static void add(reader *r, int64_t id) {
    if (r->ids != NULL)
        r->ids[r->n_ids] = (int32_t)id;
    r->n_ids++;
}

static void end_word(reader *r) {
    if (r->ends != NULL)
        r->ends[r->n_words] = r->n_ids;
    r->n_words++;
}

static ln_status read_word(reader *r, const char *key, const ln_meta_value *word, ln_error *err) {
    ln_meta_value id = {0};
    size_t begin = r->n_ids;
    bool can_come = true;
    if (word->kind != LN_META_ARRAY || word->array.count == 0 || word->array.count > MAX_WORD)
        return ln_fail(err, LINNET_ERR_FORMAT, "%s: %s: an entry is no list of 1 to %d ids",
                       ln_checkpoint_path(r->checkpoint), key, MAX_WORD);
    for (size_t i = 0; ln_meta_item(word, i, &id); i++) {
        LN_TRY(check_id(r, key, &id, err));
        can_come &= id.integer >= 0 && (uint64_t)id.integer < r->n_vocab;
        add(r, id.integer);
    }
    if (!can_come || (word->array.count == 1 && ends_text(r, id.integer)))
        r->n_ids = begin;
    else
        end_word(r);
    return LINNET_OK;
}

/* The list of a key, empty where the key is absent or null. */
static ln_status find_list(const reader *r, const char *key, ln_meta_value *list, ln_error *err) {
    *list = (ln_meta_value){.kind = LN_META_ARRAY};
    if (!find(r, key, list))
        return LINNET_OK;
    if (list->kind == LN_META_ARRAY && list->array.count <= MAX_WORDS)
        return LINNET_OK;
    return ln_fail(err, LINNET_ERR_FORMAT, "%s: %s is no list of at most %d entries",
                   ln_checkpoint_path(r->checkpoint), key, MAX_WORDS);
}

static ln_status read_all(reader *r, ln_error *err) {
    ln_meta_value list, item;
    r->n_ids = r->n_words = 0;
    LN_TRY(find_list(r, "bad_words_ids", &list, err));
    for (size_t i = 0; i < list.array.count && ln_meta_item(&list, i, &item); i++)
        LN_TRY(read_word(r, "bad_words_ids", &item, err));
    LN_TRY(find_list(r, "suppress_tokens", &list, err));
    for (size_t i = 0; i < list.array.count && ln_meta_item(&list, i, &item); i++) {
        LN_TRY(check_id(r, "suppress_tokens", &item, err));
        if (item.integer < 0 || (uint64_t)item.integer >= r->n_vocab)
            continue;
        add(r, item.integer);
        end_word(r);
    }
    return LINNET_OK;
}

ln_status ln_forbidden_read(const ln_checkpoint *checkpoint, size_t n_vocab,
                            const ln_stop_ids *stops, ln_arena *arena, ln_forbidden *out,
                            ln_error *err) {
    reader r = {.checkpoint = checkpoint, .n_vocab = n_vocab, .stops = stops};
    *out = (ln_forbidden){0};
    if (ln_checkpoint_get_format(checkpoint) == LN_FORMAT_GGUF)
        return LINNET_OK;
    LN_TRY(read_all(&r, err));
    if (r.n_words == 0)
        return LINNET_OK;
    /* a word that does not count is written before it is known that it does not */
    int32_t *ids = ln_arena_alloc(arena, r.n_ids + MAX_WORD, sizeof *ids);
    size_t *ends = ln_arena_alloc(arena, r.n_words, sizeof *ends);
    if (ids == NULL || ends == NULL)
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory opening the model");
    r.ids = ids;
    r.ends = ends;
    LN_TRY(read_all(&r, err));
    *out = (ln_forbidden){.ids = ids, .ends = ends, .n_words = r.n_words};
    return LINNET_OK;
}
