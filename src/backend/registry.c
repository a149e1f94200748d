#include "backend/registry.h"

#include <string.h>

#include "backend/cpu/cpu.h"
#if LINNET_HAS_CUDA
#include "backend/cuda/backend.h"
#define NAMES "cpu, cuda"
#else
#define NAMES "cpu"
#endif

ln_status ln_backend_create(const char *name, const ln_backend_options *options,
                            ln_backend **backend, ln_error *err) {
    bool any = strcmp(name, "auto") == 0;
    *backend = NULL;
#if LINNET_HAS_CUDA
    if (strcmp(name, "cuda") == 0 || (any && ln_cuda_is_usable()))
        return ln_cuda_create(options, backend, err);
#endif
    if (any || strcmp(name, "cpu") == 0)
        return ln_cpu_create(options, backend, err);
    return ln_fail(err, LINNET_ERR_ARGUMENT, "there is no backend \"%s\"; this build has: " NAMES,
                   name);
}
