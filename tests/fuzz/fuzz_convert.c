/* Any bytes as the files of a Hugging Face folder (files.h), converted to GGUF: they are refused
 * with one sentence, or the file that comes can be opened. */
#include <linnet.h>
#include <stddef.h>
#include <stdint.h>

#include "convert/convert.h"
#include "files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(linnet_status status, const linnet_error *err) {
    if (status != LINNET_OK && err->message[0] == '\0')
        __builtin_trap(); /* a failure has a sentence */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    const ln_quantize_options options = {.n_threads = 1};
    ln_checkpoint *checkpoint, *converted;
    linnet_error err = {0};
    if (!write_files(data, bytes))
        return 0;
    unlink(path_of("model.gguf"));
    linnet_status status = ln_checkpoint_open(folder_path, false, &checkpoint, &err);
    check(status, &err);
    if (status != LINNET_OK)
        return 0;
    char *out = strdup(path_of("model.gguf"));
    status = out != NULL ? ln_convert(checkpoint, out, true, &options, &err) : LINNET_OK;
    check(status, &err);
    if (out != NULL && status == LINNET_OK) {
        if (ln_checkpoint_open(out, false, &converted, &err) != LINNET_OK)
            __builtin_trap();
        ln_checkpoint_close(converted);
    }
    free(out);
    ln_checkpoint_close(checkpoint);
    return 0;
}
