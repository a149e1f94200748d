/* Keeps the files of a checkpoint in memory while no engine uses them, mapped as they are, so that
 * the next engine reads no disk and waits for no page. */
#ifndef LN_SERVER_MODELS_RESIDENCE_H
#define LN_SERVER_MODELS_RESIDENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "format/checkpoint.h"

typedef struct ln_residence {
    const ln_checkpoint *checkpoint; /* borrowed; NULL: nothing is held */
    size_t n_bytes;                  /* that were read */
    bool is_locked; /* the system gives none of it up; else it may, when memory is short */
} ln_residence;

/* Reads the files and keeps them, as far as the system allows. Once *is_awaited, it reads no more:
 * the engine that is made next does. */
void ln_residence_hold(ln_residence *residence, const ln_checkpoint *checkpoint,
                       const atomic_bool *is_awaited);
/* And zeroes it; a zeroed one is fine. drops: the process itself has no more use for the pages. */
void ln_residence_release(ln_residence *residence, bool drops);

/* Of the data files of a checkpoint. */
size_t ln_residence_file_bytes(const ln_checkpoint *checkpoint);

#endif
