/* Tokenizers in GGUF metadata: each model, the pre-tokenisers by name, the special tokens. */
#include "unit/text/tokenizer_support.h"

#include <unistd.h>

enum { GGUF_INT32 = 5, GGUF_FLOAT32 = 6, GGUF_BOOL = 7, GGUF_STRING = 8, GGUF_ARRAY = 9 };

typedef struct writer {
    ln_strbuf pairs;
    uint64_t n_pairs;
} writer;

static void put(ln_strbuf *out, uint64_t value, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i++)
        ln_strbuf_putc(out, (char)(value >> 8 * i & 255));
}

static void put_text(ln_strbuf *out, const char *text) {
    put(out, strlen(text), 8);
    ln_strbuf_puts(out, text);
}

static void put_key(writer *w, const char *key, uint32_t type) {
    char full[128];
    snprintf(full, sizeof full, "tokenizer.ggml.%s", key);
    put_text(&w->pairs, full);
    put(&w->pairs, type, 4);
    w->n_pairs++;
}

static void add_text(writer *w, const char *key, const char *value) {
    put_key(w, key, GGUF_STRING);
    put_text(&w->pairs, value);
}

static void add_id(writer *w, const char *key, int32_t value) {
    put_key(w, key, GGUF_INT32);
    put(&w->pairs, (uint32_t)value, 4);
}

static void add_texts(writer *w, const char *key, const char *const *values, size_t n) {
    put_key(w, key, GGUF_ARRAY);
    put(&w->pairs, GGUF_STRING, 4);
    put(&w->pairs, n, 8);
    for (size_t i = 0; i < n; i++)
        put_text(&w->pairs, values[i]);
}

static void add_types(writer *w, const int32_t *values, size_t n) {
    put_key(w, "token_type", GGUF_ARRAY);
    put(&w->pairs, GGUF_INT32, 4);
    put(&w->pairs, n, 8);
    for (size_t i = 0; i < n; i++)
        put(&w->pairs, (uint32_t)values[i], 4);
}

static void add_scores(writer *w, const float *values, size_t n) {
    put_key(w, "scores", GGUF_ARRAY);
    put(&w->pairs, GGUF_FLOAT32, 4);
    put(&w->pairs, n, 8);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        put(&w->pairs, bits, 4);
    }
}

/* Writes the metadata as a file and opens it; NULL and *err on failure. */
static ln_tokenizer *open_gguf(writer *w, ln_error *err) {
    char path[] = "/tmp/linnet-test-XXXXXX.gguf";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    ln_strbuf file;
    ln_strbuf_init(&file);
    ln_strbuf_puts(&file, "GGUF");
    put(&file, 3, 4);
    put(&file, 0, 8);
    put(&file, w->n_pairs, 8);
    ln_strbuf_append(&file, w->pairs.data, w->pairs.len);
    assert_int_equal(write(fd, file.data, file.len), (ssize_t)file.len);
    close(fd);
    ln_strbuf_free(&file);
    ln_strbuf_free(&w->pairs);
    ln_checkpoint *checkpoint = NULL;
    ln_tokenizer *tokenizer = NULL;
    if (ln_checkpoint_open(path, true, &checkpoint, err) != LINNET_OK)
        fail_msg("%s", err->message);
    ln_tokenizer_open(checkpoint, &tokenizer, err);
    ln_checkpoint_close(checkpoint);
    unlink(path);
    return tokenizer;
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *const bpe_tokens[] = {"a", "b", "\xc4\xa0", "ab", "<|end|>", "1", "12", "<u>"};
static const int32_t bpe_types[] = {1, 1, 1, 1, 3, 1, 1, 4};
static const char *const bpe_merges[] = {"a b", "1 2", "x y"}; /* the last two dangle */

static ln_tokenizer *open_bpe(const char *pre, ln_error *err) {
    writer w = {0};
    add_text(&w, "model", "gpt2");
    add_text(&w, "pre", pre);
    add_texts(&w, "tokens", bpe_tokens, COUNT(bpe_tokens));
    add_types(&w, bpe_types, COUNT(bpe_types));
    add_texts(&w, "merges", bpe_merges, COUNT(bpe_merges));
    add_id(&w, "bos_token_id", 4);
    return open_gguf(&w, err);
}

static void byte_level_bpe(void **state) {
    (void)state;
    ln_error err = {0};
    ln_tokenizer *t = open_bpe("qwen2", &err);
    assert_non_null(t);
    assert_encodes(t, "ab ab<|end|>", 0, "3 2 3"); /* "<", "|" and letters are not there */
    assert_encodes(t, "ab<|end|><u>", LN_ENCODE_PARSE_SPECIAL, "3 4 7");
    assert_encodes(t, "ab<u>", LN_ENCODE_ADD_SPECIAL, "3 7");
    assert_int_equal(ln_tokenizer_bos(t), 4);
    assert_int_equal(ln_tokenizer_find_oddities(t).n_dangling_merges, 2);
    static const int32_t ids[] = {3, 2, 0, 4, 7};
    char *text = stream_text(t, ids, COUNT(ids), true);
    assert_string_equal(text, "ab a<|end|><u>");
    free(text);
    ln_tokenizer_close(t);
    t = open_bpe("llama-bpe", &err); /* implies BOS, and whole words before merges */
    assert_encodes(t, "12", LN_ENCODE_ADD_SPECIAL, "4 6");
    ln_tokenizer_close(t);
    assert_null(open_bpe("no-such-name", &err));
    assert_int_equal(err.status, LINNET_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "\"no-such-name\""));
}

/* Every name that is known has patterns that compile. */
static void pre_tokenizers_by_name(void **state) {
    (void)state;
    static const char *const names[] = {
        "default",    "gpt-2",          "llama3",      "llama-v3",  "qwen2",        "falcon",
        "starcoder",  "refact",         "mpt",         "command-r", "deepseek-llm", "smollm",
        "tekken",     "deepseek-coder", "chatglm-bpe", "phi-2",     "gpt-4o",       "olmo",
        "dbrx",       "deepseek-v3",    "bloom",       "viking",    "stablelm2",    "superbpe",
        "bailingmoe", "seed-coder",     "minicpm5",    "jais-2",    "exaone-moe",   "tiny_aya",
        "qwen35",     "kimi-k2",
    };
    for (size_t i = 0; i < COUNT(names); i++) {
        ln_error err = {0};
        ln_tokenizer *t = open_bpe(names[i], &err);
        if (t == NULL)
            fail_msg("%s: %s", names[i], err.message);
        assert_encodes(t, "ab", 0, "3");
        ln_tokenizer_close(t);
    }
}

static void sentencepiece_models(void **state) {
    (void)state;
    static const char *const tokens[] = {"<unk>",
                                         "<s>",
                                         "</s>",
                                         "<0x21>",
                                         "\xe2\x96\x81",
                                         "a",
                                         "b",
                                         "ab",
                                         "\xe2\x96\x81"
                                         "ab"};
    static const int32_t types[] = {2, 3, 3, 6, 1, 1, 1, 1, 1};
    static const float scores[] = {0, 0, 0, 0, -9, -5, -6, -1, -2};
    ln_error err = {0};
    writer w = {0};
    add_text(&w, "model", "llama");
    add_texts(&w, "tokens", tokens, COUNT(tokens));
    add_types(&w, types, COUNT(types));
    add_scores(&w, scores, COUNT(scores));
    ln_tokenizer *t = open_gguf(&w, &err);
    assert_non_null(t);
    assert_encodes(t, "ab ab!", LN_ENCODE_ADD_SPECIAL, "1 8 8 3");
    assert_encodes(t, "</s>ab", LN_ENCODE_PARSE_SPECIAL, "2 8");
    static const int32_t ids[] = {1, 8, 8, 3};
    char *text = stream_text(t, ids, COUNT(ids), false);
    assert_string_equal(text, "ab ab!");
    free(text);
    ln_tokenizer_close(t);
    w = (writer){0};
    add_text(&w, "model", "t5");
    add_texts(&w, "tokens", tokens, COUNT(tokens));
    add_types(&w, types, COUNT(types));
    add_scores(&w, scores, COUNT(scores));
    add_id(&w, "eos_token_id", 2);
    add_id(&w, "unknown_token_id", 0);
    t = open_gguf(&w, &err);
    assert_non_null(t);
    assert_string_equal(ln_tokenizer_kind(t), "unigram");
    assert_encodes(t, "ab aa", LN_ENCODE_ADD_SPECIAL, "8 4 5 5 2");
    assert_encodes(t, "ab?!b", 0, "8 0 6"); /* unknown characters in a row are one token */
    ln_tokenizer_close(t);
}

static void wordpiece(void **state) {
    (void)state;
    static const char *const tokens[] = {"[PAD]",
                                         "[UNK]",
                                         "[CLS]",
                                         "[SEP]",
                                         "\xe2\x96\x81"
                                         "hello",
                                         "s",
                                         "\xe2\x96\x81,"};
    static const int32_t types[] = {3, 3, 3, 3, 1, 1, 1};
    ln_error err = {0};
    writer w = {0};
    add_text(&w, "model", "bert");
    add_texts(&w, "tokens", tokens, COUNT(tokens));
    add_types(&w, types, COUNT(types));
    add_id(&w, "bos_token_id", 2);
    add_id(&w, "seperator_token_id", 3);
    add_id(&w, "unknown_token_id", 1);
    ln_tokenizer *t = open_gguf(&w, &err);
    assert_non_null(t);
    assert_encodes(t, "H\xc3\xa9llos, hello world", LN_ENCODE_ADD_SPECIAL, "2 4 5 6 4 1 3");
    static const int32_t ids[] = {2, 4, 5, 6, 4, 3};
    char *text = stream_text(t, ids, COUNT(ids), false);
    assert_string_equal(text, "hellos, hello");
    free(text);
    ln_tokenizer_close(t);
}

static void broken_metadata_is_refused(void **state) {
    (void)state;
    ln_error err = {0};
    writer w = {0};
    add_text(&w, "model", "abacus");
    assert_null(open_gguf(&w, &err));
    assert_int_equal(err.status, LINNET_ERR_UNSUPPORTED);
    w = (writer){0};
    add_text(&w, "model", "gpt2");
    assert_null(open_gguf(&w, &err));
    assert_non_null(strstr(err.message, "tokenizer.ggml.tokens is no array"));
    w = (writer){0};
    add_text(&w, "model", "llama");
    add_texts(&w, "tokens", NULL, 0);
    assert_null(open_gguf(&w, &err));
    assert_non_null(strstr(err.message, "tokenizer.ggml.tokens is empty"));
}

static void vocabularies_are_sound(void **state) {
    (void)state;
    static const char *const twice[] = {"<unk>", "a", "b", "a"};
    static const char *const tokens[] = {"<unk>", "a", "", ""};
    static const struct {
        int32_t id;
        bool is_fine; /* -1: there is none */
    } ids[] = {{1, true}, {-1, true}, {4, false}, {-2, false}, {INT32_MAX, false}};
    ln_error err = {0};
    writer w = {0};
    add_text(&w, "model", "llama");
    add_texts(&w, "tokens", twice, COUNT(twice));
    assert_null(open_gguf(&w, &err));
    assert_non_null(strstr(err.message, "tokenizer.ggml.tokens[3] is the same text as [1]"));
    for (size_t i = 0; i < COUNT(ids); i++) {
        w = (writer){0};
        add_text(&w, "model", "llama");
        add_texts(&w, "tokens", tokens, COUNT(tokens));
        add_id(&w, "eos_token_id", ids[i].id);
        ln_tokenizer *t = open_gguf(&w, &err);
        assert_int_equal(t != NULL, ids[i].is_fine);
        if (t != NULL)
            assert_int_equal(ln_tokenizer_find_oddities(t).n_empty_tokens, 2);
        else
            assert_non_null(strstr(err.message, "tokenizer.ggml.eos_token_id is"));
        ln_tokenizer_close(t);
    }
    w = (writer){0};
    add_text(&w, "model", "llama");
    add_texts(&w, "tokens", tokens, COUNT(tokens));
    add_text(&w, "eos_token_id", "1");
    assert_null(open_gguf(&w, &err));
    assert_non_null(strstr(err.message, "tokenizer.ggml.eos_token_id is no token id"));
}

/* A file that says that it has none is like one that says nothing. */
static void no_tokenizer_is_no_fault(void **state) {
    (void)state;
    static const char *const names[] = {"none", "no_vocab"};
    for (size_t i = 0; i < COUNT(names); i++) {
        ln_error err = {0};
        writer w = {0};
        add_text(&w, "model", names[i]);
        assert_null(open_gguf(&w, &err));
        assert_int_equal(err.status, LINNET_ERR_STATE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_bpe),
        cmocka_unit_test(pre_tokenizers_by_name),
        cmocka_unit_test(sentencepiece_models),
        cmocka_unit_test(wordpiece),
        cmocka_unit_test(broken_metadata_is_refused),
        cmocka_unit_test(vocabularies_are_sound),
        cmocka_unit_test(no_tokenizer_is_no_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
