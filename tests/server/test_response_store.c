/* The store of responses, opened again. */
#include <sqlite3.h>
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
    char *kept = ln_response_store_get(store, id);
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
        assert_true(ln_response_store_put(store, cases[i].id, cases[i].before, NULL, 0));
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
    static const char running[] = HEAD("in_progress") "true" SAID;
    char path[64];
    ln_error err = {0};
    ln_response_store *one, *other;
    snprintf(path, sizeof path, "/tmp/linnet-shared-%d.db", (int)getpid());
    assert_int_equal(ln_response_store_open(path, &limits, &one, &err), LINNET_OK);
    assert_true(ln_response_store_put(one, "a", running, NULL, 0));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ln_response_store_open(path, &limits, &other, &err), LINNET_OK);
        expect(other, "a", running);
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

static void add(ln_item_list *items, const char *id, const char *text) {
    char json[256];
    snprintf(json, sizeof json, "{\"id\":\"%s\",\"role\":\"user\",\"content\":\"%s\"}", id, text);
    ln_item_list_add(items, 0, id, json);
    assert_false(items->failed);
}

/* The ids of an object's items, each with a space behind it. */
static void expect_ids(ln_response_store *store, const char *id, bool only_input,
                       const char *expected) {
    char ids[256] = "";
    ln_item_list items = {0};
    assert_true(ln_response_store_list(store, id, only_input, &items));
    for (size_t i = 0; i < items.n_items; i++)
        snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s ", items.items[i].id);
    assert_string_equal(ids, expected);
    ln_item_list_free(&items);
}

/* Puts an object that goes on with another: an item that it answers, and one that it says. */
static void go_on(ln_response_store *store, const char *id, const char *previous,
                  const char *text) {
    char name[64];
    ln_item_list items = {0};
    if (previous != NULL)
        assert_true(ln_response_store_list(store, previous, false, &items));
    snprintf(name, sizeof name, "%s.in", id);
    add(&items, name, text);
    size_t n_input = items.n_items;
    snprintf(name, sizeof name, "%s.out", id);
    add(&items, name, text);
    assert_true(ln_response_store_put(store, id, "{}", &items, n_input));
    ln_item_list_free(&items);
}

static ln_response_store *open_store(size_t max_objects, size_t max_bytes) {
    const ln_response_store_limits limits = {max_objects, max_bytes};
    ln_response_store *store;
    assert_int_equal(ln_response_store_open(NULL, &limits, &store, NULL), LINNET_OK);
    return store;
}

/* What chains have in common they share, and it stays as long as one of them does. */
static void chains_share_items(void **state) {
    (void)state;
    ln_response_store *store = open_store(100, 1 << 20);
    go_on(store, "a", NULL, "x");
    go_on(store, "b", "a", "y");
    go_on(store, "c", "a", "z");
    expect_ids(store, "b", false, "a.in a.out b.in b.out ");
    expect_ids(store, "b", true, "a.in a.out b.in ");
    expect_ids(store, "c", true, "a.in a.out c.in ");
    assert_true(ln_response_store_delete(store, "a"));
    assert_false(ln_response_store_delete(store, "a"));
    assert_true(ln_response_store_delete(store, "c"));
    expect_ids(store, "b", false, "a.in a.out b.in b.out ");
    char *item = ln_response_store_get_item(store, NULL, "a.in");
    assert_non_null(item);
    free(item);
    assert_null(ln_response_store_get_item(store, NULL, "c.in"));
    assert_true(ln_response_store_delete(store, "b"));
    assert_null(ln_response_store_get_item(store, NULL, "a.in"));
    ln_response_store_close(store);
}

/* A chain of a length whose texts would fill the store many times if each of its responses had them
 * all: none has to give way. */
static void chains_take_little(void **state) {
    (void)state;
    enum { N = 200, TEXT_BYTES = 100 };
    ln_response_store *store = open_store(1000, N * 2000);
    char text[TEXT_BYTES + 1], id[16], previous[16];
    memset(text, 'x', TEXT_BYTES);
    text[TEXT_BYTES] = '\0';
    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof id, "r%d", i);
        go_on(store, id, i > 0 ? previous : NULL, text);
        memcpy(previous, id, sizeof id);
    }
    for (int i = 0; i < N; i++) {
        ln_item_list items = {0};
        snprintf(id, sizeof id, "r%d", i);
        assert_true(ln_response_store_list(store, id, false, &items));
        assert_int_equal(items.n_items, 2 * (i + 1));
        ln_item_list_free(&items);
    }
    ln_response_store_close(store);
}

/* The oldest objects give way to bytes, too, and what is larger than the bound is not kept. */
static void bytes_are_bounded(void **state) {
    (void)state;
    ln_response_store *store = open_store(100, 4000);
    char large[4001], id[16];
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "r%d", i);
        go_on(store, id, NULL, "x");
    }
    assert_null(ln_response_store_get(store, "r0"));
    assert_null(ln_response_store_get_item(store, NULL, "r0.in"));
    expect(store, "r19", "{}");
    memset(large, 'x', 4000);
    large[4000] = '\0';
    ln_item_list items = {0};
    ln_item_list_add(&items, 0, "large", large);
    assert_false(ln_response_store_put(store, "b", "{}", &items, 1));
    assert_false(ln_response_store_put_events(store, "r19", large));
    assert_false(ln_response_store_append(store, "r19", &items, 0));
    expect(store, "r19", "{}"); /* nothing gave way to what was not kept */
    expect_ids(store, "r19", false, "r19.in r19.out ");
    ln_item_list_free(&items);
    /* with its events alone the response would have no room left, so they go, and not both */
    large[3600] = '\0';
    assert_false(ln_response_store_put_events(store, "r19", large));
    expect(store, "r19", "{}");
    /* events count, and go with their object */
    large[3300] = '\0';
    assert_true(ln_response_store_put_events(store, "r19", large));
    char *events = ln_response_store_get_events(store, "r19");
    assert_string_equal(events, large);
    free(events);
    go_on(store, "b", NULL, "x");
    assert_null(ln_response_store_get(store, "r19"));
    for (int i = 0; i < 2; i++) {
        snprintf(id, sizeof id, "s%d", i);
        go_on(store, id, NULL, "x");
    }
    expect(store, "b", "{}");
    ln_response_store_close(store);
}

/* Other tables of the same name are left alone. */
static void former_tables_go(void **state) {
    (void)state;
    static const char *const tables[] = {
        "CREATE TABLE responses (id TEXT, response TEXT, input TEXT, messages TEXT)",
        "CREATE TABLE responses (id TEXT)"};
    const ln_response_store_limits limits = {10, 1 << 20};
    char path[64], lock[80];
    snprintf(path, sizeof path, "/tmp/linnet-former-%d.db", (int)getpid());
    snprintf(lock, sizeof lock, "%s.lock", path);
    for (size_t i = 0; i < 2; i++) {
        sqlite3 *file;
        ln_response_store *store;
        assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
        assert_int_equal(sqlite3_exec(file, tables[i], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(file);
        assert_int_equal(ln_response_store_open(path, &limits, &store, NULL), LINNET_OK);
        go_on(store, "a", NULL, "x");
        ln_response_store_close(store);
        assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
        assert_int_equal(sqlite3_exec(file, "SELECT id FROM responses", NULL, NULL, NULL),
                         i == 0 ? SQLITE_ERROR : SQLITE_OK);
        sqlite3_close(file);
        unlink(path);
        unlink(lock);
    }
}

/* A list that grows: by items that an object of it has already, or by copies. */
static void lists_grow(void **state) {
    (void)state;
    ln_response_store *store = open_store(3, 1 << 20);
    ln_item_list items = {0};
    assert_true(ln_response_store_put(store, "list", "{}", NULL, 0));
    expect_ids(store, "list", false, "");
    add(&items, "a", "x");
    assert_true(ln_response_store_append(store, "list", &items, 0));
    add(&items, "b", "y");
    add(&items, "c", "y");
    assert_true(ln_response_store_put(store, "one", "{}", &items, 2));
    int64_t number = items.items[2].number;
    assert_true(ln_response_store_append(store, "list", &items, 1));
    assert_int_equal(items.items[2].number, number);
    expect_ids(store, "list", false, "a b c ");
    /* the list went on meanwhile */
    assert_true(ln_response_store_append(store, "list", &items, 1));
    assert_int_not_equal(items.items[2].number, number);
    expect_ids(store, "list", false, "a b c b c ");
    expect_ids(store, "one", false, "a b c ");
    assert_false(ln_response_store_append(store, "none", &items, 0));
    /* what was changed last is the newest */
    go_on(store, "two", NULL, "x");
    assert_true(ln_response_store_append(store, "list", &items, 2));
    go_on(store, "three", NULL, "x");
    assert_null(ln_response_store_get(store, "one"));
    expect_ids(store, "list", false, "a b c b c c ");
    ln_item_list_free(&items);
    ln_response_store_close(store);
}

/* An item that is removed is in no list any more, wherever it stood. */
static void items_are_removed(void **state) {
    (void)state;
    static const char *const gone[] = {"b.in", "a.in", "b.out"};
    static const char *const left[][2] = {
        {"a.in a.out b.out ", "a.in a.out "}, {"a.out b.out ", "a.out "}, {"a.out ", "a.out "}};
    ln_response_store *store = open_store(100, 1 << 20);
    go_on(store, "a", NULL, "x");
    go_on(store, "b", "a", "y");
    assert_false(ln_response_store_delete_item(store, "a", "b.in"));
    assert_false(ln_response_store_delete_item(store, "none", "a.in"));
    for (size_t i = 0; i < 3; i++) {
        char *item = ln_response_store_get_item(store, "b", gone[i]);
        assert_non_null(item);
        free(item);
        assert_true(ln_response_store_delete_item(store, "b", gone[i]));
        assert_null(ln_response_store_get_item(store, "b", gone[i]));
        expect_ids(store, "b", false, left[i][0]);
        expect_ids(store, "b", true, left[i][1]);
    }
    expect_ids(store, "a", false, "a.out ");
    ln_response_store_close(store);
}

/* What goes on with a list whose end was removed meanwhile has all of it nevertheless. */
static void lost_lists_are_stored_again(void **state) {
    (void)state;
    ln_response_store *store = open_store(100, 1 << 20);
    ln_item_list items = {0};
    go_on(store, "a", NULL, "x");
    assert_true(ln_response_store_list(store, "a", false, &items));
    add(&items, "b", "y");
    assert_true(ln_response_store_delete(store, "a"));
    assert_true(ln_response_store_put(store, "b", "{}", &items, 3));
    expect_ids(store, "b", false, "a.in a.out b ");
    ln_item_list_free(&items);
    ln_response_store_close(store);
}

/* An item that is no object, as in a damaged file, is none to go on with. */
static void damaged_items_are_missing(void **state) {
    (void)state;
    static const char *const texts[] = {"[1]", "[", "null", ""};
    ln_response_store *store = open_store(10, 1 << 20);
    json_t *body = json_pack("{s:s, s:s}", "input", "2+3=", "previous_response_id", "resp_a");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ln_item_list items = {0};
        ln_api_error error = {0};
        const ln_fields fields = {body, "", &error, NULL};
        ln_responses_request kept = {0};
        ln_item_list_add(&items, 0, "a", texts[i]);
        assert_true(ln_response_store_put(store, "resp_a", "{}", &items, 1));
        assert_null(ln_responses_input_translate(&fields, store, "0", &kept));
        assert_int_equal(error.status, 404);
        assert_string_equal(error.param, "previous_response_id");
        ln_responses_request_free(&kept);
        ln_item_list_free(&items);
    }
    json_decref(body);
    ln_response_store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(running_responses_have_failed),
                                       cmocka_unit_test(others_keep_running),
                                       cmocka_unit_test(chains_share_items),
                                       cmocka_unit_test(chains_take_little),
                                       cmocka_unit_test(bytes_are_bounded),
                                       cmocka_unit_test(former_tables_go),
                                       cmocka_unit_test(lists_grow),
                                       cmocka_unit_test(items_are_removed),
                                       cmocka_unit_test(lost_lists_are_stored_again),
                                       cmocka_unit_test(damaged_items_are_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
