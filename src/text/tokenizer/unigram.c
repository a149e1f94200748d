#include "text/tokenizer/unigram.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/utf8.h"

static const double unk_penalty = 10;

void ln_unigram_work_free(ln_unigram_work *work) {
    free(work->ids);
    free(work->scores);
    *work = (ln_unigram_work){0};
}

static bool is_candidate(const ln_unigram *unigram, const ln_piece *piece) {
    if (piece->data == NULL || piece->bytes == 0)
        return false;
    uint32_t apart = LN_TOKEN_BYTE | LN_TOKEN_SPECIAL | LN_TOKEN_UNKNOWN;
    return unigram->rules == LN_UNIGRAM_HUGGING_FACE || !(piece->flags & apart);
}

/* The lowest score, which unknown characters go below: of all pieces in Hugging Face, of normal
 * ones elsewhere. */
static void set_unk_score(ln_unigram *unigram, const double *scores, size_t n_scores) {
    const uint32_t not_normal = LN_TOKEN_BYTE | LN_TOKEN_SPECIAL | LN_TOKEN_UNKNOWN |
                                LN_TOKEN_USER_DEFINED | LN_TOKEN_UNUSED;
    bool all = unigram->rules == LN_UNIGRAM_HUGGING_FACE;
    double low = all ? INFINITY : FLT_MAX;
    for (size_t id = 0; id < n_scores; id++) {
        if (!all && (unigram->vocab->pieces[id].flags & not_normal))
            continue;
        if (scores[id] < low)
            low = scores[id];
    }
    unigram->unk_score = unigram->rules == LN_UNIGRAM_SENTENCEPIECE
                             ? (double)((float)low - (float)unk_penalty)
                             : low - unk_penalty;
}

ln_status ln_unigram_init(ln_unigram *unigram, ln_arena *arena, const ln_vocab *vocab,
                          const double *scores, size_t n_scores, ln_unigram_rules rules,
                          ln_error *err) {
    unigram->vocab = vocab;
    unigram->scores = scores;
    unigram->rules = rules;
    ln_vocab_find_bytes(vocab, unigram->byte_ids);
    set_unk_score(unigram, scores, n_scores);
    ln_trie_key *keys = malloc((n_scores + 1) * sizeof *keys);
    if (keys == NULL)
        return ln_fail_memory(err, "the tokenizer's pieces");
    size_t n = 0, longest = 4; /* bytes; an unknown character has up to four */
    for (size_t id = 0; id < n_scores; id++) {
        const ln_piece *piece = &vocab->pieces[id];
        if (!is_candidate(unigram, piece))
            continue;
        longest = piece->bytes > longest ? piece->bytes : longest;
        keys[n++] = (ln_trie_key){piece->data, piece->bytes, (int32_t)id};
    }
    for (unigram->score_mask = 7; unigram->score_mask < longest;)
        unigram->score_mask = unigram->score_mask * 2 + 1;
    ln_status status = ln_trie_build(&unigram->trie, arena, keys, n, false, err);
    free(keys);
    return status;
}

/* The score with which a piece enters a sum. User-defined pieces are to win: no log probability
 * is above zero. */
static double piece_score(const ln_unigram *unigram, int32_t id, size_t n_bytes) {
    if (unigram->rules == LN_UNIGRAM_HUGGING_FACE ||
        !(unigram->vocab->pieces[id].flags & LN_TOKEN_USER_DEFINED))
        return unigram->scores[id];
    return unigram->rules == LN_UNIGRAM_LLAMA_CPP ? 0 : 0.1 * (double)n_bytes - 0.1;
}

/* Marks where a piece ends, in place of its id. */
enum { NOTHING = -2, UNKNOWN_CHARACTER = -1 };

typedef struct viterbi {
    const ln_unigram *unigram;
    int32_t *ids;   /* [n_bytes + 1] the last piece of the best path to each place, or NOTHING */
    double *scores; /* [mask + 1] of these paths, for the places that a piece can still reach */
    size_t mask;
} viterbi;

static inline void relax(const viterbi *v, size_t end, double score, int32_t id) {
    if (v->unigram->rules == LN_UNIGRAM_SENTENCEPIECE)
        score = (double)(float)score;
    if (v->ids[end] != NOTHING && !(score > v->scores[end & v->mask]))
        return;
    v->ids[end] = id;
    v->scores[end & v->mask] = score;
}

static void search(const viterbi *v, const char *text, size_t n_bytes, bool plain) {
    const ln_unigram *unigram = v->unigram;
    const ln_trie *trie = &unigram->trie;
    for (size_t i = 1; i <= n_bytes; i++)
        v->ids[i] = NOTHING;
    v->scores[0] = 0;
    uint32_t skipped = plain ? LN_TOKEN_SPECIAL : 0;
    if (unigram->rules != LN_UNIGRAM_LLAMA_CPP)
        skipped |= LN_TOKEN_UNUSED;
    for (size_t begin = 0, length; begin < n_bytes; begin += length) {
        length = ln_utf8_length((unsigned char)text[begin]);
        double sum = v->scores[begin & v->mask];
        bool has_single = false;
        uint32_t node = 0;
        for (size_t end = begin + 1; end <= n_bytes; end++) {
            node = trie->n_nodes > 0 ? ln_trie_child(trie, node, (unsigned char)text[end - 1]) : 0;
            if (node == 0)
                break;
            int32_t id = trie->value[node];
            if (id < 0 || (unigram->vocab->pieces[id].flags & skipped))
                continue;
            relax(v, end, sum + piece_score(unigram, id, end - begin), id);
            has_single |= end - begin == length;
        }
        if (has_single)
            continue;
        double score = unigram->rules == LN_UNIGRAM_SENTENCEPIECE
                           ? (double)((float)sum + (float)unigram->unk_score)
                           : sum + unigram->unk_score;
        relax(v, begin + length, score, UNKNOWN_CHARACTER);
    }
}

/* Gathers the pieces of the best path at the end of ids[n_bytes + 1]; returns where they begin. */
static size_t gather(const ln_vocab *vocab, int32_t *ids, const char *text, size_t n_bytes) {
    size_t to = n_bytes + 1;
    for (size_t at = n_bytes; at > 0;) { /* at most one piece per byte: `to` stays behind `at` */
        int32_t id = ids[at];
        if (id >= 0) {
            at -= vocab->pieces[id].bytes;
        } else {
            at--;
            while (((unsigned char)text[at] & 0xc0) == 0x80)
                at--;
        }
        ids[--to] = id;
    }
    return to;
}

static inline int32_t number_of(const ln_unigram *unigram, int32_t id) {
    return unigram->numbers != NULL ? unigram->numbers[id] : id;
}

/* Unknown text: the piece that it happens to be once fused, its bytes, or the unknown token. */
static ln_status emit_unknown(const ln_unigram *unigram, const char *text, size_t n_bytes,
                              bool again, ln_ids *ids, ln_error *err) {
    int32_t id = -1;
    if (unigram->numbering != NULL && !unigram->byte_fallback)
        id = ln_vocab_find(unigram->numbering, text, n_bytes);
    else if (unigram->rules == LN_UNIGRAM_HUGGING_FACE)
        id = ln_vocab_find(unigram->vocab, text, n_bytes);
    if (id >= 0)
        return ln_ids_push(ids, id, err);
    bool has_bytes = unigram->byte_fallback;
    for (size_t i = 0; i < n_bytes && has_bytes; i++)
        has_bytes = unigram->byte_ids[(unsigned char)text[i]] >= 0;
    for (size_t i = 0; i < n_bytes && has_bytes; i++)
        LN_TRY(
            ln_ids_push(ids, number_of(unigram, unigram->byte_ids[(unsigned char)text[i]]), err));
    if (has_bytes || again)
        return LINNET_OK;
    return ln_ids_push(ids, number_of(unigram, unigram->vocab->unk), err);
}

static ln_status emit(const ln_unigram *unigram, const int32_t *pieces, size_t n_pieces,
                      const char *text, ln_ids *ids, ln_error *err) {
    const ln_vocab *vocab = unigram->vocab;
    bool fuses = unigram->rules == LN_UNIGRAM_HUGGING_FACE || unigram->numbering != NULL;
    bool again = false;
    for (size_t i = 0; i < n_pieces;) {
        int32_t id = pieces[i];
        if (id >= 0 && id != vocab->unk) {
            LN_TRY(ln_ids_push(ids, number_of(unigram, id), err));
            text += vocab->pieces[id].bytes;
            again = false;
            i++;
            continue;
        }
        if (vocab->unk < 0)
            return ln_fail(err, LINNET_ERR_ARGUMENT,
                           "the tokenizer, which has no unknown token, cannot represent the text");
        size_t n_bytes = 0;
        do { /* a run of them when they are fused */
            id = pieces[i++];
            n_bytes +=
                id >= 0 ? vocab->pieces[id].bytes : ln_utf8_length((unsigned char)text[n_bytes]);
        } while (fuses && i < n_pieces && (pieces[i] < 0 || pieces[i] == vocab->unk));
        LN_TRY(emit_unknown(unigram, text, n_bytes, again, ids, err));
        text += n_bytes;
        again = true;
    }
    return LINNET_OK;
}

ln_status ln_unigram_encode(const ln_unigram *unigram, ln_unigram_work *work, const char *text,
                            size_t n_bytes, bool plain, ln_ids *ids, ln_error *err) {
    if (n_bytes == 0)
        return LINNET_OK;
    if (work->scores == NULL)
        work->scores = malloc((unigram->score_mask + 1) * sizeof *work->scores);
    if (work->scores == NULL ||
        !ln_grow((void **)&work->ids, &work->capacity, n_bytes + 1, sizeof *work->ids))
        return ln_fail_memory(err, "tokens");
    viterbi v = {unigram, work->ids, work->scores, unigram->score_mask};
    search(&v, text, n_bytes, plain);
    size_t first = gather(unigram->vocab, work->ids, text, n_bytes);
    return emit(unigram, work->ids + first, n_bytes + 1 - first, text, ids, err);
}
