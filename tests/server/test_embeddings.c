/* Vectors, scores and classes over HTTP: of the demo model, and of a cross-encoder against what
 * transformers gives. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/client.h"
#include "test.h"

#define GOLDENS TEST_SOURCE_DIR "/tests/golden/embeddings/"

static int start(void **state) {
    (void)state;
    shared = SERVER("--threads=1", "--served-name=demo");
    return 0;
}

static json_t *ask_json(const test_server *server, const char *path, const char *body) {
    http_response heard = post(server, path, body);
    if (heard.status != 200)
        fail_msg("%s %.200s gives %d %s", path, body, heard.status, heard.body);
    json_t *root = json_loads(heard.body, 0, NULL);
    assert_non_null(root);
    response_free(&heard);
    return root;
}

static double number(const json_t *list, size_t index) {
    return json_number_value(json_array_get(list, index));
}

/* The vector of item `index`; borrowed. */
static json_t *vector(const json_t *root, size_t index) {
    json_t *item = json_array_get(json_object_get(root, "data"), index);
    assert_int_equal(json_integer_value(json_object_get(item, "index")), index);
    json_t *list = json_object_get(item, "embedding");
    assert_true(json_is_array(list));
    return list;
}

static double length(const json_t *list) {
    double square = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        square += number(list, i) * number(list, i);
    return sqrt(square);
}

static void texts_have_the_vectors_that_they_have_alone(void **state) {
    (void)state;
    json_t *both = ask_json(&shared, "/v1/embeddings",
                            "{\"model\":\"demo\",\"input\":[\"Once upon a time\",\"2+3=\"]}");
    json_t *one = ask_json(&shared, "/embeddings", "{\"input\":\"2+3=\"}");
    assert_true(json_equal(vector(both, 1), vector(one, 0)));
    assert_false(json_equal(vector(both, 0), vector(one, 0)));
    assert_true(fabs(length(vector(one, 0)) - 1) < 1e-5);
    const json_t *usage = json_object_get(both, "usage");
    assert_true(json_integer_value(json_object_get(usage, "prompt_tokens")) > 4);
    assert_true(json_equal(json_object_get(usage, "prompt_tokens"),
                           json_object_get(usage, "total_tokens")));
    json_decref(both);
    json_decref(one);
}

static void ids_are_texts_and_dimensions_cut(void **state) {
    (void)state;
    json_t *ids = ask_json(&shared, "/tokenize", "{\"prompt\":\"Hello world\"}");
    char *list = json_dumps(json_object_get(ids, "tokens"), JSON_COMPACT), body[512];
    snprintf(body, sizeof body, "{\"input\":%s}", list);
    json_t *by_ids = ask_json(&shared, "/v1/embeddings", body);
    json_t *by_text = ask_json(&shared, "/v1/embeddings", "{\"input\":\"Hello world\"}");
    json_t *cut =
        ask_json(&shared, "/v1/embeddings", "{\"input\":\"Hello world\",\"dimensions\":8}");
    assert_true(json_equal(vector(by_ids, 0), vector(by_text, 0)));
    assert_int_equal(json_array_size(vector(cut, 0)), 8);
    assert_true(fabs(length(vector(cut, 0)) - 1) < 1e-5);
    double ratio = number(vector(cut, 0), 0) / number(vector(by_text, 0), 0);
    assert_true(fabs(number(vector(cut, 0), 7) / number(vector(by_text, 0), 7) - ratio) < 1e-3);
    free(list);
    json_decref(ids);
    json_decref(by_ids);
    json_decref(by_text);
    json_decref(cut);
}

static int digit(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = strchr(digits, c);
    assert_non_null(at);
    return (int)(at - digits);
}

static void base64_is_the_same_floats(void **state) {
    (void)state;
    json_t *plain = ask_json(&shared, "/v1/embeddings", "{\"input\":\"a\",\"dimensions\":4}");
    json_t *coded = ask_json(&shared, "/v1/embeddings",
                             "{\"input\":\"a\",\"dimensions\":4,\"encoding_format\":\"base64\"}");
    const char *text = json_string_value(
        json_object_get(json_array_get(json_object_get(coded, "data"), 0), "embedding"));
    unsigned char bytes[18];
    assert_int_equal(strlen(text), 24); /* of 16 bytes */
    for (size_t i = 0; i < 24; i += 4) {
        unsigned group = 0;
        for (size_t j = 0; j < 4; j++)
            group = group << 6 | (text[i + j] == '=' ? 0u : (unsigned)digit(text[i + j]));
        for (size_t j = 0; j < 3; j++)
            bytes[i / 4 * 3 + j] = (unsigned char)(group >> (16 - 8 * j));
    }
    float values[4];
    memcpy(values, bytes, sizeof values);
    for (size_t i = 0; i < 4; i++)
        assert_true(values[i] == (float)number(vector(plain, 0), i));
    json_decref(plain);
    json_decref(coded);
}

static void other_apis_say_the_same(void **state) {
    (void)state;
    json_t *openai = ask_json(&shared, "/v1/embeddings", "{\"input\":\"a b c\"}");
    json_t *ollama =
        ask_json(&shared, "/api/embed", "{\"model\":\"demo:latest\",\"input\":[\"a b c\"]}");
    json_t *old = ask_json(&shared, "/api/embeddings", "{\"prompt\":\"a b c\"}");
    json_t *native = ask_json(&shared, "/embedding", "{\"content\":\"a b c\"}");
    json_t *pooled = ask_json(&shared, "/pooling", "{\"input\":\"a b c\"}");
    const json_t *expected = vector(openai, 0);
    assert_true(json_equal(expected, json_array_get(json_object_get(ollama, "embeddings"), 0)));
    assert_true(json_equal(expected, json_object_get(old, "embedding")));
    const json_t *item = json_object_get(json_array_get(native, 0), "embedding");
    assert_true(json_equal(expected, json_array_get(item, 0)));
    item = json_array_get(json_object_get(pooled, "data"), 0);
    assert_true(json_equal(expected, json_object_get(item, "data")));
    json_decref(openai);
    json_decref(ollama);
    json_decref(old);
    json_decref(native);
    json_decref(pooled);
}

static void equal_texts_come_first(void **state) {
    (void)state;
    json_t *root = ask_json(&shared, "/rerank",
                            "{\"query\":\"2+3=\",\"documents\":[\"Once upon a time\",\"2+3=\","
                            "{\"text\":\"Name three birds.\"}],\"top_n\":2}");
    const json_t *results = json_object_get(root, "results");
    assert_int_equal(json_array_size(results), 2);
    const json_t *best = json_array_get(results, 0);
    assert_int_equal(json_integer_value(json_object_get(best, "index")), 1);
    assert_true(fabs(json_number_value(json_object_get(best, "relevance_score")) - 1) < 1e-4);
    const json_t *text = json_object_get(json_object_get(best, "document"), "text");
    assert_string_equal(json_string_value(text), "2+3=");
    json_decref(root);
    root = ask_json(&shared, "/score", "{\"text_1\":[\"a\",\"b\"],\"text_2\":[\"a\",\"c\"]}");
    const json_t *data = json_object_get(root, "data");
    assert_int_equal(json_array_size(data), 2);
    double same = json_number_value(json_object_get(json_array_get(data, 0), "score"));
    double other = json_number_value(json_object_get(json_array_get(data, 1), "score"));
    assert_true(fabs(same - 1) < 1e-4 && other < 0.9999);
    json_decref(root);
}

/* What is wrong with texts that are compared is said of the field that the client sent. */
static void names_wrong_texts(void **state) {
    (void)state;
    static const struct {
        const char *path, *fields, *param, *message;
    } cases[] = {
        {"rerank", "\"query\":\"a\",\"documents\":[\"a\",{\"txt\":\"b\"}]", "documents", "item 1"},
        {"rerank", "\"query\":5,\"documents\":[\"a\"]", "query", "query"},
        {"rerank", "\"query\":\"a\",\"documents\":[\"a\"],\"max_tokens_per_doc\":0",
         "max_tokens_per_doc", "whole number"},
        {"score", "\"queries\":5,\"documents\":[\"a\"]", "queries", "queries"},
        {"score", "\"queries\":[\"a\",5],\"documents\":[\"a\",\"b\"]", "queries", "item 1"},
        {"score", "\"queries\":[\"a\",\"b\"],\"documents\":[\"a\"]", "documents", "paired"},
        {"score", "\"text_1\":[],\"text_2\":[\"a\"]", "text_1", "items"},
        {"score", "\"text_1\":\"a\",\"documents\":[5]", "documents", "item 0"},
        {"score", "\"text_1\":true,\"text_2\":[5]", "text_1", "text_1"},
        {"embeddings", "\"input\":\"a\",\"truncate_prompt_tokens\":0", "truncate_prompt_tokens",
         "no tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[32], body[256];
        snprintf(path, sizeof path, "/v1/%s", cases[i].path);
        snprintf(body, sizeof body, "{%s}", cases[i].fields);
        http_response heard = post(&shared, path, body);
        const char *param = response_field(&heard, "param");
        if (heard.status != 400 || !param || strcmp(param, cases[i].param) != 0 ||
            strstr(heard.body, cases[i].message) == NULL)
            fail_msg("%s: %d, %s", body, heard.status, heard.body);
        response_free(&heard);
    }
    /* a query that is too long, not a document */
    size_t n_bytes = 20000;
    char *body = malloc(n_bytes + 64);
    int n = snprintf(body, 64, "{\"documents\":[\"a\"],\"query\":\"");
    memset(body + n, 'q', n_bytes);
    strcpy(body + n + n_bytes, "\"}");
    http_response heard = post(&shared, "/v1/rerank", body);
    assert_int_equal(heard.status, 400);
    assert_string_equal(response_field(&heard, "param"), "query");
    response_free(&heard);
    free(body);
    /* a document of which the first tokens count */
    json_t *root = ask_json(&shared, "/rerank",
                            "{\"query\":\"Once\",\"documents\":[\"Once upon a time\"],"
                            "\"max_tokens_per_doc\":1}");
    const json_t *best = json_array_get(json_object_get(root, "results"), 0);
    assert_true(fabs(json_number_value(json_object_get(best, "relevance_score")) - 1) < 1e-4);
    json_decref(root);
}

/* The pairs of a golden, as a body with these names for the query and the documents. */
static char *body_of(const json_t *pairs, const char *query, const char *documents) {
    json_t *body = json_pack("{sOsOsO}", query, json_object_get(pairs, "query"), documents,
                             json_object_get(pairs, "documents"), "truncate_prompt_tokens",
                             json_object_get(pairs, "tokens"));
    assert_non_null(body);
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    return text;
}

/* A golden's scores of pairs, and their order; the server runs on. */
static void check_scores(const test_server *server, const char *golden) {
    json_t *pairs = json_load_file(golden, 0, NULL);
    assert_non_null(pairs);
    const json_t *logits = json_object_get(pairs, "logits");
    char *body = body_of(pairs, "text_1", "text_2");
    json_t *root = ask_json(server, "/v1/score", body);
    const json_t *data = json_object_get(root, "data");
    assert_int_equal(json_array_size(data), json_array_size(logits));
    for (size_t i = 0; i < json_array_size(logits); i++) {
        double expected = 1 / (1 + exp(-number(json_array_get(logits, i), 0)));
        double got = json_number_value(json_object_get(json_array_get(data, i), "score"));
        assert_true(fabs(got - expected) < 1e-5);
    }
    json_decref(root);
    free(body);
    body = body_of(pairs, "query", "documents");
    root = ask_json(server, "/v1/rerank", body);
    const json_t *results = json_object_get(root, "results");
    assert_int_equal(json_array_size(results), json_array_size(logits));
    for (size_t i = 0; i + 1 < json_array_size(results); i++) {
        const json_t *here = json_object_get(json_array_get(results, i), "index");
        const json_t *next = json_object_get(json_array_get(results, i + 1), "index");
        assert_true(number(json_array_get(logits, (size_t)json_integer_value(here)), 0) >
                    number(json_array_get(logits, (size_t)json_integer_value(next)), 0));
    }
    json_decref(root);
    json_decref(pairs);
    free(body);
}

static void cross_encoders_score_pairs(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--precision=exact", GOLDENS "xlm_roberta_classes");
    check_scores(&server, GOLDENS "xlm_roberta_classes/pairs.json");
    http_response heard = post(&server, "/v1/completions", "{\"prompt\":[5]}");
    assert_int_equal(heard.status, 400); /* it generates nothing */
    response_free(&heard);
    server_stop(&server);
}

/* Those that score by the tokens of yes and no; they generate, too. */
static void language_models_score_pairs(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--precision=exact", GOLDENS "qwen3_reranker");
    check_scores(&server, GOLDENS "qwen3_reranker/pairs.json");
    http_response heard =
        post(&server, "/v1/completions", "{\"prompt\":[5],\"max_tokens\":2,\"ignore_eos\":true}");
    assert_int_equal(heard.status, 200);
    response_free(&heard);
    server_stop(&server);
}

static void classifiers_give_probabilities(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", GOLDENS "bert_classes");
    json_t *root = ask_json(&server, "/classify", "{\"input\":[\"the baking\",\"of bread\"]}");
    const json_t *data = json_object_get(root, "data");
    assert_int_equal(json_array_size(data), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *item = json_array_get(data, i), *probs = json_object_get(item, "probs");
        char label[32];
        size_t best = 0;
        assert_int_equal(json_array_size(probs), 3);
        for (size_t j = 1; j < 3; j++)
            best = number(probs, j) > number(probs, best) ? j : best;
        snprintf(label, sizeof label, "LABEL_%zu", best);
        assert_string_equal(json_string_value(json_object_get(item, "label")), label);
        assert_true(fabs(number(probs, 0) + number(probs, 1) + number(probs, 2) - 1) < 1e-6);
    }
    json_decref(root);
    http_response heard = post(&server, "/v1/rerank", "{\"query\":\"a\",\"documents\":[\"b\"]}");
    assert_int_equal(heard.status, 400); /* three labels are no score */
    response_free(&heard);
    server_stop(&server);
}

/* A folder of sentence-transformers with the weights of a golden, and with prompts. */
static void fill_folder(char *folder, bool fill) {
    static const char *const links[] = {"config.json", "model.safetensors", "tokenizer.json"};
    static const char *const files[][2] = {
        {"modules.json", "[]"},
        {"config_sentence_transformers.json",
         "{\"prompts\":{\"query\":\"what is \",\"document\":\"\"}}"}};
    char path[160], target[512];
    if (fill)
        assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, links[i]);
        snprintf(target, sizeof target, GOLDENS "bert_classes/%s", links[i]);
        assert_int_equal(fill ? symlink(target, path) : unlink(path), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
        FILE *file = fill ? fopen(path, "wb") : NULL;
        if (file != NULL) {
            fputs(files[i][1], file);
            fclose(file);
        } else {
            assert_int_equal(unlink(path), 0);
        }
    }
    if (!fill)
        assert_int_equal(rmdir(folder), 0);
}

static void a_prompt_stands_before_texts(void **state) {
    (void)state;
    char folder[] = "/tmp/linnet-prompts-XXXXXX";
    fill_folder(folder, true);
    test_server server = SERVER("--threads=1", "--precision=exact", folder);
    json_t *named = ask_json(&server, "/v1/embeddings",
                             "{\"input\":[\"the baking\",\"of\"],\"prompt_name\":\"query\"}");
    json_t *plain = ask_json(&server, "/v1/embeddings",
                             "{\"input\":[\"what is the baking\",\"what is of\",\"the baking\"]}");
    for (size_t i = 0; i < 2; i++)
        assert_true(json_equal(vector(named, i), vector(plain, i)));
    assert_false(json_equal(vector(named, 0), vector(plain, 2)));
    json_decref(named);
    json_decref(plain);
    http_response heard =
        post(&server, "/v1/embeddings", "{\"input\":\"a\",\"prompt_name\":\"title\"}");
    assert_int_equal(heard.status, 400);
    assert_non_null(strstr(heard.body, "query, document"));
    response_free(&heard);
    server_stop(&server);
    fill_folder(folder, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_the_vectors_that_they_have_alone),
        cmocka_unit_test(ids_are_texts_and_dimensions_cut),
        cmocka_unit_test(base64_is_the_same_floats),
        cmocka_unit_test(other_apis_say_the_same),
        cmocka_unit_test(equal_texts_come_first),
        cmocka_unit_test(names_wrong_texts),
        cmocka_unit_test(cross_encoders_score_pairs),
        cmocka_unit_test(language_models_score_pairs),
        cmocka_unit_test(classifiers_give_probabilities),
        cmocka_unit_test(a_prompt_stands_before_texts),
    };
    return cmocka_run_group_tests(tests, start, shared_stop);
}
