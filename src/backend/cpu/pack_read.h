/* Packed weights (backend/cpu/pack.h) as float32 again, one by one: for rows of a table. */
#ifndef LN_BACKEND_CPU_PACK_READ_H
#define LN_BACKEND_CPU_PACK_READ_H

#include "backend/cpu/pack.h"

/* out[n_cols] = row `lane` of a panel. */
void ln_pack_read_row(ln_pack pack, const uint8_t *panel, size_t lane, size_t n_cols, float *out);

#endif
