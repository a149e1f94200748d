/* Adapters over HTTP, as vLLM has them: loaded and unloaded while the server runs, chosen by model
 * or lora, listed beside the model. */
#include "server/client.h"
#include "unit/engine/made_adapter.h"

enum { DIM = 256 };

static test_server shared;
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
    load("a", 400, "loaded already");
    load("b", 400, "no place");
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_come_and_go),
        cmocka_unit_test(bodies_are_checked),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
