/* What `linnet serve' says when it begins to listen. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "server/client.h"
#include "test.h"

#define DEMO TEST_SOURCE_DIR "/models/demo.gguf"

static void assert_has(const char *log, const char *text) {
    if (!strstr(log, text))
        fail_msg("'%s' lacks '%s'", log, text);
}

/* The log of a server that has answered nothing. */
static char *log_of(test_server server) {
    char *log;
    http_response health = get(&server, "/health");
    assert_int_equal(health.status, 200);
    response_free(&health);
    kill(server.pid, SIGTERM);
    assert_int_equal(server_wait(&server, &log), 0);
    return log;
}

static void says_what_is_served(void **state) {
    (void)state;
    char call[128];
    test_server server = SERVER("-m", DEMO, "-c", "128", "-t", "1");
    snprintf(call, sizeof call, "try       curl http://127.0.0.1:%u/v1/chat/completions -d '",
             server.port);
    char *log = log_of(server);
    assert_has(log, "model     " DEMO ": llama, 8 layers");
    assert_has(log, "context of 128 tokens, 16 sequences and 512 tokens in a step, 1 thread, ");
    assert_has(log, "/v1/messages");
    assert_has(log, call);
    assert_null(strstr(log, "warning"));
    free(log);
}

static void offers_what_a_model_of_vectors_has(void **state) {
    (void)state;
    char *log = log_of(SERVER(TEST_SOURCE_DIR "/tests/golden/embeddings/bert_classes", "-t", "1"));
    assert_has(log, "APIs      OpenAI (/v1/embeddings), ");
    assert_has(log, "pages     /status\n");
    assert_has(log, "/v1/embeddings -d '");
    free(log);
}

/* A template that does not compile, in a folder whose weights are of no matter. */
static void warns_of_a_broken_template(void **state) {
    (void)state;
    char folder[] = "/tmp/linnet-service-XXXXXX", command[512];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command,
             "cp -r " TEST_SOURCE_DIR "/tests/golden/embeddings/qwen3_reranker/* '%s' && "
             "printf '{{ broken' >'%s/chat_template.jinja'",
             folder, folder);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): of the test's own */
    char *log = log_of(SERVER(folder, "-t", "1"));
    assert_has(log, "warning: chats are refused: chat template, line 1: ");
    free(log);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

/* Of a model of vectors the template is of no matter either. */
static void says_nothing_of_a_template_without_chats(void **state) {
    (void)state;
    char folder[] = "/tmp/linnet-service-XXXXXX", command[512];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command,
             "cp -r " TEST_SOURCE_DIR "/tests/golden/embeddings/bert_classes/* '%s' && "
             "printf '{{ broken' >'%s/chat_template.jinja'",
             folder, folder);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
    char *log = log_of(SERVER(folder, "-t", "1"));
    assert_has(log, "/v1/embeddings -d '");
    assert_null(strstr(log, "warning"));
    free(log);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

static void warns_where_everybody_may_call(void **state) {
    (void)state;
    char *log = log_of(SERVER(DEMO, "-t", "1", "--host", "0.0.0.0"));
    assert_has(log, "warning: whoever reaches 0.0.0.0 can use the server: --api-key");
    assert_has(log, "curl http://localhost:");
    free(log);
    log = log_of(SERVER(DEMO, "-t", "1", "--host", "0.0.0.0", "--api-key", "key"));
    assert_null(strstr(log, "warning"));
    assert_has(log, "-H \"Authorization: Bearer $KEY\"");
    free(log);
}

/* Logs for programs have nothing else. */
static void is_silent_for_programs(void **state) {
    (void)state;
    char *log = log_of(SERVER(DEMO, "-t", "1", "--log-json"));
    assert_int_equal(log[0], '{');
    free(log);
    log = log_of(SERVER(DEMO, "-t", "1", "--no-log"));
    assert_string_equal(log, "");
    free(log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_is_served),
        cmocka_unit_test(offers_what_a_model_of_vectors_has),
        cmocka_unit_test(warns_of_a_broken_template),
        cmocka_unit_test(says_nothing_of_a_template_without_chats),
        cmocka_unit_test(warns_where_everybody_may_call),
        cmocka_unit_test(is_silent_for_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
