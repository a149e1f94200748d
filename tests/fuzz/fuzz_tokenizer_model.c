/* Any bytes as tokenizer.model: they are refused with one sentence, or make a tokenizer that
 * encodes and decodes. */
#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    ln_error err = {0};
    ln_tokenizer *tokenizer;
    if (ln_tokenizer_from_sentencepiece((const char *)data, n_bytes, &tokenizer, &err) != LINNET_OK)
        return 0;
    encode_and_decode(tokenizer);
    ln_tokenizer_close(tokenizer);
    return 0;
}
