/* Anthropic's Messages API over the demo model. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/events.h"
#include "test.h"

#define SUM "{\"role\":\"user\",\"content\":\"2+3=\"}"
#define TOOLS                                                                                      \
    "\"tools\":[{\"name\":\"get\",\"description\":\"d\",\"input_schema\":{\"type\":\"object\","    \
    "\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":8}},\"required\":[\"city\"]}}]"

static http_response post_fields(const test_server *server, const char *path, const char *fields) {
    char body[4096];
    snprintf(body, sizeof body, "{\"model\":\"demo\",%s\"temperature\":0,%s}",
             strstr(fields, "max_tokens") ? "" : "\"max_tokens\":60,", fields);
    http_response heard = post(server, path, body);
    if (heard.status != 200)
        fail_msg("%s gives %d %s", fields, heard.status, heard.body);
    return heard;
}

/* The message that these fields give. */
static json_t *ask_message(const test_server *server, const char *fields) {
    http_response heard = post_fields(server, "/v1/messages", fields);
    assert_string_equal(response_header(&heard, "request-id"),
                        response_header(&heard, "x-request-id"));
    json_t *message = json_loads(heard.body, 0, NULL);
    assert_non_null(message);
    response_free(&heard);
    return message;
}

static json_t *stream_message(const test_server *server, const char *fields) {
    char streamed[4200];
    snprintf(streamed, sizeof streamed, "\"stream\":true,%s", fields);
    http_response heard = post_fields(server, "/v1/messages", streamed);
    assert_string_equal(response_header(&heard, "content-type"), "text/event-stream");
    json_t *events = events_read(&heard);
    response_free(&heard);
    return events;
}

static const char *text_of(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

static json_t *block_of(const json_t *message, size_t index) {
    return json_array_get(json_object_get(message, "content"), index);
}

static long long count_of(const json_t *message, const char *name) {
    return json_integer_value(json_object_get(json_object_get(message, "usage"), name));
}

static void answers(void **state) {
    (void)state;
    json_t *message = ask_message(&shared, "\"messages\":[" SUM "]");
    assert_string_equal(text_of(message, "type"), "message");
    assert_string_equal(text_of(message, "role"), "assistant");
    assert_string_equal(text_of(message, "model"), "demo");
    assert_string_equal(text_of(message, "stop_reason"), "end_turn");
    assert_true(json_is_null(json_object_get(message, "stop_sequence")));
    assert_int_equal(json_array_size(json_object_get(message, "content")), 1);
    assert_string_equal(text_of(block_of(message, 0), "type"), "text");
    assert_string_equal(text_of(block_of(message, 0), "text"), "5");
    assert_int_equal(count_of(message, "output_tokens"), 1);
    json_decref(message);
    /* the same by other paths */
    static const char *const paths[] = {"/messages", "/v1/messages/", "/messages/"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        http_response heard = post_fields(&shared, paths[i], "\"messages\":[" SUM "]");
        assert_non_null(strstr(heard.body, "\"text\":\"5\""));
        response_free(&heard);
    }
}

/* Blocks of all kinds reach the template: the prompt is that of the same chat completion. */
static void takes_blocks(void **state) {
    (void)state;
    static const char messages[] =
        "\"max_tokens\":1,\"system\":[{\"type\":\"text\",\"text\":\"Be\",\"cache_control\":"
        "{\"type\":\"ephemeral\"}},{\"type\":\"text\",\"text\":\"brief\"}],\"messages\":[{\"role\":"
        "\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Sum?\"}]},{\"role\":\"assistant\","
        "\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"},{\"type\":"
        "\"text\",\"text\":\"I look.\"},{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"get\","
        "\"input\":{\"city\":\"Rome\"}}]},{\"role\":\"user\",\"content\":[{\"type\":"
        "\"tool_result\",\"tool_use_id\":\"a\",\"content\":[{\"type\":\"text\",\"text\":\"wet\"}]},"
        "{\"type\":\"text\",\"text\":\"2+3=\"}]}]";
    static const char chat[] =
        "{\"max_tokens\":1,\"messages\":[{\"role\":\"system\",\"content\":\"Be\\nbrief\"},{"
        "\"role\":"
        "\"user\",\"content\":\"Sum?\"},{\"role\":\"assistant\",\"content\":\"I look.\","
        "\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\","
        "\"function\":{\"name\":\"get\",\"arguments\":{\"city\":\"Rome\"}}}]},{\"role\":\"tool\","
        "\"tool_call_id\":\"a\",\"content\":\"wet\"},{\"role\":\"user\",\"content\":\"2+3=\"}]}";
    char body[2048];
    http_response chatted = post(&shared, "/v1/chat/completions", chat);
    assert_int_equal(chatted.status, 200);
    snprintf(body, sizeof body, "{\"model\":\"demo\",%s}", messages);
    http_response counted = post(&shared, "/v1/messages/count_tokens", body);
    assert_int_equal(counted.status, 200);
    int n_tokens = atoi(response_field(&counted, "input_tokens"));
    assert_int_equal(n_tokens, atoi(response_field(&chatted, "prompt_tokens")));
    snprintf(body, sizeof body, "{\"model\":\"demo\",\"temperature\":0,%s}", messages);
    http_response heard = post(&shared, "/v1/messages", body);
    json_t *message = json_loads(heard.body, 0, NULL);
    assert_int_equal(
        count_of(message, "input_tokens") + count_of(message, "cache_read_input_tokens"), n_tokens);
    assert_string_equal(text_of(message, "stop_reason"), "max_tokens");
    json_decref(message);
    response_free(&heard);
    response_free(&counted);
    response_free(&chatted);
}

/* An answer that the assistant's message begins goes on with its next word. */
static void continues_answers(void **state) {
    (void)state;
    static const char begun[] = "\"stop_sequences\":[\".\",\"zebra\"],\"messages\":[{\"role\":"
                                "\"user\",\"content\":\"Tell me a story\"},{\"role\":\"assistant\","
                                "\"content\":\"Once upon\"}]";
    json_t *message = ask_message(&shared, begun);
    const char *text = text_of(block_of(message, 0), "text");
    assert_true(strncmp(text, " a time", 7) == 0);
    assert_null(strchr(text, '.'));
    assert_string_equal(text_of(message, "stop_reason"), "stop_sequence");
    assert_string_equal(text_of(message, "stop_sequence"), ".");
    char whole[1024];
    snprintf(whole, sizeof whole, "Once upon%s", text);
    http_response heard =
        post(&shared, "/v1/chat/completions",
             "{\"temperature\":0,\"stop\":\".\",\"continue_final_message\":true,\"echo\":true,"
             "\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story\"},{\"role\":"
             "\"assistant\",\"content\":\"Once upon\"}]}");
    assert_int_equal(heard.status, 200);
    assert_string_equal(response_field(&heard, "content"), whole);
    response_free(&heard);
    json_decref(message);
}

static void calls_tools(void **state) {
    (void)state;
    static const char *const choices[] = {"{\"type\":\"any\",\"disable_parallel_tool_use\":true}",
                                          "{\"type\":\"tool\",\"name\":\"get\"}"};
    char fields[1024];
    for (size_t i = 0; i < 2; i++) {
        snprintf(fields, sizeof fields, "\"messages\":[" SUM "],\"tool_choice\":%s," TOOLS,
                 choices[i]);
        json_t *message = ask_message(&shared, fields), *block = block_of(message, 0);
        assert_int_equal(json_array_size(json_object_get(message, "content")), 1);
        assert_string_equal(text_of(message, "stop_reason"), "tool_use");
        assert_string_equal(text_of(block, "type"), "tool_use");
        assert_string_equal(text_of(block, "name"), "get");
        assert_true(strncmp(text_of(block, "id"), "toolu_", 6) == 0);
        assert_non_null(text_of(json_object_get(block, "input"), "city"));
        json_t *events = stream_message(&shared, fields);
        char *types = events_types(events);
        assert_string_equal(types, "message_start content_block_start content_block_delta "
                                   "content_block_stop message_delta message_stop ");
        char *json = events_join(events, "content_block_delta", "delta", "partial_json");
        json_t *input = json_loads(json, 0, NULL);
        assert_true(json_equal(input, json_object_get(block, "input")));
        json_decref(input);
        free(json);
        free(types);
        json_decref(events);
        json_decref(message);
    }
    /* arguments that are cut are none */
    json_t *message = ask_message(&shared, "\"max_tokens\":14,\"messages\":[" SUM
                                           "],\"tool_choice\":{\"type\":\"any\"}," TOOLS);
    assert_string_equal(text_of(message, "stop_reason"), "max_tokens");
    for (size_t i = 0; i < json_array_size(json_object_get(message, "content")); i++)
        if (strcmp(text_of(block_of(message, i), "type"), "tool_use") == 0)
            assert_true(json_is_object(json_object_get(block_of(message, i), "input")));
    json_decref(message);
}

static void streams(void **state) {
    (void)state;
    static const char fields[] =
        "\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story\"}]";
    json_t *message = ask_message(&shared, fields), *events = stream_message(&shared, fields);
    char *types = events_types(events);
    assert_string_equal(types, "message_start content_block_start content_block_delta "
                               "content_block_stop message_delta message_stop ");
    char *text = events_join(events, "content_block_delta", "delta", "text");
    assert_string_equal(text, text_of(block_of(message, 0), "text"));
    assert_true(strlen(text) > 20);
    const json_t *end = json_array_get(events, json_array_size(events) - 2);
    assert_string_equal(text_of(json_object_get(end, "delta"), "stop_reason"),
                        text_of(message, "stop_reason"));
    assert_int_equal(count_of(end, "output_tokens"), count_of(message, "output_tokens"));
    const json_t *begin = json_object_get(json_array_get(events, 0), "message");
    assert_true(strncmp(text_of(begin, "id"), "msg_", 4) == 0);
    free(text);
    free(types);
    json_decref(events);
    json_decref(message);
}

/* A server whose template begins what the model thinks, which never ends. */
static void shows_thinking(void **state) {
    (void)state;
    static const char text[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n{% if enable_thinking is not defined or enable_thinking %}<think>"
        "{% endif %}{##}";
    char path[] = "/tmp/linnet-template-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    test_server server =
        SERVER("--threads=1", "--max-seqs=2", "--served-name=demo", "--chat-template", path);
    unlink(path);
    json_t *message = ask_message(&server, "\"max_tokens\":9,\"messages\":[" SUM "]");
    assert_string_equal(text_of(block_of(message, 0), "type"), "thinking");
    assert_string_equal(text_of(block_of(message, 0), "signature"), "");
    json_t *events = stream_message(&server, "\"max_tokens\":9,\"messages\":[" SUM "]");
    char *thoughts = events_join(events, "content_block_delta", "delta", "thinking");
    assert_string_equal(thoughts, text_of(block_of(message, 0), "thinking"));
    free(thoughts);
    json_decref(events);
    json_decref(message);
    message = ask_message(&server, "\"max_tokens\":9,\"thinking\":{\"type\":\"disabled\"},"
                                   "\"messages\":[" SUM "]");
    assert_string_equal(text_of(block_of(message, 0), "type"), "text");
    json_decref(message);
    server_stop(&server);
}

static void holds_schemas(void **state) {
    (void)state;
    json_t *message =
        ask_message(&shared, "\"messages\":[" SUM "],\"output_config\":{\"format\":{\"type\":"
                             "\"json_schema\",\"schema\":{\"type\":\"object\",\"properties\":"
                             "{\"ok\":{\"type\":\"boolean\"}},\"required\":[\"ok\"],"
                             "\"additionalProperties\":false}}}");
    json_t *value = json_loads(text_of(block_of(message, 0), "text"), 0, NULL);
    assert_true(json_is_boolean(json_object_get(value, "ok")));
    json_decref(value);
    json_decref(message);
}

static void expect_error(http_response heard, int status, const char *type, const char *part) {
    json_t *root = json_loads(heard.body, 0, NULL), *error = json_object_get(root, "error");
    if (heard.status != status || !error || strcmp(text_of(root, "type"), "error") != 0 ||
        strcmp(text_of(error, "type"), type) != 0 || !strstr(text_of(error, "message"), part))
        fail_msg("%d %s", heard.status, heard.body);
    assert_non_null(response_header(&heard, "request-id")); /* the client's request_id */
    assert_string_equal(text_of(root, "request_id"), response_header(&heard, "request-id"));
    json_decref(root);
    response_free(&heard);
}

/* Both lists are the same; Anthropic's clients need more members. */
static void lists_models(void **state) {
    (void)state;
    http_response heard = get(&shared, "/v1/models/demo");
    assert_int_equal(heard.status, 200);
    json_t *model = json_loads(heard.body, 0, NULL);
    assert_string_equal(text_of(model, "id"), "demo");
    assert_string_equal(text_of(model, "type"), "model");
    assert_string_equal(text_of(model, "display_name"), "demo");
    assert_string_equal(text_of(model, "lifecycle"), "active");
    assert_non_null(text_of(model, "created_at"));
    json_decref(model);
    response_free(&heard);
}

static void errors_have_its_shape(void **state) {
    (void)state;
    static const char path[] = "/v1/messages", type[] = "invalid_request_error";
    expect_error(post(&shared, path, "{\"max_tokens\":1}"), 400, type, "messages");
    expect_error(post(&shared, path, "{\"messages\":[" SUM "]}"), 400, type, "max_tokens");
    expect_error(post(&shared, path, "{"), 400, type, "JSON");
    expect_error(
        post(&shared, path, "{\"model\":\"other\",\"max_tokens\":1,\"messages\":[" SUM "]}"), 404,
        "not_found_error", "other");
    expect_error(get(&shared, path), 405, type, "GET");
    expect_error(get(&shared, "/v1/messages/batches"), 404, "not_found_error", "batches");
    expect_error(post(&shared, path,
                      "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
                      "\"image\",\"source\":{}}]}]}"),
                 400, type, "messages[0].content[0]");
    expect_error(post(&shared, path,
                      "{\"max_tokens\":1,\"messages\":[" SUM "],\"tool_choice\":{\"type\":\"auto\","
                      "\"disable_parallel_tool_use\":1}}"),
                 400, type, "tool_choice.disable_parallel_tool_use");
    test_server keyed = SERVER("--threads=1", "--max-seqs=1", "--api-key=secret");
    static const char body[] = "{\"max_tokens\":1,\"messages\":[" SUM "]}";
    expect_error(ask(&keyed, "POST", path, "x-api-key: other\r\n", body), 401,
                 "authentication_error", "key");
    http_response heard = ask(&keyed, "POST", path, "x-api-key: secret\r\n", body);
    assert_int_equal(heard.status, 200);
    response_free(&heard);
    heard = ask(&keyed, "POST", path, "x-api-key: other\r\nAuthorization: Bearer secret\r\n", body);
    assert_int_equal(heard.status, 200);
    response_free(&heard);
    server_stop(&keyed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),
        cmocka_unit_test(takes_blocks),
        cmocka_unit_test(continues_answers),
        cmocka_unit_test(calls_tools),
        cmocka_unit_test(streams),
        cmocka_unit_test(shows_thinking),
        cmocka_unit_test(holds_schemas),
        cmocka_unit_test(lists_models),
        cmocka_unit_test(errors_have_its_shape),
    };
    return cmocka_run_group_tests(tests, shared_start, shared_stop);
}
