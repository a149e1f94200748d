/* The forms in which kernels take activations (view.cuh), as the host plans them. */
#ifndef LN_BACKEND_CUDA_ACTIVATIONS_FORM_H
#define LN_BACKEND_CUDA_ACTIVATIONS_FORM_H

#include "backend/cuda/activations/converted.h"
#include "backend/cuda/weights/layout.h"
#include "backend/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LN_SMALL_M_ROWS 64u /* M up to which one activation tile serves */
/* Bytes of rows of F8_ROW that lie in no tile, with the padding of K splits. */
#define LN_SMALL_M_FP8_BYTES (200u * 1024)
/* Rows of activations for each group, on average, from which on they lie in activation tiles. */
enum { LN_ACT_TILES_MIN_ROWS = 32 };
/* Columns of a row that a CTA converts by itself. */
enum { LN_ACT_MAX_ROW_COLS = 7 * 4 * 512 };
/* Bytes of a slot in the list of those of all groups (row_groups.cuh). */
enum { LN_GROUP_SLOT_BYTES = 24 };

/* Bytes of a half of the memory. */
static inline size_t ln_act_half(const ln_converted_act *x) {
    return x->bytes / 2 / 1024 * 1024;
}

/* Columns, filled up to whole weight tiles. */
size_t ln_act_cols(const ln_converted_act *x);

/* Makes *x say in which form the linear takes its activations; whether that is yet to be made.
 * `plain`: in rows of bf16, however many. */
bool ln_act_require(const ln_op *linear, bool precise, bool plain, bool has_sm90a,
                    ln_converted_act *x);
/* The form of x for a linear with a matrix for each group of rows: of many rows activation tiles by
 * group, where there is room for them; whether that is yet to be made. */
bool ln_act_require_groups(const ln_op *linear, bool has_sm90a, ln_converted_act *x);
/* Whether rows of bf16 can be converted to this form, too. */
bool ln_act_takes_bf16(const ln_converted_act *x);
/* The form of nothing, in the same memory. */
ln_converted_act ln_act_none(const ln_converted_act *x);

#ifdef __cplusplus
}
#endif

#endif
