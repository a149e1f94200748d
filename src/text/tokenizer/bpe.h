/* Byte pair encoding: the characters of a word are merged pair by pair, lowest rank first,
 * leftmost first among equals (Sennrich et al., "Neural machine translation of rare words with
 * subword units", 2016). Ranks come from a list of merges (Hugging Face, GPT-2) or from the
 * scores of the pieces (SentencePiece). */
#ifndef LN_TEXT_TOKENIZER_BPE_H
#define LN_TEXT_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "text/tokenizer/ids.h"
#include "text/tokenizer/trie.h"
#include "text/tokenizer/vocab.h"

#define LN_BPE_NONE UINT32_MAX /* a character that no piece has */

typedef struct ln_bpe_pair {
    uint32_t left, right;  /* symbols: a token id, or count + n for a character of pieces only */
    uint32_t rank, merged; /* merged LN_BPE_NONE: two characters that some token has side by side,
                              though they do not merge themselves */
} ln_bpe_pair;

typedef struct ln_bpe {
    const ln_vocab *vocab;
    ln_bpe_pair *pairs; /* [pair_mask + 1], open addressing; left == LN_BPE_NONE: free */
    size_t pair_mask, n_pairs;
    unsigned pair_shift; /* 64 - log2(pair_mask + 1): the hash is the product's top bits */
    uint32_t n_ranks;
    uint32_t n_dangling; /* merges of tokens that the vocabulary lacks, which count for nothing */
    const uint32_t *merged_of_rank; /* [n_ranks], or NULL when ranks are those of scores */
    uint32_t **char_pages;          /* [0x110000 / 256] of [256] symbols, or NULL */
    ln_trie user_defined;           /* SentencePiece: text that is always one symbol */
    bool cuts;               /* the pairs are complete: characters that are none never join */
    bool has_unused;         /* a merge may give an unused piece */
    bool has_special_merges; /* or a special token */
    bool by_score;           /* SentencePiece's rules for what is unknown */
    bool byte_fallback, fuse_unk, ignore_merges;
    bool unk_missing;            /* an unknown token is named, but the vocabulary lacks it */
    const char *prefix, *suffix; /* continuing_subword_prefix, end_of_word_suffix; or NULL */
    int32_t byte_ids[256];
} ln_bpe;

/* Where the search for a pair begins. */
static inline size_t ln_bpe_pair_slot(const ln_bpe *bpe, uint32_t left, uint32_t right) {
    return (size_t)((((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u) >> bpe->pair_shift);
}

static inline uint32_t ln_bpe_char_symbol(const ln_bpe *bpe, uint32_t code_point) {
    const uint32_t *page = bpe->char_pages[code_point >> 8];
    return page == NULL ? LN_BPE_NONE : page[code_point & 255];
}

/* Merges by their strings. `keep_first`: of a pair given twice the first counts (GGUF), else the
 * last (Hugging Face). */
typedef struct ln_bpe_merge {
    const char *left, *right;
    uint32_t left_bytes, right_bytes;
} ln_bpe_merge;

ln_status ln_bpe_init_merges(ln_bpe *bpe, ln_arena *arena, const ln_vocab *vocab,
                             const ln_bpe_merge *merges, size_t n_merges, bool lenient,
                             ln_error *err);

/* scores[vocab->count]; pieces flagged SPECIAL, BYTE or UNKNOWN take no part. */
ln_status ln_bpe_init_scores(ln_bpe *bpe, ln_arena *arena, const ln_vocab *vocab,
                             const float *scores, ln_error *err);

/* To be called when all flags of the vocabulary are set. */
void ln_bpe_note_special(ln_bpe *bpe);

/* Working memory of one call of the tokenizer; {0} to begin with. */
typedef struct ln_bpe_work ln_bpe_work;
void ln_bpe_work_free(ln_bpe_work *work);

/* Appends the ids of a word (well-formed UTF-8). `plain`: a special token that
 * the merges give is taken apart again.
 * *work is created when it is NULL. */
ln_status ln_bpe_encode(const ln_bpe *bpe, ln_bpe_work **work, const char *word, size_t n_bytes,
                        bool plain, ln_ids *ids, ln_error *err);

#endif
