/* Grammars in tests, and a small vocabulary with parts of code points and
 * tokens that cross the borders of JSON's own. */
#ifndef LN_TESTS_GRAMMAR_TEST_H
#define LN_TESTS_GRAMMAR_TEST_H

#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/masker.h"

static inline ln_grammar *compile_after(linnet_reasoning reasoning, linnet_grammar_kind kind,
                                        const char *text, const ln_token_trie *trie) {
    ln_grammar *grammar;
    ln_error err = {0};
    const ln_grammar_source source = {.kind = kind,
                                      .text = text,
                                      .n_bytes = text != NULL ? strlen(text) : 0,
                                      .reasoning = reasoning};
    if (ln_grammar_compile(&source, trie, &grammar, &err) != LINNET_OK)
        fail_msg("%s\n%s", err.message, text != NULL ? text : "");
    return grammar;
}

static inline ln_grammar *compile(linnet_grammar_kind kind, const char *text,
                                  const ln_token_trie *trie) {
    return compile_after(LINNET_REASONING_NONE, kind, text, trie);
}

static const char *const test_pieces[] = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          ":",
                                          ",",
                                          "\"",
                                          "\": ",
                                          "\", \"",
                                          "{\"",
                                          "\"}",
                                          "\"]",
                                          "\\",
                                          "\\\"",
                                          "\\u",
                                          "\\n",
                                          " ",
                                          "  ",
                                          "\n",
                                          "\n  ",
                                          "true",
                                          "false",
                                          "null",
                                          "tr",
                                          "ue",
                                          "-",
                                          "0",
                                          "1",
                                          "12",
                                          "345",
                                          ".5",
                                          "e+1",
                                          "a",
                                          "b",
                                          "c",
                                          "ab",
                                          "abc",
                                          "name",
                                          "age",
                                          "\"name\"",
                                          "\"a\"",
                                          "\xc3",
                                          "\xa9",
                                          "\xc3\xa9x",
                                          "\xe2\x82",
                                          "\xac\"",
                                          "\xf0\x9f\x98\x80",
                                          "\xff",
                                          "x\": [",
                                          "}, {\"",
                                          "],",
                                          "\":",
                                          "00e9",
                                          "d83d",
                                          "\xed\xa0",
                                          "\x80",
                                          "\"b\"",
                                          "2",
                                          "3",
                                          "9",
                                          "T",
                                          "Z",
                                          "@",
                                          "_",
                                          "(",
                                          ")",
                                          "+",
                                          "\t",
                                          "e",
                                          "x\xc3",
                                          "\"\"",
                                          "5}",
                                          "7]",
                                          "\"}]"};
enum {
    N_TEST_PIECES = sizeof test_pieces / sizeof *test_pieces,
    TEST_SPECIAL = N_TEST_PIECES, /* the special token <|end|> */
    TEST_EMPTY,                   /* a token without text */
    TEST_SAME,                    /* { again */
    N_TEST_VOCAB = 131
};

static inline ln_token_text test_text(const void *source, int32_t id) {
    static const char last[] = "!#$%&'*/;<=>?^`|~dfghijk";
    (void)source;
    ln_token_text text = {.is_plain = true};
    if (id < N_TEST_PIECES) {
        text.data = test_pieces[id];
        text.n_bytes = strlen(text.data);
        text.is_plain = text.data[0] != ' '; /* as where a space at the beginning is cut */
    } else if (id == TEST_SPECIAL) {
        text = (ln_token_text){"<|end|>", 7, true, true};
    } else if (id == TEST_SAME) {
        text = (ln_token_text){"{", 1, false, true};
    } else if (id > TEST_SAME && id < TEST_SAME + (int32_t)sizeof last) {
        text = (ln_token_text){last + (id - TEST_SAME - 1), 1, false, true};
    }
    return text;
}

/* A masker over that vocabulary; its memory is freed by free_masker. */
static inline void *make_masker(ln_masker *masker) {
    ln_layout layout = {0};
    ln_error err = {0};
    size_t n_bytes = ln_token_trie_measure(test_text, NULL, N_TEST_VOCAB);
    ln_masker_plan(N_TEST_VOCAB, n_bytes, &layout);
    void *memory = calloc(1, layout.bytes);
    assert_non_null(memory);
    ln_masker_init(masker, N_TEST_VOCAB, n_bytes, memory);
    assert_int_equal(ln_masker_load(masker, test_text, NULL, &err), LINNET_OK);
    return memory;
}

#endif
