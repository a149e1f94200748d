/* Packs panels whose blocks are 256 columns, but for codebooks (backend/cpu/grid.h). */
#ifndef LN_BACKEND_CPU_PACK_SUPER_H
#define LN_BACKEND_CPU_PACK_SUPER_H

#include "backend/cpu/pack.h"

/* 16 rows in the file's form, each where rows[i] points (NULL: zeros). */
void ln_super_pack_panel(ln_pack pack, const uint8_t *const rows[LN_PANEL_ROWS], size_t n_cols,
                         uint8_t *panel);

#endif
