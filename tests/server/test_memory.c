/* The server when memory is out: whichever allocation fails, the request gets an answer or its
 * connection closes, in time, and the next request gets what it asked for. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/client.h"
#include "server/raw.h"
#include "test.h"

enum { MOST_FAILING = 60, ANSWER_MS = 60000, MAX_ANSWER = 1 << 16 };

static test_server server;
static atomic_int *n_left; /* what failing_malloc.c counts down */

typedef struct asked {
    const char *name, *path, *body;
    int status;      /* with memory */
    const char *end; /* with which a whole answer ends */
} asked;

static const asked requests[] = {
    {"chat", "/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":4,\"seed\":1}", 200,
     "}"},
    {"stream", "/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":4,\"stream\":true}",
     200, "data: [DONE]\n\n"},
    {"schema", "/v1/completions",
     "{\"prompt\":\"a\",\"max_tokens\":4,\"response_format\":{\"type\":\"json_object\"}}", 200,
     "}"},
    {"responses", "/v1/responses", "{\"input\":\"Hi\",\"max_output_tokens\":4}", 200, "}"},
    {"background", "/v1/responses",
     "{\"input\":\"Hi\",\"max_output_tokens\":4,\"background\":true,\"stream\":true}", 200, "\n\n"},
    {"conversation", "/v1/conversations",
     "{\"items\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"metadata\":{\"a\":\"b\"}}", 200, "}"},
    {"bad JSON", "/v1/chat/completions", "{\"messages\":[{\"role\":", 400, "}"},
};

static int setup(void **state) {
    (void)state;
    char path[] = "/tmp/linnet-failing-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof *n_left), 0);
    n_left = mmap(NULL, sizeof *n_left, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(n_left, MAP_FAILED);
    close(fd);
    setenv("LD_PRELOAD", TEST_FAILING_MALLOC, 1);
    setenv("LINNET_FAILING_MALLOC", path, 1);
    server = SERVER("--threads=1", "models/demo.gguf");
    unsetenv("LD_PRELOAD");
    unsetenv("LINNET_FAILING_MALLOC");
    unlink(path);
    /* it listens before it has started whole */
    http_response first = post(&server, requests[0].path, requests[0].body);
    assert_int_equal(first.status, requests[0].status);
    response_free(&first);
    return 0;
}

/* Returns whether the failure was told: the answer was 503, or the connection closed. */
static bool check(const asked *a, int nth, bool is_apart) {
    static char heard[MAX_ANSWER], context[128];
    snprintf(context, sizeof context, "%s, allocation %d, %s", a->name, nth,
             is_apart ? "two packets" : "one packet");
    client_context = context;
    int fd = dial(&server);
    atomic_store(n_left, nth);
    say_post(fd, a->path, a->body, is_apart);
    if (!hear_all(fd, ANSWER_MS, heard, sizeof heard))
        fail_msg("%s: no end after %zu bytes", context, strlen(heard));
    bool has_failed = atomic_exchange(n_left, 0) <= 0;
    hang_up(fd);
    int status = heard_status(heard);
    if (status != 0 && status != a->status && status != 503)
        fail_msg("%s: %s", context, heard);
    if (!has_failed && (status != a->status || !heard_whole(heard)))
        fail_msg("%s: nothing failed, but: %s", context, heard);
    if (status == 503 && !heard_whole(heard))
        fail_msg("%s: cut: %s", context, heard);
    assert_true(server_is_alive(&server));
    return status == 503 || !heard_whole(heard);
}

/* With memory the server answers as ever. */
static void check_health(const asked *a) {
    http_response heard = post(&server, a->path, a->body);
    if (heard.status != a->status || strstr(heard.body, a->end) == NULL)
        fail_msg("%s: then %d: %s", client_context, heard.status, heard.body);
    response_free(&heard);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        size_t n_told = 0;
        for (int nth = 1; nth <= MOST_FAILING; nth++) {
            n_told += check(&requests[i], nth, false);
            check_health(&requests[i]);
            n_told += check(&requests[i], nth, true);
            check_health(&requests[i]);
        }
        print_message("%s: %zu of %d answers are 503 or cut\n", requests[i].name, n_told,
                      2 * MOST_FAILING);
        assert_true(n_told >= 10);
    }
}

static int teardown(void **state) {
    (void)state;
    server_stop(&server);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
