/* Any bytes as a GGUF file: headers are checked, and then every item and every tensor's bytes can
 * be read. */
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "format/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static volatile uint8_t sink;

static void touch(const void *memory, size_t bytes) {
    const uint8_t *at = memory;
    if (bytes > 0)
        sink = (uint8_t)(at[0] + at[bytes - 1]);
}

static void touch_value(const ln_meta_value *value) {
    ln_meta_value item;
    if (value->kind == LN_META_STRING)
        touch(value->string.data, value->string.bytes);
    for (size_t i = 0; ln_meta_item(value, i, &item); i++)
        if (item.kind == LN_META_STRING)
            touch(item.string.data, item.string.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ln_arena arena;
    ln_arena_init(&arena);
    ln_tensor_list tensors = {0};
    ln_gguf gguf;
    linnet_error err = {0};
    if (ln_gguf_parse(data, bytes, 0, &arena, &gguf, &tensors, &err) == LINNET_OK) {
        for (size_t i = 0; i < gguf.n_entries; i++) {
            ln_meta_value value;
            if (!ln_gguf_find(&gguf, gguf.entries[i].key, &value))
                __builtin_trap();
            touch_value(&value);
        }
        for (size_t i = 0; i < tensors.count; i++)
            touch(tensors.items[i].data, tensors.items[i].bytes);
    } else if (err.message[0] == '\0') {
        __builtin_trap(); /* a failure has a sentence */
    }
    ln_tensor_list_free(&tensors);
    ln_arena_free(&arena);
    return 0;
}
