/* Chat templates against the answers of Jinja2: ours in tests/golden/templates, and those of
 * $LINNET_GOLDENS/templates (by default ../shared/goldens beside the sources), when they are
 * there. tools/golden/templates.py describes the format. */
#include "template_support.h"

#include <dirent.h>

#include "base/file.h"

#define GOLDEN_DIR TEST_SOURCE_DIR "/tests/golden/templates"

static json_t *load_json(const char *folder, const char *name) {
    char *path = ln_path_join(folder, name);
    json_error_t error;
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (json == NULL)
        fail_msg("%s: %s", path, error.text);
    free(path);
    return json;
}

/* An error is as Jinja's when it ends with "Class: message"; newlines in it become '?'. */
static bool is_error(const char *message, const char *wanted) {
    size_t n = strlen(message), m = strlen(wanted);
    if (n < m)
        return false;
    for (size_t i = 0; i < m; i++) {
        char c = (unsigned char)wanted[i] < 0x20 || wanted[i] == 0x7f ? '?' : wanted[i];
        if (message[n - m + i] != c)
            return false;
    }
    return true;
}

/* One case: {context, text | error | refused}. Returns whether it holds, and says if not. */
static bool check_case(const char *name, const char *source, size_t n_bytes, json_t *golden) {
    ln_jinja_output output;
    ln_error err = {0};
    bool compiled, holds;
    ln_status status = render_template(source, n_bytes, json_object_get(golden, "context"), &output,
                                       &compiled, &err);
    json_t *text = json_object_get(golden, "text"), *error = json_object_get(golden, "error");
    if (text != NULL)
        holds = status == LINNET_OK && output.text.len == json_string_length(text) &&
                memcmp(output.text.data, json_string_value(text), output.text.len) == 0;
    else if (error != NULL)
        holds = status == LINNET_ERR_ARGUMENT && is_error(err.message, json_string_value(error));
    else
        holds = !compiled;
    if (!holds)
        print_error("%s: %.*s\n  wanted %s\n  got    %s\n", name,
                    n_bytes < 300 ? (int)n_bytes : 300, source,
                    text != NULL    ? json_string_value(text)
                    : error != NULL ? json_string_value(error)
                                    : "a refusal",
                    status == LINNET_OK ? output.text.data : err.message);
    if (status == LINNET_OK)
        assert_spans_cover(&output);
    ln_jinja_output_free(&output);
    return holds;
}

static void check_snippets(const char *name) {
    json_t *cases = load_json(GOLDEN_DIR, name);
    size_t failed = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *golden = json_array_get(cases, i);
        json_t *source = json_object_get(golden, "template");
        failed += !check_case(name, json_string_value(source), json_string_length(source), golden);
    }
    assert_true(json_array_size(cases) > 100);
    json_decref(cases);
    assert_int_equal(failed, 0);
}

static void expressions_match_jinja(void **state) {
    (void)state;
    check_snippets("expressions.json");
}

static void statements_match_jinja(void **state) {
    (void)state;
    check_snippets("statements.json");
}

/* NAME.jinja with its NAME.json; counts the cases. */
static size_t check_template(const char *folder, const char *name, size_t *failed) {
    char *path = ln_path_join(folder, name);
    ln_strbuf source;
    ln_strbuf_init(&source);
    ln_error err = {0};
    if (ln_file_read(path, 1 << 20, &source, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    free(path);
    char answers[512];
    snprintf(answers, sizeof answers, "%.*s.json", (int)(strlen(name) - strlen(".jinja")), name);
    json_t *cases = load_json(folder, answers);
    size_t n = json_array_size(cases);
    for (size_t i = 0; i < n; i++) {
        json_t *golden = json_array_get(cases, i);
        char title[1024];
        snprintf(title, sizeof title, "%s, %s", name,
                 json_string_value(json_object_get(golden, "case")));
        *failed += !check_case(title, source.data, source.len, golden);
    }
    json_decref(cases);
    ln_strbuf_free(&source);
    return n;
}

/* Every template of a folder; 0 cases where there is no folder. */
static size_t check_folder(const char *folder) {
    size_t n_cases = 0, failed = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        const char *end = strrchr(entry->d_name, '.');
        if (end != NULL && strcmp(end, ".jinja") == 0)
            n_cases += check_template(folder, entry->d_name, &failed);
    }
    closedir(dir);
    print_message("%zu cases in %s\n", n_cases, folder);
    assert_int_equal(failed, 0);
    return n_cases;
}

static void templates_of_families_match_jinja(void **state) {
    (void)state;
    assert_true(check_folder(GOLDEN_DIR "/families") >= 100);
}

static void templates_of_real_models_match_jinja(void **state) {
    (void)state;
    const char *goldens = getenv("LINNET_GOLDENS");
    char *folder =
        ln_path_join(goldens != NULL ? goldens : TEST_SOURCE_DIR "/../shared/goldens", "templates");
    size_t n_cases = check_folder(folder);
    free(folder);
    if (n_cases == 0) {
        print_message("no templates of real models: set LINNET_GOLDENS; skipped\n");
        skip();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_match_jinja),
        cmocka_unit_test(statements_match_jinja),
        cmocka_unit_test(templates_of_families_match_jinja),
        cmocka_unit_test(templates_of_real_models_match_jinja),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
