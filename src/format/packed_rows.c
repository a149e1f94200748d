#include "format/packed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/half.h"
#include "format/packed_values.h"
#include "format/quants.h"

enum { BLOCK = 32 };

ln_dtype ln_packed_dtype(const ln_packed *packed) {
    switch (packed->kind) {
    case LN_PACKED_ON_LOAD:
    case LN_PACKED_NVFP4:
    case LN_PACKED_SMOOTHED:
    case LN_PACKED_CODEBOOK: return packed->on_load;
    case LN_PACKED_UNIT_ROWS: return LN_DTYPE_F32;
    case LN_PACKED_FP8: return packed->as_floats ? LN_DTYPE_F32 : LN_DTYPE_F8_G32;
    case LN_PACKED_INT8: return packed->as_floats ? LN_DTYPE_F32 : LN_DTYPE_I8_G32;
    case LN_PACKED_MXFP4: return LN_DTYPE_MXFP4;
    case LN_PACKED_GPTQ:
    case LN_PACKED_INT:
        if (packed->n_bits > 4)
            return packed->as_floats ? LN_DTYPE_F32 : LN_DTYPE_I8_G32;
        break;
    case LN_PACKED_AWQ:
    case LN_PACKED_ROW_PAIRS:
    case LN_PACKED_NONE: break;
    }
    return LN_DTYPE_I4_G32;
}

/* ---- on load ---------------------------------------------------------------------------- */

bool ln_packed_on_load_type(const char *name, ln_dtype *dtype) {
    char upper[16];
    size_t n = 0;
    if (strcasecmp(name, "int8") == 0)
        *dtype = LN_DTYPE_I8_G32;
    else if (strcasecmp(name, "fp8") == 0)
        *dtype = LN_DTYPE_F8_G32;
    else if (strcasecmp(name, "int4") == 0)
        *dtype = LN_DTYPE_I4_G32;
    else {
        for (; name[n] != '\0' && n < sizeof upper - 1; n++)
            upper[n] = name[n] >= 'a' && name[n] <= 'z' ? (char)(name[n] - 'a' + 'A') : name[n];
        upper[n] = '\0';
        return name[n] == '\0' && ln_dtype_from_name(upper, dtype) && ln_can_quantize(*dtype);
    }
    return true;
}

ln_packed ln_packed_on_load(const ln_tensor *tensor, size_t n_rows, size_t n_cols, ln_dtype dtype) {
    bool is_plain = tensor->dtype == LN_DTYPE_F32 || tensor->dtype == LN_DTYPE_F16 ||
                    tensor->dtype == LN_DTYPE_BF16;
    if (!is_plain || n_cols % ln_dtype_block_elems(dtype) != 0)
        return (ln_packed){0};
    return (ln_packed){.kind = LN_PACKED_ON_LOAD,
                       .values = tensor,
                       .n_rows = n_rows,
                       .n_cols = n_cols,
                       .on_load = dtype};
}

bool ln_packed_quantize(ln_packed *packed, ln_dtype dtype) {
    if (!ln_packed_has_values(packed->kind) || packed->n_turned > 0 ||
        packed->n_cols % ln_dtype_block_elems(dtype) != 0)
        return false;
    packed->on_load = dtype;
    return true;
}

ln_packed ln_packed_unit_rows(const ln_tensor *tensor, size_t n_rows, size_t n_cols) {
    ln_packed packed = ln_packed_on_load(tensor, n_rows, n_cols, LN_DTYPE_F32);
    if (packed.kind != LN_PACKED_NONE)
        packed.kind = LN_PACKED_UNIT_ROWS;
    return packed;
}

/* Values that are quantised at once: whole blocks of every type, as many as the fits take. */
enum { AT_ONCE = 512 };

/* Where the columns of a row end. */
static size_t end_of(const ln_packed *p) {
    size_t n_cols = p->n_turned > 0 ? p->n_turned : p->n_cols;
    return p->n_part_cols > 0 ? p->first_col + p->n_part_cols : n_cols;
}

static float largest_of(const ln_packed *p, size_t row) {
    float x[BLOCK], largest = 0.0f;
    for (size_t col = 0; col < p->n_cols; col += BLOCK) {
        ln_packed_values(p, row, col, BLOCK, x);
        for (size_t i = 0; i < BLOCK; i++)
            largest = fmaxf(largest, fabsf(x[i]));
    }
    return largest;
}

/* A scale whose inverse is finite; 0 (all codes are then zeros) otherwise. */
static float usable(float scale) {
    return isfinite(scale) && scale >= 0x1p-126f ? scale : 0.0f;
}

/* The nearest code in [low, high]; NaN becomes low. */
static int code_of(float x, int low, int high) {
    if (!(x > (float)low))
        return low;
    return x < (float)high ? (int)lrintf(x) : high;
}

/* One scale for the whole row: its largest number becomes 127, or 448. */
static void byte_on_load(const ln_packed *p, size_t row, uint8_t *out) {
    bool is_int8 = p->on_load == LN_DTYPE_I8_G32;
    float x[BLOCK], scale = usable(largest_of(p, row) / (is_int8 ? 127.0f : 448.0f));
    float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (size_t col = p->first_col; col < end_of(p); col += BLOCK) {
        ln_packed_values(p, row, col, BLOCK, x);
        memcpy(out, &scale, sizeof scale);
        for (size_t i = 0; i < BLOCK; i++)
            out[4 + i] = is_int8 ? (uint8_t)(int8_t)code_of(x[i] * inverse, -127, 127)
                                 : ln_e4m3_from_f32(x[i] * inverse);
        out += ln_dtype_block_bytes(LN_DTYPE_I8_G32);
    }
}

/* Scale and zero from the smallest and largest of 32 values; 0 is among the values. */
static void int4_on_load(const ln_packed *p, size_t row, uint8_t *out) {
    float x[BLOCK];
    for (size_t col = p->first_col; col < end_of(p); col += BLOCK) {
        float low = 0.0f, high = 0.0f;
        ln_packed_values(p, row, col, BLOCK, x);
        for (size_t i = 0; i < BLOCK; i++) {
            low = fminf(low, x[i]);
            high = fmaxf(high, x[i]);
        }
        float scale = usable((high - low) / 15.0f);
        float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
        int zero = code_of(-low * inverse, 0, 15);
        memcpy(out, &scale, sizeof scale);
        out[4] = (uint8_t)zero;
        memset(out + 5, 0, BLOCK / 2);
        for (size_t i = 0; i < BLOCK; i++) {
            int code = code_of(x[i] * inverse + (float)zero, 0, 15);
            out[5 + i % 16] |= (uint8_t)(code << 4 * (i / 16));
        }
        out += ln_dtype_block_bytes(LN_DTYPE_I4_G32);
    }
}

static void row_on_load(const ln_packed *p, size_t row, uint8_t *out) {
    float x[AT_ONCE];
    size_t n = AT_ONCE, n_blocks = n / ln_dtype_block_elems(p->on_load);
    size_t bytes = n_blocks * ln_dtype_block_bytes(p->on_load);
    for (size_t col = p->first_col; col < end_of(p); col += n, out += bytes) {
        size_t left = end_of(p) - col < n ? end_of(p) - col : n;
        ln_packed_values(p, row, col, left, x);
        ln_quantize_row(p->on_load, x, out, left);
    }
}

/* ---- rows ------------------------------------------------------------------------------- */

static float scale_at(const ln_packed *p, size_t row, size_t col) {
    float scale = ln_packed_scale(p->scales, row * p->scale_cols + col);
    return p->factor != 0.0f ? scale * p->factor : scale;
}

/* The stored column of a row's column. */
static size_t stored(const ln_packed *p, size_t col) {
    return p->columns != NULL ? (size_t)p->columns[col] : col;
}

static float group_scale(const ln_packed *p, size_t row, size_t group) {
    bool by_group = p->kind == LN_PACKED_GPTQ || p->kind == LN_PACKED_AWQ;
    return by_group ? scale_at(p, group, row) : scale_at(p, row, group);
}

static void int4_row(const ln_packed *p, size_t row, uint8_t *out) {
    for (size_t col = p->first_col; col < end_of(p); col += BLOCK) {
        size_t group = col / p->group_cols;
        float scale = group_scale(p, row, group);
        memcpy(out, &scale, sizeof scale);
        out[4] = (uint8_t)ln_packed_zero(p, row, group);
        for (size_t i = 0; i < BLOCK / 2; i++)
            out[5 + i] = (uint8_t)(ln_packed_code(p, row, stored(p, col + i)) |
                                   ln_packed_code(p, row, stored(p, col + i + BLOCK / 2)) << 4);
        out += ln_dtype_block_bytes(LN_DTYPE_I4_G32);
    }
}

/* Codes of 5 to 8 bits, less their zeros. */
static void int8_row(const ln_packed *p, size_t row, uint8_t *out) {
    for (size_t col = p->first_col; col < end_of(p); col += BLOCK) {
        size_t group = col / p->group_cols;
        float scale = group_scale(p, row, group);
        unsigned zero = ln_packed_zero(p, row, group);
        memcpy(out, &scale, sizeof scale);
        for (size_t i = 0; i < BLOCK; i++)
            out[4 + i] = (uint8_t)(ln_packed_code(p, row, stored(p, col + i)) - zero);
        out += ln_dtype_block_bytes(LN_DTYPE_I8_G32);
    }
}

/* The same where they need nine. */
static void int9_row(const ln_packed *p, size_t row, uint8_t *out) {
    for (size_t col = p->first_col; col < end_of(p); col++, out += sizeof(float)) {
        size_t group = col / p->group_cols;
        int code = (int)ln_packed_code(p, row, stored(p, col));
        float value =
            (float)(code - (int)ln_packed_zero(p, row, group)) * group_scale(p, row, group);
        memcpy(out, &value, sizeof value);
    }
}

static void int_row(const ln_packed *p, size_t row, uint8_t *out) {
    if (p->n_bits <= 4)
        int4_row(p, row, out);
    else if (p->as_floats)
        int9_row(p, row, out);
    else
        int8_row(p, row, out);
}

/* Which row of the scales counts for a row of 8-bit values. */
static size_t scale_row(const ln_packed *p, size_t row) {
    if (p->n_shards == 0)
        return row / p->group_rows;
    size_t n = p->n_rows / p->n_shards;
    return row / n * (p->scale_rows / p->n_shards) + row % n / p->group_rows;
}

static void byte_row(const ln_packed *p, size_t row, uint8_t *out) {
    const uint8_t *values = p->values->data + row * p->n_cols;
    for (size_t col = p->first_col; col < end_of(p); col += BLOCK) {
        float scale = scale_at(p, scale_row(p, row), col / p->group_cols);
        memcpy(out, &scale, sizeof scale);
        memcpy(out + sizeof scale, values + col, BLOCK);
        out += ln_dtype_block_bytes(LN_DTYPE_I8_G32);
    }
}

/* A row of the turned matrix is a column of the stored one; 32 of its values share a scale. */
static void turned_row(const ln_packed *p, size_t row, uint8_t *out) {
    for (size_t col = 0; col < p->n_turned; col += BLOCK) {
        size_t first = p->first_turned + col;
        float scale = scale_at(p, scale_row(p, first), row / p->group_cols);
        memcpy(out, &scale, sizeof scale);
        for (size_t i = 0; i < BLOCK; i++)
            out[sizeof scale + i] = p->values->data[(first + i) * p->n_cols + row];
        out += ln_dtype_block_bytes(LN_DTYPE_I8_G32);
    }
}

static float byte_value(const ln_packed *p, size_t row, size_t col) {
    uint8_t byte = p->values->data[row * p->n_cols + col];
    float value = p->kind == LN_PACKED_FP8 ? ln_f32_from_e4m3(byte) : (float)(int8_t)byte;
    return value * scale_at(p, scale_row(p, row), col / p->group_cols);
}

static void float_row(const ln_packed *p, size_t row, uint8_t *out) {
    bool is_turned = p->n_turned > 0;
    size_t begin = is_turned ? p->first_turned : p->first_col;
    size_t end = is_turned ? begin + p->n_turned : end_of(p);
    for (size_t at = begin; at < end; at++, out += sizeof(float)) {
        float value = is_turned ? byte_value(p, at, row) : byte_value(p, row, at);
        memcpy(out, &value, sizeof value);
    }
}

static void unit_row(const ln_packed *p, size_t row, uint8_t *out) {
    float *x = (float *)(void *)out;
    double sum = 0;
    ln_packed_values(p, row, 0, p->n_cols, x);
    for (size_t i = 0; i < p->n_cols; i++)
        sum += (double)x[i] * (double)x[i];
    double length = fmax(sqrt(sum), 1e-12);
    for (size_t i = 0; i < p->n_cols; i++)
        x[i] = (float)((double)x[i] / length);
}

/* Stored: elements 2 i and 2 i + 1 in byte i. GGUF: elements i and i + 16. */
static void mxfp4_row(const ln_packed *p, size_t row, uint8_t *out) {
    size_t n_blocks = p->n_cols / BLOCK;
    for (size_t block = p->first_col / BLOCK; block < end_of(p) / BLOCK; block++) {
        size_t at = row * n_blocks + block;
        const uint8_t *pairs = p->values->data + at * (BLOCK / 2);
        out[0] = p->scales->data[at];
        for (size_t i = 0; i < BLOCK / 2; i++) {
            unsigned low = pairs[i / 2] >> (4 * (i % 2)) & 15;
            unsigned high = pairs[(i + BLOCK / 2) / 2] >> (4 * (i % 2)) & 15;
            out[1 + i] = (uint8_t)(low | high << 4);
        }
        out += ln_dtype_block_bytes(LN_DTYPE_MXFP4);
    }
}

void ln_packed_row(const ln_packed *packed, size_t row, uint8_t *out) {
    switch (packed->kind) {
    case LN_PACKED_NONE: break;
    case LN_PACKED_ON_LOAD:
    case LN_PACKED_NVFP4:
    case LN_PACKED_SMOOTHED:
    case LN_PACKED_CODEBOOK:
        if (packed->on_load == LN_DTYPE_I8_G32 || packed->on_load == LN_DTYPE_F8_G32)
            byte_on_load(packed, row, out);
        else if (packed->on_load == LN_DTYPE_I4_G32)
            int4_on_load(packed, row, out);
        else
            row_on_load(packed, row, out);
        break;
    case LN_PACKED_FP8:
    case LN_PACKED_INT8:
        if (packed->as_floats)
            float_row(packed, row, out);
        else if (packed->n_turned > 0)
            turned_row(packed, row, out);
        else
            byte_row(packed, row, out);
        break;
    case LN_PACKED_UNIT_ROWS: unit_row(packed, row, out); break;
    case LN_PACKED_GPTQ:
    case LN_PACKED_AWQ:
    case LN_PACKED_ROW_PAIRS:
    case LN_PACKED_INT: int_row(packed, row, out); break;
    case LN_PACKED_MXFP4: mxfp4_row(packed, row, out); break;
    }
}
