/* Keys of a file: their names and limits, and what SIGHUP makes of a changed file. And the
 * sandbox that holds the server meanwhile. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/client.h"
#include "test.h"

#define LONG_BODY "{\"prompt\":\"Once\",\"max_tokens\":1000,\"ignore_eos\":true,\"stream\":true}"

static void write_keys(const char *path, const char *keys) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(keys, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int status_with(const test_server *server, const char *key) {
    char header[128];
    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", key);
    http_response heard = ask(server, "GET", "/v1/models", header, NULL);
    int status = heard.status;
    response_free(&heard);
    return status;
}

static void reads_keys_of_a_file(void **state) {
    (void)state;
    char path[] = "/tmp/linnet-keys-XXXXXX";
    close(mkstemp(path));
    write_keys(path, "# who may\nfirst\n\nsecond\r\n");
    test_server server = SERVER("--threads=1", "--api-key-file", path, "--api-key=third");
    unlink(path);
    static const struct {
        const char *header;
        int status;
    } tries[] = {
        {"Authorization: Bearer first\r\n", 200},
        {"Authorization: Bearer second\r\n", 200},
        {"Authorization: Bearer third\r\n", 200},
        {"Authorization: Bearer # who may\r\n", 401},
        {"Authorization: Bearer fourth\r\n", 401},
        {"Authorization: Bearer \r\n", 401},
        {"", 401},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        http_response heard = ask(&server, "GET", "/v1/models", tries[i].header, NULL);
        assert_int_equal(heard.status, tries[i].status);
        response_free(&heard);
    }
    server_stop(&server);
}

/* Sends a completion that goes on and on with a key, and leaves it open. */
static int begin_long(const test_server *server, const char *key) {
    char head[256];
    int fd = dial(server);
    snprintf(head, sizeof head,
             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
             "Content-Length: %zu\r\n\r\n" LONG_BODY,
             key, sizeof LONG_BODY - 1);
    say_text(fd, head);
    return fd;
}

static void limits_sequences_of_a_key(void **state) {
    (void)state;
    char path[] = "/tmp/linnet-keys-XXXXXX", *log;
    close(mkstemp(path));
    write_keys(path, "small alice max-sequences=1\nlarge bob\n");
    test_server server =
        SERVER("--threads=1", "--max-seqs=4", "--api-key-file", path, "--api-key=metrics");
    int first = begin_long(&server, "small"), other = begin_long(&server, "large");
    http_response heard;
    do { /* until it is admitted */
        heard = ask(&server, "POST", "/v1/completions", "Authorization: Bearer small\r\n",
                    "{\"prompt\":\"Once\",\"max_tokens\":1}");
        if (heard.status == 200)
            response_free(&heard);
    } while (heard.status == 200);
    assert_int_equal(heard.status, 429);
    assert_non_null(strstr(heard.body, "1 sequences of the key alice run or wait"));
    assert_non_null(response_header(&heard, "retry-after"));
    response_free(&heard);
    heard = ask(&server, "POST", "/v1/completions", "Authorization: Bearer large\r\n",
                "{\"prompt\":\"Once\",\"n\":2,\"max_tokens\":1}");
    assert_int_equal(heard.status, 200);
    response_free(&heard);
    hang_up(first);
    for (int i = 0; i < 6000; i++) { /* two are never possible, once there is room for one */
        heard = ask(&server, "POST", "/v1/completions", "Authorization: Bearer small\r\n",
                    "{\"prompt\":\"Once\",\"n\":2}");
        if (heard.status != 429)
            break;
        response_free(&heard);
        sleep_ms(10);
    }
    assert_int_equal(heard.status, 400);
    assert_non_null(strstr(heard.body, "all that its key allows"));
    response_free(&heard);
    hang_up(other);
    unlink(path);
    kill(server.pid, SIGTERM);
    assert_int_equal(server_wait(&server, &log), 0);
    assert_non_null(strstr(log, "key alice"));
    assert_non_null(strstr(log, "key bob"));
    free(log);
}

static void limits_requests_a_minute(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1", "--api-key=few carol requests-per-minute=2");
    time_t begin_s = time(NULL);
    assert_int_equal(status_with(&server, "few"), 200);
    assert_int_equal(status_with(&server, "few"), 200);
    http_response heard = ask(&server, "GET", "/v1/models", "Authorization: Bearer few\r\n", NULL);
    assert_int_equal(heard.status, 429);
    assert_string_equal(response_field(&heard, "code"), "rate_limit_exceeded");
    /* half a minute from the first request on, rounded up */
    time_t passed_s = time(NULL) - begin_s;
    assert_true(passed_s < 30);
    assert_in_range(atoi(response_header(&heard, "retry-after")), 30 - passed_s, 30);
    response_free(&heard);
    heard = get(&server, "/health"); /* needs no key, so it is counted for none */
    assert_int_equal(heard.status, 200);
    response_free(&heard);
    server_stop(&server);
}

/* Waits until a key is let in, or is not. */
static void wait_for_key(const test_server *server, const char *key, int status) {
    int seen = status_with(server, key);
    for (int i = 0; i < 6000 && seen != status; i++) {
        sleep_ms(10);
        seen = status_with(server, key);
    }
    assert_int_equal(seen, status);
}

static void reads_keys_again(void **state) {
    (void)state;
    char path[] = "/tmp/linnet-keys-XXXXXX", *log;
    close(mkstemp(path));
    write_keys(path, "old dave max-sequences=1\nsame erin\n");
    test_server server = SERVER("--threads=1", "--max-seqs=4", "--api-key-file", path);
    int open = begin_long(&server, "old");
    wait_for_key(&server, "new", 401);
    write_keys(path, "new frank\nsame erin max-sequences=2\n");
    kill(server.pid, SIGHUP);
    wait_for_key(&server, "new", 200);
    assert_int_equal(status_with(&server, "old"), 401);
    assert_int_equal(status_with(&server, "same"), 200);
    assert_false(is_closed_within(open, 50)); /* whoever is in stays */
    write_keys(path, "bad max-sequences=0\n");
    kill(server.pid, SIGHUP);
    wait_for_key(&server, "new", 200);
    unlink(path);
    kill(server.pid, SIGHUP);
    wait_for_key(&server, "new", 200);
    hang_up(open);
    kill(server.pid, SIGTERM);
    assert_int_equal(server_wait(&server, &log), 0);
    assert_non_null(strstr(log, "SIGHUP: 2 keys let clients in"));
    assert_non_null(strstr(log, "SIGHUP: the keys stay as they were"));
    free(log);
}

static void is_in_a_sandbox(void **state) {
    (void)state;
    char path[64], line[128];
    bool is_filtered = false;
    test_server server = SERVER("--threads=1");
    http_response heard = get(&server, "/health"); /* it runs */
    response_free(&heard);
    snprintf(path, sizeof path, "/proc/%d/status", (int)server.pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        is_filtered |= strncmp(line, "Seccomp:\t2", 10) == 0;
    fclose(file);
    assert_true(is_filtered || access("/proc/sys/kernel/seccomp", F_OK) != 0);
    server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_keys_of_a_file),     cmocka_unit_test(limits_sequences_of_a_key),
        cmocka_unit_test(limits_requests_a_minute), cmocka_unit_test(reads_keys_again),
        cmocka_unit_test(is_in_a_sandbox),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
