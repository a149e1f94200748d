/* Any bytes as config.json and as tokenizer_config.json: dotted lookups, items, templates. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/hf_config.h"
#include "format/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static volatile size_t sink;

static void look_up(const ln_hf_config *hf, const char *key) {
    ln_meta_value value, item;
    if (!ln_hf_config_find(hf, key, &value))
        return;
    if (value.kind == LN_META_NULL)
        __builtin_trap(); /* null counts as absent */
    if (value.kind == LN_META_STRING)
        sink = strlen(value.string.data);
    for (size_t i = 0; ln_meta_item(&value, i, &item); i++)
        sink = (size_t)item.kind;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ln_hf_config hf = {0};
    linnet_error err = {0};
    if (ln_json_parse((const char *)data, bytes, &hf.config, &hf.heap_bytes, &err) == LINNET_OK) {
        const char *key;
        json_t *value;
        json_object_foreach(hf.config, key, value) {
            look_up(&hf, key);
        }
        look_up(&hf, "rope_scaling.rope_type");
        look_up(&hf, "vocab_size");
        look_up(&hf, "..");
        if (ln_hf_chat_template(hf.config, &hf.chat_template, &err) == LINNET_OK &&
            hf.chat_template != NULL)
            sink = strlen(hf.chat_template);
    } else if (err.message[0] == '\0') {
        __builtin_trap(); /* a failure has a sentence */
    }
    ln_hf_config_close(&hf);
    return 0;
}
