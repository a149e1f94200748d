/* A tokenizer that went into GGUF gives the ids that the folder's gives. */
#include "test.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convert/plan.h"
#include "text/tokenizer/tokenizer.h"

#define TOKENIZERS TEST_SOURCE_DIR "/tests/golden/tokenizers"

static char path[64]; /* what is written; of this process alone */

static ln_checkpoint *open_path(const char *name) {
    ln_checkpoint *checkpoint;
    ln_error err = {0};
    if (ln_checkpoint_open(name, true, &checkpoint, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    return checkpoint;
}

static ln_tokenizer *open_tokenizer(const ln_checkpoint *checkpoint) {
    ln_tokenizer *tokenizer;
    ln_error err = {0};
    if (ln_tokenizer_open(checkpoint, &tokenizer, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    return tokenizer;
}

static ln_status write_vocab(const ln_checkpoint *from, const char *architecture, size_t n_vocab,
                             ln_error *err) {
    ln_spec spec = {.n_vocab = n_vocab};
    ln_convert_plan plan = {.checkpoint = from, .spec = &spec, .err = err};
    ln_gguf_writer writer;
    ln_gguf_writer_init(&writer);
    snprintf(plan.architecture, sizeof plan.architecture, "%s", architecture);
    ln_gguf_put_string(&writer, "general.architecture", architecture, strlen(architecture));
    ln_status status = ln_convert_put_tokenizer(&plan, true, &writer);
    if (status == LINNET_OK)
        status = ln_gguf_write_begin(&writer, path, err);
    if (status == LINNET_OK)
        status = ln_gguf_write_end(&writer, err);
    ln_gguf_writer_free(&writer);
    return status;
}

/* Texts on which both give the same ids, with and without special tokens. */
static size_t count_equal(const ln_tokenizer *a, const ln_tokenizer *b, const json_t *cases) {
    size_t i, n_equal = 0;
    json_t *item;
    json_array_foreach(cases, i, item) {
        const json_t *text = json_object_get(item, "text");
        const char *data = json_string_value(text);
        size_t n_bytes = json_string_length(text);
        bool equal = true;
        for (unsigned special = 0; special < 2; special++) {
            ln_ids left = {0}, right = {0};
            unsigned flags = LN_ENCODE_PARSE_SPECIAL | (special ? LN_ENCODE_ADD_SPECIAL : 0u);
            assert_int_equal(ln_tokenizer_encode(a, data, n_bytes, flags, &left, NULL), LINNET_OK);
            assert_int_equal(ln_tokenizer_encode(b, data, n_bytes, flags, &right, NULL), LINNET_OK);
            equal &= left.count == right.count &&
                     (left.count == 0 ||
                      memcmp(left.data, right.data, left.count * sizeof *left.data) == 0);
            ln_ids_free(&left);
            ln_ids_free(&right);
        }
        if (!equal)
            print_message("  differs: %.60s\n", data);
        n_equal += equal;
    }
    return n_equal;
}

static void check_as(const char *architecture, const char *name, size_t n_allowed) {
    char folder[256], cases_path[300];
    ln_error err = {0};
    snprintf(folder, sizeof folder, "%s/%s", TOKENIZERS, name);
    snprintf(cases_path, sizeof cases_path, "%s/cases.json", folder);
    ln_checkpoint *from = open_path(folder);
    ln_tokenizer *theirs = open_tokenizer(from);
    /* three ids more than the tokenizer has, as models do */
    if (write_vocab(from, architecture, ln_tokenizer_vocab_size(theirs) + 3, &err) != LINNET_OK)
        fail_msg("%s: %s", name, err.message);
    ln_checkpoint *to = open_path(path);
    ln_tokenizer *ours = open_tokenizer(to);
    json_t *cases = json_load_file(cases_path, JSON_ALLOW_NUL, NULL);
    size_t n = json_array_size(cases), n_equal = count_equal(theirs, ours, cases);
    print_message("%-20s %zu of %zu texts alike\n", name, n_equal, n);
    assert_true(n > 20);
    assert_true(n_equal + n_allowed >= n);
    json_decref(cases);
    ln_tokenizer_close(ours);
    ln_tokenizer_close(theirs);
    ln_checkpoint_close(to);
    ln_checkpoint_close(from);
    unlink(path);
}

static void check(const char *name, size_t n_allowed) {
    check_as("llama", name, n_allowed);
}

static void tokenizers_keep_their_ids(void **state) {
    (void)state;
    /* GGUF's readers do not normalise to NFC as Qwen's tokenizer does, and give an unknown token
     * for each character where SentencePiece's Unigram gives one for a run of them */
    check("gpt2", 0);
    check("llama3", 0);
    check("qwen2", 3);
    check("llama2", 0);
    check("spm_bpe", 0);
    check_as("gemma4", "llama2", 0); /* with its merges */
    check("spm_unigram", 28);
    check("wordpiece", 0);
}

static void unknown_tokenizers_are_named(void **state) {
    (void)state;
    static const char *const names[] = {"unigram", "gpt2_prefix_space"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char folder[256];
        ln_error err = {0};
        snprintf(folder, sizeof folder, "%s/%s", TOKENIZERS, names[i]);
        ln_checkpoint *from = open_path(folder);
        assert_int_equal(write_vocab(from, "llama", 1500, &err), LINNET_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.message, "--no-tokenizer"));
        assert_non_null(strstr(err.message, names[i]));
        ln_checkpoint_close(from);
        assert_int_not_equal(access(path, F_OK), 0);
    }
}

static void sizes_that_gguf_cannot_say_are_named(void **state) {
    (void)state;
    ln_error err = {0};
    ln_checkpoint *from = open_path(TOKENIZERS "/gpt2");
    ln_layer_spec layer = {.attention = {.n_heads = 1, .k_dim = 64, .scale = 0.125f}};
    ln_spec spec = {.n_layers = 1, .layers = &layer, .n_vocab = 5, .dim = 64};
    ln_family target = {0};
    ln_convert_plan plan = {
        .checkpoint = from, .spec = &spec, .target = &target, .architecture = "llama", .err = &err};
    ln_gguf_writer writer;
    ln_gguf_writer_init(&writer);
    assert_int_equal(ln_convert_put_keys(&plan, &writer), LINNET_OK);
    spec.ctx_tokens = (size_t)1 << 32;
    assert_int_equal(ln_convert_put_keys(&plan, &writer), LINNET_ERR_LIMIT);
    assert_non_null(strstr(err.message, "llama.context_length would be 4294967296"));
    ln_gguf_writer_free(&writer);
    ln_checkpoint_close(from);
}

int main(void) {
    snprintf(path, sizeof path, "/tmp/linnet-convert-%d.gguf", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_gguf_cannot_say_are_named),
        cmocka_unit_test(tokenizers_keep_their_ids),
        cmocka_unit_test(unknown_tokenizers_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
