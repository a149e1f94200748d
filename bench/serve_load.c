/* Loads a server on this machine, for a bounded time, and prints what it saw.
 *
 * usage: bench_serve_load PORT SECONDS [PID] [KIND=N]...
 *   streams  N streams of `tokens` tokens each, from a server whose tokens are times
 *            (bench_serve_modelled): how late they arrive at this side's sockets, as the kernel
 *            notes it, and how late this program has read them, for which it needs a core as well
 *   rate     N requests a second of `tokens` tokens, whatever becomes of the others: goodput,
 *            refusals and their times
 *   idle     N connections that say nothing
 *   slow     N connections that say a byte of a head each second, and come back when closed
 *   unread   N streams of 16 tokens that are never read, and come back when they are cut or closed
 *   settle   so many seconds go by before anything is counted
 *   nap      N microseconds of rest after each look at the sockets: a client on another machine
 *            would not have to be woken by the server
 * Answers, refusals and /health count until they arrive, as the kernel notes it.
 * PID: the server's, for its memory and CPU time. /health is asked ten times a second. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { MAX_CONNECTIONS = 20000, MAX_SECONDS = 150, MAX_SAMPLES = 1 << 22, UNREAD_TOKENS = 16 };

typedef enum connection_kind {
    KIND_FREE = 0,
    KIND_STREAM,
    KIND_RATE,
    KIND_IDLE,
    KIND_SLOW,
    KIND_UNREAD,
    KIND_HEALTH
} connection_kind;

typedef struct connection connection;
struct connection {
    connection *next_free; /* without a question, of its kind */
    int fd;
    connection_kind kind;
    bool is_waiting; /* for an answer */
    uint64_t begin_ns;
    size_t n_in;
    char in[4096]; /* of the answer, or the end of a line of a stream */
};

typedef struct samples {
    float *ms;
    size_t count;
} samples;

static connection *connections, *first_free[KIND_HEALTH + 1];
static size_t n_connections;
static int epoll_fd;
static unsigned short port;
static size_t n_tokens = 16, nap_us;
static samples arrivals, lateness, answers, refusals, health;
static int64_t real_ns; /* the real clock, less the monotonic one */
static size_t n_ok, n_refused, n_other, n_lost, n_slow_closed, n_cut, n_stream_tokens, n_chunks;

static void add_sample(samples *to, double ms) {
    if (to->ms == NULL)
        to->ms = malloc(MAX_SAMPLES * sizeof *to->ms);
    if (to->ms != NULL && to->count < MAX_SAMPLES)
        to->ms[to->count++] = (float)ms;
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void print_samples(const char *name, samples *of) {
    if (of->count == 0)
        return;
    qsort(of->ms, of->count, sizeof *of->ms, by_value);
    printf("%-10s %zu: median %.2f ms, p99 %.2f ms, most %.2f ms\n", name, of->count,
           (double)of->ms[of->count / 2], (double)of->ms[(size_t)((double)of->count * 0.99)],
           (double)of->ms[of->count - 1]);
}

/* ---- connections -------------------------------------------------------------------------- */

static void open_socket(connection *c) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->kind == KIND_UNREAD) {
        int small = 4096;
        setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    }
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        fprintf(stderr, "cannot connect: %s\n", strerror(errno));
        exit(1);
    }
    int yes = 1;
    if (c->kind == KIND_STREAM || c->kind == KIND_RATE || c->kind == KIND_HEALTH)
        setsockopt(c->fd, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = c->kind == KIND_UNREAD ? EPOLLRDHUP : EPOLLIN,
                                .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
    c->n_in = 0;
    if (c->kind == KIND_SLOW)
        send(c->fd, "GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
             strlen("GET / HTTP/1.1\r\nHost: localhost\r\nX: "), MSG_NOSIGNAL);
}

static connection *add_connection(connection_kind kind) {
    connection *kept = first_free[kind];
    if (kept != NULL) {
        first_free[kind] = kept->next_free;
        return kept;
    }
    if (n_connections == MAX_CONNECTIONS)
        return NULL;
    connection *c = &connections[n_connections++];
    *c = (connection){.kind = kind};
    open_socket(c);
    return c;
}

/* The connection may be used again. */
static void set_free(connection *c) {
    c->is_waiting = false;
    if (c->kind != KIND_RATE && c->kind != KIND_HEALTH)
        return;
    c->next_free = first_free[c->kind];
    first_free[c->kind] = c;
}

static void say(connection *c, const char *text) {
    if (send(c->fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        n_lost += c->kind == KIND_RATE || c->kind == KIND_STREAM;
    c->is_waiting = true;
    c->begin_ns = ln_clock_ns();
    c->n_in = 0;
}

static void ask(connection *c, bool streams) {
    char body[256], request[512];
    if (c == NULL)
        return;
    snprintf(body, sizeof body,
             "{\"prompt\":\"Once upon a time\",\"max_tokens\":%zu,\"ignore_eos\":true,"
             "\"stream\":%s}",
             c->kind == KIND_UNREAD ? UNREAD_TOKENS : n_tokens, streams ? "true" : "false");
    snprintf(request, sizeof request,
             "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    say(c, request);
}

/* ---- what comes ---------------------------------------------------------------------------- */

/* The times in the text of an event. */
static void take_line(const char *line, uint64_t arrived_ns) {
    const char *at = strstr(line, "\"text\":\"");
    uint64_t now_ns = ln_clock_ns();
    if (at == NULL)
        return;
    n_chunks++;
    for (at += strlen("\"text\":\""); *at >= '0' && *at <= '9';) {
        char *end;
        uint64_t then_ns = strtoull(at, &end, 10);
        add_sample(&lateness, (double)(now_ns - then_ns) / 1e6);
        if (arrived_ns > then_ns)
            add_sample(&arrivals, (double)(arrived_ns - then_ns) / 1e6);
        n_stream_tokens++;
        at = end + (*end == ' ');
    }
}

static void take_stream(connection *c, const char *bytes, size_t n_bytes, uint64_t arrived_ns) {
    for (size_t i = 0; i < n_bytes; i++) {
        if (bytes[i] == '\n') {
            c->in[c->n_in] = '\0';
            take_line(c->in, arrived_ns);
            c->n_in = 0;
        } else if (c->n_in + 1 < sizeof c->in) {
            c->in[c->n_in++] = bytes[i];
        }
    }
}

static void take_answer(connection *c, const char *bytes, size_t n_bytes, uint64_t arrived_ns) {
    size_t room = sizeof c->in - 1 - c->n_in;
    memcpy(c->in + c->n_in, bytes, n_bytes < room ? n_bytes : room);
    c->n_in += n_bytes < room ? n_bytes : room;
    c->in[c->n_in] = '\0';
    const char *body = strstr(c->in, "\r\n\r\n"), *length = strstr(c->in, "Content-Length: ");
    if (body == NULL || length == NULL ||
        c->n_in < (size_t)(body + 4 - c->in) + strtoul(length + 16, NULL, 10))
        return;
    double ms =
        (double)((arrived_ns > c->begin_ns ? arrived_ns : ln_clock_ns()) - c->begin_ns) / 1e6;
    int status = atoi(c->in + 9);
    set_free(c);
    if (c->kind == KIND_HEALTH) {
        add_sample(&health, ms);
        n_other += status != 200;
    } else if (status == 200) {
        n_ok++;
        add_sample(&answers, ms);
    } else if (status == 429) {
        n_refused++;
        add_sample(&refusals, ms);
    } else {
        n_other++;
    }
}

static void on_closed(connection *c) {
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    n_slow_closed += c->kind == KIND_SLOW;
    n_cut += c->kind == KIND_UNREAD;
    n_lost += c->is_waiting && (c->kind == KIND_RATE || c->kind == KIND_HEALTH);
    open_socket(c);
    if (c->is_waiting)
        set_free(c);
    if (c->kind == KIND_UNREAD)
        ask(c, true);
}

/* Reads, and says when the last of it arrived; 0: the kernel does not say. */
static ssize_t receive(int fd, char *bytes, size_t capacity, uint64_t *arrived_ns) {
    union {
        char bytes[256];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {bytes, capacity};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &message, 0);
    *arrived_ns = 0;
    if (n <= 0)
        return n;
    for (struct cmsghdr *part_of = CMSG_FIRSTHDR(&message); part_of != NULL;
         part_of = CMSG_NXTHDR(&message, part_of)) {
        struct timespec when;
        if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        memcpy(&when, CMSG_DATA(part_of), sizeof when);
        *arrived_ns =
            (uint64_t)((int64_t)when.tv_sec * 1000000000 + (int64_t)when.tv_nsec - real_ns);
    }
    return n;
}

static void note_clocks(void) {
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    real_ns = (int64_t)real.tv_sec * 1000000000 + (int64_t)real.tv_nsec - (int64_t)ln_clock_ns();
}

static void on_readable(connection *c, unsigned events) {
    char bytes[65536];
    if (c->kind == KIND_UNREAD) {
        if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
            on_closed(c);
        return;
    }
    uint64_t arrived_ns;
    ssize_t n = receive(c->fd, bytes, sizeof bytes, &arrived_ns);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        on_closed(c);
    else if (c->kind == KIND_STREAM)
        take_stream(c, bytes, (size_t)n, arrived_ns);
    else if (c->kind == KIND_RATE || c->kind == KIND_HEALTH)
        take_answer(c, bytes, (size_t)n, arrived_ns);
}

/* ---- the server's process ------------------------------------------------------------------ */

static double cpu_s(int pid) {
    char path[64], line[1024] = "";
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file != NULL && fgets(line, sizeof line, file) != NULL && strrchr(line, ')') != NULL)
        sscanf(strrchr(line, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
               &user, &system);
    if (file != NULL)
        fclose(file);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double resident_mb(int pid) {
    char path[64];
    unsigned long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "r");
    if (file != NULL && fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

/* Seconds of processor time of each thread. */
static void print_threads(int pid) {
    char path[64], name[512], line[1024];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    for (const struct dirent *entry; threads != NULL && (entry = readdir(threads)) != NULL;) {
        unsigned long long ns = 0;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s/schedstat", path, entry->d_name);
        FILE *file = fopen(name, "r");
        if (file != NULL && fgets(line, sizeof line, file) != NULL)
            ns = strtoull(line, NULL, 10);
        if (file != NULL)
            fclose(file);
        printf("thread %s took %.2f s in all\n", entry->d_name, (double)ns / 1e9);
    }
    if (threads != NULL)
        closedir(threads);
}

/* ---- the run ------------------------------------------------------------------------------- */

static size_t option(int argc, char **argv, const char *name, size_t otherwise) {
    size_t n = strlen(name);
    for (int i = 3; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')
            return strtoull(argv[i] + n + 1, NULL, 10);
    return otherwise;
}

static void begin(int argc, char **argv) {
    static const struct {
        const char *name;
        connection_kind kind;
    } kinds[] = {{"idle", KIND_IDLE},
                 {"slow", KIND_SLOW},
                 {"unread", KIND_UNREAD},
                 {"streams", KIND_STREAM}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = option(argc, argv, kinds[k].name, 0); i > 0; i--) {
            connection *c = add_connection(kinds[k].kind);
            if (kinds[k].kind == KIND_STREAM || kinds[k].kind == KIND_UNREAD)
                ask(c, true);
        }
}

/* A byte of a head that never ends. */
static void trickle(void) {
    for (size_t i = 0; i < n_connections; i++)
        if (connections[i].kind == KIND_SLOW)
            send(connections[i].fd, "G", 1, MSG_NOSIGNAL);
}

static void run(double seconds, double rate) {
    uint64_t begin_ns = ln_clock_ns(), second = 0, tenth = 0, n_asked = 0;
    for (;;) {
        struct epoll_event events[256];
        double elapsed = (double)(ln_clock_ns() - begin_ns) / 1e9;
        if (elapsed >= seconds)
            return;
        for (; (double)n_asked < elapsed * rate; n_asked++)
            ask(add_connection(KIND_RATE), false);
        if ((double)tenth < elapsed * 10) {
            tenth++;
            connection *c = add_connection(KIND_HEALTH);
            if (c != NULL)
                say(c, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        if ((double)second < elapsed) {
            second++;
            trickle();
        }
        double next_s = rate > 0 ? (double)n_asked / rate - elapsed : 1;
        int n = epoll_wait(epoll_fd, events, 256, next_s < 0.02 ? (int)(next_s * 1000) + 1 : 20);
        for (int i = 0; i < n; i++)
            on_readable(events[i].data.ptr, events[i].events);
        if (nap_us > 0)
            nanosleep(&(struct timespec){.tv_nsec = (long)nap_us * 1000}, NULL);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s PORT SECONDS [PID] [KIND=N]...\n", argv[0]);
        return 2;
    }
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    port = (unsigned short)atoi(argv[1]);
    double seconds = atof(argv[2]) < MAX_SECONDS ? atof(argv[2]) : MAX_SECONDS;
    int pid = argc > 3 ? atoi(argv[3]) : 0;
    double rate = (double)option(argc, argv, "rate", 0);
    n_tokens = option(argc, argv, "tokens", 16);
    nap_us = option(argc, argv, "nap", 0);
    note_clocks();
    connections = calloc(MAX_CONNECTIONS, sizeof *connections);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    double before_mb = resident_mb(pid);
    begin(argc, argv);
    run((double)option(argc, argv, "settle", 0), rate);
    arrivals.count = lateness.count = answers.count = refusals.count = health.count = 0;
    n_ok = n_refused = n_other = n_lost = n_slow_closed = n_cut = n_stream_tokens = n_chunks = 0;
    double begin_mb = resident_mb(pid), begin_cpu_s = cpu_s(pid);
    run(seconds, rate);
    printf(
        "%zu connections for %.0f s; the server took %.1f %% of a core; resident %.1f MB before, "
        "%.1f MB with connections, %.1f MB at the end\n",
        n_connections, seconds, (cpu_s(pid) - begin_cpu_s) / seconds * 100, before_mb, begin_mb,
        resident_mb(pid));
    print_threads(pid);
    printf(
        "answers: %.1f a second; %zu whole, %zu refused with 429, %zu others, %zu lost; %zu slow "
        "heads closed, %zu unread streams cut; %zu tokens in %zu chunks\n",
        (double)n_ok / seconds, n_ok, n_refused, n_other, n_lost, n_slow_closed, n_cut,
        n_stream_tokens, n_chunks);
    print_samples("arrival", &arrivals);
    print_samples("reading", &lateness);
    print_samples("answers", &answers);
    print_samples("refusals", &refusals);
    print_samples("health", &health);
    return 0;
}
