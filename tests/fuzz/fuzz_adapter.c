/* Any bytes as the files of an adapter (files.h), a folder of PEFT's or a GGUF file: they are
 * refused with one sentence, or each module has matrices that fit together. */
#include <stddef.h>
#include <stdint.h>

#include "files.h"
#include "model/adapter/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static volatile uint8_t sink;

static void touch(const ln_tensor *tensor) {
    if (tensor != NULL && tensor->bytes > 0)
        sink = (uint8_t)(tensor->data[0] + tensor->data[tensor->bytes - 1]);
}

static void check(const ln_adapter_file *file) {
    for (size_t i = 0; i < file->n_parts; i++) {
        const ln_adapter_part *part = &file->parts[i];
        if (ln_adapter_file_find(file, part->module) != part ||
            (part->a == NULL) != (part->b == NULL) || (part->a == NULL && part->vector == NULL) ||
            part->rank > file->rank)
            __builtin_trap();
        touch(part->a);
        touch(part->b);
        touch(part->vector);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ln_adapter_file file;
    linnet_error err = {0};
    if (!write_files(data, bytes))
        return 0;
    bool is_gguf = access(path_of("model.gguf"), F_OK) == 0;
    const char *path = is_gguf ? path_of("model.gguf") : folder_path;
    if (ln_adapter_file_open(path, &file, &err) == LINNET_OK) {
        check(&file);
        ln_adapter_file_close(&file);
    } else if (err.message[0] == '\0') {
        __builtin_trap(); /* a failure has a sentence */
    }
    return 0;
}
