/* A linnet-cuda.so of another build, which is refused before anything else of it is looked at. */
#include "backend/cuda/module.h"

__attribute__((visibility("default"))) const ln_cuda_module *ln_cuda_module_get(void);

const ln_cuda_module *ln_cuda_module_get(void) {
    static const ln_cuda_module module = {.id = "another"};
    return &module;
}
