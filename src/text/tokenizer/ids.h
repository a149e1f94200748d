/* Growing lists of token ids. */
#ifndef LN_TEXT_TOKENIZER_IDS_H
#define LN_TEXT_TOKENIZER_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The caller inits to {0} and frees with ln_ids_free. */
typedef struct ln_ids {
    int32_t *data; /* [count] */
    size_t count, capacity;
} ln_ids;
void ln_ids_free(ln_ids *ids);

ln_status ln_ids_push_slow(ln_ids *ids, int32_t id, ln_error *err);

static inline ln_status ln_ids_push(ln_ids *ids, int32_t id, ln_error *err) {
    if (ids->count == ids->capacity)
        return ln_ids_push_slow(ids, id, err);
    ids->data[ids->count++] = id;
    return LINNET_OK;
}

#endif
