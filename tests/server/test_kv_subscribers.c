/* What becomes of a subscriber of KV events that is slow: others hear all, it misses batches behind
 * those that may wait for it, sees so by their numbers, and gets the same ones when it asks. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "server/kv_events/publisher.h"
#include "test.h"

enum { WAITING = 4, WAIT_MS = 60000, MAX_HEARD = 256, MAX_BYTES = 1 << 17 };

/* A batch: its number, and a sum over its bytes. */
typedef struct heard_batch {
    uint64_t number, sum;
} heard_batch;

typedef struct heard_batches {
    heard_batch batches[MAX_HEARD];
    size_t count;
} heard_batches;

static char folder[] = "/tmp/linnet-kv-XXXXXX";
static char pub_endpoint[64], replay_endpoint[64];
static ln_kv_publisher *publisher;
static void *context, *slow, *quick, *dealer;
static int n_told;

static void *open_socket(int type, const char *endpoint) {
    static const int wait_ms = WAIT_MS, linger_ms = 0, waiting = 1, bytes = 4096;
    void *socket = zmq_socket(context, type);
    assert_non_null(socket);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    if (type == ZMQ_SUB) {
        zmq_setsockopt(socket, ZMQ_RCVHWM, &waiting, sizeof waiting);
        zmq_setsockopt(socket, ZMQ_RCVBUF, &bytes, sizeof bytes);
        zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "kv", 2);
    }
    assert_int_equal(zmq_connect(socket, endpoint), 0);
    return socket;
}

static int start(void **state) {
    (void)state;
    ln_error err;
    assert_non_null(mkdtemp(folder));
    snprintf(pub_endpoint, sizeof pub_endpoint, "ipc://%s/pub", folder);
    snprintf(replay_endpoint, sizeof replay_endpoint, "ipc://%s/replay", folder);
    const ln_kv_publisher_options options = {.endpoint = pub_endpoint,
                                             .topic = "kv",
                                             .replay_endpoint = replay_endpoint,
                                             .max_batches = MAX_HEARD,
                                             .max_waiting = WAITING};
    assert_int_equal(ln_kv_publisher_open(&options, &publisher, &err), LINNET_OK);
    context = zmq_ctx_new();
    slow = open_socket(ZMQ_SUB, pub_endpoint);
    quick = open_socket(ZMQ_SUB, pub_endpoint);
    dealer = open_socket(ZMQ_DEALER, replay_endpoint);
    return 0;
}

static int stop(void **state) {
    (void)state;
    ln_kv_publisher_close(publisher);
    zmq_close(slow);
    zmq_close(quick);
    zmq_close(dealer);
    zmq_ctx_term(context);
    unlink(pub_endpoint + strlen("ipc://"));
    unlink(replay_endpoint + strlen("ipc://"));
    return rmdir(folder);
}

/* Tells of so many blocks with tokens of their own, and waits until they are published; the number
 * of batches. */
static uint64_t tell(int n_blocks) {
    static const struct timespec pause = {.tv_nsec = 1000000};
    const ln_prefix_observer *observer = ln_kv_publisher_observer(publisher);
    unsigned long long n_before = ln_kv_publisher_count(publisher).n_events;
    for (int i = 0; i < n_blocks; i++, n_told++) {
        ln_prefix_key key = {.hash = UINT64_MAX - (uint64_t)n_told, .parent = 1};
        for (size_t j = 0; j < LN_KV_BLOCK_TOKENS; j++)
            key.tokens[j] = 100000 + n_told;
        observer->stored(observer->context, &(ln_prefix_stored){.key = &key, .is_first = true});
    }
    ln_kv_publisher_counts counts;
    int n_waits = 0;
    do {
        nanosleep(&pause, NULL);
        counts = ln_kv_publisher_count(publisher);
        assert_true(++n_waits < WAIT_MS);
    } while (counts.n_events < n_before + (unsigned long long)n_blocks);
    return counts.n_batches;
}

/* The next message of three parts; false: none for so long. */
static bool hear(void *socket, int wait_ms, heard_batch *heard) {
    static uint8_t part[MAX_BYTES];
    zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
    if (zmq_poll(&item, 1, wait_ms) != 1)
        return false;
    *heard = (heard_batch){0};
    for (int i = 0; i < 3; i++) {
        int n = zmq_recv(socket, part, sizeof part, 0);
        assert_true(n >= 0 && n <= MAX_BYTES);
        for (int j = 0; i == 1 && j < n; j++)
            heard->number = heard->number << 8 | part[j];
        for (int j = 0; i == 2 && j < n; j++)
            heard->sum = heard->sum * 31 + part[j];
    }
    return true;
}

/* Hears batches up to the one before number `end`, which comes at last. */
static void hear_until(void *socket, uint64_t end, heard_batches *all) {
    heard_batch heard = {0};
    while (heard.number + 1 < end) {
        assert_true(hear(socket, WAIT_MS, &heard));
        assert_true(all->count == 0 || heard.number > all->batches[all->count - 1].number);
        assert_true(all->count < MAX_HEARD);
        all->batches[all->count++] = heard;
    }
}

static void ask_from(uint64_t number) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> 8 * (7 - i));
    zmq_send(dealer, "", 0, ZMQ_SNDMORE);
    zmq_send(dealer, bytes, sizeof bytes, 0);
}

/* Both have heard something: their subscriptions are there, and what a publisher says first is told
 * already. Returns the next batch's number. */
static uint64_t begin(void) {
    static const struct timespec pause = {.tv_nsec = 1000000};
    heard_batch heard = {0};
    while (ln_kv_publisher_count(publisher).n_events == 0)
        nanosleep(&pause, NULL);
    bool has_slow = false, has_quick = false;
    uint64_t end = 0;
    for (int i = 0; !has_slow || !has_quick; i++) {
        assert_true(i < 1000);
        end = tell(1);
        has_slow = hear(slow, has_slow ? 0 : 10, &heard) || has_slow;
        has_quick = hear(quick, has_quick ? 0 : 10, &heard) || has_quick;
    }
    while (hear(slow, 50, &heard) || hear(quick, 50, &heard))
        ;
    return end;
}

static void one_that_is_slow_misses_batches_alone(void **state) {
    (void)state;
    static heard_batches all, rest, again;
    heard_batch heard;
    uint64_t first = begin(), end = first;
    unsigned long long n_before = ln_kv_publisher_count(publisher).n_stalls;
    while (ln_kv_publisher_count(publisher).n_stalls == n_before) { /* socket buffers fill first */
        end = tell(256);
        assert_true(end - first < MAX_HEARD / 2);
        hear_until(quick, end, &all);
    }
    for (int i = 0; i < 3; i++) {
        end = tell(256);
        hear_until(quick, end, &all);
    }
    assert_int_equal(all.count, end - first); /* the quick one has each */
    while (hear(slow, 100, &heard))
        rest.batches[rest.count++] = heard;
    assert_true(rest.count >= WAITING && rest.count <= all.count - 4);
    assert_true(ln_kv_publisher_count(publisher).n_stalls <= n_before + 1);
    assert_int_equal(ln_kv_publisher_count(publisher).n_dropped, 0);

    end = tell(1); /* it has caught up, and sees what it has missed */
    hear_until(slow, end, &rest);
    hear_until(quick, end, &all);
    size_t n = 0;
    while (rest.batches[n].number == first + n)
        n++;
    assert_true(n >= WAITING && n < rest.count);
    ask_from(first + n);
    hear_until(dealer, end, &again);
    assert_int_equal(again.count, end - first - n);
    for (size_t i = 0; i < again.count; i++)
        assert_memory_equal(&again.batches[i], &all.batches[n + i], sizeof *all.batches);
    for (size_t i = 0; i < n; i++)
        assert_memory_equal(&rest.batches[i], &all.batches[i], sizeof *all.batches);
    assert_true(hear(dealer, WAIT_MS, &heard));
    assert_true(heard.number == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_slow_misses_batches_alone),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
