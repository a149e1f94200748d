/* Words to symbols: the outer half of BPE. */
#include "text/tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/utf8.h"
#include "text/tokenizer/bpe_merge.h"

/* Adds a symbol to the span. Where no token has it beside the one before, nothing can ever
 * merge across: what came before is finished first, which keeps spans short. */
static inline ln_status add_symbol(ln_bpe_encoding *e, uint32_t id) {
    ln_bpe_work *work = e->work;
    if (work->count > 0 && e->bpe->cuts && e->split_flags == 0 &&
        ln_bpe_find_pair(e->bpe, work->slots[work->count - 1].id, id) == NULL)
        LN_TRY(ln_bpe_flush(e));
    if (work->count == work->capacity &&
        !ln_grow((void **)&work->slots, &work->capacity, work->count + 1, sizeof *work->slots))
        return ln_fail_memory(e->err, "tokens");
    work->slots[work->count++] = (ln_bpe_slot){id, 1};
    return LINNET_OK;
}

/* The symbol of a character under prefix and suffix; the looked-up text is left in work->text. */
static ln_status decorated_symbol(ln_bpe_encoding *e, const char *text, size_t n_bytes,
                                  bool is_first, bool is_last, uint32_t *id, size_t *text_bytes) {
    const ln_bpe *bpe = e->bpe;
    ln_bpe_work *work = e->work;
    size_t prefix = bpe->prefix && !is_first ? strlen(bpe->prefix) : 0;
    size_t suffix = bpe->suffix && is_last ? strlen(bpe->suffix) : 0;
    size_t total = prefix + n_bytes + suffix;
    if (!ln_grow((void **)&work->text, &work->text_capacity, total, 1))
        return ln_fail_memory(e->err, "tokens");
    if (prefix > 0)
        memcpy(work->text, bpe->prefix, prefix);
    memcpy(work->text + prefix, text, n_bytes);
    if (suffix > 0)
        memcpy(work->text + prefix + n_bytes, bpe->suffix, suffix);
    int32_t found = ln_vocab_find(bpe->vocab, work->text, total);
    *id = found < 0 ? LN_BPE_NONE : (uint32_t)found;
    *text_bytes = total;
    return LINNET_OK;
}

/* The tokens of the bytes, when there is one for each of them. */
static ln_status add_bytes(ln_bpe_encoding *e, const char *text, size_t n_bytes, bool *all) {
    const int32_t *byte_ids = e->bpe->byte_ids;
    *all = true;
    for (size_t i = 0; i < n_bytes; i++)
        *all = *all && byte_ids[(unsigned char)text[i]] >= 0;
    for (size_t i = 0; *all && i < n_bytes; i++)
        LN_TRY(add_symbol(e, (uint32_t)byte_ids[(unsigned char)text[i]]));
    return LINNET_OK;
}

/* Hugging Face: a character that the vocabulary lacks becomes bytes, the unknown token (one for a
 * run when fused), or nothing. An unknown token waits until the next known character. */
static ln_status split_word(ln_bpe_encoding *e, const char *word, size_t n_bytes) {
    const ln_bpe *bpe = e->bpe;
    bool waiting = false, decorated = bpe->prefix != NULL || bpe->suffix != NULL;
    uint32_t unk = (uint32_t)bpe->vocab->unk;
    for (size_t at = 0, length; at < n_bytes; at += length) {
        uint32_t id = ln_bpe_char_symbol(bpe, ln_utf8_decode(word + at, &length));
        const char *text = word + at;
        size_t text_bytes = length;
        if (decorated) {
            LN_TRY(decorated_symbol(e, text, length, at == 0, at + length == n_bytes, &id,
                                    &text_bytes));
            text = e->work->text;
        }
        if (id != LN_BPE_NONE) {
            if (waiting)
                LN_TRY(add_symbol(e, unk));
            LN_TRY(add_symbol(e, id));
            waiting = false;
            continue;
        }
        bool all = false;
        if (bpe->byte_fallback)
            LN_TRY(add_bytes(e, text, text_bytes, &all));
        if (all)
            continue;
        if (bpe->unk_missing)
            return ln_fail(e->err, LINNET_ERR_FORMAT,
                           "the tokenizer's unknown token is not in its vocabulary");
        if (bpe->vocab->unk < 0)
            continue;
        if (waiting && !bpe->fuse_unk)
            LN_TRY(add_symbol(e, unk));
        waiting = true;
    }
    return waiting ? add_symbol(e, unk) : LINNET_OK;
}

static ln_status split_text(ln_bpe_encoding *e, const char *word, size_t n_bytes) {
    for (size_t at = 0; at < n_bytes;) {
        uint32_t id = 0;
        at += ln_bpe_first_symbol(e->bpe, word + at, n_bytes - at, &id);
        LN_TRY(add_symbol(e, id));
    }
    return LINNET_OK;
}

ln_status ln_bpe_encode(const ln_bpe *bpe, ln_bpe_work **work, const char *word, size_t n_bytes,
                        bool plain, ln_ids *ids, ln_error *err) {
    if (n_bytes == 0)
        return LINNET_OK;
    if (bpe->ignore_merges) {
        int32_t id = ln_vocab_find(bpe->vocab, word, n_bytes);
        if (id >= 0 && !(plain && (bpe->vocab->pieces[id].flags & LN_TOKEN_SPECIAL)))
            return ln_ids_push(ids, id, err);
    }
    if (*work == NULL)
        *work = calloc(1, sizeof **work);
    if (*work == NULL)
        return ln_fail_memory(err, "tokens");
    ln_bpe_encoding e = {
        .bpe = bpe, .work = *work, .text = word, .n_bytes = n_bytes, .ids = ids, .err = err};
    e.split_flags = (bpe->has_unused && bpe->by_score ? LN_TOKEN_UNUSED : 0) |
                    (bpe->has_special_merges && plain ? LN_TOKEN_SPECIAL : 0);
    if (e.split_flags != 0 && e.work->splits == NULL) {
        e.work->splits = calloc(bpe->vocab->count + 1, sizeof *e.work->splits);
        if (e.work->splits == NULL)
            return ln_fail_memory(err, "tokens");
    }
    e.work->count = 0;
    LN_TRY(bpe->by_score ? split_text(&e, word, n_bytes) : split_word(&e, word, n_bytes));
    return ln_bpe_flush(&e);
}
