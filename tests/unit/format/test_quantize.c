/* The types that are fitted come nearer to their values than plain rounding does. Types whose
 * blocks equal a reference's: test_quants.c. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuid.h"
#include "base/rng.h"
#include "format/quantize/fit.h"
#include "format/quants.h"

enum { N = 256 * 64 };

/* Plain rounding: groups of `group` values, `levels` evenly spaced from the least to the greatest
 * (or from minus the greatest magnitude to it), with scales in float32. */
typedef struct plain {
    ln_dtype dtype;
    int group, levels;
    bool is_signed;
    float allowed; /* error against that of plain rounding: what it is, so that no fit gets worse */
} plain;

static const plain references[] = {
    {LN_DTYPE_Q2_K, 16, 4, false, 0.821f},   {LN_DTYPE_Q3_K, 16, 8, true, 0.806f},
    {LN_DTYPE_Q4_K, 32, 16, false, 0.905f},  {LN_DTYPE_Q5_K, 32, 32, false, 0.926f},
    {LN_DTYPE_Q6_K, 16, 64, true, 0.919f},   {LN_DTYPE_IQ4_NL, 32, 16, true, 0.820f},
    {LN_DTYPE_IQ4_XS, 32, 16, true, 0.827f}, {LN_DTYPE_MXFP4, 32, 16, true, 1.207f},
};
enum { N_REFERENCES = sizeof references / sizeof *references };

/* Sums of three uniform draws: bell-shaped, with magnitudes that differ from row to row. */
static float *make_values(void) {
    float *values = malloc(N * sizeof *values);
    for (uint32_t i = 0; i < N; i++) {
        float sum = 0;
        for (uint32_t draw = 0; draw < 3; draw++)
            sum += ln_rng_uniform(11, 0, i, draw) - 0.5f;
        values[i] = sum * (i % 97 == 0 ? 2.5f : 1.0f) * exp2f((float)(i / 256 % 24) - 12);
    }
    return values;
}

static double squared_error(const float *a, const float *b) {
    double error = 0;
    for (int i = 0; i < N; i++) {
        double distance = ((double)a[i] - (double)b[i]) / exp2(i / 256 % 24);
        error += distance * distance;
    }
    return error;
}

static void round_plainly(const plain *p, const float *x, float *out) {
    for (int begin = 0; begin < N; begin += p->group) {
        float low = 0, high = 0, most = 0;
        for (int i = begin; i < begin + p->group; i++) {
            low = fminf(low, x[i]);
            high = fmaxf(high, x[i]);
            most = fmaxf(most, fabsf(x[i]));
        }
        float scale =
            p->is_signed ? most / (float)(p->levels / 2) : (high - low) / (float)(p->levels - 1);
        for (int i = begin; i < begin + p->group; i++) {
            float level = p->is_signed ? roundf(x[i] / scale) : roundf((x[i] - low) / scale);
            if (p->is_signed)
                level = fmaxf(fminf(level, (float)(p->levels / 2 - 1)), (float)(-p->levels / 2));
            out[i] = scale * level + (p->is_signed ? 0 : low);
        }
    }
}

static void quantize_and_back(ln_dtype dtype, const float *x, float *out, size_t n) {
    size_t bytes = 0;
    assert_true(ln_can_quantize(dtype) && ln_dtype_row_bytes(dtype, n, &bytes));
    uint8_t *blocks = malloc(bytes);
    memset(blocks, 0xa5, bytes); /* every bit must be written */
    ln_quantize_row(dtype, x, blocks, n);
    ln_dequantize_row(dtype, blocks, out, n);
    free(blocks);
}

static void fits_beat_plain_rounding(void **state) {
    (void)state;
    float *x = make_values(), *ours = malloc(N * sizeof *ours),
          *plainly = malloc(N * sizeof *plainly);
    for (int i = 0; i < N_REFERENCES; i++) {
        const plain *p = &references[i];
        quantize_and_back(p->dtype, x, ours, N);
        round_plainly(p, x, plainly);
        double ratio = sqrt(squared_error(ours, x) / squared_error(plainly, x));
        print_message("%-8s error is %.3f of plain rounding's\n", ln_dtype_name(p->dtype), ratio);
        if (!(ratio <= (double)p->allowed))
            fail_msg("%s: more than %.3f", ln_dtype_name(p->dtype), (double)p->allowed);
    }
    free(x);
    free(ours);
    free(plainly);
}

/* What a block can hold exactly comes back almost exactly. */
static void fits_are_stable(void **state) {
    (void)state;
    float *x = make_values(), *once = malloc(N * sizeof *once), *twice = malloc(N * sizeof *twice);
    for (int i = 0; i < N_REFERENCES; i++) {
        quantize_and_back(references[i].dtype, x, once, N);
        quantize_and_back(references[i].dtype, once, twice, N);
        double moved = sqrt(squared_error(once, twice) / squared_error(once, x));
        print_message("%-8s a second time moves by %.3f of the first\n",
                      ln_dtype_name(references[i].dtype), moved);
        assert_true(moved < 0.5);
    }
    free(x);
    free(once);
    free(twice);
}

static void check_finite(const float *x, bool zero) {
    float out[256];
    for (int i = 0; i < LN_DTYPE_COUNT; i++) {
        if (!ln_can_quantize((ln_dtype)i))
            continue;
        quantize_and_back((ln_dtype)i, x, out, 256);
        for (int j = 0; j < 256 && zero; j++)
            if (out[j] != 0)
                fail_msg("%s: zeros give %g", ln_dtype_name((ln_dtype)i), (double)out[j]);
    }
}

static void odd_values_are_safe(void **state) {
    (void)state;
    static const float odd[] = {NAN,    INFINITY, -INFINITY, 1e38f, -1e38f,
                                1e-45f, -1e-45f,  3.0f,      -3.0f};
    float x[256];
    memset(x, 0, sizeof x);
    check_finite(x, true);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        for (int j = 0; j < 256; j++)
            x[j] = odd[i];
        check_finite(x, false);
        for (int j = 1; j < 256; j++)
            x[j] = (float)j;
        check_finite(x, false);
        memset(x, 0, sizeof x);
        x[17] = odd[i];
        check_finite(x, false);
    }
}

/* All of one sign, all equal: near enough in every type. */
static void one_sided_blocks_survive(void **state) {
    (void)state;
    float x[256], out[256];
    for (int kind = 0; kind < 4; kind++) {
        for (int j = 0; j < 256; j++)
            x[j] = (kind < 2 ? 1.0f : 0.5f + (float)(j % 32) / 64) * (kind % 2 == 0 ? 1.0f : -1.0f);
        for (int i = 0; i < LN_DTYPE_COUNT; i++) {
            if (!ln_can_quantize((ln_dtype)i))
                continue;
            quantize_and_back((ln_dtype)i, x, out, 256);
            for (int j = 0; j < 256; j++)
                if (fabsf(out[j] - x[j]) > 0.26f)
                    fail_msg("%s: %g became %g", ln_dtype_name((ln_dtype)i), (double)x[j],
                             (double)out[j]);
        }
    }
}

/* Blocks that are made several at once are those that are made alone. */
static void blocks_do_not_depend_on_others(void **state) {
    (void)state;
    enum { MOST = 21 }; /* blocks of 32: one vector of them and a rest */
    float *x = make_values();
    uint8_t together[MOST * 256 * sizeof(float)], alone[256 * sizeof(float)];
    for (int i = 0; i < LN_DTYPE_COUNT; i++) {
        if (!ln_can_quantize((ln_dtype)i))
            continue;
        size_t elems = ln_dtype_block_elems((ln_dtype)i), bytes = ln_dtype_block_bytes((ln_dtype)i);
        for (size_t n = 1; n <= MOST; n += 4) {
            memset(together, 0xa5, sizeof together);
            ln_quantize_row((ln_dtype)i, x, together, n * elems);
            for (size_t block = 0; block < n; block++) {
                ln_quantize_row((ln_dtype)i, x + block * elems, alone, elems);
                assert_memory_equal(together + block * bytes, alone, bytes);
            }
            assert_int_equal(together[n * bytes], 0xa5); /* nothing behind them */
        }
    }
    free(x);
}

typedef struct all_fits {
    ln_group_fit groups;
    ln_scaled_block scaled[2][2];
    ln_affine_block affine[2][2];
} all_fits;

static void fit_all(const ln_fits *fits, const float *x, all_fits *out) {
    static const int8_t table[] = {-9, -4, -1, 2, 7};
    const ln_codes even = {.low = -8, .high = 7};
    const ln_codes uneven = {.low = -9, .high = 7, .table = table, .n_table = 5};
    memset(out, 0, sizeof *out);
    fits->groups(&uneven, x, 32, &out->groups);
    fits->scaled(&(ln_scaled_shape){8, uneven, -32, 31}, x, out->scaled[0]);
    fits->scaled(&(ln_scaled_shape){16, even, -128, 127}, x, out->scaled[1]);
    fits->affine(&(ln_affine_shape){8, 15, 63}, x, out->affine[0]);
    fits->affine(&(ln_affine_shape){16, 3, 15}, x, out->affine[1]);
}

static void fits_have_the_same_bits_in_every_set(void **state) {
    (void)state;
    float *x = make_values();
    const ln_fits *wider[2] = {NULL, NULL};
#if defined(__x86_64__)
    ln_cpu_features processor = ln_cpu_detect();
    wider[0] = processor.avx2 ? &ln_fits_avx2 : NULL;
    wider[1] = processor.avx512 ? &ln_fits_avx512 : NULL;
#endif
    for (int begin = 0; begin < N; begin += 512) {
        all_fits baseline, other;
        fit_all(&ln_fits_baseline, x + begin, &baseline);
        for (int i = 0; i < 2; i++) {
            if (wider[i] == NULL)
                continue;
            fit_all(wider[i], x + begin, &other);
            assert_memory_equal(&baseline, &other, sizeof other);
        }
    }
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_beat_plain_rounding),
        cmocka_unit_test(fits_are_stable),
        cmocka_unit_test(odd_values_are_safe),
        cmocka_unit_test(one_sided_blocks_survive),
        cmocka_unit_test(blocks_do_not_depend_on_others),
        cmocka_unit_test(fits_have_the_same_bits_in_every_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
