/* Ollama's API over the demo model. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/client.h"
#include "test.h"

#define SUM   "{\"role\":\"user\",\"content\":\"2+3=\"}"
#define EXACT "\"options\":{\"temperature\":0}"

static http_response post_fields(const char *path, const char *fields) {
    char body[2048];
    snprintf(body, sizeof body, "{\"model\":\"demo:latest\",%s}", fields);
    http_response heard = post(&shared, path, body);
    if (heard.status != 200)
        fail_msg("%s gives %d %s", fields, heard.status, heard.body);
    return heard;
}

static json_t *ask_whole(const char *path, const char *fields) {
    char whole[1900];
    snprintf(whole, sizeof whole, "\"stream\":false,%s", fields);
    http_response heard = post_fields(path, whole);
    json_t *root = json_loads(heard.body, 0, NULL);
    assert_non_null(root);
    response_free(&heard);
    return root;
}

/* The lines of a stream; all but the last are not done. */
static json_t *ask_lines(const char *path, const char *fields) {
    http_response heard = post_fields(path, fields);
    json_t *lines = json_array();
    assert_string_equal(response_header(&heard, "content-type"), "application/x-ndjson");
    for (char *line = strtok(heard.body, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *value = json_loads(line, 0, NULL);
        assert_non_null(value);
        json_array_append_new(lines, value);
    }
    size_t n_lines = json_array_size(lines);
    for (size_t i = 0; i < n_lines; i++)
        assert_int_equal(json_is_true(json_object_get(json_array_get(lines, i), "done")),
                         i + 1 == n_lines);
    response_free(&heard);
    return lines;
}

static const char *text_of(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

static long long count_of(const json_t *object, const char *name) {
    return json_integer_value(json_object_get(object, name));
}

static void chats(void **state) {
    (void)state;
    json_t *root = ask_whole("/api/chat", "\"messages\":[" SUM "]," EXACT);
    assert_string_equal(text_of(json_object_get(root, "message"), "content"), "5");
    assert_string_equal(text_of(root, "done_reason"), "stop");
    assert_true(json_is_true(json_object_get(root, "done")));
    assert_int_equal(count_of(root, "eval_count"), 1);
    assert_true(count_of(root, "prompt_eval_count") > 3 && count_of(root, "total_duration") > 0);
    json_decref(root);
    json_t *lines = ask_lines("/api/chat", "\"messages\":[" SUM "]," EXACT);
    assert_int_equal(json_array_size(lines), 2);
    json_t *first = json_object_get(json_array_get(lines, 0), "message");
    assert_string_equal(text_of(first, "content"), "5");
    json_decref(lines);
    root = ask_whole("/api/chat", "\"messages\":[]");
    assert_string_equal(text_of(root, "done_reason"), "load");
    json_decref(root);
    wait_for_metric(&shared, "num_requests_open", NULL, 0);
}

/* The same text in pieces and whole, and the options that bound it. */
static void generates(void **state) {
    (void)state;
    static const char fields[] =
        "\"prompt\":\"Once upon\",\"raw\":true,\"logprobs\":false,\"options\":{\"seed\":3,"
        "\"temperature\":0.5,\"num_predict\":12,\"repeat_penalty\":1.1}";
    json_t *root = ask_whole("/api/generate", fields);
    assert_string_equal(text_of(root, "done_reason"), "length");
    assert_int_equal(count_of(root, "eval_count"), 12);
    json_t *lines = ask_lines("/api/generate", fields), *line;
    char joined[1024] = "";
    size_t index;
    json_array_foreach(lines, index, line) {
        strcat(joined, text_of(line, "response"));
    }
    assert_string_equal(joined, text_of(root, "response"));
    assert_true(strlen(joined) > 20);
    json_decref(lines);
    json_decref(root);
    root = ask_whole("/api/generate", "\"prompt\":\"2+3=\",\"system\":\"Be brief\"," EXACT);
    assert_string_equal(text_of(root, "response"), "5");
    json_decref(root);
    root = ask_whole("/api/generate", "\"prompt\":\"Once\",\"raw\":true,\"options\":{"
                                      "\"temperature\":0,\"num_predict\":-1,\"stop\":[\".\"]}");
    assert_string_equal(text_of(root, "done_reason"), "stop");
    assert_null(strchr(text_of(root, "response"), '.'));
    json_decref(root);
}

/* Calls have no ids, and go to the template with the results that follow them. */
static void takes_calls_back(void **state) {
    (void)state;
    json_t *root =
        ask_whole("/api/chat",
                  "\"messages\":[" SUM ",{\"role\":\"assistant\",\"content\":\"\","
                  "\"tool_calls\":[{\"function\":{\"name\":\"get\",\"arguments\":{\"a\":1}}}]},"
                  "{\"role\":\"tool\",\"content\":\"wet\",\"tool_name\":\"get\"}," SUM "]," EXACT);
    assert_string_equal(text_of(json_object_get(root, "message"), "content"), "5");
    json_decref(root);
}

static void holds_formats(void **state) {
    (void)state;
    static const char *const formats[] = {"\"json\"", "{\"type\":\"object\",\"properties\":{}}"};
    for (size_t i = 0; i < 2; i++) {
        char fields[512];
        snprintf(fields, sizeof fields,
                 "\"messages\":[{\"role\":\"user\",\"content\":\"A person as JSON\"}],"
                 "\"format\":%s," EXACT,
                 formats[i]);
        json_t *root = ask_whole("/api/chat", fields);
        json_t *value = json_loads(text_of(json_object_get(root, "message"), "content"), 0, NULL);
        assert_true(json_is_object(value));
        json_decref(value);
        json_decref(root);
    }
}

static void tells_its_model(void **state) {
    (void)state;
    static const char *const lists[] = {"/api/tags", "/api/ps"};
    for (size_t i = 0; i < 2; i++) {
        http_response heard = get(&shared, lists[i]);
        assert_int_equal(heard.status, 200);
        assert_string_equal(response_field(&heard, "name"), "demo");
        assert_true(atol(response_field(&heard, "size")) > 1000000);
        assert_string_equal(response_field(&heard, "format"), "gguf");
        assert_string_equal(response_field(&heard, "quantization_level"), "Q8_0");
        response_free(&heard);
    }
    http_response heard = post(&shared, "/api/show", "{\"model\":\"demo\"}");
    assert_int_equal(heard.status, 200);
    assert_non_null(strstr(heard.body, "\"general.architecture\":\"llama\""));
    assert_non_null(strstr(heard.body, "<|im_start|>"));
    response_free(&heard);
    heard = get(&shared, "/version");
    char version[64];
    snprintf(version, sizeof version, "%s", response_field(&heard, "version"));
    response_free(&heard);
    heard = get(&shared, "/api/version");
    assert_string_equal(response_field(&heard, "linnet"), version);
    response_free(&heard);
}

static void expect_error(http_response heard, int status, const char *part) {
    json_t *root = json_loads(heard.body, 0, NULL);
    if (heard.status != status || !text_of(root, "error") || !strstr(text_of(root, "error"), part))
        fail_msg("%d %s", heard.status, heard.body);
    json_decref(root);
    response_free(&heard);
}

static void errors_have_its_shape(void **state) {
    (void)state;
    expect_error(post(&shared, "/api/chat", "{\"model\":\"other\",\"messages\":[" SUM "]}"), 404,
                 "other");
    expect_error(post(&shared, "/api/show", "{\"model\":\"other\"}"), 404, "demo");
    expect_error(post(&shared, "/api/embed", "{\"model\":\"demo\",\"input\":1}"), 400, "input");
    expect_error(post(&shared, "/api/embed", "{\"input\":\"a\",\"options\":[]}"), 400, "options");
    expect_error(post(&shared, "/api/embeddings", "{}"), 400, "prompt");
    expect_error(get(&shared, "/api/chat"), 405, "GET");
    expect_error(post(&shared, "/api/pull", "{\"model\":\"demo\"}"), 404, "/api/pull");
    expect_error(
        post(&shared, "/api/generate", "{\"prompt\":\"a\",\"raw\":true,\"logprobs\":true}"), 400,
        "logprobs");
    expect_error(post(&shared, "/api/chat",
                      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\","
                      "\"images\":[\"AAAA\"]}]}"),
                 400, "images");
}

/* A line or more: each token has its logprobs once. */
static void tells_logprobs(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "{\"prompt\":\"2+3=\",\"logprobs\":true,\"top_logprobs\":2,\"stream\":false}",
        "{\"prompt\":\"2+3=\",\"logprobs\":true,\"top_logprobs\":2}",
        "{\"messages\":[" SUM "],\"logprobs\":true}", "{\"messages\":[" SUM "]}"};
    static const size_t n_top[] = {2, 2, 0, 0};
    for (size_t i = 0; i < 4; i++) {
        http_response heard = post(&shared, i < 2 ? "/api/generate" : "/api/chat", bodies[i]);
        assert_int_equal(heard.status, 200);
        size_t n_logprobs = 0;
        json_int_t n_tokens = 0;
        for (char *line = strtok(heard.body, "\n"); line; line = strtok(NULL, "\n")) {
            json_t *root = json_loads(line, 0, NULL), *item;
            size_t k;
            assert_non_null(root);
            json_array_foreach(json_object_get(root, "logprobs"), k, item) {
                assert_true(json_is_string(json_object_get(item, "token")));
                assert_true(json_number_value(json_object_get(item, "logprob")) <= 0);
                assert_int_equal(json_array_size(json_object_get(item, "top_logprobs")), n_top[i]);
            }
            n_logprobs += json_array_size(json_object_get(root, "logprobs"));
            n_tokens += json_integer_value(json_object_get(root, "eval_count"));
            json_decref(root);
        }
        assert_true(n_tokens > 0);
        assert_int_equal(n_logprobs, i < 3 ? n_tokens : 0);
        response_free(&heard);
    }
}

/* What clients that tokenise by the server ask it: as vLLM answers. */
static void tells_its_tokenizer(void **state) {
    (void)state;
    http_response heard = get(&shared, "/tokenizer_info");
    assert_int_equal(heard.status, 200);
    assert_string_equal(response_field(&heard, "eos_token"), "<|im_end|>");
    assert_string_equal(response_field(&heard, "bos_token"), "<|endoftext|>");
    assert_non_null(strstr(heard.body, "<|im_start|>"));
    response_free(&heard);
    heard = post(&shared, "/tokenize", "{\"messages\":[" SUM "],\"add_generation_prompt\":true}");
    http_response chatted =
        post(&shared, "/v1/chat/completions", "{\"max_tokens\":1,\"messages\":[" SUM "]}");
    int n_tokens = atoi(response_field(&heard, "count"));
    assert_int_equal(n_tokens, atoi(response_field(&chatted, "prompt_tokens")));
    response_free(&heard);
    heard = post(&shared, "/tokenize", "{\"messages\":[" SUM "],\"add_generation_prompt\":false}");
    assert_true(atoi(response_field(&heard, "count")) < n_tokens);
    response_free(&heard);
    response_free(&chatted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chats),
        cmocka_unit_test(generates),
        cmocka_unit_test(takes_calls_back),
        cmocka_unit_test(holds_formats),
        cmocka_unit_test(tells_its_model),
        cmocka_unit_test(errors_have_its_shape),
        cmocka_unit_test(tells_its_tokenizer),
        cmocka_unit_test(tells_logprobs),
    };
    return cmocka_run_group_tests(tests, shared_start, shared_stop);
}
