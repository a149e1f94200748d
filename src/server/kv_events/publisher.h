/* Publishes KV events over ZeroMQ as vLLM does, for pickers of replicas: on a PUB socket a message
 * of three parts for each batch (a topic, the batch's number in 8 bytes, big-endian, and
 * MessagePack), and on a ROUTER socket, for who missed some, the batches since a number. */
#ifndef LN_SERVER_KV_EVENTS_PUBLISHER_H
#define LN_SERVER_KV_EVENTS_PUBLISHER_H

#include <linnet.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "kv/prefix_index.h"

typedef struct ln_kv_publisher ln_kv_publisher;

typedef struct ln_kv_publisher_options {
    const char *endpoint; /* of ZeroMQ; one with "*" or "::" in it, or of ipc, is bound, others are
                             connected to */
    const char *topic;
    const char *replay_endpoint; /* is bound; NULL: nothing is kept */
    size_t max_batches;          /* that are kept */
    size_t max_waiting; /* messages for a subscriber that is slow, which misses those behind them */
} ln_kv_publisher_options;

/* Whether this program was built with ZeroMQ. */
bool ln_kv_publisher_is_built(void);
/* Whether an endpoint is connected to, not bound. */
bool ln_kv_publisher_connects(const char *endpoint);

/* Opens the sockets and starts the thread. Errors: UNSUPPORTED when it is not built; IO with the
 * endpoint that ZeroMQ refuses; NOMEM, LIMIT. */
ln_status ln_kv_publisher_open(const ln_kv_publisher_options *options, ln_kv_publisher **publisher,
                               ln_error *err);
/* Publishes what is waiting, and that all blocks are gone. Whoever was observed has ended before.
 * NULL is fine. */
void ln_kv_publisher_close(ln_kv_publisher *publisher);

/* For ln_engine_observe_prefixes of one engine. */
const ln_prefix_observer *ln_kv_publisher_observer(const ln_kv_publisher *publisher);

/* Where it listens or connects to, with the port that a "*" came to. */
const char *ln_kv_publisher_endpoint(const ln_kv_publisher *publisher);

typedef struct ln_kv_publisher_counts {
    unsigned long long n_batches, n_events, n_dropped;
    unsigned long long n_stalls; /* batches at which a subscriber began to miss some */
} ln_kv_publisher_counts;
/* Any thread. Batches are at least those of the events. */
ln_kv_publisher_counts ln_kv_publisher_count(const ln_kv_publisher *publisher);

#endif
