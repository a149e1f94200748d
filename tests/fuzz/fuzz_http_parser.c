/* Any bytes as requests on a connection, one after the other, whole and cut into pieces: the same
 * events, the same end. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../server/http_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    enum { MAX_HEAD_BYTES = 1024 };
    const char *at = (const char *)data;
    for (size_t n_left = bytes; n_left > 0;) {
        http_trace whole, cut;
        size_t step = 1 + (unsigned char)at[n_left / 2] % 7;
        trace_request(at, n_left, n_left, MAX_HEAD_BYTES, &whole);
        trace_request(at, n_left, step, MAX_HEAD_BYTES, &cut);
        if (whole.n_used > n_left || whole.n_used != cut.n_used || whole.status != cut.status ||
            whole.text.len != cut.text.len ||
            (cut.text.len > 0 && memcmp(whole.text.data, cut.text.data, cut.text.len) != 0))
            __builtin_trap();
        bool goes_on = whole.status == 0 && whole.n_used > 0;
        ln_strbuf_free(&whole.text);
        ln_strbuf_free(&cut.text);
        if (!goes_on)
            break;
        at += whole.n_used;
        n_left -= whole.n_used;
    }
    return 0;
}
