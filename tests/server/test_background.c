/* Responses that are streamed in the background: clients come, go and come back. Over an engine
 * whose steps are asked for, whose tokens' texts are numbers; or over the demo model. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/events.h"
#include "test.h"

enum { NEVER_MS = 3600000, N_TOKENS = 6 };

#define PATH "/v1/responses"

/* Says a request whose answer is heard later. */
static int say_request(const test_server *server, const char *method, const char *path,
                       const char *body) {
    char head[1024];
    int fd = dial(server);
    snprintf(head, sizeof head,
             "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", method, path,
             strlen(body), body);
    say_text(fd, head);
    return fd;
}

/* Begins a response of N_TOKENS tokens; returns its client. */
static int begin(test_server *server, const char *fields) {
    char body[256];
    double before = metric(server, "prompt_tokens_total", NULL), now = before;
    snprintf(body, sizeof body,
             "{\"input\":\"Hi\",\"background\":true,\"stream\":true,\"max_output_tokens\":%d%s}",
             N_TOKENS, fields);
    int fd = say_request(server, "POST", PATH, body);
    for (int times = 0; times < 3000 && now <= before; times++) {
        sleep_ms(2);
        now = metric(server, "prompt_tokens_total", NULL);
    }
    assert_true(now > before);
    return fd;
}

static void step_on(test_server *server, int n_steps) {
    for (int i = 0; i < n_steps; i++)
        modelled_step(server);
}

/* So many tokens have been given out. */
static void wait_for_tokens(const test_server *server, double n_tokens) {
    wait_for_metric(server, "generation_tokens_total", NULL, n_tokens);
}

static json_t *hear_events(int fd) {
    http_response heard = hear(fd, false);
    if (heard.status != 200 || heard.is_cut)
        fail_msg("status %d%s: %s", heard.status, heard.is_cut ? ", cut" : "", heard.body);
    json_t *events = events_read(&heard);
    response_free(&heard);
    hang_up(fd);
    return events;
}

static int follow(const test_server *server, const char *id, const char *query) {
    char path[256];
    snprintf(path, sizeof path, PATH "/%s?stream=true%s", id, query);
    return say_request(server, "GET", path, "");
}

static long long number_of(const json_t *events, size_t index) {
    return json_integer_value(json_object_get(json_array_get(events, index), "sequence_number"));
}

static const char *type_of(const json_t *events, size_t index) {
    return json_string_value(json_object_get(json_array_get(events, index), "type"));
}

static void expect_tail(const json_t *tail, const json_t *events) {
    size_t n_tail = json_array_size(tail), n_events = json_array_size(events);
    assert_true(n_tail <= n_events);
    for (size_t i = 0; i < n_tail; i++)
        assert_true(
            json_equal(json_array_get(tail, i), json_array_get(events, n_events - n_tail + i)));
}

static void read_id(const json_t *events, char *id) {
    const json_t *response = json_object_get(json_array_get(events, 0), "response");
    snprintf(id, 64, "%s", json_string_value(json_object_get(response, "id")));
}

/* What a response has become. */
static void expect_status_of(const test_server *server, const char *id, const char *status) {
    char path[128];
    snprintf(path, sizeof path, PATH "/%s", id);
    http_response heard = get(server, path);
    assert_int_equal(heard.status, 200);
    assert_string_equal(response_field(&heard, "status"), status);
    response_free(&heard);
}

static void expect_refusal(int fd, int status, const char *param) {
    http_response heard = hear(fd, false);
    const char *named = response_field(&heard, "param");
    if (heard.status != status || !named || strcmp(named, param) != 0)
        fail_msg("%d and not %d, %s: %s", heard.status, status, param, heard.body);
    response_free(&heard);
    hang_up(fd);
}

/* The id of the response whose stream began on a connection: what was heard of it is lost. */
static void take_id(int fd, char *id) {
    char heard[4096];
    size_t n_bytes = 0;
    const char *found = NULL;
    while (!found && n_bytes < sizeof heard - 1) {
        ssize_t n = recv(fd, heard + n_bytes, sizeof heard - 1 - n_bytes, 0);
        assert_true(n > 0);
        n_bytes += (size_t)n;
        heard[n_bytes] = '\0';
        found = strstr(heard, "\"resp_");
        found = found && strlen(found) > 30 ? found : NULL;
    }
    snprintf(id, 64, "%.*s", (int)strcspn(found + 1, "\""), found + 1);
}

static void streams(void **state) {
    (void)state;
    test_server server = modelled_start(4, 8, NEVER_MS, NEVER_MS);
    char id[64];
    int fd = begin(&server, "");
    step_on(&server, N_TOKENS + 1);
    json_t *events = hear_events(fd);
    char *types = events_types(events);
    assert_string_equal(types, "response.created response.queued response.in_progress "
                               "response.output_item.added response.content_part.added "
                               "response.output_text.delta response.output_text.done "
                               "response.content_part.done response.output_item.done "
                               "response.incomplete ");
    for (size_t i = 0; i < json_array_size(events); i++)
        assert_int_equal(number_of(events, i), i);
    read_id(events, id);
    expect_status_of(&server, id, "incomplete");
    /* once it is over the same events are there, from any on */
    json_t *again = hear_events(follow(&server, id, ""));
    assert_true(json_equal(again, events));
    json_decref(again);
    again = hear_events(follow(&server, id, "&starting_after=4"));
    assert_int_equal(number_of(again, 0), 5);
    expect_tail(again, events);
    json_decref(again);
    again = hear_events(follow(&server, id, "&starting_after=1000&include_obfuscation=false"));
    assert_int_equal(json_array_size(again), 0);
    json_decref(again);
    free(types);
    json_decref(events);
    server_stop(&server);
}

/* The client goes, the response does not; who comes later misses nothing. */
static void clients_come_back(void **state) {
    (void)state;
    test_server server = modelled_start(4, 8, NEVER_MS, NEVER_MS);
    char id[64];
    int fd = begin(&server, "");
    take_id(fd, id);
    expect_status_of(&server, id, "queued");
    for (int i = 1; i <= 2; i++) { /* an event each */
        step_on(&server, 1);
        wait_for_tokens(&server, i);
    }
    expect_status_of(&server, id, "in_progress");
    hang_up(fd);
    wait_for_metric(&server, "requests_cut_total", NULL, 1);
    int followers[3] = {follow(&server, id, ""), follow(&server, id, "&starting_after=5"),
                        follow(&server, id, "&starting_after=6")};
    wait_for_metric(&server, "http_connections", NULL, 4);
    int left = follow(&server, id, "");
    hang_up(left);
    wait_for_metric(&server, "requests_cut_total", NULL, 2);
    assert_int_equal(modelled_step(&server).n_running, 1);
    step_on(&server, N_TOKENS);
    json_t *all = hear_events(followers[0]);
    for (int i = 1; i < 3; i++) {
        json_t *events = hear_events(followers[i]);
        assert_int_equal(number_of(events, 0), 5 + i);
        expect_tail(events, all);
        assert_string_equal(type_of(events, json_array_size(events) - 1), "response.incomplete");
        json_decref(events);
    }
    char *text = events_join(all, "response.output_text.delta", NULL, "delta");
    char *done = events_join(all, "response.output_text.done", NULL, "text");
    assert_string_equal(text, done);
    assert_true(strlen(text) >= N_TOKENS);
    free(done);
    free(text);
    json_decref(all);
    expect_status_of(&server, id, "incomplete");
    server_stop(&server);
}

/* Streams of one that is cancelled or deleted end, and those that follow it know no more. */
static void streams_end_with_it(void **state) {
    (void)state;
    test_server server = modelled_start(4, 8, NEVER_MS, NEVER_MS);
    for (int deletes = 0; deletes < 2; deletes++) {
        char id[64], path[128];
        int fd = begin(&server, "");
        take_id(fd, id);
        modelled_step(&server);
        wait_for_tokens(&server, deletes + 1);
        int follower = follow(&server, id, "&starting_after=0");
        wait_for_metric(&server, "http_connections", NULL, 3);
        snprintf(path, sizeof path, deletes ? PATH "/%s" : PATH "/%s/cancel", id);
        expect_status(ask(&server, deletes ? "DELETE" : "POST", path, "", deletes ? NULL : ""),
                      200);
        json_t *events = hear_events(follower);
        assert_int_equal(number_of(events, 0), 1);
        assert_string_equal(type_of(events, json_array_size(events) - 1),
                            "response.output_text.delta");
        json_decref(events);
        hang_up(fd);
        if (deletes) {
            expect_refusal(follow(&server, id, ""), 404, "response_id");
        } else {
            expect_status_of(&server, id, "cancelled");
            events = hear_events(follow(&server, id, "&starting_after=2"));
            assert_int_equal(number_of(events, 0), 3);
            json_decref(events);
        }
        step_on(&server, 1);
    }
    assert_int_equal(modelled_step(&server).n_cancelled, 2);
    server_stop(&server);
}

/* An engine that fails ends the stream with an event, and so does a server that ends. */
static void failures_are_events(void **state) {
    (void)state;
    test_server server = modelled_start(4, 8, NEVER_MS, 1);
    char id[64];
    int fd = begin(&server, "");
    modelled_step(&server);
    modelled_fail(&server);
    json_t *events = hear_events(fd);
    read_id(events, id);
    assert_string_equal(type_of(events, json_array_size(events) - 1), "response.failed");
    json_decref(events);
    expect_status_of(&server, id, "failed");
    fd = begin(&server, "");
    take_id(fd, id);
    int follower = follow(&server, id, "");
    wait_for_metric(&server, "http_connections", NULL, 3);
    server_stop(&server);
    events = hear_events(follower);
    assert_string_equal(type_of(events, json_array_size(events) - 1), "response.failed");
    json_decref(events);
    hang_up(fd);
}

static void wrong_queries_are_refused(void **state) {
    (void)state;
    static const char *const wrong[][2] = {{"&starting_after=-1", "starting_after"},
                                           {"&starting_after=", "starting_after"},
                                           {"&starting_after=1x", "starting_after"},
                                           {"&starting_after=99999999999", "starting_after"},
                                           {"&starting_after=+1", "starting_after"}};
    char id[64], path[128];
    http_response heard = post(&shared, PATH, "{\"input\":\"2+3=\"}");
    snprintf(id, sizeof id, "%s", response_field(&heard, "id"));
    response_free(&heard);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refusal(follow(&shared, id, wrong[i][0]), 400, wrong[i][1]);
    expect_refusal(follow(&shared, id, ""), 400, "stream"); /* it was not made so */
    snprintf(path, sizeof path, PATH "/%s?stream=yes", id);
    expect_refusal(say_request(&shared, "GET", path, ""), 400, "stream");
    snprintf(path, sizeof path, PATH "/%s?stream=false&starting_after=1", id);
    expect_refusal(say_request(&shared, "GET", path, ""), 400, "starting_after");
    expect_refusal(follow(&shared, "resp_none", ""), 404, "response_id");
    expect_refusal(say_request(&shared, "POST", PATH,
                               "{\"input\":\"a\",\"background\":true,\"stream\":true,\"store\":"
                               "false}"),
                   400, "background");
}

/* Beyond the bound the oldest events go; a client that has come so far misses none. */
static void events_are_bounded(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--max-seqs=1", "--max-response-bytes=24000");
    static const char body[] = "{\"input\":\"Tell me a story\",\"background\":true,\"stream\":true,"
                               "\"temperature\":0,\"metadata\":{\"a\":\"b\"}}";
    char id[64], query[64];
    json_t *events = hear_events(say_request(&server, "POST", PATH, body));
    size_t n_events = json_array_size(events);
    for (size_t i = 0; i < n_events; i++)
        assert_int_equal(number_of(events, i), i);
    assert_true(n_events > 100);
    read_id(events, id);
    expect_refusal(follow(&server, id, ""), 400, "starting_after");
    expect_refusal(follow(&server, id, "&starting_after=10"), 400, "starting_after");
    snprintf(query, sizeof query, "&starting_after=%zu", n_events - 2);
    json_t *tail = hear_events(follow(&server, id, query));
    assert_int_equal(json_array_size(tail), 1);
    expect_tail(tail, events);
    json_decref(tail);
    json_decref(events);
    server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams),
        cmocka_unit_test(clients_come_back),
        cmocka_unit_test(streams_end_with_it),
        cmocka_unit_test(failures_are_events),
        cmocka_unit_test(wrong_queries_are_refused),
        cmocka_unit_test(events_are_bounded),
    };
    return cmocka_run_group_tests(tests, shared_start, shared_stop);
}
