/* Which instruction set x86-64 processors compute with, by descriptions of them, and which round
 * float32 weights to bf16. Nothing is computed, so this processor need not have them. */
#include "matrix.h"

#include "backend/cpu/cpu.h"
#include "backend/cpu/sets.h"

enum { ROWS = 32, COLS = 64, ROUNDED_BYTES = ROWS * COLS * 2 };

#define AVX2      .avx2 = true
#define AVX512    AVX2, .avx512 = true
#define VNNI      AVX512, .vnni = true
#define SLOW_BF16 VNNI, .bf16 = true
#define FAST_BF16 SLOW_BF16, .fast_bf16 = true

typedef struct expectation {
    const char *asked, *isa; /* NULL: refused */
    bool rounds;
    ln_cpu_features processor;
} expectation;

static const expectation expectations[] = {
    {"auto", "scalar", false, {0}},
    {"auto", "avx2", false, {AVX2}},
    {"auto", "avx512", false, {AVX512}},
    {"auto", "avx512-vnni", false, {VNNI}},
    {"auto", "avx512-vnni", true, {SLOW_BF16}},
    {"auto", "avx512-bf16", true, {FAST_BF16}},
    {"avx512-bf16", "avx512-bf16", true, {SLOW_BF16}},
    {"avx512-vnni", "avx512-vnni", true, {SLOW_BF16}},
    {"avx512-vnni", "avx512-vnni", false, {FAST_BF16}},
    {"avx512", "avx512", false, {SLOW_BF16}},
    {"avx512-bf16", NULL, false, {VNNI}},
    {"avx512-vnni", NULL, false, {AVX512}},
};

/* Builds for one processor have few sets. */
static bool is_built(const char *isa) {
    const ln_cpu_kernels *set;
    for (size_t i = 0; (set = ln_cpu_set(i)) != NULL; i++)
        if (strcmp(set->isa, isa) == 0)
            return true;
    return false;
}

/* Bytes of a copy of a float32 matrix; 0: it is read as it lies. */
static size_t copied_bytes(ln_backend *backend, const matrix *m, bool rounds_f32) {
    size_t bytes;
    ln_weight_request request = {
        .n_sources = 1,
        .sources = {{.tensor = &m->tensor, .n_rows = ROWS, .run_rows = ROWS}},
        .n_cols = COLS,
        .rounds_f32 = rounds_f32};
    assert_int_equal(backend->vtable->plan_weight(backend, &request, &bytes, NULL), LINNET_OK);
    return bytes;
}

static void check(const expectation *e, const matrix *m) {
    for (int exact = 0; exact < 2; exact++) {
        ln_backend *backend = NULL;
        ln_backend_options options = {.isa = e->asked, .n_threads = 1, .exact = exact != 0};
        ln_status status = ln_cpu_create_on(&e->processor, &options, &backend, NULL);
        assert_int_equal(status, e->isa != NULL ? LINNET_OK : LINNET_ERR_UNSUPPORTED);
        if (e->isa == NULL)
            continue;
        assert_string_equal(backend->arch, e->isa);
        assert_int_equal(copied_bytes(backend, m, true),
                         e->rounds && exact == 0 ? ROUNDED_BYTES : 0);
        assert_int_equal(copied_bytes(backend, m, false), 0);
        backend->vtable->destroy(backend);
    }
}

static void descriptions_choose(void **state) {
    (void)state;
    matrix m = make_matrix(LN_DTYPE_F32, ROWS, COLS);
    for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++) {
        const expectation *e = &expectations[i];
        if (is_built(e->asked) || (strcmp(e->asked, "auto") == 0 && is_built(e->isa)))
            check(e, &m);
    }
    free_matrix(&m);
}

/* The system must let it, too, so this one is asked. */
static void amx_comes_before_bf16(void **state) {
    (void)state;
    matrix m = make_matrix(LN_DTYPE_F32, ROWS, COLS);
    expectation e = {"auto", "amx", true, {FAST_BF16, .amx = true}};
    ln_cpu_features processor = ln_cpu_detect();
    if (processor.amx && is_built("amx"))
        check(&e, &m);
    free_matrix(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(descriptions_choose),
                                       cmocka_unit_test(amx_comes_before_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
