#include "format/packed_values.h"

#include <string.h>

#include "base/half.h"
#include "format/quants.h"
#include "format/quants_block.h"

static float float_at(const ln_tensor *tensor, size_t at) {
    float value;
    memcpy(&value, tensor->data + at * sizeof value, sizeof value);
    return value;
}

float ln_packed_scale(const ln_tensor *scales, size_t at) {
    switch (scales->dtype) {
    case LN_DTYPE_F32: return float_at(scales, at);
    case LN_DTYPE_F16: return ln_f32_from_f16(ln_block_u16(scales->data + at * 2));
    case LN_DTYPE_BF16: return ln_f32_from_bf16(ln_block_u16(scales->data + at * 2));
    default: return ln_f32_from_e8m0(scales->data[at]);
    }
}

/* ---- codes ------------------------------------------------------------------------------ */

/* The code at `at` of those that follow one another from bit 0 of word `first` on, in every
 * stride-th word. */
static unsigned bits_at(const ln_tensor *words, size_t first, size_t stride, size_t at,
                        unsigned n_bits) {
    size_t bit = at * n_bits, word = first + bit / 32 * stride;
    unsigned shift = bit % 32, code = ln_packed_word(words, word) >> shift;
    if (shift + n_bits > 32)
        code |= ln_packed_word(words, word + stride) << (32 - shift);
    return code & ((1u << n_bits) - 1);
}

/* AWQ's order of eight nibbles in a word. */
static unsigned awq_nibble(const ln_packed *p, const ln_tensor *words, size_t line, size_t row) {
    static const unsigned place[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    unsigned code = ln_packed_word(words, line * (p->n_rows / 8) + row / 8) >> 4 * place[row % 8];
    return (code & 15) ^ (p->is_signed ? 8 : 0);
}

unsigned ln_packed_code(const ln_packed *packed, size_t row, size_t col) {
    const ln_packed *p = packed;
    switch (p->kind) {
    case LN_PACKED_GPTQ: return bits_at(p->values, row, p->n_rows, col, p->n_bits);
    case LN_PACKED_AWQ: return awq_nibble(p, p->values, col, row);
    case LN_PACKED_ROW_PAIRS:
    case LN_PACKED_SMOOTHED:
        return (p->values->data[row / 2 * p->n_cols + col] >> 4 * (row % 2) & 15) ^ 8;
    default: return bits_at(p->values, row * (p->n_cols * p->n_bits / 32), 1, col, p->n_bits);
    }
}

unsigned ln_packed_zero(const ln_packed *packed, size_t row, size_t group) {
    const ln_packed *p = packed;
    if (p->zeros == NULL)
        return 1u << (p->n_bits - 1);
    switch (p->kind) {
    case LN_PACKED_GPTQ:
        return bits_at(p->zeros, group * (p->n_rows * p->n_bits / 32), 1, row, p->n_bits) +
               p->zero_offset;
    case LN_PACKED_AWQ: return awq_nibble(p, p->zeros, group, row);
    default: return bits_at(p->zeros, group, p->scale_cols, row, p->n_bits);
    }
}

/* ---- values ----------------------------------------------------------------------------- */

static float column_scale(const ln_packed *p, size_t col) {
    return p->column_scales != NULL ? ln_packed_scale(p->column_scales, col) : 1.0f;
}

/* The number that is a tensor's one, or that of the matrix of a row, of as many. */
static float whole_of(const ln_packed *p, const ln_tensor *tensor, size_t row) {
    size_t n = (size_t)tensor->n_elems;
    return ln_packed_scale(tensor, n > 1 ? row / (p->n_rows / n) : 0);
}

/* Value 2 i of a row in the low bits of byte i, value 2 i + 1 above it. */
static void nvfp4_values(const ln_packed *p, size_t row, size_t col, size_t n, float *out) {
    const uint8_t *pairs = p->values->data + row * (p->n_cols / 2);
    const uint8_t *scales = p->scales->data + row * p->scale_cols;
    float whole = whole_of(p, p->global_scale, row);
    if (p->global_divisor != NULL)
        whole /= whole_of(p, p->global_divisor, row);
    for (size_t i = col; i < col + n; i++) {
        float scale = ln_f32_from_e4m3(scales[i / p->group_cols]);
        scale = p->divides ? scale / whole : scale * whole;
        *out++ = 0.5f * (float)ln_e2m1_doubled[pairs[i / 2] >> 4 * (i % 2) & 15] * scale *
                 column_scale(p, i);
    }
}

static void smoothed_values(const ln_packed *p, size_t row, size_t col, size_t n, float *out) {
    for (size_t i = col; i < col + n; i++) {
        int value = (int)ln_packed_code(p, row, i) - (int)ln_packed_zero(p, row, 0);
        float scale = ln_packed_scale(p->scales, row * p->scale_cols + i / p->group_cols);
        *out++ = (float)value * scale * column_scale(p, i);
    }
}

static float codebook_scale(const ln_packed *p, size_t at) {
    const ln_packed_codebook *c = &p->codebook;
    if (c->scale_table == NULL)
        return float_at(p->scales, at);
    return float_at(c->scale_table, p->scales->data[at]) *
               float_at(c->scales_of_scales, at / c->scales_per_scale) +
           c->offset;
}

static void codebook_values(const ln_packed *p, size_t row, size_t col, size_t n, float *out) {
    size_t first = row * p->n_cols + col, per_scale = p->codebook.values_per_scale;
    float scale = 0.0f;
    for (size_t at = first; at < first + n; at++) {
        if (at == first || at % per_scale == 0)
            scale = codebook_scale(p, at / per_scale);
        unsigned code = p->values->data[at / 2] >> (at % 2 == 0 ? 4 : 0) & 15;
        *out++ = float_at(p->codebook.table, code) * scale;
    }
}

static void stored_values(const ln_packed *p, size_t row, size_t col, size_t n, float *out) {
    size_t item;
    switch (p->kind) {
    case LN_PACKED_NVFP4: nvfp4_values(p, row, col, n, out); break;
    case LN_PACKED_SMOOTHED: smoothed_values(p, row, col, n, out); break;
    case LN_PACKED_CODEBOOK: codebook_values(p, row, col, n, out); break;
    default:
        item = ln_dtype_block_bytes(p->values->dtype);
        ln_dequantize_row(p->values->dtype, p->values->data + (row * p->n_cols + col) * item, out,
                          n);
    }
}

void ln_packed_values(const ln_packed *packed, size_t row, size_t col, size_t n, float *out) {
    if (packed->n_turned == 0) {
        stored_values(packed, row, col, n, out);
        return;
    }
    for (size_t i = 0; i < n; i++)
        stored_values(packed, packed->first_turned + col + i, row, 1, out + i);
}
