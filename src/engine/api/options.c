#include "engine/api/options.h"

#include <string.h>

ln_status ln_options_take(const void *given, void *out, size_t out_bytes, const char *name,
                          ln_error *err) {
    size_t given_bytes = 0;
    if (given == NULL)
        return LINNET_OK;
    memcpy(&given_bytes, given, sizeof given_bytes);
    if (given_bytes < sizeof given_bytes || given_bytes > out_bytes)
        return ln_fail(err, LINNET_ERR_ARGUMENT,
                       "struct_bytes of %s is %zu; %s_init sets it, to %zu in this version", name,
                       given_bytes, name, out_bytes);
    memcpy(out, given, given_bytes);
    return LINNET_OK;
}

void ln_options_give(const void *result, size_t result_bytes, void *given) {
    size_t given_bytes;
    memcpy(&given_bytes, given, sizeof given_bytes);
    if (given_bytes <= sizeof given_bytes)
        return;
    size_t n = given_bytes < result_bytes ? given_bytes : result_bytes;
    memcpy((char *)given + sizeof given_bytes, (const char *)result + sizeof given_bytes,
           n - sizeof given_bytes);
}
