#include "convert/vocab.h"

#include <string.h>

ln_status ln_convert_set_token(ln_convert_vocab *vocab, int64_t id, const char *text,
                               size_t n_bytes, float score, int kind) {
    if (id < 0 || (uint64_t)id >= vocab->n_tokens)
        return LINNET_OK;
    char *copy = ln_arena_copy(&vocab->arena, text, n_bytes);
    if (copy == NULL)
        return ln_fail_memory(vocab->err, "the tokenizer");
    vocab->tokens[id] = (ln_convert_token){copy, n_bytes, score, kind};
    return LINNET_OK;
}

int64_t ln_convert_find_token(const ln_convert_vocab *vocab, const char *text, size_t n_bytes) {
    for (size_t i = 0; i < vocab->n_tokens; i++)
        if (vocab->tokens[i].text != NULL && vocab->tokens[i].n_bytes == n_bytes &&
            memcmp(vocab->tokens[i].text, text, n_bytes) == 0)
            return (int64_t)i;
    return -1;
}
