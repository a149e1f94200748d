/* Converts activations of linears to the form that packed weights are multiplied with (view.cuh).
 */
#ifndef LN_BACKEND_CUDA_ACTIVATIONS_CONVERT_H
#define LN_BACKEND_CUDA_ACTIVATIONS_CONVERT_H

#include "backend/cuda/activations/converted.h"
#include "backend/cuda/runtime/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of up to n_rows rows of n_cols columns in any form. */
size_t ln_act_bytes(size_t n_rows, size_t n_cols);
/* Bytes more for the padding of activation tiles of so many groups of rows. */
size_t ln_act_groups_bytes(size_t n_groups, size_t n_cols);

/* Converts. 0, or the runtime's error code. */
int ln_act_convert(const ln_converted_act *x, ln_cuda_stream stream);
/* The same from rows of bf16, [n_rows][n_cols] in device memory, with ln_act_takes_bf16. */
int ln_act_convert_bf16(const ln_converted_act *x, const void *rows, ln_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
