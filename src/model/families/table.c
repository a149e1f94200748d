#include "model/family.h"

#include <stdio.h>
#include <string.h>

const ln_family *const ln_families[] = {
    &ln_family_llama, &ln_family_mistral, &ln_family_qwen2, &ln_family_qwen3, NULL,
};

/* Writes `pattern` with its one "%d" replaced by the layer. */
static void expand(const char *pattern, size_t layer, char *name, size_t capacity) {
    const char *mark = strstr(pattern, "%d");
    if (mark == NULL)
        snprintf(name, capacity, "%s", pattern);
    else
        snprintf(name, capacity, "%.*s%zu%s", (int)(mark - pattern), pattern, layer, mark + 2);
}

bool ln_family_tensor_name(const ln_family *family, ln_checkpoint_format format, ln_role role,
                           size_t layer, char *name, size_t capacity) {
    const char *pattern = NULL;
    for (size_t i = 0; i < family->n_bindings; i++) {
        const ln_binding *binding = &family->bindings[i];
        if (binding->role == role)
            pattern = format == LN_FORMAT_HF ? binding->hf : binding->gguf;
    }
    if (pattern == NULL)
        return false;
    expand(pattern, layer, name, capacity);
    return true;
}
