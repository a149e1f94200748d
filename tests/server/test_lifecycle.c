/* What the server does when clients are slow, gone, many or unwelcome, and when it is to end. */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/client.h"
#include "test.h"

/* A completion that runs for long: the demo model writes on and on. */
#define LONG_BODY(stream)                                                                          \
    "{\"prompt\":\"Once\",\"max_tokens\":1000,\"ignore_eos\":true,\"seed\":5,\"stream\":" stream "}"

static void say_post(int fd, const char *path, const char *body) {
    char head[256];
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", path,
             strlen(body));
    say_text(fd, head);
    say_text(fd, body);
}

/* ---- slow and broken clients ------------------------------------------------------------- */

/* A byte now and then does not buy time: the deadline is for the whole head, and the whole body. */
static void times_slow_clients(void **state) {
    (void)state;
    /* where what begins late is late, too, a test that is held up would hear nothing */
    test_server server = SERVER("--threads=1", "--head-timeout=200", "--body-timeout=200"),
                hasty = SERVER("--threads=1", "--idle-timeout=300");
    static const char head[] =
        "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaa";
    int fd = dial(&server);
    for (size_t i = 0; i + 1 < sizeof head && i < 15; i++) {
        say(fd, head + i, 1);
        sleep_ms(20);
    }
    expect_status(hear(fd, false), 408);
    assert_true(is_closed_with_response(&server, fd));
    hang_up(fd);

    fd = dial(&server);
    say_text(fd, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n");
    for (int i = 0; i < 15; i++) {
        say(fd, "{", 1);
        sleep_ms(20);
    }
    expect_status(hear(fd, false), 408);
    assert_true(is_closed_with_response(&server, fd));
    hang_up(fd);

    fd = dial(&hasty); /* says nothing: no request is late, so nothing is said */
    assert_true(is_closed_within(fd, 60000));
    hang_up(fd);
    server_stop(&server);
    server_stop(&hasty);
}

/* What a client of its own gets, alone, and while others come and go. */
static char *run_stream(const test_server *server) {
    http_response heard = post(
        server, "/v1/completions",
        "{\"prompt\":\"The\",\"max_tokens\":200,\"ignore_eos\":true,\"seed\":9,\"stream\":true}");
    assert_int_equal(heard.status, 200);
    assert_false(heard.is_cut);
    char *text = stream_text(&heard);
    response_free(&heard);
    return text;
}

static void cancels_those_who_leave(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--max-seqs=4");
    char *alone = run_stream(&server);
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = dial(&server);
        say_post(fds[i], "/v1/completions", i == 0 ? LONG_BODY("false") : LONG_BODY("true"));
    }
    wait_for_metric(&server, "num_requests_open", NULL, 3);
    for (int i = 0; i < 3; i++)
        hang_up(fds[i]);
    char *among_others = run_stream(&server);
    assert_string_equal(among_others, alone);
    wait_for_metric(&server, "num_requests_open", NULL, 0);
    wait_for_metric(&server, "requests_cut_total", NULL, 3);
    free(alone);
    free(among_others);
    server_stop(&server);
}

/* Waiting behind another, a client leaves: nothing of it runs. */
static void cancels_those_who_wait(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--max-seqs=1");
    int running = dial(&server), waiting = dial(&server);
    say_post(running, "/v1/completions", LONG_BODY("true"));
    wait_for_metric(&server, "num_requests_open", NULL, 1);
    say_post(waiting, "/v1/completions", LONG_BODY("true"));
    wait_for_metric(&server, "num_requests_open", NULL, 2);
    hang_up(waiting);
    wait_for_metric(&server, "num_requests_open", NULL, 1);
    hang_up(running);
    wait_for_metric(&server, "num_requests_open", NULL, 0);
    server_stop(&server);
}

/* Bodies that do not end are held within one budget for all of them. */
static void bounds_all_bodies_together(void **state) {
    (void)state;
    enum { N_CLIENTS = 3, PART = 30000 };
    test_server server = SERVER("--threads=1", "--max-bodies-bytes=100000");
    int fds[N_CLIENTS];
    char *part = malloc(PART);
    memset(part, ' ', PART);
    for (int i = 0; i < 3; i++) {
        fds[i] = dial(&server);
        say_text(fds[i],
                 "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40000\r\n\r\n");
        say(fds[i], part, PART);
        expect_status(get(&server, "/health"), 200);
    }
    char *body = calloc(1, PART + 1);
    memcpy(body, part, PART);
    http_response refused = post(&server, "/tokenize", body);
    assert_string_equal(response_header(&refused, "retry-after"), "1");
    expect_status(refused, 503);
    hang_up(fds[0]);
    for (int i = 0; i < 3000 && refused.status == 503; i++) { /* until the server has seen it */
        refused = post(&server, "/tokenize", body);
        response_free(&refused);
    }
    assert_int_equal(refused.status, 400); /* read, and no JSON */
    hang_up(fds[1]);
    hang_up(fds[2]);
    server_stop(&server);
    free(body);
    free(part);
}

/* Who reads the log may stop: lines are dropped and counted, and all else goes on. */
static void goes_on_while_nobody_reads_its_log(void **state) {
    (void)state;
    int log[2];
    char path[600];
    assert_int_equal(pipe(log), 0);
    test_server server = server_start_logging(log[1], (const char *const[]){"--threads=1", NULL});
    snprintf(path, sizeof path, "/%0500d", 0);
    for (int i = 0; i < 1000; i++)
        expect_status(get(&server, path), 404);
    assert_true(metric(&server, "log_lines_dropped_total", NULL) > 100);
    server_stop(&server);
    close(log[0]);
}

static void hang_up_of_the_terminal_drains(void **state) {
    (void)state;
    char *log;
    test_server server = SERVER("--threads=1");
    expect_status(get(&server, "/health"), 200); /* it takes signals now */
    kill(server.pid, SIGHUP);
    assert_int_equal(server_wait(&server, &log), 0);
    assert_non_null(strstr(log, "SIGHUP: waiting for 0 sequences"));
    free(log);
}

/* A stream that nobody reads is cut once its bound is reached. */
static void cuts_unread_streams(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--max-unread-bytes=4096", "--unread-timeout=60000");
    int fd = dial(&server), small = 2048;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    /* many streams on one connection would not do: one exchange follows the other */
    say_post(fd, "/v1/completions",
             "{\"prompt\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\",\"k\",\"l\","
             "\"m\",\"n\",\"o\",\"p\"],\"max_tokens\":1000,\"ignore_eos\":true,\"stream\":true,"
             "\"logprobs\":20}");
    wait_for_metric(&server, "requests_cut_total", NULL, 1);
    wait_for_metric(&server, "num_requests_open", NULL, 0);
    assert_true(server_is_alive(&server));
    hang_up(fd);
    server_stop(&server);
}

/* ---- load -------------------------------------------------------------------------------- */

static void refuses_when_full(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--max-seqs=1", "--max-waiting=1");
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = dial(&server);
        say_post(fds[i], "/v1/completions", LONG_BODY("true"));
        wait_for_metric(&server, "num_requests_open", NULL, i + 1);
    }
    http_response heard = post(&server, "/v1/completions", "{\"prompt\":\"x\"}");
    assert_int_equal(heard.status, 429);
    assert_non_null(response_header(&heard, "retry-after"));
    response_free(&heard);
    expect_status(get(&server, "/health"), 200);
    hang_up(fds[0]);
    hang_up(fds[1]);
    wait_for_metric(&server, "num_requests_open", NULL, 0);
    expect_status(post(&server, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":1}"), 200);
    /* more than the server ever holds is the request's fault */
    expect_status(post(&server, "/v1/completions", "{\"prompt\":[\"a\",\"b\",\"c\"]}"), 400);
    server_stop(&server);
}

static void waits_for_free_connections(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--max-connections=2");
    int fds[3] = {dial(&server), dial(&server), dial(&server)};
    static const char ask_health[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    say_text(fds[0], ask_health);
    expect_status(hear(fds[0], false), 200);
    say_text(fds[2], ask_health); /* not accepted yet */
    hang_up(fds[0]);
    expect_status(hear(fds[2], false), 200);
    hang_up(fds[1]);
    hang_up(fds[2]);
    server_stop(&server);
}

/* ---- nothing to do ----------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__)
#define HAS_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_THREAD_SANITIZER
#endif
#endif

/* How often the server's threads went to sleep: once more for each time that one was woken. */
static long count_sleeps(pid_t pid) {
    char path[64], line[256];
    long sum = 0, count;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    assert_non_null(threads);
    for (const struct dirent *entry; (entry = readdir(threads)) != NULL;) {
        char status[512];
        snprintf(status, sizeof status, "%s/%s/status", path, entry->d_name);
        FILE *file = entry->d_name[0] != '.' ? fopen(status, "r") : NULL;
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1)
                sum += count;
        if (file)
            fclose(file);
    }
    closedir(threads);
    return sum;
}

/* Neither a timer nor a poll wakes an idle server, one that has served and that has a connection.
 */
static void sleeps_when_idle(void **state) {
    (void)state;
    enum { TIMES = 10, WATCHED_MS = 1500 };
#ifdef HAS_THREAD_SANITIZER
    skip(); /* its own thread wakes ten times a second */
#endif
    test_server server = SERVER("--threads=2");
    int fd = dial(&server);
    say_post(fd, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":2}");
    expect_status(hear(fd, false), 200);
    bool slept = false;
    for (int times = 0; times < TIMES && !slept; times++) { /* what served goes to sleep first */
        long before = count_sleeps(server.pid);
        assert_true(before > 0);
        sleep_ms(WATCHED_MS);
        slept = count_sleeps(server.pid) == before;
    }
    assert_true(slept);
    hang_up(fd);
    server_stop(&server);
}

/* ---- connections ------------------------------------------------------------------------- */

static void keeps_connections(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1");
    int fd = dial(&server);
    for (int i = 0; i < 3; i++) {
        say_post(fd, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":2}");
        expect_status(hear(fd, false), 200);
    }
    /* pipelined: answers come in the order of the requests */
    say_text(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    say_post(fd, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":2,\"stream\":true}");
    say_text(fd, "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
    say_text(fd, "HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    say_text(fd, "GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    expect_status(hear(fd, false), 200);
    http_response stream = hear(fd, false);
    assert_non_null(strstr(stream.body, "[DONE]"));
    response_free(&stream);
    expect_status(hear(fd, false), 404);
    expect_status(hear(fd, true), 200);
    http_response last = hear(fd, false);
    assert_string_equal(response_header(&last, "connection"), "close");
    response_free(&last);
    assert_true(is_closed_with_response(&server, fd));
    hang_up(fd);
    server_stop(&server);
}

/* Thousands of requests in one write are answered one after another. */
static void answers_long_pipelines(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    static const char one[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    test_server server = SERVER("--threads=1", "--no-log");
    char *all = malloc(COUNT * sizeof one);
    assert_non_null(all);
    all[0] = '\0';
    for (int i = 0; i < COUNT; i++)
        memcpy(all + (size_t)i * (sizeof one - 1), one, sizeof one);
    int fd = dial(&server);
    say_text(fd, all);
    for (int i = 0; i < COUNT; i++)
        expect_status(hear(fd, false), 200);
    hang_up(fd);
    free(all);
    server_stop(&server);
}

static void serves_http_1_0(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1");
    int fd = dial(&server);
    static const char body[] = "{\"prompt\":\"x\",\"max_tokens\":2,\"stream\":true}";
    char request[256];
    snprintf(request, sizeof request,
             "POST /v1/completions HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
    say_text(fd, request);
    http_response heard = hear(fd, false);
    assert_int_equal(heard.status, 200);
    assert_null(response_header(&heard, "transfer-encoding"));
    assert_non_null(strstr(heard.body, "[DONE]"));
    response_free(&heard);
    hang_up(fd);
    server_stop(&server);
}

static void waits_for_expectations(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--max-body-bytes=1000");
    int fd = dial(&server);
    say_text(fd, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                 "Content-Length: 14\r\n\r\n");
    expect_status(hear(fd, false), 100);
    say_text(fd, "{\"prompt\":\"a\"}");
    expect_status(hear(fd, false), 200);
    hang_up(fd);
    fd = dial(&server); /* too large: refused before it is sent */
    say_text(fd, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                 "Content-Length: 1001\r\n\r\n");
    expect_status(hear(fd, false), 413);
    hang_up(fd);
    server_stop(&server);
}

/* ---- who may, and what is said ----------------------------------------------------------- */

static void asks_for_keys(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--api-key=sesame", "--api-key=open-1");
    expect_status(get(&server, "/health"), 200);
    expect_status(get(&server, "/ready"), 200);
    static const char *const closed[] = {"/v1/models", "/metrics", "/nothing", "/v1/completions"};
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        expect_status(get(&server, closed[i]), 401);
    static const struct {
        const char *header;
        int status;
    } keys[] = {
        {"Authorization: Bearer sesame\r\n", 200}, {"authorization: bearer open-1\r\n", 200},
        {"Authorization: Bearer sesam\r\n", 401},  {"Authorization: Bearer sesame1\r\n", 401},
        {"Authorization: Bearer \r\n", 401},       {"Authorization: Basic sesame\r\n", 401},
        {"Authorization: sesame\r\n", 401},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        expect_status(ask(&server, "GET", "/v1/models", keys[i].header, NULL), keys[i].status);
    /* a key that is wrong is refused before the body is read */
    int fd = dial(&server);
    say_text(fd,
             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
    expect_status(hear(fd, false), 401);
    hang_up(fd);
    server_stop(&server);
}

static void names_requests(void **state) {
    (void)state;
    char *log;
    test_server server = SERVER("--threads=1", "--log-json");
    http_response heard = ask(&server, "GET", "/v1/models", "X-Request-Id: my-request.7\r\n", NULL);
    assert_string_equal(response_header(&heard, "x-request-id"), "my-request.7");
    response_free(&heard);
    heard = ask(&server, "GET", "/v1/models", "X-Request-Id: no\"good\r\n", NULL);
    assert_int_equal(strncmp(response_header(&heard, "x-request-id"), "req-", 4), 0);
    char own[80];
    snprintf(own, sizeof own, "\"request_id\":\"%s\"", response_header(&heard, "x-request-id"));
    response_free(&heard);
    kill(server.pid, SIGTERM);
    assert_int_equal(server_wait(&server, &log), 0);
    assert_non_null(strstr(log, "\"request_id\":\"my-request.7\""));
    assert_non_null(strstr(log, own));
    assert_non_null(strstr(log, "\"path\":\"/v1/models\",\"status\":200"));
    free(log);
}

static void lets_other_origins_in(void **state) {
    (void)state;
    static const char origin[] = "Origin: http://page.example\r\n";
    test_server server = SERVER("--threads=1", "--cors=http://page.example", "--api-key=k");
    http_response heard =
        ask(&server, "OPTIONS", "/v1/completions",
            "Origin: http://page.example\r\nAccess-Control-Request-Method: POST\r\n"
            "Access-Control-Request-Headers: x-stainless-os, authorization\r\n",
            NULL);
    assert_int_equal(heard.status, 204);
    assert_string_equal(response_header(&heard, "access-control-allow-headers"),
                        "x-stainless-os, authorization");
    assert_string_equal(response_header(&heard, "access-control-allow-origin"),
                        "http://page.example");
    response_free(&heard);
    heard = ask(&server, "GET", "/health", "Origin: http://other.example\r\n", NULL);
    assert_null(response_header(&heard, "access-control-allow-origin"));
    response_free(&heard);
    heard = ask(&server, "OPTIONS", "/v1/completions", origin, NULL);
    assert_non_null(strstr(response_header(&heard, "access-control-allow-headers"), "x-api-key"));
    response_free(&heard);
    server_stop(&server);
    server = SERVER("--threads=1");
    expect_status(ask(&server, "OPTIONS", "/v1/completions", "", NULL), 405);
    server_stop(&server);
}

/* Without a key at a loopback address: what shows that a page of some site is behind it, by DNS
 * rebinding or not, is refused. */
static void keeps_sites_out(void **state) {
    (void)state;
    static const struct {
        const char *host, *origin;
        int status;
    } cases[] = {
        {"localhost:8080", NULL, 200},
        {"127.0.0.1:8080", "http://localhost:3000", 200},
        {"[::1]:8080", "http://[::1]:3000", 200},
        {"192.168.1.2", NULL, 200},
        {"app.localhost", "vscode-webview://1", 200},
        {"Friend.example:80", NULL, 200},
        {"localhost", "https://friend.example", 200},
        {"site.example", NULL, 403},
        {"localhost.site.example", NULL, 403},
        {"127.0.0.1.site.example", NULL, 403},
        {"localhost", "https://site.example", 403},
        {"localhost", "http://203.0.113.5", 403},
        {"localhost", "null", 403},
    };
    test_server server = SERVER("--threads=1", "--allowed-host=friend.example");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char request[512];
        client_context = cases[i].host;
        snprintf(request, sizeof request, "GET /v1/models HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n",
                 cases[i].host, cases[i].origin ? "Origin: " : "",
                 cases[i].origin ? cases[i].origin : "", cases[i].origin ? "\r\n" : "");
        int fd = dial(&server);
        say_text(fd, request);
        expect_status(hear(fd, false), cases[i].status);
        hang_up(fd);
    }
    client_context = "";
    static const char site[] = "Origin: https://site.example\r\n";
    expect_status(ask(&server, "GET", "/health", site, NULL), 200);
    server_stop(&server);
    server = SERVER("--threads=1", "--api-key=k");
    static const char keyed[] = "Authorization: Bearer k\r\nOrigin: https://site.example\r\n";
    expect_status(ask(&server, "GET", "/v1/models", keyed, NULL), 200);
    server_stop(&server);
}

/* Clients put paths together in their own ways. */
static void completes_paths(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1");
    static const char *const found[] = {
        "/v1/models", "/v1/models/",         "/models",  "/models/",
        "/version/",  "/models/linnet-demo", "/health/", "/v1/models/linnet-demo/"};
    static const char *const lost[] = {"/v1/version", "/v1/models//", "//models", "/v2/models"};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        expect_status(get(&server, found[i]), 200);
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        expect_status(get(&server, lost[i]), 404);
    expect_status(post(&server, "/completions/", "{\"prompt\":\"a\",\"max_tokens\":1}"), 200);
    server_stop(&server);
}

/* ---- the end ----------------------------------------------------------------------------- */

static void drains(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1");
    int fd = dial(&server), idle = dial(&server);
    say_post(fd, "/v1/completions",
             "{\"prompt\":\"The\",\"max_tokens\":300,\"ignore_eos\":true,\"stream\":true}");
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 60000), 1);
    kill(server.pid, SIGTERM);
    assert_true(is_closed_within(idle, 60000));
    http_response heard = hear(fd, false);
    assert_false(heard.is_cut);
    assert_non_null(strstr(heard.body, "\"finish_reason\":\"length\""));
    assert_non_null(strstr(heard.body, "[DONE]"));
    response_free(&heard);
    assert_int_equal(server_wait(&server, NULL), 0);
    hang_up(fd);
    hang_up(idle);
}

static void ends_at_once_when_asked_twice(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--max-seqs=1");
    int fds[20], idle = dial(&server);
    for (int i = 0; i < 20; i++) {
        fds[i] = dial(&server);
        say_post(fds[i], "/v1/completions", LONG_BODY("true"));
    }
    wait_for_metric(&server, "num_requests_open", NULL, 20);
    kill(server.pid, SIGTERM);
    assert_true(is_closed_within(idle, 60000)); /* it drains */
    hang_up(idle);
    kill(server.pid, SIGTERM);
    char *log;
    assert_int_equal(server_wait(&server, &log), 0);
    assert_non_null(strstr(log, "sequences are cut off"));
    free(log);
    for (int i = 0; i < 20; i++)
        hang_up(fds[i]);
}

static void drains_for_so_long(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--max-seqs=1", "--drain-timeout=100");
    int fds[20];
    for (int i = 0; i < 20; i++) {
        fds[i] = dial(&server);
        say_post(fds[i], "/v1/completions", LONG_BODY("true"));
    }
    wait_for_metric(&server, "num_requests_open", NULL, 20);
    server_stop(&server);
    for (int i = 0; i < 20; i++)
        hang_up(fds[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_slow_clients),
        cmocka_unit_test(cancels_those_who_leave),
        cmocka_unit_test(cancels_those_who_wait),
        cmocka_unit_test(cuts_unread_streams),
        cmocka_unit_test(bounds_all_bodies_together),
        cmocka_unit_test(goes_on_while_nobody_reads_its_log),
        cmocka_unit_test(hang_up_of_the_terminal_drains),
        cmocka_unit_test(refuses_when_full),
        cmocka_unit_test(waits_for_free_connections),
        cmocka_unit_test(sleeps_when_idle),
        cmocka_unit_test(keeps_connections),
        cmocka_unit_test(answers_long_pipelines),
        cmocka_unit_test(serves_http_1_0),
        cmocka_unit_test(waits_for_expectations),
        cmocka_unit_test(asks_for_keys),
        cmocka_unit_test(names_requests),
        cmocka_unit_test(lets_other_origins_in),
        cmocka_unit_test(keeps_sites_out),
        cmocka_unit_test(completes_paths),
        cmocka_unit_test(drains),
        cmocka_unit_test(ends_at_once_when_asked_twice),
        cmocka_unit_test(drains_for_so_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
