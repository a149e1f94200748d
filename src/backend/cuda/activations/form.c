#include "backend/cuda/activations/form.h"

#include "backend/cuda/runtime/split_k.h"

/* The layout that stands for the form. */
static int kind_of(const ln_converted_act *x) {
    return x->is_f8      ? LN_LAYOUT_F8_ROW
           : !x->is_int8 ? LN_LAYOUT_BF16
           : x->by_row   ? LN_LAYOUT_INT8_ROW
                         : LN_LAYOUT_INT8;
}

size_t ln_act_cols(const ln_converted_act *x) {
    return ln_weight_tile_padded_cols(kind_of(x), x->n_cols);
}

ln_converted_act ln_act_none(const ln_converted_act *x) {
    return (ln_converted_act){.blas = x->blas,
                              .workspace = x->workspace,
                              .n_sms = x->n_sms,
                              .memory = x->memory,
                              .bytes = x->bytes};
}

static size_t rows_per_x(const ln_op_linear *p) {
    return p->rows_per_x > 0 ? p->rows_per_x : 1;
}

/* Rows of x of a linear. */
static size_t x_rows(const ln_op_linear *p) {
    return (p->n_rows + rows_per_x(p) - 1) / rows_per_x(p);
}

/* Whether activations lie in tiles, for WGMMA. Dispatch by M begins here: up to 8 rows, and on GPUs
 * before Hopper, they do not, and mma_small_m reads them; gemm/select.cu goes by it. */
static bool lies_in_tiles(const ln_op_linear *p, size_t n_rows, bool plain, bool has_sm90a) {
    enum { MIN_TILED_ROWS = 9 };
    int kind = (int)p->weight->layout;
    size_t with_ends = p->weight->n_cols + LN_K_SPLITS * ln_weight_tile_cols(LN_LAYOUT_F8_ROW);
    if (kind == LN_LAYOUT_F8_ROW && n_rows * with_ends > LN_SMALL_M_FP8_BYTES)
        return true;
    return !plain && p->n_rows >= MIN_TILED_ROWS && rows_per_x(p) == 1 && p->groups.n_groups == 0 &&
           has_sm90a;
}

bool ln_act_require(const ln_op *linear, bool precise, bool plain, bool has_sm90a,
                    ln_converted_act *x) {
    const ln_op_linear *p = &linear->linear;
    int kind = (int)p->weight->layout;
    ln_converted_act now = ln_act_none(x);
    now.of = p->x;
    now.value = linear->in[LN_IN_X];
    now.n_cols = p->weight->n_cols;
    now.n_rows = x_rows(p);
    now.stride = p->x_stride > 0 ? p->x_stride : now.n_cols;
    now.is_int8 = !ln_weight_tile_has_16_bit_act(kind);
    now.by_row = ln_weight_tile_has_act_row_scales(kind);
    now.is_f8 = kind == LN_LAYOUT_F8_ROW;
    now.precise = precise && !plain && kind == LN_LAYOUT_BF16;
    now.in_tiles = lies_in_tiles(p, now.n_rows, plain, has_sm90a);
    bool is_there = x->value != 0 && x->value == now.value && x->n_rows == now.n_rows &&
                    x->n_cols == now.n_cols && x->stride == now.stride &&
                    x->is_int8 == now.is_int8 && x->is_f8 == now.is_f8 && x->by_row == now.by_row &&
                    x->in_tiles == now.in_tiles && (x->precise || !now.precise);
    if (!is_there)
        *x = now;
    return !is_there;
}

/* Activation tiles for n_rows rows at the most. */
static size_t most_tiles(const ln_row_groups *g, size_t n_rows, size_t rows_per_tile) {
    if (g->order == NULL) {
        size_t per_group = (n_rows + g->n_groups - 1) / g->n_groups;
        return g->n_groups * ((per_group + rows_per_tile - 1) / rows_per_tile);
    }
    size_t most = n_rows / rows_per_tile + (n_rows < g->n_groups ? n_rows : g->n_groups);
    return most < n_rows ? most : n_rows;
}

/* Whether WGMMA is worth activation tiles by group, which may be filled up with nothing, and there
 * is room for them. */
static bool takes_tiles(const ln_op_linear *p, bool has_sm90a, ln_converted_act *x) {
    int kind = (int)p->weight->layout;
    bool is_even = p->groups.order != NULL || p->n_rows % p->groups.n_groups == 0;
    if (p->n_rows < (size_t)LN_ACT_TILES_MIN_ROWS * p->groups.n_groups ||
        kind == LN_LAYOUT_INT8_ROW || !is_even || !has_sm90a)
        return false;
    size_t rows_per_tile = ln_act_tile_rows(kind),
           n = most_tiles(&p->groups, p->n_rows, rows_per_tile);
    size_t cols = ln_weight_tile_padded_cols(kind, p->weight->n_cols);
    x->n_rows = n * rows_per_tile;
    x->in_tiles = x->by_group = true;
    size_t row_bytes = x->is_int8 ? cols + cols / LN_SCALE_BLOCK * sizeof(float)
                                  : cols * (x->precise ? 4 : 2) + (x->by_row ? sizeof(float) : 0);
    size_t list_bytes = ln_split_k_sizes_of(x->n_sms).n_floats * sizeof(float);
    return n <= list_bytes / LN_GROUP_SLOT_BYTES && x->n_rows <= x->bytes / row_bytes &&
           x->n_rows > LN_SMALL_M_ROWS;
}

bool ln_act_require_groups(const ln_op *linear, bool has_sm90a, ln_converted_act *x) {
    const ln_op_linear *p = &linear->linear;
    ln_converted_act tiled = ln_act_none(x);
    ln_act_require(linear, p->precise, false, has_sm90a, &tiled);
    if (takes_tiles(p, has_sm90a, &tiled)) {
        tiled.value = 0; /* of no use to others */
        *x = tiled;
        return true;
    }
    return ln_act_require(linear, p->precise, false, has_sm90a, x);
}

bool ln_act_takes_bf16(const ln_converted_act *x) {
    return x->by_row && !x->by_group && x->n_cols % 4 == 0 && ln_act_cols(x) <= LN_ACT_MAX_ROW_COLS;
}
