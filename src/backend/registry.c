#include "backend/registry.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cuda/module.h"
#include "base/module.h"

enum { WHY_BYTES = 512 };

static const ln_cuda_module *load_cuda(ln_error *err) {
    char why[WHY_BYTES];
    ln_cuda_module_fn get = (ln_cuda_module_fn)ln_module_load(
        LN_CUDA_MODULE_FILE, LN_CUDA_MODULE_SYMBOL, why, sizeof why);
    const ln_cuda_module *module = get != NULL ? get() : NULL;
    if (module != NULL && strcmp(module->id, ln_module_id()) == 0)
        return module;
    if (module == NULL)
        ln_fail(err, LINNET_ERR_UNSUPPORTED, "backend \"cuda\": %s", why);
    else
        ln_fail(err, LINNET_ERR_UNSUPPORTED,
                "backend \"cuda\": %s is of build %s, and this is build %s; install both together",
                LN_CUDA_MODULE_FILE, module->id, ln_module_id());
    return NULL;
}

/* Without NVIDIA's driver nothing of CUDA is loaded. */
static bool has_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver != NULL)
        dlclose(driver);
    return driver != NULL;
}

bool ln_backend_lacks_cuda(ln_error *err) {
    return has_driver() && load_cuda(err) == NULL;
}

void ln_backend_start_cuda(void) {
    const ln_backend_options options = {.isa = "auto", .n_threads = 1, .n_local = 1};
    const ln_cuda_module *cuda = has_driver() ? load_cuda(NULL) : NULL;
    if (cuda != NULL)
        (void)cuda->is_usable(&options); /* who needs it is told later */
}

ln_status ln_backend_create(const char *name, const ln_backend_options *options,
                            ln_backend **backend, ln_error *err) {
    bool any = strcmp(name, "auto") == 0, wants_cuda = strcmp(name, "cuda") == 0;
    *backend = NULL;
    if (wants_cuda || (any && has_driver())) {
        const ln_cuda_module *cuda = load_cuda(wants_cuda ? err : NULL);
        if (wants_cuda && cuda == NULL)
            return LINNET_ERR_UNSUPPORTED;
        if (wants_cuda || (cuda != NULL && cuda->is_usable(options)))
            return cuda->create(options, backend, err);
    }
    if (any || strcmp(name, "cpu") == 0)
        return ln_cpu_create(options, backend, err);
    return ln_fail(err, LINNET_ERR_ARGUMENT, "there is no backend \"%s\", but: auto, cpu, cuda",
                   name);
}
