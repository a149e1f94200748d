#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/values.h"
#include "base/half.h"
#include "ops/bits.h"

side subject, oracle;
uint64_t ops_seed = 7;
bool ops_rows_vary, ops_is_brief;
size_t ops_part, ops_n_parts = 1;
double ops_tolerance;
static uint64_t draws;

void ops_begin_test(const char *name) {
    bits_begin_test(name);
    draws = 0; /* of the name, so that a test draws the same whatever comes before it */
    for (const char *c = name; *c != '\0'; c++)
        draws = draws * 31 + (uint64_t)*c;
    draws <<= 32;
}

bool ops_takes_case(void) {
    static size_t n_cases;
    return n_cases++ % ops_n_parts == ops_part;
}

size_t ops_gpu_size(size_t n) {
    return subject.backend->vtable->on_device ? n : n / 4;
}

/* 64 random bits: the finalizer of SplitMix64 over a counter. Quicker than base/rng.h, and matrices
 * take most of the numbers that tests draw. */
static uint64_t random_bits(void) {
    uint64_t x = (ops_seed * UINT64_C(0xd1342543de82ef95) + draws++) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static float uniform(void) {
    return (float)(random_bits() >> 40) * 0x1p-24f;
}

static void fill_randomly(uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t bits = random_bits();
        memcpy(bytes + i, &bits, n - i < sizeof bits ? n - i : sizeof bits);
    }
}

float noise(void) {
    return 2.0f * uniform() - 1.0f;
}

size_t draw(size_t n) {
    return (size_t)(uniform() * (float)n) % n;
}

float *noise_rows(size_t n) {
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = noise();
    return x;
}

float *small_integers(size_t n, size_t most) {
    float *x = noise_rows(n);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)draw(2 * most + 1) - (float)most;
    return x;
}

/* ---- memory of a side --------------------------------------------------------------------- */

static void *put_zeros(side *s, size_t bytes) {
    assert_true(s->n_placed < MAX_PLACED);
    size_t i = s->n_placed++;
    s->bytes[i] = bytes + 64;
    assert_int_equal(
        s->backend->vtable->reserve(s->backend, bytes + 64, "test", &s->memory[i], NULL),
        LINNET_OK);
    return s->memory[i];
}

void *put_bytes(side *s, const void *x, size_t bytes) {
    void *memory = put_zeros(s, bytes);
    if (x != NULL && bytes > 0)
        s->backend->vtable->upload(s->backend, memory, x, bytes);
    return memory;
}

void *put_used(side *s, size_t bytes) {
    uint8_t *used = malloc(bytes);
    assert_non_null(used);
    memset(used, 0xff, bytes);
    void *memory = put_bytes(s, used, bytes);
    free(used);
    return memory;
}

float *put(side *s, const float *x, size_t n) {
    return put_bytes(s, x, n * sizeof *x);
}

int32_t *put_ids(side *s, const int32_t *ids, size_t n) {
    return put_bytes(s, ids, n * sizeof *ids);
}

float *put_rows_of(side *s, const float *x, const size_t *rows, size_t n, size_t width) {
    float *copy = malloc((n * width + 1) * sizeof *copy);
    assert_non_null(copy);
    for (size_t i = 0; i < n; i++)
        memcpy(copy + i * width, x + rows[i] * width, width * sizeof *copy);
    float *memory = put(s, copy, n * width);
    free(copy);
    return memory;
}

void free_placed(side *s) {
    free_placed_from(s, 0);
}

void free_placed_from(side *s, size_t n) {
    while (s->n_placed > n) {
        size_t i = --s->n_placed;
        s->backend->vtable->release(s->backend, s->memory[i], s->bytes[i]);
    }
}

void run_ops(side *s, ln_op *ops, size_t n_ops) {
    ln_error err = {0};
    ln_values_number(ops, n_ops);
    if (s->backend->vtable->run(s->backend, ops, n_ops, &err) != LINNET_OK)
        fail_msg("%s", err.message);
}

float *get(side *s, float *x, size_t n) {
    void *host;
    ln_error err = {0};
    if (s->backend->vtable->read_back(s->backend, x, n * sizeof *x, &host, &err) != LINNET_OK)
        fail_msg("%s", err.message);
    float *copy = malloc((n + 1) * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, host, n * sizeof *copy);
    if (!s->is_oracle)
        bits_add("all", copy, n);
    return copy;
}

void assert_near(const char *what, const float *got, const float *want, size_t n, double most) {
    double difference = 0, norm = 0;
    bits_add(what, got, n);
    for (size_t i = 0; i < n; i++) {
        difference += pow((double)got[i] - (double)want[i], 2);
        norm += pow((double)want[i], 2);
    }
    most = most > ops_tolerance ? most : ops_tolerance;
    if (!(sqrt(difference) <= most * sqrt(norm)))
        fail_msg("%s: error %g", what, sqrt(difference / norm));
}

/* ---- matrices ------------------------------------------------------------------------------- */

/* Where a block's scales lie in it, in bytes; float16 each. */
static size_t scale_offsets(ln_dtype dtype, size_t offsets[2]) {
    switch (dtype) {
    case LN_DTYPE_Q2_K: offsets[0] = 80, offsets[1] = 82; return 2;
    case LN_DTYPE_Q3_K: offsets[0] = 108; return 1;
    case LN_DTYPE_Q4_1:
    case LN_DTYPE_Q5_1:
    case LN_DTYPE_Q4_K:
    case LN_DTYPE_Q5_K: offsets[0] = 0, offsets[1] = 2; return 2;
    case LN_DTYPE_Q6_K: offsets[0] = 208; return 1;
    case LN_DTYPE_TQ1_0: offsets[0] = 52; return 1;
    case LN_DTYPE_TQ2_0: offsets[0] = 64; return 1;
    default: offsets[0] = 0; return 1;
    }
}

/* Makes a block of random bits one of moderate numbers. */
static void tame_block(ln_dtype dtype, uint8_t *block) {
    size_t bytes = ln_dtype_block_bytes(dtype), offsets[2];
    float scale = 0.01f + 0.005f * noise();
    switch (dtype) {
    case LN_DTYPE_F32:
    case LN_DTYPE_I4_G32:
    case LN_DTYPE_I8_G32:
    case LN_DTYPE_F8_G32:
        memcpy(block, &scale, sizeof scale);
        for (size_t i = 4; i < bytes && dtype == LN_DTYPE_F8_G32; i++)
            block[i] &= 0xbf; /* E4M3 without its largest numbers, and NaN */
        return;
    case LN_DTYPE_F64: memcpy(block, &(double){scale}, sizeof(double)); return;
    case LN_DTYPE_BF16: memcpy(block, &(uint16_t){ln_bf16_from_f32(scale)}, 2); return;
    case LN_DTYPE_NVFP4:
        for (size_t i = 0; i < 4; i++)
            block[i] = (uint8_t)(16 + draw(24)); /* 2^-5 to 2^-2 */
        return;
    case LN_DTYPE_MXFP4: block[0] = (uint8_t)(118 + draw(6)); return;
    case LN_DTYPE_IQ1_M: /* 0x2115 in the upper nibbles of four words */
        for (size_t i = 0; i < 4; i++) {
            static const uint8_t nibbles[4] = {0x50, 0x10, 0x10, 0x20};
            block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | nibbles[i]);
        }
        return;
    default:
        for (size_t i = scale_offsets(dtype, offsets); i-- > 0;) {
            uint16_t half = ln_f16_from_f32(scale * (i == 0 ? 1.0f : 0.7f));
            memcpy(block + offsets[i], &half, sizeof half);
        }
    }
}

matrix make_matrix(ln_dtype dtype, size_t n_rows, size_t n_cols) {
    matrix m = {.n_rows = n_rows, .n_cols = n_cols};
    size_t row_bytes, bytes = ln_dtype_block_bytes(dtype);
    assert_true(ln_dtype_row_bytes(dtype, n_cols, &row_bytes));
    size_t n = row_bytes * n_rows;
    uint8_t *data = malloc(n + 1);
    assert_non_null(data);
    fill_randomly(data, n);
    for (size_t i = 0; i < n; i += bytes)
        tame_block(dtype, data + i);
    m.tensor = (ln_tensor){.name = "w",
                           .dtype = dtype,
                           .n_dims = 2,
                           .dims = {n_rows, n_cols},
                           .data = data,
                           .bytes = n};
    return m;
}

matrix make_byte_matrix(ln_dtype dtype, size_t n_rows, size_t n_cols) {
    matrix m = make_matrix(LN_DTYPE_I8_G32, n_rows, n_cols); /* as many bytes, and more */
    float *scales = malloc(n_rows * sizeof *scales);
    assert_non_null(scales);
    for (size_t i = 0; i < n_rows; i++)
        scales[i] = 0.01f + 0.005f * noise();
    m.tensor.dtype = dtype;
    uint8_t *bytes = (uint8_t *)(uintptr_t)m.tensor.data;
    fill_randomly(bytes, n_rows * n_cols);
    for (size_t i = 0; i < n_rows * n_cols && dtype != LN_DTYPE_I8; i++)
        bytes[i] &= 0xbf; /* E4M3 without its largest numbers, and NaN */
    m.scales = (ln_tensor){.name = "s",
                           .dtype = LN_DTYPE_F32,
                           .n_dims = 1,
                           .dims = {n_rows},
                           .n_elems = n_rows,
                           .data = (const uint8_t *)scales,
                           .bytes = n_rows * sizeof *scales};
    m.has_row_scales = true;
    return m;
}

matrix make_case_matrix(ln_dtype dtype, ln_dtype byte_dtype, size_t n_rows, size_t n_cols) {
    return byte_dtype != LN_DTYPE_F32 ? make_byte_matrix(byte_dtype, n_rows, n_cols)
                                      : make_matrix(dtype, n_rows, n_cols);
}

size_t columns_of(ln_dtype dtype, size_t least) {
    size_t elems = ln_dtype_block_elems(dtype);
    return (least + elems - 1) / elems * elems;
}

void free_matrix(matrix *m) {
    free((void *)(uintptr_t)m->tensor.data);
    free((void *)(uintptr_t)m->scales.data);
}

/* What a checkpoint says of a matrix with row scales. */
static ln_packed packed_of(const matrix *m) {
    if (!m->has_row_scales)
        return (ln_packed){0};
    return (ln_packed){.kind = m->tensor.dtype == LN_DTYPE_I8 ? LN_PACKED_INT8 : LN_PACKED_FP8,
                       .values = &m->tensor,
                       .scales = &m->scales,
                       .n_rows = m->n_rows,
                       .n_cols = m->n_cols,
                       .scale_rows = m->n_rows,
                       .scale_cols = 1,
                       .meets_8_bits = true,
                       .group_rows = 1,
                       .group_cols = m->n_cols};
}

/* Plans or prepares n matrices and biases in a row, as ln_weights_load does; the sum of bytes. */
static size_t lay_out(side *s, const matrix *m, const float *const *bias, size_t n,
                      ln_weight_use use, char *memory, ln_weight *weights) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const ln_backend_vtable *vtable = s->backend->vtable;
        ln_weight_request request = {.n_sources = 1,
                                     .sources = {{.tensor = &m[i].tensor,
                                                  .n_rows = m[i].n_rows,
                                                  .run_rows = m[i].n_rows,
                                                  .packed = packed_of(&m[i])}},
                                     .n_cols = m[i].n_cols,
                                     .use = use};
        size_t bytes;
        ln_error err = {0};
        assert_int_equal(vtable->plan_weight(s->backend, &request, &bytes, NULL), LINNET_OK);
        if (memory != NULL &&
            vtable->prepare_weight(s->backend, &request, bytes > 0 ? memory + at : NULL,
                                   &weights[i], &err) != LINNET_OK)
            fail_msg("%s", err.message);
        at += (bytes + 63) / 64 * 64;
        if (bias == NULL || bias[i] == NULL)
            continue;
        if (memory != NULL) {
            vtable->upload(s->backend, memory + at, bias[i], m[i].n_rows * sizeof(float));
            weights[i].bias = (const float *)(const void *)(memory + at);
        }
        at += (m[i].n_rows * sizeof(float) + 63) / 64 * 64;
    }
    return at;
}

static void put_as(side *s, const matrix *m, const float *const *bias, size_t n, ln_weight_use use,
                   ln_weight *weights) {
    size_t bytes = lay_out(s, m, bias, n, use, NULL, NULL);
    lay_out(s, m, bias, n, use, put_zeros(s, bytes), weights);
}

void put_weights(side *s, const matrix *m, const float *const *bias, size_t n, ln_weight *weights) {
    put_as(s, m, bias, n, n > 1 ? LN_USE_GROUPED : LN_USE_LINEAR, weights);
}

ln_weight put_router(side *s, const matrix *m, const float *bias) {
    ln_weight weight;
    put_as(s, m, &bias, 1, LN_USE_ROUTER, &weight);
    return weight;
}

ln_weight put_weight(side *s, const matrix *m, const float *bias) {
    ln_weight weight;
    put_weights(s, m, &bias, 1, &weight);
    return weight;
}
