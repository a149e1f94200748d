/* Adapters over HTTP, as vLLM has them: loaded and unloaded while the server runs, chosen by model
 * or lora, listed beside the model. */
#include <dirent.h>
#include <poll.h>

#include "server/client.h"
#include "unit/engine/made_adapter.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true /* memory is counted otherwise */
#else
#define IS_SANITIZED false
#endif

enum { DIM = 256 };

static made_adapter made;

static int start(void **state) {
    (void)state;
    made_adapter_begin(&made, 4, 3);
    made_adapter_linear(&made, "model.layers.2.self_attn.q_proj", DIM, DIM);
    made_adapter_linear(&made, "model.layers.5.self_attn.o_proj", DIM, DIM);
    made_adapter_linear(&made, "model.layers.7.self_attn.o_proj", DIM, DIM);
    made_adapter_end(&made);
    shared = SERVER("--threads=1", "--max-seqs=4", "--served-name=demo", "--max-adapters=1");
    return 0;
}

static int stop(void **state) {
    (void)state;
    server_stop(&shared);
    made_adapter_remove(&made);
    return 0;
}

/* Posts a body; the answer's text or error, which the caller frees. */
static char *expect(const char *path, const char *body, int status) {
    http_response heard = post(&shared, path, body);
    if (heard.status != status)
        fail_msg("%s gives %d %s", body, heard.status, heard.body);
    char *text = strdup(heard.body);
    response_free(&heard);
    return text;
}

static void drop(char *text) {
    free(text);
}

static void load(const char *name, int status, const char *part) {
    char body[256];
    snprintf(body, sizeof body, "{\"lora_name\":\"%s\",\"lora_path\":\"%s\"}", name, made.folder);
    char *text = expect("/v1/load_lora_adapter", body, status);
    if (strstr(text, part) == NULL)
        fail_msg("%s", text);
    free(text);
}

/* The text of a completion; the answer names this model. */
static char *complete(const char *chosen, const char *model) {
    char body[256];
    snprintf(body, sizeof body,
             "{\"prompt\":\"2+3=\",\"max_tokens\":12,\"temperature\":0,\"ignore_eos\":true,%s}",
             chosen);
    char *whole = expect("/v1/completions", body, 200);
    json_t *root = json_loads(whole, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(root, "model")), model);
    json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
    char *text = strdup(json_string_value(json_object_get(choice, "text")));
    json_decref(root);
    free(whole);
    return text;
}

static void adapters_come_and_go(void **state) {
    (void)state;
    char *base = complete("\"model\":\"demo\"", "demo");
    drop(expect("/v1/completions", "{\"model\":\"a\",\"prompt\":\"x\"}", 404));
    load("a", 200, "Success: LoRA adapter 'a' added successfully.");
    load("a", 400, "loaded already\",\"type\":\"invalid_request_error\",\"param\":\"lora_name\"");
    load("b", 400, "max_adapters is 1\",\"type\":\"invalid_request_error\",\"param\":null");
    char *none = expect("/v1/completions", "{\"model\":\"b\",\"prompt\":\"x\"}", 404);
    assert_non_null(strstr(none, "this server has 'demo' and the adapters that GET /v1/models"));
    free(none);
    load("demo", 400, "the model's name");
    char *by_model = complete("\"model\":\"a\"", "a"), *by_field = complete("\"lora\":\"a\"", "a");
    char *again = complete("\"model\":\"demo\"", "demo");
    assert_string_equal(by_model, by_field);
    assert_string_not_equal(by_model, base);
    assert_string_equal(again, base);
    http_response heard = get(&shared, "/v1/models");
    assert_non_null(strstr(heard.body, "{\"id\":\"a\",\"object\":\"model\""));
    assert_non_null(strstr(heard.body, "\"root\":\"a\",\"parent\":\"demo\""));
    response_free(&heard);
    heard = get(&shared, "/v1/models/a");
    assert_int_equal(heard.status, 200);
    response_free(&heard);
    drop(expect("/v1/completions", "{\"lora\":\"b\",\"prompt\":\"x\"}", 404));
    drop(expect("/v1/unload_lora_adapter", "{\"lora_name\":\"a\"}", 200));
    drop(expect("/v1/unload_lora_adapter", "{\"lora_name\":\"a\"}", 404));
    drop(expect("/v1/completions", "{\"model\":\"a\",\"prompt\":\"x\"}", 404));
    free(base), free(by_model), free(by_field), free(again);
}

static void bodies_are_checked(void **state) {
    (void)state;
    drop(expect("/v1/load_lora_adapter", "{\"lora_path\":\"/x\"}", 400));
    drop(expect("/v1/load_lora_adapter", "{\"lora_name\":\"a\"}", 400));
    drop(expect("/v1/load_lora_adapter", "{\"lora_name\":\"a\",\"lora_path\":\"/nowhere\"}", 400));
    drop(expect("/v1/unload_lora_adapter", "{}", 400));
    drop(expect("/v1/completions", "{\"prompt\":\"x\",\"lora\":[{\"id\":0}]}", 400));
}

/* What is wrong is the server's options, and no field of the body. */
static void none_come_where_there_is_no_room(void **state) {
    (void)state;
    test_server server = SERVER("--threads=1");
    char body[256];
    snprintf(body, sizeof body, "{\"lora_name\":\"a\",\"lora_path\":\"%s\"}", made.folder);
    http_response heard = post(&server, "/v1/load_lora_adapter", body);
    assert_int_equal(heard.status, 400);
    assert_non_null(strstr(heard.body, "max_adapters is 0"));
    assert_non_null(strstr(heard.body, "\"param\":null"));
    response_free(&heard);
    server_stop(&server);
}

/* ---- under load ---------------------------------------------------------------------------- */

/* A file or folder of the server's in /proc. */
static void name_proc(const test_server *server, const char *what, char path[64]) {
    snprintf(path, 64, "/proc/%d/%s", (int)server->pid, what);
}

static size_t resident_pages(const test_server *server) {
    char path[64];
    size_t n = 0;
    name_proc(server, "statm", path);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %zu", &n), 1);
    fclose(file);
    return n;
}

static size_t open_files(const test_server *server) {
    char path[64];
    size_t n = 0;
    name_proc(server, "fd", path);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n;
}

/* Says a request on a connection that stays, in one piece: two would wait for each other. */
static void say_body(int fd, const char *path, const char *body) {
    char text[512];
    snprintf(text, sizeof text,
             "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             path, strlen(body), body);
    say_text(fd, text);
}

static int hear_status(int fd) {
    http_response heard = hear(fd, false);
    int status = heard.status;
    response_free(&heard);
    return status;
}

static void begin_text(int fd, const char *name) {
    char body[160];
    snprintf(body, sizeof body,
             "{\"prompt\":\"2+3=\",\"max_tokens\":12,\"temperature\":0,\"ignore_eos\":true,"
             "\"stream\":true,\"model\":\"%s\"}",
             name);
    say_body(fd, "/v1/completions", body);
}

/* The text of what was begun. */
static char *end_text(int fd) {
    http_response heard = hear(fd, false);
    if (heard.status != 200)
        fail_msg("%s", heard.body);
    char *text = stream_text(&heard);
    response_free(&heard);
    return text;
}

static void expect_text(int fd, const char *want) {
    char *text = end_text(fd);
    assert_string_equal(text, want);
    free(text);
}

/* An adapter comes and goes 1,000 times while it and another are used, and nothing stays: no file
 * open, no memory. A request keeps the adapter that it has. The KV cache is small: warm soon. */
static void a_thousand_come_and_go_under_load(void **state) {
    (void)state;
    enum { TURNS = 1000, WARM = 500, ROUND = 25 };
    enum { MOST_PAGES = 512 }; /* malloc takes 380 at once at some turn; 500 adapters are more */
    static const char unload[] = "/v1/unload_lora_adapter", leaves[] = "{\"lora_name\":\"b\"}";
    test_server server =
        SERVER("--threads=1", "--max-seqs=4", "--served-name=demo", "--max-adapters=3", "--ctx=64");
    int control = dial(&server), first = dial(&server), second = dial(&server);
    size_t pages = 0, files = 0;
    char comes[2][160], *want[2];
    for (size_t i = 0; i < 2; i++) {
        snprintf(comes[i], sizeof comes[i],
                 "{\"lora_name\":\"%s\",\"lora_path\":\"%s\",\"scale\":%zu}", i == 0 ? "a" : "b",
                 made.folder, i + 1);
        say_body(control, "/v1/load_lora_adapter", comes[i]);
        assert_int_equal(hear_status(control), 200);
        begin_text(first, i == 0 ? "a" : "b");
        want[i] = end_text(first);
    }
    assert_string_not_equal(want[0], want[1]);
    say_body(control, unload, leaves);
    assert_int_equal(hear_status(control), 200);
    for (size_t turn = 0; turn < TURNS; turn++) {
        if (turn % ROUND == 0)
            begin_text(first, "a");
        do /* all places are taken: by one that is leaving, too */
            say_body(control, "/v1/load_lora_adapter", comes[1]);
        while (hear_status(control) != 200);
        if (turn % ROUND == 0) {
            begin_text(second, "b");
            assert_int_equal(poll(&(struct pollfd){second, POLLIN, 0}, 1, 60000), 1);
        }
        say_body(control, unload, leaves);
        assert_int_equal(hear_status(control), 200);
        if (turn % ROUND == ROUND - 1) {
            expect_text(first, want[0]);
            expect_text(second, want[1]);
        }
        if (turn == WARM - 1)
            pages = resident_pages(&server), files = open_files(&server);
    }
    assert_int_equal(open_files(&server), files);
    print_message("%zu pages, then %zu\n", pages, resident_pages(&server));
    if (!IS_SANITIZED && resident_pages(&server) > pages + MOST_PAGES)
        fail_msg("%zu pages became %zu", pages, resident_pages(&server));
    hang_up(control), hang_up(first), hang_up(second);
    free(want[0]), free(want[1]);
    server_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_come_and_go),
        cmocka_unit_test(bodies_are_checked),
        cmocka_unit_test(none_come_where_there_is_no_room),
        cmocka_unit_test(a_thousand_come_and_go_under_load),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
