/* Types of weights that a backend has no kernels for are refused when a model is planned or loaded,
 * rather than read as if they were something else. */
#include <stdio.h>
#include <string.h>

#include "backend/cuda/weights/types.h"
#include "backend/registry.h"
#include "format/quants.h"
#include "model/load.h"
#include "model/spec_read.h"
#include "test.h"

static ln_dtype missing;

static bool lacks_one(const ln_backend *backend, ln_dtype dtype) {
    (void)backend;
    return dtype != missing;
}

/* What planning a golden's weights on a backend says. */
static ln_status plan_with(ln_backend *backend, const char *golden,
                           const ln_weights_options *options, ln_error *err) {
    ln_checkpoint *checkpoint;
    ln_spec spec;
    ln_arena arena;
    ln_weights_plan plan;
    char path[256];
    snprintf(path, sizeof path, "%s/tests/golden/models/%s", TEST_SOURCE_DIR, golden);
    ln_arena_init(&arena);
    assert_int_equal(ln_checkpoint_open(path, false, &checkpoint, err), LINNET_OK);
    assert_int_equal(ln_spec_read(checkpoint, &arena, &spec, err), LINNET_OK);
    ln_status status = ln_weights_plan_bytes(checkpoint, &spec, options, backend, &plan, err);
    ln_arena_free(&arena);
    ln_checkpoint_close(checkpoint);
    return status;
}

static ln_status plan_on(ln_backend *backend, const char *golden, ln_error *err) {
    return plan_with(backend, golden, &(ln_weights_options){0}, err);
}

static void a_type_without_kernels_is_refused(void **state) {
    (void)state;
    ln_backend *backend;
    ln_error err = {0};
    ln_backend_options options = {.isa = "scalar", .n_threads = 1};
    assert_int_equal(ln_backend_create("cpu", &options, &backend, NULL), LINNET_OK);
    const ln_backend_vtable *real = backend->vtable;
    ln_backend_vtable vtable = *real;
    vtable.name = "toy";
    vtable.supports_weight = lacks_one;
    backend->vtable = &vtable;
    missing = LN_DTYPE_Q2_0;
    assert_int_equal(plan_on(backend, "llama", &err), LINNET_OK);
    missing = LN_DTYPE_BF16;
    assert_int_equal(plan_on(backend, "llama", &err), LINNET_ERR_UNSUPPORTED);
    if (strstr(err.message, "tensor model.embed_tokens.weight: the toy backend has no kernels for "
                            "weights of type BF16") == NULL)
        fail_msg("%s", err.message);
    backend->vtable = real;
    real->destroy(backend);
}

static const ln_backend_vtable *counted;
static ln_backend_vtable counting;

/* A backend whose requests to plan weights pass through `plan`; stop_counting ends it. */
static ln_backend *count_by(ln_status (*plan)(const ln_backend *, const ln_weight_request *,
                                              size_t *, ln_error *)) {
    ln_backend *backend;
    ln_backend_options options = {.isa = "scalar", .n_threads = 1};
    assert_int_equal(ln_backend_create("cpu", &options, &backend, NULL), LINNET_OK);
    counted = backend->vtable;
    counting = *counted;
    counting.plan_weight = plan;
    backend->vtable = &counting;
    return backend;
}

static void stop_counting(ln_backend *backend) {
    backend->vtable = counted;
    counted->destroy(backend);
}

static size_t n_rounded;

static ln_status count_rounded(const ln_backend *backend, const ln_weight_request *request,
                               size_t *bytes, ln_error *err) {
    n_rounded += request->rounds_f32;
    return counted->plan_weight(backend, request, bytes, err);
}

/* Float32 matrices may become bf16, but where a model magnifies errors: experts, recurrences,
 * latents, large scores, long rotations, streams. */
static void models_that_magnify_errors_keep_float32(void **state) {
    (void)state;
    static const struct {
        const char *golden;
        bool rounds;
    } cases[] = {{"llama", true},
                 {"baichuan", true},
                 {"gpt2", true},
                 {"mixtral", false},
                 {"mamba", false},
                 {"gpt_neo", false},
                 {"deepseek_v3", false},
                 {"t5", false},
                 {"llama_yarn", false},
                 {"phi3_longrope", false},
                 {"granitemoehybrid", false}};
    ln_backend *backend = count_by(count_rounded);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        n_rounded = 0;
        assert_int_equal(plan_on(backend, cases[i].golden, NULL), LINNET_OK);
        if ((n_rounded > 0) != cases[i].rounds)
            fail_msg("%s: %zu matrices", cases[i].golden, n_rounded);
    }
    stop_counting(backend);
}

static struct {
    const char *name; /* a part of the names of tensors: how many, and how many are quantised */
    size_t n, n_quantised;
} watched;

static ln_status watch(const ln_backend *backend, const ln_weight_request *request, size_t *bytes,
                       ln_error *err) {
    const ln_weight_source *source = &request->sources[0];
    if (strstr(source->tensor->name, watched.name) != NULL) {
        watched.n++;
        watched.n_quantised += source->packed.kind != LN_PACKED_NONE;
    }
    return counted->plan_weight(backend, request, bytes, err);
}

/* Small matrices whose errors are magnified stay as they are, as `linnet quantize` leaves them. */
static void small_precise_matrices_are_not_quantised_on_load(void **state) {
    (void)state;
    static const struct {
        const char *golden, *name;
        bool is_quantised;
    } cases[] = {{"inkling_mm", "attn.wr_du.", false},
                 {"inkling", "self_attn.r_proj.", false},
                 {"inkling", "self_attn.q_proj.", true},
                 {"inkling2", "attn.wr_du.", false},
                 {"inkling2", "attn_sink_proj.", false},
                 {"inkling2", "sconv.weight_proj", false},
                 {"inkling2_loop", "controllers.", false},
                 {"inkling2", "attn.wq_du.", true},
                 {"qwen4_exp", "mix_weight_down.", false},
                 {"qwen4_exp", "index_qk_proj.", false},
                 {"gemma3n", "laurel.", false},
                 {"gemma3n", "altup", false},
                 {"gemma3n", "mlp.up_proj", true},
                 {"deepseek_v32", "indexer.wk.", true},
                 {"deepseek_v32", "mlp.gate.weight", false}};
    const ln_dtype f16 = LN_DTYPE_F16; /* for rows of any length */
    ln_backend *backend = count_by(watch);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        watched.name = cases[i].name;
        watched.n = watched.n_quantised = 0;
        assert_int_equal(
            plan_with(backend, cases[i].golden, &(ln_weights_options){.quantize = &f16}, NULL),
            LINNET_OK);
        if (watched.n == 0 || (watched.n_quantised > 0) != cases[i].is_quantised)
            fail_msg("%s: %zu of %zu matrices %s are quantised", cases[i].golden,
                     watched.n_quantised, watched.n, cases[i].name);
    }
    stop_counting(backend);
}

/* A type that only the CPU has must be known as such: add it here when it has no kernels on a GPU
 * for good. */
static void a_gpu_has_kernels_for_all_types_that_the_cpu_has(void **state) {
    (void)state;
    for (int dtype = 0; dtype < LN_DTYPE_COUNT; dtype++)
        if (ln_cuda_can_dequantize((ln_dtype)dtype) != ln_can_dequantize((ln_dtype)dtype))
            fail_msg("%s", ln_dtype_name((ln_dtype)dtype));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_type_without_kernels_is_refused),
        cmocka_unit_test(models_that_magnify_errors_keep_float32),
        cmocka_unit_test(small_precise_matrices_are_not_quantised_on_load),
        cmocka_unit_test(a_gpu_has_kernels_for_all_types_that_the_cpu_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
