/* Packed weights whose values are looked up in codebooks (grids): IQ1, IQ2 and IQ3.
 *
 * A panel (backend/cpu/pack.h) has per 256 columns: 16 f16 d; [8 n_parts / 2][16 rows] bytes with
 * two scales each, the first in the low nibble; then 8 blocks of 32 columns: the low bytes of the
 * indices [32 / wide][16 rows]; their upper bits, so many to each row that they are a byte or two,
 * or of IQ2_XS a nibble: rows 0 to 7 in the low ones, 8 to 15 in the high ones; and a vector of
 * signs, bit i of a byte for step i. Of IQ1 the uppermost bit of an index is set when delta is
 * subtracted, and there are no signs.
 *
 * w = d * unit * (2 scale + 1) * value. A grid's entry has `wide` bytes, values plus GRID_OFFSET;
 * values of IQ1 are 8 times those of the type, plus 1 for delta. */
#ifndef LN_BACKEND_CPU_GRID_H
#define LN_BACKEND_CPU_GRID_H

#include "backend/cpu/pack.h"

enum { GRID_OFFSET = 64, GRID_SUPER_BLOCKS = 8, IQ1_ENTRIES = 2048 };

extern const uint64_t ln_grid_iq2_xxs[256], ln_grid_iq2_xs[512], ln_grid_iq2_s[1024];
extern const uint64_t ln_grid_iq1[IQ1_ENTRIES];
extern const uint32_t ln_grid_iq3_xxs[256], ln_grid_iq3_s[512];

typedef struct ln_grid_shape {
    size_t wide;      /* values of an entry: 8 or 4 */
    size_t high_bits; /* of an index, above its low byte */
    size_t n_parts;   /* of 32 columns, each with its scale */
    bool has_signs;
    float unit;
} ln_grid_shape;

static inline bool ln_is_grid(ln_pack pack) {
    return pack >= LN_PACK_IQ1_S && pack <= LN_PACK_IQ3_S;
}

static inline ln_grid_shape ln_grid_shape_of(ln_pack pack) {
    switch (pack) {
    case LN_PACK_IQ1_S: return (ln_grid_shape){8, 4, 1, false, 0.125f};
    case LN_PACK_IQ1_M: return (ln_grid_shape){8, 4, 2, false, 0.125f};
    case LN_PACK_IQ2_XXS: return (ln_grid_shape){8, 0, 1, true, 0.125f};
    case LN_PACK_IQ2_XS: return (ln_grid_shape){8, 1, 2, true, 0.125f};
    case LN_PACK_IQ2_S: return (ln_grid_shape){8, 2, 2, true, 0.125f};
    case LN_PACK_IQ3_XXS: return (ln_grid_shape){4, 0, 1, true, 0.25f};
    default: return (ln_grid_shape){4, 1, 1, true, 1.0f}; /* IQ3_S */
    }
}

/* Where things lie in 256 columns of a panel, and in a block of 32. */
enum { GRID_SCALES_AT = 2 * LN_PANEL_ROWS };
static inline size_t ln_grid_blocks_at(ln_grid_shape shape) {
    return GRID_SCALES_AT + GRID_SUPER_BLOCKS * shape.n_parts / 2 * LN_PANEL_ROWS;
}
static inline size_t ln_grid_high_at(ln_grid_shape shape) {
    return LN_PACK_COLS / shape.wide * LN_PANEL_ROWS;
}
static inline size_t ln_grid_signs_at(ln_grid_shape shape) {
    return ln_grid_high_at(shape) + ln_grid_high_at(shape) * shape.high_bits / 8;
}
static inline size_t ln_grid_block_bytes(ln_grid_shape shape) {
    return ln_grid_signs_at(shape) + (shape.has_signs ? LN_PACK_COLS / 8 * LN_PANEL_ROWS : 0);
}
static inline size_t ln_grid_super_bytes(ln_grid_shape shape) {
    return ln_grid_blocks_at(shape) + GRID_SUPER_BLOCKS * ln_grid_block_bytes(shape);
}

/* Index number k of row `lane` of a block. */
static inline uint32_t ln_grid_index(ln_grid_shape shape, const uint8_t *block, size_t lane,
                                     size_t k) {
    uint32_t low = block[k * LN_PANEL_ROWS + lane], high;
    const uint8_t *bits = block + ln_grid_high_at(shape);
    switch (LN_PACK_COLS / shape.wide * shape.high_bits) {
    case 0: return low;
    case 4: high = (uint32_t)bits[lane % 8] >> lane / 8 * 4; break;
    case 8: high = bits[lane]; break;
    default: high = bits[2 * lane] | (uint32_t)bits[2 * lane + 1] << 8; break;
    }
    return low | (high >> k * shape.high_bits & ((1u << shape.high_bits) - 1)) << 8;
}

/* The entry of an index of 8 values. */
static inline uint64_t ln_grid_entry(ln_pack pack, uint32_t index) {
    switch (pack) {
    case LN_PACK_IQ2_XXS: return ln_grid_iq2_xxs[index];
    case LN_PACK_IQ2_XS: return ln_grid_iq2_xs[index];
    case LN_PACK_IQ2_S: return ln_grid_iq2_s[index];
    case LN_PACK_IQ3_XXS: return ln_grid_iq3_xxs[index];
    case LN_PACK_IQ3_S: return ln_grid_iq3_s[index];
    default: /* minus delta instead of plus delta: 2 less */
        return ln_grid_iq1[index % IQ1_ENTRIES] - index / IQ1_ENTRIES * 0x0202020202020202u;
    }
}

/* Packs 16 rows, and reads column i of 256 columns, for pack.h and pack_read.h. */
void ln_grid_pack_panel(ln_dtype dtype, const uint8_t *const rows[LN_PANEL_ROWS], size_t n_cols,
                        uint8_t *panel);
float ln_grid_read(ln_pack pack, const uint8_t *p, size_t lane, size_t i);

#endif
