/* The batches that were published last, for subscribers that missed some. */
#ifndef LN_SERVER_KV_EVENTS_REPLAY_H
#define LN_SERVER_KV_EVENTS_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Where a batch is kept: bytes [begin, begin + n_bytes), counted from the first one ever kept. */
typedef struct ln_kv_replay_batch {
    uint64_t begin;
    size_t n_bytes;
} ln_kv_replay_batch;

typedef struct ln_kv_replay {
    uint8_t *bytes; /* [capacity], a ring */
    size_t capacity;
    ln_kv_replay_batch *batches; /* [max_batches], a ring: number i at i % max_batches */
    size_t max_batches;
    uint64_t first, end; /* batches [first, end) are there */
    uint64_t bytes_end;
} ln_kv_replay;

/* Errors: NOMEM. */
ln_status ln_kv_replay_init(ln_kv_replay *replay, size_t max_batches, size_t capacity,
                            ln_error *err);
void ln_kv_replay_free(ln_kv_replay *replay);

/* Keeps batch number `end`, of up to `capacity` bytes; the oldest ones give way. */
void ln_kv_replay_add(ln_kv_replay *replay, const uint8_t *bytes, size_t n_bytes);
/* Batch `number`, which is there. */
const uint8_t *ln_kv_replay_get(const ln_kv_replay *replay, uint64_t number, size_t *n_bytes);

#endif
