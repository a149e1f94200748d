#include "backend/cuda/module.h"

#include "backend/cuda/backend.h"
#include "base/module.h"

__attribute__((visibility("default"))) const ln_cuda_module *ln_cuda_module_get(void);

const ln_cuda_module *ln_cuda_module_get(void) {
    static ln_cuda_module module = {.create = ln_cuda_create, .is_usable = ln_cuda_is_usable};
    module.id = ln_module_id();
    return &module;
}
