/* The server over an engine whose steps the test asks for: nothing here depends on time. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "server/client.h"
#include "test.h"

enum { NEVER_MS = 3600000 };

/* A completion of one token of prompt. */
static int begin(const test_server *server, unsigned max_tokens, const char *streams) {
    char body[128], head[256];
    int fd = dial(server);
    snprintf(body, sizeof body, "{\"prompt\":[5],\"max_tokens\":%u,\"stream\":%s}", max_tokens,
             streams);
    snprintf(head, sizeof head,
             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    say_text(fd, head);
    return fd;
}

/* Says a request that the answer of which is heard later. */
static int say_post(const test_server *server, const char *path, const char *body) {
    char head[512];
    int fd = dial(server);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", path,
             strlen(body), body);
    say_text(fd, head);
    return fd;
}

/* So many prompts, of a token each, have been submitted since the start. */
static void wait_for_submitted(const test_server *server, unsigned count) {
    wait_for_metric(server, "prompt_tokens_total", NULL, count);
}

/* A prompt has been submitted since there were so many tokens of prompts; returns how many now. */
static double wait_for_more(const test_server *server, double before) {
    double now = before;
    for (int times = 0; times < 3000 && now <= before; times++) {
        sleep_ms(2);
        now = metric(server, "prompt_tokens_total", NULL);
    }
    assert_true(now > before);
    return now;
}

static void wait_for_health(const test_server *server, int status) {
    for (int times = 0; times < 3000; times++) {
        http_response heard = get(server, "/health");
        int seen = heard.status;
        response_free(&heard);
        if (seen == status)
            return;
        sleep_ms(20);
    }
    fail_msg("/health does not become %d", status);
}

/* The text of a stream of `count` tokens. */
static void expect_tokens(const http_response *heard, unsigned count) {
    char *text = stream_text(heard), *expected = calloc(count + 1, 12);
    assert_non_null(expected);
    for (unsigned i = 0; i < count; i++)
        sprintf(expected + strlen(expected), "%u ", i);
    assert_string_equal(text, expected);
    free(text);
    free(expected);
}

static unsigned count_of(const char *text, const char *part) {
    unsigned count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* ---- tokens ------------------------------------------------------------------------------ */

static void loses_no_tokens(void **state) {
    (void)state;
    enum { STREAMS = 20, TOKENS = 400 };
    test_server server = modelled_start(STREAMS, 0, NEVER_MS, NEVER_MS);
    int fds[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        fds[i] = begin(&server, TOKENS, "true");
    wait_for_submitted(&server, STREAMS);
    for (int i = 0; i <= TOKENS; i++) /* as fast as they go: tokens go out together */
        modelled_step(&server);
    for (int i = 0; i < STREAMS; i++) {
        http_response heard = hear(fds[i], false);
        assert_int_equal(heard.status, 200);
        assert_false(heard.is_cut);
        expect_tokens(&heard, TOKENS);
        assert_int_equal(count_of(heard.body, "\"finish_reason\":\"length\""), 1);
        assert_int_equal(count_of(heard.body, "[DONE]"), 1);
        response_free(&heard);
        hang_up(fds[i]);
    }
    server_stop(&server);
}

/* ---- disconnects ------------------------------------------------------------------------- */

/* Who leaves is cancelled by the next step, and nobody else. */
static void cancels_within_a_step(void **state) {
    (void)state;
    test_server server = modelled_start(8, 8, NEVER_MS, NEVER_MS);
    int stream = begin(&server, 1000, "true"), whole = begin(&server, 1000, "false"),
        stays = begin(&server, 5, "true");
    wait_for_submitted(&server, 3);
    modelled_step(&server);
    assert_int_equal(modelled_step(&server).n_running, 3);
    hang_up(stream);
    hang_up(whole);
    wait_for_metric(&server, "requests_cut_total", NULL, 2);
    wait_for_metric(&server, "num_requests_open", NULL, 1);
    modelled_counts counts = modelled_step(&server);
    assert_int_equal(counts.n_cancelled, 2);
    assert_int_equal(counts.n_running, 1);
    int late = begin(&server, 1000, "true"); /* leaves before any step sees it */
    wait_for_submitted(&server, 4);
    hang_up(late);
    wait_for_metric(&server, "requests_cut_total", NULL, 3);
    counts = modelled_step(&server);
    assert_int_equal(counts.n_cancelled, 3);
    modelled_step(&server);
    counts = modelled_step(&server);
    assert_int_equal(counts.n_finished, 1);
    assert_int_equal(counts.n_running, 0);
    http_response heard = hear(stays, false);
    expect_tokens(&heard, 5);
    response_free(&heard);
    assert_true(metric(&server, "request_success_total", "abort") == 3);
    assert_true(metric(&server, "request_success_total", "length") == 1);
    assert_true(metric(&server, "num_requests_open", NULL) == 0);
    hang_up(stays);
    server_stop(&server);
}

/* ---- health ------------------------------------------------------------------------------ */

static void tells_of_an_engine_that_hangs(void **state) {
    (void)state;
    test_server server = modelled_start(8, 8, 50, NEVER_MS);
    int fd = begin(&server, 1, "false");
    wait_for_health(&server, 503);
    http_response heard = get(&server, "/ready");
    assert_int_equal(heard.status, 503);
    assert_string_equal(response_field(&heard, "status"), "the engine makes no progress");
    response_free(&heard);
    wait_for_submitted(&server, 1);
    modelled_step(&server);
    assert_int_equal(modelled_step(&server).n_finished, 1);
    expect_status(hear(fd, false), 200);
    expect_status(get(&server, "/health"), 200); /* nothing to do is no hang */
    hang_up(fd);
    server_stop(&server);
}

static void tells_of_an_engine_that_fails(void **state) {
    (void)state;
    test_server server = modelled_start(8, 8, NEVER_MS, NEVER_MS);
    for (unsigned i = 0; i < 3; i++) {
        expect_status(get(&server, "/health"), 200);
        int whole = begin(&server, 5, "false"), stream = begin(&server, 5, "true");
        wait_for_submitted(&server, 2 * i + 2);
        assert_int_equal(modelled_fail(&server).n_failed, 2 * i + 2);
        expect_status(hear(whole, false), 500);
        http_response heard = hear(stream, false);
        assert_non_null(strstr(heard.body, "the step failed"));
        assert_false(heard.is_cut);
        response_free(&heard);
        hang_up(whole);
        hang_up(stream);
    }
    expect_status(get(&server, "/health"), 503);
    int fd = begin(&server, 1, "false");
    wait_for_submitted(&server, 7);
    modelled_step(&server);
    modelled_step(&server);
    expect_status(hear(fd, false), 200);
    expect_status(get(&server, "/health"), 200);
    hang_up(fd);
    server_stop(&server);
}

/* Each API has an event for errors, with which a stream ends; nothing says before that all went
 * well. */
static void streams_end_with_their_error(void **state) {
    (void)state;
#define MESSAGES "\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
#define OPENAI   "data: {\"error\":{\"message\":\"the step failed\",\"type\":\"server_error\""
    static const struct {
        const char *path, *body, *error, *end, *never;
    } apis[] = {
        {"/v1/chat/completions", MESSAGES ",\"stream\":true", OPENAI, "data: [DONE]\n\n",
         "_reason\":\""},
        {"/v1/completions", "\"prompt\":[5],\"stream\":true", OPENAI, "data: [DONE]\n\n",
         "_reason\":\""},
        {"/v1/responses", "\"input\":\"a\",\"stream\":true", "event: response.failed\n", "}}\n\n",
         "\"completed\""},
        {"/v1/messages", MESSAGES ",\"stream\":true", "event: error\ndata: {\"type\":\"error\"",
         "\"message\":\"the step failed\"}}\n\n", "message_stop"},
        {"/api/chat", MESSAGES, "{\"error\":", "\n{\"error\":\"the step failed\"}\n",
         "\"done\":true"},
        {"/api/generate", "\"prompt\":\"a\"", "{\"error\":", "\n{\"error\":\"the step failed\"}\n",
         "\"done\":true"},
        {"/completion", "\"prompt\":[5],\"stream\":true", OPENAI, "}}\n\n", "\"stop\":true"},
    };
    enum { N_APIS = sizeof apis / sizeof *apis };
    test_server server = modelled_start(8, 8, NEVER_MS, NEVER_MS);
    int fds[N_APIS];
    double n_tokens = 0;
    for (size_t i = 0; i < N_APIS; i++) {
        char body[256];
        snprintf(body, sizeof body, "{%s}", apis[i].body);
        fds[i] = say_post(&server, apis[i].path, body);
        n_tokens = wait_for_more(&server, n_tokens);
    }
    assert_int_equal(modelled_step(&server).n_running, N_APIS);
    wait_for_metric(&server, "generation_tokens_total", NULL, N_APIS);
    assert_int_equal(modelled_fail(&server).n_failed, N_APIS);
    for (size_t i = 0; i < N_APIS; i++) {
        http_response heard = hear(fds[i], false);
        size_t n = strlen(heard.body), n_end = strlen(apis[i].end);
        if (heard.status != 200 || heard.is_cut || count_of(heard.body, apis[i].error) != 1 ||
            strstr(heard.body, "the step failed") == NULL || n < n_end ||
            strcmp(heard.body + n - n_end, apis[i].end) != 0 ||
            strstr(heard.body, apis[i].never) != NULL)
            fail_msg("%s: %d: %s", apis[i].path, heard.status, heard.body);
        response_free(&heard);
        hang_up(fds[i]);
    }
    server_stop(&server);
}

/* What a stream's last event says of a response can be had by its id. */
static void keeps_a_stream_that_failed(void **state) {
    (void)state;
    static const char event[] = "event: response.failed\n", begin_id[] = "\"id\":\"";
    test_server server = modelled_start(8, 8, NEVER_MS, NEVER_MS);
    int fd = say_post(&server, "/v1/responses", "{\"input\":\"a\",\"stream\":true}");
    wait_for_more(&server, 0);
    assert_int_equal(modelled_fail(&server).n_failed, 1);
    http_response heard = hear(fd, false);
    const char *failed = strstr(heard.body, event);
    const char *id = failed != NULL ? strstr(failed, begin_id) : NULL;
    assert_non_null(id);
    char path[128];
    id += strlen(begin_id);
    snprintf(path, sizeof path, "/v1/responses/%.*s", (int)strcspn(id, "\""), id);
    response_free(&heard);
    hang_up(fd);
    heard = get(&server, path);
    if (heard.status != 200 || strstr(heard.body, "\"status\":\"failed\"") == NULL ||
        strstr(heard.body, "\"message\":\"the step failed\"") == NULL)
        fail_msg("%s: %d: %s", path, heard.status, heard.body);
    response_free(&heard);
    server_stop(&server);
}

/* Each stream ends with an error, and the server with a status. */
static void ends_when_the_gpu_is_lost(void **state) {
    (void)state;
    test_server server = modelled_start_gpu(8, 8, NEVER_MS, NEVER_MS);
    int stream = begin(&server, 5, "true"), whole = begin(&server, 5, "false");
    wait_for_submitted(&server, 2);
    assert_int_equal(modelled_lose(&server).n_failed, 2);
    http_response heard = hear(stream, false);
    assert_non_null(strstr(heard.body, "the step failed"));
    assert_false(heard.is_cut);
    response_free(&heard);
    expect_status(hear(whole, false), 500);
    char *log;
    assert_int_equal(server_wait(&server, &log), 1);
    assert_non_null(strstr(log, "the GPU failed for good"));
    free(log);
    hang_up(stream);
    hang_up(whole);
}

static void ends_when_the_gpu_hangs(void **state) {
    (void)state;
    test_server server = modelled_start_gpu(8, 8, 50, NEVER_MS);
    int stream = begin(&server, 5, "true");
    http_response heard = hear(stream, false); /* of an engine that never steps */
    assert_non_null(strstr(heard.body, "the server ends"));
    assert_int_equal(count_of(heard.body, "data: [DONE]\n\n"), 1);
    response_free(&heard);
    char *log;
    assert_int_equal(server_wait(&server, &log), 1);
    assert_non_null(strstr(log, "the GPU hangs"));
    free(log);
    hang_up(stream);
}

/* ---- health of several models ------------------------------------------------------------ */

/* Asks until the answer has the status and the text. */
static void wait_for(const test_server *server, const char *path, const char *body, int status,
                     const char *text) {
    http_response heard = {0};
    for (int times = 0; times < 3000; times++) {
        response_free(&heard);
        heard = body != NULL ? post(server, path, body) : get(server, path);
        if (heard.status == status && strstr(heard.body, text) != NULL) {
            response_free(&heard);
            return;
        }
        sleep_ms(20);
    }
    fail_msg("%s: %d and %s, not %d and %s", path, heard.status, heard.body, status, text);
}

/* While the model waits at the gate, to be loaded or freed. */
static void expect_health_at_gate(test_server *server, const char *model, const char *state) {
    char path[64], text[64];
    snprintf(path, sizeof path, "/v1/models/%s", model);
    snprintf(text, sizeof text, "\"value\":\"%s\"", state);
    wait_for(server, path, NULL, 200, text);
    for (int i = 0; i < 20; i++) { /* each time longer than no progress is a hang */
        expect_status(get(server, "/health"), 200);
        sleep_ms(2);
    }
    modelled_pass_load(server);
}

static void load(test_server *server, const char *model) {
    char body[64];
    snprintf(body, sizeof body, "{\"model\":\"%s\"}", model);
    int fd = say_post(server, "/models/load", body);
    expect_health_at_gate(server, model, "loading");
    expect_status(hear(fd, false), 200);
    hang_up(fd);
}

static void tells_which_model_hangs(void **state) {
    (void)state;
    static const char to_a[] = "{\"model\":\"a\",\"prompt\":[5],\"max_tokens\":2}",
                      to_b[] = "{\"model\":\"b\",\"prompt\":[5],\"max_tokens\":2}",
                      hang_a[] = "{\"model\":\"a\",\"prompt\":[7],\"max_tokens\":2}",
                      long_b[] = "{\"model\":\"b\",\"prompt\":[5],\"max_tokens\":500000}";
    test_server server = modelled_start_models(3, 200, false);
    load(&server, "a"), load(&server, "b");
    int busy = say_post(&server, "/v1/completions", long_b),
        stuck = say_post(&server, "/v1/completions", hang_a);
    wait_for(&server, "/health", NULL, 503,
             "{\"status\":\"the engine makes no progress\",\"models\":[\"a\"]}");
    wait_for(&server, "/ready", NULL, 200, "ready");
    wait_for(&server, "/v1/completions", to_b, 200, "\"finish_reason\":\"length\"");
    wait_for_metric(&server, "engine_hangs", "\"a\"", 1);
    wait_for_metric(&server, "engine_hangs", "\"b\"", 0);
    wait_for(&server, "/v1/models/a", NULL, 200,
             "\"failed\":true,\"error\":\"the engine makes no progress\"");
    wait_for(&server, "/v1/models/b", NULL, 200, "\"status\":{\"value\":\"loaded\"}");
    expect_status(post(&server, "/v1/completions", to_a), 503);
    expect_status(post(&server, "/models/unload", "{\"model\":\"a\"}"), 409);
    modelled_pass_hang(&server);
    expect_status(hear(stuck, false), 200);
    wait_for(&server, "/health", NULL, 200, "ok");
    wait_for(&server, "/v1/completions", to_a, 200, "\"finish_reason\":\"length\"");
    hang_up(busy), hang_up(stuck);
    for (int i = 0; i < 3; i++)
        modelled_pass_load(&server);
    server_stop(&server);
}

/* It is not freed while its engine hangs, which would keep others from being loaded. */
static void loads_beside_a_model_that_hangs(void **state) {
    (void)state;
    static const char hang_a[] = "{\"model\":\"a\",\"prompt\":[7],\"max_tokens\":2}";
    test_server server = modelled_start_models(2, 200, false);
    load(&server, "a");
    int stuck = say_post(&server, "/v1/completions", hang_a);
    wait_for_submitted(&server, 1);
    hang_up(stuck);
    wait_for_metric(&server, "requests_cut_total", NULL, 1);
    /* before or after it is seen to hang */
    http_response heard = post(&server, "/models/unload", "{\"model\":\"a\"}");
    assert_true(heard.status == 200 || heard.status == 409);
    response_free(&heard);
    wait_for(&server, "/health", NULL, 503, "\"models\":[\"a\"]");
    int fd = say_post(&server, "/models/load", "{\"model\":\"b\"}");
    modelled_pass_load(&server);
    expect_status(hear(fd, false), 200);
    hang_up(fd);
    wait_for(&server, "/health", NULL, 503, "\"models\":[\"a\"]");
    modelled_pass_hang(&server);
    wait_for(&server, "/health", NULL, 200, "ok");
    for (int i = 0; i < 2; i++)
        modelled_pass_load(&server);
    server_stop(&server);
}

/* Each of these takes longer than an engine with work may be silent. */
static void models_that_come_and_go_do_not_hang(void **state) {
    (void)state;
    static const char to_a[] = "{\"model\":\"a\",\"prompt\":[5],\"max_tokens\":2}";
    test_server server = modelled_start_models(2, 1, false);
    int fd = say_post(&server, "/v1/completions", to_a);
    expect_health_at_gate(&server, "a", "loading");
    expect_status(hear(fd, false), 200);
    hang_up(fd);
    expect_status(get(&server, "/health"), 200);
    expect_status(post(&server, "/models/sleep", "{\"model\":\"a\"}"), 200);
    expect_health_at_gate(&server, "a", "loaded");
    wait_for(&server, "/v1/models/a", NULL, 200, "\"value\":\"sleeping\"");
    load(&server, "a");
    expect_status(post(&server, "/models/unload", "{\"model\":\"a\"}"), 200);
    expect_health_at_gate(&server, "a", "unloaded");
    load(&server, "a");
    modelled_pass_load(&server);
    server_stop(&server);
}

static void ends_when_the_gpu_of_a_model_hangs(void **state) {
    (void)state;
    test_server server = modelled_start_models(2, 50, true);
    load(&server, "a"), load(&server, "b");
    int fd = say_post(&server, "/v1/completions",
                      "{\"model\":\"a\",\"prompt\":[7],\"max_tokens\":2,\"stream\":true}");
    http_response heard = hear(fd, false);
    assert_non_null(strstr(heard.body, "the server ends"));
    response_free(&heard);
    char *log;
    assert_int_equal(server_wait(&server, &log), 1);
    assert_non_null(strstr(log, "a makes no progress"));
    assert_non_null(strstr(log, "the GPU hangs"));
    free(log);
    hang_up(fd);
}

/* ---- the end ----------------------------------------------------------------------------- */

static void drains(void **state) {
    (void)state;
    test_server server = modelled_start(8, 8, NEVER_MS, NEVER_MS);
    int fd = begin(&server, 3, "true"), idle = dial(&server);
    wait_for_submitted(&server, 1);
    modelled_step(&server);
    kill(server.pid, SIGTERM);
    assert_true(is_closed_within(idle, 60000));
    for (int i = 0; i < 3; i++)
        modelled_step(&server);
    http_response heard = hear(fd, false);
    expect_tokens(&heard, 3);
    assert_non_null(strstr(heard.body, "[DONE]"));
    response_free(&heard);
    assert_int_equal(server_wait(&server, NULL), 0);
    hang_up(fd);
    hang_up(idle);
}

/* Who comes now is told so, and nobody waits for those who come and say little. */
static void tells_that_it_drains(void **state) {
    (void)state;
    test_server server = modelled_start(8, 8, NEVER_MS, NEVER_MS);
    int fd = begin(&server, 2, "true"), idle = dial(&server);
    wait_for_submitted(&server, 1);
    kill(server.pid, SIGTERM);
    assert_true(is_closed_within(idle, 60000));
    http_response heard = get(&server, "/ready");
    assert_int_equal(heard.status, 503);
    assert_string_equal(response_field(&heard, "status"), "draining");
    response_free(&heard);
    expect_status(get(&server, "/health"), 200);
    heard = post(&server, "/v1/completions", "{\"prompt\":[5]}");
    assert_int_equal(heard.status, 503);
    assert_non_null(response_header(&heard, "retry-after"));
    response_free(&heard);
    int slow = dial(&server), once = dial(&server);
    say_text(slow, "GET /rea");
    say_text(once, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\n");
    expect_status(hear(once, false), 200);
    assert_true(is_closed_with_response(&server, once));
    for (int i = 0; i < 3; i++)
        modelled_step(&server);
    heard = hear(fd, false);
    expect_tokens(&heard, 2);
    response_free(&heard);
    assert_int_equal(server_wait(&server, NULL), 0);
    hang_up(fd);
    hang_up(idle);
    hang_up(slow);
    hang_up(once);
}

/* As one whose device hangs, and cannot be waited for. */
static void ends_with_a_stuck_engine(void **state) {
    (void)state;
    test_server server = modelled_start(8, 8, NEVER_MS, 50);
    int fd = begin(&server, 5, "true");
    wait_for_submitted(&server, 1);
    modelled_get_stuck(&server);
    kill(server.pid, SIGTERM);
    http_response heard = hear(fd, false);
    assert_int_equal(count_of(heard.body, "the server ends"), 1);
    response_free(&heard);
    assert_int_equal(server_wait(&server, NULL), 0);
    hang_up(fd);
}

/* What a drain does not wait for ends with one event, or an error. */
static void ends_streams_with_a_last_word(bool asks_twice) {
    test_server server = modelled_start(8, 8, NEVER_MS, asks_twice ? NEVER_MS : 50);
    int stream = begin(&server, 30, "true"), whole = begin(&server, 30, "false"),
        idle = dial(&server);
    wait_for_submitted(&server, 2);
    modelled_step(&server);
    kill(server.pid, SIGTERM);
    assert_true(is_closed_within(idle, 60000));
    if (asks_twice)
        kill(server.pid, SIGTERM);
    http_response heard = hear(stream, false);
    assert_int_equal(heard.status, 200);
    assert_false(heard.is_cut);
    assert_int_equal(count_of(heard.body, "the server ends"), 1);
    assert_int_equal(count_of(heard.body, "data: [DONE]\n\n"), 1);
    response_free(&heard);
    expect_status(hear(whole, false), 503);
    char *log;
    assert_int_equal(server_wait(&server, &log), 0);
    assert_non_null(strstr(log, asks_twice ? "a second signal: 2 sequences are cut off"
                                           : "the drain's time is up: 2 sequences are cut off"));
    assert_int_equal(count_of(log, "1 tokens in, 1 out"), 2);
    free(log);
    hang_up(stream);
    hang_up(whole);
    hang_up(idle);
}

static void drains_for_so_long(void **state) {
    (void)state;
    ends_streams_with_a_last_word(false);
}

static void ends_when_asked_twice(void **state) {
    (void)state;
    ends_streams_with_a_last_word(true);
}

/* A response in the background goes on without its client, until somebody cancels it. */
static void cancels_in_the_background(void **state) {
    (void)state;
    static const char body[] = "{\"input\":\"a\",\"background\":true,\"max_output_tokens\":9}";
    test_server server = modelled_start(4, 4, NEVER_MS, NEVER_MS);
    char id[64], path[128];
    for (int deletes = 0; deletes < 2; deletes++) {
        http_response heard = post(&server, "/v1/responses", body);
        assert_int_equal(heard.status, 200);
        snprintf(id, sizeof id, "%s", response_field(&heard, "id"));
        assert_string_equal(response_field(&heard, "status"), "queued");
        response_free(&heard);
        assert_int_equal(modelled_step(&server).n_running, 1);
        wait_for_metric(&server, "generation_tokens_total", NULL, 1 + (unsigned)deletes);
        snprintf(path, sizeof path, "/v1/responses/%s", id);
        heard = get(&server, path);
        assert_string_equal(response_field(&heard, "status"), "in_progress");
        response_free(&heard);
        if (deletes) {
            expect_status(ask(&server, "DELETE", path, "", NULL), 200);
            expect_status(get(&server, path), 404);
        } else {
            strcat(path, "/cancel");
            for (int times = 0; times < 2; times++) {
                heard = ask(&server, "POST", path, "", "");
                assert_int_equal(heard.status, 200);
                assert_string_equal(response_field(&heard, "status"), "cancelled");
                response_free(&heard);
            }
        }
        wait_for_metric(&server, "num_requests_open", NULL, 0);
        assert_int_equal(modelled_step(&server).n_running, 0);
    }
    server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loses_no_tokens),
        cmocka_unit_test(cancels_within_a_step),
        cmocka_unit_test(tells_of_an_engine_that_hangs),
        cmocka_unit_test(tells_of_an_engine_that_fails),
        cmocka_unit_test(streams_end_with_their_error),
        cmocka_unit_test(keeps_a_stream_that_failed),
        cmocka_unit_test(ends_when_the_gpu_is_lost),
        cmocka_unit_test(ends_when_the_gpu_hangs),
        cmocka_unit_test(tells_which_model_hangs),
        cmocka_unit_test(loads_beside_a_model_that_hangs),
        cmocka_unit_test(models_that_come_and_go_do_not_hang),
        cmocka_unit_test(ends_when_the_gpu_of_a_model_hangs),
        cmocka_unit_test(drains),
        cmocka_unit_test(tells_that_it_drains),
        cmocka_unit_test(ends_with_a_stuck_engine),
        cmocka_unit_test(drains_for_so_long),
        cmocka_unit_test(ends_when_asked_twice),
        cmocka_unit_test(cancels_in_the_background),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
