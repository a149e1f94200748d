/* A batch of KV events as vLLM writes it (EventBatch of vllm/distributed/kv_events.py as an array,
 * until 0.27): [time, events, data parallel rank], each event an array that begins with its name.
 */
#ifndef LN_SERVER_KV_EVENTS_BATCH_H
#define LN_SERVER_KV_EVENTS_BATCH_H

#include "server/kv_events/queue.h"

enum {
    LN_KV_BATCH_EVENTS = 256, /* in a batch, at most */
    /* an event's names, its two hashes, lengths and numbers, its adapter, and tokens of 5 bytes */
    LN_KV_BATCH_EVENT_BYTES = 80 + LINNET_MAX_ADAPTER_NAME + 5 * LN_KV_BLOCK_TOKENS,
    LN_KV_BATCH_BYTES = 32 + LN_KV_BATCH_EVENTS * LN_KV_BATCH_EVENT_BYTES
};

/* Writes n_events, of which there are 1 to LN_KV_BATCH_EVENTS, to out [LN_KV_BATCH_BYTES]; how many
 * bytes. Blocks that follow each other are told in one event. */
size_t ln_kv_batch_write(const ln_kv_event *events, size_t n_events, double time_s, uint8_t *out);

#endif
