/* Adapters of random numbers, in folders as PEFT writes them. */
#ifndef LN_TESTS_UNIT_ENGINE_MADE_ADAPTER_H
#define LN_TESTS_UNIT_ENGINE_MADE_ADAPTER_H

#include "made_model.h"

typedef struct made_adapter {
    char folder[64];
    made_tensors tensors; /* while it is written */
    json_t *config;
    size_t rank;
    uint32_t seed;
} made_adapter;

static inline void made_adapter_path(const made_adapter *a, const char *name, char path[128]) {
    snprintf(path, 128, "%.63s/%.60s", a->folder, name);
}

static inline void made_adapter_begin(made_adapter *a, size_t rank, uint32_t seed) {
    *a = (made_adapter){
        .tensors = {.header = json_object(), .data = tmpfile()}, .rank = rank, .seed = seed};
    strcpy(a->folder, "/tmp/linnet-adapter-XXXXXX");
    assert_non_null(mkdtemp(a->folder));
    assert_non_null(a->tensors.data);
    a->config = json_pack("{s:s,s:i,s:i,s:s}", "peft_type", "LORA", "r", (int)rank, "lora_alpha",
                          (int)(2 * rank), "bias", "none");
}

static inline void made_adapter_put(made_adapter *a, const char *module, const char *end,
                                    size_t n_rows, size_t n_cols) {
    char name[160];
    made_tensors *t = &a->tensors;
    size_t n = n_rows * n_cols;
    snprintf(name, sizeof name, "base_model.model.%s.%s", module, end);
    for (size_t i = 0; i < n; i++) {
        float x = 0.6f * (ln_rng_uniform(a->seed, 0, t->n_bytes / 4 + i, 0) - 0.5f);
        assert_int_equal(fwrite(&x, sizeof x, 1, t->data), 1);
    }
    json_object_set_new(t->header, name,
                        json_pack("{s:s,s:[i,i],s:[I,I]}", "dtype", "F32", "shape", (int)n_rows,
                                  (int)n_cols, "data_offsets", (json_int_t)t->n_bytes,
                                  (json_int_t)(t->n_bytes + 4 * n)));
    t->n_bytes += 4 * n;
}

static inline void made_adapter_linear(made_adapter *a, const char *module, size_t n_rows,
                                       size_t n_cols) {
    made_adapter_put(a, module, "lora_A.weight", a->rank, n_cols);
    made_adapter_put(a, module, "lora_B.weight", n_rows, a->rank);
}

static inline void made_adapter_end(made_adapter *a) {
    char path[128];
    made_adapter_path(a, "adapter_config.json", path);
    assert_int_equal(json_dump_file(a->config, path, 0), 0);
    made_adapter_path(a, "adapter_model.safetensors", path);
    made_write_safetensors(path, a->tensors.header, a->tensors.data);
    json_decref(a->config), json_decref(a->tensors.header), fclose(a->tensors.data);
}

static inline void made_adapter_remove(const made_adapter *a) {
    char path[128];
    made_adapter_path(a, "adapter_config.json", path), unlink(path);
    made_adapter_path(a, "adapter_model.safetensors", path), unlink(path);
    rmdir(a->folder);
}

#endif
