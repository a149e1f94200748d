#include "text/tokenizer/vocab.h"

#include <stdio.h>
#include <stdlib.h>

ln_status ln_vocab_init(ln_vocab *vocab, ln_arena *arena, size_t count, size_t n_model,
                        ln_error *err) {
    *vocab = (ln_vocab){.count = count, .unk = -1, .bos = -1, .eos = -1};
    if (count > INT32_MAX)
        return ln_fail(err, LINNET_ERR_LIMIT, "the vocabulary has %zu tokens", count);
    vocab->pieces = ln_arena_alloc(arena, count, sizeof *vocab->pieces);
    if (vocab->pieces == NULL || !ln_hashmap_init(&vocab->map, arena, n_model))
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for a vocabulary of %zu tokens",
                       count);
    return LINNET_OK;
}

ln_status ln_vocab_set(ln_vocab *vocab, ln_arena *arena, size_t id, const char *data,
                       size_t n_bytes, ln_error *err) {
    LN_BUG_ON(id >= vocab->count);
    if (n_bytes >= UINT32_MAX)
        return ln_fail(err, LINNET_ERR_LIMIT, "token %zu has %zu bytes", id, n_bytes);
    char *copy = ln_arena_copy(arena, data, n_bytes);
    if (copy == NULL)
        return ln_fail_memory(err, "the vocabulary");
    vocab->pieces[id].data = copy;
    vocab->pieces[id].bytes = (uint32_t)n_bytes;
    if (ln_hashmap_add(&vocab->map, copy, n_bytes, (uint32_t)id))
        vocab->n_model++;
    return LINNET_OK;
}

ln_status ln_vocab_trie(const ln_vocab *vocab, ln_arena *arena, uint32_t flag, ln_trie *trie,
                        ln_error *err) {
    size_t n = 0;
    *trie = (ln_trie){0};
    for (size_t id = 0; id < vocab->count; id++)
        n += (vocab->pieces[id].flags & flag) != 0;
    if (n == 0)
        return LINNET_OK;
    ln_trie_key *keys = malloc(n * sizeof *keys);
    if (keys == NULL)
        return ln_fail_memory(err, "the vocabulary");
    n = 0;
    for (size_t id = 0; id < vocab->count; id++) {
        const ln_piece *piece = &vocab->pieces[id];
        if (piece->flags & flag)
            keys[n++] = (ln_trie_key){piece->data, piece->bytes, (int32_t)id};
    }
    ln_status status = ln_trie_build(trie, arena, keys, n, false, err);
    free(keys);
    return status;
}

void ln_vocab_find_bytes(const ln_vocab *vocab, int32_t ids[256]) {
    for (unsigned byte = 0; byte < 256; byte++) {
        char piece[8];
        snprintf(piece, sizeof piece, "<0x%02X>", byte);
        ids[byte] = ln_vocab_find(vocab, piece, 6);
    }
}
