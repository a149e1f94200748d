/* OpenAI's Conversations API over the demo model, and references to items that are stored. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/client.h"
#include "test.h"

#define PATH "/v1/conversations"

static json_t *read_body(http_response heard) {
    json_t *root = json_loads(heard.body, 0, NULL);
    if (heard.status != 200 || !root)
        fail_msg("status %d: %s", heard.status, heard.body);
    response_free(&heard);
    return root;
}

static http_response ask_at(const test_server *server, const char *method, const char *id,
                            const char *rest, const char *body) {
    char path[4400];
    snprintf(path, sizeof path, PATH "/%s%s", id, rest);
    return ask(server, method, path, "", body);
}

static const char *text_of(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

static void expect_error(http_response heard, int status, const char *param) {
    const char *named = response_field(&heard, "param");
    if (heard.status != status || !named || strcmp(named, param) != 0)
        fail_msg("%d and not %d, %s: %s", heard.status, status, param, heard.body);
    response_free(&heard);
}

/* The id of a new one. */
static char *create(const test_server *server, const char *body, char *id) {
    json_t *conversation = read_body(post(server, PATH, body));
    assert_string_equal(text_of(conversation, "object"), "conversation");
    snprintf(id, 64, "%s", text_of(conversation, "id"));
    json_decref(conversation);
    return id;
}

static json_t *respond(const test_server *server, const char *input, const char *fields) {
    char body[2048];
    snprintf(body, sizeof body, "{\"input\":%s,\"temperature\":0,%s}", input, fields);
    return read_body(post(server, "/v1/responses", body));
}

static const char *said(const json_t *response) {
    const json_t *item = json_array_get(json_object_get(response, "output"), 0);
    return text_of(json_array_get(json_object_get(item, "content"), 0), "text");
}

/* The texts of a list's items, each with a comma behind it. */
static char *texts_of(const json_t *list) {
    static char texts[1024];
    size_t index;
    json_t *item;
    texts[0] = '\0';
    json_array_foreach(json_object_get(list, "data"), index, item) {
        const char *text = text_of(json_array_get(json_object_get(item, "content"), 0), "text");
        snprintf(texts + strlen(texts), sizeof texts - strlen(texts), "%s,", text ? text : "-");
    }
    return texts;
}

static void expect_texts(const test_server *server, const char *id, const char *texts) {
    json_t *list = read_body(ask_at(server, "GET", id, "/items?order=asc&limit=100", NULL));
    assert_string_equal(texts_of(list), texts);
    json_decref(list);
}

static void keeps_metadata(void **state) {
    (void)state;
    char id[64];
    create(&shared, "{\"metadata\":{\"a\":\"b\"}}", id);
    json_t *made = read_body(ask_at(&shared, "GET", id, "", NULL));
    assert_string_equal(text_of(json_object_get(made, "metadata"), "a"), "b");
    json_t *changed = read_body(ask_at(&shared, "POST", id, "", "{\"metadata\":{\"c\":\"d\"}}"));
    assert_null(json_object_get(json_object_get(changed, "metadata"), "a"));
    assert_string_equal(text_of(json_object_get(changed, "metadata"), "c"), "d");
    assert_true(
        json_equal(json_object_get(made, "created_at"), json_object_get(changed, "created_at")));
    json_t *seen = read_body(ask_at(&shared, "GET", id, "", NULL));
    assert_true(json_equal(seen, changed));
    json_t *gone = read_body(ask_at(&shared, "DELETE", id, "", NULL));
    assert_string_equal(text_of(gone, "object"), "conversation.deleted");
    assert_true(json_is_true(json_object_get(gone, "deleted")));
    static const char *const methods[] = {"GET", "DELETE", "POST"};
    for (size_t i = 0; i < 3; i++)
        expect_error(ask_at(&shared, methods[i], id, "", i == 2 ? "{\"metadata\":null}" : NULL),
                     404, "conversation_id");
    json_decref(gone);
    json_decref(seen);
    json_decref(changed);
    json_decref(made);
}

static void keeps_items(void **state) {
    (void)state;
    char id[64], rest[128];
    create(&shared,
           "{\"items\":[{\"role\":\"user\",\"content\":\"a\",\"id\":\"mine\"},{\"role\":"
           "\"assistant\",\"content\":\"b\"}]}",
           id);
    json_t *added = read_body(
        ask_at(&shared, "POST", id, "/items",
               "{\"items\":[{\"role\":\"user\",\"content\":\"c\",\"id\":\"mine\"},{\"type\":"
               "\"function_call\",\"call_id\":\"x\",\"name\":\"get\",\"arguments\":\"{}\"}]}"));
    const json_t *data = json_object_get(added, "data");
    assert_int_equal(json_array_size(data), 2);
    assert_string_equal(text_of(added, "object"), "list");
    assert_string_equal(text_of(added, "first_id"), text_of(json_array_get(data, 0), "id"));
    assert_string_equal(text_of(added, "last_id"), text_of(json_array_get(data, 1), "id"));
    assert_true(json_is_false(json_object_get(added, "has_more")));
    assert_string_equal(text_of(json_array_get(data, 0), "type"), "message");
    expect_texts(&shared, id, "a,b,c,-,");
    /* page by page */
    char after[80] = "", texts[64] = "";
    for (int i = 0; i < 4; i++) {
        snprintf(rest, sizeof rest, "/items?limit=1&order=asc%s", after);
        json_t *page = read_body(ask_at(&shared, "GET", id, rest, NULL));
        strcat(texts, texts_of(page));
        snprintf(after, sizeof after, "&after=%s", text_of(page, "last_id"));
        assert_int_equal(json_is_true(json_object_get(page, "has_more")), i < 3);
        json_decref(page);
    }
    assert_string_equal(texts, "a,b,c,-,");
    /* an item alone, which is then removed */
    snprintf(rest, sizeof rest, "/items/%s", text_of(added, "first_id"));
    json_t *item = read_body(ask_at(&shared, "GET", id, rest, NULL));
    assert_true(json_equal(item, json_array_get(data, 0)));
    json_decref(item);
    json_t *conversation = read_body(ask_at(&shared, "DELETE", id, rest, NULL));
    assert_string_equal(text_of(conversation, "id"), id);
    json_decref(conversation);
    expect_texts(&shared, id, "a,b,-,");
    expect_error(ask_at(&shared, "GET", id, rest, NULL), 404, "item_id");
    expect_error(ask_at(&shared, "DELETE", id, rest, NULL), 404, "item_id");
    expect_error(ask_at(&shared, "GET", id, "/items?after=none", NULL), 400, "after");
    json_decref(added);
}

/* A response answers the conversation and its input, and both go on from there. */
static void responses_belong_to_it(void **state) {
    (void)state;
    char id[64], fields[160];
    create(&shared,
           "{\"items\":[{\"role\":\"user\",\"content\":\"2+3=\"},{\"role\":\"assistant\","
           "\"content\":\"5\"}]}",
           id);
    http_response chatted =
        post(&shared, "/v1/chat/completions",
             "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"2+3=\"},{\"role\":"
             "\"assistant\",\"content\":\"5\"},{\"role\":\"user\",\"content\":\"4+4=\"}]}");
    snprintf(fields, sizeof fields, "\"conversation\":\"%s\"", id);
    json_t *response = respond(&shared, "\"4+4=\"", fields);
    assert_string_equal(said(response), "8");
    assert_string_equal(text_of(json_object_get(response, "conversation"), "id"), id);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(response, "usage"), "input_tokens")),
        atoi(response_field(&chatted, "prompt_tokens")));
    response_free(&chatted);
    expect_texts(&shared, id, "2+3=,5,4+4=,8,");
    char path[128];
    snprintf(path, sizeof path, "/v1/responses/%s/input_items?order=asc", text_of(response, "id"));
    json_t *items = read_body(get(&shared, path));
    assert_string_equal(texts_of(items), "2+3=,5,4+4=,");
    json_decref(items);
    /* by an object, without being stored itself, and in a stream */
    snprintf(fields, sizeof fields, "\"conversation\":{\"id\":\"%s\"},\"store\":false", id);
    json_decref(respond(&shared, "\"1+1=\"", fields));
    char body[256];
    snprintf(body, sizeof body, "{\"input\":\"Hi\",\"max_output_tokens\":1,\"stream\":true,%s}",
             fields);
    expect_status(post(&shared, "/v1/responses", body), 200);
    json_t *list = read_body(ask_at(&shared, "GET", id, "/items", NULL));
    assert_int_equal(json_array_size(json_object_get(list, "data")), 8);
    json_decref(list);
    /* a response that goes on with one of a conversation does not change that */
    snprintf(fields, sizeof fields, "\"previous_response_id\":\"%s\"", text_of(response, "id"));
    json_decref(respond(&shared, "\"1+2=\"", fields));
    list = read_body(ask_at(&shared, "GET", id, "/items", NULL));
    assert_int_equal(json_array_size(json_object_get(list, "data")), 8);
    /* nor does its end change the responses */
    expect_status(ask_at(&shared, "DELETE", id, "", NULL), 200);
    snprintf(path, sizeof path, "/v1/responses/%s/input_items?order=asc", text_of(response, "id"));
    items = read_body(get(&shared, path));
    assert_string_equal(texts_of(items), "2+3=,5,4+4=,");
    json_decref(items);
    json_decref(list);
    json_decref(response);
}

/* What fails is no part of it. */
static void failures_do_not_belong_to_it(void **state) {
    (void)state;
    test_server server = modelled_start(2, 4, 3600000, 3600000);
    char id[64], body[256];
    create(&server, "{}", id);
    snprintf(body, sizeof body, "{\"input\":\"a\",\"background\":true,\"conversation\":\"%s\"}",
             id);
    for (int fails = 0; fails < 2; fails++) {
        json_t *response = read_body(post(&server, "/v1/responses", body));
        char path[128];
        if (fails) {
            modelled_fail(&server);
            wait_for_metric(&server, "num_requests_open", NULL, 0);
        } else {
            snprintf(path, sizeof path, "/v1/responses/%s/cancel", text_of(response, "id"));
            expect_status(ask(&server, "POST", path, "", ""), 200);
        }
        json_decref(response);
    }
    expect_texts(&server, id, "");
    server_stop(&server);
}

/* Items that are stored may be named in place of being sent. */
static void references_name_items(void **state) {
    (void)state;
    char input[512];
    json_t *first = respond(&shared, "\"2+3=\"", "\"store\":true");
    const json_t *item = json_array_get(json_object_get(first, "output"), 0);
    static const char *const types[] = {"\"type\":\"item_reference\",", "", "\"type\":null,"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(input, sizeof input,
                 "[{\"role\":\"user\",\"content\":\"2+3=\"},{%s\"id\":\"%s\"},{\"role\":\"user\","
                 "\"content\":\"4+4=\"}]",
                 types[i], text_of(item, "id"));
        json_t *named = respond(&shared, input, "\"store\":true");
        json_t *sent = respond(&shared,
                               "[{\"role\":\"user\",\"content\":\"2+3=\"},{\"role\":\"assistant\","
                               "\"content\":\"5\"},{\"role\":\"user\",\"content\":\"4+4=\"}]",
                               "\"store\":false");
        assert_string_equal(said(named), "8");
        assert_true(json_equal(json_object_get(json_object_get(named, "usage"), "input_tokens"),
                               json_object_get(json_object_get(sent, "usage"), "input_tokens")));
        char path[128];
        snprintf(path, sizeof path, "/v1/responses/%s/input_items?order=asc", text_of(named, "id"));
        json_t *items = read_body(get(&shared, path));
        assert_string_equal(texts_of(items), "2+3=,5,4+4=,");
        json_decref(items);
        json_decref(sent);
        json_decref(named);
    }
    /* an id that is there already is not given twice: lists go on by ids */
    snprintf(input, sizeof input, "\"previous_response_id\":\"%s\"", text_of(first, "id"));
    char reference[256];
    snprintf(reference, sizeof reference,
             "[{\"id\":\"%s\"},{\"id\":\"%s\"},{\"role\":\"user\",\"content\":\"4+4=\"}]",
             text_of(item, "id"), text_of(item, "id"));
    json_t *next = respond(&shared, reference, input);
    char path[128];
    snprintf(path, sizeof path, "/v1/responses/%s/input_items?order=asc&after=%s",
             text_of(next, "id"), text_of(item, "id"));
    json_t *items = read_body(get(&shared, path));
    assert_string_equal(texts_of(items), "5,5,4+4=,");
    json_decref(items);
    json_decref(next);
    json_decref(first);
    json_t *unstored = respond(&shared, "\"2+3=\"", "\"store\":false");
    snprintf(input, sizeof input, "{\"input\":[{\"id\":\"%s\"}]}",
             text_of(json_array_get(json_object_get(unstored, "output"), 0), "id"));
    expect_error(post(&shared, "/v1/responses", input), 404, "input[0]");
    json_decref(unstored);
}

/* References may not make much of little. */
static void references_are_bounded(void **state) {
    (void)state;
    enum { TEXT_BYTES = 1 << 20, N = 20 };
    char *body = malloc(TEXT_BYTES + 256), id[64], reference[96];
    int n = sprintf(body, "{\"items\":[{\"role\":\"user\",\"content\":\"");
    memset(body + n, 'x', TEXT_BYTES);
    strcpy(body + n + TEXT_BYTES, "\"}]}");
    create(&shared, body, id);
    json_t *list = read_body(ask_at(&shared, "GET", id, "/items", NULL));
    snprintf(reference, sizeof reference, "{\"id\":\"%s\"},", text_of(list, "first_id"));
    strcpy(body, "{\"input\":[");
    for (int i = 0; i < N; i++)
        strcat(body, reference);
    strcpy(body + strlen(body) - 1, "]}");
    expect_error(post(&shared, "/v1/responses", body), 400, "input[15]");
    expect_status(ask_at(&shared, "DELETE", id, "", NULL), 200);
    json_decref(list);
    free(body);
}

/* What is larger than the store is refused before anything gives way to it. */
static void size_is_bounded(void **state) {
    (void)state;
    test_server server =
        SERVER("--threads=1", "--max-seqs=1", "--max-response-bytes=3000", "--max-responses=2");
    char id[64], body[4096], large[64], text[2600];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    create(&server, "{\"items\":[{\"role\":\"user\",\"content\":\"a\"}]}", id);
    snprintf(body, sizeof body, "{\"items\":[{\"role\":\"user\",\"content\":\"%s\"}]}", text);
    expect_error(post(&server, PATH, body), 400, "null"); /* with what a conversation takes */
    expect_texts(&server, id, "a,");                      /* nothing gave way to it */
    text[2200] = '\0';
    snprintf(body, sizeof body, "{\"items\":[{\"role\":\"user\",\"content\":\"%s\"}]}", text);
    create(&server, body, large); /* alone it is not too large */
    expect_status(ask_at(&server, "GET", large, "", NULL), 200);
    text[2200] = 'x';
    snprintf(body, sizeof body, "{\"items\":[{\"role\":\"user\",\"content\":\"%s\"}]}", text);
    expect_error(ask_at(&server, "GET", id, "", NULL), 404, "conversation_id");
    create(&server, "{\"items\":[{\"role\":\"user\",\"content\":\"a\"}]}", id);
    expect_error(ask_at(&server, "POST", id, "/items", body), 400, "null");
    snprintf(body, sizeof body, "{\"input\":\"%s\",\"conversation\":\"%s\"}", text, id);
    expect_error(post(&server, "/v1/responses", body), 400, "conversation");
    expect_texts(&server, id, "a,");
    char other[64];
    create(&server, "{}", other);
    expect_status(ask_at(&server, "POST", id, "/items",
                         "{\"items\":[{\"role\":\"user\",\"content\":\"b\"}]}"),
                  200);
    create(&server, "{}", other); /* the second of those that are there: the one that grew stays */
    expect_texts(&server, id, "a,b,");
    server_stop(&server);
    server = SERVER("--threads=1", "--max-seqs=1", "--max-responses=0");
    expect_error(post(&server, PATH, "{}"), 400, "null");
    server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_metadata),         cmocka_unit_test(keeps_items),
        cmocka_unit_test(responses_belong_to_it), cmocka_unit_test(failures_do_not_belong_to_it),
        cmocka_unit_test(references_name_items),  cmocka_unit_test(references_are_bounded),
        cmocka_unit_test(size_is_bounded),
    };
    return cmocka_run_group_tests(tests, shared_start, shared_stop);
}
