/* ln_pack_panel with AVX-512, for the types whose files are largest; the others it leaves to that.
 */
#ifndef LN_BACKEND_CPU_AVX512_PACK_H
#define LN_BACKEND_CPU_AVX512_PACK_H

#include "backend/cpu/pack_write.h"

void ln_avx512_pack_panel(ln_dtype dtype, const uint8_t *const rows[LN_PANEL_ROWS], size_t n_cols,
                          uint8_t *panel);

#endif
