/* Any bytes as a grammar: the first byte says of which kind, and how JSON is written. What compiles
 * masks a small vocabulary, and a text of allowed tokens is made. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/masker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { N_VOCAB = 280, N_TOKENS = 48 };

/* Every byte, and some texts of two. */
static ln_token_text token_text(const void *source, int32_t id) {
    static const char pairs[] = "{\"\": \"\",, }\"}\n  abba1200e+\\u\xc3\xa9\xe2\x82[]";
    const char *all = source;
    if (id < 256)
        return (ln_token_text){all + id, 1, false, true};
    return (ln_token_text){pairs + (size_t)(id - 256) % (sizeof pairs - 2), 2, id % 7 == 0, true};
}

static void generate(ln_masker *masker, ln_grammar *grammar, const uint8_t *data, size_t bytes) {
    int32_t tokens[N_TOKENS];
    ln_grammar_state state = {0};
    linnet_error err = {0};
    for (size_t n = 0; n < N_TOKENS; n++) {
        const uint64_t *mask;
        bool may_end;
        if (ln_masker_get(masker, grammar, &state, tokens, n, &mask, &may_end, &err) != LINNET_OK) {
            if (err.message[0] == '\0')
                __builtin_trap(); /* a failure has a sentence */
            return;
        }
        int32_t id = data[n % bytes];
        for (int tries = 0; (mask[id / 64] >> id % 64 & 1) == 0; tries++) {
            if (tries == N_VOCAB)
                return;
            id = (id + 1) % N_VOCAB;
        }
        tokens[n] = id;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const linnet_grammar_kind kinds[] = {LINNET_GRAMMAR_JSON_SCHEMA, LINNET_GRAMMAR_REGEX,
                                                LINNET_GRAMMAR_CHOICE, LINNET_GRAMMAR_GBNF,
                                                LINNET_GRAMMAR_TOOLS};
    static const linnet_grammar_kind more[] = {LINNET_GRAMMAR_LARK, LINNET_GRAMMAR_STRUCTURAL_TAG,
                                               LINNET_GRAMMAR_JSON_SCHEMA, LINNET_GRAMMAR_TOOLS};
    enum { FIRST_OF_MORE = 128 };
    ln_masker masker;
    ln_grammar *grammar;
    ln_layout layout = {0};
    linnet_error err = {0};
    char all[256];
    if (bytes == 0)
        return 0;
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    size_t n_text = ln_token_trie_measure(token_text, all, N_VOCAB);
    ln_masker_plan(N_VOCAB, n_text, &layout);
    void *memory = calloc(1, layout.bytes);
    if (memory == NULL)
        return 0;
    ln_masker_init(&masker, N_VOCAB, n_text, memory);
    if (ln_masker_load(&masker, token_text, all, &err) != LINNET_OK)
        __builtin_trap();
    bool is_more = data[0] >= FIRST_OF_MORE;
    const ln_grammar_source source = {.kind = is_more ? more[data[0] % 4] : kinds[data[0] % 5],
                                      .text = (const char *)data + 1,
                                      .n_bytes = bytes - 1,
                                      .reasoning = (linnet_reasoning)(data[0] / 5 % 3),
                                      .json_form = is_more ? data[0] / 4 % 8 : 0};
    if (ln_grammar_compile(&source, &masker.trie, &grammar, &err) == LINNET_OK)
        generate(&masker, grammar, data, bytes);
    else if (err.message[0] == '\0')
        __builtin_trap();
    ln_grammar_release(grammar);
    free(memory);
    return 0;
}
