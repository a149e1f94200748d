/* Any bytes as a body of the content codings gzip and deflate: it becomes one within its bound, or
 * an error of the client's. */
#include <stddef.h>
#include <stdint.h>

#include "server/content_coding.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    enum { MAX_BYTES = 1 << 16 };
    ln_api_error error = {0};
    ln_strbuf body;
    ln_strbuf_init(&body);
    ln_strbuf_append(&body, data, bytes);
    bool done = ln_content_inflate(&body, MAX_BYTES, &error);
    if (done ? error.status != 0 || body.len > MAX_BYTES
             : error.status != 400 && error.status != 413)
        __builtin_trap();
    ln_strbuf_free(&body);
    return 0;
}
