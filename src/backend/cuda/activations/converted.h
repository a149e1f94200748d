/* Activations that were converted for a linear, and stay for the next ones. */
#ifndef LN_BACKEND_CUDA_ACTIVATIONS_CONVERTED_H
#define LN_BACKEND_CUDA_ACTIVATIONS_CONVERTED_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/op.h"

typedef struct ln_cublaslt ln_cublaslt; /* gemm/cublaslt.h */

/* What is kept between operations: the activations as they were converted last. */
typedef struct ln_converted_act {
    ln_cublaslt *blas; /* what may serve linears of large M, or NULL */
    void *workspace;   /* [ln_split_k_bytes] zeroed device memory, for split-K */
    unsigned n_sms;    /* that it was made for */
    void *memory;      /* [bytes] of device memory, at least ln_act_bytes */
    size_t bytes;
    const float *of;
    ln_value value; /* which `of` is; 0: nothing was converted */
    size_t n_rows, n_cols, stride;
    bool is_int8, is_f8, by_row, precise, in_tiles; /* is_f8: E4M3 where int8 would be */
    bool by_group;                                  /* a group's rows in tiles of their own */
    bool is_behind; /* in the second half of the memory: made while the first is read */
} ln_converted_act;

#endif
