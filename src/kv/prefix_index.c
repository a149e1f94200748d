#include "kv/prefix_index.h"

#include <string.h>

#include "base/hash/siphash.h"

ln_prefix_key ln_prefix_key_of(const uint64_t secret[2], uint64_t parent, const int32_t *tokens) {
    struct {
        uint64_t parent;
        int32_t tokens[LN_KV_BLOCK_TOKENS];
    } input = {.parent = parent};
    ln_prefix_key key = {.parent = parent};
    memcpy(input.tokens, tokens, sizeof input.tokens);
    memcpy(key.tokens, tokens, sizeof key.tokens);
    key.hash = ln_siphash(secret, &input, sizeof input);
    return key;
}

static size_t count_buckets(size_t n_blocks) {
    size_t n = 1;
    while (n < n_blocks)
        n *= 2;
    return n;
}

typedef struct index_layout {
    size_t buckets, next, has, keys;
} index_layout;

static index_layout lay_out(ln_layout *layout, size_t n_blocks) {
    index_layout i;
    i.buckets = ln_layout_add(layout, count_buckets(n_blocks), sizeof(int32_t));
    i.next = ln_layout_add(layout, n_blocks, sizeof(int32_t));
    i.has = ln_layout_add(layout, n_blocks, sizeof(bool));
    i.keys = ln_layout_add(layout, n_blocks, sizeof(ln_prefix_key));
    return i;
}

size_t ln_prefix_index_plan(ln_layout *layout, size_t n_blocks) {
    return lay_out(layout, n_blocks).buckets;
}

void ln_prefix_index_init(ln_prefix_index *index, size_t n_blocks, void *memory) {
    ln_layout layout = {0};
    index_layout at = lay_out(&layout, n_blocks);
    char *base = memory;
    *index = (ln_prefix_index){
        .n_buckets = count_buckets(n_blocks),
        .buckets = (int32_t *)(void *)(base + at.buckets),
        .next = (int32_t *)(void *)(base + at.next),
        .has = (bool *)(base + at.has),
        .keys = (ln_prefix_key *)(void *)(base + at.keys),
    };
    for (size_t i = 0; i < index->n_buckets; i++)
        index->buckets[i] = -1;
    for (size_t i = 0; i < n_blocks; i++) {
        index->next[i] = -1;
        index->has[i] = false;
    }
}

static int32_t *bucket_of(const ln_prefix_index *index, uint64_t hash) {
    return &index->buckets[hash & (index->n_buckets - 1)];
}

int32_t ln_prefix_index_find(const ln_prefix_index *index, const ln_prefix_key *key) {
    int32_t block = *bucket_of(index, key->hash);
    for (; block >= 0; block = index->next[block]) {
        const ln_prefix_key *own = &index->keys[block];
        if (own->hash == key->hash && own->parent == key->parent &&
            memcmp(own->tokens, key->tokens, sizeof own->tokens) == 0)
            break;
    }
    return block;
}

void ln_prefix_index_add(ln_prefix_index *index, int32_t block, const ln_prefix_stored *stored) {
    int32_t *bucket = bucket_of(index, stored->key->hash);
    LN_BUG_ON(index->has[block]);
    index->has[block] = true;
    index->keys[block] = *stored->key;
    index->next[block] = *bucket;
    *bucket = block;
    if (index->observer != NULL)
        index->observer->stored(index->observer->context, stored);
}

void ln_prefix_index_remove(ln_prefix_index *index, int32_t block) {
    int32_t *link = bucket_of(index, index->keys[block].hash);
    LN_BUG_ON(!index->has[block]);
    while (*link != block)
        link = &index->next[*link];
    *link = index->next[block];
    index->next[block] = -1;
    index->has[block] = false;
    if (index->observer != NULL)
        index->observer->removed(index->observer->context, &index->keys[block]);
}
