#include "server/kv_events/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

ln_status ln_kv_replay_init(ln_kv_replay *replay, size_t max_batches, size_t capacity,
                            ln_error *err) {
    *replay = (ln_kv_replay){.bytes = malloc(capacity),
                             .capacity = capacity,
                             .batches = calloc(max_batches, sizeof *replay->batches),
                             .max_batches = max_batches};
    if (replay->bytes != NULL && replay->batches != NULL)
        return LINNET_OK;
    ln_kv_replay_free(replay);
    return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for %zu batches of KV events",
                   max_batches);
}

void ln_kv_replay_free(ln_kv_replay *replay) {
    free(replay->bytes);
    free(replay->batches);
    *replay = (ln_kv_replay){0};
}

void ln_kv_replay_add(ln_kv_replay *replay, const uint8_t *bytes, size_t n_bytes) {
    uint64_t begin = replay->bytes_end;
    size_t at = (size_t)(begin % replay->capacity);
    LN_BUG_ON(n_bytes > replay->capacity);
    if (n_bytes > replay->capacity - at) { /* a batch lies in one piece */
        begin += replay->capacity - at;
        at = 0;
    }
    replay->bytes_end = begin + n_bytes;
    while (replay->first < replay->end &&
           (replay->end - replay->first == replay->max_batches ||
            replay->batches[replay->first % replay->max_batches].begin + replay->capacity <
                replay->bytes_end))
        replay->first++;
    memcpy(replay->bytes + at, bytes, n_bytes);
    replay->batches[replay->end++ % replay->max_batches] = (ln_kv_replay_batch){begin, n_bytes};
}

const uint8_t *ln_kv_replay_get(const ln_kv_replay *replay, uint64_t number, size_t *n_bytes) {
    LN_BUG_ON(number < replay->first || number >= replay->end);
    const ln_kv_replay_batch *batch = &replay->batches[number % replay->max_batches];
    *n_bytes = batch->n_bytes;
    return replay->bytes + batch->begin % replay->capacity;
}
