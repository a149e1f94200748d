/* Any bytes as the vocabulary of a GGUF file, written as JSON (files.h): it is refused with one
 * sentence, or makes a tokenizer that encodes and decodes. */
#include "files.h"
#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    ln_error err = {0};
    ln_checkpoint *checkpoint;
    ln_tokenizer *tokenizer;
    make_folder();
    write_file("model.gguf", (const char *)data, n_bytes);
    if (ln_checkpoint_open(path_of("model.gguf"), true, &checkpoint, &err) == LINNET_OK) {
        if (ln_tokenizer_open(checkpoint, &tokenizer, &err) == LINNET_OK) {
            encode_and_decode(tokenizer);
            ln_tokenizer_close(tokenizer);
        } else if (err.message[0] == '\0') {
            __builtin_trap(); /* a failure has a sentence */
        }
        ln_checkpoint_close(checkpoint);
    }
    return 0;
}
