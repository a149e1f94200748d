/* Option structs of the public API: read by the size that the caller was compiled with. */
#ifndef LN_ENGINE_API_OPTIONS_H
#define LN_ENGINE_API_OPTIONS_H

#include "base/error.h"

/* Copies the caller's struct over `out`, which holds the defaults and is out_bytes long; both
 * begin with struct_bytes. What an older caller does not know keeps its default. `name` stands in
 * errors. */
ln_status ln_options_take(const void *given, void *out, size_t out_bytes, const char *name,
                          ln_error *err);

/* Copies as much of a result as the caller's struct holds; its struct_bytes stays. */
void ln_options_give(const void *result, size_t result_bytes, void *given);

#endif
