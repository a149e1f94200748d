/* ln_act_convert by groups of rows. */
#ifndef LN_BACKEND_CUDA_ACTIVATIONS_CONVERT_CUH
#define LN_BACKEND_CUDA_ACTIVATIONS_CONVERT_CUH

#include "backend/cuda/activations/convert.h"
#include "backend/cuda/activations/row_groups.cuh"

/* Converts activations to tiles, each with the rows of a slot; x->n_rows: of all tiles. */
int ln_act_convert_groups(const ln_converted_act *x, const ln_group_order &groups,
                          const ln_listed_slot *slots, size_t rows_per_x, ln_cuda_stream stream);

#endif
