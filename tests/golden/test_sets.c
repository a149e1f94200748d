/* Every folder of golden/models with the kernels of each instruction set that this processor has,
 * `exact` and `fast`. docs/precision.md sums its output up. */
#include "reference.h"

#include "backend/cpu/sets.h"
#include "test.h"

static const double max_error[] = {
    [LINNET_PRECISION_FAST] = 2e-2,
    [LINNET_PRECISION_EXACT] = 1e-5,
};

static bool has_set(size_t index) {
    ln_cpu_features processor = ln_cpu_detect();
    return ln_cpu_set(index)->is_usable(&processor);
}

static double error_with(reference *golden, size_t set, linnet_precision precision) {
    linnet_engine_options options;
    linnet_engine_options_init(&options);
    options.backend = "cpu";
    options.cpu = ln_cpu_set(set)->isa;
    options.precision = precision;
    options.n_threads = 2;
    reference_use(golden, &options);
    return reference_logits_error(golden);
}

/* All errors of a golden are printed before any of them fails. */
static void test_model(void **state) {
    static const linnet_precision precisions[] = {LINNET_PRECISION_EXACT, LINNET_PRECISION_FAST};
    size_t n_wrong = 0;
    reference golden;
    reference_open(&golden, *state);
    printf("| %s |", (const char *)*state);
    for (size_t i = 0; i < 2; i++)
        for (size_t set = 0; ln_cpu_set(set) != NULL; set++)
            if (has_set(set)) {
                double error = error_with(&golden, set, precisions[i]);
                bool is_right = error <= max_error[precisions[i]];
                printf(is_right ? " %.2e |" : " **%.2e** |", error);
                n_wrong += !is_right;
            }
    printf("\n");
    assert_int_equal(n_wrong, 0);
    reference_close(&golden);
}

int main(void) {
    size_t n_columns = 1;
    printf("| golden |");
    for (int exact = 1; exact >= 0; exact--)
        for (size_t set = 0; ln_cpu_set(set) != NULL; set++)
            if (has_set(set)) {
                printf(" %s: %s |", exact ? "exact" : "fast", ln_cpu_set(set)->isa);
                n_columns++;
            }
    printf("\n|");
    while (n_columns-- > 0)
        printf("---|");
    printf("\n");
    return reference_run_all(test_model);
}
