/* The store of responses, opened again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/responses/response_store.h"
#include "server/responses/responses_input.h"
#include "test.h"

#define HEAD(status) "{\"id\":\"a\",\"status\":\"" status "\",\"background\":"
#define TEXT                                                                                       \
    ",\"text\":\"say \\\"status\\\":\\\"queued\\\",\\\"background\\\":true,\\\"error\\\":null\"}"
#define SAID ",\"error\":null" TEXT
#define WHY                                                                                        \
    ",\"error\":{\"code\":\"server_error\",\"message\":\"the server ended while the response was " \
    "in progress\"}" TEXT

static void expect(ln_response_store *store, const char *id, const char *response) {
    char *kept = ln_response_store_get(store, id, LN_STORED_RESPONSE);
    assert_non_null(kept);
    assert_string_equal(kept, response);
    free(kept);
}

/* A server that was killed leaves responses in the background behind, which nobody ends any more.
 */
static void running_responses_have_failed(void **state) {
    (void)state;
    static const struct {
        const char *id, *before, *after;
    } cases[] = {{"a", HEAD("queued") "true" SAID, HEAD("failed") "true" WHY},
                 {"b", HEAD("in_progress") "true" SAID, HEAD("failed") "true" WHY},
                 {"e", HEAD("failed") "true" SAID, HEAD("failed") "true" WHY},
                 {"c", HEAD("completed") "true" SAID, HEAD("completed") "true" SAID},
                 {"d", HEAD("incomplete") "false" SAID, HEAD("incomplete") "false" SAID}};
    const ln_response_store_limits limits = {10, 1 << 20};
    char path[64];
    ln_error err = {0};
    ln_response_store *store;
    snprintf(path, sizeof path, "/tmp/linnet-store-%d.db", (int)getpid());
    mode_t mask = umask(0);
    assert_int_equal(ln_response_store_open(path, &limits, &store, &err), LINNET_OK);
    umask(mask);
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600); /* nobody else reads what people asked */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ln_stored_response response = {cases[i].before, "[]", "[]"};
        assert_true(ln_response_store_put(store, cases[i].id, &response));
        expect(store, cases[i].id, cases[i].before);
    }
    ln_response_store_close(store);
    assert_int_equal(ln_response_store_open(path, &limits, &store, &err), LINNET_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(store, cases[i].id, cases[i].after);
    ln_response_store_close(store);
    unlink(path);
    strcat(path, ".lock");
    unlink(path);
}

/* Servers may share a file: what one runs another does not take for lost, till it is gone. */
static void others_keep_running(void **state) {
    (void)state;
    const ln_response_store_limits limits = {10, 1 << 20};
    const ln_stored_response running = {HEAD("in_progress") "true" SAID, "[]", "[]"};
    char path[64];
    ln_error err = {0};
    ln_response_store *one, *other;
    snprintf(path, sizeof path, "/tmp/linnet-shared-%d.db", (int)getpid());
    assert_int_equal(ln_response_store_open(path, &limits, &one, &err), LINNET_OK);
    assert_true(ln_response_store_put(one, "a", &running));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ln_response_store_open(path, &limits, &other, &err), LINNET_OK);
        expect(other, "a", running.response);
        ln_response_store_close(other);
    }
    ln_response_store_close(one);
    assert_int_equal(ln_response_store_open(path, &limits, &other, &err), LINNET_OK);
    expect(other, "a", HEAD("failed") "true" WHY);
    ln_response_store_close(other);
    unlink(path);
    strcat(path, ".lock");
    unlink(path);
}

/* A chat that is no list of messages, as in a damaged file, is none to go on with. */
static void damaged_chats_are_missing(void **state) {
    (void)state;
    static const char *const chats[] = {"{}", "[1]", "[", "null", ""};
    const ln_response_store_limits limits = {10, 1 << 20};
    ln_response_store *store;
    assert_int_equal(ln_response_store_open(NULL, &limits, &store, NULL), LINNET_OK);
    json_t *body = json_pack("{s:s, s:s}", "input", "2+3=", "previous_response_id", "a");
    for (size_t i = 0; i < sizeof chats / sizeof *chats; i++) {
        const ln_stored_response stored = {"{}", "[]", chats[i]};
        ln_api_error error = {0};
        const ln_fields fields = {body, "", &error, NULL};
        ln_responses_request kept = {0};
        assert_true(ln_response_store_put(store, "a", &stored));
        assert_null(ln_responses_input_translate(&fields, store, &kept));
        assert_int_equal(error.status, 404);
        assert_string_equal(error.param, "previous_response_id");
        ln_responses_request_free(&kept);
    }
    json_decref(body);
    ln_response_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(running_responses_have_failed),
                                       cmocka_unit_test(others_keep_running),
                                       cmocka_unit_test(damaged_chats_are_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
