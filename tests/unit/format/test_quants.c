/* Dequantised and quantised rows equal the reference answers bit for bit. The golden's form is
 * described in tools/golden/quants.py; another file may be given as the argument. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/half.h"
#include "base/rng.h"
#include "format/quants.h"

static const char *golden_path = TEST_SOURCE_DIR "/tests/golden/quants/quants.bin";

typedef struct record {
    char name[17];
    ln_dtype dtype;
    bool is_quantised; /* values[] is the source of blocks[], not the result */
    uint32_t n_elems, n_bytes;
    const uint8_t *blocks; /* [n_bytes] */
    const uint8_t *values; /* [n_elems] float32, unaligned */
} record;

static const uint8_t *next_record(const uint8_t *at, const uint8_t *end, record *r) {
    assert_true(end - at >= 24);
    memcpy(r->name, at, 16);
    r->name[16] = '\0';
    r->is_quantised = r->name[0] == '>';
    assert_true(ln_dtype_from_name(r->name + r->is_quantised, &r->dtype));
    memcpy(&r->n_elems, at + 16, 4);
    memcpy(&r->n_bytes, at + 20, 4);
    r->blocks = at + 24;
    r->values = r->blocks + r->n_bytes;
    assert_true((size_t)(end - r->blocks) >= r->n_bytes + 4 * (size_t)r->n_elems);
    return r->values + 4 * (size_t)r->n_elems;
}

static void check_values(const record *r) {
    float *out = malloc(r->n_elems * sizeof *out);
    ln_dequantize_row(r->dtype, r->blocks, out, r->n_elems);
    for (uint32_t i = 0; i < r->n_elems; i++) {
        float expected;
        memcpy(&expected, r->values + 4 * (size_t)i, 4);
        if (ln_bits_from_f32(expected) != ln_bits_from_f32(out[i]))
            fail_msg("%s element %u: %a, expected %a", r->name, i, (double)out[i],
                     (double)expected);
    }
    free(out);
}

static void check_blocks(const record *r) {
    float *values = malloc(r->n_elems * sizeof *values);
    memcpy(values, r->values, r->n_elems * sizeof *values);
    uint8_t *out = malloc(r->n_bytes);
    ln_quantize_row(r->dtype, values, out, r->n_elems);
    for (uint32_t i = 0; i < r->n_bytes; i++)
        if (out[i] != r->blocks[i])
            fail_msg("%s byte %u: %02x, expected %02x", r->name, i, out[i], r->blocks[i]);
    free(out);
    free(values);
}

static void every_type_equals_the_reference(void **state) {
    (void)state;
    ln_file_map golden;
    ln_error err = {0};
    if (ln_file_map_open(&golden, golden_path, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    bool seen[2][LN_DTYPE_COUNT] = {0};
    const uint8_t *at = golden.data, *end = golden.data + golden.bytes;
    while (at < end) {
        record r;
        at = next_record(at, end, &r);
        size_t row_bytes;
        assert_true(ln_dtype_row_bytes(r.dtype, r.n_elems, &row_bytes));
        assert_int_equal(row_bytes, r.n_bytes);
        seen[r.is_quantised][r.dtype] = true;
        if (r.is_quantised)
            check_blocks(&r);
        else
            check_values(&r);
    }
    ln_file_map_close(&golden);
    seen[0][LN_DTYPE_F64] = true;             /* below */
    for (int i = 0; i < LN_DTYPE_I4_G32; i++) /* internal types: test_packed.c */
        assert_int_equal(seen[0][i], ln_can_dequantize((ln_dtype)i));
    /* the others: test_quantize.c */
    static const ln_dtype equal[] = {LN_DTYPE_F16,  LN_DTYPE_BF16, LN_DTYPE_Q8_0, LN_DTYPE_Q4_0,
                                     LN_DTYPE_Q4_1, LN_DTYPE_Q5_0, LN_DTYPE_Q5_1};
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++)
        assert_true(seen[1][equal[i]]);
}

static void plain_types_convert(void **state) {
    (void)state;
    double doubles[3] = {1.0, -0.1, 1e300};
    float out[3];
    ln_dequantize_row(LN_DTYPE_F64, doubles, out, 3);
    assert_true(out[0] == 1.0f && out[1] == -0.1f && isinf(out[2]));
    float source[3] = {1.5f, -0.0f, INFINITY}, copy[3];
    ln_quantize_row(LN_DTYPE_F32, source, copy, 3);
    assert_memory_equal(source, copy, sizeof source);
}

/* Any bytes are safe to convert: a scale may be infinite or no number. */
static void random_bytes_convert(void **state) {
    (void)state;
    uint8_t blocks[4 * 292];
    float out[4 * 256];
    for (uint64_t round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < sizeof blocks; i++)
            blocks[i] = (uint8_t)(ln_rng_uniform(7, 0, round, i) * 256.0f);
        for (int i = 0; i < LN_DTYPE_I4_G32; i++) /* internal types: test_packed.c */
            if (ln_can_dequantize((ln_dtype)i))
                ln_dequantize_row((ln_dtype)i, blocks, out, ln_dtype_block_elems((ln_dtype)i) * 4);
    }
}

/* Types that no quantiser here writes, by blocks made by hand. */
static void blocks_made_by_hand_convert(void **state) {
    (void)state;
    float out[128];
    uint8_t nvfp4[36] = {0x38, 0x40, 0x7f, 0x01}; /* scales 1, 2, none, the smallest */
    nvfp4[4] = 0x2f, nvfp4[12] = 0x71, nvfp4[20] = 0x77, nvfp4[28] = 0x02;
    ln_dequantize_row(LN_DTYPE_NVFP4, nvfp4, out, 64);
    assert_true(out[0] == -6.0f && out[8] == 1.0f && out[16] == 1.0f && out[24] == 12.0f);
    assert_true(out[32] == 0.0f && out[40] == 0.0f && out[48] == 0x1p-9f && out[1] == 0.0f);
    uint8_t q1[18] = {0x00, 0x3c, 0x05, [17] = 0x80}; /* scale 1 */
    ln_dequantize_row(LN_DTYPE_Q1_0, q1, out, 128);
    assert_true(out[0] == 1.0f && out[1] == -1.0f && out[2] == 1.0f && out[126] == -1.0f &&
                out[127] == 1.0f);
    uint8_t q2[18] = {0x00, 0x40, 0xe4, [17] = 0xc0}; /* scale 2 */
    ln_dequantize_row(LN_DTYPE_Q2_0, q2, out, 64);
    assert_true(out[0] == -2.0f && out[1] == 0.0f && out[2] == 2.0f && out[3] == 4.0f &&
                out[62] == -2.0f && out[63] == 4.0f);
}

static void odd_values_quantise(void **state) {
    (void)state;
    float source[32] = {NAN, INFINITY, -INFINITY, 1e38f, 1e-45f, -1e-45f, 0.0f, -0.0f};
    uint8_t block[34];
    for (int i = 0; i < 8; i++) {
        for (int j = 1; j < 32; j++)
            source[j] = source[i % 8];
        ln_quantize_row(LN_DTYPE_Q8_0, source, block, 32);
        ln_quantize_row(LN_DTYPE_Q4_0, source, block, 32);
    }
    memset(source, 0, sizeof source);
    ln_quantize_row(LN_DTYPE_Q8_0, source, block, 32);
    for (int i = 0; i < 34; i++)
        assert_int_equal(block[i], 0);
}

static void types_have_names_and_sizes(void **state) {
    (void)state;
    ln_dtype dtype;
    size_t bytes = 99;
    assert_true(ln_dtype_from_gguf(39, &dtype));
    assert_int_equal(dtype, LN_DTYPE_MXFP4);
    assert_false(ln_dtype_from_gguf(4, &dtype)); /* Q4_2, removed from GGUF */
    assert_false(ln_dtype_from_gguf(UINT32_MAX, &dtype));
    assert_true(ln_dtype_from_name("F8_E4M3", &dtype));
    assert_false(ln_dtype_from_name("f32", &dtype));
    assert_false(ln_dtype_row_bytes(LN_DTYPE_Q4_K, 255, &bytes));
    assert_false(ln_dtype_row_bytes(LN_DTYPE_F64, SIZE_MAX / 4, &bytes));
    assert_int_equal(bytes, 99);
    assert_true(ln_dtype_row_bytes(LN_DTYPE_Q4_K, 512, &bytes));
    assert_int_equal(bytes, 288);
}

int main(int argc, char **argv) {
    if (argc > 1)
        golden_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_equals_the_reference),
        cmocka_unit_test(plain_types_convert),
        cmocka_unit_test(random_bytes_convert),
        cmocka_unit_test(blocks_made_by_hand_convert),
        cmocka_unit_test(odd_values_quantise),
        cmocka_unit_test(types_have_names_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
