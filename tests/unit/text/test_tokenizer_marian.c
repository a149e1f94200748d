/* Marian's tokenizer: broken folders, and what the golden texts do not show. */
#include "unit/text/tokenizer_support.h"

#include <unistd.h>

#define GOLDEN TEST_SOURCE_DIR "/tests/golden/tokenizers/marian/source.spm"

typedef struct fixture {
    char folder[64];
    ln_checkpoint *checkpoint;
    ln_tokenizer *tokenizer;
    ln_error err;
} fixture;

static const char *const names[] = {"source.spm", "vocab.json", "target_vocab.json",
                                    "tokenizer_config.json"};

static void write_bytes(const fixture *f, const char *name, const char *bytes, size_t n_bytes) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const fixture *f, const char *name, const char *text) {
    write_bytes(f, name, text, strlen(text));
}

/* source.spm up to a byte. */
static void write_spm(const fixture *f, size_t cut) {
    ln_strbuf bytes;
    ln_strbuf_init(&bytes);
    assert_int_equal(ln_file_read(GOLDEN, 1 << 20, &bytes, NULL), LINNET_OK);
    write_bytes(f, "source.spm", bytes.data, bytes.len < cut ? bytes.len : cut);
    ln_strbuf_free(&bytes);
}

static int set_up(void **state) {
    static fixture f;
    f = (fixture){.folder = "/tmp/linnet-marian-XXXXXX"};
    assert_non_null(mkdtemp(f.folder));
    write_spm(&f, SIZE_MAX);
    *state = &f;
    return 0;
}

static void close_both(fixture *f) {
    ln_tokenizer_close(f->tokenizer);
    ln_checkpoint_close(f->checkpoint);
    f->tokenizer = NULL;
    f->checkpoint = NULL;
}

static int tear_down(void **state) {
    fixture *f = *state;
    close_both(f);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", f->folder, names[i]);
        unlink(path);
    }
    return rmdir(f->folder);
}

static ln_status open_both(fixture *f) {
    close_both(f);
    f->err = (ln_error){0};
    ln_status status = ln_checkpoint_open(f->folder, true, &f->checkpoint, &f->err);
    return status != LINNET_OK ? status : ln_tokenizer_open(f->checkpoint, &f->tokenizer, &f->err);
}

static void assert_refused(fixture *f, ln_status status, const char *name, const char *message) {
    char expected[256];
    ln_status actual = open_both(f);
    bool is_missing = status == LINNET_ERR_IO;
    snprintf(expected, sizeof expected, "%s%s/%s: %s", is_missing ? "cannot open " : "", f->folder,
             name, message);
    if (actual != status || strncmp(f->err.message, expected, strlen(expected)) != 0)
        fail_msg("%d, \"%s\", not %d, \"%s\"", actual, f->err.message, status, expected);
    assert_null(f->tokenizer);
}

static void refuses_broken_vocabularies(void **state) {
    fixture *f = *state;
    assert_refused(f, LINNET_ERR_IO, "vocab.json", "");
    static const struct {
        ln_status status;
        const char *json, *message;
    } cases[] = {
        {LINNET_ERR_FORMAT, "", ""},
        {LINNET_ERR_FORMAT, "{\"<unk>\": 1", ""},
        {LINNET_ERR_FORMAT, "[\"<unk>\", \"</s>\"]", "the file holds no object"},
        {LINNET_ERR_FORMAT, "{}", "there is no piece \"<unk>\""},
        {LINNET_ERR_FORMAT, "{\"</s>\": 0}", "there is no piece \"<unk>\""},
        {LINNET_ERR_FORMAT, "{\"<unk>\": 0}", "there is no piece \"</s>\""},
        {LINNET_ERR_FORMAT, "{\"</s>\": 0, \"<unk>\": \"1\"}", "piece \"<unk>\" has no integer id"},
        {LINNET_ERR_FORMAT, "{\"</s>\": 0, \"<unk>\": 1.5}", "piece \"<unk>\" has no integer id"},
        {LINNET_ERR_LIMIT, "{\"</s>\": 0, \"<unk>\": -1}",
         "piece \"<unk>\" has the id -1 in a vocabulary of 2"},
        {LINNET_ERR_LIMIT, "{\"</s>\": 0, \"<unk>\": 4294967297}",
         "piece \"<unk>\" has the id 4294967297 in a vocabulary of 2"},
        {LINNET_ERR_FORMAT, "{\"</s>\": 0, \"<unk>\": 1, \"a\": 1}",
         "pieces \"<unk>\" and \"a\" both have the id 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_text(f, "vocab.json", cases[i].json);
        assert_refused(f, cases[i].status, "vocab.json", cases[i].message);
    }
}

static void refuses_broken_models(void **state) {
    fixture *f = *state;
    write_text(f, "vocab.json", "{\"</s>\": 0, \"<unk>\": 1}");
    write_spm(f, 0);
    assert_refused(f, LINNET_ERR_FORMAT, "source.spm", "the model has no unknown piece");
    write_spm(f, 700);
    assert_refused(f, LINNET_ERR_FORMAT, "source.spm", "the model is malformed");
    write_spm(f, SIZE_MAX);
    write_text(f, "tokenizer_config.json", "{\"separate_vocabs\": true}");
    assert_refused(f, LINNET_ERR_IO, "target_vocab.json", "");
    write_text(f, "target_vocab.json", "[]");
    assert_refused(f, LINNET_ERR_FORMAT, "target_vocab.json", "the file holds no object");
    write_text(f, "target_vocab.json", "{}");
    assert_int_equal(open_both(f), LINNET_OK); /* of no use, but no danger */
    assert_int_equal(ln_tokenizer_vocab_size(f->tokenizer), 0);
    assert_encodes(f->tokenizer, "old", LN_ENCODE_ADD_SPECIAL, "1 0");
}

/* Ids with holes; what source.spm has and vocab.json lacks is unknown, piece by piece. */
static void numbers_pieces(void **state) {
    fixture *f = *state;
    write_text(f, "vocab.json",
               "{\"</s>\": 9, \"[U]\": 3, \"\\u2581bird\": 70, \"\\u2581\": 5, \"\\u00e9\": 6, "
               "\"b\": 8, \">>fra<<\": 7, \"\": 2}");
    write_text(f, "tokenizer_config.json",
               "{\"unk_token\": {\"content\": \"[U]\"}, \"eos_token\": \"</s>\"}");
    assert_int_equal(open_both(f), LINNET_OK);
    const ln_tokenizer *t = f->tokenizer;
    assert_int_equal(ln_tokenizer_vocab_size(t), 71);
    assert_int_equal(ln_tokenizer_eos(t), 9);
    assert_int_equal(ln_tokenizer_bos(t), -1);
    assert_encodes(t, "", LN_ENCODE_ADD_SPECIAL, "9");
    assert_encodes(t, "\xc3\xa9", 0, "5 6");
    assert_encodes(t, ">>fra<<\xc3\xa9", LN_ENCODE_ADD_SPECIAL, "7 5 6 9");
    assert_encodes(t, ">>ita<<\xc3\xa9", 0, "3 5 6");
    assert_encodes(t, "\xc3\xa9</s>", LN_ENCODE_PARSE_SPECIAL, "5 6 9");
    static const int32_t ids[] = {5, 6, 3, 7, 2, 4, 70, 71, -1, 9};
    char *text = stream_text(t, ids, sizeof ids / sizeof ids[0], false);
    assert_string_equal(text, "\xc3\xa9>>fra<< bird");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(refuses_broken_vocabularies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_broken_models, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_pieces, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
