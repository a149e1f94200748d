#include "text/tokenizer/ids.h"

#include <stdlib.h>

#include "base/grow.h"

void ln_ids_free(ln_ids *ids) {
    free(ids->data);
    *ids = (ln_ids){0};
}

ln_status ln_ids_push_slow(ln_ids *ids, int32_t id, ln_error *err) {
    if (!ln_grow((void **)&ids->data, &ids->capacity, ids->count + 1, sizeof id))
        return ln_fail(err, LINNET_ERR_NOMEM, "out of memory for %zu token ids", ids->count + 1);
    ids->data[ids->count++] = id;
    return LINNET_OK;
}
