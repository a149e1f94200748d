#include "backend/backend.h"

#include <string.h>

#include "backend/cpu/cpu.h"

ln_status ln_backend_create(const char *name, const ln_backend_options *options,
                            ln_backend **backend, ln_error *err) {
    *backend = NULL;
    if (strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0)
        return ln_cpu_create(options, backend, err);
    return ln_fail(err, LINNET_ERR_ARGUMENT, "there is no backend \"%s\"; this build has: cpu",
                   name);
}
