/* The server while one allocation or one system call fails, for each in turn: at its start, in a
 * request, at its end. A request gets the right answer whole, or 503, or its connection closes, in
 * time; the next one gets what it asked for. A sample of them, but for LINNET_FAULTS=all. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faults/process.h"
#include "server/client.h"
#include "server/raw.h"
#include "test.h"

enum { ANSWER_MS = 30000, START_MS = 60000, END_MS = 60000, MAX_ANSWER = 1 << 16 };

typedef struct asked {
    const char *name, *path, *body;
    int status; /* where nothing fails */
} asked;

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
static const asked requests[] = {
    {"chat", "/v1/chat/completions", "{" HI ",\"max_tokens\":4,\"temperature\":0}", 200},
    {"stream", "/v1/chat/completions",
     "{" HI ",\"max_tokens\":4,\"temperature\":0,\"stream\":true}", 200},
    {"schema", "/v1/completions",
     "{\"prompt\":\"a\",\"max_tokens\":4,\"temperature\":0,\"response_format\":{\"type\":"
     "\"json_object\"}}",
     200},
    {"tools", "/v1/chat/completions",
     "{" HI ",\"max_tokens\":6,\"temperature\":0,\"tool_choice\":\"required\",\"tools\":[{\"type\":"
     "\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}]}",
     200},
    {"history", "/v1/chat/completions",
     "{\"messages\":[{\"role\":\"developer\",\"content\":\"Be brief.\"},{\"role\":\"user\","
     "\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c\","
     "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},{\"role\":"
     "\"tool\","
     "\"tool_call_id\":\"c\",\"content\":\"x\"}],\"max_tokens\":4,\"temperature\":0}",
     200},
    {"shapes", "/v1/chat/completions", /* of which the template takes only the second */
     "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":"
     "null,"
     "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\","
     "\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"x\"}],"
     "\"max_tokens\":4,\"temperature\":0}",
     200},
    {"responses", "/v1/responses",
     "{\"input\":\"Hi\",\"max_output_tokens\":4,\"temperature\":0,\"store\":false}", 200},
    {"stored", "/v1/responses",
     "{\"input\":\"Hi\",\"max_output_tokens\":4,\"temperature\":0,\"store\":true}", 200},
    {"messages", "/v1/messages", "{" HI ",\"max_tokens\":4,\"temperature\":0,\"stream\":true}",
     200},
    {"ollama", "/api/chat",
     "{" HI ",\"model\":\"linnet-demo\",\"options\":{\"num_predict\":4,\"temperature\":0}}", 200},
    {"tokenize", "/tokenize", "{\"prompt\":\"Once upon a time\"}", 200},
    {"bad JSON", "/v1/chat/completions", "{\"messages\":[{\"role\":", 400},
};
enum { N_REQUESTS = sizeof requests / sizeof *requests };

static bool all; /* no sample */
static const char *const argv[] = {TEST_LINNET,        "serve", "--port=0", "--threads=1",
                                   "models/demo.gguf", NULL};

typedef struct counts {
    int n_runs, n_right, n_told, n_wrong;
} counts;

/* ---- a server --------------------------------------------------------------------------- */

typedef struct faulty_server {
    fault_process process;
    test_server address;
    int out_fd, log_fd;
} faulty_server;

/* The port of the line "listening at http://HOST:PORT"; 0: there is none. */
static uint16_t read_port(int fd) {
    char line[256] = "";
    for (size_t n = 0; n + 1 < sizeof line && strchr(line, '\n') == NULL; n++) {
        struct pollfd at = {.fd = fd, .events = POLLIN};
        if (poll(&at, 1, START_MS) <= 0 || read(fd, line + n, 1) != 1)
            return 0;
    }
    const char *colon = strrchr(line, ':');
    return colon != NULL ? (uint16_t)atoi(colon + 1) : 0;
}

static void start_only(faulty_server *server, fault_kind kind, const char *only, int nth) {
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    server->log_fd = memfd_create("log", MFD_CLOEXEC);
    fault_process_start(&server->process, kind, argv, out[1], server->log_fd, only, nth);
    close(out[1]);
    server->out_fd = out[0];
    server->address =
        (test_server){.pid = server->process.pid, .port = read_port(out[0]), .log_fd = -1};
}

static void start(faulty_server *server, fault_kind kind, int nth) {
    start_only(server, kind, NULL, nth);
}

/* Ends it, as a supervisor does: by a second signal where the first was lost. False: it does not
 * end, or dies. */
static bool stop(faulty_server *server, int *status) {
    enum { PATIENCE_MS = 1000 };
    bool has_failed;
    kill(server->process.pid, SIGTERM);
    for (int ms = 0; ms < PATIENCE_MS && !atomic_load(&server->process.is_over); ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (!atomic_load(&server->process.is_over))
        kill(server->process.pid, SIGTERM);
    bool is_in_time = fault_process_wait(&server->process, END_MS, status, &has_failed);
    close(server->out_fd);
    return is_in_time && WIFEXITED(*status);
}

static void print_log(const faulty_server *server) {
    static char log[4096];
    ssize_t n = pread(server->log_fd, log, sizeof log - 1, 0);
    log[n > 0 ? n : 0] = '\0';
    print_error("its log: %s\n", log);
}

/* ---- a request -------------------------------------------------------------------------- */

/* What an answer says, without ids and times: texts, arguments of calls, and token ids. */
static void take_texts(const char *heard, char *texts, size_t capacity) {
    static const char *const fields[] = {"\"content\":\"",       "\"text\":\"",
                                         "\"arguments\":\"",     "\"tokens\":[",
                                         "\"finish_reason\":\"", "\"message\":\""};
    size_t n = 0;
    for (const char *at = heard; *at != '\0'; at++)
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
            size_t n_field = strlen(fields[i]), n_text;
            if (strncmp(at, fields[i], n_field) != 0)
                continue;
            n_text = strcspn(at + n_field, "\"]");
            assert_true(n + n_text + 1 < capacity);
            memcpy(texts + n, at + n_field, n_text);
            n += n_text;
        }
    texts[n] = '\0';
}

typedef struct answer {
    char heard[MAX_ANSWER], texts[MAX_ANSWER];
    int status;
    bool is_in_time, is_whole;
} answer;

static void get_answer(faulty_server *server, const asked *a, bool is_apart, answer *got) {
    int fd = dial(&server->address);
    say_post(fd, a->path, a->body, is_apart);
    /* without epoll_ctl the end of a connection may wait for its deadline, behind a whole answer */
    got->is_in_time =
        hear_all(fd, ANSWER_MS, got->heard, sizeof got->heard) || heard_whole(got->heard);
    hang_up(fd);
    got->status = heard_status(got->heard);
    got->is_whole = heard_whole(got->heard);
    take_texts(got->heard, got->texts, sizeof got->texts);
}

/* What is wrong with an answer; NULL: nothing. *is_told: it says that something failed. */
static const char *judge(const answer *got, const answer *right, bool *is_told) {
    *is_told = false;
    if (!got->is_in_time)
        return "no end of the answer";
    if (got->status == 503 && !got->is_whole)
        return "an error that is cut";
    *is_told = got->status == 503 || !got->is_whole;
    if (*is_told)
        return got->status == 0 || got->status == 503 || got->status == right->status
                   ? NULL
                   : "a wrong status of a cut answer";
    if (got->status != right->status)
        return "a wrong status";
    return strcmp(got->texts, right->texts) == 0 ? NULL : "a wrong answer";
}

/* ---- faults in requests ----------------------------------------------------------------- */

/* One Nth fails; false: the server is gone. */
static bool fail_nth(faulty_server *server, const asked *a, int nth, const answer *right,
                     counts *sum) {
    static answer got, then;
    bool is_told, is_alive;
    atomic_store(&server->process.failed, NULL);
    atomic_store(server->process.n_left, nth);
    get_answer(server, a, nth % 2 == 1, &got);
    atomic_store(server->process.n_left, 0);
    const char *failed = atomic_load(&server->process.failed);
    const char *complaint = judge(&got, right, &is_told);
    is_alive = !atomic_load(&server->process.is_over);
    if (is_alive && complaint == NULL) {
        get_answer(server, a, false, &then);
        if (!then.is_whole || strcmp(then.texts, right->texts) != 0)
            complaint = "the next answer is wrong";
    }
    if (!is_alive)
        complaint = "the server died";
    sum->n_runs++;
    sum->n_wrong += complaint != NULL;
    sum->n_told += complaint == NULL && is_told;
    sum->n_right += complaint == NULL && !is_told;
    if (complaint != NULL) {
        print_error("%s, %d (%s): %s: %.1500s\n", a->name, nth, failed != NULL ? failed : "",
                    complaint, complaint[0] == 't' ? then.heard : got.heard);
        if (!is_alive)
            print_log(server);
    }
    return is_alive && got.is_in_time;
}

/* libevent keeps a record of each descriptor that it has seen, and a request may find the
 * connection of the one before still open. */
static void open_side_by_side(faulty_server *server) {
    enum { CONNECTIONS = 4 };
    static answer got;
    int fds[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = dial(&server->address);
    for (int i = 0; i < CONNECTIONS; i++) {
        say_post(fds[i], requests[0].path, requests[0].body, false);
        hear_all(fds[i], ANSWER_MS, got.heard, sizeof got.heard);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        hang_up(fds[i]);
}

static void warm_up(faulty_server *server) {
    static answer got;
    if (server->address.port == 0)
        print_log(server);
    assert_true(server->address.port != 0);
    open_side_by_side(server);
    for (size_t i = 0; i < N_REQUESTS; i++)
        get_answer(server, &requests[i], false, &got);
}

static void fail_in_requests(fault_kind kind) {
    enum { SAMPLE = 8, MOST = 400 };
    faulty_server server;
    int n_wrong = 0, status;
    static answer right;
    start(&server, kind, 0);
    warm_up(&server);
    for (size_t i = 0; i < N_REQUESTS; i++) {
        counts sum = {0};
        const asked *a = &requests[i];
        atomic_store(server.process.n_left, INT_MAX);
        get_answer(&server, a, false, &right);
        int n = INT_MAX - atomic_exchange(server.process.n_left, 0);
        if (right.status != a->status || !right.is_whole)
            fail_msg("%s: %s", a->name, right.heard);
        /* memory grows up to the bound of what is stored, and close may fail */
        bool may_leak = kind == FAULT_CALL || strcmp(a->name, "stored") == 0;
        long held = may_leak ? 0 : fault_process_held(&server.process);
        int step = all ? n / MOST + 1 : n / SAMPLE + 1;
        for (int nth = all ? 1 : 1 + (int)i % step; nth <= n; nth += step)
            if (!fail_nth(&server, a, nth, &right, &sum)) {
                stop(&server, &status);
                start(&server, kind, 0);
                warm_up(&server);
                may_leak = true;
            }
        long leaked = may_leak ? 0 : fault_process_held(&server.process) - held;
        if (leaked != 0)
            print_error("%s: it holds %ld more\n", a->name, leaked);
        sum.n_wrong += leaked != 0;
        print_message("%s: of %d %s %d failed: %d told, %d right answers, %d wrong\n", a->name, n,
                      kind == FAULT_CALL ? "system calls" : "allocations", sum.n_runs, sum.n_told,
                      sum.n_right, sum.n_wrong);
        n_wrong += sum.n_wrong;
    }
    if (!stop(&server, &status) || status != 0)
        fail_msg("the server ends with status %x", status);
    assert_int_equal(n_wrong, 0);
}

static void allocations_of_requests_may_fail(void **state) {
    (void)state;
    fail_in_requests(FAULT_ALLOCATION);
}

static void calls_of_requests_may_fail(void **state) {
    (void)state;
    if (!fault_calls_work())
        skip();
    fail_in_requests(FAULT_CALL);
}

/* So many streams that the loop waits between their tokens, and stops watching the engine's queue
 * meanwhile: when it cannot go on watching it tries again, or all streams would stall for ever. */
static void watching_may_fail(void **state) {
    (void)state;
    enum { PROMPTS = 32, MOST = 12 };
    char body[512] = "{\"max_tokens\":4,\"temperature\":0,\"stream\":true,\"prompt\":[\"a\"";
    static answer right, got, then;
    faulty_server server;
    int status;
    if (!fault_calls_work())
        skip();
    for (int i = 1; i < PROMPTS; i++)
        strcat(body, ",\"a\"");
    strcat(body, "]}");
    const asked many = {"many streams", "/v1/completions", body, 200};
    start_only(&server, FAULT_CALL, "epoll_ctl", 0);
    warm_up(&server);
    get_answer(&server, &requests[0], false, &right);
    for (int nth = 1; nth <= MOST; nth++) {
        atomic_store(server.process.n_left, nth);
        get_answer(&server, &many, false, &got);
        atomic_store(server.process.n_left, 0);
        if (!got.is_in_time || (got.status != 0 && (got.status != 200 || !got.is_whole)))
            fail_msg("%d: of %s came %.1500s", nth, many.name, got.heard);
        get_answer(&server, &requests[0], false, &then);
        assert_true(then.is_whole);
        assert_string_equal(then.texts, right.texts);
    }
    assert_true(stop(&server, &status));
    assert_int_equal(status, 0);
}

/* ---- faults at the start and at the end ------------------------------------------------- */

static const char *judge_start(faulty_server *server, const answer *right, bool *is_told) {
    static answer got;
    int status;
    bool is_right = false;
    *is_told = server->address.port == 0;
    atomic_store(server->process.n_left, 0);
    if (!*is_told) {
        get_answer(server, &requests[0], false, &got);
        is_right = got.is_in_time && got.is_whole && strcmp(got.texts, right->texts) == 0;
    }
    if (!stop(server, &status))
        return WIFEXITED(status) ? "it does not end" : "it died";
    if (*is_told)
        return status != 0 ? NULL : "it neither listens nor says that it failed";
    if (!is_right)
        return "it listens, and answers wrongly";
    return status == 0 ? NULL : "its end says that it failed";
}

static void fail_nth_of_start(fault_kind kind, int nth, const answer *right, counts *sum) {
    faulty_server server;
    bool is_told;
    start(&server, kind, nth);
    const char *complaint = judge_start(&server, right, &is_told);
    sum->n_runs++;
    sum->n_wrong += complaint != NULL;
    sum->n_told += complaint == NULL && is_told;
    sum->n_right += complaint == NULL && !is_told;
    const char *failed = atomic_load(&server.process.failed);
    if (complaint != NULL) {
        print_error("start, %d (%s): %s\n", nth, failed != NULL ? failed : "", complaint);
        print_log(&server);
    }
    close(server.log_fd);
}

static void fail_at_start(fault_kind kind) {
    enum { SAMPLE = 6, MOST = 3000, BEFORE = 24, AFTER = 24, END_STEP = 8 };
    faulty_server server;
    static answer right;
    counts sum = {0};
    int status;
    start(&server, kind, INT_MAX);
    int n = INT_MAX - atomic_exchange(server.process.n_left, 0);
    warm_up(&server);
    get_answer(&server, &requests[0], false, &right);
    assert_true(stop(&server, &status));
    int step = n / (all ? MOST : SAMPLE) + 1;
    for (int nth = all ? 1 : step / 2; nth <= n; nth += step)
        fail_nth_of_start(kind, nth, &right, &sum);
    /* the address must not be told before all that may fail is done */
    for (int nth = n - BEFORE; nth <= n + AFTER; nth += END_STEP)
        fail_nth_of_start(kind, nth, &right, &sum);
    print_message("start: of %d %s %d failed: %d told, %d serve, %d wrong\n", n,
                  kind == FAULT_CALL ? "system calls" : "allocations", sum.n_runs, sum.n_told,
                  sum.n_right, sum.n_wrong);
    assert_int_equal(sum.n_wrong, 0);
}

static void allocations_of_the_start_may_fail(void **state) {
    (void)state;
    fail_at_start(FAULT_ALLOCATION);
}

static void calls_of_the_start_may_fail(void **state) {
    (void)state;
    if (!fault_calls_work())
        skip();
    fail_at_start(FAULT_CALL);
}

/* Nobody could connect to port 0. */
static void an_unknown_port_fails_the_start(void **state) {
    (void)state;
    faulty_server server;
    bool has_failed;
    int status;
    char log[1024] = "";
    if (!fault_calls_work())
        skip();
    start_only(&server, FAULT_CALL, "getsockname", 1);
    assert_true(fault_process_wait(&server.process, END_MS, &status, &has_failed));
    assert_true(has_failed);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_int_equal(server.address.port, 0);
    assert_true(pread(server.log_fd, log, sizeof log - 1, 0) > 0);
    assert_non_null(strstr(log, "linnet: cannot tell the port that the server listens at: "));
    close(server.out_fd);
    close(server.log_fd);
}

static void the_end_may_fail(void **state) {
    (void)state;
    if (!fault_calls_work())
        skip();
    int n_bad = 0, n_runs = 0, step = all ? 1 : 11;
    for (int nth = 1; nth <= 40; nth += step, n_runs++) {
        faulty_server server;
        static answer got;
        int status;
        start(&server, FAULT_CALL, 0);
        assert_true(server.address.port != 0);
        get_answer(&server, &requests[0], false, &got);
        atomic_store(server.process.n_left, nth);
        if (!stop(&server, &status)) {
            const char *failed = atomic_load(&server.process.failed);
            print_error("end, %d (%s): status %x\n", nth, failed != NULL ? failed : "", status);
            print_log(&server);
            n_bad++;
        }
        close(server.log_fd);
    }
    print_message("end: of %d system calls that failed %d were wrong\n", n_runs, n_bad);
    assert_int_equal(n_bad, 0);
}

int main(void) {
    const char *which = getenv("LINNET_FAULTS");
    all = which != NULL && strcmp(which, "all") == 0;
    signal(SIGPIPE, SIG_IGN);
    setenv("HF_HUB_CACHE", "/nonexistent", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(allocations_of_requests_may_fail),
                                       cmocka_unit_test(calls_of_requests_may_fail),
                                       cmocka_unit_test(watching_may_fail),
                                       cmocka_unit_test(allocations_of_the_start_may_fail),
                                       cmocka_unit_test(calls_of_the_start_may_fail),
                                       cmocka_unit_test(an_unknown_port_fails_the_start),
                                       cmocka_unit_test(the_end_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
