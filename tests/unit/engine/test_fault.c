/* A checkpoint that shrinks while it is mapped: its requests end with an error that names the
 * file, and the process lives. */
#include "test.h"

#include <fcntl.h>
#include <linnet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static void copy_file(const char *from, const char *to) {
    ln_strbuf bytes;
    ln_strbuf_init(&bytes);
    assert_int_equal(ln_file_read(from, 64 << 20, &bytes, NULL), LINNET_OK);
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.data, 1, bytes.len, file), bytes.len);
    fclose(file);
    ln_strbuf_free(&bytes);
}

/* Runs a short prompt to its end; returns the final event's finish and copies its error. */
static linnet_finish generate(linnet_engine *engine, char error[256]) {
    static const int32_t prompt[] = {5, 9, 3};
    linnet_request_options options;
    linnet_request *request;
    linnet_event event = {0};
    linnet_request_options_init(&options);
    options.prompt_ids = prompt;
    options.n_prompt_ids = 3;
    options.max_tokens = 4;
    options.ignore_eos = true;
    assert_int_equal(linnet_request_submit(engine, &options, &request, NULL), LINNET_OK);
    while (event.finish == LINNET_FINISH_NONE)
        assert_int_equal(linnet_request_next(request, -1, &event, NULL), LINNET_OK);
    snprintf(error, 256, "%s", event.error != NULL ? event.error : "");
    linnet_request_close(request);
    return event.finish;
}

static void a_truncated_file_ends_its_requests(void **state) {
    (void)state;
    char folder[] = "/tmp/linnet-fault-XXXXXX", config[64], tensors[64], error[256];
    linnet_model *model;
    linnet_engine *engine;
    linnet_engine_options options;
    linnet_engine_options_init(&options);
    options.cpu = "scalar"; /* which uses weights where they are mapped */
    assert_non_null(mkdtemp(folder));
    snprintf(config, sizeof config, "%s/config.json", folder);
    snprintf(tensors, sizeof tensors, "%s/model.safetensors", folder);
    copy_file(TEST_SOURCE_DIR "/tests/golden/models/llama/config.json", config);
    copy_file(TEST_SOURCE_DIR "/tests/golden/models/llama/model.safetensors", tensors);
    assert_int_equal(linnet_install_fault_handler(NULL), LINNET_OK);
    assert_int_equal(linnet_install_fault_handler(NULL), LINNET_OK); /* twice is once */
    assert_int_equal(linnet_model_open(folder, &model, NULL), LINNET_OK);
    assert_int_equal(linnet_engine_create(model, &options, &engine, NULL), LINNET_OK);
    assert_int_equal(generate(engine, error), LINNET_FINISH_LENGTH);

    assert_int_equal(truncate(tensors, 8192), 0);
    assert_int_equal(generate(engine, error), LINNET_FINISH_ERROR);
    assert_non_null(strstr(error, "model.safetensors shrank while it was in use"));
    assert_int_equal(generate(engine, error), LINNET_FINISH_ERROR); /* it stays so */

    linnet_engine_destroy(engine);
    linnet_model_close(model);
    unlink(config);
    unlink(tensors);
    rmdir(folder);
}

/* Weights that still wait in the file: the same tokens, and one error once it is cut off. */
static void a_truncated_file_ends_requests_that_need_it(void **state) {
    (void)state;
    char path[] = "/tmp/linnet-fault-XXXXXX", error[256];
    linnet_model *model;
    linnet_engine *engine;
    linnet_engine_options options;
    linnet_engine_options_init(&options);
    options.backend = "cpu";
    options.lazy_weights = true;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    copy_file(TEST_SOURCE_DIR "/models/demo.gguf", path);
    assert_int_equal(linnet_model_open(path, &model, NULL), LINNET_OK);
    assert_int_equal(linnet_engine_create(model, &options, &engine, NULL), LINNET_OK);
    assert_int_equal(truncate(path, 1 << 20), 0);
    for (int i = 0; i < 2; i++) { /* it stays so */
        assert_int_equal(generate(engine, error), LINNET_FINISH_ERROR);
        assert_non_null(strstr(error, "its file cannot be read, or shrank"));
    }
    linnet_engine_destroy(engine);
    linnet_model_close(model);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_truncated_file_ends_its_requests),
        cmocka_unit_test(a_truncated_file_ends_requests_that_need_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
