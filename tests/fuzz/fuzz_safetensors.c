/* Any bytes as a safetensors file, and as an index of shards. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "format/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static volatile uint8_t sink;

static void parse_file(const uint8_t *data, size_t bytes) {
    ln_arena arena;
    ln_arena_init(&arena);
    ln_tensor_list tensors = {0};
    linnet_error err = {0};
    if (ln_safetensors_parse(data, bytes, 0, &arena, &tensors, &err) == LINNET_OK) {
        for (size_t i = 0; i < tensors.count; i++) {
            const ln_tensor *tensor = &tensors.items[i];
            sink = (uint8_t)(tensor->data[0] + tensor->data[tensor->bytes - 1]);
        }
    } else if (err.message[0] == '\0') {
        __builtin_trap(); /* a failure has a sentence */
    }
    ln_tensor_list_free(&tensors);
    ln_arena_free(&arena);
}

static void parse_index(const uint8_t *data, size_t bytes) {
    ln_arena arena;
    ln_arena_init(&arena);
    ln_shard_index index;
    linnet_error err = {0};
    if (ln_shard_index_parse((const char *)data, bytes, &arena, &index, &err) == LINNET_OK) {
        for (size_t i = 0; i < index.n_names; i++)
            if (strchr(index.files[index.file_of[i]], '/') != NULL)
                __builtin_trap();
    } else if (err.message[0] == '\0') {
        __builtin_trap();
    }
    ln_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    parse_file(data, bytes);
    parse_index(data, bytes);
    return 0;
}
