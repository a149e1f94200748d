/* KV events over ZeroMQ: what a subscriber hears, what it can ask for again, and that both say
 * what the cache of `linnet serve` has. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "server/client.h"
#include "server/msgpack_text.h"
#include "unit/engine/made_adapter.h"

enum { DIM = 256, WAIT_MS = 60000, MAX_BATCHES = 4096 };

static made_adapter made;
static char folder[] = "/tmp/linnet-kv-XXXXXX";
static char pub_endpoint[64], replay_endpoint[64];
static void *context, *sub, *dealer;

static void *open_socket(int type, const char *endpoint) {
    static const int wait_ms = WAIT_MS, linger_ms = 0;
    void *socket = zmq_socket(context, type);
    assert_non_null(socket);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    assert_int_equal(zmq_connect(socket, endpoint), 0);
    return socket;
}

static int start(void **state) {
    (void)state;
    made_adapter_begin(&made, 4, 3);
    made_adapter_linear(&made, "model.layers.2.self_attn.q_proj", DIM, DIM);
    made_adapter_linear(&made, "model.layers.5.self_attn.o_proj", DIM, DIM);
    made_adapter_linear(&made, "model.layers.7.self_attn.o_proj", DIM, DIM);
    made_adapter_end(&made);
    assert_non_null(mkdtemp(folder));
    snprintf(pub_endpoint, sizeof pub_endpoint, "ipc://%s/pub", folder);
    snprintf(replay_endpoint, sizeof replay_endpoint, "ipc://%s/replay", folder);
    shared = SERVER("--threads=1", "--max-seqs=2", "--ctx=256", "--kv-tokens=512",
                    "--served-name=demo", "--max-adapters=1", "--kv-events", pub_endpoint,
                    "--kv-events-topic", "kv@here@demo", "--kv-events-replay", replay_endpoint);
    context = zmq_ctx_new();
    sub = open_socket(ZMQ_SUB, pub_endpoint);
    zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "kv@", 3);
    dealer = open_socket(ZMQ_DEALER, replay_endpoint);
    return 0;
}

static int stop(void **state) {
    (void)state;
    server_stop(&shared);
    zmq_close(sub);
    zmq_close(dealer);
    zmq_ctx_term(context);
    made_adapter_remove(&made);
    unlink(pub_endpoint + strlen("ipc://")); /* ZeroMQ leaves sockets behind */
    unlink(replay_endpoint + strlen("ipc://"));
    assert_int_equal(rmdir(folder), 0);
    return 0;
}

/* ---- messages ---------------------------------------------------------------------------- */

typedef struct batch {
    uint64_t number; /* UINT64_MAX: the end of a replay */
    char *text;      /* of its MessagePack, owned; NULL: it has none */
} batch;

/* The next part of a message; whether another follows. */
static bool hear_part(void *socket, uint8_t *part, size_t capacity, size_t *n_bytes) {
    int has_more = 0;
    size_t n_more = sizeof has_more;
    int n = zmq_recv(socket, part, capacity, 0);
    assert_true(n >= 0 && (size_t)n <= capacity);
    *n_bytes = (size_t)n;
    assert_int_equal(zmq_getsockopt(socket, ZMQ_RCVMORE, &has_more, &n_more), 0);
    return has_more;
}

/* A message of three parts, the first of which is `head`. */
static batch hear_batch(void *socket, const char *head) {
    static uint8_t part[1 << 20];
    size_t n;
    batch heard = {0};
    assert_true(hear_part(socket, part, sizeof part, &n));
    assert_int_equal(n, strlen(head));
    assert_memory_equal(part, head, n);
    assert_true(hear_part(socket, part, sizeof part, &n));
    assert_int_equal(n, 8);
    for (size_t i = 0; i < 8; i++)
        heard.number = heard.number << 8 | part[i];
    assert_false(hear_part(socket, part, sizeof part, &n));
    if (n > 0)
        heard.text = msgpack_text(part, n);
    return heard;
}

static void ask_from(uint64_t number) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> 8 * (7 - i));
    assert_int_equal(zmq_send(dealer, "", 0, ZMQ_SNDMORE), 0);
    assert_int_equal(zmq_send(dealer, bytes, sizeof bytes, 0), 8);
}

/* All batches since a number, [*count], which the caller frees. */
static batch *replay_from(uint64_t number, size_t *count) {
    batch *batches = calloc(MAX_BATCHES, sizeof *batches);
    assert_non_null(batches);
    ask_from(number);
    for (*count = 0; *count < MAX_BATCHES; (*count)++) {
        batch heard = hear_batch(dealer, "");
        if (heard.number == UINT64_MAX) {
            assert_null(heard.text);
            return batches;
        }
        assert_int_equal(heard.number, number + *count);
        assert_non_null(heard.text);
        batches[*count] = heard;
    }
    fail_msg("more than %d batches", MAX_BATCHES);
    return NULL;
}

static void free_batches(batch *batches, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(batches[i].text);
    free(batches);
}

/* Runs a completion of n_prompt tokens from `first` on, and gives its events time to come. */
static void complete(int first, size_t n_prompt, const char *extra) {
    char body[4096];
    int n = snprintf(body, sizeof body, "{\"max_tokens\":2,\"temperature\":0%s,\"prompt\":[%d",
                     extra, first);
    for (size_t i = 1; i < n_prompt; i++)
        n += snprintf(body + n, sizeof body - (size_t)n, ",%d", first + (int)i);
    snprintf(body + n, sizeof body - (size_t)n, "]}");
    http_response heard = post(&shared, "/v1/completions", body);
    if (heard.status != 200)
        fail_msg("%s gives %d %s", body, heard.status, heard.body);
    response_free(&heard);
    sleep_ms(50); /* the thread gathers for 1 ms */
}

/* ---- tests ------------------------------------------------------------------------------- */

/* What ends behind the array that begins at `text`. */
static const char *skip_array(const char *text) {
    assert_int_equal(*text, '[');
    return strchr(text, ']') + 1;
}

static void subscribers_hear_blocks(void **state) {
    (void)state;
    char expected[256], *at = NULL;
    size_t n;
    batch heard = {0};
    for (int first = 10; heard.text == NULL || at == NULL; first++) {
        assert_true(first < 100); /* the subscription takes some time to arrive */
        zmq_pollitem_t item = {.socket = sub, .events = ZMQ_POLLIN};
        complete(first, 40, "");
        if (zmq_poll(&item, 1, 100) != 1)
            continue;
        heard = hear_batch(sub, "kv@here@demo");
        at = strstr(heard.text, "[[\"BlockStored\",[");
        n = (size_t)snprintf(expected, sizeof expected, ",null,[%d,%d,%d,", first, first + 1,
                             first + 2);
    }
    double age_s = (double)time(NULL) - strtod(heard.text + 1, NULL);
    assert_true(age_s > -5 && age_s < 60);
    const char *behind = skip_array(at + strlen("[[\"BlockStored\","));
    assert_int_equal(strncmp(behind, expected, n), 0);
    behind = skip_array(strchr(behind, '['));
    assert_string_equal(behind, ",16,null,\"GPU\",null]],0]");
    batch *batches = replay_from(heard.number, &n);
    assert_true(n >= 1);
    assert_string_equal(batches[0].text, heard.text); /* the same again */
    free_batches(batches, n);
    free(heard.text);
}

static void replays_begin_where_they_are_asked_to(void **state) {
    (void)state;
    size_t n, n_rest;
    batch *batches = replay_from(0, &n);
    assert_true(n >= 2);
    assert_non_null(strstr(batches[0].text, ",[[\"AllBlocksCleared\"]],0]"));
    batch *rest = replay_from(n - 1, &n_rest);
    assert_int_equal(n_rest, 1);
    assert_string_equal(rest[0].text, batches[n - 1].text);
    free_batches(rest, n_rest);
    rest = replay_from(n + 1000, &n_rest);
    assert_int_equal(n_rest, 0);
    free_batches(rest, n_rest);
    free_batches(batches, n);
}

static void what_is_no_question_is_ignored(void **state) {
    (void)state;
    size_t n;
    zmq_send(dealer, "12345678", 8, 0);
    zmq_send(dealer, "", 0, ZMQ_SNDMORE);
    zmq_send(dealer, "1234", 4, 0);
    zmq_send(dealer, "", 0, ZMQ_SNDMORE);
    zmq_send(dealer, "12345678", 8, ZMQ_SNDMORE);
    zmq_send(dealer, "12345678", 8, 0);
    batch *batches = replay_from(0, &n); /* the first answer is this one's */
    free_batches(batches, n);
}

/* What is told of some tokens by the batches since a number; NULL: nothing so far. */
static char *find_told(uint64_t number, const char *tokens) {
    size_t n;
    char *found = NULL;
    batch *batches = replay_from(number, &n);
    for (size_t i = 0; i < n && found == NULL; i++)
        if (strstr(batches[i].text, tokens) != NULL)
            found = strdup(batches[i].text);
    free_batches(batches, n);
    return found;
}

/* The same; waits for it. */
static char *wait_told(uint64_t number, const char *tokens) {
    char *told = NULL;
    for (int i = 0; i < WAIT_MS / 10 && (told = find_told(number, tokens)) == NULL; i++)
        sleep_ms(10);
    assert_non_null(told);
    return told;
}

static uint64_t count_batches(void) {
    size_t n;
    batch *batches = replay_from(0, &n);
    free_batches(batches, n);
    return n;
}

static void blocks_that_are_found_are_not_told_again(void **state) {
    (void)state;
    complete(100, 40, "");
    free(wait_told(0, "[100,101,"));
    uint64_t number = count_batches();
    complete(100, 40, "");
    assert_null(find_told(number, "[100,101,"));
}

static void salts_are_not_told(void **state) {
    (void)state;
    uint64_t number = count_batches();
    complete(150, 40, ",\"cache_salt\":\"secret\"");
    assert_null(find_told(number, "150,151,"));
    complete(150, 40, "");
    free(wait_told(number, ",null,[150,151,"));
}

static void adapters_are_named(void **state) {
    (void)state;
    char body[256];
    uint64_t number = count_batches();
    snprintf(body, sizeof body, "{\"lora_name\":\"sql\",\"lora_path\":\"%s\"}", made.folder);
    http_response heard = post(&shared, "/v1/load_lora_adapter", body);
    assert_int_equal(heard.status, 200);
    response_free(&heard);
    complete(150, 40, ",\"model\":\"sql\"");
    char *told = wait_told(number, ",null,[150,151,");
    assert_non_null(strstr(told, "],16,1,\"GPU\",\"sql\"]"));
    free(told);
}

/* ---- the picture ------------------------------------------------------------------------- */

enum { MAX_KNOWN = 64 };

/* The hashes that a picker believes in. */
typedef struct picture {
    uint64_t hashes[MAX_KNOWN];
    size_t count, n_stored, n_removed;
} picture;

static size_t find_hash(const picture *p, uint64_t hash) {
    size_t i = 0;
    while (i < p->count && p->hashes[i] != hash)
        i++;
    return i;
}

/* Follows an array of hashes; returns what is behind it. */
static const char *follow(picture *p, const char *at, bool is_stored) {
    char *end = (char *)at;
    for (at++; *end != ']'; at = end + 1) {
        uint64_t hash = strtoull(at, &end, 10);
        size_t i = find_hash(p, hash);
        if (is_stored) {
            assert_int_equal(i, p->count); /* not twice */
            assert_true(p->count < MAX_KNOWN);
            p->hashes[p->count++] = hash;
            p->n_stored++;
        } else if (i < p->count) { /* else one with a salt */
            p->hashes[i] = p->hashes[--p->count];
            p->n_removed++;
        }
    }
    return end + 1;
}

/* Stored blocks were not there before, and follow one that is; never more than the cache has. */
static void the_picture_is_the_caches(void **state) {
    (void)state;
    static const char stored[] = "[\"BlockStored\",", removed[] = "[\"BlockRemoved\",";
    picture p = {0};
    size_t n;
    for (int first = 200; first < 240; first++) /* more than the cache's 32 blocks */
        complete(first, 60, "");
    batch *batches = replay_from(0, &n);
    for (size_t i = 0; i < n; i++) {
        for (const char *at = batches[i].text; (at = strstr(at, "[\"Block")) != NULL;) {
            bool is_stored = strncmp(at, stored, strlen(stored)) == 0;
            const char *hashes = at + strlen(is_stored ? stored : removed);
            const char *parent = strchr(hashes, ']') + 2;
            if (is_stored && strncmp(parent, "null", 4) != 0)
                assert_true(find_hash(&p, strtoull(parent, NULL, 10)) < p.count);
            at = follow(&p, hashes, is_stored);
            assert_true(p.count <= 32 + 2); /* of a batch that stores before it removes */
        }
    }
    free_batches(batches, n);
    assert_true(p.n_stored > 100 && p.n_removed > 80);
    assert_int_equal((int)metric(&shared, "kv_events_dropped_total", NULL), 0);
    assert_int_equal((size_t)metric(&shared, "kv_event_batches_total", NULL), n);
    assert_true(metric(&shared, "kv_events_total", NULL) >= (double)(p.n_stored + p.n_removed));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subscribers_hear_blocks),
        cmocka_unit_test(replays_begin_where_they_are_asked_to),
        cmocka_unit_test(what_is_no_question_is_ignored),
        cmocka_unit_test(blocks_that_are_found_are_not_told_again),
        cmocka_unit_test(salts_are_not_told),
        cmocka_unit_test(adapters_are_named),
        cmocka_unit_test(the_picture_is_the_caches),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
