/* Weights that loading prepares together.
 *
 * All threads go through what was added, with no barrier between weights: a thread takes the next
 * huge page of the memory that they are to have, and makes all panels and vectors that begin there.
 * So one thread touches a page first, and then finds it in its cache; of two threads that touch it
 * at once the system would clear a page for each, which takes longer than packing. */
#ifndef LN_BACKEND_CPU_BULK_H
#define LN_BACKEND_CPU_BULK_H

#include "backend/cpu/pages.h"
#include "backend/cpu/prepare.h"

enum {
    LN_BULK_JOBS = 64,
    LN_BULK_BYTES = 64 << 20 /* of memory, after which they are prepared */
};

/* Panels to pack, or a vector to copy. */
typedef struct ln_bulk_job {
    ln_weight_request vector; /* n_sources 0: panels */
    ln_panel_source panels;
    const char *name; /* of the tensor, the checkpoint's */
    uint8_t *memory;
    size_t unit_bytes, n_units; /* panels, or one vector */
} ln_bulk_job;

/* Empty when zeroed. */
typedef struct ln_bulk {
    ln_bulk_job jobs[LN_BULK_JOBS]; /* one behind the other in memory */
    size_t n_jobs;
} ln_bulk;

/* Whether a weight can be prepared so: rows that follow one another in one file, of which the
 * buffers hold a panel, or a vector. */
bool ln_bulk_can(const ln_cpu_preparer *preparer, const ln_weight_request *request, ln_pack pack);

/* Fills *weight, and adds what is to be written to `memory`; prepares what was added before when
 * that is enough. */
ln_status ln_bulk_add(ln_bulk *bulk, const ln_cpu_preparer *preparer,
                      const ln_weight_request *request, ln_pack pack, void *memory,
                      ln_weight *weight, ln_error *err);

/* Prepares all that was added, and empties *bulk. Errors: IO. */
ln_status ln_bulk_finish(ln_bulk *bulk, const ln_cpu_preparer *preparer, ln_error *err);

#endif
