#include "grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

/* A token's text on the way into the trie. */
typedef struct entry {
    const char *data;
    uint32_t n_bytes;
    int32_t id;
    bool is_special;
} entry;

static size_t entry_bytes(const entry *e) {
    return (size_t)e->n_bytes + e->is_special;
}

static unsigned char entry_byte(const entry *e, size_t at) {
    if (e->is_special)
        return (unsigned char)(at == 0 ? LN_SPECIAL_MARK : e->data[at - 1]);
    return (unsigned char)e->data[at];
}

static int compare_entries(const void *a, const void *b) {
    const entry *left = a, *right = b;
    if (left->is_special != right->is_special)
        return left->is_special ? 1 : -1; /* their mark is the greatest byte */
    size_t shared = left->n_bytes < right->n_bytes ? left->n_bytes : right->n_bytes;
    int order = memcmp(left->data, right->data, shared);
    if (order == 0)
        order = (left->n_bytes > right->n_bytes) - (left->n_bytes < right->n_bytes);
    return order != 0 ? order : (left->id > right->id) - (left->id < right->id);
}

/* Whether a token is in the trie: it has a text, not too long, and without the
 * mark of special tokens, which no text in UTF-8 has. */
static bool is_usable(const ln_token_text *text) {
    return text->n_bytes > 0 && text->n_bytes + text->is_special <= LN_TRIE_MAX_DEPTH &&
           memchr(text->data, LN_SPECIAL_MARK, text->n_bytes) == NULL;
}

size_t ln_token_trie_measure(ln_token_text_fn text, const void *source, size_t n_vocab) {
    size_t n_bytes = 0;
    for (size_t id = 0; id < n_vocab; id++) {
        ln_token_text t = text(source, (int32_t)id);
        if (is_usable(&t))
            n_bytes += t.n_bytes + t.is_special;
    }
    return n_bytes;
}

typedef struct trie_layout {
    size_t byte, depth, end, token, same, first_other;
} trie_layout;

static trie_layout lay_out(size_t n_vocab, size_t n_bytes, ln_layout *layout) {
    size_t n_nodes = n_bytes + 1;
    return (trie_layout){
        .byte = ln_layout_add(layout, n_nodes, 1),
        .depth = ln_layout_add(layout, n_nodes, 1),
        .end = ln_layout_add(layout, n_nodes, sizeof(uint32_t)),
        .token = ln_layout_add(layout, n_nodes, sizeof(int32_t)),
        .same = ln_layout_add(layout, n_vocab, sizeof(int32_t)),
        .first_other = ln_layout_add(layout, (n_vocab + 63) / 64, sizeof(uint64_t)),
    };
}

size_t ln_token_trie_plan(size_t n_vocab, size_t n_bytes, ln_layout *layout) {
    return lay_out(n_vocab, n_bytes, layout).byte;
}

static size_t gather(ln_token_trie *trie, entry *entries) {
    size_t n = 0;
    for (size_t id = 0; id < trie->n_vocab; id++) {
        ln_token_text t = trie->text(trie->source, (int32_t)id);
        trie->same[id] = -1;
        if (!t.is_plain)
            trie->first_other[id / 64] |= 1ull << id % 64;
        if (is_usable(&t))
            entries[n++] = (entry){t.data, (uint32_t)t.n_bytes, (int32_t)id, t.is_special};
    }
    return n;
}

/* Adds sorted entries: the path to the last one is known, what two share is
 * there already. */
static void fill(ln_token_trie *trie, const entry *entries, size_t n) {
    uint32_t path[LN_TRIE_MAX_DEPTH + 1] = {0};
    size_t depth = 0;
    trie->token[0] = -1;
    trie->n_nodes = 1;
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes = entry_bytes(&entries[i]), shared = 0;
        while (shared < depth && shared < n_bytes &&
               trie->byte[path[shared + 1]] == entry_byte(&entries[i], shared))
            shared++;
        for (; depth > shared; depth--)
            trie->end[path[depth]] = trie->n_nodes;
        for (; depth < n_bytes; depth++) {
            uint32_t node = trie->n_nodes++;
            path[depth + 1] = node;
            trie->byte[node] = entry_byte(&entries[i], depth);
            trie->depth[node] = (uint8_t)(depth + 1);
            trie->token[node] = -1;
        }
        trie->same[entries[i].id] = trie->token[path[depth]];
        trie->token[path[depth]] = entries[i].id;
    }
    for (; depth > 0; depth--)
        trie->end[path[depth]] = trie->n_nodes;
    trie->end[0] = trie->n_nodes;
}

ln_status ln_token_trie_build(ln_token_trie *trie, ln_token_text_fn text, const void *source,
                              size_t n_vocab, size_t n_bytes, void *memory, ln_error *err) {
    ln_layout layout = {0};
    trie_layout at = lay_out(n_vocab, n_bytes, &layout);
    char *base = (char *)memory - at.byte;
    *trie = (ln_token_trie){
        .text = text,
        .source = source,
        .n_vocab = n_vocab,
        .byte = (uint8_t *)(base + at.byte),
        .depth = (uint8_t *)(base + at.depth),
        .end = (uint32_t *)(void *)(base + at.end),
        .token = (int32_t *)(void *)(base + at.token),
        .same = (int32_t *)(void *)(base + at.same),
        .first_other = (uint64_t *)(void *)(base + at.first_other),
        .n_words = (n_vocab + 63) / 64,
    };
    entry *entries = malloc((n_vocab + 1) * sizeof *entries);
    if (entries == NULL)
        return ln_fail_memory(err, "the trie of a vocabulary");
    size_t n = gather(trie, entries);
    qsort(entries, n, sizeof *entries, compare_entries);
    fill(trie, entries, n);
    free(entries);
    return LINNET_OK;
}
