/* An adapter's matrices in the form that kernels read (ln_adapter_target), beside the weights that
 * they change: in planned memory, one slot for each adapter that can be loaded. */
#ifndef LN_MODEL_ADAPTER_LOAD_H
#define LN_MODEL_ADAPTER_LOAD_H

#include "base/layout.h"
#include "model/adapter/file.h"
#include "model/adapter/place.h"
#include "model/family.h"
#include "model/weights.h"

/* Adds what an adapter of this rank takes for a matrix of such a role at most, in the form that the
 * backend reads. */
void ln_adapter_lay_out(ln_layout *layout, const ln_backend *backend, ln_role role, size_t n_rows,
                        size_t n_cols, size_t rank);

/* The rank of what adapters of q, k and v make of the one matrix that a recurrent layer has of
 * them, and the greatest that activations of a model have room for. */
enum { LN_ADAPTER_JOINED = 3 };
size_t ln_adapter_low_rank(const ln_spec *spec, size_t rank);

/* Fills the slot of all weights that the adapter changes; *n_linears of them. On failure the slot
 * is clear. Errors name module or tensor: FORMAT, UNSUPPORTED, LIMIT. */
ln_status ln_adapter_load(ln_adapter_file *file, const ln_spec *spec, const ln_weights *weights,
                          const ln_adapter_place *place, float scale, size_t *n_linears,
                          ln_error *err);
/* Makes the slot change nothing. */
void ln_adapter_clear(const ln_spec *spec, const ln_weights *weights, size_t slot);

#endif
