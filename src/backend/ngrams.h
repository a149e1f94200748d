/* Embeddings of hashed n-grams: rows of a table by the last tokens of a text. */
#ifndef LN_BACKEND_NGRAMS_H
#define LN_BACKEND_NGRAMS_H

#include <stddef.h>
#include <stdint.h>

#include "backend/host_device.h"

struct ln_weight;

enum { LN_MAX_NGRAM = 8, LN_MAX_NGRAM_HEADS = 64 };

/* A token gets a row for each head: heads_per_length of them for its last two tokens, then as many
 * for its last three, up to n_tokens. An n-gram does not reach behind a token `end`, nor behind the
 * beginning: tokens that are missing count as `end`. Its row is, of a head,
 *
 *   begins[head] + (xor over its tokens, the last first, of token * factors[i]) mod sizes[head]
 *
 * of a table that is cut into parts of part_rows rows, but for the last. */
typedef struct ln_ngrams {
    size_t n_tokens, heads_per_length;
    size_t part_rows, n_parts;
    const struct ln_weight *parts; /* [n_parts], each [rows][columns of a head]; the host's */
    const struct ln_weight *device_parts; /* the same in the memory of a device, or NULL */
    int32_t end;
    uint64_t factors[LN_MAX_NGRAM];
    uint64_t sizes[LN_MAX_NGRAM_HEADS], begins[LN_MAX_NGRAM_HEADS];
} ln_ngrams;

LN_HOST_DEVICE size_t ln_ngrams_n_heads(const ln_ngrams *n) {
    return (n->n_tokens - 1) * n->heads_per_length;
}

/* The row of a head. before [n_tokens - 1]: the tokens in front of this one plus one, the nearest
 * first; 0: there is none. */
LN_HOST_DEVICE size_t ln_ngrams_row(const ln_ngrams *n, int32_t token, const float *before,
                                    size_t head) {
    uint64_t hash = (uint64_t)token * n->factors[0];
    int ended = 0;
    for (size_t i = 1; i < 2 + head / n->heads_per_length; i++) {
        int32_t other = (int32_t)before[i - 1] - 1;
        ended |= other < 0 || other == n->end;
        hash ^= (uint64_t)(ended ? n->end : other) * n->factors[i];
    }
    return (size_t)(n->begins[head] + hash % n->sizes[head]);
}

#endif
