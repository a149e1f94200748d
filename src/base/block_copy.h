/* A copy of one KV block of one group: what the cache decides and a backend does. */
#ifndef LN_BASE_BLOCK_COPY_H
#define LN_BASE_BLOCK_COPY_H

#include <stdint.h>

typedef enum ln_copy_direction {
    LN_COPY_WITHIN = 0, /* the cache */
    LN_COPY_OUT,        /* from the cache to the swap space */
    LN_COPY_IN          /* from the swap space to the cache */
} ln_copy_direction;

typedef struct ln_block_copy {
    int32_t from, to;
    int32_t group;
    ln_copy_direction direction;
} ln_block_copy;

#endif
