/* Matrices that runs pack, instead of loading: the first token then waits for no copy of the
 * model.
 *
 * In the first run that multiplies with such a matrix, a worker reads panels from the file into
 * memory of its own, packs them there and multiplies at once, so that they never leave its cache.
 * Each later run packs some of the matrices where they are to stay, at most about a quarter of all
 * bytes, and multiplies with what it has packed; after that they are like any other. It is the code
 * that packs while loading, and the same kernels, so it makes no difference to any bit. */
#ifndef LN_BACKEND_CPU_LAZY_H
#define LN_BACKEND_CPU_LAZY_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "backend/cpu/prepare.h"

enum { LN_LAZY_PANELS = 2 }; /* that are read at once */

typedef struct ln_lazy {
    struct ln_lazy *next;
    ln_panel_source source;
    const char *name; /* of its tensor, the checkpoint's */
    uint8_t *memory;  /* its place in the weights arena */
    /* Change between runs only. */
    size_t last_run; /* that multiplied with it; 0: none */
    bool packs_now, is_packed;
    atomic_bool was_cut_off; /* the file ended early */
} ln_lazy;

/* All of a backend. */
typedef struct ln_lazy_list {
    ln_lazy *first;
    size_t n_unpacked;
    size_t total_bytes; /* that they take, packed */
    size_t n_runs;      /* up to now, while any are not packed */
    ln_panel_packer packer;
} ln_lazy_list;

/* Whether a matrix can wait: its rows follow one another in one file. */
bool ln_lazy_can(const ln_weight_request *request);

/* Notes a matrix that is to be packed into `memory`, and fills *weight, as ln_cpu_prepare_weight
 * does. */
ln_status ln_lazy_add(ln_lazy_list *list, const ln_weight_request *request, ln_pack pack,
                      void *memory, ln_weight *weight, ln_error *err);
void ln_lazy_free(ln_lazy_list *list);

/* Around a run: chooses what it packs; notes what it packed. Errors: IO when a file could not be
 * read, so that the run's results mean nothing. */
void ln_lazy_begin(ln_lazy_list *list, const ln_op *ops, size_t n_ops);
ln_status ln_lazy_end(ln_lazy_list *list, ln_error *err);

/* Bytes that a worker needs for LN_LAZY_PANELS panels of at most `width` columns: whole cache
 * lines.
 */
size_t ln_lazy_room_bytes(size_t width);

/* At most LN_LAZY_PANELS panels of a matrix that is not packed, from `panel` on, one after another:
 * where they are to stay, or in `room`, until the next call. */
const uint8_t *ln_lazy_read(ln_lazy *lazy, size_t panel, size_t n_panels, uint8_t *room);

/* Panels from `panel` on, wherever they are. */
static inline const uint8_t *ln_lazy_panels(const ln_weight *weight, size_t panel, size_t n_panels,
                                            uint8_t *room) {
    if (weight->lazy != NULL && !weight->lazy->is_packed)
        return ln_lazy_read(weight->lazy, panel, n_panels, room);
    return (const uint8_t *)weight->data + panel * LN_PANEL_ROWS * weight->row_bytes;
}

#endif
