/* Merging a span of symbols and putting out its tokens: the inner half of BPE. */
#ifndef LN_TEXT_TOKENIZER_BPE_MERGE_H
#define LN_TEXT_TOKENIZER_BPE_MERGE_H

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/merge_queue.h"

#define LN_BPE_FROZEN 0x80000000u /* flag of a user-defined piece, which takes part in no merge */

/* A span is an array of slots, one per first symbol. A symbol that was merged from k of them
 * takes k slots: the first has its id, first and last have k, so that the neighbours on both sides
 * are found without links. */
typedef struct ln_bpe_slot {
    uint32_t id;   /* token or character; LN_BPE_NONE: unknown, or not the first slot */
    uint32_t span; /* slots of the symbol, in its first and last one */
} ln_bpe_slot;

typedef struct ln_bpe_split {
    uint32_t left, right, left_span;
} ln_bpe_split;

struct ln_bpe_work {
    ln_bpe_slot *slots; /* [capacity] */
    size_t count, capacity;
    ln_merge_queue queue;
    ln_bpe_split *splits; /* [vocab->count]: how a piece that may not stand came about; or NULL */
    ln_bpe_slot *stack;   /* [stack_capacity] parts of a symbol that are still to be put out */
    size_t stack_capacity;
    char *text; /* [text_capacity] a character with prefix and suffix */
    size_t text_capacity;
};

/* One word on its way to ids. */
typedef struct ln_bpe_encoding {
    const ln_bpe *bpe;
    ln_bpe_work *work;
    uint32_t split_flags; /* pieces with one of these are taken apart in the end */
    const char *text;     /* [n_bytes] what is still to be put out, for SentencePiece */
    size_t n_bytes;
    bool in_unknown; /* the last token stands for what is unknown */
    ln_ids *ids;
    ln_error *err;
} ln_bpe_encoding;

/* The pair of two symbols, or NULL when no token has them side by side. */
static inline const ln_bpe_pair *ln_bpe_find_pair(const ln_bpe *bpe, uint32_t left,
                                                  uint32_t right) {
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

/* Merges the span in work->slots[count], puts out its tokens and empties it. */
ln_status ln_bpe_flush(ln_bpe_encoding *encoding);

/* SentencePiece: the first symbol of the text, a user-defined piece (frozen) or a character,
 * known or not. Returns its bytes. */
size_t ln_bpe_first_symbol(const ln_bpe *bpe, const char *text, size_t n_bytes, uint32_t *id);

#endif
