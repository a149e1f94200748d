/* A server of linnet under test, and a client that says exactly what it is told to. */
#ifndef LN_TESTS_SERVER_CLIENT_H
#define LN_TESTS_SERVER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct test_server {
    pid_t pid;
    uint16_t port;
    int log_fd;               /* its stderr, read when it stops */
    int command_fd, reply_fd; /* of a modelled one; else -1 */
} test_server;

/* Runs `linnet serve --port 0` with the arguments, which a NULL ends; fails the test when it does
 * not begin to listen. It ends with the test program, if not before. */
test_server server_start(const char *const *arguments);
/* The hub's cache of the servers that start from now on; at first there is none, so that without
 * MODEL they serve the demo model. */
extern const char *server_hub_cache;
/* The same with a standard error of the caller's, which the server's end closes. */
test_server server_start_logging(int log_fd, const char *const *arguments);
#define SERVER(...) server_start((const char *const[]){__VA_ARGS__, NULL})

/* The server of all tests of a program, their set-up, unless they have one of their own, and their
 * tear-down: the demo model. */
extern test_server shared;
int shared_start(void **state);
int shared_stop(void **state);

/* A server over an engine whose steps come when modelled_step says so; times in milliseconds. */
test_server modelled_start(unsigned max_seqs, unsigned max_waiting, unsigned hang_ms,
                           unsigned drain_ms);
/* The same over an engine that says that it has a GPU. */
test_server modelled_start_gpu(unsigned max_seqs, unsigned max_waiting, unsigned hang_ms,
                               unsigned drain_ms);

/* Over models a, b and so on, which are loaded when they are asked for, and whose engines step by
 * themselves. Each time one is loaded or freed waits for a call of modelled_pass_load, each prompt
 * that begins with the token 7 hangs its engine until one of modelled_pass_hang. */
test_server modelled_start_models(unsigned n_models, unsigned hang_ms, bool has_gpu);
void modelled_pass_load(test_server *server);
void modelled_pass_hang(test_server *server);

/* What became of requests, from the start. */
typedef struct modelled_counts {
    size_t n_running, n_finished, n_cancelled, n_failed;
} modelled_counts;

/* One step: a token for each request, or its end. */
modelled_counts modelled_step(test_server *server);
modelled_counts modelled_fail(test_server *server); /* ends all requests with an error */
modelled_counts modelled_lose(test_server *server); /* likewise, and for good */

/* Makes the engine one whose destruction never comes to an end. */
void modelled_get_stuck(test_server *server);

/* Waits for its end and returns the exit status, or 128 + the signal; *log is malloc'd unless
 * NULL. */
int server_wait(test_server *server, char **log);
/* SIGTERM and wait; fails the test unless the status is 0. */
void server_stop(test_server *server);
bool server_is_alive(const test_server *server);

/* A response, whole: its head and the body without the framing. */
typedef struct http_response {
    int status; /* 0: the connection closed without one */
    char *head; /* NUL-terminated, malloc'd, as is body */
    char *body;
    size_t body_bytes;
    bool is_cut; /* the connection closed within it */
} http_response;
void response_free(http_response *response);
/* Frees it; fails the test when it has another status. */
void expect_status(http_response response, int status);
/* The value of a header, or NULL; valid until the next call. */
const char *response_header(const http_response *response, const char *name);
/* What follows `"name":` in the body, NUL-terminated where a value of no structure ends; NULL when
 * it is not there. Valid until the next call. */
const char *response_field(const http_response *response, const char *name);

/* What is going on, for the messages of failures; borrowed. */
extern const char *client_context;

int dial(const test_server *server);
void say(int fd, const void *message, size_t n_bytes); /* as much as the peer takes */
void say_text(int fd, const char *text);
/* Reads one response; what follows it stays for the next call with this descriptor. Fails the test
 * when nothing comes within a minute. `is_head`: it has no body. */
http_response hear(int fd, bool is_head);
void hang_up(int fd);
/* True when the peer closes within the time without saying anything more. */
bool is_closed_within(int fd, int timeout_ms);
/* True when the server closed its side with the response that was heard last: before it answers
 * another request, however long that takes, and not at the end of the time for which it reads on.
 */
bool is_closed_with_response(const test_server *server, int fd);

/* One exchange on a connection of its own. `headers` are whole lines with \r\n. */
http_response ask(const test_server *server, const char *method, const char *path,
                  const char *headers, const char *body);
http_response get(const test_server *server, const char *path);
http_response post(const test_server *server, const char *path, const char *body);

void sleep_ms(long ms);

/* The value of a metric, summed over its labels that contain `label`; -1 when it is not there. */
double metric(const test_server *server, const char *name, const char *label);
/* Asks for the metric until it has the value; fails the test after a minute. */
void wait_for_metric(const test_server *server, const char *name, const char *label, double value);

/* The texts of a stream of server-sent events, concatenated (`"text":` or `"content":`). */
char *stream_text(const http_response *response);
/* Those of a chat's first choice, read as JSON. */
char *stream_content(const http_response *response);

#endif
