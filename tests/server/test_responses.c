/* OpenAI's Responses API over the demo model, and the responses that it stores. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/events.h"
#include "test.h"

#define PATH "/v1/responses"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"name\":\"get\",\"parameters\":{\"type\":\"object\","      \
    "\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":8}},\"required\":[\"city\"]},"    \
    "\"strict\":true},{\"type\":\"function\",\"name\":\"stop\",\"parameters\":{\"type\":"          \
    "\"object\",\"properties\":{}}}]"

static http_response post_fields(const test_server *server, const char *fields) {
    char body[4096];
    snprintf(body, sizeof body, "{\"model\":\"demo\",\"temperature\":0,%s}", fields);
    http_response heard = post(server, PATH, body);
    if (heard.status != 200)
        fail_msg("%s gives %d %s", fields, heard.status, heard.body);
    return heard;
}

static json_t *read_body(http_response heard) {
    json_t *root = json_loads(heard.body, 0, NULL);
    if (!root)
        fail_msg("no JSON: %s", heard.body);
    response_free(&heard);
    return root;
}

static json_t *ask_response(const test_server *server, const char *fields) {
    return read_body(post_fields(server, fields));
}

static json_t *stream_events(const test_server *server, const char *fields) {
    char streamed[4200];
    snprintf(streamed, sizeof streamed, "\"stream\":true,%s", fields);
    http_response heard = post_fields(server, streamed);
    json_t *events = events_read(&heard);
    response_free(&heard);
    return events;
}

static const char *text_of(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

static json_t *item_of(const json_t *response, size_t index) {
    return json_array_get(json_object_get(response, "output"), index);
}

static const char *output_of(const json_t *response) {
    json_t *content = json_object_get(item_of(response, 0), "content");
    return text_of(json_array_get(content, 0), "text");
}

static long long count_of(const json_t *response, const char *name) {
    return json_integer_value(json_object_get(json_object_get(response, "usage"), name));
}

static http_response ask_stored(const test_server *server, const char *method, const char *id,
                                const char *rest) {
    char path[8192];
    snprintf(path, sizeof path, PATH "/%s%s", id, rest);
    return ask(server, method, path, "", strcmp(method, "POST") == 0 ? "" : NULL);
}

static void expect_error(http_response heard, int status, const char *param) {
    const char *named = response_field(&heard, "param");
    if (heard.status != status || !named || strcmp(named, param) != 0)
        fail_msg("%d and not %d, %s: %s", heard.status, status, param, heard.body);
    response_free(&heard);
}

static void answers(void **state) {
    (void)state;
    static const char *const inputs[] = {
        "\"input\":\"2+3=\"", "\"input\":[{\"role\":\"user\",\"content\":\"2+3=\"}]",
        "\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
        "\"text\":\"2+3=\"}]}]"};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        json_t *response = ask_response(&shared, inputs[i]);
        assert_string_equal(text_of(response, "object"), "response");
        assert_string_equal(text_of(response, "status"), "completed");
        assert_string_equal(text_of(item_of(response, 0), "type"), "message");
        assert_string_equal(output_of(response), "5");
        assert_int_equal(count_of(response, "output_tokens"), 1);
        const json_t *usage = json_object_get(response, "usage");
        const json_t *details = json_object_get(usage, "input_tokens_details");
        assert_true(json_is_integer(json_object_get(details, "cached_tokens")));
        assert_true(json_is_integer(json_object_get(details, "cache_write_tokens")));
        assert_int_equal(count_of(response, "total_tokens"),
                         count_of(response, "input_tokens") + 1);
        json_decref(response);
    }
    json_t *response = ask_response(
        &shared,
        "\"input\":\"Tell me a story\",\"max_output_tokens\":3,\"metadata\":{\"a\":\"b\"}");
    assert_string_equal(text_of(response, "status"), "incomplete");
    assert_string_equal(text_of(json_object_get(response, "incomplete_details"), "reason"),
                        "max_output_tokens");
    assert_string_equal(text_of(json_object_get(response, "metadata"), "a"), "b");
    assert_string_equal(text_of(item_of(response, 0), "status"), "incomplete");
    json_decref(response);
}

/* Items become the messages of the same chat. */
static void takes_items(void **state) {
    (void)state;
    static const char items[] =
        "\"max_output_tokens\":1,\"instructions\":\"Be\",\"input\":[{\"role\":\"developer\","
        "\"content\":\"brief\"},{\"role\":\"user\",\"content\":\"Sum?\"},{\"type\":\"reasoning\","
        "\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hm\"}]},{\"type\":"
        "\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":"
        "\"I look.\",\"annotations\":[]}]},{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":"
        "\"get\",\"arguments\":\"{\\\"city\\\":\\\"Rome\\\"}\"},{\"type\":\"function_call_output\","
        "\"call_id\":\"a\",\"output\":\"wet\"},{\"role\":\"user\",\"content\":\"2+3=\"}]";
    static const char chat[] =
        "{\"max_tokens\":1,\"messages\":[{\"role\":\"system\",\"content\":\"Be\\nbrief\"},{"
        "\"role\":"
        "\"user\",\"content\":\"Sum?\"},{\"role\":\"assistant\",\"content\":\"I look.\","
        "\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\","
        "\"function\":{\"name\":\"get\",\"arguments\":\"{\\\"city\\\":\\\"Rome\\\"}\"}}]},{"
        "\"role\":"
        "\"tool\",\"tool_call_id\":\"a\",\"content\":\"wet\"},{\"role\":\"user\",\"content\":"
        "\"2+3=\"}]}";
    http_response chatted = post(&shared, "/v1/chat/completions", chat);
    assert_int_equal(chatted.status, 200);
    json_t *response = ask_response(&shared, items);
    assert_int_equal(count_of(response, "input_tokens"),
                     atoi(response_field(&chatted, "prompt_tokens")));
    json_decref(response);
    response_free(&chatted);
}

static void streams(void **state) {
    (void)state;
    static const char fields[] = "\"input\":\"Tell me a story\"";
    json_t *response = ask_response(&shared, fields), *events = stream_events(&shared, fields);
    char *types = events_types(events);
    assert_string_equal(types, "response.created response.in_progress response.output_item.added "
                               "response.content_part.added response.output_text.delta "
                               "response.output_text.done response.content_part.done "
                               "response.output_item.done response.completed ");
    for (size_t i = 0; i < json_array_size(events); i++)
        assert_int_equal(
            json_integer_value(json_object_get(json_array_get(events, i), "sequence_number")), i);
    char *text = events_join(events, "response.output_text.delta", NULL, "delta");
    assert_string_equal(text, output_of(response));
    assert_true(strlen(text) > 20);
    const json_t *end =
        json_object_get(json_array_get(events, json_array_size(events) - 1), "response");
    assert_string_equal(output_of(end), text);
    assert_int_equal(count_of(end, "output_tokens"), count_of(response, "output_tokens"));
    /* it is stored as it ended */
    json_t *stored = read_body(ask_stored(&shared, "GET", text_of(end, "id"), ""));
    assert_true(json_equal(stored, end));
    json_decref(stored);
    free(text);
    free(types);
    json_decref(events);
    json_decref(response);
}

static void calls_tools(void **state) {
    (void)state;
    static const char *const choices[] = {
        "\"required\",\"parallel_tool_calls\":false", "{\"type\":\"function\",\"name\":\"get\"}",
        "{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":[{\"type\":\"function\","
        "\"name\":\"get\"}]},\"parallel_tool_calls\":false"};
    for (size_t i = 0; i < 3; i++) {
        char fields[1024];
        snprintf(fields, sizeof fields, "\"input\":\"Weather?\"," TOOLS ",\"tool_choice\":%s",
                 choices[i]);
        json_t *response = ask_response(&shared, fields), *item = item_of(response, 0);
        assert_int_equal(json_array_size(json_object_get(response, "output")), 1);
        assert_string_equal(text_of(item, "type"), "function_call");
        assert_true(i == 0 || strcmp(text_of(item, "name"), "get") == 0);
        json_t *arguments = json_loads(text_of(item, "arguments"), 0, NULL);
        assert_true(json_is_object(arguments));
        json_t *events = stream_events(&shared, fields);
        char *types = events_types(events);
        assert_string_equal(types,
                            "response.created response.in_progress response.output_item.added "
                            "response.function_call_arguments.delta "
                            "response.function_call_arguments.done response.output_item.done "
                            "response.completed ");
        char *text = events_join(events, "response.function_call_arguments.delta", NULL, "delta");
        assert_string_equal(text, text_of(item, "arguments"));
        free(text);
        free(types);
        json_decref(events);
        /* what the tool gave goes on with it */
        snprintf(fields, sizeof fields,
                 "\"previous_response_id\":\"%s\",\"input\":[{\"type\":\"function_call_output\","
                 "\"call_id\":\"%s\",\"output\":\"wet\"},{\"role\":\"user\",\"content\":\"2+3=\"}]",
                 text_of(response, "id"), text_of(item, "call_id"));
        json_t *next = ask_response(&shared, fields);
        assert_string_equal(output_of(next), "5");
        json_decref(next);
        json_decref(arguments);
        json_decref(response);
    }
}

static void holds_formats(void **state) {
    (void)state;
    json_t *response = ask_response(
        &shared, "\"input\":\"A person\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":"
                 "\"s\",\"strict\":true,\"schema\":{\"type\":\"object\",\"properties\":{\"ok\":"
                 "{\"type\":\"boolean\"}},\"required\":[\"ok\"],\"additionalProperties\":false}}},"
                 "\"include\":[\"message.output_text.logprobs\"],\"top_logprobs\":2");
    json_t *value = json_loads(output_of(response), 0, NULL);
    assert_true(json_is_boolean(json_object_get(value, "ok")));
    json_t *part = json_array_get(json_object_get(item_of(response, 0), "content"), 0);
    json_t *logprobs = json_object_get(part, "logprobs");
    assert_int_equal(json_array_size(logprobs), count_of(response, "output_tokens"));
    assert_int_equal(json_array_size(json_object_get(json_array_get(logprobs, 0), "top_logprobs")),
                     2);
    json_decref(value);
    json_decref(response);
}

/* A strict format has no members but those of its schema, which leaves others open. */
static void strict_formats_are_closed(void **state) {
    (void)state;
    static const char *const wrong[] = {"\"strict\":1", "\"name\":[1]"};
    static const char format[] = "\"input\":\"A person\",\"text\":{\"format\":{\"type\":"
                                 "\"json_schema\",\"schema\":{\"type\":\"object\",\"properties\":"
                                 "{\"ok\":{\"type\":\"boolean\"}}},%s}}";
    char fields[512], body[600];
    snprintf(fields, sizeof fields, format, "\"strict\":true");
    json_t *response = ask_response(&shared, fields);
    json_t *value = json_loads(output_of(response), 0, NULL);
    assert_true(json_is_object(value));
    size_t n_known = json_object_get(value, "ok") != NULL;
    assert_int_equal(json_object_size(value), n_known);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(fields, sizeof fields, format, wrong[i]);
        snprintf(body, sizeof body, "{%s}", fields);
        expect_error(post(&shared, PATH, body), 400,
                     i == 0 ? "text.format.strict" : "text.format.name");
    }
    json_decref(value);
    json_decref(response);
}

/* A response goes on where another ended: the prompt holds both. */
static void goes_on(void **state) {
    (void)state;
    char fields[512];
    json_t *first = ask_response(&shared, "\"instructions\":\"Be brief\",\"input\":\"2+3=\"");
    snprintf(fields, sizeof fields, "\"input\":\"4+4=\",\"previous_response_id\":\"%s\"",
             text_of(first, "id"));
    json_t *second = ask_response(&shared, fields);
    assert_string_equal(output_of(second), "8");
    http_response chatted =
        post(&shared, "/v1/chat/completions",
             "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"2+3=\"},{\"role\":"
             "\"assistant\",\"content\":\"5\"},{\"role\":\"user\",\"content\":\"4+4=\"}]}");
    assert_int_equal(count_of(second, "input_tokens"),
                     atoi(response_field(&chatted, "prompt_tokens")));
    response_free(&chatted);
    expect_error(post(&shared, PATH, "{\"input\":\"a\",\"previous_response_id\":\"resp_none\"}"),
                 404, "previous_response_id");
    json_decref(second);
    json_decref(first);
}

/* The id of the response's input item at a place, or a name that the client gave it. */
static const char *input_id(const json_t *response, const char *place, char *id) {
    if (*place >= '0' && *place <= '9')
        snprintf(id, 64, "item_%s_%s", text_of(response, "id") + strlen("resp_"), place);
    else
        snprintf(id, 64, "%s", place);
    return id;
}

static void stores(void **state) {
    (void)state;
    json_t *response =
        ask_response(&shared, "\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\","
                              "\"content\":\"b\",\"id\":\"mine\"},{\"role\":\"user\",\"content\":"
                              "\"2+3=\"}]");
    const char *id = text_of(response, "id");
    json_t *stored = read_body(ask_stored(&shared, "GET", id, ""));
    assert_true(json_equal(stored, response));
    json_decref(stored);
    json_t *items = read_body(ask_stored(&shared, "GET", id, "/input_items?limit=2&order=asc"));
    assert_int_equal(json_array_size(json_object_get(items, "data")), 2);
    assert_true(json_is_true(json_object_get(items, "has_more")));
    assert_string_equal(text_of(items, "last_id"), "mine");
    json_decref(items);
    items = read_body(ask_stored(&shared, "GET", id, "/input_items?after=mine&order=asc"));
    assert_int_equal(json_array_size(json_object_get(items, "data")), 1);
    json_decref(items);
    items = read_body(ask_stored(&shared, "GET", id, "/input_items"));
    char own[64];
    assert_string_equal(text_of(items, "first_id"), input_id(response, "2", own));
    json_decref(items);
    expect_error(ask_stored(&shared, "POST", id, "/cancel"), 400, "response_id");
    expect_error(ask_stored(&shared, "GET", id, "?stream=true"), 400, "stream");
    http_response heard = ask_stored(&shared, "DELETE", id, "");
    assert_int_equal(heard.status, 200);
    assert_non_null(strstr(heard.body, "\"deleted\":true"));
    response_free(&heard);
    expect_error(ask_stored(&shared, "GET", id, ""), 404, "response_id");
    expect_error(ask_stored(&shared, "DELETE", id, ""), 404, "response_id");
    expect_error(ask_stored(&shared, "GET", id, "/input_items"), 404, "response_id");
    expect_error(ask_stored(&shared, "POST", id, "/cancel"), 404, "response_id");
    json_decref(response);
    response = ask_response(&shared, "\"input\":\"2+3=\",\"store\":false");
    expect_error(ask_stored(&shared, "GET", text_of(response, "id"), ""), 404, "response_id");
    json_decref(response);
}

/* A list of input items is cut as OpenAI's API cuts it, and says what is wrong with a cut. */
static void lists_input_items(void **state) {
    (void)state;
    static const struct {
        const char *query, *after, *first, *last;
        int n_items;
        bool has_more;
    } pages[] = {{"order=desc", NULL, "3", "0", 4, false},
                 {"order=desc&limit=2", NULL, "3", "2", 2, true},
                 {"limit=2", "2", "mine", "0", 2, false},
                 {"order=asc&limit=3", NULL, "0", "2", 3, true},
                 {"order=asc&limit=100", "mine", "2", "3", 2, false},
                 {"order=asc&limit=100", "m%69ne", "2", "3", 2, false},
                 {"order=desc", "0", NULL, NULL, 0, false}};
    static const char *const wrong[][2] = {{"?limit=0", "limit"},
                                           {"?limit=101", "limit"},
                                           {"?limit=-1", "limit"},
                                           {"?limit=2x", "limit"},
                                           {"?limit=99999999999999999999", "limit"},
                                           {"?limit=00000000000000000000000000000000005", "limit"},
                                           {"?order=up", "order"},
                                           {"?after=other", "after"}};
    json_t *response = ask_response(
        &shared,
        "\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"type\":null,\"role\":\"assistant\","
        "\"content\":\"b\",\"id\":\"mine\"},{\"type\":\"message\",\"role\":\"user\",\"content\":[{"
        "\"type\":"
        "\"input_text\",\"text\":\"c\"}]},{\"role\":\"user\",\"content\":\"2+3=\"}]");
    const char *id = text_of(response, "id");
    char rest[128];
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        char after[64] = "", begin[64] = "", end[64] = "";
        if (pages[i].after)
            input_id(response, pages[i].after, after);
        if (pages[i].first) {
            input_id(response, pages[i].first, begin);
            input_id(response, pages[i].last, end);
        }
        snprintf(rest, sizeof rest, "/input_items?%s%s%s", pages[i].query, *after ? "&after=" : "",
                 after);
        json_t *list = read_body(ask_stored(&shared, "GET", id, rest));
        const char *first = text_of(list, "first_id"), *last = text_of(list, "last_id");
        assert_int_equal(json_array_size(json_object_get(list, "data")), pages[i].n_items);
        assert_int_equal(json_is_true(json_object_get(list, "has_more")), pages[i].has_more);
        assert_string_equal(first ? first : "", begin);
        assert_string_equal(last ? last : "", end);
        json_decref(list);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(rest, sizeof rest, "/input_items%s", wrong[i][0]);
        expect_error(ask_stored(&shared, "GET", id, rest), 400, wrong[i][1]);
    }
    static const char *const names[] = {"order", "after"};
    for (size_t i = 0; i < 2; i++) { /* longer than any value that is looked at */
        char query[4200];
        snprintf(query, sizeof query, "/input_items?%s=%04100d", names[i], 0);
        expect_error(ask_stored(&shared, "GET", id, query), 400, names[i]);
    }
    json_decref(response);
}

/* A response that goes on lists the items of those before it, too: what they answered and said. */
static void lists_chained_items(void **state) {
    (void)state;
    static const char *const texts[] = {"2+3=", "5", "4+4=", "8", "Hi"};
    static const char *const roles[] = {"user", "assistant"};
    json_t *responses[3];
    char fields[256];
    for (size_t i = 0; i < 3; i++) {
        snprintf(fields, sizeof fields, "\"instructions\":\"Be brief\",\"input\":\"%s\"%s%s%s",
                 texts[2 * i], i > 0 ? ",\"previous_response_id\":\"" : "",
                 i > 0 ? text_of(responses[i - 1], "id") : "", i > 0 ? "\"" : "");
        responses[i] = ask_response(&shared, fields);
    }
    http_response gone = ask_stored(&shared, "DELETE", text_of(responses[0], "id"), "");
    response_free(&gone);
    json_t *list = read_body(
        ask_stored(&shared, "GET", text_of(responses[2], "id"), "/input_items?order=asc"));
    const json_t *data = json_object_get(list, "data");
    assert_int_equal(json_array_size(data), 5);
    for (size_t i = 0; i < 5; i++) {
        const json_t *item = json_array_get(data, i);
        const json_t *part = json_array_get(json_object_get(item, "content"), 0);
        assert_string_equal(text_of(item, "role"), roles[i % 2]);
        assert_string_equal(text_of(part, "text"), texts[i]);
        for (size_t k = 0; k < i; k++) /* ids are of one item each */
            assert_string_not_equal(text_of(item, "id"), text_of(json_array_get(data, k), "id"));
    }
    json_decref(list);
    for (size_t i = 0; i < 3; i++)
        json_decref(responses[i]);
}

/* Items that come in short form are listed with the members that OpenAI's types ask for. */
static void completes_items(void **state) {
    (void)state;
    static const char *const types[] = {"message", "message", "reasoning", "function_call",
                                        "function_call_output"};
    json_t *response = ask_response(
        &shared,
        "\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"type\":null,\"role\":\"assistant\","
        "\"content\":\"b\"},{\"type\":\"reasoning\",\"content\":[{\"type\":\"reasoning_text\","
        "\"text\":\"c\"}]},{\"type\":\"function_call\",\"call_id\":\"d\",\"name\":\"f\","
        "\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"d\","
        "\"output\":\"e\"}]");
    json_t *list =
        read_body(ask_stored(&shared, "GET", text_of(response, "id"), "/input_items?order=asc"));
    for (size_t i = 0; i < 5; i++) {
        const json_t *item = json_array_get(json_object_get(list, "data"), i);
        const json_t *part = json_array_get(json_object_get(item, "content"), 0);
        assert_string_equal(text_of(item, "type"), types[i]);
        if (i < 2)
            assert_string_equal(text_of(part, "type"), i == 0 ? "input_text" : "output_text");
        assert_int_equal(json_is_array(json_object_get(part, "annotations")), i == 1);
        assert_int_equal(json_is_array(json_object_get(item, "summary")), i == 2);
        if (i != 2)
            assert_string_equal(text_of(item, "status"), "completed");
    }
    json_decref(list);
    json_decref(response);
}

/* What is no response has no methods. */
static void misses_other_paths(void **state) {
    (void)state;
    json_t *response = ask_response(&shared, "\"input\":\"2+3=\"");
    const char *id = text_of(response, "id");
    expect_error(post(&shared, PATH "/compact", "{\"input\":\"a\"}"), 404, "null");
    expect_error(get(&shared, PATH "/compact"), 404, "null");
    expect_error(ask_stored(&shared, "GET", id, "/other"), 404, "null");
    expect_error(ask_stored(&shared, "POST", id, "/other"), 404, "null");
    expect_error(ask_stored(&shared, "POST", id, ""), 405, "null");
    json_decref(response);
}

/* What clients forbid and prefer counts as in chats. */
static void biases_tokens(void **state) {
    (void)state;
    json_t *plain = ask_response(&shared, "\"input\":\"2+3=\"");
    json_t *biased = ask_response(&shared, "\"input\":\"2+3=\",\"max_output_"
                                           "tokens\":2,\"logit_bias\":{\"1245\":100}");
    http_response chatted =
        post(&shared, "/v1/chat/completions",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"2+3=\"}],\"temperature\":0,"
             "\"max_tokens\":2,\"logit_bias\":{\"1245\":100}}");
    assert_string_not_equal(output_of(plain), output_of(biased));
    assert_string_equal(output_of(biased), response_field(&chatted, "content"));
    response_free(&chatted);
    expect_error(post(&shared, PATH, "{\"input\":\"a\",\"logit_bias\":{\"x\":1}}"), 400,
                 "logit_bias");
    expect_error(post(&shared, PATH, "{\"input\":\"a\",\"allowed_token_ids\":[-1]}"), 400,
                 "allowed_token_ids");
    expect_error(post(&shared, PATH, "{\"input\":\"a\",\"bad_words\":1}"), 400, "bad_words");
    json_decref(biased);
    json_decref(plain);
}

/* The newest stay, in a file also beyond the server's end. */
static void keeps_the_newest(void **state) {
    (void)state;
    char folder[] = "/tmp/linnet-store-XXXXXX", path[64], ids[4][64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/responses.db", folder);
    for (int run = 0; run < 2; run++) {
        test_server server = SERVER("--threads=1", "--max-seqs=1", "--served-name=demo",
                                    "--response-store", path, "--max-responses=3");
        for (int i = 0; i < 2; i++) {
            json_t *response = ask_response(&server, "\"input\":\"2+3=\"");
            snprintf(ids[run * 2 + i], sizeof ids[0], "%s", text_of(response, "id"));
            json_decref(response);
        }
        for (int i = 0; i < run * 2 + 2; i++) {
            http_response heard = ask_stored(&server, "GET", ids[i], "");
            assert_int_equal(heard.status, run == 1 && i == 0 ? 404 : 200);
            response_free(&heard);
        }
        server_stop(&server);
    }
    static const char *const endings[] = {"", "-wal", "-shm", ".lock"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s%s", path, endings[i]);
        unlink(name);
    }
    assert_int_equal(rmdir(folder), 0);
    test_server server =
        SERVER("--threads=1", "--max-seqs=1", "--served-name=demo", "--max-response-bytes=900");
    json_t *response = ask_response(&server, "\"input\":\"2+3=\"");
    expect_error(ask_stored(&server, "GET", text_of(response, "id"), ""), 404, "response_id");
    json_decref(response);
    server_stop(&server);
}

/* As the prompt of the same body has, and with what came before. */
static void counts_tokens(void **state) {
    (void)state;
    json_t *response = ask_response(&shared, "\"input\":\"2+3=\"");
    const json_t *usage = json_object_get(response, "usage");
    json_int_t expected = json_integer_value(json_object_get(usage, "input_tokens"));
    char body[256];
    snprintf(body, sizeof body, "{\"input\":\"2+3=\",\"previous_response_id\":\"%s\"}",
             text_of(response, "id"));
    const char *const bodies[] = {"{\"input\":\"2+3=\",\"unknown\":1}", body};
    for (size_t i = 0; i < 2; i++) {
        json_t *counted = read_body(post(&shared, PATH "/input_tokens", bodies[i]));
        json_int_t n = json_integer_value(json_object_get(counted, "input_tokens"));
        assert_string_equal(text_of(counted, "object"), "response.input_tokens");
        assert_true(i == 0 ? n == expected : n > expected);
        json_decref(counted);
    }
    json_t *counted =
        read_body(post(&shared, "/v1/chat/completions/input_tokens",
                       "{\"unknown\":1,\"messages\":[{\"role\":\"user\",\"content\":\"2+3=\"}]}"));
    assert_int_equal(json_integer_value(json_object_get(counted, "input_tokens")), expected);
    json_decref(counted);
    json_decref(response);
}

/* A response that goes on without its client. */
static void runs_in_the_background(void **state) {
    (void)state;
    json_t *response = ask_response(&shared, "\"input\":\"2+3=\",\"background\":true"), *seen;
    char id[64];
    snprintf(id, sizeof id, "%s", text_of(response, "id"));
    assert_string_equal(text_of(response, "status"), "queued");
    json_decref(response);
    wait_for_metric(&shared, "num_requests_open", NULL, 0);
    seen = read_body(ask_stored(&shared, "GET", id, ""));
    assert_string_equal(text_of(seen, "status"), "completed");
    assert_string_equal(output_of(seen), "5");
    json_decref(seen);
    response = read_body(ask_stored(&shared, "POST", id, "/cancel")); /* too late */
    assert_string_equal(text_of(response, "status"), "completed");
    json_decref(response);
    expect_error(post(&shared, PATH, "{\"input\":\"a\",\"background\":true,\"store\":false}"), 400,
                 "background");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),
        cmocka_unit_test(takes_items),
        cmocka_unit_test(streams),
        cmocka_unit_test(calls_tools),
        cmocka_unit_test(holds_formats),
        cmocka_unit_test(strict_formats_are_closed),
        cmocka_unit_test(goes_on),
        cmocka_unit_test(stores),
        cmocka_unit_test(lists_input_items),
        cmocka_unit_test(lists_chained_items),
        cmocka_unit_test(misses_other_paths),
        cmocka_unit_test(completes_items),
        cmocka_unit_test(biases_tokens),
        cmocka_unit_test(keeps_the_newest),
        cmocka_unit_test(runs_in_the_background),
        cmocka_unit_test(counts_tokens),
    };
    return cmocka_run_group_tests(tests, shared_start, shared_stop);
}
