#include "text/unigram.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "text/grow.h"
#include "text/utf8.h"

static const double unk_penalty = 10;
static const uint32_t NOTHING = UINT32_MAX;

void ln_unigram_work_free(ln_unigram_work *work) {
    free(work->nodes);
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
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for the tokenizer's pieces");
    size_t n = 0;
    for (size_t id = 0; id < n_scores; id++)
        if (is_candidate(unigram, &vocab->pieces[id]))
            keys[n++] = (ln_trie_key){vocab->pieces[id].data, vocab->pieces[id].bytes, (int32_t)id};
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

static void relax(const ln_unigram *unigram, ln_unigram_node *node, double score, size_t begin,
                  int32_t id) {
    if (unigram->rules == LN_UNIGRAM_SENTENCEPIECE)
        score = (double)(float)score;
    if (node->begin == NOTHING || score > node->score)
        *node = (ln_unigram_node){score, (uint32_t)begin, id};
}

static void search(const ln_unigram *unigram, ln_unigram_node *nodes, const char *text,
                   size_t n_bytes, bool plain) {
    const ln_trie *trie = &unigram->trie;
    for (size_t i = 0; i <= n_bytes; i++)
        nodes[i] = (ln_unigram_node){0, NOTHING, -1};
    uint32_t skipped = LN_TOKEN_UNUSED | (plain ? LN_TOKEN_SPECIAL : 0);
    if (unigram->rules == LN_UNIGRAM_LLAMA_CPP)
        skipped = plain ? LN_TOKEN_SPECIAL : 0;
    for (size_t begin = 0, length; begin < n_bytes; begin += length) {
        length = ln_utf8_length((unsigned char)text[begin]);
        double sum = nodes[begin].score;
        bool has_single = false;
        uint32_t node = 0;
        for (size_t end = begin + 1; end <= n_bytes; end++) {
            node = trie->n_nodes > 0 ? ln_trie_child(trie, node, (unsigned char)text[end - 1]) : 0;
            if (node == 0)
                break;
            int32_t id = trie->value[node];
            if (id < 0 || (unigram->vocab->pieces[id].flags & skipped))
                continue;
            relax(unigram, &nodes[end], sum + piece_score(unigram, id, end - begin), begin, id);
            has_single |= end - begin == length;
        }
        if (has_single)
            continue;
        double score = unigram->rules == LN_UNIGRAM_SENTENCEPIECE
                           ? (double)((float)sum + (float)unigram->unk_score)
                           : sum + unigram->unk_score;
        relax(unigram, &nodes[begin + length], score, begin, unigram->vocab->unk);
    }
}

/* Turns the links of the best path around: nodes[begin].begin becomes where the piece from there
 * ends. */
static void turn_around(ln_unigram_node *nodes, size_t n_bytes) {
    uint32_t end = (uint32_t)n_bytes, begin = nodes[end].begin;
    while (end > 0) {
        uint32_t before = nodes[begin].begin;
        nodes[begin].begin = end;
        end = begin;
        begin = before;
    }
}

/* Unknown text: the piece that it happens to be once fused, its bytes, or the unknown token. */
static ln_status emit_unknown(const ln_unigram *unigram, const char *text, size_t n_bytes,
                              bool again, ln_ids *ids, ln_error *err) {
    int32_t id = -1;
    if (unigram->rules == LN_UNIGRAM_HUGGING_FACE)
        id = ln_vocab_find(unigram->vocab, text, n_bytes);
    if (id >= 0)
        return ln_ids_push(ids, id, err);
    bool has_bytes = unigram->byte_fallback;
    for (size_t i = 0; i < n_bytes && has_bytes; i++)
        has_bytes = unigram->byte_ids[(unsigned char)text[i]] >= 0;
    for (size_t i = 0; i < n_bytes && has_bytes; i++)
        LN_TRY(ln_ids_push(ids, unigram->byte_ids[(unsigned char)text[i]], err));
    if (has_bytes || again)
        return LINNET_OK;
    return ln_ids_push(ids, unigram->vocab->unk, err);
}

static ln_status emit(const ln_unigram *unigram, const ln_unigram_node *nodes, const char *text,
                      size_t n_bytes, ln_ids *ids, ln_error *err) {
    int32_t unk = unigram->vocab->unk;
    bool fuses = unigram->rules == LN_UNIGRAM_HUGGING_FACE, again = false;
    for (uint32_t begin = 0; begin < n_bytes;) {
        uint32_t end = nodes[begin].begin;
        int32_t id = nodes[end].id;
        if (id < 0)
            return ln_fail(err, LINNET_ERR_ARGUMENT,
                           "the tokenizer, which has no unknown token, cannot represent the text");
        if (id != unk) {
            LN_TRY(ln_ids_push(ids, id, err));
        } else {
            while (fuses && end < n_bytes && nodes[nodes[end].begin].id == unk)
                end = nodes[end].begin;
            LN_TRY(emit_unknown(unigram, text + begin, end - begin, again, ids, err));
        }
        again = id == unk;
        begin = end;
    }
    return LINNET_OK;
}

ln_status ln_unigram_encode(const ln_unigram *unigram, ln_unigram_work *work, const char *text,
                            size_t n_bytes, bool plain, ln_ids *ids, ln_error *err) {
    if (n_bytes == 0)
        return LINNET_OK;
    if (!ln_grow((void **)&work->nodes, &work->capacity, n_bytes + 1, sizeof *work->nodes))
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory while tokenising");
    search(unigram, work->nodes, text, n_bytes, plain);
    turn_around(work->nodes, n_bytes);
    return emit(unigram, work->nodes, text, n_bytes, ids, err);
}
