/* Weights that are looked up in codebooks (backend/cpu/grid.h) as bytes: 256 columns of a panel
 * into the first-level cache. Entries are copied one by one, 8 or 4 bytes at once: as fast as
 * gathers, or faster, and the same for every instruction set. Vectors then bring them into steps
 * and put signs on. */
#ifndef LN_BACKEND_CPU_SIMD_GRID_H
#define LN_BACKEND_CPU_SIMD_GRID_H

#include "backend/cpu/grid.h"
#include "backend/cpu/simd/unpack.h"
#include "base/error.h"

enum { GRID_BLOCK_BYTES = STEPS * STEP_BYTES };

/* X(T) for each of these layouts, LN_PACK_T: so what X calls is compiled for that one alone. */
#define GRID_PACKS(X) X(IQ1_S) X(IQ1_M) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S)

/* The entries of 256 columns at p: out [8 blocks][32 / wide][16 rows][wide]. */
LN_INLINE void grid_expand_as(ln_pack pack, const uint8_t *p, uint8_t *out) {
    ln_grid_shape shape = ln_grid_shape_of(pack);
    const uint8_t *block = p + ln_grid_blocks_at(shape);
#pragma GCC unroll 1
    for (size_t at = 0; at < GRID_SUPER_BLOCKS; at++, block += ln_grid_block_bytes(shape))
#pragma GCC unroll 8
        for (size_t k = 0; k < LN_PACK_COLS / shape.wide; k++)
#pragma GCC unroll 16
            for (size_t lane = 0; lane < LANES; lane++, out += shape.wide) {
                uint64_t entry = ln_grid_entry(pack, ln_grid_index(shape, block, lane, k));
                uint32_t four = (uint32_t)entry;
                if (shape.wide == 8)
                    memcpy(out, &entry, sizeof entry);
                else
                    memcpy(out, &four, sizeof four);
            }
}

static void grid_expand(ln_pack pack, const uint8_t *p, uint8_t *out) {
#define EXPAND(T)                                                                                  \
    case LN_PACK_##T: grid_expand_as(LN_PACK_##T, p, out); return;
    switch (pack) {
        GRID_PACKS(EXPAND)
    default: LN_BUG_ON(true);
    }
#undef EXPAND
}

/* Block `at` of the 256 columns at p, whose entries are at `expanded`. */
LN_INLINE void grid_unpack_block(ln_grid_shape shape, const uint8_t *p, const uint8_t *expanded,
                                 size_t at, vi w[STEPS], vi scales[2]) {
    const uint8_t *entries = expanded + at * GRID_BLOCK_BYTES;
    if (shape.wide == 8)
        for (size_t step = 0; step < STEPS; step += 2)
            vi_load_pairs(entries + step * STEP_BYTES, &w[step], &w[step + 1]);
    else
        for (size_t step = 0; step < STEPS; step++)
            w[step] = vi_load(entries + step * STEP_BYTES);
    if (shape.has_signs) {
        const uint8_t *block = p + ln_grid_blocks_at(shape) + at * ln_grid_block_bytes(shape);
        vi signs = vi_load(block + ln_grid_signs_at(shape));
#pragma GCC unroll 8
        for (int step = 0; step < STEPS; step++)
            w[step] = vi_mirror(w[step], signs, step);
    }
    vi both = vi_from_u8(p + GRID_SCALES_AT + at * shape.n_parts / 2 * LANES);
    vi low = vi_and(both, vi_set(0xf)), high = vi_shr(both, 4);
    scales[0] = shape.n_parts == 1 && at % 2 != 0 ? high : low;
    scales[1] = high;
    for (size_t part = 0; part < shape.n_parts; part++)
        scales[part] = vi_add(vi_shl(scales[part], 1), vi_set(1));
}

#endif
