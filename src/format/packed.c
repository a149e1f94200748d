#include "format/packed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/half.h"
#include "format/quants.h"

enum { BLOCK = 32, NAME_BYTES = 200 };

ln_dtype ln_packed_dtype(const ln_packed *packed) {
    switch (packed->kind) {
    case LN_PACKED_ON_LOAD: return packed->on_load;
    case LN_PACKED_UNIT_ROWS: return LN_DTYPE_F32;
    case LN_PACKED_FP8: return packed->as_floats ? LN_DTYPE_F32 : LN_DTYPE_F8_G32;
    case LN_PACKED_INT8: return packed->as_floats ? LN_DTYPE_F32 : LN_DTYPE_I8_G32;
    case LN_PACKED_MXFP4: return LN_DTYPE_MXFP4;
    case LN_PACKED_GPTQ:
    case LN_PACKED_AWQ:
    case LN_PACKED_INT4:
    case LN_PACKED_NONE: break;
    }
    return LN_DTYPE_I4_G32;
}

/* ---- finding ---------------------------------------------------------------------------- */

typedef struct finder {
    const ln_checkpoint *checkpoint;
    const char *module;
    ln_error *err;
} finder;

static const ln_tensor *find(const finder *f, const char *suffix) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%s", f->module, suffix);
    return ln_checkpoint_find(f->checkpoint, name);
}

static ln_status wrong(const finder *f, const char *suffix, const char *what) {
    return ln_fail(f->err, LINNET_ERR_FORMAT, "%s: tensor %s%s %s",
                   ln_checkpoint_path(f->checkpoint), f->module, suffix, what);
}

static ln_status need(const finder *f, const char *suffix, const ln_tensor **tensor) {
    *tensor = find(f, suffix);
    return *tensor != NULL ? LINNET_OK : wrong(f, suffix, "is missing");
}

/* A key of config.json, which may stand in the part of the model that is read. */
static bool find_key(const finder *f, const char *key, ln_meta_value *value) {
    char nested[NAME_BYTES + 16];
    if (ln_checkpoint_meta(f->checkpoint, key, value))
        return true;
    snprintf(nested, sizeof nested, "text_config.%s", key);
    return ln_checkpoint_meta(f->checkpoint, nested, value);
}

/* A number of quantization_config, wherever the method keeps it. */
static size_t setting(const finder *f, const char *key, size_t fallback) {
    static const char *const places[] = {"quantization_config.%s",
                                         "quantization_config.config_groups.group_0.weights.%s"};
    char name[NAME_BYTES];
    ln_meta_value value;
    for (size_t i = 0; i < 2; i++) {
        snprintf(name, sizeof name, i == 0 ? "quantization_config.%s" : places[1], key);
        if (find_key(f, name, &value) && value.kind == LN_META_INT)
            return value.integer > 0 ? (size_t)value.integer : 0;
    }
    return fallback;
}

static bool config_is(const finder *f, const char *key, const char *text) {
    ln_meta_value value;
    return find_key(f, key, &value) && value.kind == LN_META_STRING &&
           value.string.bytes == strlen(text) &&
           memcmp(value.string.data, text, value.string.bytes) == 0;
}

/* Whether activations are to have 8 bits where the values have: compressed-tensors says how many,
 * other methods of FP8 when their scales are found. */
static bool wants_8_bit_activations(const finder *f) {
    ln_meta_value value;
    if (find_key(f, "quantization_config.config_groups.group_0.input_activations.num_bits", &value))
        return value.kind == LN_META_INT && value.integer == 8;
    const char *scheme = "quantization_config.activation_scheme";
    return config_is(f, "quantization_config.quant_method", "fbgemm_fp8") ||
           config_is(f, scheme, "dynamic") || config_is(f, scheme, "static");
}

static bool has_shape(const ln_tensor *tensor, ln_dtype dtype, size_t a, size_t b) {
    return tensor->dtype == dtype && tensor->n_dims == 2 && tensor->dims[0] == a &&
           tensor->dims[1] == b;
}

static bool is_scale_type(ln_dtype dtype) {
    return dtype == LN_DTYPE_F32 || dtype == LN_DTYPE_F16 || dtype == LN_DTYPE_BF16;
}

/* Rows and columns that share a scale of FP8: 128 x 128, unless config.json says otherwise. */
static void tile_of(const finder *f, size_t tile[2]) {
    static const char *const keys[] = {
        "quantization_config.weight_block_size",
        "quantization_config.config_groups.group_0.weights.block_structure"};
    ln_meta_value list, item;
    tile[0] = tile[1] = 128;
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 2 && find_key(f, keys[i], &list); j++)
            if (ln_meta_item(&list, j, &item) && item.kind == LN_META_INT && item.integer > 0)
                tile[j] = (size_t)item.integer;
}

/* Scales of 8-bit values: one, one per row, or one per tile. */
static ln_status check_scales(const finder *f, const char *suffix, ln_packed *p) {
    const ln_tensor *scales = p->scales;
    if (!is_scale_type(scales->dtype))
        return wrong(f, suffix, "has no type of scales");
    p->scale_rows = p->scale_cols = 1;
    p->group_rows = p->n_rows;
    p->group_cols = p->n_cols;
    if (scales->n_elems == 1)
        return LINNET_OK;
    p->scale_rows = (size_t)scales->dims[0];
    p->scale_cols = scales->n_dims == 2 ? (size_t)scales->dims[1] : 1;
    if (scales->n_dims <= 2 && p->scale_rows == p->n_rows && p->scale_cols == 1) {
        p->group_rows = 1;
        return LINNET_OK;
    }
    size_t tile[2];
    tile_of(f, tile);
    p->group_rows = tile[0];
    p->group_cols = tile[1];
    if (scales->n_dims != 2 || p->scale_rows != (p->n_rows - 1) / tile[0] + 1 ||
        p->scale_cols != (p->n_cols - 1) / tile[1] + 1)
        return ln_fail(f->err, LINNET_ERR_FORMAT,
                       "%s: tensor %s%s has a shape that fits neither rows nor tiles of %zu x %zu",
                       ln_checkpoint_path(f->checkpoint), f->module, suffix, tile[0], tile[1]);
    return LINNET_OK;
}

static ln_status find_8_bit(const finder *f, ln_packed *p) {
    bool is_inverse = find(f, ".weight_scale_inv") != NULL;
    const char *suffix = is_inverse ? ".weight_scale_inv" : ".weight_scale";
    if (p->values->n_dims != 2 || p->values->dims[0] != p->n_rows ||
        p->values->dims[1] != p->n_cols)
        return wrong(f, ".weight", "has a wrong shape");
    LN_TRY(need(f, suffix, &p->scales));
    return check_scales(f, suffix, p);
}

static uint32_t word_at(const ln_tensor *tensor, size_t at) {
    uint32_t word;
    memcpy(&word, tensor->data + at * sizeof word, sizeof word);
    return word;
}

/* Columns that share a scale, from quantization_config.group_size; 0: all. */
static ln_status find_groups(const finder *f, size_t fallback, ln_packed *p, size_t *n_groups) {
    size_t group = setting(f, "group_size", fallback);
    if (setting(f, "bits", setting(f, "w_bit", setting(f, "num_bits", 4))) != 4)
        return wrong(f, ".weight", "is quantised to a number of bits other than 4");
    p->group_rows = 1;
    p->group_cols = group > 0 ? group : p->n_cols;
    if (p->group_cols % BLOCK != 0 || p->n_cols % p->group_cols != 0)
        return wrong(f, ".weight", "has groups that are no multiple of 32 columns");
    *n_groups = p->n_cols / p->group_cols;
    return LINNET_OK;
}

/* The order of columns over groups. Flags of config.json cannot be trusted about it, so the tensor
 * itself is looked at: every group has as many columns as any other. */
static ln_status find_order(const finder *f, const char *suffix, size_t n_groups, ln_packed *p) {
    const ln_tensor *order = find(f, suffix);
    if (order == NULL)
        return LINNET_OK;
    if (order->dtype != LN_DTYPE_I32 || order->n_elems != p->n_cols)
        return wrong(f, suffix, "has a wrong shape or type");
    size_t *counts = calloc(n_groups, sizeof *counts);
    if (counts == NULL)
        return ln_fail(f->err, LINNET_ERR_NOMEM, "out of memory reading tensor %s", order->name);
    bool is_whole = true;
    for (size_t i = 0; i < p->n_cols && is_whole; i++) {
        uint32_t group = word_at(order, i);
        is_whole = group < n_groups && counts[group]++ < p->group_cols;
        if (group != i / p->group_cols)
            p->order = order;
    }
    free(counts);
    return is_whole ? LINNET_OK : wrong(f, suffix, "does not give every group its columns");
}

static ln_status find_gptq_or_awq(const finder *f, ln_packed *p) {
    bool is_awq = config_is(f, "quantization_config.quant_method", "awq");
    bool is_v2 = config_is(f, "quantization_config.checkpoint_format", "gptq_v2");
    size_t n_groups, rows = p->n_rows, cols = p->n_cols;
    p->kind = is_awq ? LN_PACKED_AWQ : LN_PACKED_GPTQ;
    p->zero_offset = is_awq || is_v2 ? 0 : 1;
    LN_TRY(find_groups(f, 0, p, &n_groups));
    LN_TRY(need(f, ".scales", &p->scales));
    LN_TRY(need(f, ".qzeros", &p->zeros));
    if (!has_shape(p->values, LN_DTYPE_I32, is_awq ? cols : cols / 8, is_awq ? rows / 8 : rows))
        return wrong(f, ".qweight", "has a wrong shape or type");
    if (!has_shape(p->zeros, LN_DTYPE_I32, n_groups, rows / 8) || rows % 8 != 0)
        return wrong(f, ".qzeros", "has a wrong shape or type");
    if (!has_shape(p->scales, p->scales->dtype, n_groups, rows) || !is_scale_type(p->scales->dtype))
        return wrong(f, ".scales", "has a wrong shape or type");
    p->scale_rows = n_groups;
    p->scale_cols = rows;
    return find_order(f, ".g_idx", n_groups, p);
}

static ln_status find_int4(const finder *f, ln_packed *p) {
    size_t n_groups;
    p->kind = LN_PACKED_INT4;
    LN_TRY(need(f, ".weight_scale", &p->scales));
    /* groups of config.json that have other names than group_0 are known by their scales */
    size_t n_scales = p->scales->n_dims == 2 ? (size_t)p->scales->dims[1] : 0;
    LN_TRY(find_groups(f, n_scales > 0 ? p->n_cols / n_scales : 0, p, &n_groups));
    p->zeros = find(f, ".weight_zero_point");
    if (!has_shape(p->values, LN_DTYPE_I32, p->n_rows, p->n_cols / 8) || p->n_cols % 8 != 0)
        return wrong(f, ".weight_packed", "has a wrong shape or type");
    if (!has_shape(p->scales, p->scales->dtype, p->n_rows, n_groups) ||
        !is_scale_type(p->scales->dtype))
        return wrong(f, ".weight_scale", "has a wrong shape or type");
    if (p->zeros != NULL && !has_shape(p->zeros, LN_DTYPE_I32, (p->n_rows + 7) / 8, n_groups))
        return wrong(f, ".weight_zero_point", "has a wrong shape or type");
    p->scale_rows = p->n_rows;
    p->scale_cols = n_groups;
    return find_order(f, ".weight_g_idx", n_groups, p);
}

static ln_status find_mxfp4(const finder *f, size_t n_experts, ln_packed *p) {
    size_t rows = p->n_rows / n_experts, blocks = p->n_cols / BLOCK;
    const uint64_t dims[4] = {n_experts, rows, blocks, BLOCK / 2};
    p->kind = LN_PACKED_MXFP4;
    LN_TRY(need(f, "_scales", &p->scales));
    if (p->values->dtype != LN_DTYPE_U8 || p->values->n_dims != 4 ||
        memcmp(p->values->dims, dims, sizeof dims) != 0)
        return wrong(f, "_blocks", "has a wrong shape or type");
    if (p->scales->dtype != LN_DTYPE_U8 || p->scales->n_dims != 3 ||
        memcmp(p->scales->dims, dims, 3 * sizeof *dims) != 0)
        return wrong(f, "_scales", "has a wrong shape or type");
    return LINNET_OK;
}

ln_status ln_packed_find(const ln_checkpoint *checkpoint, const char *name, size_t n_experts,
                         size_t n_rows, size_t n_cols, ln_packed *packed, ln_error *err) {
    finder f = {checkpoint, name, err};
    ln_packed p = {.n_rows = n_rows, .n_cols = n_cols};
    *packed = (ln_packed){0};
    ln_status status = LINNET_OK;
    if (ln_checkpoint_get_format(checkpoint) != LN_FORMAT_HF)
        return LINNET_OK;
    if ((p.values = find(&f, ".weight")) != NULL && p.values->dtype == LN_DTYPE_F8_E4M3) {
        p.kind = LN_PACKED_FP8;
        p.meets_8_bits = wants_8_bit_activations(&f);
        status = find_8_bit(&f, &p);
    } else if (p.values != NULL && p.values->dtype == LN_DTYPE_I8) {
        p.kind = LN_PACKED_INT8;
        p.meets_8_bits = wants_8_bit_activations(&f);
        status = find_8_bit(&f, &p);
    } else if ((p.values = find(&f, ".qweight")) != NULL) {
        status = find_gptq_or_awq(&f, &p);
    } else if ((p.values = find(&f, ".weight_packed")) != NULL) {
        status = find_int4(&f, &p);
    } else if ((p.values = find(&f, "_blocks")) != NULL) {
        status = find_mxfp4(&f, n_experts, &p);
    } else {
        return LINNET_OK;
    }
    bool is_8_bit = p.kind == LN_PACKED_FP8 || p.kind == LN_PACKED_INT8;
    bool fits = n_cols % BLOCK == 0 && (p.group_cols % BLOCK == 0 || p.group_cols == n_cols);
    p.as_floats = is_8_bit && !fits;
    p.meets_8_bits &= fits;
    if (status == LINNET_OK && !is_8_bit && n_cols % BLOCK != 0)
        status = wrong(&f, "", "has a number of columns that is no multiple of 32");
    if (status == LINNET_OK)
        *packed = p;
    return status;
}

void ln_packed_columns(const ln_packed *packed, int32_t *out) {
    size_t n_groups = packed->n_cols / packed->group_cols;
    for (size_t group = 0; group < n_groups; group++)
        for (size_t col = 0; col < packed->n_cols; col++)
            if (word_at(packed->order, col) == group)
                *out++ = (int32_t)col;
}

ln_status ln_packed_turn(const ln_checkpoint *checkpoint, ln_packed *packed, size_t first, size_t n,
                         ln_error *err) {
    bool is_8_bit = packed->kind == LN_PACKED_FP8 || packed->kind == LN_PACKED_INT8;
    bool one_scale = packed->group_rows % BLOCK == 0 || packed->group_rows == packed->n_rows;
    if (!is_8_bit)
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: tensor %s: quantised in a form that cannot be turned",
                       ln_checkpoint_path(checkpoint), packed->values->name);
    if (!one_scale || first % BLOCK != 0 || n % BLOCK != 0)
        packed->as_floats = true;
    packed->first_turned = first;
    packed->n_turned = n;
    return LINNET_OK;
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

ln_packed ln_packed_unit_rows(const ln_tensor *tensor, size_t n_rows, size_t n_cols) {
    ln_packed packed = ln_packed_on_load(tensor, n_rows, n_cols, LN_DTYPE_F32);
    if (packed.kind != LN_PACKED_NONE)
        packed.kind = LN_PACKED_UNIT_ROWS;
    return packed;
}

enum { LARGEST_BLOCK = 256 };

/* Where the columns of a row end. */
static size_t end_of(const ln_packed *p) {
    return p->n_part_cols > 0 ? p->first_col + p->n_part_cols : p->n_cols;
}

/* Columns [col, col + n) of a plain row as float32. */
static void read_plain(const ln_packed *p, size_t row, size_t col, size_t n, float *out) {
    size_t item = ln_dtype_block_bytes(p->values->dtype);
    ln_dequantize_row(p->values->dtype, p->values->data + (row * p->n_cols + col) * item, out, n);
}

static float largest_of(const ln_packed *p, size_t row) {
    float x[BLOCK], largest = 0.0f;
    for (size_t col = 0; col < p->n_cols; col += BLOCK) {
        read_plain(p, row, col, BLOCK, x);
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

/* The nearest number of E4M3, to even ones; what is larger than 448, and NaN, becomes 448. */
static uint8_t f8_of(float x) {
    uint32_t bits = ln_bits_from_f32(x), sign = bits >> 24 & 0x80;
    bits &= 0x7fffffff;
    if (bits < ln_bits_from_f32(0x1p-6f)) /* below the normal values 2^-9 apart */
        return (uint8_t)(sign | (uint32_t)lrintf(ln_f32_from_bits(bits) * 512.0f));
    bits = ((bits + 0x7ffff + (bits >> 20 & 1)) >> 20) - (120 << 3);
    return (uint8_t)(sign | (bits < 0x7e ? bits : 0x7e));
}

/* One scale for the whole row: its largest number becomes 127, or 448. */
static void byte_on_load(const ln_packed *p, size_t row, uint8_t *out) {
    bool is_int8 = p->on_load == LN_DTYPE_I8_G32;
    float x[BLOCK], scale = usable(largest_of(p, row) / (is_int8 ? 127.0f : 448.0f));
    float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (size_t col = p->first_col; col < end_of(p); col += BLOCK) {
        read_plain(p, row, col, BLOCK, x);
        memcpy(out, &scale, sizeof scale);
        for (size_t i = 0; i < BLOCK; i++)
            out[4 + i] = is_int8 ? (uint8_t)(int8_t)code_of(x[i] * inverse, -127, 127)
                                 : f8_of(x[i] * inverse);
        out += ln_dtype_block_bytes(LN_DTYPE_I8_G32);
    }
}

/* Scale and zero from the smallest and largest of 32 values; 0 is among the values. */
static void int4_on_load(const ln_packed *p, size_t row, uint8_t *out) {
    float x[BLOCK];
    for (size_t col = p->first_col; col < end_of(p); col += BLOCK) {
        float low = 0.0f, high = 0.0f;
        read_plain(p, row, col, BLOCK, x);
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
    float x[LARGEST_BLOCK];
    size_t n = ln_dtype_block_elems(p->on_load), bytes = ln_dtype_block_bytes(p->on_load);
    if (n == 1) { /* a plain type: as many at once as fit */
        bytes *= BLOCK;
        n = BLOCK;
    }
    for (size_t col = p->first_col; col < end_of(p); col += n, out += bytes) {
        size_t left = end_of(p) - col < n ? end_of(p) - col : n;
        read_plain(p, row, col, left, x);
        ln_quantize_row(p->on_load, x, out, left);
    }
}

/* ---- rows ------------------------------------------------------------------------------- */

static float scale_at(const ln_packed *p, size_t row, size_t col) {
    const ln_tensor *scales = p->scales;
    size_t at = row * p->scale_cols + col;
    uint16_t half;
    float value;
    if (scales->dtype == LN_DTYPE_F32) {
        memcpy(&value, scales->data + at * sizeof value, sizeof value);
        return value;
    }
    memcpy(&half, scales->data + at * sizeof half, sizeof half);
    return scales->dtype == LN_DTYPE_F16 ? ln_f32_from_f16(half) : ln_f32_from_bf16(half);
}

/* Where AWQ keeps the nibble of row r within its word. */
static unsigned awq_shift(size_t row) {
    static const unsigned place[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return 4 * place[row % 8];
}

static unsigned nibble_at(const ln_packed *p, size_t row, size_t col) {
    size_t words = p->n_rows / 8;
    switch (p->kind) {
    case LN_PACKED_GPTQ:
        return word_at(p->values, col / 8 * p->n_rows + row) >> (4 * (col % 8)) & 15;
    case LN_PACKED_AWQ: return word_at(p->values, col * words + row / 8) >> awq_shift(row) & 15;
    default: return word_at(p->values, row * (p->n_cols / 8) + col / 8) >> (4 * (col % 8)) & 15;
    }
}

static unsigned zero_at(const ln_packed *p, size_t row, size_t group) {
    size_t words = p->n_rows / 8;
    if (p->zeros == NULL)
        return 8;
    switch (p->kind) {
    case LN_PACKED_GPTQ:
        return (word_at(p->zeros, group * words + row / 8) >> (4 * (row % 8)) & 15) +
               (unsigned)p->zero_offset;
    case LN_PACKED_AWQ: return word_at(p->zeros, group * words + row / 8) >> awq_shift(row) & 15;
    default: return word_at(p->zeros, row / 8 * p->scale_cols + group) >> (4 * (row % 8)) & 15;
    }
}

/* The stored column of a row's column. */
static size_t stored(const ln_packed *p, size_t col) {
    return p->columns != NULL ? (size_t)p->columns[col] : col;
}

static void int4_row(const ln_packed *p, size_t row, uint8_t *out) {
    for (size_t col = p->first_col; col < end_of(p); col += BLOCK) {
        size_t group = col / p->group_cols;
        bool by_group = p->kind != LN_PACKED_INT4; /* scales [groups][rows] */
        float scale = by_group ? scale_at(p, group, row) : scale_at(p, row, group);
        memcpy(out, &scale, sizeof scale);
        out[4] = (uint8_t)zero_at(p, row, group);
        for (size_t i = 0; i < BLOCK / 2; i++)
            out[5 + i] = (uint8_t)(nibble_at(p, row, stored(p, col + i)) |
                                   nibble_at(p, row, stored(p, col + i + BLOCK / 2)) << 4);
        out += ln_dtype_block_bytes(LN_DTYPE_I4_G32);
    }
}

static void byte_row(const ln_packed *p, size_t row, uint8_t *out) {
    const uint8_t *values = p->values->data + row * p->n_cols;
    for (size_t col = p->first_col; col < end_of(p); col += BLOCK) {
        float scale = scale_at(p, row / p->group_rows, col / p->group_cols);
        memcpy(out, &scale, sizeof scale);
        memcpy(out + sizeof scale, values + col, BLOCK);
        out += ln_dtype_block_bytes(LN_DTYPE_I8_G32);
    }
}

/* A row of the turned matrix is a column of the stored one; 32 of its values share a scale. */
static void turned_row(const ln_packed *p, size_t row, uint8_t *out) {
    for (size_t col = 0; col < p->n_turned; col += BLOCK) {
        size_t first = p->first_turned + col;
        float scale = scale_at(p, first / p->group_rows, row / p->group_cols);
        memcpy(out, &scale, sizeof scale);
        for (size_t i = 0; i < BLOCK; i++)
            out[sizeof scale + i] = p->values->data[(first + i) * p->n_cols + row];
        out += ln_dtype_block_bytes(LN_DTYPE_I8_G32);
    }
}

static float byte_value(const ln_packed *p, size_t row, size_t col) {
    uint8_t byte = p->values->data[row * p->n_cols + col];
    float value = p->kind == LN_PACKED_FP8 ? ln_f32_from_e4m3(byte) : (float)(int8_t)byte;
    return value * scale_at(p, row / p->group_rows, col / p->group_cols);
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
    read_plain(p, row, 0, p->n_cols, x);
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
    case LN_PACKED_INT4: int4_row(packed, row, out); break;
    case LN_PACKED_MXFP4: mxfp4_row(packed, row, out); break;
    }
}
