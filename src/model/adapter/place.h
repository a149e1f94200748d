/* A slot's memory. */
#ifndef LN_MODEL_ADAPTER_PLACE_H
#define LN_MODEL_ADAPTER_PLACE_H

#include "backend/backend.h"
#include "format/checkpoint.h"

/* Where an adapter is loaded to. */
typedef struct ln_adapter_place {
    size_t slot;
    void *memory; /* [bytes], the slot's own, which kernels can read */
    size_t bytes;
    size_t rank;                     /* the greatest that has room */
    ln_backend *backend;             /* whose memory it is */
    const ln_checkpoint *checkpoint; /* of the weights, whose rows a DoRA measures */
} ln_adapter_place;

#endif
