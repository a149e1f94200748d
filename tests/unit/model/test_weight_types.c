/* Types of weights that a backend has no kernels for are refused when a model is planned or loaded,
 * rather than read as if they were something else. */
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
static ln_status plan_on(ln_backend *backend, ln_error *err) {
    ln_checkpoint *checkpoint;
    ln_spec spec;
    ln_arena arena;
    ln_weights_plan plan;
    ln_arena_init(&arena);
    assert_int_equal(
        ln_checkpoint_open(TEST_SOURCE_DIR "/tests/golden/models/llama", false, &checkpoint, err),
        LINNET_OK);
    assert_int_equal(ln_spec_read(checkpoint, &arena, &spec, err), LINNET_OK);
    ln_status status =
        ln_weights_plan_bytes(checkpoint, &spec, &(ln_weights_options){0}, backend, &plan, err);
    ln_arena_free(&arena);
    ln_checkpoint_close(checkpoint);
    return status;
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
    assert_int_equal(plan_on(backend, &err), LINNET_OK);
    missing = LN_DTYPE_BF16;
    assert_int_equal(plan_on(backend, &err), LINNET_ERR_UNSUPPORTED);
    if (strstr(err.message, "tensor model.embed_tokens.weight: the toy backend has no kernels for "
                            "weights of type BF16") == NULL)
        fail_msg("%s", err.message);
    backend->vtable = real;
    real->destroy(backend);
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
        cmocka_unit_test(a_gpu_has_kernels_for_all_types_that_the_cpu_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
