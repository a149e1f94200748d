/* A trie over byte strings, built once: nodes in breadth-first order, so that a node's children
 * lie together and nine bytes per node suffice. With failure links it becomes an automaton
 * (Aho and Corasick, "Efficient string matching", 1975). */
#ifndef LN_TEXT_TOKENIZER_TRIE_H
#define LN_TEXT_TOKENIZER_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

typedef struct ln_trie_key {
    const char *data; /* [bytes], borrowed during the build */
    uint32_t bytes;
    int32_t value; /* >= 0 */
} ln_trie_key;

typedef struct ln_trie {
    uint32_t n_nodes;         /* 0: an empty trie without a root */
    uint32_t root_child[256]; /* 0: none */
    const uint32_t *first;    /* [n_nodes + 1]: children of n are first[n] .. first[n + 1] - 1 */
    const uint8_t *label;     /* [n_nodes]: the byte that leads to the node */
    const int32_t *value;     /* [n_nodes]: of the key that ends here, or -1 */
    const uint32_t *fail;     /* [n_nodes]: longest proper suffix that is a node; or NULL */
    const uint32_t *best;     /* [n_nodes]: longest suffix that is a key, 0: none; or NULL */
} ln_trie;

/* Sorts keys[n_keys] in place; of equal keys the last one counts; empty keys are dropped. */
ln_status ln_trie_build(ln_trie *trie, ln_arena *arena, ln_trie_key *keys, size_t n_keys,
                        bool automaton, ln_error *err);

/* The child of `node` along `byte`, or 0. */
static inline uint32_t ln_trie_child(const ln_trie *trie, uint32_t node, unsigned char byte) {
    if (node == 0)
        return trie->root_child[byte];
    uint32_t low = trie->first[node], high = trie->first[node + 1];
    while (high - low > 8) {
        uint32_t middle = low + (high - low) / 2;
        if (trie->label[middle] <= byte)
            low = middle;
        else
            high = middle;
    }
    for (; low < high; low++)
        if (trie->label[low] == byte)
            return low;
    return 0;
}

/* The next state of the automaton. */
static inline uint32_t ln_trie_step(const ln_trie *trie, uint32_t state, unsigned char byte) {
    for (;;) {
        uint32_t next = ln_trie_child(trie, state, byte);
        if (next != 0 || state == 0)
            return next;
        state = trie->fail[state];
    }
}

#endif
