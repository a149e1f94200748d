/* The CUDA backend as a module that the program loads at run time, so that the same program serves
 * machines without a GPU, and runs none of CUDA's start-up code there. The module has its own copy
 * of what it calls in base/, format/ and backend/. */
#ifndef LN_BACKEND_CUDA_MODULE_H
#define LN_BACKEND_CUDA_MODULE_H

#include "backend/backend.h"

#define LN_CUDA_MODULE_FILE   "linnet-cuda.so"
#define LN_CUDA_MODULE_SYMBOL "ln_cuda_module_get"

typedef struct ln_cuda_module {
    /* ln_module_id of the build: both sides share structs, so they must be of the same headers.
     * First, whatever else changes. */
    const char *id;
    /* As in cuda/backend.h. */
    ln_status (*create)(const ln_backend_options *options, ln_backend **backend, ln_error *err);
    bool (*is_usable)(const ln_backend_options *options);
} ln_cuda_module;

/* The one symbol of the module. */
typedef const ln_cuda_module *(*ln_cuda_module_fn)(void);

#endif
