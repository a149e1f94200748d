/* Backends by name. Beside this program lies a linnet-cuda.so of another build (tests/cuda). */
#include "backend/registry.h"

#include <string.h>

#include "base/module.h"
#include "test.h"

static const ln_backend_options options = {.isa = "scalar", .n_threads = 1};

static void test_a_module_of_another_build_is_refused(void **state) {
    ln_backend *backend = NULL;
    ln_error err = {0};
    (void)state;
    assert_int_equal(ln_backend_create("cuda", &options, &backend, &err), LINNET_ERR_UNSUPPORTED);
    assert_null(backend);
    assert_non_null(strstr(err.message, "linnet-cuda.so is of build another, and this is build "));
    assert_non_null(strstr(err.message, ln_module_id()));
}

static void test_auto_is_the_cpu_without_a_gpu_that_can_be_used(void **state) {
    const char *names[] = {"auto", "cpu"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        ln_backend *backend = NULL;
        assert_int_equal(ln_backend_create(names[i], &options, &backend, NULL), LINNET_OK);
        assert_string_equal(backend->vtable->name, "cpu");
        backend->vtable->destroy(backend);
    }
}

static void test_an_unknown_name_is_refused(void **state) {
    ln_backend *backend = NULL;
    ln_error err = {0};
    (void)state;
    assert_int_equal(ln_backend_create("tpu", &options, &backend, &err), LINNET_ERR_ARGUMENT);
    assert_string_equal(err.message, "there is no backend \"tpu\", but: auto, cpu, cuda");
}

static void test_what_a_module_lacks_is_named(void **state) {
    char why[512] = "";
    (void)state;
    assert_null(ln_module_load("linnet-no-such.so", "x", why, sizeof why));
    assert_string_equal(why, "linnet-no-such.so is not installed");
    assert_null(ln_module_load("linnet-cuda.so", "no_such", why, sizeof why));
    assert_string_equal(why, "linnet-cuda.so has no no_such");
    assert_non_null(ln_module_load("linnet-cuda.so", "ln_cuda_module_get", why, sizeof why));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_module_of_another_build_is_refused),
        cmocka_unit_test(test_auto_is_the_cpu_without_a_gpu_that_can_be_used),
        cmocka_unit_test(test_an_unknown_name_is_refused),
        cmocka_unit_test(test_what_a_module_lacks_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
