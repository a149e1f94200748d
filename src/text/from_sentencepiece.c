#include "text/tokenizer_state.h"
ln_status ln_tokenizer_from_sentencepiece(const char *bytes, size_t n_bytes,
                                          ln_tokenizer **tokenizer, ln_error *err) {
    (void)bytes;
    (void)n_bytes;
    (void)tokenizer;
    return ln_fail(err, LINNET_ERR_UNSUPPORTED, "x");
}
