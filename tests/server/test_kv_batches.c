/* What becomes of KV events before ZeroMQ has them: the queue, batches as vLLM writes them, and
 * what is kept of these. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server/kv_events/batch.h"
#include "server/kv_events/msgpack.h"
#include "server/kv_events/replay.h"
#include "server/msgpack_text.h"
#include "test.h"

/* Bytes by the specification of MessagePack, at the edges of its forms. */
static void numbers_take_their_shortest_form(void **state) {
    (void)state;
    static const struct {
        uint64_t value;
        const char *bytes;
        size_t n_bytes;
    } cases[] = {
        {0, "\x00", 1},
        {127, "\x7f", 1},
        {128, "\xcc\x80", 2},
        {255, "\xcc\xff", 2},
        {256, "\xcd\x01\x00", 3},
        {65535, "\xcd\xff\xff", 3},
        {65536, "\xce\x00\x01\x00\x00", 5},
        {UINT32_MAX, "\xce\xff\xff\xff\xff", 5},
        {(uint64_t)UINT32_MAX + 1, "\xcf\x00\x00\x00\x01\x00\x00\x00\x00", 9},
        {UINT64_MAX, "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[16];
        ln_msgpack out = {.bytes = bytes, .capacity = sizeof bytes};
        ln_msgpack_uint(&out, cases[i].value);
        assert_int_equal(out.n_bytes, cases[i].n_bytes);
        assert_memory_equal(bytes, cases[i].bytes, cases[i].n_bytes);
    }
}

static void other_values_have_their_bytes(void **state) {
    (void)state;
    uint8_t bytes[64];
    ln_msgpack out = {.bytes = bytes, .capacity = sizeof bytes};
    ln_msgpack_nil(&out);
    ln_msgpack_double(&out, 1.5);
    ln_msgpack_text(&out, "GPU");
    ln_msgpack_array(&out, 15);
    ln_msgpack_array(&out, 16);
    ln_msgpack_text(&out, "0123456789012345678901234567890A"); /* 32 */
    static const char expected[] = "\xc0\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00\xa3GPU\x9f\xdc\x00\x10"
                                   "\xd9\x20"
                                   "0123456789012345678901234567890A";
    assert_int_equal(out.n_bytes, sizeof expected - 1);
    assert_memory_equal(bytes, expected, sizeof expected - 1);
}

/* A stored block whose tokens are all `token`. */
static ln_kv_event stored(uint64_t hash, uint64_t parent, int32_t token) {
    ln_kv_event event = {
        .kind = LN_KV_EVENT_STORED, .has_parent = parent > 0, .hash = hash, .parent = parent};
    for (size_t i = 0; i < LN_KV_BLOCK_TOKENS; i++)
        event.tokens[i] = token;
    return event;
}

static char *batch_text(const ln_kv_event *events, size_t n_events) {
    uint8_t *bytes = malloc(LN_KV_BATCH_BYTES);
    assert_non_null(bytes);
    size_t n_bytes = ln_kv_batch_write(events, n_events, 2.5, bytes);
    char *text = msgpack_text(bytes, n_bytes);
    free(bytes);
    return text;
}

#define TOKENS_7 "7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7"
#define TOKENS_8 "8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8"

static void batches_have_vllms_fields(void **state) {
    (void)state;
    ln_kv_event removed = {.kind = LN_KV_EVENT_REMOVED, .hash = 4}, other = removed;
    other.hash = 5;
    ln_kv_event adapted = stored(9, 2, 7);
    adapted.adapter_number = 3;
    strcpy(adapted.adapter, "sql");
    const ln_kv_event events[] = {{.kind = LN_KV_EVENT_CLEARED},
                                  {.kind = LN_KV_EVENT_CLEARED},
                                  stored(1, 0, 7),
                                  stored(2, 1, 8), /* follows */
                                  adapted,         /* follows, with an adapter */
                                  stored(3, 1, 7), /* another branch */
                                  removed,
                                  other};
    char *text = batch_text(events, sizeof events / sizeof *events);
    assert_string_equal(text, "[2.5,[[\"AllBlocksCleared\"],[\"AllBlocksCleared\"],"
                              "[\"BlockStored\",[1,2],null,[" TOKENS_7 "," TOKENS_8
                              "],16,null,\"GPU\",null],"
                              "[\"BlockStored\",[9],2,[" TOKENS_7 "],16,3,\"GPU\",\"sql\"],"
                              "[\"BlockStored\",[3],1,[" TOKENS_7 "],16,null,\"GPU\",null],"
                              "[\"BlockRemoved\",[4,5],\"GPU\"]],0]");
    free(text);
}

/* The most that events can take fits what is there for a batch. */
static void the_largest_batch_fits(void **state) {
    (void)state;
    ln_kv_event *events = calloc(LN_KV_BATCH_EVENTS, sizeof *events);
    assert_non_null(events);
    for (size_t i = 0; i < LN_KV_BATCH_EVENTS; i++) {
        events[i] = stored(UINT64_MAX, UINT64_MAX - 1, INT32_MAX); /* none follows another */
        events[i].adapter_number = UINT64_MAX;
        memset(events[i].adapter, 'a', sizeof events[i].adapter - 1);
    }
    free(batch_text(events, LN_KV_BATCH_EVENTS));
    for (size_t i = 0; i < LN_KV_BATCH_EVENTS; i++)
        events[i] = stored(i + 1, i, INT32_MAX); /* all follow: the longest arrays */
    free(batch_text(events, LN_KV_BATCH_EVENTS));
    free(events);
}

/* ---- the queue --------------------------------------------------------------------------- */

static void tell_stored(const ln_prefix_observer *observer, uint64_t hash, uint64_t parent,
                        const ln_prefix_origin *origin) {
    const ln_prefix_key key = {.hash = hash, .parent = parent};
    const ln_prefix_stored block = {&key, origin, parent == 0};
    observer->stored(observer->context, &block);
}

static void tell_removed(const ln_prefix_observer *observer, uint64_t hash) {
    const ln_prefix_key key = {.hash = hash};
    observer->removed(observer->context, &key);
}

/* Takes the oldest event. */
static ln_kv_event take(ln_kv_event_queue *queue) {
    size_t n;
    const ln_kv_event *events = ln_kv_event_queue_peek(queue, &n);
    assert_true(n > 0);
    ln_kv_event event = *events;
    ln_kv_event_queue_drop(queue, 1);
    return event;
}

static void salts_stay_untold(void **state) {
    (void)state;
    ln_kv_event_queue queue;
    ln_error err = {0};
    assert_int_equal(ln_kv_event_queue_init(&queue, 8, &err), LINNET_OK);
    const ln_prefix_observer observer = ln_kv_event_queue_observer(&queue);
    const ln_prefix_origin salted = {.has_salt = true};
    const ln_prefix_origin adapted = {.adapter = "sql", .adapter_number = 2};
    tell_stored(&observer, 1, 0, &salted);
    tell_stored(&observer, 2, 0, &adapted);
    tell_stored(&observer, 3, 2, NULL);
    ln_kv_event event = take(&queue);
    assert_int_equal(event.hash, 2);
    assert_false(event.has_parent);
    assert_int_equal(event.adapter_number, 2);
    assert_string_equal(event.adapter, "sql");
    event = take(&queue);
    assert_int_equal(event.hash, 3);
    assert_true(event.has_parent);
    assert_int_equal(event.adapter_number, 0);
    ln_kv_event_queue_free(&queue);
}

/* A full queue drops, counts, and says that what is known may be wrong before it goes on. */
static void a_full_queue_clears(void **state) {
    (void)state;
    ln_kv_event_queue queue;
    ln_error err = {0};
    assert_int_equal(ln_kv_event_queue_init(&queue, 4, &err), LINNET_OK);
    const ln_prefix_observer observer = ln_kv_event_queue_observer(&queue);
    for (uint64_t hash = 1; hash <= 4; hash++)
        tell_stored(&observer, hash, hash - 1, NULL);
    tell_removed(&observer, 1); /* dropped */
    take(&queue);
    tell_removed(&observer, 2); /* dropped: there is no room for both */
    take(&queue);
    tell_removed(&observer, 3);
    assert_int_equal(atomic_load(&queue.n_dropped), 2);
    assert_int_equal(take(&queue).hash, 3);
    assert_int_equal(take(&queue).hash, 4);
    assert_int_equal(take(&queue).kind, LN_KV_EVENT_CLEARED);
    ln_kv_event event = take(&queue);
    assert_int_equal(event.kind, LN_KV_EVENT_REMOVED);
    assert_int_equal(event.hash, 3);
    size_t n;
    ln_kv_event_queue_peek(&queue, &n);
    assert_int_equal(n, 0);
    ln_kv_event_queue_free(&queue);
}

enum { N_TOLD = 200000 };

static void *tell_all(void *argument) {
    const ln_prefix_observer *observer = argument;
    for (uint64_t hash = 1; hash <= N_TOLD; hash++)
        tell_stored(observer, hash, hash - 1, NULL);
    return NULL;
}

/* What one thread puts the other takes, in order; what is missing was counted, and is followed by
 * a clearing. */
static void threads_share_the_queue(void **state) {
    (void)state;
    ln_kv_event_queue queue;
    ln_error err = {0};
    pthread_t thread;
    assert_int_equal(ln_kv_event_queue_init(&queue, 64, &err), LINNET_OK);
    ln_prefix_observer observer = ln_kv_event_queue_observer(&queue);
    assert_int_equal(pthread_create(&thread, NULL, tell_all, &observer), 0);
    uint64_t last = 0, n_taken = 0;
    bool is_cleared = false, has_ended = false;
    for (;;) {
        size_t n;
        const ln_kv_event *events = ln_kv_event_queue_peek(&queue, &n);
        for (size_t i = 0; i < n; i++) {
            if (events[i].kind == LN_KV_EVENT_CLEARED) {
                is_cleared = true;
                continue;
            }
            assert_true(events[i].hash == last + 1 || (is_cleared && events[i].hash > last));
            assert_int_equal(events[i].parent, events[i].hash - 1);
            last = events[i].hash;
            is_cleared = false;
            n_taken++;
        }
        ln_kv_event_queue_drop(&queue, n);
        if (n == 0 && has_ended)
            break;
        if (n == 0 && n_taken + atomic_load(&queue.n_dropped) == N_TOLD) {
            pthread_join(thread, NULL);
            has_ended = true;
        }
    }
    assert_int_equal(n_taken + atomic_load(&queue.n_dropped), N_TOLD);
    ln_kv_event_queue_free(&queue);
}

/* ---- replay ------------------------------------------------------------------------------ */

static void the_oldest_batches_give_way(void **state) {
    (void)state;
    enum { CAPACITY = 100, MAX_BATCHES = 5 };
    ln_kv_replay replay;
    ln_error err = {0};
    uint8_t bytes[CAPACITY];
    assert_int_equal(ln_kv_replay_init(&replay, MAX_BATCHES, CAPACITY, &err), LINNET_OK);
    for (uint64_t number = 0; number < 1000; number++) {
        size_t n_bytes = number % 50 == 49 ? CAPACITY : 1 + (size_t)(number * 7919 % 40), n;
        memset(bytes, (int)(number & 0xff), sizeof bytes);
        ln_kv_replay_add(&replay, bytes, n_bytes);
        assert_int_equal(replay.end, number + 1);
        assert_true(replay.first <= number && replay.end - replay.first <= MAX_BATCHES);
        size_t total = 0;
        for (uint64_t i = replay.first; i < replay.end; i++) {
            const uint8_t *kept = ln_kv_replay_get(&replay, i, &n);
            assert_int_equal(n, i % 50 == 49 ? CAPACITY : 1 + (size_t)(i * 7919 % 40));
            for (size_t j = 0; j < n; j++)
                assert_int_equal(kept[j], i & 0xff);
            total += n;
        }
        assert_true(total <= CAPACITY);
    }
    for (size_t i = 0; i < MAX_BATCHES; i++) /* small ones stay as long as they may */
        ln_kv_replay_add(&replay, bytes, 10);
    assert_int_equal(replay.end - replay.first, MAX_BATCHES);
    ln_kv_replay_free(&replay);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_take_their_shortest_form),
        cmocka_unit_test(other_values_have_their_bytes),
        cmocka_unit_test(batches_have_vllms_fields),
        cmocka_unit_test(the_largest_batch_fits),
        cmocka_unit_test(salts_stay_untold),
        cmocka_unit_test(a_full_queue_clears),
        cmocka_unit_test(threads_share_the_queue),
        cmocka_unit_test(the_oldest_batches_give_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
