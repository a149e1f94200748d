#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "text/merge_queue.h"
#include "text/utf8.h"

#define FROZEN 0x80000000u /* a user-defined piece: the symbol takes part in no merge */

/* A stretch of the word: linked to its neighbours, LN_BPE_NONE at the ends. */
typedef struct symbol {
    uint32_t id;     /* token or character; LN_BPE_NONE: unknown */
    uint32_t length; /* bytes of its text; 0: merged into the one on its left */
    uint32_t previous, next;
} symbol;

struct ln_bpe_work {
    symbol *symbols; /* [capacity] */
    size_t count, capacity;
    ln_merge_queue queue;
    struct split {
        uint32_t left, right, left_bytes;
    } * splits;      /* [vocab->count]: how a piece that may not stand came about; or NULL */
    uint64_t *stack; /* [stack_capacity] symbols and lengths still to be split */
    size_t stack_capacity;
    char *text; /* [text_capacity] a character with prefix and suffix */
    size_t text_capacity;
};

void ln_bpe_work_free(ln_bpe_work *work) {
    if (work == NULL)
        return;
    free(work->symbols);
    ln_merge_queue_free(&work->queue);
    free(work->splits);
    free(work->stack);
    free(work->text);
    free(work);
}

static ln_status out_of_memory(ln_error *err) {
    return ln_fail(err, LINNET_ERR_NOMEM, "out of memory while tokenising");
}

static bool grow(ln_bpe_work *work) {
    size_t capacity = work->capacity < 64 ? 64 : work->capacity * 2;
    symbol *larger = realloc(work->symbols, capacity * sizeof *larger);
    if (larger == NULL)
        return false;
    work->symbols = larger;
    work->capacity = capacity;
    return true;
}

static inline bool add_symbol(ln_bpe_work *work, uint32_t id, size_t n_bytes) {
    if (work->count == work->capacity && !grow(work))
        return false;
    uint32_t at = (uint32_t)work->count++;
    work->symbols[at] = (symbol){id, (uint32_t)n_bytes, at - 1, at + 1}; /* 0 - 1 is NONE */
    return true;
}

static inline uint32_t char_symbol(const ln_bpe *bpe, uint32_t code_point) {
    const uint32_t *page = bpe->char_pages[code_point >> 8];
    return page == NULL ? LN_BPE_NONE : page[code_point & 255];
}

static inline const ln_bpe_pair *find_pair(const ln_bpe *bpe, uint32_t left, uint32_t right) {
    if (left == LN_BPE_NONE || right == LN_BPE_NONE)
        return NULL;
    for (size_t at = ln_bpe_pair_slot(bpe, left, right);; at = (at + 1) & bpe->pair_mask) {
        const ln_bpe_pair *pair = &bpe->pairs[at];
        if (pair->left == left && pair->right == right)
            return pair;
        if (pair->left == LN_BPE_NONE)
            return NULL;
    }
}

/* ---- a word to its first symbols --------------------------------------------------------- */

/* The symbol of a character under prefix and suffix; the looked-up text is left in work->text. */
static ln_status decorated_symbol(const ln_bpe *bpe, ln_bpe_work *work, const char *text,
                                  size_t n_bytes, bool is_first, bool is_last, uint32_t *id,
                                  size_t *text_bytes, ln_error *err) {
    size_t prefix = bpe->prefix && !is_first ? strlen(bpe->prefix) : 0;
    size_t suffix = bpe->suffix && is_last ? strlen(bpe->suffix) : 0;
    size_t total = prefix + n_bytes + suffix;
    if (total > work->text_capacity) {
        char *larger = realloc(work->text, total);
        if (larger == NULL)
            return out_of_memory(err);
        work->text = larger;
        work->text_capacity = total;
    }
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

static bool add_bytes(const ln_bpe *bpe, ln_bpe_work *work, const char *text, size_t n_bytes,
                      bool *all) {
    *all = true;
    for (size_t i = 0; i < n_bytes; i++)
        *all = *all && bpe->byte_ids[(unsigned char)text[i]] >= 0;
    for (size_t i = 0; *all && i < n_bytes; i++)
        if (!add_symbol(work, (uint32_t)bpe->byte_ids[(unsigned char)text[i]], 1))
            return false;
    return true;
}

/* Hugging Face: a character that the vocabulary lacks becomes bytes, the unknown token (one for a
 * run when fused), or nothing. An unknown token waits until the next known character. */
static ln_status split_word(const ln_bpe *bpe, ln_bpe_work *work, const char *word, size_t n_bytes,
                            ln_error *err) {
    bool waiting = false, decorated = bpe->prefix != NULL || bpe->suffix != NULL;
    uint32_t unk = (uint32_t)bpe->vocab->unk;
    for (size_t at = 0, length; at < n_bytes; at += length) {
        uint32_t id = char_symbol(bpe, ln_utf8_decode(word + at, &length));
        const char *text = word + at;
        size_t text_bytes = length;
        if (decorated) {
            LN_TRY(decorated_symbol(bpe, work, text, length, at == 0, at + length == n_bytes, &id,
                                    &text_bytes, err));
            text = work->text;
        }
        if (id != LN_BPE_NONE) {
            if ((waiting && !add_symbol(work, unk, 1)) || !add_symbol(work, id, length))
                return out_of_memory(err);
            waiting = false;
            continue;
        }
        bool all = false;
        if (bpe->byte_fallback && !add_bytes(bpe, work, text, text_bytes, &all))
            return out_of_memory(err);
        if (all)
            continue;
        if (bpe->unk_missing)
            return ln_fail(err, LINNET_ERR_FORMAT,
                           "the tokenizer's unknown token is not in its vocabulary");
        if (bpe->vocab->unk < 0)
            continue;
        if (waiting && !bpe->fuse_unk && !add_symbol(work, unk, 1))
            return out_of_memory(err);
        waiting = true;
    }
    return waiting && !add_symbol(work, unk, 1) ? out_of_memory(err) : LINNET_OK;
}

/* Bytes of the longest user-defined piece at the text, with its id; or 0. */
static size_t match_user_defined(const ln_trie *trie, const char *text, size_t n_bytes,
                                 uint32_t *id) {
    size_t longest = 0;
    uint32_t node = 0;
    for (size_t at = 0; at < n_bytes; at++) {
        node = ln_trie_child(trie, node, (unsigned char)text[at]);
        if (node == 0)
            break;
        if (trie->value[node] >= 0) {
            longest = at + 1;
            *id = (uint32_t)trie->value[node];
        }
    }
    return longest;
}

/* SentencePiece: characters and user-defined pieces, known or not. */
static ln_status split_text(const ln_bpe *bpe, ln_bpe_work *work, const char *word, size_t n_bytes,
                            ln_error *err) {
    for (size_t at = 0, length; at < n_bytes; at += length) {
        uint32_t id = 0;
        length = 0;
        if (bpe->user_defined.n_nodes > 0)
            length = match_user_defined(&bpe->user_defined, word + at, n_bytes - at, &id);
        if (length > 0)
            id |= FROZEN;
        else
            id = char_symbol(bpe, ln_utf8_decode(word + at, &length));
        if (!add_symbol(work, id, length))
            return out_of_memory(err);
    }
    return LINNET_OK;
}

/* ---- merging ----------------------------------------------------------------------------- */

typedef struct merger {
    const ln_bpe *bpe;
    ln_bpe_work *work;
    uint32_t split_flags; /* pieces with one of these are taken apart in the end */
} merger;

static inline void offer(const merger *m, uint32_t left, uint32_t right) {
    ln_bpe_work *work = m->work;
    const ln_bpe_pair *pair = find_pair(m->bpe, work->symbols[left].id, work->symbols[right].id);
    if (pair == NULL)
        return;
    if (m->split_flags != 0 && (m->bpe->vocab->pieces[pair->merged].flags & m->split_flags))
        work->splits[pair->merged] =
            (struct split){pair->left, pair->right, work->symbols[left].length};
    ln_merge_queue_push(&work->queue, pair->rank, left);
}

/* Merges while there is a pair to merge. An entry may be stale: it still counts when the pair now
 * at its place gives the same token, as in the reference implementations. */
static void merge_all(const merger *m) {
    const ln_bpe *bpe = m->bpe;
    ln_bpe_work *work = m->work;
    symbol *symbols = work->symbols;
    symbols[work->count - 1].next = LN_BPE_NONE;
    for (uint32_t i = 0; i + 1 < work->count; i++)
        offer(m, i, i + 1);
    uint32_t rank, at;
    while (ln_merge_queue_pop(&work->queue, &rank, &at)) {
        symbol *left = &symbols[at];
        if (left->length == 0 || left->next == LN_BPE_NONE)
            continue;
        symbol *right = &symbols[left->next];
        const ln_bpe_pair *pair = find_pair(bpe, left->id, right->id);
        if (pair == NULL || (pair->rank != rank && (bpe->merged_of_rank == NULL ||
                                                    bpe->merged_of_rank[rank] != pair->merged)))
            continue;
        left->id = pair->merged;
        left->length += right->length;
        left->next = right->next;
        right->length = 0;
        if (left->next != LN_BPE_NONE)
            symbols[left->next].previous = at;
        if (left->previous != LN_BPE_NONE)
            offer(m, left->previous, at);
        if (left->next != LN_BPE_NONE)
            offer(m, at, left->next);
    }
}

/* ---- symbols to ids ---------------------------------------------------------------------- */

/* An unknown stretch of text: bytes, or one unknown token for a run of them. */
static ln_status emit_unknown(const ln_bpe *bpe, const char *text, size_t n_bytes, bool *in_unknown,
                              ln_ids *ids, ln_error *err) {
    bool has_bytes = bpe->byte_fallback;
    for (size_t i = 0; i < n_bytes; i++)
        has_bytes = has_bytes && bpe->byte_ids[(unsigned char)text[i]] >= 0;
    if (has_bytes) {
        for (size_t i = 0; i < n_bytes; i++)
            LN_TRY(ln_ids_push(ids, bpe->byte_ids[(unsigned char)text[i]], err));
    } else if (!*in_unknown && bpe->vocab->unk >= 0) {
        LN_TRY(ln_ids_push(ids, bpe->vocab->unk, err));
    }
    *in_unknown = true;
    return LINNET_OK;
}

static ln_status push_split(ln_bpe_work *work, size_t depth, uint64_t part, ln_error *err) {
    if (depth == work->stack_capacity) {
        size_t capacity = depth < 16 ? 16 : depth * 2;
        uint64_t *larger = realloc(work->stack, capacity * sizeof *larger);
        if (larger == NULL)
            return out_of_memory(err);
        work->stack = larger;
        work->stack_capacity = capacity;
    }
    work->stack[depth] = part;
    return LINNET_OK;
}

/* A symbol is a piece, or (SentencePiece) text without one. Pieces that may not stand are taken
 * apart the way they were merged. */
static ln_status emit_symbol(const merger *m, uint32_t id, const char *text, size_t n_bytes,
                             bool *in_unknown, ln_ids *ids, ln_error *err) {
    const ln_vocab *vocab = m->bpe->vocab;
    ln_bpe_work *work = m->work;
    for (size_t depth = 0;;) {
        id &= id == LN_BPE_NONE ? LN_BPE_NONE : ~FROZEN;
        bool known = id < vocab->count;
        if (known && m->split_flags != 0 && (vocab->pieces[id].flags & m->split_flags) &&
            work->splits[id].left_bytes > 0) {
            struct split split = work->splits[id];
            LN_TRY(push_split(work, depth++,
                              (uint64_t)split.right << 32 | (n_bytes - split.left_bytes), err));
            id = split.left;
            n_bytes = split.left_bytes;
            continue;
        }
        if (known && !(m->bpe->by_score && (vocab->pieces[id].flags & LN_TOKEN_UNUSED))) {
            LN_TRY(ln_ids_push(ids, (int32_t)id, err));
            *in_unknown = false;
        } else {
            LN_TRY(emit_unknown(m->bpe, text, n_bytes, in_unknown, ids, err));
        }
        if (depth == 0)
            return LINNET_OK;
        text += n_bytes;
        depth--;
        id = (uint32_t)(work->stack[depth] >> 32);
        n_bytes = (size_t)(work->stack[depth] & UINT32_MAX);
    }
}

static ln_status emit(const merger *m, const char *word, ln_ids *ids, ln_error *err) {
    const ln_bpe_work *work = m->work;
    bool in_unknown = false, plain = !m->bpe->by_score && m->split_flags == 0;
    for (uint32_t i = 0; i < work->count; i++) {
        uint32_t n_bytes = work->symbols[i].length;
        if (n_bytes == 0)
            continue;
        if (plain)
            LN_TRY(ln_ids_push(ids, (int32_t)work->symbols[i].id, err));
        else
            LN_TRY(emit_symbol(m, work->symbols[i].id, word, n_bytes, &in_unknown, ids, err));
        word += n_bytes;
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
        return out_of_memory(err);
    ln_bpe_work *w = *work;
    merger m = {bpe, w, 0};
    m.split_flags = (bpe->has_unused && bpe->by_score ? LN_TOKEN_UNUSED : 0) |
                    (bpe->has_special_merges && plain ? LN_TOKEN_SPECIAL : 0);
    if (m.split_flags != 0 && w->splits == NULL) {
        w->splits = calloc(bpe->vocab->count + 1, sizeof *w->splits);
        if (w->splits == NULL)
            return out_of_memory(err);
    }
    w->count = 0;
    LN_TRY(bpe->by_score ? split_text(bpe, w, word, n_bytes, err)
                         : split_word(bpe, w, word, n_bytes, err));
    ln_merge_queue_begin(&w->queue, w->count, bpe->n_ranks);
    if (w->count > 1)
        merge_all(&m);
    if (w->queue.failed)
        return out_of_memory(err);
    return emit(&m, word, ids, err);
}
