/* Keeps the files of a checkpoint in memory while no engine uses them, so that the next one reads
 * no disk. */
#ifndef LN_SERVER_MODELS_RESIDENCE_H
#define LN_SERVER_MODELS_RESIDENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "format/checkpoint.h"

typedef struct ln_residence_map {
    void *memory;
    size_t n_bytes;
} ln_residence_map;

typedef struct ln_residence {
    ln_residence_map *maps; /* [n_maps], owned */
    size_t n_maps;
    size_t n_bytes; /* of all */
    bool is_locked; /* the system gives none of it up; else it may, when memory is short */
} ln_residence;

/* Reads the files and keeps them, as far as the system allows; a zeroed residence before. */
void ln_residence_hold(ln_residence *residence, const ln_checkpoint *checkpoint);
void ln_residence_release(ln_residence *residence); /* and zeroes it; a zeroed one is fine */

/* Of the data files of a checkpoint. */
size_t ln_residence_file_bytes(const ln_checkpoint *checkpoint);

#endif
