/* Tokenizers: what the reference answers do not show. Each test builds a small tokenizer.json. */
#include "unit/text/tokenizer_support.h"

#define PARSE LN_ENCODE_PARSE_SPECIAL

/* A byte-level BPE with the bytes of its few words as single tokens. */
static const char bpe_json[] =
    "{\"added_tokens\":["
    "{\"id\":15,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"
    "{\"id\":16,\"content\":\"tool\",\"special\":false,\"normalized\":false}],"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
    "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]"
    ","
    "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[15],\"tokens\":[\"<s>\"]}}},"
    "\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\xc4\xa0\":2,\"ab\":3,\"\xc4\xa0"
    "ab\":4,\"<\":5,\"s\":6,\">\":7,\"\xc3\xa4\":8,\"\xc2\xbd\":9,\"\xc5\x82\":10,\"t\":11,\"o\":"
    "12,\"l\":13,\"<s>\":15,\"<s\":14},"
    "\"merges\":[\"a b\",[\"\xc4\xa0\",\"ab\"],\"< s\",\"<s >\"]}}";

static void special_text_is_plain_unless_it_is_trusted(void **state) {
    (void)state;
    ln_tokenizer *t = parse_json(bpe_json);
    assert_encodes(t, "ab<s> ab", PARSE, "3 15 4");
    assert_encodes(t, "ab<s> ab", 0, "3 5 6 7 4"); /* "<" and "s>" are cut by the pattern */
    assert_encodes(t, "tool", 0, "16");            /* added, but not special */
    assert_encodes(t, "ab", LN_ENCODE_ADD_SPECIAL, "15 3");
    assert_encodes(t, "", PARSE, "");
    assert_int_equal(ln_tokenizer_find(t, "<s>", 3), 15);
    assert_int_equal(ln_tokenizer_find(t, "nope", 4), -1);
    assert_true(ln_tokenizer_is_special(t, 15));
    assert_false(ln_tokenizer_is_special(t, 16));
    assert_false(ln_tokenizer_is_special(t, -1));
    assert_int_equal(ln_tokenizer_vocab_size(t), 17);
    size_t n_bytes;
    assert_string_equal(ln_tokenizer_piece(t, 4, &n_bytes), "\xc4\xa0"
                                                            "ab");
    assert_null(ln_tokenizer_piece(t, 17, &n_bytes));
    assert_null(ln_tokenizer_piece(t, 99, &n_bytes));
    assert_true(ln_tokenizer_memory_bytes(t) > 1000);
    assert_string_equal(ln_tokenizer_kind(t), "bpe");
    ln_tokenizer_close(t);
}

/* Merges would give "<s>", which is special: without a pre-tokeniser it is taken apart again. */
static void merges_do_not_forge_special_tokens(void **state) {
    (void)state;
    ln_tokenizer *t = parse_json(
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true,\"normalized\":false}],"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"<\":0,\"s\":1,\">\":2,\"<s\":3,\"<s>\":4},"
        "\"merges\":[\"< s\",\"<s >\"],\"ignore_merges\":true}}");
    assert_encodes(t, "<s>", PARSE, "4");
    assert_encodes(t, "<s>", 0, "3 2");
    assert_encodes(t, "s<s>", 0, "1 3 2");
    ln_tokenizer_close(t);
    t = parse_json(
        "{\"added_tokens\":[{\"id\":1,\"content\":\"</s>\",\"special\":true,\"normalized\":false}],"
        "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"</s>\",0],"
        "[\"<\",-2],[\"/\",-2],[\"s\",-2],[\">\",-2]]}}");
    assert_encodes(t, "</s>", PARSE, "1");
    assert_encodes(t, "</s>", 0, "2 3 4 5");
    ln_tokenizer_close(t);
}

/* As the library that writes such files: the nearest doubles of these scores would give "1 2 3". */
static void equal_paths_are_chosen_as_the_library_does(void **state) {
    (void)state;
    ln_tokenizer *t =
        parse_json("{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0.0],"
                   "[\"x\",-3.9169232845306396],[\"-\",-1.1546440124511719],"
                   "[\"--\",-1.641968846321106]]}}");
    assert_encodes(t, "x---", 0, "1 3 2");
    ln_tokenizer_close(t);
}

static void streams_hold_back_half_code_points(void **state) {
    (void)state;
    ln_tokenizer *t = parse_json(bpe_json);
    char out[64];
    ln_detokenizer d;
    ln_detokenizer_init(&d, t, false);
    assert_int_equal(ln_detokenizer_push(&d, 8, out, sizeof out), 0);  /* e4 */
    assert_int_equal(ln_detokenizer_push(&d, 9, out, sizeof out), 0);  /* bd */
    ln_detokenizer copy = d;                                           /* plain data */
    assert_int_equal(ln_detokenizer_push(&d, 10, out, sizeof out), 3); /* a0 */
    assert_memory_equal(out, "\xe4\xbd\xa0", 3);
    assert_int_equal(ln_detokenizer_push(&copy, 0, out, sizeof out), 4); /* broken off */
    assert_memory_equal(out,
                        "\xef\xbf\xbd"
                        "a",
                        4);
    assert_int_equal(ln_detokenizer_push(&d, 8, out, sizeof out), 0);
    assert_int_equal(ln_detokenizer_flush(&d, out, sizeof out), 3);
    assert_int_equal(ln_detokenizer_flush(&d, out, sizeof out), 0);
    assert_int_equal(ln_detokenizer_push(&d, 1000, out, sizeof out), 0); /* no such ids */
    assert_int_equal(ln_detokenizer_push(&d, -5, out, sizeof out), 0);
    assert_int_equal(ln_detokenizer_push(&d, 15, out, sizeof out), 0); /* special, dropped */
    assert_int_equal(ln_detokenizer_push(&d, 4, out, 2), 2);           /* never past the room */
    ln_tokenizer_close(t);
}

static void runs_of_byte_tokens_follow_the_library(void **state) {
    (void)state;
    ln_tokenizer *t = parse_json(
        "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},"
        "{\"type\":\"Fuse\"}]},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":"
        "{\"a\":0,\"<0xE4>\":1,\"<0xBD>\":2,\"<0xA0>\":3,\"<0x41>\":4},\"merges\":[]}}");
    assert_encodes(t, "a\xe4\xbd\xa0", 0, "0 1 2 3");
    static const struct {
        int32_t ids[4];
        size_t n_ids;
        const char *whole, *streamed;
    } cases[] = {
        {{1, 2, 3, 0},
         4,
         "\xe4\xbd\xa0"
         "a",
         "\xe4\xbd\xa0"
         "a"},
        {{1, 2, 0, 4},
         4,
         "\xef\xbf\xbd\xef\xbf\xbd"
         "aA",
         "\xef\xbf\xbd\xef\xbf\xbd"
         "aA"},
        /* the library replaces the whole run; a stream has written the A already */
        {{4, 1}, 2, "\xef\xbf\xbd\xef\xbf\xbd", "A\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ln_strbuf whole;
        ln_strbuf_init(&whole);
        assert_int_equal(ln_tokenizer_decode(t, cases[i].ids, cases[i].n_ids, true, &whole, NULL),
                         LINNET_OK);
        assert_string_equal(whole.data, cases[i].whole);
        char *streamed = stream_text(t, cases[i].ids, cases[i].n_ids, true);
        assert_string_equal(streamed, cases[i].streamed);
        free(streamed);
        ln_strbuf_free(&whole);
    }
    ln_tokenizer_close(t);
}

static void ill_formed_text_is_repaired(void **state) {
    (void)state;
    ln_tokenizer *t = parse_json(
        "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,"
        "\"a\xef\xbf\xbd"
        "b\":1,\"a\\u0000b\":2,\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\":3,\"\xef\xbf\xbd\":4}}}");
    assert_encodes(t,
                   "a\xff"
                   "b",
                   0, "1");
    assert_encodes(t,
                   "a\xe4\xbd"
                   "b",
                   0, "1");                    /* one broken sequence, one replacement */
    assert_encodes(t, "\xed\xa0\x80", 0, "3"); /* a surrogate: three */
    assert_encodes(t, "\xf0\x9f\x99", 0, "4");
    char *ids = encode_text(t, "a\0b", 3, 0);
    assert_string_equal(ids, "2");
    free(ids);
    ln_tokenizer_close(t);
}

static void broken_files_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *json, *message;
        ln_status status;
    } cases[] = {
        {"", "'[' or '{' expected near end of file at byte 0", LINNET_ERR_FORMAT},
        {"[]", "the file holds no object", LINNET_ERR_FORMAT},
        {"{}", "there is no model", LINNET_ERR_FORMAT},
        {"{\"model\":{\"type\":\"Markov\"}}", "the Markov model has no vocabulary",
         LINNET_ERR_FORMAT},
        {"{\"model\":{\"type\":\"Markov\",\"vocab\":{}}}",
         "the model type \"Markov\" is not supported", LINNET_ERR_UNSUPPORTED},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
         "the BPE model has no list of merges", LINNET_ERR_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
         "merge 0 needs the token \"b\", which the vocabulary lacks", LINNET_ERR_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}",
         "merge 0 needs the token \"ab\", which the vocabulary lacks", LINNET_ERR_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b c\"]}}",
         "merge 0 is not two tokens", LINNET_ERR_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
         "token \"a\" has the id -1 in a vocabulary of 1", LINNET_ERR_LIMIT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000},\"merges\":[]}}",
         "token \"a\" has the id 4000000000 in a vocabulary of 1", LINNET_ERR_LIMIT},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":7,\"vocab\":[[\"a\",0]]}}",
         "unk_id is 7 in a vocabulary of 1", LINNET_ERR_FORMAT},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}",
         "token 0 is no pair of text and score", LINNET_ERR_FORMAT},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}},\"normalizer\":{\"type\":\"Rot13\"}}",
         "the normalizer type \"Rot13\" is not supported", LINNET_ERR_UNSUPPORTED},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}},\"pre_tokenizer\":{\"type\":\"Knife\"}}",
         "the pre-tokenizer type \"Knife\" is not supported", LINNET_ERR_UNSUPPORTED},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}},\"decoder\":{\"type\":\"CTC\"}}",
         "the decoder type \"CTC\" is not supported", LINNET_ERR_UNSUPPORTED},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}},\"pre_tokenizer\":{\"type\":\"Split\","
         "\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"(\"}}}",
         "regular expression \"(\": a group that does not close at byte 1", LINNET_ERR_FORMAT},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}},\"post_processor\":{\"type\":"
         "\"BertProcessing\",\"sep\":[\"s\",9],\"cls\":[\"c\",8]}}",
         "the post-processor adds a token that the vocabulary of 0 lacks", LINNET_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ln_error err = {0};
        ln_tokenizer *t;
        ln_status status = ln_tokenizer_from_json(cases[i].json, strlen(cases[i].json), &t, &err);
        assert_null(t);
        assert_string_equal(err.message, cases[i].message);
        assert_int_equal(status, cases[i].status);
    }
}

/* A file cut anywhere is refused, never read past its end. */
static void truncated_files_are_refused(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof bpe_json - 1; n++) {
        char *copy = malloc(n + 1);
        memcpy(copy, bpe_json, n);
        ln_tokenizer *t;
        assert_int_equal(ln_tokenizer_from_json(copy, n, &t, NULL), LINNET_ERR_FORMAT);
        free(copy);
    }
}

/* Rules that make ever more of a text end with an error, not with the machine's memory. */
static void texts_grow_within_bounds(void **state) {
    (void)state;
    enum { N_STEPS = 5, GROWTH = 1000 };
    static const char head[] = "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":"
                               "{\"u\":0,\"a..\":1}},";
    static const struct {
        const char *place, *list, *message;
        bool while_loading;
    } cases[] = {{"normalizer", "normalizers", "the tokenizer's normalizers make over", false},
                 {"decoder", "decoders", "the tokenizer's decoders make over", true}};
    char content[GROWTH + 1] = {0};
    memset(content, '.', GROWTH);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ln_strbuf json = {0};
        ln_strbuf_printf(&json, "%s\"%s\":{\"type\":\"Sequence\",\"%s\":[", head, cases[i].place,
                         cases[i].list);
        for (size_t step = 0; step < N_STEPS; step++)
            ln_strbuf_printf(&json,
                             "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\".\"},"
                             "\"content\":\"%s\"}",
                             step > 0 ? "," : "", content);
        ln_strbuf_puts(&json, "]}}");
        ln_tokenizer *t = NULL;
        ln_ids ids = {0};
        ln_error err = {0};
        ln_status status = ln_tokenizer_from_json(json.data, json.len, &t, &err);
        assert_int_equal(status, cases[i].while_loading ? LINNET_ERR_LIMIT : LINNET_OK);
        if (status == LINNET_OK)
            status = ln_tokenizer_encode(t, "a.", 2, 0, &ids, &err);
        assert_int_equal(status, LINNET_ERR_LIMIT);
        assert_int_equal(strncmp(err.message, cases[i].message, strlen(cases[i].message)), 0);
        ln_tokenizer_close(t);
        ln_ids_free(&ids);
        ln_strbuf_free(&json);
    }
}

/* Patterns that explode end with an error that says so. */
static void hostile_patterns_give_up(void **state) {
    (void)state;
    ln_tokenizer *t =
        parse_json("{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0}},"
                   "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\","
                   "\"pattern\":{\"Regex\":\"(a|a|aa)+$\"}}}");
    char text[4096];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 'c';
    ln_ids ids = {0};
    ln_error err = {0};
    assert_int_equal(ln_tokenizer_encode(t, text, sizeof text, 0, &ids, &err), LINNET_ERR_LIMIT);
    assert_non_null(strstr(err.message, "gave up at byte 0"));
    assert_int_equal(ids.count, 0);
    ln_ids_free(&ids);
    ln_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_text_is_plain_unless_it_is_trusted),
        cmocka_unit_test(merges_do_not_forge_special_tokens),
        cmocka_unit_test(equal_paths_are_chosen_as_the_library_does),
        cmocka_unit_test(streams_hold_back_half_code_points),
        cmocka_unit_test(runs_of_byte_tokens_follow_the_library),
        cmocka_unit_test(ill_formed_text_is_repaired),
        cmocka_unit_test(broken_files_are_refused_by_name),
        cmocka_unit_test(truncated_files_are_refused),
        cmocka_unit_test(hostile_patterns_give_up),
        cmocka_unit_test(texts_grow_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
