/* Unigram: of all ways to cut the text into pieces the one with the highest sum of scores
 * (Kudo, "Subword regularization", 2018), found by Viterbi. */
#ifndef LN_TEXT_TOKENIZER_UNIGRAM_H
#define LN_TEXT_TOKENIZER_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "text/tokenizer/ids.h"
#include "text/tokenizer/trie.h"
#include "text/tokenizer/vocab.h"

typedef enum ln_unigram_rules {
    LN_UNIGRAM_HUGGING_FACE,  /* double sums; runs of unknown characters are fused */
    LN_UNIGRAM_SENTENCEPIECE, /* float sums, bonus for user-defined pieces */
    LN_UNIGRAM_LLAMA_CPP,     /* double sums, user-defined pieces score 0 */
} ln_unigram_rules;

typedef struct ln_unigram {
    const ln_vocab *vocab;
    ln_unigram_rules rules;
    ln_trie trie;
    const double *scores; /* [vocab->count] */
    double unk_score;
    size_t score_mask; /* one less than a power of two above the longest piece, in bytes */
    bool byte_fallback;
    int32_t byte_ids[256];
    const ln_vocab *numbering; /* whose ids are given out; NULL: those of `vocab` */
    const int32_t *numbers;    /* [vocab->count] them, by piece */
} ln_unigram;

/* scores[n_scores], of the first ids, are borrowed from the arena. */
ln_status ln_unigram_init(ln_unigram *unigram, ln_arena *arena, const ln_vocab *vocab,
                          const double *scores, size_t n_scores, ln_unigram_rules rules,
                          ln_error *err);

/* Working memory of one caller; {0} to begin with. */
typedef struct ln_unigram_work {
    int32_t *ids; /* [capacity] the last piece of the best path to each byte */
    size_t capacity;
    double *scores; /* [score_mask + 1] of these paths */
} ln_unigram_work;
void ln_unigram_work_free(ln_unigram_work *work);

/* Appends the ids of the text (well-formed UTF-8). `plain`: special pieces are not candidates. */
ln_status ln_unigram_encode(const ln_unigram *unigram, ln_unigram_work *work, const char *text,
                            size_t n_bytes, bool plain, ln_ids *ids, ln_error *err);

#endif
