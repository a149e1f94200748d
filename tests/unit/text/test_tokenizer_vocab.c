/* Vocabularies of real models in GGUF: $LINNET_GOLDENS/vocab/NAME.gguf with texts in .inp and
 * their ids in .out. They are not part of the project; without them the test is skipped. */
#include "unit/text/tokenizer_support.h"

#include <dirent.h>

static const char separator[] = "\n__ggml_vocab_test__\n";

static void read_file(const char *folder, const char *name, const char *end, ln_strbuf *out) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, end);
    ln_error err = {0};
    if (ln_file_read(path, 1 << 24, out, &err) != LINNET_OK)
        fail_msg("%s", err.message);
}

/* Compares each text with its line of ids; returns how many differ. */
static size_t compare(const ln_tokenizer *tokenizer, const char *name, const char *texts,
                      char *lines, size_t *n_texts) {
    size_t n_wrong = 0;
    for (char *line = lines; *line != '\0' && texts != NULL; (*n_texts)++) {
        const char *end = strstr(texts, separator);
        size_t n_bytes = end != NULL ? (size_t)(end - texts) : strlen(texts);
        char *line_end = strchr(line, '\n');
        if (line_end != NULL)
            *line_end = '\0';
        while (*line == ' ')
            line++;
        size_t last = strlen(line);
        while (last > 0 && line[last - 1] == ' ')
            line[--last] = '\0';
        char *actual = encode_text(tokenizer, texts, n_bytes, 0);
        if (strcmp(actual, line) != 0) {
            print_error("%s: text %zu \"%.*s\"\n  is  %s\n  not %s\n", name, *n_texts,
                        n_bytes < 200 ? (int)n_bytes : 200, texts, actual, line);
            n_wrong++;
        }
        free(actual);
        texts = end != NULL ? end + sizeof separator - 1 : NULL;
        line = line_end != NULL ? line_end + 1 : line + last;
    }
    return n_wrong;
}

static void vocabularies_equal_llama_cpp(void **state) {
    (void)state;
    const char *goldens = getenv("LINNET_GOLDENS");
    char folder[512];
    snprintf(folder, sizeof folder, "%s/vocab",
             goldens ? goldens : TEST_SOURCE_DIR "/../shared/goldens");
    DIR *list = opendir(folder);
    if (list == NULL) {
        print_message("%s is missing: skipped\n", folder);
        skip();
    }
    size_t n_texts = 0, n_wrong = 0;
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        if (!ends_with(entry->d_name, ".gguf"))
            continue;
        ln_error err = {0};
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ln_checkpoint *checkpoint;
        ln_tokenizer *tokenizer;
        if (ln_checkpoint_open(path, true, &checkpoint, &err) != LINNET_OK)
            fail_msg("%s", err.message);
        if (ln_tokenizer_open(checkpoint, &tokenizer, &err) != LINNET_OK)
            fail_msg("%s", err.message);
        ln_strbuf texts, ids;
        ln_strbuf_init(&texts);
        ln_strbuf_init(&ids);
        read_file(folder, entry->d_name, ".inp", &texts);
        read_file(folder, entry->d_name, ".out", &ids);
        n_wrong += compare(tokenizer, entry->d_name, texts.data, ids.data, &n_texts);
        ln_strbuf_free(&texts);
        ln_strbuf_free(&ids);
        ln_tokenizer_close(tokenizer);
        ln_checkpoint_close(checkpoint);
    }
    closedir(list);
    print_message("%zu texts\n", n_texts);
    assert_int_equal(n_wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(vocabularies_equal_llama_cpp)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
