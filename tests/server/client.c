#include "server/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

const char *client_context = "";

enum { TIMEOUT_MS = 60000, MAX_ARGUMENTS = 64 };

/* ---- the server ------------------------------------------------------------------------- */

/* The server ends with the test program, however that ends. */
/* Runs argv with these as its standard input (-1: the test's), output and error. */
static pid_t spawn_server(const char *const *argv, int in_fd, int out_fd, int log_fd) {
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        bool is_ready = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
                        (in_fd < 0 || dup2(in_fd, STDIN_FILENO) >= 0) &&
                        dup2(out_fd, STDOUT_FILENO) >= 0 && dup2(log_fd, STDERR_FILENO) >= 0;
        if (is_ready)
            execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (pid < 0)
        fail_msg("cannot start %s: %s", argv[0], strerror(errno));
    return pid;
}

/* The line "listening at http://HOST:PORT". */
static uint16_t read_port(int fd) {
    char line[256] = "";
    size_t n = 0;
    while (n + 1 < sizeof line && !strchr(line, '\n')) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        if (poll(&poll_fd, 1, 60000) <= 0 || read(fd, line + n, 1) != 1)
            return 0;
        line[++n] = '\0';
    }
    const char *colon = strrchr(line, ':');
    return colon ? (uint16_t)atoi(colon + 1) : 0;
}

static int temporary_file(void) {
    char name[] = "/tmp/linnet-log-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    assert_true(fd >= 0);
    unlink(name);
    return fd;
}

/* Starts argv and waits until it listens. *out_fd: where its output goes on, when not NULL. */
static test_server start(const char *const *argv, int in_fd, int *out_fd, int log_fd) {
    int out[2];
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    test_server started = {.pid = spawn_server(argv, in_fd, out[1], log_fd),
                           .log_fd = log_fd,
                           .command_fd = -1,
                           .reply_fd = -1};
    close(out[1]);
    started.port = read_port(out[0]);
    if (out_fd)
        *out_fd = out[0];
    else
        close(out[0]);
    if (started.port == 0) {
        char *log;
        int status = server_wait(&started, &log);
        fail_msg("the server does not listen; status %d: %s", status, log);
    }
    return started;
}

const char *server_hub_cache = "/nonexistent";

test_server server_start(const char *const *arguments) {
    return server_start_logging(temporary_file(), arguments);
}

test_server server_start_logging(int log_fd, const char *const *arguments) {
    setenv("HF_HUB_CACHE", server_hub_cache, 1);
    const char *argv[MAX_ARGUMENTS + 4] = {TEST_LINNET, "serve", "--port=0"};
    for (int i = 0; arguments[i]; i++) {
        assert_true(i < MAX_ARGUMENTS);
        argv[3 + i] = arguments[i];
    }
    return start(argv, -1, NULL, log_fd);
}

static test_server start_modelled(const unsigned values[6]) {
    char numbers[6][16];
    const char *argv[9] = {TEST_MODELLED, "models/demo.gguf"};
    for (int i = 0; i < 6; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%u", values[i]);
        argv[2 + i] = numbers[i];
    }
    int in[2], reply_fd;
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    test_server started = start(argv, in[0], &reply_fd, temporary_file());
    close(in[0]);
    started.command_fd = in[1];
    started.reply_fd = reply_fd;
    return started;
}

test_server modelled_start(unsigned max_seqs, unsigned max_waiting, unsigned hang_ms,
                           unsigned drain_ms) {
    return start_modelled((const unsigned[]){max_seqs, max_waiting, hang_ms, drain_ms, 0, 1});
}

test_server modelled_start_gpu(unsigned max_seqs, unsigned max_waiting, unsigned hang_ms,
                               unsigned drain_ms) {
    return start_modelled((const unsigned[]){max_seqs, max_waiting, hang_ms, drain_ms, 1, 1});
}

test_server modelled_start_models(unsigned n_models, unsigned hang_ms, bool has_gpu) {
    enum { MAX_SEQS = 8, NEVER_MS = 3600000 };
    return start_modelled(
        (const unsigned[]){MAX_SEQS, MAX_SEQS, hang_ms, NEVER_MS, has_gpu, n_models});
}

static modelled_counts command(test_server *server, char letter) {
    char line[128] = "";
    size_t n = 0;
    modelled_counts counts = {0};
    assert_int_equal(write(server->command_fd, &letter, 1), 1);
    while (n + 1 < sizeof line && !strchr(line, '\n')) {
        struct pollfd poll_fd = {.fd = server->reply_fd, .events = POLLIN};
        if (poll(&poll_fd, 1, TIMEOUT_MS) <= 0 || read(server->reply_fd, line + n, 1) != 1)
            fail_msg("the modelled server does not answer");
        line[++n] = '\0';
    }
    assert_int_equal(sscanf(line, "%zu %zu %zu %zu", &counts.n_running, &counts.n_finished,
                            &counts.n_cancelled, &counts.n_failed),
                     4);
    return counts;
}

modelled_counts modelled_step(test_server *server) {
    return command(server, 's');
}

modelled_counts modelled_fail(test_server *server) {
    return command(server, 'f');
}

modelled_counts modelled_lose(test_server *server) {
    return command(server, 'l');
}

void modelled_pass_load(test_server *server) {
    command(server, 'p');
}

void modelled_pass_hang(test_server *server) {
    command(server, 'q');
}

void modelled_get_stuck(test_server *server) {
    command(server, 'h');
}

static char *read_log(int fd) {
    off_t n_bytes = lseek(fd, 0, SEEK_END);
    if (n_bytes < 0) /* a pipe: who made it reads it */
        return strdup("");
    char *log = calloc(1, (size_t)n_bytes + 1);
    assert_non_null(log);
    assert_int_equal(pread(fd, log, (size_t)n_bytes, 0), n_bytes);
    return log;
}

int server_wait(test_server *server, char **log) {
    int status = 0;
    for (int ms = 0; waitpid(server->pid, &status, WNOHANG) == 0; ms += 10) {
        if (ms > 60000) {
            kill(server->pid, SIGKILL);
            waitpid(server->pid, &status, 0);
            fail_msg("the server does not end");
        }
        sleep_ms(10);
    }
    if (log)
        *log = read_log(server->log_fd);
    close(server->log_fd);
    if (server->command_fd >= 0) {
        close(server->command_fd);
        close(server->reply_fd);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void server_stop(test_server *server) {
    char *log;
    kill(server->pid, SIGTERM);
    int status = server_wait(server, &log);
    if (status != 0)
        fail_msg("the server ends with status %d: %s", status, log);
    free(log);
}

/* ---- one for all tests ------------------------------------------------------------------ */

test_server shared;

int shared_start(void **state) {
    (void)state;
    shared = SERVER("--threads=1", "--max-seqs=4", "--served-name=demo");
    return 0;
}

int shared_stop(void **state) {
    (void)state;
    server_stop(&shared);
    return 0;
}

bool server_is_alive(const test_server *server) {
    return waitpid(server->pid, NULL, WNOHANG) == 0;
}

/* ---- bytes ------------------------------------------------------------------------------ */

int dial(const test_server *server) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(server->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail_msg("cannot connect: %s", strerror(errno));
    return fd;
}

void say(int fd, const void *message, size_t n_bytes) {
    const char *at = message;
    while (n_bytes > 0) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
        if (poll(&poll_fd, 1, TIMEOUT_MS) <= 0)
            fail_msg("the server reads nothing");
        ssize_t n = send(fd, at, n_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            continue;
        if (n <= 0)
            return; /* it has closed: the answer says why */
        at += n;
        n_bytes -= (size_t)n;
    }
}

void say_text(int fd, const char *text) {
    say(fd, text, strlen(text));
}

void hang_up(int fd) {
    close(fd);
}

bool is_closed_within(int fd, int timeout_ms) {
    char byte;
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, timeout_ms) > 0 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

bool is_closed_with_response(const test_server *server, int fd) {
    http_response other = get(server, "/health"); /* or none in time: the server was at it since */
    response_free(&other);
    return is_closed_within(fd, 1000);
}

/* One byte: 1, or 0 at the end of the connection. */
static int read_byte(int fd, char *byte) {
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    if (poll(&poll_fd, 1, TIMEOUT_MS) <= 0)
        fail_msg("the server says nothing%s", client_context);
    return recv(fd, byte, 1, 0) == 1;
}

/* A buffer that is read byte by byte or as a whole: nothing is read that belongs to what follows.
 */
typedef struct bytes {
    char *data;
    size_t bytes, capacity;
} bytes;

static void append(bytes *text, const char *more, size_t n_bytes) {
    if (text->bytes + n_bytes + 1 > text->capacity) {
        text->capacity = 2 * (text->bytes + n_bytes + 1);
        text->data = realloc(text->data, text->capacity);
        assert_non_null(text->data);
    }
    memcpy(text->data + text->bytes, more, n_bytes);
    text->bytes += n_bytes;
    text->data[text->bytes] = '\0';
}

static bool read_exactly(int fd, bytes *into, size_t n_bytes) {
    while (n_bytes > 0) {
        char chunk[65536];
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        if (poll(&poll_fd, 1, TIMEOUT_MS) <= 0)
            fail_msg("the server says nothing%s", client_context);
        ssize_t n = recv(fd, chunk, n_bytes < sizeof chunk ? n_bytes : sizeof chunk, 0);
        if (n <= 0)
            return false;
        append(into, chunk, (size_t)n);
        n_bytes -= (size_t)n;
    }
    return true;
}

/* Up to an ending, which is read too. */
static bool read_until(int fd, bytes *into, const char *ending) {
    size_t n_ending = strlen(ending);
    char byte;
    while (into->bytes < n_ending ||
           memcmp(into->data + into->bytes - n_ending, ending, n_ending) != 0) {
        if (!read_byte(fd, &byte))
            return false;
        append(into, &byte, 1);
    }
    return true;
}

static bool read_chunks(int fd, bytes *body) {
    for (;;) {
        bytes line = {0};
        append(&line, "", 0);
        bool read = read_until(fd, &line, "\r\n");
        size_t n_bytes = read ? strtoul(line.data, NULL, 16) : 0;
        free(line.data);
        bytes end = {0};
        append(&end, "", 0);
        read = read && read_exactly(fd, body, n_bytes) && read_until(fd, &end, "\r\n");
        free(end.data);
        if (!read)
            return false;
        if (n_bytes == 0)
            return true;
    }
}

/* ---- responses -------------------------------------------------------------------------- */

http_response hear(int fd, bool is_head) {
    bytes head = {0}, body = {0};
    append(&head, "", 0);
    append(&body, "", 0);
    http_response heard = {0};
    bool whole = read_until(fd, &head, "\r\n\r\n");
    heard.head = head.data;
    if (whole)
        heard.status = atoi(head.data + strlen("HTTP/1.1 "));
    const char *length = response_header(&heard, "content-length");
    const char *coding = response_header(&heard, "transfer-encoding");
    if (whole && !is_head && heard.status != 204 && heard.status != 304 && heard.status != 100) {
        if (coding)
            whole = read_chunks(fd, &body);
        else if ((length = response_header(&heard, "content-length")) != NULL)
            whole = read_exactly(fd, &body, strtoul(length, NULL, 10));
        else
            read_exactly(fd, &body, SIZE_MAX);
    }
    heard.body = body.data;
    heard.body_bytes = body.bytes;
    heard.is_cut = !whole;
    return heard;
}

void response_free(http_response *response) {
    free(response->head);
    free(response->body);
    response->head = response->body = NULL;
}

void expect_status(http_response response, int status) {
    if (response.status != status)
        fail_msg("status %d and not %d: %s", response.status, status, response.body);
    response_free(&response);
}

const char *response_header(const http_response *response, const char *name) {
    static char value[512];
    size_t n_name = strlen(name);
    for (const char *line = response->head; (line = strstr(line, "\r\n")) != NULL;) {
        line += 2;
        if (strncasecmp(line, name, n_name) != 0 || line[n_name] != ':')
            continue;
        const char *at = line + n_name + 1 + strspn(line + n_name + 1, " ");
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r"), at);
        return value;
    }
    return NULL;
}

const char *response_field(const http_response *response, const char *name) {
    static char value[4096];
    char key[128];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = response->body ? strstr(response->body, key) : NULL;
    if (!at)
        return NULL;
    at += strlen(key);
    size_t n = 0;
    if (*at == '"') {
        for (at++; *at && *at != '"' && n + 2 < sizeof value; at++) {
            if (*at == '\\')
                value[n++] = *at++;
            value[n++] = *at;
        }
    } else {
        while (*at && !strchr(",}]", *at) && n + 1 < sizeof value)
            value[n++] = *at++;
    }
    value[n] = '\0';
    return value;
}

http_response ask(const test_server *server, const char *method, const char *path,
                  const char *headers, const char *body) {
    char head[8192];
    int fd = dial(server);
    int n = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s", method, path,
                     headers);
    if (body)
        n += snprintf(head + n, sizeof head - (size_t)n, "Content-Length: %zu\r\n", strlen(body));
    assert_true(n > 0 && (size_t)n + 2 < sizeof head);
    memcpy(head + n, "\r\n", 3);
    say_text(fd, head);
    if (body)
        say_text(fd, body);
    http_response heard = hear(fd, strcmp(method, "HEAD") == 0);
    hang_up(fd);
    return heard;
}

http_response get(const test_server *server, const char *path) {
    return ask(server, "GET", path, "", NULL);
}

http_response post(const test_server *server, const char *path, const char *body) {
    return ask(server, "POST", path, "Content-Type: application/json\r\n", body);
}

/* ---- metrics and streams ---------------------------------------------------------------- */

void sleep_ms(long ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

double metric(const test_server *server, const char *name, const char *label) {
    http_response heard = get(server, "/metrics");
    assert_int_equal(heard.status, 200);
    double sum = 0;
    bool found = false;
    char start[128];
    int n_start = snprintf(start, sizeof start, "linnet:%s{", name);
    for (char *rest = heard.body, *line; (line = strsep(&rest, "\n")) != NULL;) {
        const char *end = strrchr(line, '}');
        if (strncmp(line, start, (size_t)n_start) != 0 || !end || (label && !strstr(line, label)))
            continue;
        sum += atof(end + 1);
        found = true;
    }
    response_free(&heard);
    return found ? sum : -1;
}

void wait_for_metric(const test_server *server, const char *name, const char *label, double value) {
    double seen = -1;
    for (int ms = 0; ms < TIMEOUT_MS; ms += 20) {
        seen = metric(server, name, label);
        if (seen == value)
            return;
        sleep_ms(20);
    }
    fail_msg("%s is %g and not %g", name, seen, value);
}

char *stream_content(const http_response *stream) {
    bytes all = {0};
    append(&all, "", 0);
    for (const char *at = stream->body; (at = strstr(at, "data: {")) != NULL; at++) {
        json_t *event = json_loadb(at + 6, strcspn(at + 6, "\n"), 0, NULL);
        assert_non_null(event);
        json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
        json_t *content = json_object_get(json_object_get(choice, "delta"), "content");
        if (json_is_string(content))
            append(&all, json_string_value(content), json_string_length(content));
        json_decref(event);
    }
    return all.data;
}

char *stream_text(const http_response *stream) {
    bytes all = {0};
    append(&all, "", 0);
    const char *at = stream->body;
    while ((at = strstr(at, "data: {")) != NULL) {
        http_response event = {.body = strndup(at, strcspn(at, "\n"))};
        const char *value = response_field(&event, "content");
        if (!value)
            value = response_field(&event, "text");
        if (value)
            append(&all, value, strlen(value));
        free(event.body);
        at++;
    }
    return all.data;
}
