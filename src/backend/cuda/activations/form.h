/* The forms in which kernels take activations (activations/convert.cuh), as the host plans them. */
#ifndef LN_BACKEND_CUDA_ACTIVATIONS_FORM_H
#define LN_BACKEND_CUDA_ACTIVATIONS_FORM_H

#include "backend/cuda/weights/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LN_SMALL_M_ROWS 64u /* that one panel of as many rows serves */
/* Of rows of F8_ROW that are in no panel, with slices' ends. */
#define LN_SMALL_M_FP8_BYTES (200u * 1024)
/* Columns of a row that a block converts by itself. */
enum { LN_ACT_MAX_ROW_COLS = 7 * 4 * 512 };
/* Of a panel of a group's rows in the list of them (gemm/groups.cuh). */
enum { LN_GROUP_PANEL_BYTES = 24 };

/* In front of ln_converted_act.memory: words by which blocks that divide columns of x among them
 * (gemm/sm90_small_m.cuh, gemm/split_k.cuh) say what they have left for each other; a place for
 * that for each block, or for sums of 33 tiles of 192 rows that blocks share; and places for slices
 * that few rows pass. */
enum {
    LN_SPLIT_K_BLOCKS = 132,
    LN_SPLIT_K_SLOTS = 4 * LN_SPLIT_K_BLOCKS,
    LN_SPLIT_K_SLOT_FLOATS = 64 * 128,                /* floats of a place */
    LN_SPLIT_K_FLAGS = 4 * 12 * LN_SPLIT_K_BLOCKS,    /* four for each warp of a block */
    LN_SPLIT_K_FLOATS = 33 * LN_K_SPLITS * 192 * 128, /* of tiles that blocks share */
    LN_SPLIT_K_BYTES =
        4 * (LN_SPLIT_K_FLAGS + LN_SPLIT_K_FLOATS + LN_SPLIT_K_SLOTS * LN_SPLIT_K_SLOT_FLOATS)
};

/* Bytes of a half of what lies behind these. */
static inline size_t ln_act_half(const ln_converted_act *x) {
    return (x->bytes - LN_SPLIT_K_BYTES) / 2 / 1024 * 1024;
}

/* Columns, filled up to whole weight tiles. */
size_t ln_act_cols(const ln_converted_act *x);

/* Makes *x say in which form the linear takes its x; whether that is yet to be made. `plain`: in
 * rows of bf16, however many. */
bool ln_act_require(const ln_op *linear, bool precise, bool plain, bool has_sm90a,
                    ln_converted_act *x);
/* The form of x for a linear with a matrix for each group of rows: of many rows panels by group,
 * where there is room for them; whether that is yet to be made. */
bool ln_act_require_groups(const ln_op *linear, bool has_sm90a, ln_converted_act *x);
/* Whether rows of bf16 can be converted to this form, too. */
bool ln_act_takes_bf16(const ln_converted_act *x);
/* The form of nothing, in the same memory. */
ln_converted_act ln_act_none(const ln_converted_act *x);

#ifdef __cplusplus
}
#endif

#endif
