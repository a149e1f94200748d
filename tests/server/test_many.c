/* Several models in one server that do not fit into memory together. */
#include <ftw.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/client.h"
#include "test.h"

enum { N_MODELS = 3, N_PROMPTS = 4, N_REQUESTS = 100 };
enum { TRIES = 3000 }; /* of what is waited for, 20 ms each at least */

static const char *const names[N_MODELS] = {"demo", "q5", "q4"};
static const char *const prompts[N_PROMPTS] = {"Once", "The cat", "A little girl", "In the"};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true /* memory is counted otherwise */
#else
#define IS_SANITIZED false
#endif

static char folder[] = "/tmp/linnet-many-XXXXXX";
static char *alone[N_MODELS][N_PROMPTS]; /* the texts of servers of one model */

/* The path of a model's file; valid until the next call. */
static const char *file_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
    return path;
}

static void run(const char *const *argv) {
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A request whose answer `alone` has; valid until the next call. */
static const char *body_of(const char *model, int prompt) {
    static char body[256];
    snprintf(body, sizeof body,
             "{\"model\":\"%s\",\"prompt\":\"%s\",\"max_tokens\":40,\"temperature\":0}", model,
             prompts[prompt]);
    return body;
}

/* What follows "text": up to the end of the choice. */
static char *take_text(const http_response *heard) {
    const char *begin = strstr(heard->body, "\"text\":");
    const char *end = begin ? strstr(begin, ",\"logprobs\"") : NULL;
    if (heard->status != 200 || !end)
        fail_msg("status %d: %s", heard->status, heard->body);
    return strndup(begin, (size_t)(end - begin));
}

/* Writes the models, a broken one as well, and what each of them says alone. */
static int set_up(void **state) {
    (void)state;
    assert_non_null(mkdtemp(folder));
    run((const char *const[]){"/bin/cp", "models/demo.gguf", file_of("demo"), NULL});
    run((const char *const[]){TEST_LINNET, "quantize", "--type=Q5_0", "models/demo.gguf",
                              file_of("q5"), NULL});
    run((const char *const[]){TEST_LINNET, "quantize", "--type=Q4_0", "models/demo.gguf",
                              file_of("q4"), NULL});
    run((const char *const[]){"/bin/sh", "-c", "head -c 5000 models/demo.gguf >\"$0\"",
                              file_of("broken"), NULL});
    for (int i = 0; i < N_MODELS; i++) {
        char served[64];
        snprintf(served, sizeof served, "--served-name=%s", names[i]);
        test_server server =
            SERVER("--threads=1", "--ctx=256", "--max-seqs=4", served, file_of(names[i]));
        for (int j = 0; j < N_PROMPTS; j++) {
            http_response heard = post(&server, "/v1/completions", body_of(names[i], j));
            alone[i][j] = take_text(&heard);
            response_free(&heard);
        }
        server_stop(&server);
    }
    assert_string_not_equal(alone[0][3], alone[1][3]); /* else a mix-up is not seen */
    assert_string_not_equal(alone[0][3], alone[2][3]);
    assert_string_not_equal(alone[1][3], alone[2][3]);
    return 0;
}

static int remove_path(const char *path, const struct stat *info, int type, struct FTW *at) {
    (void)info, (void)type, (void)at;
    return remove(path);
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < N_MODELS; i++)
        for (int j = 0; j < N_PROMPTS; j++)
            free(alone[i][j]);
    return nftw(folder, remove_path, 8, FTW_DEPTH | FTW_PHYS);
}

static int say_request(const test_server *server, const char *path, const char *body) {
    char head[256];
    int fd = dial(server);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", path,
             strlen(body));
    say_text(fd, head);
    say_text(fd, body);
    return fd;
}

static void expect_alone(http_response heard, int model, int prompt) {
    char *text = take_text(&heard);
    if (strcmp(text, alone[model][prompt]) != 0)
        fail_msg("%s says %s and alone %s", names[model], text, alone[model][prompt]);
    free(text);
    response_free(&heard);
}

/* The state that /v1/models gives of a model; valid until the next call. */
static const char *state_of(const test_server *server, const char *name) {
    static char value[32];
    char path[64];
    snprintf(path, sizeof path, "/v1/models/%s", name);
    http_response heard = get(server, path);
    const char *found = strstr(heard.body, "\"status\":{\"value\":\"");
    assert_non_null(found);
    snprintf(value, sizeof value, "%.*s", (int)strcspn(found + 19, "\""), found + 19);
    response_free(&heard);
    return value;
}

static void wait_for_state(const test_server *server, const char *name, const char *state) {
    for (int i = 0; i < TRIES; i++) {
        if (strcmp(state_of(server, name), state) == 0)
            return;
        sleep_ms(20);
    }
    fail_msg("%s is %s and not %s", name, state_of(server, name), state);
}

/* The models that are loaded at one moment. */
static int count_loaded(const test_server *server) {
    int count = 0;
    http_response heard = get(server, "/v1/models");
    for (const char *at = heard.body; (at = strstr(at, "\"value\":\"loaded\"")) != NULL; at++)
        count++;
    response_free(&heard);
    return count;
}

/* Asks until the answer has the status and the part. Folders are read once in a second, and less
 * often where that takes long: on a busy machine it may. */
static void wait_for(const test_server *server, const char *path, const char *body, int status,
                     const char *part) {
    http_response heard = {0};
    for (int i = 0; i < TRIES; i++) {
        response_free(&heard);
        heard = body != NULL ? post(server, path, body) : get(server, path);
        if (heard.status == status && strstr(heard.body, part) != NULL) {
            response_free(&heard);
            return;
        }
        sleep_ms(20);
    }
    fail_msg("%s: %d %s, not %d and %s", path, heard.status, heard.body, status, part);
}

/* The bytes of memory that a model takes by its plan. */
static size_t plan_of(const test_server *server, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/v1/models/%s", name);
    http_response heard = get(server, path);
    const char *found = strstr(heard.body, "\"host_bytes\":");
    assert_non_null(found);
    size_t n_bytes = strtoull(found + 13, NULL, 10);
    response_free(&heard);
    return n_bytes;
}

static size_t peak_kib(const test_server *server) {
    char path[64], line[128];
    size_t kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)server->pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && sscanf(line, "VmHWM: %zu kB", &kib) != 1)
        continue;
    fclose(file);
    return kib;
}

/* A server that may have so many bytes of models. */
static test_server start_with(size_t n_bytes) {
    char memory[64];
    snprintf(memory, sizeof memory, "--memory=%zu", n_bytes);
    return SERVER("--threads=1", "--ctx=512", "--max-seqs=4", "--models", folder, memory);
}

/* What one model takes, from a server that has room for all. */
static size_t measure_plan(void) {
    size_t most = 0;
    test_server server = start_with((size_t)4 << 30);
    for (int i = 0; i < N_MODELS; i++) {
        expect_status(post(&server, "/models/load", body_of(names[i], 0) /* more fields */), 200);
        size_t n_bytes = plan_of(&server, names[i]);
        most = n_bytes > most ? n_bytes : most;
    }
    for (int i = 0; i < N_MODELS; i++) /* there was room */
        assert_string_equal(state_of(&server, names[i]), "loaded");
    server_stop(&server);
    return most;
}

/* Two models fit, the third does not. */
static void answers_all(void **state) {
    (void)state;
    size_t budget = measure_plan() * 2 + (1 << 20);
    test_server server = start_with(budget);
    size_t before_kib = peak_kib(&server);
    int fds[N_REQUESTS];
    for (int i = 0; i < N_REQUESTS; i++)
        fds[i] = say_request(&server, "/v1/completions",
                             body_of(names[i % N_MODELS], i / N_MODELS % N_PROMPTS));
    for (int i = 0; i < N_REQUESTS; i++) {
        expect_alone(hear(fds[i], false), i % N_MODELS, i / N_MODELS % N_PROMPTS);
        hang_up(fds[i]);
        if (i % 10 == 0)
            assert_true(count_loaded(&server) < N_MODELS);
    }
    for (int i = 0; i < 9; i++) /* one after another: each third one makes another model leave */
        expect_alone(post(&server, "/v1/completions", body_of(names[i % 3], i / 3)), i % 3, i / 3);
    if (!IS_SANITIZED) {
        size_t slack_kib = 16 << 10; /* malloc's, of what the models took before */
        assert_true(peak_kib(&server) - before_kib <= budget / 1024 + slack_kib);
    }
    wait_for_metric(&server, "num_requests_open", "", 0);
    server_stop(&server);
}

/* A budget that holds none says so, and what it would need. */
static void refuses_too_large(void **state) {
    (void)state;
    test_server server = start_with(1 << 20);
    http_response heard = post(&server, "/v1/completions", body_of(names[0], 0));
    assert_int_equal(heard.status, 503);
    assert_non_null(strstr(heard.body, "the server has 1048576"));
    response_free(&heard);
    expect_status(get(&server, "/health"), 200);
    server_stop(&server);
}

static void fails_broken_alone(void **state) {
    (void)state;
    test_server server = start_with((size_t)1 << 30);
    int first = say_request(&server, "/v1/completions",
                            "{\"model\":\"broken\",\"prompt\":\"a\",\"max_tokens\":1}");
    int second = say_request(&server, "/v1/completions", body_of(names[0], 0));
    http_response heard = hear(first, false);
    assert_int_equal(heard.status, 500);
    assert_non_null(strstr(heard.body, "broken.gguf: "));
    response_free(&heard);
    expect_alone(hear(second, false), 0, 0);
    hang_up(first);
    hang_up(second);
    heard = get(&server, "/v1/models/broken");
    assert_non_null(strstr(heard.body, "\"failed\":true"));
    response_free(&heard);
    expect_status(post(&server, "/v1/completions", "{\"prompt\":\"a\"}"), 400); /* which model? */
    expect_status(post(&server, "/v1/completions", "{\"model\":\"no\",\"prompt\":\"a\"}"), 404);
    expect_status(get(&server, "/health"), 200);
    server_stop(&server);
}

/* Clients that go while their model is being loaded take nothing along. */
static void cancels_while_loading(void **state) {
    (void)state;
    test_server server = start_with(measure_plan() + (1 << 20)); /* one at a time */
    for (int i = 0; i < 30; i++) {
        int fd = say_request(&server, "/v1/completions", body_of(names[i % N_MODELS], 0));
        sleep_ms(i % 10);
        hang_up(fd);
    }
    for (int i = 0; i < N_MODELS; i++)
        expect_alone(post(&server, "/v1/completions", body_of(names[i], 1)), i, 1);
    wait_for_metric(&server, "num_requests_open", "", 0);
    server_stop(&server);
}

/* A model that is in use is not unloaded by hand, and one that is needed waits for its requests. */
static void wait_readable(int fd) {
    struct pollfd at = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&at, 1, 60000), 1);
}

static void unloads_when_over(void **state) {
    (void)state;
    enum { MOST_TRIES = 50 };
    test_server server = start_with(measure_plan() + (1 << 20));
    static const char body[] = "{\"model\":\"demo\",\"prompt\":\"Once\",\"max_tokens\":480,"
                               "\"ignore_eos\":true,\"seed\":5,\"stream\":true}";
    int fd = -1, status = 0;
    for (int i = 0; i < MOST_TRIES && status != 409; i++) { /* unless it was over before */
        if (fd >= 0)
            hang_up(fd);
        expect_status(post(&server, "/models/load", "{\"model\":\"demo\"}"), 200);
        fd = say_request(&server, "/v1/completions", body);
        wait_readable(fd);
        http_response told = post(&server, "/models/unload", "{\"model\":\"demo\"}");
        status = told.status;
        response_free(&told);
    }
    assert_int_equal(status, 409);
    int other = say_request(&server, "/v1/completions", body_of(names[1], 0));
    http_response heard = hear(fd, false); /* whole, although another model needs the memory */
    assert_int_equal(heard.status, 200);
    assert_false(heard.is_cut);
    assert_non_null(strstr(heard.body, "[DONE]"));
    response_free(&heard);
    expect_alone(hear(other, false), 1, 0);
    assert_string_equal(state_of(&server, "demo"), "unloaded");
    hang_up(fd);
    hang_up(other);
    expect_status(post(&server, "/models/unload", "{\"model\":\"q5\"}"), 200);
    wait_for_state(&server, "q5", "unloaded");
    expect_status(post(&server, "/models/unload", "{\"model\":\"no\"}"), 404);
    server_stop(&server);
}

static void sleeps_and_wakes(void **state) {
    (void)state;
    test_server server = start_with((size_t)1 << 30);
    expect_alone(post(&server, "/v1/completions", body_of(names[2], 2)), 2, 2);
    expect_status(post(&server, "/models/sleep", "{\"model\":\"q4\"}"), 200);
    wait_for_state(&server, "q4", "sleeping");
    expect_status(post(&server, "/models/wake", "{\"model\":\"q4\"}"), 200);
    assert_string_equal(state_of(&server, "q4"), "loaded");
    expect_status(post(&server, "/models/sleep", "{\"model\":\"q4\"}"), 200);
    expect_alone(post(&server, "/v1/completions", body_of(names[2], 3)), 2, 3); /* wakes it */
    http_response heard = post(&server, "/models/sleep", "{\"model\":\"q5\"}");
    assert_non_null(strstr(heard.body, "\"value\":\"unloaded\"")); /* it was before */
    response_free(&heard);
    server_stop(&server);
}

/* Tokens and times are each model's, whether it is loaded or no longer. */
static void counts_by_model(void **state) {
    (void)state;
    static const char q4[] = "model_name=\"q4\"", q5[] = "model_name=\"q5\"";
    test_server server = start_with((size_t)1 << 30);
    expect_status(
        post(&server, "/v1/completions",
             "{\"model\":\"q4\",\"prompt\":[5,6,7],\"max_tokens\":2,\"ignore_eos\":true}"),
        200);
    expect_status(
        post(&server, "/v1/completions",
             "{\"model\":\"q5\",\"prompt\":[5],\"max_tokens\":4,\"ignore_eos\":true,\"n\":2}"),
        200);
    expect_status(post(&server, "/models/unload", "{\"model\":\"q4\"}"), 200);
    wait_for_state(&server, "q4", "unloaded");
    assert_true(metric(&server, "prompt_tokens_total", q4) == 3);
    assert_true(metric(&server, "prompt_tokens_total", q5) == 1);
    assert_true(metric(&server, "generation_tokens_total", q4) == 2);
    assert_true(metric(&server, "generation_tokens_total", q5) == 8);
    assert_true(metric(&server, "request_success_total", "q5\",finished_reason=\"length\"") == 2);
    assert_true(metric(&server, "time_to_first_token_seconds_count", q4) == 1);
    assert_true(metric(&server, "e2e_request_latency_seconds_count", q5) == 1);
    assert_true(metric(&server, "engine_steps_total", q4) == -1); /* its engine is gone */
    assert_true(metric(&server, "engine_steps_total", q5) > 0);
    assert_true(metric(&server, "prompt_tokens_total", "model_name=\"\"") == -1);
    server_stop(&server);
}

/* Asks for a change by hand, and expects what the answer says of the model. */
static void expect_change(const test_server *server, const char *path, const char *value) {
    char expected[32];
    http_response heard = post(server, path, "{\"model\":\"q4\"}");
    snprintf(expected, sizeof expected, "\"value\":\"%s\"", value);
    assert_int_equal(heard.status, 200);
    assert_non_null(strstr(heard.body, expected));
    response_free(&heard);
}

/* A model that is about to sleep or to be unloaded may be told again, and otherwise. */
static void changes_its_mind(void **state) {
    (void)state;
    enum { ROUNDS = 20 };
    test_server server = start_with((size_t)1 << 30);
    for (int i = 0; i < ROUNDS; i++) {
        expect_change(&server, "/models/load", "loaded");
        expect_change(&server, "/models/sleep", "sleeping");
        expect_change(&server, "/models/sleep", "sleeping");
        expect_change(&server, "/models/unload", "unloaded");
        expect_change(&server, "/models/unload", "unloaded");
        expect_change(&server, "/models/sleep", "unloaded");
        wait_for_state(&server, "q4", "unloaded");
    }
    expect_alone(post(&server, "/v1/completions", body_of(names[2], 2)), 2, 2);
    server_stop(&server);
}

/* Ollama's keep_alive, tags and ps. */
static void keeps_as_long_as_asked(void **state) {
    (void)state;
    test_server server = start_with((size_t)1 << 30);
    http_response heard =
        post(&server, "/api/generate", "{\"model\":\"q5\",\"keep_alive\":\"1h\"}");
    assert_non_null(strstr(heard.body, "\"done_reason\":\"load\""));
    response_free(&heard);
    heard = get(&server, "/api/ps");
    assert_non_null(strstr(heard.body, "\"name\":\"q5\""));
    assert_null(strstr(heard.body, "\"name\":\"q4\""));
    response_free(&heard);
    heard = get(&server, "/api/tags");
    assert_non_null(strstr(heard.body, "\"name\":\"q4\""));
    response_free(&heard);
    heard = post(&server, "/api/generate", "{\"model\":\"q5:latest\",\"keep_alive\":0}");
    assert_non_null(strstr(heard.body, "\"done_reason\":\"unload\""));
    response_free(&heard);
    wait_for_state(&server, "q5", "unloaded");
    heard = post(&server, "/api/generate",
                 "{\"model\":\"q4\",\"prompt\":\"a\",\"raw\":true,\"stream\":false,"
                 "\"options\":{\"num_predict\":2},\"keep_alive\":\"50ms\"}");
    assert_int_equal(heard.status, 200);
    response_free(&heard);
    wait_for_state(&server, "q4", "unloaded");
    expect_status(post(&server, "/api/generate", "{\"model\":\"q4\",\"keep_alive\":\"soon\"}"),
                  400);
    /* what embeds is not left without an engine, however little text it has */
    expect_status(
        post(&server, "/api/embeddings", "{\"model\":\"q5\",\"prompt\":[5,6],\"keep_alive\":0}"),
        200);
    wait_for_state(&server, "q5", "unloaded");
    expect_status(post(&server, "/api/show", "{\"model\":\"q4\"}"), 200);
    assert_string_equal(state_of(&server, "q4"), "unloaded"); /* it was opened, not loaded */
    server_stop(&server);
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

/* What the program says that does not serve; if it did, it would be ended. */
static void expect_refusal(const char *list, const char *message) {
    char command[256], line[512];
    snprintf(command, sizeof command, "timeout 600 '%s' serve --port=0 --models '%s' 2>&1",
             TEST_LINNET, list);
    FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c): of the test's own */
    assert_non_null(pipe);
    bool is_said = false, is_alone = true;
    while (fgets(line, sizeof line, pipe) != NULL) {
        is_said |= strstr(line, message) != NULL;
        is_alone &= strstr(line, "--help") == NULL; /* of no command */
    }
    assert_int_not_equal(pclose(pipe), 0);
    if (!is_said || !is_alone)
        fail_msg("not said, or not alone: %s", message);
}

static void refuses_lists(void **state) {
    (void)state;
    static const struct {
        const char *options, *message;
    } cases[] = {
        {"{\"max-adapters\": 2}", "max-adapters of q4: only with a server of one model"},
        {"{\"ctx\": \"x\"}", "bad.json: options of q4: --ctx: 'x' is not a whole number from 1 to"},
        {"{\"ctx\": true, \"threads\": 1}", "bad.json: options of q4: ctx needs a value: N"},
        {"{\"pin\": 1}", "bad.json: options of q4: pin takes no value, only true"},
        {"{\"kv-type\": \"f33\"}", "bad.json: options of q4: --kv-type: 'f33' is not f32, f16"},
        {"{\"port\": 80}", "bad.json: options of q4: port is no option of the engine"},
        {"{\"help\": true}", "bad.json: options of q4: help is no option of the engine"},
    };
    char path[96], text[256];
    snprintf(path, sizeof path, "%s/none.json", folder);
    expect_refusal(path, "linnet: cannot open");
    snprintf(path, sizeof path, "%s/bad.json", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text,
                 "{\"models\": [{\"name\": \"q4\", \"model\": \"%s\", \"options\": %s}]}",
                 file_of("q4"), cases[i].options);
        write_text(path, text);
        expect_refusal(path, cases[i].message);
    }
}

/* A folder and a file of one name are two models. A snapshot of the hub's cache has the name of its
 * repository. */
static void names_apart(void **state) {
    (void)state;
    char inner[64], same[96], file[96], snapshot[128];
    snprintf(inner, sizeof inner, "%s/two", folder);
    snprintf(same, sizeof same, "%s/same", inner);
    snprintf(file, sizeof file, "%s/same.gguf", inner);
    assert_int_equal(mkdir(inner, 0777), 0);
    run((const char *const[]){"/bin/cp", "-r", "tests/golden/models/llama", same, NULL});
    run((const char *const[]){"/bin/cp", file_of("q4"), file, NULL});
    snprintf(snapshot, sizeof snapshot, "%s/models--o--tiny/snapshots/0123abc", folder);
    run((const char *const[]){"/bin/mkdir", "-p", snapshot, NULL});
    run((const char *const[]){"/bin/cp", "-r", "tests/golden/models/llama/.", snapshot, NULL});
    test_server server = SERVER("--threads=1", "--models", inner, snapshot, file_of("q5"));
    assert_string_equal(state_of(&server, "tiny"), "unloaded");
    assert_string_equal(state_of(&server, "same"), "unloaded");
    assert_string_equal(state_of(&server, "same.gguf"), "unloaded");
    server_stop(&server);
}

/* A split file is as large as its parts together. */
static void counts_parts(void **state) {
    (void)state;
    char inner[64], part[128];
    snprintf(inner, sizeof inner, "%s/split", folder);
    assert_int_equal(mkdir(inner, 0777), 0);
    for (int i = 1; i <= 3; i++) {
        snprintf(part, sizeof part, "%s/m-0000%d-of-00003.gguf", inner, i);
        write_text(part, "1234567");
    }
    test_server server = SERVER("--threads=1", "--models", inner);
    http_response heard = get(&server, "/api/tags");
    if (strstr(heard.body, "\"name\":\"m\"") == NULL || strstr(heard.body, "\"size\":21,") == NULL)
        fail_msg("%s", heard.body);
    response_free(&heard);
    server_stop(&server);
}

/* A model that comes into the folder while the server runs is served, too. */
static void sees_what_comes(void **state) {
    (void)state;
    char inner[64], first[96], second[96];
    snprintf(inner, sizeof inner, "%s/later", folder);
    snprintf(first, sizeof first, "%s/first.gguf", inner);
    snprintf(second, sizeof second, "%s/second.gguf", inner);
    assert_int_equal(mkdir(inner, 0777), 0);
    run((const char *const[]){"/bin/cp", file_of("q4"), first, NULL});
    test_server server = SERVER("--threads=1", "--ctx=64", "--models", inner);
    const char *asked = "{\"model\":\"second\",\"prompt\":\"a\",\"max_tokens\":1}";
    expect_status(post(&server, "/v1/completions", asked), 404);
    run((const char *const[]){"/bin/cp", file_of("q5"), second, NULL});
    wait_for(&server, "/v1/completions", asked, 200, "");
    assert_string_equal(state_of(&server, "first"), "unloaded");
    server_stop(&server);
}

/* A folder of a name that another list has hides nothing behind it. */
static void sees_what_comes_behind_a_name_twice(void **state) {
    (void)state;
    char one[64], two[64], same[96], later[96];
    snprintf(one, sizeof one, "%s/one", folder);
    snprintf(two, sizeof two, "%s/other", folder);
    assert_int_equal(mkdir(one, 0777), 0);
    assert_int_equal(mkdir(two, 0777), 0);
    snprintf(same, sizeof same, "%s/same", one);
    snprintf(later, sizeof later, "%s/some.gguf", two);
    run((const char *const[]){"/bin/cp", "-r", "tests/golden/models/llama", same, NULL});
    test_server server = SERVER("--threads=1", "--ctx=64", "--models", one, "--models", two);
    snprintf(same, sizeof same, "%s/same", two);
    run((const char *const[]){"/bin/cp", "-r", "tests/golden/models/llama", same, NULL});
    run((const char *const[]){"/bin/cp", file_of("q4"), later, NULL});
    wait_for(&server, "/v1/models/some", NULL, 200, "\"value\":\"unloaded\"");
    server_stop(&server);
}

/* A model whose file is removed is offered no more: neither one that is loaded, which leaves, nor
 * one that is not. Back again, it is. */
static void misses_what_goes(void **state) {
    (void)state;
    char inner[64], first[96], second[96], third[96];
    const char *asked = "{\"model\":\"%s\",\"prompt\":\"a\",\"max_tokens\":1}";
    snprintf(inner, sizeof inner, "%s/gone", folder);
    snprintf(first, sizeof first, "%s/first.gguf", inner);
    snprintf(second, sizeof second, "%s/second", inner);
    snprintf(third, sizeof third, "%s/third.gguf", inner);
    assert_int_equal(mkdir(inner, 0777), 0);
    run((const char *const[]){"/bin/cp", file_of("q4"), first, NULL});
    run((const char *const[]){"/bin/cp", "-r", "tests/golden/models/llama", second, NULL});
    run((const char *const[]){"/bin/cp", file_of("q5"), third, NULL});
    test_server server = SERVER("--threads=1", "--ctx=64", "--models", inner);
    char body[128];
    snprintf(body, sizeof body, asked, "first");
    expect_status(post(&server, "/v1/completions", body), 200);
    assert_int_equal(remove(first), 0);
    run((const char *const[]){"/bin/rm", "-r", second, NULL});
    wait_for(&server, "/v1/models", NULL, 200, "\"first_id\":\"third\",\"last_id\":\"third\"");
    http_response heard = get(&server, "/v1/models");
    assert_null(strstr(heard.body, "\"id\":\"first\""));
    assert_null(strstr(heard.body, "\"id\":\"second\""));
    response_free(&heard);
    heard = get(&server, "/api/tags");
    assert_null(strstr(heard.body, "second"));
    response_free(&heard);
    expect_status(get(&server, "/v1/models/first"), 404);
    snprintf(body, sizeof body, asked, "second");
    expect_status(post(&server, "/v1/completions", body), 404);
    wait_for(&server, "/api/ps", NULL, 200, "\"models\":[]");
    run((const char *const[]){"/bin/cp", file_of("q5"), first, NULL});
    snprintf(body, sizeof body, asked, "first");
    wait_for(&server, "/v1/completions", body, 200, "");
    assert_int_equal(remove(first), 0);
    assert_int_equal(remove(third), 0);
    wait_for(&server, "/v1/models", NULL, 200, "\"data\":[],\"has_more\":false,\"first_id\":null");
    server_stop(&server);
}

/* A server of a folder with one file, which is q4's at first. */
typedef struct one_file {
    char path[96], other[96];
    test_server server;
} one_file;

static void start_one_file(one_file *one, const char *name) {
    char inner[64];
    snprintf(inner, sizeof inner, "%s/%s", folder, name);
    snprintf(one->path, sizeof one->path, "%s/m.gguf", inner);
    snprintf(one->other, sizeof one->other, "%s/new", inner);
    assert_int_equal(mkdir(inner, 0777), 0);
    run((const char *const[]){"/bin/cp", file_of("q4"), one->path, NULL});
    one->server =
        SERVER("--threads=1", "--ctx=256", "--max-seqs=4", "--models", inner, "--keep-alive=-1");
    expect_alone(post(&one->server, "/v1/completions", body_of("m", 3)), 2, 3);
}

/* Files are looked at once in a second; what is seen before may be a part. */
static void replace_file(const one_file *one, const char *name) {
    run((const char *const[]){"/bin/cp", file_of(name), one->other, NULL});
    assert_int_equal(rename(one->other, one->path), 0);
    sleep_ms(1050);
}

/* So many sequences of the model have been admitted since the start: they are over, or open. In
 * this order none counts twice. */
static void wait_for_admitted(const test_server *server, double count) {
    double seen = 0;
    for (int i = 0; i < TRIES && seen < count; i++) {
        sleep_ms(5);
        seen = metric(server, "request_success_total", "model_name=\"m\"");
        seen += metric(server, "num_requests_open", NULL);
    }
    assert_true(seen >= count);
}

/* A model whose file is replaced answers what it has as it was, and the next request as it is. */
static void takes_what_replaces(void **state) {
    (void)state;
    enum { N_HELD = 60 };
    one_file one;
    int fds[N_HELD];
    start_one_file(&one, "replaced");
    const char *body = body_of("m", 3);
    for (int turn = 0; turn < 2; turn++) { /* q4 becomes q5, and that becomes q4 */
        wait_for_metric(&one.server, "num_requests_open", NULL, 0);
        double n_before = metric(&one.server, "request_success_total", "model_name=\"m\"");
        for (int i = 0; i < N_HELD; i++)
            fds[i] = say_request(&one.server, "/v1/completions", body);
        wait_for_admitted(&one.server, n_before + N_HELD);
        replace_file(&one, turn == 0 ? "q5" : "q4");
        expect_alone(post(&one.server, "/v1/completions", body), 1 + turn, 3);
        for (int i = 0; i < N_HELD; i++) {
            expect_alone(hear(fds[i], false), 2 - turn, 3);
            hang_up(fds[i]);
        }
    }
    expect_status(post(&one.server, "/models/sleep", "{\"model\":\"m\"}"), 200);
    wait_for_state(&one.server, "m", "sleeping");
    replace_file(&one, "q5");
    expect_alone(post(&one.server, "/v1/completions", body), 1, 3);
    server_stop(&one.server);
}

/* A model that is in use is missed, too, although nobody asks what there is. */
static void misses_what_it_uses(void **state) {
    (void)state;
    enum { MOST_LOOKS = 30 };
    one_file one;
    int status = 200;
    start_one_file(&one, "used");
    assert_int_equal(remove(one.path), 0);
    for (int i = 0; i < MOST_LOOKS && status == 200; i++) {
        sleep_ms(1050); /* files are looked at once in a second */
        http_response heard = post(&one.server, "/v1/completions", body_of("m", 3));
        status = heard.status;
        response_free(&heard);
    }
    assert_int_equal(status, 404);
    server_stop(&one.server);
}

/* A model whose file is missing for a moment, as between two commands that replace it, stays. */
static void stays_while_replaced(void **state) {
    (void)state;
    one_file one;
    start_one_file(&one, "moment");
    const char *body = body_of("m", 3);
    assert_int_equal(rename(one.path, one.other), 0);
    sleep_ms(1050); /* files are looked at once in a second */
    expect_alone(post(&one.server, "/v1/completions", body), 2, 3);
    assert_int_equal(rename(one.other, one.path), 0);
    sleep_ms(1050);
    expect_alone(post(&one.server, "/v1/completions", body), 2, 3);
    assert_string_equal(state_of(&one.server, "m"), "loaded");
    assert_int_equal(remove(one.path), 0);
    replace_file(&one, "q5");
    expect_alone(post(&one.server, "/v1/completions", body), 1, 3);
    server_stop(&one.server);
}

/* A commit of the cache's model o/m, of one file, which is the main branch's from now on. */
static void put_commit(const char *cache, char digit, const char *file) {
    char path[256], commit[41];
    memset(commit, digit, 40);
    commit[40] = '\0';
    snprintf(path, sizeof path,
             "cd \"$0\" && mkdir -p snapshots/%s refs && cp \"$1\" snapshots/%s/m-Q4_0.gguf && "
             "printf %s > refs/new && mv refs/new refs/main",
             commit, commit, commit);
    run((const char *const[]){"/bin/sh", "-c", path, cache, file, NULL});
}

/* A pull that brings another commit replaces a model of the hub's cache. */
static void follows_the_cache(void **state) {
    (void)state;
    char cache[64], repo[96];
    snprintf(cache, sizeof cache, "%s/hub", folder);
    snprintf(repo, sizeof repo, "%s/models--o--m", cache);
    run((const char *const[]){"/bin/mkdir", "-p", repo, NULL});
    put_commit(repo, 'a', file_of("q4"));
    server_hub_cache = cache;
    test_server server = SERVER("--threads=1", "--ctx=256", "--max-seqs=4");
    server_hub_cache = "/nonexistent";
    const char *body = body_of("o/m:Q4_0", 3);
    expect_alone(post(&server, "/v1/completions", body), 2, 3);
    put_commit(repo, 'b', file_of("q5"));
    sleep_ms(1050);
    expect_alone(post(&server, "/v1/completions", body), 1, 3);
    expect_alone(post(&server, "/v1/completions", body), 1, 3);
    server_stop(&server);
}

/* A file of names and options; the end comes while a model is loaded. */
static void reads_list(void **state) {
    (void)state;
    char path[96], text[512];
    snprintf(path, sizeof path, "%s/models.json", folder);
    snprintf(text, sizeof text,
             "{\"models\": [{\"name\": \"q4\", \"model\": \"%s\", \"options\": {\"ctx\": 64, "
             "\"threads\": 1}, \"keep-alive\": -1}]}",
             file_of("q4"));
    write_text(path, text);
    test_server server = SERVER("--threads=1", "--models", path);
    expect_status(post(&server, "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":1}"), 200);
    http_response heard = get(&server, "/v1/models");
    assert_non_null(strstr(heard.body, "\"max_model_len\":64"));
    response_free(&heard);
    expect_status(post(&server, "/models/unload", "{\"model\":\"q4\"}"), 200);
    int fd = say_request(&server, "/v1/completions", body_of(names[2], 0));
    server_stop(&server);
    hang_up(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_all),
        cmocka_unit_test(refuses_too_large),
        cmocka_unit_test(fails_broken_alone),
        cmocka_unit_test(cancels_while_loading),
        cmocka_unit_test(unloads_when_over),
        cmocka_unit_test(sleeps_and_wakes),
        cmocka_unit_test(changes_its_mind),
        cmocka_unit_test(counts_by_model),
        cmocka_unit_test(keeps_as_long_as_asked),
        cmocka_unit_test(reads_list),
        cmocka_unit_test(refuses_lists),
        cmocka_unit_test(names_apart),
        cmocka_unit_test(counts_parts),
        cmocka_unit_test(sees_what_comes),
        cmocka_unit_test(sees_what_comes_behind_a_name_twice),
        cmocka_unit_test(misses_what_goes),
        cmocka_unit_test(takes_what_replaces),
        cmocka_unit_test(misses_what_it_uses),
        cmocka_unit_test(stays_while_replaced),
        cmocka_unit_test(follows_the_cache),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
