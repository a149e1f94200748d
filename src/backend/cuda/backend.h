/* The CUDA backend: one NVIDIA GPU, compute capability 8.0 or later. Operations become kernels
 * (ops.h) on one stream; a step's arrays go to the device in one copy. */
#ifndef LN_BACKEND_CUDA_BACKEND_H
#define LN_BACKEND_CUDA_BACKEND_H

#include "backend/backend.h"

/* Errors: UNSUPPORTED without a usable GPU. */
ln_status ln_cuda_create(const ln_backend_options *options, ln_backend **backend, ln_error *err);

/* Whether ln_cuda_create finds a GPU that it can use with these options. */
bool ln_cuda_is_usable(const ln_backend_options *options);

#endif
