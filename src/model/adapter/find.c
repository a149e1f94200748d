#include "model/adapter/find.h"

#include <string.h>

ln_adapter_part *ln_adapter_find_part(const ln_adapter_file *file, const ln_family *family,
                                      ln_tensor_id id, const ln_binding **binding) {
    char name[LN_TENSOR_NAME_BYTES], placed[LN_TENSOR_NAME_BYTES];
    bool is_hf = file->format == LN_FORMAT_HF;
    for (size_t i = 0; (*binding = ln_family_binding(family, file->format, id, i)) != NULL; i++) {
        if (is_hf ? (*binding)->hf_bare : (*binding)->gguf_bare)
            continue;
        ln_binding_name(*binding, file->format, id, name);
        name[strlen(name) - strlen(".weight")] = '\0';
        ln_adapter_part *part = is_hf ? NULL : ln_adapter_file_find(file, name);
        for (size_t j = 0; is_hf && part == NULL && ln_family_place(family, name, j, placed); j++)
            part = ln_adapter_file_find(file, placed);
        if (part != NULL)
            return part;
    }
    return NULL;
}
