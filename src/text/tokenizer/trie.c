#include "text/tokenizer/trie.h"

#include <stdlib.h>
#include <string.h>

/* Ties keep the order of the array: a later equal key lies at a higher address before sorting,
 * so the order is made part of the key's rank by a merge sort (qsort need not be stable). */
static int compare_keys(const ln_trie_key *a, const ln_trie_key *b) {
    size_t common = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order = common > 0 ? memcmp(a->data, b->data, common) : 0;
    if (order != 0)
        return order;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static bool sort_keys(ln_trie_key *keys, size_t n_keys) {
    ln_trie_key *spare = malloc((n_keys + 1) * sizeof *spare);
    if (spare == NULL)
        return false;
    ln_trie_key *from = keys, *to = spare;
    for (size_t width = 1; width < n_keys; width *= 2) {
        for (size_t begin = 0; begin < n_keys; begin += 2 * width) {
            size_t middle = begin + width < n_keys ? begin + width : n_keys;
            size_t end = begin + 2 * width < n_keys ? begin + 2 * width : n_keys;
            size_t left = begin, right = middle;
            for (size_t at = begin; at < end; at++) {
                bool take_left =
                    left < middle && (right == end || compare_keys(&from[left], &from[right]) <= 0);
                to[at] = take_left ? from[left++] : from[right++];
            }
        }
        ln_trie_key *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys)
        memcpy(keys, from, n_keys * sizeof *keys);
    free(spare);
    return true;
}

static size_t common_prefix(const ln_trie_key *a, const ln_trie_key *b) {
    size_t n = a->bytes < b->bytes ? a->bytes : b->bytes, at = 0;
    while (at < n && a->data[at] == b->data[at])
        at++;
    return at;
}

/* Drops empty keys and all but the last of equal ones; returns how many are left. */
static size_t unique_keys(ln_trie_key *keys, size_t n_keys, size_t *n_nodes) {
    size_t kept = 0;
    *n_nodes = 1;
    for (size_t i = 0; i < n_keys; i++) {
        if (keys[i].bytes == 0)
            continue;
        if (i + 1 < n_keys && compare_keys(&keys[i], &keys[i + 1]) == 0)
            continue;
        size_t shared = kept > 0 ? common_prefix(&keys[kept - 1], &keys[i]) : 0;
        *n_nodes += keys[i].bytes - shared;
        keys[kept++] = keys[i];
    }
    return kept;
}

typedef struct key_range {
    uint32_t begin, end, depth; /* keys that pass through the node, and its depth in bytes */
} key_range;

typedef struct trie_parts {
    uint32_t *first;
    uint8_t *label;
    int32_t *value;
} trie_parts;

/* Lays out the nodes level by level; ranges[n_nodes] is working memory. */
static void lay_out(ln_trie *trie, const trie_parts *parts, const ln_trie_key *keys, size_t n_keys,
                    key_range *ranges) {
    uint32_t n_nodes = 1;
    ranges[0] = (key_range){0, (uint32_t)n_keys, 0};
    parts->value[0] = -1;
    for (uint32_t node = 0; node < trie->n_nodes; node++) {
        key_range range = ranges[node];
        parts->first[node] = n_nodes;
        if (range.depth > 0) /* the key that ends here sorts before its extensions */
            parts->value[node] =
                keys[range.begin].bytes == range.depth ? keys[range.begin++].value : -1;
        while (range.begin < range.end) {
            char byte = keys[range.begin].data[range.depth];
            uint32_t begin = range.begin;
            while (range.begin < range.end && keys[range.begin].data[range.depth] == byte)
                range.begin++;
            ranges[n_nodes] = (key_range){begin, range.begin, range.depth + 1};
            parts->label[n_nodes] = (uint8_t)byte;
            if (node == 0)
                trie->root_child[(uint8_t)byte] = n_nodes;
            n_nodes++;
        }
    }
    parts->first[trie->n_nodes] = n_nodes;
}

static ln_status link_suffixes(ln_trie *trie, ln_arena *arena, ln_error *err) {
    uint32_t *fail = ln_arena_alloc(arena, trie->n_nodes, sizeof *fail);
    uint32_t *best = ln_arena_alloc(arena, trie->n_nodes, sizeof *best);
    if (fail == NULL || best == NULL)
        return ln_fail_memory(err, "the tokenizer's added tokens");
    trie->fail = fail;
    trie->best = best;
    for (uint32_t node = 0; node < trie->n_nodes; node++) {
        best[node] = node > 0 && trie->value[node] >= 0 ? node : node > 0 ? best[fail[node]] : 0;
        for (uint32_t child = trie->first[node]; child < trie->first[node + 1]; child++)
            fail[child] = node == 0 ? 0 : ln_trie_step(trie, fail[node], trie->label[child]);
    }
    return LINNET_OK;
}

ln_status ln_trie_build(ln_trie *trie, ln_arena *arena, ln_trie_key *keys, size_t n_keys,
                        bool automaton, ln_error *err) {
    *trie = (ln_trie){0};
    size_t n_nodes;
    if (!sort_keys(keys, n_keys))
        return ln_fail_memory(err, "the tokenizer's trie");
    n_keys = unique_keys(keys, n_keys, &n_nodes);
    if (n_nodes >= UINT32_MAX)
        return ln_fail(err, LINNET_ERR_LIMIT, "the tokenizer's vocabulary has over 4 GiB of text");
    key_range *ranges = calloc(n_nodes, sizeof *ranges);
    trie_parts parts = {ln_arena_alloc(arena, n_nodes + 1, sizeof *parts.first),
                        ln_arena_alloc(arena, n_nodes, sizeof *parts.label),
                        ln_arena_alloc(arena, n_nodes, sizeof *parts.value)};
    if (!ranges || !parts.first || !parts.label || !parts.value) {
        free(ranges);
        return ln_fail_memory(err, "the tokenizer's trie");
    }
    trie->n_nodes = (uint32_t)n_nodes;
    trie->first = parts.first;
    trie->label = parts.label;
    trie->value = parts.value;
    lay_out(trie, &parts, keys, n_keys, ranges);
    free(ranges);
    return automaton ? link_suffixes(trie, arena, err) : LINNET_OK;
}
