/* Stands in for backend/cpu/neon-i8mm/tiles.h where no matrix unit takes int8. */
#ifndef LN_BACKEND_CPU_SIMD_NO_TILES_H
#define LN_BACKEND_CPU_SIMD_NO_TILES_H

#include "backend/cpu/simd/super.h"

enum { MATRIX_ROWS = 0 }; /* rows of x that the matrix unit takes at once: none */

LN_INLINE void int8_matrix(ln_pack pack, size_t n_panels, const uint8_t *w, const int8_rows *x,
                           size_t n_rows, size_t first, size_t n, float *y) {
    int8_multiply_rows(pack, n_panels, w, x, n_rows, first, n, y);
}
LN_INLINE void super_matrix(ln_pack pack, size_t n_panels, const uint8_t *w, const super_rows *x,
                            size_t n_rows, size_t first, size_t n, float *y) {
    super_multiply_rows(pack, n_panels, w, x, n_rows, first, n, y);
}

#endif
