/* linnet inspect, tokenize, detokenize, template and logits. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/spawn.h"
#include "test.h"

#define DEMO      TEST_SOURCE_DIR "/models/demo.gguf"
#define LLAMA     TEST_SOURCE_DIR "/tests/golden/models/llama"
#define TOKENIZER TEST_SOURCE_DIR "/tests/golden/tokenizers/llama2"

static void assert_result(spawn_result result, int status, const char *out, const char *err) {
    if (result.status != status)
        fail_msg("exit status %d: %s", result.status, result.err);
    assert_string_equal(result.out, out);
    if (!strstr(result.err, err) || (*err == '\0' && *result.err != '\0'))
        fail_msg("'%s' lacks '%s'", result.err, err);
    spawn_free(&result);
}

/* ---- inspect ---------------------------------------------------------------------------- */

static void test_inspect(void **state) {
    (void)state;
    spawn_result text = LINNET("inspect", LLAMA);
    assert_int_equal(text.status, 0);
    assert_non_null(strstr(text.out, "architecture"));
    assert_non_null(strstr(text.out, "llama"));
    assert_non_null(strstr(text.out, "BF16"));
    assert_null(strstr(text.out, "model.layers.1.mlp.up_proj.weight"));
    spawn_free(&text);
    text = LINNET("inspect", LLAMA, "--tensors");
    assert_non_null(strstr(text.out, "model.layers.1.mlp.up_proj.weight"));
    spawn_free(&text);
}

/* A head that drafts is a part of the spec, and nothing that is skipped. */
static void test_inspect_head(void **state) {
    (void)state;
    spawn_result text = LINNET("inspect", TEST_SOURCE_DIR "/tests/golden/models/glm4_moe_mtp");
    assert_int_equal(text.status, 0);
    assert_non_null(strstr(text.out, "mtp_layers"));
    assert_null(strstr(text.out, "prediction layers"));
    spawn_free(&text);
}

static void test_inspect_json(void **state) {
    (void)state;
    spawn_result result = LINNET("inspect", LLAMA, "--json");
    assert_int_equal(result.status, 0);
    json_t *report = json_loads(result.out, 0, NULL);
    assert_non_null(report);
    const char *architecture;
    int dim, n_layers, n_tensors;
    assert_int_equal(json_unpack(report, "{s:s, s:{s:i, s:i}, s:i}", "architecture", &architecture,
                                 "spec", "dim", &dim, "n_layers", &n_layers, "n_tensors",
                                 &n_tensors),
                     0);
    assert_string_equal(architecture, "llama");
    assert_int_equal(dim, 64);
    assert_int_equal(n_layers, 2);
    assert_int_equal(n_tensors, json_array_size(json_object_get(report, "tensors")));
    json_decref(report);
    spawn_free(&result);
}

/* Numbers that are packed into words count one by one, their scales not at all. */
static void test_inspect_counts_packed_numbers(void **state) {
    (void)state;
    static const char *const names[] = {"llama_gptq", "llama_awq",     "llama_int4",
                                        "llama_int8", "llama_nvfp4",   "llama_mxfp4",
                                        "llama_nf4",  "llama_llm_int8"};
    json_int_t plain = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/tests/golden/models/%s", names[i]);
        spawn_result result = LINNET("inspect", path, "--json");
        json_t *report = json_loads(result.out, 0, NULL);
        json_int_t n = json_integer_value(json_object_get(report, "n_parameters"));
        plain = i == 0 ? n : plain;
        assert_int_equal(n, plain);
        json_decref(report);
        spawn_free(&result);
    }
    /* 2 x 256 x 192 outside the layers; in both: q, k, v, o, three of the FFN, two norms */
    assert_int_equal(plain, 2 * 256 * 192 + 192 +
                                2 * (2 * 192 * 192 + 2 * 64 * 192 + 3 * 320 * 192 + 2 * 192));
}

static void test_inspect_without_a_family(void **state) {
    (void)state;
    char *folder = temp_create();
    size_t n_bytes;
    char *bytes = read_file(LLAMA "/model.safetensors", &n_bytes);
    write_file(path_in(folder, "model.safetensors"), bytes, n_bytes);
    free(bytes);
    static const char config[] = "{\"model_type\": \"pelican\", \"\\u001b[31mred\": {"
                                 "\"a\\u009bb\": [{\"\\u0007\": \"\\u001b]0;title\\u0007\"}]}}";
    write_file(path_in(folder, "config.json"), config, strlen(config));
    spawn_result result = LINNET("inspect", folder);
    assert_int_equal(result.status, 0);
    for (const char *c = result.out; *c != '\0'; c++) /* keys, too, leave the terminal alone */
        assert_true(*c == '\n' || ((unsigned char)*c >= 0x20 && *c != 0x7f));
    assert_non_null(strstr(result.out, "\\x1b[31mred"));
    assert_null(strstr(result.out, "\xc2\x9b"));
    assert_non_null(strstr(result.out, "unsupported"));
    assert_non_null(strstr(result.out, "pelican"));
    spawn_free(&result);
    temp_remove(folder);
}

/* A GGUF file of keys that are text. */
static void write_keys(const char *path, const char *const (*keys)[2], size_t n_keys) {
    FILE *file = fopen(path, "wbe");
    assert_non_null(file);
    const uint32_t version = 3, string = 8;
    const uint64_t counts[] = {0, n_keys}; /* no tensors */
    fwrite("GGUF", 1, 4, file);
    fwrite(&version, sizeof version, 1, file);
    fwrite(counts, sizeof counts, 1, file);
    for (size_t i = 0; i < n_keys; i++) {
        const uint64_t length = strlen(keys[i][0]), n_bytes = strlen(keys[i][1]);
        fwrite(&length, sizeof length, 1, file);
        fputs(keys[i][0], file);
        fwrite(&string, sizeof string, 1, file);
        fwrite(&n_bytes, sizeof n_bytes, 1, file);
        fputs(keys[i][1], file);
    }
    assert_int_equal(fclose(file), 0);
}

/* What belongs to a model is shown, and does not run. */
static void files_that_are_no_model(void **state) {
    (void)state;
    static const char *const keys[][2] = {{"general.architecture", "llama"},
                                          {"general.type", "adapter"}};
    static const char *const why[] = {
        "is no model: it has no tensors",
        "is no model: its general.type is \"adapter\", which --lora "};
    char *folder = temp_create();
    char path[256];
    snprintf(path, sizeof path, "%s", path_in(folder, "part.gguf"));
    for (size_t i = 0; i < 2; i++) {
        write_keys(path, keys, i + 1);
        spawn_result shown = LINNET("inspect", path), run = LINNET("run", path, "-p", "x");
        assert_int_equal(shown.status, 0);
        assert_non_null(strstr(shown.out, why[i]));
        assert_non_null(strstr(shown.out, "general.architecture"));
        assert_int_equal(run.status, 1);
        assert_non_null(strstr(run.err, why[i]));
        spawn_free(&shown);
        spawn_free(&run);
    }
    temp_remove(folder);
}

/* ---- tokenize, detokenize --------------------------------------------------------------- */

/* The program's JSON array equals `ids`. */
static void assert_ids(spawn_result result, const json_t *ids) {
    if (result.status != 0)
        fail_msg("exit status %d: %s", result.status, result.err);
    json_t *actual = json_loads(result.out, 0, NULL);
    assert_non_null(actual);
    if (!json_equal(actual, ids))
        fail_msg("ids differ: %s", result.out);
    json_decref(actual);
    spawn_free(&result);
}

static void check_case(const json_t *item, const char *file) {
    const json_t *text_value = json_object_get(item, "text");
    const char *text = json_string_value(text_value);
    size_t n_bytes = json_string_length(text_value);
    const json_t *ids = json_object_get(item, "ids");
    const json_t *ids_special = json_object_get(item, "ids_special");
    write_file(file, text, n_bytes);
    if (strlen(text) == n_bytes) /* no NUL, which an argument cannot hold */
        assert_ids(LINNET("tokenize", TOKENIZER, "--text", text), ids_special);
    if (strlen(text) == n_bytes && *text != '-') /* which begins an option */
        assert_ids(LINNET("tokenize", TOKENIZER, text), ids_special);
    assert_ids(LINNET("tokenize", TOKENIZER, "--file", file, "--no-special"), ids);
    char *list = calloc(json_array_size(ids) + 1, 12);
    for (size_t i = 0; i < json_array_size(ids); i++)
        sprintf(list + strlen(list), "%s%lld", i == 0 ? "" : ",",
                (long long)json_integer_value(json_array_get(ids, i)));
    spawn_result decoded = LINNET("detokenize", TOKENIZER, "--ids", list, "--keep-special");
    const json_t *expected = json_object_get(item, "decoded");
    assert_int_equal(decoded.status, 0);
    assert_int_equal(decoded.out_bytes, json_string_length(expected));
    assert_memory_equal(decoded.out, json_string_value(expected), decoded.out_bytes);
    spawn_free(&decoded);
    free(list);
}

static void test_tokenize_and_back(void **state) {
    (void)state;
    char *folder = temp_create();
    char *file = strdup(path_in(folder, "text"));
    json_t *cases = json_load_file(TOKENIZER "/cases.json", JSON_ALLOW_NUL, NULL);
    assert_non_null(cases);
    for (size_t i = 0; i < json_array_size(cases); i += 6)
        check_case(json_array_get(cases, i), file);
    json_decref(cases);
    free(file);
    temp_remove(folder);
}

static void test_tokenizer_failures(void **state) {
    (void)state;
    assert_result(LINNET("tokenize", LLAMA, "--text", "a"), 1, "", "linnet: ");
    assert_result(LINNET("tokenize", TOKENIZER, "--file", "/nowhere"), 1, "",
                  "linnet: cannot open /nowhere");
    assert_result(LINNET("detokenize", TOKENIZER, "--ids", "5,99999999"), 2, "", "99999999");
}

/* ---- template --------------------------------------------------------------------------- */

static void test_tokenize_stdin(void **state) {
    (void)state;
    spawn_options typed = {.input = "Hello world"};
    spawn_result given = LINNET("tokenize", DEMO, "--text", "Hello world");
    assert_result(LINNET_WITH(&typed, "tokenize", DEMO), 0, given.out, "");
    assert_true(given.out_bytes > 4);
    spawn_free(&given);
}

/* A text without an option, by -p, and before a model that an option names. */
static void test_forms_of_texts(void **state) {
    (void)state;
    static const char *const commands[] = {"tokenize", "embed"};
    for (size_t i = 0; i < 2; i++) {
        spawn_result given = LINNET(commands[i], DEMO, "--text=Hello world");
        assert_true(given.out_bytes > 4);
        assert_result(LINNET(commands[i], DEMO, "Hello world"), 0, given.out, "");
        assert_result(LINNET(commands[i], DEMO, "-p", "Hello world"), 0, given.out, "");
        assert_result(LINNET(commands[i], "Hello world", "-m", DEMO), 0, given.out, "");
        spawn_free(&given);
    }
}

static void test_template(void **state) {
    (void)state;
    char *folder = temp_create();
    char *source = strdup(path_in(folder, "chat.jinja"));
    char *context = strdup(path_in(folder, "context.json"));
    static const char text[] = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
                               "{{ strftime_now('%d %b %Y %H:%M:%S') }}";
    write_file(source, text, strlen(text));
    static const char messages[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}";
    write_file(context, messages, strlen(messages));
    assert_result(LINNET("template", source, "--context", context, "--now", "2026-11-20T09:30:05"),
                  0, "[user] Hi\n20 Nov 2026 09:30:05", "");
    write_file(context, "[1]", 3);
    assert_result(LINNET("template", source, "--context", context), 1, "", "context.json");
    write_file(context, "{\"a\": 1,\n oops", 14);
    assert_result(LINNET("template", source, "--context", context), 1, "", "line 2");
    write_file(context, "{}", 2);
    write_file(source, "a\n{% for %}", 11);
    assert_result(LINNET("template", source, "--context", context), 1, "", "chat.jinja");
    write_file(source, "{{ raise_exception('not so') }}", 31);
    assert_result(LINNET("template", source, "--context", context), 1, "", "not so");
    assert_result(LINNET("template", LLAMA, "--context", context), 1, "", "linnet: " LLAMA);
    free(source);
    free(context);
    temp_remove(folder);
}

static void test_template_of_a_model(void **state) {
    (void)state;
    char *folder = temp_create();
    const char *context = path_in(folder, "context.json");
    static const char messages[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi there\"}],"
        "\"add_generation_prompt\": true}";
    write_file(context, messages, strlen(messages));
    spawn_result result = LINNET("template", DEMO, "--context", context);
    assert_int_equal(result.status, 0);
    assert_non_null(strstr(result.out, "Hi there"));
    spawn_free(&result);
    /* a model's special tokens, unless the context has its own; a file has none */
    static const char source[] = "{{ bos_token }} {{ eos_token }}",
                      other[] = "{\"eos_token\": \"E\"}";
    write_file(context, other, strlen(other));
    write_file(path_in(folder, "config.json"), "{}", 2);
    write_file(path_in(folder, "chat_template.jinja"), source, strlen(source));
    assert_result(LINNET("template", path_in(folder, "chat_template.jinja"), "--context", context),
                  0, " E", "");
    size_t n_bytes;
    char *tokenizer = read_file(TOKENIZER "/tokenizer.json", &n_bytes);
    write_file(path_in(folder, "tokenizer.json"), tokenizer, n_bytes);
    free(tokenizer);
    static const char config[] = "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</s>\"}";
    write_file(path_in(folder, "tokenizer_config.json"), config, strlen(config));
    assert_result(LINNET("template", folder, "--context", context), 0, "<s> E", "");
    temp_remove(folder);
}

/* ---- logits ----------------------------------------------------------------------------- */

static void test_logits(void **state) {
    (void)state;
    json_t *golden = json_load_file(LLAMA "/golden.json", 0, NULL);
    json_t *prompt = json_array_get(json_object_get(golden, "prompts"), 0);
    size_t n_rows = json_array_size(prompt);
    char ids[256] = "";
    for (size_t i = 0; i < n_rows; i++)
        sprintf(ids + strlen(ids), "%s%lld", i == 0 ? "" : ",",
                (long long)json_integer_value(json_array_get(prompt, i)));
    char *folder = temp_create();
    const char *file = path_in(folder, "logits.bin");
    assert_result(LINNET("logits", LLAMA, "--ids", ids, "--out", file, "--precision", "exact"), 0,
                  "", "");

    size_t n_bytes, golden_bytes;
    char *actual = read_file(file, &n_bytes);
    char *expected = read_file(LLAMA "/golden.bin", &golden_bytes);
    assert_int_equal(n_bytes, n_rows * 256 * sizeof(float));
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n_bytes; i += sizeof(float)) {
        float a, b;
        memcpy(&a, actual + i, sizeof a);
        memcpy(&b, expected + i, sizeof b);
        difference += ((double)a - (double)b) * ((double)a - (double)b);
        norm += (double)b * (double)b;
    }
    assert_true(sqrt(difference / norm) <= 1e-5);
    free(actual);
    free(expected);
    json_decref(golden);
    temp_remove(folder);
}

static void test_logits_that_fail_leave_the_file_alone(void **state) {
    (void)state;
    char *folder = temp_create();
    char *file = strdup(path_in(folder, "logits.bin"));
    write_file(file, "old", 3);
    assert_result(LINNET("logits", LLAMA, "--ids", "5,256", "--out", file), 2, "", "256");
    size_t n_bytes;
    char *bytes = read_file(file, &n_bytes);
    assert_string_equal(bytes, "old");
    free(bytes);
    assert_int_equal(remove(file), 0);
    assert_int_equal(remove(folder), 0); /* it held nothing else */
    assert_result(LINNET("logits", LLAMA, "--ids", "5", "--out", file), 1, "", "cannot write");
    free(file);
    free(folder);
}

/* What attention cannot compute is refused in one line before any weight is read. */
static void test_logits_of_impossible_heads(void **state) {
    (void)state;
    static const char key[] = "\"head_dim\": 16";
    static const struct {
        const char *changed, *message;
    } cases[] = {{"\"head_dim\": 0", "key head_dim is 0, outside 1 to"},
                 {"\"head_dim\": 15", "15 rotary dimensions are not even"},
                 {"\"head_dim\": 8192", "attention heads of 8192 dimensions; at most 4096"}};
    char *folder = temp_create(), changed[4096];
    char *config = strdup(path_in(folder, "config.json"));
    char *source = read_file(LLAMA "/config.json", &(size_t){0});
    char *at = strstr(source, key);
    assert_non_null(at);
    assert_int_equal(symlink(LLAMA "/model.safetensors", path_in(folder, "model.safetensors")), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - source), source,
                         cases[i].changed, at + strlen(key));
        write_file(config, changed, (size_t)n);
        spawn_result result =
            LINNET("logits", folder, "--ids", "5", "--out", path_in(folder, "logits.bin"));
        assert_ptr_equal(strchr(result.err, '\n') + 1, strchr(result.err, '\0'));
        assert_result(result, 1, "", cases[i].message);
    }
    free(source);
    free(config);
    temp_remove(folder);
}

/* ---- doctor ----------------------------------------------------------------------------- */

static void test_doctor(void **state) {
    (void)state;
    spawn_result result = LINNET("doctor", "--json");
    assert_int_equal(result.status, 0);
    json_t *report = json_loads(result.out, 0, NULL);
    static const char *const names[] = {"linnet",       "processor", "kernels",   "memory",
                                        "memory speed", "GPU",       "downloads", "cache"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!json_string_value(json_object_get(report, names[i])))
            fail_msg("'%s' lacks %s", result.out, names[i]);
    assert_non_null(strstr(json_string_value(json_object_get(report, "kernels")), "scalar"));
    json_decref(report);
    spawn_free(&result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doctor),
        cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_inspect_head),
        cmocka_unit_test(test_inspect_counts_packed_numbers),
        cmocka_unit_test(test_inspect_json),
        cmocka_unit_test(test_inspect_without_a_family),
        cmocka_unit_test(files_that_are_no_model),
        cmocka_unit_test(test_tokenize_and_back),
        cmocka_unit_test(test_tokenizer_failures),
        cmocka_unit_test(test_tokenize_stdin),
        cmocka_unit_test(test_forms_of_texts),
        cmocka_unit_test(test_template),
        cmocka_unit_test(test_template_of_a_model),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_logits_that_fail_leave_the_file_alone),
        cmocka_unit_test(test_logits_of_impossible_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
