#include "format/packed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/json.h"
#include "format/packed_values.h"

enum { BLOCK = 32, NAME_BYTES = 200 };

typedef struct finder {
    const ln_checkpoint *checkpoint;
    const char *module;
    ln_error *err;
    size_t n_kv_heads; /* that shards of the rows divide, whose tiles begin anew; 0: rows are one */
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
    static const char *const places[] = {"quantization_config",
                                         "quantization_config.config_groups.group_0.weights"};
    char name[NAME_BYTES];
    ln_meta_value value;
    for (size_t i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s.%s", places[i], key);
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

/* Whether auto-round says that it packed in a way with `part` in its name. */
static bool is_packed_as(const finder *f, const char *part) {
    static const char *const keys[] = {"quantization_config.packing_format",
                                       "quantization_config.backend"};
    ln_meta_value value;
    char text[NAME_BYTES];
    for (size_t i = 0; i < 2; i++)
        if (find_key(f, keys[i], &value) && value.kind == LN_META_STRING) {
            snprintf(text, sizeof text, "%.*s", (int)value.string.bytes, value.string.data);
            return strstr(text, part) != NULL;
        }
    return false;
}

static bool is_auto_round(const finder *f) {
    return config_is(f, "quantization_config.quant_method", "auto-round") ||
           config_is(f, "quantization_config.quant_method", "intel/auto-round");
}

/* Whether activations are to have 8 bits where the values have: compressed-tensors says how many,
 * other methods of FP8 when their scales are found. */
static bool wants_8_bit_activations(const finder *f) {
    ln_meta_value value;
    if (find_key(f, "quantization_config.config_groups.group_0.input_activations.num_bits", &value))
        return value.kind == LN_META_INT && value.integer == 8;
    const char *scheme = "quantization_config.activation_scheme";
    return config_is(f, "quantization_config.quant_method", "fbgemm_fp8") ||
           config_is(f, "quantization_config.quant_algo", "FP8") ||
           config_is(f, scheme, "dynamic") || config_is(f, scheme, "static");
}

static bool has_shape(const ln_tensor *tensor, ln_dtype dtype, size_t a, size_t b) {
    return tensor->dtype == dtype && tensor->n_dims == 2 && tensor->dims[0] == a &&
           tensor->dims[1] == b;
}

static bool is_exponent(ln_dtype dtype) {
    return dtype == LN_DTYPE_U8 || dtype == LN_DTYPE_F8_E8M0;
}

static bool is_scale_type(ln_dtype dtype) {
    return dtype == LN_DTYPE_F32 || dtype == LN_DTYPE_F16 || dtype == LN_DTYPE_BF16 ||
           is_exponent(dtype);
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

/* In how many shards the rows are, where each has tiles of its own: the scales tell. */
static size_t count_shards(const ln_packed *p, size_t n_kv_heads) {
    for (size_t n = 8; n >= 4; n /= 2)
        if (n_kv_heads % n == 0 && p->n_rows % n == 0 &&
            p->scale_rows == n * ((p->n_rows / n - 1) / p->group_rows + 1))
            return n;
    return 0;
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
    if (scales->n_dims == 2 && is_exponent(scales->dtype) && p->scale_rows == p->n_rows &&
        p->scale_cols * BLOCK == p->n_cols) { /* MXFP8 */
        p->group_rows = 1;
        p->group_cols = BLOCK;
        return LINNET_OK;
    }
    p->n_shards = f->n_kv_heads > 0 && scales->n_dims == 2 ? count_shards(p, f->n_kv_heads) : 0;
    if (scales->n_dims != 2 ||
        (p->n_shards == 0 && p->scale_rows != (p->n_rows - 1) / tile[0] + 1) ||
        p->scale_cols != (p->n_cols - 1) / tile[1] + 1)
        return ln_fail(f->err, LINNET_ERR_FORMAT,
                       "%s: tensor %s%s has a shape that fits neither rows nor tiles of %zu x %zu",
                       ln_checkpoint_path(f->checkpoint), f->module, suffix, tile[0], tile[1]);
    return LINNET_OK;
}

static ln_status find_8_bit(const finder *f, ln_packed *p) {
    const char *suffix = find(f, ".weight_scale_inv") != NULL ? ".weight_scale_inv"
                         : find(f, ".SCB") != NULL            ? ".SCB"
                         : find(f, ".scale") != NULL          ? ".scale" /* DeepSeek V4 */
                                                              : ".weight_scale";
    if (p->values->n_dims != 2 || p->values->dims[0] != p->n_rows ||
        p->values->dims[1] != p->n_cols)
        return wrong(f, ".weight", "has a wrong shape");
    const ln_tensor *format = find(f, ".weight_format"); /* of LLM.int8: 0 is by rows */
    if (format != NULL && format->n_elems == 1 && format->data[0] != 0)
        return wrong(f, ".weight_format", "is one that is not supported");
    if (strcmp(suffix, ".SCB") == 0)
        p->factor = 1.0f / 127.0f;
    LN_TRY(need(f, suffix, &p->scales));
    return check_scales(f, suffix, p);
}

/* Groups of `group` columns that share a scale; 0: all do. */
static ln_status find_groups(const finder *f, size_t group, ln_packed *p, size_t *n_groups) {
    p->group_rows = 1;
    p->group_cols = group > 0 ? group : p->n_cols;
    if (p->group_cols % BLOCK != 0 || p->n_cols % p->group_cols != 0)
        return ln_fail(f->err, LINNET_ERR_FORMAT,
                       "%s: %s: group_size %zu is no multiple of 32 that divides %zu columns",
                       ln_checkpoint_path(f->checkpoint), f->module, p->group_cols, p->n_cols);
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
        uint32_t group = ln_packed_word(order, i);
        is_whole = group < n_groups && counts[group]++ < p->group_cols;
        if (group != i / p->group_cols)
            p->order = order;
    }
    free(counts);
    return is_whole ? LINNET_OK : wrong(f, suffix, "does not give every group its columns");
}

/* Bits of a code of which n are `words` words. Configurations may say it for some modules and not
 * for others, so the shape does. 0: none that is known. */
static unsigned bits_of(uint64_t words, size_t n) {
    uint64_t n_bits = n > 0 ? words * 32 / n : 0;
    return n_bits >= 2 && n_bits <= 8 && n_bits * n == words * 32 ? (unsigned)n_bits : 0;
}

/* Whether codes of 8 bits less their zeros have 8 bits, too; those of fewer have. */
static bool is_centred(const ln_packed *p, size_t n_groups) {
    for (size_t row = 0; p->n_bits == 8 && p->zeros != NULL && row < p->n_rows; row++)
        for (size_t group = 0; group < n_groups; group++)
            if (ln_packed_zero(p, row, group) != 128)
                return false;
    return true;
}

static ln_status find_gptq_or_awq(const finder *f, ln_packed *p) {
    bool is_awq = config_is(f, "quantization_config.quant_method", "awq");
    bool is_v2 = config_is(f, "quantization_config.checkpoint_format", "gptq_v2");
    if (is_auto_round(f)) {
        is_awq = is_packed_as(f, "awq");
        is_v2 = !is_packed_as(f, "gptq") || is_packed_as(f, "gptqmodel");
    }
    size_t n_groups, rows = p->n_rows, cols = p->n_cols;
    p->n_bits = is_awq ? 4 : bits_of(p->values->dims[0], cols);
    p->kind = is_awq ? LN_PACKED_AWQ : LN_PACKED_GPTQ;
    p->zero_offset = is_awq || is_v2 ? 0 : 1;
    LN_TRY(find_groups(f, setting(f, "group_size", 0), p, &n_groups));
    LN_TRY(need(f, ".scales", &p->scales));
    LN_TRY(need(f, ".qzeros", &p->zeros));
    if (!has_shape(p->values, LN_DTYPE_I32, is_awq ? cols : cols * p->n_bits / 32,
                   is_awq ? rows / 8 : rows) ||
        p->n_bits == 0)
        return wrong(f, ".qweight", "has a wrong shape or type");
    if (!has_shape(p->zeros, LN_DTYPE_I32, n_groups, rows * p->n_bits / 32) ||
        rows * p->n_bits % 32 != 0)
        return wrong(f, ".qzeros", "has a wrong shape or type");
    if (!has_shape(p->scales, p->scales->dtype, n_groups, rows) || !is_scale_type(p->scales->dtype))
        return wrong(f, ".scales", "has a wrong shape or type");
    p->scale_rows = n_groups;
    p->scale_cols = rows;
    p->as_floats = !is_centred(p, n_groups);
    return find_order(f, ".g_idx", n_groups, p);
}

/* What config.json says of Quark's int4 that only one way of is read. */
static ln_status check_quark(const finder *f) {
    static const char order[] = "quantization_config.export.pack_method";
    static const char *const others[] = {"quantization_config.layer_quant_config",
                                         "quantization_config.layer_type_quant_config"};
    ln_meta_value value;
    const char *key = NULL;
    if (find_key(f, order, &value) && !config_is(f, order, "reorder"))
        key = order;
    for (size_t i = 0; i < 2; i++)
        if (find_key(f, others[i], &value) &&
            (value.kind != LN_META_OBJECT || value.array.count > 0))
            key = others[i];
    return key == NULL ? LINNET_OK
                       : ln_fail(f->err, LINNET_ERR_UNSUPPORTED,
                                 "%s: key %s: this value is not supported with int4",
                                 ln_checkpoint_path(f->checkpoint), key);
}

/* Quark's int4 and uint4 in groups: AWQ's layout under other names. */
static ln_status find_quark_int4(const finder *f, ln_packed *p) {
    static const char type[] = "quantization_config.global_quant_config.weight.dtype";
    size_t rows = p->n_rows, n_groups;
    LN_TRY(check_quark(f));
    LN_TRY(need(f, ".weight_scale", &p->scales));
    p->kind = LN_PACKED_AWQ;
    p->n_bits = 4;
    p->is_signed = config_is(f, type, "int4");
    p->zeros = find(f, ".weight_zero_point");
    n_groups = p->scales->n_dims == 2 ? (size_t)p->scales->dims[0] : 0;
    p->group_rows = 1;
    p->group_cols = n_groups > 0 ? p->n_cols / n_groups : 0;
    if ((!p->is_signed && !config_is(f, type, "uint4")) || rows % 8 != 0 ||
        !has_shape(p->values, LN_DTYPE_I32, p->n_cols, rows / 8))
        return wrong(f, ".weight", "has a wrong shape or type");
    if (!has_shape(p->scales, p->scales->dtype, n_groups, rows) ||
        !is_scale_type(p->scales->dtype) || p->group_cols * n_groups != p->n_cols ||
        p->group_cols % BLOCK != 0)
        return wrong(f, ".weight_scale", "has a wrong shape or type");
    if (!p->is_signed)
        LN_TRY(need(f, ".weight_zero_point", &p->zeros));
    if (p->zeros != NULL && !has_shape(p->zeros, LN_DTYPE_I32, n_groups, rows / 8))
        return wrong(f, ".weight_zero_point", "has a wrong shape or type");
    p->scale_rows = n_groups;
    p->scale_cols = rows;
    return LINNET_OK;
}

/* Whether codes are whole in their words, which old versions of compressed-tensors wrote. */
static bool has_unused_bits(const finder *f, const ln_packed *p) {
    size_t n_bits = setting(f, "num_bits", 4), n_words = (size_t)p->values->dims[1];
    if (n_bits < 2 || n_bits > 8 || 32 % n_bits == 0)
        return false;
    size_t per_word = 32 / n_bits;
    return n_words == (p->n_cols + per_word - 1) / per_word && n_words * 32 != p->n_cols * n_bits;
}

/* Columns that share a scale: of one group of config.json its own; where there are others, or of
 * other names than group_0, the scales say it. */
static size_t group_size(const finder *f, const ln_packed *p) {
    size_t n_scales = p->scales->n_dims == 2 ? (size_t)p->scales->dims[1] : 0;
    size_t own = n_scales > 0 ? p->n_cols / n_scales : 0;
    ln_meta_value value;
    bool has_others = find_key(f, "quantization_config.config_groups.group_1", &value);
    return has_others ? own : setting(f, "group_size", own);
}

static ln_status find_int(const finder *f, ln_packed *p) {
    size_t n_groups;
    p->kind = LN_PACKED_INT;
    p->n_bits = p->values->n_dims == 2 ? bits_of(p->values->dims[1], p->n_cols) : 0;
    LN_TRY(need(f, ".weight_scale", &p->scales));
    if (p->values->n_dims == 2 && has_unused_bits(f, p))
        return wrong(f, ".weight_packed", "is packed with unused bits, which is not supported");
    LN_TRY(find_groups(f, group_size(f, p), p, &n_groups));
    p->zeros = find(f, ".weight_zero_point");
    if (!has_shape(p->values, LN_DTYPE_I32, p->n_rows, p->n_cols * p->n_bits / 32) ||
        p->n_bits == 0)
        return wrong(f, ".weight_packed", "has a wrong shape or type");
    if (!has_shape(p->scales, p->scales->dtype, p->n_rows, n_groups) ||
        !is_scale_type(p->scales->dtype))
        return wrong(f, ".weight_scale", "has a wrong shape or type");
    if (p->zeros != NULL &&
        !has_shape(p->zeros, LN_DTYPE_I32, (p->n_rows * p->n_bits + 31) / 32, n_groups))
        return wrong(f, ".weight_zero_point", "has a wrong shape or type");
    p->scale_rows = p->n_rows;
    p->scale_cols = n_groups;
    p->as_floats = !is_centred(p, n_groups);
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

/* Factors of activations that stay in a checkpoint: of columns here. */
static ln_status find_column_scales(const finder *f, ln_packed *p) {
    p->column_scales = find(f, ".pre_quant_scale");
    return p->column_scales == NULL || (p->column_scales->n_elems == p->n_cols &&
                                        is_scale_type(p->column_scales->dtype))
               ? LINNET_OK
               : wrong(f, ".pre_quant_scale", "has a wrong shape or type");
}

/* ModelOpt's int4 (W4A16_AWQ and the like). */
static ln_status find_row_pairs(const finder *f, ln_packed *p) {
    LN_TRY(need(f, ".weight_scale", &p->scales));
    LN_TRY(find_column_scales(f, p));
    size_t n_groups = p->scales->n_dims == 2 ? (size_t)p->scales->dims[1] : 0;
    p->global_scale = find(f, ".weight_scale_2"); /* W4A8_AWQ's own rounding, of no use here */
    p->kind = p->column_scales != NULL ? LN_PACKED_SMOOTHED : LN_PACKED_ROW_PAIRS;
    p->n_bits = 4;
    p->on_load = LN_DTYPE_BF16;
    p->scale_rows = p->n_rows;
    p->scale_cols = n_groups;
    p->group_rows = 1;
    p->group_cols = n_groups > 0 ? p->n_cols / n_groups : 0;
    if (!has_shape(p->scales, p->scales->dtype, p->n_rows, n_groups) ||
        !is_scale_type(p->scales->dtype) || p->group_cols * n_groups != p->n_cols ||
        p->group_cols % BLOCK != 0)
        return wrong(f, ".weight_scale", "has a wrong shape or type");
    if (p->global_scale != NULL && p->global_scale->n_elems != 1)
        return wrong(f, ".weight_scale_2", "has a wrong shape or type");
    return LINNET_OK;
}

/* E2M1, two to a byte, with scales of 32 columns (MXFP4) or 16 (NVFP4); `suffix` of the values. */
static ln_status find_fp4(const finder *f, const char *suffix, ln_packed *p) {
    const char *scale = find(f, ".scale") != NULL ? ".scale" /* DeepSeek V4 */ : ".weight_scale";
    LN_TRY(need(f, scale, &p->scales));
    bool is_mxfp4 = is_exponent(p->scales->dtype);
    p->kind = is_mxfp4 ? LN_PACKED_MXFP4 : LN_PACKED_NVFP4;
    p->group_rows = 1;
    p->group_cols = is_mxfp4 ? BLOCK : BLOCK / 2;
    p->scale_rows = p->n_rows;
    p->scale_cols = p->n_cols / p->group_cols;
    p->on_load = LN_DTYPE_BF16;
    if (!has_shape(p->values, p->values->dtype, p->n_rows, p->n_cols / 2) ||
        p->n_cols % p->group_cols != 0)
        return wrong(f, suffix, "has a wrong shape or type");
    if (!has_shape(p->scales, is_mxfp4 ? p->scales->dtype : LN_DTYPE_F8_E4M3, p->n_rows,
                   p->scale_cols))
        return wrong(f, scale, "has a wrong shape or type");
    LN_TRY(find_column_scales(f, p));
    if (is_mxfp4)
        return p->column_scales == NULL ? LINNET_OK
                                        : wrong(f, ".pre_quant_scale", "is not supported here");
    p->global_scale = find(f, ".weight_scale_2");
    p->divides = p->global_scale == NULL;
    if (p->divides)
        LN_TRY(need(f, ".weight_global_scale", &p->global_scale));
    return p->global_scale->dtype == LN_DTYPE_F32 && p->global_scale->n_elems == 1
               ? LINNET_OK
               : wrong(f, p->divides ? ".weight_global_scale" : ".weight_scale_2",
                       "has a wrong shape or type");
}

/* ---- experts below one another ------------------------------------------------------------ */

static bool has_shape_of_experts(const ln_tensor *tensor, size_t n_experts, size_t rows,
                                 size_t cols) {
    return tensor->n_dims == 3 && tensor->dims[0] == n_experts && tensor->dims[1] == rows &&
           tensor->dims[2] == cols;
}

/* One number, or one for each expert. */
static bool is_by_expert(const ln_tensor *tensor, size_t n_experts) {
    return (tensor->n_elems == 1 || tensor->n_elems == n_experts) && is_scale_type(tensor->dtype) &&
           !is_exponent(tensor->dtype);
}

/* Scales of E4M3: of 32 columns each (MXFP8), or of tiles, which begin anew with each expert. */
static ln_status check_expert_scales(const finder *f, const char *suffix, size_t n_experts,
                                     ln_packed *p) {
    size_t rows = p->n_rows / n_experts, tile[2];
    bool is_mx = is_exponent(p->scales->dtype) && p->n_cols % BLOCK == 0 &&
                 has_shape_of_experts(p->scales, n_experts, rows, p->n_cols / BLOCK);
    tile_of(f, tile);
    p->group_rows = is_mx ? 1 : tile[0];
    p->group_cols = is_mx ? BLOCK : tile[1];
    size_t n_tiles = (rows - 1) / p->group_rows + 1;
    p->scale_rows = n_experts * n_tiles;
    p->scale_cols = (p->n_cols - 1) / p->group_cols + 1;
    p->n_shards = rows % p->group_rows != 0 ? n_experts : 0;
    return is_scale_type(p->scales->dtype) &&
                   has_shape_of_experts(p->scales, n_experts, n_tiles, p->scale_cols)
               ? LINNET_OK
               : wrong(f, suffix, "has a wrong shape or type");
}

/* Inkling 2: a scale for 16 columns, and what all of an expert's are multiplied with. */
static ln_status find_nvfp4_experts(const finder *f, size_t n_experts, ln_packed *p) {
    size_t rows = p->n_rows / n_experts;
    p->kind = LN_PACKED_NVFP4;
    p->on_load = LN_DTYPE_BF16;
    p->group_rows = 1;
    p->group_cols = BLOCK / 2;
    p->scale_rows = p->n_rows;
    p->scale_cols = p->n_cols / p->group_cols;
    LN_TRY(need(f, "_scale", &p->scales));
    if (p->n_cols % p->group_cols != 0 ||
        !has_shape_of_experts(p->values, n_experts, rows, p->n_cols / 2))
        return wrong(f, "", "has a wrong shape");
    if (p->scales->dtype != LN_DTYPE_F8_E4M3 ||
        !has_shape_of_experts(p->scales, n_experts, rows, p->scale_cols))
        return wrong(f, "_scale", "has a wrong shape or type");
    LN_TRY(need(f, "_amax", &p->global_scale));
    LN_TRY(need(f, "_outer_scale_denominator", &p->global_divisor));
    if (!is_by_expert(p->global_scale, n_experts))
        return wrong(f, "_amax", "has a wrong shape or type");
    return is_by_expert(p->global_divisor, n_experts)
               ? LINNET_OK
               : wrong(f, "_outer_scale_denominator", "has a wrong shape or type");
}

/* Values of all experts in one tensor, whose name is the module's. */
static ln_status find_experts(const finder *f, size_t n_experts, ln_packed *p) {
    const char *suffix = find(f, "_scale") != NULL ? "_scale" : "_scale_inv";
    if (p->values->dtype == LN_DTYPE_U8)
        return find_nvfp4_experts(f, n_experts, p);
    p->kind = LN_PACKED_FP8;
    p->meets_8_bits = wants_8_bit_activations(f);
    LN_TRY(need(f, suffix, &p->scales));
    if (!has_shape_of_experts(p->values, n_experts, p->n_rows / n_experts, p->n_cols))
        return wrong(f, "", "has a wrong shape");
    return check_expert_scales(f, suffix, n_experts, p);
}

/* ---- bitsandbytes, 4 bits --------------------------------------------------------------- */

static const ln_tensor *find_state(const finder *f) {
    const ln_tensor *state = find(f, ".weight.quant_state.bitsandbytes__nf4");
    return state != NULL ? state : find(f, ".weight.quant_state.bitsandbytes__fp4");
}

/* A whole number of the state from 1 on; 0: there is none. */
static size_t state_size(const json_t *state, const char *key) {
    json_int_t size = json_integer_value(ln_json_find(state, key));
    return size > 0 ? (size_t)size : 0;
}

static bool is_table(const ln_tensor *tensor, size_t n) {
    return tensor->dtype == LN_DTYPE_F32 && tensor->n_elems == n;
}

/* Scales that are quantised themselves. */
static ln_status find_nested(const finder *f, const json_t *state, ln_packed *p) {
    ln_packed_codebook *c = &p->codebook;
    LN_TRY(need(f, ".weight.nested_quant_map", &c->scale_table));
    LN_TRY(need(f, ".weight.nested_absmax", &c->scales_of_scales));
    c->scales_per_scale = state_size(state, "nested_blocksize");
    c->offset = (float)json_number_value(ln_json_find(state, "nested_offset"));
    if (!is_table(c->scale_table, 256))
        return wrong(f, ".weight.nested_quant_map", "has a wrong shape or type");
    if (c->scales_per_scale == 0 ||
        !is_table(c->scales_of_scales, (p->scales->n_elems - 1) / c->scales_per_scale + 1))
        return wrong(f, ".weight.nested_absmax", "has a wrong shape or type");
    return LINNET_OK;
}

static ln_status find_codebook(const finder *f, const json_t *state, ln_packed *p) {
    static const struct {
        const char *name;
        ln_dtype dtype;
    } types[] = {{"bfloat16", LN_DTYPE_BF16}, {"float16", LN_DTYPE_F16}, {"float32", LN_DTYPE_F32}};
    ln_packed_codebook *c = &p->codebook;
    const char *type = json_string_value(ln_json_find(state, "dtype"));
    const json_t *shape = ln_json_find(state, "shape");
    size_t n_values = p->n_rows * p->n_cols, n_dims = json_array_size(shape);
    json_int_t n_cols = n_dims > 0 ? json_integer_value(json_array_get(shape, n_dims - 1)) : 0;
    p->kind = LN_PACKED_CODEBOOK;
    p->on_load = LN_DTYPE_F32;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (type != NULL && strcmp(type, types[i].name) == 0)
            p->on_load = types[i].dtype;
    c->values_per_scale = state_size(state, "blocksize");
    LN_TRY(need(f, ".weight.absmax", &p->scales));
    LN_TRY(need(f, ".weight.quant_map", &c->table));
    if (c->values_per_scale == 0 || n_cols != (json_int_t)p->n_cols ||
        p->values->bytes != (n_values - 1) / 2 + 1)
        return wrong(f, ".weight", "has a wrong shape");
    if (!is_table(c->table, 16))
        return wrong(f, ".weight.quant_map", "has a wrong shape or type");
    if (p->scales->n_elems != (n_values - 1) / c->values_per_scale + 1 ||
        (p->scales->dtype != LN_DTYPE_F32 && p->scales->dtype != LN_DTYPE_U8))
        return wrong(f, ".weight.absmax", "has a wrong shape or type");
    return p->scales->dtype == LN_DTYPE_U8 ? find_nested(f, state, p) : LINNET_OK;
}

static ln_status find_bitsandbytes(const finder *f, const ln_tensor *state, ln_packed *p) {
    json_t *root;
    ln_error cause = {0};
    if (ln_json_parse((const char *)state->data, state->bytes, &root, NULL, &cause) != LINNET_OK)
        return ln_fail(f->err, LINNET_ERR_FORMAT, "%s: tensor %s: %s",
                       ln_checkpoint_path(f->checkpoint), state->name, cause.message);
    ln_status status = find_codebook(f, root, p);
    json_decref(root);
    return status;
}

/* Whether values are two to a byte, of bytes that count as whole numbers (DeepSeek V4). */
static bool is_halved(const finder *f, const ln_packed *p) {
    return p->values->dtype == LN_DTYPE_I8 && p->values->n_dims == 2 &&
           2 * p->values->dims[1] == p->n_cols && find(f, ".scale") != NULL;
}

/* The form whose tensors are there; kind NONE: none. */
static ln_status find_form(const finder *f, size_t n_experts, ln_packed *p) {
    const ln_tensor *state = find_state(f);
    p->values = find(f, ".weight");
    if (p->values != NULL && state != NULL)
        return find_bitsandbytes(f, state, p);
    if (p->values != NULL && is_halved(f, p))
        return find_fp4(f, ".weight", p);
    if (p->values != NULL &&
        (p->values->dtype == LN_DTYPE_F8_E4M3 || p->values->dtype == LN_DTYPE_I8)) {
        bool is_int8 = p->values->dtype == LN_DTYPE_I8;
        p->kind = is_int8 ? LN_PACKED_INT8 : LN_PACKED_FP8;
        p->meets_8_bits = wants_8_bit_activations(f);
        return find_8_bit(f, p);
    }
    if (p->values != NULL && p->values->dtype == LN_DTYPE_U8)
        return has_shape(p->values, LN_DTYPE_U8, p->n_rows / 2, p->n_cols) && p->n_rows % 2 == 0
                   ? find_row_pairs(f, p)
                   : find_fp4(f, ".weight", p);
    if (p->values != NULL && p->values->dtype == LN_DTYPE_I32 && find(f, ".weight_scale") != NULL)
        return find_quark_int4(f, p);
    if ((p->values = find(f, ".qweight")) != NULL)
        return find_gptq_or_awq(f, p);
    if ((p->values = find(f, ".weight_packed")) != NULL)
        return p->values->dtype == LN_DTYPE_U8 ? find_fp4(f, ".weight_packed", p) : find_int(f, p);
    if ((p->values = find(f, "_blocks")) != NULL)
        return find_mxfp4(f, n_experts, p);
    p->values = n_experts > 1 ? find(f, "") : NULL;
    if (p->values != NULL &&
        (p->values->dtype == LN_DTYPE_F8_E4M3 || p->values->dtype == LN_DTYPE_U8))
        return find_experts(f, n_experts, p);
    return LINNET_OK;
}

static ln_status find_packed(const finder *f, size_t n_experts, size_t n_rows, size_t n_cols,
                             ln_packed *packed) {
    ln_packed p = {.n_rows = n_rows, .n_cols = n_cols};
    *packed = (ln_packed){0};
    if (ln_checkpoint_get_format(f->checkpoint) != LN_FORMAT_HF)
        return LINNET_OK;
    LN_TRY(find_form(f, n_experts, &p));
    if (p.kind == LN_PACKED_NONE)
        return LINNET_OK;
    bool is_8_bit = p.kind == LN_PACKED_FP8 || p.kind == LN_PACKED_INT8;
    bool fits = n_cols % BLOCK == 0 && (p.group_cols % BLOCK == 0 || p.group_cols == n_cols);
    p.as_floats |= is_8_bit && !fits;
    p.meets_8_bits &= fits;
    if (n_cols % BLOCK != 0 && !is_8_bit && !ln_packed_has_values(p.kind))
        return wrong(f, "", "has a number of columns that is no multiple of 32");
    *packed = p;
    return LINNET_OK;
}

ln_status ln_packed_find(const ln_checkpoint *checkpoint, const char *name, size_t n_experts,
                         size_t n_rows, size_t n_cols, ln_packed *packed, ln_error *err) {
    finder f = {.checkpoint = checkpoint, .module = name, .err = err};
    return find_packed(&f, n_experts, n_rows, n_cols, packed);
}

ln_status ln_packed_find_shards(const ln_checkpoint *checkpoint, const char *name,
                                size_t n_kv_heads, size_t n_rows, size_t n_cols, ln_packed *packed,
                                ln_error *err) {
    finder f = {.checkpoint = checkpoint, .module = name, .err = err, .n_kv_heads = n_kv_heads};
    return find_packed(&f, 1, n_rows, n_cols, packed);
}

void ln_packed_columns(const ln_packed *packed, int32_t *out) {
    size_t n_groups = packed->n_cols / packed->group_cols;
    for (size_t group = 0; group < n_groups; group++)
        for (size_t col = 0; col < packed->n_cols; col++)
            if (ln_packed_word(packed->order, col) == group)
                *out++ = (int32_t)col;
}

ln_status ln_packed_turn(const ln_checkpoint *checkpoint, ln_packed *packed, size_t first, size_t n,
                         ln_error *err) {
    bool is_8_bit = packed->kind == LN_PACKED_FP8 || packed->kind == LN_PACKED_INT8;
    bool one_scale = packed->group_rows % BLOCK == 0 || packed->group_rows == packed->n_rows;
    if (!is_8_bit && !ln_packed_has_values(packed->kind))
        return ln_fail(err, LINNET_ERR_UNSUPPORTED,
                       "%s: tensor %s: quantised in a form that cannot be turned",
                       ln_checkpoint_path(checkpoint), packed->values->name);
    packed->as_floats |= is_8_bit && (!one_scale || first % BLOCK != 0 || n % BLOCK != 0);
    packed->first_turned = first;
    packed->n_turned = n;
    return LINNET_OK;
}
