/* Any bytes as the files of a model (files.h): they are refused with one sentence, or its memory is
 * planned, which walks over all of its layers and tensors. */
#include <linnet.h>
#include <stddef.h>
#include <stdint.h>

#include "files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(linnet_status status, const linnet_error *err) {
    if (status != LINNET_OK && err->message[0] == '\0')
        __builtin_trap(); /* a failure has a sentence */
}

static void use(const linnet_model *model) {
    linnet_engine_options options;
    linnet_memory_plan plan = {.struct_bytes = sizeof plan};
    linnet_model_info info = {.struct_bytes = sizeof info};
    linnet_error err = {0};
    int32_t *ids;
    size_t n_ids;
    linnet_model_get_info(model, &info);
    for (size_t i = 0; i < info.n_stop_ids; i++)
        if (info.stop_ids[i] < 0 || info.stop_ids[i] >= info.n_vocab)
            __builtin_trap();
    linnet_engine_options_init(&options);
    options.backend = "cpu";
    options.n_threads = 1;
    options.ctx_tokens = 64;
    check(linnet_plan_memory(model, &options, &plan, &err), &err);
    if (linnet_model_encode(model, "Hello  w\xc3\xb6rld", 13, true, true, &ids, &n_ids, &err) ==
        LINNET_OK)
        linnet_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    linnet_model *model;
    linnet_error err = {0};
    if (!write_files(data, bytes))
        return 0;
    bool is_gguf = access(path_of("model.gguf"), F_OK) == 0;
    linnet_status status =
        linnet_model_open(is_gguf ? path_of("model.gguf") : folder_path, &model, &err);
    check(status, &err);
    if (status == LINNET_OK) {
        use(model);
        linnet_model_close(model);
    }
    return 0;
}
