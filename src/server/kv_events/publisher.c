#include "server/kv_events/publisher.h"

#include <string.h>

bool ln_kv_publisher_connects(const char *endpoint) {
    return strchr(endpoint, '*') == NULL && strstr(endpoint, "::") == NULL &&
           strncmp(endpoint, "ipc://", 6) != 0;
}

#ifdef LN_HAS_ZMQ

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <zmq.h>

#include "base/eventfd.h"
#include "server/kv_events/batch.h"
#include "server/kv_events/replay.h"

enum {
    QUEUE_EVENTS = 1 << 14,
    REPLAY_BYTES = 16 << 20,
    GATHER_NS = 1000000,  /* what one step of the engine changes comes into one batch */
    MAX_ASKED_BYTES = 64, /* of a message that asks for a replay */
    LINGER_MS = 200,      /* for what is on its way at the end */
    ENDPOINT_BYTES = 256
};

struct ln_kv_publisher {
    void *context, *pub, *replay_socket; /* ZeroMQ's; the thread's once that runs */
    const char *topic;
    char endpoint[ENDPOINT_BYTES];
    ln_kv_event_queue queue;
    ln_prefix_observer observer;
    ln_kv_replay replay;
    uint64_t number; /* of the next batch */
    uint8_t batch[LN_KV_BATCH_BYTES];
    atomic_ullong n_batches, n_events, n_stalls;
    atomic_bool stopping;
    pthread_t thread;
    bool has_thread;
};

bool ln_kv_publisher_is_built(void) {
    return true;
}

/* ---- the thread -------------------------------------------------------------------------- */

static void write_number(uint64_t number, uint8_t bytes[8]) {
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> 8 * (7 - i));
}

static void set(void *socket, int option, int value) {
    zmq_setsockopt(socket, option, &value, sizeof value);
}

/* The first part of a message. A PUB socket never waits: subscribers that are slow miss messages,
 * and see it by the numbers. With NODROP it says first that one begins to. */
static bool send_topic(ln_kv_publisher *p) {
    size_t n = strlen(p->topic);
    if (zmq_send(p->pub, p->topic, n, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        return true;
    if (zmq_errno() != EAGAIN)
        return false;
    atomic_fetch_add(&p->n_stalls, 1);
    set(p->pub, ZMQ_XPUB_NODROP, 0);
    bool sent = zmq_send(p->pub, p->topic, n, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
    set(p->pub, ZMQ_XPUB_NODROP, 1);
    return sent;
}

static void publish(ln_kv_publisher *p, const ln_kv_event *events, size_t n_events) {
    struct timespec now;
    uint8_t number[8];
    clock_gettime(CLOCK_REALTIME, &now);
    double time_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    size_t n_bytes = ln_kv_batch_write(events, n_events, time_s, p->batch);
    write_number(p->number++, number);
    if (send_topic(p) && zmq_send(p->pub, number, sizeof number, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        zmq_send(p->pub, p->batch, n_bytes, ZMQ_DONTWAIT);
    if (p->replay_socket != NULL)
        ln_kv_replay_add(&p->replay, p->batch, n_bytes);
    atomic_fetch_add(&p->n_batches, 1);
    atomic_fetch_add(&p->n_events, n_events);
}

static void publish_cleared(ln_kv_publisher *p) {
    const ln_kv_event cleared = {.kind = LN_KV_EVENT_CLEARED};
    publish(p, &cleared, 1);
}

static void publish_waiting(ln_kv_publisher *p) {
    size_t n;
    for (;;) {
        const ln_kv_event *events = ln_kv_event_queue_peek(&p->queue, &n);
        if (n == 0)
            return;
        n = n < LN_KV_BATCH_EVENTS ? n : LN_KV_BATCH_EVENTS;
        publish(p, events, n);
        ln_kv_event_queue_drop(&p->queue, n);
    }
}

/* Takes a whole message; true when it is one that asks: who, an empty part, and a number. */
static bool hear_asker(ln_kv_publisher *p, uint8_t *who, size_t *n_who, uint64_t *number) {
    uint8_t part[MAX_ASKED_BYTES] = {0};
    size_t n_parts = 0;
    bool is_good = true;
    int has_more = 1;
    size_t n_more = sizeof has_more;
    for (; has_more; n_parts++) {
        int n = zmq_recv(p->replay_socket, n_parts == 0 ? who : part,
                         n_parts == 0 ? UINT8_MAX : sizeof part, ZMQ_DONTWAIT);
        if (n < 0 || zmq_getsockopt(p->replay_socket, ZMQ_RCVMORE, &has_more, &n_more) != 0)
            return false;
        if (n_parts == 0)
            *n_who = (size_t)n;
        else
            is_good = is_good && n_parts <= 2 && n == (n_parts == 1 ? 0 : 8);
    }
    *number = 0;
    for (int i = 0; i < 8; i++)
        *number = *number << 8 | part[i];
    return is_good && n_parts == 3;
}

/* One part of an answer after what says to whom it goes. A ROUTER never waits, either. */
static void answer(ln_kv_publisher *p, const uint8_t *who, size_t n_who, uint64_t number,
                   const uint8_t *bytes, size_t n_bytes) {
    uint8_t text[8];
    write_number(number, text);
    if (zmq_send(p->replay_socket, who, n_who, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
        zmq_send(p->replay_socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
        zmq_send(p->replay_socket, text, sizeof text, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        zmq_send(p->replay_socket, bytes, n_bytes, ZMQ_DONTWAIT);
}

/* The batches from a number on that are kept, and the mark of the end, which is -1. */
static void replay(ln_kv_publisher *p) {
    uint8_t who[UINT8_MAX];
    size_t n_who = 0, n_bytes;
    uint64_t number;
    if (!hear_asker(p, who, &n_who, &number))
        return;
    if (number < p->replay.first)
        number = p->replay.first;
    for (; number < p->replay.end; number++) {
        const uint8_t *batch = ln_kv_replay_get(&p->replay, number, &n_bytes);
        answer(p, who, n_who, number, batch, n_bytes);
    }
    answer(p, who, n_who, UINT64_MAX, (const uint8_t *)"", 0);
}

static void *run(void *argument) {
    static const struct timespec gather = {.tv_nsec = GATHER_NS};
    ln_kv_publisher *p = argument;
    zmq_pollitem_t items[] = {{.fd = p->queue.wake_fd, .events = ZMQ_POLLIN},
                              {.socket = p->replay_socket, .events = ZMQ_POLLIN}};
    publish_cleared(p); /* of who was there before */
    while (!atomic_load(&p->stopping)) {
        if (zmq_poll(items, p->replay_socket != NULL ? 2 : 1, -1) < 0) {
            nanosleep(&gather, NULL); /* a signal, or no memory for now */
            continue;
        }
        if (items[0].revents != 0) {
            ln_eventfd_take(p->queue.wake_fd);
            nanosleep(&gather, NULL);
            publish_waiting(p);
        }
        if (items[1].revents != 0)
            replay(p);
    }
    publish_waiting(p);
    publish_cleared(p);
    return NULL;
}

/* ---- open and close ---------------------------------------------------------------------- */

static ln_status open_socket(ln_kv_publisher *p, int type, const char *endpoint, bool connects,
                             int max_waiting, void **out, ln_error *err) {
    void *socket = zmq_socket(p->context, type);
    *out = socket;
    if (socket == NULL)
        return ln_fail(err, LINNET_ERR_LIMIT, "no socket for KV events: %s",
                       zmq_strerror(zmq_errno()));
    set(socket, ZMQ_SNDHWM, max_waiting);
    set(socket, ZMQ_LINGER, LINGER_MS);
    set(socket, ZMQ_IPV6, strchr(endpoint, '[') != NULL || strstr(endpoint, "::") != NULL);
    const int64_t max_asked = MAX_ASKED_BYTES;
    if (type == ZMQ_ROUTER)
        zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_asked, sizeof max_asked);
    int failed = connects ? zmq_connect(socket, endpoint) : zmq_bind(socket, endpoint);
    if (failed)
        return ln_fail(err, LINNET_ERR_IO, "KV events cannot %s %s: %s",
                       connects ? "connect to" : "listen at", endpoint, zmq_strerror(zmq_errno()));
    return LINNET_OK;
}

static ln_status open_all(ln_kv_publisher *p, const ln_kv_publisher_options *options,
                          ln_error *err) {
    const char *asked = options->replay_endpoint;
    size_t n_bytes = sizeof p->endpoint;
    LN_TRY(ln_kv_event_queue_init(&p->queue, QUEUE_EVENTS, err));
    p->observer = ln_kv_event_queue_observer(&p->queue);
    p->context = zmq_ctx_new();
    if (p->context == NULL)
        return ln_fail_memory(err, "ZeroMQ");
    LN_TRY(open_socket(p, ZMQ_PUB, options->endpoint, ln_kv_publisher_connects(options->endpoint),
                       (int)options->max_waiting, &p->pub, err));
    set(p->pub, ZMQ_XPUB_NODROP, 1);
    if (zmq_getsockopt(p->pub, ZMQ_LAST_ENDPOINT, p->endpoint, &n_bytes) != 0)
        p->endpoint[0] = '\0';
    if (asked != NULL) { /* one whole replay may wait */
        LN_TRY(ln_kv_replay_init(&p->replay, options->max_batches, REPLAY_BYTES, err));
        LN_TRY(open_socket(p, ZMQ_ROUTER, asked, false, (int)options->max_batches + 1,
                           &p->replay_socket, err));
    }
    int code = pthread_create(&p->thread, NULL, run, p);
    p->has_thread = code == 0;
    return code == 0
               ? LINNET_OK
               : ln_fail(err, LINNET_ERR_LIMIT, "no thread for KV events: %s", strerror(code));
}

ln_status ln_kv_publisher_open(const ln_kv_publisher_options *options, ln_kv_publisher **out,
                               ln_error *err) {
    ln_kv_publisher *p = calloc(1, sizeof *p);
    sigset_t all, before;
    *out = NULL;
    if (p == NULL)
        return ln_fail_memory(err, "KV events");
    p->topic = options->topic;
    sigfillset(&all); /* signals go to the server's thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ln_status status = open_all(p, options, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status == LINNET_OK)
        *out = p;
    else
        ln_kv_publisher_close(p);
    return status;
}

void ln_kv_publisher_close(ln_kv_publisher *p) {
    if (p == NULL)
        return;
    if (p->has_thread) {
        atomic_store(&p->stopping, true);
        ln_eventfd_add(p->queue.wake_fd, 1);
        pthread_join(p->thread, NULL);
    }
    if (p->pub != NULL)
        zmq_close(p->pub);
    if (p->replay_socket != NULL)
        zmq_close(p->replay_socket);
    if (p->context != NULL)
        zmq_ctx_term(p->context);
    ln_kv_replay_free(&p->replay);
    ln_kv_event_queue_free(&p->queue);
    free(p);
}

const ln_prefix_observer *ln_kv_publisher_observer(const ln_kv_publisher *p) {
    return &p->observer;
}

const char *ln_kv_publisher_endpoint(const ln_kv_publisher *p) {
    return p->endpoint;
}

ln_kv_publisher_counts ln_kv_publisher_count(const ln_kv_publisher *p) {
    unsigned long long n_events =
        atomic_load(&p->n_events); /* first: their batch is counted before */
    return (ln_kv_publisher_counts){atomic_load(&p->n_batches), n_events,
                                    atomic_load(&p->queue.n_dropped), atomic_load(&p->n_stalls)};
}

#else

bool ln_kv_publisher_is_built(void) {
    return false;
}

ln_status ln_kv_publisher_open(const ln_kv_publisher_options *options, ln_kv_publisher **out,
                               ln_error *err) {
    (void)options;
    *out = NULL;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                   "KV events need ZeroMQ, which this program was built without");
}

void ln_kv_publisher_close(ln_kv_publisher *p) {
    (void)p;
}

const ln_prefix_observer *ln_kv_publisher_observer(const ln_kv_publisher *p) {
    (void)p;
    return NULL;
}

const char *ln_kv_publisher_endpoint(const ln_kv_publisher *p) {
    (void)p;
    return "";
}

ln_kv_publisher_counts ln_kv_publisher_count(const ln_kv_publisher *p) {
    (void)p;
    return (ln_kv_publisher_counts){0};
}

#endif
