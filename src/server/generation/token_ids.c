#include "server/generation/token_ids.h"

#include <stdlib.h>

bool ln_api_read_ids(const json_t *array, const linnet_model_info *info, const char *param,
                     int32_t **ids, size_t *n_ids, ln_api_error *error) {
    size_t count = json_array_size(array);
    *n_ids = 0;
    *ids = malloc((count + 1) * sizeof **ids);
    if (*ids == NULL)
        return ln_api_fail_memory(error);
    for (; *n_ids < count; ++*n_ids) {
        const json_t *item = json_array_get(array, *n_ids);
        json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;
        if (id < 0 || id >= info->n_vocab)
            return ln_api_fail(error, 400, param, "%s: item %zu is no token id from 0 to %d", param,
                               *n_ids, (int)info->n_vocab - 1);
        (*ids)[*n_ids] = (int32_t)id;
    }
    return true;
}

bool ln_api_check_mixed(const json_t *prompts, const char *param, ln_api_error *error) {
    bool has_text = false, has_ids = false;
    for (size_t i = 0; i < json_array_size(prompts); i++) {
        has_text = has_text || json_is_string(json_array_get(prompts, i));
        has_ids = has_ids || json_is_array(json_array_get(prompts, i));
    }
    return !has_text || !has_ids ||
           ln_api_fail(error, 400, param, "%s mixes strings and lists of token ids", param);
}
