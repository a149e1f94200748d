/* Any bytes as a file of API keys: refused with one sentence, or each of its keys opens. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/api_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void use(const ln_api_key_list *list) {
    ln_admission server = {0};
    ln_api_keys keys = {0};
    linnet_error err = {0};
    for (int again = 0; again < 2; again++) {
        if (ln_api_keys_replace(&keys, list, &server, &err) != LINNET_OK)
            __builtin_trap();
        for (size_t i = 0; i < list->count; i++) {
            ln_api_key *key = ln_api_keys_find(&keys, list->items[i].text);
            unsigned wait_s = 0;
            if (list->items[i].text[0] == '\0' || key == NULL ||
                strcmp(key->spec.text, list->items[i].text) != 0)
                __builtin_trap();
            ln_api_key_take(key, (uint64_t)i << 32, &wait_s);
        }
    }
    ln_api_keys_free(&keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ln_api_key_list list = {0};
    linnet_error err = {0};
    char *text = malloc(bytes + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    if (ln_api_key_list_read(&list, text, "keys", &err) == LINNET_OK)
        use(&list);
    else if (err.message[0] == '\0')
        __builtin_trap(); /* a failure has a sentence */
    ln_api_key_list_free(&list);
    free(text);
    return 0;
}
