#include "text/tokenizer/wordpiece.h"

#include <stdlib.h>

static ln_status push_unknown(const ln_vocab *vocab, ln_ids *ids, ln_error *err) {
    if (vocab->unk < 0)
        return ln_fail(err, LINNET_ERR_FORMAT,
                       "the tokenizer's unknown token is not in its vocabulary");
    return ln_ids_push(ids, vocab->unk, err);
}

/* The node that a prefix leads to; false when no piece has it. */
static bool find_node(const ln_trie *trie, const char *prefix, uint32_t *node) {
    *node = 0;
    for (; *prefix != '\0'; prefix++) {
        *node = ln_trie_child(trie, *node, (unsigned char)*prefix);
        if (*node == 0)
            return false;
    }
    return trie->n_nodes > 0;
}

ln_status ln_wordpiece_init(ln_wordpiece *wordpiece, ln_arena *arena, const ln_vocab *vocab,
                            const char *begin_prefix, const char *continue_prefix, size_t max_chars,
                            ln_error *err) {
    wordpiece->vocab = vocab;
    wordpiece->max_chars = max_chars;
    ln_trie_key *keys = malloc((vocab->count + 1) * sizeof *keys);
    if (keys == NULL)
        return ln_fail_memory(err, "the tokenizer's pieces");
    size_t n = 0;
    for (size_t id = 0; id < vocab->count; id++) {
        const ln_piece *piece = &vocab->pieces[id];
        if (piece->data != NULL && ln_vocab_find(vocab, piece->data, piece->bytes) == (int32_t)id)
            keys[n++] = (ln_trie_key){piece->data, piece->bytes, (int32_t)id};
    }
    ln_status status = ln_trie_build(&wordpiece->trie, arena, keys, n, false, err);
    free(keys);
    if (status != LINNET_OK)
        return status;
    wordpiece->nothing_begins = !find_node(&wordpiece->trie, begin_prefix, &wordpiece->begin_node);
    if (!find_node(&wordpiece->trie, continue_prefix, &wordpiece->continue_node))
        wordpiece->continue_node = UINT32_MAX;
    return LINNET_OK;
}

/* Bytes of the longest piece below `node` at the text, with its id; 0 when there is none. */
static size_t longest(const ln_wordpiece *wordpiece, uint32_t node, const char *text,
                      size_t n_bytes, bool plain, int32_t *id) {
    size_t found = 0;
    for (size_t at = 0; at < n_bytes; at++) {
        node = ln_trie_child(&wordpiece->trie, node, (unsigned char)text[at]);
        if (node == 0)
            break;
        int32_t value = wordpiece->trie.value[node];
        if (value < 0 || (plain && (wordpiece->vocab->pieces[value].flags & LN_TOKEN_SPECIAL)))
            continue;
        found = at + 1;
        *id = value;
    }
    return found;
}

static bool is_too_long(const char *word, size_t n_bytes, size_t max_chars) {
    size_t n = 0;
    for (size_t i = 0; i < n_bytes && n <= max_chars; i++)
        n += ((unsigned char)word[i] & 0xc0) != 0x80;
    return n > max_chars;
}

ln_status ln_wordpiece_encode(const ln_wordpiece *wordpiece, const char *word, size_t n_bytes,
                              bool plain, ln_ids *ids, ln_error *err) {
    size_t before = ids->count;
    bool known = !wordpiece->nothing_begins && !is_too_long(word, n_bytes, wordpiece->max_chars);
    for (size_t at = 0; known && at < n_bytes;) {
        uint32_t node = at == 0 ? wordpiece->begin_node : wordpiece->continue_node;
        int32_t id = -1;
        size_t length =
            node == UINT32_MAX ? 0 : longest(wordpiece, node, word + at, n_bytes - at, plain, &id);
        known = length > 0;
        if (known)
            LN_TRY(ln_ids_push(ids, id, err));
        at += length;
    }
    if (known)
        return LINNET_OK;
    ids->count = before;
    return push_unknown(wordpiece->vocab, ids, err);
}

ln_status ln_wordlevel_encode(const ln_vocab *vocab, const char *word, size_t n_bytes, bool plain,
                              ln_ids *ids, ln_error *err) {
    int32_t id = ln_vocab_find(vocab, word, n_bytes);
    if (id >= 0 && !(plain && (vocab->pieces[id].flags & LN_TOKEN_SPECIAL)))
        return ln_ids_push(ids, id, err);
    return push_unknown(vocab, ids, err);
}
