/* Every tokenizer of tests/golden/tokenizers gives the ids and texts that Hugging Face tokenizers,
 * SentencePiece and MarianTokenizer gave. */
#include "unit/text/tokenizer_support.h"

#include <dirent.h>
#include <jansson.h>

#define FOLDER TEST_SOURCE_DIR "/tests/golden/tokenizers"

static size_t n_checks;

static char *ids_text(const json_t *ids) {
    ln_strbuf out;
    ln_strbuf_init(&out);
    for (size_t i = 0; i < json_array_size(ids); i++)
        ln_strbuf_printf(&out, i ? " %lld" : "%lld",
                         (long long)json_integer_value(json_array_get(ids, i)));
    return ln_strbuf_take(&out);
}

static void check_ids(const ln_tokenizer *tokenizer, const json_t *entry, const char *key,
                      unsigned flags, const char *name) {
    const json_t *ids = json_object_get(entry, key), *text = json_object_get(entry, "text");
    if (ids == NULL)
        return;
    char *expected = ids_text(ids);
    char *actual = encode_text(tokenizer, json_string_value(text), json_string_length(text), flags);
    if (strcmp(actual, expected) != 0)
        fail_msg("%s: \"%s\": %s are [%s], not [%s]", name, json_string_value(text), key, actual,
                 expected);
    free(actual);
    free(expected);
    n_checks++;
}

static void check_text(const ln_tokenizer *tokenizer, const json_t *entry, const char *ids_key,
                       const char *text_key, bool keep_special, const char *name) {
    const json_t *list = json_object_get(entry, ids_key), *text = json_object_get(entry, text_key);
    if (list == NULL || text == NULL)
        return;
    size_t n = json_array_size(list);
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    char *streamed = stream_text(tokenizer, ids, n, keep_special);
    ln_strbuf whole;
    ln_strbuf_init(&whole);
    assert_int_equal(ln_tokenizer_decode(tokenizer, ids, n, keep_special, &whole, NULL), LINNET_OK);
    const char *expected = json_string_value(text);
    size_t n_bytes = json_string_length(text);
    if (whole.len != n_bytes || memcmp(whole.data, expected, n_bytes) != 0)
        fail_msg("%s: %s is \"%s\", not \"%s\"", name, text_key, whole.data, expected);
    if (strncmp(streamed, expected, n_bytes + 1) != 0)
        fail_msg("%s: %s streams as \"%s\", not \"%s\"", name, text_key, streamed, expected);
    ln_strbuf_free(&whole);
    free(streamed);
    free(ids);
    n_checks++;
}

static void check_folder(const char *name) {
    char path[512];
    json_error_t json_err;
    snprintf(path, sizeof path, FOLDER "/%s/cases.json", name);
    json_t *cases = json_load_file(path, JSON_ALLOW_NUL, &json_err), *entry;
    assert_non_null(cases);
    snprintf(path, sizeof path, FOLDER "/%s/tokenizer.json", name);
    bool is_json = ln_file_exists(path);
    if (!is_json)
        snprintf(path, sizeof path, FOLDER "/%s/tokenizer.model", name);
    bool is_marian = !is_json && !ln_file_exists(path);
    if (is_marian)
        snprintf(path, sizeof path, FOLDER "/%s", name);
    ln_tokenizer *tokenizer = is_marian ? open_folder(path) : open_tokenizer(path);
    size_t i;
    json_array_foreach(cases, i, entry) {
        unsigned parse = is_json || is_marian ? LN_ENCODE_PARSE_SPECIAL : 0;
        const char *special_key = json_object_get(entry, "ids_special") ? "ids_special" : "ids";
        check_ids(tokenizer, entry, "ids", parse, name);
        check_ids(tokenizer, entry, "ids_special", parse | LN_ENCODE_ADD_SPECIAL, name);
        check_text(tokenizer, entry, "ids", "decoded", true, name);
        check_text(tokenizer, entry, special_key, "decoded_skip", false, name);
        check_text(tokenizer, entry, "target_ids", "target_text", false, name);
    }
    json_decref(cases);
    ln_tokenizer_close(tokenizer);
}

static void tokenizers_equal_their_libraries(void **state) {
    (void)state;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        if (entry->d_name[0] != '.')
            check_folder(entry->d_name);
    closedir(folder);
    assert_true(n_checks > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokenizers_equal_their_libraries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
