/* Sends every request of tests/server/hostile to a server: each gets the answer that its file
 * expects, in time, and the server lives. Requests that are incomplete on purpose have a server of
 * their own, to which they are late soon; to the other one none is, however slow this machine is.
 *
 * A file begins with two lines. The first is "expect" and the statuses that will do (0: the
 * connection just closes), then the field that the error must name, if any. The second is "raw",
 * or "post" and a path. What follows is the request, or the body of one with a correct head; in
 * it line ends of the file count for nothing, \r \n \t \0 \\ and \xHH are bytes, and {{TEXT*N}}
 * is TEXT repeated N times. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/client.h"
#include "test.h"

enum { MIN_FILES = 150, MAX_FILES = 1000, MAX_STATUSES = 4, MAX_BYTES = 64 << 20 };

typedef struct hostile {
    int statuses[MAX_STATUSES];
    size_t n_statuses;
    char param[64]; /* "": none */
    char path[64];  /* "": raw */
    char *bytes;    /* [n_bytes] */
    size_t n_bytes;
} hostile;

/* ---- files ------------------------------------------------------------------------------- */

static int hex(char c) {
    return c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

/* One unit of the text at *at: a byte, or an escape. */
static char take_byte(const char **at) {
    const char *c = *at;
    if (c[0] != '\\') {
        *at = c + 1;
        return c[0];
    }
    *at = c + 2;
    switch (c[1]) {
    case 'r': return '\r';
    case 'n': return '\n';
    case 't': return '\t';
    case '0': return '\0';
    case 'x': *at = c + 4; return (char)(hex(c[2]) << 4 | hex(c[3]));
    default: return c[1];
    }
}

static void put(hostile *request, char byte) {
    assert_true(request->n_bytes < MAX_BYTES);
    request->bytes[request->n_bytes++] = byte;
}

/* {{TEXT*N}}: the text may hold escapes and asterisks. */
static const char *put_repeated(hostile *request, const char *at) {
    const char *end = strstr(at, "}}");
    assert_non_null(end);
    const char *star = end;
    while (star > at && *star != '*')
        star--;
    assert_true(star > at);
    for (long i = strtol(star + 1, NULL, 10); i > 0; i--)
        for (const char *c = at; c < star;)
            put(request, take_byte(&c));
    return end + 2;
}

static void unfold(hostile *request, const char *at) {
    while (*at) {
        if (*at == '\n')
            at++;
        else if (at[0] == '{' && at[1] == '{')
            at = put_repeated(request, at + 2);
        else
            put(request, take_byte(&at));
    }
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void parse_expectation(hostile *request, char *line) {
    char *word = strtok(line, " ");
    assert_string_equal(word, "expect");
    while ((word = strtok(NULL, " ")) != NULL) {
        if (*word >= '0' && *word <= '9') {
            assert_true(request->n_statuses < MAX_STATUSES);
            request->statuses[request->n_statuses++] = atoi(word);
        } else {
            snprintf(request->param, sizeof request->param, "%s", word);
        }
    }
    assert_true(request->n_statuses > 0);
}

static hostile read_hostile(const char *path) {
    hostile request = {.bytes = malloc(MAX_BYTES)};
    assert_non_null(request.bytes);
    char *text = read_text(path);
    char *how = strchr(text, '\n');
    assert_non_null(how);
    *how++ = '\0';
    char *rest = strchr(how, '\n');
    assert_non_null(rest);
    *rest++ = '\0';
    parse_expectation(&request, text);
    if (strncmp(how, "post ", 5) == 0)
        snprintf(request.path, sizeof request.path, "%s", how + 5);
    else
        assert_string_equal(how, "raw");
    unfold(&request, rest);
    free(text);
    return request;
}

/* ---- requests ---------------------------------------------------------------------------- */

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool expects(const hostile *request, int status) {
    bool expected = false;
    for (size_t i = 0; i < request->n_statuses; i++)
        expected = expected || request->statuses[i] == status;
    return expected;
}

/* What is wrong with the answer, or NULL. */
static const char *judge(const hostile *request, const http_response *heard) {
    if (!expects(request, heard->status))
        return "the status is not expected";
    if (request->param[0] == '\0')
        return NULL;
    const char *param = response_field(heard, "param");
    return param && strcmp(param, request->param) == 0 ? NULL : "the error names another field";
}

static int send_hostile(const test_server *server, const char *name, const hostile *request,
                        double *longest_s) {
    double begin = now_s();
    int fd = dial(server);
    if (request->path[0]) {
        char head[256];
        snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
                 request->path, request->n_bytes);
        say_text(fd, head);
    }
    say(fd, request->bytes, request->n_bytes);
    http_response heard = hear(fd, false);
    hang_up(fd);
    double seconds = now_s() - begin;
    *longest_s = seconds > *longest_s ? seconds : *longest_s;
    const char *complaint = judge(request, &heard);
    if (complaint)
        printf("%s: %s: %d %.300s\n", name, complaint, heard.status, heard.body);
    response_free(&heard);
    return complaint != NULL;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_request(const struct dirent *entry) {
    return strstr(entry->d_name, ".req") != NULL;
}

static test_server start(const char *head_timeout, const char *body_timeout) {
    return SERVER("--threads=1", "--no-log", head_timeout, body_timeout, "--max-seqs=2",
                  "--max-waiting=8", "--allowed-host=*");
}

static void stop(test_server *server) {
    http_response heard = post(server, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":2}");
    assert_int_equal(heard.status, 200);
    response_free(&heard);
    wait_for_metric(server, "num_requests_open", NULL, 0);
    server_stop(server);
}

static void answers_hostile_requests(void **state) {
    (void)state;
    struct dirent **entries;
    int count = scandir("tests/server/hostile", &entries, is_request, by_name), n_wrong = 0;
    assert_true(count >= MIN_FILES && count < MAX_FILES);
    test_server patient = start("--head-timeout=60000", "--body-timeout=60000"),
                hasty = start("--head-timeout=300", "--body-timeout=300");
    double longest_s = 0;
    for (int i = 0; i < count; i++) {
        char path[512];
        snprintf(path, sizeof path, "tests/server/hostile/%s", entries[i]->d_name);
        client_context = entries[i]->d_name;
        hostile request = read_hostile(path);
        const test_server *server = expects(&request, 408) ? &hasty : &patient;
        n_wrong += send_hostile(server, entries[i]->d_name, &request, &longest_s);
        if (!server_is_alive(server))
            fail_msg("%s: the server died", entries[i]->d_name);
        free(request.bytes);
        free(entries[i]);
    }
    client_context = "";
    free(entries);
    printf("%d requests, %d wrong answers, the longest took %.2f s\n", count, n_wrong, longest_s);
    assert_int_equal(n_wrong, 0);
    stop(&patient);
    stop(&hasty);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers_hostile_requests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
