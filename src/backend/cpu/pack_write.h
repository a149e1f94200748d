/* Rows as a file has them become packed weights (backend/cpu/pack.h). */
#ifndef LN_BACKEND_CPU_PACK_WRITE_H
#define LN_BACKEND_CPU_PACK_WRITE_H

#include "backend/cpu/pack.h"

/* Packs 16 rows of `dtype`, each where rows[i] points (NULL: zeros). Instruction sets may have a
 * faster one, which writes the same bytes. */
typedef void (*ln_panel_packer)(ln_dtype dtype, const uint8_t *const rows[LN_PANEL_ROWS],
                                size_t n_cols, uint8_t *panel);
void ln_pack_panel(ln_dtype dtype, const uint8_t *const rows[LN_PANEL_ROWS], size_t n_cols,
                   uint8_t *panel);

#endif
