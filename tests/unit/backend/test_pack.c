/* Panels as every instruction set that this processor has packs them. */
#include "matrix.h"

#include "backend/cpu/pack_write.h"
#include "backend/cpu/sets.h"

static bool packs_here(const ln_cpu_kernels *kernels) {
    ln_cpu_features processor = ln_cpu_detect();
    return kernels->packer != NULL && kernels->is_usable(&processor);
}

/* Every number of f16 packs as the bf16 that is nearest to it. */
static void halves_are_rounded_when_packed(void **state) {
    (void)state;
    enum { COLS = 4096 };
    uint16_t *values = malloc(LN_PANEL_ROWS * COLS * sizeof *values);
    uint8_t *panel = malloc((size_t)LN_PANEL_ROWS * COLS * 2);
    const uint8_t *rows[LN_PANEL_ROWS];
    const ln_cpu_kernels *kernels;
    assert_true(values != NULL && panel != NULL);
    for (size_t row = 0; row < LN_PANEL_ROWS; row++) {
        rows[row] = (const uint8_t *)(values + row * COLS);
        for (size_t i = 0; i < COLS; i++)
            values[row * COLS + i] = (uint16_t)(row * COLS + i);
    }
    for (size_t set = 0; (kernels = ln_cpu_set(set)) != NULL; set++) {
        if (!packs_here(kernels))
            continue;
        kernels->packer(LN_DTYPE_F16, rows, COLS, panel);
        for (size_t row = 0; row < LN_PANEL_ROWS; row++)
            for (size_t i = 0; i < COLS; i++) {
                uint16_t got;
                memcpy(&got, panel + i / 2 * 64 + row * 4 + i % 2 * 2, sizeof got);
                assert_int_equal(got, ln_bf16_from_f32(ln_f32_from_f16(values[row * COLS + i])));
            }
    }
    free(values), free(panel);
}

/* And float32, numbers that are none included. */
static void floats_are_rounded_when_packed(void **state) {
    (void)state;
    enum { COLS = 1024 };
    static uint32_t values[LN_PANEL_ROWS][COLS];
    static uint8_t panel[LN_PANEL_ROWS * COLS * 2];
    const uint8_t *rows[LN_PANEL_ROWS];
    const ln_cpu_kernels *kernels;
    for (size_t row = 0; row < LN_PANEL_ROWS; row++) {
        rows[row] = (const uint8_t *)values[row];
        for (size_t i = 0; i < COLS; i++) /* all exponents, and halves of the last place */
            values[row][i] = (uint32_t)((row * COLS + i) << 18 | (i % 3) << 15 | (i % 5 == 0));
    }
    for (size_t set = 0; (kernels = ln_cpu_set(set)) != NULL; set++) {
        if (!packs_here(kernels))
            continue;
        kernels->packer(LN_DTYPE_F32, rows, COLS, panel);
        for (size_t row = 0; row < LN_PANEL_ROWS; row++)
            for (size_t i = 0; i < COLS; i++) {
                uint16_t got;
                float value;
                memcpy(&got, panel + i / 2 * 64 + row * 4 + i % 2 * 2, sizeof got);
                memcpy(&value, &values[row][i], sizeof value);
                assert_int_equal(got, ln_bf16_from_f32(value));
            }
    }
}

static void check_packer(const ln_cpu_kernels *kernels, ln_dtype dtype, size_t n_cols,
                         size_t n_rows) {
    const uint8_t *rows[LN_PANEL_ROWS] = {NULL};
    size_t row_bytes, bytes;
    assert_true(ln_dtype_row_bytes(dtype, n_cols, &row_bytes));
    assert_true(ln_pack_panel_bytes(ln_pack_of(dtype), n_cols, &bytes));
    uint8_t *data = malloc(row_bytes * n_rows); /* no byte more is to be read */
    uint8_t *got = calloc(1, bytes), *want = calloc(1, bytes);
    assert_true(data != NULL && got != NULL && want != NULL);
    for (size_t i = 0; i < row_bytes * n_rows; i++)
        data[i] = (uint8_t)(ln_rng_uniform(45, 0, draws++, 0) * 255.9f);
    for (size_t row = 0; row < n_rows; row++)
        rows[row] = data + row * row_bytes;
    kernels->packer(dtype, rows, n_cols, got);
    ln_pack_panel(dtype, rows, n_cols, want);
    if (memcmp(got, want, bytes) != 0)
        fail_msg("%s packs other bytes: %s, %zu x %zu", kernels->isa, ln_dtype_name(dtype), n_rows,
                 n_cols);
    free(data), free(got), free(want);
}

/* Whatever packs: the same bytes of any numbers. */
static void panels_are_those_of_the_plain_packer(void **state) {
    (void)state;
    static const size_t cols[] = {768, 32, 416, 7, 2};
    const ln_cpu_kernels *kernels;
    for (size_t set = 0; (kernels = ln_cpu_set(set)) != NULL; set++)
        for (ln_dtype dtype = 0; dtype < LN_DTYPE_COUNT; dtype++)
            for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
                if (!packs_here(kernels) || ln_pack_of(dtype) == LN_PACK_NONE ||
                    cols[i] % ln_dtype_block_elems(dtype) != 0)
                    continue;
                check_packer(kernels, dtype, cols[i], LN_PANEL_ROWS);
                check_packer(kernels, dtype, cols[i], 11);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_are_rounded_when_packed),
        cmocka_unit_test(floats_are_rounded_when_packed),
        cmocka_unit_test(panels_are_those_of_the_plain_packer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
