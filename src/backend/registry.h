/* The backends of this build, by name. */
#ifndef LN_BACKEND_REGISTRY_H
#define LN_BACKEND_REGISTRY_H

#include "backend/backend.h"

/* "cpu", "cuda", or "auto": the first usable of cuda and cpu. Errors: ARGUMENT for a name or
 * instruction set that is not there, UNSUPPORTED for a device that is not. */
ln_status ln_backend_create(const char *name, const ln_backend_options *options,
                            ln_backend **backend, ln_error *err);

/* Whether "auto" would try a GPU, as NVIDIA's driver is there, but cannot, as the module with the
 * backend is missing or of another build; err says which. */
bool ln_backend_lacks_cuda(ln_error *err);

/* Loads the module that "auto" and "cuda" would load, where the driver is there, and has CUDA
 * started: for a process that gives up what that needs. */
void ln_backend_start_cuda(void);

#endif
