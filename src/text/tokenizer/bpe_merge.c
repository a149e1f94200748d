#include "text/tokenizer/bpe_merge.h"

#include <stdlib.h>

#include "base/grow.h"
#include "base/utf8.h"

void ln_bpe_work_free(ln_bpe_work *work) {
    if (work == NULL)
        return;
    free(work->slots);
    ln_merge_queue_free(&work->queue);
    free(work->splits);
    free(work->stack);
    free(work->text);
    free(work);
}

/* ---- merging ----------------------------------------------------------------------------- */

static inline void offer(const ln_bpe_encoding *e, uint32_t left, uint32_t right) {
    ln_bpe_work *work = e->work;
    const ln_bpe_pair *pair = ln_bpe_find_pair(e->bpe, work->slots[left].id, work->slots[right].id);
    if (pair == NULL || pair->merged == LN_BPE_NONE)
        return;
    if (e->split_flags != 0 && (e->bpe->vocab->pieces[pair->merged].flags & e->split_flags))
        work->splits[pair->merged] =
            (ln_bpe_split){pair->left, pair->right, work->slots[left].span};
    ln_merge_queue_push(&work->queue, pair->rank, left);
}

/* Merges while there is a pair to merge. An entry may be stale: it still counts when the pair now
 * at its place gives the same token, as in the reference implementations. */
static void merge_all(const ln_bpe_encoding *e) {
    const ln_bpe *bpe = e->bpe;
    ln_bpe_slot *slots = e->work->slots;
    uint32_t count = (uint32_t)e->work->count, rank, at;
    for (uint32_t i = 0; i + 1 < count; i++)
        offer(e, i, i + 1);
    while (ln_merge_queue_pop(&e->work->queue, &rank, &at)) {
        uint32_t right = at + slots[at].span;
        if (slots[at].id == LN_BPE_NONE || right == count)
            continue;
        const ln_bpe_pair *pair = ln_bpe_find_pair(bpe, slots[at].id, slots[right].id);
        if (pair == NULL || pair->merged == LN_BPE_NONE ||
            (pair->rank != rank &&
             (bpe->merged_of_rank == NULL || bpe->merged_of_rank[rank] != pair->merged)))
            continue;
        uint32_t span = slots[at].span + slots[right].span, after = at + span;
        slots[right].id = LN_BPE_NONE;
        slots[after - 1].span = span;
        slots[at] = (ln_bpe_slot){pair->merged, span};
        if (at > 0)
            offer(e, at - slots[at - 1].span, at);
        if (after < count)
            offer(e, at, after);
    }
}

/* ---- symbols to ids ---------------------------------------------------------------------- */

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

size_t ln_bpe_first_symbol(const ln_bpe *bpe, const char *text, size_t n_bytes, uint32_t *id) {
    size_t length = 0;
    if (bpe->user_defined.n_nodes > 0)
        length = match_user_defined(&bpe->user_defined, text, n_bytes, id);
    if (length > 0)
        *id |= LN_BPE_FROZEN;
    else
        *id = ln_bpe_char_symbol(bpe, ln_utf8_decode(text, &length));
    return length;
}

/* Unknown text: bytes, or one unknown token for a run of it. */
static ln_status emit_unknown(ln_bpe_encoding *e, size_t n_bytes) {
    const ln_bpe *bpe = e->bpe;
    bool has_bytes = bpe->byte_fallback;
    for (size_t i = 0; i < n_bytes; i++)
        has_bytes = has_bytes && bpe->byte_ids[(unsigned char)e->text[i]] >= 0;
    for (size_t i = 0; has_bytes && i < n_bytes; i++)
        LN_TRY(ln_ids_push(e->ids, bpe->byte_ids[(unsigned char)e->text[i]], e->err));
    if (!has_bytes && !e->in_unknown && bpe->vocab->unk >= 0)
        LN_TRY(ln_ids_push(e->ids, bpe->vocab->unk, e->err));
    return LINNET_OK;
}

/* A symbol that stands, and the text that it takes. */
static ln_status emit_whole(ln_bpe_encoding *e, uint32_t id, uint32_t flags, uint32_t span) {
    const ln_bpe *bpe = e->bpe;
    size_t n_bytes = 0;
    uint32_t ignored;
    for (uint32_t i = 0; bpe->by_score && i < span; i++)
        n_bytes += ln_bpe_first_symbol(bpe, e->text + n_bytes, e->n_bytes - n_bytes, &ignored);
    bool known = id < bpe->vocab->count && !(bpe->by_score && (flags & LN_TOKEN_UNUSED));
    if (known)
        LN_TRY(ln_ids_push(e->ids, (int32_t)id, e->err));
    else
        LN_TRY(emit_unknown(e, n_bytes));
    e->in_unknown = !known;
    e->text += n_bytes;
    e->n_bytes -= n_bytes;
    return LINNET_OK;
}

/* Puts out a symbol. Pieces that may not stand are taken apart the way they were merged. */
static ln_status emit_symbol(ln_bpe_encoding *e, ln_bpe_slot symbol) {
    ln_bpe_work *work = e->work;
    for (size_t depth = 0;;) {
        uint32_t id = symbol.id == LN_BPE_NONE ? LN_BPE_NONE : symbol.id & ~LN_BPE_FROZEN;
        uint32_t flags = id < e->bpe->vocab->count ? e->bpe->vocab->pieces[id].flags : 0;
        if ((flags & e->split_flags) && symbol.span > 1 && work->splits[id].left_span > 0) {
            ln_bpe_split split = work->splits[id];
            if (!ln_grow((void **)&work->stack, &work->stack_capacity, depth + 1, sizeof symbol))
                return ln_fail_memory(e->err, "tokens");
            work->stack[depth++] = (ln_bpe_slot){split.right, symbol.span - split.left_span};
            symbol = (ln_bpe_slot){split.left, split.left_span};
            continue;
        }
        LN_TRY(emit_whole(e, id, flags, symbol.span));
        if (depth == 0)
            return LINNET_OK;
        symbol = work->stack[--depth];
    }
}

ln_status ln_bpe_flush(ln_bpe_encoding *e) {
    ln_bpe_work *work = e->work;
    if (work->count > 1) {
        ln_merge_queue_begin(&work->queue, work->count, e->bpe->n_ranks);
        merge_all(e);
        if (work->queue.failed)
            return ln_fail_memory(e->err, "tokens");
    }
    bool plain = !e->bpe->by_score && e->split_flags == 0;
    for (uint32_t at = 0; at < work->count; at += work->slots[at].span) {
        if (plain)
            LN_TRY(ln_ids_push(e->ids, (int32_t)work->slots[at].id, e->err));
        else
            LN_TRY(emit_symbol(e, work->slots[at]));
    }
    work->count = 0;
    return LINNET_OK;
}
