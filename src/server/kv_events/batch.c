#include "server/kv_events/batch.h"

#include "base/error.h"
#include "server/kv_events/msgpack.h"

/* Readers weigh blocks by where they lie; those in the memory that the engine computes from count
 * as vLLM's on a GPU do, also where that is the CPU's. */
static const char medium[] = "GPU";

/* How many events, from the first one on, are told as one. */
static size_t count_run(const ln_kv_event *events, size_t n_events) {
    size_t n = 1;
    for (; n < n_events && events->kind != LN_KV_EVENT_CLEARED; n++) {
        const ln_kv_event *before = &events[n - 1], *event = &events[n];
        bool follows = event->kind == events->kind;
        if (follows && event->kind == LN_KV_EVENT_STORED)
            follows = event->has_parent && event->parent == before->hash &&
                      event->adapter_number == before->adapter_number;
        if (!follows)
            break;
    }
    return n;
}

static void write_hashes(ln_msgpack *out, const ln_kv_event *events, size_t n_events) {
    ln_msgpack_array(out, n_events);
    for (size_t i = 0; i < n_events; i++)
        ln_msgpack_uint(out, events[i].hash);
}

/* block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium, lora_name */
static void write_stored(ln_msgpack *out, const ln_kv_event *events, size_t n_events) {
    ln_msgpack_array(out, 8);
    ln_msgpack_text(out, "BlockStored");
    write_hashes(out, events, n_events);
    if (events->has_parent)
        ln_msgpack_uint(out, events->parent);
    else
        ln_msgpack_nil(out);
    ln_msgpack_array(out, n_events * LN_KV_BLOCK_TOKENS);
    for (size_t i = 0; i < n_events; i++)
        for (size_t j = 0; j < LN_KV_BLOCK_TOKENS; j++)
            ln_msgpack_uint(out, (uint64_t)events[i].tokens[j]);
    ln_msgpack_uint(out, LN_KV_BLOCK_TOKENS);
    if (events->adapter_number > 0) {
        ln_msgpack_uint(out, events->adapter_number);
        ln_msgpack_text(out, medium);
        ln_msgpack_text(out, events->adapter);
    } else {
        ln_msgpack_nil(out);
        ln_msgpack_text(out, medium);
        ln_msgpack_nil(out);
    }
}

static void write_run(ln_msgpack *out, const ln_kv_event *events, size_t n_events) {
    switch (events->kind) {
    case LN_KV_EVENT_STORED: write_stored(out, events, n_events); break;
    case LN_KV_EVENT_REMOVED: /* block_hashes, medium */
        ln_msgpack_array(out, 3);
        ln_msgpack_text(out, "BlockRemoved");
        write_hashes(out, events, n_events);
        ln_msgpack_text(out, medium);
        break;
    case LN_KV_EVENT_CLEARED:
        ln_msgpack_array(out, 1);
        ln_msgpack_text(out, "AllBlocksCleared");
        break;
    }
}

size_t ln_kv_batch_write(const ln_kv_event *events, size_t n_events, double time_s, uint8_t *out) {
    ln_msgpack writer = {.bytes = out, .capacity = LN_KV_BATCH_BYTES};
    size_t n_runs = 0;
    LN_BUG_ON(n_events == 0 || n_events > LN_KV_BATCH_EVENTS);
    for (size_t i = 0; i < n_events; i += count_run(events + i, n_events - i))
        n_runs++;
    ln_msgpack_array(&writer, 3);
    ln_msgpack_double(&writer, time_s);
    ln_msgpack_array(&writer, n_runs);
    for (size_t i = 0, n; i < n_events; i += n) {
        n = count_run(events + i, n_events - i);
        write_run(&writer, events + i, n);
    }
    ln_msgpack_uint(&writer, 0); /* replicas are processes of their own, each the only rank */
    return writer.n_bytes;
}
